//! Log chunk: cleaned text with its line index, context windows around a position, and line hashes for deduplication.
//!
//! Chunks overlap, so that a wrapped message is complete in one of them. A line is identified by its hash, and by a hash with
//! all digits alike, so that a repeated line need not be searched again.

/// Length at which a chunk is emitted, at the next newline.
pub(super) const CHUNK_LEN: usize = 32 << 10;
/// Overlap of consecutive chunks, so that a wrapped message is complete in one of them.
const OVERLAP: usize = 1 << 10;

/// Context window: lines before and after the one with a message's literal that may belong to it, since tools wrap.
pub const CONTEXT_LINES: usize = 2;

/// Half-open byte range.
pub type ByteRange = (usize, usize);

/// Cleaned text with its line numbers.
#[derive(Debug, Clone, Default)]
pub struct LogChunk {
    /// Lines joined by `\n`, and the beginning of the next.
    pub(super) text: Vec<u8>,
    /// Bytes of `text` that are complete lines.
    pub(super) whole: usize,
    /// Bytes of `text` that overlap with the previous chunk.
    repeated: usize,
    /// Where lines begin in `text`, with their 1-based number in the log.
    pub(super) starts: Vec<(usize, u64)>,
    /// Hashes of each line.
    hashes: Vec<LineHashes>,
}

/// Exact hash, and hash with all digits alike.
#[derive(Debug, Clone, Copy, Default)]
struct LineHashes {
    line: [u64; 2],
    /// The line together with its context window.
    around: [u64; 2],
}

impl LogChunk {
    /// An empty chunk that starts at line 1.
    pub(super) fn first() -> Self {
        LogChunk { text: Vec::with_capacity(2 * CHUNK_LEN), starts: vec![(0, 1)], ..LogChunk::default() }
    }

    /// Complete lines joined by `\n`; part of a line where it is longer than a chunk.
    pub fn text(&self) -> &[u8] {
        self.text.get(..self.whole).unwrap_or(&self.text)
    }

    /// Bytes at the beginning that overlap with the previous chunk.
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// Line number of a byte.
    pub fn line(&self, at: usize) -> u64 {
        let after = self.starts.partition_point(|(start, _)| *start <= at);
        after.checked_sub(1).and_then(|i| self.starts.get(i)).map_or(1, |(_, line)| *line)
    }

    /// Line number of a byte, if its whole context window lies in that line.
    pub fn only_line(&self, at: usize) -> Option<u64> {
        let row = self.row(at);
        let last = self.starts.get(row + CONTEXT_LINES).or(self.starts.last())?.1;
        let first = self.starts.get(row.saturating_sub(CONTEXT_LINES))?.1;
        (first == last).then_some(first)
    }

    /// The lines that a range touches, clamped to `OVERLAP` bytes around it.
    pub fn lines(&self, start: usize, end: usize) -> ByteRange {
        (self.around(start, 0).0.min(start), self.around(end, 0).1.max(end))
    }

    /// Context window of a position: its line and `margin` lines before and after, without the last newline, clamped to
    /// `OVERLAP` bytes.
    pub fn around(&self, at: usize, margin: usize) -> ByteRange {
        self.around_in(self.row(at), at, margin)
    }

    /// As [`around`](Self::around), where the row of `at` is known.
    pub fn around_in(&self, row: usize, at: usize, margin: usize) -> ByteRange {
        let (first, end) = self.rows(row, margin);
        (self.near_start(at, first.min(end)), self.near_end(at, end))
    }

    /// Text farther away than the overlap belongs to another message; words are not cut.
    fn near_start(&self, at: usize, first: usize) -> usize {
        let near = at.saturating_sub(OVERLAP);
        if first >= near {
            return first;
        }
        let skipped = self.text().get(near..at).unwrap_or_default().iter().position(|b| *b == b' ');
        near + skipped.unwrap_or(0)
    }

    fn near_end(&self, at: usize, end: usize) -> usize {
        let near = at + OVERLAP;
        if end <= near {
            return end;
        }
        let kept = self.text().get(at..near).unwrap_or_default().iter().rposition(|b| *b == b' ');
        kept.map_or(near, |kept| at + kept)
    }

    /// Row (line index within the chunk) of a byte.
    pub fn row(&self, at: usize) -> usize {
        self.starts.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }

    /// Where a row begins; the end of the text for the row after the last.
    pub fn start(&self, row: usize) -> usize {
        self.starts.get(row).map_or(self.whole, |(start, _)| *start)
    }

    /// A row and `margin` rows before and after it, of any length, without the last newline.
    pub fn rows(&self, row: usize, margin: usize) -> ByteRange {
        let end = self.starts.get(row + 1 + margin).map_or(self.whole, |(next, _)| next.saturating_sub(1));
        (self.start(row.saturating_sub(margin)), end.min(self.whole))
    }

    /// Hash key of a position within its row; `None` where the row is too long to be searched at once. `any_digit` treats
    /// all digits alike.
    pub fn in_row(&self, row: usize, at: usize, any_digit: bool) -> Option<u64> {
        let (start, end) = (self.start(row), self.start(row + 1));
        let [exact, alike] = self.hashes.get(row)?.line;
        let hash = if any_digit { alike } else { exact };
        (end - start <= OVERLAP).then(|| mix(hash, at.saturating_sub(start) as u64))
    }

    /// Hash key of a position within its context window.
    pub fn surroundings(&self, row: usize, at: usize, any_digit: bool) -> u64 {
        let [exact, alike] = self.hashes.get(row).copied().unwrap_or_default().around;
        mix(if any_digit { alike } else { exact }, at.saturating_sub(self.start(row)) as u64)
    }

    pub(super) fn hash_lines(&mut self) {
        let ends = self.starts.iter().skip(1).map(|(start, _)| *start).chain([self.whole]);
        let line = |((start, _), end): (&(usize, u64), usize)| {
            let bytes = self.text.get(*start..end.min(self.whole)).unwrap_or_default();
            [hash(bytes, |b| b), hash(bytes, |b| if b.is_ascii_digit() { b'0' } else { b })]
        };
        let lines: Vec<[u64; 2]> = self.starts.iter().zip(ends).map(line).collect();
        let hashes = |(i, line): (usize, &[u64; 2])| {
            let near = lines.get(i.saturating_sub(CONTEXT_LINES)..(i + CONTEXT_LINES + 1).min(lines.len()));
            // The position within the window is part of the hash.
            let first = [i.min(CONTEXT_LINES) as u64; 2];
            let near = near.unwrap_or_default().iter();
            LineHashes { line: *line, around: near.fold(first, |[a, b], [x, y]| [mix(a, *x), mix(b, *y)]) }
        };
        self.hashes = lines.iter().enumerate().map(hashes).collect();
    }

    /// Merged context windows of sorted positions, each with its positions.
    pub fn windows<'p>(
        &self,
        mut places: &'p [usize],
        margin: usize,
    ) -> impl Iterator<Item = (ByteRange, &'p [usize])> {
        std::iter::from_fn(move || {
            let (start, mut end) = self.around(*places.first()?, margin);
            let mut taken = 1;
            while let Some(place) = places.get(taken) {
                let (from, to) = self.around(*place, margin);
                if from > end {
                    break;
                }
                end = end.max(to);
                taken += 1;
            }
            let (here, rest) = places.split_at_checked(taken)?;
            places = rest;
            Some(((start, end), here))
        })
    }

    /// Ends the chunk. An incomplete line is left for the next one, unless it is most of the chunk.
    pub(super) fn close(&mut self) {
        let end = self.text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        self.whole = if end >= CHUNK_LEN / 4 { end } else { self.text.len() };
        self.hash_lines();
    }

    /// Drops everything but the overlap and the incomplete line; returns how many bytes were dropped.
    pub(super) fn carry_over(&mut self) -> usize {
        let from = self.whole.saturating_sub(OVERLAP);
        let tail = self.text.get(from..self.whole).unwrap_or_default();
        let end = tail.len().saturating_sub(1);
        let cut = tail.iter().take(end).position(|b| *b == b'\n').map_or(from, |i| from + i + 1);
        let line = self.line(cut);
        self.text.drain(..cut);
        self.starts.retain(|(start, _)| *start > cut);
        for (start, _) in &mut self.starts {
            *start -= cut;
        }
        self.starts.insert(0, (0, line));
        self.repeated = self.whole - cut;
        self.whole = self.text.len();
        cut
    }
}

/// Multiply-and-fold hash: fast, and good enough to tell lines apart.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}

fn hash(bytes: &[u8], fold: impl Fn(u8) -> u8) -> u64 {
    let (whole, rest) = bytes.as_chunks::<8>();
    let hash =
        whole.iter().fold(bytes.len() as u64, |hash, chunk| mix(hash, u64::from_le_bytes(chunk.map(&fold))));
    let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(fold(*byte)));
    mix(hash, last)
}
