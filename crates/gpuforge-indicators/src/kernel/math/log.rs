//! ln and log10: exponent and significand, then an atanh series.

use super::{Function, HIGH_BITS, Reduced, fast_two_sum, poly};

/// The bits of √½: significands are reduced to [√½, √2), so that nothing cancels near 1.
const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;

/// The bits of 1.0.
const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;

/// ln 2 to 41 bits (times an exponent it is exact), and the rest.
pub(super) const LN_2: (f64, f64) = (f64::from_bits(0x3fe6_2e42_fefa_3000), 2.823_529_056_303_157_7e-13);

/// log10 2 to 42 bits, and the rest.
const LOG10_2: (f64, f64) = (f64::from_bits(0x3fd3_4413_509f_7800), 2.836_339_455_104_496_4e-14);

/// 1 / ln 10 to 26 bits, and the rest.
const LOG10_E: (f64, f64) = (f64::from_bits(0x3fdb_cb7b_1000_0000), 4.798_111_141_615_973e-9);

/// Is it anything but a positive normal number? One comparison: the offset carries infinity and NaN into the sign, where
/// the negative ones are, and leaves zero and the subnormal numbers below the normal ones.
#[inline(always)]
fn is_not_positive_normal(x: f64) -> bool {
    let exponent = 1_i64 << 52;
    x.to_bits().cast_signed().wrapping_add(exponent) < 2 * exponent
}

/// `x = 2^(k + lift) (1 + f)`: `k`, `f` and `s = f / (2 + f)`.
#[inline(always)]
fn decompose(x: f64, lift: f64) -> Reduced {
    let bits = x.to_bits().wrapping_add(ONE_BITS - SQRT_HALF_BITS);
    // The exponent and its bias on top of 2^52.
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0 + lift);
    let f = f64::from_bits((bits & ((1 << 52) - 1)) + SQRT_HALF_BITS) - 1.0;
    [k, f, f / (2.0 + f)]
}

/// `f²/2` and `s (f²/2 + R)`; `ln (1 + f)` is `f` less the first plus the second.
///
/// `ln (1 + f) = 2 atanh s = 2s + sR`, and `2s = f - s f`: the large part, `f`, is exact.
#[inline(always)]
fn log1p_series(f: f64, s: f64) -> (f64, f64) {
    let z = s * s;
    let r = z * poly!(z; 0.666_666_666_666_673_5, 0.399_999_999_994_093_9, 0.285_714_287_436_721_95,
        0.222_221_984_308_355_1, 0.181_835_722_430_075_56, 0.153_138_353_599_988_5, 0.147_982_238_081_348_6);
    let half = 0.5 * f * f;
    (half, s * (half + r))
}

/// The logarithm of a special argument, given the logarithm of a reduced one.
fn special_log(x: f64, of: fn(Reduced) -> f64) -> f64 {
    /// Scales a subnormal number to a normal one.
    const LIFT: f64 = 54.0;
    match x {
        x if x < 0.0 => f64::NAN,
        0.0 => f64::NEG_INFINITY,
        x if x < f64::MIN_POSITIVE => of(decompose(x * LIFT.exp2(), LIFT)),
        infinity_or_nan => infinity_or_nan,
    }
}

/// Natural logarithm; 0.8 ulp.
pub(crate) struct Ln;

impl Ln {
    #[inline(always)]
    fn join([k, f, s]: Reduced) -> f64 {
        let (half, more) = log1p_series(f, s);
        let (h, lost) = fast_two_sum(k * LN_2.0, f);
        h + ((lost + k * LN_2.1) - (half - more))
    }
}

/// Base-10 logarithm, 0.7 ulp; exact for powers of ten.
pub(crate) struct Log10;

impl Log10 {
    #[inline(always)]
    fn join([k, f, s]: Reduced) -> f64 {
        let (half, more) = log1p_series(f, s);
        let upper = f64::from_bits((f - half).to_bits() & HIGH_BITS);
        let lower = ((f - upper) - half) + more;
        let (h, lost) = fast_two_sum(k * LOG10_2.0, upper * LOG10_E.0);
        h + ((lost + k * LOG10_2.1) + ((lower + upper) * LOG10_E.1 + lower * LOG10_E.0))
    }
}

macro_rules! logarithm {
    ($($name:ident)+) => {
        $(
            impl Function for $name {
                #[inline(always)]
                fn is_special(x: f64) -> bool {
                    is_not_positive_normal(x)
                }

                #[inline(always)]
                fn reduce(x: f64) -> Reduced {
                    decompose(x, 0.0)
                }

                #[inline(always)]
                fn evaluate(_: f64, middle: Reduced) -> f64 {
                    $name::join(middle)
                }

                #[inline]
                fn special(x: f64) -> f64 {
                    special_log(x, $name::join)
                }
            }
        )+
    };
}

logarithm!(Ln Log10);
