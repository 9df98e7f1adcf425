//! Writer: computed columns to Parquet, Arrow IPC or CSV in record batches, into a temp file that is renamed atomically.
//!
//! ```text
//!   write(symbol, times, values) ──► BatchBuilder ──► Parquet | IPC | CSV ──► Sink ──► temp file ──► finish: atomic rename
//!                                    ≤ 16 MB          columns or rows          counts bytes, keeps the
//!                                                     on a thread pool         first I/O error
//! ```
//! Memory does not grow with the output: a batch holds at most [`BATCH_BYTES`], and a Parquet row group, which is buffered
//! until its last row, at most [`GROUP_BYTES`] before compression.
//!
//! | format | floats | keys | nulls |
//! |---|---|---|---|
//! | Parquet | BYTE_STREAM_SPLIT, zstd, no dictionary, no statistics; page CRC-32 | dictionary for symbols, DELTA_BINARY_PACKED times, statistics per row group | null |
//! | Arrow IPC | uncompressed for memory mapping; zstd on request | the same | null |
//! | CSV | shortest round-trip text, always with a point or an exponent | ISO 8601, symbols quoted where needed | empty, as is NaN |

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, Schema};

use crate::{
    bars::{KeySchema, SymbolKey},
    error::FrameError,
};

mod batch_builder;
mod cell_format;
mod csv;
mod ipc;
mod output_target;
mod page_crc;
mod parquet;

use batch_builder::BatchBuilder;
use output_target::{EncodeError, OutputTarget, Sink};

/// Maximum bytes of values per batch: large beside the cost of dispatching to threads.
const BATCH_BYTES: usize = 16 << 20;
/// Maximum bytes of values per row group.
const GROUP_BYTES: usize = 96 << 20;
/// Minimum rows per batch, however many columns there are.
const BATCH_ROWS: usize = 256;

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// An Arrow IPC file, also known as Feather 2.
    Ipc,
    /// CSV, or tab-separated for the extension `.tsv`.
    Csv,
}

/// File extensions.
const EXTENSIONS: [(&str, FileFormat); 7] = [
    ("parquet", FileFormat::Parquet),
    ("pq", FileFormat::Parquet),
    ("arrow", FileFormat::Ipc),
    ("feather", FileFormat::Ipc),
    ("ipc", FileFormat::Ipc),
    ("csv", FileFormat::Csv),
    ("tsv", FileFormat::Csv),
];

impl FileFormat {
    /// Format by file extension; `-`, the standard output, is CSV.
    pub fn of(path: &Path) -> Result<FileFormat, FrameError> {
        if path == Path::new("-") {
            return Ok(FileFormat::Csv);
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let known = EXTENSIONS.iter().find(|(name, _)| *name == extension);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<String> = EXTENSIONS.iter().map(|(name, _)| format!(".{name}")).collect();
            let what = match extension.as_str() {
                "" => "has no ending".to_owned(),
                other => format!("ends in .{other}"),
            };
            FrameError::Usage(format!(
                "{}: the name {what}, so the format is not known\n  hint: name it {}",
                path.display(),
                names.join(", ")
            ))
        })
    }
}

/// Options of a [`Writer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// File format.
    pub format: FileFormat,
    /// Write columns as f32: half the size, fewer digits.
    pub single: bool,
    /// zstd level in Parquet, 1 to 22.
    pub level: i32,
    /// Maximum rows per row group; fewer with many columns.
    pub row_group: usize,
    /// Encoder threads; 0 = the global rayon pool.
    pub threads: usize,
    /// Compress Arrow IPC with zstd: smaller, but cannot be memory mapped.
    pub compress_ipc: bool,
}

impl WriteOptions {
    /// Defaults of a format.
    pub fn new(format: FileFormat) -> Self {
        WriteOptions { format, single: false, level: 1, row_group: 1 << 16, threads: 0, compress_ipc: false }
    }

    /// Defaults of the format of a file extension.
    pub fn of(path: &Path) -> Result<Self, FrameError> {
        FileFormat::of(path).map(WriteOptions::new)
    }
}

/// Values of one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnValues<'a> {
    /// One per row.
    pub values: &'a [f64],
    /// Rows before this one are null; a NaN at or after it stays NaN.
    pub valid_from: usize,
}

impl<'a> ColumnValues<'a> {
    /// No nulls.
    pub fn all(values: &'a [f64]) -> Self {
        ColumnValues { values, valid_from: 0 }
    }
}

/// Size of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSummary {
    /// Number of rows.
    pub rows: u64,
    /// File size in bytes.
    pub bytes: u64,
}

/// Streaming file writer. Dropped before [`Writer::finish`], it leaves nothing behind, and an existing file stays as it was.
pub struct Writer {
    // Declared before `target`, so dropped first: on Windows an open file cannot be removed.
    encoder: Box<dyn Encoder>,
    batch: BatchBuilder,
    batch_rows: usize,
    rows: u64,
    target: OutputTarget,
    pool: Option<rayon::ThreadPool>,
    failed: bool,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.target.path())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Encoder of a file format.
trait Encoder: Send {
    /// Encodes the rows of a batch and clears it.
    fn write(&mut self, batch: &mut BatchBuilder) -> Result<(), EncodeError>;

    /// Flushes buffered rows and writes the footer.
    fn finish(self: Box<Self>) -> Result<(), EncodeError>;
}

impl Writer {
    /// Creates a file at `path` (`-`: standard output) with the key columns of `layout`, then `columns`. The directory must
    /// exist.
    pub fn create(
        path: &Path,
        layout: &KeySchema,
        columns: &[String],
        options: &WriteOptions,
    ) -> Result<Writer, FrameError> {
        let schema = schema(layout, columns, options.single)?;
        let (target, out) = OutputTarget::open(path)?;
        Writer::start(target, out, layout, schema, options)
    }

    /// Writes to `out`; `name` is for error messages.
    pub fn over(
        out: impl Write + Send + 'static,
        name: &Path,
        layout: &KeySchema,
        columns: &[String],
        options: &WriteOptions,
    ) -> Result<Writer, FrameError> {
        let schema = schema(layout, columns, options.single)?;
        let (target, out) = OutputTarget::over(Box::new(out), name);
        Writer::start(target, out, layout, schema, options)
    }

    fn start(
        target: OutputTarget,
        out: Sink,
        layout: &KeySchema,
        schema: Schema,
        options: &WriteOptions,
    ) -> Result<Writer, FrameError> {
        let keys = usize::from(layout.symbol.is_some()) + usize::from(layout.time.is_some());
        let columns = schema.fields().len() - keys;
        let schema = Arc::new(schema);
        let (batch_rows, group_rows) = batch_and_group_rows(columns, options.row_group);
        let begin = || -> Result<Box<dyn Encoder>, EncodeError> {
            Ok(match options.format {
                FileFormat::Parquet => {
                    Box::new(parquet::Parquet::new(out, schema.clone(), keys, group_rows, options.level)?)
                }
                FileFormat::Ipc => Box::new(ipc::Ipc::new(out, &schema, options.compress_ipc)?),
                FileFormat::Csv => Box::new(csv::Csv::new(out, &schema, target.delimiter())?),
            })
        };
        let encoder = begin().map_err(|error| target.to_frame_error(error))?;
        let pool = match options.threads {
            0 => None,
            threads => {
                let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                Some(built.map_err(|e| FrameError::Usage(format!("cannot start {threads} threads: {e}")))?)
            }
        };
        let batch = BatchBuilder::new(layout.clone(), schema, columns, options.single);
        Ok(Writer { encoder, batch, batch_rows, rows: 0, target, pool, failed: false })
    }

    /// Appends rows of one symbol: times (empty without a time column) and the values of every column.
    pub fn write(
        &mut self,
        symbol: Option<&SymbolKey>,
        times: &[i64],
        values: &[ColumnValues<'_>],
    ) -> Result<(), FrameError> {
        let rows = self.batch.check(symbol, times, values)?;
        let mut from = 0;
        while from < rows {
            let to = rows.min(from + self.batch_rows - self.batch.rows());
            self.batch.push(symbol, times, values, from..to);
            from = to;
            if self.batch.rows() == self.batch_rows {
                self.flush()?;
            }
        }
        self.rows += rows as u64;
        Ok(())
    }

    /// Encodes the current batch.
    fn flush(&mut self) -> Result<(), FrameError> {
        self.check_usable()?;
        let (encoder, batch) = (&mut self.encoder, &mut self.batch);
        let encoded = match &self.pool {
            Some(pool) => pool.install(|| encoder.write(batch)),
            None => encoder.write(batch),
        };
        self.failed = encoded.is_err();
        encoded.map_err(|error| self.target.to_frame_error(error))
    }

    /// After a failed batch nothing more may be written: the file would have a hole.
    fn check_usable(&self) -> Result<(), FrameError> {
        match self.failed {
            false => Ok(()),
            true => Err(FrameError::Usage(format!(
                "{}: writing failed before, nothing was kept",
                self.target.path().display()
            ))),
        }
    }

    /// Encodes the rest and renames the temp file to its target.
    pub fn finish(mut self) -> Result<WriteSummary, FrameError> {
        self.check_usable()?;
        if self.batch.rows() > 0 {
            self.flush()?;
        }
        let Writer { encoder, rows, target, pool, .. } = self;
        let ended = match &pool {
            Some(pool) => pool.install(|| encoder.finish()),
            None => encoder.finish(),
        };
        ended.map_err(|error| target.to_frame_error(error))?;
        Ok(WriteSummary { rows, bytes: target.persist()? })
    }

    /// Path of the target.
    pub fn path(&self) -> PathBuf {
        self.target.path().to_owned()
    }
}

/// Rows per batch and per row group, the latter a multiple of the former.
fn batch_and_group_rows(columns: usize, row_group: usize) -> (usize, usize) {
    let row = 8 * columns.max(1);
    let wanted = row_group.max(1).min((GROUP_BYTES / row).max(BATCH_ROWS));
    let batch = wanted.min((BATCH_BYTES / row).max(BATCH_ROWS));
    (batch, wanted / batch * batch)
}

/// Arrow schema of the file: key columns, then value columns.
fn schema(layout: &KeySchema, columns: &[String], single: bool) -> Result<Schema, FrameError> {
    let symbol = layout.symbol.as_ref().map(|c| (c, true)).into_iter();
    let time = layout.time.as_ref().map(|c| (c, false)).into_iter();
    let keys: Vec<_> = match layout.time_first {
        true => time.chain(symbol).collect(),
        false => symbol.chain(time).collect(),
    };
    let mut fields = Vec::with_capacity(keys.len() + columns.len());
    for (column, is_symbol) in keys {
        let usable = match is_symbol {
            true => matches!(column.data_type, DataType::Utf8 | DataType::Int64),
            false => matches!(column.data_type, DataType::Date32 | DataType::Int64 | DataType::Timestamp(..)),
        };
        if !usable {
            return Err(FrameError::Usage(format!(
                "key column `{}` cannot be a {}",
                column.name, column.data_type
            )));
        }
        fields.push(Field::new(&column.name, column.data_type.clone(), is_symbol));
    }
    let kind = if single { DataType::Float32 } else { DataType::Float64 };
    fields.extend(columns.iter().map(|name| Field::new(name, kind.clone(), true)));
    let mut names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first()).flatten()) {
        Some(twice) => {
            Err(FrameError::Usage(format!("two columns would be called `{twice}`\n  hint: rename one")))
        }
        None => Ok(Schema::new(fields)),
    }
}
