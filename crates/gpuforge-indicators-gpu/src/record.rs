//! What does a device do for some series? One plan: everything uploaded at once, calls stage after stage in one arena, the
//! results fetched at once.

use std::sync::Arc;

use gpuforge_runtime::{
    kernel::Kernel,
    plan::{MAX_GROUPS, Plan, PlanError, Slot},
    units::Bytes,
};

use crate::{
    encoding::Scale,
    kernels::{self, Kernels},
    layout::{LANES, Layout},
    lower::{Call, JobSpec, Loop, Lowered},
};

/// Loop iterations of one invocation at most: software adapters cut longer loops silently, watchdogs end them.
pub const MOST_ITERATIONS: u32 = 16_384;
/// Words of a job.
const JOB_WORDS: usize = 24;
/// Invocations of a work group of the kernels with loops.
const GROUP: usize = 64;
/// Columns of a generated kernel that its parameters have room for (`COLUMNS` in its text).
const MOST_NAMED: usize = 16;
/// Invocations of a work group that only copies.
const PLACE_GROUP: usize = 256;

/// A recorded plan, for kernels that go on where it ends.
#[derive(Debug)]
pub struct Recorded {
    /// Everything up to the results.
    pub plan: Plan,
    /// What was uploaded.
    pub data: Slot,
    /// The results, and what they rest on.
    pub arena: Slot,
    /// The eight parameters that all calls share.
    pub head: Vec<u32>,
    /// Where the following kernel's words begin in `data`.
    pub more: u32,
}

/// Kernels of a lowered graph, and how wide the generated ones are.
#[derive(Debug, Clone)]
pub struct Program {
    /// The graph.
    pub lowered: Lowered,
    kernels: Kernels,
    /// Of each stage and call, where it is generated.
    generated: Vec<Vec<Option<Arc<Kernel>>>>,
    width: usize,
    /// Slices of runs, as multiples of what the authors of kernels wish.
    pub slices: u32,
}

impl Program {
    /// With generated kernels of this many invocations a group.
    pub fn new(lowered: Lowered, width: u32) -> Program {
        let generate = |call: &Call| match call {
            Call::Pointwise(p) => Some(kernels::pointwise(&p.body, width)),
            _ => None,
        };
        let generated = lowered.stages.iter().map(|calls| calls.iter().map(generate).collect()).collect();
        Program { lowered, kernels: Kernels::new(), generated, width: width as usize, slices: 1 }
    }

    /// Bytes of the arena for a column of so many words.
    pub fn arena(&self, words: usize) -> u64 {
        4 * (words as u64) * self.lowered.columns as u64
    }

    /// Bytes that are fetched.
    pub fn fetched(&self, words: usize) -> u64 {
        4 * (words as u64) * self.lowered.results as u64
    }

    /// The plan for series laid out so, whose uploaded columns lie one after the other in `columns`; and the arena in it.
    pub fn record(
        &self,
        layout: &Layout,
        scales: &[Scale],
        columns: &[u32],
    ) -> Result<(Plan, Slot), PlanError> {
        self.record_with(layout, scales, columns, &[]).map(|r| (r.plan, r.arena))
    }

    /// The same with words of a following kernel in the one upload.
    pub fn record_with(
        &self,
        layout: &Layout,
        scales: &[Scale],
        columns: &[u32],
        more: &[u32],
    ) -> Result<Recorded, PlanError> {
        let mut sheet = Sheet::new(layout, scales);
        let mut dispatches: Vec<Dispatch> = Vec::new();
        for (calls, generated) in self.lowered.stages.iter().zip(&self.generated) {
            for (call, own) in calls.iter().zip(generated) {
                self.call(call, own.as_ref(), layout, &mut sheet, &mut dispatches);
            }
        }
        let columns_at = sheet.add(columns);
        let more_at = sheet.add(more);
        let words = layout.words();
        let mut plan = Plan::new("indicators");
        let bytes: Vec<u8> = bytemuck::cast_slice(&sheet.words).to_vec();
        let data = plan.upload(bytes, "indicator bars")?;
        let arena = plan.slot(Bytes(self.arena(words)), "indicator arena");
        let mut place = sheet.head.clone();
        let (groups, row) = flat(columns.len(), PLACE_GROUP);
        place.extend([columns_at, word(self.lowered.results * words), word(columns.len()), row]);
        plan.dispatch(&self.kernels.place, &[data, arena], &place, groups)?;
        for d in dispatches {
            plan.dispatch(&d.kernel, &[data, arena], &d.params, d.groups)?;
        }
        Ok(Recorded { plan, data, arena, head: sheet.head, more: more_at })
    }

    fn call(
        &self,
        call: &Call,
        own: Option<&Arc<Kernel>>,
        layout: &Layout,
        sheet: &mut Sheet,
        dispatches: &mut Vec<Dispatch>,
    ) {
        let words = layout.words();
        let (runs, series) = (layout.runs().len(), layout.bars.len());
        let mut add = |kernel: &Arc<Kernel>, params: Vec<u32>, groups: [u32; 3]| {
            dispatches.push(Dispatch { kernel: kernel.clone(), params, groups });
        };
        match call {
            Call::Pointwise(p) => {
                let Some(kernel) = own else { return };
                let constants = sheet.add(&p.constants);
                let lags = sheet.add(&p.lags);
                let columns: Vec<u32> = p.loads.iter().chain(&p.stores).map(|c| word(*c)).collect();
                let (groups, row) = flat(words / 4, self.width);
                let mut params = sheet.head.clone();
                params.truncate(2);
                params.push(LANES | sheet.ticks << 8);
                let run_table = sheet.head.get(4).copied().unwrap_or(0);
                params.extend([word(words / 4), run_table, row, constants, lags]);
                if columns.len() <= MOST_NAMED {
                    params.extend(columns.chunks(2).map(pair));
                } else {
                    params.push(sheet.add(&columns));
                }
                add(kernel, params, groups);
            }
            Call::Windows(shader, jobs) => {
                let steps = 1u32 << layout.segment_log2;
                let most = |j: &JobSpec| {
                    let wished = j.slice.saturating_mul(self.slices.max(1));
                    (MOST_ITERATIONS.saturating_sub(j.to_begin) / j.per_step.max(1)).min(wished)
                };
                let slice = jobs.iter().map(most).min().unwrap_or(1).clamp(1, steps);
                let params = sheet.jobs(jobs, words, series, [0, slice, 0, 0]);
                let groups = [word(runs.div_ceil(GROUP)), word(jobs.len()), steps.div_ceil(slice)];
                let kernel = match shader {
                    Loop::Plain(shader) => self.kernels.window(*shader),
                    Loop::Machines => &self.kernels.machine_windows,
                };
                add(kernel, params, groups);
            }
            Call::Scan(jobs) => {
                let params = sheet.jobs(jobs, words, series, [0; 4]);
                for pass in 0..3 {
                    let mut params = params.clone();
                    params.extend([pass, 0, 0, 0]);
                    let threads = if pass == 1 { series } else { runs };
                    add(&self.kernels.scan, params, [word(threads.div_ceil(GROUP)), word(jobs.len()), 1]);
                }
            }
            Call::Machines(jobs) => {
                let cost = jobs.iter().map(|j| j.per_step).max().unwrap_or(1).max(1);
                let steps = 1usize << layout.segment_log2;
                let chunk = ((MOST_ITERATIONS / cost) as usize >> layout.segment_log2 << layout.segment_log2)
                    .max(steps);
                let bars = layout.bars.iter().copied().max().unwrap_or(0);
                let params = sheet.jobs(jobs, words, series, [0; 4]);
                for first in (0..bars).step_by(chunk) {
                    let runs = sheet.add(&layout.beginning_at(first));
                    let mut params = params.clone();
                    params.extend([word(first), word((first + chunk).min(bars)), runs, 0]);
                    add(&self.kernels.machine, params, [word(series.div_ceil(GROUP)), word(jobs.len()), 1]);
                }
            }
        }
    }
}

struct Dispatch {
    kernel: Arc<Kernel>,
    params: Vec<u32>,
    groups: [u32; 3],
}

/// What is uploaded, and the parameters that all calls share.
struct Sheet {
    words: Vec<u32>,
    head: Vec<u32>,
    /// Do all series have ticks (1), or none (2)?
    ticks: u32,
}

impl Sheet {
    fn new(layout: &Layout, scales: &[Scale]) -> Sheet {
        let (runs, series) = layout.tables(scales);
        let with = scales.iter().filter(|s| s.tick.is_some()).count();
        let ticks = if with == scales.len() { 1 } else { 2 * u32::from(with == 0) };
        let mut sheet = Sheet { words: Vec::new(), head: Vec::new(), ticks };
        let (run_table, series_table) = (sheet.add(&runs), sheet.add(&series));
        sheet.head = vec![word(layout.runs().len()), layout.segment_log2, LANES, word(layout.bars.len())];
        sheet.head.extend([run_table, series_table, 0, 0]);
        sheet
    }

    /// Adds words; where they begin.
    fn add(&mut self, words: &[u32]) -> u32 {
        let at = self.words.len();
        self.words.extend(words);
        word(at)
    }

    /// Adds jobs; the first twelve parameters of their call.
    fn jobs(&mut self, jobs: &[JobSpec], words: usize, _series: usize, own: [u32; 4]) -> Vec<u32> {
        let mut table = Vec::with_capacity(jobs.len() * JOB_WORDS);
        for job in jobs {
            let bits: Vec<u32> = job.numbers.iter().map(|x| x.to_bits()).collect();
            let numbers = self.add(&bits);
            let column = |c: usize| word(c * words);
            let mut line = [0; JOB_WORDS];
            let head = [
                job.mode,
                word(job.start),
                word(job.begin),
                job.n,
                numbers,
                word(job.numbers.len()),
                job.scratch.map_or(0, column),
                word(job.outputs.len()),
            ];
            let inputs = job.inputs.iter().map(|(c, _)| column(*c));
            let lags = job.inputs.iter().map(|(_, lag)| word(*lag));
            let outputs = job.outputs.iter().map(|c| column(*c));
            line.iter_mut().zip(head).for_each(|(w, x)| *w = x);
            line.iter_mut().skip(8).zip(inputs.take(4)).for_each(|(w, x)| *w = x);
            line.iter_mut().skip(12).zip(lags.take(4)).for_each(|(w, x)| *w = x);
            line.iter_mut().skip(16).zip(outputs.take(8)).for_each(|(w, x)| *w = x);
            table.extend(line);
        }
        let at = self.add(&table);
        let mut params = self.head.clone();
        params.truncate(6);
        params.extend([at, word(jobs.len())]);
        params.extend(own);
        params
    }
}

/// Two numbers of columns in a word: an arena of more than 65 536 columns is larger than any buffer.
fn pair(columns: &[u32]) -> u32 {
    columns.iter().rev().fold(0, |word, column| word << 16 | (column & 0xffff))
}

pub(crate) fn word(x: usize) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

/// Groups in two dimensions for so many invocations, and invocations of a row of them.
pub(crate) fn flat(count: usize, group: usize) -> ([u32; 3], u32) {
    let groups = count.div_ceil(group).max(1);
    let across = groups.min(MAX_GROUPS as usize);
    ([word(across), word(groups.div_ceil(across)), 1], word(across * group))
}
