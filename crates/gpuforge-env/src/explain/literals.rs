//! Required-literal extraction from regex patterns, for the literal prefilter.
//!
//! A pattern is reduced to literals without which it cannot match, and split at them into the sub-patterns before and after.
//! Unlike `regex-syntax`'s literal extractor, which yields prefixes or suffixes of a match, this picks the literal that the
//! fewest patterns share, wherever it stands, together with the two halves of the pattern around it.

use std::cmp::Reverse;

use super::prefilter::{GRAM_LEN, GramCounts};

/// A required literal, and the sub-patterns before and after it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LiteralSplit {
    pub(super) word: Vec<u8>,
    /// Bytes of the literal before the second sub-pattern: all, unless its last byte may repeat (`d+`).
    pub(super) skip: usize,
    /// Sub-patterns before and after; `None` where they would mean something else than within the whole pattern.
    pub(super) parts: Option<(String, String)>,
}

/// Literals of which every match contains at least one; `None` where the pattern has no such set.
pub(super) fn required_literals(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let splits = literal_splits(pattern, &GramCounts::default())?;
    Some(splits.into_iter().map(|split| split.word).collect())
}

/// Required literals that few patterns share, with the sub-patterns around them.
pub(super) fn literal_splits(pattern: &str, counts: &GramCounts) -> Option<Vec<LiteralSplit>> {
    let mut splits = split_alternatives(pattern.as_bytes(), &GroupContext::default(), counts)?;
    // Inline flags and `^`/`$` apply to the whole pattern and would be lost in the halves.
    let flags =
        pattern.split("(?").skip(1).all(|rest| [":", "i:", "-i:"].iter().any(|f| rest.starts_with(f)));
    if !flags || pattern.replace("[^", "[").contains(['^', '$']) {
        splits.iter_mut().for_each(|split| split.parts = None);
    }
    Some(splits)
}

/// The pattern around a group.
#[derive(Default)]
struct GroupContext {
    before: Vec<u8>,
    after: Vec<u8>,
    /// The group may repeat.
    repeats: bool,
}

fn split_alternatives(
    pattern: &[u8],
    outside: &GroupContext,
    counts: &GramCounts,
) -> Option<Vec<LiteralSplit>> {
    let mut splits = Vec::new();
    for alternative in alternatives(pattern) {
        splits.extend(split_alternative(alternative, outside, counts)?);
    }
    Some(splits)
}

/// The bytes of a pattern that is a plain literal (case and line wraps aside); `None` for a real regex.
pub(super) fn as_literal(pattern: &str) -> Option<Vec<u8>> {
    let mut bytes = pattern.bytes();
    let mut literal = Vec::with_capacity(pattern.len());
    while let Some(byte) = bytes.next() {
        literal.push(match byte {
            b'\\' => bytes.next().filter(|b| !b.is_ascii_alphanumeric())?,
            b'(' | b')' | b'[' | b'{' | b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'|' => return None,
            other => other,
        });
    }
    Some(literal)
}

/// Can no part of the pattern match a newline? A space can: messages are wrapped.
pub(super) fn is_single_line(pattern: &str) -> bool {
    [" ", r"\W", r"\s", r"\D", r"\n", "[^", "(?s"].iter().all(|part| !pattern.contains(part))
}

/// Does the pattern distinguish digits? Repetition counts in braces do not.
pub(super) fn mentions_digits(pattern: &str) -> bool {
    let outside = pattern.split('{').enumerate().flat_map(|(i, part)| match part.split_once('}') {
        Some((_, after)) if i > 0 => after.chars(),
        _ => part.chars(),
    });
    outside.into_iter().any(|c| c.is_ascii_digit())
}

/// Top-level alternatives (`a|b`).
fn alternatives(pattern: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < pattern.len() {
        if pattern.get(at) == Some(&b'|') {
            parts.push(pattern.get(start..at).unwrap_or_default());
            start = at + 1;
        }
        at += token_len(pattern.get(at..).unwrap_or_default());
    }
    parts.push(pattern.get(start..).unwrap_or_default());
    parts
}

/// Length of the token at the start: an escape, class, group or byte.
fn token_len(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'\\') => 2,
        Some(b'[') => {
            // A leading `]` is a literal.
            let skip = if rest.get(1) == Some(&b'^') { 2 } else { 1 };
            let mut at = skip;
            while let Some(byte) = rest.get(at) {
                match byte {
                    b'\\' => at += 1,
                    b']' if at > skip => return at + 1,
                    _ => {}
                }
                at += 1;
            }
            rest.len()
        }
        Some(b'(') => {
            let mut at = 1;
            while let Some(byte) = rest.get(at) {
                if *byte == b')' {
                    return at + 1;
                }
                at += token_len(rest.get(at..).unwrap_or_default());
            }
            rest.len()
        }
        _ => 1,
    }
}

/// The rarest, else longest literal outside groups; without any, the literals of a group that must match.
fn split_alternative(
    alternative: &[u8],
    outside: &GroupContext,
    counts: &GramCounts,
) -> Option<Vec<LiteralSplit>> {
    let mut runs = vec![LiteralRun::default()];
    let mut group: Option<Vec<LiteralSplit>> = None;
    let mut at = 0;
    while let Some(byte) = alternative.get(at) {
        let length = token_len(alternative.get(at..).unwrap_or_default());
        let next = alternative.get(at + length);
        let optional = matches!(next, Some(b'?' | b'*' | b'{'));
        let repeats = matches!(next, Some(b'+'));
        let letter = match byte {
            b'\\' => alternative.get(at + 1).copied().filter(|b| !b.is_ascii_alphanumeric()),
            b'(' | b'[' | b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'{' => None,
            other => Some(*other),
        };
        match letter.filter(|_| !optional) {
            Some(letter) => {
                runs.last_mut().into_iter().for_each(|run| run.push(letter, at, length, repeats));
            }
            None => {
                runs.push(LiteralRun::default());
                if *byte == b'(' && !optional && group.is_none() {
                    let mut around = outside.around(alternative, at, at + length);
                    around.repeats |= repeats;
                    group =
                        split_group(alternative.get(at..at + length).unwrap_or_default(), &around, counts);
                }
            }
        }
        at += length;
        if *byte == b'{' {
            at += alternative
                .get(at..)
                .unwrap_or_default()
                .iter()
                .position(|b| *b == b'}')
                .map_or(0, |i| i + 1);
        }
        // A repeated byte ends the literal.
        if repeats {
            runs.push(LiteralRun::default());
        }
    }
    let long = runs.into_iter().filter(|run| run.word.len() >= GRAM_LEN);
    let Some(best) = long.min_by_key(|run| (counts.rarest(&run.word), Reverse(run.word.len()))) else {
        return group;
    };
    let GroupContext { before, after, repeats } = outside.around(alternative, best.at, best.end);
    let parts = String::from_utf8(before).ok().zip(String::from_utf8(after).ok());
    Some(vec![LiteralSplit { word: best.word, skip: best.skip, parts: parts.filter(|_| !repeats) }])
}

/// A run of consecutive literal bytes in an alternative.
#[derive(Default)]
struct LiteralRun {
    /// Where it begins in the alternative.
    at: usize,
    /// Where the rest begins: at the last byte if that one repeats.
    end: usize,
    word: Vec<u8>,
    /// Bytes before `end`.
    skip: usize,
}

impl LiteralRun {
    fn push(&mut self, letter: u8, at: usize, length: usize, repeats: bool) {
        if self.word.is_empty() {
            self.at = at;
        }
        self.word.push(letter);
        self.skip = self.word.len() - usize::from(repeats);
        self.end = if repeats { at } else { at + length };
    }
}

impl GroupContext {
    /// The context of a byte range of an alternative.
    fn around(&self, alternative: &[u8], start: usize, end: usize) -> GroupContext {
        let before = [&self.before, alternative.get(..start).unwrap_or_default()].concat();
        let after = [alternative.get(end..).unwrap_or_default(), &self.after].concat();
        GroupContext { before, after, repeats: self.repeats }
    }
}

/// The literals of a parenthesised group.
fn split_group(group: &[u8], outside: &GroupContext, counts: &GramCounts) -> Option<Vec<LiteralSplit>> {
    let inner = group.get(1..group.len().checked_sub(1)?)?;
    let inner = match inner {
        [b'?', rest @ ..] => rest.iter().position(|b| *b == b':').and_then(|colon| rest.get(colon + 1..))?,
        other => other,
    };
    split_alternatives(inner, outside, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(pattern: &str) -> Option<Vec<String>> {
        Some(
            required_literals(pattern)?
                .into_iter()
                .map(|w| String::from_utf8(w).unwrap_or_default())
                .collect(),
        )
    }

    #[test]
    fn required_literals_are_in_every_match() {
        for (pattern, expected) in [
            ("no kernel image", "no kernel image"),
            (r"found version (\d+)\)", "found version "),
            (r"(cuda|hip)error[a-z]\w+", "error"),
            ("couldn.?t find libdevice", "t find libdevice"),
            ("errors?: none", ": none"),
            (r"a{0,3}bcdef", "bcdef"),
            ("abcd+efghi", "efghi"),
            (r"\[errno 28\]", "[errno 28]"),
            ("[^]abcdefgh]wxyz", "wxyz"),
        ] {
            assert_eq!(literals(pattern), Some(vec![expected.to_owned()]), "{pattern}");
        }
        assert_eq!(literals("(?-i:ERROR)"), Some(vec!["ERROR".to_owned()]));
        assert_eq!(literals(r"(conda|mamba)\b"), Some(vec!["conda".to_owned(), "mamba".to_owned()]));
        assert_eq!(literals("abcd|efgh"), Some(vec!["abcd".to_owned(), "efgh".to_owned()]));
        for none in ["abc", ".*", "(abcd)?", "abcd|x", "(abcd|.)"] {
            assert_eq!(literals(none), None, "{none}");
        }
    }

    #[test]
    fn a_pattern_is_split_at_its_literal() {
        for (pattern, expected) in [
            (r"a\d+ words? here", Some((r"a\d+", "s? here", 5))),
            (r"\bno (big|small) image\b", Some((r"\bno (big|small)", r"\b", 6))),
            (r"x (?:(no|0) memory|lots)y", Some((r"x (no|0)", "y", 7))),
            ("abcd+x", Some(("", "d+x", 3))),
            ("(abcd)+x", None),
            ("(?s)abcd.*x", None),
            ("abcd$", None),
        ] {
            let split =
                literal_splits(pattern, &GramCounts::default()).and_then(|splits| splits.into_iter().next());
            let split =
                split.as_ref().and_then(|s| s.parts.as_ref().map(|(b, a)| (b.as_str(), a.as_str(), s.skip)));
            assert_eq!(split, expected, "{pattern}");
        }
    }

    #[test]
    fn the_literal_that_fewest_patterns_share_is_chosen() {
        let counts = GramCounts::new(["could not load", "could not find", "could not open"].into_iter());
        let split = literal_splits(r"could not (load )?64_8\.dll", &counts)
            .and_then(|splits| splits.into_iter().next());
        assert_eq!(split.map(|s| s.word), Some(b"64_8.dll".to_vec()));
    }

    #[test]
    fn patterns_that_mention_digits_are_recognised() {
        for (pattern, expected) in [
            (r"error 35\b", true),
            (r"sm_\d+ is", false),
            ("a.{0,40}b", false),
            ("a{2}b7", true),
            ("[1-9]", true),
            (r"\{1", true),
        ] {
            assert_eq!(mentions_digits(pattern), expected, "{pattern}");
        }
    }
}
