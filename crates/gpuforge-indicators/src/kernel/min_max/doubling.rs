//! Rolling min and max of short windows by doubling in SIMD registers (AVX2, AVX-512, NEON), single series.
//!
//! Windows of 2, 4, 8 and 16 are combined from two of half the width; the bars before a register's first are shifted in from the
//! register before, so that memory is read once, whatever the width.

#[cfg(target_arch = "aarch64")]
mod aarch64;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256d, __m512d, _CMP_UNORD_Q, _mm256_cmp_pd, _mm256_loadu_pd, _mm256_max_pd, _mm256_min_pd,
    _mm256_movemask_pd, _mm256_or_pd, _mm256_permute2f128_pd, _mm256_setzero_pd, _mm256_shuffle_pd,
    _mm256_storeu_pd, _mm512_alignr_epi64, _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_cmp_pd_mask,
    _mm512_loadu_pd, _mm512_max_pd, _mm512_min_pd, _mm512_storeu_pd,
};

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use gpuforge_simd::SimdLevel;

use crate::kernel::Simd;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use crate::kernel::transpose;

/// The widest window.
pub(super) const MAX_WIDTH: usize = 16;

/// Max (or min) of the last `width` bars, 2, 4, 8 or 16, of equals the latest. The first bars have no complete window and get
/// any value. `false` where a bar is NaN (NEON: or zero), or without SIMD: what was written is then meaningless.
pub(super) fn trailing<const MAX: bool>(from: &[f64], to: &mut [f64], width: usize, simd: Simd) -> bool {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "calls #[target_feature] functions")]
    match simd.level() {
        // SAFETY: a `Simd` of this level was detected on this CPU.
        SimdLevel::Avx512 => return unsafe { trailing_512::<MAX>(from, to, width) },
        // SAFETY: a `Simd` of this level was detected on this CPU.
        SimdLevel::Avx2 => return unsafe { trailing_256::<MAX>(from, to, width) },
        SimdLevel::Scalar => {}
    }
    #[cfg(target_arch = "aarch64")]
    #[allow(unsafe_code, reason = "calls #[target_feature] functions")]
    if simd.level() == SimdLevel::Neon {
        // SAFETY: a `Simd` of this level was detected on this CPU.
        return unsafe {
            match width {
                2 => aarch64::trailing::<MAX, 2>(from, to),
                4 => aarch64::trailing::<MAX, 4>(from, to),
                8 => aarch64::trailing::<MAX, 8>(from, to),
                _ => aarch64::trailing::<MAX, 16>(from, to),
            }
        };
    }
    let _ = (from, to, width, simd);
    false
}

/// Max or min, of equals the later: `vmaxpd` and `vminpd` return their second operand then.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn min_max_512<const MAX: bool>(earlier: __m512d, later: __m512d) -> __m512d {
    if MAX { _mm512_max_pd(earlier, later) } else { _mm512_min_pd(earlier, later) }
}

/// The register `8 - BY` bars earlier.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn shifted_512<const BY: i32>(before: __m512d, now: __m512d) -> __m512d {
    let (before, now) = (_mm512_castpd_si512(before), _mm512_castpd_si512(now));
    _mm512_castsi512_pd(_mm512_alignr_epi64::<BY>(now, before))
}

/// `N` bars at a time; the last chunk is padded with its last bar.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[inline(always)]
fn for_each_register<const N: usize>(
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
    let Some(padding) = rest.last() else { return };
    let (mut last, mut found) = ([*padding; N], [0.0; N]);
    last.iter_mut().zip(rest).for_each(|(to, x)| *to = *x);
    next(&last, &mut found);
    to_rest.iter_mut().zip(found).for_each(|(to, x)| *to = x);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn trailing_512<const MAX: bool>(from: &[f64], to: &mut [f64], width: usize) -> bool {
    #[allow(unsafe_code, reason = "an unaligned load")]
    // SAFETY: a chunk has eight doubles.
    let load = |x: &[f64; 8]| unsafe { _mm512_loadu_pd(x.as_ptr()) };
    let mut before = [load(&from.first_chunk().copied().unwrap_or_default()); 4];
    let mut nan = 0;
    for_each_register(from, to, |from, to| {
        let now = load(from);
        nan |= _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(now, now);
        let two = min_max_512::<MAX>(shifted_512::<7>(before[0], now), now);
        let four = min_max_512::<MAX>(shifted_512::<6>(before[1], two), two);
        let eight = min_max_512::<MAX>(shifted_512::<4>(before[2], four), four);
        let sixteen = min_max_512::<MAX>(before[3], eight);
        before = [now, two, four, eight];
        let found = match width {
            2 => two,
            4 => four,
            8 => eight,
            _ => sixteen,
        };
        #[allow(unsafe_code, reason = "a store to an address")]
        // SAFETY: `for_each_register` hands out eight doubles.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), found);
        }
    });
    nan == 0
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn min_max_256<const MAX: bool>(earlier: __m256d, later: __m256d) -> __m256d {
    if MAX { _mm256_max_pd(earlier, later) } else { _mm256_min_pd(earlier, later) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn trailing_256<const MAX: bool>(from: &[f64], to: &mut [f64], width: usize) -> bool {
    #[allow(unsafe_code, reason = "an unaligned load")]
    // SAFETY: a chunk has four doubles.
    let load = |x: &[f64; 4]| unsafe { _mm256_loadu_pd(x.as_ptr()) };
    let mut before = [load(&from.first_chunk().copied().unwrap_or_default()); 5];
    let mut nan = _mm256_setzero_pd();
    for_each_register(from, to, |from, to| {
        let now = load(from);
        nan = _mm256_or_pd(nan, _mm256_cmp_pd::<_CMP_UNORD_Q>(now, now));
        let half = _mm256_permute2f128_pd::<0x21>(before[0], now);
        let two = min_max_256::<MAX>(_mm256_shuffle_pd::<0b0101>(half, now), now);
        let four = min_max_256::<MAX>(_mm256_permute2f128_pd::<0x21>(before[1], two), two);
        let eight = min_max_256::<MAX>(before[2], four);
        let sixteen = min_max_256::<MAX>(before[4], eight);
        before = [now, two, four, eight, before[3]];
        let found = match width {
            2 => two,
            4 => four,
            8 => eight,
            _ => sixteen,
        };
        #[allow(unsafe_code, reason = "a store to an address")]
        // SAFETY: `for_each_register` hands out four doubles.
        unsafe {
            _mm256_storeu_pd(to.as_mut_ptr(), found);
        }
    });
    _mm256_movemask_pd(nan) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: max (or min) of a window, of equals the latest.
    fn reference(max: bool, window: &[f64]) -> f64 {
        let mut best = window[0];
        for x in window {
            let better = if max { best > *x } else { best < *x };
            best = if better { best } else { *x };
        }
        best
    }

    fn check<const MAX: bool>(x: &[f64], width: usize, simd: Simd) {
        let mut got = vec![-1.0; x.len()];
        // Elsewhere the caller's scalar loop computes; with NEON also where a bar is zero.
        let simd_path = cfg!(any(target_arch = "aarch64", target_arch = "x86_64")) && simd != Simd::SCALAR;
        let declined = |x: &f64| x.is_nan() || (cfg!(target_arch = "aarch64") && *x == 0.0);
        let clean = simd_path && !x.iter().any(declined);
        assert_eq!(trailing::<MAX>(x, &mut got, width, simd), clean, "{width} {simd:?} of {}", x.len());
        for t in (width - 1..x.len()).filter(|_| clean) {
            let want = reference(MAX, &x[t + 1 - width..=t]);
            assert_eq!(got[t].to_bits(), want.to_bits(), "{width} {simd:?} bar {t} of {}", x.len());
        }
    }

    #[test]
    fn latest_of_equals_for_every_length_and_simd_level() {
        for simd in Simd::available() {
            for len in (0..40).chain([100, 511, 512, 513]) {
                // Contains both zeros: equal, with different bits.
                let x: Vec<f64> =
                    (0..len).map(|t| [0.0, -0.0, -1.0, 3.0, 2.5, -0.0, 0.0][(t * t + 3) % 7]).collect();
                let without_zeros: Vec<f64> =
                    (0..len).map(|t| [4.0, -1.0, 1.0, 3.0, 2.5, -7.0, 4.0][(t * t + 3 * t) % 7]).collect();
                for width in [2, 4, 8, 16] {
                    for x in [&x, &without_zeros] {
                        check::<true>(x, width, simd);
                        check::<false>(x, width, simd);
                    }
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
