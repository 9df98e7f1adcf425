//! Which fixed words must a text hold for a pattern to match, and where are they?
//!
//! Compiling five hundred patterns takes a fifth of a second, and most logs hold the words of a handful. So each pattern is
//! reduced to fixed words without which it cannot match; one pass over the text finds those, and only their patterns are
//! compiled and tried, only on the lines around. Not chosen: one `RegexSet`, which took 190 ms to build.

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
    /// One bit a hash of four letters, so that most of a text is passed at a look each.
    filter: Vec<u64>,
    fold: [u8; 256],
}

#[derive(Debug)]
struct Word {
    hash: usize,
    rule: usize,
    folded: Vec<u8>,
    /// Where its four letters end in it.
    end: usize,
}

impl Anchors {
    /// The fixed words of patterns; a pattern without any is never found, which [`fixed`] tells beforehand.
    pub(super) fn new<'w>(patterns: impl Iterator<Item = &'w str>) -> Self {
        let mut fold = [0; 256];
        for (byte, folded) in (0..=255u8).zip(&mut fold) {
            // A message may be wrapped at any blank.
            *folded = if byte == b'\n' { b' ' } else { byte.to_ascii_lowercase() };
        }
        let mut anchors = Anchors {
            words: Vec::new(),
            first: vec![0; 1 << SLOTS],
            filter: vec![0; 1 << (SLOTS - 6)],
            fold,
        };
        for (rule, pattern) in patterns.enumerate() {
            for word in fixed(pattern).unwrap_or_default() {
                anchors.add(rule, &word);
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

    fn add(&mut self, rule: usize, word: &[u8]) {
        let folded: Vec<u8> = word.iter().map(|b| self.folded(*b)).collect();
        let grams = folded.windows(GRAM).enumerate();
        let Some((start, gram)) = grams.max_by_key(|(_, gram)| rarity(gram)) else { return };
        let key = gram.iter().fold(0, |key, b| key << 8 | u32::from(*b));
        let hash = hash(key);
        if let Some(bits) = self.filter.get_mut(hash >> 6) {
            *bits |= 1 << (hash & 63);
        }
        self.words.push(Word { hash, rule, folded, end: start + GRAM });
    }

    fn folded(&self, byte: u8) -> u8 {
        self.fold.get(usize::from(byte)).copied().unwrap_or(byte)
    }

    /// Calls `found` with a rule that is not `done` and the place of its word; a rule's places come in order unless it
    /// has several words.
    pub(super) fn find(&self, text: &[u8], done: &[bool], mut found: impl FnMut(usize, usize)) {
        let mut key = 0u32;
        for (i, byte) in text.iter().enumerate() {
            key = key << 8 | u32::from(self.folded(*byte));
            let hash = hash(key);
            if self.filter.get(hash >> 6).is_some_and(|bits| bits & 1 << (hash & 63) != 0) {
                self.verify(text, hash, i + 1, done, &mut found);
            }
        }
    }

    fn verify(
        &self,
        text: &[u8],
        hash: usize,
        end: usize,
        done: &[bool],
        found: &mut impl FnMut(usize, usize),
    ) {
        let first = self.first.get(hash).copied().map_or(0, usize::from);
        let same = self.words.get(first..).unwrap_or_default().iter().take_while(|word| word.hash == hash);
        for word in same.filter(|word| done.get(word.rule) != Some(&true)) {
            let Some(start) = end.checked_sub(word.end) else { continue };
            let there = text.get(start..start + word.folded.len());
            if there
                .is_some_and(|there| there.iter().map(|b| self.folded(*b)).eq(word.folded.iter().copied()))
            {
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

/// Words of which a text that matches must hold at least one; `None` where the pattern has no such words.
pub(super) fn fixed(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for branch in branches(pattern.as_bytes()) {
        words.extend(of_branch(branch)?);
    }
    Some(words)
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

/// The longest fixed word outside groups; else those of a group that must be there.
fn of_branch(branch: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut best, mut run) = (Vec::new(), Vec::new());
    let mut group: Option<Vec<Vec<u8>>> = None;
    let mut at = 0;
    while let Some(byte) = branch.get(at) {
        let length = unit(branch.get(at..).unwrap_or_default());
        let next = branch.get(at + length);
        let optional = matches!(next, Some(b'?' | b'*' | b'{'));
        let letter = match byte {
            b'\\' => branch.get(at + 1).copied().filter(|b| !b.is_ascii_alphanumeric()),
            b'(' | b'[' | b'.' | b'^' | b'$' | b'?' | b'*' | b'+' | b'{' => None,
            other => Some(*other),
        };
        match letter.filter(|_| !optional) {
            Some(letter) => run.push(letter),
            None => {
                longer(&mut best, &mut run);
                if *byte == b'(' && !optional && group.is_none() {
                    group = inside(branch.get(at..at + length).unwrap_or_default());
                }
            }
        }
        at += length;
        if *byte == b'{' {
            at += branch.get(at..).unwrap_or_default().iter().position(|b| *b == b'}').map_or(0, |i| i + 1);
        }
        // After a letter that repeats, the word goes on elsewhere.
        if matches!(next, Some(b'+')) {
            longer(&mut best, &mut run);
        }
    }
    longer(&mut best, &mut run);
    if best.len() >= GRAM { Some(vec![best]) } else { group }
}

fn longer(best: &mut Vec<u8>, run: &mut Vec<u8>) {
    if run.len() > best.len() {
        std::mem::swap(best, run);
    }
    run.clear();
}

/// The fixed words of a group in brackets.
fn inside(group: &[u8]) -> Option<Vec<Vec<u8>>> {
    let inner = group.get(1..group.len().checked_sub(1)?)?;
    let inner = match inner {
        [b'?', rest @ ..] => rest.iter().position(|b| *b == b':').and_then(|colon| rest.get(colon + 1..))?,
        other => other,
    };
    fixed(std::str::from_utf8(inner).ok()?)
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
        let anchors = Anchors::new(["out of memory", "of mem", "never there"].into_iter());
        let mut found = Vec::new();
        anchors.find(b"CUDA OUT OF\nMEMORY", &[], |rule, at| found.push((rule, at)));
        found.sort_unstable();
        assert_eq!(found, [(0, 5), (1, 9)]);
    }
}
