//! Log cleaning: strips ANSI escapes and control characters, normalises whitespace and quotes; streams [`LogChunk`]s.
//!
//! Runs of spaces become one space, lines end in one `\n`, typographic quotes become ASCII and box drawings become spaces,
//! so that a message that a tool has wrapped or framed reads as plain text. NUL bytes are dropped with the control
//! characters, which makes UTF-16 of ASCII text readable too.

use std::io::{self, Read};

use super::chunk::{CHUNK_LEN, LogChunk};

/// Max line length: a longer line is cut at its next space, and anywhere at twice this.
const MAX_LINE: usize = 8 << 10;
/// Max length of an OSC sequence (title, link): one that is never terminated must not swallow the log.
const OSC_LIMIT: usize = 4 << 10;

#[derive(Debug, Clone, Copy)]
enum State {
    Text,
    Escape,
    /// CSI parameters, up to the final byte.
    Sequence,
    /// OSC sequence (title, link), up to its terminator; its length so far.
    Osc(usize),
    /// Lead byte of a UTF-8 sequence that may be a space or a control character.
    C2,
    E2,
    E2Then(u8),
}

struct Cleaner {
    chunk: LogChunk,
    state: State,
    line: u64,
    line_start: usize,
    blank: bool,
}

/// Reads to the end and passes each chunk to `take`; stops early when that fails.
pub fn chunks<E>(
    mut from: impl Read,
    take: &mut impl FnMut(&LogChunk) -> Result<(), E>,
) -> io::Result<Result<(), E>> {
    let mut cleaner =
        Cleaner { chunk: LogChunk::first(), state: State::Text, line: 1, line_start: 0, blank: false };
    let mut buffer = vec![0; CHUNK_LEN];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        cleaner.feed(buffer.get(..read).unwrap_or_default());
        if cleaner.chunk.text.len() >= CHUNK_LEN {
            cleaner.chunk.close();
            if let Err(error) = take(&cleaner.chunk) {
                return Ok(Err(error));
            }
            cleaner.line_start = cleaner.line_start.saturating_sub(cleaner.chunk.carry_over());
        }
    }
    cleaner.chunk.whole = cleaner.chunk.text.len();
    cleaner.chunk.hash_lines();
    Ok(take(&cleaner.chunk))
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

    /// Appends bytes after a pending space, and breaks overlong lines.
    fn word(&mut self, run: &[u8]) {
        if std::mem::take(&mut self.blank) && self.chunk.text.last().is_some_and(|b| *b != b'\n') {
            let long = self.chunk.text.len() - self.line_start >= MAX_LINE;
            if long { self.end_line() } else { self.chunk.text.push(b' ') }
        }
        for part in run.chunks(MAX_LINE) {
            if self.chunk.text.len() - self.line_start >= 2 * MAX_LINE {
                self.end_line();
            }
            self.chunk.text.extend_from_slice(part);
        }
    }

    /// Ends a line; empty lines are dropped but counted.
    fn end_line(&mut self) {
        if self.chunk.text.last().is_some_and(|b| *b != b'\n') {
            self.chunk.text.push(b'\n');
        }
        self.line_start = self.chunk.text.len();
        match self.chunk.starts.last_mut() {
            Some((start, line)) if *start == self.line_start => *line = self.line,
            _ => self.chunk.starts.push((self.line_start, self.line)),
        }
        self.blank = false;
    }

    fn byte(&mut self, byte: u8) {
        let state = std::mem::replace(&mut self.state, State::Text);
        // A newline ends any open escape: a broken one costs one line at most.
        if byte == b'\n' {
            self.line += 1;
            return self.end_line();
        }
        self.state = match (state, byte) {
            (State::Escape, b'[') => State::Sequence,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::Osc(0),
            (State::Escape, 0x20..=0x2f) => State::Escape,
            (State::Escape, _) => State::Text,
            (State::Sequence, 0x20..=0x3f) => State::Sequence,
            (State::Sequence, 0x40..=0x7e) => State::Text,
            (State::Osc(_), 0x07) => State::Text,
            (_, 0x1b) => State::Escape,
            (State::Osc(length), _) if length < OSC_LIMIT => State::Osc(length + 1),
            (State::C2, 0xa0) => self.blank(),
            (State::C2, 0x80..=0x9f) => State::Text,
            (State::C2, _) => self.after(&[0xc2], byte),
            (State::E2, 0x80 | 0x94..=0x96) => State::E2Then(byte),
            (State::E2, _) => self.after(&[0xe2], byte),
            (State::E2Then(0x80), 0x98 | 0x99) => self.plain(b'\''),
            (State::E2Then(0x80), 0x9c | 0x9d) => self.plain(b'"'),
            (State::E2Then(0x80), 0x90..=0x95) => self.plain(b'-'),
            // Zero-width and bidirectional control characters.
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
                // A progress bar overwrites itself; every state becomes a line.
                self.end_line();
                State::Text
            }
            b' ' | b'\t' => self.blank(),
            0..=0x1f | 0x7f => State::Text,
            _ => self.plain(byte),
        }
    }

    /// The sequence was not a special character: its bytes are kept, and `byte` is processed anew.
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

/// Printable excerpt of a line: no control characters, at most `limit` bytes around `at`.
pub fn excerpt(line: &[u8], at: usize, limit: usize) -> String {
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
