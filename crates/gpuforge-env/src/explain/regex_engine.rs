//! Regex engine for prefiltered text: `regex-automata` without its own prefilters, and lazy DFAs for the context of a literal.
//!
//! A log with many failures needs hundreds of regexes, so compile time matters: the engine's own prefilters, which skip text
//! without a match, are useless behind the literal prefilter and are not built. Where the length of a match is bounded, only
//! the bytes near the literal are searched.

use regex_automata::{
    Anchored, Input, MatchKind,
    hybrid::{
        LazyStateID,
        dfa::{self, DFA},
    },
    meta::{self, Cache},
    nfa::thompson::{self, WhichCaptures},
    util::syntax,
};

use super::{chunk::ByteRange, literals::LiteralSplit, prefilter};

/// Size limit of a compiled regex.
const SIZE_LIMIT: usize = 10 << 20;

fn syntax() -> syntax::Config {
    syntax::Config::new().case_insensitive(true).unicode(false).utf8(false)
}

/// A space in a pattern matches a space or a newline: tools wrap their messages.
fn rewritten(pattern: &str) -> String {
    pattern.replace(' ', "[ \\n]")
}

/// A compiled regex of one or several patterns.
#[derive(Debug)]
pub(super) struct CompiledRegex {
    regex: meta::Regex,
    /// Max length of a match in bytes.
    max_len: usize,
}

impl CompiledRegex {
    /// Compiles the alternation of `patterns`, case-insensitive.
    pub(super) fn new<'w>(patterns: impl Iterator<Item = &'w str>) -> Result<Self, regex::Error> {
        let mut parsed = Vec::new();
        for pattern in patterns {
            let hir = syntax::parse_with(&rewritten(pattern), &syntax());
            parsed.push(hir.map_err(|error| regex::Error::Syntax(error.to_string()))?);
        }
        let max_len = parsed.iter().map(|hir| hir.properties().maximum_len().unwrap_or(usize::MAX)).max();
        let config = meta::Config::new()
            .utf8_empty(false)
            .which_captures(WhichCaptures::Implicit)
            .nfa_size_limit(Some(SIZE_LIMIT))
            .auto_prefilter(false)
            .onepass(false)
            .backtrack(false);
        let regex = meta::Builder::new().configure(config).build_many_from_hir(&parsed);
        let regex = regex.map_err(|error| match error.size_limit() {
            Some(limit) => regex::Error::CompiledTooBig(limit),
            None => regex::Error::Syntax(error.to_string()),
        })?;
        Ok(CompiledRegex { regex, max_len: max_len.unwrap_or(0) })
    }

    /// Scratch space of a search; one per thread.
    pub(super) fn cache(&self) -> Cache {
        self.regex.create_cache()
    }

    pub(super) fn is_match(&self, cache: &mut Cache, text: &[u8]) -> bool {
        self.regex.search_half_with(cache, &Input::new(text).earliest(true)).is_some()
    }

    /// The part of `around` that a match containing the byte at `place` can reach.
    pub(super) fn reachable(&self, place: usize, around: ByteRange) -> ByteRange {
        (around.0.max(place.saturating_sub(self.max_len)), around.1.min(place.saturating_add(self.max_len)))
    }

    /// Adds the matches around `places` in a window of `text` to `found`; returns how many bytes were searched. These are all
    /// matches of the window, since every match contains a literal.
    pub(super) fn find(
        &self,
        cache: &mut Cache,
        text: &[u8],
        window: ByteRange,
        places: &[usize],
        found: &mut Vec<ByteRange>,
    ) -> usize {
        let haystack = text.get(window.0..window.1).unwrap_or_default();
        let mut parts = places.iter().map(|place| self.reachable(*place, window)).peekable();
        let mut bytes_scanned = 0;
        while let Some((start, mut end)) = parts.next() {
            while let Some(next) = parts.next_if(|next| next.0 <= end) {
                end = end.max(next.1);
            }
            if end <= start {
                continue;
            }
            bytes_scanned += end - start;
            let mut input = Input::new(haystack).span(start - window.0..end - window.0);
            while let Some(m) = self.regex.search_with(cache, &input) {
                found.push((m.start() + window.0, m.end() + window.0));
                let from = m.end().max(m.start() + 1);
                if from > input.end() {
                    break;
                }
                input.set_start(from);
            }
        }
        bytes_scanned
    }
}

/// Lazy DFAs of the sub-patterns before (reversed) and after a literal: most positions are rejected within a few bytes, before
/// the full regex runs.
#[derive(Debug)]
pub(super) struct ContextDfas {
    literal: Vec<u8>,
    skip: usize,
    before: DFA,
    after: DFA,
}

/// Scratch space of the context DFAs; one per thread.
pub(super) struct ContextDfaCache {
    before: dfa::Cache,
    after: dfa::Cache,
    /// Bytes read.
    pub(super) bytes_scanned: usize,
}

impl ContextDfas {
    /// `None` where the pattern cannot be split at its literal.
    pub(super) fn new(split: &LiteralSplit) -> Option<Self> {
        let (before, after) = split.parts.as_ref()?;
        let side = |pattern: &str, reverse| {
            let config = thompson::Config::new().reverse(reverse).which_captures(WhichCaptures::None);
            let kind = DFA::config().match_kind(MatchKind::All);
            DFA::builder().syntax(syntax()).thompson(config).configure(kind).build(&rewritten(pattern)).ok()
        };
        let literal = split.word.iter().map(|b| prefilter::fold(*b)).collect();
        Some(ContextDfas {
            literal,
            skip: split.skip,
            before: side(before, true)?,
            after: side(after, false)?,
        })
    }

    pub(super) fn cache(&self) -> ContextDfaCache {
        ContextDfaCache {
            before: self.before.create_cache(),
            after: self.after.create_cache(),
            bytes_scanned: 0,
        }
    }

    /// Is this literal at the position? A pattern may have several.
    pub(super) fn is_at(&self, text: &[u8], place: usize) -> bool {
        let there = text.get(place..place + self.literal.len());
        there.is_some_and(|there| there.iter().map(|b| prefilter::fold(*b)).eq(self.literal.iter().copied()))
    }

    /// Can a match within the rows `within` have its literal at this position of `row`?
    pub(super) fn possibility(
        &self,
        cache: &mut ContextDfaCache,
        text: &[u8],
        place: usize,
        row: ByteRange,
        within: ByteRange,
    ) -> MatchPossibility {
        let input = Input::new(text).anchored(Anchored::Yes);
        let from = place + self.skip;
        let span = input.clone().span(from..within.1.max(from));
        let ended = match self.after.start_state_forward(&mut cache.after, &span) {
            Ok(start) => walk(&self.after, &mut cache.after, start, text, from..=within.1.max(from)),
            Err(_) => None,
        };
        cache.bytes_scanned += ended.map_or(0, |at| at.saturating_sub(from)) + 1;
        if let Some(at) = ended {
            return if at < row.1 { MatchPossibility::Never } else { MatchPossibility::NotHere };
        }
        let first = within.0.min(place);
        let ended = match self.before.start_state_reverse(&mut cache.before, &input.span(first..place)) {
            Ok(start) => {
                let back = (first.saturating_sub(1)..place).rev();
                walk(&self.before, &mut cache.before, start, text, back)
            }
            Err(_) => None,
        };
        cache.bytes_scanned += ended.map_or(0, |at| place.saturating_sub(at)) + 1;
        ended.map_or(MatchPossibility::Yes, |at| {
            if at >= row.0 { MatchPossibility::Never } else { MatchPossibility::NotHere }
        })
    }
}

/// Whether a match is possible at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchPossibility {
    /// Not in this row, whatever its context.
    Never,
    /// Not with its current context.
    NotHere,
    /// Possible, or undecided.
    Yes,
}

/// Runs the DFA over `bytes`; returns where it died, `None` if a match is possible. The last byte is the one after those
/// that may belong to a match, if there is one.
fn walk(
    dfa: &DFA,
    cache: &mut dfa::Cache,
    start: LazyStateID,
    text: &[u8],
    bytes: impl Iterator<Item = usize>,
) -> Option<usize> {
    // DFA match states are delayed by one byte, so an empty context still reads one.
    let (mut state, mut last) = (start, 0);
    for at in bytes {
        last = at;
        let next = match text.get(at) {
            Some(byte) => dfa.next_state(cache, state, *byte),
            None => dfa.next_eoi_state(cache, state),
        };
        state = next.ok()?;
        if state.is_tagged() {
            if state.is_dead() {
                return Some(at);
            }
            if state.is_match() || state.is_quit() {
                return None;
            }
        }
    }
    // At the edge of the text, a match may depend on the end-of-input transition.
    let end = dfa.next_eoi_state(cache, state);
    if end.is_ok_and(|end| end.is_match()) { None } else { Some(last) }
}
