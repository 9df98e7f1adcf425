//! Rust source as code only: comments and the insides of literals blanked, so that rules can search plain text.
//!
//! Not a parser: it knows literals, comments, attributes and braces, and nothing else. A macro that builds an
//! attribute from pieces goes unseen; clippy sees those.

use std::collections::BTreeSet;

/// The file with comments and the insides of strings and characters as spaces; lines and columns stay.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let Some((end, keep)) = literal_or_comment(&chars, at) else {
            out.extend(chars.get(at));
            at += 1;
            continue;
        };
        let piece = chars.get(at..end).unwrap_or_default();
        for (index, c) in piece.iter().enumerate() {
            // The delimiters of a literal stay, so that `reason = ""` is still seen to have a value.
            let edge = keep && (index == 0 || index + 1 == piece.len());
            out.push(if edge || *c == '\n' { *c } else { ' ' });
        }
        at = end.max(at + 1);
    }
    out
}

/// Where the literal or comment that starts here ends, and whether its delimiters are code.
fn literal_or_comment(chars: &[char], at: usize) -> Option<(usize, bool)> {
    let get = |index: usize| chars.get(index).copied().unwrap_or('\0');
    match (get(at), get(at + 1)) {
        ('/', '/') => Some((find(chars, at, |rest| rest.first() == Some(&'\n')), false)),
        ('/', '*') => Some((block_comment(chars, at), false)),
        ('"', _) => Some((string(chars, at), true)),
        ('r', '"' | '#') if starts_a_literal(chars, at) => raw_string(chars, at).map(|end| (end, true)),
        // 'x' and '\…' are characters, 'name is a lifetime.
        ('\'', '\\') => {
            Some(((find(chars, at + 3, |rest| rest.first() == Some(&'\'')) + 1).min(chars.len()), true))
        }
        ('\'', _) if get(at + 2) == '\'' => Some((at + 3, true)),
        _ => None,
    }
}

/// The first index from `start` whose rest satisfies `stop`, or the end.
fn find(chars: &[char], start: usize, stop: impl Fn(&[char]) -> bool) -> usize {
    (start..chars.len()).find(|index| chars.get(*index..).is_some_and(&stop)).unwrap_or(chars.len())
}

fn block_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < chars.len() {
        match chars.get(at..at + 2) {
            Some(['/', '*']) => (depth, at) = (depth + 1, at + 2),
            Some(['*', '/']) => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

fn string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `r` begins a literal when it is no part of a name; `br` and `cr` are literals too.
fn starts_a_literal(chars: &[char], at: usize) -> bool {
    let before =
        |back: usize| at.checked_sub(back).and_then(|index| chars.get(index)).copied().unwrap_or(' ');
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    !in_name(before(1)) || (matches!(before(1), 'b' | 'c') && !in_name(before(2)))
}

fn raw_string(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars.iter().skip(start + 1).take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    // r#name is an identifier.
    (chars.get(open) == Some(&'"')).then_some(())?;
    let closes = |rest: &[char]| {
        rest.first() == Some(&'"') && rest.get(1..=hashes).is_some_and(|tail| tail.iter().all(|c| *c == '#'))
    };
    Some((find(chars, open + 1, closes) + 1 + hashes).min(chars.len()))
}

/// An attribute: `#[…]` or `#![…]`.
pub(super) struct Attribute<'a> {
    /// The line it begins at.
    pub(super) line: usize,
    /// What stands between the brackets.
    pub(super) text: &'a str,
    /// Does it speak of what encloses it?
    pub(super) inner: bool,
    /// Byte offset of its `#`.
    start: usize,
    /// Byte offset after its `]`.
    pub(super) end: usize,
}

/// The attributes in blanked code.
pub(super) fn attributes(code: &str) -> Vec<Attribute<'_>> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices('#') {
        let rest = code.get(start + 1..).unwrap_or_default();
        let inner = rest.starts_with('!');
        let Some(body) = rest.strip_prefix('!').unwrap_or(rest).strip_prefix('[') else { continue };
        let Some(length) = matching(body, '[', ']') else { continue };
        let end = start + usize::from(inner) + length + 3;
        let line = code.get(..start).unwrap_or_default().matches('\n').count() + 1;
        found.push(Attribute { line, text: body.get(..length).unwrap_or_default(), inner, start, end });
    }
    found
}

/// Offset of the bracket that closes one already opened before `text`.
fn matching(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Numbers of the lines that only exist under `cfg(test)`, or are test functions.
pub(super) fn test_lines(code: &str) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    for attribute in attributes(code).iter().filter(|attribute| is_test_only(attribute.text)) {
        let end = if attribute.inner { code.len() } else { item_end(code, attribute.end) };
        let span = code.get(attribute.start..end).unwrap_or_default();
        lines.extend(attribute.line..=attribute.line + span.matches('\n').count());
    }
    lines
}

fn is_test_only(attribute: &str) -> bool {
    let attribute = attribute.trim();
    let cfg = attribute.strip_prefix("cfg").map(str::trim_start).filter(|rest| rest.starts_with('('));
    attribute == "test"
        || cfg.is_some_and(|rest| has_word(rest, "test") && !rest.contains("not(") && !rest.contains("any("))
}

/// Where the item after an attribute ends: its closing brace, or its semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let rest = code.get(start..).unwrap_or_default();
    let Some(first) = rest.find(['{', ';']) else { return code.len() };
    let body = rest.get(first..).unwrap_or_default();
    match body.strip_prefix('{') {
        Some(body) => matching(body, '{', '}').map_or(code.len(), |length| start + first + length + 2),
        None => start + first + 1,
    }
}

/// Does `word` stand in `text` as a whole name?
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|t| t.chars().next());
        // A word that ends in punctuation (`println!`) ends there.
        let open_end = word.chars().next_back().is_some_and(in_name);
        let (joined_before, joined_after) = (before.is_some_and(in_name), after.is_some_and(in_name));
        !(joined_before || open_end && joined_after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        let check = |text: &str, want: &str| assert_eq!(code_only(text), want, "{text}");
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"x("a\"b", 'c', '\'', '"')"#, r#"x("    ", ' ', '  ', ' ')"#);
        check(r##"r#"a"b"# y"##, "r      # y");
        check("r\"\\\" z", "r  \" z");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("let r#type = bar\"x\";", "let r#type = bar\" \";");
        check("\"open", "\"   n");
        check("\"a\nb\"", "\" \n \"");
        check("'\\u{1F600}' x", "'         ' x");
    }

    #[test]
    fn nothing_panics_on_cut_input() {
        let text = "fn f() { /* x */ let s = r##\"a\"##; let c = '\\''; } #[cfg(test)] mod t { // é\n }";
        for cut in 0..text.len() {
            let Some(piece) = text.get(..cut) else { continue };
            let code = code_only(piece);
            assert_eq!(code.chars().count(), piece.chars().count(), "{piece}");
            test_lines(&code);
        }
    }

    #[test]
    fn test_code_is_found_by_its_attribute() {
        let lines = |text: &str| test_lines(&code_only(text)).into_iter().collect::<Vec<_>>();
        assert_eq!(lines("fn a() {}\n#[cfg(test)]\nmod t {\n  fn b() { {} }\n}\nfn c() {}"), [2, 3, 4, 5]);
        assert_eq!(lines("#[cfg(test)]\nmod t;\nfn c() {}"), [1, 2]);
        assert_eq!(lines("#[cfg(all(test, unix))]\n#[allow(x)]\nmod t {}\nfn c() {}"), [1, 2, 3]);
        assert_eq!(lines("x\n#[test]\nfn c() {\n}"), [2, 3, 4]);
        assert_eq!(lines("#![cfg(test)]\nx\ny"), [1, 2, 3]);
        assert!(
            lines("#[cfg(not(test))]\nfn a() {}\n#[cfg(any(test, unix))]\nfn b() {}\n// #[cfg(test)]\n")
                .is_empty()
        );
    }

    #[test]
    fn attributes_span_lines() {
        let code = code_only("#[allow(\n  dead_code,\n  reason = \"x]\"\n)]\nfn f() {}\n#![expect(y)]");
        let found = attributes(&code);
        assert_eq!(found.len(), 2);
        assert!(found[0].line == 1 && found[0].text.contains("reason") && !found[0].inner);
        assert!(found[1].line == 6 && found[1].text == "expect(y)" && found[1].inner);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("print!(x)", "print!") && !has_word("eprint!(x)", "print!"));
        assert!(has_word("use wgpu;", "wgpu") && !has_word("wgpu_core", "wgpu"));
    }
}
