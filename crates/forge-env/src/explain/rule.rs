//! Where does one pattern match in a piece of a log? Plain words by comparison, the rest by an expression on the lines
//! around their fixed words.

use std::cell::{Cell, OnceCell, RefCell};

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::{ExplainError, anchor, clean::Piece, table::Errors};

/// What words that usually, not always, mean a cause take from its confidence.
const WEAK: f64 = 0.8;
/// Lines before and after the one with the fixed words: tools wrap their messages.
pub(super) const WRAPPED: usize = 2;
/// Surroundings without a match that a rule remembers.
const REMEMBERED: usize = 256;

/// First byte of a match and the byte after its last.
pub(super) type Range = (usize, usize);

/// Whose words matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Pattern(usize),
    Support(usize),
    Noise(usize),
    Clue(usize),
    Origin(usize),
    Success,
    Failure,
    NotFailure,
}

pub(super) struct Rule<'t> {
    pub(super) owner: Owner,
    pub(super) words: &'t str,
    /// 1, or less for words that usually mean the cause.
    pub(super) factor: f64,
    /// Where the pattern is nothing but fixed words.
    plain: Option<Plain>,
    /// Lines before and after the fixed words that a match can reach.
    margin: usize,
    /// Does it treat all digits alike? Then steps and times do not make a line new to it.
    any_digit: bool,
    /// Compiled when its fixed words are first seen.
    regex: OnceCell<Regex>,
    /// Hashes of surroundings in which it did not match; a log repeats itself.
    without: RefCell<Vec<u64>>,
}

/// Fixed words, and whether they must begin and end a word.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plain {
    length: usize,
    begins: bool,
    ends: bool,
}

impl<'t> Rule<'t> {
    fn new(owner: Owner, words: &'t str, factor: f64) -> Self {
        Rule {
            owner,
            words,
            factor,
            plain: plain(words),
            margin: if anchor::stays_in_line(words) { 0 } else { WRAPPED },
            any_digit: !anchor::names_digits(words),
            regex: OnceCell::new(),
            without: RefCell::new(Vec::new()),
        }
    }

    /// Calls `take` with each match around `places`, in order, until it says false; `tried` counts the bytes that an
    /// expression was run on.
    pub(super) fn each(
        &self,
        piece: &Piece,
        places: &[usize],
        tried: &Cell<usize>,
        mut take: impl FnMut(Range) -> bool,
    ) -> Result<(), ExplainError> {
        if let Some(plain) = self.plain {
            let stands = places.iter().filter(|place| plain.stands(piece.text(), **place));
            let _ = stands.map(|place| (*place, *place + plain.length)).all(take);
            return Ok(());
        }
        let mut without = self.without.borrow_mut();
        without.resize(REMEMBERED, 0);
        let fresh = |place: &&usize| {
            let hash = piece.surroundings(**place, self.any_digit);
            without.get(slot(hash)) != Some(&hash)
        };
        let places: Vec<usize> = places.iter().filter(fresh).copied().collect();
        // Most messages stand in one line: the lines around are for those that do not.
        let mut found = self.run(piece, &places, 0, tried)?;
        if self.margin > 0 {
            let cover = Cover::new(found.clone());
            let mut left: Vec<usize> = places.clone();
            left.retain(|place| !cover.touches((*place, *place + 1)));
            let wrapped = self.run(piece, &left, self.margin, tried)?;
            found.extend(wrapped.into_iter().filter(|range| !cover.touches(*range)));
            found.sort_unstable();
        }
        let cover = Cover::new(found.clone());
        for place in places.iter().filter(|place| !cover.touches((**place, **place + 1))) {
            let hash = piece.surroundings(*place, self.any_digit);
            without.get_mut(slot(hash)).into_iter().for_each(|kept| *kept = hash);
        }
        let _ = found.into_iter().all(&mut take);
        Ok(())
    }

    fn run(
        &self,
        piece: &Piece,
        places: &[usize],
        margin: usize,
        tried: &Cell<usize>,
    ) -> Result<Vec<Range>, ExplainError> {
        let mut found = Vec::new();
        if places.is_empty() {
            return Ok(found);
        }
        let regex = self.regex()?;
        for (start, end) in piece.windows(places, margin) {
            let window = piece.text().get(start..end).unwrap_or_default();
            found.extend(regex.find_iter(window).map(|m| (m.start() + start, m.end() + start)));
            tried.set(tried.get() + window.len());
        }
        Ok(found)
    }

    fn regex(&self) -> Result<&Regex, ExplainError> {
        match self.regex.get() {
            Some(regex) => Ok(regex),
            None => {
                let regex = single(self.words)?;
                Ok(self.regex.get_or_init(|| regex))
            }
        }
    }
}

fn slot(hash: u64) -> usize {
    (hash >> 32) as usize % REMEMBERED
}

impl Plain {
    fn stands(&self, text: &[u8], at: usize) -> bool {
        let word = |at: Option<usize>| {
            at.and_then(|at| text.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        };
        let end = at + self.length;
        let begins = word(at.checked_sub(1)) != word(Some(at));
        let ends = word(end.checked_sub(1)) != word(Some(end));
        (begins || !self.begins) && (ends || !self.ends)
    }
}

fn plain(words: &str) -> Option<Plain> {
    let (begins, rest) = words.strip_prefix(r"\b").map_or((false, words), |rest| (true, rest));
    let (ends, rest) = rest.strip_suffix(r"\b").map_or((false, rest), |rest| (true, rest));
    Some(Plain { length: anchor::literal(rest)?.len(), begins, ends })
}

/// A blank in a pattern is a blank or a line end: tools wrap their messages.
fn rewritten(words: &str) -> String {
    words.replace(' ', "[ \\n]")
}

fn single(words: &str) -> Result<Regex, ExplainError> {
    let regex = RegexBuilder::new(&rewritten(words)).case_insensitive(true).unicode(false).build();
    Ok(regex.map_err(Box::new)?)
}

/// Patterns of which one match is enough.
pub(super) fn set<'w>(words: impl Iterator<Item = &'w str>) -> Result<RegexSet, ExplainError> {
    let set = RegexSetBuilder::new(words.map(rewritten)).case_insensitive(true).unicode(false).build();
    Ok(set.map_err(Box::new)?)
}

fn extend<'t>(rules: &mut Vec<Rule<'t>>, owner: Owner, words: &'t [String], factor: f64) {
    rules.extend(words.iter().map(|words| Rule::new(owner, words, factor)));
}

/// Every pattern of the table.
pub(super) fn rules(table: &Errors) -> Vec<Rule<'_>> {
    let mut rules = Vec::new();
    for (i, pattern) in table.pattern.iter().enumerate() {
        extend(&mut rules, Owner::Pattern(i), &pattern.matches, 1.0);
        extend(&mut rules, Owner::Pattern(i), &pattern.weak, WEAK);
        extend(&mut rules, Owner::Support(i), &pattern.support, 1.0);
    }
    for (i, noise) in table.benign.iter().enumerate() {
        extend(&mut rules, Owner::Noise(i), &noise.matches, 1.0);
    }
    for (i, clue) in table.clue.iter().enumerate() {
        extend(&mut rules, Owner::Clue(i), &clue.matches, 1.0);
    }
    for (i, origin) in table.origin.iter().enumerate() {
        extend(&mut rules, Owner::Origin(i), &origin.matches, 1.0);
    }
    extend(&mut rules, Owner::Success, &table.success, 1.0);
    extend(&mut rules, Owner::Failure, &table.failure, 1.0);
    extend(&mut rules, Owner::NotFailure, &table.not_failure, 1.0);
    rules
}

/// Does every pattern of the table compile, and can it be found? Names those that do not.
pub(super) fn compile_all(table: &Errors) -> Result<(), String> {
    let rules = rules(table);
    let mut problems: Vec<String> = rules.iter().filter_map(|rule| problem(table, rule)).collect();
    for pattern in &table.pattern {
        problems.extend(
            set(pattern.unless.iter().map(String::as_str)).err().map(|e| format!("{}: {e}", pattern.id)),
        );
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn problem(table: &Errors, rule: &Rule<'_>) -> Option<String> {
    let owner = match rule.owner {
        Owner::Pattern(i) | Owner::Support(i) => &table.pattern.get(i)?.id,
        Owner::Noise(i) => &table.benign.get(i)?.id,
        Owner::Clue(i) => &table.clue.get(i)?.id,
        Owner::Origin(_) => "origin",
        Owner::Success => "success",
        Owner::Failure => "failure",
        Owner::NotFailure => "not_failure",
    };
    match single(rule.words) {
        Err(error) => Some(format!("{owner}: {error}")),
        Ok(regex) if regex.is_match(b"") => Some(format!("{owner}: {:?} matches nothing at all", rule.words)),
        Ok(_) if anchor::fixed(rule.words).is_none() => {
            Some(format!("{owner}: {:?} has no fixed word of four letters", rule.words))
        }
        Ok(_) => None,
    }
}

/// Ranges in order, those that overlap made one: is a match among them?
#[derive(Debug, Default)]
pub(super) struct Cover(Vec<Range>);

impl Cover {
    pub(super) fn new(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let joins = next.0 < kept.1;
            kept.1 = if joins { kept.1.max(next.1) } else { kept.1 };
            joins
        });
        Cover(ranges)
    }

    pub(super) fn touches(&self, range: Range) -> bool {
        let after = self.0.partition_point(|(_, end)| *end <= range.0);
        self.0.get(after).is_some_and(|(start, _)| *start < range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_need_no_expression() {
        let word = |length, begins, ends| Some(Plain { length, begins, ends });
        for (words, expected) in [
            ("out of memory", word(13, false, false)),
            (r"\benospc\b", word(6, true, true)),
            (r"\[errno 28\]", word(10, false, false)),
            (r"a\\c", word(3, false, false)),
            ("a.c", None),
            ("abc?", None),
            (r"\d", None),
            (r"abc\w", None),
            ("(?-i:ERROR)", None),
        ] {
            assert_eq!(plain(words), expected, "{words}");
        }
    }

    #[test]
    fn plain_words_stand_where_the_expression_would_match() {
        for words in [r"\benospc\b", "enospc", r"enospc\b", r"\b/dev\b", r"\[x\]\b"] {
            let (plain, regex) =
                (plain(words).unwrap_or(Plain { length: 0, begins: false, ends: false }), single(words));
            let fixed =
                anchor::literal(words.trim_start_matches(r"\b").trim_end_matches(r"\b")).unwrap_or_default();
            let fixed = String::from_utf8(fixed).unwrap_or_default();
            for (before, after) in [("", ""), (" ", " "), ("x", ""), ("", "x"), ("_", ":"), ("-", "9")] {
                let text = format!("{before}{fixed}{after}");
                let expected = regex.as_ref().is_ok_and(|r| r.is_match(text.as_bytes()));
                assert_eq!(plain.stands(text.as_bytes(), before.len()), expected, "{words} in {text:?}");
            }
        }
    }

    #[test]
    fn a_cover_knows_what_it_touches() {
        let cover = Cover::new(vec![(10, 20), (0, 4), (15, 30), (30, 31)]);
        assert_eq!(cover.0, [(0, 4), (10, 30), (30, 31)]);
        for (range, expected) in
            [((4, 10), false), ((3, 5), true), ((9, 11), true), ((29, 40), true), ((31, 99), false)]
        {
            assert_eq!(cover.touches(range), expected, "{range:?}");
        }
    }
}
