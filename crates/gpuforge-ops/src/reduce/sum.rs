//! How are numbers added in an order that never changes? With 32 accumulators, and flags for what is not finite.

use super::{LANES, Pair};

/// There was a NaN.
const NAN: u32 = 1;
/// There was `+inf`, or a partial sum above the largest float.
const PLUS: u32 = 2;
/// There was `-inf`, or a partial sum below the least float.
const MINUS: u32 = 4;
const EXPONENT: u32 = 0x7f80_0000;

/// A sum of finite numbers, and what else there was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) value: f32,
    pub(crate) flags: u32,
}

impl Part {
    /// A number that may be anything: what is not finite becomes a flag.
    pub(crate) fn of(value: f32) -> Part {
        if value.is_finite() {
            return Part { value, flags: 0 };
        }
        let flags = match (value.is_nan(), value > 0.0) {
            (true, _) => NAN,
            (_, true) => PLUS,
            _ => MINUS,
        };
        Part { value: 0.0, flags }
    }

    pub(crate) fn add(self, other: Part) -> Part {
        let sum = Part::of(self.value + other.value);
        Part { flags: sum.flags | self.flags | other.flags, ..sum }
    }
}

/// The sum (of squares) of at most a block.
#[inline(never)]
#[allow(
    clippy::indexing_slicing,
    reason = "below constant lengths; arrays made anew stay in registers, slices written to do not: 2-3 times slower"
)]
pub(super) fn block<const SQUARES: bool>(x: &[f32]) -> Pair {
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
    // A sum that met a NaN or an infinity is never finite again: this says that there was none.
    if sum.is_finite() { [sum.to_bits(), 0] } else { careful::<SQUARES>(x) }
}

/// As [`block`], for blocks that hold something that is not finite or whose sums are too large.
#[cold]
fn careful<const SQUARES: bool>(x: &[f32]) -> Pair {
    let mut lanes = [0f32; LANES];
    let mut flags = 0;
    for chunk in x.chunks(LANES) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            let part = Part::of(*x);
            let term = if SQUARES { part.value * part.value } else { part.value };
            // The square of an infinity is positive.
            let minus = SQUARES && part.flags == MINUS;
            flags |= if minus { PLUS } else { part.flags };
            *lane += term;
        }
    }
    let sum = halves(lanes.map(Part::of));
    [sum.value.to_bits(), sum.flags | flags]
}

/// The sum of sums, in the order of [`block`].
pub(super) fn merge(pairs: &[Pair]) -> Pair {
    let mut lanes = [0f32; LANES];
    let mut flags = 0;
    for chunk in pairs.chunks(LANES) {
        for (lane, [bits, more]) in lanes.iter_mut().zip(chunk) {
            *lane += f32::from_bits(*bits);
            flags |= more;
        }
    }
    let sum = halves(lanes.map(Part::of));
    [sum.value.to_bits(), sum.flags | flags]
}

/// All lanes, the upper half onto the lower until one is left.
fn halves(mut lanes: [Part; LANES]) -> Part {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = low.add(*high));
        half /= 2;
    }
    lanes.first().copied().unwrap_or_default()
}

/// The bits of the result.
pub(crate) fn finish([bits, flags]: Pair, last: impl Fn(f32) -> f32) -> u32 {
    match flags {
        0 => last(f32::from_bits(bits)).to_bits(),
        PLUS => EXPONENT,
        MINUS => EXPONENT | 1 << 31,
        _ => super::extreme::NAN,
    }
}
