//! Bars to indicators to a file: read, compute, written, in portions that fit into memory.
//!
//! ```text
//!   Reader ──► portions ──► groups of symbols whose results fit ──► run_into ──► Writer
//!                     ├───► a symbol whose results do not fit ──► Stream, part by part ──►
//!                     │                          or ──► device ──► scratch file, column by column ──►
//!                     └───► parts of a symbol whose bars do not fit ──► Stream ────►
//! ```
//! Groups and whole symbols may be computed on a device ([`run_on`]); parts of a symbol never are: a device computes all bars
//! of a series at once.
//! The order of rows is that of the symbols' first appearance, then of time. Nothing of the output is there before all of
//! it is.

mod checks;
mod scratch;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gpuforge_frame::{
    Bars, FrameError, Layout, Portion,
    names::Role,
    read::{Input, ReadOptions, ReadReport, Reader, Recognised},
    write::{Options, Values, Writer, Written},
};
use gpuforge_indicators::{
    exec::{self, Columns, How, Series, Stream},
    graph::Field,
    plan::Plan,
    select::{self, Facts, Selection, Wanted},
};

use checks::Checks;
pub use checks::{Finding, JUMP_SIGMAS, Problem, Scope};
pub(crate) use scratch::Scratch;

use crate::resident::{Access, Computer, Done};

/// Bytes of bars that are held at once where nobody set a limit.
const BARS: u64 = 768 << 20;
/// Bytes of results that are held at once where nobody set a limit.
const RESULTS: u64 = 256 << 20;
/// The least that is worth a call.
const LEAST_RESULTS: u64 = 1 << 20;
/// Bars of one part of a long series, at most and at least.
const PART: [usize; 2] = [16 << 10, 1 << 10];

/// What a value may miss the end of its range by, as a share of it: in double precision, and in a device's single one.
const SLACK: f64 = 1e-9;
const DEVICE_SLACK: f64 = 1e-4;

/// What is to be done.
pub struct Job<'a> {
    /// Bars.
    pub input: Input,
    /// How they are read; what is needed and the memory are filled in here.
    pub read: ReadOptions<'a>,
    /// Which columns.
    pub request: &'a Request,
    /// Where they go.
    pub output: PathBuf,
    /// How they are written.
    pub write: Options,
    /// Also the bars themselves?
    pub with_bars: bool,
    /// How many threads, with which instruction set.
    pub how: How,
    /// Bytes that bars and results may use together.
    pub memory: Option<u64>,
    /// Check bars and columns? Then all columns that bars can have are read where the input has them.
    pub check: bool,
    /// Told after every symbol or part: how many rows are written.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// Which columns, planned together; and, where some of them rest on the whole of a series, those apart from the others, so
/// that only they need room for all of it.
#[derive(Debug)]
pub struct Request {
    /// Everything.
    pub selection: Selection,
    pub(crate) wanted: Vec<Wanted>,
    apart: Option<Apart>,
}

#[derive(Debug)]
struct Apart {
    /// Columns that can be computed in parts.
    steady: Selection,
    /// Those that cannot.
    whole: Selection,
    /// Where each column of the selection is: among the latter?, and at which place.
    order: Vec<(bool, usize)>,
}

impl Request {
    /// Plans what is wanted.
    pub fn of(wanted: &[Wanted]) -> Request {
        let selection = select::plan(wanted);
        let apart = (!selection.plan.in_parts()).then(|| Apart::of(wanted, &selection.columns));
        Request { selection, wanted: wanted.to_vec(), apart }
    }

    /// Columns that look at all bars of a series at once, and so cannot be computed in parts.
    pub fn ahead(&self) -> &[String] {
        self.apart.as_ref().map_or(&[], |apart| &apart.whole.columns)
    }

    /// What is computed in parts where not everything fits.
    fn steady(&self) -> &Selection {
        self.apart.as_ref().map_or(&self.selection, |apart| &apart.steady)
    }
}

impl Apart {
    fn of(wanted: &[Wanted], columns: &[String]) -> Apart {
        let in_parts = |one: &Wanted| select::plan(std::slice::from_ref(one)).plan.in_parts();
        let (steady, whole): (Vec<Wanted>, Vec<Wanted>) = wanted.iter().cloned().partition(in_parts);
        let (steady, whole) = (select::plan(&steady), select::plan(&whole));
        let place = |name: &String| {
            let at = |selection: &Selection| selection.columns.iter().position(|c| c == name);
            at(&steady).map(|i| (false, i)).or_else(|| at(&whole).map(|i| (true, i)))
        };
        let order: Vec<(bool, usize)> = columns.iter().filter_map(place).collect();
        // Names are given within a plan: where one is shared by both sides, everything is computed together.
        let unique = steady.columns.iter().all(|c| !whole.columns.contains(c));
        if unique && order.len() == columns.len() {
            return Apart { steady, whole, order };
        }
        let order = (0..columns.len()).map(|at| (true, at)).collect();
        Apart { steady: select::plan(&[]), whole: select::plan(wanted), order }
    }
}

/// What was done.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// Rows of the output.
    pub rows: u64,
    /// Symbols.
    pub symbols: usize,
    /// Columns that were computed.
    pub columns: usize,
    /// Bytes of the output.
    pub bytes: u64,
    /// Rows that could not be read and were left out.
    pub skipped: u64,
    /// Why the first of them were.
    pub reasons: Vec<String>,
    /// Rows that were left out because their time came twice.
    pub duplicates: u64,
    /// Symbols whose rows were put in order.
    pub sorted_here: usize,
    /// Did bars wait in a temporary file because they did not fit?
    pub spilled: bool,
    /// Seconds of reading, computing and writing.
    pub seconds: Seconds,
    /// What is wrong with bars and columns, if that was asked for: the most important first.
    pub findings: Option<Vec<Finding>>,
    /// Why JIT code of plans was given up, if it was.
    pub jit_fallbacks: Vec<String>,
    /// What was computed on the processor and on a device.
    pub placed: Done,
    /// What was recognised in the input.
    #[serde(skip)]
    pub input: Recognised,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Seconds {
    /// Reading and sorting.
    pub read: f64,
    /// Computing.
    pub compute: f64,
    /// Encoding and writing.
    pub write: f64,
    /// From beginning to end.
    pub total: f64,
}

/// Columns of bars that a selection reads. A column of nothing but numbers has as many rows as there are closes.
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

/// Reads, computes on the processor and writes.
pub fn run(job: Job<'_>) -> Result<Report, FrameError> {
    run_on(job, &Access::cpu())
}

/// Reads, computes where `access` says, and writes.
pub fn run_on(job: Job<'_>, access: &Access) -> Result<Report, FrameError> {
    let began = Instant::now();
    let (bars, results) = match job.memory {
        Some(limit) => (limit / 3, (limit / 3).max(LEAST_RESULTS)),
        None => (BARS, RESULTS),
    };
    let selection = &job.request.selection;
    // A device that was asked for and is not there is found before minutes of reading.
    let computer =
        Computer::new(job.request, job.how, access).map_err(|e| FrameError::Usage(e.to_string()))?;
    let mut wanted = needed(selection);
    if job.with_bars {
        wanted.extend(ALL_BARS.into_iter().filter(|r| !needed(selection).contains(r)));
    }
    let optional = if job.check { ALL_BARS.to_vec() } else { Vec::new() };
    // What is read for the checks alone changes no row of the output.
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
    // A folder that is missing is found before minutes of reading; a pipe gets nothing before the input was read.
    let early = if job.output == Path::new("-") { None } else { Some(create()?) };
    let mut portions = reader.portions()?;
    drop(opening);
    let writer = early.map_or_else(create, Ok)?;
    let own = if job.with_bars { ALL_BARS.len() } else { 0 };
    let checks = job.check.then(|| Checks::new(facts(job.request, &names, own), own, &layout));
    let mut work = Work {
        layout,
        request: job.request,
        with_bars: job.with_bars,
        how: job.how,
        computer,
        most: usize::try_from(results).unwrap_or(usize::MAX),
        writer,
        checks,
        stream: None,
        progress: job.progress,
        seconds: Seconds::default(),
        rows: 0,
        scratch: None,
        told: false,
    };
    work.seconds.read = began.elapsed().as_secs_f64();
    loop {
        let (portion, took) = timed("read bars", || portions.next());
        work.seconds.read += took.as_secs_f64();
        match portion.transpose()? {
            Some(Portion::Whole(group)) => work.whole(&group)?,
            Some(Portion::Part { bars, first, last: _ }) => work.part(&bars, first)?,
            None => break,
        }
    }
    drop(portions);
    let read = reader.report().clone();
    work.finish(read, began)
}

/// What is known of the columns of the output, the first `own` of which are the bars.
fn facts(request: &Request, names: &[String], own: usize) -> Vec<Facts> {
    let bars = names.iter().take(own);
    let bars =
        bars.map(|name| Facts { column: name.clone(), range: None, starts_late: false, pattern: false });
    bars.chain(select::facts(&request.wanted, &request.selection.columns)).collect()
}

fn timed<T>(what: &'static str, work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = gpuforge_profile::scope(what, work);
    (result, began.elapsed())
}

/// The state of a run.
struct Work<'a> {
    layout: Layout,
    request: &'a Request,
    with_bars: bool,
    how: How,
    /// Computes whole symbols.
    computer: Computer<'a>,
    /// Bytes of results at once.
    most: usize,
    writer: Writer,
    checks: Option<Checks>,
    stream: Option<Stream<&'a Plan>>,
    progress: Option<&'a (dyn Fn(u64) + Sync)>,
    seconds: Seconds,
    rows: u64,
    /// Where columns wait that a device computed and that do not fit.
    scratch: Option<Scratch>,
    /// Was it said that parts of a symbol stay on the processor?
    told: bool,
}

impl<'a> Work<'a> {
    fn bytes(&self, bars: usize) -> usize {
        bars.saturating_mul(8).saturating_mul(self.request.selection.columns.len().max(1))
    }

    /// Whole symbols: as many at once as their results fit.
    fn whole(&mut self, all: &[Bars]) -> Result<(), FrameError> {
        let mut rest = all;
        while let Some(first) = rest.first() {
            if self.bytes(first.len()) > self.most {
                self.long(first)?;
                rest = rest.get(1..).unwrap_or(&[]);
                continue;
            }
            let (mut room, mut n) = (self.most, 0);
            for bars in rest {
                let need = self.bytes(bars.len());
                if n > 0 && need > room {
                    break;
                }
                room = room.saturating_sub(need);
                n += 1;
            }
            let (now, later) = rest.split_at(n.min(rest.len()));
            self.group(now)?;
            rest = later;
        }
        Ok(())
    }

    /// Symbols that are computed together.
    fn group(&mut self, group: &[Bars]) -> Result<(), FrameError> {
        let times: Vec<Vec<f64>> = group.iter().map(|b| self.layout.seconds(&b.time)).collect();
        let series: Vec<Series<'_>> = group.iter().zip(&times).map(|(b, t)| series(b, t)).collect();
        let (columns, took) = timed("compute indicators", || self.computer.run(&series));
        self.seconds.compute += took.as_secs_f64();
        for (bars, columns) in group.iter().zip(&columns) {
            let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
            self.put(bars, 0, &columns)?;
        }
        Ok(())
    }

    /// A symbol whose results do not fit at once: on a device column by column, or here in parts, after the columns that
    /// need all of it.
    fn long(&mut self, bars: &Bars) -> Result<(), FrameError> {
        let times = self.layout.seconds(&bars.time);
        let (there, took) = timed("compute indicators", || {
            self.computer.run_long(series(bars, &times), self.most, &mut self.scratch)
        });
        self.seconds.compute += took.as_secs_f64();
        if there && let Some(scratch) = self.scratch.take() {
            let written = self.write_back(bars, &scratch);
            self.scratch = Some(scratch);
            return written;
        }
        let before = self.seconds.compute;
        let ahead = match &self.request.apart {
            None => Vec::new(),
            Some(apart) => {
                let (ahead, took) = timed("compute indicators", || {
                    exec::run(&apart.whole.plan, &[series(bars, &times)], self.how).pop()
                });
                self.seconds.compute += took.as_secs_f64();
                ahead.unwrap_or_default()
            }
        };
        self.pieces(bars, true, &ahead)?;
        self.computer.streamed(1, bars.len(), self.seconds.compute - before);
        Ok(())
    }

    /// Some bars of a symbol, after those before.
    fn part(&mut self, bars: &Bars, first: bool) -> Result<(), FrameError> {
        if let Some(Apart { whole, .. }) = &self.request.apart {
            return Err(FrameError::Usage(format!(
                "the bars of {} do not fit the memory limit, and {} looks at all of them at once\n  \
                 hint: raise --memory-limit, or select no column that looks ahead",
                symbol(bars),
                whole.columns.first().map_or("", String::as_str),
            )));
        }
        if !std::mem::replace(&mut self.told, true) {
            self.computer.stays(&format!(
                "the bars of {} do not fit the memory limit and were computed in parts on the processor",
                symbol(bars)
            ));
        }
        let before = self.seconds.compute;
        self.pieces(bars, first, &[])?;
        self.computer.streamed(u64::from(first), bars.len(), self.seconds.compute - before);
        Ok(())
    }

    /// Bars in a step: as many as their results fit.
    fn step(&self) -> usize {
        let [most, least] = PART;
        (self.most / self.bytes(1)).clamp(least, most)
    }

    /// Rows of a symbol whose columns wait in the scratch file.
    fn write_back(&mut self, bars: &Bars, scratch: &Scratch) -> Result<(), FrameError> {
        let (n, step, columns) = (bars.len(), self.step(), self.request.selection.columns.len());
        let mut room = vec![vec![0.0; step.min(n)]; columns];
        for from in (0..n).step_by(step) {
            let rows = from..(from + step).min(n);
            for (column, room) in room.iter_mut().enumerate() {
                room.resize(rows.len(), 0.0);
                scratch.read(column * n + from, room)?;
            }
            let columns: Vec<&[f64]> = room.iter().map(Vec::as_slice).collect();
            self.put(&cut(bars, rows), from, &columns)?;
        }
        Ok(())
    }

    /// Bars as many at a time as their results fit.
    fn pieces(&mut self, bars: &Bars, first: bool, ahead: &[Vec<f64>]) -> Result<(), FrameError> {
        let (n, step) = (bars.len(), self.step());
        for from in (0..n).step_by(step) {
            if first && from == 0 {
                self.stream = None;
            }
            self.piece(&cut(bars, from..(from + step).min(n)), ahead)?;
        }
        Ok(())
    }

    fn piece(&mut self, bars: &Bars, ahead: &[Vec<f64>]) -> Result<(), FrameError> {
        let (request, n) = (self.request, bars.len());
        let steady = request.steady();
        let stream = self.stream.get_or_insert_with(|| Stream::new(&steady.plan, self.how));
        let offset = stream.bars();
        let times = self.layout.seconds(&bars.time);
        let mut room = vec![vec![0.0; n]; steady.columns.len()];
        let mut columns: Columns<'_> = room.iter_mut().map(Vec::as_mut_slice).collect();
        let ((), took) = timed("compute indicators", || stream.push(&series(bars, &times), &mut columns));
        self.seconds.compute += took.as_secs_f64();
        let columns: Vec<&[f64]> = match &request.apart {
            None => room.iter().map(Vec::as_slice).collect(),
            Some(apart) => {
                let column = |(whole, at): &(bool, usize)| match whole {
                    true => ahead.get(*at).and_then(|c| c.get(offset..offset + n)),
                    false => room.get(*at).map(Vec::as_slice),
                };
                apart.order.iter().filter_map(column).collect()
            }
        };
        self.put(bars, offset, &columns)
    }

    /// Writes rows of a symbol that has had `offset` bars before.
    fn put(&mut self, bars: &Bars, offset: usize, columns: &[&[f64]]) -> Result<(), FrameError> {
        let starts = self.request.selection.plan.starts().iter();
        let computed = columns
            .iter()
            .zip(starts)
            .map(|(values, start)| Values { values, valid_from: start.saturating_sub(offset) });
        let own = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
        let kept = own.iter().filter(|_| self.with_bars).map(|values| Values::all(values));
        let values: Vec<Values<'_>> = kept.chain(computed).collect();
        if let Some(checks) = &mut self.checks {
            let device = self.computer.done().groups.gpu > 0;
            checks.see(bars, offset, &values, if device { DEVICE_SLACK } else { SLACK });
        }
        let (written, took) =
            timed("write columns", || self.writer.write(bars.symbol.as_ref(), &bars.time, &values));
        self.seconds.write += took.as_secs_f64();
        self.rows += bars.len() as u64;
        if let Some(progress) = self.progress {
            progress(self.rows);
        }
        written
    }

    fn finish(mut self, read: ReadReport, began: Instant) -> Result<Report, FrameError> {
        let (written, took) = timed("write columns", || self.writer.finish());
        let Written { rows, bytes } = written?;
        self.seconds.write += took.as_secs_f64();
        self.seconds.total = began.elapsed().as_secs_f64();
        let findings = self.checks.map(|checks| checks.findings(&read));
        Ok(Report {
            input: read.recognised(),
            rows,
            symbols: read.symbols,
            columns: self.request.selection.columns.len(),
            bytes,
            skipped: read.skipped,
            reasons: read.reasons,
            duplicates: read.duplicates,
            sorted_here: read.sorted_here,
            spilled: read.spilled,
            seconds: self.seconds,
            findings,
            jit_fallbacks: exec::jit_fallbacks().reasons,
            placed: self.computer.done().clone(),
        })
    }
}

fn symbol(bars: &Bars) -> String {
    bars.symbol.as_ref().map_or_else(|| "the series".to_owned(), ToString::to_string)
}

/// Bars by reference, with times in seconds.
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

fn cut(bars: &Bars, range: std::ops::Range<usize>) -> Bars {
    let of = |column: &Vec<f64>| column.get(range.clone()).unwrap_or(&[]).to_vec();
    Bars {
        symbol: bars.symbol.clone(),
        time: bars.time.get(range.clone()).unwrap_or(&[]).to_vec(),
        open: of(&bars.open),
        high: of(&bars.high),
        low: of(&bars.low),
        close: of(&bars.close),
        volume: of(&bars.volume),
    }
}
