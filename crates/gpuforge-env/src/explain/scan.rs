//! Log scanner: literal prefilter over each chunk, then regexes only around the literals; collects hits per pattern.
//!
//! A log may consist of failures only and must not be slower: a rule with [`MAX_HITS`] hits is retired, only the first and last
//! failure and the last success are searched, from the ends of a chunk in doubling steps, and no regex runs twice on the same
//! line.

use std::{cell::Cell, cmp::Reverse, collections::BTreeSet};

use super::{
    ExplainError,
    chunk::{ByteRange, LogChunk},
    clean::excerpt,
    prefilter::{self, GramFilter},
    rule::{RangeSet, RuleOwner, RuleSet},
    search::{GuardMatcher, RuleSearcher},
};

/// Max hits kept per rule; more change nothing.
const MAX_HITS: usize = 4;
/// Max bytes of a line kept as evidence.
const EVIDENCE: usize = 320;
/// Bytes at the end of a chunk that are searched first for its last failure.
const FIRST_STEP: usize = 1 << 10;
/// Max lines between a failure and the far end of a `not_failure` match.
const EXCUSE_LINES: usize = 4;

/// A hit of a rule in the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hit {
    pub(super) line: u64,
    pub(super) evidence: String,
    pub(super) factor: f64,
    rule: usize,
    /// Number of the chunk it was found in.
    chunk: u64,
}

/// Hits of one pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternHits {
    pub(super) hits: Vec<Hit>,
    pub(super) supported: bool,
}

impl PatternHits {
    /// Number of distinct wordings that matched; two in one line count once.
    pub(super) fn wordings(&self) -> usize {
        let rules: BTreeSet<usize> = self.hits.iter().map(|h| h.rule).collect();
        let lines: BTreeSet<u64> = self.hits.iter().map(|h| h.line).collect();
        rules.len().min(lines.len())
    }

    fn of_rule(&self, rule: usize) -> usize {
        self.hits.iter().filter(|h| h.rule == rule).count()
    }
}

/// Result of a scan.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    pub(super) patterns: Vec<PatternHits>,
    /// Lines with each benign message.
    pub(super) noise: Vec<usize>,
    pub(super) clues: Vec<bool>,
    pub(super) origins: Vec<bool>,
    pub(super) last_success: Option<u64>,
    pub(super) first_failure: Option<Hit>,
    pub(super) last_failure: Option<Hit>,
    pub(super) empty: bool,
}

impl ScanResult {
    /// Merges the result of another worker, from other chunks of the same log.
    pub(super) fn join(&mut self, other: ScanResult) {
        for (own, more) in self.patterns.iter_mut().zip(other.patterns) {
            own.supported |= more.supported;
            own.hits.extend(more.hits);
            // Log order and MAX_HITS, as a single thread would have found them.
            own.hits.sort_by_key(|h| h.chunk);
            let mut kept: Vec<Hit> = Vec::new();
            for hit in own.hits.drain(..) {
                let of_rule = kept.iter().filter(|h| h.rule == hit.rule);
                let again = of_rule.clone().any(|h| h.line == hit.line);
                if !again && of_rule.count() < MAX_HITS {
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
        self.first_failure = firsts.min_by_key(|h| h.chunk);
        let lasts = [self.last_failure.take(), other.last_failure].into_iter().flatten();
        self.last_failure = lasts.max_by_key(|h| h.chunk);
        self.empty &= other.empty;
    }
}

/// Scanner state of one thread.
pub(super) struct Scanner<'r> {
    known: &'r RuleSet<'r>,
    rules: Vec<RuleSearcher<'r>>,
    /// Rules that need no further search.
    retired: Vec<bool>,
    /// Gram filter of the rules that are not retired; `None` when it has to be rebuilt.
    filter: Option<GramFilter>,
    /// The current chunk, case-folded.
    folded: Vec<u8>,
    /// Positions of each rule's literals in the current chunk.
    places: Vec<Vec<usize>>,
    /// Exclusion guard of each pattern.
    guards: Vec<GuardMatcher<'r>>,
    seen: ScanResult,
    /// Number of the current chunk.
    number: u64,
    /// Bytes that regexes were run on.
    bytes_tried: Cell<usize>,
}

/// Rules with literals in a chunk, by owner.
#[derive(Default)]
struct CandidateRules {
    success: Vec<usize>,
    failure: Vec<usize>,
    excuse: Vec<usize>,
    noise: Vec<(usize, usize)>,
    other: Vec<(usize, RuleOwner)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogEnd {
    First,
    Last,
}

impl<'r> Scanner<'r> {
    pub(super) fn new(known: &'r RuleSet<'r>) -> Self {
        let [patterns, noise, clues, origins] = known.counts;
        let seen = ScanResult {
            patterns: vec![PatternHits::default(); patterns],
            noise: vec![0; noise],
            clues: vec![false; clues],
            origins: vec![false; origins],
            empty: true,
            ..ScanResult::default()
        };
        Scanner {
            known,
            rules: known.all.iter().map(RuleSearcher::new).collect(),
            retired: vec![false; known.all.len()],
            filter: None,
            folded: Vec::new(),
            places: vec![Vec::new(); known.all.len()],
            guards: known.guards.iter().map(GuardMatcher::new).collect(),
            seen,
            number: 0,
            bytes_tried: Cell::new(0),
        }
    }

    pub(super) fn finish(self) -> ScanResult {
        self.seen
    }

    /// Scans one chunk.
    pub(super) fn scan_chunk(&mut self, number: u64, chunk: &LogChunk) -> Result<(), ExplainError> {
        self.number = number;
        self.seen.empty &= chunk.text().is_empty();
        self.places.iter_mut().for_each(Vec::clear);
        self.folded.clear();
        self.folded.extend(chunk.text().iter().map(|b| prefilter::fold(*b)));
        let places = &mut self.places;
        let filter = self.filter.get_or_insert_with(|| self.known.prefilter.filter(&self.retired));
        self.known.prefilter.find(&self.folded, filter, &self.retired, |rule, at| {
            places.get_mut(rule).into_iter().for_each(|places| places.push(at));
        });
        // Literals of one rule are found in the order of their ends.
        self.places.iter_mut().filter(|places| !places.is_sorted()).for_each(|places| places.sort_unstable());
        let candidates = self.candidates();
        let mut noise = Vec::new();
        for (rule, of) in &candidates.noise {
            let ranges = self.ranges(*rule, chunk)?;
            self.count_noise(*of, &ranges, chunk);
            noise.extend(ranges);
        }
        let noise = RangeSet::new(noise);
        for (rule, owner) in &candidates.other {
            self.record(*rule, *owner, chunk, &noise)?;
        }
        self.record_failures(&candidates, chunk, &noise)
    }

    fn candidates(&self) -> CandidateRules {
        let mut candidates = CandidateRules::default();
        for (i, (rule, _)) in
            self.rules.iter().zip(&self.places).enumerate().filter(|(_, (_, p))| !p.is_empty())
        {
            match rule.rule.owner {
                RuleOwner::Success => candidates.success.push(i),
                RuleOwner::Failure => candidates.failure.push(i),
                RuleOwner::NotFailure => candidates.excuse.push(i),
                RuleOwner::Noise(of) => candidates.noise.push((i, of)),
                owner => candidates.other.push((i, owner)),
            }
        }
        candidates
    }

    /// Records the chunk's last success and failure, and the first failure of the log.
    fn record_failures(
        &mut self,
        candidates: &CandidateRules,
        chunk: &LogChunk,
        noise: &RangeSet,
    ) -> Result<(), ExplainError> {
        let nothing = RangeSet::default();
        let success = self.find_outermost(LogEnd::Last, &candidates.success, &[], chunk, &nothing)?;
        self.seen.last_success = self.seen.last_success.max(success.map(|(_, (start, _))| chunk.line(start)));
        if self.seen.first_failure.is_none() {
            let first =
                self.find_outermost(LogEnd::First, &candidates.failure, &candidates.excuse, chunk, noise)?;
            self.seen.first_failure = first.map(|(rule, range)| hit(chunk, self.number, range, rule, 1.0));
        }
        if let Some((rule, range)) =
            self.find_outermost(LogEnd::Last, &candidates.failure, &candidates.excuse, chunk, noise)?
        {
            self.seen.last_failure = Some(hit(chunk, self.number, range, rule, 1.0));
        }
        Ok(())
    }

    fn record(
        &mut self,
        rule: usize,
        owner: RuleOwner,
        chunk: &LogChunk,
        noise: &RangeSet,
    ) -> Result<(), ExplainError> {
        let there = match owner {
            RuleOwner::Pattern(i) => return self.record_pattern(rule, i, chunk, noise),
            // One hit is enough.
            RuleOwner::Support(i) => self.seen.patterns.get_mut(i).map(|seen| &mut seen.supported),
            RuleOwner::Clue(i) => self.seen.clues.get_mut(i),
            RuleOwner::Origin(i) => self.seen.origins.get_mut(i),
            RuleOwner::Noise(_) | RuleOwner::NotFailure | RuleOwner::Success | RuleOwner::Failure => None,
        };
        let (Some(there), Some(of), Some(places)) = (there, self.rules.get(rule), self.places.get(rule))
        else {
            return Ok(());
        };
        if !*there {
            of.each(chunk, places, &self.bytes_tried, |_| {
                *there = true;
                false
            })?;
        }
        if *there {
            self.retire_rule(rule);
        }
        Ok(())
    }

    fn record_pattern(
        &mut self,
        rule: usize,
        pattern: usize,
        chunk: &LogChunk,
        noise: &RangeSet,
    ) -> Result<(), ExplainError> {
        let (Some(of), Some(places)) = (self.rules.get(rule), self.places.get(rule)) else { return Ok(()) };
        let (Some(guard), Some(seen)) = (self.guards.get_mut(pattern), self.seen.patterns.get_mut(pattern))
        else {
            return Ok(());
        };
        let mut failed = None;
        // A line with a hit of this rule needs no other, and may be long.
        let had = |place: &usize| {
            let line = chunk.only_line(*place);
            line.is_some_and(|line| seen.hits.iter().any(|h| h.rule == rule && h.line == line))
        };
        let new: Vec<usize>;
        let places = if seen.hits.is_empty() {
            places
        } else {
            new = places.iter().filter(|place| !had(place)).copied().collect();
            &new
        };
        of.each(chunk, places, &self.bytes_tried, |range| {
            if noise.touches(range) {
                return true;
            }
            match guard.rules_out(chunk, range) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            }
            let number = chunk.line(range.0);
            // Chunks overlap: the same line may be seen twice.
            if !seen.hits.iter().any(|h| h.rule == rule && h.line == number) {
                seen.hits.push(hit(chunk, self.number, range, rule, of.rule.factor));
            }
            seen.of_rule(rule) < MAX_HITS
        })?;
        if seen.of_rule(rule) >= MAX_HITS {
            self.retire_rule(rule);
        }
        failed.map_or(Ok(()), Err)
    }

    fn retire_rule(&mut self, rule: usize) {
        self.retired.get_mut(rule).into_iter().for_each(|retired| *retired = true);
        self.filter = None;
    }

    /// All matches of a rule.
    fn ranges(&self, rule: usize, chunk: &LogChunk) -> Result<Vec<ByteRange>, ExplainError> {
        let mut ranges = Vec::new();
        if let (Some(of), Some(places)) = (self.rules.get(rule), self.places.get(rule)) {
            of.each(chunk, places, &self.bytes_tried, |range| {
                ranges.push(range);
                true
            })?;
        }
        Ok(ranges)
    }

    /// Matches of some rules whose literals are in a part of the chunk.
    fn within(
        &self,
        rules: &[usize],
        chunk: &LogChunk,
        (start, end): ByteRange,
        mut take: impl FnMut(usize, ByteRange),
    ) -> Result<(), ExplainError> {
        for rule in rules {
            let (Some(of), Some(places)) = (self.rules.get(*rule), self.places.get(*rule)) else { continue };
            let from = places.partition_point(|p| *p < start);
            let to = places.partition_point(|p| *p < end);
            of.each(chunk, places.get(from..to).unwrap_or_default(), &self.bytes_tried, |range| {
                take(*rule, range);
                true
            })?;
        }
        Ok(())
    }

    /// The first or the last match of any of `rules` that neither `noise` nor a match of `excuses` covers; searched
    /// from that end of the chunk in steps that double, since one is usually near.
    fn find_outermost(
        &self,
        which: LogEnd,
        rules: &[usize],
        excuses: &[usize],
        chunk: &LogChunk,
        noise: &RangeSet,
    ) -> Result<Option<(usize, ByteRange)>, ExplainError> {
        let length = chunk.text().len();
        let (mut part, mut step) = ((0, 0), FIRST_STEP);
        if rules.is_empty() {
            return Ok(None);
        }
        if which == LogEnd::Last {
            part = (length, length);
        }
        while (which == LogEnd::First && part.1 < length) || (which == LogEnd::Last && part.0 > 0) {
            part = match which {
                LogEnd::First => (part.1, chunk.around(part.1 + step, 0).1.max(part.1 + 1)),
                LogEnd::Last => (chunk.around(part.0.saturating_sub(step), 0).0, part.0),
            };
            step *= 2;
            let mut found: Vec<(u64, usize, ByteRange)> = Vec::new();
            self.within(rules, chunk, part, |rule, range| {
                if !noise.touches(range) {
                    found.push((chunk.line(range.0), rule, range));
                }
            })?;
            if found.is_empty() {
                continue;
            }
            let near = (chunk.around(part.0, EXCUSE_LINES).0, chunk.around(part.1, EXCUSE_LINES).1);
            let mut covers = Vec::new();
            self.within(excuses, chunk, near, |_, range| covers.push(range))?;
            let excused = RangeSet::new(covers);
            let real = found.into_iter().filter(|(_, _, range)| !excused.touches(*range));
            let best = match which {
                LogEnd::First => real.min(),
                LogEnd::Last => real.min_by_key(|found| Reverse(*found)),
            };
            if let Some((_, rule, range)) = best {
                return Ok(Some((rule, range)));
            }
        }
        Ok(None)
    }

    fn count_noise(&mut self, noise: usize, ranges: &[ByteRange], chunk: &LogChunk) {
        let Some(count) = self.seen.noise.get_mut(noise) else { return };
        // Matches within the overlap were counted with the previous chunk.
        let new = ranges.iter().filter(|(_, end)| *end > chunk.repeated());
        let mut lines: Vec<u64> = new.map(|(start, _)| chunk.line(*start)).collect();
        lines.sort_unstable();
        lines.dedup();
        *count += lines.len();
    }
}

fn hit(chunk: &LogChunk, number: u64, (start, end): ByteRange, rule: usize, factor: f64) -> Hit {
    let (first, last) = chunk.lines(start, end);
    let evidence = excerpt(chunk.text().get(first..last).unwrap_or_default(), start - first, EVIDENCE);
    Hit { line: chunk.line(start), evidence, factor, rule, chunk: number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{PatternDb, clean::chunks};

    /// Bytes that regexes were run on, per byte of a log; and the rules with literals in its last chunk.
    fn effort(log: &[u8]) -> (f64, Vec<String>) {
        let known = PatternDb::embedded();
        let rules = RuleSet::new(known.table());
        let mut scanner = Scanner::new(&rules);
        let read = chunks(log, &mut |chunk| scanner.scan_chunk(1, chunk));
        assert!(matches!(read, Ok(Ok(()))), "{read:?}");
        let there = scanner.rules.iter().zip(&scanner.places).filter(|(_, places)| !places.is_empty());
        let there = there.map(|(rule, _)| rule.rule.pattern.to_owned()).collect();
        (scanner.bytes_tried.get() as f64 / log.len() as f64, there)
    }

    fn lines(line: impl Fn(usize) -> String) -> Vec<u8> {
        (0..20_000).map(|i| line(i) + "\n").collect::<String>().into_bytes()
    }

    /// Time depends on the machine; bytes searched per byte of log do not.
    #[test]
    fn a_log_of_failures_only_is_searched_few_times() {
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
