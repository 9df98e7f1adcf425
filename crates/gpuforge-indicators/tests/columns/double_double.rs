//! Double-double arithmetic (Dekker 1971, Knuth's two-sum): a high-precision reference where TA-Lib and we differ.

use std::ops::{Add, Div, Mul, Sub};

/// Unevaluated sum of two `f64`s, about 32 digits.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct DoubleDouble(f64, f64);

impl DoubleDouble {
    pub(crate) const ZERO: DoubleDouble = DoubleDouble(0.0, 0.0);

    pub(crate) fn of(x: f64) -> DoubleDouble {
        DoubleDouble(x, 0.0)
    }

    /// Rounded to `f64`.
    pub(crate) fn rounded(self) -> f64 {
        self.0 + self.1
    }

    fn quick_two_sum(a: f64, b: f64) -> DoubleDouble {
        let s = a + b;
        DoubleDouble(s, b - (s - a))
    }

    pub(crate) fn sum(values: impl IntoIterator<Item = DoubleDouble>) -> DoubleDouble {
        values.into_iter().fold(DoubleDouble::ZERO, |a, b| a + b)
    }
}

impl Add for DoubleDouble {
    type Output = DoubleDouble;
    fn add(self, other: DoubleDouble) -> DoubleDouble {
        let s = self.0 + other.0;
        let part = s - self.0;
        let rest = (self.0 - (s - part)) + (other.0 - part);
        DoubleDouble::quick_two_sum(s, rest + self.1 + other.1)
    }
}

impl Sub for DoubleDouble {
    type Output = DoubleDouble;
    fn sub(self, other: DoubleDouble) -> DoubleDouble {
        self + DoubleDouble(-other.0, -other.1)
    }
}

impl Mul for DoubleDouble {
    type Output = DoubleDouble;
    fn mul(self, other: DoubleDouble) -> DoubleDouble {
        let p = self.0 * other.0;
        let rest = self.0.mul_add(other.0, -p);
        DoubleDouble::quick_two_sum(p, rest + (self.0 * other.1 + self.1 * other.0))
    }
}

impl Div for DoubleDouble {
    type Output = DoubleDouble;
    fn div(self, other: DoubleDouble) -> DoubleDouble {
        let first = self.0 / other.0;
        let rest = self - other * DoubleDouble::of(first);
        let second = rest.0 / other.0;
        let rest = rest - other * DoubleDouble::of(second);
        DoubleDouble::quick_two_sum(first, second) + DoubleDouble::of(rest.0 / other.0)
    }
}

#[test]
fn double_double_has_twice_the_digits() {
    let third = DoubleDouble::of(1.0) / DoubleDouble::of(3.0);
    let back = third + third + third - DoubleDouble::of(1.0);
    assert!(back.rounded().abs() < 1e-31, "{back:?}");
    let tiny = DoubleDouble::of(1.0) + DoubleDouble::of(1e-25);
    assert_eq!((tiny - DoubleDouble::of(1.0)).rounded(), 1e-25);
    assert_eq!((DoubleDouble::of(0.1) * DoubleDouble::of(0.1)).rounded(), 0.1 * 0.1);
}
