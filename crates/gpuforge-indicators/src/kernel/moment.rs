//! How far do the last `n` bars lie from their mean?
//!
//! Moments are sums of distances from an anchor that is renewed now and then (counted from the node's first bar, so that
//! nothing depends on how bars come in blocks): they lose no digits to the level of a price. Where little is left of them, they
//! are summed afresh from the window.
//!
//! States lie at whole cache lines, wherever the stack is: one that lies across two takes more than twice as long to go on with.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{
    Block, Body, Row, Rows, row,
    van_herk::{Join, Stretches, windows},
    window_fold,
};

/// Bars after which variances and co-moments are summed anew around a new anchor.
const RENEW: usize = 256;
/// What is left of a sum of squares below this share of its peak is summed afresh: too much of it is rounding.
const LITTLE: f64 = 1e-5;

/// Sums of distances from an anchor.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Moments<const L: usize> {
    anchor: (Row<L>, Row<L>),
    a: Row<L>,
    b: Row<L>,
    ab: Row<L>,
    /// The greatest that `ab` was around this anchor: its rounding errors are of that size.
    peak: Row<L>,
}

impl<const L: usize> Default for Moments<L> {
    fn default() -> Self {
        Moments { anchor: ([0.0; L], [0.0; L]), a: [0.0; L], b: [0.0; L], ab: [0.0; L], peak: [0.0; L] }
    }
}

impl<const L: usize> Moments<L> {
    /// Around the newest of a window.
    #[inline(always)]
    fn of((a, b): (&[Row<L>], &[Row<L>])) -> Self {
        let newest = |x: &[Row<L>]| x.last().copied().unwrap_or([0.0; L]);
        let anchor = (newest(a), newest(b));
        let mut s = Moments { anchor, ..Moments::default() };
        for (x, y) in a.iter().zip(b) {
            let (dx, dy) = (from::<L>(x, &anchor.0), from::<L>(y, &anchor.1));
            s.a = row(|l| s.a[l] + dx[l]);
            s.b = row(|l| s.b[l] + dy[l]);
            s.ab = row(|l| s.ab[l] + dx[l] * dy[l]);
        }
        s
    }

    /// A pair comes, another leaves.
    #[inline(always)]
    fn exchange<const PAIR: bool>(&mut self, new: (&Row<L>, &Row<L>), old: (&Row<L>, &Row<L>)) {
        let s = *self;
        let (dx, ox) = (from(new.0, &s.anchor.0), from(old.0, &s.anchor.0));
        let (dy, oy) = if PAIR { (from(new.1, &s.anchor.1), from(old.1, &s.anchor.1)) } else { (dx, ox) };
        self.a = row(|l| s.a[l] + (dx[l] - ox[l]));
        self.b = if PAIR { row(|l| s.b[l] + (dy[l] - oy[l])) } else { self.a };
        self.ab = row(|l| s.ab[l] + (dx[l] * dy[l] - ox[l] * oy[l]));
    }

    /// Sum of the products of the distances from the means.
    #[inline(always)]
    fn central(&self, share: f64) -> Row<L> {
        let s = *self;
        row(|l| s.ab[l] - s.a[l] * s.b[l] * share)
    }

    /// What comes of the same in `finish`; where the running sums have lost it, `again` sums it up from the window.
    #[inline(always)]
    fn say(
        &mut self,
        out: &mut Row<L>,
        share: f64,
        finish: impl Fn(f64) -> f64 + Copy,
        again: impl Fn(usize) -> f64,
    ) {
        let central = self.central(share);
        let (ab, peak) = (self.ab, self.peak);
        let peak: Row<L> = row(|l| if ab[l].abs() > peak[l] { ab[l].abs() } else { peak[l] });
        self.peak = peak;
        *out = row(|l| finish(central[l]));
        if any::<L>(|l| central[l].abs() < LITTLE * peak[l]) {
            // Copies: what a call looks at is in memory, and these should not be there before it.
            let (central, peak) = (central, peak);
            repair(out, (&central, &peak), LITTLE, |l| finish(again(l)));
        }
    }
}

#[inline(always)]
fn from<const L: usize>(x: &Row<L>, anchor: &Row<L>) -> Row<L> {
    let (x, anchor) = (*x, *anchor);
    row(|l| x[l] - anchor[l])
}

/// Is it so in some lane?
#[inline(always)]
fn any<const L: usize>(is: impl Fn(usize) -> bool) -> bool {
    let mut some = 0u64;
    for l in 0..L {
        some |= u64::from(is(l));
    }
    some > 0
}

/// Writes those lanes again of which no more is left than this share of their peak. A NaN is left alone.
#[cold]
#[inline(never)]
fn repair<const L: usize>(
    out: &mut Row<L>,
    (central, peak): (&Row<L>, &Row<L>),
    little: f64,
    again: impl Fn(usize) -> f64,
) {
    for l in 0..L {
        if central[l].abs() < little * peak[l] {
            out[l] = again(l);
        }
    }
}

/// Central co-moment of the last `n` of two values, or of one with itself.
#[inline(always)]
fn moments<const L: usize, const PAIR: bool>(
    block: &mut Block<'_, L>,
    n: usize,
    kept: &mut Moments<L>,
    finish: impl Fn(f64) -> f64 + Copy,
) {
    let mut t = block.head();
    let (a, t1, start, share) = (block.a(), block.t1, block.start, 1.0 / n as f64);
    let b = if PAIR { block.b() } else { a };
    let mut state = *kept;
    let window = |t: usize| (a.range(t + 1 - n, t + 1), b.range(t + 1 - n, t + 1));
    let again = |t: usize, lane: usize| afresh(window(t), lane);
    while t < t1 {
        let since = (t - start) % RENEW;
        let to = (t + RENEW - since).min(t1);
        if since == 0 {
            state = Moments::of(window(t));
            if let Some(out) = block.out(t).first_mut() {
                state.say(out, share, finish, |lane| again(t, lane));
            }
            t += 1;
        }
        let new = a.range(t, to).iter().zip(b.range(t, to));
        let old = a.range(t - n, to - n).iter().zip(b.range(t - n, to - n));
        for (((new, old), out), t) in new.zip(old).zip(block.out(t)).zip(t..) {
            state.exchange::<PAIR>(new, old);
            state.say(out, share, finish, |lane| again(t, lane));
        }
        t = to;
    }
    *kept = state;
}

/// Sums the products of one lane of a window in two passes, where the running sums have lost them: after a jump has left it.
fn afresh<const L: usize>((a, b): (&[Row<L>], &[Row<L>]), lane: usize) -> f64 {
    let (x, y) = (Centre::of(a, lane), Centre::of(b, lane));
    a.iter().zip(b).map(|(a, b)| x.distance(a) * y.distance(b)).sum()
}

/// The mean of one lane of a window, as a distance from the newest value: equal values lie at it exactly.
#[derive(Clone)]
struct Centre {
    lane: usize,
    newest: f64,
    mean: f64,
}

impl Centre {
    fn of<const L: usize>(window: &[Row<L>], lane: usize) -> Self {
        let newest = window.last().map_or(0.0, |x| x[lane]);
        let mean = window.iter().map(|x| x[lane] - newest).sum::<f64>() / window.len() as f64;
        Centre { lane, newest, mean }
    }

    fn distance<const L: usize>(&self, x: &Row<L>) -> f64 {
        x[self.lane] - self.newest - self.mean
    }
}

/// Population variance.
#[derive(Clone)]
pub(crate) struct RollingVariance<const L: usize> {
    pub(crate) n: usize,
    pub(crate) state: Moments<L>,
}

impl<const L: usize> Body<L> for RollingVariance<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let share = 1.0 / self.n as f64;
        // Rounding may leave a little less than nothing.
        moments::<L, false>(block, self.n, &mut self.state, move |c| if c < 0.0 { 0.0 } else { c * share });
    }
}

/// Central co-moment.
#[derive(Clone)]
pub(crate) struct RollingCoMoment<const L: usize> {
    n: usize,
    /// Is it of one value with itself?
    own: bool,
    state: Moments<L>,
}

impl<const L: usize> RollingCoMoment<L> {
    pub(crate) fn new(n: usize, own: bool) -> Self {
        RollingCoMoment { n, own, state: Moments::default() }
    }
}

impl<const L: usize> Body<L> for RollingCoMoment<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if self.own {
            moments::<L, false>(block, self.n, &mut self.state, |c| c);
        } else {
            moments::<L, true>(block, self.n, &mut self.state, |c| c);
        }
    }
}

/// Central co-moment of the number of the bar and a value.
#[derive(Clone)]
pub(crate) struct RollingTimeMoment<const L: usize> {
    n: usize,
    state: Ramp<L>,
}

impl<const L: usize> RollingTimeMoment<L> {
    pub(crate) fn new(n: usize) -> Self {
        RollingTimeMoment { n, state: Ramp::default() }
    }
}

/// Sums of distances from an anchor, plain and with weights 0, 1, ... from the oldest on.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Ramp<const L: usize> {
    anchor: Row<L>,
    plain: Row<L>,
    ramp: Row<L>,
    peak: Row<L>,
}

impl<const L: usize> Default for Ramp<L> {
    fn default() -> Self {
        Ramp { anchor: [0.0; L], plain: [0.0; L], ramp: [0.0; L], peak: [0.0; L] }
    }
}

/// As [`LITTLE`], of a sum into which the errors of another add up.
const LITTLE_OF_RAMP: f64 = 1e-4;

impl<const L: usize> Ramp<L> {
    #[inline(always)]
    fn of(window: &[Row<L>]) -> Self {
        let anchor = window.last().copied().unwrap_or([0.0; L]);
        let mut s = Ramp { anchor, ..Ramp::default() };
        for (weight, x) in window.iter().enumerate() {
            let d = from(x, &anchor);
            s.plain = row(|l| s.plain[l] + d[l]);
            s.ramp = row(|l| s.ramp[l] + d[l] * weight as f64);
        }
        s
    }

    /// A value comes, another leaves: all that stay weigh one less. `last` is the weight of the newest.
    #[inline(always)]
    fn exchange(&mut self, new: &Row<L>, old: &Row<L>, last: f64) {
        let s = *self;
        let (d, o) = (from(new, &s.anchor), from(old, &s.anchor));
        self.ramp = row(|l| s.ramp[l] + ((d[l] * last + o[l]) - s.plain[l]));
        self.plain = row(|l| s.plain[l] + (d[l] - o[l]));
    }

    #[inline(always)]
    fn say(&mut self, out: &mut Row<L>, a: Rows<'_, L>, t: usize, n: usize) {
        let (plain, ramp, peak, middle) = (self.plain, self.ramp, self.peak, (n - 1) as f64 / 2.0);
        let central: Row<L> = row(|l| ramp[l] - plain[l] * middle);
        let peak: Row<L> = row(|l| if ramp[l].abs() > peak[l] { ramp[l].abs() } else { peak[l] });
        self.peak = peak;
        *out = central;
        if any::<L>(|l| central[l].abs() < LITTLE_OF_RAMP * peak[l]) {
            let (central, peak) = (central, peak);
            let again = |lane: usize| ramp_afresh(a.range(t + 1 - n, t + 1), lane);
            repair(out, (&central, &peak), LITTLE_OF_RAMP, again);
        }
    }
}

fn ramp_afresh<const L: usize>(window: &[Row<L>], lane: usize) -> f64 {
    let middle = window.len().saturating_sub(1) as f64 / 2.0;
    let x = Centre::of(window, lane);
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
            let since = (t - start) % RENEW;
            let to = (t + RENEW - since).min(t1);
            if since == 0 {
                state = Ramp::of(a.range(t + 1 - n, t + 1));
                if let Some(out) = block.out(t).first_mut() {
                    state.say(out, a, t, n);
                }
                t += 1;
            }
            let pairs = a.range(t, to).iter().zip(a.range(t - n, to - n));
            for (((new, old), out), t) in pairs.zip(block.out(t)).zip(t..) {
                state.exchange(new, old, last);
                state.say(out, a, t, n);
            }
            t = to;
        }
        self.state = state;
    }
}

/// Mean distance from the mean.
#[derive(Clone)]
pub(crate) struct RollingMeanDeviation<const L: usize> {
    n: usize,
    kept: Stretches<Row<L>>,
}

impl<const L: usize> RollingMeanDeviation<L> {
    pub(crate) fn new(n: usize) -> Self {
        RollingMeanDeviation { n, kept: Stretches::default() }
    }
}

/// Means, joined from sums of stretches: no error outlives its window.
struct Mean;

impl<const L: usize> Join<L> for Mean {
    type Part = Row<L>;
    const NONE: Row<L> = [0.0; L];

    #[inline(always)]
    fn one(x: &Row<L>, _t: usize) -> Row<L> {
        *x
    }

    #[inline(always)]
    fn join(earlier: &Row<L>, later: &Row<L>) -> Row<L> {
        let (a, b) = (*earlier, *later);
        row(|l| a[l] + b[l])
    }

    #[inline(always)]
    fn result(part: &Row<L>, _t: usize, n: usize) -> Row<L> {
        let part = *part;
        let share = 1.0 / n as f64;
        row(|l| part[l] * share)
    }
}

impl<const L: usize> Body<L> for RollingMeanDeviation<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let (n, t1) = (self.n, block.t1);
        windows::<L, Mean>(block, n, &mut self.kept);
        let from = block.start.clamp(block.t0, t1);
        if from < t1 {
            let all = block.a().range(from + 1 - n, t1);
            let step = |sum: f64, _, x: f64, mean: f64| sum + (x - mean).abs();
            let share = 1.0 / n as f64;
            window_fold::fold(all, block.out(from), n, step, |sum| sum * share);
        }
    }
}

/// Windows after which central moments are summed anew.
const WINDOWS: usize = 8;
/// The mean square of the distance from the anchor may be so much more than that from the mean; beyond it, the fourth power
/// loses digits.
const STRAY: f64 = 4e-3;

/// Mean square of the distance from the mean, and mean of a higher power of it.
#[derive(Clone)]
pub(crate) struct RollingCentralMoment<const L: usize> {
    n: usize,
    power: u8,
    state: Powers<L>,
    /// The bar at which the last NaN leaves the window.
    clear: [usize; L],
}

impl<const L: usize> RollingCentralMoment<L> {
    pub(crate) fn new(n: usize, power: u8) -> Self {
        RollingCentralMoment { n, power, state: Powers::default(), clear: [0; L] }
    }
}

/// Sums of powers of distances from an anchor.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Powers<const L: usize> {
    anchor: Row<L>,
    sums: [Row<L>; 4],
    /// The greatest that the mean square was around this anchor.
    peak: Row<L>,
}

impl<const L: usize> Default for Powers<L> {
    fn default() -> Self {
        Powers { anchor: [0.0; L], sums: [[0.0; L]; 4], peak: [0.0; L] }
    }
}

impl<const L: usize> Powers<L> {
    /// Sums up one lane of a window around its mean.
    fn renew(&mut self, window: &[Row<L>], lane: usize) {
        let centre = Centre::of(window, lane);
        self.anchor[lane] = centre.newest + centre.mean;
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

    /// A value comes, another leaves; powers above `P` are not needed.
    #[inline(always)]
    fn exchange<const P: usize>(&mut self, new: &Row<L>, old: &Row<L>) {
        let (d, o) = (from(new, &self.anchor), from(old, &self.anchor));
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

    /// Mean square and mean `P`-th power of the distances from the mean.
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

    /// Has the mean strayed too far from the anchor in some lane, or is it no number?
    #[inline(always)]
    fn lost(&mut self, square: &Row<L>, share: f64) -> bool {
        let (squares, peak, square) = (self.sums[1], self.peak, *square);
        let peak: Row<L> = row(|l| if squares[l] * share > peak[l] { squares[l] * share } else { peak[l] });
        self.peak = peak;
        any::<L>(|l| !is_near(square[l], peak[l]))
    }
}

/// Is the mean so near the anchor that no digits are lost? One that is no number is not.
#[inline(always)]
fn is_near(square: f64, peak: f64) -> bool {
    square >= STRAY * peak
}

impl<const L: usize> RollingCentralMoment<L> {
    #[inline(always)]
    fn run<const P: usize>(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t0, start) = (self.n, block.a(), block.t0, block.start);
        let (renew, share) = (WINDOWS * n, 1.0 / n as f64);
        let mut state = self.state;
        let mut since = (from - start.min(from)) % renew;
        for t in from..block.t1 {
            if since == 0 {
                state = renewed(state, a.range(t + 1 - n, t + 1), |_| true);
            } else {
                state.exchange::<P>(a.at(t), a.at(t - n));
            }
            let mut means = state.central::<P>(share);
            if state.lost(&means[0], share) {
                state = self.recover(state, a.range(t + 1 - n, t + 1), t);
                means = state.central::<P>(share);
            }
            for (out, mean) in block.outputs.iter_mut().zip(&means) {
                if let Some(out) = out.get_mut(t - t0) {
                    *out = *mean;
                }
            }
            since = if since + 1 == renew { 0 } else { since + 1 };
        }
        self.state = state;
    }

    /// Sums up those lanes anew that have lost digits, or were NaN and no longer are: which ones is a question to each lane
    /// alone, so that no neighbour changes it. A window that still has its NaN is not looked at again.
    #[cold]
    #[inline(never)]
    fn recover(&mut self, state: Powers<L>, window: &[Row<L>], t: usize) -> Powers<L> {
        let share = 1.0 / self.n as f64;
        let [square, _] = state.central::<2>(share);
        renewed(state, window, |l| {
            if is_near(square[l], state.peak[l]) || t < self.clear[l] {
                return false;
            }
            if square[l].is_nan()
                && let Some(ago) = window.iter().rev().position(|x| x[l].is_nan())
            {
                self.clear[l] = t + self.n - ago;
                return false;
            }
            true
        })
    }
}

/// Sums up some lanes anew.
#[cold]
#[inline(never)]
fn renewed<const L: usize>(
    mut state: Powers<L>,
    window: &[Row<L>],
    mut which: impl FnMut(usize) -> bool,
) -> Powers<L> {
    for l in 0..L {
        if which(l) {
            state.renew(window, l);
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
