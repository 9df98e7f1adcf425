//! Check `network`: TCP connect to the package indexes or the proxy; no data is sent.

use std::time::Duration;

use gpuforge_detect::probe::filesystem::FileSystem;

use crate::doctor::{Finding, Status, SystemView};

/// Connect deadline: a slower host is too slow to install from.
const LIMIT: Duration = Duration::from_millis(1500);

/// Variables that configure a package index; the first that is set replaces the defaults.
const INDEXES: [&str; 4] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"];
/// Proxy variables.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// `network`
pub(super) fn network(view: &SystemView) -> Finding {
    if view.is_offline() {
        return Finding::skipped("--offline");
    }
    if let Some((host, port)) = PROXIES.iter().find_map(|name| authority(view.env_nonempty(name)?)) {
        return match view.connect(&host, port, LIMIT) {
            Ok(took) => Finding::healthy(format!(
                "the proxy answers in {} ms; what is behind it was not asked",
                took.as_millis()
            )),
            Err(why) => {
                Finding::new(Status::Error, format!("the proxy {host}:{port} cannot be reached: {why}"))
                    .step("check HTTPS_PROXY")
            }
        };
    }
    let hosts = hosts(view);
    if hosts.is_empty() {
        return Finding::skipped("no package index is known");
    }
    let answers: Vec<(String, Result<Duration, String>)> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            hosts.iter().map(|(host, port)| scope.spawn(move || view.connect(host, *port, LIMIT))).collect();
        let gone = || Err("the question was lost".to_owned());
        hosts
            .iter()
            .zip(asked)
            .map(|((host, _), a)| (host.clone(), a.join().unwrap_or_else(|_| gone())))
            .collect()
    });
    let reached = answers.iter().filter(|(_, a)| a.is_ok()).count();
    let status = match reached {
        n if n == answers.len() => Status::Healthy,
        0 => Status::Error,
        _ => Status::Warning,
    };
    let said = answers.iter().map(|(host, answer)| match answer {
        Ok(took) => format!("{host}: {} ms", took.as_millis()),
        Err(why) => format!("{host}: {why}"),
    });
    let found = Finding { evidence: said.collect(), ..Finding::new(status, "") };
    match status {
        Status::Healthy => found,
        _ => found.step(
            "check the network, HTTPS_PROXY and the firewall; packages that are installed work without it",
        ),
    }
}

/// Hosts to test: the user's configured index, else those of the view; deduplicated.
fn hosts(view: &SystemView) -> Vec<(String, u16)> {
    let own = INDEXES.iter().filter_map(|name| view.env_nonempty(name)).map(str::to_owned);
    let files = ["/etc/pip.conf".to_owned()]
        .into_iter()
        .chain(view.home().map(|h| format!("{h}/.config/pip/pip.conf")));
    let written = files.filter_map(|f| {
        let text = view.read(&f)?;
        let line =
            text.lines().find_map(|l| l.trim().strip_prefix("index-url")?.trim_start().strip_prefix('='))?;
        Some(line.trim().to_owned())
    });
    let mut urls: Vec<String> = own.chain(written).collect();
    if urls.is_empty() {
        urls = view.indexes();
    }
    let mut hosts: Vec<(String, u16)> = Vec::new();
    for host in urls.iter().flat_map(|u| u.split_whitespace()).filter_map(authority) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// Host and port of a URL, without user and password.
fn authority(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    // uv allows named indexes: `name=https://…`.
    let scheme = scheme.rsplit('=').next()?;
    let place = rest.split(['/', '?', '#']).next()?;
    let place = place.rsplit('@').next()?;
    let usual = if scheme == "http" { 80 } else { 443 };
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.contains(']') => (host, port.parse().ok()?),
        _ => (place, usual),
    };
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty() && scheme != "file").then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        let of = |url| authority(url).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(of("https://index.example/simple").as_deref(), Some("index.example 443"));
        assert_eq!(of("http://me:secret@10.0.0.1:3128/").as_deref(), Some("10.0.0.1 3128"));
        assert_eq!(of("own=https://index.example:8443/a@b").as_deref(), Some("index.example 8443"));
        assert_eq!(of("http://[::1]:80/x").as_deref(), Some("::1 80"));
        assert_eq!(of("index.example").as_deref(), Some("index.example 443"));
        assert_eq!([of("file:///srv/index"), of("https://"), of("")], [None, None, None]);
    }
}
