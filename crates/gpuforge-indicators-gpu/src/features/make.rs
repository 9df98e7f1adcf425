//! How are features made on a device? Series that fit together in one plan: indicators, rows, marks. Where the arena of the
//! longest series is too large, columns are computed in several plans and joined.

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

use super::{Ask, FeatureError, GROUP, Normalise, Segment, WIDE_GROUP, Whole, cpu, floats, kernel, mistake};
use crate::{
    encoding::{PLAIN, Scale},
    gpu_executor::{GpuExecSettings, GpuExecStats, ProgramPart, scale, sum},
    layout::{Layout, RUN_WORDS, SERIES_WORDS},
    lower,
    record::{MOST_ITERATIONS, flat, word},
};

/// Rows of a chunk at most: kernels loop over a part of them and over the parts.
const MOST_ROWS: usize = 1 << 25;
/// Columns of a row that one invocation writes, if it has the time: a stretch of memory that is written as a whole.
const TILE: u32 = 16;
/// Steps of an invocation; runs have a multiple of them.
const STEPS: u32 = 8;
/// Words of a column in its table.
const COLUMN_WORDS: usize = 8;

/// Some series, values and valid rows.
pub(super) type Made = (Range<usize>, Tensor, Tensor);

/// How features are made of the series that have rows.
pub(super) struct Maker<'a, 's> {
    ask: &'a Ask<'a>,
    /// Which of all series.
    which: Vec<usize>,
    series: Vec<Series<'s>>,
    bars: Vec<usize>,
    start: usize,
    /// Programs whose arenas fit, and together compute every column of the device.
    parts: Vec<ProgramPart>,
    /// What the processor computes, and which columns these are.
    hosted: Option<ExecPlan>,
    hosted_at: Vec<usize>,
    settings: GpuExecSettings,
    /// log2 of the steps of a run: by the longest series, so that rows do not depend on chunks.
    segment_log2: u32,
    stats: Mutex<GpuExecStats>,
}

impl<'a, 's> Maker<'a, 's> {
    pub(super) fn new(
        ask: &'a Ask<'a>,
        series: &[Series<'s>],
        settings: GpuExecSettings,
    ) -> Result<Self, FeatureError> {
        let start = ask.start();
        let whole = ExecPlan::new(ask.graph, ask.values);
        let live = series.iter().enumerate().map(|(at, s)| (at, *s, s.len(&whole)));
        let live: Vec<_> = live.filter(|(_, _, bars)| *bars > start).collect();
        let longest = live.iter().map(|(.., bars)| *bars).max().unwrap_or(0);
        let hosted_at: Vec<usize> = (0..ask.on.len()).filter(|at| ask.on.get(*at) == Some(&false)).collect();
        let hosted: Vec<ValueId> = hosted_at.iter().filter_map(|at| ask.values.get(*at).copied()).collect();
        let mut maker = Maker {
            ask,
            which: live.iter().map(|(at, ..)| *at).collect(),
            series: live.iter().map(|(_, s, _)| *s).collect(),
            bars: live.iter().map(|(.., bars)| *bars).collect(),
            start,
            parts: Vec::new(),
            hosted: (!hosted.is_empty()).then(|| ExecPlan::new(ask.graph, &hosted)),
            hosted_at,
            settings,
            segment_log2: settings
                .segment_log2
                .unwrap_or_else(|| Layout::segment_log2_for(&[longest]))
                .max(STEPS.ilog2()),
            stats: Mutex::default(),
        };
        let chosen: Vec<usize> = (0..ask.on.len()).filter(|at| ask.on.get(*at) == Some(&true)).collect();
        if chosen.is_empty() {
            return Err(FeatureError::Unfit);
        }
        maker.split(&chosen)?;
        Ok(maker)
    }

    /// Lowers these columns; in two halves if the arena of the longest series is too large otherwise.
    fn split(&mut self, chosen: &[usize]) -> Result<(), FeatureError> {
        let on: Vec<bool> = (0..self.ask.values.len()).map(|at| chosen.binary_search(&at).is_ok()).collect();
        let lowered = lower::lower(self.ask.graph, self.ask.values, &on).ok_or(FeatureError::Unfit)?;
        let part = ProgramPart::of(self.ask.graph, lowered, self.settings);
        let longest = [self.bars.iter().copied().max().unwrap_or(0)];
        let words = Layout::words_of(&longest, self.segment_log2);
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

    pub(super) fn segments(&self) -> Arc<[Segment]> {
        let mut first = 0;
        let segment = |(series, bars): (&usize, &usize)| {
            let rows = first..first + bars.saturating_sub(self.start);
            first = rows.end;
            Segment { series: *series, first_bar: self.start, rows }
        };
        self.which.iter().zip(&self.bars).map(segment).collect()
    }

    /// The largest buffer of some series, and all that is there at once.
    fn need(&self, bars: &[usize]) -> (Bytes, Bytes) {
        let words = Layout::words_of(bars, self.segment_log2) as u64;
        let rows = self.rows_of(bars) as u64;
        let arena = self.parts.iter().map(|p| p.program.arena(words as usize)).max().unwrap_or(0);
        let given = self.parts.iter().map(|p| p.program.lowered.given.len()).max().unwrap_or(0);
        // Runs, series and columns have tables beside them.
        let tables = (words >> self.segment_log2) * RUN_WORDS as u64
            + (bars.len() * (SERIES_WORDS + 1) + self.ask.values.len() * COLUMN_WORDS) as u64;
        let data = 4 * (words * (given + self.hosted_at.len()) as u64 + tables);
        let values = 4 * rows * self.ask.values.len() as u64;
        // Parts wait for each other before they are joined.
        let copies = if self.parts.len() > 1 { 2 } else { 1 };
        (Bytes(arena.max(data).max(values)), Bytes(arena + data + copies * values + 4 * rows))
    }

    /// Ranges of series that fit the device together.
    pub(super) fn chunks(&self) -> Result<Vec<Range<usize>>, FeatureError> {
        let GpuExecSettings { largest, memory, .. } = self.settings;
        let mut chunks = Vec::new();
        let mut first = 0;
        while first < self.bars.len() {
            let mut last = first;
            while let Some(these) = self.bars.get(first..last + 1) {
                let (single, all) = self.need(these);
                if single > largest || all > memory || self.rows_of(these) > MOST_ROWS {
                    break;
                }
                last += 1;
            }
            if last == first {
                let bars = self.bars.get(first).copied().unwrap_or(0);
                let (single, all) = self.need(&[bars]);
                let need = if single > largest { single } else { all };
                let what = format!("a series of {bars} bars with {} columns", self.ask.values.len());
                return Err(FeatureError::Memory { what, need, largest, memory });
            }
            chunks.push(first..last);
            first = last;
        }
        Ok(chunks)
    }

    /// Runs what makes the features of some series.
    pub(super) fn make(&self, runner: &Runner, range: Range<usize>) -> Result<Vec<Made>, FeatureError> {
        let [part] = self.parts.as_slice() else {
            return Ok(vec![self.in_parts(runner, range)?]);
        };
        let outcome = runner.run_batch_on_device(&Items { maker: self, part, range: range.clone() })?;
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.events.extend(outcome.events);
        let mut made = Vec::new();
        for piece in outcome.chunks {
            stats.device_time = sum(stats.device_time, piece.device_time);
            if let [values, valid] = piece.kept.as_slice() {
                let items = range.start + piece.items.start..range.start + piece.items.end;
                made.push((items, values.clone(), valid.clone()));
            }
        }
        Ok(made)
    }

    /// The plan of one part, up to its rows; which columns they have.
    fn part(
        &self,
        at: usize,
        part: &ProgramPart,
        range: Range<usize>,
    ) -> Result<(Plan, Slot, Vec<usize>), PlanError> {
        let bars = self.bars.get(range.clone()).unwrap_or_default();
        let series = self.series.get(range).unwrap_or_default();
        let layout = Layout::new(bars, self.segment_log2);
        let scales: Vec<Scale> = series.iter().map(scale).collect();
        let given = part.columns(&layout, &scales, series);
        let alone = self.parts.len() == 1;
        let hosted: &[usize] = if at == 0 { &self.hosted_at } else { &[] };
        let into: Vec<usize> = part.results.iter().map(|(at, _)| *at).chain(hosted.iter().copied()).collect();
        let table = into.len() * COLUMN_WORDS;
        let mut more = self.table(part, hosted, &layout, alone, table + bars.len());
        let mut first = 0;
        for n in bars {
            more.push(word(first));
            first += n.saturating_sub(self.start);
        }
        if at == 0 {
            more.extend(self.hosted(&layout, &scales, series));
        }
        let mut recorded = part.program.record_with(&layout, &scales, &given, &more)?;
        let stride = if alone { self.ask.values.len() } else { into.len() };
        let rows = recorded.plan.slot(Bytes(4 * (first * stride) as u64), "features");
        let tile = self.tile();
        let mut params = recorded.head.clone();
        params.truncate(6);
        params.extend([recorded.more, word(into.len()), word(self.start), tile, word(stride), 0]);
        params.extend([recorded.more + word(table), recorded.more, 0, 0]);
        let groups = [
            word(layout.runs().len().div_ceil(GROUP)),
            word(into.len()).div_ceil(tile),
            (1 << layout.segment_log2) / STEPS,
        ];
        let kernel = kernel("features", "", &[Access::Read, Access::Update, Access::Write]);
        recorded.plan.dispatch(&kernel, &[recorded.data, recorded.arena, rows], &params, groups)?;
        recorded.plan.free(recorded.arena)?;
        recorded.plan.free(recorded.data)?;
        Ok((recorded.plan, rows, into))
    }

    /// The table of columns: those of the part, then those of the processor, which lie one after the other from `place`.
    fn table(
        &self,
        part: &ProgramPart,
        hosted: &[usize],
        layout: &Layout,
        alone: bool,
        place: usize,
    ) -> Vec<u32> {
        let words = layout.words();
        let forms = &part.program.lowered.forms;
        let own = part.results.iter().map(|(at, column)| {
            let (form, port) = forms.get(*column).copied().unwrap_or((PLAIN, 0));
            let unit = i32::from(form.unit_of(port)).cast_unsigned();
            (*at, [word(column * words), 0, unit, (form.weight as f32).to_bits()])
        });
        let given = hosted.iter().enumerate().map(|(k, at)| (*at, [word(place + k * words), 1, 0, 0]));
        let line = |(k, (at, [place, given, unit, weight])): (usize, (usize, [u32; 4]))| {
            let way = self.ask.normalise.get(at).copied().unwrap_or_default();
            let way = if given == 0 { way } else { Normalise::None };
            let into = word(if alone { at } else { k });
            [place, given, into, unit, weight, way.mode(), word(way.bars()), 0]
        };
        own.chain(given).enumerate().flat_map(line).collect()
    }

    /// Columns of the processor, as they lie: normalised already, as what is full of level has too few digits in f32.
    fn hosted(&self, layout: &Layout, scales: &[Scale], series: &[Series<'_>]) -> Vec<u32> {
        let Some(plan) = &self.hosted else { return Vec::new() };
        let words = layout.words();
        let columns = exec::run(plan, series, ExecOptions::default());
        let mut all = vec![0u32; self.hosted_at.len() * words];
        for (k, (at, into)) in self.hosted_at.iter().zip(all.chunks_mut(words.max(1))).enumerate() {
            let way = self.ask.normalise.get(*at).copied().unwrap_or_default();
            let values = |((of, scale), bars): ((&Vec<Vec<f64>>, &Scale), &usize)| {
                let column = of.get(k).map_or(&[][..], Vec::as_slice);
                let mut values = vec![0.0; self.start];
                values.extend(cpu::along(way, column, self.start..*bars, scale.level));
                values
            };
            let all: Vec<_> = columns.par_iter().zip(scales).zip(&layout.bars).map(values).collect();
            all.iter().enumerate().for_each(|(at, values)| layout.scatter(at, values, |x| x, into));
        }
        all
    }

    /// Columns that one invocation has the time for.
    fn tile(&self) -> u32 {
        let longest = self.ask.normalise.iter().map(|n| n.bars()).max().unwrap_or(1);
        // Two passes over the windows, over runs of at least 32 steps; the way back over those; eight rows and powers of a tick.
        let cost = 2 * (longest + 7) + 3 * (longest + 7).div_ceil(32) + 48;
        (MOST_ITERATIONS / word(cost)).clamp(1, TILE)
    }

    /// Each part by itself, then joined: for series whose arena does not fit otherwise.
    fn in_parts(&self, runner: &Runner, range: Range<usize>) -> Result<Made, FeatureError> {
        let rows = self.rows(range.clone());
        let mut joined = Plan::new("features of parts");
        let whole = joined.slot(Bytes(4 * (rows * self.ask.values.len()) as u64), "features");
        let mut parts = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let recorded = self.part(at, part, range.clone()).and_then(|(mut plan, slot, into)| {
                plan.keep(slot, floats(&[rows, into.len()], "features of a part"))?;
                Ok((plan, into))
            });
            let (plan, into) = recorded.map_err(mistake)?;
            self.count(&plan);
            let mut kept = self.run(runner, plan)?;
            let Some(part) = kept.pop() else { continue };
            self.join(&mut joined, at == 0, &part, whole, &into, rows).map_err(mistake)?;
            parts.push(part);
        }
        self.finish(&mut joined, whole, rows).map_err(mistake)?;
        let kept = self.run(runner, joined)?;
        // They are made again if the device is lost.
        parts.iter().for_each(Tensor::evict);
        match <[Tensor; 2]>::try_from(kept) {
            Ok([values, valid]) => Ok((range, values, valid)),
            Err(_) => Err(FeatureError::Unfit),
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
        let (groups, row) = flat(count, WIDE_GROUP);
        let params = [word(count), word(into.len()), word(self.ask.values.len()), row];
        plan.dispatch(&kernel, &[map, part, whole], &params, groups)
    }

    /// Marks what is valid, and keeps both.
    fn finish(&self, plan: &mut Plan, values: Slot, rows: usize) -> Result<(), PlanError> {
        let columns = self.ask.values.len();
        let valid = plan.slot(Bytes(4 * rows as u64), "valid features");
        let (groups, row) = flat(rows, GROUP);
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

    /// What was done.
    pub(super) fn into_stats(self) -> GpuExecStats {
        self.stats.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a plan; what it kept.
    fn run(&self, runner: &Runner, plan: Plan) -> Result<Vec<Tensor>, FeatureError> {
        let outcome = runner.run_batch_on_device(&Whole(plan))?;
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.events.extend(outcome.events);
        let mut kept = Vec::new();
        for piece in outcome.chunks {
            stats.device_time = sum(stats.device_time, piece.device_time);
            kept.extend(piece.kept);
        }
        Ok(kept)
    }
}

/// Some of the series, as the runner wants them.
struct Items<'a, 'm, 's> {
    maker: &'a Maker<'m, 's>,
    part: &'a ProgramPart,
    range: Range<usize>,
}

impl SplittableBatch for Items<'_, '_, '_> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError> {
        let range = self.range.start + items.start..self.range.start + items.end;
        let (mut plan, values, _) = self.maker.part(0, self.part, range.clone())?;
        self.maker.finish(&mut plan, values, self.maker.rows(range))?;
        Ok(plan)
    }
}
