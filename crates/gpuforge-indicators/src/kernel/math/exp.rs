//! exp, sinh, cosh, tanh: Cody-Waite reduction by ln 2 and polynomials.

use std::f64::consts::LOG2_E;

use super::{Function, ROUND_TO_INT, Reduced, fast_two_sum, log::LN_2, outside, poly, select};

/// `x = k ln 2 + r`: `k` in the low bits on top of [`ROUND_TO_INT`], `r`, and what `r` lost.
#[inline(always)]
fn reduce_ln2(x: f64) -> Reduced {
    let shifted = x * LOG2_E + ROUND_TO_INT;
    let n = shifted - ROUND_TO_INT;
    let (r, lost) = fast_two_sum(x - n * LN_2.0, -(n * LN_2.1));
    [shifted, r, lost]
}

/// `2^k` from the low bits; `k` is the exponent of a normal number.
#[inline(always)]
fn pow2(bits: u64) -> f64 {
    f64::from_bits(bits.wrapping_add(1023) << 52)
}

/// `e^r` of a reduced argument.
#[inline(always)]
fn exp_kernel(r: f64, low: f64) -> f64 {
    let q = poly!(r; 0.5, 0.166_666_666_666_666_82, 0.041_666_666_666_666_67, 0.008_333_333_333_317_455,
        0.001_388_888_888_888_477_6, 0.000_198_412_698_958_969_04, 2.480_158_732_202_289e-5, 2.755_723_496_237_640_4e-6,
        2.755_727_809_960_010_5e-7, 2.511_210_078_935_986_2e-8, 2.091_283_226_243_686_4e-9);
    let (h, lost) = fast_two_sum(1.0, r);
    h + ((lost + low) + r * r * q)
}

/// Exponential function; 0.75 ulp.
pub(crate) struct Exp;

impl Function for Exp {
    #[inline(always)]
    fn is_special(x: f64) -> bool {
        // Up to here the result and 2^k are normal numbers.
        outside(x, 708.0)
    }

    #[inline(always)]
    fn reduce(x: f64) -> Reduced {
        reduce_ln2(x)
    }

    #[inline(always)]
    fn evaluate(_: f64, [shifted, r, low]: Reduced) -> f64 {
        exp_kernel(r, low) * pow2(shifted.to_bits())
    }

    #[inline]
    fn special(x: f64) -> f64 {
        // Outside of these it overflows or underflows. Two factors, since 2^k may be subnormal.
        let [shifted, r, low] = reduce_ln2(x.clamp(-746.0, 710.0));
        let k = shifted.to_bits().wrapping_sub(ROUND_TO_INT.to_bits()).cast_signed();
        let y = exp_kernel(r, low) * pow2((k / 2).cast_unsigned()) * pow2((k - k / 2).cast_unsigned());
        if x.is_nan() { x } else { y }
    }
}

/// Half of sinh and cosh of a reduced argument that is neither negative nor above [`MAX_FINITE`].
///
/// With `x = k ln 2 + r`, `p = 2^k / 4` and `g = 2^-k / 4` they are `(p - g) cosh r + (p + g) sinh r` and
/// `(p + g) cosh r + (p - g) sinh r`; `p r` and `g r` are exact.
#[inline(always)]
fn half_sinh_cosh([shifted, r, low]: Reduced) -> (f64, f64) {
    // 2^-k is negligible long before it underflows.
    let last = ROUND_TO_INT + 1000.0;
    let bounded = select(shifted < last, shifted, last);
    let p = pow2(shifted.to_bits().wrapping_sub(2));
    let g = pow2(0_u64.wrapping_sub(bounded.to_bits()).wrapping_sub(2));
    let z = r * r;
    let c = z
        * poly!(z; 0.5, 0.041_666_666_666_666_685, 0.001_388_888_888_887_328_3, 2.480_158_734_920_190_3e-5,
        2.755_725_182_045_953e-7, 2.092_176_933_786_457_6e-9);
    let s = r
        * z
        * poly!(z; 0.166_666_666_666_666_77, 0.008_333_333_333_321_386, 0.000_198_412_698_868_164_24,
        2.755_724_345_029_283e-6, 2.510_932_194_122_179_6e-8)
        + low;
    let (plus, minus) = (p + g, p - g);
    let (sinh, sinh_lost) = fast_two_sum(minus, p * r);
    let (cosh, cosh_lost) = fast_two_sum(plus, p * r);
    (
        sinh + ((sinh_lost + g * r) + (minus * c + plus * s)),
        cosh + ((cosh_lost - g * r) + (plus * c + minus * s)),
    )
}

/// The largest argument with a finite sinh and cosh.
const MAX_FINITE: f64 = 710.475_860_073_943_9;

/// Below it sinh x and tanh x are x.
const LINEAR_BELOW: f64 = 3.725_290_298_461_914e-9; // 2^-28

/// Hyperbolic sine; 1 ulp.
pub(crate) struct Sinh;

impl Function for Sinh {
    #[inline(always)]
    fn is_special(x: f64) -> bool {
        outside(x, MAX_FINITE)
    }

    #[inline(always)]
    fn reduce(x: f64) -> Reduced {
        reduce_ln2(x.abs())
    }

    #[inline(always)]
    fn evaluate(x: f64, middle: Reduced) -> f64 {
        let (sinh, _) = half_sinh_cosh(middle);
        select(x.abs() > LINEAR_BELOW, (sinh * 2.0).copysign(x), x)
    }

    #[inline]
    fn special(x: f64) -> f64 {
        if x.is_nan() { x } else { f64::INFINITY.copysign(x) }
    }
}

/// Hyperbolic cosine; 1.1 ulp.
pub(crate) struct Cosh;

impl Function for Cosh {
    #[inline(always)]
    fn is_special(x: f64) -> bool {
        outside(x, MAX_FINITE)
    }

    #[inline(always)]
    fn reduce(x: f64) -> Reduced {
        reduce_ln2(x.abs())
    }

    #[inline(always)]
    fn evaluate(_: f64, middle: Reduced) -> f64 {
        let (_, cosh) = half_sinh_cosh(middle);
        cosh * 2.0
    }

    #[inline]
    fn special(x: f64) -> f64 {
        if x.is_nan() { x } else { f64::INFINITY }
    }
}

/// Hyperbolic tangent: `x + x³ P / Q`, and from 0.55 on `1 - 2 / (e^2x + 1)`; 1.5 ulp.
pub(crate) struct Tanh;

impl Function for Tanh {
    #[inline(always)]
    fn is_special(x: f64) -> bool {
        x.is_nan()
    }

    #[inline(always)]
    fn reduce(x: f64) -> Reduced {
        // From here on it rounds to 1.
        const ONE: f64 = 22.0;
        let a = x.abs();
        let [shifted, r, _] = reduce_ln2(2.0 * select(a > ONE, ONE, a));
        // The quotient is at most a half: the rounding error of the remainder does not matter.
        [pow2(shifted.to_bits()), r, 0.0]
    }

    #[inline(always)]
    fn evaluate(x: f64, [power, r, _]: Reduced) -> f64 {
        let e = exp_kernel(r, 0.0) * power + 1.0;
        let a = x.abs();
        let small = a < 0.55;
        let z = a * a;
        let p = a
            * z
            * poly!(z; -0.333_333_333_333_333_3, -0.020_500_423_655_130_485, -0.000_199_250_034_680_055_96);
        let q = 1.0
            + z * poly!(z; 0.461_501_270_965_387_3, 0.023_293_496_585_525_3, 0.000_206_610_847_334_910_33);
        let y = select(small, a, 1.0) + select(small, p, -2.0) / select(small, q, e);
        select(a > LINEAR_BELOW, y.copysign(x), x)
    }

    #[inline]
    fn special(x: f64) -> f64 {
        x
    }
}
