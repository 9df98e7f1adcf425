//! Eight series side by side and apart again, four bars of four series at a time in registers.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes, and every slice is as long as asked for"
)]

use super::{Row, Simd};

/// Writes bars of eight series side by side. Every lane has as many bars as there are rows. `ask` for those of the next block?
pub(crate) fn together(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd, ask: bool) {
    let n = lanes.iter().map(|l| l.len()).min().unwrap_or(0).min(rows.len());
    let done = wide::together(lanes, &mut rows[..n], simd, ask);
    for (l, lane) in lanes.iter().enumerate() {
        for (row, x) in rows[done..n].iter_mut().zip(&lane[done..]) {
            row[l] = *x;
        }
    }
}

/// How results go to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Through the caches; what the next block writes is asked for.
    Cached,
    /// Past the caches: so much is written that nothing of it would be there when somebody reads it.
    Past,
}

/// Writes rows of eight series to a column each. Every column has as many bars as there are rows.
pub(crate) fn apart(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd) {
    let n = columns.iter().map(|c| c.len()).min().unwrap_or(0).min(rows.len());
    let done = wide::apart(&rows[..n], columns, simd);
    for (l, column) in columns.iter_mut().enumerate() {
        for (x, row) in column[done..n].iter_mut().zip(&rows[done..n]) {
            *x = row[l];
        }
    }
}

/// A line of the cache; vector stores that cross one take twice as long.
pub(crate) const LINE: usize = 64;
/// Numbers in it.
const WIDE: usize = LINE / size_of::<f64>();

/// What of a result is not yet in its columns: for each series the bars since its column's last whole line.
pub(crate) type Rest = [[f64; WIDE]; 8];

/// Room in which results are taken apart before they are written.
#[derive(Default)]
pub(crate) struct Bench {
    room: Vec<f64>,
    pub(crate) ahead: Ahead,
}

/// Memory that the next block reads, asked for line by line while this one is computed: a core waits for few lines at once, so
/// that asking for all of them in one place takes as long as reading them.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Where each lane's bars begin.
    pub(crate) lanes: Vec<*const f64>,
    /// Lines of each.
    pub(crate) lines: usize,
    lane: usize,
    line: usize,
}

impl Ahead {
    /// From the beginning, with other lanes.
    pub(crate) fn begin(&mut self, lines: usize) {
        self.lanes.clear();
        (self.lines, self.lane, self.line) = (lines, 0, 0);
    }

    /// Asks for the next line, if there is one.
    #[inline(always)]
    fn next(&mut self) {
        if let Some(lane) = self.lanes.get(self.lane) {
            wide::ask(*lane, self.line * WIDE);
            self.line += 1;
            if self.line >= self.lines {
                (self.lane, self.line) = (self.lane + 1, 0);
            }
        }
    }
}

/// Copies a block of one series, past the caches where its place allows it.
pub(crate) fn copy_past(from: &[f64], to: &mut [f64], simd: Simd) {
    let done = wide::stream(from, to, &mut Ahead::default(), simd);
    to.iter_mut().zip(from).skip(done).for_each(|(to, x)| *to = *x);
}

/// Writes rows of up to eight series to their columns past the caches, in whole lines only: half a line costs as much as two.
/// What does not fill one waits in `rest` for the next rows. The columns are whole; the rows are their bars from `t0` on, and
/// rows beyond a column's end belong to nobody.
pub(crate) fn apart_past<'c>(
    rows: &[Row<8>],
    t0: usize,
    columns: impl Iterator<Item = &'c mut [f64]>,
    rest: &mut Rest,
    bench: &mut Bench,
    simd: Simd,
) {
    // Not a power of two apart, so that the lanes do not share sets of the first cache.
    let stride = (rows.len() + 2 * WIDE).next_multiple_of(WIDE);
    let mut columns = columns;
    for (half, rest) in rest.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let mut four: [&mut [f64]; 4] = std::array::from_fn(|_| columns.next().unwrap_or_default());
        if by_lines(rows, (t0, half), &mut four, rest, &mut bench.ahead, simd) {
            continue;
        }
        bench.room.resize(4 * stride, 0.0);
        spread(rows, half, bench, stride, simd);
        for ((all, column), rest) in bench.room.chunks_exact_mut(stride).zip(four).zip(rest) {
            deliver(all, (t0, rows.len()), column, rest, &mut bench.ahead, simd);
        }
    }
}

/// Four lanes whose columns all have these bars, from the beginning of a line on: no detour over the bench. `false` where one
/// has not.
fn by_lines(
    rows: &[Row<8>],
    (t0, half): (usize, usize),
    columns: &mut [&mut [f64]; 4],
    rest: &mut [[f64; WIDE]; 4],
    ahead: &mut Ahead,
    simd: Simd,
) -> bool {
    let end = t0 + rows.len();
    let in_line = |c: &[f64]| c.as_ptr().wrapping_add(t0).addr().is_multiple_of(LINE);
    if simd == Simd::SCALAR || !columns.iter().all(|c| c.len() >= end && in_line(c)) {
        return false;
    }
    let done = wide::lines(rows, half, columns.each_mut().map(|c| &mut c[t0..end]), ahead, simd);
    for (l, (column, rest)) in columns.iter_mut().zip(rest).enumerate() {
        let last = rows[done..].iter().map(|row| row[4 * half + l]);
        // What does not fill a line waits for the next rows, unless there are none.
        let to = if column.len() == end { &mut column[t0 + done..] } else { &mut rest[..] };
        to.iter_mut().zip(last).for_each(|(to, x)| *to = x);
    }
    true
}

/// Four lanes of the rows, each in its stretch of the bench, after room for what waited.
fn spread(rows: &[Row<8>], half: usize, bench: &mut Bench, stride: usize, simd: Simd) {
    let mut stretches = bench.room.chunks_exact_mut(stride).map(|s| &mut s[WIDE..]);
    let mut to: [&mut [f64]; 4] = std::array::from_fn(|_| stretches.next().unwrap_or_default());
    let done = wide::four(rows, half, to.each_mut().map(|c| &mut **c), &mut bench.ahead, simd);
    for (l, lane) in to.into_iter().enumerate() {
        for (x, row) in lane[done..].iter_mut().zip(&rows[done..]) {
            *x = row[4 * half + l];
        }
    }
}

/// One lane: `all` has room for what waited, then `n` bars from `t0` on.
fn deliver(
    all: &mut [f64],
    (t0, n): (usize, usize),
    column: &mut [f64],
    rest: &mut [f64; WIDE],
    ahead: &mut Ahead,
    simd: Simd,
) {
    let end = (t0 + n).min(column.len());
    if t0 >= end {
        return;
    }
    let begin = column.as_ptr() as usize / size_of::<f64>();
    let waited = ((begin + t0) % WIDE).min(t0);
    // All of it at the column's end.
    let waits = if end == column.len() { 0 } else { ((begin + end) % WIDE).min(end) };
    all[WIDE - waited..WIDE].copy_from_slice(&rest[..waited]);
    let (first, last) = (WIDE - waited, WIDE + (end - t0));
    let whole = last.saturating_sub(waits).max(first);
    rest[..last - whole].copy_from_slice(&all[whole..last]);
    let mut from = &all[first..whole];
    let mut to = &mut column[t0 - waited..][..from.len()];
    // The column's first line may be shared with what is before it.
    let head = ((WIDE - (begin + t0 - waited) % WIDE) % WIDE).min(from.len());
    to[..head].copy_from_slice(&from[..head]);
    (to, from) = (&mut to[head..], &from[head..]);
    let done = wide::stream(from, to, ahead, simd);
    to[done..].copy_from_slice(&from[done..]);
}

/// Asks for a line, and the page that it is in.
pub(crate) fn ask(line: *const f64) {
    wide::ask(line, 0);
}

/// What was written past the caches is in memory for everybody.
pub(crate) fn settle() {
    wide::settle();
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m256d, _MM_HINT_ET0, _MM_HINT_T1, _mm_prefetch, _mm_sfence, _mm256_loadu_pd,
        _mm256_permute2f128_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
    };

    use super::{Ahead, LINE, Row, Simd};

    /// Asks for memory that the next block will read, or write.
    #[inline]
    fn soon<const HINT: i32>(here: *const f64, bars: usize) {
        #[allow(unsafe_code, reason = "a hint about an address")]
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe {
            _mm_prefetch::<HINT>(here.wrapping_add(bars).cast());
        }
    }

    /// Asks for a line that is read in a while.
    #[inline(always)]
    pub(super) fn ask(lane: *const f64, bars: usize) {
        soon::<_MM_HINT_T1>(lane, bars);
    }

    /// How many rows were done; the rest is for the plain loop.
    pub(super) fn together(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd, ask: bool) -> usize {
        if simd == Simd::SCALAR {
            return 0;
        }
        #[allow(unsafe_code, reason = "the compiler may use AVX2 only where we promise that it is there")]
        // SAFETY: every detected `Simd` but the scalar one includes AVX2.
        unsafe {
            together_avx2(lanes, rows, ask)
        }
    }

    pub(super) fn apart(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd) -> usize {
        if simd == Simd::SCALAR {
            return 0;
        }
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            apart_avx2(rows, columns)
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(from: &[f64; 4]) -> __m256d {
        #[allow(unsafe_code, reason = "a load from an address")]
        // SAFETY: four numbers are there.
        unsafe {
            _mm256_loadu_pd(from.as_ptr())
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(to: &mut [f64; 4], x: __m256d) {
        #[allow(unsafe_code, reason = "a store to an address")]
        // SAFETY: there is room for four numbers.
        unsafe {
            _mm256_storeu_pd(to.as_mut_ptr(), x);
        }
    }

    /// Four rows of four become four columns of four.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn turn([a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
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
    fn together_avx2(lanes: &[&[f64]; 8], rows: &mut [Row<8>], ask: bool) -> usize {
        let lanes = lanes.map(|l| l.as_chunks::<4>().0);
        let quads = rows.as_chunks_mut::<4>().0;
        let n = quads.len();
        // Four lanes at a time: columns often lie whole pages apart, and then eight of them have no room beside each other
        // in the first cache.
        for (half, lanes) in lanes.as_chunks::<4>().0.iter().enumerate() {
            let [a, b, c, d] = lanes.map(|l| &l[..n]);
            for (q, quad) in quads.iter_mut().enumerate() {
                if ask && q % 2 == 0 {
                    let lines = [&a[q], &b[q], &c[q], &d[q]];
                    lines.into_iter().for_each(|l| soon::<_MM_HINT_T1>(l.as_ptr(), 4 * n));
                }
                let from = [load(&a[q]), load(&b[q]), load(&c[q]), load(&d[q])];
                for (row, x) in quad.iter_mut().zip(turn(from)) {
                    store(&mut row.as_chunks_mut::<4>().0[half], x);
                }
            }
        }
        4 * n
    }

    /// Four lanes of rows, each after the other; how many rows were done.
    pub(super) fn four(
        rows: &[Row<8>],
        half: usize,
        to: [&mut [f64]; 4],
        ahead: &mut Ahead,
        simd: Simd,
    ) -> usize {
        if simd == Simd::SCALAR {
            return 0;
        }
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            four_avx2(rows, half, to, ahead)
        }
    }

    #[target_feature(enable = "avx2")]
    fn four_avx2(rows: &[Row<8>], half: usize, to: [&mut [f64]; 4], ahead: &mut Ahead) -> usize {
        let quads = rows.as_chunks::<4>().0;
        let n = quads.len();
        let [a, b, c, d] = to.map(|c| &mut c.as_chunks_mut::<4>().0[..n]);
        for (q, quad) in quads.iter().enumerate() {
            // With what `stream` asks for, as many lines as the rows have: one column of bars for every result.
            ahead.next();
            let part = |row: usize| &quad[row].as_chunks::<4>().0[half];
            let [w, x, y, z] = turn([load(part(0)), load(part(1)), load(part(2)), load(part(3))]);
            store(&mut a[q], w);
            store(&mut b[q], x);
            store(&mut c[q], y);
            store(&mut d[q], z);
        }
        4 * n
    }

    /// Four lanes of rows to whole lines past the caches; how many rows were done. The columns begin at whole lines.
    pub(super) fn lines(
        rows: &[Row<8>],
        half: usize,
        to: [&mut [f64]; 4],
        ahead: &mut Ahead,
        simd: Simd,
    ) -> usize {
        if simd == Simd::SCALAR || !to.iter().all(|c| c.as_ptr().addr().is_multiple_of(LINE)) {
            return 0;
        }
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above; every column begins at a whole line.
        unsafe {
            lines_avx2(rows, half, to, ahead)
        }
    }

    /// The columns begin at whole lines.
    #[target_feature(enable = "avx2")]
    fn lines_avx2(rows: &[Row<8>], half: usize, to: [&mut [f64]; 4], ahead: &mut Ahead) -> usize {
        let octets = rows.as_chunks::<8>().0;
        let n = octets.len();
        let mut to = to.map(|c| &mut c.as_chunks_mut::<8>().0[..n]);
        for (o, octet) in octets.iter().enumerate() {
            let part = |row: usize| &octet[row].as_chunks::<4>().0[half];
            let early = turn([load(part(0)), load(part(1)), load(part(2)), load(part(3))]);
            let late = turn([load(part(4)), load(part(5)), load(part(6)), load(part(7))]);
            for ((column, early), late) in to.iter_mut().zip(early).zip(late) {
                // As many lines as are written: one column of bars for every result.
                ahead.next();
                let [first, second] = column[o].as_chunks_mut::<4>().0 else { continue };
                stream_four(first, early);
                stream_four(second, late);
            }
        }
        8 * n
    }

    /// `to` is a whole half of a line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn stream_four(to: &mut [f64; 4], x: __m256d) {
        #[allow(unsafe_code, reason = "a store to an address")]
        // SAFETY: there is room for four numbers, at a whole half of a line.
        unsafe {
            _mm256_stream_pd(to.as_mut_ptr(), x);
        }
    }

    /// Copies whole cache lines past the caches, if there are any to begin with; how many numbers were done.
    pub(super) fn stream(from: &[f64], to: &mut [f64], ahead: &mut Ahead, simd: Simd) -> usize {
        if simd == Simd::SCALAR || !(to.as_ptr() as usize).is_multiple_of(LINE) {
            return 0;
        }
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above; `to` begins at a whole line.
        unsafe {
            stream_avx2(from, to, ahead)
        }
    }

    /// `to` begins at a whole line.
    #[target_feature(enable = "avx2")]
    fn stream_avx2(from: &[f64], to: &mut [f64], ahead: &mut Ahead) -> usize {
        let lines = to.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0);
        let n = lines.len();
        for (at, (to, from)) in lines.enumerate() {
            if at % 2 == 0 {
                ahead.next();
            }
            let (to, from) = (to.as_chunks_mut::<4>().0, from.as_chunks::<4>().0);
            to.iter_mut().zip(from).for_each(|(to, from)| stream_four(to, load(from)));
        }
        8 * n
    }

    /// Stores past the caches are in no order with others until here.
    pub(super) fn settle() {
        #[allow(unsafe_code, reason = "an instruction that every machine of this architecture has")]
        // SAFETY: SSE is part of x86-64.
        unsafe {
            _mm_sfence();
        }
    }

    #[target_feature(enable = "avx2")]
    fn apart_avx2(rows: &[Row<8>], columns: &mut [&mut [f64]; 8]) -> usize {
        let quads = rows.as_chunks::<4>().0;
        let n = quads.len();
        // Four columns at a time: more streams than a core follows well are slower than reading the rows twice.
        for (half, columns) in columns.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let [a, b, c, d] = columns.each_mut().map(|c| &mut c.as_chunks_mut::<4>().0[..n]);
            for (q, quad) in quads.iter().enumerate() {
                if q % 2 == 0 {
                    let lines = [&a[q], &b[q], &c[q], &d[q]];
                    lines.into_iter().for_each(|l| soon::<_MM_HINT_ET0>(l.as_ptr(), 4 * n));
                }
                let part = |row: usize| &quad[row].as_chunks::<4>().0[half];
                let from = [load(part(0)), load(part(1)), load(part(2)), load(part(3))];
                let [w, x, y, z] = turn(from);
                store(&mut a[q], w);
                store(&mut b[q], x);
                store(&mut c[q], y);
                store(&mut d[q], z);
            }
        }
        4 * n
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod wide {
    use super::{Ahead, Row, Simd};

    pub(super) fn ask(_: *const f64, _: usize) {}

    pub(super) fn together(_: &[&[f64]; 8], _: &mut [Row<8>], _: Simd, _: bool) -> usize {
        0
    }

    pub(super) fn apart(_: &[Row<8>], _: &mut [&mut [f64]; 8], _: Simd) -> usize {
        0
    }

    pub(super) fn four(_: &[Row<8>], _: usize, _: [&mut [f64]; 4], _: &mut Ahead, _: Simd) -> usize {
        0
    }

    pub(super) fn lines(_: &[Row<8>], _: usize, _: [&mut [f64]; 4], _: &mut Ahead, _: Simd) -> usize {
        0
    }

    pub(super) fn stream(_: &[f64], _: &mut [f64], _: &mut Ahead, _: Simd) -> usize {
        0
    }

    pub(super) fn settle() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_for_every_length_and_instruction_set() {
        for simd in Simd::available() {
            for n in [0, 1, 3, 4, 5, 8, 31, 64, 257] {
                let lanes: Vec<Vec<f64>> =
                    (0..8).map(|l| (0..n).map(|t| (1000 * l + t) as f64).collect()).collect();
                let slices: [&[f64]; 8] = std::array::from_fn(|l| lanes[l].as_slice());
                let mut rows = vec![[0.0; 8]; n];
                together(&slices, &mut rows, simd, true);
                for (t, row) in rows.iter().enumerate() {
                    assert!((0..8).all(|l| row[l] == (1000 * l + t) as f64), "{simd:?} {n} {t}");
                }
                // At every place relative to a whole vector.
                for skip in 0..4 {
                    let mut back = vec![vec![0.0; n + skip]; 8];
                    let mut columns = back.iter_mut().map(|c| &mut c[skip..]);
                    let mut columns: [&mut [f64]; 8] =
                        std::array::from_fn(|_| columns.next().unwrap_or_default());
                    apart(&rows, &mut columns, simd);
                    for (back, lane) in back.iter().zip(&lanes) {
                        assert_eq!(&back[skip..], lane, "{simd:?} {n}");
                    }
                }
            }
        }
    }

    /// Columns of different lengths and at different places in a line, in blocks of every size.
    #[test]
    fn past_the_caches_every_bar_arrives_once_and_nothing_else_is_touched() {
        for simd in Simd::available() {
            for (n, series) in [(1, 8), (7, 3), (64, 8), (300, 8), (517, 5)] {
                for block in [1, 3, 8, 64, 100, 256, 1000] {
                    let lanes: Vec<Vec<f64>> = (0..series)
                        .map(|l| (0..n - (l * n / 16)).map(|t| (1000 * l + t) as f64).collect())
                        .collect();
                    let mut back: Vec<Vec<f64>> = lanes.iter().map(|l| vec![-1.0; l.len() + 24]).collect();
                    let (mut rest, mut bench) = (Rest::default(), Bench::default());
                    let mut t0 = 0;
                    while t0 < n {
                        let t1 = (t0 + block).min(n);
                        let at = |t: usize, l: usize| lanes.get(l).and_then(|x| x.get(t)).copied();
                        let rows: Vec<Row<8>> =
                            (t0..t1).map(|t| std::array::from_fn(|l| at(t, l).unwrap_or(f64::NAN))).collect();
                        let columns = back.iter_mut().zip(&lanes).enumerate();
                        let columns = columns.map(|(l, (b, x))| &mut b[l..l + x.len()]);
                        apart_past(&rows, t0, columns, &mut rest, &mut bench, simd);
                        t0 = t1;
                    }
                    settle();
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
