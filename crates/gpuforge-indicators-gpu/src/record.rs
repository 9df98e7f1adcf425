//! Command recording: a batch as one runtime plan with a single upload (tables, jobs, columns), the calls of each stage over one
//! arena, and results contiguous at its start.

use std::sync::Arc;

use gpuforge_runtime::{
    kernel::Kernel,
    plan::{MAX_GROUPS, Plan, PlanError, Slot},
    units::Bytes,
};

use crate::{
    encoding::OffsetScale,
    kernels::{self, Kernels},
    layout::{INTERLEAVE_LOG2, SegmentLayout},
    lower::{Call, JobSpec, Lowered, RollingKernel},
};

pub use crate::rolling::MAX_ITERATIONS;

/// Words of a job in the job table.
const JOB_WORDS: usize = 24;
/// Workgroup size of the rolling, scan and state machine kernels.
const GROUP: usize = 64;
/// Columns of a generated kernel that fit into its uniform parameters (`COLUMNS` in the shader).
const MAX_INLINE_COLUMNS: usize = 16;
/// Workgroup size of the copy kernel.
const COPY_GROUP: usize = 256;

/// A recorded plan that further kernels can be appended to.
#[derive(Debug)]
pub struct RecordedPlan {
    /// The commands up to the results.
    pub plan: Plan,
    /// The uploaded buffer.
    pub data: Slot,
    /// The arena: results first.
    pub arena: Slot,
    /// The eight parameters shared by all calls.
    pub head: Vec<u32>,
    /// Offset of the following kernels' words in `data`.
    pub extra: u32,
}

/// A lowered graph with its kernels.
#[derive(Debug, Clone)]
pub struct Program {
    /// The lowered graph.
    pub lowered: Lowered,
    kernels: Kernels,
    /// Generated kernel by stage and call.
    generated: Vec<Vec<Option<Arc<Kernel>>>>,
    workgroup_size: usize,
    /// Slice length, as a multiple of each kernel's preferred one.
    pub slice_factor: u32,
}

impl Program {
    /// With generated kernels of this workgroup size.
    pub fn new(lowered: Lowered, workgroup_size: u32) -> Program {
        let generate = |call: &Call| match call {
            Call::Pointwise(p) => Some(kernels::pointwise(&p.body, workgroup_size)),
            _ => None,
        };
        let generated = lowered.stages.iter().map(|calls| calls.iter().map(generate).collect()).collect();
        Program {
            lowered,
            kernels: Kernels::new(),
            generated,
            workgroup_size: workgroup_size as usize,
            slice_factor: 1,
        }
    }

    /// Bytes of the arena for columns of so many words.
    pub fn arena(&self, words: usize) -> u64 {
        4 * (words as u64) * self.lowered.columns as u64
    }

    /// Bytes downloaded.
    pub fn download_bytes(&self, words: usize) -> u64 {
        4 * (words as u64) * self.lowered.results as u64
    }

    /// Records the plan for a layout; `columns` are the contiguous uploads. Also returns the arena's slot.
    pub fn record(
        &self,
        layout: &SegmentLayout,
        scales: &[OffsetScale],
        columns: &[u32],
    ) -> Result<(Plan, Slot), PlanError> {
        self.record_with(layout, scales, columns, &[]).map(|r| (r.plan, r.arena))
    }

    /// The same with `extra` words for following kernels in the same upload.
    pub fn record_with(
        &self,
        layout: &SegmentLayout,
        scales: &[OffsetScale],
        columns: &[u32],
        extra: &[u32],
    ) -> Result<RecordedPlan, PlanError> {
        let mut upload = Upload::new(layout, scales);
        let mut dispatches: Vec<Dispatch> = Vec::new();
        for (calls, generated) in self.lowered.stages.iter().zip(&self.generated) {
            for (call, own) in calls.iter().zip(generated) {
                self.call(call, own.as_ref(), layout, &mut upload, &mut dispatches);
            }
        }
        let columns_at = upload.push(columns);
        let extra_at = upload.push(extra);
        let words = layout.words();
        let mut plan = Plan::new("indicators");
        let bytes: Vec<u8> = bytemuck::cast_slice(&upload.words).to_vec();
        let data = plan.upload(bytes, "indicator bars")?;
        let arena = plan.slot(Bytes(self.arena(words)), "indicator arena");
        let mut copy = upload.head.clone();
        let (groups, row) = dispatch_grid(columns.len(), COPY_GROUP);
        copy.extend([columns_at, word(self.lowered.results * words), word(columns.len()), row]);
        plan.dispatch(&self.kernels.copy_uploads, &[data, arena], &copy, groups)?;
        for d in dispatches {
            plan.dispatch(&d.kernel, &[data, arena], &d.params, d.groups)?;
        }
        Ok(RecordedPlan { plan, data, arena, head: upload.head, extra: extra_at })
    }

    fn call(
        &self,
        call: &Call,
        own: Option<&Arc<Kernel>>,
        layout: &SegmentLayout,
        upload: &mut Upload,
        dispatches: &mut Vec<Dispatch>,
    ) {
        let words = layout.words();
        let (segments, series) = (layout.segments().len(), layout.bars.len());
        let mut add = |kernel: &Arc<Kernel>, params: Vec<u32>, groups: [u32; 3]| {
            dispatches.push(Dispatch { kernel: kernel.clone(), params, groups });
        };
        match call {
            Call::Pointwise(p) => {
                let Some(kernel) = own else { return };
                let constants = upload.push(&p.constants);
                let lags = upload.push(&p.lags);
                let columns: Vec<u32> = p.loads.iter().chain(&p.stores).map(|c| word(*c)).collect();
                let (groups, row) = dispatch_grid(words / 4, self.workgroup_size);
                let mut params = upload.head.clone();
                params.truncate(2);
                params.push(INTERLEAVE_LOG2 | upload.ticks << 8);
                let segment_table = upload.head.get(4).copied().unwrap_or(0);
                params.extend([word(words / 4), segment_table, row, constants, lags]);
                if columns.len() <= MAX_INLINE_COLUMNS {
                    params.extend(columns.chunks(2).map(pack_columns));
                } else {
                    params.push(upload.push(&columns));
                }
                add(kernel, params, groups);
            }
            Call::Rolling(shader, jobs) => {
                let steps = 1u32 << layout.segment_log2;
                let most = |j: &JobSpec| {
                    let preferred = j.slice.saturating_mul(self.slice_factor.max(1));
                    (MAX_ITERATIONS.saturating_sub(j.setup_iterations) / j.step_iterations.max(1))
                        .min(preferred)
                };
                let slice = jobs.iter().map(most).min().unwrap_or(1).clamp(1, steps);
                let params = upload.push_jobs(jobs, words, series, [0, slice, 0, 0]);
                let groups = [word(segments.div_ceil(GROUP)), word(jobs.len()), steps.div_ceil(slice)];
                let kernel = match shader {
                    RollingKernel::Primitive(shader) => self.kernels.rolling(*shader),
                    RollingKernel::StateMachines => &self.kernels.rolling_state_machines,
                };
                add(kernel, params, groups);
            }
            Call::Scan(jobs) => {
                let params = upload.push_jobs(jobs, words, series, [0; 4]);
                for pass in 0..3 {
                    let mut params = params.clone();
                    params.extend([pass, 0, 0, 0]);
                    let threads = if pass == 1 { series } else { segments };
                    add(&self.kernels.scan, params, [word(threads.div_ceil(GROUP)), word(jobs.len()), 1]);
                }
            }
            Call::StateMachines(jobs) => {
                let cost = jobs.iter().map(|j| j.step_iterations).max().unwrap_or(1).max(1);
                let steps = 1usize << layout.segment_log2;
                let chunk = ((MAX_ITERATIONS / cost) as usize >> layout.segment_log2 << layout.segment_log2)
                    .max(steps);
                let bars = layout.bars.iter().copied().max().unwrap_or(0);
                let params = upload.push_jobs(jobs, words, series, [0; 4]);
                for first in (0..bars).step_by(chunk) {
                    let starting = upload.push(&layout.segments_starting_at(first));
                    let mut params = params.clone();
                    params.extend([word(first), word((first + chunk).min(bars)), starting, 0]);
                    add(
                        &self.kernels.state_machine,
                        params,
                        [word(series.div_ceil(GROUP)), word(jobs.len()), 1],
                    );
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

/// The upload buffer under construction, and the parameters shared by all calls.
struct Upload {
    words: Vec<u32>,
    head: Vec<u32>,
    /// 1: all series have a tick size; 2: none has.
    ticks: u32,
}

impl Upload {
    fn new(layout: &SegmentLayout, scales: &[OffsetScale]) -> Upload {
        let (segments, series) = layout.tables(scales);
        let with = scales.iter().filter(|s| s.tick.is_some()).count();
        let ticks = if with == scales.len() { 1 } else { 2 * u32::from(with == 0) };
        let mut upload = Upload { words: Vec::new(), head: Vec::new(), ticks };
        let (segment_table, series_table) = (upload.push(&segments), upload.push(&series));
        upload.head = vec![
            word(layout.segments().len()),
            layout.segment_log2,
            INTERLEAVE_LOG2,
            word(layout.bars.len()),
        ];
        upload.head.extend([segment_table, series_table, 0, 0]);
        upload
    }

    /// Appends words; returns their offset.
    fn push(&mut self, words: &[u32]) -> u32 {
        let at = self.words.len();
        self.words.extend(words);
        word(at)
    }

    /// Appends a job table; returns the first twelve parameters of its call.
    fn push_jobs(&mut self, jobs: &[JobSpec], words: usize, _series: usize, own: [u32; 4]) -> Vec<u32> {
        let mut table = Vec::with_capacity(jobs.len() * JOB_WORDS);
        for job in jobs {
            let bits: Vec<u32> = job.constants.iter().map(|x| x.to_bits()).collect();
            let constants = self.push(&bits);
            let column = |c: usize| word(c * words);
            let mut line = [0; JOB_WORDS];
            let head = [
                job.mode,
                word(job.start),
                word(job.inputs_start),
                job.window,
                constants,
                word(job.constants.len()),
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
        let at = self.push(&table);
        let mut params = self.head.clone();
        params.truncate(6);
        params.extend([at, word(jobs.len())]);
        params.extend(own);
        params
    }
}

/// Two column indices in a word: an arena of more than 65 536 columns is larger than any buffer.
fn pack_columns(columns: &[u32]) -> u32 {
    columns.iter().rev().fold(0, |word, column| word << 16 | (column & 0xffff))
}

pub(crate) fn word(x: usize) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

/// Two-dimensional workgroup count for so many invocations, and the invocations of a row.
pub(crate) fn dispatch_grid(count: usize, group: usize) -> ([u32; 3], u32) {
    let groups = count.div_ceil(group).max(1);
    let across = groups.min(MAX_GROUPS as usize);
    ([word(across), word(groups.div_ceil(across)), 1], word(across * group))
}
