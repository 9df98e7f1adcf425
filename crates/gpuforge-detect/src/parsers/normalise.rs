//! Normalisation of pasted text: decoding, ANSI escapes, HTML markup, quote marks and log prefixes.

/// Decodes bytes as people save them: UTF-8, or UTF-16 as PowerShell's `>` writes it; never fails.
pub fn decode(bytes: &[u8]) -> String {
    let utf16 = |rest: &[u8], read: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest.as_chunks::<2>().0.iter().map(|pair| read(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Text as the tool printed it: strips escape sequences, carriage returns, markup, quote marks and log prefixes.
pub fn normalise(text: &str) -> String {
    let mut text = strip_html(strip_escapes(text));
    // A quoted log has two prefixes, one inside the other.
    for _ in 0..3 {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let shapes = [quote_prefix, job_prefix, log_prefix, syslog_prefix, service_prefix];
        let stripped = shapes.into_iter().find_map(|shape| strip_common(&lines, shape));
        let Some(stripped) = stripped.or_else(|| strip_host(&lines)) else {
            let mut out = lines.join("\n");
            out.push('\n');
            return out;
        };
        text = stripped;
    }
    text
}

/// Strips HTML: line and text tags, and entities. Other tags are the tool's own (XML).
fn strip_html(text: String) -> String {
    const TAGS: [&str; 14] = [
        "pre",
        "code",
        "span",
        "div",
        "p",
        "br",
        "td",
        "tr",
        "tt",
        "b",
        "font",
        "samp",
        "blockquote",
        "details",
    ];
    const LINE_ENDS: [&str; 5] = ["br", "p", "div", "tr", "pre"];
    const ENTITIES: [(&str, &str); 8] = [
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#124;", "|"),
        ("&amp;", "&"),
    ];
    if !text.contains(['<', '&']) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['<', '&']) {
        let (before, mark) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        if let Some((entity, plain)) = ENTITIES.iter().find(|(entity, _)| mark.starts_with(entity)) {
            out.push_str(plain);
            rest = mark.get(entity.len()..).unwrap_or("");
            continue;
        }
        let inner = mark.get(1..).unwrap_or("");
        let inner = inner.strip_prefix('/').unwrap_or(inner);
        let length = inner.bytes().take(16).take_while(u8::is_ascii_alphanumeric).count();
        let name = inner.get(..length).unwrap_or("");
        let tag = mark.starts_with('<') && TAGS.contains(&name);
        // A tag ends on its line, soon.
        let end = || mark.bytes().take(400).take_while(|b| *b != b'\n').position(|b| b == b'>');
        match tag.then(end).flatten() {
            Some(end) => {
                let line_end = LINE_ENDS.contains(&name);
                out.push_str(if line_end { "\n" } else { "" });
                rest = mark.get(end + 1..).unwrap_or("");
            }
            None => {
                let (one, tail) = mark.split_at_checked(1).unwrap_or((mark, ""));
                out.push_str(one);
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Strips a prefix of this shape from every line, if four lines in five have one.
fn strip_common(lines: &[&str], shape: fn(&str) -> usize) -> Option<String> {
    let filled = lines.iter().filter(|l| !l.trim().is_empty());
    let (mut all, mut shaped) = (0usize, 0usize);
    for line in filled {
        all += 1;
        shaped += usize::from(shape(line) > 0);
    }
    if shaped < 2 || shaped * 5 < all * 4 {
        return None;
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(line.get(shape(line)..).unwrap_or(line));
        out.push('\n');
    }
    Some(out)
}

/// Strips `host: ` from every line, as pdsh and clush print it, if all have the same one.
fn strip_host(lines: &[&str]) -> Option<String> {
    let host_of = |line: &str| {
        let (host, rest) = line.split_once(": ").or_else(|| line.strip_suffix(':').map(|h| (h, "")))?;
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        (plain && !host.is_empty()).then(|| (host.to_owned(), rest.to_owned()))
    };
    let filled = lines.iter().filter(|l| !l.trim().is_empty());
    let (host, _) = host_of(lines.iter().find(|l| !l.trim().is_empty())?)?;
    let mut count = 0;
    for line in filled {
        host_of(line).filter(|(own, _)| *own == host)?;
        count += 1;
    }
    (count >= 4)
        .then(|| lines.iter().map(|l| host_of(l).map_or(String::new(), |(_, rest)| rest) + "\n").collect())
}

/// Length of `job<TAB>step<TAB>` as `gh run view --log` prints it before a timestamp.
fn job_prefix(line: &str) -> usize {
    let Some((second, _)) = line.match_indices('\t').nth(1) else { return 0 };
    let dated =
        line.get(second + 1..).is_some_and(|rest| rest.starts_with("20") && time_of_day_end(rest).is_some());
    if dated { second + 1 } else { 0 }
}

/// Length of `May 24 19:01:22 host process[123]: ` as syslog and journalctl print it.
fn syslog_prefix(line: &str) -> usize {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = line.get(..3).is_some_and(|m| MONTHS.contains(&m));
    let time = line.get(7..15).is_some_and(|t| time_of_day_end(t) == Some(8));
    let tail = line.get(16..).filter(|_| month && time);
    tail.and_then(|tail| tail.find("]:")).map_or(0, |at| (16 + at + 3).min(line.len()))
}

/// Length of `> ` as mail and Markdown quote.
fn quote_prefix(line: &str) -> usize {
    match line.strip_prefix('>') {
        Some(rest) if rest.starts_with(' ') => 2,
        Some("") => 1,
        _ => 0,
    }
}

/// Length of a prefix that begins with a time of day: `[Tue, 15 Dec 2015 14:08:41 GMT] [user] `,
/// `2024-05-01T10:00:00.123Z stdout F `.
fn log_prefix(line: &str) -> usize {
    let bytes = line.as_bytes();
    let Some(end) = time_of_day_end(line) else { return 0 };
    let mut at = if line.starts_with('[') {
        match line.get(end..).and_then(|rest| rest.find(']')) {
            Some(close) => end + close + 1,
            None => return 0,
        }
    } else {
        // Fraction and zone, up to the next space; a comma there ends the first cell of a CSV row.
        match line.get(end..).map(|rest| rest.split(' ').next().unwrap_or(rest)) {
            Some(zone) if !zone.ends_with(',') => end + zone.len(),
            _ => return 0,
        }
    };
    // More bracketed words of the logger.
    while let Some(rest) = line.get(at..) {
        let inner = rest.trim_start_matches(' ');
        let gap = rest.len() - inner.len();
        match inner.strip_prefix('[').and_then(|i| i.find(']').map(|close| (i, close))) {
            Some((inside, close)) if gap <= 1 && inside.get(..close).is_some_and(is_logger_word) => {
                at += gap + close + 2
            }
            _ => break,
        }
    }
    at + usize::from(bytes.get(at) == Some(&b' '))
}

/// sycl-ls begins its lines with `[opencl:gpu:0]`; a logger's word has no colon.
fn is_logger_word(word: &str) -> bool {
    !word.is_empty() && word.len() <= 40 && !word.contains(':')
}

/// Where `hh:mm:ss` ends, if one begins within the first 40 bytes and only date-like text stands before it.
fn time_of_day_end(line: &str) -> Option<usize> {
    let starts_like_a_log = line.starts_with('[') || line.as_bytes().first().is_some_and(u8::is_ascii_digit);
    if !starts_like_a_log {
        return None;
    }
    let window = line.as_bytes();
    let at = (0..window.len().min(40)).find(|at| {
        window.get(*at..at + 8).is_some_and(|w| {
            w.iter().enumerate().all(|(i, b)| if i == 2 || i == 5 { *b == b':' } else { b.is_ascii_digit() })
        })
    })?;
    let before = line.get(..at)?;
    let date_like = before.chars().all(|c| c.is_ascii_alphanumeric() || " ,-/.[+T".contains(c));
    date_like.then_some(at + 8)
}

/// Length of `name  | ` as docker compose prints it.
fn service_prefix(line: &str) -> usize {
    let Some(bar) = line.find(" | ").or_else(|| line.strip_suffix(" |").map(str::len)) else { return 0 };
    let name = line.get(..bar).unwrap_or("").trim_end();
    let plain =
        name.contains(['-', '_']) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if plain && !name.is_empty() && !name.starts_with('-') { (bar + 3).min(line.len()) } else { 0 }
}

/// Removes ANSI escape sequences and control characters other than newline and tab.
fn strip_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                for c in chars.by_ref() {
                    if ('@'..='~').contains(&c) {
                        break;
                    }
                }
            }
            '\u{a0}' => out.push(' '),
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pasted: &str, want: &str) {
        assert_eq!(normalise(pasted), want);
    }

    #[test]
    fn plain_text_is_unchanged() {
        check("a\r\n  b\n", "a\n  b\n");
        check("[opencl:gpu:0] x\n[opencl:gpu:1] y", "[opencl:gpu:0] x\n[opencl:gpu:1] y\n");
        check("00:02.0 VGA\n01:00.0 VGA", "00:02.0 VGA\n01:00.0 VGA\n");
        check("| a | b |\n| c | d |", "| a | b |\n| c | d |\n");
        check("GPU 0: A | B\nGPU 1: C | D", "GPU 0: A | B\nGPU 1: C | D\n");
    }

    #[test]
    fn log_prefixes_are_stripped() {
        check("> a\n>\n> b", "a\n\nb\n");
        check(
            "[Mon, 02 Jan 2017 10:00:00 GMT] [root] Graphics:\n[Mon, 02 Jan 2017 10:00:01 GMT] [root]   X:\n",
            "Graphics:\n  X:\n",
        );
        check("2024-05-01T10:00:00.123Z one\n2024-05-01T10:00:00.124Z   two", "one\n  two\n");
        check("gpu-test-1  | | a |\ngpu-test-1  | | b |", "| a |\n| b |\n");
        check("node7: | a\nnode7: | b\nnode7:\nnode7: | c", "| a\n| b\n\n| c\n");
        check("t\ts\t2024-05-01T10:00:00.1Z a\nt\ts\t2024-05-01T10:00:00.2Z  b", "a\n b\n");
        check("Feb  3 04:05:06 srv x[7]: a\nFeb  3 04:05:06 srv x[7]: b", "a\nb\n");
        check("> 2024-05-01T10:00:00.1Z a\n> 2024-05-01T10:00:00.2Z b", "a\nb\n");
    }

    #[test]
    fn rows_that_begin_with_a_time_are_unchanged() {
        let rows = "2024/05/01 10:00:00.123, NVIDIA A2\n2024/05/01 10:00:01.123, NVIDIA A2\n";
        check(rows, rows);
        check("a: 1\nb: 2\na: 3\na: 4", "a: 1\nb: 2\na: 3\na: 4\n");
    }

    #[test]
    fn html_is_stripped_and_xml_of_the_tool_is_kept() {
        check("<pre><code>a &lt;b&gt; &amp;amp; c<br/>d</code></pre>", "\na <b> &amp; c\nd\n");
        check("<gpu id=\"1\">x</gpu>\n1 < 2 & 3", "<gpu id=\"1\">x</gpu>\n1 < 2 & 3\n");
        check("<span class='k'>| a |</span>", "| a |\n");
    }

    #[test]
    fn ansi_colours_are_stripped_and_encodings_decoded() {
        check("\u{1b}[1;32mok\u{1b}[0m\0", "ok\n");
        assert_eq!(decode(&[0xff, 0xfe, b'h', 0, b'i', 0]), "hi");
        assert_eq!(decode(b"\xef\xbb\xbfhi"), "hi");
        assert_eq!(decode(&[0xff, 0xfe, b'h']), "");
    }
}
