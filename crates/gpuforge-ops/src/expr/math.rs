//! Vectorisable `exp`, `ln`, `sin`, `cos`, `tanh` for the CPU: branch-free polynomials, bit-identical at every SIMD width because
//! nothing is contracted to FMA.
//!
//! Polynomials and range reduction as in the Cephes library (S. L. Moshier, netlib.org/cephes, single precision). Error against
//! f64, checked by the tests below: at most 2 ulp; NaN, infinities and zeros follow IEEE.

/// Magic number: adding it rounds to an integer in the low bits.
const ROUND: f32 = 12_582_912.0;
const ROUND64: f64 = 6_755_399_441_055_744.0;
/// The first 9 bits of ln 2, so that its products with exponents are exact, and the rest.
const LN_2: f32 = 355.0 / 512.0;
const LN_2_REST: f32 = -2.121_944_4e-4;
/// The first 33 bits of pi/2, so that its products with whole numbers below 2^20 are exact, and the rest (as in fdlibm).
const HALF_PI: f64 = 1.570_796_326_734_125_6;
const HALF_PI_REST: f64 = 6.077_100_506_506_192e-11;
/// Largest angle: beyond it, range reduction needs more digits of pi than two doubles hold.
pub(super) const MAX_ANGLE: f32 = 1e6;

/// A power of two, from -126 to 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Written so that NaN propagates.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let whole = rounded - ROUND;
    let r = x - whole * LN_2 - whole * LN_2_REST;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let y = p * (r * r) + r + 1.0;
    // In two factors: the full power of two may overflow where the result does not.
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let scaled = if small { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    let e = (bits.wrapping_sub(0x3f35_04f3)) >> 23;
    let f = f32::from_bits(bits.wrapping_sub(e << 23) as u32) - 1.0;
    let e = (if small { e - 23 } else { e }) as f32;
    let z = f * f;
    let p = 7.037_683_6e-2;
    let p = p * f - 1.151_461e-1;
    let p = p * f + 1.167_7e-1;
    let p = p * f - 1.242_014_1e-1;
    let p = p * f + 1.424_932_3e-1;
    let p = p * f - 1.666_805_8e-1;
    let p = p * f + 2.000_071_5e-1;
    let p = p * f - 2.499_999_4e-1;
    let p = p * f + 3.333_333e-1;
    let y = p * f * z + e * LN_2_REST - 0.5 * z;
    let y = f + y + e * LN_2;
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// Sine of an angle up to [`MAX_ANGLE`], shifted by `quarters` of a turn.
#[inline(always)]
fn sin_shifted(x: f32, quarters: u32) -> f32 {
    // Cody-Waite range reduction in f64: two parts of pi/2 are enough.
    let wide = f64::from(x);
    let rounded = wide * std::f64::consts::FRAC_2_PI + ROUND64;
    let quarter = (rounded.to_bits() as u32).wrapping_add(quarters);
    let whole = rounded - ROUND64;
    let r = (wide - whole * HALF_PI - whole * HALF_PI_REST) as f32;
    let z = r * r;
    let s = ((-1.951_529_6e-4 * z + 8.332_161e-3) * z - 1.666_665_5e-1) * z * r + r;
    let c = ((2.443_315_7e-5 * z - 1.388_731_6e-3) * z + 4.166_664_6e-2) * z * z - 0.5 * z + 1.0;
    let y = if quarter & 1 == 0 { s } else { c };
    f32::from_bits(y.to_bits() ^ ((quarter & 2) << 30))
}

/// Sine of an angle up to [`MAX_ANGLE`].
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    sin_shifted(x, 0)
}

/// Cosine of an angle up to [`MAX_ANGLE`].
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    sin_shifted(x, 1)
}

#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let z = x * x;
    let p = -5.704_988_7e-3;
    let p = p * z + 2.063_909e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    let t = exp(-2.0 * x.abs());
    let far = ((1.0 - t) / (1.0 + t)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error in ulp over many arguments; denormal results count as zero.
    fn worst(f: fn(f32) -> f32, exact: fn(f64) -> f64, arguments: impl Iterator<Item = f32>) -> f64 {
        let error = |x: f32| {
            let want = exact(f64::from(x));
            let unit = f64::from((want as f32).abs().max(f32::MIN_POSITIVE).next_up())
                - f64::from((want as f32).abs().max(f32::MIN_POSITIVE));
            (f64::from(f(x)) - want).abs() / unit
        };
        arguments.map(error).fold(0.0, f64::max)
    }

    fn between(from: f32, to: f32) -> impl Iterator<Item = f32> {
        (0..400_000u32).map(move |i| from + (to - from) * (i as f32 / 400_000.0))
    }

    #[test]
    fn errors_are_at_most_2_ulp() {
        let positive = || (1..0x7f80_0000u32).step_by(4099).map(f32::from_bits);
        let check = |name: &str, error: f64| assert!(error <= 2.0, "{name}: {error} units");
        check("exp", worst(exp, f64::exp, between(-87.0, 88.7)));
        check("ln", worst(ln, f64::ln, positive()));
        check("ln near 1", worst(ln, f64::ln, between(0.5, 2.0)));
        check("tanh", worst(tanh, f64::tanh, between(-12.0, 12.0)));
        check("sin", worst(sin, f64::sin, between(-8.0, 8.0).chain(between(-MAX_ANGLE, MAX_ANGLE))));
        check("cos", worst(cos, f64::cos, between(-8.0, 8.0).chain(between(-MAX_ANGLE, MAX_ANGLE))));
    }

    #[test]
    fn special_values_follow_ieee() {
        let inf = f32::INFINITY;
        assert_eq!((exp(inf), exp(-inf), exp(0.0), exp(1000.0), exp(-1000.0)), (inf, 0.0, 1.0, inf, 0.0));
        assert_eq!((ln(inf), ln(0.0), ln(-0.0), ln(1.0)), (inf, -inf, -inf, 0.0));
        assert_eq!((tanh(inf), tanh(-inf), tanh(0.0), tanh(1e-30)), (1.0, -1.0, 0.0, 1e-30));
        assert!((exp(-100.0) - (-100.0f32).exp()).abs() < 1e-44, "denormal results are kept");
        assert!([exp(f32::NAN), ln(f32::NAN), ln(-1.0), ln(-inf), tanh(f32::NAN)].iter().all(|y| y.is_nan()));
    }
}
