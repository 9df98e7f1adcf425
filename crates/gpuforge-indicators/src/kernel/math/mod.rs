//! Which bits has the sine, logarithm, … of a value? Functions that become vector instructions and give the same bits
//! everywhere.
//!
//! The platform's library is called value by value and differs between platforms. These functions have no branch, no
//! table and no fused operation: a loop over them is compiled to vector instructions, and each instruction set rounds the
//! same way. A choice is between two computed values (`select`): of an `if` with work on a side the compiler makes a
//! branch, and no vector instructions.
//!
//! Coefficients are our own minimax fits (Remez exchange in 240 bits, leading coefficients rounded first);
//! error bounds, each measured in `tests/math.rs`, stand at the function.
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

/// What the first half of a computation hands to the second.
type Middle = [f64; 3];

/// A function whose common arguments need no branch.
pub(crate) trait Function {
    /// Is the argument one that the halves do not take?
    fn far(x: f64) -> bool;

    /// The first half, the reduced argument; of an argument that is far, values without meaning.
    fn first(x: f64) -> Middle;

    /// The second half: its polynomial.
    fn second(x: f64, middle: Middle) -> f64;

    /// Of an argument that is far.
    fn edge(x: f64) -> f64;
}

/// `c0 + c1 z + c2 z² + …`, by pairs, pairs of pairs and so on: a chain of dependent steps is as deep as the logarithm of
/// their number. (Horner's rule has the fewest operations, but each waits for the one before: exp 2.5 instead of 2.2 ns.)
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

/// Adding it puts an integer into the low bits, rounded to nearest; subtracting it again gives the integer.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52

/// The upper 26 bits of a value: the product of two such is exact.
const UPPER: u64 = !((1 << 27) - 1);

/// Is it outside of ±`limit`, or NaN?
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord, reason = "of two comparisons the compiler makes a branch")]
fn beyond(x: f64, limit: f64) -> bool {
    !(x.abs() <= limit)
}

/// The sum as a value and what it lost; right where `a` is the larger, or zero.
#[inline(always)]
fn sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    (s, (a - s) + b)
}

/// A value as two of at most 27 bits.
#[inline(always)]
fn halves(x: f64) -> (f64, f64) {
    let upper = f64::from_bits(x.to_bits() & UPPER);
    (upper, x - upper)
}

/// A function of every value of a block: of all as if they were near, then of those in a chunk that are far, if any.
///
/// In two loops, the second after the first: the steps of one value wait for each other, and a processor that looks a few
/// hundred instructions ahead sees more values in a short loop (sine with AVX2: 2.8 ns in one loop, 2.2 in two).
#[inline(always)]
pub(crate) fn each<F: Function, const L: usize>(block: &mut Block<'_, L>, _: F) {
    /// Values whose middles stay in the fastest cache.
    const CHUNK: usize = 256;
    let from = block.head();
    let a = block.a().range(from, block.t1).as_flattened();
    let out = block.out(from).as_flattened_mut();
    let [mut m0, mut m1, mut m2] = [[0.0; CHUNK]; 3];
    for (out, a) in out.chunks_mut(CHUNK).zip(a.chunks(CHUNK)) {
        // All bits of a word: a truth value would be packed and unpacked.
        let mut again = 0_u64;
        for (((x, m0), m1), m2) in a.iter().zip(&mut m0).zip(&mut m1).zip(&mut m2) {
            again |= 0_u64.wrapping_sub(u64::from(F::far(*x)));
            [*m0, *m1, *m2] = F::first(*x);
        }
        for ((((out, x), m0), m1), m2) in out.iter_mut().zip(a).zip(&m0).zip(&m1).zip(&m2) {
            *out = F::second(*x, [*m0, *m1, *m2]);
        }
        if again != 0 {
            for (out, x) in out.iter_mut().zip(a).filter(|(_, x)| F::far(**x)) {
                *out = F::edge(*x);
            }
        }
    }
}
