//! What does a log say once escapes, progress bars and layout are gone? A stream of pieces of plain text.
//!
//! Runs of spaces become one blank, lines end in one `\n`, terminal escapes and control characters vanish, typographic
//! quotes become plain ones and box drawings spaces: a message that a tool has wrapped or framed reads as it was meant.
//! Zero bytes vanish with the control characters, which makes UTF-16 of western text readable too.

use std::io::{self, Read};

/// A piece is handed on when it is this long and a newlines.
const PIECE: usize = 32 << 10;
/// A longer line is cut at its next blank, and anywhere at twice this.
const LINE: usize = 8 << 10;
/// What the next piece repeats, so that a wrapped message is whole in one of them.
const OVERLAP: usize = 1 << 10;
/// A title or link that is never closed must not swallow a log.
const OSC_LIMIT: usize = 4 << 10;

/// Lines before and after the one with a message's fixed words that may belong to it: tools wrap.
pub const WRAPPED: usize = 2;

/// First byte of a part and the byte after its last.
pub type Range = (usize, usize);

/// Clean text with the numbers of its lines.
#[derive(Debug, Clone, Default)]
pub struct Piece {
    /// Lines joined by `\n`, and the beginning of the next.
    text: Vec<u8>,
    /// Bytes of `text` that may be read now.
    whole: usize,
    /// Bytes of `text` that the piece before had too.
    repeated: usize,
    /// Where lines begin in `text`, with their number in the log, from 1.
    starts: Vec<(usize, u64)>,
    /// Per line, what tells it from others.
    hashes: Vec<Hashes>,
}

/// Hashes as the text is, and with all digits alike.
#[derive(Debug, Clone, Copy, Default)]
struct Hashes {
    line: [u64; 2],
    /// With the lines around that a match can reach.
    around: [u64; 2],
}

impl Piece {
    /// Whole lines joined by `\n`; a part of one where it has no end.
    pub fn text(&self) -> &[u8] {
        self.text.get(..self.whole).unwrap_or(&self.text)
    }

    /// Bytes at the beginning that the piece before had too.
    pub fn repeated(&self) -> usize {
        self.repeated
    }

    /// Number of the line in which this byte is.
    pub fn line(&self, at: usize) -> u64 {
        let after = self.starts.partition_point(|(start, _)| *start <= at);
        after.checked_sub(1).and_then(|i| self.starts.get(i)).map_or(1, |(_, line)| *line)
    }

    /// Number of the line in which this byte and all that a match with it can reach are, if that is one.
    pub fn only_line(&self, at: usize) -> Option<u64> {
        let row = self.row(at);
        let last = self.starts.get(row + WRAPPED).or(self.starts.last())?.1;
        let first = self.starts.get(row.saturating_sub(WRAPPED))?.1;
        (first == last).then_some(first)
    }

    /// The bytes of the lines that a range touches, as far as they are near.
    pub fn lines(&self, start: usize, end: usize) -> Range {
        (self.around(start, 0).0.min(start), self.around(end, 0).1.max(end))
    }

    /// The bytes of the line at `at` and of `margin` lines before and after it, without the last line's end and as far
    /// as they are near.
    pub fn around(&self, at: usize, margin: usize) -> Range {
        self.around_in(self.row(at), at, margin)
    }

    /// The same where the row of `at` is known.
    pub fn around_in(&self, row: usize, at: usize, margin: usize) -> Range {
        let (first, end) = self.rows(row, margin);
        (self.near_start(at, first.min(end)), self.near_end(at, end))
    }

    /// What is farther away than a piece repeats belongs to another message; a word is not cut.
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

    /// Which of the piece's lines this byte is in.
    pub fn row(&self, at: usize) -> usize {
        self.starts.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }

    /// Where a row begins; the end of the text after the last.
    pub fn start(&self, row: usize) -> usize {
        self.starts.get(row).map_or(self.whole, |(start, _)| *start)
    }

    /// The bytes of a row and of `margin` rows before and after it, however long, without the last one's end.
    pub fn rows(&self, row: usize, margin: usize) -> Range {
        let end = self.starts.get(row + 1 + margin).map_or(self.whole, |(next, _)| next.saturating_sub(1));
        (self.start(row.saturating_sub(margin)), end.min(self.whole))
    }

    /// What tells a place in a row from others, as far as the row goes; nothing where it is too long to be looked at as
    /// one. All digits are alike where that is asked for.
    pub fn in_row(&self, row: usize, at: usize, any_digit: bool) -> Option<u64> {
        let (start, end) = (self.start(row), self.start(row + 1));
        let [exact, alike] = self.hashes.get(row)?.line;
        let hash = if any_digit { alike } else { exact };
        (end - start <= OVERLAP).then(|| mix(hash, at.saturating_sub(start) as u64))
    }

    /// The same with the rows around that a match can reach.
    pub fn surroundings(&self, row: usize, at: usize, any_digit: bool) -> u64 {
        let [exact, alike] = self.hashes.get(row).copied().unwrap_or_default().around;
        mix(if any_digit { alike } else { exact }, at.saturating_sub(self.start(row)) as u64)
    }

    fn hash_lines(&mut self) {
        let ends = self.starts.iter().skip(1).map(|(start, _)| *start).chain([self.whole]);
        let line = |((start, _), end): (&(usize, u64), usize)| {
            let bytes = self.text.get(*start..end.min(self.whole)).unwrap_or_default();
            [hash(bytes, |b| b), hash(bytes, |b| if b.is_ascii_digit() { b'0' } else { b })]
        };
        let lines: Vec<[u64; 2]> = self.starts.iter().zip(ends).map(line).collect();
        let hashes = |(i, line): (usize, &[u64; 2])| {
            let near = lines.get(i.saturating_sub(WRAPPED)..(i + WRAPPED + 1).min(lines.len()));
            // Which of the lines it is counts too.
            let first = [i.min(WRAPPED) as u64; 2];
            let near = near.unwrap_or_default().iter();
            Hashes { line: *line, around: near.fold(first, |[a, b], [x, y]| [mix(a, *x), mix(b, *y)]) }
        };
        self.hashes = lines.iter().enumerate().map(hashes).collect();
    }

    /// The lines around places in order, as few ranges as they make, each with its places.
    pub fn windows<'p>(
        &self,
        mut places: &'p [usize],
        margin: usize,
    ) -> impl Iterator<Item = (Range, &'p [usize])> {
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

    /// A line that goes on is left for the next piece, unless there is little else.
    fn close(&mut self) {
        let end = self.text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        self.whole = if end >= PIECE / 4 { end } else { self.text.len() };
        self.hash_lines();
    }

    /// Keeps the last lines, which the next piece repeats, and what was not whole; says how much went.
    fn carry_over(&mut self) -> usize {
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

/// Multiply and fold: fast, and good enough to tell lines apart.
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

#[derive(Debug, Clone, Copy)]
enum State {
    Text,
    Escape,
    /// Parameters of an escape sequence, up to a letter.
    Sequence,
    /// A title or a link, up to its end; how long it is already.
    Title(usize),
    /// First byte of a two-byte letter that may be a space or a control.
    C2,
    E2,
    E2Then(u8),
}

struct Cleaner {
    piece: Piece,
    state: State,
    line: u64,
    line_start: usize,
    blank: bool,
}

/// Reads to the end and hands each piece to `take`; stops early when that fails.
pub fn pieces<E>(
    mut from: impl Read,
    take: &mut impl FnMut(&Piece) -> Result<(), E>,
) -> io::Result<Result<(), E>> {
    let mut cleaner = Cleaner {
        piece: Piece {
            text: Vec::with_capacity(2 * PIECE),
            whole: 0,
            repeated: 0,
            starts: vec![(0, 1)],
            hashes: Vec::new(),
        },
        state: State::Text,
        line: 1,
        line_start: 0,
        blank: false,
    };
    let mut buffer = vec![0; PIECE];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        cleaner.feed(buffer.get(..read).unwrap_or_default());
        if cleaner.piece.text.len() >= PIECE {
            cleaner.piece.close();
            if let Err(error) = take(&cleaner.piece) {
                return Ok(Err(error));
            }
            cleaner.line_start = cleaner.line_start.saturating_sub(cleaner.piece.carry_over());
        }
    }
    cleaner.piece.whole = cleaner.piece.text.len();
    cleaner.piece.hash_lines();
    Ok(take(&cleaner.piece))
}

impl Cleaner {
    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if matches!(self.state, State::Text) && first.is_ascii_graphic() {
                let plain = bytes.iter().position(|b| !b.is_ascii_graphic()).unwrap_or(bytes.len());
                let (run, rest) = bytes.split_at(plain);
                self.word(run);
                bytes = rest;
                continue;
            }
            self.byte(*first);
            bytes = rest;
        }
    }

    /// Appends letters, after the blank that was due, and cuts what is no line any more.
    fn word(&mut self, run: &[u8]) {
        if std::mem::take(&mut self.blank) && self.piece.text.last().is_some_and(|b| *b != b'\n') {
            let long = self.piece.text.len() - self.line_start >= LINE;
            if long { self.end_line() } else { self.piece.text.push(b' ') }
        }
        for part in run.chunks(LINE) {
            if self.piece.text.len() - self.line_start >= 2 * LINE {
                self.end_line();
            }
            self.piece.text.extend_from_slice(part);
        }
    }

    /// Lines that are empty leave no trace but in the count.
    fn end_line(&mut self) {
        if self.piece.text.last().is_some_and(|b| *b != b'\n') {
            self.piece.text.push(b'\n');
        }
        self.line_start = self.piece.text.len();
        match self.piece.starts.last_mut() {
            Some((start, line)) if *start == self.line_start => *line = self.line,
            _ => self.piece.starts.push((self.line_start, self.line)),
        }
        self.blank = false;
    }

    fn byte(&mut self, byte: u8) {
        let state = std::mem::replace(&mut self.state, State::Text);
        // A newline ends whatever was open: a broken escape costs one line at most.
        if byte == b'\n' {
            self.line += 1;
            return self.end_line();
        }
        self.state = match (state, byte) {
            (State::Escape, b'[') => State::Sequence,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::Title(0),
            (State::Escape, 0x20..=0x2f) => State::Escape,
            (State::Escape, _) => State::Text,
            (State::Sequence, 0x20..=0x3f) => State::Sequence,
            (State::Sequence, 0x40..=0x7e) => State::Text,
            (State::Title(_), 0x07) => State::Text,
            (_, 0x1b) => State::Escape,
            (State::Title(length), _) if length < OSC_LIMIT => State::Title(length + 1),
            (State::C2, 0xa0) => self.blank(),
            (State::C2, 0x80..=0x9f) => State::Text,
            (State::C2, _) => self.after(&[0xc2], byte),
            (State::E2, 0x80 | 0x94..=0x96) => State::E2Then(byte),
            (State::E2, _) => self.after(&[0xe2], byte),
            (State::E2Then(0x80), 0x98 | 0x99) => self.plain(b'\''),
            (State::E2Then(0x80), 0x9c | 0x9d) => self.plain(b'"'),
            (State::E2Then(0x80), 0x90..=0x95) => self.plain(b'-'),
            // Marks without width, and those that turn the direction of what a terminal shows.
            (State::E2Then(0x80), 0x8b..=0x8f | 0xaa..=0xae) => State::Text,
            (State::E2Then(0x94..=0x96), 0x80..=0xbf) => self.blank(),
            (State::E2Then(second), _) => self.after(&[0xe2, second], byte),
            (_, _) => self.text(byte),
        };
    }

    fn text(&mut self, byte: u8) -> State {
        match byte {
            0xc2 => State::C2,
            0xe2 => State::E2,
            b'\r' => {
                // A progress bar draws over itself; both states are lines of their own.
                self.end_line();
                State::Text
            }
            b' ' | b'\t' => self.blank(),
            0..=0x1f | 0x7f => State::Text,
            _ => self.plain(byte),
        }
    }

    /// The letter was none of those looked for: it is kept, and `byte` begins anew.
    fn after(&mut self, kept: &[u8], byte: u8) -> State {
        self.word(kept);
        self.text(byte)
    }

    fn plain(&mut self, byte: u8) -> State {
        self.word(&[byte]);
        State::Text
    }

    fn blank(&mut self) -> State {
        self.blank = true;
        State::Text
    }
}

/// What may be shown of a line: no control characters, at most `limit` letters around `at`.
pub fn shown(line: &[u8], at: usize, limit: usize) -> String {
    let from = if line.len() <= limit { 0 } else { at.saturating_sub(limit / 4).min(line.len() - limit) };
    let cut = line.get(from..(from + limit).min(line.len())).unwrap_or_default();
    let text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c == '\n' { ' ' } else { c })
        .filter(|c| !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
        .collect();
    let (before, after) = (if from > 0 { "…" } else { "" }, if from + limit < line.len() { "…" } else { "" });
    format!("{before}{}{after}", text.trim())
}
