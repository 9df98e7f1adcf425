//! Redaction: masks user names, home directories, hosts, IP and MAC addresses, UUIDs and serial numbers.
//!
//! It errs on the safe side: anything that parses as an IPv4 address is masked.

use gpuforge_detect::probe::filesystem::FileSystem;
use regex::{Captures, Regex};

use super::view::SystemView;

/// Regexes of identifying text and their replacements, applied in this order.
const FORMS: [(&str, &str); 6] = [
    (r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", "<mail>"),
    (r"(?i)\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", "<mac>"),
    (r"(?i)\b(?:GPU-|MIG-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"(?i)\b[0-9a-f]{32,128}\b", "<id>"),
    (r"(?i)\b(serial(?:[ _-]?(?:number|no))?\.?\s*[:=]\s*)[^\s,;]+", "${1}<serial>"),
    (r"((?:/home/|[/\\]Users[/\\]))[^/\\\s:;,'<]+", "${1}<user>"),
];

/// Replacement of the home directory.
const HOME: &str = "<home>";

/// Redacts text.
pub struct Redactor {
    /// Host and user names of this machine, longest first.
    words: Vec<(Regex, &'static str)>,
    forms: Vec<(Regex, &'static str)>,
    address: Option<Regex>,
}

impl Redactor {
    /// A redactor for the user, home directory and host names of a view.
    pub fn of(view: &SystemView) -> Self {
        let facts = view.host_facts();
        let mut words: Vec<(String, &'static str)> = Vec::new();
        let home = view.home().filter(|h| h != "/root");
        words.extend(home.iter().map(|h| (h.replace('/', "\\"), HOME)));
        words.extend(home.map(|h| (h, HOME)));
        let names =
            ["USER", "LOGNAME", "SUDO_USER", "USERNAME"].into_iter().filter_map(|v| view.env_nonempty(v));
        let names = names.map(str::to_owned).chain(facts.user.as_ref().and_then(|u| u.name.clone()));
        // Not identifying.
        words.extend(names.filter(|n| n != "root").map(|n| (n, "<user>")));
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter().filter_map(|f| view.read(f));
        let hosts = files.chain(
            ["HOSTNAME", "COMPUTERNAME"].into_iter().filter_map(|v| view.env_nonempty(v)).map(str::to_owned),
        );
        for host in hosts.map(|h| h.trim().to_owned()).filter(|h| !h.is_empty() && h != "localhost") {
            words.extend(host.split_once('.').map(|(short, _)| (short.to_owned(), "<host>")));
            words.push((host, "<host>"));
        }
        Redactor::new(words)
    }

    /// Masks these words and everything that [`FORMS`] match.
    fn new(mut words: Vec<(String, &'static str)>) -> Self {
        words.retain(|(word, _)| !word.is_empty());
        words.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        words.dedup_by(|a, b| a.0 == b.0);
        // At word boundaries only: a user called `a` must not mask every `a`.
        let whole =
            |word: &str| Regex::new(&format!(r"(?i)(^|[^A-Za-z0-9]){}($|[^A-Za-z0-9])", regex::escape(word)));
        let words = words.iter().filter_map(|(word, mask)| Some((whole(word).ok()?, *mask))).collect();
        // The regexes are constant, and a test compiles them all.
        let forms = FORMS.iter().filter_map(|(form, mask)| Some((Regex::new(form).ok()?, *mask))).collect();
        Redactor { words, forms, address: Regex::new("[0-9A-Fa-f:.]{3,}").ok() }
    }

    /// Redacted text.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The home directory before the generic form; names last, since they may be part of a mail address.
        let (homes, names): (Vec<_>, Vec<_>) = self.words.iter().partition(|(_, mask)| *mask == HOME);
        text = replace_words(text, &homes);
        for (form, mask) in &self.forms {
            text = form.replace_all(&text, *mask).into_owned();
        }
        text = replace_words(text, &names);
        match &self.address {
            Some(form) => form
                .replace_all(&text, |c: &Captures<'_>| address(c.get(0).map_or("", |m| m.as_str())))
                .into_owned(),
            None => text,
        }
    }

    /// A JSON document with every string redacted.
    pub fn value(&self, value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|v| self.value(v)).collect(),
            Value::Object(map) => map.into_iter().map(|(k, v)| (k, self.value(v))).collect(),
            other => other,
        }
    }
}

fn replace_words(mut text: String, words: &[&(Regex, &'static str)]) -> String {
    for (word, mask) in words {
        // Adjacent matches share a boundary character: two passes find all.
        for _ in 0..2 {
            text = word.replace_all(&text, |c: &Captures<'_>| border(c, mask)).into_owned();
        }
    }
    text
}

fn border(captures: &Captures<'_>, mask: &str) -> String {
    let part = |at: usize| captures.get(at).map_or("", |m| m.as_str());
    format!("{}{mask}{}", part(1), part(2))
}

/// Masks IP addresses, except loopback and unspecified ones.
fn address(word: &str) -> String {
    let trimmed = word.trim_end_matches(['.', ':']);
    // A port may follow.
    let (host, _) = trimmed.rsplit_once(':').filter(|(h, _)| !h.contains(':')).unwrap_or((trimmed, ""));
    let mask = |found: &str| word.replacen(found, "<ip>", 1);
    match (trimmed.parse::<std::net::IpAddr>(), host.parse::<std::net::Ipv4Addr>()) {
        (Ok(ip), _) if ip.is_loopback() || ip.is_unspecified() => word.to_owned(),
        (Ok(_), _) => mask(trimmed),
        (_, Ok(ip)) if ip.is_loopback() || ip.is_unspecified() => word.to_owned(),
        (_, Ok(_)) => mask(host),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let words = [
            ("mika", "<user>"),
            ("/data/home/mika", HOME),
            ("workbench.lan", "<host>"),
            ("workbench", "<host>"),
        ];
        let redactor = Redactor::new(words.iter().map(|(w, m)| ((*w).to_owned(), *m)).collect());
        assert_eq!(redactor.forms.len(), FORMS.len());
        assert!(redactor.address.is_some());
        assert_eq!(redactor.text(text), expected);
    }

    #[test]
    fn users_paths_and_hosts_are_masked() {
        check(
            "/data/home/mika/.cache and mika, Mika; mikado stays",
            "<home>/.cache and <user>, <user>; mikado stays",
        );
        check("mika mika/mika", "<user> <user>/<user>");
        check("/home/somebody/x:/Users/else", "/home/<user>/x:/Users/<user>");
        check("workbench.lan workbench!", "<host> <host>!");
        check("mail a.b@example.org now", "mail <mail> now");
    }

    #[test]
    fn addresses_uuids_and_serials_are_masked() {
        check("10.1.2.3:443, 192.168.0.7. fe80::1 end", "<ip>:443, <ip>. <ip> end");
        check("127.0.0.1 and ::1 and 0.0.0.0", "127.0.0.1 and ::1 and 0.0.0.0");
        check("aa:bb:cc:dd:ee:0f", "<mac>");
        check("GPU-01234567-89ab-cdef-0123-456789abcdef", "<id>");
        check("0123456789abcdef0123456789abcdef", "<id>");
        check("Serial Number: 1324521000123, next", "Serial Number: <serial>, next");
    }

    #[test]
    fn technical_details_are_kept() {
        check(
            "0000:01:00.0 driver 580.95.05 at 12:34:56, CUDA 13.2",
            "0000:01:00.0 driver 580.95.05 at 12:34:56, CUDA 13.2",
        );
        check("10de:2684 gfx1100 /dev/nvidia0", "10de:2684 gfx1100 /dev/nvidia0");
    }
}
