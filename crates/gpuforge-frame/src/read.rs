//! How do files become bars? Each is recognised and checked when it is opened, then all are read one after the other.
//!
//! | what | how it is read |
//! |---|---|
//! | Parquet, Arrow IPC (file and stream), CSV | recognised by the first bytes, then by the name |
//! | prices, volume | any integer, decimal or float type, or text; a null or an empty cell is NaN |
//! | time | dates, timestamps of any unit and zone, integers (kept as they are), text |
//! | symbol | text, dictionaries, integers; in CSV always text, since `000001` is a ticker |
//! | time in two columns | `Date` and `Time` (`<DATE>`, `<TIME>`): joined; a time of day alone is refused |
//! | several files | one after the other; without a symbol column their paths say it: a hive key (`symbol=AAPL/`), or the file name without date and interval ([`KeySource`]) |
//!
//! A file whose order in time is not known is refused, unless [`ReadOptions::untimed`] says that rows are in order.
//!
//! Symbols come in the order of their first appearance. Rows of a symbol are put in time order if they are not. Text
//! decides the type of a time column by its first 1000 rows: dates become `Date32`, dates with a time of day
//! microseconds (nanoseconds if they are that fine), in UTC if they have a zone.

mod batch;
mod chunk;
mod csv;
mod gather;
mod input;
mod ipc;
mod number;
pub mod numbers;
mod open;
mod parquet;
mod path_key;
mod report;
mod series;
mod spill;
mod thrift;
pub(crate) mod time;
mod time_of_day;

use std::{
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use self::{
    chunk::{Intake, Symbols, VALUES},
    gather::{Gather, Making, Progressed},
    open::Table,
    spill::Shape,
};
pub use self::{
    input::Input,
    path_key::KeySource,
    report::{ColumnReport, FileReport, ReadReport, Recognised, TimeReport},
    series::Duplicates,
};
use crate::{
    bars::{Bars, Layout, Portion},
    error::FrameError,
    names::{Mapping, Role},
};

/// How far reading has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Rows that were read.
    pub rows: u64,
    /// All rows, where the files say how many there are.
    pub total_rows: Option<u64>,
    /// Bytes of the files that were read.
    pub bytes: u64,
    /// All bytes; `None` if some come from a pipe.
    pub total_bytes: Option<u64>,
}

/// What makes a series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum By {
    /// A symbol column; without one the path of the file.
    #[default]
    Auto,
    /// This column.
    Column(String),
    /// The file: its name without the ending.
    File,
    /// The directory that the file is in; of `symbol=AAPL` the value.
    Directory,
    /// Everything is one series.
    Nothing,
}

impl By {
    /// What `file`, `dir`, `none`, or the name of a column means.
    pub fn parse(text: &str) -> By {
        match text {
            "file" => By::File,
            "dir" => By::Directory,
            "none" => By::Nothing,
            column => By::Column(column.to_string()),
        }
    }
}

/// How files are read.
pub struct ReadOptions<'a> {
    /// Columns that the user named.
    pub mapping: Mapping,
    /// What makes a series.
    pub by: By,
    /// Take rows in file order, the oldest first, and no time column. Without it a file that says no time is refused.
    pub untimed: bool,
    /// Scale open, high, low and close by adjusted close / close. Volume stays as it is.
    pub adjusted: bool,
    /// Drop rows that cannot be read, and count them.
    pub skip_bad: bool,
    /// What is done with a time that a symbol has twice.
    pub duplicates: Duplicates,
    /// Columns that must be there; nothing else is decoded but the keys. A symbol may be missing unless [`Role::Symbol`] is
    /// among them.
    pub needed: Vec<Role>,
    /// Columns that are taken along where all files have them.
    pub optional: Vec<Role>,
    /// Is a cell of an optional column that is no number NaN? Otherwise its row cannot be read, as for a column that is needed.
    pub optional_or_nan: bool,
    /// Bytes that may be used for bars, sorting included; decoding takes some megabytes more. Not set: everything.
    pub memory: Option<u64>,
    /// Told after every 65 536 rows or so.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// Where temporary files go; not set: where the system puts them.
    pub temp_dir: Option<PathBuf>,
    /// What `-` reads; not set: standard input.
    pub stdin: Option<Box<dyn Read + Send>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            mapping: Mapping::default(),
            by: By::Auto,
            untimed: false,
            adjusted: false,
            skip_bad: false,
            duplicates: Duplicates::Error,
            needed: vec![Role::Open, Role::High, Role::Low, Role::Close, Role::Volume],
            optional: Vec::new(),
            optional_or_nan: false,
            memory: None,
            progress: None,
            temp_dir: None,
            stdin: None,
        }
    }
}

/// An opened input.
pub struct Reader<'a> {
    tables: Vec<Table>,
    layout: Layout,
    options: ReadOptions<'a>,
    report: ReadReport,
}

impl<'a> Reader<'a> {
    /// Opens all files and checks that they have what is needed, and fit together.
    pub fn open(input: &Input, mut options: ReadOptions<'a>) -> Result<Reader<'a>, FrameError> {
        if let By::Column(column) = &options.by {
            options.mapping.set(Role::Symbol, column.clone());
        }
        let opened = input::open(input, options.stdin.take(), options.temp_dir.as_deref())?;
        let (tables, layout) = open::tables(opened, &mut options)?;
        let inputs = tables.iter().map(Table::report).collect();
        let report = ReadReport { files: tables.len(), inputs, ..ReadReport::default() };
        Ok(Reader { tables, layout, options, report })
    }

    /// The keys of the input.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Rows of the input, where the files say it.
    pub fn total_rows(&self) -> Option<u64> {
        self.tables.iter().map(|t| t.rows).sum()
    }

    /// What was read; complete when the portions have ended.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// Reads everything, and hands over what fits into memory at once. An input is read once: a second call gives nothing.
    pub fn portions(&mut self) -> Result<Portions<'_, 'a>, FrameError> {
        let mut asked = VALUES.into_iter().map(|role| self.options.needed.contains(&role));
        let values = [(); 5].map(|()| asked.next().unwrap_or(false));
        let shape = Shape { timed: self.layout.time.is_some(), values };
        let mut gather = Gather::new(shape, self.options.memory, self.options.temp_dir.clone());
        let clock = time::Clock::of(&self.layout.time.as_ref().map_or_else(time::unseen, |c| c.kind.clone()));
        let mut intake = Intake {
            symbols: Symbols::default(),
            clock,
            skip_bad: self.options.skip_bad,
            skipped: 0,
            reasons: Vec::new(),
        };
        let files: Vec<PathBuf> = self.tables.iter().map(|t| t.plan.path.clone()).collect();
        self.take(&mut intake, &mut gather)?;
        gather.end()?;
        let (rows, symbols) = gather.count();
        let Intake { skipped, reasons, .. } = &intake;
        let (skipped, reasons, spilled) = (*skipped, reasons.clone(), gather.spilled());
        if rows == 0 && skipped > 0 {
            return Err(nothing_left(&files, skipped, &reasons));
        }
        let inputs = std::mem::take(&mut self.report.inputs);
        self.report = ReadReport {
            rows,
            symbols,
            skipped,
            reasons,
            spilled,
            files: files.len(),
            inputs,
            ..ReadReport::default()
        };
        Ok(Portions {
            reader: self,
            gather,
            symbols: intake.symbols,
            files,
            at: Progressed::default(),
            failed: false,
        })
    }

    /// Reads all files.
    fn take(&mut self, intake: &mut Intake, gather: &mut Gather) -> Result<(), FrameError> {
        let mut told = Progress {
            total_rows: self.total_rows(),
            total_bytes: self.tables.iter().map(|t| t.opened.size).sum(),
            ..Progress::default()
        };
        for table in std::mem::take(&mut self.tables) {
            let file = table.plan.file;
            let mut source = table.source()?;
            let before = told.bytes;
            let (mut in_order, mut rows, skipped) = (true, 0, intake.skipped);
            while let Some(chunk) = source.next(intake)? {
                in_order &= gather.push(&chunk, file)?;
                rows += chunk.row.len() as u64;
                told.rows += chunk.row.len() as u64;
                told.bytes = before + source.bytes();
                self.options.progress.iter().for_each(|tell| tell(told));
            }
            told.bytes = before + source.bytes();
            if let Some(report) = self.report.inputs.get_mut(file) {
                (report.rows, report.skipped) = (rows, intake.skipped - skipped);
                report.in_order = in_order;
            }
        }
        Ok(())
    }
}

/// The bars of an input, as much at once as fits into memory.
pub struct Portions<'r, 'a> {
    reader: &'r mut Reader<'a>,
    gather: Gather,
    symbols: Symbols,
    files: Vec<PathBuf>,
    at: Progressed,
    failed: bool,
}

impl Iterator for Portions<'_, '_> {
    type Item = Result<Portion, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let making = Making {
            layout: &self.reader.layout,
            keys: self.symbols.keys(),
            files: &self.files,
            duplicates: self.reader.options.duplicates,
        };
        let portion = self.gather.portion(&mut self.at, &making);
        self.reader.report.sorted_here = self.at.sorted_here;
        self.reader.report.duplicates = self.at.duplicates.values().sum();
        for (file, dropped) in &self.at.duplicates {
            self.reader
                .report
                .inputs
                .get_mut(*file)
                .into_iter()
                .for_each(|report| report.duplicates = *dropped);
        }
        self.reader.report.time = self.at.span.report(&self.reader.layout);
        self.failed = portion.is_err();
        portion.transpose()
    }
}

/// Reads everything at once; the memory limit of the options does not apply.
pub fn read(input: &Input, options: ReadOptions<'_>) -> Result<(Layout, Vec<Bars>, ReadReport), FrameError> {
    let mut reader = Reader::open(input, ReadOptions { memory: None, ..options })?;
    let layout = reader.layout().clone();
    let mut all = Vec::new();
    for portion in reader.portions()? {
        match portion? {
            Portion::Whole(bars) => all.extend(bars),
            Portion::Part { bars, .. } => all.push(bars),
        }
    }
    Ok((layout, all, reader.report().clone()))
}

/// The error for an input of which every row was dropped.
fn nothing_left(files: &[PathBuf], skipped: u64, reasons: &[String]) -> FrameError {
    const SHOWN: usize = 3;
    let more = if skipped > SHOWN as u64 { "; …" } else { "" };
    let reasons = reasons.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    let message = format!(
        "no row can be read: all {skipped} were skipped: {reasons}{more}\n  \
         hint: name the columns: --column ROLE=NAME, --time NAME; --explain-input shows what was recognised"
    );
    FrameError::Format { path: files.first().cloned().unwrap_or_default(), message }
}

/// Runs a decoder of others over bytes that may be hostile. Where it gives up by panicking, that is an error of the file.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, FrameError>) -> Result<T, FrameError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let message = "the file is damaged: its decoder gave up\n  hint: copy or write it again".to_string();
        Err(FrameError::Format { path: path.into(), message })
    })
}
