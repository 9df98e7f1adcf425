//! Logarithms.

use super::{Function, Middle, UPPER, poly, sum};

/// The bits of √½: mantissas are taken from there to √2, so that next to one nothing cancels.
const LEAST: u64 = 0x3fe6_a09e_667f_3bcd;

/// The bits of one.
const ONE: u64 = 0x3ff0_0000_0000_0000;

/// ln 2 to 41 bits (times an exponent it is exact), and the rest.
pub(super) const LN_2: (f64, f64) = (f64::from_bits(0x3fe6_2e42_fefa_3000), 2.823_529_056_303_157_7e-13);

/// log10 2 to 42 bits, and the rest.
const LOG10_2: (f64, f64) = (f64::from_bits(0x3fd3_4413_509f_7800), 2.836_339_455_104_496_4e-14);

/// 1 / ln 10 to 26 bits, and the rest.
const LOG10_E: (f64, f64) = (f64::from_bits(0x3fdb_cb7b_1000_0000), 4.798_111_141_615_973e-9);

/// Is it anything but a positive normal number? One comparison: the offset carries infinity and NaN into the sign, where
/// the negative ones are, and leaves zero and the subnormal numbers below the normal ones.
#[inline(always)]
fn unusual(x: f64) -> bool {
    let exponent = 1_i64 << 52;
    x.to_bits().cast_signed().wrapping_add(exponent) < 2 * exponent
}

/// `x = 2^(k + lift) (1 + f)`: `k`, `f` and `s = f / (2 + f)`.
#[inline(always)]
fn parts(x: f64, lift: f64) -> Middle {
    let bits = x.to_bits().wrapping_add(ONE - LEAST);
    // The exponent and its bias on top of 2^52.
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0 + lift);
    let f = f64::from_bits((bits & ((1 << 52) - 1)) + LEAST) - 1.0;
    [k, f, f / (2.0 + f)]
}

/// `f²/2` and `s (f²/2 + R)`; `ln (1 + f)` is `f` less the first plus the second.
///
/// `ln (1 + f) = 2 atanh s = 2s + sR`, and `2s = f - s f`: the large part, `f`, is exact.
#[inline(always)]
fn series(f: f64, s: f64) -> (f64, f64) {
    let z = s * s;
    let r = z * poly!(z; 0.666_666_666_666_673_5, 0.399_999_999_994_093_9, 0.285_714_287_436_721_95,
        0.222_221_984_308_355_1, 0.181_835_722_430_075_56, 0.153_138_353_599_988_5, 0.147_982_238_081_348_6);
    let half = 0.5 * f * f;
    (half, s * (half + r))
}

/// The logarithm of an unusual value, given one of usual parts.
fn edge(x: f64, of: fn(Middle) -> f64) -> f64 {
    /// It makes a subnormal number a normal one.
    const LIFT: f64 = 54.0;
    match x {
        x if x < 0.0 => f64::NAN,
        0.0 => f64::NEG_INFINITY,
        x if x < f64::MIN_POSITIVE => of(parts(x * LIFT.exp2(), LIFT)),
        infinity_or_nan => infinity_or_nan,
    }
}

/// Natural logarithm; 0.8 units in the last place.
pub(crate) struct Ln;

impl Ln {
    #[inline(always)]
    fn join([k, f, s]: Middle) -> f64 {
        let (half, more) = series(f, s);
        let (h, lost) = sum(k * LN_2.0, f);
        h + ((lost + k * LN_2.1) - (half - more))
    }
}

/// Logarithm to base ten, 0.7 units in the last place; of a power of ten it is exact.
pub(crate) struct Log10;

impl Log10 {
    #[inline(always)]
    fn join([k, f, s]: Middle) -> f64 {
        let (half, more) = series(f, s);
        let upper = f64::from_bits((f - half).to_bits() & UPPER);
        let lower = ((f - upper) - half) + more;
        let (h, lost) = sum(k * LOG10_2.0, upper * LOG10_E.0);
        h + ((lost + k * LOG10_2.1) + ((lower + upper) * LOG10_E.1 + lower * LOG10_E.0))
    }
}

macro_rules! logarithm {
    ($($name:ident)+) => {
        $(
            impl Function for $name {
                #[inline(always)]
                fn far(x: f64) -> bool {
                    unusual(x)
                }

                #[inline(always)]
                fn first(x: f64) -> Middle {
                    parts(x, 0.0)
                }

                #[inline(always)]
                fn second(_: f64, middle: Middle) -> f64 {
                    $name::join(middle)
                }

                #[inline]
                fn edge(x: f64) -> f64 {
                    edge(x, $name::join)
                }
            }
        )+
    };
}

logarithm!(Ln Log10);
