//! GPU executor: runs lowered graphs over many series, in batches within the memory limit, several batches in flight, and
//! decodes the results.

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
    encoding::{OffsetScale, UNENCODED},
    layout::SegmentLayout,
    lower::{self, UploadSource},
    record::Program,
};

/// Settings of a GPU executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuExecSettings {
    /// Memory limit of the batches in flight: their arenas and downloads.
    pub memory: Bytes,
    /// The largest storage buffer binding.
    pub largest: Bytes,
    /// Workgroup size of the generated kernels.
    pub workgroup_size: u32,
    /// log2 of the bars of a segment; `None` chooses by the longest series, so that results do not depend on batching.
    pub segment_log2: Option<u32>,
    /// Slice length, as a multiple of each kernel's preferred one.
    pub slice_factor: u32,
    /// Batches in flight: one is prepared while another runs.
    pub in_flight: usize,
}

impl Default for GpuExecSettings {
    fn default() -> Self {
        let (memory, largest) = (Bytes(256 << 20), Bytes(128 << 20));
        GpuExecSettings {
            memory,
            largest,
            workgroup_size: 64,
            segment_log2: None,
            slice_factor: 1,
            in_flight: 2,
        }
    }
}

/// Why a device run failed.
#[derive(Debug, thiserror::Error)]
pub enum GpuExecError {
    /// The device failed permanently.
    #[error("the device could not compute the indicators: {0}")]
    Device(#[from] DeviceRunError),
    /// A series does not fit.
    #[error(
        "a series of {bars} bars needs {need} on the device, {most} may be used: raise the memory limit, select fewer \
         indicators, or compute them on the CPU"
    )]
    Memory {
        /// Bars of the series.
        bars: usize,
        /// Bytes it needs.
        need: Bytes,
        /// Bytes available.
        most: Bytes,
    },
}

/// Counters of device runs.
#[derive(Debug, Clone, Default)]
pub struct GpuExecStats {
    /// Batches.
    pub batches: u64,
    /// Uploads of all batches.
    pub uploads: u64,
    /// Downloads of all batches.
    pub downloads: u64,
    /// Dispatches of all batches.
    pub dispatches: u64,
    /// Bytes uploaded.
    pub uploaded: Bytes,
    /// Bytes downloaded.
    pub downloaded: Bytes,
    /// Peak device memory of a batch, with its download.
    pub peak: Bytes,
    /// Kernels that were used: each is a pipeline.
    pub pipelines: BTreeSet<String>,
    /// Time by the device's timestamp queries.
    pub device_time: Option<Duration>,
    /// Failures and recoveries.
    pub events: Vec<RecoveryEvent>,
}

impl GpuExecStats {
    /// Adds a plan.
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

pub(crate) fn add_time(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// Receives columns as they arrive from the device, each once, in any order.
pub trait ColumnSink: Send {
    /// A column of a series: `fill` writes its values into a slice of that many bars.
    fn take(&mut self, series: usize, wanted: usize, bars: usize, fill: &mut dyn FnMut(&mut [f64]));
}

/// Output slices `[series][wanted]`.
impl ColumnSink for &mut [exec::Columns<'_>] {
    fn take(&mut self, series: usize, wanted: usize, _: usize, fill: &mut dyn FnMut(&mut [f64])) {
        if let Some(slice) = self.get_mut(series).and_then(|c| c.get_mut(wanted)) {
            fill(slice);
        }
    }
}

/// A graph lowered for a device.
pub struct GpuExecutor {
    /// Programs for disjoint subsets of the results: one unless their arena does not fit.
    parts: Vec<ProgramPart>,
    starts: Vec<usize>,
    settings: GpuExecSettings,
    /// log2 of the bars of a segment.
    segment_log2: u32,
}

/// A program for some of the results.
pub(crate) struct ProgramPart {
    pub(crate) program: Program,
    /// Index of the wanted value, and its position among the part's results.
    pub(crate) results: Vec<(usize, usize)>,
    /// CPU plan of the uploaded values that are not columns of the bars.
    cpu_plan: Option<ExecPlan>,
}

impl GpuExecutor {
    /// For those of the wanted values that `on` selects; each of them must be lowerable (see [`lower::fits`]).
    pub fn new(
        graph: &Graph,
        wanted: &[ValueId],
        on: &[bool],
        longest: usize,
        settings: GpuExecSettings,
    ) -> Option<GpuExecutor> {
        let starts = wanted.iter().map(|v| graph.start(*v)).collect();
        let segment_log2 =
            settings.segment_log2.unwrap_or_else(|| SegmentLayout::segment_log2_for(&[longest]));
        let mut executor = GpuExecutor { parts: Vec::new(), starts, settings, segment_log2 };
        let chosen: Vec<usize> = on.iter().enumerate().filter(|(_, on)| **on).map(|(at, _)| at).collect();
        executor.split(graph, wanted, &chosen, longest)?;
        Some(executor)
    }

    /// Lowers these outputs; bisects them while the arena of the longest series does not fit.
    fn split(&mut self, graph: &Graph, wanted: &[ValueId], chosen: &[usize], longest: usize) -> Option<()> {
        let on: Vec<bool> = (0..wanted.len()).map(|at| chosen.binary_search(&at).is_ok()).collect();
        let part = ProgramPart::of(graph, lower::lower(graph, wanted, &on)?, self.settings);
        let words = SegmentLayout::words_of(&[longest], self.segment_log2);
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
            && batches * (arena + program.download_bytes(words)) <= self.settings.memory.0
    }

    /// log2 of the bars of a segment.
    pub fn segment_log2(&self) -> u32 {
        self.segment_log2
    }

    /// Programs, in order.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.parts.iter().map(|p| &p.program)
    }

    /// Computes series into `columns[series][wanted]`; columns of values that were not lowered are left untouched.
    pub fn run_into(
        &self,
        runner: &Runner,
        series: &[Series<'_>],
        mut columns: &mut [exec::Columns<'_>],
    ) -> Result<GpuExecStats, GpuExecError> {
        self.run_with(runner, series, &mut columns)
    }

    /// Computes series and hands columns to a sink batch by batch, so that not all are in memory at once.
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
                let job = SeriesBatch {
                    executor: self,
                    part,
                    series,
                    bars: &bars,
                    items: items.clone(),
                    stats: &stats,
                };
                match runner.run_batch_on_device(&job) {
                    Ok(outcome) => {
                        let mut sink = lock(&sink);
                        for chunk in &outcome.chunks {
                            debug_assert_eq!(chunk.executed_on, ExecutedOn::Device);
                            let range = items.start + chunk.items.start..items.start + chunk.items.end;
                            self.deliver(part, series, &bars, range, chunk.outputs.first(), &mut **sink);
                        }
                        drop(sink);
                        let mut stats = lock(&stats);
                        for chunk in &outcome.chunks {
                            stats.device_time = add_time(stats.device_time, chunk.device_time);
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
        let fields = self.parts.iter().flat_map(|p| &p.program.lowered.uploads).filter_map(|g| match g {
            UploadSource::Field(field) => Some(series.field(*field).len()),
            UploadSource::Cpu(_) => None,
        });
        fields.min().unwrap_or(series.close.len())
    }

    /// Ranges of series that fit into the memory limit together.
    fn batches(&self, program: &Program, bars: &[usize]) -> Result<Vec<Range<usize>>, GpuExecError> {
        let mut batches = Vec::new();
        let mut first = 0;
        while first < bars.len() {
            let mut last = first;
            while let Some(these) = bars.get(first..last + 1) {
                let words = SegmentLayout::words_of(these, self.segment_log2);
                if !self.fits(program, words) {
                    break;
                }
                last += 1;
            }
            if last == first {
                let bars = bars.get(first).copied().unwrap_or(0);
                let words = SegmentLayout::words_of(&[bars], self.segment_log2);
                let need = program.arena(words) + program.download_bytes(words);
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
        let layout = SegmentLayout::new(bars, self.segment_log2);
        // Zero-copy unless the download is misaligned.
        let copied: Vec<f32>;
        let floats: &[f32] = match bytemuck::try_cast_slice(bytes) {
            Ok(floats) => floats,
            Err(_) => {
                copied = bytemuck::pod_collect_to_vec(bytes);
                &copied
            }
        };
        let words = layout.words();
        let scales = series.iter().skip(range.start).map(scale);
        for ((series, bars), scale) in bars.iter().enumerate().zip(scales) {
            for (wanted, at) in &part.results {
                let from = floats.get(at * words..(at + 1) * words).unwrap_or_default();
                let start = self.starts.get(*wanted).copied().unwrap_or(0);
                let (encoding, port) =
                    part.program.lowered.encodings.get(*at).copied().unwrap_or((UNENCODED, 0));
                let value = |x| scale.decode(x, encoding, port);
                sink.take(range.start + series, *wanted, *bars, &mut |to| {
                    layout.gather(series, from, value, start, to);
                });
            }
        }
    }
}

impl ProgramPart {
    pub(crate) fn of(graph: &Graph, lowered: lower::Lowered, settings: GpuExecSettings) -> ProgramPart {
        let on_cpu: Vec<ValueId> = lowered
            .uploads
            .iter()
            .filter_map(|g| match g {
                UploadSource::Cpu(v) => Some(*v),
                UploadSource::Field(_) => None,
            })
            .collect();
        let cpu_plan = (!on_cpu.is_empty()).then(|| ExecPlan::new(graph, &on_cpu));
        let results =
            lowered.outputs.iter().enumerate().filter_map(|(at, place)| place.map(|p| (at, p))).collect();
        let mut program = Program::new(lowered, settings.workgroup_size);
        program.slice_factor = settings.slice_factor;
        ProgramPart { program, results, cpu_plan }
    }

    /// Uploaded columns of some series, contiguous, encoded and interleaved.
    pub(crate) fn encode_uploads(
        &self,
        layout: &SegmentLayout,
        scales: &[OffsetScale],
        series: &[Series<'_>],
    ) -> Vec<u32> {
        let words = layout.words();
        let uploads = &self.program.lowered.uploads;
        let mut all = vec![0u32; uploads.len() * words];
        let computed = self
            .cpu_plan
            .as_ref()
            .map(|plan| exec::run(plan, series, ExecOptions { threads: 1, ..ExecOptions::default() }));
        let mut cpu_index = 0;
        for (source, column) in uploads.iter().zip(all.chunks_mut(words.max(1))) {
            for (at, one) in series.iter().enumerate() {
                let bars = layout.bars.get(at).copied().unwrap_or(0);
                let values = match source {
                    UploadSource::Field(field) => one.field(*field),
                    UploadSource::Cpu(_) => computed
                        .as_ref()
                        .and_then(|h| h.get(at)?.get(cpu_index))
                        .map_or(&[][..], Vec::as_slice),
                };
                let values = values.get(..bars).unwrap_or(values);
                match (source, scales.get(at)) {
                    (UploadSource::Field(field), Some(scale)) if is_price(*field) => {
                        layout.scatter(at, values, |x| scale.encode(x), column);
                    }
                    _ => layout.scatter(at, values, |x| x, column),
                }
            }
            cpu_index += usize::from(matches!(source, UploadSource::Cpu(_)));
        }
        all
    }
}

/// A batch of series that the runner may split on OOM.
struct SeriesBatch<'a, 's> {
    executor: &'a GpuExecutor,
    part: &'a ProgramPart,
    series: &'a [Series<'s>],
    bars: &'a [usize],
    items: Range<usize>,
    stats: &'a Mutex<GpuExecStats>,
}

impl SplittableBatch for SeriesBatch<'_, '_> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError> {
        let range = self.items.start + items.start..self.items.start + items.end;
        let bars = self.bars.get(range.clone()).unwrap_or_default();
        let layout = SegmentLayout::new(bars, self.executor.segment_log2);
        let series = self.series.get(range).unwrap_or_default();
        let scales: Vec<OffsetScale> = series.iter().map(scale).collect();
        let columns = self.part.encode_uploads(&layout, &scales, series);
        let (mut plan, arena) = self.part.program.record(&layout, &scales, &columns)?;
        plan.download_first(arena, Bytes(self.part.program.download_bytes(layout.words())))?;
        lock(self.stats).count(&plan);
        Ok(plan)
    }
}

fn is_price(field: Field) -> bool {
    matches!(field, Field::Open | Field::High | Field::Low | Field::Close)
}

/// Encoding parameters of a series.
pub(crate) fn scale(series: &Series<'_>) -> OffsetScale {
    OffsetScale::of(&[series.close, series.open, series.high, series.low])
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
