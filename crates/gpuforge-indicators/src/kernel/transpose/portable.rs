//! Transpose without SIMD: nothing is done here, the scalar loops of the caller do all of it.

use super::{PrefetchQueue, Row, Simd};

pub(super) fn prefetch(_: *const f64, _: usize) {}

pub(super) fn interleave(_: &[&[f64]; 8], _: &mut [Row<8>], _: Simd, _: bool) -> usize {
    0
}

pub(super) fn deinterleave(_: &[Row<8>], _: &mut [&mut [f64]; 8], _: Simd) -> usize {
    0
}

pub(super) fn split_lanes(
    _: &[Row<8>],
    _: usize,
    _: [&mut [f64]; 4],
    _: &mut PrefetchQueue,
    _: Simd,
) -> usize {
    0
}

pub(super) fn stream_lines(
    _: &[Row<8>],
    _: usize,
    _: [&mut [f64]; 4],
    _: &mut PrefetchQueue,
    _: Simd,
) -> usize {
    0
}

pub(super) fn stream(_: &[f64], _: &mut [f64], _: &mut PrefetchQueue, _: Simd) -> usize {
    0
}

pub(super) fn store_fence() {}
