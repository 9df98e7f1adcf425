//! The value type that a state machine's step is generic over: `f64` in a kernel, a symbol when it is traced for the JIT.
//!
//! A step is written once, for any [`Value`]. With `f64` it is a kernel; with [`Sym`](super::trace::Sym) it records a trace, which
//! fused loops are compiled from. Both do the same operations in the same order, so that results are bit-identical.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The result of a comparison, combined without branches.
pub trait Mask:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
}

impl Mask for bool {}

/// A number that a branch-free step computes with.
pub trait Value:
    Copy
    + From<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
    + Neg<Output = Self>
{
    /// The result of comparisons.
    type Mask: Mask;

    /// `self < other`.
    fn cmp_lt(self, other: impl Into<Self>) -> Self::Mask;
    /// `self <= other`.
    fn cmp_le(self, other: impl Into<Self>) -> Self::Mask;
    /// `self > other`.
    fn cmp_gt(self, other: impl Into<Self>) -> Self::Mask;
    /// `self >= other`.
    fn cmp_ge(self, other: impl Into<Self>) -> Self::Mask;
    /// `self == other`.
    fn cmp_eq(self, other: impl Into<Self>) -> Self::Mask;
    /// `self != other`.
    fn cmp_ne(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it NaN?
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.cmp_ne(self)
    }
    /// `yes` where the mask holds, else `no`; both are computed.
    fn select(mask: Self::Mask, yes: impl Into<Self>, no: impl Into<Self>) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Largest integer not above it.
    fn floor(self) -> Self;
}

impl Value for f64 {
    type Mask = bool;

    #[inline(always)]
    fn cmp_lt(self, other: impl Into<f64>) -> bool {
        self < other.into()
    }

    #[inline(always)]
    fn cmp_le(self, other: impl Into<f64>) -> bool {
        self <= other.into()
    }

    #[inline(always)]
    fn cmp_gt(self, other: impl Into<f64>) -> bool {
        self > other.into()
    }

    #[inline(always)]
    fn cmp_ge(self, other: impl Into<f64>) -> bool {
        self >= other.into()
    }

    #[inline(always)]
    fn cmp_eq(self, other: impl Into<f64>) -> bool {
        self == other.into()
    }

    #[inline(always)]
    fn cmp_ne(self, other: impl Into<f64>) -> bool {
        self != other.into()
    }

    #[inline(always)]
    fn select(mask: bool, yes: impl Into<f64>, no: impl Into<f64>) -> f64 {
        std::hint::select_unpredictable(mask, yes.into(), no.into())
    }

    #[inline(always)]
    fn abs(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        self.sqrt()
    }

    #[inline(always)]
    fn floor(self) -> f64 {
        self.floor()
    }
}
