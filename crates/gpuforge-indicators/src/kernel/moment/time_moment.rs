//! Rolling time moment: co-moment of the bar index and a value, the numerator of a least-squares slope.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{
    super::{Block, Body, Row, Rows, row},
    LaneMean, RECOMPUTE_PERIOD, any, distance, repair,
};

/// Rolling co-moment of the bar index and a value.
#[derive(Clone)]
pub(crate) struct RollingTimeMoment<const L: usize> {
    n: usize,
    state: WeightedSums<L>,
}

impl<const L: usize> RollingTimeMoment<L> {
    pub(crate) fn new(n: usize) -> Self {
        RollingTimeMoment { n, state: WeightedSums::default() }
    }
}

/// Running sums of distances from an anchor, plain and with weights 0, 1, ... from the oldest on.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct WeightedSums<const L: usize> {
    anchor: Row<L>,
    plain: Row<L>,
    weighted: Row<L>,
    peak: Row<L>,
}

impl<const L: usize> Default for WeightedSums<L> {
    fn default() -> Self {
        WeightedSums { anchor: [0.0; L], plain: [0.0; L], weighted: [0.0; L], peak: [0.0; L] }
    }
}

/// As `CANCELLATION` of the parent module, for a sum that accumulates the errors of another.
const WEIGHTED_CANCELLATION: f64 = 1e-4;

impl<const L: usize> WeightedSums<L> {
    #[inline(always)]
    fn of(window: &[Row<L>]) -> Self {
        let anchor = window.last().copied().unwrap_or([0.0; L]);
        let mut s = WeightedSums { anchor, ..WeightedSums::default() };
        for (weight, x) in window.iter().enumerate() {
            let d = distance(x, &anchor);
            s.plain = row(|l| s.plain[l] + d[l]);
            s.weighted = row(|l| s.weighted[l] + d[l] * weight as f64);
        }
        s
    }

    /// One value enters the window, another leaves: the weights of the others fall by one. `last` is the weight of the newest.
    #[inline(always)]
    fn slide(&mut self, new: &Row<L>, old: &Row<L>, last: f64) {
        let s = *self;
        let (d, o) = (distance(new, &s.anchor), distance(old, &s.anchor));
        self.weighted = row(|l| s.weighted[l] + ((d[l] * last + o[l]) - s.plain[l]));
        self.plain = row(|l| s.plain[l] + (d[l] - o[l]));
    }

    /// Writes the central moment; recomputed from the window where it has cancelled.
    #[inline(always)]
    fn write(&mut self, out: &mut Row<L>, a: Rows<'_, L>, t: usize, n: usize) {
        let (plain, weighted, peak, middle) = (self.plain, self.weighted, self.peak, (n - 1) as f64 / 2.0);
        let central: Row<L> = row(|l| weighted[l] - plain[l] * middle);
        let peak: Row<L> = row(|l| if weighted[l].abs() > peak[l] { weighted[l].abs() } else { peak[l] });
        self.peak = peak;
        *out = central;
        if any::<L>(|l| central[l].abs() < WEIGHTED_CANCELLATION * peak[l]) {
            let (central, peak) = (central, peak);
            let recompute = |lane: usize| two_pass(a.range(t + 1 - n, t + 1), lane);
            repair(out, (&central, &peak), WEIGHTED_CANCELLATION, recompute);
        }
    }
}

/// The moment of one lane of a window in two passes.
fn two_pass<const L: usize>(window: &[Row<L>], lane: usize) -> f64 {
    let middle = window.len().saturating_sub(1) as f64 / 2.0;
    let x = LaneMean::of(window, lane);
    window.iter().enumerate().map(|(i, a)| x.distance(a) * (i as f64 - middle)).sum()
}

impl<const L: usize> Body<L> for RollingTimeMoment<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let mut t = block.head();
        let (n, a, t1, start) = (self.n, block.a(), block.t1, block.start);
        let last = (n - 1) as f64;
        let mut state = self.state;
        while t < t1 {
            let since = (t - start) % RECOMPUTE_PERIOD;
            let to = (t + RECOMPUTE_PERIOD - since).min(t1);
            if since == 0 {
                state = WeightedSums::of(a.range(t + 1 - n, t + 1));
                if let Some(out) = block.out(t).first_mut() {
                    state.write(out, a, t, n);
                }
                t += 1;
            }
            let pairs = a.range(t, to).iter().zip(a.range(t - n, to - n));
            for (((new, old), out), t) in pairs.zip(block.out(t)).zip(t..) {
                state.slide(new, old, last);
                state.write(out, a, t, n);
            }
            t = to;
        }
        self.state = state;
    }
}
