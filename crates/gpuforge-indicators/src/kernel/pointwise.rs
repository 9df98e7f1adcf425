//! Functions of the same bar, and of a bar some time ago.
#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is always below the number of lanes"
)]

use super::{Block, Body, Row, math};
use crate::{
    graph::{BinaryOp, UnaryOp},
    plan::Fusion,
};

/// A function of one value.
#[derive(Clone)]
pub(crate) struct UnaryKernel(pub(crate) UnaryOp);

/// A function of two values.
#[derive(Clone)]
pub(crate) struct BinaryKernel(pub(crate) BinaryOp);

/// A function of two values inside another.
#[derive(Clone)]
pub(crate) struct FusedBinaryKernel(pub(crate) Fusion);

/// A function of a value and a number.
#[derive(Clone)]
pub(crate) struct BinaryConstKernel {
    pub(crate) f: BinaryOp,
    pub(crate) k: f64,
    /// Does the number come first?
    pub(crate) first: bool,
}

/// One of two values.
#[derive(Clone)]
pub(crate) struct IfThenElse;

/// The value some bars ago.
#[derive(Clone)]
pub(crate) struct Shift(pub(crate) usize);

/// The second value before a bar, the first from it on.
#[derive(Clone)]
pub(crate) struct FillWarmup {
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
fn each_number<const L: usize>(block: &mut Block<'_, L>, input: usize, f: impl Fn(f64) -> f64) {
    let from = block.head();
    let a = block.inputs.get(input).map_or(&[] as &[Row<L>], |r| r.range(from, block.t1));
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

impl<const L: usize> Body<L> for UnaryKernel {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match self.0 {
            UnaryOp::Neg => each1(block, |x| -x),
            UnaryOp::Abs => each1(block, f64::abs),
            UnaryOp::Sqrt => each1(block, f64::sqrt),
            UnaryOp::Ln => math::each(block, math::Ln),
            UnaryOp::Log10 => math::each(block, math::Log10),
            UnaryOp::Exp => math::each(block, math::Exp),
            UnaryOp::Sin => math::each(block, math::Sin),
            UnaryOp::Cos => math::each(block, math::Cos),
            UnaryOp::Tan => math::each(block, math::Tan),
            UnaryOp::Asin => math::each(block, math::Asin),
            UnaryOp::Acos => math::each(block, math::Acos),
            UnaryOp::Atan => math::each(block, math::Atan),
            UnaryOp::Sinh => math::each(block, math::Sinh),
            UnaryOp::Cosh => math::each(block, math::Cosh),
            UnaryOp::Tanh => math::each(block, math::Tanh),
            UnaryOp::Floor => each1(block, f64::floor),
            UnaryOp::Ceil => each1(block, f64::ceil),
            UnaryOp::Sign => each1(block, |x| truth(x > 0.0) - truth(x < 0.0)),
        }
    }
}

/// Calls `$each` with the function of two values.
macro_rules! binary {
    ($f:expr, $each:ident) => {
        match $f {
            BinaryOp::Add => $each!(|a: f64, b: f64| a + b),
            BinaryOp::Sub => $each!(|a: f64, b: f64| a - b),
            BinaryOp::Mul => $each!(|a: f64, b: f64| a * b),
            BinaryOp::Div => $each!(|a: f64, b: f64| a / b),
            BinaryOp::Div0 => $each!(|a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b }),
            // A NaN on either side is a NaN.
            BinaryOp::Min => $each!(|a: f64, b: f64| if a.is_nan() | (a < b) { a } else { b }),
            BinaryOp::Max => $each!(|a: f64, b: f64| if a.is_nan() | (a > b) { a } else { b }),
            BinaryOp::Pow => $each!(f64::powf),
            BinaryOp::Lt => $each!(|a: f64, b: f64| truth(a < b)),
            BinaryOp::Le => $each!(|a: f64, b: f64| truth(a <= b)),
            BinaryOp::Gt => $each!(|a: f64, b: f64| truth(a > b)),
            BinaryOp::Ge => $each!(|a: f64, b: f64| truth(a >= b)),
            BinaryOp::Eq => $each!(|a: f64, b: f64| truth(a == b)),
            BinaryOp::Ne => $each!(|a: f64, b: f64| truth(a != b)),
            BinaryOp::And => $each!(|a: f64, b: f64| truth((a != 0.0) & (b != 0.0))),
            BinaryOp::Or => $each!(|a: f64, b: f64| truth((a != 0.0) | (b != 0.0))),
        }
    };
}

impl<const L: usize> Body<L> for BinaryKernel {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        macro_rules! each {
            ($g:expr) => {
                each2(block, $g)
            };
        }
        binary!(self.0, each)
    }
}

/// `$body` with the function that is fused as `$name`; the rest of [`BinaryOp`] never is.
macro_rules! fused {
    ($f:expr, $name:ident => $body:expr) => {
        match $f {
            BinaryOp::Add => {
                let $name = |a: f64, b: f64| a + b;
                $body
            }
            BinaryOp::Sub => {
                let $name = |a: f64, b: f64| a - b;
                $body
            }
            BinaryOp::Mul => {
                let $name = |a: f64, b: f64| a * b;
                $body
            }
            BinaryOp::Min => {
                let $name = |a: f64, b: f64| if a.is_nan() | (a < b) { a } else { b };
                $body
            }
            BinaryOp::Max => {
                let $name = |a: f64, b: f64| if a.is_nan() | (a > b) { a } else { b };
                $body
            }
            _ => {
                let $name = |a: f64, b: f64| a / b;
                $body
            }
        }
    };
}

#[inline(always)]
fn each3<const L: usize>(block: &mut Block<'_, L>, f: impl Fn(f64, f64, f64) -> f64) {
    let from = block.head();
    let row =
        |i: usize| block.inputs.get(i).map_or(&[] as &[Row<L>], |r| r.range(from, block.t1)).as_flattened();
    let (a, b, c) = (row(0), row(1), row(2));
    for (((out, a), b), c) in block.out(from).as_flattened_mut().iter_mut().zip(a).zip(b).zip(c) {
        *out = f(*a, *b, *c);
    }
}

impl<const L: usize> Body<L> for FusedBinaryKernel {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let Fusion { f, g, left } = self.0;
        fused!(f, f => fused!(g, g => match left {
            true => each3(block, |a, b, c| f(g(a, b), c)),
            false => each3(block, |a, b, c| f(c, g(a, b))),
        }))
    }
}

impl<const L: usize> Body<L> for BinaryConstKernel {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        let k = self.k;
        if self.first {
            macro_rules! each {
                ($g:expr) => {
                    each_number(block, 1, |x| $g(k, x))
                };
            }
            binary!(self.f, each)
        } else {
            macro_rules! each {
                ($g:expr) => {
                    each_number(block, 0, |x| $g(x, k))
                };
            }
            binary!(self.f, each)
        }
    }
}

impl<const L: usize> Body<L> for IfThenElse {
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

impl<const L: usize> Body<L> for Shift {
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

impl<const L: usize> Body<L> for FillWarmup {
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
