//! sin, cos, tan (Cody-Waite and Payne-Hanek reduction) and asin, acos, atan.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use super::{Function, ROUND_TO_INT, Reduced, fast_two_sum, outside, poly, select, split_high_low};

/// Up to here Cody-Waite reduction is exact.
const MAX_CODY_WAITE: f64 = 1_048_576.0; // 2^20

/// π/2 in three parts of 33 bits and the rest.
const PI_2_PARTS: [f64; 4] = [
    f64::from_bits(0x3ff9_21fb_5440_0000),
    f64::from_bits(0x3dd0_b461_1a60_0000),
    f64::from_bits(0x3ba3_198a_2e00_0000),
    f64::from_bits(0x397b_839a_2520_49c1),
];

/// π/2 minus its nearest double.
const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;

/// The first 1280 fractional bits of 2/π, after 64 zeros.
const TWO_OVER_PI: [u64; 21] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// A reduced angle: the quadrant (in the low two bits), and the remainder with its rounding error.
type Angle = Reduced;

/// Cody-Waite reduction, up to [`MAX_CODY_WAITE`]. The remainder keeps 53 bits even next to a multiple of π/2: up to there none
/// is nearer to a double than 2^-60.5.
#[inline(always)]
fn cody_waite(x: f64) -> Angle {
    let [t1, t2, t3, t4] = PI_2_PARTS;
    let shifted = x * FRAC_2_PI + ROUND_TO_INT;
    let n = shifted - ROUND_TO_INT;
    let (r, lost) = fast_two_sum(x - n * t1, -(n * t2));
    let (r, more) = fast_two_sum(r, -(n * t3));
    [shifted, r, (lost + more) - n * t4]
}

/// Payne-Hanek reduction of any finite value: its significand times those bits of 2/π that make the product less than four.
#[cold]
#[inline(never)]
fn payne_hanek(x: f64) -> Angle {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as usize;
    let integer = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
    // x = integer · 2^(exponent - 1075); of 2/π we need the bits from the one worth 2^(1 - (exponent - 1075)) on. The
    // table begins 64 bits before the point.
    let first = (exponent + 62).saturating_sub(1075);
    let (word, shift) = (first / 64, first % 64);
    let at = |i: usize| {
        let pair = |i: usize| TWO_OVER_PI.get(i).copied().unwrap_or(0);
        ((u128::from(pair(word + i)) << 64 | u128::from(pair(word + i + 1))) << shift >> 64)
            & u128::from(u64::MAX)
    };
    // The product modulo 2^192 without its last word: two bits of quadrant, 126 bits of remainder.
    let low = integer * at(2);
    let middle = integer * at(1) + (low >> 64);
    let high = (integer * at(0) + (middle >> 64)) & u128::from(u64::MAX);
    let quadrants = high << 64 | (middle & u128::from(u64::MAX));
    let quadrant = (quadrants.wrapping_add(1 << 125)) >> 126;
    let rest = (quadrants << 2).cast_signed() >> 2;
    // A remainder of π/4 or more belongs to the next quadrant; the arithmetic shift made it negative.
    let value = rest as f64;
    let lost = (rest - value as i128) as f64;
    let scale = f64::from_bits((1023 - 126) << 52);
    let (value, lost) = (value * scale, lost * scale);
    let (r, more) = two_product(value, FRAC_PI_2);
    let (r, lost) = fast_two_sum(r, more + (value * FRAC_PI_2_LOW + lost * FRAC_PI_2));
    match x < 0.0 {
        true => [f64::from_bits((4 - quadrant as u64) & 3), -r, -lost],
        false => [f64::from_bits(quadrant as u64), r, lost],
    }
}

/// Two-product: the product and its rounding error.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let p = a * b;
    let ((a1, a2), (b1, b2)) = (split_high_low(a), split_high_low(b));
    (p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2)
}

/// sin on [-π/4, π/4].
#[inline(always)]
fn sin_kernel(r: f64, low: f64) -> f64 {
    let z = r * r;
    let p = poly!(z; -0.166_666_666_666_666_32, 0.008_333_333_333_322_49, -0.000_198_412_698_298_575_97,
        2.755_731_370_685_193_6e-6, -2.505_076_020_545_524_6e-8, 1.589_690_646_085_03e-10);
    r + (r * z * p + low * (1.0 - 0.5 * z))
}

/// cos on [-π/4, π/4].
#[inline(always)]
fn cos_kernel(r: f64, low: f64) -> f64 {
    let z = r * r;
    let p = poly!(z; 0.041_666_666_666_666_6, -0.001_388_888_888_887_447_2, 2.480_158_728_966_915_5e-5,
        -2.755_731_440_009_542e-7, 2.087_572_912_504_107_7e-9, -1.135_992_482_134_256_2e-11);
    let half = 0.5 * z;
    let w = 1.0 - half;
    w + (((1.0 - w) - half) - r * low + z * z * p)
}

/// sin of a reduced angle, `on` quadrants later.
#[inline(always)]
fn sin_in_quadrant([quadrant, r, low]: Angle, on: u64) -> f64 {
    let quadrant = quadrant.to_bits().wrapping_add(on);
    let y = select(quadrant & 1 == 0, sin_kernel(r, low), cos_kernel(r, low));
    f64::from_bits(y.to_bits() ^ ((quadrant & 2) << 62))
}

/// tan of a reduced angle: `t = r + r³ P / Q`, and `-1 / t = -Q / (r Q + r³ P)` in odd quadrants.
#[inline(always)]
fn tan_in_quadrant([quadrant, r, low]: Angle) -> f64 {
    let z = r * r;
    let p = poly!(z; 0.333_333_333_333_333_3, -0.021_442_905_522_647_927, 0.000_244_895_987_554_915_25,
        -1.789_853_459_468_497_8e-8);
    // Q is one more than z times this: the summand r stays exact in r Q.
    let q = poly!(z; -0.464_328_716_567_943_44, 0.024_561_412_685_076_11, -0.000_256_054_076_597_969_04);
    let (cube, whole) = (r * z, 1.0 + z * q);
    let low = low * (1.0 + z);
    let even = quadrant.to_bits() & 1 == 0;
    let y = select(even, cube * p, -whole) / select(even, whole, r + (cube * (p + q) + low));
    select(even, r + (low + y), y)
}

/// Sine; 0.8 ulp.
pub(crate) struct Sin;

impl Sin {
    #[inline(always)]
    fn at(x: f64, angle: Angle) -> f64 {
        select(x == 0.0, x, sin_in_quadrant(angle, 0))
    }
}

/// Cosine; 0.8 ulp.
pub(crate) struct Cos;

impl Cos {
    #[inline(always)]
    fn at(_: f64, angle: Angle) -> f64 {
        sin_in_quadrant(angle, 1)
    }
}

/// Tangent; 2 ulp.
pub(crate) struct Tan;

impl Tan {
    #[inline(always)]
    fn at(x: f64, angle: Angle) -> f64 {
        select(x == 0.0, x, tan_in_quadrant(angle))
    }
}

macro_rules! periodic {
    ($($name:ident)+) => {
        $(
            impl Function for $name {
                #[inline(always)]
                fn is_special(x: f64) -> bool {
                    outside(x, MAX_CODY_WAITE)
                }

                #[inline(always)]
                fn reduce(x: f64) -> Reduced {
                    cody_waite(x)
                }

                #[inline(always)]
                fn evaluate(x: f64, angle: Reduced) -> f64 {
                    $name::at(x, angle)
                }

                #[inline]
                fn special(x: f64) -> f64 {
                    match x {
                        x if x.is_nan() => x,
                        x if x.is_infinite() => f64::NAN,
                        x => $name::at(x, payne_hanek(x)),
                    }
                }
            }
        )+
    };
}

periodic!(Sin Cos Tan);

/// One of three: up to a half, up to two, above.
#[inline(always)]
fn by_range(a: f64, low: f64, middle: f64, high: f64) -> f64 {
    select(a < 0.5, low, select(a > 2.0, high, middle))
}

/// Arc tangent, 0.8 ulp: of the value up to a half, of `(x - 1) / (x + 1)` up to two, of `-1 / x` above.
pub(crate) struct Atan;

impl Function for Atan {
    #[inline(always)]
    fn is_special(_: f64) -> bool {
        false
    }

    #[inline(always)]
    fn reduce(x: f64) -> Reduced {
        // From here on the result does not change, and an infinity would be multiplied by zero.
        const LAST: f64 = 1e18;
        let a = select(x.abs() > LAST, LAST, x.abs());
        let more = a + 1.0;
        let n = by_range(a, a, a - 1.0, -1.0);
        let d = by_range(a, 1.0, more, a);
        let d_low = by_range(a, 0.0, (1.0 - more) + a, 0.0);
        // The upper bits of the quotient, and its remainder by multiplying back.
        let inverse = 1.0 / d;
        let t = n * inverse;
        let ((upper, _), (d1, d2)) = (split_high_low(t), split_high_low(d));
        [t, (((n - upper * d1) - upper * d2) - t * d_low) * inverse, 0.0]
    }

    #[inline(always)]
    fn evaluate(x: f64, [t, lower, _]: Reduced) -> f64 {
        let (a, (upper, _)) = (x.abs(), split_high_low(t));
        let z = t * t;
        let p = poly!(z; -0.333_333_333_333_329_93, 0.199_999_999_999_056_6, -0.142_857_142_765_901_53, 0.111_111_106_678_087_3, -0.090_908_964_348_751_59, 0.076_920_766_959_690_36, -0.066_638_373_217_468_11, 0.058_584_693_553_677_24, -0.051_227_229_302_895_66, 0.041_884_152_961_108_596, -0.027_464_173_944_456_802, 0.010_136_386_265_881_38);
        let (h, lost) = fast_two_sum(by_range(a, 0.0, FRAC_PI_4, FRAC_PI_2), upper);
        let base_low = by_range(a, 0.0, 0.5 * FRAC_PI_2_LOW, FRAC_PI_2_LOW);
        let y = h + (((lost + base_low) + lower) + t * z * p);
        select(x.is_nan(), x, y.copysign(x))
    }

    #[inline]
    fn special(x: f64) -> f64 {
        x
    }
}

/// `(asin s - s) / s` for `z = s²` up to a quadrant.
#[inline(always)]
fn asin_poly(z: f64) -> f64 {
    z * poly!(z; 0.166_666_666_666_667_63, 0.074_999_999_999_701_17, 0.044_642_857_175_273_894, 0.030_381_942_675_705_59,
        0.022_372_215_897_029_83, 0.017_351_595_617_469_476, 0.013_981_017_523_790_268, 0.011_397_298_686_873_275,
        0.010_789_302_027_516_507, 0.003_672_216_569_795_888_7, 0.021_790_657_785_688_85, -0.021_116_844_443_291_587,
        0.032_702_302_296_606_006)
}

/// `s` and `z = s²`: the value up to a half, outside `√((1 - |x|) / 2)`.
#[inline(always)]
fn asin_reduce(x: f64) -> (f64, f64) {
    let a = x.abs();
    let big = a > 0.5;
    let z = select(big, 0.5 * (1.0 - a), a * a);
    (select(big, z.sqrt(), x), z)
}

/// Arc sine, 1.1 ulp; above a half `π/2 - 2 asin s`.
pub(crate) struct Asin;

impl Asin {
    #[inline(always)]
    fn value(x: f64) -> f64 {
        let a = x.abs();
        let (s, z) = asin_reduce(x);
        let t = s * asin_poly(z);
        let (h, lost) = fast_two_sum(FRAC_PI_2, -2.0 * s);
        let y = select(a > 0.5, h + (lost + (FRAC_PI_2_LOW - 2.0 * t)), s + t);
        select(x.is_nan(), x, select(a > 1.0, f64::NAN, y.copysign(x)))
    }
}

/// Arc cosine, 1.1 ulp: `π/2 - asin x`, above a half `2 asin s`, below minus that `π - 2 asin s`.
pub(crate) struct Acos;

impl Acos {
    #[inline(always)]
    fn value(x: f64) -> f64 {
        let a = x.abs();
        let (s, z) = asin_reduce(x);
        let of = |inner: f64, right: f64, left: f64| select(a > 0.5, select(x > 0.0, right, left), inner);
        let factor = of(-1.0, 2.0, -2.0);
        let t = s * asin_poly(z);
        let (h, lost) = fast_two_sum(of(FRAC_PI_2, 0.0, PI), factor * s);
        let y = h + (lost + (of(FRAC_PI_2_LOW, 0.0, 2.0 * FRAC_PI_2_LOW) + factor * t));
        select(x.is_nan(), x, select(a > 1.0, f64::NAN, y))
    }
}

macro_rules! arcs {
    ($($name:ident)+) => {
        $(
            impl Function for $name {
                #[inline(always)]
                fn is_special(_: f64) -> bool {
                    false
                }

                #[inline(always)]
                fn reduce(_: f64) -> Reduced {
                    [0.0; 3]
                }

                #[inline(always)]
                fn evaluate(x: f64, _: Reduced) -> f64 {
                    $name::value(x)
                }

                #[inline]
                fn special(x: f64) -> f64 {
                    x
                }
            }
        )+
    };
}

arcs!(Asin Acos);
