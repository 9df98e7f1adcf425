//! Rolling sums: plain, partial windows, linear weights, FIR filters.
//!
//! Running sums add the newest value and subtract the oldest, in TA-Lib's order; a NaN stays in them.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Row, row, window_fold};

/// Sum of the last `n`: add the newest, then subtract the oldest.
#[derive(Clone)]
pub(crate) struct RollingSum<const L: usize> {
    pub(crate) n: usize,
    /// Sum of the last `n - 1`.
    pub(crate) rest: Row<L>,
}

impl<const L: usize> Body<L> for RollingSum<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.rest)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let n = self.n;
        if from == block.start && from < block.t1 {
            self.rest = [0.0; L];
            for t in from + 1 - n..from {
                let x = block.a().at(t);
                for l in 0..L {
                    self.rest[l] += x[l];
                }
            }
        }
        let new = block.a().range(from, block.t1);
        let old = block.a().range(from + 1 - n, block.t1 + 1 - n);
        let mut rest = self.rest;
        for ((out, new), old) in block.out(from).iter_mut().zip(new).zip(old) {
            let (new, old) = (*new, *old);
            let sum: Row<L> = row(|l| rest[l] + new[l]);
            rest = row(|l| sum[l] - old[l]);
            *out = sum;
        }
        self.rest = rest;
    }
}

/// Sum of the last `n`, or of as many as there are yet.
#[derive(Clone)]
pub(crate) struct PartialRollingSum<const L: usize> {
    pub(crate) n: usize,
    /// Sum of the values that are still in the next bar's window.
    pub(crate) rest: Row<L>,
}

impl<const L: usize> Body<L> for PartialRollingSum<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.rest)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1, start) = (self.n, block.a(), block.t1, block.start);
        if from == start && from < t1 {
            self.rest = [0.0; L];
        }
        let mut rest = self.rest;
        for (t, out) in (from..t1).zip(block.out(from)) {
            let (new, full) = (*a.at(t), t + 1 >= start + n);
            let old = if full { *a.at(t + 1 - n) } else { [0.0; L] };
            let sum: Row<L> = row(|l| rest[l] + new[l]);
            rest = row(|l| sum[l] - old[l]);
            *out = sum;
        }
        self.rest = rest;
    }
}

/// Sum of the last `n`, updated by (newest - oldest).
#[derive(Clone)]
pub(crate) struct RollingSumFrom<const L: usize> {
    pub(crate) n: usize,
    pub(crate) sum: Row<L>,
}

impl<const L: usize> Body<L> for RollingSumFrom<L> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<L>> {
        (at == 0).then_some(&mut self.sum)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let mut from = block.head();
        let (n, mut sum) = (self.n, self.sum);
        if from == block.start && from < block.t1 {
            sum = [0.0; L];
            for x in block.a().range(from + 1 - n, from + 1) {
                for l in 0..L {
                    sum[l] += x[l];
                }
            }
            if let Some(out) = block.out(from).first_mut() {
                *out = sum;
            }
            from += 1;
        }
        let new = block.a().range(from, block.t1);
        let old = block.a().range(from.wrapping_sub(n), block.t1.wrapping_sub(n));
        for ((out, new), old) in block.out(from).iter_mut().zip(new).zip(old) {
            for l in 0..L {
                sum[l] += new[l] - old[l];
            }
            *out = sum;
        }
        self.sum = sum;
    }
}

/// Windows after which a linearly weighted sum is recomputed.
pub(super) const RECOMPUTE_WINDOWS: usize = 8;

/// Sum of the last `n` with linear weights 1..=n, divided by a constant where there is one.
#[derive(Clone)]
pub(crate) struct LinearWeightedSum<const L: usize> {
    pub(crate) n: usize,
    pub(crate) divisor: Option<f64>,
    pub(crate) plain: Row<L>,
    pub(crate) weighted: Row<L>,
    pub(crate) leaving: Row<L>,
}

impl<const L: usize> LinearWeightedSum<L> {
    /// Bars after which it is recomputed from its window, counted from its first. The rounding error of the plain sum
    /// accumulates in the weighted one: without it the error grows faster than linearly.
    #[inline(always)]
    pub(super) fn recompute_period(&self) -> usize {
        RECOMPUTE_WINDOWS * self.n
    }

    /// Recomputes the sums from the window.
    #[inline(always)]
    pub(super) fn begin(&mut self, window: &[Row<L>]) {
        (self.plain, self.weighted, self.leaving) = ([0.0; L], [0.0; L], [0.0; L]);
        for (weight, x) in window.iter().enumerate() {
            for l in 0..L {
                self.plain[l] += x[l];
                self.weighted[l] += x[l] * (weight + 1) as f64;
            }
        }
    }

    /// One bar; `old` leaves the window with the next.
    #[cfg(not(target_arch = "aarch64"))]
    #[inline(always)]
    pub(super) fn step(&mut self, new: Row<L>, old: Row<L>) -> Row<L> {
        let (plain, weighted, leaving) = (self.plain, self.weighted, self.leaving);
        let plain: Row<L> = row(|l| plain[l] + new[l] - leaving[l]);
        let sum: Row<L> = row(|l| weighted[l] + new[l] * self.n as f64);
        (self.plain, self.weighted, self.leaving) = (plain, row(|l| sum[l] - plain[l]), old);
        sum
    }

    /// Bars up to `t1`, recomputed at every period.
    #[inline(always)]
    pub(super) fn run(&mut self, block: &mut Block<'_, L>, from: usize, t1: usize) {
        match self.divisor {
            Some(divisor) => self.run_finished(block, from, t1, |sum| sum / divisor),
            None => self.run_finished(block, from, t1, |sum| sum),
        }
    }

    #[inline(always)]
    fn run_finished(
        &mut self,
        block: &mut Block<'_, L>,
        mut from: usize,
        t1: usize,
        finish: impl Fn(f64) -> f64,
    ) {
        let (n, a, start, period) = (self.n, block.a(), block.start, self.recompute_period());
        while from < t1 {
            let since = (from - start) % period;
            if since == 0 {
                self.begin(a.range(from + 1 - n, from));
            }
            let to = (from + period - since).min(t1);
            let (new, old) = (a.range(from, to), a.range(from + 1 - n, to + 1 - n));
            let (mut plain, mut weighted, mut leaving) = (self.plain, self.weighted, self.leaving);
            for ((out, new), old) in block.out(from).iter_mut().zip(new).zip(old) {
                let (new, old) = (*new, *old);
                plain = row(|l| plain[l] + new[l] - leaving[l]);
                let sum: Row<L> = row(|l| weighted[l] + new[l] * n as f64);
                leaving = old;
                weighted = row(|l| sum[l] - plain[l]);
                *out = row(|l| finish(sum[l]));
            }
            (self.plain, self.weighted, self.leaving) = (plain, weighted, leaving);
            from = to;
        }
    }
}

impl<const L: usize> Body<L> for LinearWeightedSum<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let (from, t1) = (block.head(), block.t1);
        self.run(block, from, t1);
    }
}

/// FIR filter: rolling dot product with fixed weights, the oldest first.
#[derive(Clone)]
pub(crate) struct Fir {
    pub(crate) weights: Vec<f64>,
}

impl<const L: usize> Body<L> for Fir {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1) = (self.weights.len(), block.a(), block.t1);
        if from >= t1 {
            return;
        }
        let weights = self.weights.as_slice();
        let weight = |j: usize| weights.get(j).copied().unwrap_or(0.0);
        let windows = a.range(from + 1 - n, t1);
        window_fold::fold(windows, block.out(from), n, |sum: f64, j, x, _| sum + weight(j) * x, |sum| sum);
    }
}
