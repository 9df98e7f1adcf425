//! Tile: the kernels, buffers and JIT code that compute `L` series at once, block by block.

use std::sync::Arc;

use crate::{
    exec::{
        ExecOptions,
        buffers::{BlockBuffers, Buffer, HISTORY_BYTES, Location, MAX_BLOCKS, Poison},
    },
    jit::{JitArgs, JitProgram, Segment},
    kernel::{
        Kernel, Row, Simd, chunked,
        transpose::{CACHE_LINE, StoreMode},
    },
    plan::{BufferSlot, ExecPlan, Step},
};

/// Bytes of one column of a block, single series and batched: some columns fit L1, the setup of a step is negligible, and
/// memory prefers long runs. Measured with `cargo xtask bench indicators` on x86-64, whose L1 is 32 or 48 KiB; AArch64 cores
/// have 64 KiB and more.
const BLOCK_BYTES: [usize; 2] = [if cfg!(target_arch = "aarch64") { 8 << 10 } else { 4 << 10 }, 16 << 10];
/// A block is this many times as long where the plan is one loop and needs no buffers.
const SINGLE_LOOP_BLOCKS: usize = 4;
/// Relaxed floating point: bars of a block at least and at most, and bytes that its buffers may take. Chunks should be long,
/// and values between steps should stay in L2.
const RELAXED_BLOCK_BARS: (usize, usize) = (2048, 16384);
const RELAXED_BLOCK_BYTES: usize = 768 << 10;
/// A relaxed block is this many times as long as the warm-up of its chunks.
const RELAXED_BLOCK_WARMUPS: usize = 24;

/// Kernels and buffers of `L` series.
pub(super) struct Tile<const L: usize> {
    pub(super) kernels: Vec<Box<dyn Kernel<L>>>,
    make_kernel: fn(&Step) -> Box<dyn Kernel<L>>,
    pub(super) buffers: BlockBuffers<L>,
    /// Bars of a block.
    pub(super) block: usize,
    /// Bars of a series in place, at most.
    max_bars: usize,
    /// Bars of the first block.
    first_block: usize,
    pub(super) relaxed_fp: bool,
    pub(super) simd: Simd,
    pub(super) bars_done: usize,
    /// Bars of the block before: fewer than `block` in a stream.
    pub(super) last_block: usize,
    pub(super) jit: Option<Arc<JitProgram>>,
    pub(super) args: JitArgs,
    pub(super) store_mode: StoreMode,
    poison: Option<Poison>,
}

impl<const L: usize> Tile<L> {
    /// Where `bars` are given (the longest series, at most), they are read from and results written to the caller's columns in
    /// place, without buffers of their own, and buffers have no more rows than that.
    pub(super) fn new(
        plan: &ExecPlan,
        make_kernel: fn(&Step) -> Box<dyn Kernel<L>>,
        options: ExecOptions,
        bars: Option<usize>,
    ) -> Self {
        let in_place = bars.is_some();
        let [single, batched] = BLOCK_BYTES;
        let bytes = if L == 1 { single } else { batched };
        let relaxed_fp = options.relaxed_fp && L == 1;
        let jit = jit_program(plan, L, ExecOptions { relaxed_fp, ..options });
        // One loop, or one step: there are no values between steps.
        let single_loop = plan.steps.len() == 1 || jit.as_ref().is_some_and(|p| p.is_single_loop());
        let times = if L == 1 && in_place && single_loop { SINGLE_LOOP_BLOCKS } else { 1 };
        // Recurrences that kernels compute in chunks.
        let chunked = relaxed_fp && any_kernel(plan, jit.as_deref(), Step::is_chunkable);
        let usual = if chunked { relaxed_block(plan) } else { times * bytes / size_of::<Row<L>>() };
        let line = CACHE_LINE / size_of::<Row<L>>();
        let block = match options.block.unwrap_or(usual).max(1) {
            // Prefix scans go by cache lines of bars.
            bars if relaxed_fp => bars.checked_next_multiple_of(line).unwrap_or(bars),
            bars => bars,
        };
        let mut history = vec![0; plan.buffers];
        for slot in plan.slots() {
            if let Some(h) = history.get_mut(slot.buffer) {
                *h = slot.history.max(*h);
            }
        }
        let locations = match in_place {
            true => in_place_locations(plan, jit.as_deref(), options),
            false => vec![Location::Buffer; plan.buffers],
        };
        // Blocks are aligned to cache lines.
        history.iter_mut().for_each(|h| *h = h.next_multiple_of(line));
        let with_history = history.iter().zip(&locations);
        let with_history = with_history.filter(|(h, at)| **h > 0 && **at == Location::Buffer).count();
        let max_blocks = if chunked { 1 } else { MAX_BLOCKS };
        let blocks =
            (HISTORY_BYTES / (with_history.max(1) * block * size_of::<Row<L>>())).clamp(1, max_blocks);
        let max_bars = bars.unwrap_or(usize::MAX);
        let capacity = blocks.saturating_mul(block).min(max_bars);
        let allocate = if in_place { Buffer::recycled } else { Buffer::new };
        let buffer = |(h, at): (&usize, &Location)| match at {
            Location::Buffer if *h > 0 => allocate(h + capacity),
            Location::Buffer => allocate(block.min(max_bars)),
            _ => Buffer::default(),
        };
        let all: Vec<Buffer<L>> = history.iter().zip(&locations).map(buffer).collect();
        let kernels = plan.steps.iter().map(make_kernel).collect();
        let mut buffers = BlockBuffers { buffers: all, locations, history, shift: 0, capacity, done: 0 };
        let poison = options.poison_buffers.then(|| Poison::new(plan, &mut buffers));
        // The first block of a single series ends as soon as every step is warmed up: only then do fused loops hold.
        let warm = plan.steps.iter().map(|s| s.start + 1).chain(jit.iter().map(|p| p.steady_from())).max();
        let first_block = match L == 1 && (relaxed_fp || jit.is_some()) {
            // One line more: the first block may be shortened, so that the next begins at a cache line.
            true => (warm.unwrap_or(0) + line).next_multiple_of(line).min(block),
            false => block,
        };
        for (x, slot) in &plan.constants {
            // Fused loops embed their constants: only the first block, which is the kernels', reads the buffer.
            let before = buffers.history.get(slot.buffer).copied().unwrap_or(0);
            let embedded = in_place && before == 0 && !read_by_kernel(plan, jit.as_deref(), slot.buffer);
            buffers.fill_constant(*x, *slot, if embedded { first_block } else { before + capacity });
        }
        let store_mode = match options.nontemporal_stores {
            Some(true) => StoreMode::NonTemporal,
            _ => StoreMode::Cached,
        };
        Tile {
            kernels,
            make_kernel,
            buffers,
            block,
            max_bars,
            first_block,
            relaxed_fp,
            simd: options.simd,
            bars_done: 0,
            last_block: 0,
            jit,
            args: if in_place { JitArgs::recycled() } else { JitArgs::default() },
            store_mode,
            poison,
        }
    }

    /// A copy with the same state.
    pub(super) fn fork(&self) -> Self {
        Tile {
            kernels: self.kernels.iter().map(|kernel| kernel.fork()).collect(),
            make_kernel: self.make_kernel,
            buffers: self.buffers.clone(),
            jit: self.jit.clone(),
            args: JitArgs::default(),
            poison: self.poison.clone(),
            ..*self
        }
    }

    /// Returns its buffers and its argument block to the free lists.
    pub(super) fn recycle(self) {
        self.args.recycle();
        self.buffers.buffers.into_iter().for_each(Buffer::recycle);
    }

    /// A new series begins.
    pub(super) fn begin(&mut self, plan: &ExecPlan) {
        if std::mem::take(&mut self.bars_done) > 0 {
            self.kernels = plan.steps.iter().map(self.make_kernel).collect();
        }
    }

    /// The next block begins: the end of the last one is its history.
    pub(super) fn next_block(&mut self, t0: usize) {
        let shift = if t0 == 0 { 0 } else { self.buffers.shift + self.last_block };
        let rows = self.block.min(self.max_bars.saturating_sub(t0));
        if shift + rows <= self.buffers.capacity {
            self.buffers.shift = shift;
        } else {
            self.buffers.shift = 0;
            for (buffer, history) in self.buffers.buffers.iter_mut().zip(&self.buffers.history) {
                let rows = buffer.rows_mut();
                if *history > 0 && shift + history <= rows.len() {
                    rows.copy_within(shift..shift + history, 0);
                }
            }
        }
        if let Some(poison) = &self.poison {
            poison.block(&mut self.buffers);
        }
    }

    /// Where the block that begins at `t0` ends. The first one is shortened by `misaligned` bars, so that the others begin at
    /// cache lines of the results.
    pub(super) fn block_end(&self, t0: usize, misaligned: usize) -> usize {
        if t0 == 0 { self.first_block.saturating_sub(misaligned).max(1) } else { t0 + self.block }
    }

    /// Writes new rows after the history.
    pub(super) fn fill(&mut self, slot: BufferSlot, write: impl FnOnce(&mut [Row<L>])) {
        let from = self.buffers.begin(slot);
        let buffer = self.buffers.buffers.get_mut(slot.buffer);
        if let Some(rows) = buffer.and_then(|b| b.rows_mut().get_mut(from..)) {
            write(rows);
        }
    }
}

/// The JIT code of a plan, if it may be used and did not fail its self-check.
pub(super) fn jit_program(plan: &ExecPlan, lanes: usize, options: ExecOptions) -> Option<Arc<JitProgram>> {
    let enabled = options.jit && options.simd != Simd::SCALAR;
    let program = if enabled { plan.jit_program(lanes, options.relaxed_fp) } else { None };
    program.filter(|program| !program.self_check.is_faulty())
}

/// Bars of a block whose recurrences are chunked: each chunk should be much longer than its warm-up. By the plan alone: chunks
/// of a short series begin where those of a longer one do.
fn relaxed_block(plan: &ExecPlan) -> usize {
    let (min, max) = RELAXED_BLOCK_BARS;
    let warmup = plan.steps.iter().map(|step| chunked::warmup(&step.op)).max().unwrap_or(0);
    let budget = RELAXED_BLOCK_BYTES / size_of::<f64>() / plan.buffers.max(1);
    warmup.saturating_mul(RELAXED_BLOCK_WARMUPS).min(budget).clamp(min, max)
}

/// Where the rows of each buffer are, for a single series in place.
fn in_place_locations(plan: &ExecPlan, jit: Option<&JitProgram>, options: ExecOptions) -> Vec<Location> {
    let mut locations = vec![Location::Buffer; plan.buffers];
    let fields = plan.fields.iter().enumerate().map(|(i, (_, p))| (p.buffer, Location::Field(i)));
    // Kernels have no non-temporal stores: where those are wanted, their results are copied from a buffer.
    let copied = |p: &BufferSlot| {
        options.nontemporal_stores == Some(true)
            && options.simd != Simd::SCALAR
            && written_by_kernel(plan, jit, p.buffer)
    };
    let columns = plan.outputs.iter().enumerate().filter(|(_, p)| !copied(p));
    let columns = columns.map(|(i, p)| (p.buffer, Location::Column(i)));
    // A column that is also an input stays one; the first of several equal columns is written, the others copied.
    for (buffer, location) in columns.rev().chain(fields) {
        if let Some(slot) = locations.get_mut(buffer).filter(|_| !plan.is_constant_or_whole_series(buffer)) {
            *slot = location;
        }
    }
    locations
}

/// Does a step that runs as a kernel satisfy this?
fn any_kernel(plan: &ExecPlan, jit: Option<&JitProgram>, is: impl Fn(&Step) -> bool) -> bool {
    let all = [Segment::Kernels(0..plan.steps.len())];
    let segments = jit.map_or(&all as &[Segment], |p| &p.segments);
    segments.iter().any(|segment| match segment {
        Segment::Kernels(range) => plan.steps.get(range.clone()).is_some_and(|steps| steps.iter().any(&is)),
        Segment::Fused { .. } => false,
    })
}

/// Is a buffer written by a step that runs as a kernel?
fn written_by_kernel(plan: &ExecPlan, jit: Option<&JitProgram>, buffer: usize) -> bool {
    any_kernel(plan, jit, |step| step.outputs.iter().any(|slot| slot.buffer == buffer))
}

/// Is a buffer an output, or read by a step that runs as a kernel?
fn read_by_kernel(plan: &ExecPlan, jit: Option<&JitProgram>, buffer: usize) -> bool {
    any_kernel(plan, jit, |step| step.inputs.iter().any(|slot| slot.buffer == buffer))
        || plan.outputs.iter().any(|slot| slot.buffer == buffer)
}
