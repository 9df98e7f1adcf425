//! Doubling in NEON: two bars to a register, eight bars per iteration.
//!
//! `fmax` and `fmin` are one instruction where compare and select are two, but they order -0 before 0 and turn a NaN into the
//! result: with a zero or a NaN among the bars, the caller's loop computes the block instead.

use std::arch::aarch64::{
    float64x2_t, vabsq_f64, vdupq_n_f64, vextq_f64, vld1q_f64, vmaxq_f64, vminnmvq_f64, vminq_f64, vst1q_f64,
};

use super::for_each_register;

/// Bars of an iteration, and its registers.
const BARS: usize = 8;
const REGISTERS: usize = 4;

#[inline]
#[target_feature(enable = "neon")]
fn min_max<const MAX: bool>(earlier: float64x2_t, later: float64x2_t) -> float64x2_t {
    if MAX { vmaxq_f64(earlier, later) } else { vminq_f64(earlier, later) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(from: &[f64; BARS]) -> [float64x2_t; REGISTERS] {
    let pairs = from.as_ptr();
    #[allow(unsafe_code, reason = "loads from addresses")]
    // SAFETY: the four pairs at distance two are the eight doubles of the array.
    unsafe {
        [vld1q_f64(pairs), vld1q_f64(pairs.add(2)), vld1q_f64(pairs.add(4)), vld1q_f64(pairs.add(6))]
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(to: &mut [f64; BARS], [a, b, c, d]: [float64x2_t; REGISTERS]) {
    let pairs = to.as_mut_ptr();
    #[allow(unsafe_code, reason = "stores to addresses")]
    // SAFETY: the four pairs at distance two are the eight doubles of the array.
    unsafe {
        vst1q_f64(pairs, a);
        vst1q_f64(pairs.add(2), b);
        vst1q_f64(pairs.add(4), c);
        vst1q_f64(pairs.add(6), d);
    }
}

/// Max (or min) of the last `WIDTH` bars; `false` where a bar is NaN or zero.
#[target_feature(enable = "neon")]
pub(super) fn trailing<const MAX: bool, const WIDTH: usize>(from: &[f64], to: &mut [f64]) -> bool {
    let none = vdupq_n_f64(0.0);
    let (mut now, mut two, mut four, mut eight) =
        ([none; REGISTERS], [none; REGISTERS], [none; REGISTERS], [none; REGISTERS]);
    let mut smallest = vdupq_n_f64(f64::INFINITY);
    for_each_register(from, to, |from, to| {
        let before = now;
        now = load(from);
        for part in now {
            smallest = vminq_f64(smallest, vabsq_f64(part));
        }
        let shifted = [(before[3], now[0]), (now[0], now[1]), (now[1], now[2]), (now[2], now[3])];
        let [a, b, c, d] = shifted.map(|(before, now)| min_max::<MAX>(vextq_f64::<1>(before, now), now));
        let [.., last] = two;
        two = [a, b, c, d];
        if WIDTH == 2 {
            return store(to, two);
        }
        let [.., third, fourth] = four;
        four = [min_max::<MAX>(last, a), min_max::<MAX>(a, b), min_max::<MAX>(b, c), min_max::<MAX>(c, d)];
        if WIDTH == 4 {
            return store(to, four);
        }
        let [a, b, c, d] = four;
        let before = eight;
        eight =
            [min_max::<MAX>(third, a), min_max::<MAX>(fourth, b), min_max::<MAX>(a, c), min_max::<MAX>(b, d)];
        if WIDTH == 8 {
            return store(to, eight);
        }
        let [e, f, g, h] = before;
        let [a, b, c, d] = eight;
        store(to, [min_max::<MAX>(e, a), min_max::<MAX>(f, b), min_max::<MAX>(g, c), min_max::<MAX>(h, d)]);
    });
    // A NaN stays in the minimum, and is not greater.
    vminnmvq_f64(vminq_f64(smallest, vextq_f64::<1>(smallest, smallest))) > 0.0
}
