//! Tracing of branch-free steps: symbols that record their operations (with constant folding) instead of computing.

use std::{
    cell::RefCell,
    ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub},
};

use super::value::{Mask, Value};

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

/// An operation on up to three values; masks are values with all bits or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceOp {
    Add,
    Sub,
    Mul,
    Div,
    Neg,
    Abs,
    Sqrt,
    Floor,
    Compare(Compare),
    And,
    Or,
    Xor,
    Not,
    /// The second where the first is a set mask, else the third.
    Select,
}

/// One value of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TraceNode {
    State(usize),
    Input(usize),
    Const(f64),
    Op(TraceOp, [usize; 3]),
}

/// The operations of a step in SSA form: each value after its operands.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Vec<TraceNode>>);

impl Trace {
    fn put(&self, node: TraceNode) -> usize {
        let mut nodes = self.0.borrow_mut();
        nodes.push(node);
        nodes.len() - 1
    }
}

/// A traced step: its values, the states after it, and its outputs.
#[derive(Debug, Default)]
pub(crate) struct TracedStep {
    pub(crate) nodes: Vec<TraceNode>,
    pub(crate) states: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

impl TracedStep {
    /// Traces a step: runs it on symbols.
    pub(crate) fn of<const S: usize, const I: usize, const O: usize>(
        step: impl for<'t> FnOnce([Sym<'t>; S], [Sym<'t>; I]) -> ([Sym<'t>; S], [Sym<'t>; O]),
    ) -> TracedStep {
        let trace = Trace::default();
        let node = |node: TraceNode| Sym::Node(&trace, trace.put(node));
        let (states, inputs) = (
            std::array::from_fn(|s| node(TraceNode::State(s))),
            std::array::from_fn(|i| node(TraceNode::Input(i))),
        );
        let (states, outputs) = step(states, inputs);
        let at = |sym: Sym<'_>| sym.at(&trace);
        let (states, outputs) = (states.map(at).to_vec(), outputs.map(at).to_vec());
        TracedStep { nodes: trace.0.take(), states, outputs }
    }

    /// Liveness: which values the states and outputs need.
    pub(crate) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        let mark = |at: usize, needed: &mut Vec<bool>| {
            needed.iter_mut().skip(at).take(1).for_each(|n| *n = true);
        };
        self.states.iter().chain(&self.outputs).for_each(|at| mark(*at, &mut needed));
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if let (TraceNode::Op(_, from), Some(true)) = (node, needed.get(at)) {
                from.iter().for_each(|at| mark(*at, &mut needed));
            }
        }
        needed
    }
}

/// A symbolic value.
#[derive(Debug, Clone, Copy)]
pub enum Sym<'t> {
    /// A constant: folded while tracing.
    Const(f64),
    /// A value of the trace.
    Node(&'t Trace, usize),
}

/// A symbolic mask.
#[derive(Debug, Clone, Copy)]
pub enum SymMask<'t> {
    /// A constant: folded while tracing.
    Const(bool),
    /// A value of the trace.
    Node(&'t Trace, usize),
}

impl<'t> Sym<'t> {
    fn at(self, trace: &Trace) -> usize {
        match self {
            Sym::Const(x) => trace.put(TraceNode::Const(x)),
            Sym::Node(_, at) => at,
        }
    }

    fn trace(self, other: Sym<'t>) -> Option<&'t Trace> {
        match (self, other) {
            (Sym::Node(trace, _), _) | (_, Sym::Node(trace, _)) => Some(trace),
            _ => None,
        }
    }

    fn unary(self, op: TraceOp, fold: impl Fn(f64) -> f64) -> Sym<'t> {
        match self {
            Sym::Const(x) => Sym::Const(fold(x)),
            Sym::Node(trace, at) => Sym::Node(trace, trace.put(TraceNode::Op(op, [at; 3]))),
        }
    }

    fn binary(self, op: TraceOp, other: Sym<'t>, fold: impl Fn(f64, f64) -> f64) -> Sym<'t> {
        match (self.trace(other), self, other) {
            (Some(trace), ..) => {
                let (a, b) = (self.at(trace), other.at(trace));
                Sym::Node(trace, trace.put(TraceNode::Op(op, [a, b, b])))
            }
            (None, Sym::Const(a), Sym::Const(b)) => Sym::Const(fold(a, b)),
            (None, ..) => self,
        }
    }

    fn compare(self, compare: Compare, other: Sym<'t>, fold: impl Fn(&f64, &f64) -> bool) -> SymMask<'t> {
        match (self.trace(other), self, other) {
            (Some(trace), ..) => {
                let (a, b) = (self.at(trace), other.at(trace));
                SymMask::Node(trace, trace.put(TraceNode::Op(TraceOp::Compare(compare), [a, b, b])))
            }
            (None, Sym::Const(a), Sym::Const(b)) => SymMask::Const(fold(&a, &b)),
            (None, ..) => SymMask::Const(false),
        }
    }
}

impl From<f64> for Sym<'_> {
    fn from(x: f64) -> Self {
        Sym::Const(x)
    }
}

/// An operator of two values, or of a value and a constant.
macro_rules! operator {
    ($trait:ident, $method:ident, $op:expr) => {
        impl $trait for Sym<'_> {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                self.binary($op, other, $trait::$method)
            }
        }

        impl $trait<f64> for Sym<'_> {
            type Output = Self;

            fn $method(self, other: f64) -> Self {
                self.binary($op, Sym::Const(other), $trait::$method)
            }
        }
    };
}

operator!(Add, add, TraceOp::Add);
operator!(Sub, sub, TraceOp::Sub);
operator!(Mul, mul, TraceOp::Mul);
operator!(Div, div, TraceOp::Div);

impl Neg for Sym<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.unary(TraceOp::Neg, Neg::neg)
    }
}

impl<'t> SymMask<'t> {
    fn binary(
        self,
        op: TraceOp,
        other: SymMask<'t>,
        with_const: impl Fn(SymMask<'t>, bool) -> SymMask<'t>,
    ) -> SymMask<'t> {
        match (self, other) {
            (node, SymMask::Const(x)) | (SymMask::Const(x), node) => with_const(node, x),
            (SymMask::Node(trace, a), SymMask::Node(_, b)) => {
                SymMask::Node(trace, trace.put(TraceNode::Op(op, [a, b, b])))
            }
        }
    }
}

impl BitAnd for SymMask<'_> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.binary(TraceOp::And, other, |node, holds| if holds { node } else { SymMask::Const(false) })
    }
}

impl BitOr for SymMask<'_> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.binary(TraceOp::Or, other, |node, holds| if holds { SymMask::Const(true) } else { node })
    }
}

impl BitXor for SymMask<'_> {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        self.binary(TraceOp::Xor, other, |node, holds| if holds { !node } else { node })
    }
}

impl Not for SymMask<'_> {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            SymMask::Const(x) => SymMask::Const(!x),
            SymMask::Node(trace, at) => SymMask::Node(trace, trace.put(TraceNode::Op(TraceOp::Not, [at; 3]))),
        }
    }
}

impl Mask for SymMask<'_> {}

impl<'t> Value for Sym<'t> {
    type Mask = SymMask<'t>;

    fn cmp_lt(self, other: impl Into<Self>) -> SymMask<'t> {
        self.compare(Compare::Lt, other.into(), f64::lt)
    }

    fn cmp_le(self, other: impl Into<Self>) -> SymMask<'t> {
        self.compare(Compare::Le, other.into(), f64::le)
    }

    fn cmp_gt(self, other: impl Into<Self>) -> SymMask<'t> {
        self.compare(Compare::Gt, other.into(), f64::gt)
    }

    fn cmp_ge(self, other: impl Into<Self>) -> SymMask<'t> {
        self.compare(Compare::Ge, other.into(), f64::ge)
    }

    fn cmp_eq(self, other: impl Into<Self>) -> SymMask<'t> {
        self.compare(Compare::Eq, other.into(), f64::eq)
    }

    fn cmp_ne(self, other: impl Into<Self>) -> SymMask<'t> {
        self.compare(Compare::Ne, other.into(), f64::ne)
    }

    fn select(mask: SymMask<'t>, yes: impl Into<Self>, no: impl Into<Self>) -> Self {
        let (yes, no) = (yes.into(), no.into());
        match mask {
            SymMask::Const(holds) => {
                if holds {
                    yes
                } else {
                    no
                }
            }
            SymMask::Node(trace, mask) => {
                let (yes, no) = (yes.at(trace), no.at(trace));
                Sym::Node(trace, trace.put(TraceNode::Op(TraceOp::Select, [mask, yes, no])))
            }
        }
    }

    fn abs(self) -> Self {
        self.unary(TraceOp::Abs, f64::abs)
    }

    fn sqrt(self) -> Self {
        self.unary(TraceOp::Sqrt, f64::sqrt)
    }

    fn floor(self) -> Self {
        self.unary(TraceOp::Floor, f64::floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_folded_and_dead_values_not_needed() {
        let traced = TracedStep::of::<1, 1, 1>(|[y], [x]| {
            let half = Sym::Const(1.0) / 2.0;
            let unused = (x * x).sqrt();
            let _ = unused;
            let yes = half.cmp_lt(1.0);
            ([Sym::select(yes, y + x * half, x)], [Sym::select(!yes, x, y)])
        });
        let needed = traced.needed();
        let ops = traced
            .nodes
            .iter()
            .zip(&needed)
            .filter(|(node, needed)| **needed && matches!(node, TraceNode::Op(..)));
        assert_eq!(ops.count(), 2, "{traced:?}");
        assert!(traced.nodes.contains(&TraceNode::Const(0.5)));
        assert_eq!(traced.outputs, [0], "the state of the bar before");
    }

    #[test]
    fn constant_masks_fold_to_the_other_operand() {
        let traced = TracedStep::of::<1, 1, 1>(|[y], [x]| {
            let constant = |x: bool| SymMask::Const(x);
            let above = x.cmp_gt(y);
            let same = (((above & constant(true)) | constant(false)) ^ constant(false)) & !constant(false);
            ([y], [Sym::select(same, 1.0, 0.0)])
        });
        let ops: Vec<TraceOp> = traced
            .nodes
            .iter()
            .filter_map(|n| if let TraceNode::Op(a, _) = n { Some(*a) } else { None })
            .collect();
        assert_eq!(ops, [TraceOp::Compare(Compare::Gt), TraceOp::Select]);
    }
}
