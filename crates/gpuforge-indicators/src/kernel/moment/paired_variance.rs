//! Rolling variance of one series, two bars to a register (relaxed floating point).
//!
//! As [`super::RollingVariance`]: sums of distances from an anchor, renewed at the same bars, recomputed from the window where
//! they have cancelled. They are already divided by the length of the window: the mean distance, and the mean of its square.

use super::{CANCELLATION, RECOMPUTE_PERIOD, two_pass};
use crate::kernel::{
    Block, Body,
    pair::{HalfPair, MANY, Pair, PairLoop, Units, for_each_pair, run_pairs, store_pairs},
};

/// Rolling population variance, or the standard deviation.
#[derive(Clone)]
pub(crate) struct PairedVariance<P> {
    n: usize,
    /// Is the result the square root?
    root: bool,
    sums: Option<Sums<P>>,
    half: HalfPair,
}

impl<P> PairedVariance<P> {
    pub(crate) fn new(n: usize, root: bool) -> Self {
        PairedVariance { n, root, sums: None, half: None }
    }
}

/// Of the window of each bar of the last pair: mean distance from the anchor, and mean of its square.
#[derive(Clone, Copy)]
struct Sums<P> {
    anchor: P,
    mean: P,
    square: P,
    /// Max of the squares since the anchor was renewed, of the first and of the second bars of pairs.
    peak: P,
}

impl<P: Pair> Sums<P> {
    /// From a window, around its newest value.
    #[inline(always)]
    fn of(window: &[f64], share: f64) -> Self {
        let anchor = P::splat(window.last().copied().unwrap_or(0.0));
        let (mut sum, mut squares) = (P::splat(0.0), P::splat(0.0));
        let (twos, rest) = window.as_chunks::<2>();
        let rest = rest.first().map(|x| [*x, anchor.last()]);
        for two in twos.iter().chain(&rest) {
            let distance = P::new(*two).sub(anchor);
            sum = sum.add(distance);
            squares = squares.add(distance.mul(distance));
        }
        let total = |x: P| {
            let [a, b] = x.bars();
            P::splat((a + b) * share)
        };
        let (mean, square) = (total(sum), total(squares));
        Sums { anchor, mean, square, peak: square }
    }

    /// May be negative where the squares have cancelled.
    #[inline(always)]
    fn variance(&self) -> P {
        self.square.sub(self.mean.mul(self.mean))
    }

    /// Two bars enter the window, two leave.
    #[inline(always)]
    fn slide(&mut self, new: P, old: P, (share, units): (P, Units<P>)) -> P {
        let (new, old) = (new.sub(self.anchor), old.sub(self.anchor));
        let change = new.sub(old).mul(share);
        let squares = new.add(old).mul(change);
        self.mean = change.running_sum(self.mean, units);
        self.square = squares.running_sum(self.square, units);
        self.peak = self.peak.max_number(self.square);
        self.variance()
    }
}

/// The loop over the bars between two renewals.
#[derive(Clone, Copy)]
struct Loop<'b, P, const ROOT: bool> {
    sums: Sums<P>,
    /// The reciprocal of the length of the window, and those of a running sum.
    factors: (P, Units<P>),
    threshold: P,
    /// Every bar from the first window on, and the length of a window.
    all: &'b [f64],
    n: usize,
    /// Where the window of the next bar begins.
    at: usize,
}

impl<P: Pair, const ROOT: bool> Loop<'_, P, ROOT> {
    #[inline(always)]
    fn finish(variance: P) -> P {
        if ROOT { variance.sqrt() } else { variance }
    }
}

/// Recomputes those of two bars that are below their limit, because the sums have cancelled. A NaN is left alone.
#[cold]
#[inline(never)]
fn repair(mut bars: [f64; 2], limits: [f64; 2], (all, n, at): (&[f64], usize, usize)) -> [f64; 2] {
    for ((bar, limit), at) in bars.iter_mut().zip(limits).zip([at, at.wrapping_add(1)]) {
        let window = all.get(at..).and_then(|all| all.get(..n));
        if *bar < limit
            && let Some((window, _)) = window.map(<[f64]>::as_chunks::<1>)
        {
            *bar = two_pass((window, window), 0) / n as f64;
        }
    }
    bars
}

impl<P: Pair, const ROOT: bool> PairLoop for Loop<'_, P, ROOT> {
    #[inline(always)]
    fn many(&mut self, new: &[f64; MANY], old: &[f64; MANY], out: &mut [f64; MANY]) {
        let (mut sums, factors) = (self.sums, self.factors);
        let mut min = P::splat(f64::INFINITY);
        let found = for_each_pair(new, old, |new, old| {
            let variance = sums.slide(new, old, factors);
            min = min.min_number(variance);
            variance
        });
        if min.any_less(sums.peak.mul(self.threshold)) {
            let (new, old) = (new.as_chunks::<2>().0, old.as_chunks::<2>().0);
            for ((new, old), out) in new.iter().zip(old).zip(out.as_chunks_mut::<2>().0) {
                *out = self.two(*new, *old);
            }
            return;
        }
        self.sums = sums;
        self.at = self.at.wrapping_add(MANY);
        let mut roots = found;
        roots.iter_mut().for_each(|x| *x = Self::finish(*x));
        store_pairs(roots, out);
    }

    #[inline(always)]
    fn two(&mut self, new: [f64; 2], old: [f64; 2]) -> [f64; 2] {
        let mut variance = self.sums.slide(P::new(new), P::new(old), self.factors);
        let limit = self.sums.peak.mul(self.threshold);
        if variance.any_less(limit) {
            variance = P::new(repair(variance.bars(), limit.bars(), (self.all, self.n, self.at)));
        }
        self.at = self.at.wrapping_add(2);
        Self::finish(variance).bars()
    }
}

impl<P: Pair + Send + 'static> PairedVariance<P> {
    #[inline(always)]
    fn run<const ROOT: bool>(&mut self, block: &mut Block<'_, 1>) {
        let (mut t, n, a) = (block.head(), self.n, block.a());
        let (t1, start, share) = (block.t1, block.start, 1.0 / n as f64);
        let finish = |sums: &Sums<P>| {
            let variance = sums.variance().last();
            Loop::<P, ROOT>::finish(P::splat(if variance < 0.0 { 0.0 } else { variance })).last()
        };
        while t < t1 {
            let since = (t - start) % RECOMPUTE_PERIOD;
            let to = (t + RECOMPUTE_PERIOD - since).min(t1);
            if since == 0 {
                let sums = Sums::of(a.range(t + 1 - n, t + 1).as_flattened(), share);
                (self.sums, self.half) = (Some(sums), None);
                if let Some([out]) = block.out(t).first_mut() {
                    *out = finish(&sums);
                }
                t += 1;
            }
            let Some(sums) = self.sums else { return };
            // One bar more, whose result is then computed around the next anchor: whole pairs.
            let end = (to + 1).min(t1);
            let all = a.range(t + 1 - n, end).as_flattened();
            let mut bars = Loop::<P, ROOT> {
                sums,
                factors: (P::splat(share), Units::new()),
                threshold: P::splat(CANCELLATION),
                all,
                n,
                // The first bar of a pair may have been the last of the block before.
                at: if self.half.is_some() { usize::MAX } else { 0 },
            };
            let (new, old) = (a.range(t, end).as_flattened(), a.range(t - n, end - n).as_flattened());
            let out = block.out(t).as_flattened_mut().get_mut(..end - t).unwrap_or_default();
            if [new.len(), old.len(), out.len()] != [end - t; 3] {
                return;
            }
            run_pairs(&mut bars, &mut self.half, (new, old, out));
            self.sums = Some(bars.sums);
            t = to;
        }
    }
}

impl<P: Pair + Send + 'static> Body<1> for PairedVariance<P> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, 1>) {
        if self.root { self.run::<true>(block) } else { self.run::<false>(block) }
    }
}
