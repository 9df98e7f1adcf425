//! Functions of the same bar, and of a bar some time ago.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Row};
use crate::graph::{Bin, Un};

/// A function of one value.
pub(crate) struct Map1(pub(crate) Un);

/// A function of two values.
pub(crate) struct Map2(pub(crate) Bin);

/// One of two values.
pub(crate) struct Choose;

/// The value some bars ago.
pub(crate) struct Lag(pub(crate) usize);

/// The second value before a bar, the first from it on.
pub(crate) struct Preceded {
    pub(crate) begin: usize,
}

#[inline(always)]
fn each1<const L: usize>(block: &mut Block<'_, L>, f: impl Fn(f64) -> f64) {
    let from = block.head();
    let a = block.a().range(from, block.t1);
    // Lanes do not matter here: one long column.
    for (out, a) in block.out(from).as_flattened_mut().iter_mut().zip(a.as_flattened()) {
        *out = f(*a);
    }
}

#[inline(always)]
fn each2<const L: usize>(block: &mut Block<'_, L>, f: impl Fn(f64, f64) -> f64) {
    let from = block.head();
    let (a, b) = (block.a().range(from, block.t1), block.b().range(from, block.t1));
    let out = block.out(from).as_flattened_mut();
    for ((out, a), b) in out.iter_mut().zip(a.as_flattened()).zip(b.as_flattened()) {
        *out = f(*a, *b);
    }
}

#[inline(always)]
fn truth(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

impl<const L: usize> Body<L> for Map1 {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match self.0 {
            Un::Neg => each1(block, |x| -x),
            Un::Abs => each1(block, f64::abs),
            Un::Sqrt => each1(block, f64::sqrt),
            Un::Ln => each1(block, f64::ln),
            Un::Log10 => each1(block, f64::log10),
            Un::Exp => each1(block, f64::exp),
            Un::Sin => each1(block, f64::sin),
            Un::Cos => each1(block, f64::cos),
            Un::Tan => each1(block, f64::tan),
            Un::Asin => each1(block, f64::asin),
            Un::Acos => each1(block, f64::acos),
            Un::Atan => each1(block, f64::atan),
            Un::Sinh => each1(block, f64::sinh),
            Un::Cosh => each1(block, f64::cosh),
            Un::Tanh => each1(block, f64::tanh),
            Un::Floor => each1(block, f64::floor),
            Un::Ceil => each1(block, f64::ceil),
            Un::Sign => each1(block, |x| truth(x > 0.0) - truth(x < 0.0)),
        }
    }
}

impl<const L: usize> Body<L> for Map2 {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match self.0 {
            Bin::Add => each2(block, |a, b| a + b),
            Bin::Sub => each2(block, |a, b| a - b),
            Bin::Mul => each2(block, |a, b| a * b),
            Bin::Div => each2(block, |a, b| a / b),
            Bin::Div0 => each2(block, |a, b| if b == 0.0 { 0.0 } else { a / b }),
            // A NaN on either side is a NaN.
            Bin::Min => each2(block, |a, b| if a.is_nan() || a < b { a } else { b }),
            Bin::Max => each2(block, |a, b| if a.is_nan() || a > b { a } else { b }),
            Bin::Pow => each2(block, f64::powf),
            Bin::Lt => each2(block, |a, b| truth(a < b)),
            Bin::Le => each2(block, |a, b| truth(a <= b)),
            Bin::Gt => each2(block, |a, b| truth(a > b)),
            Bin::Ge => each2(block, |a, b| truth(a >= b)),
            Bin::Eq => each2(block, |a, b| truth(a == b)),
            Bin::Ne => each2(block, |a, b| truth(a != b)),
            Bin::And => each2(block, |a, b| truth(a != 0.0 && b != 0.0)),
            Bin::Or => each2(block, |a, b| truth(a != 0.0 || b != 0.0)),
        }
    }
}

impl<const L: usize> Body<L> for Choose {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let row = |i: usize| block.inputs.get(i).map_or(&[] as &[Row<L>], |r| r.range(from, block.t1));
        let (c, a, b) = (row(0), row(1), row(2));
        let (c, a, b) = (c.as_flattened(), a.as_flattened(), b.as_flattened());
        for (((out, c), a), b) in block.out(from).as_flattened_mut().iter_mut().zip(c).zip(a).zip(b) {
            *out = if *c != 0.0 { *a } else { *b };
        }
    }
}

impl<const L: usize> Body<L> for Lag {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let past = block.a().range(from - self.0, block.t1 - self.0);
        let out = block.out(from);
        if out.len() == past.len() {
            out.copy_from_slice(past);
        }
    }
}

impl<const L: usize> Body<L> for Preceded {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let from = block.head();
        let turn = self.begin.clamp(from, block.t1);
        let (before, after) = (block.b().range(from, turn), block.a().range(turn, block.t1));
        for (out, x) in block.out(from).iter_mut().zip(before.iter().chain(after)) {
            *out = *x;
        }
    }
}
