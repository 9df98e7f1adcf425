//! Rolling order statistics (median, quantiles) and rolling rank, on sorted windows.
//!
//! A bar removes one value from the sorted window and inserts another: in one branch-free pass over all ranks, so that it
//! vectorises over series (or over ranks). While a window contains a NaN its order statistics are NaN; a rank never counts one.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes, and a rank below that of ranks"
)]

use super::{Block, Body, Row, row, window_fold};

/// Windows up to this long are updated in one pass; in longer ones both ranks are found by binary search.
const MAX_SINGLE_PASS: usize = 384;

/// Single series: windows up to this long gain nothing from SIMD over ranks (store-to-load forwarding).
const MAX_SCALAR_PASS: usize = 32;

/// Values at some ranks of the sorted window.
#[derive(Clone)]
pub(crate) struct RollingOrderStatistic<const L: usize> {
    n: usize,
    /// Ranks, from 0.
    ranks: Vec<usize>,
    window: SortedWindow<L>,
    /// Number of NaNs in the window; each sorts as infinity.
    nans: Row<L>,
}

/// A window in ascending order.
#[derive(Clone)]
enum SortedWindow<const L: usize> {
    /// Rows of all lanes, between the sentinels -∞ and ∞.
    Short { rows: Vec<Row<L>>, scratch: Vec<Row<L>> },
    /// One vector per lane.
    Long([Vec<f64>; L]),
}

/// Sort key: NaN sorts as infinity, both zeros are equal.
#[inline(always)]
fn sort_key<const L: usize>(x: &Row<L>) -> Row<L> {
    let x = *x;
    row(|l| if x[l].is_nan() { f64::INFINITY } else { x[l] + 0.0 })
}

impl<const L: usize> RollingOrderStatistic<L> {
    pub(crate) fn new(n: usize, ranks: &[usize]) -> Self {
        let window = if n <= MAX_SINGLE_PASS {
            SortedWindow::Short { rows: Vec::new(), scratch: Vec::new() }
        } else {
            SortedWindow::Long(std::array::from_fn(|_| Vec::new()))
        };
        RollingOrderStatistic { n, ranks: ranks.to_vec(), window, nans: [0.0; L] }
    }
}

impl<const L: usize> SortedWindow<L> {
    /// Sorts the first window.
    fn init(&mut self, window: &[Row<L>]) {
        let mut lanes: [Vec<f64>; L] =
            std::array::from_fn(|l| window.iter().map(|x| sort_key(x)[l]).collect());
        lanes.iter_mut().for_each(|lane| lane.sort_by(f64::total_cmp));
        match self {
            SortedWindow::Long(sorted) => *sorted = lanes,
            SortedWindow::Short { rows, scratch } => {
                *rows = vec![[f64::NEG_INFINITY; L]];
                rows.extend((0..window.len()).map(|i| std::array::from_fn(|l| lanes[l][i])));
                rows.push([f64::INFINITY; L]);
                scratch.clone_from(rows);
            }
        }
    }

    /// One value leaves, another enters.
    #[inline(always)]
    fn slide(&mut self, old: &Row<L>, new: &Row<L>) {
        match self {
            SortedWindow::Long(lanes) => {
                for l in 0..L {
                    slide_by_search(&mut lanes[l], old[l], new[l]);
                }
            }
            SortedWindow::Short { rows, .. } if L > 1 || rows.len() <= MAX_SCALAR_PASS => {
                slide_in_place(rows, old, new)
            }
            SortedWindow::Short { rows, scratch } => {
                slide_single(rows, scratch, old, new);
                std::mem::swap(rows, scratch);
            }
        }
    }

    #[inline(always)]
    fn at(&self, rank: usize) -> Row<L> {
        match self {
            SortedWindow::Long(lanes) => row(|l| lanes[l].get(rank).copied().unwrap_or(f64::NAN)),
            SortedWindow::Short { rows, .. } => rows.get(rank + 1).copied().unwrap_or([f64::NAN; L]),
        }
    }
}

/// The value at a rank after `old` (the first value not less than it) is removed, given the values at this rank and the next.
#[inline(always)]
fn without(here: f64, next: f64, old: f64) -> f64 {
    if here < old { here } else { next }
}

/// Min without NaN handling.
#[inline(always)]
fn min(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Max without NaN handling.
#[inline(always)]
fn max(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Removes and inserts in one pass, SIMD across series: the new value is carried up to its rank, then the value it displaces,
/// and so on. (Testing whether it has its rank yet would cost more than carrying on to the end.)
#[inline(always)]
fn slide_in_place<const L: usize>(rows: &mut [Row<L>], old: &Row<L>, new: &Row<L>) {
    let (old, mut carried) = (*old, *new);
    let Some((_, [first, rest @ ..])) = rows.split_first_mut() else { return };
    let mut here = *first;
    let mut slot = first;
    for next_slot in rest {
        let next = *next_slot;
        let left: Row<L> = row(|l| without(here[l], next[l], old[l]));
        *slot = row(|l| min(carried[l], left[l]));
        carried = row(|l| max(carried[l], left[l]));
        (slot, here) = (next_slot, next);
    }
}

/// The same of one series, SIMD across ranks: from one buffer into another.
#[inline(always)]
fn slide_single<const L: usize>(rows: &[Row<L>], to: &mut [Row<L>], old: &Row<L>, new: &Row<L>) {
    let (Some(old), Some(new)) = (old.first().copied(), new.first().copied()) else { return };
    let n = rows.len().saturating_sub(2);
    let (rows, to) = (rows.as_flattened(), to.as_flattened_mut());
    let part = |i: usize| rows.get(i..i + n).unwrap_or(&[]);
    let to = to.get_mut(1..n + 1).unwrap_or_default();
    for (((to, before), here), next) in to.iter_mut().zip(part(0)).zip(part(1)).zip(part(2)) {
        *to = min(max(without(*before, *here, old), new), without(*here, *next, old));
    }
}

/// The same in a long window: binary search of both ranks, then a move of what lies between.
#[inline(always)]
fn slide_by_search(sorted: &mut [f64], old: f64, new: f64) {
    let (from, to) = (sorted.partition_point(|x| *x < old), sorted.partition_point(|x| *x < new));
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

impl<const L: usize> Body<L> for RollingOrderStatistic<L> {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t0, t1) = (self.n, block.a(), block.t0, block.t1);
        let nan = |x: &Row<L>| -> Row<L> {
            let x = *x;
            row(|l| if x[l].is_nan() { 1.0 } else { 0.0 })
        };
        for t in from..t1 {
            if t == block.start {
                let window = a.range(t + 1 - n, t + 1);
                self.window.init(window);
                self.nans = window.iter().fold([0.0; L], |count, x| row(|l| count[l] + nan(x)[l]));
            } else {
                let (old, new) = (a.at(t - n), a.at(t));
                self.window.slide(&sort_key(old), &sort_key(new));
                let (count, come, gone) = (self.nans, nan(new), nan(old));
                self.nans = row(|l| count[l] + come[l] - gone[l]);
            }
            let nans = self.nans;
            for (out, rank) in block.outputs.iter_mut().zip(&self.ranks) {
                if let Some(out) = out.get_mut(t - t0) {
                    let found = self.window.at(*rank);
                    *out = row(|l| if nans[l] > 0.0 { f64::NAN } else { found[l] });
                }
            }
        }
    }
}

/// How many of the `n` values before this one are less (or equal).
#[derive(Clone)]
pub(crate) struct RollingRank {
    pub(crate) n: usize,
    pub(crate) or_equal: bool,
}

impl<const L: usize> Body<L> for RollingRank {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let (n, a, t1) = (self.n, block.a(), block.t1);
        if from >= t1 {
            return;
        }
        let (windows, out) = (a.range(from - n, t1), block.out(from));
        out.iter_mut().zip(a.range(from, t1)).for_each(|(out, x)| *out = *x);
        let number = |count: u64| count as f64;
        if self.or_equal {
            window_fold::fold(windows, out, n, |count: u64, _, y, x| count + u64::from(y <= x), number);
        } else {
            window_fold::fold(windows, out, n, |count: u64, _, y, x| count + u64::from(y < x), number);
        }
    }
}
