//! Element-wise kernels: unary, binary, fused binary, if-then-else, shift, warm-up fill.
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

/// A unary operation.
#[derive(Clone)]
pub(crate) struct UnaryKernel(pub(crate) UnaryOp);

/// A binary operation.
#[derive(Clone)]
pub(crate) struct BinaryKernel(pub(crate) BinaryOp);

/// A binary operation fused into another.
#[derive(Clone)]
pub(crate) struct FusedBinaryKernel(pub(crate) Fusion);

/// A binary operation with a constant.
#[derive(Clone)]
pub(crate) struct BinaryConstKernel {
    pub(crate) f: BinaryOp,
    pub(crate) k: f64,
    /// Is the constant the first operand?
    pub(crate) first: bool,
}

/// If-then-else: one of two values by a condition.
#[derive(Clone)]
pub(crate) struct IfThenElse;

/// Lag: the value some bars ago.
#[derive(Clone)]
pub(crate) struct Shift(pub(crate) usize);

/// The second operand during the warm-up of the first, then the first.
#[derive(Clone)]
pub(crate) struct FillWarmup {
    pub(crate) begin: usize,
}

#[inline(always)]
fn each1<const L: usize>(block: &mut Block<'_, L>, f: impl Fn(f64) -> f64) {
    let from = block.head();
    let a = block.a().range(from, block.t1);
    // Lanes do not matter here: one flat loop.
    for (out, a) in block.out(from).as_flattened_mut().iter_mut().zip(a.as_flattened()) {
        *out = f(*a);
    }
}

#[inline(always)]
fn each_const<const L: usize>(block: &mut Block<'_, L>, input: usize, f: impl Fn(f64) -> f64) {
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

/// A predicate as 1 or 0.
#[inline(always)]
fn predicate(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

impl<const L: usize> Body<L> for UnaryKernel {
    #[inline(always)]
    fn body(&mut self, block: &mut Block<'_, L>) {
        match self.0 {
            UnaryOp::Neg => each1(block, |x| -x),
            UnaryOp::Abs => each1(block, f64::abs),
            UnaryOp::Sqrt => each1(block, f64::sqrt),
            UnaryOp::Ln => math::map_block(block, math::Ln),
            UnaryOp::Log10 => math::map_block(block, math::Log10),
            UnaryOp::Exp => math::map_block(block, math::Exp),
            UnaryOp::Sin => math::map_block(block, math::Sin),
            UnaryOp::Cos => math::map_block(block, math::Cos),
            UnaryOp::Tan => math::map_block(block, math::Tan),
            UnaryOp::Asin => math::map_block(block, math::Asin),
            UnaryOp::Acos => math::map_block(block, math::Acos),
            UnaryOp::Atan => math::map_block(block, math::Atan),
            UnaryOp::Sinh => math::map_block(block, math::Sinh),
            UnaryOp::Cosh => math::map_block(block, math::Cosh),
            UnaryOp::Tanh => math::map_block(block, math::Tanh),
            UnaryOp::Floor => each1(block, f64::floor),
            UnaryOp::Ceil => each1(block, f64::ceil),
            UnaryOp::Sign => each1(block, |x| predicate(x > 0.0) - predicate(x < 0.0)),
        }
    }
}

/// Calls `$each` with the function of a [`BinaryOp`].
macro_rules! binary {
    ($f:expr, $each:ident) => {
        match $f {
            BinaryOp::Add => $each!(|a: f64, b: f64| a + b),
            BinaryOp::Sub => $each!(|a: f64, b: f64| a - b),
            BinaryOp::Mul => $each!(|a: f64, b: f64| a * b),
            BinaryOp::Div => $each!(|a: f64, b: f64| a / b),
            BinaryOp::Div0 => $each!(|a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b }),
            // NaN where either operand is.
            BinaryOp::Min => $each!(|a: f64, b: f64| if a.is_nan() | (a < b) { a } else { b }),
            BinaryOp::Max => $each!(|a: f64, b: f64| if a.is_nan() | (a > b) { a } else { b }),
            BinaryOp::Pow => $each!(f64::powf),
            BinaryOp::Lt => $each!(|a: f64, b: f64| predicate(a < b)),
            BinaryOp::Le => $each!(|a: f64, b: f64| predicate(a <= b)),
            BinaryOp::Gt => $each!(|a: f64, b: f64| predicate(a > b)),
            BinaryOp::Ge => $each!(|a: f64, b: f64| predicate(a >= b)),
            BinaryOp::Eq => $each!(|a: f64, b: f64| predicate(a == b)),
            BinaryOp::Ne => $each!(|a: f64, b: f64| predicate(a != b)),
            BinaryOp::And => $each!(|a: f64, b: f64| predicate((a != 0.0) & (b != 0.0))),
            BinaryOp::Or => $each!(|a: f64, b: f64| predicate((a != 0.0) | (b != 0.0))),
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

/// `$body` with the function of a fusible [`BinaryOp`] as `$name`; the others are never fused.
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
                    each_const(block, 1, |x| $g(k, x))
                };
            }
            binary!(self.f, each)
        } else {
            macro_rules! each {
                ($g:expr) => {
                    each_const(block, 0, |x| $g(x, k))
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
        let valid = self.begin.clamp(from, block.t1);
        let (before, after) = (block.b().range(from, valid), block.a().range(valid, block.t1));
        for (out, x) in block.out(from).iter_mut().zip(before.iter().chain(after)) {
            *out = *x;
        }
    }
}
