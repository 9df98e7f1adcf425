//! CPU prefix scan: tile by tile within the cache; multi-threaded as reduce-then-scan.

use rayon::prelude::*;

use super::{
    RUN, SEGMENT, TILE,
    state::{BlockedScan, MaxKey, ScanState, total},
};
use crate::{
    Threads,
    reduce::{
        min_max::{self, NAN},
        sum::FlaggedSum,
    },
};

/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 16;
/// Rows whose recurrences are interleaved: a single one is bound by its loop-carried dependency.
const INTERLEAVED: usize = 8;

/// A scan that works tile by tile.
pub(super) trait TileScan {
    type State: ScanState + Send + Sync;

    /// Reduces a tile.
    fn total(x: &[f32]) -> Self::State;

    /// Scans a tile; returns its total.
    fn tile(x: &[f32], carry: Self::State, out: &mut [f32]) -> Self::State;
}

/// Every row of `n` elements.
pub(super) fn rows<T: TileScan>(data: &[f32], n: usize, out: &mut [f32], threads: Threads) {
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

fn series<T: TileScan>(x: &[f32], out: &mut [f32]) {
    let mut scan = BlockedScan::new(T::State::IDENTITY);
    for (x, out) in x.chunks(TILE).zip(out.chunks_mut(TILE)) {
        let total = T::tile(x, scan.now(), out);
        scan.push(total);
    }
}

/// Multi-threaded [`series`]: reads twice, because tile totals come first.
fn long_series<T: TileScan>(x: &[f32], out: &mut [f32], threads: Threads) {
    let share = x.len().div_ceil(TILE).div_ceil(threads.0);
    let totals: Vec<T::State> = x.par_chunks(TILE).with_min_len(share).map(T::total).collect();
    let mut scan = BlockedScan::new(T::State::IDENTITY);
    let before: Vec<T::State> = totals
        .into_iter()
        .map(|total| {
            let now = scan.now();
            scan.push(total);
            now
        })
        .collect();
    let tiles = x.par_chunks(TILE).zip(out.par_chunks_mut(TILE)).zip(before);
    tiles.with_min_len(share).for_each(|((x, out), carry)| {
        T::tile(x, carry, out);
    });
}

/// Prefix sum.
pub(super) struct PrefixSum;

impl TileScan for PrefixSum {
    type State = FlaggedSum;

    fn total(x: &[f32]) -> FlaggedSum {
        let quick = run_prefixes(x, 0.0).1;
        if quick.is_finite() { FlaggedSum::of(quick) } else { total(x.iter().map(|x| FlaggedSum::of(*x))) }
    }

    fn tile(x: &[f32], carry: FlaggedSum, out: &mut [f32]) -> FlaggedSum {
        let (before, sum) = run_prefixes(x, carry.value);
        for ((x, out), before) in x.chunks(RUN).zip(out.chunks_mut(RUN)).zip(before) {
            scan_run(x, before, out);
        }
        // NaN and infinity are sticky in the total; prefixes can overflow where the total does not.
        if carry.flags == 0 && sum.is_finite() && all_finite(out) {
            return FlaggedSum::of(sum);
        }
        let mut scan = BlockedScan::new(carry);
        for (out, x) in out.iter_mut().zip(x) {
            *out = f32::from_bits(scan.push(FlaggedSum::of(*x)).output_bits());
        }
        total(x.iter().map(|x| FlaggedSum::of(*x)))
    }
}

/// Exclusive prefix of each run of a tile, and the tile total.
#[inline(always)]
fn run_prefixes(x: &[f32], carry: f32) -> ([f32; TILE / RUN], f32) {
    let mut runs = [0f32; TILE / RUN];
    // A full tile has its own loop of fixed length: runs are independent.
    if let Ok(x) = <&[f32; TILE]>::try_from(x) {
        for (sum, run) in runs.iter_mut().zip(x.as_chunks::<RUN>().0) {
            *sum = run.iter().fold(0.0, |sum, x| sum + x);
        }
    } else {
        for (sum, run) in runs.iter_mut().zip(x.chunks(RUN)) {
            *sum = run.iter().fold(0.0, |sum, x| sum + x);
        }
    }
    let mut segments = 0.0;
    for segment in runs.as_chunks_mut::<{ SEGMENT / RUN }>().0 {
        let mut inner = 0.0;
        for run in segment {
            let sum = *run;
            *run = carry + (segments + inner);
            inner += sum;
        }
        segments += inner;
    }
    (runs, segments)
}

#[inline(always)]
fn scan_run(x: &[f32], before: f32, out: &mut [f32]) {
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

/// Prefix max.
pub(super) struct PrefixMax;

impl TileScan for PrefixMax {
    type State = MaxKey;

    fn total(x: &[f32]) -> MaxKey {
        MaxKey(min_max::value_key(x, false))
    }

    fn tile(x: &[f32], carry: MaxKey, out: &mut [f32]) -> MaxKey {
        let mut top = carry.0;
        let one = |x: &f32, out: &mut f32, top: &mut u32| {
            *top = min_max::key(x.to_bits(), false).max(*top);
            *out = f32::from_bits(MaxKey(*top).output_bits());
        };
        let ((runs, rest), (outs, last)) = (x.as_chunks::<RUN>(), out.as_chunks_mut::<RUN>());
        for (x, out) in runs.iter().zip(outs) {
            // Fast path: most runs of noisy data contain no new maximum.
            if min_max::run_key(x) <= top {
                *out = [f32::from_bits(MaxKey(top).output_bits()); RUN];
            } else {
                out.iter_mut().zip(x).for_each(|(out, x)| one(x, out, &mut top));
            }
        }
        last.iter_mut().zip(rest).for_each(|(out, x)| one(x, out, &mut top));
        MaxKey(top)
    }
}

/// `y = a y + b` along every row of `n` elements.
pub(super) fn affine((a, b): (&[f32], &[f32]), start: f32, n: usize, out: &mut [f32], threads: Threads) {
    let rows = out.len() / n.max(1);
    if threads.0 < 2 || out.len() < 2 * PER_THREAD || rows < 2 {
        return interleaved((a, b), start, n, out);
    }
    let share = rows.div_ceil(threads.0) * n;
    let rows = out.par_chunks_mut(share).zip(a.par_chunks(share)).zip(b.par_chunks(share));
    rows.for_each(|((out, a), b)| interleaved((a, b), start, n, out));
}

fn interleaved((a, b): (&[f32], &[f32]), start: f32, n: usize, out: &mut [f32]) {
    let some = n * INTERLEAVED;
    for ((out, a), b) in out.chunks_mut(some).zip(a.chunks(some)).zip(b.chunks(some)) {
        let mut last = [start; INTERLEAVED];
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
        // Non-finite values are sticky in a recurrence.
        for (out, _) in out.chunks_mut(n).zip(last).filter(|(_, y)| !y.is_finite()) {
            let from = out.iter().position(|y| !y.is_finite()).unwrap_or(n);
            out.get_mut(from..).unwrap_or_default().fill(f32::from_bits(NAN));
        }
    }
}
