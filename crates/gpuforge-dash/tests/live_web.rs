//! Web server: token, Host header, methods, security headers, SSE stream, and a stuck client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use gpuforge_dash::live::{
    follower::Follower,
    machine_info::{InfoRow, MachineInfo},
    publisher::Publisher,
    web::LiveServer,
};

/// A directory for the private one that the publisher makes.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

const LONG: Duration = Duration::from_secs(20);

/// Port and token of an address.
fn parts(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://127.0.0.1:").unwrap();
    let (port, token) = rest.split_once('/').unwrap();
    (port.parse().unwrap(), token.trim_end_matches('/').to_owned())
}

fn send(port: u16, method: &str, path: &str, host: &str, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n").unwrap();
    stream
}

/// Status, head and body of an answer that ends.
fn ask(port: u16, method: &str, path: &str, host: &str, more: &str) -> (u16, String, String) {
    let mut text = String::new();
    send(port, method, path, host, more).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
}

fn events(port: u16, token: &str) -> BufReader<TcpStream> {
    BufReader::new(send(port, "GET", &format!("/{token}/events"), &format!("127.0.0.1:{port}"), ""))
}

/// The next event that satisfies `wanted`.
fn event(
    stream: &mut BufReader<TcpStream>,
    wanted: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
        let data = line.strip_prefix("data: ").and_then(|d| serde_json::from_str(d).ok());
        if let Some(view) = data.filter(&wanted) {
            return view;
        }
    }
}

// One test: a process has one publisher, and the page is asked while it lives and after.
#[test]
fn page_requires_the_token_and_survives_the_process() {
    let dir = directory();
    let sockets = dir.path().join("sockets");
    let publisher = Publisher::start(&sockets, "</script><b>web").unwrap();
    let machine =
        MachineInfo { devices: vec![InfoRow::new("<img src=x>", "good", "&")], ..MachineInfo::default() };
    let shared = Arc::new(Mutex::new(machine));
    let follower = Follower::new(&sockets, Some(std::process::id()));
    let server = LiveServer::start(0, follower, shared.clone()).unwrap();
    let (port, token) = parts(server.url());
    let host = format!("127.0.0.1:{port}");
    let page = format!("/{token}/");

    for (path, kind) in [
        (page.clone(), "text/html"),
        (format!("{page}page.js"), "text/javascript"),
        (format!("{page}page.css"), "text/css"),
        (format!("{page}base.css"), "text/css"),
        (format!("{page}machine"), "application/json"),
        (format!("{page}metrics"), "text/plain"),
        (format!("/metrics?token={token}"), "text/plain"),
    ] {
        let (status, head, body) = ask(port, "GET", &path, &host, "");
        assert_eq!(status, 200, "{path}");
        assert!(head.contains(&format!("content-type: {kind}")) && !body.is_empty(), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{path}");
        assert!(!head.contains("unsafe") && !head.contains("access-control"), "{path}");
        assert!(head.contains("nosniff") && head.contains("no-referrer") && head.contains("no-store"));
    }
    let (status, ..) = ask(port, "GET", "/metrics", &host, &format!("Authorization: Bearer {token}\r\n"));
    assert_eq!(status, 200);

    let wrong = "0".repeat(token.len());
    for path in [
        "/".to_owned(),
        format!("/{wrong}/"),
        format!("/{wrong}/events"),
        "/metrics".to_owned(),
        "/x".to_owned(),
    ] {
        let (status, head, body) = ask(port, "GET", &path, &host, "");
        assert_eq!(status, 403, "{path}");
        assert!(head.contains("content-security-policy") && !body.contains(&token));
    }
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", ""] {
        for path in [page.clone(), format!("{page}events"), format!("/metrics?token={token}")] {
            assert_eq!(ask(port, "GET", &path, host, "").0, 403, "{host:?} {path}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let (status, head, _) = ask(port, method, &page, &host, "Content-Length: 0\r\n");
        assert_eq!(status, 405, "{method}");
        assert!(!head.contains("access-control"));
    }
    assert_eq!(ask(port, "GET", &format!("{page}nothing"), &host, "").0, 404);
    let (_, _, body) = ask(port, "GET", &format!("{page}machine"), &host, "");
    assert!(body.contains("<img src=x>"), "data is data; the page writes it as text: {body}");

    // A client that asks for events and never reads them is in nobody's way.
    let stuck: Vec<TcpStream> =
        (0..20).map(|_| send(port, "GET", &format!("{page}events"), &host, "")).collect();
    let mut stream = events(port, &token);
    let first = event(&mut stream, |v| v["state"] == "live");
    assert_eq!(first["snapshot"]["command"], "</script><b>web");
    let seq = first["snapshot"]["seq"].as_u64().unwrap();
    event(&mut stream, |v| v["snapshot"]["seq"].as_u64() > Some(seq + 1));
    let (_, _, metrics) = ask(port, "GET", &format!("{page}metrics"), &host, "");
    assert!(metrics.contains("gpuforge_up 1\n"), "{metrics}");

    drop(publisher);
    let last = event(&mut stream, |v| v["state"] == "ended");
    assert!(last["snapshot"]["seq"].as_u64() > Some(seq));
    assert_eq!(ask(port, "GET", &page, &host, "").0, 200);
    let (_, _, metrics) = ask(port, "GET", &format!("{page}metrics"), &host, "");
    assert!(metrics.contains("gpuforge_up 0\n"), "{metrics}");
    drop(stuck);
    drop(server);
    assert!(TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_err(), "it is gone");
}

#[test]
fn port_in_use_is_an_error_with_a_hint() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let dir = directory();
    let error = LiveServer::start(port, Follower::new(dir.path(), None), Arc::default()).err().unwrap();
    assert!(error.to_string().contains(&port.to_string()) && error.hint().contains("--port 0"), "{error}");
}
