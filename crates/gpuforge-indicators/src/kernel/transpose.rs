//! Transpose between columns of eight series and rows of eight lanes (interleave, deinterleave), with prefetch and
//! non-temporal stores.
//!
//! SIMD code transposes blocks in registers (4x4 in `transpose/x64.rs`, 2x2 in `transpose/aarch64.rs`); the loops here finish
//! what is left and are all there is on other targets (`transpose/portable.rs`).
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes, and slices are cut to one length"
)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
use portable as arch;
#[cfg(target_arch = "x86_64")]
use x64 as arch;

use super::{Row, Simd};

/// Columns of eight series into rows. Every lane has as many bars as there are rows. With `prefetch`, the next block's bars
/// are prefetched.
pub(crate) fn interleave(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd, prefetch: bool) {
    let n = lanes.iter().map(|l| l.len()).min().unwrap_or(0).min(rows.len());
    let done = arch::interleave(lanes, &mut rows[..n], simd, prefetch);
    for (l, lane) in lanes.iter().enumerate() {
        for (row, x) in rows[done..n].iter_mut().zip(&lane[done..]) {
            row[l] = *x;
        }
    }
}

/// How results are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreMode {
    /// Through the caches; lines that the next block writes are prefetched.
    Cached,
    /// Non-temporal (streaming) stores: results that are larger than a cache are written without reading their lines first.
    NonTemporal,
}

/// Rows of eight lanes into a column each. Every column has as many bars as there are rows.
pub(crate) fn deinterleave(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd) {
    let n = columns.iter().map(|c| c.len()).min().unwrap_or(0).min(rows.len());
    let done = arch::deinterleave(&rows[..n], columns, simd);
    for (l, column) in columns.iter_mut().enumerate() {
        for (x, row) in column[done..n].iter_mut().zip(&rows[done..n]) {
            *x = row[l];
        }
    }
}

/// Bytes of a cache line; vector stores that cross two take twice as long.
pub(crate) const CACHE_LINE: usize = 64;
/// Doubles of a cache line.
const LINE_LEN: usize = CACHE_LINE / size_of::<f64>();

/// Write-combining buffer of a result: for each series the bars of an incomplete cache line, not yet in its column.
pub(crate) type PartialLines = [[f64; LINE_LEN]; 8];

/// Scratch memory of deinterleaving, and what to prefetch meanwhile.
#[derive(Default)]
pub(crate) struct DeinterleaveScratch {
    lanes: Vec<f64>,
    pub(crate) prefetch: PrefetchQueue,
}

/// Prefetches of the next block's bars, issued line by line between the stores of this one: a core has few outstanding misses,
/// so that prefetching everything in one place would take as long as loading it.
#[derive(Debug, Default)]
pub(crate) struct PrefetchQueue {
    /// Where each lane's bars begin.
    pub(crate) lanes: Vec<*const f64>,
    /// Lines of each.
    pub(crate) lines: usize,
    lane: usize,
    line: usize,
}

impl PrefetchQueue {
    /// Starts over, without lanes.
    pub(crate) fn restart(&mut self, lines: usize) {
        self.lanes.clear();
        (self.lines, self.lane, self.line) = (lines, 0, 0);
    }

    /// Prefetches the next line, if there is one.
    #[cfg_attr(
        not(any(target_arch = "aarch64", target_arch = "x86_64")),
        expect(dead_code, reason = "only the SIMD transposes issue prefetches between stores")
    )]
    #[inline(always)]
    fn prefetch_next(&mut self) {
        if let Some(lane) = self.lanes.get(self.lane) {
            arch::prefetch(*lane, self.line * LINE_LEN);
            self.line += 1;
            if self.line >= self.lines {
                (self.lane, self.line) = (self.lane + 1, 0);
            }
        }
    }
}

/// Copies a block of one series, with non-temporal stores where it is aligned.
pub(crate) fn copy_nontemporal(from: &[f64], to: &mut [f64], simd: Simd) {
    let done = arch::stream(from, to, &mut PrefetchQueue::default(), simd);
    to.iter_mut().zip(from).skip(done).for_each(|(to, x)| *to = *x);
}

/// Deinterleaves rows of up to eight series with non-temporal stores, whole cache lines only: a partial line would cost a
/// read-modify-write. What does not fill a line waits in `partial` for the next rows. The columns are complete; the rows are
/// their bars from `t0` on, and rows beyond a column's end are padding.
pub(crate) fn deinterleave_nontemporal<'c>(
    rows: &[Row<8>],
    t0: usize,
    columns: impl Iterator<Item = &'c mut [f64]>,
    partial: &mut PartialLines,
    scratch: &mut DeinterleaveScratch,
    simd: Simd,
) {
    // Not a power of two, so that the lanes do not conflict in L1 sets.
    let stride = (rows.len() + 2 * LINE_LEN).next_multiple_of(LINE_LEN);
    let mut columns = columns;
    for (half, partial) in partial.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let mut four: [&mut [f64]; 4] = std::array::from_fn(|_| columns.next().unwrap_or_default());
        if store_aligned(rows, (t0, half), &mut four, partial, &mut scratch.prefetch, simd) {
            continue;
        }
        scratch.lanes.resize(4 * stride, 0.0);
        split_lanes(rows, half, scratch, stride, simd);
        for ((all, column), partial) in scratch.lanes.chunks_exact_mut(stride).zip(four).zip(partial) {
            store_lane(all, (t0, rows.len()), column, partial, &mut scratch.prefetch, simd);
        }
    }
}

/// Four lanes whose columns have all of these bars, aligned to a cache line: straight from registers. `false` where one is
/// not.
fn store_aligned(
    rows: &[Row<8>],
    (t0, half): (usize, usize),
    columns: &mut [&mut [f64]; 4],
    partial: &mut [[f64; LINE_LEN]; 4],
    prefetch: &mut PrefetchQueue,
    simd: Simd,
) -> bool {
    let end = t0 + rows.len();
    let is_aligned = |c: &[f64]| c.as_ptr().wrapping_add(t0).addr().is_multiple_of(CACHE_LINE);
    if simd == Simd::SCALAR || !columns.iter().all(|c| c.len() >= end && is_aligned(c)) {
        return false;
    }
    let done = arch::stream_lines(rows, half, columns.each_mut().map(|c| &mut c[t0..end]), prefetch, simd);
    for (l, (column, partial)) in columns.iter_mut().zip(partial).enumerate() {
        let last = rows[done..].iter().map(|row| row[4 * half + l]);
        // What does not fill a line waits for the next rows, unless there are none.
        let to = if column.len() == end { &mut column[t0 + done..] } else { &mut partial[..] };
        to.iter_mut().zip(last).for_each(|(to, x)| *to = x);
    }
    true
}

/// Four lanes of the rows, each contiguous in the scratch memory, after room for its partial line.
fn split_lanes(rows: &[Row<8>], half: usize, scratch: &mut DeinterleaveScratch, stride: usize, simd: Simd) {
    let mut lanes = scratch.lanes.chunks_exact_mut(stride).map(|s| &mut s[LINE_LEN..]);
    let mut to: [&mut [f64]; 4] = std::array::from_fn(|_| lanes.next().unwrap_or_default());
    let done = arch::split_lanes(rows, half, to.each_mut().map(|c| &mut **c), &mut scratch.prefetch, simd);
    for (l, lane) in to.into_iter().enumerate() {
        for (x, row) in lane[done..].iter_mut().zip(&rows[done..]) {
            *x = row[4 * half + l];
        }
    }
}

/// Stores one lane: `all` has room for the partial line, then `n` bars from `t0` on.
fn store_lane(
    all: &mut [f64],
    (t0, n): (usize, usize),
    column: &mut [f64],
    partial: &mut [f64; LINE_LEN],
    prefetch: &mut PrefetchQueue,
    simd: Simd,
) {
    let end = (t0 + n).min(column.len());
    if t0 >= end {
        return;
    }
    let begin = column.as_ptr() as usize / size_of::<f64>();
    let waited = ((begin + t0) % LINE_LEN).min(t0);
    // Nothing waits at the column's end.
    let waits = if end == column.len() { 0 } else { ((begin + end) % LINE_LEN).min(end) };
    all[LINE_LEN - waited..LINE_LEN].copy_from_slice(&partial[..waited]);
    let (first, last) = (LINE_LEN - waited, LINE_LEN + (end - t0));
    let whole = last.saturating_sub(waits).max(first);
    partial[..last - whole].copy_from_slice(&all[whole..last]);
    let mut from = &all[first..whole];
    let mut to = &mut column[t0 - waited..][..from.len()];
    // The column's first line may be shared with memory before it.
    let head = ((LINE_LEN - (begin + t0 - waited) % LINE_LEN) % LINE_LEN).min(from.len());
    to[..head].copy_from_slice(&from[..head]);
    (to, from) = (&mut to[head..], &from[head..]);
    let done = arch::stream(from, to, prefetch, simd);
    to[done..].copy_from_slice(&from[done..]);
}

/// Prefetches a cache line, and its TLB entry.
pub(crate) fn prefetch(line: *const f64) {
    arch::prefetch(line, 0);
}

/// Orders non-temporal stores before everything that follows.
pub(crate) fn store_fence() {
    arch::store_fence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleave_and_deinterleave_are_inverse_for_every_length_and_simd_level() {
        for simd in Simd::available() {
            for n in [0, 1, 3, 4, 5, 8, 31, 64, 257] {
                let lanes: Vec<Vec<f64>> =
                    (0..8).map(|l| (0..n).map(|t| (1000 * l + t) as f64).collect()).collect();
                let slices: [&[f64]; 8] = std::array::from_fn(|l| lanes[l].as_slice());
                let mut rows = vec![[0.0; 8]; n];
                interleave(&slices, &mut rows, simd, true);
                for (t, row) in rows.iter().enumerate() {
                    assert!((0..8).all(|l| row[l] == (1000 * l + t) as f64), "{simd:?} {n} {t}");
                }
                // At every alignment.
                for skip in 0..4 {
                    let mut back = vec![vec![0.0; n + skip]; 8];
                    let mut columns = back.iter_mut().map(|c| &mut c[skip..]);
                    let mut columns: [&mut [f64]; 8] =
                        std::array::from_fn(|_| columns.next().unwrap_or_default());
                    deinterleave(&rows, &mut columns, simd);
                    for (back, lane) in back.iter().zip(&lanes) {
                        assert_eq!(&back[skip..], lane, "{simd:?} {n}");
                    }
                }
            }
        }
    }

    /// Columns of different lengths and alignments, in blocks of every size.
    #[test]
    fn nontemporal_stores_write_every_bar_once_and_nothing_else() {
        for simd in Simd::available() {
            for (n, series) in [(1, 8), (7, 3), (64, 8), (300, 8), (517, 5)] {
                for block in [1, 3, 8, 64, 100, 256, 1000] {
                    let lanes: Vec<Vec<f64>> = (0..series)
                        .map(|l| (0..n - (l * n / 16)).map(|t| (1000 * l + t) as f64).collect())
                        .collect();
                    let mut back: Vec<Vec<f64>> = lanes.iter().map(|l| vec![-1.0; l.len() + 24]).collect();
                    let (mut partial, mut scratch) =
                        (PartialLines::default(), DeinterleaveScratch::default());
                    let mut t0 = 0;
                    while t0 < n {
                        let t1 = (t0 + block).min(n);
                        let at = |t: usize, l: usize| lanes.get(l).and_then(|x| x.get(t)).copied();
                        let rows: Vec<Row<8>> =
                            (t0..t1).map(|t| std::array::from_fn(|l| at(t, l).unwrap_or(f64::NAN))).collect();
                        let columns = back.iter_mut().zip(&lanes).enumerate();
                        let columns = columns.map(|(l, (b, x))| &mut b[l..l + x.len()]);
                        deinterleave_nontemporal(&rows, t0, columns, &mut partial, &mut scratch, simd);
                        t0 = t1;
                    }
                    store_fence();
                    for (l, (back, lane)) in back.iter().zip(&lanes).enumerate() {
                        assert_eq!(&back[l..l + lane.len()], lane, "{simd:?} {n} {block} {l}");
                        let outside = back[..l].iter().chain(&back[l + lane.len()..]);
                        assert!(outside.into_iter().all(|x| *x == -1.0), "{simd:?} {n} {block} {l}");
                    }
                }
            }
        }
    }
}
