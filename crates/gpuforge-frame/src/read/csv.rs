//! How is text cut into rows and cells? Delimiter from the header, quotes, either line end; one pass over the bytes.
//!
//! A row is read cell by cell straight into columns; where the buffer ends inside a row, that row is taken back and read
//! again once more bytes are there.

use std::{
    borrow::Cow,
    io::{ErrorKind, Read},
    path::Path,
};

use super::{
    chunk::{Chunk, Intake, Plan, ROWS, Source, VALUES, shown},
    number::number,
    time::{self, Look},
    time_of_day,
};
use crate::{error::FrameError, names::Role};

/// Delimiters, the most usual first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Bytes read at once.
const BLOCK: usize = 1 << 20;
/// A longer row is a quote that was never closed.
const LONGEST: usize = 16 << 20;
/// Cells that are looked at to tell the type of a time column.
const LOOKS: usize = 1000;

/// What the beginning of a file says.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// Column names.
    pub names: Vec<String>,
    /// Between cells.
    pub delimiter: u8,
    /// Where the first row of data begins.
    pub data: usize,
}

/// Reads the header out of a file's first bytes.
pub(super) fn head(path: &Path, bytes: &[u8]) -> Result<Head, FrameError> {
    let format = |message: &str| FrameError::Format { path: path.into(), message: message.to_string() };
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(format("the text is UTF-16\n  hint: convert it: iconv -f UTF-16 -t UTF-8"));
    }
    let marked = if bytes.starts_with(&[0xEF, 0xBB, 0xBF]) { 3 } else { 0 };
    let text = bytes.get(marked..).unwrap_or_default();
    let blank = text.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
    let text = text.get(blank..).unwrap_or_default();
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    if text.is_empty() || line.len() >= LONGEST {
        return Err(format("there is no header line\n  hint: the first line must name the columns"));
    }
    if line.contains(&0) {
        return Err(format("this is neither Parquet, Arrow IPC nor text"));
    }
    let delimiter = delimiter(line);
    let mut names = Vec::new();
    let mut used = 0;
    loop {
        let rest = text.get(used..).unwrap_or_default();
        let (cell, length, end) =
            cell(rest, delimiter, true).ok_or_else(|| format("a quote in the header is never closed"))?;
        let name = std::str::from_utf8(&cell)
            .map_err(|_| format("the header is not UTF-8\n  hint: convert it: iconv -f LATIN1 -t UTF-8"))?;
        names.push(bare(name.trim()).to_string());
        used += length;
        if end {
            break;
        }
    }
    Ok(Head { names, delimiter, data: marked + blank + used })
}

/// A name without the brackets that Stooq and MetaTrader put around it.
fn bare(name: &str) -> &str {
    name.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).map_or(name, str::trim)
}

/// The delimiter that a header has most of.
fn delimiter(line: &[u8]) -> u8 {
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
    // The last of equals wins in `max_by_key`, so go backwards: the more usual one should.
    let most = DELIMITERS.iter().zip(counts).rev().max_by_key(|(_, count)| *count);
    most.map_or(b',', |(delimiter, _)| *delimiter)
}

/// Does a header look like data? Then there is none.
pub(super) fn no_header(names: &[String]) -> bool {
    names.iter().any(|name| name.bytes().any(|b| b.is_ascii_digit()) && number(name.as_bytes()).is_some())
}

/// What the first values of a column look like.
pub(super) fn look(head: &Head, bytes: &[u8], whole: bool, column: usize) -> Look {
    let mut look = Look::default();
    let mut rest = bytes.get(head.data..).unwrap_or_default();
    let mut at = 0;
    let mut seen = 0;
    while !rest.is_empty() && seen < LOOKS {
        let Some((cell, length, end)) = cell(rest, head.delimiter, whole) else { break };
        if at == column {
            seen += 1;
            look.cell(&cell);
        }
        at = if end { 0 } else { at + 1 };
        rest = rest.get(length..).unwrap_or_default();
    }
    look
}

/// The first cell of a text: what it says, how long it and its delimiter are, and whether the row ends with it. `None`
/// where the text ends before the cell does; the `last` text of a file ends its last cell.
pub(super) fn cell(text: &[u8], delimiter: u8, last: bool) -> Option<(Cow<'_, [u8]>, usize, bool)> {
    if text.first() == Some(&b'"') {
        return quoted(text, delimiter, last);
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

/// A cell in quotes; two quotes inside are one. What stands behind the closing quote belongs to the cell.
fn quoted(text: &[u8], delimiter: u8, last: bool) -> Option<(Cow<'_, [u8]>, usize, bool)> {
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

/// Where a cell goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    Nowhere,
    Symbol,
    Time,
    /// The day of a time in two columns.
    Day,
    /// The time of day beside it.
    TimeOfDay,
    Value(usize),
    /// A value that is NaN where it is no number.
    ValueOrNan(usize),
}

/// How rows are cut.
struct Cutter {
    plan: Plan,
    delimiter: u8,
    goes: Vec<Goes>,
    /// Columns that are the copy of another: from, to.
    copies: Vec<(usize, usize)>,
    /// Rows so far.
    row: u64,
}

/// How far a row got.
enum Cut {
    /// It is done and was so long.
    Row(usize),
    /// It ends behind the buffer.
    Beyond,
}

impl Cutter {
    fn new(plan: Plan, delimiter: u8) -> Cutter {
        let mut goes = vec![Goes::Nowhere; plan.names.len()];
        let mut copies = Vec::new();
        let mut put = |at: Option<usize>, to: Goes| {
            let Some(place) = at.and_then(|at| goes.get_mut(at)) else { return };
            match (*place, to) {
                (Goes::Value(from) | Goes::ValueOrNan(from), Goes::Value(to) | Goes::ValueOrNan(to)) => {
                    copies.push((from, to));
                }
                _ => *place = to,
            }
        };
        put(plan.columns.get(Role::Symbol), Goes::Symbol);
        let joined = plan.columns.get(Role::TimeOfDay);
        put(plan.columns.get(Role::Time), if joined.is_some() { Goes::Day } else { Goes::Time });
        put(joined, Goes::TimeOfDay);
        for (at, role) in VALUES.iter().enumerate() {
            let or_nan = plan.or_nan.contains(role);
            put(plan.columns.get(*role), if or_nan { Goes::ValueOrNan(at) } else { Goes::Value(at) });
        }
        Cutter { plan, delimiter, goes, copies, row: 0 }
    }

    /// Reads one row into a chunk.
    fn row(
        &mut self,
        text: &[u8],
        last: bool,
        chunk: &mut Chunk,
        intake: &mut Intake,
        fixed: u32,
    ) -> Result<Cut, FrameError> {
        let before = chunk.row.len();
        let mut rest = text;
        let mut at = 0;
        let mut symbol = fixed;
        let (mut day, mut of_day) = (None, None);
        let mut wrong: Option<(usize, String)> = None;
        loop {
            let Some((cell, length, end)) = cell(rest, self.delimiter, last) else {
                chunk.truncate(before);
                if last {
                    self.row += 1;
                    let name = self.plan.names.get(at).map_or("", String::as_str);
                    intake.bad(&self.plan, self.row, name, "a quote is opened and never closed")?;
                    return Ok(Cut::Row(text.len()));
                }
                return Ok(Cut::Beyond);
            };
            if at == 0 && end && cell.trim_ascii().is_empty() {
                return Ok(Cut::Row(length));
            }
            let taken = match self.goes.get(at) {
                Some(Goes::Value(to)) => number_cell(&cell, *to, chunk),
                Some(Goes::ValueOrNan(to)) => {
                    number_cell(&cell, *to, chunk).or_else(|_| number_cell(b"", *to, chunk))
                }
                Some(Goes::Time) => time_cell(&cell, chunk, intake),
                Some(Goes::Symbol) => symbol_cell(&cell, intake).map(|id| symbol = id),
                Some(Goes::Day) => day_cell(&cell).map(|days| day = Some(days)),
                Some(Goes::TimeOfDay) => {
                    of_day_cell(&cell, self.plan.of_day).map(|nanos| of_day = Some(nanos))
                }
                Some(Goes::Nowhere) | None => Ok(()),
            };
            if let Err(message) = taken
                && wrong.is_none()
            {
                wrong = Some((at, message));
            }
            at += 1;
            rest = rest.get(length..).unwrap_or_default();
            if end {
                break;
            }
        }
        self.row += 1;
        let width = self.goes.len();
        if at != width {
            wrong = Some((at.min(width - 1), format!("the row has {at} cells, the header has {width}")));
        }
        if let (Some(days), Some(nanos), None) = (day, of_day, &wrong) {
            match intake.clock.read(time_of_day::join(days, nanos)) {
                Ok(time) => chunk.time.push(time),
                Err(why) => {
                    wrong = Some((self.plan.columns.get(Role::Time).unwrap_or(0), format!("the time {why}")))
                }
            }
        }
        match wrong {
            Some((at, message)) => {
                chunk.truncate(before);
                let name = self.plan.names.get(at).map_or("", String::as_str);
                intake.bad(&self.plan, self.row, name, &message)?;
            }
            None => {
                chunk.row.push(self.row);
                chunk.push_symbol(symbol);
            }
        }
        Ok(Cut::Row(text.len() - rest.len()))
    }
}

fn number_cell(cell: &[u8], to: usize, chunk: &mut Chunk) -> Result<(), String> {
    let value = number(cell).ok_or_else(|| format!("{} is not a number", shown(cell)))?;
    if let Some(column) = chunk.values.get_mut(to) {
        column.push(value);
    }
    Ok(())
}

fn time_cell(cell: &[u8], chunk: &mut Chunk, intake: &Intake) -> Result<(), String> {
    if cell.trim_ascii().is_empty() {
        return Err("the time is missing".to_string());
    }
    let written = time::parse(cell).ok_or_else(|| {
        format!(
            "{} is not a time: 2024-01-31, 20240131, 2024-01-31T09:30:00Z or a plain number is",
            shown(cell)
        )
    })?;
    chunk.time.push(intake.clock.read(written).map_err(|why| format!("{} {why}", shown(cell)))?);
    Ok(())
}

fn day_cell(cell: &[u8]) -> Result<i64, String> {
    time_of_day::day(cell).ok_or_else(|| match cell.trim_ascii() {
        b"" => "the date is missing".to_string(),
        _ => format!("{} is not a date: 2024-01-31, 2024.01.31 or 20240131 is", shown(cell)),
    })
}

fn of_day_cell(cell: &[u8], form: time_of_day::Form) -> Result<i64, String> {
    time_of_day::read(cell, form).ok_or_else(|| match cell.trim_ascii() {
        b"" => "the time of day is missing".to_string(),
        _ => format!("{} is not a time of day as the first ones of the column are", shown(cell)),
    })
}

fn symbol_cell(cell: &[u8], intake: &mut Intake) -> Result<u32, String> {
    let text = std::str::from_utf8(cell).map_err(|_| format!("{} is not UTF-8", shown(cell)))?.trim();
    if text.is_empty() {
        return Err("the symbol is missing".to_string());
    }
    Ok(intake.symbols.text(text))
}

/// A text file that is being read.
pub(super) struct Csv {
    cutter: Cutter,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The part of the buffer that is not yet used.
    start: usize,
    filled: usize,
    /// Was the end of the file seen?
    ended: bool,
    /// Bytes that were used.
    used: u64,
}

impl Csv {
    /// Reads an input from its first byte on.
    pub(super) fn new(plan: Plan, head: &Head, input: Box<dyn Read + Send>) -> Csv {
        let cutter = Cutter::new(plan, head.delimiter);
        let mut csv =
            Csv { cutter, input, buffer: vec![0; BLOCK], start: 0, filled: 0, ended: false, used: 0 };
        csv.skip(head.data);
        csv
    }

    /// Notes that so many bytes are to be passed over; they may not have been read yet.
    fn skip(&mut self, bytes: usize) {
        self.start = bytes;
    }

    /// Reads more behind what is not yet used.
    fn fill(&mut self) -> Result<(), FrameError> {
        let path = &self.cutter.plan.path;
        // The header is passed over as soon as it is there.
        if self.start <= self.filled {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.used += self.start as u64;
            self.filled -= self.start;
            self.start = 0;
        }
        if self.filled == self.buffer.len() {
            if self.buffer.len() >= LONGEST {
                let message = format!(
                    "row {} is longer than {} MiB\n  hint: look for a quote that is never closed",
                    self.cutter.row + 1,
                    LONGEST >> 20
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

impl Source for Csv {
    fn next(&mut self, intake: &mut Intake) -> Result<Option<Chunk>, FrameError> {
        let mut chunk = Chunk::default();
        let fixed = match self.cutter.goes.contains(&Goes::Symbol) {
            true => 0,
            false => intake.symbols.key(self.cutter.plan.symbol.clone()),
        };
        while chunk.row.len() < ROWS {
            let text = self.buffer.get(self.start..self.filled).unwrap_or_default();
            if text.is_empty() && self.ended {
                break;
            }
            let cut = match text.is_empty() {
                true => Cut::Beyond,
                false => self.cutter.row(text, self.ended, &mut chunk, intake, fixed)?,
            };
            match cut {
                Cut::Row(length) => self.start += length,
                // Rows that are ready go on their way before a slow input is waited for.
                Cut::Beyond => self.fill()?,
            }
        }
        if chunk.row.is_empty() {
            return Ok(None);
        }
        for (from, to) in &self.cutter.copies {
            let copy = chunk.values.get(*from).cloned().unwrap_or_default();
            if let Some(column) = chunk.values.get_mut(*to) {
                *column = copy;
            }
        }
        chunk.finish(&self.cutter.plan);
        Ok(Some(chunk))
    }

    fn bytes(&self) -> u64 {
        self.used + self.start.min(self.filled) as u64
    }
}
