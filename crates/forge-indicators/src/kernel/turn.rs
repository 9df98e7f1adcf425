//! Eight series side by side and apart again, four bars of four series at a time in registers.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes, and every slice is as long as asked for"
)]

use super::{Row, Simd};

/// Writes bars of eight series side by side. Every lane has as many bars as there are rows.
pub(crate) fn together(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd) {
    let n = lanes.iter().map(|l| l.len()).min().unwrap_or(0).min(rows.len());
    let done = wide::together(lanes, &mut rows[..n], simd);
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
    /// Past the caches: so much is written that nothing of it would be there when the next block comes.
    Past,
}

/// Writes rows of eight series to a column each. Every column has as many bars as there are rows.
pub(crate) fn apart(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd, write: Write) {
    let n = columns.iter().map(|c| c.len()).min().unwrap_or(0).min(rows.len());
    let done = wide::apart(&rows[..n], columns, simd, write);
    for (l, column) in columns.iter_mut().enumerate() {
        for (x, row) in column[done..n].iter_mut().zip(&rows[done..n]) {
            *x = row[l];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m256d, _MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch, _mm_sfence, _mm256_loadu_pd,
        _mm256_permute2f128_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
    };

    use super::{Row, Simd, Write};

    /// Asks for memory that the next block will read, or write.
    #[inline]
    fn soon<const HINT: i32>(here: *const f64, bars: usize) {
        #[allow(unsafe_code, reason = "a hint about an address")]
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe {
            _mm_prefetch::<HINT>(here.wrapping_add(bars).cast());
        }
    }

    /// How many rows were done; the rest is for the plain loop.
    pub(super) fn together(lanes: &[&[f64]; 8], rows: &mut [Row<8>], simd: Simd) -> usize {
        if simd == Simd::Plain {
            return 0;
        }
        #[allow(unsafe_code, reason = "the compiler may use AVX2 only where we promise that it is there")]
        // SAFETY: `Simd::best` found at least AVX2 on this machine.
        unsafe {
            together_avx2(lanes, rows)
        }
    }

    pub(super) fn apart(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd, write: Write) -> usize {
        if simd == Simd::Plain {
            return 0;
        }
        let whole = columns.iter().all(|c| (c.as_ptr() as usize).is_multiple_of(32));
        if write == Write::Past && whole {
            #[allow(unsafe_code, reason = "as above")]
            // SAFETY: as above; every column begins at a whole vector.
            return unsafe { apart_past(rows, columns) };
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
    fn together_avx2(lanes: &[&[f64]; 8], rows: &mut [Row<8>]) -> usize {
        let lanes = lanes.map(|l| l.as_chunks::<4>().0);
        let quads = rows.as_chunks_mut::<4>().0;
        let n = quads.len();
        let lanes = lanes.map(|l| &l[..n]);
        for (q, quad) in quads.iter_mut().enumerate() {
            if q % 2 == 0 {
                lanes.iter().for_each(|l| soon::<_MM_HINT_T0>(l[q].as_ptr(), 4 * n));
            }
            for half in 0..2 {
                let at = 4 * half;
                let from = [
                    load(&lanes[at][q]),
                    load(&lanes[at + 1][q]),
                    load(&lanes[at + 2][q]),
                    load(&lanes[at + 3][q]),
                ];
                for (row, x) in quad.iter_mut().zip(turn(from)) {
                    store(&mut row.as_chunks_mut::<4>().0[half], x);
                }
            }
        }
        4 * n
    }

    /// Columns begin at a whole vector.
    #[target_feature(enable = "avx2")]
    fn apart_past(rows: &[Row<8>], columns: &mut [&mut [f64]; 8]) -> usize {
        let quads = rows.as_chunks::<4>().0;
        let n = quads.len();
        for (half, columns) in columns.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let [a, b, c, d] = columns.each_mut().map(|c| &mut c.as_chunks_mut::<4>().0[..n]);
            for (q, quad) in quads.iter().enumerate() {
                let part = |row: usize| &quad[row].as_chunks::<4>().0[half];
                let from = [load(part(0)), load(part(1)), load(part(2)), load(part(3))];
                let [w, x, y, z] = turn(from);
                for (to, x) in [(&mut a[q], w), (&mut b[q], x), (&mut c[q], y), (&mut d[q], z)] {
                    #[allow(unsafe_code, reason = "a store to an address")]
                    // SAFETY: there is room for four numbers, and every column begins at a whole vector.
                    unsafe {
                        _mm256_stream_pd(to.as_mut_ptr(), x);
                    }
                }
            }
        }
        // Such stores are in no order with others until here.
        _mm_sfence();
        4 * n
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
    use super::{Row, Simd, Write};

    pub(super) fn together(_: &[&[f64]; 8], _: &mut [Row<8>], _: Simd) -> usize {
        0
    }

    pub(super) fn apart(_: &[Row<8>], _: &mut [&mut [f64]; 8], _: Simd, _: Write) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_for_every_length_and_instruction_set() {
        for simd in Simd::all() {
            for n in [0, 1, 3, 4, 5, 8, 31, 64, 257] {
                let lanes: Vec<Vec<f64>> =
                    (0..8).map(|l| (0..n).map(|t| (1000 * l + t) as f64).collect()).collect();
                let slices: [&[f64]; 8] = std::array::from_fn(|l| lanes[l].as_slice());
                let mut rows = vec![[0.0; 8]; n];
                together(&slices, &mut rows, simd);
                for (t, row) in rows.iter().enumerate() {
                    assert!((0..8).all(|l| row[l] == (1000 * l + t) as f64), "{simd:?} {n} {t}");
                }
                for write in [Write::Cached, Write::Past] {
                    // At every place relative to a whole vector.
                    for skip in 0..4 {
                        let mut back = vec![vec![0.0; n + skip]; 8];
                        let mut columns = back.iter_mut().map(|c| &mut c[skip..]);
                        let mut columns: [&mut [f64]; 8] =
                            std::array::from_fn(|_| columns.next().unwrap_or_default());
                        apart(&rows, &mut columns, simd, write);
                        for (back, lane) in back.iter().zip(&lanes) {
                            assert_eq!(&back[skip..], lane, "{simd:?} {n} {write:?}");
                        }
                    }
                }
            }
        }
    }
}
