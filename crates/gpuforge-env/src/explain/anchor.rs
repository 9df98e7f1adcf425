//! Which fixed words must a text hold for a pattern to match, and where are they?
//!
//! Compiling five hundred patterns takes a fifth of a second, and most logs hold the words of a handful. So each pattern is
//! reduced to fixed words without which it cannot match; one pass over the text finds those, and only their patterns are
//! compiled and tried, only on the lines around. Not chosen: one `RegexSet`, which took 190 ms to build.

use std::cmp::Reverse;

/// Letters of a fixed word that are looked up at once.
const GRAM: usize = 4;
/// Letters by how common they are in logs, the commonest first.
const COMMON: &[u8] = b" eatoinrsldcupm.f:/_hgv0b1y-2wk3x45jqz";
const SLOTS: u32 = 16;

/// The fixed words of all patterns.
#[derive(Debug)]
pub(super) struct Anchors {
    /// In the order of their four letters' hash.
    words: Vec<Word>,
    /// Hash of four letters → the first of `words` that has it.
    first: Vec<u16>,
}

/// One bit a hash of four letters, so that most of a text is passed at a look each.
#[derive(Debug)]
pub(super) struct Filter(Vec<u64>);

/// In how many patterns four letters stand: what many patterns share stands in many logs.
#[derive(Debug, Default)]
pub(super) struct Shared(Vec<u16>);

#[derive(Debug)]
struct Word {
    hash: usize,
    rule: usize,
    folded: Vec<u8>,
    /// Where its four letters end in it.
    end: usize,
}

impl Shared {
    pub(super) fn new<'w>(patterns: impl Iterator<Item = &'w str>) -> Self {
        let mut counts = vec![0u16; 1 << SLOTS];
        for pattern in patterns {
            for gram in pattern.as_bytes().windows(GRAM) {
                let count = counts.get_mut(hash(key(gram.iter().map(|b| fold(*b)))));
                count.into_iter().for_each(|count| *count = count.saturating_add(1));
            }
        }
        Shared(counts)
    }

    fn count(&self, gram: &[u8]) -> u16 {
        self.0.get(hash(key(gram.iter().map(|b| fold(*b))))).copied().unwrap_or(0)
    }

    /// In how many patterns the rarest part of a word stands.
    fn rarest(&self, word: &[u8]) -> u16 {
        word.windows(GRAM).map(|gram| self.count(gram)).min().unwrap_or(u16::MAX)
    }
}

/// Without regard to case; a message may be wrapped at any blank.
pub(super) fn fold(byte: u8) -> u8 {
    if byte == b'\n' { b' ' } else { byte.to_ascii_lowercase() }
}

fn key(gram: impl Iterator<Item = u8>) -> u32 {
    gram.fold(0, |key, byte| key << 8 | u32::from(byte))
}

impl Anchors {
    /// The fixed words of each rule; one without any is never found, which [`fixed`] tells beforehand.
    pub(super) fn new<'w>(rules: impl Iterator<Item = &'w [Split]>, shared: &Shared) -> Self {
        let mut anchors = Anchors { words: Vec::new(), first: vec![0; 1 << SLOTS] };
        for (rule, splits) in rules.enumerate() {
            for split in splits {
                anchors.add(rule, &split.word, shared);
            }
        }
        anchors.words.sort_by_key(|word| word.hash);
        for (i, word) in anchors.words.iter().enumerate().rev() {
            if let (Some(first), Ok(i)) = (anchors.first.get_mut(word.hash), u16::try_from(i)) {
                *first = i;
            }
        }
        anchors
    }

    fn add(&mut self, rule: usize, word: &[u8], shared: &Shared) {
        let folded: Vec<u8> = word.iter().map(|b| fold(*b)).collect();
        let grams = folded.windows(GRAM).enumerate();
        let rarest = grams.min_by_key(|(_, gram)| (shared.count(gram), Reverse(rarity(gram))));
        let Some((start, gram)) = rarest else { return };
        let hash = hash(key(gram.iter().copied()));
        self.words.push(Word { hash, rule, folded, end: start + GRAM });
    }

    /// What lets the words of rules pass that are not `done`.
    pub(super) fn filter(&self, done: &[bool]) -> Filter {
        let mut filter = vec![0; 1 << (SLOTS - 6)];
        for word in self.words.iter().filter(|word| done.get(word.rule) != Some(&true)) {
            if let Some(bits) = filter.get_mut(word.hash >> 6) {
                *bits |= 1 << (word.hash & 63);
            }
        }
        Filter(filter)
    }

    /// Calls `found` with a rule that is not `done` and the place of its word; a rule's places come in order unless it
    /// has several words. The text is folded; the filter may let more words pass.
    pub(super) fn find(
        &self,
        folded: &[u8],
        filter: &Filter,
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
        let same = self.words.get(first..).unwrap_or_default().iter().take_while(|word| word.hash == hash);
        for word in same.filter(|word| done.get(word.rule) != Some(&true)) {
            let Some(start) = end.checked_sub(word.end) else { continue };
            if folded.get(start..start + word.folded.len()) == Some(&word.folded) {
                found(word.rule, start);
            }
        }
    }
}

fn hash(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> (32 - SLOTS)) as usize
}

fn rarity(gram: &[u8]) -> usize {
    gram.iter().map(|b| COMMON.iter().position(|c| c == b).unwrap_or(COMMON.len())).sum()
}

/// A fixed word, and what a match has around it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Split {
    pub(super) word: Vec<u8>,
    /// Bytes of the word that come before the second part: all, unless its last letter may repeat.
    pub(super) skip: usize,
    /// Patterns of what comes before and after; not where they would mean something else than in the whole.
    pub(super) parts: Option<(String, String)>,
}

/// Words of which a text that matches must hold at least one; `None` where the pattern has no such words.
pub(super) fn fixed(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let splits = splits(pattern, &Shared::default())?;
    Some(splits.into_iter().map(|split| split.word).collect())
}

/// Such words that few patterns share, with what stands around them.
pub(super) fn splits(pattern: &str, shared: &Shared) -> Option<Vec<Split>> {
    let mut splits = of_branches(pattern.as_bytes(), &Outside::default(), shared)?;
    // Flags hold for all that follows, and ends for the whole: neither is in the parts.
    let flags =
        pattern.split("(?").skip(1).all(|rest| [":", "i:", "-i:"].iter().any(|f| rest.starts_with(f)));
    if !flags || pattern.replace("[^", "[").contains(['^', '$']) {
        splits.iter_mut().for_each(|split| split.parts = None);
    }
    Some(splits)
}

/// What a group stands in.
#[derive(Default)]
struct Outside {
    before: Vec<u8>,
    after: Vec<u8>,
    /// May the group follow itself?
    repeats: bool,
}

fn of_branches(pattern: &[u8], outside: &Outside, shared: &Shared) -> Option<Vec<Split>> {
    let mut splits = Vec::new();
    for branch in branches(pattern) {
        splits.extend(of_branch(branch, outside, shared)?);
    }
    Some(splits)
}

/// The bytes that a pattern matches, where there is but one such text; case and wraps apart.
pub(super) fn literal(pattern: &str) -> Option<Vec<u8>> {
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

/// Can nothing in a pattern match a line's end? A blank can: messages are wrapped.
pub(super) fn stays_in_line(pattern: &str) -> bool {
    [" ", r"\W", r"\s", r"\D", r"\n", "[^", "(?s"].iter().all(|part| !pattern.contains(part))
}

/// Does a pattern tell one digit from another? Counts in braces do not.
pub(super) fn names_digits(pattern: &str) -> bool {
    let outside = pattern.split('{').enumerate().flat_map(|(i, part)| match part.split_once('}') {
        Some((_, after)) if i > 0 => after.chars(),
        _ => part.chars(),
    });
    outside.into_iter().any(|c| c.is_ascii_digit())
}

/// The parts between bars outside brackets.
fn branches(pattern: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < pattern.len() {
        if pattern.get(at) == Some(&b'|') {
            parts.push(pattern.get(start..at).unwrap_or_default());
            start = at + 1;
        }
        at += unit(pattern.get(at..).unwrap_or_default());
    }
    parts.push(pattern.get(start..).unwrap_or_default());
    parts
}

/// Length of the escape, class, group or letter at the start.
fn unit(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'\\') => 2,
        Some(b'[') => {
            // A bracket that comes first is a letter.
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
                at += unit(rest.get(at..).unwrap_or_default());
            }
            rest.len()
        }
        _ => 1,
    }
}

/// The rarest or else longest fixed word outside groups; without any, those of a group that must be there.
fn of_branch(branch: &[u8], outside: &Outside, shared: &Shared) -> Option<Vec<Split>> {
    let mut runs = vec![Run::default()];
    let mut group: Option<Vec<Split>> = None;
    let mut at = 0;
    while let Some(byte) = branch.get(at) {
        let length = unit(branch.get(at..).unwrap_or_default());
        let next = branch.get(at + length);
        let optional = matches!(next, Some(b'?' | b'*' | b'{'));
        let repeats = matches!(next, Some(b'+'));
        let letter = match byte {
            b'\\' => branch.get(at + 1).copied().filter(|b| !b.is_ascii_alphanumeric()),
            b'(' | b'[' | b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'{' => None,
            other => Some(*other),
        };
        match letter.filter(|_| !optional) {
            Some(letter) => {
                runs.last_mut().into_iter().for_each(|run| run.push(letter, at, length, repeats));
            }
            None => {
                runs.push(Run::default());
                if *byte == b'(' && !optional && group.is_none() {
                    let mut around = outside.around(branch, at, at + length);
                    around.repeats |= repeats;
                    group = inside(branch.get(at..at + length).unwrap_or_default(), &around, shared);
                }
            }
        }
        at += length;
        if *byte == b'{' {
            at += branch.get(at..).unwrap_or_default().iter().position(|b| *b == b'}').map_or(0, |i| i + 1);
        }
        // After a letter that repeats, the word goes on elsewhere.
        if repeats {
            runs.push(Run::default());
        }
    }
    let long = runs.into_iter().filter(|run| run.word.len() >= GRAM);
    let Some(best) = long.min_by_key(|run| (shared.rarest(&run.word), Reverse(run.word.len()))) else {
        return group;
    };
    let Outside { before, after, repeats } = outside.around(branch, best.at, best.end);
    let parts = String::from_utf8(before).ok().zip(String::from_utf8(after).ok());
    Some(vec![Split { word: best.word, skip: best.skip, parts: parts.filter(|_| !repeats) }])
}

/// Letters of a branch that follow each other.
#[derive(Default)]
struct Run {
    /// Where they begin in it.
    at: usize,
    /// Where what comes after them begins: with the last letter if that repeats.
    end: usize,
    word: Vec<u8>,
    /// How many come before `end`.
    skip: usize,
}

impl Run {
    fn push(&mut self, letter: u8, at: usize, length: usize, repeats: bool) {
        if self.word.is_empty() {
            self.at = at;
        }
        self.word.push(letter);
        self.skip = self.word.len() - usize::from(repeats);
        self.end = if repeats { at } else { at + length };
    }
}

impl Outside {
    /// With what a branch has before and after some of its bytes.
    fn around(&self, branch: &[u8], start: usize, end: usize) -> Outside {
        let before = [&self.before, branch.get(..start).unwrap_or_default()].concat();
        let after = [branch.get(end..).unwrap_or_default(), &self.after].concat();
        Outside { before, after, repeats: self.repeats }
    }
}

/// The fixed words of a group in brackets.
fn inside(group: &[u8], outside: &Outside, shared: &Shared) -> Option<Vec<Split>> {
    let inner = group.get(1..group.len().checked_sub(1)?)?;
    let inner = match inner {
        [b'?', rest @ ..] => rest.iter().position(|b| *b == b':').and_then(|colon| rest.get(colon + 1..))?,
        other => other,
    };
    of_branches(inner, outside, shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pattern: &str) -> Option<Vec<String>> {
        Some(fixed(pattern)?.into_iter().map(|w| String::from_utf8(w).unwrap_or_default()).collect())
    }

    #[test]
    fn fixed_words_are_those_that_must_be_there() {
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
            assert_eq!(words(pattern), Some(vec![expected.to_owned()]), "{pattern}");
        }
        assert_eq!(words("(?-i:ERROR)"), Some(vec!["ERROR".to_owned()]));
        assert_eq!(words(r"(conda|mamba)\b"), Some(vec!["conda".to_owned(), "mamba".to_owned()]));
        assert_eq!(words("abcd|efgh"), Some(vec!["abcd".to_owned(), "efgh".to_owned()]));
        for none in ["abc", ".*", "(abcd)?", "abcd|x", "(abcd|.)"] {
            assert_eq!(words(none), None, "{none}");
        }
    }

    #[test]
    fn a_pattern_is_split_at_its_word() {
        for (pattern, expected) in [
            (r"a\d+ words? here", Some((r"a\d+", "s? here", 5))),
            (r"\bno (big|small) image\b", Some((r"\bno (big|small)", r"\b", 6))),
            (r"x (?:(no|0) memory|lots)y", Some((r"x (no|0)", "y", 7))),
            ("abcd+x", Some(("", "d+x", 3))),
            ("(abcd)+x", None),
            ("(?s)abcd.*x", None),
            ("abcd$", None),
        ] {
            let split = splits(pattern, &Shared::default()).and_then(|splits| splits.into_iter().next());
            let split =
                split.as_ref().and_then(|s| s.parts.as_ref().map(|(b, a)| (b.as_str(), a.as_str(), s.skip)));
            assert_eq!(split, expected, "{pattern}");
        }
    }

    #[test]
    fn words_that_few_patterns_share_are_looked_for() {
        let shared = Shared::new(["could not load", "could not find", "could not open"].into_iter());
        let split =
            splits(r"could not (load )?64_8\.dll", &shared).and_then(|splits| splits.into_iter().next());
        assert_eq!(split.map(|s| s.word), Some(b"64_8.dll".to_vec()));
    }

    #[test]
    fn digits_that_are_named_are_seen() {
        for (pattern, expected) in [
            (r"error 35\b", true),
            (r"sm_\d+ is", false),
            ("a.{0,40}b", false),
            ("a{2}b7", true),
            ("[1-9]", true),
            (r"\{1", true),
        ] {
            assert_eq!(names_digits(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn words_are_found_across_wraps_and_case() {
        let shared = Shared::default();
        let rules = ["out of memory", "of mem", "never there"]
            .map(|words| splits(words, &shared).unwrap_or_default());
        let anchors = Anchors::new(rules.iter().map(Vec::as_slice), &shared);
        let mut found = Vec::new();
        let folded = b"CUDA OUT OF\nMEMORY".map(fold);
        anchors.find(&folded, &anchors.filter(&[]), &[], |rule, at| found.push((rule, at)));
        found.sort_unstable();
        assert_eq!(found, [(0, 5), (1, 9)]);
    }
}
