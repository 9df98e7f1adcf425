//! How is one series computed faster than its chains from bar to bar allow? Each chain as several, over stretches of the block
//! that do not wait for each other.
//!
//! A moving sum begins anew with its window, a mean some bars early from nothing, until what was before is less than the last
//! digits. Where a stretch ends, what it remembers has to be what the next one began with, to twelve digits; from there on it is
//! computed again where it is not (a NaN that stays, a sum that is next to nothing). So values differ in their last digits from
//! those of one chain: only who says that this is enough gets them (see [`crate::exec::How::loose`]).
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "slices are cut to the length that is counted to"
)]

use crate::graph::NodeOp;

use super::{
    Block, Body, Row, Rows,
    recur::{CumSum, Ema, Wilder},
    sum::{RampSum, Sum, Total},
    turn,
};

/// Time constants after which what was before is less than the last digits.
const FORGOTTEN: f64 = 33.0;
/// By what share states may differ where stretches meet.
const NEAR: f64 = 1e-12;
/// Stretches at a time.
const MANY: usize = 8;
const SOME: usize = 4;
/// Bytes of a page, numbers of a line.
const PAGE: usize = 4096;
const LINE: usize = 8;

/// What goes from bar to bar.
pub(crate) trait Chain: Body<1> {
    /// The next state and the value of a bar; `old` is the value `back` bars before.
    fn step(&self, state: f64, new: f64, old: f64) -> (f64, f64);

    /// How far back the value is that leaves.
    fn back(&self) -> usize {
        0
    }

    /// Bars that a stretch begins early.
    fn early(&self) -> usize {
        0
    }

    /// The state before bar `t`, from nothing; `before` is the state before the first stretch with the values since.
    fn begin(&self, a: Rows<'_, 1>, t: usize, before: f64) -> f64;

    /// Does a stretch rest on the sum of those before it?
    const ADDS_UP: bool = false;

    fn state(&mut self) -> &mut f64;
}

/// Bars that a stretch of a chain begins early.
pub(crate) fn early(prim: &NodeOp) -> usize {
    match prim {
        NodeOp::Ema { k, .. } => constant(k.get()),
        NodeOp::Wilder { n, .. } => constant(1.0 / *n as f64),
        _ => 0,
    }
}

fn constant(k: f64) -> usize {
    if k > 0.0 && k <= 1.0 { (FORGOTTEN / k).ceil().min(1e9) as usize } else { usize::MAX / 4 }
}

impl Chain for Ema<1> {
    #[inline(always)]
    fn step(&self, y: f64, new: f64, _: f64) -> (f64, f64) {
        let y = (new - y) * self.k + y;
        (y, y)
    }

    fn early(&self) -> usize {
        constant(self.k)
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        a.at(t - 1)[0]
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.y[0]
    }
}

impl Chain for Wilder<1> {
    #[inline(always)]
    fn step(&self, y: f64, new: f64, _: f64) -> (f64, f64) {
        let y = (new - y) * (1.0 / self.n) + y;
        (y, y)
    }

    fn early(&self) -> usize {
        constant(1.0 / self.n)
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        a.at(t - 1)[0]
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.y[0]
    }
}

impl Chain for Sum<1> {
    #[inline(always)]
    fn step(&self, rest: f64, new: f64, old: f64) -> (f64, f64) {
        let sum = rest + new;
        (sum - old, sum)
    }

    fn back(&self) -> usize {
        self.n - 1
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        total(a.range(t + 1 - self.n, t))
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.rest[0]
    }
}

impl Chain for Total<1> {
    #[inline(always)]
    fn step(&self, sum: f64, new: f64, old: f64) -> (f64, f64) {
        let sum = sum + (new - old);
        (sum, sum)
    }

    fn back(&self) -> usize {
        self.n
    }

    #[inline(always)]
    fn begin(&self, a: Rows<'_, 1>, t: usize, _: f64) -> f64 {
        total(a.range(t - self.n, t))
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.sum[0]
    }
}

impl Chain for CumSum<1> {
    const ADDS_UP: bool = true;

    #[inline(always)]
    fn step(&self, y: f64, new: f64, _: f64) -> (f64, f64) {
        let y = y + new;
        (y, y)
    }

    #[inline(always)]
    fn begin(&self, _: Rows<'_, 1>, _: usize, before: f64) -> f64 {
        before
    }

    fn state(&mut self) -> &mut f64 {
        &mut self.y[0]
    }
}

/// A sum in no particular order.
#[inline(always)]
fn total(rows: &[Row<1>]) -> f64 {
    let (eights, rest) = rows.as_flattened().as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for i in 0..8 {
            sums[i] += eight[i];
        }
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

/// A chain that is cut where that is worth it.
#[derive(Clone)]
pub(crate) struct Pieces<C>(pub(crate) C);

impl<C: Chain> Body<1> for Pieces<C> {
    fn carried(&mut self, at: usize) -> Option<&mut Row<1>> {
        self.0.carried(at)
    }

    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, 1>) {
        let bars = block.t1 - block.t0;
        let least = (self.0.early() + 1).max(64);
        let inside = block.t0 > block.start;
        let done = match inside {
            true if bars / MANY >= least => self.cut::<MANY>(block, apart(bars / MANY, least)),
            true if bars / SOME >= least => self.cut::<SOME>(block, apart(bars / SOME, least)),
            _ => 0,
        };
        if done == 0 {
            self.0.body(block);
        } else {
            self.rest(block, block.t0 + done);
        }
    }
}

/// So many bars, or a line fewer: stretches that begin a whole number of pages apart share the same few lines of the first cache,
/// and an exponential mean of 100 000 bars took five times as long.
fn apart(bars: usize, least: usize) -> usize {
    let shares = (bars * size_of::<f64>()).is_multiple_of(PAGE) && bars >= least + LINE;
    if shares { bars - LINE } else { bars }
}

impl<C: Chain> Pieces<C> {
    /// The bars from `from` on, one after the other.
    #[inline(always)]
    fn rest(&mut self, block: &mut Block<'_, 1>, from: usize) {
        let back = self.0.back();
        let (new, old) = (block.a().range(from, block.t1), block.a().range(from - back, block.t1 - back));
        let mut state = *self.0.state();
        for ((out, new), old) in block.out(from).iter_mut().zip(new).zip(old) {
            let (next, y) = self.0.step(state, new[0], old[0]);
            (state, out[0]) = (next, y);
        }
        *self.0.state() = state;
    }

    /// `N` stretches of `each` bars; how many bars were done.
    #[inline(always)]
    fn cut<const N: usize>(&mut self, block: &mut Block<'_, 1>, each: usize) -> usize {
        let (a, t0, back, early) = (block.a(), block.t0, self.0.back(), self.0.early());
        let first = |p: usize| t0 + p * each;
        let begun = *self.0.state();
        let mut state = [begun; N];
        let mut sum = begun;
        for p in 1..N {
            if C::ADDS_UP {
                sum += total(a.range(first(p - 1), first(p)));
            }
            state[p] = self.0.begin(a, first(p) - early, sum);
        }
        let new = a.range(t0, first(N)).as_flattened();
        let old = a.range(t0 - back, first(N) - back).as_flattened();
        let out = block.out(t0).as_flattened_mut();
        if [new.len(), old.len(), out.len().min(N * each)] != [N * each; 3] || early >= each {
            return 0;
        }
        // The first has nothing to catch up with; what it computes meanwhile is not used.
        for i in each - early..each {
            for p in 0..N {
                state[p] = self.0.step(state[p], at(new, p.saturating_sub(1) * each + i), 0.0).0;
            }
        }
        state[0] = begun;
        let began = state;
        for i in 0..each {
            for p in 0..N {
                let (next, y) = self.0.step(state[p], at(new, p * each + i), at(old, p * each + i));
                state[p] = next;
                put(out, p * each + i, y);
            }
        }
        // The first that did not begin with what the one before it ended with: all from there on is computed again.
        let good = (1..N).find(|p| !near(state[p - 1], began[*p])).unwrap_or(N);
        *self.0.state() = state[good - 1];
        good * each
    }
}

/// A number of a slice that is longer than that.
#[inline(always)]
fn at(numbers: &[f64], i: usize) -> f64 {
    #[allow(unsafe_code, reason = "three comparisons a bar take as long as all the rest")]
    // SAFETY: the two callers see that slices are as long as they count to.
    unsafe {
        *numbers.get_unchecked(i)
    }
}

/// Writes a number of a slice that is longer than that.
#[inline(always)]
fn put(numbers: &mut [f64], i: usize, x: f64) {
    #[allow(unsafe_code, reason = "as above")]
    // SAFETY: as above.
    unsafe {
        *numbers.get_unchecked_mut(i) = x;
    }
}

#[inline(always)]
fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= NEAR * a.abs().max(b.abs())
}

/// A sum with weights, which begins anew every so many bars anyway: stretches between those are the same to the last bit.
#[derive(Clone)]
pub(crate) struct Ramps(pub(crate) RampSum<1>);

impl Body<1> for Ramps {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, 1>) {
        let (n, start, t1) = (self.0.n, block.start, block.t1);
        let renew = self.0.renew();
        let mut from = block.head();
        // Up to where it begins anew.
        if from > start && from < t1 {
            let to = (from + (renew - (from - start) % renew) % renew).min(t1);
            self.0.stretch(block, from, to);
            from = to;
        }
        while from + SOME * renew <= t1 {
            let a = block.a();
            let first = |p: usize| from + p * renew;
            let mut sums: [RampSum<1>; SOME] = std::array::from_fn(|p| {
                let mut one = self.0.clone();
                one.begin(a.range(first(p) + 1 - n, first(p)));
                one
            });
            let all = SOME * renew;
            let new = a.range(from, from + all).as_flattened();
            let old = a.range(from + 1 - n, from + all + 1 - n).as_flattened();
            let out = block.out(from).as_flattened_mut();
            if [new.len(), old.len(), out.len().min(all)] != [all; 3] {
                break;
            }
            for i in 0..renew {
                if i.is_multiple_of(LINE) {
                    // The next stretches' bars, which would be waited for: nobody else asks for them.
                    (0..SOME).for_each(|p| turn::ask(new.as_ptr().wrapping_add(all + p * renew + i)));
                }
                for p in 0..SOME {
                    let (new, old) = (at(new, p * renew + i), at(old, p * renew + i));
                    put(out, p * renew + i, sums[p].step([new], [old])[0]);
                }
            }
            let [.., last] = sums;
            self.0 = last;
            from += SOME * renew;
        }
        self.0.stretch(block, from, t1);
    }
}
