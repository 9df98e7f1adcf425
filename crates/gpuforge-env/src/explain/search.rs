//! Rule search within a chunk: plain literals by comparison, others by regex around their literals, first within the line,
//! then across line wraps. Results are cached by line hash (deduplication of repeated lines).

use std::cell::{Cell, RefCell};

use regex_automata::meta::Cache;

use super::{
    ExplainError,
    chunk::{ByteRange, LogChunk},
    regex_engine::{ContextDfaCache, ContextDfas, MatchPossibility},
    rule::{ExclusionGuard, PatternRule, RangeSet},
};

/// Slots of a rule's match cache.
const CACHE_SLOTS: usize = 256;

/// A rule and its match cache; one per thread.
pub(super) struct RuleSearcher<'r> {
    pub(super) rule: &'r PatternRule<'r>,
    search_cache: RefCell<SearchCache>,
}

#[derive(Default)]
struct SearchCache {
    cache: Option<Cache>,
    context_dfas: Vec<ContextDfaCache>,
    known: Vec<CachedMatch>,
}

/// Cached result at a position: bytes of the match before and after it, if there is one.
#[derive(Clone, Copy, Default)]
struct CachedMatch {
    key: u64,
    found: Option<(u32, u32)>,
    /// No context can change the result.
    never: bool,
}

impl CachedMatch {
    fn range(&self, place: usize) -> Option<ByteRange> {
        let (before, after) = self.found?;
        Some((place.checked_sub(before as usize)?, place + after as usize))
    }
}

impl SearchCache {
    fn of(&self, key: u64) -> Option<&CachedMatch> {
        self.known.get(slot(key)).filter(|known| known.key == key)
    }

    fn keep(&mut self, key: u64, place: usize, range: Option<ByteRange>, never: bool) {
        let length = |from: usize, to: usize| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let found = range.map(|(start, end)| (length(start, place), length(place, end)));
        self.known.resize(CACHE_SLOTS, CachedMatch::default());
        self.known.get_mut(slot(key)).into_iter().for_each(|slot| *slot = CachedMatch { key, found, never });
    }
}

fn slot(key: u64) -> usize {
    (key >> 32) as usize % CACHE_SLOTS
}

fn touching(found: &[ByteRange], place: usize) -> Option<ByteRange> {
    found.iter().find(|(start, end)| (*start..*end).contains(&place)).copied()
}

/// One search of a rule in a chunk.
struct ChunkSearch<'s> {
    rule: &'s PatternRule<'s>,
    search_cache: &'s mut SearchCache,
    chunk: &'s LogChunk,
    bytes_tried: &'s Cell<usize>,
    found: Vec<ByteRange>,
    /// Positions of the current row where a match is possible.
    possible: Vec<usize>,
    /// Rows and positions without a match in their line, and whether a match across lines is known to be possible.
    left: Vec<(usize, usize, bool)>,
}

impl<'r> RuleSearcher<'r> {
    pub(super) fn new(rule: &'r PatternRule<'r>) -> Self {
        RuleSearcher { rule, search_cache: RefCell::default() }
    }

    /// Calls `take` with each match around `places`, in order, until it returns false; `bytes_tried` counts the bytes that a
    /// regex was run on.
    pub(super) fn each(
        &self,
        chunk: &LogChunk,
        places: &[usize],
        bytes_tried: &Cell<usize>,
        take: impl FnMut(ByteRange) -> bool,
    ) -> Result<(), ExplainError> {
        if let Some(literal) = self.rule.literal {
            let stands = places.iter().filter(|place| literal.matches_at(chunk.text(), **place));
            let _ = stands.map(|place| (*place, *place + literal.length)).all(take);
            return Ok(());
        }
        if places.is_empty() {
            return Ok(());
        }
        let search_cache = &mut *self.search_cache.borrow_mut();
        let (found, possible, left) = (Vec::new(), Vec::new(), Vec::new());
        let mut search =
            ChunkSearch { rule: self.rule, search_cache, chunk, bytes_tried, found, possible, left };
        // Most messages fit in one line; the context window is for wrapped ones.
        let mut rest = places;
        while let Some(first) = rest.first() {
            let row = chunk.row(*first);
            let next = chunk.start(row + 1);
            let here = rest.iter().take_while(|place| **place < next).count().max(1);
            let (here, after) = rest.split_at_checked(here).unwrap_or((rest, &[]));
            search.in_row(row, here)?;
            rest = after;
        }
        search.across_rows()?;
        let _ = search.found.into_iter().all(take);
        Ok(())
    }
}

impl ChunkSearch<'_> {
    /// Matches around positions of one line that stay within it.
    fn in_row(&mut self, row: usize, places: &[usize]) -> Result<(), ExplainError> {
        let (begin, left) = (self.found.len(), self.left.len());
        if self.find_cached(row, places) {
            return Ok(());
        }
        self.found.truncate(begin);
        self.left.truncate(left);
        let mut possible = std::mem::take(&mut self.possible);
        possible.clear();
        for place in places {
            let possibility = self.possibility(row, *place);
            if possibility == MatchPossibility::Yes {
                possible.push(*place);
            } else {
                self.keep(row, *place, None, possibility == MatchPossibility::Never);
            }
        }
        self.run(&possible, 0)?;
        // A rejected position may still lie within the match of another one.
        let places = if self.found.len() > begin { places } else { &[] };
        for place in places {
            if let Some(range) = touching(self.found.get(begin..).unwrap_or_default(), *place) {
                self.keep(row, *place, Some(range), false);
            }
        }
        for place in &possible {
            if touching(self.found.get(begin..).unwrap_or_default(), *place).is_none() {
                self.keep(row, *place, None, false);
                if self.rule.margin > 0 {
                    self.left.push((row, *place, true));
                }
            }
        }
        self.possible = possible;
        Ok(())
    }

    fn keep(&mut self, row: usize, place: usize, range: Option<ByteRange>, never: bool) {
        if let Some(key) = self.chunk.in_row(row, place, self.rule.any_digit) {
            self.search_cache.keep(key, place, range, never);
        }
    }

    /// Do the context DFAs allow a match at a position, within its line or across line wraps?
    fn possibility(&mut self, row: usize, place: usize) -> MatchPossibility {
        let context_dfas = self.rule.context_dfas();
        if self.search_cache.context_dfas.len() < context_dfas.len() {
            self.search_cache.context_dfas = context_dfas.iter().map(ContextDfas::cache).collect();
        }
        let (chunk, text) = (self.chunk, self.chunk.text());
        let (of_row, within) = ((chunk.start(row), chunk.start(row + 1)), chunk.rows(row, self.rule.margin));
        let both = context_dfas.iter().zip(&mut self.search_cache.context_dfas);
        let there = both.filter(|(side, _)| context_dfas.len() == 1 || side.is_at(text, place));
        there
            .map(|(side, cache)| side.possibility(cache, text, place, of_row, within))
            .max()
            .unwrap_or(MatchPossibility::Yes)
    }

    /// Answers all positions from the cache, if possible; positions without a match are left for the search across lines.
    fn find_cached(&mut self, row: usize, places: &[usize]) -> bool {
        places.iter().all(|place| {
            let key = self.chunk.in_row(row, *place, self.rule.any_digit);
            let Some(known) = key.and_then(|key| self.search_cache.of(key)) else { return false };
            match known.range(*place) {
                Some(range) if self.found.last() != Some(&range) => self.found.push(range),
                None if self.rule.margin > 0 && !known.never => self.left.push((row, *place, false)),
                _ => {}
            }
            true
        })
    }

    /// Matches of the remaining positions across line wraps.
    fn across_rows(&mut self) -> Result<(), ExplainError> {
        let left = std::mem::take(&mut self.left);
        let any_digit = self.rule.any_digit;
        let mut fresh = Vec::new();
        for (row, place, possible) in left {
            let known = self.search_cache.of(self.chunk.surroundings(row, place, any_digit)).is_some();
            if !known && (possible || self.possibility(row, place) == MatchPossibility::Yes) {
                fresh.push(place);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let in_rows = std::mem::take(&mut self.found);
        let cover = RangeSet::new(in_rows.clone());
        self.run(&fresh, self.rule.margin)?;
        self.found.retain(|range| !cover.touches(*range));
        let across = RangeSet::new(self.found.clone());
        for place in fresh.iter().filter(|place| !across.touches((**place, **place + 1))) {
            let key = self.chunk.surroundings(self.chunk.row(*place), *place, any_digit);
            self.search_cache.keep(key, *place, None, false);
        }
        self.found.extend(in_rows);
        self.found.sort_unstable();
        Ok(())
    }

    fn run(&mut self, places: &[usize], margin: usize) -> Result<(), ExplainError> {
        if places.is_empty() {
            return Ok(());
        }
        let regex = self.rule.regex()?;
        let cache = self.search_cache.cache.get_or_insert_with(|| regex.cache());
        for (window, places) in self.chunk.windows(places, margin) {
            let bytes_scanned = regex.find(cache, self.chunk.text(), window, places, &mut self.found);
            self.bytes_tried.set(self.bytes_tried.get() + bytes_scanned);
        }
        Ok(())
    }
}

/// Exclusion guard of a pattern with its scratch space; one per thread.
pub(super) struct GuardMatcher<'r> {
    guard: &'r ExclusionGuard<'r>,
    cache: Option<Cache>,
}

impl<'r> GuardMatcher<'r> {
    pub(super) fn new(guard: &'r ExclusionGuard<'r>) -> Self {
        GuardMatcher { guard, cache: None }
    }

    /// Does the guard match in the lines of a match?
    pub(super) fn rules_out(&mut self, chunk: &LogChunk, range: ByteRange) -> Result<bool, ExplainError> {
        let Some(regex) = self.guard.regex()? else { return Ok(false) };
        let (start, end) = chunk.lines(range.0, range.1);
        let lines = chunk.text().get(start..end).unwrap_or_default();
        Ok(regex.is_match(self.cache.get_or_insert_with(|| regex.cache()), lines))
    }
}

#[cfg(test)]
mod tests {
    use regex::bytes::{Regex, RegexBuilder};

    use super::*;
    use crate::explain::{PatternDb, clean::chunks, prefilter, rule::RuleSet};

    const SAMPLES: [&str; 4] = [
        include_str!("../../tests/explain_cases.txt"),
        include_str!("../../tests/explain_noise.txt"),
        include_str!("../../tests/explain_field.txt"),
        include_str!("../../tests/explain_stories.txt"),
    ];

    /// Deterministic pseudo-random numbers.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.0 >> 33) as usize % n
        }
    }

    /// A log of few sample lines that repeat: mixed, wrapped, numbered or joined.
    fn mixture(lines: &[&str], dice: &mut Dice) -> String {
        let few: Vec<&str> = (0..12).filter_map(|_| lines.get(dice.below(lines.len())).copied()).collect();
        let mut log = String::new();
        for i in 0..160 {
            let line = few.get(dice.below(few.len())).copied().unwrap_or_default();
            match dice.below(8) {
                0 => log.push_str(&format!("{i}: {line}\n")),
                1 => log.push_str(&line.replacen(' ', "\n", 1 + dice.below(2))),
                2 => log.push_str(&format!("{line} ")),
                3 => log.push_str(&format!("warning: {line}\n")),
                _ => log.push_str(&format!("{line}\n")),
            }
        }
        log
    }

    fn expression(words: &str) -> Option<Regex> {
        let words = words.replace(' ', "[ \\n]");
        RegexBuilder::new(&words).case_insensitive(true).unicode(false).build().ok()
    }

    fn matches(regex: &Regex, chunk: &LogChunk, places: &[usize], margin: usize) -> Vec<ByteRange> {
        let windows = chunk.windows(places, margin);
        windows.flat_map(|((start, end), _)| within(regex, chunk, start, end)).collect()
    }

    fn within(regex: &Regex, chunk: &LogChunk, start: usize, end: usize) -> Vec<ByteRange> {
        let text = chunk.text().get(start..end).unwrap_or_default();
        regex.find_iter(text).map(|m| (m.start() + start, m.end() + start)).collect()
    }

    /// Reference: matches without cache and without context DFAs.
    fn reference_matches(
        rule: &PatternRule<'_>,
        regex: &Regex,
        chunk: &LogChunk,
        places: &[usize],
    ) -> Vec<ByteRange> {
        let mut found = matches(regex, chunk, places, 0);
        let cover = RangeSet::new(found.clone());
        let left: Vec<usize> =
            places.iter().filter(|place| !cover.touches((**place, **place + 1))).copied().collect();
        if rule.margin > 0 {
            let across = matches(regex, chunk, &left, rule.margin);
            found.extend(across.into_iter().filter(|range| !cover.touches(*range)));
            found.sort_unstable();
        }
        found
    }

    #[test]
    fn cache_and_context_dfas_do_not_change_the_matches() {
        let known = PatternDb::embedded();
        let rules = RuleSet::new(known.table());
        let searchers: Vec<RuleSearcher<'_>> = rules.all.iter().map(RuleSearcher::new).collect();
        let expressions: Vec<Option<Regex>> = rules.all.iter().map(|rule| expression(rule.pattern)).collect();
        let lines: Vec<&str> = SAMPLES.iter().flat_map(|text| text.lines()).collect();
        let (bytes_tried, mut dice, mut compared) = (Cell::new(0), Dice(7), 0);
        for _ in 0..40 {
            let log = mixture(&lines, &mut dice);
            let read = chunks(log.as_bytes(), &mut |chunk| {
                let mut places = vec![Vec::new(); rules.all.len()];
                let folded: Vec<u8> = chunk.text().iter().map(|b| prefilter::fold(*b)).collect();
                rules.prefilter.find(&folded, &rules.prefilter.filter(&[]), &[], |rule, at| {
                    places.get_mut(rule).into_iter().for_each(|places: &mut Vec<usize>| places.push(at));
                });
                for ((searcher, regex), mut places) in searchers.iter().zip(&expressions).zip(places) {
                    let Some(regex) = regex else { continue };
                    places.sort_unstable();
                    let mut found = Vec::new();
                    searcher.each(chunk, &places, &bytes_tried, |range| {
                        found.push(range);
                        true
                    })?;
                    let words = searcher.rule.pattern;
                    assert_eq!(
                        found,
                        reference_matches(searcher.rule, regex, chunk, &places),
                        "{words}\n{log}"
                    );
                    // Every match contains a literal.
                    let all = within(regex, chunk, 0, chunk.text().len());
                    let cover = RangeSet::new(found.clone());
                    assert!(
                        all.iter().all(|range| cover.touches(*range)),
                        "{words}: {all:?}, {found:?}\n{log}"
                    );
                    compared += found.len();
                }
                Ok::<(), ExplainError>(())
            });
            assert!(matches!(read, Ok(Ok(()))), "{read:?}");
        }
        assert!(compared > 5_000, "{compared}");
    }
}
