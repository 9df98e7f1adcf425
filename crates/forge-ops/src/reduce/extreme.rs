//! Which is the greatest? Integers in the order of the floats they are made of, so that no device can disagree.
//!
//! The key of a float grows with it; for the least it is turned over. A NaN has the greatest key in both cases, and 0 is
//! below all keys.

use super::Pair;

/// The one NaN that comes out.
pub(crate) const NAN: u32 = 0x7fc0_0000;
/// Above the key of every number.
const NAN_KEY: u32 = u32::MAX;
/// Keys that are compared side by side.
const LANES: usize = 32;

/// The key of a float.
pub(crate) fn key(bits: u32, least: bool) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return NAN_KEY;
    }
    let up = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    if least { !up } else { up }
}

/// The float of a key.
pub(crate) fn value([key, _]: Pair, least: bool) -> u32 {
    let up = if least { !key } else { key };
    match (key, up >> 31) {
        (NAN_KEY, _) => NAN,
        (_, 1) => up & 0x7fff_ffff,
        _ => !up,
    }
}

/// The greatest key of at most a block; −0 is below +0.
pub(crate) fn value_key(x: &[f32], least: bool) -> u32 {
    if least { greatest(x, |x| !signed(x)) } else { greatest(x, signed) }
}

/// The greatest key of at most a block, and the first index that has it; −0 is +0.
pub(super) fn first(x: &[f32], least: bool, start: u32) -> Pair {
    let zero = |x: f32| x + 0.0;
    let best = if least { greatest(x, |x| !signed(zero(x))) } else { greatest(x, |x| signed(zero(x))) };
    let at = x.iter().position(|x| key(zero(*x).to_bits(), least) == best).unwrap_or(0);
    [best, start.wrapping_add(u32::try_from(at).unwrap_or(0))]
}

/// In the order of the floats, as a signed integer: one operation less than [`key`], and what processors compare best.
#[inline(always)]
fn signed(x: f32) -> i32 {
    let bits = x.to_bits().cast_signed();
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

#[inline(always)]
fn greatest(x: &[f32], order: impl Fn(f32) -> i32) -> u32 {
    let (mut lanes, mut nans) = ([i32::MIN; LANES], [false; LANES]);
    let mut take = |x: &[f32]| {
        for ((lane, nan), x) in lanes.iter_mut().zip(&mut nans).zip(x) {
            *lane = (*lane).max(order(*x));
            *nan |= x.is_nan();
        }
    };
    let (chunks, rest) = x.as_chunks::<LANES>();
    chunks.iter().for_each(|c| take(c));
    take(rest);
    if nans.contains(&true) {
        return NAN_KEY;
    }
    lanes.iter().max().map_or(0, |k| k.cast_unsigned() ^ (1 << 31))
}

/// The greatest of some, the first of equals.
pub(super) fn merge(pairs: &[Pair]) -> Pair {
    let better = |best: Pair, new: &Pair| if new[0] > best[0] { *new } else { best };
    pairs.iter().fold([0, 0], better)
}
