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

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m256d, _mm256_loadu_pd, _mm256_permute2f128_pd, _mm256_storeu_pd, _mm256_unpackhi_pd,
        _mm256_unpacklo_pd,
    };

    use super::{Row, Simd};

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

    pub(super) fn apart(rows: &[Row<8>], columns: &mut [&mut [f64]; 8], simd: Simd) -> usize {
        if simd == Simd::Plain {
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
    fn together_avx2(lanes: &[&[f64]; 8], rows: &mut [Row<8>]) -> usize {
        let lanes = lanes.map(|l| l.as_chunks::<4>().0);
        let quads = rows.as_chunks_mut::<4>().0;
        let n = quads.len();
        let lanes = lanes.map(|l| &l[..n]);
        for (q, quad) in quads.iter_mut().enumerate() {
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

    #[target_feature(enable = "avx2")]
    fn apart_avx2(rows: &[Row<8>], columns: &mut [&mut [f64]; 8]) -> usize {
        let quads = rows.as_chunks::<4>().0;
        let n = quads.len();
        // Four columns at a time: more streams than a core follows well are slower than reading the rows twice.
        for (half, columns) in columns.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let [a, b, c, d] = columns.each_mut().map(|c| &mut c.as_chunks_mut::<4>().0[..n]);
            for (q, quad) in quads.iter().enumerate() {
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
    use super::{Row, Simd};

    pub(super) fn together(_: &[&[f64]; 8], _: &mut [Row<8>], _: Simd) -> usize {
        0
    }

    pub(super) fn apart(_: &[Row<8>], _: &mut [&mut [f64]; 8], _: Simd) -> usize {
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
                let mut back = vec![vec![0.0; n]; 8];
                let mut columns = back.iter_mut().map(Vec::as_mut_slice);
                let mut columns: [&mut [f64]; 8] =
                    std::array::from_fn(|_| columns.next().unwrap_or_default());
                apart(&rows, &mut columns, simd);
                assert_eq!(back, lanes, "{simd:?} {n}");
            }
        }
    }
}
