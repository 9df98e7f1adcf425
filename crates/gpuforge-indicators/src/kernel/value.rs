//! What does a rule compute with? Numbers, or the plan of what it would do with them.
//!
//! A rule is written once, for any [`Value`]. With `f64` it is a kernel; with [`Sym`] it leaves a [`Tape`], which compiled
//! loops are made from. Both do the same operations in the same order, so that both have the same bits.

use std::{
    cell::RefCell,
    ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub},
};

/// Yes or no, without a branch.
pub trait Truth:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
}

impl Truth for bool {}

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
    type Truth: Truth;

    /// Is it less?
    fn below(self, other: impl Into<Self>) -> Self::Truth;
    /// Is it less or the same?
    fn at_most(self, other: impl Into<Self>) -> Self::Truth;
    /// Is it greater?
    fn above(self, other: impl Into<Self>) -> Self::Truth;
    /// Is it greater or the same?
    fn at_least(self, other: impl Into<Self>) -> Self::Truth;
    /// Is it the same?
    fn is(self, other: impl Into<Self>) -> Self::Truth;
    /// Is it another?
    fn differs(self, other: impl Into<Self>) -> Self::Truth;
    /// Is it NaN?
    #[inline(always)]
    fn is_none(self) -> Self::Truth {
        self.differs(self)
    }
    /// One of two values, both of them computed.
    fn either(truth: Self::Truth, yes: impl Into<Self>, no: impl Into<Self>) -> Self;
    /// Without its sign.
    fn size(self) -> Self;
    /// Its root.
    fn root(self) -> Self;
    /// The whole number below.
    fn down(self) -> Self;
}

impl Value for f64 {
    type Truth = bool;

    #[inline(always)]
    fn below(self, other: impl Into<f64>) -> bool {
        self < other.into()
    }

    #[inline(always)]
    fn at_most(self, other: impl Into<f64>) -> bool {
        self <= other.into()
    }

    #[inline(always)]
    fn above(self, other: impl Into<f64>) -> bool {
        self > other.into()
    }

    #[inline(always)]
    fn at_least(self, other: impl Into<f64>) -> bool {
        self >= other.into()
    }

    #[inline(always)]
    fn is(self, other: impl Into<f64>) -> bool {
        self == other.into()
    }

    #[inline(always)]
    fn differs(self, other: impl Into<f64>) -> bool {
        self != other.into()
    }

    #[inline(always)]
    fn either(truth: bool, yes: impl Into<f64>, no: impl Into<f64>) -> f64 {
        std::hint::select_unpredictable(truth, yes.into(), no.into())
    }

    #[inline(always)]
    fn size(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn root(self) -> f64 {
        self.sqrt()
    }

    #[inline(always)]
    fn down(self) -> f64 {
        self.floor()
    }
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Below,
    AtMost,
    Above,
    AtLeast,
    Is,
    Differs,
}

/// What is done with the values of one or two nodes; truths are values with all bits or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Add,
    Sub,
    Mul,
    Div,
    Neg,
    Size,
    Root,
    Down,
    Compare(Compare),
    And,
    Or,
    Xor,
    Not,
    /// The second where the first is a yes, else the third.
    Either,
}

/// One value of a tape, by what it is made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Node {
    State(usize),
    Input(usize),
    Number(f64),
    Act(Act, [usize; 3]),
}

/// What a rule does in a step: values, each after those that it is made from.
#[derive(Debug, Default)]
pub struct Tape(RefCell<Vec<Node>>);

impl Tape {
    fn put(&self, node: Node) -> usize {
        let mut nodes = self.0.borrow_mut();
        nodes.push(node);
        nodes.len() - 1
    }
}

/// A rule's step as values: states after it, and outputs.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(crate) nodes: Vec<Node>,
    pub(crate) states: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

impl Traced {
    /// Runs a step over values that are not there yet.
    pub(crate) fn of<const S: usize, const I: usize, const O: usize>(
        step: impl for<'t> FnOnce([Sym<'t>; S], [Sym<'t>; I]) -> ([Sym<'t>; S], [Sym<'t>; O]),
    ) -> Traced {
        let tape = Tape::default();
        let node = |node: Node| Sym::Node(&tape, tape.put(node));
        let (states, inputs) =
            (std::array::from_fn(|s| node(Node::State(s))), std::array::from_fn(|i| node(Node::Input(i))));
        let (states, outputs) = step(states, inputs);
        let at = |sym: Sym<'_>| sym.at(&tape);
        let (states, outputs) = (states.map(at).to_vec(), outputs.map(at).to_vec());
        Traced { nodes: tape.0.take(), states, outputs }
    }

    /// Which values the states and outputs need.
    pub(crate) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        let mark = |at: usize, needed: &mut Vec<bool>| {
            needed.iter_mut().skip(at).take(1).for_each(|n| *n = true);
        };
        self.states.iter().chain(&self.outputs).for_each(|at| mark(*at, &mut needed));
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if let (Node::Act(_, from), Some(true)) = (node, needed.get(at)) {
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
    Known(f64),
    /// A value of a step.
    Node(&'t Tape, usize),
}

/// A truth that is not there yet.
#[derive(Debug, Clone, Copy)]
pub enum SymTruth<'t> {
    /// The same at every bar.
    Known(bool),
    /// Of a step.
    Node(&'t Tape, usize),
}

impl<'t> Sym<'t> {
    fn at(self, tape: &Tape) -> usize {
        match self {
            Sym::Known(x) => tape.put(Node::Number(x)),
            Sym::Node(_, at) => at,
        }
    }

    fn tape(self, other: Sym<'t>) -> Option<&'t Tape> {
        match (self, other) {
            (Sym::Node(tape, _), _) | (_, Sym::Node(tape, _)) => Some(tape),
            _ => None,
        }
    }

    fn one(self, act: Act, known: impl Fn(f64) -> f64) -> Sym<'t> {
        match self {
            Sym::Known(x) => Sym::Known(known(x)),
            Sym::Node(tape, at) => Sym::Node(tape, tape.put(Node::Act(act, [at; 3]))),
        }
    }

    fn two(self, act: Act, other: Sym<'t>, known: impl Fn(f64, f64) -> f64) -> Sym<'t> {
        match (self.tape(other), self, other) {
            (Some(tape), ..) => {
                let (a, b) = (self.at(tape), other.at(tape));
                Sym::Node(tape, tape.put(Node::Act(act, [a, b, b])))
            }
            (None, Sym::Known(a), Sym::Known(b)) => Sym::Known(known(a, b)),
            (None, ..) => self,
        }
    }

    fn compare(self, how: Compare, other: Sym<'t>, known: impl Fn(&f64, &f64) -> bool) -> SymTruth<'t> {
        match (self.tape(other), self, other) {
            (Some(tape), ..) => {
                let (a, b) = (self.at(tape), other.at(tape));
                SymTruth::Node(tape, tape.put(Node::Act(Act::Compare(how), [a, b, b])))
            }
            (None, Sym::Known(a), Sym::Known(b)) => SymTruth::Known(known(&a, &b)),
            (None, ..) => SymTruth::Known(false),
        }
    }
}

impl From<f64> for Sym<'_> {
    fn from(x: f64) -> Self {
        Sym::Known(x)
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
                self.two($act, Sym::Known(other), $trait::$method)
            }
        }
    };
}

operator!(Add, add, Act::Add);
operator!(Sub, sub, Act::Sub);
operator!(Mul, mul, Act::Mul);
operator!(Div, div, Act::Div);

impl Neg for Sym<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.one(Act::Neg, Neg::neg)
    }
}

impl<'t> SymTruth<'t> {
    fn two(
        self,
        act: Act,
        other: SymTruth<'t>,
        with_known: impl Fn(SymTruth<'t>, bool) -> SymTruth<'t>,
    ) -> SymTruth<'t> {
        match (self, other) {
            (node, SymTruth::Known(x)) | (SymTruth::Known(x), node) => with_known(node, x),
            (SymTruth::Node(tape, a), SymTruth::Node(_, b)) => {
                SymTruth::Node(tape, tape.put(Node::Act(act, [a, b, b])))
            }
        }
    }
}

impl BitAnd for SymTruth<'_> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.two(Act::And, other, |node, known| if known { node } else { SymTruth::Known(false) })
    }
}

impl BitOr for SymTruth<'_> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.two(Act::Or, other, |node, known| if known { SymTruth::Known(true) } else { node })
    }
}

impl BitXor for SymTruth<'_> {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        self.two(Act::Xor, other, |node, known| if known { !node } else { node })
    }
}

impl Not for SymTruth<'_> {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            SymTruth::Known(x) => SymTruth::Known(!x),
            SymTruth::Node(tape, at) => SymTruth::Node(tape, tape.put(Node::Act(Act::Not, [at; 3]))),
        }
    }
}

impl Truth for SymTruth<'_> {}

impl<'t> Value for Sym<'t> {
    type Truth = SymTruth<'t>;

    fn below(self, other: impl Into<Self>) -> SymTruth<'t> {
        self.compare(Compare::Below, other.into(), f64::lt)
    }

    fn at_most(self, other: impl Into<Self>) -> SymTruth<'t> {
        self.compare(Compare::AtMost, other.into(), f64::le)
    }

    fn above(self, other: impl Into<Self>) -> SymTruth<'t> {
        self.compare(Compare::Above, other.into(), f64::gt)
    }

    fn at_least(self, other: impl Into<Self>) -> SymTruth<'t> {
        self.compare(Compare::AtLeast, other.into(), f64::ge)
    }

    fn is(self, other: impl Into<Self>) -> SymTruth<'t> {
        self.compare(Compare::Is, other.into(), f64::eq)
    }

    fn differs(self, other: impl Into<Self>) -> SymTruth<'t> {
        self.compare(Compare::Differs, other.into(), f64::ne)
    }

    fn either(truth: SymTruth<'t>, yes: impl Into<Self>, no: impl Into<Self>) -> Self {
        let (yes, no) = (yes.into(), no.into());
        match truth {
            SymTruth::Known(known) => {
                if known {
                    yes
                } else {
                    no
                }
            }
            SymTruth::Node(tape, truth) => {
                let (yes, no) = (yes.at(tape), no.at(tape));
                Sym::Node(tape, tape.put(Node::Act(Act::Either, [truth, yes, no])))
            }
        }
    }

    fn size(self) -> Self {
        self.one(Act::Size, f64::abs)
    }

    fn root(self) -> Self {
        self.one(Act::Root, f64::sqrt)
    }

    fn down(self) -> Self {
        self.one(Act::Down, f64::floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_beforehand_is_no_work() {
        let traced = Traced::of::<1, 1, 1>(|[y], [x]| {
            let half = Sym::Known(1.0) / 2.0;
            let unused = (x * x).root();
            let _ = unused;
            let yes = half.below(1.0);
            ([Sym::either(yes, y + x * half, x)], [Sym::either(!yes, x, y)])
        });
        let needed = traced.needed();
        let acts = traced
            .nodes
            .iter()
            .zip(&needed)
            .filter(|(node, needed)| **needed && matches!(node, Node::Act(..)));
        assert_eq!(acts.count(), 2, "{traced:?}");
        assert!(traced.nodes.contains(&Node::Number(0.5)));
        assert_eq!(traced.outputs, [0], "the state of the bar before");
    }

    #[test]
    fn truths_that_are_known_leave_the_other_side() {
        let traced = Traced::of::<1, 1, 1>(|[y], [x]| {
            let known = |x: bool| SymTruth::Known(x);
            let above = x.above(y);
            let same = (((above & known(true)) | known(false)) ^ known(false)) & !known(false);
            ([y], [Sym::either(same, 1.0, 0.0)])
        });
        let acts: Vec<Act> = traced
            .nodes
            .iter()
            .filter_map(|n| if let Node::Act(a, _) = n { Some(*a) } else { None })
            .collect();
        assert_eq!(acts, [Act::Compare(Compare::Above), Act::Either]);
    }
}
