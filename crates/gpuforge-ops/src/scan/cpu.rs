//! How does the processor scan? A tile at a time while it is in the cache; with threads, totals first.

use rayon::prelude::*;

use super::{
    RUN, STRETCH, TILE,
    walk::{State, Top, Walk, total},
};
use crate::{
    Threads,
    reduce::{
        extreme::{self, NAN},
        sum::Part,
    },
};

/// Elements that are worth a thread.
const PER_THREAD: usize = 1 << 16;
/// Series whose recurrences are computed side by side: each alone waits for its own last result.
const ABREAST: usize = 8;

/// A scan that goes tile by tile.
pub(super) trait Tiles {
    type State: State + Send + Sync;

    /// What a tile comes to.
    fn total(x: &[f32]) -> Self::State;

    /// The results of a tile, and what it comes to.
    fn tile(x: &[f32], carry: Self::State, out: &mut [f32]) -> Self::State;
}

/// Every row of `n` elements.
pub(super) fn rows<T: Tiles>(data: &[f32], n: usize, out: &mut [f32], threads: Threads) {
    let rows = data.len() / n.max(1);
    if threads.0 < 2 || data.len() < 2 * PER_THREAD {
        data.chunks(n).zip(out.chunks_mut(n)).for_each(|(x, out)| series::<T>(x, out));
    } else if rows >= threads.0 {
        let share = rows.div_ceil(threads.0) * n;
        data.par_chunks(share).zip(out.par_chunks_mut(share)).for_each(|(data, out)| {
            data.chunks(n).zip(out.chunks_mut(n)).for_each(|(x, out)| series::<T>(x, out));
        });
    } else {
        data.chunks(n).zip(out.chunks_mut(n)).for_each(|(x, out)| long_series::<T>(x, out, threads));
    }
}

fn series<T: Tiles>(x: &[f32], out: &mut [f32]) {
    let mut walk = Walk::new(T::State::NOTHING);
    for (x, out) in x.chunks(TILE).zip(out.chunks_mut(TILE)) {
        let total = T::tile(x, walk.now(), out);
        walk.push(total);
    }
}

/// As [`series`], with threads: reads twice, because what comes before a tile is found first.
fn long_series<T: Tiles>(x: &[f32], out: &mut [f32], threads: Threads) {
    let share = x.len().div_ceil(TILE).div_ceil(threads.0);
    let totals: Vec<T::State> = x.par_chunks(TILE).with_min_len(share).map(T::total).collect();
    let mut walk = Walk::new(T::State::NOTHING);
    let before: Vec<T::State> = totals
        .into_iter()
        .map(|total| {
            let now = walk.now();
            walk.push(total);
            now
        })
        .collect();
    let tiles = x.par_chunks(TILE).zip(out.par_chunks_mut(TILE)).zip(before);
    tiles.with_min_len(share).for_each(|((x, out), carry)| {
        T::tile(x, carry, out);
    });
}

/// Running sums.
pub(super) struct Sums;

impl Tiles for Sums {
    type State = Part;

    fn total(x: &[f32]) -> Part {
        let quick = before_runs(x, 0.0).1;
        if quick.is_finite() { Part::of(quick) } else { total(x.iter().map(|x| Part::of(*x))) }
    }

    fn tile(x: &[f32], carry: Part, out: &mut [f32]) -> Part {
        let (before, sum) = before_runs(x, carry.value);
        for ((x, out), before) in x.chunks(RUN).zip(out.chunks_mut(RUN)).zip(before) {
            run(x, before, out);
        }
        // A sum that met a NaN or an infinity is never finite again; results can be too large where the total is not.
        if carry.flags == 0 && sum.is_finite() && all_finite(out) {
            return Part::of(sum);
        }
        let mut walk = Walk::new(carry);
        for (out, x) in out.iter_mut().zip(x) {
            *out = f32::from_bits(walk.push(Part::of(*x)).shown());
        }
        total(x.iter().map(|x| Part::of(*x)))
    }
}

/// What comes before each run of a tile, and what the tile comes to.
#[inline(always)]
fn before_runs(x: &[f32], carry: f32) -> ([f32; TILE / RUN], f32) {
    let mut runs = [0f32; TILE / RUN];
    // A whole tile has a loop of its own, of fixed length: runs do not wait for each other.
    if let Ok(x) = <&[f32; TILE]>::try_from(x) {
        for (sum, run) in runs.iter_mut().zip(x.as_chunks::<RUN>().0) {
            *sum = run.iter().fold(0.0, |sum, x| sum + x);
        }
    } else {
        for (sum, run) in runs.iter_mut().zip(x.chunks(RUN)) {
            *sum = run.iter().fold(0.0, |sum, x| sum + x);
        }
    }
    let mut stretches = 0.0;
    for stretch in runs.as_chunks_mut::<{ STRETCH / RUN }>().0 {
        let mut inner = 0.0;
        for run in stretch {
            let sum = *run;
            *run = carry + (stretches + inner);
            inner += sum;
        }
        stretches += inner;
    }
    (runs, stretches)
}

#[inline(always)]
fn run(x: &[f32], before: f32, out: &mut [f32]) {
    let mut now = before;
    if let (Ok(x), Ok(out)) = (<&[f32; RUN]>::try_from(x), <&mut [f32; RUN]>::try_from(&mut *out)) {
        for (out, x) in out.iter_mut().zip(x) {
            now += x;
            *out = now;
        }
        return;
    }
    for (out, x) in out.iter_mut().zip(x) {
        now += x;
        *out = now;
    }
}

fn all_finite(x: &[f32]) -> bool {
    x.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff)) < 0x7f80_0000
}

/// Running maxima.
pub(super) struct Maxima;

impl Tiles for Maxima {
    type State = Top;

    fn total(x: &[f32]) -> Top {
        Top(extreme::value_key(x, false))
    }

    fn tile(x: &[f32], carry: Top, out: &mut [f32]) -> Top {
        let mut top = carry.0;
        let one = |x: &f32, out: &mut f32, top: &mut u32| {
            *top = extreme::key(x.to_bits(), false).max(*top);
            *out = f32::from_bits(Top(*top).shown());
        };
        let ((runs, rest), (outs, last)) = (x.as_chunks::<RUN>(), out.as_chunks_mut::<RUN>());
        for (x, out) in runs.iter().zip(outs) {
            // Most runs hold nothing greater than what came before: three times faster for noise.
            if extreme::run_key(x) <= top {
                *out = [f32::from_bits(Top(top).shown()); RUN];
            } else {
                out.iter_mut().zip(x).for_each(|(out, x)| one(x, out, &mut top));
            }
        }
        last.iter_mut().zip(rest).for_each(|(out, x)| one(x, out, &mut top));
        Top(top)
    }
}

/// `y = a y + b` along every row of `n` elements.
pub(super) fn affine((a, b): (&[f32], &[f32]), start: f32, n: usize, out: &mut [f32], threads: Threads) {
    let rows = out.len() / n.max(1);
    if threads.0 < 2 || out.len() < 2 * PER_THREAD || rows < 2 {
        return abreast((a, b), start, n, out);
    }
    let share = rows.div_ceil(threads.0) * n;
    let rows = out.par_chunks_mut(share).zip(a.par_chunks(share)).zip(b.par_chunks(share));
    rows.for_each(|((out, a), b)| abreast((a, b), start, n, out));
}

fn abreast((a, b): (&[f32], &[f32]), start: f32, n: usize, out: &mut [f32]) {
    let some = n * ABREAST;
    for ((out, a), b) in out.chunks_mut(some).zip(a.chunks(some)).zip(b.chunks(some)) {
        let mut last = [start; ABREAST];
        for t in (0..n).step_by(RUN) {
            let range = t..(t + RUN).min(n);
            let rows = out.chunks_mut(n).zip(a.chunks(n)).zip(b.chunks(n));
            for (((out, a), b), y) in rows.zip(&mut last) {
                let (a, b) = (a.get(range.clone()), b.get(range.clone()));
                let out = out.get_mut(range.clone()).unwrap_or_default();
                for ((out, a), b) in out.iter_mut().zip(a.unwrap_or_default()).zip(b.unwrap_or_default()) {
                    *y = a * *y + b;
                    *out = *y;
                }
            }
        }
        // A recurrence that met something that is not finite is never finite again.
        for (out, _) in out.chunks_mut(n).zip(last).filter(|(_, y)| !y.is_finite()) {
            let from = out.iter().position(|y| !y.is_finite()).unwrap_or(n);
            out.get_mut(from..).unwrap_or_default().fill(f32::from_bits(NAN));
        }
    }
}
