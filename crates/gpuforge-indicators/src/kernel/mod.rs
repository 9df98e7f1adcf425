//! How is a node computed? A kernel per node that takes one block of bars after the other, for `L` series at once.
//!
//! Rows are `[f64; L]`: the same bar of `L` series side by side. A recursion over time is then `L` independent ones, and
//! plain loops over a row become vector instructions. Every kernel's body is compiled for several instruction sets; which
//! one runs is found out once. Nothing is fused or reordered, so that all of them give the same bits.

pub(crate) mod chunked;
pub(crate) mod math;
pub(crate) mod min_max;
pub(crate) mod moment;
pub(crate) mod pointwise;
pub(crate) mod rank;
pub(crate) mod recurrence;
pub(crate) mod rolling_sum;
pub mod state_machine;
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

/// A row, lane by lane. Kernels read rows into values before they write one: the compiler makes vector instructions of it
/// only where a store cannot change what is still to be read.
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

/// A column's rows from some bar on.
#[derive(Clone, Copy)]
pub struct Rows<'a, const L: usize> {
    rows: &'a [Row<L>],
    first: usize,
}

impl<'a, const L: usize> Rows<'a, L> {
    /// No rows.
    pub(crate) const NONE: Self = Rows { rows: &[], first: 0 };

    /// `rows[0]` is bar `t0 - before`; bars before the first of all are never asked for.
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
    /// Inputs, in the node's order; with as much history as it asked for.
    pub inputs: &'a [Rows<'a, L>],
    /// Outputs.
    pub outputs: &'a mut [&'a mut [Row<L>]],
    /// First bar of the block.
    pub t0: usize,
    /// One past its last.
    pub t1: usize,
    /// The node's first valid bar.
    pub start: usize,
    /// What the body is compiled for.
    pub simd: Simd,
}

impl<'a, const L: usize> Block<'a, L> {
    /// Writes NaN before the first valid bar and returns the first bar to compute.
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

/// What a kernel computes; `body` must be `#[inline(always)]`, so that it is compiled for every instruction set.
pub trait Body<const L: usize>: Clone + Send + 'static {
    /// Computes a block and remembers what the next one needs.
    fn body(&mut self, block: &mut Block<'_, L>);

    /// What the next bar needs, where that is some rows: compiled loops go on with them.
    fn carried(&mut self, _at: usize) -> Option<&mut Row<L>> {
        None
    }
}

/// A kernel behind a pointer.
pub trait Kernel<const L: usize>: Send {
    /// Computes a block with an instruction set that the machine has.
    fn run(&mut self, block: &mut Block<'_, L>);

    /// What the next bar needs, where that is some rows.
    fn state(&mut self, at: usize) -> Option<&mut Row<L>>;

    /// Another one that remembers the same.
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
            #[allow(
                unsafe_code,
                reason = "the compiler may use an instruction set only where we promise that it is there"
            )]
            SimdLevel::Avx512 => {
                // SAFETY: a `Simd` of this level was detected on this CPU.
                return unsafe { avx512(self, block) };
            }
            #[allow(unsafe_code, reason = "as above")]
            SimdLevel::Avx2 => {
                // SAFETY: as above.
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
