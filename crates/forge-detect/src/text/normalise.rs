//! What did the tool print, before it was pasted? Takes away colours, quoting and log prefixes.

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

/// Text as the tool printed it: no escape sequences, carriage returns, quote marks or log prefixes.
pub fn normalise(text: &str) -> String {
    let text = strip_escapes(text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    for shape in [quote_prefix, log_prefix, service_prefix] {
        if let Some(stripped) = strip_common(&lines, shape) {
            return stripped;
        }
    }
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

/// Takes a prefix of this shape off every line, if four lines in five carry one.
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
        // Fraction and zone, up to the next blank.
        end + line.get(end..).map_or(0, |rest| rest.find(' ').unwrap_or(rest.len()))
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
    fn plain_text_stays() {
        check("a\r\n  b\n", "a\n  b\n");
        check("[opencl:gpu:0] x\n[opencl:gpu:1] y", "[opencl:gpu:0] x\n[opencl:gpu:1] y\n");
        check("00:02.0 VGA\n01:00.0 VGA", "00:02.0 VGA\n01:00.0 VGA\n");
        check("| a | b |\n| c | d |", "| a | b |\n| c | d |\n");
        check("GPU 0: A | B\nGPU 1: C | D", "GPU 0: A | B\nGPU 1: C | D\n");
    }

    #[test]
    fn prefixes_go() {
        check("> a\n>\n> b", "a\n\nb\n");
        check(
            "[Mon, 02 Jan 2017 10:00:00 GMT] [root] Graphics:\n[Mon, 02 Jan 2017 10:00:01 GMT] [root]   X:\n",
            "Graphics:\n  X:\n",
        );
        check("2024-05-01T10:00:00.123Z one\n2024-05-01T10:00:00.124Z   two", "one\n  two\n");
        check("gpu-test-1  | | a |\ngpu-test-1  | | b |", "| a |\n| b |\n");
    }

    #[test]
    fn colours_and_encodings_go() {
        check("\u{1b}[1;32mok\u{1b}[0m\0", "ok\n");
        assert_eq!(decode(&[0xff, 0xfe, b'h', 0, b'i', 0]), "hi");
        assert_eq!(decode(b"\xef\xbb\xbfhi"), "hi");
        assert_eq!(decode(&[0xff, 0xfe, b'h']), "");
    }
}
