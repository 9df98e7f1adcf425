//! How does a chain from bar to bar become work on eight bars at once? In twos, fours and eights.
//!
//! Of `y += k (x - y)` a bar's part is `k x`, and each bar after it leaves `a = 1 - k` of that. So eight bars by themselves are
//! three rounds: the second of every two gets `a` times the first; the last two of every four get what the second has, times
//! `a` and `a²`; the last four what the fourth has, times `a` to `a⁴`. What was before the eight is added once, and only that
//! waits for the bars before. Parts are computed of the distance to the first of the
//! eight bars: prices that do not move stay as they are, to the last digit. Sums are the same with `a = 1`. Where every bar has
//! an `a` of its own, what is left after some bars is computed by the same three rounds.
//!
//! Values differ in their last digits from those of one bar after the other, and after what is no number they differ more:
//! who runs it looks at the states (see [`crate::exec::How::loose`]).

use super::{Builder, Op, Src};
use crate::{graph::NodeOp, native::asm, plan::Step};

/// A chain over eight bars.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Scan {
    pub(in super::super) state: usize,
    /// Of the first of every two bars, what is left at the second; of the first two of four, what is left at the others. Where
    /// every bar has its own: all bits for those that something is added to.
    pub(in super::super) first: usize,
    pub(in super::super) second: usize,
    pub(in super::super) of: Of,
}

/// What a scan computes.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Of {
    /// Everything is left.
    Sum,
    /// The same share is left of every bar.
    Mean(Powers),
    /// A share of every bar's own is left: it comes first, what is added second.
    Affine { ones: usize },
    /// A value that is followed by a share of every bar's own.
    Follow { ones: usize },
}

/// Numbers of a mean.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Powers {
    /// How much of a bar counts.
    pub(in super::super) k: usize,
    /// What is left after one to four bars, after five to eight, and after eight.
    pub(in super::super) near: usize,
    pub(in super::super) far: usize,
    pub(in super::super) eight: usize,
}

/// Can this chain be a scan?
pub(in super::super) fn is_scan(prim: &NodeOp) -> bool {
    match prim {
        NodeOp::Ema { k, .. } => (0.0..=1.0).contains(&k.get()),
        NodeOp::RollingSum(..) | NodeOp::PartialRollingSum(..) | NodeOp::RollingSumFrom { .. } | NodeOp::CumSum(_) => true,
        NodeOp::Wilder { .. } | NodeOp::LinearRecurrence { .. } | NodeOp::AdaptiveEma { .. } => true,
        _ => false,
    }
}

impl Builder<'_> {
    /// The value of a chain whose state is this one.
    pub(super) fn scanned(&mut self, step: &Step, prim: &NodeOp, state: usize) -> Src {
        let (add, sub) = (Op::Plain(asm::ADD), Op::Plain(asm::SUB));
        let new = self.input(step, 0, 0);
        match prim {
            NodeOp::Ema { k, .. } => self.mean(new, k.get(), state),
            NodeOp::Wilder { n, .. } => self.mean(new, 1.0 / *n as f64, state),
            NodeOp::RollingSum(_, n) | NodeOp::PartialRollingSum(_, n) => {
                // The state is the sum less what leaves.
                let old = self.input(step, 0, n - 1);
                let change = self.op(sub, &[new, old]);
                let rest = self.sum(change, state);
                self.op(add, &[rest, old])
            }
            NodeOp::RollingSumFrom { n, .. } => {
                let old = self.input(step, 0, *n);
                let change = self.op(sub, &[new, old]);
                self.sum(change, state)
            }
            NodeOp::LinearRecurrence { .. } | NodeOp::AdaptiveEma { .. } => {
                let second = self.input(step, 1, 0);
                let (ones, all) = (self.numbers_of([1.0; 4]), u64::MAX);
                let follows = matches!(prim, NodeOp::AdaptiveEma { .. });
                let of = if follows { Of::Follow { ones } } else { Of::Affine { ones } };
                let (first, last) = (self.four([0, all, 0, all]), self.four([0, 0, all, all]));
                self.scan(&[new, second], Scan { state, first, second: last, of })
            }
            _ => self.sum(new, state),
        }
    }

    fn sum(&mut self, x: Src, state: usize) -> Src {
        self.left(x, state, 1.0, Of::Sum)
    }

    fn mean(&mut self, x: Src, k: f64, state: usize) -> Src {
        let a = 1.0 - k;
        let [a2, a4] = [a * a, a * a * (a * a)];
        let powers = Powers {
            k: self.numbers_of([k; 4]),
            near: self.numbers_of([a, a2, a2 * a, a4]),
            far: self.numbers_of([a4 * a, a4 * a2, a4 * a2 * a, a4 * a4]),
            eight: self.numbers_of([a4 * a4; 4]),
        };
        self.left(x, state, a, Of::Mean(powers))
    }

    /// A scan of which the same share is left of every bar.
    fn left(&mut self, x: Src, state: usize, a: f64, of: Of) -> Src {
        let first = self.numbers_of([0.0, a, 0.0, a]);
        let second = self.numbers_of([0.0, 0.0, a, a * a]);
        self.scan(&[x], Scan { state, first, second, of })
    }

    fn scan(&mut self, from: &[Src], scan: Scan) -> Src {
        self.ir.scans.push(scan);
        self.op(Op::Scan(self.ir.scans.len() - 1), from)
    }

    fn numbers_of(&mut self, numbers: [f64; 4]) -> usize {
        self.four(numbers.map(f64::to_bits))
    }
}
