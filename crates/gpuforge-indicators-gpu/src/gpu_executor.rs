//! Indicators of many series on a device: batches that fit its memory, the next one prepared while the current one is
//! computed, and what does not suit a device computed by the engine of the processor.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gpuforge_indicators::{
    exec::{self, ExecOptions, Series},
    graph::{Field, Graph, ValueId},
    plan::ExecPlan,
};
use gpuforge_runtime::{
    plan::{Command, Plan, PlanError},
    runner::{DeviceRunError, ExecutedOn, RecoveryEvent, Runner, SplittableBatch},
    units::Bytes,
};

use crate::{
    encoding::{PLAIN, Scale},
    layout::Layout,
    lower::{self, Given},
    record::Program,
};

/// How a device is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuExecSettings {
    /// The most that one batch may hold on the device: its arena and what is fetched of it.
    pub memory: Bytes,
    /// The largest buffer that a kernel can bind.
    pub largest: Bytes,
    /// Invocations of a group of the generated kernels.
    pub width: u32,
    /// log2 of the steps of a run; `None` chooses by the longest series, so that results do not depend on how series are
    /// put into batches.
    pub segment_log2: Option<u32>,
    /// Slices of runs, as multiples of what the authors of kernels wish.
    pub slices: u32,
    /// Batches under way at once.
    pub in_flight: usize,
}

impl Default for GpuExecSettings {
    fn default() -> Self {
        let (memory, largest) = (Bytes(256 << 20), Bytes(128 << 20));
        GpuExecSettings { memory, largest, width: 64, segment_log2: None, slices: 1, in_flight: 2 }
    }
}

/// Why a device gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum GpuExecError {
    /// The device failed for good.
    #[error("the device could not compute the indicators: {0}")]
    Device(#[from] DeviceRunError),
    /// A series does not fit.
    #[error(
        "a series of {bars} bars needs {need} on the device, {most} may be used: raise the memory limit, select fewer \
         indicators, or compute them on the processor"
    )]
    Memory {
        /// Bars of the series.
        bars: usize,
        /// What it needs.
        need: Bytes,
        /// What there is.
        most: Bytes,
    },
}

/// What was done.
#[derive(Debug, Clone, Default)]
pub struct GpuExecStats {
    /// Batches.
    pub batches: u64,
    /// Uploads, downloads and dispatches of all batches.
    pub uploads: u64,
    /// Downloads of all batches.
    pub downloads: u64,
    /// Dispatches of all batches.
    pub dispatches: u64,
    /// Bytes up and down.
    pub uploaded: Bytes,
    /// Bytes down.
    pub downloaded: Bytes,
    /// The most memory of a batch on the device, with what is fetched.
    pub peak: Bytes,
    /// Names of the kernels that were used: each is a pipeline.
    pub pipelines: BTreeSet<String>,
    /// Time that the device measured.
    pub device_time: Option<Duration>,
    /// What went wrong on the way.
    pub events: Vec<RecoveryEvent>,
}

impl GpuExecStats {
    /// Counts what a plan does.
    pub(crate) fn count(&mut self, plan: &Plan) {
        let cost = plan.cost();
        self.batches += 1;
        self.dispatches += cost.dispatches;
        self.uploaded += cost.uploaded;
        self.downloaded += cost.downloaded;
        self.peak = self.peak.max(cost.peak + cost.downloaded);
        for command in plan.commands() {
            match command {
                Command::Upload { .. } => self.uploads += 1,
                Command::Download { .. } => self.downloads += 1,
                Command::Dispatch(d) => {
                    self.pipelines.insert(d.kernel.name.to_string());
                }
                Command::Copy { .. } | Command::Free { .. } => {}
            }
        }
    }
}

pub(crate) fn sum(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// Takes columns as they come from the device, each once, in any order.
pub trait ColumnSink: Send {
    /// A column of a series: `fill` writes all of its values into a room of that many bars.
    fn take(&mut self, series: usize, wanted: usize, bars: usize, fill: &mut dyn FnMut(&mut [f64]));
}

/// Columns that have their room: `[series][wanted]`.
impl ColumnSink for &mut [exec::Columns<'_>] {
    fn take(&mut self, series: usize, wanted: usize, _: usize, fill: &mut dyn FnMut(&mut [f64])) {
        if let Some(room) = self.get_mut(series).and_then(|c| c.get_mut(wanted)) {
            fill(room);
        }
    }
}

/// Values of a graph, ready to be computed on a device.
pub struct GpuExecutor {
    /// Parts of the results, each with a program of its own: more results than fit into one arena are computed in parts.
    parts: Vec<ProgramPart>,
    starts: Vec<usize>,
    settings: GpuExecSettings,
    /// log2 of the steps of a run.
    segment_log2: u32,
}

pub(crate) struct ProgramPart {
    pub(crate) program: Program,
    /// Which of the wanted values, and where among the part's results.
    pub(crate) results: Vec<(usize, usize)>,
    /// What the processor computes before: one output per uploaded value that is no column of the bars.
    host: Option<ExecPlan>,
}

impl GpuExecutor {
    /// For those of the wanted values that `on` names; none of them may be unfit (see [`lower::fits`]).
    pub fn new(
        graph: &Graph,
        wanted: &[ValueId],
        on: &[bool],
        longest: usize,
        settings: GpuExecSettings,
    ) -> Option<GpuExecutor> {
        let starts = wanted.iter().map(|v| graph.start(*v)).collect();
        let segment_log2 = settings.segment_log2.unwrap_or_else(|| Layout::segment_log2_for(&[longest]));
        let mut executor = GpuExecutor { parts: Vec::new(), starts, settings, segment_log2 };
        let chosen: Vec<usize> = on.iter().enumerate().filter(|(_, on)| **on).map(|(at, _)| at).collect();
        executor.split(graph, wanted, &chosen, longest)?;
        Some(executor)
    }

    /// Lowers these outputs; in two halves if the longest series does not fit otherwise.
    fn split(&mut self, graph: &Graph, wanted: &[ValueId], chosen: &[usize], longest: usize) -> Option<()> {
        let on: Vec<bool> = (0..wanted.len()).map(|at| chosen.binary_search(&at).is_ok()).collect();
        let part = ProgramPart::of(graph, lower::lower(graph, wanted, &on)?, self.settings);
        let words = Layout::words_of(&[longest], self.segment_log2);
        if self.fits(&part.program, words) || chosen.len() < 2 {
            self.parts.push(part);
            return Some(());
        }
        let (one, two) = chosen.split_at(chosen.len() / 2);
        self.split(graph, wanted, one, longest)?;
        self.split(graph, wanted, two, longest)
    }

    fn fits(&self, program: &Program, words: usize) -> bool {
        let arena = program.arena(words);
        let batches = self.settings.in_flight.max(1) as u64;
        arena <= self.settings.largest.0
            && batches * (arena + program.fetched(words)) <= self.settings.memory.0
    }

    /// log2 of the steps of a run.
    pub fn segment_log2(&self) -> u32 {
        self.segment_log2
    }

    /// Programs, in order.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.parts.iter().map(|p| &p.program)
    }

    /// Computes the values of some series into `columns[series][wanted]`; columns of values that are not computed here are
    /// left as they are.
    pub fn run_into(
        &self,
        runner: &Runner,
        series: &[Series<'_>],
        mut columns: &mut [exec::Columns<'_>],
    ) -> Result<GpuExecStats, GpuExecError> {
        self.run_with(runner, series, &mut columns)
    }

    /// Computes the values of some series and hands them over batch by batch, so that not all need be held at once.
    pub fn run_with(
        &self,
        runner: &Runner,
        series: &[Series<'_>],
        sink: &mut dyn ColumnSink,
    ) -> Result<GpuExecStats, GpuExecError> {
        let bars: Vec<usize> = series.iter().map(|s| self.bars(s)).collect();
        let mut work: Vec<(usize, Range<usize>)> = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            for batch in self.batches(&part.program, &bars)? {
                work.push((at, batch));
            }
        }
        let stats = Mutex::new(GpuExecStats::default());
        let failed: Mutex<Option<GpuExecError>> = Mutex::new(None);
        let next = AtomicUsize::new(0);
        let sink = Mutex::new(sink);
        let worker = || {
            while let Some((at, items)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                let Some(part) = self.parts.get(*at) else { return };
                let job =
                    Items { executor: self, part, series, bars: &bars, items: items.clone(), stats: &stats };
                match runner.run_batch_on_device(&job) {
                    Ok(outcome) => {
                        let mut sink = lock(&sink);
                        for piece in &outcome.chunks {
                            debug_assert_eq!(piece.executed_on, ExecutedOn::Device);
                            let range = items.start + piece.items.start..items.start + piece.items.end;
                            self.deliver(part, series, &bars, range, piece.outputs.first(), &mut **sink);
                        }
                        drop(sink);
                        let mut stats = lock(&stats);
                        for piece in &outcome.chunks {
                            stats.device_time = sum(stats.device_time, piece.device_time);
                        }
                        stats.events.extend(outcome.events);
                    }
                    Err(stopped) => {
                        next.store(usize::MAX / 2, Ordering::Relaxed);
                        lock(&failed).get_or_insert(stopped.into());
                        return;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let helpers = self.settings.in_flight.min(work.len()).saturating_sub(1);
            (0..helpers).for_each(|_| {
                scope.spawn(worker);
            });
            worker();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(stats.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn bars(&self, series: &Series<'_>) -> usize {
        let fields = self.parts.iter().flat_map(|p| &p.program.lowered.given).filter_map(|g| match g {
            Given::Field(field) => Some(series.field(*field).len()),
            Given::Host(_) => None,
        });
        fields.min().unwrap_or(series.close.len())
    }

    /// Ranges of series that fit the device together.
    fn batches(&self, program: &Program, bars: &[usize]) -> Result<Vec<Range<usize>>, GpuExecError> {
        let mut batches = Vec::new();
        let mut first = 0;
        while first < bars.len() {
            let mut last = first;
            while let Some(these) = bars.get(first..last + 1) {
                let words = Layout::words_of(these, self.segment_log2);
                if !self.fits(program, words) {
                    break;
                }
                last += 1;
            }
            if last == first {
                let bars = bars.get(first).copied().unwrap_or(0);
                let words = Layout::words_of(&[bars], self.segment_log2);
                let need = program.arena(words) + program.fetched(words);
                let most = self.settings.memory.min(self.settings.largest);
                return Err(GpuExecError::Memory { bars, need: Bytes(need), most });
            }
            batches.push(first..last);
            first = last;
        }
        Ok(batches)
    }

    fn deliver(
        &self,
        part: &ProgramPart,
        series: &[Series<'_>],
        bars: &[usize],
        range: Range<usize>,
        bytes: Option<&Vec<u8>>,
        sink: &mut dyn ColumnSink,
    ) {
        let (Some(bytes), Some(bars)) = (bytes, bars.get(range.clone())) else { return };
        let layout = Layout::new(bars, self.segment_log2);
        // Bytes of a download may lie anywhere; mostly they lie where numbers may.
        let moved: Vec<f32>;
        let floats: &[f32] = match bytemuck::try_cast_slice(bytes) {
            Ok(floats) => floats,
            Err(_) => {
                moved = bytemuck::pod_collect_to_vec(bytes);
                &moved
            }
        };
        let words = layout.words();
        let scales = series.iter().skip(range.start).map(scale);
        for ((series, bars), scale) in bars.iter().enumerate().zip(scales) {
            for (wanted, at) in &part.results {
                let from = floats.get(at * words..(at + 1) * words).unwrap_or_default();
                let start = self.starts.get(*wanted).copied().unwrap_or(0);
                let (form, port) = part.program.lowered.forms.get(*at).copied().unwrap_or((PLAIN, 0));
                let value = |x| scale.value(x, form, port);
                sink.take(range.start + series, *wanted, *bars, &mut |to| {
                    layout.gather(series, from, value, start, to);
                });
            }
        }
    }
}

impl ProgramPart {
    pub(crate) fn of(graph: &Graph, lowered: lower::Lowered, settings: GpuExecSettings) -> ProgramPart {
        let hosted: Vec<ValueId> = lowered
            .given
            .iter()
            .filter_map(|g| match g {
                Given::Host(v) => Some(*v),
                Given::Field(_) => None,
            })
            .collect();
        let host = (!hosted.is_empty()).then(|| ExecPlan::new(graph, &hosted));
        let results =
            lowered.outputs.iter().enumerate().filter_map(|(at, place)| place.map(|p| (at, p))).collect();
        let mut program = Program::new(lowered, settings.width);
        program.slices = settings.slices;
        ProgramPart { program, results, host }
    }

    /// Uploaded columns of some series, one after the other, each as a column lies.
    pub(crate) fn columns(&self, layout: &Layout, scales: &[Scale], series: &[Series<'_>]) -> Vec<u32> {
        let words = layout.words();
        let given = &self.program.lowered.given;
        let mut all = vec![0u32; given.len() * words];
        let hosted = self
            .host
            .as_ref()
            .map(|plan| exec::run(plan, series, ExecOptions { threads: 1, ..ExecOptions::default() }));
        let mut host = 0;
        for (given, column) in given.iter().zip(all.chunks_mut(words.max(1))) {
            for (at, one) in series.iter().enumerate() {
                let bars = layout.bars.get(at).copied().unwrap_or(0);
                let values = match given {
                    Given::Field(field) => one.field(*field),
                    Given::Host(_) => {
                        hosted.as_ref().and_then(|h| h.get(at)?.get(host)).map_or(&[][..], Vec::as_slice)
                    }
                };
                let values = values.get(..bars).unwrap_or(values);
                match (given, scales.get(at)) {
                    (Given::Field(field), Some(scale)) if is_price(*field) => {
                        layout.scatter(at, values, |x| scale.held(x), column);
                    }
                    _ => layout.scatter(at, values, |x| x, column),
                }
            }
            host += usize::from(matches!(given, Given::Host(_)));
        }
        all
    }
}

/// Some of the series, as the runner wants them.
struct Items<'a, 's> {
    executor: &'a GpuExecutor,
    part: &'a ProgramPart,
    series: &'a [Series<'s>],
    bars: &'a [usize],
    items: Range<usize>,
    stats: &'a Mutex<GpuExecStats>,
}

impl SplittableBatch for Items<'_, '_> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError> {
        let range = self.items.start + items.start..self.items.start + items.end;
        let bars = self.bars.get(range.clone()).unwrap_or_default();
        let layout = Layout::new(bars, self.executor.segment_log2);
        let series = self.series.get(range).unwrap_or_default();
        let scales: Vec<Scale> = series.iter().map(scale).collect();
        let columns = self.part.columns(&layout, &scales, series);
        let (mut plan, arena) = self.part.program.record(&layout, &scales, &columns)?;
        plan.download_first(arena, Bytes(self.part.program.fetched(layout.words())))?;
        lock(self.stats).count(&plan);
        Ok(plan)
    }
}

fn is_price(field: Field) -> bool {
    matches!(field, Field::Open | Field::High | Field::Low | Field::Close)
}

/// How the prices of a series are held.
pub(crate) fn scale(series: &Series<'_>) -> Scale {
    Scale::of(&[series.close, series.open, series.high, series.low])
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
