//! Where does one pattern match in a piece of a log? Plain words by comparison, the rest by an expression near their fixed
//! words, first within the line, then across its ends.
//!
//! A log repeats itself: what was found at a place is remembered with the line that it is in, and is not looked for again
//! where the same line returns.

use std::cell::{Cell, RefCell};

use regex_automata::meta::Cache;

use super::{
    ExplainError,
    clean::{Piece, Range},
    program::{Allowed, Sides, SidesCache},
    rule::{Cover, Guard, Rule},
};

/// Places that a searcher remembers.
const REMEMBERED: usize = 256;

/// A rule, and what one thread remembers of it.
pub(super) struct Searcher<'r> {
    pub(super) rule: &'r Rule<'r>,
    memory: RefCell<Memory>,
}

#[derive(Default)]
struct Memory {
    cache: Option<Cache>,
    sides: Vec<SidesCache>,
    known: Vec<Known>,
}

/// What was found at a place: the bytes of the match before it and from it on, if there is one.
#[derive(Clone, Copy, Default)]
struct Known {
    key: u64,
    found: Option<(u32, u32)>,
    /// Can lines around not change that?
    never: bool,
}

impl Known {
    fn range(&self, place: usize) -> Option<Range> {
        let (before, after) = self.found?;
        Some((place.checked_sub(before as usize)?, place + after as usize))
    }
}

impl Memory {
    fn of(&self, key: u64) -> Option<&Known> {
        self.known.get(slot(key)).filter(|known| known.key == key)
    }

    fn keep(&mut self, key: u64, place: usize, range: Option<Range>, never: bool) {
        let length = |from: usize, to: usize| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let found = range.map(|(start, end)| (length(start, place), length(place, end)));
        self.known.resize(REMEMBERED, Known::default());
        self.known.get_mut(slot(key)).into_iter().for_each(|slot| *slot = Known { key, found, never });
    }
}

fn slot(key: u64) -> usize {
    (key >> 32) as usize % REMEMBERED
}

fn touching(found: &[Range], place: usize) -> Option<Range> {
    found.iter().find(|(start, end)| (*start..*end).contains(&place)).copied()
}

/// One search of a rule in a piece.
struct Search<'s> {
    rule: &'s Rule<'s>,
    memory: &'s mut Memory,
    piece: &'s Piece,
    tried: &'s Cell<usize>,
    found: Vec<Range>,
    /// Places of the row at hand where a match is possible.
    possible: Vec<usize>,
    /// Rows and places without a match in their line, and whether one that leaves it is known to be possible.
    left: Vec<(usize, usize, bool)>,
}

impl<'r> Searcher<'r> {
    pub(super) fn new(rule: &'r Rule<'r>) -> Self {
        Searcher { rule, memory: RefCell::default() }
    }

    /// Calls `take` with each match around `places`, in order, until it says false; `tried` counts the bytes that an
    /// expression was run on.
    pub(super) fn each(
        &self,
        piece: &Piece,
        places: &[usize],
        tried: &Cell<usize>,
        take: impl FnMut(Range) -> bool,
    ) -> Result<(), ExplainError> {
        if let Some(plain) = self.rule.plain {
            let stands = places.iter().filter(|place| plain.stands(piece.text(), **place));
            let _ = stands.map(|place| (*place, *place + plain.length)).all(take);
            return Ok(());
        }
        if places.is_empty() {
            return Ok(());
        }
        let memory = &mut *self.memory.borrow_mut();
        let (found, possible, left) = (Vec::new(), Vec::new(), Vec::new());
        let mut search = Search { rule: self.rule, memory, piece, tried, found, possible, left };
        // Most messages stand in one line: the lines around are for those that do not.
        let mut rest = places;
        while let Some(first) = rest.first() {
            let row = piece.row(*first);
            let next = piece.start(row + 1);
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

impl Search<'_> {
    /// Matches around places in one line that do not leave it.
    fn in_row(&mut self, row: usize, places: &[usize]) -> Result<(), ExplainError> {
        let (begin, left) = (self.found.len(), self.left.len());
        if self.remembered(row, places) {
            return Ok(());
        }
        self.found.truncate(begin);
        self.left.truncate(left);
        let mut possible = std::mem::take(&mut self.possible);
        possible.clear();
        for place in places {
            let allowed = self.allowed(row, *place);
            if allowed == Allowed::Yes {
                possible.push(*place);
            } else {
                self.keep(row, *place, None, allowed == Allowed::Never);
            }
        }
        self.run(&possible, 0)?;
        // Of those that alone allow nothing, one may lie in a match of another.
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

    fn keep(&mut self, row: usize, place: usize, range: Option<Range>, never: bool) {
        if let Some(key) = self.piece.in_row(row, place, self.rule.any_digit) {
            self.memory.keep(key, place, range, never);
        }
    }

    /// Do both sides of a place allow a match, in its line or across its ends?
    fn allowed(&mut self, row: usize, place: usize) -> Allowed {
        let sides = self.rule.sides();
        if self.memory.sides.len() < sides.len() {
            self.memory.sides = sides.iter().map(Sides::cache).collect();
        }
        let (piece, text) = (self.piece, self.piece.text());
        let (of_row, within) = ((piece.start(row), piece.start(row + 1)), piece.rows(row, self.rule.margin));
        let both = sides.iter().zip(&mut self.memory.sides);
        let there = both.filter(|(side, _)| sides.len() == 1 || side.is_at(text, place));
        there
            .map(|(side, cache)| side.allow(cache, text, place, of_row, within))
            .max()
            .unwrap_or(Allowed::Yes)
    }

    /// Is all that these places have known? Then it is found, or left to be looked for with the lines around.
    fn remembered(&mut self, row: usize, places: &[usize]) -> bool {
        places.iter().all(|place| {
            let key = self.piece.in_row(row, *place, self.rule.any_digit);
            let Some(known) = key.and_then(|key| self.memory.of(key)) else { return false };
            match known.range(*place) {
                Some(range) if self.found.last() != Some(&range) => self.found.push(range),
                None if self.rule.margin > 0 && !known.never => self.left.push((row, *place, false)),
                _ => {}
            }
            true
        })
    }

    /// Matches around the places that are left, with the lines around.
    fn across_rows(&mut self) -> Result<(), ExplainError> {
        let left = std::mem::take(&mut self.left);
        let any_digit = self.rule.any_digit;
        let mut fresh = Vec::new();
        for (row, place, possible) in left {
            let known = self.memory.of(self.piece.surroundings(row, place, any_digit)).is_some();
            if !known && (possible || self.allowed(row, place) == Allowed::Yes) {
                fresh.push(place);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let in_rows = std::mem::take(&mut self.found);
        let cover = Cover::new(in_rows.clone());
        self.run(&fresh, self.rule.margin)?;
        self.found.retain(|range| !cover.touches(*range));
        let across = Cover::new(self.found.clone());
        for place in fresh.iter().filter(|place| !across.touches((**place, **place + 1))) {
            let key = self.piece.surroundings(self.piece.row(*place), *place, any_digit);
            self.memory.keep(key, *place, None, false);
        }
        self.found.extend(in_rows);
        self.found.sort_unstable();
        Ok(())
    }

    fn run(&mut self, places: &[usize], margin: usize) -> Result<(), ExplainError> {
        if places.is_empty() {
            return Ok(());
        }
        let program = self.rule.program()?;
        let cache = self.memory.cache.get_or_insert_with(|| program.cache());
        for (window, places) in self.piece.windows(places, margin) {
            let looked = program.find(cache, self.piece.text(), window, places, &mut self.found);
            self.tried.set(self.tried.get() + looked);
        }
        Ok(())
    }
}

/// What rules hits of a pattern out, and what one thread needs to look for it.
pub(super) struct GuardSearcher<'r> {
    guard: &'r Guard<'r>,
    cache: Option<Cache>,
}

impl<'r> GuardSearcher<'r> {
    pub(super) fn new(guard: &'r Guard<'r>) -> Self {
        GuardSearcher { guard, cache: None }
    }

    /// Do the lines of a match say that it is none?
    pub(super) fn rules_out(&mut self, piece: &Piece, range: Range) -> Result<bool, ExplainError> {
        let Some(program) = self.guard.program()? else { return Ok(false) };
        let (start, end) = piece.lines(range.0, range.1);
        let lines = piece.text().get(start..end).unwrap_or_default();
        Ok(program.is_match(self.cache.get_or_insert_with(|| program.cache()), lines))
    }
}

#[cfg(test)]
mod tests {
    use regex::bytes::{Regex, RegexBuilder};

    use super::*;
    use crate::explain::{Knowledge, anchor, clean::pieces, rule::Rules};

    const SAMPLES: [&str; 4] = [
        include_str!("../../tests/explain_cases.txt"),
        include_str!("../../tests/explain_noise.txt"),
        include_str!("../../tests/explain_field.txt"),
        include_str!("../../tests/explain_stories.txt"),
    ];

    /// Numbers that look random and are the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.0 >> 33) as usize % n
        }
    }

    /// Lines of few samples, so that they return; among others, wrapped, behind numbers, or one after the other.
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

    fn matches(regex: &Regex, piece: &Piece, places: &[usize], margin: usize) -> Vec<Range> {
        let windows = piece.windows(places, margin);
        windows.flat_map(|((start, end), _)| within(regex, piece, start, end)).collect()
    }

    fn within(regex: &Regex, piece: &Piece, start: usize, end: usize) -> Vec<Range> {
        let text = piece.text().get(start..end).unwrap_or_default();
        regex.find_iter(text).map(|m| (m.start() + start, m.end() + start)).collect()
    }

    /// What is found without memory and without a look at the sides of a place.
    fn plainly(rule: &Rule<'_>, regex: &Regex, piece: &Piece, places: &[usize]) -> Vec<Range> {
        let mut found = matches(regex, piece, places, 0);
        let cover = Cover::new(found.clone());
        let left: Vec<usize> =
            places.iter().filter(|place| !cover.touches((**place, **place + 1))).copied().collect();
        if rule.margin > 0 {
            let across = matches(regex, piece, &left, rule.margin);
            found.extend(across.into_iter().filter(|range| !cover.touches(*range)));
            found.sort_unstable();
        }
        found
    }

    #[test]
    fn what_is_remembered_and_passed_over_changes_nothing() {
        let known = Knowledge::embedded();
        let rules = Rules::new(known.table());
        let searchers: Vec<Searcher<'_>> = rules.all.iter().map(Searcher::new).collect();
        let expressions: Vec<Option<Regex>> = rules.all.iter().map(|rule| expression(rule.words)).collect();
        let lines: Vec<&str> = SAMPLES.iter().flat_map(|text| text.lines()).collect();
        let (tried, mut dice, mut compared) = (Cell::new(0), Dice(7), 0);
        for _ in 0..40 {
            let log = mixture(&lines, &mut dice);
            let read = pieces(log.as_bytes(), &mut |piece| {
                let mut places = vec![Vec::new(); rules.all.len()];
                let folded: Vec<u8> = piece.text().iter().map(|b| anchor::fold(*b)).collect();
                rules.anchors.find(&folded, &rules.anchors.filter(&[]), &[], |rule, at| {
                    places.get_mut(rule).into_iter().for_each(|places: &mut Vec<usize>| places.push(at));
                });
                for ((searcher, regex), mut places) in searchers.iter().zip(&expressions).zip(places) {
                    let Some(regex) = regex else { continue };
                    places.sort_unstable();
                    let mut found = Vec::new();
                    searcher.each(piece, &places, &tried, |range| {
                        found.push(range);
                        true
                    })?;
                    let words = searcher.rule.words;
                    assert_eq!(found, plainly(searcher.rule, regex, piece, &places), "{words}\n{log}");
                    // No line that matches is without the fixed words.
                    let all = within(regex, piece, 0, piece.text().len());
                    let cover = Cover::new(found.clone());
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
