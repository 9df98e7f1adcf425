//! Arithmetic with twice the digits, to find out who is right where two results differ: a number is a sum of two, the
//! second below half a unit in the last place of the first (Dekker 1971; Knuth's sum).

use std::ops::{Add, Div, Mul, Sub};

/// About 32 digits.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Exact(f64, f64);

impl Exact {
    pub(crate) const ZERO: Exact = Exact(0.0, 0.0);

    pub(crate) fn of(x: f64) -> Exact {
        Exact(x, 0.0)
    }

    /// The nearest number of the usual size.
    pub(crate) fn rounded(self) -> f64 {
        self.0 + self.1
    }

    fn quick(a: f64, b: f64) -> Exact {
        let s = a + b;
        Exact(s, b - (s - a))
    }

    pub(crate) fn sum(values: impl IntoIterator<Item = Exact>) -> Exact {
        values.into_iter().fold(Exact::ZERO, |a, b| a + b)
    }
}

impl Add for Exact {
    type Output = Exact;
    fn add(self, other: Exact) -> Exact {
        let s = self.0 + other.0;
        let part = s - self.0;
        let rest = (self.0 - (s - part)) + (other.0 - part);
        Exact::quick(s, rest + self.1 + other.1)
    }
}

impl Sub for Exact {
    type Output = Exact;
    fn sub(self, other: Exact) -> Exact {
        self + Exact(-other.0, -other.1)
    }
}

impl Mul for Exact {
    type Output = Exact;
    fn mul(self, other: Exact) -> Exact {
        let p = self.0 * other.0;
        let rest = self.0.mul_add(other.0, -p);
        Exact::quick(p, rest + (self.0 * other.1 + self.1 * other.0))
    }
}

impl Div for Exact {
    type Output = Exact;
    fn div(self, other: Exact) -> Exact {
        let first = self.0 / other.0;
        let rest = self - other * Exact::of(first);
        let second = rest.0 / other.0;
        let rest = rest - other * Exact::of(second);
        Exact::quick(first, second) + Exact::of(rest.0 / other.0)
    }
}

#[test]
fn digits_are_twice_as_many() {
    let third = Exact::of(1.0) / Exact::of(3.0);
    let back = third + third + third - Exact::of(1.0);
    assert!(back.rounded().abs() < 1e-31, "{back:?}");
    let tiny = Exact::of(1.0) + Exact::of(1e-25);
    assert_eq!((tiny - Exact::of(1.0)).rounded(), 1e-25);
    assert_eq!((Exact::of(0.1) * Exact::of(0.1)).rounded(), 0.1 * 0.1);
}
