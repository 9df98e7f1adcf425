//! Market pipeline: bars are read, indicators computed, columns written, in batches that fit into memory.
//!
//! ```text
//!   Reader ──► batches ──► batches of symbols whose results fit ──► HybridExecutor ──► Writer
//!                     ├───► a symbol whose results do not fit ──► Stream, chunk by chunk ──►
//!                     │                          or ──► device ──► SpillFile, column by column ──►
//!                     └───► parts of a symbol whose bars do not fit ──► Stream ────►
//! ```
//! Batches and whole symbols may run on a device ([`run_on`]); parts of a symbol never do: a device computes all bars of a
//! series at once.
//! Rows are ordered by the symbols' first appearance, then by time. The output appears only when it is complete (atomic
//! rename).

mod checks;
mod pipeline;
mod request;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gpuforge_frame::{
    Bars, BarsBatch, FrameError,
    column_roles::Role,
    read::{Input, InputSummary, ReadOptions, Reader},
    write::{WriteOptions, Writer},
};
use gpuforge_indicators::{
    exec::{ExecOptions, Series},
    graph::Field,
    select::{self, ColumnMeta, Selection},
};
use gpuforge_indicators_gpu::{DeviceAccess, ExecSummary, HybridExecutor};

use checks::QualityChecks;
pub use checks::{DataFinding, FindingScope, JUMP_SIGMAS, QualityProblem};
use pipeline::Pipeline;
pub use request::Request;

/// Bytes of bars held at once without a memory limit.
const DEFAULT_BAR_BYTES: u64 = 768 << 20;
/// Bytes of results held at once without a memory limit.
const DEFAULT_RESULT_BYTES: u64 = 256 << 20;
/// The minimum of results held at once, whatever the limit.
const MIN_RESULT_BYTES: u64 = 1 << 20;

/// The input of a pipeline run.
pub struct MarketJob<'a> {
    /// Bars.
    pub input: Input,
    /// How they are read; required columns and the memory limit are filled in here.
    pub read: ReadOptions<'a>,
    /// Selected columns.
    pub request: &'a Request,
    /// Output path; `-` is standard output.
    pub output: PathBuf,
    /// How columns are written.
    pub write: WriteOptions,
    /// Also write the bars?
    pub with_bars: bool,
    /// Threads and SIMD level.
    pub options: ExecOptions,
    /// Memory limit for bars and results together, in bytes.
    pub memory: Option<u64>,
    /// Run the data quality checks? Then all OHLCV columns that the input has are read.
    pub check: bool,
    /// Called after every symbol or chunk with the number of rows written.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// The outcome of a pipeline run, as `--json` prints it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct MarketReport {
    /// Rows written.
    pub rows: u64,
    /// Symbols.
    pub symbols: usize,
    /// Columns computed.
    pub columns: usize,
    /// Bytes written.
    pub bytes: u64,
    /// Rows skipped because they could not be parsed.
    pub skipped: u64,
    /// Reasons of the first of them.
    pub reasons: Vec<String>,
    /// Rows dropped as duplicate timestamps.
    pub duplicates: u64,
    /// Symbols whose rows had to be sorted.
    pub sorted_here: usize,
    /// Were bars spilled to a temporary file?
    pub spilled: bool,
    /// Seconds by phase.
    pub seconds: PhaseSeconds,
    /// Findings of the data quality checks, if they ran: the most severe first.
    pub findings: Option<Vec<DataFinding>>,
    /// Why the JIT fell back to interpreted kernels, if it did.
    pub jit_fallbacks: Vec<String>,
    /// What ran on the CPU and on a device.
    pub placed: ExecSummary,
    /// InputSummary input format.
    #[serde(skip)]
    pub input: InputSummary,
}

/// Seconds by phase.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct PhaseSeconds {
    /// Reading and sorting.
    pub read: f64,
    /// Computing.
    pub compute: f64,
    /// Encoding and writing.
    pub write: f64,
    /// From beginning to end.
    pub total: f64,
}

/// OHLCV columns that a selection reads; the close if it reads none, since constants need its row count.
pub fn needed(selection: &Selection) -> Vec<Role> {
    let read: Vec<Role> = selection.plan.fields().map(role).collect();
    if read.is_empty() { vec![Role::Close] } else { read }
}

fn role(field: Field) -> Role {
    match field {
        Field::Open => Role::Open,
        Field::High => Role::High,
        Field::Low => Role::Low,
        Field::Close => Role::Close,
        Field::Volume => Role::Volume,
        Field::Time => Role::Time,
    }
}

const ALL_BARS: [Role; 5] = [Role::Open, Role::High, Role::Low, Role::Close, Role::Volume];

/// Runs a pipeline on the CPU.
pub fn run(job: MarketJob<'_>) -> Result<MarketReport, FrameError> {
    run_on(job, &DeviceAccess::cpu())
}

/// Runs a pipeline on the CPU or the device of `access`.
pub fn run_on(job: MarketJob<'_>, access: &DeviceAccess) -> Result<MarketReport, FrameError> {
    let began = Instant::now();
    let (bars, results) = match job.memory {
        Some(limit) => (limit / 3, (limit / 3).max(MIN_RESULT_BYTES)),
        None => (DEFAULT_BAR_BYTES, DEFAULT_RESULT_BYTES),
    };
    let selection = &job.request.selection;
    // A requested device that is missing fails before minutes of reading.
    let executor = HybridExecutor::new(job.request, job.options, access)
        .map_err(|e| FrameError::Usage(e.to_string()))?;
    let mut wanted = needed(selection);
    if job.with_bars {
        wanted.extend(ALL_BARS.into_iter().filter(|r| !needed(selection).contains(r)));
    }
    let optional = if job.check { ALL_BARS.to_vec() } else { Vec::new() };
    // Columns read only for the checks change no row of the output.
    let read =
        ReadOptions { needed: wanted, optional, optional_or_nan: true, memory: Some(bars), ..job.read };
    let opening = gpuforge_profile::span!("open bars");
    let mut reader = Reader::open(&job.input, read)?;
    let layout = reader.layout().clone();
    let names: Vec<String> = match job.with_bars {
        true => ALL_BARS.iter().map(|r| r.name().to_owned()).chain(selection.columns.clone()).collect(),
        false => selection.columns.clone(),
    };
    let create = || Writer::create(&job.output, &layout, &names, &job.write);
    // A missing directory fails before minutes of reading; a pipe is opened only after the input was read.
    let early = if job.output == Path::new("-") { None } else { Some(create()?) };
    let mut batches = reader.batches()?;
    drop(opening);
    let writer = early.map_or_else(create, Ok)?;
    let own = if job.with_bars { ALL_BARS.len() } else { 0 };
    let checks = job.check.then(|| QualityChecks::new(facts(job.request, &names, own), own, &layout));
    let mut pipeline = Pipeline {
        layout,
        request: job.request,
        with_bars: job.with_bars,
        options: job.options,
        executor,
        max_bytes: usize::try_from(results).unwrap_or(usize::MAX),
        writer,
        checks,
        stream: None,
        progress: job.progress,
        seconds: PhaseSeconds::default(),
        rows: 0,
        spill: None,
        noted_streaming: false,
    };
    pipeline.seconds.read = began.elapsed().as_secs_f64();
    loop {
        let (batch, took) = timed("read bars", || batches.next());
        pipeline.seconds.read += took.as_secs_f64();
        match batch.transpose()? {
            Some(BarsBatch::Complete(group)) => pipeline.run_symbols(&group)?,
            Some(BarsBatch::Segment { bars, first, last: _ }) => pipeline.run_part(&bars, first)?,
            None => break,
        }
    }
    drop(batches);
    let read = reader.report().clone();
    pipeline.finish(read, began)
}

/// Catalogue facts of the output columns, the first `own` of which are the bars.
fn facts(request: &Request, names: &[String], own: usize) -> Vec<ColumnMeta> {
    let bars = names.iter().take(own);
    let bars =
        bars.map(|name| ColumnMeta { column: name.clone(), range: None, starts_late: false, pattern: false });
    bars.chain(select::column_meta(&request.wanted, &request.selection.columns)).collect()
}

fn timed<T>(what: &'static str, work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = gpuforge_profile::scope(what, work);
    (result, began.elapsed())
}

fn symbol(bars: &Bars) -> String {
    bars.symbol.as_ref().map_or_else(|| "the series".to_owned(), ToString::to_string)
}

/// Borrows bars as a series, with times in seconds.
pub fn series<'a>(bars: &'a Bars, seconds: &'a [f64]) -> Series<'a> {
    Series {
        open: &bars.open,
        high: &bars.high,
        low: &bars.low,
        close: &bars.close,
        volume: &bars.volume,
        time: seconds,
    }
}
