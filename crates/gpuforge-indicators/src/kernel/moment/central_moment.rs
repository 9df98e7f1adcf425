//! Rolling central moments: variance, and skewness or kurtosis numerators, from running power sums.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{
    super::{Block, Body, Row, row},
    LaneMean, any, distance,
};

/// Windows after which central moments are recomputed.
const RECOMPUTE_WINDOWS: usize = 8;
/// Min ratio of the variance to the mean square distance from the anchor; below it, the fourth power loses digits.
const MIN_VARIANCE_RATIO: f64 = 4e-3;

/// Rolling variance and a higher central moment.
#[derive(Clone)]
pub(crate) struct RollingCentralMoment<const L: usize> {
    n: usize,
    power: u8,
    state: PowerSums<L>,
    /// The bar at which the last NaN leaves the window.
    nan_until: [usize; L],
}

impl<const L: usize> RollingCentralMoment<L> {
    pub(crate) fn new(n: usize, power: u8) -> Self {
        RollingCentralMoment { n, power, state: PowerSums::default(), nan_until: [0; L] }
    }
}

/// Running sums of powers of distances from an anchor.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct PowerSums<const L: usize> {
    anchor: Row<L>,
    sums: [Row<L>; 4],
    /// Max of the mean square around this anchor.
    peak: Row<L>,
}

impl<const L: usize> Default for PowerSums<L> {
    fn default() -> Self {
        PowerSums { anchor: [0.0; L], sums: [[0.0; L]; 4], peak: [0.0; L] }
    }
}

impl<const L: usize> PowerSums<L> {
    /// Recomputes one lane from a window, anchored at its mean.
    fn recompute(&mut self, window: &[Row<L>], lane: usize) {
        let mean = LaneMean::of(window, lane);
        self.anchor[lane] = mean.newest + mean.mean;
        self.peak[lane] = 0.0;
        let [s1, s2, s3, s4] = &mut self.sums;
        let mut sums = [0.0; 4];
        for x in window {
            let d = x[lane] - self.anchor[lane];
            let d2 = d * d;
            sums = [sums[0] + d, sums[1] + d2, sums[2] + d2 * d, sums[3] + d2 * d2];
        }
        [s1[lane], s2[lane], s3[lane], s4[lane]] = sums;
    }

    /// One value enters the window, another leaves; powers above `P` are not needed.
    #[inline(always)]
    fn slide<const P: usize>(&mut self, new: &Row<L>, old: &Row<L>) {
        let (d, o) = (distance(new, &self.anchor), distance(old, &self.anchor));
        let [s1, s2, s3, s4] = self.sums;
        self.sums[0] = row(|l| s1[l] + (d[l] - o[l]));
        let (d2, o2): (Row<L>, Row<L>) = (row(|l| d[l] * d[l]), row(|l| o[l] * o[l]));
        self.sums[1] = row(|l| s2[l] + (d2[l] - o2[l]));
        if P > 2 {
            self.sums[2] = row(|l| s3[l] + (d2[l] * d[l] - o2[l] * o[l]));
        }
        if P > 3 {
            self.sums[3] = row(|l| s4[l] + (d2[l] * d2[l] - o2[l] * o2[l]));
        }
    }

    /// Variance and mean `P`-th power of the distances from the mean.
    #[inline(always)]
    fn central<const P: usize>(&self, share: f64) -> [Row<L>; 2] {
        let [s1, s2, s3, s4] = self.sums;
        let mean: Row<L> = row(|l| s1[l] * share);
        let square: Row<L> = row(|l| s2[l] * share - mean[l] * mean[l]);
        let power = match P {
            3 => row(|l| (s3[l] - 3.0 * mean[l] * s2[l]) * share + 2.0 * mean[l] * (mean[l] * mean[l])),
            4 => row(|l| {
                let m2 = mean[l] * mean[l];
                (s4[l] - 4.0 * mean[l] * s3[l] + 6.0 * m2 * s2[l]) * share - 3.0 * (m2 * m2)
            }),
            _ => square,
        };
        [square, power]
    }

    /// Has the mean of any lane drifted too far from the anchor, or is it NaN?
    #[inline(always)]
    fn has_drifted(&mut self, square: &Row<L>, share: f64) -> bool {
        let (squares, peak, square) = (self.sums[1], self.peak, *square);
        let peak: Row<L> = row(|l| if squares[l] * share > peak[l] { squares[l] * share } else { peak[l] });
        self.peak = peak;
        any::<L>(|l| !is_near(square[l], peak[l]))
    }
}

/// Is the mean close enough to the anchor that no digits are lost? NaN is not.
#[inline(always)]
fn is_near(square: f64, peak: f64) -> bool {
    square >= MIN_VARIANCE_RATIO * peak
}

impl<const L: usize> RollingCentralMoment<L> {
    #[inline(always)]
    fn run<const P: usize>(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t0, start) = (self.n, block.a(), block.t0, block.start);
        let (period, share) = (RECOMPUTE_WINDOWS * n, 1.0 / n as f64);
        let mut state = self.state;
        let mut since = (from - start.min(from)) % period;
        for t in from..block.t1 {
            if since == 0 {
                state = recomputed(state, a.range(t + 1 - n, t + 1), |_| true);
            } else {
                state.slide::<P>(a.at(t), a.at(t - n));
            }
            let mut means = state.central::<P>(share);
            if state.has_drifted(&means[0], share) {
                state = self.recover(state, a.range(t + 1 - n, t + 1), t);
                means = state.central::<P>(share);
            }
            for (out, mean) in block.outputs.iter_mut().zip(&means) {
                if let Some(out) = out.get_mut(t - t0) {
                    *out = *mean;
                }
            }
            since = if since + 1 == period { 0 } else { since + 1 };
        }
        self.state = state;
    }

    /// Recomputes the lanes that have lost digits, or were NaN and no longer are. Each lane decides by itself, so that results
    /// do not depend on its neighbours. A window that still contains a NaN is skipped until it leaves.
    #[cold]
    #[inline(never)]
    fn recover(&mut self, state: PowerSums<L>, window: &[Row<L>], t: usize) -> PowerSums<L> {
        let share = 1.0 / self.n as f64;
        let [square, _] = state.central::<2>(share);
        recomputed(state, window, |l| {
            if is_near(square[l], state.peak[l]) || t < self.nan_until[l] {
                return false;
            }
            if square[l].is_nan()
                && let Some(ago) = window.iter().rev().position(|x| x[l].is_nan())
            {
                self.nan_until[l] = t + self.n - ago;
                return false;
            }
            true
        })
    }
}

/// Recomputes some lanes.
#[cold]
#[inline(never)]
fn recomputed<const L: usize>(
    mut state: PowerSums<L>,
    window: &[Row<L>],
    mut which: impl FnMut(usize) -> bool,
) -> PowerSums<L> {
    for l in 0..L {
        if which(l) {
            state.recompute(window, l);
        }
    }
    state
}

impl<const L: usize> Body<L> for RollingCentralMoment<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match self.power {
            2 => self.run::<2>(block),
            3 => self.run::<3>(block),
            _ => self.run::<4>(block),
        }
    }
}
