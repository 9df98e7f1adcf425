//! Rolling min and max; bars since them (arg-min, arg-max) in `min_max/arg.rs`. Of equal values the latest counts.
//!
//! A NaN is forgotten when it leaves the window. Testing for it in every comparison would double the cost: new bars are scanned
//! once, and the NaN-aware comparisons run only while a window contains one.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

mod arg;
mod doubling;

pub(crate) use arg::RollingArgMinMax;

use super::{
    Block, Body, Row, row,
    van_herk::{SegmentState, WindowMonoid, rolling},
};

/// Single series: windows up to this long are built by doubling, in SIMD along time; for longer ones the van Herk segments
/// need fewer operations.
const MAX_DOUBLING: usize = 256;

/// Batched: windows up to this long are combined directly.
const MAX_DIRECT: usize = 4;

/// Tracks until which bar a window contains a NaN.
#[derive(Clone, Default)]
struct NanTracker {
    until: usize,
}

impl NanTracker {
    /// Scans a block's new bars. May one of its windows contain a NaN?
    #[inline(always)]
    fn scan<const L: usize>(&mut self, block: &Block<'_, L>, n: usize) -> bool {
        let from = block.start.clamp(block.t0, block.t1);
        let first = if from == block.start { from + 1 - n } else { from };
        if from < block.t1 && any_nan(block.a().range(first, block.t1)) {
            self.until = block.t1 + n;
        }
        from < self.until
    }
}

#[inline(always)]
fn any_nan<const L: usize>(rows: &[Row<L>]) -> bool {
    // An unordered comparison tests two values at once.
    let (first, second) = rows.as_flattened().split_at(rows.len() * L / 2);
    let pairs = first.iter().zip(second).fold(false, |seen, (a, b)| seen | a.is_nan() | b.is_nan());
    pairs | second.last().is_some_and(|x| x.is_nan())
}

/// Max (or min) of two, of equals the later; NaN where either may be and is.
#[inline(always)]
fn min_max<const MAX: bool, const NAN: bool>(earlier: f64, later: f64) -> f64 {
    let first = if MAX { earlier > later } else { earlier < later };
    if first | (NAN & earlier.is_nan()) { earlier } else { later }
}

/// Max or min as a [`WindowMonoid`].
struct MinMaxMonoid<const MAX: bool, const NAN: bool>;

impl<const L: usize, const MAX: bool, const NAN: bool> WindowMonoid<L> for MinMaxMonoid<MAX, NAN> {
    type Aggregate = Row<L>;
    const IDENTITY: Row<L> = [if MAX { f64::NEG_INFINITY } else { f64::INFINITY }; L];

    #[inline(always)]
    fn lift(x: &Row<L>, _t: usize) -> Row<L> {
        *x
    }

    #[inline(always)]
    fn combine(earlier: &Row<L>, later: &Row<L>) -> Row<L> {
        let (a, b) = (*earlier, *later);
        row(|l| min_max::<MAX, NAN>(a[l], b[l]))
    }

    #[inline(always)]
    fn result(aggregate: &Row<L>, _t: usize, _n: usize) -> Row<L> {
        *aggregate
    }
}

/// Rolling max or min.
#[derive(Clone)]
pub(crate) struct RollingMinMax<const L: usize> {
    n: usize,
    max: bool,
    nans: NanTracker,
    segments: SegmentState<Row<L>>,
    /// Scratch: windows of intermediate widths.
    scratch: [Vec<f64>; 2],
}

impl<const L: usize> RollingMinMax<L> {
    pub(crate) fn new(n: usize, max: bool) -> Self {
        RollingMinMax {
            n,
            max,
            nans: NanTracker::default(),
            segments: SegmentState::default(),
            scratch: Default::default(),
        }
    }

    #[inline(always)]
    fn run<const MAX: bool, const NAN: bool>(&mut self, block: &mut Block<'_, L>) {
        if self.n > if L > 1 { MAX_DIRECT } else { MAX_DOUBLING } {
            return rolling::<L, MinMaxMonoid<MAX, NAN>>(block, self.n, &mut self.segments);
        }
        let from = block.head();
        if from < block.t1 {
            let all = block.a().range(from + 1 - self.n, block.t1).as_flattened();
            let out = block.out(from).as_flattened_mut();
            grow::<L>(all, out, self.n, &mut self.scratch, (1, 0), min_max::<MAX, NAN>);
        }
    }

    /// Single series: windows up to 16 by doubling in registers, which also detects NaNs. `false`, with nothing done, where there
    /// is one, or without SIMD.
    #[inline(always)]
    fn run_doubling<const MAX: bool>(&mut self, block: &mut Block<'_, L>) -> bool {
        if L > 1 || !(2..=MAX_DOUBLING).contains(&self.n) {
            return false;
        }
        let from = block.head();
        let all = block.a().range(from + 1 - self.n, block.t1).as_flattened();
        let (simd, now) = (block.simd, &mut self.scratch[0]);
        let width = (1 << self.n.ilog2()).min(doubling::MAX_WIDTH);
        now.resize(all.len().max(now.len()), 0.0);
        if from < block.t1 {
            if !doubling::trailing::<MAX>(all, now.get_mut(..all.len()).unwrap_or_default(), width, simd) {
                return false;
            }
            // A window is stored at its last bar.
            let out = block.out(from).as_flattened_mut();
            grow::<L>(all, out, self.n, &mut self.scratch, (width, width - 1), min_max::<MAX, false>);
        }
        true
    }
}

impl<const L: usize> Body<L> for RollingMinMax<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if if self.max { self.run_doubling::<true>(block) } else { self.run_doubling::<false>(block) } {
            return;
        }
        match (self.max, self.nans.scan(block, self.n)) {
            (true, false) => self.run::<true, false>(block),
            (false, false) => self.run::<false, false>(block),
            (true, true) => self.run::<true, true>(block),
            (false, true) => self.run::<false, true>(block),
        }
    }
}

/// Builds windows of `n` from four shorter ones each, those from four still shorter ones, down to the given `width`: the bars
/// themselves, or the first scratch buffer from `skip` on.
#[inline(always)]
fn grow<const L: usize>(
    all: &[f64],
    out: &mut [f64],
    n: usize,
    scratch: &mut [Vec<f64>; 2],
    (mut width, mut skip): (usize, usize),
    combine: impl Fn(f64, f64) -> f64,
) {
    let [now, next] = scratch;
    while 4 * width < n {
        let len = all.len().saturating_sub((4 * width - 1) * L);
        next.resize(len.max(next.len()), 0.0);
        let from = if width == 1 { all } else { now.get(skip..).unwrap_or(&[]) };
        combine4::<L>(from, next.get_mut(..len).unwrap_or_default(), width, 4 * width, &combine);
        std::mem::swap(now, next);
        (width, skip) = (4 * width, 0);
    }
    let from = if width == 1 { all } else { now.get(skip..).unwrap_or(&[]) };
    combine4::<L>(from, out, width, n, &combine);
}

/// Windows of `n` from four of `width`, which may overlap: min and max are idempotent.
#[inline(always)]
fn combine4<const L: usize>(
    from: &[f64],
    to: &mut [f64],
    width: usize,
    n: usize,
    combine: &impl Fn(f64, f64) -> f64,
) {
    let part = |i: usize| from.get((i * width).min(n - width) * L..).and_then(|x| x.get(..to.len()));
    let (Some(a), Some(b), Some(c), Some(d)) = (part(0), part(1), part(2), part(3)) else { return };
    if n <= 2 * width {
        for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
            *to = combine(*a, *b);
        }
        return;
    }
    for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *to = combine(combine(*a, *b), combine(*c, *d));
    }
}
