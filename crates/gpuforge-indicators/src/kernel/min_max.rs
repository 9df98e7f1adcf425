//! What is the greatest or least of the last `n` bars, and how long ago was it? Of equals it is the latest.
//!
//! Both forget a NaN when it leaves the window. Looking for one in every comparison would take twice as long as the
//! comparison: new bars are looked through once, and the careful comparisons are used only while one is in a window.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

mod doubling;

use super::{
    Block, Body, Row, row,
    van_herk::{Join, Stretches, windows},
};

/// Windows of one series up to this long are joined from ever longer ones, which vector instructions do for several bars at
/// once; in longer ones that takes more steps than stretches do.
const DOUBLED: usize = 256;

/// Windows of several series up to this long are joined bar by bar.
const AT_ONCE: usize = 4;

/// Until which bar is there a NaN in the window?
#[derive(Clone, Default)]
struct Watch {
    until: usize,
}

impl Watch {
    /// Looks through a block's new bars. May one of its windows have a NaN?
    #[inline(always)]
    fn look<const L: usize>(&mut self, block: &Block<'_, L>, n: usize) -> bool {
        let from = block.start.clamp(block.t0, block.t1);
        let first = if from == block.start { from + 1 - n } else { from };
        if from < block.t1 && any_nan(block.a().range(first, block.t1)) {
            self.until = block.t1 + n;
        }
        from < self.until
    }
}

#[inline(always)]
fn any_nan<const L: usize>(rows: &[Row<L>]) -> bool {
    // A comparison asks both of its values.
    let (first, second) = rows.as_flattened().split_at(rows.len() * L / 2);
    let pairs = first.iter().zip(second).fold(false, |seen, (a, b)| seen | a.is_nan() | b.is_nan());
    pairs | second.last().is_some_and(|x| x.is_nan())
}

/// The greater (or lesser) of two, of equals the later; a NaN if there may be one and is.
#[inline(always)]
fn outer<const MAX: bool, const NAN: bool>(earlier: f64, later: f64) -> f64 {
    let first = if MAX { earlier > later } else { earlier < later };
    if first | (NAN & earlier.is_nan()) { earlier } else { later }
}

/// Joins of [`RollingMinMax`].
struct Outer<const MAX: bool, const NAN: bool>;

impl<const L: usize, const MAX: bool, const NAN: bool> Join<L> for Outer<MAX, NAN> {
    type Part = Row<L>;
    const NONE: Row<L> = [if MAX { f64::NEG_INFINITY } else { f64::INFINITY }; L];

    #[inline(always)]
    fn one(x: &Row<L>, _t: usize) -> Row<L> {
        *x
    }

    #[inline(always)]
    fn join(earlier: &Row<L>, later: &Row<L>) -> Row<L> {
        let (a, b) = (*earlier, *later);
        row(|l| outer::<MAX, NAN>(a[l], b[l]))
    }

    #[inline(always)]
    fn result(part: &Row<L>, _t: usize, _n: usize) -> Row<L> {
        *part
    }
}

/// Greatest or least of the last `n`.
#[derive(Clone)]
pub(crate) struct RollingMinMax<const L: usize> {
    n: usize,
    max: bool,
    watch: Watch,
    kept: Stretches<Row<L>>,
    /// Windows on their way to their length.
    steps: [Vec<f64>; 2],
}

impl<const L: usize> RollingMinMax<L> {
    pub(crate) fn new(n: usize, max: bool) -> Self {
        RollingMinMax {
            n,
            max,
            watch: Watch::default(),
            kept: Stretches::default(),
            steps: Default::default(),
        }
    }

    #[inline(always)]
    fn run<const MAX: bool, const NAN: bool>(&mut self, block: &mut Block<'_, L>) {
        if self.n > if L > 1 { AT_ONCE } else { DOUBLED } {
            return windows::<L, Outer<MAX, NAN>>(block, self.n, &mut self.kept);
        }
        let from = block.head();
        if from < block.t1 {
            let all = block.a().range(from + 1 - self.n, block.t1).as_flattened();
            let out = block.out(from).as_flattened_mut();
            grow::<L>(all, out, self.n, &mut self.steps, (1, 0), outer::<MAX, NAN>);
        }
    }

    /// One series, its first windows doubled in registers, which also find a NaN: `false` where there is one, or no such
    /// registers, and nothing is done.
    #[inline(always)]
    fn doubled<const MAX: bool>(&mut self, block: &mut Block<'_, L>) -> bool {
        if L > 1 || !(2..=DOUBLED).contains(&self.n) {
            return false;
        }
        let from = block.head();
        let all = block.a().range(from + 1 - self.n, block.t1).as_flattened();
        let (simd, now) = (block.simd, &mut self.steps[0]);
        let width = (1 << self.n.ilog2()).min(doubling::WIDEST);
        now.resize(all.len().max(now.len()), 0.0);
        if from < block.t1 {
            if !doubling::trailing::<MAX>(all, now.get_mut(..all.len()).unwrap_or_default(), width, simd) {
                return false;
            }
            // A window is at its last bar.
            let out = block.out(from).as_flattened_mut();
            grow::<L>(all, out, self.n, &mut self.steps, (width, width - 1), outer::<MAX, false>);
        }
        true
    }
}

impl<const L: usize> Body<L> for RollingMinMax<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        if if self.max { self.doubled::<true>(block) } else { self.doubled::<false>(block) } {
            return;
        }
        match (self.max, self.watch.look(block, self.n)) {
            (true, false) => self.run::<true, false>(block),
            (false, false) => self.run::<false, false>(block),
            (true, true) => self.run::<true, true>(block),
            (false, true) => self.run::<false, true>(block),
        }
    }
}

/// Joins windows of `n` from four shorter ones, those from four still shorter ones, down to those of `width` that are there:
/// bars, or what is in the first of `steps` after some others.
#[inline(always)]
fn grow<const L: usize>(
    all: &[f64],
    out: &mut [f64],
    n: usize,
    steps: &mut [Vec<f64>; 2],
    (mut width, mut skip): (usize, usize),
    join: impl Fn(f64, f64) -> f64,
) {
    let [now, next] = steps;
    while 4 * width < n {
        let len = all.len().saturating_sub((4 * width - 1) * L);
        next.resize(len.max(next.len()), 0.0);
        let from = if width == 1 { all } else { now.get(skip..).unwrap_or(&[]) };
        four::<L>(from, next.get_mut(..len).unwrap_or_default(), width, 4 * width, &join);
        std::mem::swap(now, next);
        (width, skip) = (4 * width, 0);
    }
    let from = if width == 1 { all } else { now.get(skip..).unwrap_or(&[]) };
    four::<L>(from, out, width, n, &join);
}

/// Windows of `n` from four of `width`, which may overlap.
#[inline(always)]
fn four<const L: usize>(
    from: &[f64],
    to: &mut [f64],
    width: usize,
    n: usize,
    join: &impl Fn(f64, f64) -> f64,
) {
    let part = |i: usize| from.get((i * width).min(n - width) * L..).and_then(|x| x.get(..to.len()));
    let (Some(a), Some(b), Some(c), Some(d)) = (part(0), part(1), part(2), part(3)) else { return };
    if n <= 2 * width {
        for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
            *to = join(*a, *b);
        }
        return;
    }
    for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *to = join(join(*a, *b), join(*c, *d));
    }
}

/// An extreme and its bar, lane by lane; a bar below 0 is none.
#[derive(Clone, Copy)]
pub(crate) struct Best<const L: usize> {
    value: Row<L>,
    bar: Row<L>,
}

/// Is the later of two the better, or as good? A NaN is no candidate.
#[inline(always)]
fn is_later<const MAX: bool, const NAN: bool>(earlier: f64, later: f64, bar: f64) -> bool {
    let better = if MAX { later >= earlier } else { later <= earlier };
    better & (!NAN | (bar >= 0.0))
}

/// How long ago; where no bar was a candidate, the oldest is named.
#[inline(always)]
fn ago<const NAN: bool>(bar: f64, t: f64, n: usize) -> f64 {
    if NAN & (bar < 0.0) { (n - 1) as f64 } else { t - bar }
}

/// Joins of [`RollingArgMinMax`].
struct Latest<const MAX: bool, const NAN: bool>;

impl<const L: usize, const MAX: bool, const NAN: bool> Join<L> for Latest<MAX, NAN> {
    type Part = Best<L>;
    const NONE: Best<L> =
        Best { value: [if MAX { f64::NEG_INFINITY } else { f64::INFINITY }; L], bar: [-1.0; L] };

    #[inline(always)]
    fn one(x: &Row<L>, t: usize) -> Best<L> {
        let (x, none) = (*x, <Self as Join<L>>::NONE);
        let known = |l: usize| !(NAN & x[l].is_nan());
        Best {
            value: row(|l| if known(l) { x[l] } else { none.value[l] }),
            bar: row(|l| if known(l) { t as f64 } else { none.bar[l] }),
        }
    }

    #[inline(always)]
    fn join(earlier: &Best<L>, later: &Best<L>) -> Best<L> {
        let (a, b) = (*earlier, *later);
        let take = |l: usize| is_later::<MAX, NAN>(a.value[l], b.value[l], b.bar[l]);
        Best {
            value: row(|l| if take(l) { b.value[l] } else { a.value[l] }),
            bar: row(|l| if take(l) { b.bar[l] } else { a.bar[l] }),
        }
    }

    #[inline(always)]
    fn result(part: &Best<L>, t: usize, n: usize) -> Row<L> {
        let bar = part.bar;
        row(|l| ago::<NAN>(bar[l], t as f64, n))
    }
}

/// Bars since the greatest or least of the last `n`.
#[derive(Clone)]
pub(crate) struct RollingArgMinMax<const L: usize> {
    n: usize,
    max: bool,
    watch: Watch,
    kept: Stretches<Best<L>>,
    /// Windows on their way to their length: their extremes, and where those are.
    values: [Vec<f64>; 2],
    bars: [Vec<f64>; 2],
}

impl<const L: usize> RollingArgMinMax<L> {
    pub(crate) fn new(n: usize, max: bool) -> Self {
        let (watch, kept) = (Watch::default(), Stretches::default());
        RollingArgMinMax { n, max, watch, kept, values: Default::default(), bars: Default::default() }
    }

    #[inline(always)]
    fn run<const MAX: bool, const NAN: bool>(&mut self, block: &mut Block<'_, L>) {
        if L > 1 || self.n > DOUBLED {
            return windows::<L, Latest<MAX, NAN>>(block, self.n, &mut self.kept);
        }
        let (from, n) = (block.head(), self.n);
        if from < block.t1 {
            let first = from + 1 - n;
            let all = block.a().range(first, block.t1).as_flattened();
            self.double::<MAX, NAN>(all, first);
            let found = self.bars.first().map_or(&[] as &[f64], Vec::as_slice);
            for ((out, bar), t) in block.out(from).as_flattened_mut().iter_mut().zip(found).zip(from..) {
                *out = ago::<NAN>(*bar, t as f64, n);
            }
        }
    }

    /// Joins windows of `n` from two shorter ones, down to bars.
    #[inline(always)]
    fn double<const MAX: bool, const NAN: bool>(&mut self, all: &[f64], first: usize) {
        let none = if MAX { f64::NEG_INFINITY } else { f64::INFINITY };
        let ([values, next_values], [bars, next_bars]) = (&mut self.values, &mut self.bars);
        for kept in [&mut *values, next_values, bars, next_bars] {
            // Room for whole eights: what lies beyond the last bar is joined and never looked at.
            kept.resize((all.len() + 8).max(kept.len()), 0.0);
        }
        for (((value, bar), x), t) in values.iter_mut().zip(bars.iter_mut()).zip(all).zip(first..) {
            let known = !(NAN & x.is_nan());
            (*value, *bar) = if known { (*x, t as f64) } else { (none, -1.0) };
        }
        let mut width = 1;
        while width < self.n {
            let longer = (2 * width).min(self.n);
            let by = longer - width;
            two::<MAX, NAN>((values, bars), by, (next_values, next_bars));
            std::mem::swap(values, next_values);
            std::mem::swap(bars, next_bars);
            width = longer;
        }
    }
}

/// Joins each window with the one that begins `by` bars later. Eight at a time, as values: a choice of two places to read
/// from would be made one by one.
#[inline(always)]
fn two<const MAX: bool, const NAN: bool>(from: (&[f64], &[f64]), by: usize, to: (&mut [f64], &mut [f64])) {
    let later = |x| -> &[[f64; 8]] { <[f64]>::get(x, by..).unwrap_or(&[]).as_chunks::<8>().0 };
    let earlier = from.0.as_chunks::<8>().0.iter().zip(from.1.as_chunks::<8>().0);
    let later = later(from.0).iter().zip(later(from.1));
    let to = to.0.as_chunks_mut::<8>().0.iter_mut().zip(to.1.as_chunks_mut::<8>().0);
    for ((to, a), b) in to.zip(earlier).zip(later) {
        let a = Best { value: *a.0, bar: *a.1 };
        let best = <Latest<MAX, NAN> as Join<8>>::join(&a, &Best { value: *b.0, bar: *b.1 });
        (*to.0, *to.1) = (best.value, best.bar);
    }
}

impl<const L: usize> Body<L> for RollingArgMinMax<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match (self.max, self.watch.look(block, self.n)) {
            (true, false) => self.run::<true, false>(block),
            (false, false) => self.run::<false, false>(block),
            (true, true) => self.run::<true, true>(block),
            (false, true) => self.run::<false, true>(block),
        }
    }
}
