//! Transpose in AVX2: 4x4 blocks in registers, software prefetch, non-temporal stores.
#![allow(clippy::indexing_slicing, reason = "slices are cut to one length")]

use std::arch::x86_64::{
    __m256d, _MM_HINT_ET0, _MM_HINT_T1, _mm_prefetch, _mm_sfence, _mm256_loadu_pd, _mm256_permute2f128_pd,
    _mm256_storeu_pd, _mm256_stream_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
};

use super::{CACHE_LINE, PrefetchQueue, Row, Simd};

/// Prefetches memory that the next block will read or write.
#[inline]
fn prefetch_hint<const HINT: i32>(here: *const f64, bars: usize) {
    #[allow(unsafe_code, reason = "a hint about an address")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        _mm_prefetch::<HINT>(here.wrapping_add(bars).cast());
    }
}

/// Prefetches a line into L2.
#[inline(always)]
pub(super) fn prefetch(lane: *const f64, bars: usize) {
    prefetch_hint::<_MM_HINT_T1>(lane, bars);
}

/// How many rows were done; the rest is for the scalar loop.
pub(super) fn interleave(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd, prefetch: bool) -> usize {
    if simd == Simd::SCALAR {
        return 0;
    }
    #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
    // SAFETY: every detected `Simd` but the scalar one includes AVX2.
    unsafe {
        interleave_avx2(lanes, rows, prefetch)
    }
}

pub(super) fn deinterleave(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd) -> usize {
    if simd == Simd::SCALAR {
        return 0;
    }
    #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
    // SAFETY: every detected `Simd` but the scalar one includes AVX2.
    unsafe {
        deinterleave_avx2(rows, columns)
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[f64; 4]) -> __m256d {
    #[allow(unsafe_code, reason = "a load from an address")]
    // SAFETY: four doubles are there.
    unsafe {
        _mm256_loadu_pd(from.as_ptr())
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [f64; 4], x: __m256d) {
    #[allow(unsafe_code, reason = "a store to an address")]
    // SAFETY: there is room for four doubles.
    unsafe {
        _mm256_storeu_pd(to.as_mut_ptr(), x);
    }
}

/// 4x4 transpose.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose4([a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
    let (ab0, ab1) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    let (cd0, cd1) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
    [
        _mm256_permute2f128_pd(ab0, cd0, 0x20),
        _mm256_permute2f128_pd(ab1, cd1, 0x20),
        _mm256_permute2f128_pd(ab0, cd0, 0x31),
        _mm256_permute2f128_pd(ab1, cd1, 0x31),
    ]
}

#[target_feature(enable = "avx2")]
fn interleave_avx2(lanes: &[&[f64]; 8], rows: &mut [Row<8>], prefetch: bool) -> usize {
    let lanes = lanes.map(|l| l.as_chunks::<4>().0);
    let quads = rows.as_chunks_mut::<4>().0;
    let n = quads.len();
    // Four lanes at a time: columns are often whole pages apart, and eight of them would conflict in an L1 set.
    for (half, lanes) in lanes.as_chunks::<4>().0.iter().enumerate() {
        let [a, b, c, d] = lanes.map(|l| &l[..n]);
        for (q, quad) in quads.iter_mut().enumerate() {
            if prefetch && q % 2 == 0 {
                let lines = [&a[q], &b[q], &c[q], &d[q]];
                lines.into_iter().for_each(|l| prefetch_hint::<_MM_HINT_T1>(l.as_ptr(), 4 * n));
            }
            let from = [load(&a[q]), load(&b[q]), load(&c[q]), load(&d[q])];
            for (row, x) in quad.iter_mut().zip(transpose4(from)) {
                store(&mut row.as_chunks_mut::<4>().0[half], x);
            }
        }
    }
    4 * n
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
    #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
    // SAFETY: every detected `Simd` but the scalar one includes AVX2.
    unsafe {
        split_lanes_avx2(rows, half, to, prefetch)
    }
}

#[target_feature(enable = "avx2")]
fn split_lanes_avx2(
    rows: &[Row<8>],
    half: usize,
    to: [&mut [f64]; 4],
    prefetch: &mut PrefetchQueue,
) -> usize {
    let quads = rows.as_chunks::<4>().0;
    let n = quads.len();
    let [a, b, c, d] = to.map(|c| &mut c.as_chunks_mut::<4>().0[..n]);
    for (q, quad) in quads.iter().enumerate() {
        // Together with the prefetches of `stream`, one per line of the rows: one column of bars for every result.
        prefetch.prefetch_next();
        let part = |row: usize| &quad[row].as_chunks::<4>().0[half];
        let [w, x, y, z] = transpose4([load(part(0)), load(part(1)), load(part(2)), load(part(3))]);
        store(&mut a[q], w);
        store(&mut b[q], x);
        store(&mut c[q], y);
        store(&mut d[q], z);
    }
    4 * n
}

/// Four lanes of rows with non-temporal stores of whole cache lines; how many rows were done. Nothing where a column is not
/// aligned to one.
pub(super) fn stream_lines(
    rows: &[Row<8>],
    half: usize,
    to: [&mut [f64]; 4],
    prefetch: &mut PrefetchQueue,
    simd: Simd,
) -> usize {
    if simd == Simd::SCALAR || !to.iter().all(|c| c.as_ptr().addr().is_multiple_of(CACHE_LINE)) {
        return 0;
    }
    #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
    // SAFETY: every detected `Simd` but the scalar one includes AVX2; every column is aligned to a cache line.
    unsafe {
        stream_lines_avx2(rows, half, to, prefetch)
    }
}

/// The columns are aligned to cache lines.
#[target_feature(enable = "avx2")]
fn stream_lines_avx2(
    rows: &[Row<8>],
    half: usize,
    to: [&mut [f64]; 4],
    prefetch: &mut PrefetchQueue,
) -> usize {
    let octets = rows.as_chunks::<8>().0;
    let n = octets.len();
    let mut to = to.map(|c| &mut c.as_chunks_mut::<8>().0[..n]);
    for (o, octet) in octets.iter().enumerate() {
        let part = |row: usize| &octet[row].as_chunks::<4>().0[half];
        let early = transpose4([load(part(0)), load(part(1)), load(part(2)), load(part(3))]);
        let late = transpose4([load(part(4)), load(part(5)), load(part(6)), load(part(7))]);
        for ((column, early), late) in to.iter_mut().zip(early).zip(late) {
            // One prefetch per line that is written: one column of bars for every result.
            prefetch.prefetch_next();
            let [first, second] = column[o].as_chunks_mut::<4>().0 else { continue };
            stream_four(first, early);
            stream_four(second, late);
        }
    }
    8 * n
}

/// A non-temporal store; `to` is half of a cache line.
#[inline]
#[target_feature(enable = "avx2")]
fn stream_four(to: &mut [f64; 4], x: __m256d) {
    #[allow(unsafe_code, reason = "a store to an address")]
    // SAFETY: there is room for four doubles, aligned to 32 bytes.
    unsafe {
        _mm256_stream_pd(to.as_mut_ptr(), x);
    }
}

/// Copies whole cache lines with non-temporal stores, if `to` is aligned to one; how many doubles were done.
pub(super) fn stream(from: &[f64], to: &mut [f64], prefetch: &mut PrefetchQueue, simd: Simd) -> usize {
    if simd == Simd::SCALAR || !(to.as_ptr() as usize).is_multiple_of(CACHE_LINE) {
        return 0;
    }
    #[allow(unsafe_code, reason = "calls a #[target_feature] function")]
    // SAFETY: every detected `Simd` but the scalar one includes AVX2; `to` is aligned to a cache line.
    unsafe {
        stream_avx2(from, to, prefetch)
    }
}

/// `to` is aligned to a cache line.
#[target_feature(enable = "avx2")]
fn stream_avx2(from: &[f64], to: &mut [f64], prefetch: &mut PrefetchQueue) -> usize {
    let lines = to.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0);
    let n = lines.len();
    for (at, (to, from)) in lines.enumerate() {
        if at % 2 == 0 {
            prefetch.prefetch_next();
        }
        let (to, from) = (to.as_chunks_mut::<4>().0, from.as_chunks::<4>().0);
        to.iter_mut().zip(from).for_each(|(to, from)| stream_four(to, load(from)));
    }
    8 * n
}

/// `sfence`: non-temporal stores are weakly ordered until here.
pub(super) fn store_fence() {
    #[allow(unsafe_code, reason = "an intrinsic of SSE")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        _mm_sfence();
    }
}

#[target_feature(enable = "avx2")]
fn deinterleave_avx2(rows: &[Row<8>], columns: &mut [&mut [f64]; 8]) -> usize {
    let quads = rows.as_chunks::<4>().0;
    let n = quads.len();
    // Four columns at a time: more write streams than a core tracks are slower than reading the rows twice.
    for (half, columns) in columns.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let [a, b, c, d] = columns.each_mut().map(|c| &mut c.as_chunks_mut::<4>().0[..n]);
        for (q, quad) in quads.iter().enumerate() {
            if q % 2 == 0 {
                let lines = [&a[q], &b[q], &c[q], &d[q]];
                lines.into_iter().for_each(|l| prefetch_hint::<_MM_HINT_ET0>(l.as_ptr(), 4 * n));
            }
            let part = |row: usize| &quad[row].as_chunks::<4>().0[half];
            let from = [load(part(0)), load(part(1)), load(part(2)), load(part(3))];
            let [w, x, y, z] = transpose4(from);
            store(&mut a[q], w);
            store(&mut b[q], x);
            store(&mut c[q], y);
            store(&mut d[q], z);
        }
    }
    4 * n
}
