//! Transpose in NEON: 2x2 blocks in registers (`trn1`, `trn2`), software prefetch (`prfm`), non-temporal pair stores (`stnp`).
#![allow(clippy::indexing_slicing, reason = "slices are cut to one length")]

use std::arch::{
    aarch64::{float64x2_t, vld1q_f64, vst1q_f64, vtrn1q_f64, vtrn2q_f64},
    asm,
};

use super::{CACHE_LINE, PrefetchQueue, Row, Simd};

/// Prefetches a line into L2.
#[inline(always)]
pub(super) fn prefetch(lane: *const f64, bars: usize) {
    let line = lane.wrapping_add(bars);
    #[allow(unsafe_code, reason = "a hint about an address")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        asm!("prfm pldl2keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly));
    }
}

#[inline(always)]
fn load(from: &[f64; 2]) -> float64x2_t {
    #[allow(unsafe_code, reason = "a load from an address")]
    // SAFETY: two doubles are there.
    unsafe {
        vld1q_f64(from.as_ptr())
    }
}

#[inline(always)]
fn store(to: &mut [f64; 2], x: float64x2_t) {
    #[allow(unsafe_code, reason = "a store to an address")]
    // SAFETY: there is room for two doubles.
    unsafe {
        vst1q_f64(to.as_mut_ptr(), x);
    }
}

/// Non-temporal store of four doubles.
#[inline(always)]
fn stream_four(to: &mut [f64; 4], low: float64x2_t, high: float64x2_t) {
    #[allow(unsafe_code, reason = "a store to an address")]
    // SAFETY: there is room for four doubles; `stnp` asks for no alignment beyond that of an element.
    unsafe {
        asm!(
            "stnp {low:q}, {high:q}, [{to}]",
            low = in(vreg) low,
            high = in(vreg) high,
            to = in(reg) to.as_mut_ptr(),
            options(nostack, preserves_flags)
        );
    }
}

/// 2x2 transpose.
#[inline(always)]
fn transpose2(a: float64x2_t, b: float64x2_t) -> [float64x2_t; 2] {
    #[allow(unsafe_code, reason = "NEON intrinsics")]
    // SAFETY: NEON is part of every AArch64 target with floating point.
    unsafe {
        [vtrn1q_f64(a, b), vtrn2q_f64(a, b)]
    }
}

/// How many rows were done; the rest is for the scalar loop.
pub(super) fn interleave(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd, ahead: bool) -> usize {
    if simd == Simd::SCALAR {
        return 0;
    }
    let lanes = lanes.map(|l| l.as_chunks::<2>().0);
    let pairs = rows.as_chunks_mut::<2>().0;
    let n = pairs.len();
    // Four lanes at a time, as in AVX2: eight columns that are whole pages apart would conflict in an L1 set.
    for (half, lanes) in lanes.as_chunks::<4>().0.iter().enumerate() {
        let [a, b, c, d] = lanes.map(|l| &l[..n]);
        for (p, [even, odd]) in pairs.iter_mut().enumerate() {
            if ahead && p % 4 == 0 {
                [&a[p], &b[p], &c[p], &d[p]].into_iter().for_each(|l| prefetch(l.as_ptr(), 2 * n));
            }
            let [ab0, ab1] = transpose2(load(&a[p]), load(&b[p]));
            let [cd0, cd1] = transpose2(load(&c[p]), load(&d[p]));
            let (even, odd) = (even.as_chunks_mut::<2>().0, odd.as_chunks_mut::<2>().0);
            store(&mut even[2 * half], ab0);
            store(&mut even[2 * half + 1], cd0);
            store(&mut odd[2 * half], ab1);
            store(&mut odd[2 * half + 1], cd1);
        }
    }
    2 * n
}

/// Bars 0 and 1 of four lanes, from two rows.
#[inline(always)]
fn pair_of(pair: &[Row<8>; 2], half: usize) -> [float64x2_t; 4] {
    let part = |row: usize, at: usize| load(&pair[row].as_chunks::<2>().0[2 * half + at]);
    let [a, b] = transpose2(part(0, 0), part(1, 0));
    let [c, d] = transpose2(part(0, 1), part(1, 1));
    [a, b, c, d]
}

pub(super) fn deinterleave(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd) -> usize {
    let mut done = 0;
    // Four columns at a time: more write streams than a core tracks are slower than reading the rows twice.
    for (half, columns) in columns.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let four = columns.each_mut().map(|c| &mut **c);
        done = split_lanes(rows, half, four, &mut PrefetchQueue::default(), simd);
    }
    done
}

/// Four lanes of rows into a contiguous slice each; how many rows were done.
pub(super) fn split_lanes(
    rows: &[Row<8>],
    half: usize,
    to: [&mut [f64]; 4],
    prefetch: &mut PrefetchQueue,
    simd: Simd,
) -> usize {
    if simd == Simd::SCALAR {
        return 0;
    }
    let pairs = rows.as_chunks::<2>().0;
    let n = pairs.len();
    let mut to = to.map(|c| &mut c.as_chunks_mut::<2>().0[..n]);
    for (p, pair) in pairs.iter().enumerate() {
        if p % 2 == 0 {
            prefetch.prefetch_next();
        }
        for (column, x) in to.iter_mut().zip(pair_of(pair, half)) {
            store(&mut column[p], x);
        }
    }
    2 * n
}

/// Four lanes of rows with non-temporal stores of whole cache lines; how many rows were done.
pub(super) fn stream_lines(
    rows: &[Row<8>],
    half: usize,
    to: [&mut [f64]; 4],
    prefetch: &mut PrefetchQueue,
    simd: Simd,
) -> usize {
    if simd == Simd::SCALAR {
        return 0;
    }
    let octets = rows.as_chunks::<8>().0;
    let n = octets.len();
    let mut to = to.map(|c| &mut c.as_chunks_mut::<8>().0[..n]);
    for (o, octet) in octets.iter().enumerate() {
        for (q, [first, second]) in octet.as_chunks::<2>().0.as_chunks::<2>().0.iter().enumerate() {
            let halves = pair_of(first, half).into_iter().zip(pair_of(second, half));
            for (column, (low, high)) in to.iter_mut().zip(halves) {
                // One prefetch per line that is written: one column of bars for every result.
                if q == 0 {
                    prefetch.prefetch_next();
                }
                stream_four(&mut column[o].as_chunks_mut::<4>().0[q], low, high);
            }
        }
    }
    8 * n
}

/// Copies whole cache lines with non-temporal stores, if `to` is aligned to one; how many doubles were done.
pub(super) fn stream(from: &[f64], to: &mut [f64], prefetch: &mut PrefetchQueue, simd: Simd) -> usize {
    if simd == Simd::SCALAR || !to.as_ptr().addr().is_multiple_of(CACHE_LINE) {
        return 0;
    }
    let lines = to.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0);
    let n = lines.len();
    for (at, (to, from)) in lines.enumerate() {
        if at % 2 == 0 {
            prefetch.prefetch_next();
        }
        for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(from.as_chunks::<4>().0) {
            let [low, high] = from.as_chunks::<2>().0 else { continue };
            stream_four(to, load(low), load(high));
        }
    }
    8 * n
}

/// `dmb ishst`: stores before here are seen by other cores before those after it.
pub(super) fn store_fence() {
    #[allow(unsafe_code, reason = "a barrier instruction")]
    // SAFETY: a barrier has no preconditions.
    unsafe {
        asm!("dmb ishst", options(nostack, preserves_flags));
    }
}
