//! What is the greatest or least of the last few bars, of one series? Windows are doubled in registers: what came before a
//! register's first bar is moved in from the register before, so that memory is read once, whatever the width.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256d, __m512d, _CMP_UNORD_Q, _mm256_cmp_pd, _mm256_loadu_pd, _mm256_max_pd, _mm256_min_pd,
    _mm256_movemask_pd, _mm256_or_pd, _mm256_permute2f128_pd, _mm256_setzero_pd, _mm256_shuffle_pd,
    _mm256_storeu_pd, _mm512_alignr_epi64, _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_cmp_pd_mask,
    _mm512_loadu_pd, _mm512_max_pd, _mm512_min_pd, _mm512_storeu_pd,
};

#[cfg(target_arch = "x86_64")]
use gpuforge_simd::SimdLevel;

use crate::kernel::Simd;
#[cfg(target_arch = "x86_64")]
use crate::kernel::transpose;

/// The widest window that registers alone give.
pub(super) const WIDEST: usize = 16;

/// Writes of every bar the greatest (or least) of the last `width`, 2, 4, 8 or 16; of equals it is the latest. The first bars
/// have no such window and get whatever. `false` where a bar is NaN, or there are no such registers: what was written then
/// means nothing.
pub(super) fn trailing<const MAX: bool>(from: &[f64], to: &mut [f64], width: usize, simd: Simd) -> bool {
    #[cfg(target_arch = "x86_64")]
    #[allow(
        unsafe_code,
        reason = "an instruction set may be used only where somebody promises that it is there"
    )]
    match simd.level() {
        // SAFETY: a `Simd` of this level was detected on this CPU.
        SimdLevel::Avx512 => return unsafe { trailing_512::<MAX>(from, to, width) },
        // SAFETY: as above.
        SimdLevel::Avx2 => return unsafe { trailing_256::<MAX>(from, to, width) },
        SimdLevel::Scalar => {}
    }
    let _ = (from, to, width, simd);
    false
}

/// The greater or lesser of two, of equals the later: that is what the instructions do with their second operand.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn outer_512<const MAX: bool>(earlier: __m512d, later: __m512d) -> __m512d {
    if MAX { _mm512_max_pd(earlier, later) } else { _mm512_min_pd(earlier, later) }
}

/// A register as it was some bars before: `8 - BY` of them.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn moved_512<const BY: i32>(before: __m512d, now: __m512d) -> __m512d {
    let (before, now) = (_mm512_castpd_si512(before), _mm512_castpd_si512(now));
    _mm512_castsi512_pd(_mm512_alignr_epi64::<BY>(now, before))
}

/// `N` bars at a time; what is left at the end is filled up with zeros.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn by_registers<const N: usize>(
    from: &[f64],
    to: &mut [f64],
    mut next: impl FnMut(&[f64; N], &mut [f64; N]),
) {
    let ((wide, rest), (to_wide, to_rest)) = (from.as_chunks::<N>(), to.as_chunks_mut::<N>());
    for (here, to) in wide.iter().zip(to_wide) {
        // The next block: the hardware prefetcher stops at page boundaries.
        transpose::prefetch(here.as_ptr().wrapping_add(from.len()));
        next(here, to);
    }
    let (mut last, mut found) = ([0.0; N], [0.0; N]);
    last.iter_mut().zip(rest).for_each(|(to, x)| *to = *x);
    next(&last, &mut found);
    to_rest.iter_mut().zip(found).for_each(|(to, x)| *to = x);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn trailing_512<const MAX: bool>(from: &[f64], to: &mut [f64], width: usize) -> bool {
    #[allow(unsafe_code, reason = "a load of eight numbers that are there")]
    // SAFETY: a chunk has eight numbers.
    let load = |x: &[f64; 8]| unsafe { _mm512_loadu_pd(x.as_ptr()) };
    let mut before = [load(&from.first_chunk().copied().unwrap_or_default()); 4];
    let mut nan = 0;
    by_registers(from, to, |from, to| {
        let now = load(from);
        nan |= _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(now, now);
        let two = outer_512::<MAX>(moved_512::<7>(before[0], now), now);
        let four = outer_512::<MAX>(moved_512::<6>(before[1], two), two);
        let eight = outer_512::<MAX>(moved_512::<4>(before[2], four), four);
        let sixteen = outer_512::<MAX>(before[3], eight);
        before = [now, two, four, eight];
        let found = match width {
            2 => two,
            4 => four,
            8 => eight,
            _ => sixteen,
        };
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), found);
        }
    });
    nan == 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn outer_256<const MAX: bool>(earlier: __m256d, later: __m256d) -> __m256d {
    if MAX { _mm256_max_pd(earlier, later) } else { _mm256_min_pd(earlier, later) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn trailing_256<const MAX: bool>(from: &[f64], to: &mut [f64], width: usize) -> bool {
    #[allow(unsafe_code, reason = "a load of four numbers that are there")]
    // SAFETY: a chunk has four numbers.
    let load = |x: &[f64; 4]| unsafe { _mm256_loadu_pd(x.as_ptr()) };
    let mut before = [load(&from.first_chunk().copied().unwrap_or_default()); 5];
    let mut nan = _mm256_setzero_pd();
    by_registers(from, to, |from, to| {
        let now = load(from);
        nan = _mm256_or_pd(nan, _mm256_cmp_pd::<_CMP_UNORD_Q>(now, now));
        let half = _mm256_permute2f128_pd::<0x21>(before[0], now);
        let two = outer_256::<MAX>(_mm256_shuffle_pd::<0b0101>(half, now), now);
        let four = outer_256::<MAX>(_mm256_permute2f128_pd::<0x21>(before[1], two), two);
        let eight = outer_256::<MAX>(before[2], four);
        let sixteen = outer_256::<MAX>(before[4], eight);
        before = [now, two, four, eight, before[3]];
        let found = match width {
            2 => two,
            4 => four,
            8 => eight,
            _ => sixteen,
        };
        #[allow(unsafe_code, reason = "as above")]
        // SAFETY: as above.
        unsafe {
            _mm256_storeu_pd(to.as_mut_ptr(), found);
        }
    });
    _mm256_movemask_pd(nan) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The latest of the greatest (or least) of a window.
    fn plain(max: bool, window: &[f64]) -> f64 {
        let mut best = window[0];
        for x in window {
            let better = if max { best > *x } else { best < *x };
            best = if better { best } else { *x };
        }
        best
    }

    fn check<const MAX: bool>(x: &[f64], width: usize, simd: Simd) {
        let mut got = vec![-1.0; x.len()];
        let clean = simd != Simd::SCALAR && !x.iter().any(|x| x.is_nan());
        assert_eq!(trailing::<MAX>(x, &mut got, width, simd), clean, "{width} {simd:?} of {}", x.len());
        for t in (width - 1..x.len()).filter(|_| clean) {
            let want = plain(MAX, &x[t + 1 - width..=t]);
            assert_eq!(got[t].to_bits(), want.to_bits(), "{width} {simd:?} bar {t} of {}", x.len());
        }
    }

    #[test]
    fn of_equals_the_latest_whatever_the_length() {
        for simd in Simd::available() {
            for len in (0..40).chain([100, 511, 512, 513]) {
                // Both zeros are among them: equal, and not the same bits.
                let x: Vec<f64> =
                    (0..len).map(|t| [0.0, -0.0, -1.0, 3.0, 2.5, -0.0, 0.0][(t * t + 3) % 7]).collect();
                for width in [2, 4, 8, 16] {
                    check::<true>(&x, width, simd);
                    check::<false>(&x, width, simd);
                    for nan in [0, len / 2, len.saturating_sub(1)] {
                        let mut x = x.clone();
                        x.iter_mut().skip(nan).take(1).for_each(|x| *x = f64::NAN);
                        check::<true>(&x, width, simd);
                    }
                }
            }
        }
    }
}
