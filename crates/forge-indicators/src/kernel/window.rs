//! Values of the last `n` bars.
//!
//! Sums add the newest and take off the oldest, in the order that TA-Lib does; a NaN stays in them. Moments are sums of
//! distances from an anchor that is renewed every [`RENEW`] bars (counted from the node's first bar, so that nothing depends
//! on how bars come in blocks): they lose no digits to the level of a price. Extremes, orders and ranks forget a NaN when it
//! leaves the window.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Row};

/// Bars after which moments are summed anew around a new anchor.
const RENEW: usize = 256;

/// Sum of the last `n`.
pub(crate) struct Sum<const L: usize> {
    pub(crate) n: usize,
    /// Sum of the last `n - 1`.
    pub(crate) rest: Row<L>,
}

impl<const L: usize> Body<L> for Sum<L> {
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
            for l in 0..L {
                let sum = rest[l] + new[l];
                out[l] = sum;
                rest[l] = sum - old[l];
            }
        }
        self.rest = rest;
    }
}

/// Sum of the last `n`, or of as many as there are yet.
pub(crate) struct GrowingSum<const L: usize> {
    pub(crate) n: usize,
    /// Sum of the values that are still in the next bar's window.
    pub(crate) rest: Row<L>,
}

impl<const L: usize> Body<L> for GrowingSum<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1, start) = (self.n, block.a(), block.t1, block.start);
        if from == start && from < t1 {
            self.rest = [0.0; L];
        }
        let mut rest = self.rest;
        for (t, out) in (from..t1).zip(block.out(from)) {
            let (new, full) = (a.at(t), t + 1 >= start + n);
            let old = if full { *a.at(t + 1 - n) } else { [0.0; L] };
            for l in 0..L {
                let sum = rest[l] + new[l];
                out[l] = sum;
                rest[l] = sum - old[l];
            }
        }
        self.rest = rest;
    }
}

/// Sum of the last `n`, moved by one difference a bar.
pub(crate) struct Total<const L: usize> {
    pub(crate) n: usize,
    pub(crate) sum: Row<L>,
}

impl<const L: usize> Body<L> for Total<L> {
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

/// Sum of the last `n` with weights 1..=n.
pub(crate) struct RampSum<const L: usize> {
    pub(crate) n: usize,
    pub(crate) plain: Row<L>,
    pub(crate) ramp: Row<L>,
    pub(crate) leaving: Row<L>,
}

impl<const L: usize> RampSum<L> {
    /// Sums up the window before bar `t` afresh.
    #[inline(always)]
    fn begin(&mut self, window: &[Row<L>]) {
        (self.plain, self.ramp, self.leaving) = ([0.0; L], [0.0; L], [0.0; L]);
        for (weight, x) in window.iter().enumerate() {
            for l in 0..L {
                self.plain[l] += x[l];
                self.ramp[l] += x[l] * (weight + 1) as f64;
            }
        }
    }
}

impl<const L: usize> Body<L> for RampSum<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let (n, a, t1, start) = (self.n, block.a(), block.t1, block.start);
        // The error of the plain sum adds up in the weighted one: without a fresh start now and then it grows faster than time.
        let renew = 8 * n;
        let mut from = block.head();
        while from < t1 {
            let since = (from - start) % renew;
            if since == 0 {
                self.begin(a.range(from + 1 - n, from));
            }
            let to = (from + renew - since).min(t1);
            let (new, old) = (a.range(from, to), a.range(from + 1 - n, to + 1 - n));
            let (mut plain, mut ramp, mut leaving) = (self.plain, self.ramp, self.leaving);
            for ((out, new), old) in block.out(from).iter_mut().zip(new).zip(old) {
                for l in 0..L {
                    plain[l] = plain[l] + new[l] - leaving[l];
                    ramp[l] += new[l] * n as f64;
                    leaving[l] = old[l];
                    out[l] = ramp[l];
                    ramp[l] -= plain[l];
                }
            }
            (self.plain, self.ramp, self.leaving) = (plain, ramp, leaving);
            from = to;
        }
    }
}

/// Sum of the last values with fixed weights, the oldest first.
pub(crate) struct Fir {
    pub(crate) weights: Vec<f64>,
}

impl<const L: usize> Body<L> for Fir {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1) = (self.weights.len(), block.a(), block.t1);
        for (t, out) in (from..t1).zip(block.out(from)) {
            let mut sum = [0.0; L];
            for (w, x) in self.weights.iter().zip(a.range(t + 1 - n, t + 1)) {
                for l in 0..L {
                    sum[l] += w * x[l];
                }
            }
            *out = sum;
        }
    }
}

/// Greatest or least of the last `n`: prefixes of the current stretch of `n` bars and suffixes of the one before (van Herk,
/// Gil and Werman), three comparisons a bar whatever `n` is.
pub(crate) struct Extreme<const L: usize> {
    pub(crate) n: usize,
    pub(crate) max: bool,
    /// Extremes of the stretch before, from each of its bars to its end.
    pub(crate) suffix: Vec<Row<L>>,
    pub(crate) prefix: Row<L>,
}

#[inline(always)]
fn outer<const L: usize>(a: &Row<L>, b: &Row<L>, max: bool) -> Row<L> {
    let mut out = [0.0; L];
    for l in 0..L {
        let (a, b) = (a[l], b[l]);
        let first = if max { a > b } else { a < b };
        out[l] = if a.is_nan() || first { a } else { b };
    }
    out
}

impl<const L: usize> Extreme<L> {
    #[inline(always)]
    fn run(&mut self, block: &mut Block<'_, L>, max: bool) {
        let from = block.head();
        let (n, a, t1) = (self.n, block.a(), block.t1);
        // The node's input begins n - 1 bars before the node.
        let origin = block.start + 1 - n;
        let first = from == block.start && from < t1;
        let begin = if first { origin } else { from };
        for t in begin..t1 {
            let at = (t - origin) % n;
            let x = a.at(t);
            if at == 0 && t > origin {
                self.turn(a.range(t - n, t), max);
            }
            self.prefix = if at == 0 { *x } else { outer(&self.prefix, x, max) };
            if t >= from {
                let before = self.suffix.get(at + 1).filter(|_| at + 1 < n && t >= origin + n);
                let value = before.map_or(self.prefix, |s| outer(s, &self.prefix, max));
                let t0 = from;
                if let Some(out) = block.out(from).get_mut(t - t0) {
                    *out = value;
                }
            }
        }
    }

    /// The stretch that ended becomes the one before.
    #[inline(always)]
    fn turn(&mut self, stretch: &[Row<L>], max: bool) {
        self.suffix.resize(self.n, [f64::NAN; L]);
        let mut best: Option<Row<L>> = None;
        for (slot, x) in self.suffix.iter_mut().zip(stretch).rev() {
            let value = best.map_or(*x, |b| outer(x, &b, max));
            *slot = value;
            best = Some(value);
        }
    }
}

impl<const L: usize> Body<L> for Extreme<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if self.max { self.run(block, true) } else { self.run(block, false) }
    }
}

/// Bars since the greatest or least of the last `n`, the most recent of equals.
pub(crate) struct Ago<const L: usize> {
    pub(crate) n: usize,
    pub(crate) max: bool,
    pub(crate) at: [usize; L],
    pub(crate) best: Row<L>,
}

impl<const L: usize> Body<L> for Ago<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1, max, start) = (self.n, block.a(), block.t1, self.max, block.start);
        let beats = |x: f64, best: f64| if max { x >= best } else { x <= best };
        for (t, out) in (from..t1).zip(block.out(from)) {
            let x = a.at(t);
            for l in 0..L {
                let gone = t == start || self.at[l] + n <= t;
                if gone {
                    self.at[l] = t + 1 - n;
                    self.best[l] = a.at(t + 1 - n)[l];
                    for s in t + 2 - n..=t {
                        if beats(a.at(s)[l], self.best[l]) {
                            (self.at[l], self.best[l]) = (s, a.at(s)[l]);
                        }
                    }
                } else if beats(x[l], self.best[l]) {
                    (self.at[l], self.best[l]) = (t, x[l]);
                }
                out[l] = (t - self.at[l]) as f64;
            }
        }
    }
}

/// Sums of distances from an anchor.
#[derive(Clone, Copy)]
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

/// What is left of a sum of squares below this share of its peak is summed afresh: too much of it is rounding.
const LITTLE: f64 = 1e-6;

impl<const L: usize> Moments<L> {
    #[inline(always)]
    fn add(&mut self, x: &Row<L>, y: &Row<L>, sign: f64) {
        for l in 0..L {
            let (dx, dy) = (x[l] - self.anchor.0[l], y[l] - self.anchor.1[l]);
            self.a[l] += sign * dx;
            self.b[l] += sign * dy;
            self.ab[l] += sign * (dx * dy);
        }
    }

    /// Sum of the products of the distances from the means.
    #[inline(always)]
    fn central(&self, n: f64) -> Row<L> {
        let mut out = [0.0; L];
        for l in 0..L {
            out[l] = self.ab[l] - self.a[l] * self.b[l] / n;
        }
        out
    }
}

/// Central co-moment of the last `n` of two values, or of one with itself.
#[inline(always)]
fn moments<const L: usize>(
    block: &mut Block<'_, L>,
    n: usize,
    state: &mut Moments<L>,
    pair: bool,
    finish: impl Fn(f64) -> f64,
) {
    let from = block.head();
    let (a, t1, start) = (block.a(), block.t1, block.start);
    let b = if pair { block.b() } else { a };
    for (t, out) in (from..t1).zip(block.out(from)) {
        if (t - start).is_multiple_of(RENEW) {
            *state = Moments { anchor: (*a.at(t), *b.at(t)), ..Moments::default() };
            for s in t + 1 - n..=t {
                state.add(a.at(s), b.at(s), 1.0);
            }
        } else {
            state.add(a.at(t), b.at(t), 1.0);
            state.add(a.at(t - n), b.at(t - n), -1.0);
        }
        let mut central = state.central(n as f64);
        if !pair {
            afresh(state, &mut central, a.range(t + 1 - n, t + 1));
        }
        for l in 0..L {
            out[l] = finish(central[l]);
        }
    }
}

/// Sums the squares of a window in two passes where the running sums have lost them.
#[inline(always)]
fn afresh<const L: usize>(state: &mut Moments<L>, central: &mut Row<L>, window: &[Row<L>]) {
    let mut lost = false;
    for l in 0..L {
        state.peak[l] = if state.ab[l] > state.peak[l] { state.ab[l] } else { state.peak[l] };
        lost |= central[l] < LITTLE * state.peak[l];
    }
    if !lost {
        return;
    }
    let newest = window.last().copied().unwrap_or([0.0; L]);
    for l in 0..L {
        // The same question as above, so that a NaN is left alone whatever its neighbours are.
        if central[l] < LITTLE * state.peak[l] {
            let mean = window.iter().map(|x| x[l] - newest[l]).sum::<f64>() / window.len() as f64;
            central[l] = window.iter().map(|x| x[l] - newest[l] - mean).map(|d| d * d).sum();
        }
    }
}

/// Population variance.
pub(crate) struct Variance<const L: usize> {
    pub(crate) n: usize,
    pub(crate) state: Moments<L>,
}

impl<const L: usize> Body<L> for Variance<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let n = self.n as f64;
        // Rounding may leave a little less than nothing.
        moments(block, self.n, &mut self.state, false, |c| if c < 0.0 { 0.0 } else { c / n });
    }
}

/// Central co-moment.
pub(crate) struct CoMoment<const L: usize> {
    pub(crate) n: usize,
    pub(crate) state: Moments<L>,
}

impl<const L: usize> Body<L> for CoMoment<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        moments(block, self.n, &mut self.state, true, |c| c);
    }
}

/// Mean distance from the mean.
pub(crate) struct MeanDeviation {
    pub(crate) n: usize,
}

impl<const L: usize> Body<L> for MeanDeviation {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1) = (self.n, block.a(), block.t1);
        for (t, out) in (from..t1).zip(block.out(from)) {
            let window = a.range(t + 1 - n, t + 1);
            let (mut mean, mut sum) = ([0.0; L], [0.0; L]);
            for x in window {
                for l in 0..L {
                    mean[l] += x[l];
                }
            }
            for m in &mut mean {
                *m /= n as f64;
            }
            for x in window {
                for l in 0..L {
                    sum[l] += (x[l] - mean[l]).abs();
                }
            }
            for l in 0..L {
                out[l] = sum[l] / n as f64;
            }
        }
    }
}

/// Mean of a power of the distance from the mean, in two passes: distances from the newest value give the mean, so that
/// equal values have none.
pub(crate) struct CentralMoment {
    pub(crate) n: usize,
    pub(crate) power: u8,
}

impl<const L: usize> Body<L> for CentralMoment {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match self.power {
            2 => powers(block, self.n, |d| d * d),
            3 => powers(block, self.n, |d| d * d * d),
            _ => powers(block, self.n, |d| d * d * (d * d)),
        }
    }
}

#[inline(always)]
fn powers<const L: usize>(block: &mut Block<'_, L>, n: usize, power: impl Fn(f64) -> f64) {
    let from = block.head();
    let (a, t1) = (block.a(), block.t1);
    for (t, out) in (from..t1).zip(block.out(from)) {
        let window = a.range(t + 1 - n, t + 1);
        let newest = a.at(t);
        let (mut mean, mut sum) = ([0.0; L], [0.0; L]);
        for x in window {
            for l in 0..L {
                mean[l] += x[l] - newest[l];
            }
        }
        for m in &mut mean {
            *m /= n as f64;
        }
        for x in window {
            for l in 0..L {
                sum[l] += power(x[l] - newest[l] - mean[l]);
            }
        }
        for l in 0..L {
            out[l] = sum[l] / n as f64;
        }
    }
}

/// The `k`-th least of the last `n`.
pub(crate) struct Order<const L: usize> {
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// The window of each series in ascending order; NaN last.
    pub(crate) sorted: [Vec<f64>; L],
}

impl<const L: usize> Body<L> for Order<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, k, a, t1, start) = (self.n, self.k, block.a(), block.t1, block.start);
        for (t, out) in (from..t1).zip(block.out(from)) {
            for l in 0..L {
                let sorted = &mut self.sorted[l];
                if t == start {
                    sorted.clear();
                    sorted.extend((t + 1 - n..=t).map(|s| a.at(s)[l]));
                    sorted.sort_by(f64::total_cmp);
                } else {
                    let (old, new) = (a.at(t - n)[l], a.at(t)[l]);
                    let place = |sorted: &[f64], x: f64| sorted.partition_point(|y| y.total_cmp(&x).is_lt());
                    let gone = place(sorted, old);
                    if gone < sorted.len() {
                        sorted.remove(gone);
                    }
                    sorted.insert(place(sorted, new), new);
                }
                out[l] = sorted.get(k).copied().unwrap_or(f64::NAN);
            }
        }
    }
}

/// How many of the `n` values before this one are less.
pub(crate) struct Rank {
    pub(crate) n: usize,
    pub(crate) or_equal: bool,
}

impl<const L: usize> Body<L> for Rank {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1, or_equal) = (self.n, block.a(), block.t1, self.or_equal);
        for (t, out) in (from..t1).zip(block.out(from)) {
            let (x, mut count) = (a.at(t), [0.0; L]);
            for y in a.range(t - n, t) {
                for l in 0..L {
                    let less = if or_equal { y[l] <= x[l] } else { y[l] < x[l] };
                    count[l] += if less { 1.0 } else { 0.0 };
                }
            }
            *out = count;
        }
    }
}
