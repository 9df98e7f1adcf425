//! Rolling mean absolute deviation: the window mean by van Herk segments, then a fold over the window.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::super::{
    Block, Body, Row, row,
    van_herk::{SegmentState, WindowMonoid, rolling},
    window_fold,
};

/// Rolling mean absolute deviation from the mean.
#[derive(Clone)]
pub(crate) struct RollingMeanDeviation<const L: usize> {
    n: usize,
    segments: SegmentState<Row<L>>,
}

impl<const L: usize> RollingMeanDeviation<L> {
    pub(crate) fn new(n: usize) -> Self {
        RollingMeanDeviation { n, segments: SegmentState::default() }
    }
}

/// Window means from segment sums: no rounding error outlives its window.
struct Mean;

impl<const L: usize> WindowMonoid<L> for Mean {
    type Aggregate = Row<L>;
    const IDENTITY: Row<L> = [0.0; L];

    #[inline(always)]
    fn lift(x: &Row<L>, _t: usize) -> Row<L> {
        *x
    }

    #[inline(always)]
    fn combine(earlier: &Row<L>, later: &Row<L>) -> Row<L> {
        let (a, b) = (*earlier, *later);
        row(|l| a[l] + b[l])
    }

    #[inline(always)]
    fn result(aggregate: &Row<L>, _t: usize, n: usize) -> Row<L> {
        let sum = *aggregate;
        let share = 1.0 / n as f64;
        row(|l| sum[l] * share)
    }
}

impl<const L: usize> Body<L> for RollingMeanDeviation<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let (n, t1) = (self.n, block.t1);
        rolling::<L, Mean>(block, n, &mut self.segments);
        let from = block.start.clamp(block.t0, t1);
        if from < t1 {
            let all = block.a().range(from + 1 - n, t1);
            let step = |sum: f64, _, x: f64, mean: f64| sum + (x - mean).abs();
            let share = 1.0 / n as f64;
            window_fold::fold(all, block.out(from), n, step, |sum| sum * share);
        }
    }
}
