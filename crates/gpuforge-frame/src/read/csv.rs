//! CSV reader: delimiter inference from the header, quoting, LF or CRLF; one pass over the bytes.
//!
//! Cells are parsed straight into columns; where the buffer ends inside a row, that row is rolled back and parsed again
//! once more bytes are there.

use std::{
    borrow::Cow,
    io::{ErrorKind, Read},
    path::Path,
};

use super::{
    chunk::{CHUNK_ROWS, Chunk, ChunkSource, ReadPlan, ReadState, VALUE_ROLES, quote_cell},
    parse_float::parse_float,
    time::{self, TimeInference},
    time_of_day,
};
use crate::{column_roles::Role, error::FrameError};

/// Delimiters, the most common first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Initial buffer size in bytes.
const BUFFER: usize = 1 << 20;
/// Longest row in bytes: a longer one is an unclosed quote.
const MAX_ROW: usize = 16 << 20;
/// Cells sampled to infer the type of a time column.
const SAMPLE_ROWS: usize = 1000;

/// Parsed header line.
#[derive(Debug, Clone)]
pub(super) struct CsvHeader {
    /// Column names.
    pub names: Vec<String>,
    /// Inferred delimiter.
    pub delimiter: u8,
    /// Byte offset of the first data row.
    pub data: usize,
}

/// Parses the header from a file's first bytes.
pub(super) fn parse_header(path: &Path, bytes: &[u8]) -> Result<CsvHeader, FrameError> {
    let format = |message: &str| FrameError::Format { path: path.into(), message: message.to_string() };
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(format("the text is UTF-16\n  hint: convert it: iconv -f UTF-16 -t UTF-8"));
    }
    let bom = if bytes.starts_with(&[0xEF, 0xBB, 0xBF]) { 3 } else { 0 };
    let text = bytes.get(bom..).unwrap_or_default();
    let blank = text.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    let text = text.get(blank..).unwrap_or_default();
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    if text.is_empty() || line.len() >= MAX_ROW {
        return Err(format("there is no header line\n  hint: the first line must name the columns"));
    }
    if line.contains(&0) {
        return Err(format("this is neither Parquet, Arrow IPC nor text"));
    }
    let delimiter = infer_delimiter(line);
    let mut names = Vec::new();
    let mut used = 0;
    loop {
        let rest = text.get(used..).unwrap_or_default();
        let (cell, length, end) =
            cell(rest, delimiter, true).ok_or_else(|| format("a quote in the header is never closed"))?;
        let name = std::str::from_utf8(&cell)
            .map_err(|_| format("the header is not UTF-8\n  hint: convert it: iconv -f LATIN1 -t UTF-8"))?;
        names.push(strip_brackets(name.trim()).to_string());
        used += length;
        if end {
            break;
        }
    }
    Ok(CsvHeader { names, delimiter, data: bom + blank + used })
}

/// Strips the angle brackets of Stooq and MetaTrader headers.
fn strip_brackets(name: &str) -> &str {
    name.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).map_or(name, str::trim)
}

/// The most frequent delimiter of a header, outside quotes.
fn infer_delimiter(line: &[u8]) -> u8 {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut quoted = false;
    for byte in line {
        quoted ^= *byte == b'"';
        if let Some(at) = DELIMITERS.iter().position(|d| d == byte && !quoted)
            && let Some(count) = counts.get_mut(at)
        {
            *count += 1;
        }
    }
    // `max_by_key` returns the last of equals: reversed, so that the more common delimiter wins.
    let most = DELIMITERS.iter().zip(counts).rev().max_by_key(|(_, count)| *count);
    most.map_or(b',', |(delimiter, _)| *delimiter)
}

/// Does the header line look like data?
pub(super) fn looks_like_data(names: &[String]) -> bool {
    names
        .iter()
        .any(|name| name.bytes().any(|b| b.is_ascii_digit()) && parse_float(name.as_bytes()).is_some())
}

/// Time inference over the first values of a column.
pub(super) fn infer_time(head: &CsvHeader, bytes: &[u8], whole: bool, column: usize) -> TimeInference {
    let mut inference = TimeInference::default();
    let mut rest = bytes.get(head.data..).unwrap_or_default();
    let mut at = 0;
    let mut seen = 0;
    while !rest.is_empty() && seen < SAMPLE_ROWS {
        let Some((cell, length, end)) = cell(rest, head.delimiter, whole) else { break };
        if at == column {
            seen += 1;
            inference.add_cell(&cell);
        }
        at = if end { 0 } else { at + 1 };
        rest = rest.get(length..).unwrap_or_default();
    }
    inference
}

/// Splits the first cell off: content, length with delimiter, and whether the row ends. `None` where the text ends inside
/// the cell, unless it is the `last` of the file.
pub(super) fn cell(text: &[u8], delimiter: u8, last: bool) -> Option<(Cow<'_, [u8]>, usize, bool)> {
    if text.first() == Some(&b'"') {
        return quoted_cell(text, delimiter, last);
    }
    match text.iter().position(|b| *b == delimiter || *b == b'\n') {
        Some(at) => {
            let (cell, rest) = text.split_at_checked(at)?;
            let end = rest.first() == Some(&b'\n');
            let cell = if end { cell.strip_suffix(b"\r").unwrap_or(cell) } else { cell };
            Some((Cow::Borrowed(cell), at + 1, end))
        }
        None => last.then(|| (Cow::Borrowed(text.strip_suffix(b"\r").unwrap_or(text)), text.len(), true)),
    }
}

/// A quoted cell; `""` is an escaped quote. Text after the closing quote belongs to the cell.
fn quoted_cell(text: &[u8], delimiter: u8, last: bool) -> Option<(Cow<'_, [u8]>, usize, bool)> {
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        let rest = text.get(at..)?;
        let close = rest.iter().position(|b| *b == b'"')?;
        out.extend_from_slice(rest.get(..close)?);
        at += close + 1;
        match text.get(at) {
            Some(b'"') => {
                out.push(b'"');
                at += 1;
            }
            None if !last => return None,
            _ => break,
        }
    }
    let rest = text.get(at..)?;
    let behind = rest.iter().position(|b| *b == delimiter || *b == b'\n');
    let length = behind.or(last.then_some(rest.len()))?;
    let tail = rest.get(..length)?;
    out.extend_from_slice(tail.trim_ascii_end());
    let end = rest.get(length) != Some(&delimiter);
    Some((Cow::Owned(out), at + length + usize::from(behind.is_some()), end))
}

/// Destination of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellTarget {
    Skip,
    Symbol,
    Time,
    /// The date of a time in two columns.
    Day,
    /// Its time of day.
    TimeOfDay,
    Value(usize),
    /// A value that is NaN where it is not a number.
    ValueOrNan(usize),
}

/// Row parser.
struct RowParser {
    plan: ReadPlan,
    delimiter: u8,
    targets: Vec<CellTarget>,
    /// Roles that share a column: copied from, to.
    copies: Vec<(usize, usize)>,
    /// Rows parsed so far.
    row: u64,
}

/// Result of parsing a row.
enum RowEnd {
    /// Complete; its length in bytes.
    Complete(usize),
    /// The buffer ends inside the row.
    NeedMore,
}

impl RowParser {
    fn new(plan: ReadPlan, delimiter: u8) -> RowParser {
        let mut targets = vec![CellTarget::Skip; plan.names.len()];
        let mut copies = Vec::new();
        let mut put = |at: Option<usize>, to: CellTarget| {
            let Some(place) = at.and_then(|at| targets.get_mut(at)) else { return };
            match (*place, to) {
                (
                    CellTarget::Value(from) | CellTarget::ValueOrNan(from),
                    CellTarget::Value(to) | CellTarget::ValueOrNan(to),
                ) => {
                    copies.push((from, to));
                }
                _ => *place = to,
            }
        };
        put(plan.columns.get(Role::Symbol), CellTarget::Symbol);
        let joined = plan.columns.get(Role::TimeOfDay);
        put(plan.columns.get(Role::Time), if joined.is_some() { CellTarget::Day } else { CellTarget::Time });
        put(joined, CellTarget::TimeOfDay);
        for (at, role) in VALUE_ROLES.iter().enumerate() {
            let or_nan = plan.or_nan.contains(role);
            put(
                plan.columns.get(*role),
                if or_nan { CellTarget::ValueOrNan(at) } else { CellTarget::Value(at) },
            );
        }
        RowParser { plan, delimiter, targets, copies, row: 0 }
    }

    /// Parses one row into a chunk.
    fn parse_row(
        &mut self,
        text: &[u8],
        last: bool,
        chunk: &mut Chunk,
        state: &mut ReadState,
        fixed: u32,
    ) -> Result<RowEnd, FrameError> {
        let before = chunk.row.len();
        let mut rest = text;
        let mut at = 0;
        let mut symbol = fixed;
        let (mut day, mut of_day) = (None, None);
        let mut error: Option<(usize, String)> = None;
        loop {
            let Some((cell, length, end)) = cell(rest, self.delimiter, last) else {
                chunk.truncate(before);
                if last {
                    self.row += 1;
                    let name = self.plan.names.get(at).map_or("", String::as_str);
                    state.bad(&self.plan, self.row, name, "a quote is opened and never closed")?;
                    return Ok(RowEnd::Complete(text.len()));
                }
                return Ok(RowEnd::NeedMore);
            };
            if at == 0 && end && cell.trim_ascii().is_empty() {
                return Ok(RowEnd::Complete(length));
            }
            let taken = match self.targets.get(at) {
                Some(CellTarget::Value(to)) => number_cell(&cell, *to, chunk),
                Some(CellTarget::ValueOrNan(to)) => {
                    number_cell(&cell, *to, chunk).or_else(|_| number_cell(b"", *to, chunk))
                }
                Some(CellTarget::Time) => time_cell(&cell, chunk, state),
                Some(CellTarget::Symbol) => symbol_cell(&cell, state).map(|id| symbol = id),
                Some(CellTarget::Day) => day_cell(&cell).map(|days| day = Some(days)),
                Some(CellTarget::TimeOfDay) => {
                    of_day_cell(&cell, self.plan.of_day).map(|nanos| of_day = Some(nanos))
                }
                Some(CellTarget::Skip) | None => Ok(()),
            };
            if let Err(message) = taken
                && error.is_none()
            {
                error = Some((at, message));
            }
            at += 1;
            rest = rest.get(length..).unwrap_or_default();
            if end {
                break;
            }
        }
        self.row += 1;
        let width = self.targets.len();
        if at != width {
            error = Some((at.min(width - 1), format!("the row has {at} cells, the header has {width}")));
        }
        if let (Some(days), Some(nanos), None) = (day, of_day, &error) {
            match state.time_encoding.encode(time_of_day::join(days, nanos)) {
                Ok(time) => chunk.time.push(time),
                Err(why) => {
                    error = Some((self.plan.columns.get(Role::Time).unwrap_or(0), format!("the time {why}")))
                }
            }
        }
        match error {
            Some((at, message)) => {
                chunk.truncate(before);
                let name = self.plan.names.get(at).map_or("", String::as_str);
                state.bad(&self.plan, self.row, name, &message)?;
            }
            None => {
                chunk.row.push(self.row);
                chunk.push_symbol(symbol);
            }
        }
        Ok(RowEnd::Complete(text.len() - rest.len()))
    }
}

fn number_cell(cell: &[u8], to: usize, chunk: &mut Chunk) -> Result<(), String> {
    let value = parse_float(cell).ok_or_else(|| format!("{} is not a number", quote_cell(cell)))?;
    if let Some(column) = chunk.values.get_mut(to) {
        column.push(value);
    }
    Ok(())
}

fn time_cell(cell: &[u8], chunk: &mut Chunk, state: &ReadState) -> Result<(), String> {
    if cell.trim_ascii().is_empty() {
        return Err("the time is missing".to_string());
    }
    let written = time::parse(cell).ok_or_else(|| {
        format!(
            "{} is not a time: 2024-01-31, 20240131, 2024-01-31T09:30:00Z or a plain number is",
            quote_cell(cell)
        )
    })?;
    chunk
        .time
        .push(state.time_encoding.encode(written).map_err(|why| format!("{} {why}", quote_cell(cell)))?);
    Ok(())
}

fn day_cell(cell: &[u8]) -> Result<i64, String> {
    time_of_day::parse_day(cell).ok_or_else(|| match cell.trim_ascii() {
        b"" => "the date is missing".to_string(),
        _ => format!("{} is not a date: 2024-01-31, 2024.01.31 or 20240131 is", quote_cell(cell)),
    })
}

fn of_day_cell(cell: &[u8], form: time_of_day::TimeOfDayFormat) -> Result<i64, String> {
    time_of_day::parse(cell, form).ok_or_else(|| match cell.trim_ascii() {
        b"" => "the time of day is missing".to_string(),
        _ => format!("{} is not a time of day as the first ones of the column are", quote_cell(cell)),
    })
}

fn symbol_cell(cell: &[u8], state: &mut ReadState) -> Result<u32, String> {
    let text = std::str::from_utf8(cell).map_err(|_| format!("{} is not UTF-8", quote_cell(cell)))?.trim();
    if text.is_empty() {
        return Err("the symbol is missing".to_string());
    }
    Ok(state.symbols.text(text))
}

/// Streaming CSV decoder.
pub(super) struct Csv {
    parser: RowParser,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Unparsed range of the buffer: start and `filled`.
    start: usize,
    filled: usize,
    /// End of file reached.
    ended: bool,
    /// Bytes discarded from the buffer.
    used: u64,
}

impl Csv {
    /// Starts at the first byte of an input.
    pub(super) fn new(plan: ReadPlan, head: &CsvHeader, input: Box<dyn Read + Send>) -> Csv {
        let parser = RowParser::new(plan, head.delimiter);
        let mut csv =
            Csv { parser, input, buffer: vec![0; BUFFER], start: 0, filled: 0, ended: false, used: 0 };
        csv.skip(head.data);
        csv
    }

    /// Skips the header; its bytes may not have been read yet.
    fn skip(&mut self, bytes: usize) {
        self.start = bytes;
    }

    /// Compacts the buffer and reads more.
    fn fill(&mut self) -> Result<(), FrameError> {
        let path = &self.parser.plan.path;
        // The header is skipped once it has been read.
        if self.start <= self.filled {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.used += self.start as u64;
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled == self.buffer.len() {
            if self.buffer.len() >= MAX_ROW {
                let message = format!(
                    "row {} is longer than {} MiB\n  hint: look for a quote that is never closed",
                    self.parser.row + 1,
                    MAX_ROW >> 20
                );
                return Err(FrameError::Format { path: path.clone(), message });
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let free = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let got = loop {
            match self.input.read(free) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let got = got.map_err(|source| FrameError::Io { doing: "read", path: path.clone(), source })?;
        self.ended = got == 0;
        self.filled += got;
        Ok(())
    }
}

impl ChunkSource for Csv {
    fn next_chunk(&mut self, state: &mut ReadState) -> Result<Option<Chunk>, FrameError> {
        let mut chunk = Chunk::default();
        let fixed = match self.parser.targets.contains(&CellTarget::Symbol) {
            true => 0,
            false => state.symbols.key(self.parser.plan.symbol.clone()),
        };
        while chunk.row.len() < CHUNK_ROWS {
            let text = self.buffer.get(self.start..self.filled).unwrap_or_default();
            if text.is_empty() && self.ended {
                break;
            }
            let end = match text.is_empty() {
                true => RowEnd::NeedMore,
                false => self.parser.parse_row(text, self.ended, &mut chunk, state, fixed)?,
            };
            match end {
                RowEnd::Complete(length) => self.start += length,
                // Read on only when no complete row is buffered.
                RowEnd::NeedMore => self.fill()?,
            }
        }
        if chunk.row.is_empty() {
            return Ok(None);
        }
        for (from, to) in &self.parser.copies {
            let copy = chunk.values.get(*from).cloned().unwrap_or_default();
            if let Some(column) = chunk.values.get_mut(*to) {
                *column = copy;
            }
        }
        chunk.finish(&self.parser.plan);
        Ok(Some(chunk))
    }

    fn bytes_read(&self) -> u64 {
        self.used + self.start.min(self.filled) as u64
    }
}
