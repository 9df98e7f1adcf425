//! Rolling moments: variance and co-moment; time moment, mean deviation and central moments in `moment/`.
//!
//! Moments are running sums of distances from an anchor, which loses no digits to the level of a price. The anchor is renewed
//! periodically, counted from the node's first bar, so that nothing depends on the block length. Where cancellation leaves
//! too few digits, the sum is recomputed from the window.
//!
//! States are aligned to cache lines: a vector that crosses two takes more than twice as long to update.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

mod central_moment;
mod mean_deviation;
#[cfg(any(target_arch = "aarch64", test))]
mod paired_variance;
mod time_moment;

pub(crate) use central_moment::RollingCentralMoment;
pub(crate) use mean_deviation::RollingMeanDeviation;
#[cfg(any(target_arch = "aarch64", test))]
pub(crate) use paired_variance::PairedVariance;
pub(crate) use time_moment::RollingTimeMoment;

use super::{Block, Body, Row, row};

/// Bars after which variances and co-moments are recomputed around a new anchor.
const RECOMPUTE_PERIOD: usize = 256;
/// Below this share of its peak a sum of squares is mostly rounding error and recomputed from the window.
const CANCELLATION: f64 = 1e-5;

/// Running sums of distances from an anchor, and of their products.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Moments<const L: usize> {
    anchor: (Row<L>, Row<L>),
    a: Row<L>,
    b: Row<L>,
    ab: Row<L>,
    /// Max of `|ab|` around this anchor: its rounding errors are of that magnitude.
    peak: Row<L>,
}

impl<const L: usize> Default for Moments<L> {
    fn default() -> Self {
        Moments { anchor: ([0.0; L], [0.0; L]), a: [0.0; L], b: [0.0; L], ab: [0.0; L], peak: [0.0; L] }
    }
}

impl<const L: usize> Moments<L> {
    /// From a window, anchored at its newest values.
    #[inline(always)]
    fn of((a, b): (&[Row<L>], &[Row<L>])) -> Self {
        let newest = |x: &[Row<L>]| x.last().copied().unwrap_or([0.0; L]);
        let anchor = (newest(a), newest(b));
        let mut s = Moments { anchor, ..Moments::default() };
        for (x, y) in a.iter().zip(b) {
            let (dx, dy) = (distance::<L>(x, &anchor.0), distance::<L>(y, &anchor.1));
            s.a = row(|l| s.a[l] + dx[l]);
            s.b = row(|l| s.b[l] + dy[l]);
            s.ab = row(|l| s.ab[l] + dx[l] * dy[l]);
        }
        s
    }

    /// One pair enters the window, another leaves.
    #[inline(always)]
    fn slide<const PAIR: bool>(&mut self, new: (&Row<L>, &Row<L>), old: (&Row<L>, &Row<L>)) {
        let s = *self;
        let (dx, ox) = (distance(new.0, &s.anchor.0), distance(old.0, &s.anchor.0));
        let (dy, oy) =
            if PAIR { (distance(new.1, &s.anchor.1), distance(old.1, &s.anchor.1)) } else { (dx, ox) };
        self.a = row(|l| s.a[l] + (dx[l] - ox[l]));
        self.b = if PAIR { row(|l| s.b[l] + (dy[l] - oy[l])) } else { self.a };
        self.ab = row(|l| s.ab[l] + (dx[l] * dy[l] - ox[l] * oy[l]));
    }

    /// Central co-moment: sum of the products of the distances from the means.
    #[inline(always)]
    fn central(&self, share: f64) -> Row<L> {
        let s = *self;
        row(|l| s.ab[l] - s.a[l] * s.b[l] * share)
    }

    /// Writes `finish` of the co-moment; where the running sums have cancelled, `recompute` gives it from the window.
    #[inline(always)]
    fn write(
        &mut self,
        out: &mut Row<L>,
        share: f64,
        finish: impl Fn(f64) -> f64 + Copy,
        recompute: impl Fn(usize) -> f64,
    ) {
        let central = self.central(share);
        let (ab, peak) = (self.ab, self.peak);
        let peak: Row<L> = row(|l| if ab[l].abs() > peak[l] { ab[l].abs() } else { peak[l] });
        self.peak = peak;
        *out = row(|l| finish(central[l]));
        if any::<L>(|l| central[l].abs() < CANCELLATION * peak[l]) {
            // Copies: what a call takes by reference lives in memory, and these should stay in registers until here.
            let (central, peak) = (central, peak);
            repair(out, (&central, &peak), CANCELLATION, |l| finish(recompute(l)));
        }
    }
}

/// Distances from an anchor.
#[inline(always)]
fn distance<const L: usize>(x: &Row<L>, anchor: &Row<L>) -> Row<L> {
    let (x, anchor) = (*x, *anchor);
    row(|l| x[l] - anchor[l])
}

/// Does it hold in any lane?
#[inline(always)]
fn any<const L: usize>(is: impl Fn(usize) -> bool) -> bool {
    let mut some = 0u64;
    for l in 0..L {
        some |= u64::from(is(l));
    }
    some > 0
}

/// Recomputes the lanes that are below this share of their peak. A NaN is left alone.
#[cold]
#[inline(never)]
fn repair<const L: usize>(
    out: &mut Row<L>,
    (central, peak): (&Row<L>, &Row<L>),
    threshold: f64,
    recompute: impl Fn(usize) -> f64,
) {
    for l in 0..L {
        if central[l].abs() < threshold * peak[l] {
            out[l] = recompute(l);
        }
    }
}

/// Rolling central co-moment of two values, or of one with itself.
#[inline(always)]
fn rolling_moments<const L: usize, const PAIR: bool>(
    block: &mut Block<'_, L>,
    n: usize,
    carried: &mut Moments<L>,
    finish: impl Fn(f64) -> f64 + Copy,
) {
    let mut t = block.head();
    let (a, t1, start, share) = (block.a(), block.t1, block.start, 1.0 / n as f64);
    let b = if PAIR { block.b() } else { a };
    let mut state = *carried;
    let window = |t: usize| (a.range(t + 1 - n, t + 1), b.range(t + 1 - n, t + 1));
    let recompute = |t: usize, lane: usize| two_pass(window(t), lane);
    while t < t1 {
        let since = (t - start) % RECOMPUTE_PERIOD;
        let to = (t + RECOMPUTE_PERIOD - since).min(t1);
        if since == 0 {
            state = Moments::of(window(t));
            if let Some(out) = block.out(t).first_mut() {
                state.write(out, share, finish, |lane| recompute(t, lane));
            }
            t += 1;
        }
        let new = a.range(t, to).iter().zip(b.range(t, to));
        let old = a.range(t - n, to - n).iter().zip(b.range(t - n, to - n));
        for (((new, old), out), t) in new.zip(old).zip(block.out(t)).zip(t..) {
            state.slide::<PAIR>(new, old);
            state.write(out, share, finish, |lane| recompute(t, lane));
        }
        t = to;
    }
    *carried = state;
}

/// Co-moment of one lane of a window in two passes: for when the running sums have cancelled, after a jump has left it.
fn two_pass<const L: usize>((a, b): (&[Row<L>], &[Row<L>]), lane: usize) -> f64 {
    let (x, y) = (LaneMean::of(a, lane), LaneMean::of(b, lane));
    a.iter().zip(b).map(|(a, b)| x.distance(a) * y.distance(b)).sum()
}

/// Mean of one lane of a window, as a distance from the newest value: exact where all values are equal.
#[derive(Clone)]
struct LaneMean {
    lane: usize,
    newest: f64,
    mean: f64,
}

impl LaneMean {
    fn of<const L: usize>(window: &[Row<L>], lane: usize) -> Self {
        let newest = window.last().map_or(0.0, |x| x[lane]);
        let mean = window.iter().map(|x| x[lane] - newest).sum::<f64>() / window.len() as f64;
        LaneMean { lane, newest, mean }
    }

    fn distance<const L: usize>(&self, x: &Row<L>) -> f64 {
        x[self.lane] - self.newest - self.mean
    }
}

/// Population variance, or the standard deviation.
#[derive(Clone)]
pub(crate) struct RollingVariance<const L: usize> {
    pub(crate) n: usize,
    /// Is the result the square root?
    pub(crate) root: bool,
    pub(crate) state: Moments<L>,
}

impl<const L: usize> Body<L> for RollingVariance<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let share = 1.0 / self.n as f64;
        // Rounding may leave a small negative value.
        let variance = move |c: f64| if c < 0.0 { 0.0 } else { c * share };
        if self.root {
            rolling_moments::<L, false>(block, self.n, &mut self.state, move |c| variance(c).sqrt());
        } else {
            rolling_moments::<L, false>(block, self.n, &mut self.state, variance);
        }
    }
}

/// Central co-moment.
#[derive(Clone)]
pub(crate) struct RollingCoMoment<const L: usize> {
    n: usize,
    /// Of one value with itself?
    same: bool,
    state: Moments<L>,
}

impl<const L: usize> RollingCoMoment<L> {
    pub(crate) fn new(n: usize, same: bool) -> Self {
        RollingCoMoment { n, same, state: Moments::default() }
    }
}

impl<const L: usize> Body<L> for RollingCoMoment<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if self.same {
            rolling_moments::<L, false>(block, self.n, &mut self.state, |c| c);
        } else {
            rolling_moments::<L, true>(block, self.n, &mut self.state, |c| c);
        }
    }
}
