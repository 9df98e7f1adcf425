//! Which patterns does a log hold, and where? Fixed words first, patterns only where those are.

use std::collections::BTreeSet;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::{
    ExplainError,
    anchor::{self, Anchors},
    clean::{Piece, shown},
    table::Errors,
};

/// Hits that a pattern keeps; more change nothing.
const KEEP: usize = 4;
/// Letters of a line that are kept as evidence.
const EVIDENCE: usize = 320;
/// What words that usually, not always, mean a cause take from its confidence.
const WEAK: f64 = 0.8;

/// Whose words matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Pattern(usize),
    Support(usize),
    Noise(usize),
    Clue(usize),
    Origin(usize),
    Success,
    Failure,
    NotFailure,
}

struct Rule<'t> {
    owner: Owner,
    words: &'t str,
    /// 1, or less for words that usually mean the cause.
    factor: f64,
    single: Option<Regex>,
}

/// A place in the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    pub(super) line: u64,
    pub(super) evidence: String,
    pub(super) factor: f64,
    rule: usize,
}

/// What was seen of one pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternSeen {
    pub(super) hits: Vec<Hit>,
    pub(super) supported: bool,
}

impl PatternSeen {
    /// How many of its wordings were seen; two that match in one line are one.
    pub(super) fn wordings(&self) -> usize {
        let rules: BTreeSet<usize> = self.hits.iter().map(|h| h.rule).collect();
        let lines: BTreeSet<u64> = self.hits.iter().map(|h| h.line).collect();
        rules.len().min(lines.len())
    }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) patterns: Vec<PatternSeen>,
    /// Lines with each benign message.
    pub(super) noise: Vec<usize>,
    pub(super) clues: Vec<bool>,
    pub(super) origins: Vec<bool>,
    pub(super) last_success: Option<u64>,
    pub(super) first_failure: Option<Hit>,
    pub(super) last_failure: Option<Hit>,
    pub(super) empty: bool,
}

pub(super) struct Scanner<'t> {
    table: &'t Errors,
    rules: Vec<Rule<'t>>,
    anchors: Anchors,
    /// Places of each rule's fixed words in the piece at hand.
    places: Vec<Vec<usize>>,
    /// Per pattern, what rules a hit out; compiled at the first hit.
    guards: Vec<Option<RegexSet>>,
    seen: Seen,
    last_noise_line: Vec<u64>,
}

/// A blank in a pattern is a blank or a line end: tools wrap their messages.
fn rewritten(words: &str) -> String {
    words.replace(' ', "[ \\n]")
}

fn single(words: &str) -> Result<Regex, ExplainError> {
    let regex = RegexBuilder::new(&rewritten(words)).case_insensitive(true).unicode(false).build();
    Ok(regex.map_err(Box::new)?)
}

fn set<'w>(words: impl Iterator<Item = &'w str>) -> Result<RegexSet, ExplainError> {
    let set = RegexSetBuilder::new(words.map(rewritten)).case_insensitive(true).unicode(false).build();
    Ok(set.map_err(Box::new)?)
}

fn extend<'t>(rules: &mut Vec<Rule<'t>>, owner: Owner, words: &'t [String], factor: f64) {
    rules.extend(words.iter().map(|words| Rule { owner, words, factor, single: None }));
}

fn rules(table: &Errors) -> Vec<Rule<'_>> {
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

impl<'t> Scanner<'t> {
    pub(super) fn new(table: &'t Errors) -> Self {
        let rules = rules(table);
        let anchors = Anchors::new(rules.iter().map(|r| r.words));
        let places = vec![Vec::new(); rules.len()];
        let seen = Seen {
            patterns: vec![PatternSeen::default(); table.pattern.len()],
            noise: vec![0; table.benign.len()],
            clues: vec![false; table.clue.len()],
            origins: vec![false; table.origin.len()],
            empty: true,
            ..Seen::default()
        };
        let guards = vec![None; table.pattern.len()];
        Scanner { table, rules, anchors, places, guards, seen, last_noise_line: vec![0; table.benign.len()] }
    }

    pub(super) fn finish(self) -> Seen {
        self.seen
    }

    /// Looks through one piece.
    pub(super) fn take(&mut self, piece: &Piece) -> Result<(), ExplainError> {
        self.seen.empty &= piece.text().is_empty();
        self.places.iter_mut().for_each(Vec::clear);
        let places = &mut self.places;
        self.anchors.find(piece.text(), |rule, at| {
            places.get_mut(rule).into_iter().for_each(|places| places.push(at));
        });
        let touched =
            self.places.iter().zip(&self.rules).enumerate().filter(|(_, (places, _))| !places.is_empty());
        let found: Vec<(usize, Owner)> = touched.map(|(i, (_, rule))| (i, rule.owner)).collect();
        let mut noise = Vec::new();
        let mut no_failure = Vec::new();
        for (rule, owner) in &found {
            match owner {
                Owner::Noise(i) => {
                    let ranges = self.ranges(*rule, piece)?;
                    self.count_noise(*i, &ranges, piece);
                    noise.extend(ranges);
                }
                Owner::NotFailure => no_failure.extend(self.ranges(*rule, piece)?),
                _ => {}
            }
        }
        no_failure.extend_from_slice(&noise);
        for (rule, owner) in found {
            self.note(rule, owner, piece, &noise, &no_failure)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        rule: usize,
        owner: Owner,
        piece: &Piece,
        noise: &[(usize, usize)],
        no_failure: &[(usize, usize)],
    ) -> Result<(), ExplainError> {
        match owner {
            Owner::Noise(_) | Owner::NotFailure => {}
            Owner::Pattern(i) => self.note_pattern(rule, i, piece, noise)?,
            // What has been seen once is not looked for again.
            Owner::Support(i) if self.seen.patterns.get(i).is_some_and(|seen| seen.supported) => {}
            Owner::Clue(i) if self.seen.clues.get(i) == Some(&true) => {}
            Owner::Origin(i) if self.seen.origins.get(i) == Some(&true) => {}
            Owner::Support(i) => {
                let there = !self.ranges(rule, piece)?.is_empty();
                self.seen.patterns.get_mut(i).into_iter().for_each(|seen| seen.supported |= there);
            }
            Owner::Clue(i) => {
                let there = !self.ranges(rule, piece)?.is_empty();
                self.seen.clues.get_mut(i).into_iter().for_each(|seen| *seen |= there);
            }
            Owner::Origin(i) => {
                let there = !self.ranges(rule, piece)?.is_empty();
                self.seen.origins.get_mut(i).into_iter().for_each(|seen| *seen |= there);
            }
            Owner::Success => {
                let last = self.outermost(rule, piece, true, &[])?.map(|(start, _)| piece.line(start));
                self.seen.last_success = self.seen.last_success.max(last);
            }
            Owner::Failure => {
                let begun = self.seen.first_failure.as_ref().is_some_and(|seen| seen.line < piece.line(0));
                if !begun {
                    let first = self.outermost(rule, piece, false, no_failure)?;
                    let first = first.map(|range| hit(piece, range, rule, 1.0));
                    let seen = &mut self.seen.first_failure;
                    if let Some(first) = first.filter(|f| seen.as_ref().is_none_or(|seen| seen.line > f.line))
                    {
                        *seen = Some(first);
                    }
                }
                let last = self.outermost(rule, piece, true, no_failure)?;
                let last = last.map(|range| hit(piece, range, rule, 1.0));
                let seen = &mut self.seen.last_failure;
                if let Some(last) = last.filter(|l| seen.as_ref().is_none_or(|seen| seen.line <= l.line)) {
                    *seen = Some(last);
                }
            }
        }
        Ok(())
    }

    fn note_pattern(
        &mut self,
        rule: usize,
        pattern: usize,
        piece: &Piece,
        noise: &[(usize, usize)],
    ) -> Result<(), ExplainError> {
        let of_rule = |seen: &Seen| {
            seen.patterns.get(pattern).map_or(0, |s| s.hits.iter().filter(|h| h.rule == rule).count())
        };
        if of_rule(&self.seen) >= KEEP {
            return Ok(());
        }
        let factor = self.rules.get(rule).map_or(1.0, |r| r.factor);
        for range in self.ranges(rule, piece)? {
            if covered(range, noise) || self.guarded(pattern, piece, range)? {
                continue;
            }
            let hit = hit(piece, range, rule, factor);
            let Some(seen) = self.seen.patterns.get_mut(pattern) else { break };
            // Pieces overlap: the same line is met twice.
            if !seen.hits.iter().any(|h| h.rule == rule && h.line == hit.line) {
                seen.hits.push(hit);
            }
            if of_rule(&self.seen) >= KEEP {
                break;
            }
        }
        Ok(())
    }

    /// Is a hit ruled out by words in its own lines?
    fn guarded(&mut self, pattern: usize, piece: &Piece, at: (usize, usize)) -> Result<bool, ExplainError> {
        let Some(unless) = self.table.pattern.get(pattern).map(|p| &p.unless).filter(|u| !u.is_empty())
        else {
            return Ok(false);
        };
        let Some(guard) = self.guards.get_mut(pattern) else { return Ok(false) };
        if guard.is_none() {
            *guard = Some(set(unless.iter().map(String::as_str))?);
        }
        let (start, end) = piece.lines(at.0, at.1);
        Ok(guard.as_ref().is_some_and(|g| g.is_match(piece.text().get(start..end).unwrap_or_default())))
    }

    /// Where a rule matches: it is tried on the lines around its fixed words only.
    fn ranges(&mut self, rule: usize, piece: &Piece) -> Result<Vec<(usize, usize)>, ExplainError> {
        let mut ranges = Vec::new();
        let (Some(places), Some(rule)) = (self.places.get(rule), self.rules.get_mut(rule)) else {
            return Ok(ranges);
        };
        let mut done = 0;
        for place in places {
            if *place < done {
                continue;
            }
            if rule.single.is_none() {
                rule.single = Some(single(rule.words)?);
            }
            let (start, end) = piece.around(*place);
            let window = piece.text().get(start.max(done)..end).unwrap_or_default();
            let found = rule.single.iter().flat_map(|regex| regex.find_iter(window));
            ranges.extend(found.map(|m| (m.start() + start.max(done), m.end() + start.max(done))));
            // The last line may be the first of a message that goes on.
            done = ranges.last().map_or(0, |(_, end)| *end).max(*place + 1);
        }
        Ok(ranges)
    }

    /// The first match of a rule, or the last, that is not covered; a log of nothing but failures has many between.
    fn outermost(
        &mut self,
        rule: usize,
        piece: &Piece,
        last: bool,
        but: &[(usize, usize)],
    ) -> Result<Option<(usize, usize)>, ExplainError> {
        let (Some(places), Some(rule)) = (self.places.get(rule), self.rules.get_mut(rule)) else {
            return Ok(None);
        };
        if rule.single.is_none() {
            rule.single = Some(single(rule.words)?);
        }
        let Some(regex) = &rule.single else { return Ok(None) };
        let around = |place: usize| {
            let (start, end) = piece.around(place);
            let window = piece.text().get(start..end).unwrap_or_default();
            let found = regex.find_iter(window).map(move |m| (m.start() + start, m.end() + start));
            let mut real = found.filter(|range| !covered(*range, but));
            if last { real.last() } else { real.next() }
        };
        let places = places.iter().copied();
        Ok(if last { places.rev().find_map(around) } else { { places }.find_map(around) })
    }

    fn count_noise(&mut self, noise: usize, ranges: &[(usize, usize)], piece: &Piece) {
        let (Some(count), Some(last)) = (self.seen.noise.get_mut(noise), self.last_noise_line.get_mut(noise))
        else {
            return;
        };
        for (start, _) in ranges {
            let line = piece.line(*start);
            if line > *last {
                *count += 1;
                *last = line;
            }
        }
    }
}

fn covered(range: (usize, usize), by: &[(usize, usize)]) -> bool {
    by.iter().any(|other| range.0 < other.1 && other.0 < range.1)
}

fn hit(piece: &Piece, (start, end): (usize, usize), rule: usize, factor: f64) -> Hit {
    let (first, last) = piece.lines(start, end);
    let evidence = shown(piece.text().get(first..last).unwrap_or_default(), start - first, EVIDENCE);
    Hit { line: piece.line(start), evidence, factor, rule }
}
