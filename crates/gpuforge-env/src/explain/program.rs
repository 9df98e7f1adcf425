//! How is an expression compiled and run? For text in which its fixed words are known to stand.
//!
//! A log of many failures needs hundreds of expressions, so that compiling them is a good part of reading it: what a general
//! engine prepares to skip text without a match (prefilters) has no use here, and is not built. And where nothing a match
//! consists of can repeat without end, only the bytes near the fixed words are looked at.

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

use super::{
    anchor::{self, Split},
    clean::Range,
};

/// Bytes that a compiled expression may take.
const SIZE_LIMIT: usize = 10 << 20;

fn syntax() -> syntax::Config {
    syntax::Config::new().case_insensitive(true).unicode(false).utf8(false)
}

/// A blank in a pattern is a space or a newline: tools wrap their messages.
fn rewritten(words: &str) -> String {
    words.replace(' ', "[ \\n]")
}

/// One expression, or several of which any may match.
#[derive(Debug)]
pub(super) struct Program {
    regex: meta::Regex,
    /// The most bytes that a match has.
    reach: usize,
}

impl Program {
    /// Compiles what any of `words` match, without regard to case.
    pub(super) fn new<'w>(words: impl Iterator<Item = &'w str>) -> Result<Self, regex::Error> {
        let mut parsed = Vec::new();
        for words in words {
            let hir = syntax::parse_with(&rewritten(words), &syntax());
            parsed.push(hir.map_err(|error| regex::Error::Syntax(error.to_string()))?);
        }
        let reach = parsed.iter().map(|hir| hir.properties().maximum_len().unwrap_or(usize::MAX)).max();
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
        Ok(Program { regex, reach: reach.unwrap_or(0) })
    }

    /// What a search writes to; of one thread.
    pub(super) fn cache(&self) -> Cache {
        self.regex.create_cache()
    }

    pub(super) fn is_match(&self, cache: &mut Cache, text: &[u8]) -> bool {
        self.regex.search_half_with(cache, &Input::new(text).earliest(true)).is_some()
    }

    /// The part of `around` that a match with the byte at `place` can lie in.
    pub(super) fn near(&self, place: usize, around: Range) -> Range {
        (around.0.max(place.saturating_sub(self.reach)), around.1.min(place.saturating_add(self.reach)))
    }

    /// Adds the matches with any of `places` in a window of `text` to `found`; says how many bytes it looked at. They are
    /// those of the whole window: one that has none of the fixed words there is none.
    pub(super) fn find(
        &self,
        cache: &mut Cache,
        text: &[u8],
        window: Range,
        places: &[usize],
        found: &mut Vec<Range>,
    ) -> usize {
        let haystack = text.get(window.0..window.1).unwrap_or_default();
        let mut parts = places.iter().map(|place| self.near(*place, window)).peekable();
        let mut looked = 0;
        while let Some((start, mut end)) = parts.next() {
            while let Some(next) = parts.next_if(|next| next.0 <= end) {
                end = end.max(next.1);
            }
            if end <= start {
                continue;
            }
            looked += end - start;
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
        looked
    }
}

/// What an expression asks of the text on both sides of its fixed word: most places fail within a few bytes, without a look
/// at the rest of the line.
#[derive(Debug)]
pub(super) struct Sides {
    word: Vec<u8>,
    skip: usize,
    before: DFA,
    after: DFA,
}

/// What looking at the sides writes to; of one thread.
pub(super) struct SidesCache {
    before: dfa::Cache,
    after: dfa::Cache,
    /// Bytes that were looked at.
    pub(super) looked: usize,
}

impl Sides {
    /// Nothing where a split does not say what its sides are.
    pub(super) fn new(split: &Split) -> Option<Self> {
        let (before, after) = split.parts.as_ref()?;
        let side = |words: &str, reverse| {
            let config = thompson::Config::new().reverse(reverse).which_captures(WhichCaptures::None);
            let kind = DFA::config().match_kind(MatchKind::All);
            DFA::builder().syntax(syntax()).thompson(config).configure(kind).build(&rewritten(words)).ok()
        };
        let word = split.word.iter().map(|b| anchor::fold(*b)).collect();
        Some(Sides { word, skip: split.skip, before: side(before, true)?, after: side(after, false)? })
    }

    pub(super) fn cache(&self) -> SidesCache {
        SidesCache { before: self.before.create_cache(), after: self.after.create_cache(), looked: 0 }
    }

    /// Is it this word that stands at a place? A pattern may have several.
    pub(super) fn is_at(&self, text: &[u8], place: usize) -> bool {
        let there = text.get(place..place + self.word.len());
        there.is_some_and(|there| there.iter().map(|b| anchor::fold(*b)).eq(self.word.iter().copied()))
    }

    /// Can a match within some rows, `within`, have its fixed word at this place in one of them?
    pub(super) fn allow(
        &self,
        cache: &mut SidesCache,
        text: &[u8],
        place: usize,
        row: Range,
        within: Range,
    ) -> Allowed {
        let input = Input::new(text).anchored(Anchored::Yes);
        let from = place + self.skip;
        let span = input.clone().span(from..within.1.max(from));
        let ended = match self.after.start_state_forward(&mut cache.after, &span) {
            Ok(start) => walk(&self.after, &mut cache.after, start, text, from..=within.1.max(from)),
            Err(_) => None,
        };
        cache.looked += ended.map_or(0, |at| at.saturating_sub(from)) + 1;
        if let Some(at) = ended {
            return if at < row.1 { Allowed::Never } else { Allowed::NotHere };
        }
        let first = within.0.min(place);
        let ended = match self.before.start_state_reverse(&mut cache.before, &input.span(first..place)) {
            Ok(start) => {
                let back = (first.saturating_sub(1)..place).rev();
                walk(&self.before, &mut cache.before, start, text, back)
            }
            Err(_) => None,
        };
        cache.looked += ended.map_or(0, |at| place.saturating_sub(at)) + 1;
        ended.map_or(Allowed::Yes, |at| if at >= row.0 { Allowed::Never } else { Allowed::NotHere })
    }
}

/// May there be a match?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Allowed {
    /// Not in this row, whatever is around it.
    Never,
    /// Not with the rows that are around it.
    NotHere,
    /// Yes, or it cannot be told.
    Yes,
}

/// Follows bytes of a text until it is sure that there is no match, and says where; nothing if there is one.
/// The last byte is the one behind those that may belong to a match, if there is one.
fn walk(
    dfa: &DFA,
    cache: &mut dfa::Cache,
    start: LazyStateID,
    text: &[u8],
    bytes: impl Iterator<Item = usize>,
) -> Option<usize> {
    // Of a match with nothing before or after its word nothing has to be read, but a state tells of it a byte later.
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
    // Nothing comes before the text: its end is what a match may wait for.
    let end = dfa.next_eoi_state(cache, state);
    if end.is_ok_and(|end| end.is_match()) { None } else { Some(last) }
}
