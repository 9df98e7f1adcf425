//! Floating-point tolerances: absolute, relative and ulp bounds, NaN and infinity rules, first mismatch with its index.
//!
//! **Rules.** A pair agrees when *any* of the bounds holds, so that the absolute one covers values near zero and the others
//! the rest. NaN agrees with NaN, whatever its payload and sign, and with nothing else. An infinity agrees only with
//! itself: no bound is wide enough for a finite value. `0.0` and `-0.0` agree.

use std::fmt;

/// Allowed difference of two values. All zero: equal.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tolerance {
    /// Maximum of `|got - want|`.
    pub abs: f64,
    /// Maximum of `|got - want| / |want|`.
    pub rel: f64,
    /// Maximum distance in ulps.
    pub ulps: u64,
}

impl Tolerance {
    /// Equal, by the rules above.
    pub const EXACT: Tolerance = Tolerance { abs: 0.0, rel: 0.0, ulps: 0 };

    /// Only an absolute bound.
    pub const fn abs(abs: f64) -> Self {
        Tolerance { abs, ..Tolerance::EXACT }
    }

    /// Only a relative bound.
    pub const fn rel(rel: f64) -> Self {
        Tolerance { rel, ..Tolerance::EXACT }
    }

    /// Only a bound in ulps.
    pub const fn ulps(ulps: u64) -> Self {
        Tolerance { ulps, ..Tolerance::EXACT }
    }

    /// Do the two agree?
    pub fn agrees<F: Float>(self, got: F, want: F) -> bool {
        let (g, w) = (got.wide(), want.wide());
        if g.is_nan() || w.is_nan() {
            return g.is_nan() && w.is_nan();
        }
        if g.is_infinite() || w.is_infinite() {
            return g == w;
        }
        let apart = (g - w).abs();
        apart <= self.abs || apart <= self.rel * w.abs() || got.ulps_to(want) <= self.ulps
    }

    /// Compares two slices; the first pair that does not agree is the error.
    pub fn compare<F: Float>(self, got: &[F], want: &[F]) -> Result<(), Mismatch> {
        if got.len() != want.len() {
            return Err(Mismatch::Length { got: got.len(), want: want.len() });
        }
        let pairs = || got.iter().zip(want).enumerate().filter(|(_, (g, w))| !self.agrees(**g, **w));
        match pairs().next() {
            None => Ok(()),
            Some((index, (g, w))) => Err(Mismatch::Value {
                index,
                got: g.wide(),
                want: w.wide(),
                ulps: (!g.wide().is_nan() && !w.wide().is_nan()).then(|| g.ulps_to(*w)),
                others: pairs().count() - 1,
                tolerance: self,
            }),
        }
    }
}

/// How two results differ.
#[derive(Debug, Clone, PartialEq)]
pub enum Mismatch {
    /// Different lengths.
    Length {
        /// Actual length.
        got: usize,
        /// Expected length.
        want: usize,
    },
    /// A pair exceeds the tolerance.
    Value {
        /// Its index.
        index: usize,
        /// Actual value.
        got: f64,
        /// Expected value.
        want: f64,
        /// Distance in ulps, unless one is NaN.
        ulps: Option<u64>,
        /// Number of further mismatches.
        others: usize,
        /// The tolerance.
        tolerance: Tolerance,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Length { got, want } => write!(f, "{got} values instead of {want}"),
            Mismatch::Value { index, got, want, ulps, others, tolerance } => {
                write!(f, "[{index}]: got {got:?}, want {want:?}, apart {:e}", (got - want).abs())?;
                if let Some(ulps) = ulps {
                    write!(f, " ({ulps} ulps)")?;
                }
                let Tolerance { abs, rel, ulps } = tolerance;
                write!(f, "; allowed: abs {abs:e}, rel {rel:e}, {ulps} ulps; {others} more differ")
            }
        }
    }
}

impl std::error::Error for Mismatch {}

/// `f32` and `f64`.
pub trait Float: Copy {
    /// The same value, exactly.
    fn wide(self) -> f64;

    /// Distance to `other` in ulps; neither may be NaN. The two zeros are one value.
    fn ulps_to(self, other: Self) -> u64;
}

/// Ordered integer of a float: the magnitude bits with the sign.
fn ordered(magnitude: u64, negative: bool) -> i128 {
    let magnitude = i128::from(magnitude);
    if negative { -magnitude } else { magnitude }
}

fn steps(a: i128, b: i128) -> u64 {
    u64::try_from((a - b).unsigned_abs()).unwrap_or(u64::MAX)
}

impl Float for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn ulps_to(self, other: Self) -> u64 {
        let at = |v: f32| ordered(u64::from(v.abs().to_bits()), v.is_sign_negative());
        steps(at(self), at(other))
    }
}

impl Float for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn ulps_to(self, other: Self) -> u64 {
        let at = |v: f64| ordered(v.abs().to_bits(), v.is_sign_negative());
        steps(at(self), at(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Tolerance = Tolerance { abs: 1e300, rel: 1e9, ulps: u64::MAX };

    #[test]
    fn bounds_hold_at_the_bound_and_not_beyond() {
        let check =
            |t: Tolerance, got: f64, want: f64, ok| assert_eq!(t.agrees(got, want), ok, "{t:?} {got} {want}");
        check(Tolerance::abs(0.5), 1.5, 1.0, true);
        check(Tolerance::abs(0.5), 1.5000000000000002, 1.0, false);
        check(Tolerance::rel(0.25), 5.0, 4.0, true);
        check(Tolerance::rel(0.25), 5.000000000000001, 4.0, false);
        check(Tolerance::ulps(2), 1.0 + 2.0 * f64::EPSILON, 1.0, true);
        check(Tolerance::ulps(2), 1.0 + 3.0 * f64::EPSILON, 1.0, false);
        check(Tolerance::EXACT, 1.0, 1.0, true);
        // Any bound will do.
        check(Tolerance { abs: 1e-9, rel: 1e-3, ulps: 0 }, 1000.5, 1000.0, true);
        check(Tolerance { abs: 1e-9, rel: 1e-3, ulps: 0 }, 1e-10, 0.0, true);
    }

    #[test]
    fn nan_and_infinities_agree_only_with_themselves() {
        let (nan, other) = (f32::NAN, f32::from_bits(0xffc0_1234));
        assert!(Tolerance::EXACT.agrees(nan, other), "payload and sign do not count");
        assert!(!WIDE.agrees(nan, 0.0) && !WIDE.agrees(0.0, nan));
        assert!(Tolerance::EXACT.agrees(f64::INFINITY, f64::INFINITY));
        assert!(!WIDE.agrees(f64::INFINITY, f64::NEG_INFINITY) && !WIDE.agrees(f64::MAX, f64::INFINITY));
        assert!(!WIDE.agrees(f64::NAN, f64::INFINITY));
        assert!(Tolerance::EXACT.agrees(0.0, -0.0));
    }

    #[test]
    fn ulps_are_counted_across_zero() {
        let tiny = f32::from_bits(1);
        assert_eq!((-tiny).ulps_to(tiny), 2);
        assert_eq!(0.0f32.ulps_to(-0.0), 0);
        assert_eq!(1.0f32.ulps_to(1.0 + f32::EPSILON), 1);
        assert_eq!(1.0f64.ulps_to(1.0 + f64::EPSILON), 1);
        assert_eq!(f64::MAX.ulps_to(f64::MIN), 2 * f64::MAX.to_bits());
    }

    #[test]
    fn mismatch_message_names_index_and_values() {
        let error =
            Tolerance::rel(1e-6).compare(&[1.0f32, 2.0, 3.5, 9.0], &[1.0, 2.0, 3.0, 4.0]).unwrap_err();
        let text = error.to_string();
        for part in ["[2]", "got 3.5", "want 3.0", "rel 1e-6", "1 more differ"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let error = Tolerance::EXACT.compare(&[f64::NAN], &[1.0]).unwrap_err().to_string();
        assert!(error.contains("got NaN") && !error.contains("(0 ulps)"), "{error}");
        let error = WIDE.compare(&[1.0f64], &[]).unwrap_err();
        assert_eq!(error.to_string(), "1 values instead of 0");
        assert_eq!(Tolerance::EXACT.compare::<f32>(&[], &[]), Ok(()));
    }
}
