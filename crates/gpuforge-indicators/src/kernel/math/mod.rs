//! Vectorisable elementary functions, bit-identical on every platform and SIMD level.
//!
//! The platform's libm is scalar and differs between platforms. These functions have no branches, no tables and no FMA: a loop
//! over them autovectorises, and every SIMD level rounds the same way. Choices are selects between two computed values: an `if`
//! with work on one side becomes a branch and prevents vectorisation.
//!
//! Structure: range reduction, polynomial, and a scalar path for special arguments. Coefficients are our own minimax fits (Remez
//! exchange in 240 bits, leading coefficients rounded first); error bounds, measured in `tests/math.rs`, are stated at each
//! function.
//!
//! NaN gives the same NaN; outside of the domain is the positive NaN; signed zeros and infinities as in C.

mod exp;
mod log;
mod trig;

use std::hint::select_unpredictable as select;

use super::Block;

pub(crate) use exp::{Cosh, Exp, Sinh, Tanh};
pub(crate) use log::{Ln, Log10};
pub(crate) use trig::{Acos, Asin, Atan, Cos, Sin, Tan};

/// A reduced argument.
type Reduced = [f64; 3];

/// An elementary function: branch-free for common arguments.
pub(crate) trait Function {
    /// Is it a special argument, which the branch-free path does not cover?
    fn is_special(x: f64) -> bool;

    /// Range reduction; meaningless for a special argument.
    fn reduce(x: f64) -> Reduced;

    /// The polynomial of the reduced argument.
    fn evaluate(x: f64, middle: Reduced) -> f64;

    /// The value of a special argument.
    fn special(x: f64) -> f64;
}

/// Polynomial `c0 + c1 z + c2 z² + …` by Estrin's scheme: the dependency chain is logarithmic in the degree. (Horner's rule has
/// the fewest operations, but each depends on the one before, which is slower.)
macro_rules! poly {
    ($z:expr; $c:expr) => { $c };
    ($z:expr; $($c:expr),+) => {{
        let z = $z;
        $crate::kernel::math::poly!(@pairs z; []; $($c),+)
    }};
    (@pairs $z:ident; [$($pair:expr),*]; $a:expr, $b:expr $(, $rest:expr)*) => {
        $crate::kernel::math::poly!(@pairs $z; [$($pair,)* $a + $z * $b]; $($rest),*)
    };
    (@pairs $z:ident; [$($pair:expr),*]; $($last:expr)?) => {
        $crate::kernel::math::poly!($z * $z; $($pair),* $(, $last)?)
    };
}
use poly;

/// Adding it rounds to nearest and leaves the integer in the low bits; subtracting it again gives the integer.
const ROUND_TO_INT: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52

/// Mask of the upper 26 bits of the significand: the product of two such values is exact.
const HIGH_BITS: u64 = !((1 << 27) - 1);

/// Is it outside of ±`limit`, or NaN?
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "two comparisons would become a branch")]
fn outside(x: f64, limit: f64) -> bool {
    !(x.abs() <= limit)
}

/// Fast two-sum: the sum and its rounding error; exact where `|a| >= |b|`, or `a` is zero.
#[inline(always)]
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    (s, (a - s) + b)
}

/// Splits a value into two of at most 27 bits.
#[inline(always)]
fn split_high_low(x: f64) -> (f64, f64) {
    let upper = f64::from_bits(x.to_bits() & HIGH_BITS);
    (upper, x - upper)
}

/// Maps a block: all values by the branch-free path, then the special ones of a chunk, if there are any.
///
/// Two loops (reduction, polynomial) instead of one: the operations of one value are a dependency chain, and the out-of-order
/// window of a CPU holds more iterations of a short loop.
#[inline(always)]
pub(crate) fn map_block<F: Function, const L: usize>(block: &mut Block<'_, L>, _: F) {
    /// Values whose reduced arguments fit L1.
    const CHUNK: usize = 256;
    let from = block.head();
    let a = block.a().range(from, block.t1).as_flattened();
    let out = block.out(from).as_flattened_mut();
    let [mut m0, mut m1, mut m2] = [[0.0; CHUNK]; 3];
    for (out, a) in out.chunks_mut(CHUNK).zip(a.chunks(CHUNK)) {
        // A 64-bit mask: a bool would be packed and unpacked.
        let mut any_special = 0_u64;
        for (((x, m0), m1), m2) in a.iter().zip(&mut m0).zip(&mut m1).zip(&mut m2) {
            any_special |= 0_u64.wrapping_sub(u64::from(F::is_special(*x)));
            [*m0, *m1, *m2] = F::reduce(*x);
        }
        for ((((out, x), m0), m1), m2) in out.iter_mut().zip(a).zip(&m0).zip(&m1).zip(&m2) {
            *out = F::evaluate(*x, [*m0, *m1, *m2]);
        }
        if any_special != 0 {
            for (out, x) in out.iter_mut().zip(a).filter(|(_, x)| F::is_special(**x)) {
                *out = F::special(*x);
            }
        }
    }
}
