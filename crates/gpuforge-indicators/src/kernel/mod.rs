//! Kernels: one per node operation, block by block, for `L` series at once; SIMD dispatch.
//!
//! | file | kernels |
//! |---|---|
//! | `pointwise.rs`, `math/` | element-wise: arithmetic, comparison, if-then-else, shift; exp, log, trigonometry |
//! | `rolling_sum.rs` | rolling sums, linear weights, FIR |
//! | `min_max.rs` | rolling min, max, arg-min, arg-max |
//! | `moment.rs` | rolling variance, co-moments, mean deviation, central moments |
//! | `pair.rs`, `paired_weighted_sum.rs`, `moment/paired_variance.rs` | two bars to a register along time (relaxed) |
//! | `rank.rs` | rolling order statistics and rank |
//! | `recurrence.rs`, `chunked.rs` | EMA, Wilder, linear recurrence, cumulative sum; the same in chunks (relaxed) |
//! | `state_machine.rs`, `value.rs`, `trace.rs` | state machines, and the traces of their steps for the JIT |
//! | `whole_series.rs` | look-ahead columns |
//! | `van_herk.rs`, `window_fold.rs` | rolling aggregation, shared by the above |
//! | `transpose.rs` | interleave, deinterleave, prefetch, non-temporal stores |
//!
//! Rows are `[f64; L]`: the same bar of `L` series (AoSoA). A recurrence over time is then `L` independent ones, and plain loops
//! over a row autovectorise. Every kernel's body is compiled for each SIMD level and dispatched once per block. Nothing is
//! contracted (no FMA) or reordered, so that all levels are bit-identical.

pub(crate) mod chunked;
pub(crate) mod math;
pub(crate) mod min_max;
pub(crate) mod moment;
#[cfg(any(target_arch = "aarch64", test))]
pub(crate) mod pair;
#[cfg(any(target_arch = "aarch64", test))]
pub(crate) mod paired_weighted_sum;
pub(crate) mod pointwise;
pub(crate) mod rank;
pub(crate) mod recurrence;
pub(crate) mod rolling_sum;
pub mod state_machine;
pub mod trace;
pub(crate) mod transpose;
pub mod value;
mod van_herk;
pub mod whole_series;
mod window_fold;

pub use gpuforge_simd::Simd;
#[cfg(target_arch = "x86_64")]
use gpuforge_simd::SimdLevel;

/// The same bar of `L` series.
pub type Row<const L: usize> = [f64; L];

/// A row, lane by lane. Kernels copy rows into locals before they write one: loops vectorise only where a store cannot alias
/// what is still to be read.
#[inline(always)]
pub(crate) fn row<const L: usize>(f: impl Fn(usize) -> f64) -> Row<L> {
    let mut out = [0.0; L];
    for l in 0..L {
        if let Some(x) = out.get_mut(l) {
            *x = f(l);
        }
    }
    out
}

/// Rows of a column from some bar on.
#[derive(Clone, Copy)]
pub struct Rows<'a, const L: usize> {
    rows: &'a [Row<L>],
    first: usize,
}

impl<'a, const L: usize> Rows<'a, L> {
    /// No rows.
    pub(crate) const NONE: Self = Rows { rows: &[], first: 0 };

    /// `rows[0]` is bar `t0 - before`; bars before the first one are never read.
    pub(crate) fn new(rows: &'a [Row<L>], t0: usize, before: usize) -> Self {
        Rows { rows, first: t0.wrapping_sub(before) }
    }

    /// The row of bar `t`.
    #[inline(always)]
    pub fn at(&self, t: usize) -> &'a Row<L> {
        match self.rows.get(t.wrapping_sub(self.first)) {
            Some(row) => row,
            None => &[f64::NAN; L],
        }
    }

    /// The rows of these bars.
    #[inline(always)]
    pub fn range(&self, from: usize, to: usize) -> &'a [Row<L>] {
        let at = |t: usize| t.wrapping_sub(self.first);
        self.rows.get(at(from)..at(to)).unwrap_or(&[])
    }
}

/// One block: bars `t0..t1` of inputs and outputs. Outputs begin at `t0`.
pub struct Block<'a, const L: usize> {
    /// Inputs, in the node's order, with their look-back history.
    pub inputs: &'a [Rows<'a, L>],
    /// Outputs.
    pub outputs: &'a mut [&'a mut [Row<L>]],
    /// First bar of the block.
    pub t0: usize,
    /// One past its last.
    pub t1: usize,
    /// Bars of a whole block, as the plan has them: the last block of a series may have fewer.
    pub nominal: usize,
    /// The node's first valid bar.
    pub start: usize,
    /// SIMD level to run at.
    pub simd: Simd,
}

impl<'a, const L: usize> Block<'a, L> {
    /// NaN fill of the warm-up; returns the first bar to compute.
    #[inline(always)]
    pub fn head(&mut self) -> usize {
        let from = self.start.clamp(self.t0, self.t1);
        for out in self.outputs.iter_mut() {
            if let Some(head) = out.get_mut(..from - self.t0) {
                head.fill([f64::NAN; L]);
            }
        }
        from
    }

    /// The first input.
    #[inline(always)]
    pub fn a(&self) -> Rows<'a, L> {
        self.inputs.first().copied().unwrap_or(Rows { rows: &[], first: 0 })
    }

    /// The second input.
    #[inline(always)]
    pub fn b(&self) -> Rows<'a, L> {
        self.inputs.get(1).copied().unwrap_or(Rows { rows: &[], first: 0 })
    }

    /// The rows of the first output from bar `from` on.
    #[inline(always)]
    pub fn out(&mut self, from: usize) -> &mut [Row<L>] {
        let t0 = self.t0;
        self.outputs.first_mut().and_then(|o| o.get_mut(from - t0..)).unwrap_or(&mut [])
    }
}

/// The body of a kernel; `body` must be `#[inline(always)]`, so that it is compiled for every SIMD level.
pub trait Body<const L: usize>: Clone + Send + 'static {
    /// Computes a block and keeps the state for the next.
    fn body(&mut self, block: &mut Block<'_, L>);

    /// Loop-carried state, where that is rows: fused JIT loops continue from it.
    fn carried(&mut self, _at: usize) -> Option<&mut Row<L>> {
        None
    }
}

/// A kernel as a trait object, with SIMD dispatch.
pub trait Kernel<const L: usize>: Send {
    /// Computes a block at the block's SIMD level.
    fn run(&mut self, block: &mut Block<'_, L>);

    /// Loop-carried state, where that is rows.
    fn state(&mut self, at: usize) -> Option<&mut Row<L>>;

    /// A copy with the same state.
    fn fork(&self) -> Box<dyn Kernel<L>>;
}

impl<const L: usize, K: Body<L>> Kernel<L> for K {
    fn state(&mut self, at: usize) -> Option<&mut Row<L>> {
        self.carried(at)
    }

    fn fork(&self) -> Box<dyn Kernel<L>> {
        Box::new(self.clone())
    }

    fn run(&mut self, block: &mut Block<'_, L>) {
        #[cfg(target_arch = "x86_64")]
        match block.simd.level() {
            #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
            SimdLevel::Avx512 => {
                // SAFETY: a `Simd` of this level was detected on this CPU.
                return unsafe { avx512(self, block) };
            }
            #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
            SimdLevel::Avx2 => {
                // SAFETY: a `Simd` of this level was detected on this CPU.
                return unsafe { avx2(self, block) };
            }
            SimdLevel::Scalar => {}
        }
        self.body(block);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
fn avx512<const L: usize, K: Body<L>>(kernel: &mut K, block: &mut Block<'_, L>) {
    kernel.body(block);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const L: usize, K: Body<L>>(kernel: &mut K, block: &mut Block<'_, L>) {
    kernel.body(block);
}
