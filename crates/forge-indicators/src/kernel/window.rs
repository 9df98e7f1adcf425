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

use super::{Block, Body, Row, row};

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
            let (new, old) = (*new, *old);
            let sum: Row<L> = row(|l| rest[l] + new[l]);
            rest = row(|l| sum[l] - old[l]);
            *out = sum;
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
            let (new, full) = (*a.at(t), t + 1 >= start + n);
            let old = if full { *a.at(t + 1 - n) } else { [0.0; L] };
            let sum: Row<L> = row(|l| rest[l] + new[l]);
            rest = row(|l| sum[l] - old[l]);
            *out = sum;
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
                let (new, old) = (*new, *old);
                plain = row(|l| plain[l] + new[l] - leaving[l]);
                let sum: Row<L> = row(|l| ramp[l] + new[l] * n as f64);
                leaving = old;
                ramp = row(|l| sum[l] - plain[l]);
                *out = sum;
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
    let (a, b) = (*a, *b);
    row(|l| {
        let first = if max { a[l] > b[l] } else { a[l] < b[l] };
        if a[l].is_nan() | first { a[l] } else { b[l] }
    })
}

impl<const L: usize> Extreme<L> {
    #[inline(always)]
    fn run(&mut self, block: &mut Block<'_, L>, max: bool) {
        let from = block.head();
        let (n, a, t1) = (self.n, block.a(), block.t1);
        // The node's input begins n - 1 bars before the node.
        let origin = block.start + 1 - n;
        if from == block.start && from < t1 {
            // The first stretch up to the bar before: nothing to say yet.
            for (i, x) in a.range(origin, from).iter().enumerate() {
                self.prefix = if i == 0 { *x } else { outer(&self.prefix, x, max) };
            }
        }
        let mut t = from;
        while t < t1 {
            let at = (t - origin) % n;
            if at == 0 {
                if t > origin {
                    self.turn(a.range(t - n, t), max);
                }
                self.prefix = *a.at(t);
            }
            let end = (t + n - at).min(t1);
            let mut prefix = self.prefix;
            let news = a.range(t, end).iter().enumerate();
            let outs = block.out(t).iter_mut();
            // The last bar of a stretch, and all of the first, have nothing of the one before.
            let before = if t >= origin + n { self.suffix.get(at + 1..).unwrap_or(&[]) } else { &[] };
            for ((i, new), out) in news.zip(outs) {
                if at + i > 0 {
                    prefix = outer(&prefix, new, max);
                }
                *out = before.get(i).map_or(prefix, |s| outer(s, &prefix, max));
            }
            self.prefix = prefix;
            t = end;
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

/// Bars since the greatest or least of the last `n`, the most recent of equals: as [`Extreme`], with the bar beside the
/// value. A NaN is no candidate; of a window without any, the oldest bar is named.
pub(crate) struct Ago<const L: usize> {
    pub(crate) n: usize,
    pub(crate) max: bool,
    /// Of the stretch before, from each of its bars to its end.
    pub(crate) suffix: Vec<Best<L>>,
    pub(crate) prefix: Best<L>,
}

/// The greatest so far, and its bar. For the least, values are negated.
#[derive(Clone, Copy)]
pub(crate) struct Best<const L: usize> {
    value: Row<L>,
    bar: Row<L>,
}

impl<const L: usize> Best<L> {
    pub(crate) const NONE: Self = Best { value: [f64::NEG_INFINITY; L], bar: [-1.0; L] };

    /// One bar.
    #[inline(always)]
    fn at(x: &Row<L>, t: usize, max: bool) -> Self {
        let x = *x;
        let signed: Row<L> = row(|l| if max { x[l] } else { -x[l] });
        Best {
            value: row(|l| if x[l].is_nan() { f64::NEG_INFINITY } else { signed[l] }),
            bar: row(|l| if x[l].is_nan() { -1.0 } else { t as f64 }),
        }
    }

    /// The better of two; of equals the later.
    #[inline(always)]
    fn or_later(&self, later: &Self) -> Self {
        let (a, b) = (*self, *later);
        let take = |l: usize| (b.value[l] >= a.value[l]) & (b.bar[l] >= 0.0);
        Best {
            value: row(|l| if take(l) { b.value[l] } else { a.value[l] }),
            bar: row(|l| if take(l) { b.bar[l] } else { a.bar[l] }),
        }
    }
}

impl<const L: usize> Ago<L> {
    #[inline(always)]
    fn run(&mut self, block: &mut Block<'_, L>, max: bool) {
        let from = block.head();
        let (n, a, t1) = (self.n, block.a(), block.t1);
        let origin = block.start + 1 - n;
        if from == block.start && from < t1 {
            self.prefix = Best::NONE;
            for (t, x) in (origin..from).zip(a.range(origin, from)) {
                self.prefix = self.prefix.or_later(&Best::at(x, t, max));
            }
        }
        let mut t = from;
        while t < t1 {
            let at = (t - origin) % n;
            if at == 0 {
                if t > origin {
                    self.turn(a.range(t - n, t), t - n, max);
                }
                self.prefix = Best::NONE;
            }
            let end = (t + n - at).min(t1);
            let before = if t >= origin + n { self.suffix.get(at + 1..).unwrap_or(&[]) } else { &[] };
            let mut prefix = self.prefix;
            for (i, (new, out)) in a.range(t, end).iter().zip(block.out(t)).enumerate() {
                prefix = prefix.or_later(&Best::at(new, t + i, max));
                let best = before.get(i).map_or(prefix, |s| s.or_later(&prefix));
                *out = row(|l| if best.bar[l] < 0.0 { (n - 1) as f64 } else { (t + i) as f64 - best.bar[l] });
            }
            self.prefix = prefix;
            t = end;
        }
    }

    /// The stretch that ended becomes the one before.
    #[inline(always)]
    fn turn(&mut self, stretch: &[Row<L>], first: usize, max: bool) {
        self.suffix.resize(self.n, Best::NONE);
        let mut best = Best::NONE;
        for (i, (slot, x)) in self.suffix.iter_mut().zip(stretch).enumerate().rev() {
            best = Best::at(x, first + i, max).or_later(&best);
            *slot = best;
        }
    }
}

impl<const L: usize> Body<L> for Ago<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if self.max { self.run(block, true) } else { self.run(block, false) }
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
const LITTLE: f64 = 1e-5;

impl<const L: usize> Moments<L> {
    #[inline(always)]
    fn add<const PAIR: bool>(&mut self, x: &Row<L>, y: &Row<L>, sign: f64) {
        let (x, y, s) = (*x, *y, *self);
        let dx: Row<L> = row(|l| x[l] - s.anchor.0[l]);
        let dy: Row<L> = if PAIR { row(|l| y[l] - s.anchor.1[l]) } else { dx };
        self.a = row(|l| s.a[l] + sign * dx[l]);
        self.b = if PAIR { row(|l| s.b[l] + sign * dy[l]) } else { self.a };
        self.ab = row(|l| s.ab[l] + sign * (dx[l] * dy[l]));
    }

    /// Sum of the products of the distances from the means.
    #[inline(always)]
    fn central(&self, n: f64) -> Row<L> {
        let s = *self;
        row(|l| s.ab[l] - s.a[l] * s.b[l] / n)
    }
}

/// Central co-moment of the last `n` of two values, or of one with itself.
#[inline(always)]
fn moments<const L: usize, const PAIR: bool>(
    block: &mut Block<'_, L>,
    n: usize,
    kept: &mut Moments<L>,
    finish: impl Fn(f64) -> f64,
) {
    let mut from = block.head();
    let (a, t1, start) = (block.a(), block.t1, block.start);
    let b = if PAIR { block.b() } else { a };
    let mut state = *kept;
    while from < t1 {
        let since = (from - start) % RENEW;
        let to = (from + RENEW - since).min(t1);
        if since == 0 {
            state = Moments { anchor: (*a.at(from), *b.at(from)), ..Moments::default() };
            for (x, y) in a.range(from + 1 - n, from + 1).iter().zip(b.range(from + 1 - n, from + 1)) {
                state.add::<PAIR>(x, y, 1.0);
            }
        }
        let news = a.range(from, to).iter().zip(b.range(from, to));
        // The first bar after a renewal takes nothing off; what it would take off may lie before the input's first.
        let first = from + usize::from(since == 0) - n;
        let mut olds = a.range(first, to - n).iter().zip(b.range(first, to - n));
        for ((i, (x, y)), out) in news.enumerate().zip(block.out(from)) {
            if since + i > 0 {
                state.add::<PAIR>(x, y, 1.0);
                if let Some((x, y)) = olds.next() {
                    state.add::<PAIR>(x, y, -1.0);
                }
            }
            let mut central = state.central(n as f64);
            if lost(&mut state, &central) {
                let window = from + i + 1 - n..from + i + 1;
                let (a, b) = (a.range(window.start, window.end), b.range(window.start, window.end));
                afresh(&state, &mut central, a, b);
            }
            *out = row(|l| finish(central[l]));
        }
        from = to;
    }
    *kept = state;
}

/// Have the running sums lost some lane's digits?
#[inline(always)]
fn lost<const L: usize>(state: &mut Moments<L>, central: &Row<L>) -> bool {
    let (ab, peak, central) = (state.ab, state.peak, *central);
    let peak: Row<L> = row(|l| if ab[l].abs() > peak[l] { ab[l].abs() } else { peak[l] });
    state.peak = peak;
    let little: Row<L> = row(|l| if central[l].abs() < LITTLE * peak[l] { 1.0 } else { 0.0 });
    little.iter().sum::<f64>() > 0.0
}

/// Sums the products of a window in two passes where the running sums have lost them: after a jump has left the window.
#[cold]
fn afresh<const L: usize>(state: &Moments<L>, central: &mut Row<L>, a: &[Row<L>], b: &[Row<L>]) {
    let newest = |x: &[Row<L>], l: usize| x.last().map_or(0.0, |row| row[l]);
    for l in 0..L {
        // The same question as above, so that a NaN is left alone whatever its neighbours are.
        if central[l].abs() < LITTLE * state.peak[l] {
            let (x0, y0) = (newest(a, l), newest(b, l));
            let mean = |x: &[Row<L>], x0: f64| x.iter().map(|x| x[l] - x0).sum::<f64>() / x.len() as f64;
            let (mx, my) = (mean(a, x0), mean(b, y0));
            central[l] = a.iter().zip(b).map(|(x, y)| (x[l] - x0 - mx) * (y[l] - y0 - my)).sum();
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
        moments::<L, false>(block, self.n, &mut self.state, |c| if c < 0.0 { 0.0 } else { c / n });
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
        moments::<L, true>(block, self.n, &mut self.state, |c| c);
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
            *out = row(|l| sum[l] / n as f64);
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
        *out = row(|l| sum[l] / n as f64);
    }
}

/// The `k`-th least of the last `n`.
pub(crate) struct Order<const L: usize> {
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// The window of each series in ascending order; a NaN stands last.
    pub(crate) sorted: [Vec<f64>; L],
    /// How many of them are NaN.
    pub(crate) nans: [usize; L],
}

/// Windows up to this long are counted through, which vector instructions do at once; longer ones are searched.
const COUNTED: usize = 128;

/// How many values of an ordered window are less.
#[inline(always)]
fn less(sorted: &[f64], x: f64) -> usize {
    match sorted.len() {
        ..=COUNTED => sorted.iter().map(|y| u64::from(*y < x)).sum::<u64>() as usize,
        _ => sorted.partition_point(|y| *y < x),
    }
}

/// One value leaves an ordered window, another comes: what lies between them moves by one.
#[inline(always)]
fn exchange(sorted: &mut [f64], old: f64, new: f64) {
    let (from, to) = (less(sorted, old), less(sorted, new));
    let to = if to > from {
        sorted.copy_within(from + 1..to, from);
        to - 1
    } else {
        sorted.copy_within(to..from.min(sorted.len().saturating_sub(1)), to + 1);
        to
    };
    if let Some(slot) = sorted.get_mut(to) {
        *slot = new;
    }
}

impl<const L: usize> Body<L> for Order<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, k, a, t1, start) = (self.n, self.k, block.a(), block.t1, block.start);
        // A NaN stands where the greatest would; while there is one, none of the others has a place.
        let value = |x: f64| if x.is_nan() { f64::INFINITY } else { x };
        for (t, out) in (from..t1).zip(block.out(from)) {
            let mut found = [f64::NAN; L];
            for l in 0..L {
                let (sorted, nans) = (&mut self.sorted[l], &mut self.nans[l]);
                if t == start {
                    let window = a.range(t + 1 - n, t + 1);
                    sorted.clear();
                    sorted.extend(window.iter().map(|x| value(x[l])));
                    sorted.sort_by(f64::total_cmp);
                    *nans = window.iter().filter(|x| x[l].is_nan()).count();
                } else {
                    let (old, new) = (a.at(t - n)[l], a.at(t)[l]);
                    *nans = *nans + usize::from(new.is_nan()) - usize::from(old.is_nan());
                    exchange(sorted, value(old), value(new));
                }
                if *nans == 0 {
                    found[l] = sorted.get(k).copied().unwrap_or(f64::NAN);
                }
            }
            *out = found;
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
