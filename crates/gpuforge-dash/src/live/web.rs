//! Web server (axum): read-only live page with server-sent events (SSE) and `/metrics`, on loopback, protected by a token.
//!
//! Every request must have our own Host header (against DNS rebinding) and the token: as the first path segment, or, for
//! `/metrics`, as `Authorization: Bearer` or `?token=`. There is no inline script or style, no CORS header, and no route
//! that accepts input.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::get,
};
use tokio::sync::{oneshot, watch};
use tokio_stream::{StreamExt as _, wrappers::WatchStream};

use super::{LiveError, follower::Follower, machine_info::MachineInfo, prometheus, view::LiveView};

/// Token length in bytes.
const TOKEN: usize = 24;
/// Poll interval of the follower; snapshots come at most twice a second.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Static files: path, content type, contents.
const FILES: [(&str, &str, &str); 5] = [
    ("", "text/html; charset=utf-8", include_str!("page/page.html")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("base.css", "text/css; charset=utf-8", crate::report::html_page::BASE_CSS),
    ("page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

/// Machine information, filled in while the page is served.
pub type SharedMachine = Arc<Mutex<MachineInfo>>;

/// Running web server; stops when dropped.
pub struct LiveServer {
    url: String,
    stop: Arc<AtomicBool>,
    down: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Clone)]
struct Shared {
    token: Arc<str>,
    port: u16,
    view: watch::Receiver<Arc<LiveView>>,
    machine: SharedMachine,
}

impl LiveServer {
    /// Serves the follower's view on loopback; port 0 takes any free one.
    pub fn start(port: u16, mut follower: Follower, machine: SharedMachine) -> Result<LiveServer, LiveError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |error| LiveError::Serve { address: address.to_string(), error };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let token: Arc<str> = token()?.into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (tell, view) = watch::channel(Arc::new(LiveView::default()));
        let (down, told_down) = oneshot::channel::<()>();
        let router = router(Shared { token: token.clone(), port, view, machine });
        let serve = move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::spawn(async move { axum::serve(listener, router).await });
                // Not graceful: an open event stream would never end.
                let _ = told_down.await;
            });
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let follow = move || {
            while !stopped.load(Ordering::Relaxed) {
                if follower.poll() {
                    tell.send_replace(Arc::new(follower.view().clone()));
                }
                thread::sleep(POLL_INTERVAL);
            }
        };
        let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.to_owned()).spawn(work).map_err(failed)
        };
        let threads =
            vec![thread("gpuforge-web", Box::new(serve))?, thread("gpuforge-follow", Box::new(follow))?];
        Ok(LiveServer { url: format!("http://127.0.0.1:{port}/{token}/"), stop, down: Some(down), threads })
    }

    /// URL with the token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.down.take().map(|down| down.send(()));
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

fn token() -> Result<String, LiveError> {
    let mut bytes = [0u8; TOKEN];
    getrandom::fill(&mut bytes).map_err(|error| LiveError::Token(error.to_string()))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

fn router(shared: Shared) -> Router {
    let mut router = Router::new();
    for (path, kind, contents) in FILES {
        let answer = move || async move { ([(header::CONTENT_TYPE, kind)], contents) };
        router = router.route(&format!("/{{token}}/{path}"), get(answer));
    }
    router
        .route("/{token}/events", get(events))
        .route("/{token}/machine", get(machine))
        .route("/{token}/metrics", get(metrics))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(shared.clone(), authorize))
        .with_state(shared)
}

/// Middleware: checks Host and token, sets security headers.
async fn authorize(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let rejected = reject_reason(&shared.token, shared.port, &request);
    let mut response = match rejected {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is rejected; pure.
fn reject_reason<B>(token: &str, port: u16, request: &axum::http::Request<B>) -> Option<&'static str> {
    let text = |name: HeaderName| request.headers().get(name).and_then(|v| v.to_str().ok());
    let ours = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
    if !text(header::HOST).is_some_and(|host| ours.iter().any(|our| our.eq_ignore_ascii_case(host))) {
        return Some("this is not the host's name\n");
    }
    let path = request.uri().path();
    let in_path = path.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or("");
    let given = match path {
        "/metrics" => {
            let query = request.uri().query().unwrap_or("");
            let in_query = query.split('&').find_map(|pair| pair.strip_prefix("token="));
            text(header::AUTHORIZATION).and_then(|v| v.strip_prefix("Bearer ")).or(in_query).unwrap_or("")
        }
        _ => in_path,
    };
    (!constant_time_eq(given, token)).then_some("the token is wrong\n")
}

/// Constant-time comparison.
fn constant_time_eq(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differ == 0
}

/// SSE stream of views; a slow reader skips to the latest.
async fn events(
    State(shared): State<Shared>,
) -> Sse<impl tokio_stream::Stream<Item = Result<Event, Infallible>>> {
    let event = |view: Arc<LiveView>| {
        let text = serde_json::to_string(view.as_ref()).unwrap_or_default();
        Ok(Event::default().data(text))
    };
    Sse::new(WatchStream::new(shared.view).map(event)).keep_alive(KeepAlive::default())
}

async fn machine(State(shared): State<Shared>) -> Response {
    let known = shared.machine.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = serde_json::to_string(&known).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let text = prometheus::metrics(&shared.view.borrow());
    ([(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_host_or_token_is_rejected() {
        let ask = |uri: &str, host: Option<&str>, bearer: Option<&str>| {
            let mut request = axum::http::Request::builder().uri(uri);
            request = host.into_iter().fold(request, |r, h| r.header("Host", h));
            request = bearer.into_iter().fold(request, |r, b| r.header("Authorization", b));
            reject_reason("secret", 8080, &request.body(()).unwrap()).is_none()
        };
        let host = Some("127.0.0.1:8080");
        assert!(ask("/secret/", host, None));
        assert!(ask("/secret/events", Some("LOCALHOST:8080"), None));
        assert!(ask("/metrics?token=secret", host, None));
        assert!(ask("/metrics", host, Some("Bearer secret")));
        for host in [None, Some("evil.example:8080"), Some("127.0.0.1"), Some("127.0.0.1:80"), Some("")] {
            assert!(!ask("/secret/", host, None), "{host:?}");
        }
        for uri in
            ["/", "/secre/", "/secrett/", "//secret/", "/metrics", "/metrics?token=", "/x?token=secret"]
        {
            assert!(!ask(uri, host, None), "{uri}");
        }
        assert!(!ask("/metrics?token=secret", host, Some("Bearer wrong")));
    }

    #[test]
    fn tokens_are_random_and_long() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert!(a != b && a.len() == 2 * TOKEN);
    }

    #[test]
    fn page_has_no_inline_code_and_no_markup_from_names() {
        let [html, .., script] = FILES.map(|(_, _, text)| text);
        assert!(!html.contains("<style") && !html.contains("style="));
        assert!(html.split_whitespace().all(|word| !(word.starts_with("on") && word.contains('='))));
        assert!(!script.contains("innerHTML") && !script.contains("insertAdjacentHTML"));
        assert!(!script.contains("eval(") && !script.contains("document.write"));
        assert!(!html.contains("http") && !script.contains("http:") && !script.contains("https:"));
    }
}
