//! Chunked recurrences (relaxed floating point): one series as several chunks whose loop-carried chains run in parallel.
//!
//! A rolling sum restarts from its window; an EMA starts a warm-up early, until what was before is below the last digits. Where
//! a chunk ends, its state must equal what the next one began with to twelve digits; from the first mismatch on (a NaN that
//! stays, a sum close to zero) the bars are computed again sequentially. Values differ in their last digits from those of the
//! sequential recurrence, so callers opt in (see [`crate::exec::ExecOptions::relaxed_fp`]). Chunks lie on a grid that the plan
//! alone decides, so that a value depends on the bars up to its own and never on how many follow.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "slices are cut to the length that is counted to"
)]

#[cfg(not(target_arch = "aarch64"))]
mod weighted_sum;

#[cfg(not(target_arch = "aarch64"))]
pub(crate) use weighted_sum::ChunkedWeightedSum;

use crate::graph::NodeOp;

use super::{
    Block, Body, Row, Rows,
    recurrence::{CumSum, Ema, Wilder},
    rolling_sum::RollingSumFrom,
};

/// Time constants after which an EMA has converged to the last digits.
const CONVERGENCE_TIME_CONSTANTS: f64 = 33.0;
/// Relative tolerance of states where chunks meet.
const STATE_TOLERANCE: f64 = 1e-12;
/// Chunks of a block: many where they are long enough, else few.
const MANY_CHUNKS: usize = 8;
const FEW_CHUNKS: usize = 4;
/// Bars of a chunk, at least.
const MIN_CHUNK: usize = 64;
/// Bytes of a page, doubles of a cache line.
const PAGE: usize = 4096;
const LINE_LEN: usize = 8;

/// A recurrence of one state that can be chunked.
pub(crate) trait Recurrence: Body<1> {
    /// The next state and the value of a bar; `old` is the value `back` bars before.
    fn step(&self, state: f64, new: f64, old: f64) -> (f64, f64);

    /// How far back the value is that leaves the window.
    fn back(&self) -> usize {
        0
    }

    /// Warm-up of a chunk, in bars.
    fn warmup(&self) -> usize {
        0
    }

    /// The state before bar `t`, from the inputs alone; `before` is the state before the first chunk plus the sum since.
    fn begin(&self, a: Rows<'_, 1>, t: usize, before: f64) -> f64;

    /// Is it cumulative: does a chunk begin with the sum of those before it?
    const CUMULATIVE: bool = false;

    fn state(&mut self) -> &mut f64;
}

/// Warm-up of a chunk of this recurrence, in bars.
pub(crate) fn warmup(prim: &NodeOp) -> usize {
    match prim {
        NodeOp::Ema { k, .. } => ema_warmup(k.get()),
        NodeOp::Wilder { n, .. } => ema_warmup(1.0 / *n as f64),
        _ => 0,
    }
}

fn ema_warmup(k: f64) -> usize {
    if k > 0.0 && k <= 1.0 {
        (CONVERGENCE_TIME_CONSTANTS / k).ceil().min(1e9) as usize
    } else {
        usize::MAX / 4
    }
}

impl Recurrence for Ema<1> {
    #[inline(always)]
    fn step(&self, y: f64, new: f64, _: f64) -> (f64, f64) {
        let y = (new - y) * self.k + y;
        (y, y)
    }

    fn warmup(&self) -> usize {
        ema_warmup(self.k)
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        a.at(t - 1)[0]
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.y[0]
    }
}

impl Recurrence for Wilder<1> {
    #[inline(always)]
    fn step(&self, y: f64, new: f64, _: f64) -> (f64, f64) {
        let y = (new - y) * (1.0 / self.n) + y;
        (y, y)
    }

    fn warmup(&self) -> usize {
        ema_warmup(1.0 / self.n)
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        a.at(t - 1)[0]
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.y[0]
    }
}

impl Recurrence for RollingSumFrom<1> {
    #[inline(always)]
    fn step(&self, sum: f64, new: f64, old: f64) -> (f64, f64) {
        let sum = sum + (new - old);
        (sum, sum)
    }

    fn back(&self) -> usize {
        self.n
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        reassociated_sum(a.range(t - self.n, t))
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.sum[0]
    }
}

impl Recurrence for CumSum<1> {
    const CUMULATIVE: bool = true;

    #[inline(always)]
    fn step(&self, y: f64, new: f64, _: f64) -> (f64, f64) {
        let y = y + new;
        (y, y)
    }

    #[inline(always)]
    fn begin(&self, _: Rows<'_, 1>, _: usize, before: f64) -> f64 {
        before
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.y[0]
    }
}

/// A sum in any order: eight partial sums.
#[inline(always)]
fn reassociated_sum(rows: &[Row<1>]) -> f64 {
    let (eights, rest) = rows.as_flattened().as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for i in 0..8 {
            sums[i] += eight[i];
        }
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// A recurrence that is computed in chunks where blocks are long enough.
#[derive(Clone)]
pub(crate) struct Chunked<C>(pub(crate) C);

impl<C: Recurrence> Body<1> for Chunked<C> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<1>> {
        self.0.carried(at)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, 1>) {
        let warm = block.t0 > block.start;
        let grid = ChunkGrid::new(block.nominal, self.0.warmup()).filter(|_| warm);
        let done = match grid {
            Some(ChunkGrid { chunks: MANY_CHUNKS, each }) => self.run_chunks::<MANY_CHUNKS>(block, each),
            Some(ChunkGrid { each, .. }) => self.run_chunks::<FEW_CHUNKS>(block, each),
            None => 0,
        };
        if done == 0 {
            self.0.body(block);
        } else if done < block.t1 - block.t0 {
            self.run_sequential(block, block.t0 + done);
        }
    }
}

/// Where the chunks of a block begin: by the length that the plan gives its blocks, never by the number of bars that there
/// are. A series that ends inside a chunk cuts it short, and what was computed of it are the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkGrid {
    chunks: usize,
    /// Bars of a chunk.
    each: usize,
}

impl ChunkGrid {
    /// Many chunks where they are longer than their warm-up, else few; `None` where even those are too short.
    fn new(nominal: usize, warmup: usize) -> Option<ChunkGrid> {
        let min = (warmup + 1).max(MIN_CHUNK);
        [MANY_CHUNKS, FEW_CHUNKS].into_iter().find(|chunks| nominal / chunks >= min).map(|chunks| {
            let bars = nominal / chunks;
            // A cache line fewer where chunks would begin whole pages apart: those conflict in the same few sets of L1.
            let conflicts = (bars * size_of::<f64>()).is_multiple_of(PAGE) && bars >= min + LINE_LEN;
            ChunkGrid { chunks, each: if conflicts { bars - LINE_LEN } else { bars } }
        })
    }
}

impl<C: Recurrence> Chunked<C> {
    /// The bars from `from` on, sequentially.
    #[inline(always)]
    fn run_sequential(&mut self, block: &mut Block<'_, 1>, from: usize) {
        let back = self.0.back();
        let (new, old) = (block.a().range(from, block.t1), block.a().range(from - back, block.t1 - back));
        let mut state = *self.0.state();
        for ((out, new), old) in block.out(from).iter_mut().zip(new).zip(old) {
            let (next, y) = self.0.step(state, new[0], old[0]);
            (state, out[0]) = (next, y);
        }
        *self.0.state() = state;
    }

    /// Up to `N` chunks of `each` bars, as far as the block goes; how many bars were done. A block that has fewer chunks, or ends
    /// inside one, runs as many chains in parallel: those without a chunk of their own repeat the last one, which takes no
    /// longer, since the latency of a step decides.
    #[inline(always)]
    fn run_chunks<const N: usize>(&mut self, block: &mut Block<'_, 1>, each: usize) -> usize {
        let (a, t0, back, warmup) = (block.a(), block.t0, self.0.back(), self.0.warmup());
        let bars = (block.t1 - t0).min(N * each);
        let (whole, rest) = (bars / each, bars % each);
        let chunks = whole + usize::from(rest > 0);
        let new = a.range(t0, t0 + bars).as_flattened();
        let old = a.range(t0 - back, t0 + bars - back).as_flattened();
        if chunks < 2 || warmup >= each {
            return 0;
        }
        let first = |p: usize| t0 + p * each;
        let begun = *self.0.state();
        let mut state = [begun; N];
        let mut sum = begun;
        for p in 1..N {
            if C::CUMULATIVE && p < chunks {
                sum += reassociated_sum(a.range(first(p - 1), first(p)));
            }
            state[p] = if p < chunks { self.0.begin(a, first(p) - warmup, sum) } else { state[p - 1] };
        }
        let out = block.out(t0).as_flattened_mut();
        if [new.len(), old.len(), out.len().min(bars)] != [bars; 3] {
            return 0;
        }
        let offsets = |chunks: usize| -> [usize; N] { std::array::from_fn(|p| p.min(chunks - 1) * each) };
        // The first chunk needs no warm-up; what it computes meanwhile is discarded.
        let before = offsets(chunks).map(|offset| offset.saturating_sub(each));
        for i in each - warmup..each {
            for p in 0..N {
                state[p] = self.0.step(state[p], element(new, before[p] + i), 0.0).0;
            }
        }
        state[0] = begun;
        let began = state;
        let mut run = |state: &mut [f64; N], offsets: [usize; N], bars: std::ops::Range<usize>| {
            for i in bars {
                for p in 0..N {
                    let at = offsets[p] + i;
                    let (next, y) = self.0.step(state[p], element(new, at), element(old, at));
                    state[p] = next;
                    put(out, at, y);
                }
            }
        };
        run(&mut state, offsets(chunks), 0..if rest > 0 { rest } else { each });
        if rest > 0 {
            // The last chunk has ended; its chain repeats the one before.
            let ended = state[whole];
            (whole..N).for_each(|p| state[p] = state[whole - 1]);
            run(&mut state, offsets(whole), rest..each);
            state[whole] = ended;
        }
        // Chunks up to the first whose initial state differs from the final state of the one before.
        let good = (1..chunks).find(|p| !near(state[p - 1], began[*p])).unwrap_or(chunks);
        *self.0.state() = state[good - 1];
        (good * each).min(bars)
    }
}

/// An element, unchecked.
#[inline(always)]
fn element(numbers: &[f64], i: usize) -> f64 {
    #[allow(unsafe_code, reason = "three bounds checks a bar take as long as all the rest")]
    // SAFETY: both callers check that the slices are as long as they count to.
    unsafe {
        *numbers.get_unchecked(i)
    }
}

/// Writes an element, unchecked.
#[inline(always)]
fn put(numbers: &mut [f64], i: usize, x: f64) {
    #[allow(unsafe_code, reason = "three bounds checks a bar take as long as all the rest")]
    // SAFETY: both callers check that the slices are as long as they count to.
    unsafe {
        *numbers.get_unchecked_mut(i) = x;
    }
}

#[inline(always)]
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= STATE_TOLERANCE * a.abs().max(b.abs())
}
