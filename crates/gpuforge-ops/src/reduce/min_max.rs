//! Min and max by order-preserving integer keys: bit-identical on every backend.
//!
//! The key of a float grows with it; for the minimum it is inverted. NaN has the largest key in both cases, and 0 is below all
//! keys.

#[cfg(target_arch = "x86_64")]
use gpuforge_simd::Simd;

use super::Partial;

/// The canonical NaN of results.
pub(crate) const NAN: u32 = 0x7fc0_0000;
/// Above the key of every number.
const NAN_KEY: u32 = u32::MAX;
/// SIMD lanes of the key comparison.
const LANES: usize = 32;

/// The key of a float.
pub(crate) fn key(bits: u32, min: bool) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return NAN_KEY;
    }
    let up = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    if min { !up } else { up }
}

/// The float of a key.
pub(crate) fn value([key, _]: Partial, min: bool) -> u32 {
    let up = if min { !key } else { key };
    match (key, up >> 31) {
        (NAN_KEY, _) => NAN,
        (_, 1) => up & 0x7fff_ffff,
        _ => !up,
    }
}

/// The largest key of at most a block; −0 is below +0.
pub(crate) fn value_key(x: &[f32], min: bool) -> u32 {
    if min { dispatch::<true, false>(x) } else { dispatch::<false, false>(x) }
}

/// The largest key of a short run: [`value_key`] without the lanes.
#[inline(always)]
pub(crate) fn run_key<const N: usize>(x: &[f32; N]) -> u32 {
    let one = |x: &f32| if x.is_nan() { i32::MAX } else { signed::<false, false>(*x) };
    x.iter().map(one).fold(i32::MIN, i32::max).cast_unsigned() ^ (1 << 31)
}

/// The largest key of at most a block; −0 equals +0.
pub(super) fn index_key(x: &[f32], min: bool) -> u32 {
    if min { dispatch::<true, true>(x) } else { dispatch::<false, true>(x) }
}

/// Position of the first element with this key.
pub(super) fn first(x: &[f32], min: bool, best: u32) -> usize {
    x.iter().position(|x| key((x + 0.0).to_bits(), min) == best).unwrap_or(0)
}

/// SIMD dispatch at run time.
fn dispatch<const MIN: bool, const ZEROS: bool>(x: &[f32]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if Simd::detect() != Simd::SCALAR {
        #[target_feature(enable = "avx2")]
        fn wide<const MIN: bool, const ZEROS: bool>(x: &[f32]) -> u32 {
            max_key::<MIN, ZEROS>(x)
        }
        #[allow(unsafe_code, reason = "SSE2 has no packed integer max")]
        // SAFETY: every detected level but the scalar one has AVX2.
        return unsafe { wide::<MIN, ZEROS>(x) };
    }
    max_key::<MIN, ZEROS>(x)
}

#[inline(always)]
fn max_key<const MIN: bool, const ZEROS: bool>(x: &[f32]) -> u32 {
    let (mut lanes, mut nans) = ([i32::MIN; LANES], [0u32; LANES]);
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for ((lane, nan), x) in lanes.iter_mut().zip(&mut nans).zip(chunk) {
            *lane = (*lane).max(signed::<MIN, ZEROS>(*x));
            *nan |= u32::from(x.is_nan());
        }
    }
    for ((lane, nan), x) in lanes.iter_mut().zip(&mut nans).zip(rest) {
        *lane = (*lane).max(signed::<MIN, ZEROS>(*x));
        *nan |= u32::from(x.is_nan());
    }
    if nans.iter().any(|n| *n != 0) {
        return NAN_KEY;
    }
    lanes.iter().max().map_or(0, |k| k.cast_unsigned() ^ (1 << 31))
}

/// Order-preserving signed key: one instruction fewer than [`key`], and signed compare is what SIMD has.
#[inline(always)]
fn signed<const MIN: bool, const ZEROS: bool>(x: f32) -> i32 {
    // Adding zero turns -0 into +0.
    let bits = if ZEROS { x + 0.0 } else { x }.to_bits().cast_signed();
    let up = bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed();
    if MIN { !up } else { up }
}

/// The largest key, the first of equals.
pub(super) fn merge(pairs: &[Partial]) -> Partial {
    let better = |best: Partial, new: &Partial| if new[0] > best[0] { *new } else { best };
    pairs.iter().fold([0, 0], better)
}
