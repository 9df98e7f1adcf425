//! Rolling arg-min and arg-max: bars since the latest min or max of the window.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{MAX_DOUBLING, NanTracker};
use crate::kernel::{
    Block, Body, Row, row,
    van_herk::{SegmentState, WindowMonoid, rolling},
};

/// A max or min and its bar, lane by lane; a negative bar is none.
#[derive(Clone, Copy)]
pub(crate) struct ValueAt<const L: usize> {
    value: Row<L>,
    bar: Row<L>,
}

/// Does the later of two win? Of equals it does; NaN never does.
#[inline(always)]
fn later_wins<const MAX: bool, const NAN: bool>(earlier: f64, later: f64, bar: f64) -> bool {
    let better = if MAX { later >= earlier } else { later <= earlier };
    better & (!NAN | (bar >= 0.0))
}

/// Bars since; the oldest bar where all are NaN.
#[inline(always)]
fn bars_since<const NAN: bool>(bar: f64, t: f64, n: usize) -> f64 {
    if NAN & (bar < 0.0) { (n - 1) as f64 } else { t - bar }
}

/// Arg-max or arg-min as a [`WindowMonoid`].
struct ArgMonoid<const MAX: bool, const NAN: bool>;

impl<const L: usize, const MAX: bool, const NAN: bool> WindowMonoid<L> for ArgMonoid<MAX, NAN> {
    type Aggregate = ValueAt<L>;
    const IDENTITY: ValueAt<L> =
        ValueAt { value: [if MAX { f64::NEG_INFINITY } else { f64::INFINITY }; L], bar: [-1.0; L] };

    #[inline(always)]
    fn lift(x: &Row<L>, t: usize) -> ValueAt<L> {
        let (x, identity) = (*x, <Self as WindowMonoid<L>>::IDENTITY);
        let valid = |l: usize| !(NAN & x[l].is_nan());
        ValueAt {
            value: row(|l| if valid(l) { x[l] } else { identity.value[l] }),
            bar: row(|l| if valid(l) { t as f64 } else { identity.bar[l] }),
        }
    }

    #[inline(always)]
    fn combine(earlier: &ValueAt<L>, later: &ValueAt<L>) -> ValueAt<L> {
        let (a, b) = (*earlier, *later);
        let take = |l: usize| later_wins::<MAX, NAN>(a.value[l], b.value[l], b.bar[l]);
        ValueAt {
            value: row(|l| if take(l) { b.value[l] } else { a.value[l] }),
            bar: row(|l| if take(l) { b.bar[l] } else { a.bar[l] }),
        }
    }

    #[inline(always)]
    fn result(aggregate: &ValueAt<L>, t: usize, n: usize) -> Row<L> {
        let bar = aggregate.bar;
        row(|l| bars_since::<NAN>(bar[l], t as f64, n))
    }
}

/// Bars since the rolling max or min.
#[derive(Clone)]
pub(crate) struct RollingArgMinMax<const L: usize> {
    n: usize,
    max: bool,
    nans: NanTracker,
    segments: SegmentState<ValueAt<L>>,
    /// Scratch: values and bars of windows of intermediate widths.
    values: [Vec<f64>; 2],
    bars: [Vec<f64>; 2],
}

impl<const L: usize> RollingArgMinMax<L> {
    pub(crate) fn new(n: usize, max: bool) -> Self {
        let (nans, segments) = (NanTracker::default(), SegmentState::default());
        RollingArgMinMax { n, max, nans, segments, values: Default::default(), bars: Default::default() }
    }

    #[inline(always)]
    fn run<const MAX: bool, const NAN: bool>(&mut self, block: &mut Block<'_, L>) {
        if L > 1 || self.n > MAX_DOUBLING {
            return rolling::<L, ArgMonoid<MAX, NAN>>(block, self.n, &mut self.segments);
        }
        let (from, n) = (block.head(), self.n);
        if from < block.t1 {
            let first = from + 1 - n;
            let all = block.a().range(first, block.t1).as_flattened();
            self.double::<MAX, NAN>(all, first);
            let found = self.bars.first().map_or(&[] as &[f64], Vec::as_slice);
            for ((out, bar), t) in block.out(from).as_flattened_mut().iter_mut().zip(found).zip(from..) {
                *out = bars_since::<NAN>(*bar, t as f64, n);
            }
        }
    }

    /// Builds windows of `n` by doubling.
    #[inline(always)]
    fn double<const MAX: bool, const NAN: bool>(&mut self, all: &[f64], first: usize) {
        let none = if MAX { f64::NEG_INFINITY } else { f64::INFINITY };
        let ([values, next_values], [bars, next_bars]) = (&mut self.values, &mut self.bars);
        for scratch in [&mut *values, next_values, bars, next_bars] {
            // Padding to whole vectors of eight: results beyond the last bar are never read.
            scratch.resize((all.len() + 8).max(scratch.len()), 0.0);
        }
        for (((value, bar), x), t) in values.iter_mut().zip(bars.iter_mut()).zip(all).zip(first..) {
            let valid = !(NAN & x.is_nan());
            (*value, *bar) = if valid { (*x, t as f64) } else { (none, -1.0) };
        }
        let mut width = 1;
        while width < self.n {
            let longer = (2 * width).min(self.n);
            let by = longer - width;
            combine_shifted::<MAX, NAN>((values, bars), by, (next_values, next_bars));
            std::mem::swap(values, next_values);
            std::mem::swap(bars, next_bars);
            width = longer;
        }
    }
}

/// Combines each window with the one that begins `by` bars later. Eight at a time, by value: a select between two addresses
/// would not vectorise.
#[inline(always)]
fn combine_shifted<const MAX: bool, const NAN: bool>(
    from: (&[f64], &[f64]),
    by: usize,
    to: (&mut [f64], &mut [f64]),
) {
    let later = |x| -> &[[f64; 8]] { <[f64]>::get(x, by..).unwrap_or(&[]).as_chunks::<8>().0 };
    let earlier = from.0.as_chunks::<8>().0.iter().zip(from.1.as_chunks::<8>().0);
    let later = later(from.0).iter().zip(later(from.1));
    let to = to.0.as_chunks_mut::<8>().0.iter_mut().zip(to.1.as_chunks_mut::<8>().0);
    for ((to, a), b) in to.zip(earlier).zip(later) {
        let a = ValueAt { value: *a.0, bar: *a.1 };
        let best = <ArgMonoid<MAX, NAN> as WindowMonoid<8>>::combine(&a, &ValueAt { value: *b.0, bar: *b.1 });
        (*to.0, *to.1) = (best.value, best.bar);
    }
}

impl<const L: usize> Body<L> for RollingArgMinMax<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match (self.max, self.nans.scan(block, self.n)) {
            (true, false) => self.run::<true, false>(block),
            (false, false) => self.run::<false, false>(block),
            (true, true) => self.run::<true, true>(block),
            (false, true) => self.run::<false, true>(block),
        }
    }
}
