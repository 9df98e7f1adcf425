//! Rolling sum with linear weights of one series, two bars to a register (relaxed floating point).
//!
//! As [`super::rolling_sum::LinearWeightedSum`], recomputed from the window at the same bars. The sum is kept with its sign
//! reversed, so that what each bar adds is one fused multiply-subtract; the divisor turns it back.

use super::{
    Block, Body,
    pair::{ArrayPair, HalfPair, MANY, Pair, PairLoop, Units, for_each_pair, run_pairs, store_pairs},
    rolling_sum::RECOMPUTE_WINDOWS,
};

/// Sum of the last `n` with linear weights 1..=n, divided by a constant.
#[derive(Clone)]
pub(crate) struct PairedWeightedSum<P> {
    n: usize,
    divisor: f64,
    sums: Sums<P>,
    half: HalfPair,
}

impl<P: Pair> PairedWeightedSum<P> {
    pub(crate) fn new(n: usize, divisor: f64) -> Self {
        let zero = P::splat(0.0);
        PairedWeightedSum { n, divisor, sums: Sums { plain: zero, negated: zero }, half: None }
    }
}

/// Plain and weighted sum of the window of each bar of the last pair; the weighted one with its sign reversed.
#[derive(Clone, Copy)]
struct Sums<P> {
    plain: P,
    negated: P,
}

impl<P: Pair> Sums<P> {
    /// From a window.
    #[inline(always)]
    fn of(window: &[f64]) -> Self {
        let (mut plain, mut weighted) = (P::splat(0.0), P::splat(0.0));
        let mut weights = P::new([1.0, 2.0]);
        let mut add = |two: &[f64; 2]| {
            let two = P::new(*two);
            plain = plain.add(two);
            weighted = weighted.sub_mul(two, weights);
            weights = weights.add(P::splat(2.0));
        };
        let (eights, rest) = window.as_chunks::<8>();
        eights.iter().for_each(|eight| eight.as_chunks::<2>().0.iter().for_each(&mut add));
        let (twos, rest) = rest.as_chunks::<2>();
        twos.iter().for_each(&mut add);
        rest.iter().for_each(|x| add(&[*x, 0.0]));
        let total = |x: P| {
            let [a, b] = x.bars();
            P::splat(a + b)
        };
        Sums { plain: total(plain), negated: total(weighted) }
    }
}

/// The loop over the bars between two recomputations.
#[derive(Clone, Copy)]
struct Loop<P> {
    sums: Sums<P>,
    n: P,
    divisor: P,
    units: Units<P>,
}

impl<P: Pair> Loop<P> {
    #[inline(always)]
    fn slide(&mut self, new: P, old: P) -> P {
        let plain = new.sub(old).running_sum(self.sums.plain, self.units);
        // Every value loses one of its weight; the newest comes in with `n` of it.
        let change = plain.lagged(self.sums.plain).sub_mul(new, self.n);
        self.sums = Sums { plain, negated: change.running_sum(self.sums.negated, self.units) };
        self.sums.negated.div(self.divisor)
    }
}

impl<P: Pair> PairLoop for Loop<P> {
    #[inline(always)]
    fn many(&mut self, new: &[f64; MANY], old: &[f64; MANY], out: &mut [f64; MANY]) {
        let mut bars = *self;
        let found = for_each_pair(new, old, |new, old| bars.slide(new, old));
        *self = bars;
        store_pairs(found, out);
    }

    #[inline(always)]
    fn two(&mut self, new: [f64; 2], old: [f64; 2]) -> [f64; 2] {
        self.slide(P::new(new), P::new(old)).bars()
    }
}

/// Bars of one run: the newest values, those that leave the window, the results.
type Bars<'b> = (&'b [f64], &'b [f64], &'b mut [f64]);

impl<P: Pair + Send + 'static> PairedWeightedSum<P> {
    /// Bars between two recomputations.
    #[inline(always)]
    fn run<Q: Pair>(&self, (new, old, out): Bars<'_>) -> (Sums<Q>, HalfPair) {
        let sums = Sums { plain: Q::new(self.sums.plain.bars()), negated: Q::new(self.sums.negated.bars()) };
        let (n, divisor) = (Q::splat(self.n as f64), Q::splat(-self.divisor));
        let mut bars = Loop { sums, n, divisor, units: Units::new() };
        let mut half = self.half;
        run_pairs(&mut bars, &mut half, (new, old, out));
        (bars.sums, half)
    }

    /// The same where a bar is not finite: an infinity is not multiplied by 0, which would make it NaN too early.
    #[cold]
    #[inline(never)]
    fn run_array(&self, bars: Bars<'_>) -> (Sums<ArrayPair>, HalfPair) {
        self.run::<ArrayPair>(bars)
    }
}

impl<P: Pair + Send + 'static> Body<1> for PairedWeightedSum<P> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, 1>) {
        let (mut t, n, a) = (block.head(), self.n, block.a());
        let (t1, start, period) = (block.t1, block.start, RECOMPUTE_WINDOWS * n);
        while t < t1 {
            let since = (t - start) % period;
            let to = (t + period - since).min(t1);
            if since == 0 {
                (self.sums, self.half) = (Sums::of(a.range(t + 1 - n, t + 1).as_flattened()), None);
                if let Some([out]) = block.out(t).first_mut() {
                    *out = self.sums.negated.last() / -self.divisor;
                }
                t += 1;
            }
            // One bar more, whose result is then recomputed: whole pairs.
            let end = (to + 1).min(t1);
            let (new, old) = (a.range(t, end).as_flattened(), a.range(t - n, end - n).as_flattened());
            let out = block.out(t).as_flattened_mut().get_mut(..end - t).unwrap_or_default();
            if [new.len(), old.len(), out.len()] != [end - t; 3] {
                return;
            }
            let (mut sums, mut half) = self.run::<P>((new, old, out));
            // A sum that is not finite stays so; that of half a pair is not kept.
            let half_is_finite = half.is_none_or(|(x, leaving)| x.is_finite() && leaving.is_finite());
            if !sums.plain.last().is_finite() || !half_is_finite {
                let (again, rest) = self.run_array((new, old, out));
                half = rest;
                sums = Sums { plain: P::new(again.plain.bars()), negated: P::new(again.negated.bars()) };
            }
            (self.sums, self.half) = (sums, half);
            t = to;
        }
    }
}
