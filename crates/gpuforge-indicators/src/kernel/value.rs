//! What does a rule compute with? Numbers, or the plan of what it would do with them.
//!
//! A rule is written once, for any [`Value`]. With `f64` it is a kernel; with [`Sym`] it leaves a [`Trace`], which compiled
//! loops are made from. Both do the same operations in the same order, so that both have the same bits.

use std::{
    cell::RefCell,
    ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub},
};

/// Yes or no, without a branch.
pub trait Mask:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
}

impl Mask for bool {}

/// What a rule computes with.
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
    /// What comparisons give.
    type Mask: Mask;

    /// Is it less?
    fn cmp_lt(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it less or the same?
    fn cmp_le(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it greater?
    fn cmp_gt(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it greater or the same?
    fn cmp_ge(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it the same?
    fn cmp_eq(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it another?
    fn cmp_ne(self, other: impl Into<Self>) -> Self::Mask;
    /// Is it NaN?
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.cmp_ne(self)
    }
    /// One of two values, both of them computed.
    fn select(mask: Self::Mask, yes: impl Into<Self>, no: impl Into<Self>) -> Self;
    /// Without its sign.
    fn abs(self) -> Self;
    /// Its root.
    fn sqrt(self) -> Self;
    /// The whole number below.
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

/// What is done with the values of one or two nodes; truths are values with all bits or none.
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
    /// The second where the first is a yes, else the third.
    Select,
}

/// One value of a tape, by what it is made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TraceNode {
    State(usize),
    Input(usize),
    Const(f64),
    Op(TraceOp, [usize; 3]),
}

/// What a rule does in a step: values, each after those that it is made from.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Vec<TraceNode>>);

impl Trace {
    fn put(&self, node: TraceNode) -> usize {
        let mut nodes = self.0.borrow_mut();
        nodes.push(node);
        nodes.len() - 1
    }
}

/// A rule's step as values: states after it, and outputs.
#[derive(Debug, Default)]
pub(crate) struct TracedStep {
    pub(crate) nodes: Vec<TraceNode>,
    pub(crate) states: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

impl TracedStep {
    /// Runs a step over values that are not there yet.
    pub(crate) fn of<const S: usize, const I: usize, const O: usize>(
        step: impl for<'t> FnOnce([Sym<'t>; S], [Sym<'t>; I]) -> ([Sym<'t>; S], [Sym<'t>; O]),
    ) -> TracedStep {
        let tape = Trace::default();
        let node = |node: TraceNode| Sym::Node(&tape, tape.put(node));
        let (states, inputs) = (
            std::array::from_fn(|s| node(TraceNode::State(s))),
            std::array::from_fn(|i| node(TraceNode::Input(i))),
        );
        let (states, outputs) = step(states, inputs);
        let at = |sym: Sym<'_>| sym.at(&tape);
        let (states, outputs) = (states.map(at).to_vec(), outputs.map(at).to_vec());
        TracedStep { nodes: tape.0.take(), states, outputs }
    }

    /// Which values the states and outputs need.
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

/// A value that is not there yet.
#[derive(Debug, Clone, Copy)]
pub enum Sym<'t> {
    /// A number that is the same at every bar.
    Const(f64),
    /// A value of a step.
    Node(&'t Trace, usize),
}

/// A truth that is not there yet.
#[derive(Debug, Clone, Copy)]
pub enum SymMask<'t> {
    /// The same at every bar.
    Const(bool),
    /// Of a step.
    Node(&'t Trace, usize),
}

impl<'t> Sym<'t> {
    fn at(self, tape: &Trace) -> usize {
        match self {
            Sym::Const(x) => tape.put(TraceNode::Const(x)),
            Sym::Node(_, at) => at,
        }
    }

    fn tape(self, other: Sym<'t>) -> Option<&'t Trace> {
        match (self, other) {
            (Sym::Node(tape, _), _) | (_, Sym::Node(tape, _)) => Some(tape),
            _ => None,
        }
    }

    fn one(self, act: TraceOp, known: impl Fn(f64) -> f64) -> Sym<'t> {
        match self {
            Sym::Const(x) => Sym::Const(known(x)),
            Sym::Node(tape, at) => Sym::Node(tape, tape.put(TraceNode::Op(act, [at; 3]))),
        }
    }

    fn two(self, act: TraceOp, other: Sym<'t>, known: impl Fn(f64, f64) -> f64) -> Sym<'t> {
        match (self.tape(other), self, other) {
            (Some(tape), ..) => {
                let (a, b) = (self.at(tape), other.at(tape));
                Sym::Node(tape, tape.put(TraceNode::Op(act, [a, b, b])))
            }
            (None, Sym::Const(a), Sym::Const(b)) => Sym::Const(known(a, b)),
            (None, ..) => self,
        }
    }

    fn compare(self, how: Compare, other: Sym<'t>, known: impl Fn(&f64, &f64) -> bool) -> SymMask<'t> {
        match (self.tape(other), self, other) {
            (Some(tape), ..) => {
                let (a, b) = (self.at(tape), other.at(tape));
                SymMask::Node(tape, tape.put(TraceNode::Op(TraceOp::Compare(how), [a, b, b])))
            }
            (None, Sym::Const(a), Sym::Const(b)) => SymMask::Const(known(&a, &b)),
            (None, ..) => SymMask::Const(false),
        }
    }
}

impl From<f64> for Sym<'_> {
    fn from(x: f64) -> Self {
        Sym::Const(x)
    }
}

/// An operator of two values, or of a value and a number.
macro_rules! operator {
    ($trait:ident, $method:ident, $act:expr) => {
        impl $trait for Sym<'_> {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                self.two($act, other, $trait::$method)
            }
        }

        impl $trait<f64> for Sym<'_> {
            type Output = Self;

            fn $method(self, other: f64) -> Self {
                self.two($act, Sym::Const(other), $trait::$method)
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
        self.one(TraceOp::Neg, Neg::neg)
    }
}

impl<'t> SymMask<'t> {
    fn two(
        self,
        act: TraceOp,
        other: SymMask<'t>,
        with_known: impl Fn(SymMask<'t>, bool) -> SymMask<'t>,
    ) -> SymMask<'t> {
        match (self, other) {
            (node, SymMask::Const(x)) | (SymMask::Const(x), node) => with_known(node, x),
            (SymMask::Node(tape, a), SymMask::Node(_, b)) => {
                SymMask::Node(tape, tape.put(TraceNode::Op(act, [a, b, b])))
            }
        }
    }
}

impl BitAnd for SymMask<'_> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.two(TraceOp::And, other, |node, known| if known { node } else { SymMask::Const(false) })
    }
}

impl BitOr for SymMask<'_> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.two(TraceOp::Or, other, |node, known| if known { SymMask::Const(true) } else { node })
    }
}

impl BitXor for SymMask<'_> {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        self.two(TraceOp::Xor, other, |node, known| if known { !node } else { node })
    }
}

impl Not for SymMask<'_> {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            SymMask::Const(x) => SymMask::Const(!x),
            SymMask::Node(tape, at) => SymMask::Node(tape, tape.put(TraceNode::Op(TraceOp::Not, [at; 3]))),
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
            SymMask::Const(known) => {
                if known {
                    yes
                } else {
                    no
                }
            }
            SymMask::Node(tape, mask) => {
                let (yes, no) = (yes.at(tape), no.at(tape));
                Sym::Node(tape, tape.put(TraceNode::Op(TraceOp::Select, [mask, yes, no])))
            }
        }
    }

    fn abs(self) -> Self {
        self.one(TraceOp::Abs, f64::abs)
    }

    fn sqrt(self) -> Self {
        self.one(TraceOp::Sqrt, f64::sqrt)
    }

    fn floor(self) -> Self {
        self.one(TraceOp::Floor, f64::floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_beforehand_is_no_work() {
        let traced = TracedStep::of::<1, 1, 1>(|[y], [x]| {
            let half = Sym::Const(1.0) / 2.0;
            let unused = (x * x).sqrt();
            let _ = unused;
            let yes = half.cmp_lt(1.0);
            ([Sym::select(yes, y + x * half, x)], [Sym::select(!yes, x, y)])
        });
        let needed = traced.needed();
        let acts = traced
            .nodes
            .iter()
            .zip(&needed)
            .filter(|(node, needed)| **needed && matches!(node, TraceNode::Op(..)));
        assert_eq!(acts.count(), 2, "{traced:?}");
        assert!(traced.nodes.contains(&TraceNode::Const(0.5)));
        assert_eq!(traced.outputs, [0], "the state of the bar before");
    }

    #[test]
    fn truths_that_are_known_leave_the_other_side() {
        let traced = TracedStep::of::<1, 1, 1>(|[y], [x]| {
            let known = |x: bool| SymMask::Const(x);
            let above = x.cmp_gt(y);
            let same = (((above & known(true)) | known(false)) ^ known(false)) & !known(false);
            ([y], [Sym::select(same, 1.0, 0.0)])
        });
        let acts: Vec<TraceOp> = traced
            .nodes
            .iter()
            .filter_map(|n| if let TraceNode::Op(a, _) = n { Some(*a) } else { None })
            .collect();
        assert_eq!(acts, [TraceOp::Compare(Compare::Gt), TraceOp::Select]);
    }
}
