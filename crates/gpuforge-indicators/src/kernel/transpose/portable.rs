//! Transpose without SIMD intrinsics: the scalar loops of the caller do nearly all of it.

use super::{LINE_LEN, PrefetchQueue, Row, Simd};

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

/// Whole cache lines, as many as there are: the caller keeps less than a line for the next rows.
pub(super) fn stream_lines(
    rows: &[Row<8>],
    half: usize,
    columns: [&mut [f64]; 4],
    _: &mut PrefetchQueue,
    _: Simd,
) -> usize {
    let (lines, _) = rows.as_chunks::<LINE_LEN>();
    let lines = lines.as_flattened();
    for (l, column) in columns.into_iter().enumerate() {
        column.iter_mut().zip(lines).for_each(|(to, row)| *to = row[4 * half + l]);
    }
    lines.len()
}

pub(super) fn stream(_: &[f64], _: &mut [f64], _: &mut PrefetchQueue, _: Simd) -> usize {
    0
}

pub(super) fn store_fence() {}
