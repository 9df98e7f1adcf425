//! Partialwise summation in a fixed order: 32 accumulators per block, flags for non-finite values.

use super::{LANES, Partial};

/// A NaN was seen.
const NAN: u32 = 1;
/// `+inf` was seen, or a partial sum overflowed.
const PLUS: u32 = 2;
/// `-inf` was seen, or a partial sum overflowed negatively.
const MINUS: u32 = 4;
const EXPONENT: u32 = 0x7f80_0000;

/// A finite sum, and flags for non-finite terms.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlaggedSum {
    pub(crate) value: f32,
    pub(crate) flags: u32,
}

impl FlaggedSum {
    /// Any number: a non-finite one becomes a flag.
    pub(crate) fn of(value: f32) -> FlaggedSum {
        if value.is_finite() {
            return FlaggedSum { value, flags: 0 };
        }
        let flags = match (value.is_nan(), value > 0.0) {
            (true, _) => NAN,
            (_, true) => PLUS,
            _ => MINUS,
        };
        FlaggedSum { value: 0.0, flags }
    }

    pub(crate) fn add(self, other: FlaggedSum) -> FlaggedSum {
        let sum = FlaggedSum::of(self.value + other.value);
        FlaggedSum { flags: sum.flags | self.flags | other.flags, ..sum }
    }
}

/// Sum (of squares) of at most a block.
#[inline(never)]
#[allow(
    clippy::indexing_slicing,
    reason = "indices below constant lengths; fresh arrays stay in registers, slices written to do not"
)]
pub(super) fn block<const SQUARES: bool>(x: &[f32]) -> Partial {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let term = |x: f32| if SQUARES { x * x } else { x };
    let mut lanes = [0f32; LANES];
    for chunk in chunks {
        lanes = std::array::from_fn(|i| lanes[i] + term(chunk[i]));
    }
    if !rest.is_empty() {
        let mut last = lanes;
        last.iter_mut().zip(rest).for_each(|(lane, x)| *lane += term(*x));
        lanes = last;
    }
    let lanes: [f32; 16] = std::array::from_fn(|i| lanes[i] + lanes[i + 16]);
    let lanes: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
    let [a, b, c, d]: [f32; 4] = std::array::from_fn(|i| lanes[i] + lanes[i + 4]);
    let sum = (a + c) + (b + d);
    // NaN and infinity are sticky: a finite sum proves there was none.
    if sum.is_finite() { [sum.to_bits(), 0] } else { block_with_flags::<SQUARES>(x) }
}

/// As [`block`], for blocks with non-finite values or overflow.
#[cold]
fn block_with_flags<const SQUARES: bool>(x: &[f32]) -> Partial {
    let mut lanes = [0f32; LANES];
    let mut flags = 0;
    for chunk in x.chunks(LANES) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            let part = FlaggedSum::of(*x);
            let term = if SQUARES { part.value * part.value } else { part.value };
            // The square of -inf is +inf.
            let minus = SQUARES && part.flags == MINUS;
            flags |= if minus { PLUS } else { part.flags };
            *lane += term;
        }
    }
    let sum = pairwise(lanes.map(FlaggedSum::of));
    [sum.value.to_bits(), sum.flags | flags]
}

/// Sum of partial sums, in the order of [`block`].
pub(super) fn merge(pairs: &[Partial]) -> Partial {
    let mut lanes = [0f32; LANES];
    let mut flags = 0;
    for chunk in pairs.chunks(LANES) {
        for (lane, [bits, more]) in lanes.iter_mut().zip(chunk) {
            *lane += f32::from_bits(*bits);
            flags |= more;
        }
    }
    let sum = pairwise(lanes.map(FlaggedSum::of));
    [sum.value.to_bits(), sum.flags | flags]
}

/// Pairwise sum of the lanes: the upper half onto the lower until one is left.
fn pairwise(mut lanes: [FlaggedSum; LANES]) -> FlaggedSum {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = low.add(*high));
        half /= 2;
    }
    lanes.first().copied().unwrap_or_default()
}

/// The bits of the result.
pub(crate) fn finish([bits, flags]: Partial, last: impl Fn(f32) -> f32) -> u32 {
    match flags {
        0 => last(f32::from_bits(bits)).to_bits(),
        PLUS => EXPONENT,
        MINUS => EXPONENT | 1 << 31,
        _ => super::min_max::NAN,
    }
}
