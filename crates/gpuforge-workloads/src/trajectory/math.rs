//! Vectorisable `ln` and `exp` in f64: branch-free, bit-identical at every SIMD level.
//!
//! Accurate to a few ulp over the range flights need: `ln` of 1e-6 to 1e6, `exp` of -40 to 40.

/// 2^52, magic number for float-to-int conversion.
const WHOLE: f64 = 4_503_599_627_370_496.0;

/// Converts an integral float from 0 to 2^31.
#[inline(always)]
pub(super) fn integer(whole: f64) -> u64 {
    (whole + WHOLE).to_bits() & 0xffff_ffff
}

/// Natural logarithm of a positive normal number.
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    // m from sqrt(1/2) to sqrt(2): the exponent goes up where the fraction is above sqrt(2).
    const HALF_ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits().wrapping_sub(HALF_ROOT);
    let exponent = f64::from_bits((bits >> 52 ^ 0x800) & 0xfff | WHOLE.to_bits()) - (WHOLE + 2048.0);
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(HALF_ROOT));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    // 2 artanh(s); s is at most 0.172.
    let high = 1.0 / 13.0 + q * (1.0 / 15.0 + q * (1.0 / 17.0 + q * (1.0 / 19.0)));
    let series =
        1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q * high))));
    exponent * std::f64::consts::LN_2 + 2.0 * (s + s * q * series)
}

/// e to the power of x.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    const HIGH: f64 = 0.693_147_180_369_123_8;
    const LOW: f64 = 1.908_214_929_270_587_7e-10;
    let whole = (x * std::f64::consts::LOG2_E + 0.5).floor();
    let r = (x - whole * HIGH) - whole * LOW;
    let high = 1.0 / 5040.0
        + r * (1.0 / 40_320.0
            + r * (1.0 / 362_880.0
                + r * (1.0 / 3_628_800.0 + r * (1.0 / 39_916_800.0 + r * (1.0 / 479_001_600.0)))));
    let low = 0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * high))));
    let part = 1.0 + (r + r * r * low);
    part * f64::from_bits(integer(whole + 1023.0) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_and_exp_match_std() {
        for i in 0..20_000 {
            let x = 1e-6 * 1.001_4f64.powi(i);
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs() + 4e-16, "ln {x}: {}", ln(x));
            let y = f64::from(i - 10_000) * 4e-3;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-15, "exp {y}: {}", exp(y));
        }
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
        assert_eq!([0.0, 1.0, 1023.0, 2e9].map(integer), [0, 1, 1023, 2_000_000_000]);
    }
}
