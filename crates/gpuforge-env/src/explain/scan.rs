//! Which patterns does a log hold, and where? Fixed words first, patterns only where those are.
//!
//! A log may be nothing but failures, and is read as fast: a pattern that was seen often enough is looked for no more,
//! of failures and successes only the first and the last are found, from the ends of a piece in growing steps, and no
//! pattern is tried twice on the same line.

use std::{cell::Cell, cmp::Reverse, collections::BTreeSet};

use super::{
    ExplainError,
    anchor::{self, Filter},
    clean::{Piece, Range, shown},
    rule::{Cover, Owner, Rules},
    search::{GuardSearcher, Searcher},
};

/// Hits that a pattern keeps; more change nothing.
const KEEP: usize = 4;
/// Letters of a line that are kept as evidence.
const EVIDENCE: usize = 320;
/// Bytes at the end of a piece in which its last failure is looked for first.
const STEP: usize = 1 << 10;
/// Lines between a failure and the far end of words that excuse it.
const REACH: usize = 4;

/// A place in the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    pub(super) line: u64,
    pub(super) evidence: String,
    pub(super) factor: f64,
    rule: usize,
    /// Which piece of the log it was found in.
    piece: u64,
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

    fn of_rule(&self, rule: usize) -> usize {
        self.hits.iter().filter(|h| h.rule == rule).count()
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

impl Seen {
    /// Adds what another saw in other pieces of the same log.
    pub(super) fn join(&mut self, other: Seen) {
        for (own, more) in self.patterns.iter_mut().zip(other.patterns) {
            own.supported |= more.supported;
            own.hits.extend(more.hits);
            // In the order in which one alone would have found them, and as many.
            own.hits.sort_by_key(|h| h.piece);
            let mut kept: Vec<Hit> = Vec::new();
            for hit in own.hits.drain(..) {
                let of_rule = kept.iter().filter(|h| h.rule == hit.rule);
                let again = of_rule.clone().any(|h| h.line == hit.line);
                if !again && of_rule.count() < KEEP {
                    kept.push(hit);
                }
            }
            own.hits = kept;
        }
        self.noise.iter_mut().zip(other.noise).for_each(|(own, more)| *own += more);
        self.clues.iter_mut().zip(other.clues).for_each(|(own, more)| *own |= more);
        self.origins.iter_mut().zip(other.origins).for_each(|(own, more)| *own |= more);
        self.last_success = self.last_success.max(other.last_success);
        let firsts = [self.first_failure.take(), other.first_failure].into_iter().flatten();
        self.first_failure = firsts.min_by_key(|h| h.piece);
        let lasts = [self.last_failure.take(), other.last_failure].into_iter().flatten();
        self.last_failure = lasts.max_by_key(|h| h.piece);
        self.empty &= other.empty;
    }
}

/// What one thread sees.
pub(super) struct Scanner<'r> {
    known: &'r Rules<'r>,
    rules: Vec<Searcher<'r>>,
    /// Rules that can tell nothing new.
    done: Vec<bool>,
    /// Lets the words of others pass; nothing when a rule was done since.
    filter: Option<Filter>,
    /// The text at hand without regard to case and wraps.
    folded: Vec<u8>,
    /// Places of each rule's fixed words in the piece at hand.
    places: Vec<Vec<usize>>,
    /// Per pattern, what rules a hit out.
    guards: Vec<GuardSearcher<'r>>,
    seen: Seen,
    /// Which piece is at hand.
    number: u64,
    /// Bytes that expressions were run on.
    tried: Cell<usize>,
}

/// The rules with fixed words in a piece, by what they are for.
#[derive(Default)]
struct Touched {
    success: Vec<usize>,
    failure: Vec<usize>,
    excuse: Vec<usize>,
    noise: Vec<(usize, usize)>,
    other: Vec<(usize, Owner)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl<'r> Scanner<'r> {
    pub(super) fn new(known: &'r Rules<'r>) -> Self {
        let [patterns, noise, clues, origins] = known.counts;
        let seen = Seen {
            patterns: vec![PatternSeen::default(); patterns],
            noise: vec![0; noise],
            clues: vec![false; clues],
            origins: vec![false; origins],
            empty: true,
            ..Seen::default()
        };
        Scanner {
            known,
            rules: known.all.iter().map(Searcher::new).collect(),
            done: vec![false; known.all.len()],
            filter: None,
            folded: Vec::new(),
            places: vec![Vec::new(); known.all.len()],
            guards: known.guards.iter().map(GuardSearcher::new).collect(),
            seen,
            number: 0,
            tried: Cell::new(0),
        }
    }

    pub(super) fn finish(self) -> Seen {
        self.seen
    }

    /// Looks through one piece.
    pub(super) fn take(&mut self, number: u64, piece: &Piece) -> Result<(), ExplainError> {
        self.number = number;
        self.seen.empty &= piece.text().is_empty();
        self.places.iter_mut().for_each(Vec::clear);
        self.folded.clear();
        self.folded.extend(piece.text().iter().map(|b| anchor::fold(*b)));
        let places = &mut self.places;
        let filter = self.filter.get_or_insert_with(|| self.known.anchors.filter(&self.done));
        self.known.anchors.find(&self.folded, filter, &self.done, |rule, at| {
            places.get_mut(rule).into_iter().for_each(|places| places.push(at));
        });
        // Words of one rule are found where they end.
        self.places.iter_mut().filter(|places| !places.is_sorted()).for_each(|places| places.sort_unstable());
        let touched = self.touched();
        let mut noise = Vec::new();
        for (rule, of) in &touched.noise {
            let ranges = self.ranges(*rule, piece)?;
            self.count_noise(*of, &ranges, piece);
            noise.extend(ranges);
        }
        let noise = Cover::new(noise);
        for (rule, owner) in &touched.other {
            self.note(*rule, *owner, piece, &noise)?;
        }
        self.note_ends(&touched, piece, &noise)
    }

    fn touched(&self) -> Touched {
        let mut touched = Touched::default();
        for (i, (rule, _)) in
            self.rules.iter().zip(&self.places).enumerate().filter(|(_, (_, p))| !p.is_empty())
        {
            match rule.rule.owner {
                Owner::Success => touched.success.push(i),
                Owner::Failure => touched.failure.push(i),
                Owner::NotFailure => touched.excuse.push(i),
                Owner::Noise(of) => touched.noise.push((i, of)),
                owner => touched.other.push((i, owner)),
            }
        }
        touched
    }

    /// Notes the piece's last success and failure, and the first failure if there was none before.
    fn note_ends(&mut self, touched: &Touched, piece: &Piece, noise: &Cover) -> Result<(), ExplainError> {
        let nothing = Cover::default();
        let success = self.outermost(End::Last, &touched.success, &[], piece, &nothing)?;
        self.seen.last_success = self.seen.last_success.max(success.map(|(_, (start, _))| piece.line(start)));
        if self.seen.first_failure.is_none() {
            let first = self.outermost(End::First, &touched.failure, &touched.excuse, piece, noise)?;
            self.seen.first_failure = first.map(|(rule, range)| hit(piece, self.number, range, rule, 1.0));
        }
        if let Some((rule, range)) =
            self.outermost(End::Last, &touched.failure, &touched.excuse, piece, noise)?
        {
            self.seen.last_failure = Some(hit(piece, self.number, range, rule, 1.0));
        }
        Ok(())
    }

    fn note(&mut self, rule: usize, owner: Owner, piece: &Piece, noise: &Cover) -> Result<(), ExplainError> {
        let there = match owner {
            Owner::Pattern(i) => return self.note_pattern(rule, i, piece, noise),
            // What has been seen once is not looked for again.
            Owner::Support(i) => self.seen.patterns.get_mut(i).map(|seen| &mut seen.supported),
            Owner::Clue(i) => self.seen.clues.get_mut(i),
            Owner::Origin(i) => self.seen.origins.get_mut(i),
            Owner::Noise(_) | Owner::NotFailure | Owner::Success | Owner::Failure => None,
        };
        let (Some(there), Some(of), Some(places)) = (there, self.rules.get(rule), self.places.get(rule))
        else {
            return Ok(());
        };
        if !*there {
            of.each(piece, places, &self.tried, |_| {
                *there = true;
                false
            })?;
        }
        if *there {
            self.finish_rule(rule);
        }
        Ok(())
    }

    fn note_pattern(
        &mut self,
        rule: usize,
        pattern: usize,
        piece: &Piece,
        noise: &Cover,
    ) -> Result<(), ExplainError> {
        let (Some(of), Some(places)) = (self.rules.get(rule), self.places.get(rule)) else { return Ok(()) };
        let (Some(guard), Some(seen)) = (self.guards.get_mut(pattern), self.seen.patterns.get_mut(pattern))
        else {
            return Ok(());
        };
        let mut failed = None;
        // A line that has a hit of this rule can have no other, and may go on for long.
        let had = |place: &usize| {
            let line = piece.only_line(*place);
            line.is_some_and(|line| seen.hits.iter().any(|h| h.rule == rule && h.line == line))
        };
        let new: Vec<usize>;
        let places = if seen.hits.is_empty() {
            places
        } else {
            new = places.iter().filter(|place| !had(place)).copied().collect();
            &new
        };
        of.each(piece, places, &self.tried, |range| {
            if noise.touches(range) {
                return true;
            }
            match guard.rules_out(piece, range) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            }
            let number = piece.line(range.0);
            // Pieces overlap: the same line is met twice.
            if !seen.hits.iter().any(|h| h.rule == rule && h.line == number) {
                seen.hits.push(hit(piece, self.number, range, rule, of.rule.factor));
            }
            seen.of_rule(rule) < KEEP
        })?;
        if seen.of_rule(rule) >= KEEP {
            self.finish_rule(rule);
        }
        failed.map_or(Ok(()), Err)
    }

    fn finish_rule(&mut self, rule: usize) {
        self.done.get_mut(rule).into_iter().for_each(|done| *done = true);
        self.filter = None;
    }

    /// All matches of a rule.
    fn ranges(&self, rule: usize, piece: &Piece) -> Result<Vec<Range>, ExplainError> {
        let mut ranges = Vec::new();
        if let (Some(of), Some(places)) = (self.rules.get(rule), self.places.get(rule)) {
            of.each(piece, places, &self.tried, |range| {
                ranges.push(range);
                true
            })?;
        }
        Ok(ranges)
    }

    /// Matches of some rules whose fixed words are in a part of the piece.
    fn within(
        &self,
        rules: &[usize],
        piece: &Piece,
        (start, end): Range,
        mut take: impl FnMut(usize, Range),
    ) -> Result<(), ExplainError> {
        for rule in rules {
            let (Some(of), Some(places)) = (self.rules.get(*rule), self.places.get(*rule)) else { continue };
            let from = places.partition_point(|p| *p < start);
            let to = places.partition_point(|p| *p < end);
            of.each(piece, places.get(from..to).unwrap_or_default(), &self.tried, |range| {
                take(*rule, range);
                true
            })?;
        }
        Ok(())
    }

    /// The first or the last match of any of `rules` that neither `noise` nor a match of `excuses` covers; looked for
    /// from that end of the piece in steps that double, since one is usually near.
    fn outermost(
        &self,
        which: End,
        rules: &[usize],
        excuses: &[usize],
        piece: &Piece,
        noise: &Cover,
    ) -> Result<Option<(usize, Range)>, ExplainError> {
        let length = piece.text().len();
        let (mut part, mut step) = ((0, 0), STEP);
        if rules.is_empty() {
            return Ok(None);
        }
        if which == End::Last {
            part = (length, length);
        }
        while (which == End::First && part.1 < length) || (which == End::Last && part.0 > 0) {
            part = match which {
                End::First => (part.1, piece.around(part.1 + step, 0).1.max(part.1 + 1)),
                End::Last => (piece.around(part.0.saturating_sub(step), 0).0, part.0),
            };
            step *= 2;
            let mut found: Vec<(u64, usize, Range)> = Vec::new();
            self.within(rules, piece, part, |rule, range| {
                if !noise.touches(range) {
                    found.push((piece.line(range.0), rule, range));
                }
            })?;
            if found.is_empty() {
                continue;
            }
            let near = (piece.around(part.0, REACH).0, piece.around(part.1, REACH).1);
            let mut covers = Vec::new();
            self.within(excuses, piece, near, |_, range| covers.push(range))?;
            let excused = Cover::new(covers);
            let real = found.into_iter().filter(|(_, _, range)| !excused.touches(*range));
            let best = match which {
                End::First => real.min(),
                End::Last => real.min_by_key(|found| Reverse(*found)),
            };
            if let Some((_, rule, range)) = best {
                return Ok(Some((rule, range)));
            }
        }
        Ok(None)
    }

    fn count_noise(&mut self, noise: usize, ranges: &[Range], piece: &Piece) {
        let Some(count) = self.seen.noise.get_mut(noise) else { return };
        // What lies wholly in what the piece repeats was counted with the one before.
        let new = ranges.iter().filter(|(_, end)| *end > piece.repeated());
        let mut lines: Vec<u64> = new.map(|(start, _)| piece.line(*start)).collect();
        lines.sort_unstable();
        lines.dedup();
        *count += lines.len();
    }
}

fn hit(piece: &Piece, number: u64, (start, end): Range, rule: usize, factor: f64) -> Hit {
    let (first, last) = piece.lines(start, end);
    let evidence = shown(piece.text().get(first..last).unwrap_or_default(), start - first, EVIDENCE);
    Hit { line: piece.line(start), evidence, factor, rule, piece: number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Knowledge, clean::pieces};

    /// Bytes that expressions were run on, per byte of a log; and the rules whose words are at its end.
    fn effort(log: &[u8]) -> (f64, Vec<String>) {
        let known = Knowledge::embedded();
        let rules = Rules::new(known.table());
        let mut scanner = Scanner::new(&rules);
        let read = pieces(log, &mut |piece| scanner.take(1, piece));
        assert!(matches!(read, Ok(Ok(()))), "{read:?}");
        let there = scanner.rules.iter().zip(&scanner.places).filter(|(_, places)| !places.is_empty());
        let there = there.map(|(rule, _)| rule.rule.words.to_owned()).collect();
        (scanner.tried.get() as f64 / log.len() as f64, there)
    }

    fn lines(line: impl Fn(usize) -> String) -> Vec<u8> {
        (0..20_000).map(|i| line(i) + "\n").collect::<String>().into_bytes()
    }

    /// Time depends on the machine; how often a byte is looked at does not.
    #[test]
    fn a_log_of_nothing_but_failures_is_looked_at_a_few_times() {
        let one = "CUDA error: out of memory, cudaErrorUnknown, failed to initialize NVML, no kernel image";
        let mut wrong = Vec::new();
        for (what, log, limit) in [
            ("training", lines(|i| format!("step {i} | loss 0.{i:05} | cuda memory 18.3 GiB")), 0.1),
            (
                "tracebacks",
                lines(|i| format!("Traceback (most recent call last):\n  line {i}\nKeyError: {i}")),
                0.1,
            ),
            ("failures", lines(|i| format!("[rank{}] RuntimeError: {one} {i}", i % 8)), 0.1),
            ("short", lines(|_| "cuda error".to_owned()), 0.1),
            (
                "ruled out",
                lines(|i| format!("killed process {i}: CUDA out of memory. Tried to allocate")),
                0.1,
            ),
            ("excused", lines(|i| format!("a.c:{i}: warning: no errors, error: none, 0 failed")), 4.0),
            ("one line", one.repeat(4_000).into_bytes(), 1.0),
        ] {
            let (effort, there) = effort(&log);
            if effort > limit {
                wrong.push(format!("{what}: {effort:.2} times; {there:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
