//! How do columns become a file? Rows of one symbol after another, encoded in portions, renamed when all is well.
//!
//! ```text
//!   write(symbol, times, values) ──► Batch ──► Parquet | IPC | CSV ──► Sink ──► temporary file ──► finish: rename
//!                                    ≤ 16 MB   columns or rows on        counts bytes, keeps the
//!                                              several threads           first error of the system
//! ```
//! Memory does not grow with the output: a batch holds at most [`BATCH_BYTES`], and a row group of Parquet, which must be
//! kept until its last row is known, at most [`GROUP_BYTES`] before compression.
//!
//! | format | floats | keys | cells without a value |
//! |---|---|---|---|
//! | Parquet | byte streams split, zstd, no dictionary, no statistics; every page has its CRC-32 | dictionary for symbols, deltas for times, statistics per row group | null |
//! | Arrow IPC | as they lie in memory, so that a file can be mapped; zstd on request | the same | null |
//! | CSV | shortest text that reads back to the same bits, always with a point or an exponent | ISO 8601, symbols quoted where they must be | empty, and so is NaN |

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, Schema};

use crate::{
    bars::{Key, Layout},
    error::FrameError,
};

mod batch;
mod csv;
mod ipc;
mod page_crc;
mod parquet;
mod place;
mod text;

use batch::Batch;
use place::{Place, Sink, Stopped};

/// Values of a batch, at most: small beside the memory of any machine, large beside the cost of a hand-over to threads.
const BATCH_BYTES: usize = 16 << 20;
/// Values of a row group, at most.
const GROUP_BYTES: usize = 96 << 20;
/// Rows of a batch, at least, however many columns there are.
const BATCH_ROWS: usize = 256;

/// What a file is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// An Arrow IPC file, also known as Feather 2.
    Ipc,
    /// Text with commas, or with tabs where the file's name ends in `.tsv`.
    Csv,
}

/// Endings of names, and what they mean.
const ENDINGS: [(&str, Format); 7] = [
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Ipc),
    ("feather", Format::Ipc),
    ("ipc", Format::Ipc),
    ("csv", Format::Csv),
    ("tsv", Format::Csv),
];

impl Format {
    /// What the ending of a name asks for; `-`, the standard output, is CSV.
    pub fn of(path: &Path) -> Result<Format, FrameError> {
        if path == Path::new("-") {
            return Ok(Format::Csv);
        }
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let known = ENDINGS.iter().find(|(name, _)| *name == ending);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<String> = ENDINGS.iter().map(|(name, _)| format!(".{name}")).collect();
            let what = match ending.as_str() {
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

/// How a file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// As what.
    pub format: Format,
    /// Columns in single precision? Prices and indicators lose digits, the file half its size.
    pub single: bool,
    /// Level of zstd in Parquet, 1 to 22.
    pub level: i32,
    /// Rows of a row group, at most; fewer where the columns are many.
    pub row_group: usize,
    /// Threads that encode; 0 = those of the process's own pool.
    pub threads: usize,
    /// Compress Arrow IPC with zstd? Such a file is smaller and cannot be mapped into memory.
    pub compress_ipc: bool,
}

impl Options {
    /// The defaults of a format.
    pub fn new(format: Format) -> Self {
        Options { format, single: false, level: 1, row_group: 1 << 16, threads: 0, compress_ipc: false }
    }

    /// The defaults of the format that the ending of a name asks for.
    pub fn of(path: &Path) -> Result<Self, FrameError> {
        Format::of(path).map(Options::new)
    }
}

/// Rows of one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Values<'a> {
    /// One for each row.
    pub values: &'a [f64],
    /// Rows before this one have no value; a NaN at or after it is a NaN.
    pub valid_from: usize,
}

impl<'a> Values<'a> {
    /// A value in every row.
    pub fn all(values: &'a [f64]) -> Self {
        Values { values, valid_from: 0 }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// A file that is being written. Dropped before [`Writer::finish`], it leaves nothing behind, and what was there before
/// stays as it was.
pub struct Writer {
    // Before `place`: where open files cannot be removed, the file must be closed before its name goes.
    encoder: Box<dyn Encoder>,
    batch: Batch,
    batch_rows: usize,
    rows: u64,
    place: Place,
    pool: Option<rayon::ThreadPool>,
    failed: bool,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.place.path())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// One way to turn batches into bytes.
trait Encoder: Send {
    /// Encodes the rows of a batch and empties it.
    fn write(&mut self, batch: &mut Batch) -> Result<(), Stopped>;

    /// Writes what is still kept, and whatever ends a file.
    fn finish(self: Box<Self>) -> Result<(), Stopped>;
}

impl Writer {
    /// Begins a file at `path`, or on the standard output where it is `-`: the keys of `layout` in their order, then
    /// `columns`. The folder must exist.
    pub fn create(
        path: &Path,
        layout: &Layout,
        columns: &[String],
        options: &Options,
    ) -> Result<Writer, FrameError> {
        let schema = schema(layout, columns, options.single)?;
        let (place, out) = Place::open(path)?;
        Writer::begin(place, out, layout, schema, options)
    }

    /// Writes to `out` instead of a file; `name` is what errors call it.
    pub fn over(
        out: impl Write + Send + 'static,
        name: &Path,
        layout: &Layout,
        columns: &[String],
        options: &Options,
    ) -> Result<Writer, FrameError> {
        let schema = schema(layout, columns, options.single)?;
        let (place, out) = Place::over(Box::new(out), name);
        Writer::begin(place, out, layout, schema, options)
    }

    fn begin(
        place: Place,
        out: Sink,
        layout: &Layout,
        schema: Schema,
        options: &Options,
    ) -> Result<Writer, FrameError> {
        let keys = usize::from(layout.symbol.is_some()) + usize::from(layout.time.is_some());
        let columns = schema.fields().len() - keys;
        let schema = Arc::new(schema);
        let (batch_rows, group_rows) = portions(columns, options.row_group);
        let begin = || -> Result<Box<dyn Encoder>, Stopped> {
            Ok(match options.format {
                Format::Parquet => {
                    Box::new(parquet::Parquet::new(out, schema.clone(), keys, group_rows, options.level)?)
                }
                Format::Ipc => Box::new(ipc::Ipc::new(out, &schema, options.compress_ipc)?),
                Format::Csv => Box::new(csv::Csv::new(out, &schema, place.separator())?),
            })
        };
        let encoder = begin().map_err(|error| place.explain(error))?;
        let pool = match options.threads {
            0 => None,
            threads => {
                let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                Some(built.map_err(|e| FrameError::Usage(format!("cannot start {threads} threads: {e}")))?)
            }
        };
        let batch = Batch::new(layout.clone(), schema, columns, options.single);
        Ok(Writer { encoder, batch, batch_rows, rows: 0, place, pool, failed: false })
    }

    /// Appends rows of one symbol: its times (none where the layout has no time) and the values of every column.
    pub fn write(
        &mut self,
        symbol: Option<&Key>,
        times: &[i64],
        values: &[Values<'_>],
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

    /// Encodes what is kept.
    fn flush(&mut self) -> Result<(), FrameError> {
        self.usable()?;
        let (encoder, batch) = (&mut self.encoder, &mut self.batch);
        let encoded = match &self.pool {
            Some(pool) => pool.install(|| encoder.write(batch)),
            None => encoder.write(batch),
        };
        self.failed = encoded.is_err();
        encoded.map_err(|error| self.place.explain(error))
    }

    /// A file with a hole must not come into being.
    fn usable(&self) -> Result<(), FrameError> {
        match self.failed {
            false => Ok(()),
            true => Err(FrameError::Usage(format!(
                "{}: writing failed before, nothing was kept",
                self.place.path().display()
            ))),
        }
    }

    /// Encodes the rest and puts the file in its place.
    pub fn finish(mut self) -> Result<Written, FrameError> {
        self.usable()?;
        if self.batch.rows() > 0 {
            self.flush()?;
        }
        let Writer { encoder, rows, place, pool, .. } = self;
        let ended = match &pool {
            Some(pool) => pool.install(|| encoder.finish()),
            None => encoder.finish(),
        };
        ended.map_err(|error| place.explain(error))?;
        Ok(Written { rows, bytes: place.keep()? })
    }

    /// Where the rows will be.
    pub fn path(&self) -> PathBuf {
        self.place.path().to_owned()
    }
}

/// Rows of a batch and of a row group, the latter a multiple of the former.
fn portions(columns: usize, row_group: usize) -> (usize, usize) {
    let row = 8 * columns.max(1);
    let wanted = row_group.max(1).min((GROUP_BYTES / row).max(BATCH_ROWS));
    let batch = wanted.min((BATCH_BYTES / row).max(BATCH_ROWS));
    (batch, wanted / batch * batch)
}

/// Keys and columns of the file.
fn schema(layout: &Layout, columns: &[String], single: bool) -> Result<Schema, FrameError> {
    let symbol = layout.symbol.as_ref().map(|c| (c, true)).into_iter();
    let time = layout.time.as_ref().map(|c| (c, false)).into_iter();
    let keys: Vec<_> = match layout.time_first {
        true => time.chain(symbol).collect(),
        false => symbol.chain(time).collect(),
    };
    let mut fields = Vec::with_capacity(keys.len() + columns.len());
    for (column, is_symbol) in keys {
        let usable = match is_symbol {
            true => matches!(column.kind, DataType::Utf8 | DataType::Int64),
            false => matches!(column.kind, DataType::Date32 | DataType::Int64 | DataType::Timestamp(..)),
        };
        if !usable {
            return Err(FrameError::Usage(format!(
                "key column `{}` cannot be a {}",
                column.name, column.kind
            )));
        }
        fields.push(Field::new(&column.name, column.kind.clone(), is_symbol));
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
