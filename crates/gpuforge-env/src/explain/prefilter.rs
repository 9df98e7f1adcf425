//! Literal prefilter: multi-pattern search for the required literals of all patterns in one pass (4-gram hash, Bloom-style
//! bitset, then verification).
//!
//! Compiling several hundred regexes dominates the run, and most logs contain the literals of a handful. So each pattern
//! is reduced to literals without which it cannot match ([`super::literals`]); one pass over the text finds them, and only
//! their regexes are compiled and run, only on the lines around. It plays the role of Aho-Corasick in other tools, with two
//! flat tables. Not chosen: one `RegexSet`, which took longer to build than everything else together.

use std::cmp::Reverse;

use super::literals::LiteralSplit;

/// Bytes of a literal that are hashed and looked up at once (a 4-gram).
pub(super) const GRAM_LEN: usize = 4;
/// Bytes by frequency in logs, the most frequent first.
const BYTES_BY_FREQUENCY: &[u8] = b" eatoinrsldcupm.f:/_hgv0b1y-2wk3x45jqz";
/// Bits of a 4-gram hash.
const HASH_BITS: u32 = 16;

/// The required literals of all patterns, indexed by the hash of their rarest 4-gram.
#[derive(Debug)]
pub(super) struct LiteralPrefilter {
    /// Sorted by the hash of their 4-gram.
    literals: Vec<Literal>,
    /// 4-gram hash → the first of `literals` with it.
    first: Vec<u16>,
}

/// Bitset over 4-gram hashes (Bloom-style): most positions of a text are rejected with one lookup.
#[derive(Debug)]
pub(super) struct GramFilter(Vec<u64>);

/// Number of patterns that contain each 4-gram: what many patterns share also occurs in many logs.
#[derive(Debug, Default)]
pub(super) struct GramCounts(Vec<u16>);

#[derive(Debug)]
struct Literal {
    hash: usize,
    rule: usize,
    folded: Vec<u8>,
    /// Where its 4-gram ends within the literal.
    end: usize,
}

impl GramCounts {
    pub(super) fn new<'w>(patterns: impl Iterator<Item = &'w str>) -> Self {
        let mut counts = vec![0u16; 1 << HASH_BITS];
        for pattern in patterns {
            for gram in pattern.as_bytes().windows(GRAM_LEN) {
                let count = counts.get_mut(hash(key(gram.iter().map(|b| fold(*b)))));
                count.into_iter().for_each(|count| *count = count.saturating_add(1));
            }
        }
        GramCounts(counts)
    }

    fn count(&self, gram: &[u8]) -> u16 {
        self.0.get(hash(key(gram.iter().map(|b| fold(*b))))).copied().unwrap_or(0)
    }

    /// Number of patterns that contain the rarest 4-gram of a literal.
    pub(super) fn rarest(&self, word: &[u8]) -> u16 {
        word.windows(GRAM_LEN).map(|gram| self.count(gram)).min().unwrap_or(u16::MAX)
    }
}

/// Case folding; newlines fold to spaces, since a message may be wrapped at any space.
pub(super) fn fold(byte: u8) -> u8 {
    if byte == b'\n' { b' ' } else { byte.to_ascii_lowercase() }
}

fn key(gram: impl Iterator<Item = u8>) -> u32 {
    gram.fold(0, |key, byte| key << 8 | u32::from(byte))
}

impl LiteralPrefilter {
    /// Indexes the literals of each rule. A rule without any is never found; the table check rejects such patterns.
    pub(super) fn new<'w>(rules: impl Iterator<Item = &'w [LiteralSplit]>, counts: &GramCounts) -> Self {
        let mut prefilter = LiteralPrefilter { literals: Vec::new(), first: vec![0; 1 << HASH_BITS] };
        for (rule, splits) in rules.enumerate() {
            for split in splits {
                prefilter.add(rule, &split.word, counts);
            }
        }
        prefilter.literals.sort_by_key(|word| word.hash);
        for (i, word) in prefilter.literals.iter().enumerate().rev() {
            if let (Some(first), Ok(i)) = (prefilter.first.get_mut(word.hash), u16::try_from(i)) {
                *first = i;
            }
        }
        prefilter
    }

    fn add(&mut self, rule: usize, word: &[u8], counts: &GramCounts) {
        let folded: Vec<u8> = word.iter().map(|b| fold(*b)).collect();
        let grams = folded.windows(GRAM_LEN).enumerate();
        let rarest = grams.min_by_key(|(_, gram)| (counts.count(gram), Reverse(rarity(gram))));
        let Some((start, gram)) = rarest else { return };
        let hash = hash(key(gram.iter().copied()));
        self.literals.push(Literal { hash, rule, folded, end: start + GRAM_LEN });
    }

    /// The bitset of the rules that are not `done`.
    pub(super) fn filter(&self, done: &[bool]) -> GramFilter {
        let mut filter = vec![0; 1 << (HASH_BITS - 6)];
        for word in self.literals.iter().filter(|word| done.get(word.rule) != Some(&true)) {
            if let Some(bits) = filter.get_mut(word.hash >> 6) {
                *bits |= 1 << (word.hash & 63);
            }
        }
        GramFilter(filter)
    }

    /// Calls `found` with each rule that is not `done` and the position of its literal; the positions of a rule are in
    /// order unless it has several literals. `folded` is case-folded text; the filter may have false positives.
    pub(super) fn find(
        &self,
        folded: &[u8],
        filter: &GramFilter,
        done: &[bool],
        mut found: impl FnMut(usize, usize),
    ) {
        let mut key = 0u32;
        for (i, byte) in folded.iter().enumerate() {
            key = key << 8 | u32::from(*byte);
            let hash = hash(key);
            if filter.0.get(hash >> 6).is_some_and(|bits| bits & 1 << (hash & 63) != 0) {
                self.verify(folded, hash, i + 1, done, &mut found);
            }
        }
    }

    fn verify(
        &self,
        folded: &[u8],
        hash: usize,
        end: usize,
        done: &[bool],
        found: &mut impl FnMut(usize, usize),
    ) {
        let first = self.first.get(hash).copied().map_or(0, usize::from);
        let same = self.literals.get(first..).unwrap_or_default().iter().take_while(|word| word.hash == hash);
        for word in same.filter(|word| done.get(word.rule) != Some(&true)) {
            let Some(start) = end.checked_sub(word.end) else { continue };
            if folded.get(start..start + word.folded.len()) == Some(&word.folded) {
                found(word.rule, start);
            }
        }
    }
}

fn hash(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

fn rarity(gram: &[u8]) -> usize {
    gram.iter()
        .map(|b| BYTES_BY_FREQUENCY.iter().position(|c| c == b).unwrap_or(BYTES_BY_FREQUENCY.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::{super::literals::literal_splits, *};

    #[test]
    fn literals_are_found_across_line_wraps_and_case() {
        let counts = GramCounts::default();
        let rules = ["out of memory", "of mem", "never there"]
            .map(|pattern| literal_splits(pattern, &counts).unwrap_or_default());
        let prefilter = LiteralPrefilter::new(rules.iter().map(Vec::as_slice), &counts);
        let mut found = Vec::new();
        let folded = b"CUDA OUT OF\nMEMORY".map(fold);
        prefilter.find(&folded, &prefilter.filter(&[]), &[], |rule, at| found.push((rule, at)));
        found.sort_unstable();
        assert_eq!(found, [(0, 5), (1, 9)]);
    }
}
