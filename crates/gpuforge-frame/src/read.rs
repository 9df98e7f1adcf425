//! Reader: files to bars by symbol. Schemas are inferred and checked when files are opened, then files are decoded one
//! after the other.
//!
//! | input | how it is read |
//! |---|---|
//! | Parquet, Arrow IPC (file and stream), CSV | detected by magic bytes, then by the file extension |
//! | prices, volume | any integer, decimal or float type, or text; a null or an empty cell is NaN |
//! | time | dates, timestamps of any unit and zone, integers (kept as they are), text |
//! | symbol | text, dictionaries, integers; in CSV always text, since `000001` is a ticker |
//! | time in two columns | `Date` and `Time` (`<DATE>`, `<TIME>`): joined; a time of day alone is an error |
//! | several files | concatenated; without a symbol column the symbol is taken from the path: a hive partition (`symbol=AAPL/`), or the file name without date and interval ([`SymbolSource`]) |
//!
//! A file without a time column is an error, unless [`ReadOptions::untimed`] declares that rows are in time order.
//!
//! Symbols are in order of first appearance. Rows of a symbol are sorted by time if they are not. The type of a text time
//! column is inferred from its first 1000 rows: dates become `Date32`, dates with a time of day
//! microseconds (nanoseconds if they are that fine), in UTC if they have a zone.

mod chunk;
mod csv;
mod external_group_by;
mod input;
mod ipc;
pub mod numeric_table;
mod parquet;
mod parse_float;
mod path_symbol;
mod record_batch;
mod report;
mod schema;
mod series;
mod spill;
mod thrift_footer;
pub(crate) mod time;
mod time_of_day;

use std::{
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use self::{
    chunk::{ReadState, SymbolInterner, VALUE_ROLES},
    external_group_by::{BatchContext, EmitState, ExternalGroupBy},
    schema::InputTable,
    spill::ColumnSet,
};
pub use self::{
    input::Input,
    path_symbol::SymbolSource,
    report::{ColumnReport, FileReport, InputSummary, ReadReport, TimeReport},
    series::Duplicates,
};
use crate::{
    bars::{Bars, BarsBatch, KeySchema},
    column_roles::{ColumnMapping, Role},
    error::FrameError,
};

/// Progress of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Rows read.
    pub rows: u64,
    /// Total rows, where the files state it.
    pub total_rows: Option<u64>,
    /// Bytes read.
    pub bytes: u64,
    /// Total bytes; `None` if some come from a pipe.
    pub total_bytes: Option<u64>,
}

/// How rows are grouped into series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GroupBy {
    /// By the symbol column; without one by the file's path.
    #[default]
    Auto,
    /// By this column.
    Column(String),
    /// By file name without extension.
    File,
    /// By directory; the value of a hive directory (`symbol=AAPL`).
    Directory,
    /// One series.
    SingleSeries,
}

impl GroupBy {
    /// Parses `file`, `dir`, `none`, or a column name.
    pub fn parse(text: &str) -> GroupBy {
        match text {
            "file" => GroupBy::File,
            "dir" => GroupBy::Directory,
            "none" => GroupBy::SingleSeries,
            column => GroupBy::Column(column.to_string()),
        }
    }
}

/// Options of a [`Reader`].
pub struct ReadOptions<'a> {
    /// User mapping of roles to columns.
    pub mapping: ColumnMapping,
    /// Grouping of rows into series.
    pub by: GroupBy,
    /// No time column: rows are in time order, the oldest first. Otherwise a file without one is an error.
    pub untimed: bool,
    /// Adjust open, high, low and close by adjusted close / close. Volume is unchanged.
    pub adjusted: bool,
    /// Skip rows that cannot be parsed, and count them.
    pub skip_bad: bool,
    /// Policy for duplicate times of a symbol.
    pub duplicates: Duplicates,
    /// Projection: required columns; only these and the keys are decoded. The symbol is optional unless [`Role::Symbol`] is
    /// among them.
    pub needed: Vec<Role>,
    /// Optional columns, decoded where all files have them.
    pub optional: Vec<Role>,
    /// A cell of an optional column that is not a number is NaN. Otherwise its row is an error, as for required columns.
    pub optional_or_nan: bool,
    /// Memory budget for bars in bytes, sorting included; decoding takes some megabytes more. `None`: unlimited.
    pub memory: Option<u64>,
    /// Called after every chunk of about 65 536 rows.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// Directory of spill files; `None`: the system's temporary directory.
    pub temp_dir: Option<PathBuf>,
    /// What `-` reads; `None`: standard input.
    pub stdin: Option<Box<dyn Read + Send>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            mapping: ColumnMapping::default(),
            by: GroupBy::Auto,
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

/// Opened input with an inferred schema.
pub struct Reader<'a> {
    tables: Vec<InputTable>,
    layout: KeySchema,
    options: ReadOptions<'a>,
    report: ReadReport,
}

impl<'a> Reader<'a> {
    /// Opens all files, infers their schemas and checks that they are compatible.
    pub fn open(input: &Input, mut options: ReadOptions<'a>) -> Result<Reader<'a>, FrameError> {
        if let GroupBy::Column(column) = &options.by {
            options.mapping.set(Role::Symbol, column.clone());
        }
        let opened = input::open(input, options.stdin.take(), options.temp_dir.as_deref())?;
        let (tables, layout) = schema::tables(opened, &mut options)?;
        let inputs = tables.iter().map(InputTable::report).collect();
        let report = ReadReport { files: tables.len(), inputs, ..ReadReport::default() };
        Ok(Reader { tables, layout, options, report })
    }

    /// Key columns of the input.
    pub fn layout(&self) -> &KeySchema {
        &self.layout
    }

    /// Total rows, where the files state it.
    pub fn total_rows(&self) -> Option<u64> {
        self.tables.iter().map(|t| t.rows).sum()
    }

    /// Report; complete after the last batch.
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// Decodes and groups everything, then yields batches within the memory budget. An input is read once: a second call
    /// yields nothing.
    pub fn batches(&mut self) -> Result<BarsBatches<'_, 'a>, FrameError> {
        let mut requested = VALUE_ROLES.into_iter().map(|role| self.options.needed.contains(&role));
        let values = [(); 5].map(|()| requested.next().unwrap_or(false));
        let columns = ColumnSet { timed: self.layout.time.is_some(), values };
        let mut groups = ExternalGroupBy::new(columns, self.options.memory, self.options.temp_dir.clone());
        let time_encoding = time::TimeEncoding::of(
            &self.layout.time.as_ref().map_or_else(time::default_type, |c| c.data_type.clone()),
        );
        let mut state = ReadState {
            symbols: SymbolInterner::default(),
            time_encoding,
            skip_bad: self.options.skip_bad,
            skipped: 0,
            reasons: Vec::new(),
        };
        let files: Vec<PathBuf> = self.tables.iter().map(|t| t.plan.path.clone()).collect();
        self.read_files(&mut state, &mut groups)?;
        groups.finish_input()?;
        let (rows, symbols) = groups.count();
        let ReadState { skipped, reasons, .. } = &state;
        let (skipped, reasons, spilled) = (*skipped, reasons.clone(), groups.spilled());
        if rows == 0 && skipped > 0 {
            return Err(all_rows_skipped(&files, skipped, &reasons));
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
        Ok(BarsBatches {
            reader: self,
            groups,
            symbols: state.symbols,
            files,
            at: EmitState::default(),
            failed: false,
        })
    }

    /// Decodes all files into the groups.
    fn read_files(&mut self, state: &mut ReadState, groups: &mut ExternalGroupBy) -> Result<(), FrameError> {
        let mut progress = Progress {
            total_rows: self.total_rows(),
            total_bytes: self.tables.iter().map(|t| t.opened.size).sum(),
            ..Progress::default()
        };
        for table in std::mem::take(&mut self.tables) {
            let file = table.plan.file;
            let mut source = table.source()?;
            let before = progress.bytes;
            let (mut in_order, mut rows, skipped) = (true, 0, state.skipped);
            while let Some(chunk) = source.next_chunk(state)? {
                in_order &= groups.push(&chunk, file)?;
                rows += chunk.row.len() as u64;
                progress.rows += chunk.row.len() as u64;
                progress.bytes = before + source.bytes_read();
                self.options.progress.iter().for_each(|report| report(progress));
            }
            progress.bytes = before + source.bytes_read();
            if let Some(report) = self.report.inputs.get_mut(file) {
                (report.rows, report.skipped) = (rows, state.skipped - skipped);
                report.in_order = in_order;
            }
        }
        Ok(())
    }
}

/// Iterator over batches of bars within the memory budget.
pub struct BarsBatches<'r, 'a> {
    reader: &'r mut Reader<'a>,
    groups: ExternalGroupBy,
    symbols: SymbolInterner,
    files: Vec<PathBuf>,
    at: EmitState,
    failed: bool,
}

impl Iterator for BarsBatches<'_, '_> {
    type Item = Result<BarsBatch, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let context = BatchContext {
            layout: &self.reader.layout,
            keys: self.symbols.keys(),
            files: &self.files,
            duplicates: self.reader.options.duplicates,
        };
        let batch = self.groups.next_batch(&mut self.at, &context);
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
        self.failed = batch.is_err();
        batch.transpose()
    }
}

/// Reads everything into memory; the memory budget does not apply.
pub fn read(
    input: &Input,
    options: ReadOptions<'_>,
) -> Result<(KeySchema, Vec<Bars>, ReadReport), FrameError> {
    let mut reader = Reader::open(input, ReadOptions { memory: None, ..options })?;
    let layout = reader.layout().clone();
    let mut all = Vec::new();
    for batch in reader.batches()? {
        match batch? {
            BarsBatch::Complete(bars) => all.extend(bars),
            BarsBatch::Segment { bars, .. } => all.push(bars),
        }
    }
    Ok((layout, all, reader.report().clone()))
}

/// Error for an input of which every row was skipped.
fn all_rows_skipped(files: &[PathBuf], skipped: u64, reasons: &[String]) -> FrameError {
    const SHOWN: usize = 3;
    let more = if skipped > SHOWN as u64 { "; …" } else { "" };
    let reasons = reasons.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    let message = format!(
        "no row can be read: all {skipped} were skipped: {reasons}{more}\n  \
         hint: name the columns: --column ROLE=NAME, --time NAME; --explain-input shows what was recognised"
    );
    FrameError::Format { path: files.first().cloned().unwrap_or_default(), message }
}

/// Runs a third-party decoder over untrusted bytes; a panic becomes an error of the file.
fn catch_decoder_panic<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, FrameError>,
) -> Result<T, FrameError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let message = "the file is damaged: its decoder panicked\n  hint: copy or write it again".to_string();
        Err(FrameError::Format { path: path.into(), message })
    })
}
