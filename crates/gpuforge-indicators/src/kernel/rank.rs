//! Which value stands at which place among the last `n`, and where would this one stand?
//!
//! Windows are kept in order. A bar takes one value out and puts another in: in one pass over all places, without a decision,
//! so that it is done for several series (or places) at once. While there is a NaN in a window no place is known; a rank never
//! counts one.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes, and a place below that of places"
)]

use super::{Block, Body, Row, row, window_fold};

/// Windows up to this long are passed over as a whole; in longer ones, places are searched and what lies between is moved.
const PASSED: usize = 384;

/// Places of one series up to which nothing is gained side by side: what was just written is read again too soon.
const CARRIED: usize = 32;

/// The least, the next, and so on of the last `n`: some of them.
#[derive(Clone)]
pub(crate) struct RollingOrderStatistic<const L: usize> {
    n: usize,
    /// Places that are asked for, from 0.
    places: Vec<usize>,
    window: Ordered<L>,
    /// How many values of the window are NaN; each stands as the greatest.
    nans: Row<L>,
}

/// A window in ascending order.
#[derive(Clone)]
enum Ordered<const L: usize> {
    /// Places of all series side by side, between two that nothing is less and nothing greater than.
    Short { rows: Vec<Row<L>>, spare: Vec<Row<L>> },
    /// Each series by itself.
    Long([Vec<f64>; L]),
}

/// What stands in the order: a NaN as the greatest, and both zeros as the same.
#[inline(always)]
fn standing<const L: usize>(x: &Row<L>) -> Row<L> {
    let x = *x;
    row(|l| if x[l].is_nan() { f64::INFINITY } else { x[l] + 0.0 })
}

impl<const L: usize> RollingOrderStatistic<L> {
    pub(crate) fn new(n: usize, places: &[usize]) -> Self {
        let window = if n <= PASSED {
            Ordered::Short { rows: Vec::new(), spare: Vec::new() }
        } else {
            Ordered::Long(std::array::from_fn(|_| Vec::new()))
        };
        RollingOrderStatistic { n, places: places.to_vec(), window, nans: [0.0; L] }
    }
}

impl<const L: usize> Ordered<L> {
    /// Puts the first window in order.
    fn begin(&mut self, window: &[Row<L>]) {
        let mut lanes: [Vec<f64>; L] =
            std::array::from_fn(|l| window.iter().map(|x| standing(x)[l]).collect());
        lanes.iter_mut().for_each(|lane| lane.sort_by(f64::total_cmp));
        match self {
            Ordered::Long(sorted) => *sorted = lanes,
            Ordered::Short { rows, spare } => {
                *rows = vec![[f64::NEG_INFINITY; L]];
                rows.extend((0..window.len()).map(|i| std::array::from_fn(|l| lanes[l][i])));
                rows.push([f64::INFINITY; L]);
                spare.clone_from(rows);
            }
        }
    }

    /// One value leaves, another comes.
    #[inline(always)]
    fn exchange(&mut self, old: &Row<L>, new: &Row<L>) {
        match self {
            Ordered::Long(lanes) => {
                for l in 0..L {
                    search(&mut lanes[l], old[l], new[l]);
                }
            }
            Ordered::Short { rows, .. } if L > 1 || rows.len() <= CARRIED => pass(rows, old, new),
            Ordered::Short { rows, spare } => {
                across(rows, spare, old, new);
                std::mem::swap(rows, spare);
            }
        }
    }

    #[inline(always)]
    fn at(&self, place: usize) -> Row<L> {
        match self {
            Ordered::Long(lanes) => row(|l| lanes[l].get(place).copied().unwrap_or(f64::NAN)),
            Ordered::Short { rows, .. } => rows.get(place + 1).copied().unwrap_or([f64::NAN; L]),
        }
    }
}

/// Takes the first of what is not less than `old` out: what stands at a place then, given what stood there and after it.
#[inline(always)]
fn without(here: f64, next: f64, old: f64) -> f64 {
    if here < old { here } else { next }
}

#[inline(always)]
fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The exchange, series side by side: what comes is carried along until something greater stands there, which is then carried
/// along. (Asking whether it has its place yet would cost more than carrying it to the end.)
#[inline(always)]
fn pass<const L: usize>(rows: &mut [Row<L>], old: &Row<L>, new: &Row<L>) {
    let (old, mut carried) = (*old, *new);
    let Some((_, [first, rest @ ..])) = rows.split_first_mut() else { return };
    let mut here = *first;
    let mut slot = first;
    for next_slot in rest {
        let next = *next_slot;
        let left: Row<L> = row(|l| without(here[l], next[l], old[l]));
        *slot = row(|l| lesser(carried[l], left[l]));
        carried = row(|l| greater(carried[l], left[l]));
        (slot, here) = (next_slot, next);
    }
}

/// The exchange of one series, places side by side: what is read must not be what is written.
#[inline(always)]
fn across<const L: usize>(rows: &[Row<L>], to: &mut [Row<L>], old: &Row<L>, new: &Row<L>) {
    let (Some(old), Some(new)) = (old.first().copied(), new.first().copied()) else { return };
    let n = rows.len().saturating_sub(2);
    let (rows, to) = (rows.as_flattened(), to.as_flattened_mut());
    let part = |i: usize| rows.get(i..i + n).unwrap_or(&[]);
    let to = to.get_mut(1..n + 1).unwrap_or_default();
    for (((to, before), here), next) in to.iter_mut().zip(part(0)).zip(part(1)).zip(part(2)) {
        *to = lesser(greater(without(*before, *here, old), new), without(*here, *next, old));
    }
}

/// The exchange in a long window: what lies between the two places moves by one.
#[inline(always)]
fn search(sorted: &mut [f64], old: f64, new: f64) {
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
                self.window.begin(window);
                self.nans = window.iter().fold([0.0; L], |count, x| row(|l| count[l] + nan(x)[l]));
            } else {
                let (old, new) = (a.at(t - n), a.at(t));
                self.window.exchange(&standing(old), &standing(new));
                let (count, come, gone) = (self.nans, nan(new), nan(old));
                self.nans = row(|l| count[l] + come[l] - gone[l]);
            }
            let nans = self.nans;
            for (out, place) in block.outputs.iter_mut().zip(&self.places) {
                if let Some(out) = out.get_mut(t - t0) {
                    let found = self.window.at(*place);
                    *out = row(|l| if nans[l] > 0.0 { f64::NAN } else { found[l] });
                }
            }
        }
    }
}

/// How many of the `n` values before this one are less.
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
