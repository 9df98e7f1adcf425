//! Feature table builder: one plan per chunk of series (indicators, rows, validity mask). Where the arena of the longest series
//! is too large, columns are computed by several plans and concatenated.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use gpuforge_indicators::{
    exec::{self, ExecOptions, Series},
    graph::ValueId,
    plan::ExecPlan,
};
use gpuforge_runtime::{
    kernel::Access,
    plan::{Plan, PlanError, Slot},
    runner::{Runner, SplittableBatch},
    tensor::Tensor,
    units::Bytes,
};
use rayon::prelude::*;

use super::{
    FeatureError, FeatureSpec, GROUP, Normalise, RecordedBatch, SeriesRows, WIDE_GROUP, cpu, floats, kernel,
    plan_error,
};
use crate::{
    encoding::{OffsetScale, UNENCODED},
    gpu_executor::{GpuExecSettings, GpuExecStats, ProgramPart, add_time, scale},
    layout::{SEGMENT_WORDS, SERIES_WORDS, SegmentLayout},
    lower,
    record::{MAX_ITERATIONS, dispatch_grid, word},
};

/// Maximum rows of a chunk: kernels loop over blocks of rows and over the blocks.
const MAX_ROWS: usize = 1 << 25;
/// Columns of a row that one invocation writes within the iteration limit: contiguous stores.
const TILE: u32 = 16;
/// Bars per invocation; divides the segment length.
const STEPS: u32 = 8;
/// Words of a column in the column table.
const COLUMN_WORDS: usize = 8;

/// Range of series, values and validity mask of a chunk.
pub(super) type BuiltChunk = (Range<usize>, Tensor, Tensor);

/// Builds the table of the series that have rows.
pub(super) struct FeatureBuilder<'a, 's> {
    spec: &'a FeatureSpec<'a>,
    /// Indices of these series among all.
    which: Vec<usize>,
    series: Vec<Series<'s>>,
    bars: Vec<usize>,
    start: usize,
    /// Programs whose arenas fit, and that together compute every device column.
    parts: Vec<ProgramPart>,
    /// CPU plan, and the columns that it computes.
    cpu_plan: Option<ExecPlan>,
    cpu_columns: Vec<usize>,
    settings: GpuExecSettings,
    /// log2 of the bars of a segment: by the longest series, so that rows do not depend on chunking.
    segment_log2: u32,
    stats: Mutex<GpuExecStats>,
}

impl<'a, 's> FeatureBuilder<'a, 's> {
    pub(super) fn new(
        spec: &'a FeatureSpec<'a>,
        series: &[Series<'s>],
        settings: GpuExecSettings,
    ) -> Result<Self, FeatureError> {
        let start = spec.start();
        let whole = ExecPlan::new(spec.graph, spec.values);
        let live = series.iter().enumerate().map(|(at, s)| (at, *s, s.len(&whole)));
        let live: Vec<_> = live.filter(|(_, _, bars)| *bars > start).collect();
        let longest = live.iter().map(|(.., bars)| *bars).max().unwrap_or(0);
        let cpu_columns: Vec<usize> =
            (0..spec.on_device.len()).filter(|at| spec.on_device.get(*at) == Some(&false)).collect();
        let on_cpu: Vec<ValueId> =
            cpu_columns.iter().filter_map(|at| spec.values.get(*at).copied()).collect();
        let mut builder = FeatureBuilder {
            spec,
            which: live.iter().map(|(at, ..)| *at).collect(),
            series: live.iter().map(|(_, s, _)| *s).collect(),
            bars: live.iter().map(|(.., bars)| *bars).collect(),
            start,
            parts: Vec::new(),
            cpu_plan: (!on_cpu.is_empty()).then(|| ExecPlan::new(spec.graph, &on_cpu)),
            cpu_columns,
            settings,
            segment_log2: settings
                .segment_log2
                .unwrap_or_else(|| SegmentLayout::segment_log2_for(&[longest]))
                .max(STEPS.ilog2()),
            stats: Mutex::default(),
        };
        let chosen: Vec<usize> =
            (0..spec.on_device.len()).filter(|at| spec.on_device.get(*at) == Some(&true)).collect();
        if chosen.is_empty() {
            return Err(FeatureError::Unsupported);
        }
        builder.split(&chosen)?;
        Ok(builder)
    }

    /// Lowers these columns; bisects them while the arena of the longest series is too large.
    fn split(&mut self, chosen: &[usize]) -> Result<(), FeatureError> {
        let on: Vec<bool> = (0..self.spec.values.len()).map(|at| chosen.binary_search(&at).is_ok()).collect();
        let lowered =
            lower::lower(self.spec.graph, self.spec.values, &on).ok_or(FeatureError::Unsupported)?;
        let part = ProgramPart::of(self.spec.graph, lowered, self.settings);
        let longest = [self.bars.iter().copied().max().unwrap_or(0)];
        let words = SegmentLayout::words_of(&longest, self.segment_log2);
        let most = self.settings.largest.min(Bytes(self.settings.memory.0 / 2));
        if Bytes(part.program.arena(words)) <= most || chosen.len() < 2 {
            self.parts.push(part);
            return Ok(());
        }
        let (one, two) = chosen.split_at(chosen.len() / 2);
        self.split(one)?;
        self.split(two)
    }

    fn rows_of(&self, bars: &[usize]) -> usize {
        bars.iter().map(|n| n.saturating_sub(self.start)).sum()
    }

    /// Rows of some of the series.
    pub(super) fn rows(&self, items: Range<usize>) -> usize {
        self.rows_of(self.bars.get(items).unwrap_or_default())
    }

    pub(super) fn series_rows(&self) -> Arc<[SeriesRows]> {
        let mut first = 0;
        let series_rows = |(series, bars): (&usize, &usize)| {
            let rows = first..first + bars.saturating_sub(self.start);
            first = rows.end;
            SeriesRows { series: *series, first_bar: self.start, rows }
        };
        self.which.iter().zip(&self.bars).map(series_rows).collect()
    }

    /// The largest buffer for some series, and the peak memory.
    fn need(&self, bars: &[usize]) -> (Bytes, Bytes) {
        let words = SegmentLayout::words_of(bars, self.segment_log2) as u64;
        let rows = self.rows_of(bars) as u64;
        let arena = self.parts.iter().map(|p| p.program.arena(words as usize)).max().unwrap_or(0);
        let uploaded = self.parts.iter().map(|p| p.program.lowered.uploads.len()).max().unwrap_or(0);
        // Segment, series and column tables.
        let tables = (words >> self.segment_log2) * SEGMENT_WORDS as u64
            + (bars.len() * (SERIES_WORDS + 1) + self.spec.values.len() * COLUMN_WORDS) as u64;
        let data = 4 * (words * (uploaded + self.cpu_columns.len()) as u64 + tables);
        let values = 4 * rows * self.spec.values.len() as u64;
        // Parts stay resident until they are concatenated.
        let copies = if self.parts.len() > 1 { 2 } else { 1 };
        (Bytes(arena.max(data).max(values)), Bytes(arena + data + copies * values + 4 * rows))
    }

    /// Ranges of series that fit into the memory limit together.
    pub(super) fn chunks(&self) -> Result<Vec<Range<usize>>, FeatureError> {
        let GpuExecSettings { largest, memory, .. } = self.settings;
        let mut chunks = Vec::new();
        let mut first = 0;
        while first < self.bars.len() {
            let mut last = first;
            while let Some(these) = self.bars.get(first..last + 1) {
                let (single, all) = self.need(these);
                if single > largest || all > memory || self.rows_of(these) > MAX_ROWS {
                    break;
                }
                last += 1;
            }
            if last == first {
                let bars = self.bars.get(first).copied().unwrap_or(0);
                let (single, all) = self.need(&[bars]);
                let need = if single > largest { single } else { all };
                let what = format!("a series of {bars} bars with {} columns", self.spec.values.len());
                return Err(FeatureError::Memory { what, need, largest, memory });
            }
            chunks.push(first..last);
            first = last;
        }
        Ok(chunks)
    }

    /// Builds the chunk of some series; on OOM the runner splits it.
    pub(super) fn build(
        &self,
        runner: &Runner,
        range: Range<usize>,
    ) -> Result<Vec<BuiltChunk>, FeatureError> {
        let [part] = self.parts.as_slice() else {
            return Ok(vec![self.build_in_parts(runner, range)?]);
        };
        let outcome =
            runner.run_batch_on_device(&BuildBatch { builder: self, part, range: range.clone() })?;
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.events.extend(outcome.events);
        let mut made = Vec::new();
        for chunk in outcome.chunks {
            stats.device_time = add_time(stats.device_time, chunk.device_time);
            if let [values, valid] = chunk.kept.as_slice() {
                let items = range.start + chunk.items.start..range.start + chunk.items.end;
                made.push((items, values.clone(), valid.clone()));
            }
        }
        Ok(made)
    }

    /// The plan of one part up to its rows, and the columns of those.
    fn part(
        &self,
        at: usize,
        part: &ProgramPart,
        range: Range<usize>,
    ) -> Result<(Plan, Slot, Vec<usize>), PlanError> {
        let bars = self.bars.get(range.clone()).unwrap_or_default();
        let series = self.series.get(range).unwrap_or_default();
        let layout = SegmentLayout::new(bars, self.segment_log2);
        let scales: Vec<OffsetScale> = series.iter().map(scale).collect();
        let uploads = part.encode_uploads(&layout, &scales, series);
        let alone = self.parts.len() == 1;
        let on_cpu: &[usize] = if at == 0 { &self.cpu_columns } else { &[] };
        let into: Vec<usize> = part.results.iter().map(|(at, _)| *at).chain(on_cpu.iter().copied()).collect();
        let table = into.len() * COLUMN_WORDS;
        let mut more = self.table(part, on_cpu, &layout, alone, table + bars.len());
        let mut first = 0;
        for n in bars {
            more.push(word(first));
            first += n.saturating_sub(self.start);
        }
        if at == 0 {
            more.extend(self.cpu_values(&layout, &scales, series));
        }
        let mut recorded = part.program.record_with(&layout, &scales, &uploads, &more)?;
        let stride = if alone { self.spec.values.len() } else { into.len() };
        let rows = recorded.plan.slot(Bytes(4 * (first * stride) as u64), "features");
        let tile = self.tile();
        let mut params = recorded.head.clone();
        params.truncate(6);
        params.extend([recorded.extra, word(into.len()), word(self.start), tile, word(stride), 0]);
        params.extend([recorded.extra + word(table), recorded.extra, 0, 0]);
        let groups = [
            word(layout.segments().len().div_ceil(GROUP)),
            word(into.len()).div_ceil(tile),
            (1 << layout.segment_log2) / STEPS,
        ];
        let kernel = kernel("features", "", &[Access::Read, Access::Update, Access::Write]);
        recorded.plan.dispatch(&kernel, &[recorded.data, recorded.arena, rows], &params, groups)?;
        recorded.plan.free(recorded.arena)?;
        recorded.plan.free(recorded.data)?;
        Ok((recorded.plan, rows, into))
    }

    /// The column table: columns of the part, then CPU columns, which are contiguous from `place` on.
    fn table(
        &self,
        part: &ProgramPart,
        on_cpu: &[usize],
        layout: &SegmentLayout,
        alone: bool,
        place: usize,
    ) -> Vec<u32> {
        let words = layout.words();
        let encodings = &part.program.lowered.encodings;
        let own = part.results.iter().map(|(at, column)| {
            let (encoding, port) = encodings.get(*column).copied().unwrap_or((UNENCODED, 0));
            let tick_power = i32::from(encoding.tick_power_of(port)).cast_unsigned();
            (*at, [word(column * words), 0, tick_power, (encoding.offset_weight as f32).to_bits()])
        });
        let uploaded = on_cpu.iter().enumerate().map(|(k, at)| (*at, [word(place + k * words), 1, 0, 0]));
        let line = |(k, (at, [place, uploaded, tick_power, offset_weight])): (usize, (usize, [u32; 4]))| {
            let normalise = self.spec.normalise.get(at).copied().unwrap_or_default();
            let normalise = if uploaded == 0 { normalise } else { Normalise::None };
            let into = word(if alone { at } else { k });
            [place, uploaded, into, tick_power, offset_weight, normalise.mode(), word(normalise.bars()), 0]
        };
        own.chain(uploaded).enumerate().flat_map(line).collect()
    }

    /// CPU columns, interleaved: already normalised, since decoded values lose too many digits in f32.
    fn cpu_values(&self, layout: &SegmentLayout, scales: &[OffsetScale], series: &[Series<'_>]) -> Vec<u32> {
        let Some(plan) = &self.cpu_plan else { return Vec::new() };
        let words = layout.words();
        let columns = exec::run(plan, series, ExecOptions::default());
        let mut all = vec![0u32; self.cpu_columns.len() * words];
        for (k, (at, into)) in self.cpu_columns.iter().zip(all.chunks_mut(words.max(1))).enumerate() {
            let normalise = self.spec.normalise.get(*at).copied().unwrap_or_default();
            let values = |((of, scale), bars): ((&Vec<Vec<f64>>, &OffsetScale), &usize)| {
                let column = of.get(k).map_or(&[][..], Vec::as_slice);
                let mut values = vec![0.0; self.start];
                values.extend(cpu::normalise_column(normalise, column, self.start..*bars, scale.offset));
                values
            };
            let all: Vec<_> = columns.par_iter().zip(scales).zip(&layout.bars).map(values).collect();
            all.iter().enumerate().for_each(|(at, values)| layout.scatter(at, values, |x| x, into));
        }
        all
    }

    /// Columns per invocation within the iteration limit.
    fn tile(&self) -> u32 {
        let longest = self.spec.normalise.iter().map(|n| n.bars()).max().unwrap_or(1);
        // Two passes over the windows, over segments of at least 32 bars; the way back over those; eight rows and tick powers.
        let cost = 2 * (longest + 7) + 3 * (longest + 7).div_ceil(32) + 48;
        (MAX_ITERATIONS / word(cost)).clamp(1, TILE)
    }

    /// Each part by itself, then concatenated: for series whose arena does not fit otherwise.
    fn build_in_parts(&self, runner: &Runner, range: Range<usize>) -> Result<BuiltChunk, FeatureError> {
        let rows = self.rows(range.clone());
        let mut joined = Plan::new("features of parts");
        let whole = joined.slot(Bytes(4 * (rows * self.spec.values.len()) as u64), "features");
        let mut parts = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let recorded = self.part(at, part, range.clone()).and_then(|(mut plan, slot, into)| {
                plan.keep(slot, floats(&[rows, into.len()], "features of a part"))?;
                Ok((plan, into))
            });
            let (plan, into) = recorded.map_err(plan_error)?;
            self.count(&plan);
            let mut kept = self.run(runner, plan)?;
            let Some(part) = kept.pop() else { continue };
            self.join(&mut joined, at == 0, &part, whole, &into, rows).map_err(plan_error)?;
            parts.push(part);
        }
        self.finish(&mut joined, whole, rows).map_err(plan_error)?;
        let kept = self.run(runner, joined)?;
        // They are rebuilt if the device is lost.
        parts.iter().for_each(Tensor::evict);
        match <[Tensor; 2]>::try_from(kept) {
            Ok([values, valid]) => Ok((range, values, valid)),
            Err(_) => Err(FeatureError::Unsupported),
        }
    }

    fn join(
        &self,
        plan: &mut Plan,
        first: bool,
        part: &Tensor,
        whole: Slot,
        into: &[usize],
        rows: usize,
    ) -> Result<(), PlanError> {
        let (how, access) = if first { ("", Access::Write) } else { ("-more", Access::Update) };
        let kernel = kernel("features-join", how, &[Access::Read, Access::Read, access]);
        let map: Vec<u32> = into.iter().map(|at| word(*at)).collect();
        let map = plan.upload(bytemuck::cast_slice::<u32, u8>(&map).to_vec(), "features of a part")?;
        let part = plan.import(part);
        let count = rows * into.len();
        let (groups, row) = dispatch_grid(count, WIDE_GROUP);
        let params = [word(count), word(into.len()), word(self.spec.values.len()), row];
        plan.dispatch(&kernel, &[map, part, whole], &params, groups)
    }

    /// Computes the validity mask, and keeps values and mask on the device.
    fn finish(&self, plan: &mut Plan, values: Slot, rows: usize) -> Result<(), PlanError> {
        let columns = self.spec.values.len();
        let valid = plan.slot(Bytes(4 * rows as u64), "valid features");
        let (groups, row) = dispatch_grid(rows, GROUP);
        let kernel = kernel("features-mask", "", &[Access::Update, Access::Write]);
        plan.dispatch(&kernel, &[values, valid], &[word(rows), word(columns), 0, row], groups)?;
        plan.keep(values, floats(&[rows, columns], "features"))?;
        plan.keep(valid, floats(&[rows], "valid features"))?;
        self.count(plan);
        Ok(())
    }

    fn count(&self, plan: &Plan) {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).count(plan);
    }

    /// Counters of the device runs.
    pub(super) fn into_stats(self) -> GpuExecStats {
        self.stats.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a plan; returns the tensors that it kept.
    fn run(&self, runner: &Runner, plan: Plan) -> Result<Vec<Tensor>, FeatureError> {
        let outcome = runner.run_batch_on_device(&RecordedBatch(plan))?;
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.events.extend(outcome.events);
        let mut kept = Vec::new();
        for chunk in outcome.chunks {
            stats.device_time = add_time(stats.device_time, chunk.device_time);
            kept.extend(chunk.kept);
        }
        Ok(kept)
    }
}

/// A range of series that the runner may split on OOM.
struct BuildBatch<'a, 'm, 's> {
    builder: &'a FeatureBuilder<'m, 's>,
    part: &'a ProgramPart,
    range: Range<usize>,
}

impl SplittableBatch for BuildBatch<'_, '_, '_> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError> {
        let range = self.range.start + items.start..self.range.start + items.end;
        let (mut plan, values, _) = self.builder.part(0, self.part, range.clone())?;
        self.builder.finish(&mut plan, values, self.builder.rows(range))?;
        Ok(plan)
    }
}
