//! Element-wise expressions as a DAG in topological order, with common subexpression elimination and constant folding.
//!
//! Equal nodes are kept once (CSE), so that `x*x + x*x` multiplies once; nodes on constants are folded when they are built. A flat
//! list needs no recursion: neither long text nor a deep tree can overflow the stack. Comparisons give 1 or 0, and
//! [`Expr::select`] takes anything but 0 as true, so that there is only one type: `f32`.
//!
//! ```
//! use gpuforge_ops::expr::Expr;
//! let a = Expr::input(0) * 2.0 + Expr::input(1).sin();
//! assert_eq!(a, Expr::parse("x*2 + sin(y)", &["x", "y"])?);
//! # Ok::<(), gpuforge_ops::OpError>(())
//! ```

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::OpError;

pub(crate) mod eval;
mod math;
mod parser;
pub(crate) mod simd;
pub(crate) mod wgsl;

/// Most nodes of an expression, inputs and constants included.
pub const MAX_NODES: usize = 256;
/// Deepest nesting of parsed text.
pub const MAX_DEPTH: usize = 64;
/// Most inputs; with the result as many buffers as every WebGPU device can bind.
pub const MAX_INPUTS: usize = 7;

macro_rules! functions {
    ($($(#[doc = $doc:literal])* $f:ident = $name:literal, $arity:literal, $weight:literal;)*) => {
        /// Function of a node.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Function { $($(#[doc = $doc])* $f,)* }

        impl Function {
            /// Every function.
            pub const ALL: &'static [Function] = &[$(Function::$f),*];

            /// Name in text; operators have their symbol.
            pub const fn name(self) -> &'static str {
                match self { $(Function::$f => $name),* }
            }

            /// Number of operands.
            pub const fn arity(self) -> usize {
                match self { $(Function::$f => $arity),* }
            }

            /// Cost in additions; from [`HEAVY`] on an expression is compute-bound.
            pub const fn weight(self) -> u64 {
                match self { $(Function::$f => $weight),* }
            }
        }
    };
}

/// Cost from which a function counts as heavy.
pub const HEAVY: u64 = 8;

functions! {
    /// Sum.
    Add = "+", 2, 1;
    /// Difference.
    Sub = "-", 2, 1;
    /// Product.
    Mul = "*", 2, 1;
    /// Quotient.
    Div = "/", 2, 2;
    /// Negation.
    Neg = "neg", 1, 1;
    /// Minimum.
    Min = "min", 2, 1;
    /// Maximum.
    Max = "max", 2, 1;
    /// Absolute value.
    Abs = "abs", 1, 1;
    /// Square root.
    Sqrt = "sqrt", 1, 2;
    /// Floor.
    Floor = "floor", 1, 1;
    /// Exponential.
    Exp = "exp", 1, 8;
    /// Natural logarithm.
    Ln = "ln", 1, 10;
    /// Sine of radians.
    Sin = "sin", 1, 12;
    /// Cosine of radians.
    Cos = "cos", 1, 12;
    /// Hyperbolic tangent.
    Tanh = "tanh", 1, 12;
    /// Power with a non-negative base.
    Pow = "pow", 2, 20;
    /// 1 where the first is below the second, else 0.
    Less = "<", 2, 1;
    /// 1 where the first is not above the second, else 0.
    LessEqual = "<=", 2, 1;
    /// 1 where the first is above the second, else 0.
    Greater = ">", 2, 1;
    /// 1 where the first is not below the second, else 0.
    GreaterEqual = ">=", 2, 1;
    /// 1 where both are equal, else 0.
    Equal = "==", 2, 1;
    /// The second where the first is not 0, else the third.
    Select = "select", 3, 1;
}

/// A node. Operands are indices of earlier nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// An input.
    Input(u8),
    /// A constant, as bits.
    Constant(u32),
    /// A function of earlier nodes; as many operands count as its arity.
    Call(Function, [u16; 3]),
}

/// An expression; see the module documentation. The last node is the result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expr {
    nodes: Vec<Node>,
    /// It exceeded [`MAX_NODES`] and cannot be used.
    too_long: bool,
}

impl Expr {
    /// The input at this position.
    pub fn input(at: u8) -> Expr {
        Expr { nodes: vec![Node::Input(at)], too_long: false }
    }

    /// A constant.
    pub fn constant(value: f32) -> Expr {
        Expr { nodes: vec![Node::Constant(value.to_bits())], too_long: false }
    }

    /// Parses text such as `a*b + 2*sin(c)`; inputs are named in their order.
    ///
    /// Operators: `+ - * /`, comparisons `< <= > >= ==`, parentheses, and the functions of [`Function`]: `min`, `max`, `abs`,
    /// `sqrt`, `exp`, `ln`, `sin`, `cos`, `tanh`, `pow`, `floor`, `select(condition, then, else)`.
    pub fn parse(text: &str, names: &[&str]) -> Result<Expr, OpError> {
        parser::parse(text, names)
    }

    /// Applies a function to other expressions; missing operands are zero, extra ones are ignored.
    pub fn call(function: Function, of: &[Expr]) -> Expr {
        let mut all = Expr { nodes: Vec::new(), too_long: false };
        let mut at = [0u16; 3];
        let zero = Expr::constant(0.0);
        for (i, position) in at.iter_mut().enumerate().take(function.arity()) {
            *position = all.absorb(of.get(i).unwrap_or(&zero));
        }
        let root = all.push(Node::Call(function, at));
        all.compact(root)
    }

    /// Copies the nodes of another expression; returns the index of its result.
    fn absorb(&mut self, other: &Expr) -> u16 {
        self.too_long |= other.too_long;
        let mut moved = Vec::with_capacity(other.nodes.len());
        for node in &other.nodes {
            let to = |at: u16| moved.get(usize::from(at)).copied().unwrap_or(0);
            let node = match *node {
                Node::Call(f, [a, b, c]) => Node::Call(f, [to(a), to(b), to(c)]),
                simple => simple,
            };
            let at = self.push(node);
            moved.push(at);
        }
        moved.last().copied().unwrap_or(0)
    }

    /// Adds a node, or finds an equal one (CSE).
    fn push(&mut self, node: Node) -> u16 {
        let node = self.fold_constants(node);
        if let Some(at) = self.nodes.iter().position(|n| *n == node) {
            return at as u16;
        }
        if self.nodes.len() >= MAX_NODES {
            self.too_long = true;
            return 0;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u16
    }

    /// Constant folding.
    fn fold_constants(&self, node: Node) -> Node {
        let Node::Call(f, at) = node else { return node };
        let mut values = [0f32; 3];
        for (value, position) in values.iter_mut().zip(at).take(f.arity()) {
            match self.nodes.get(usize::from(position)) {
                Some(Node::Constant(bits)) => *value = f32::from_bits(*bits),
                _ => return normalized(f, at),
            }
        }
        let [a, b, c] = values;
        let value = eval::apply(f, a, b, c);
        if value.is_finite() { Node::Constant(value.to_bits()) } else { normalized(f, at) }
    }

    /// Dead-node elimination, in depth-first order: equal expressions have equal nodes however they were built.
    fn compact(self, root: u16) -> Expr {
        if self.too_long {
            // Dropped, so that it cannot grow.
            return Expr { nodes: vec![Node::Constant(0)], too_long: true };
        }
        let mut kept: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut positions: Vec<Option<u16>> = vec![None; self.nodes.len()];
        let mut open = vec![usize::from(root)];
        while let Some(at) = open.last().copied() {
            let Some(node) = self.nodes.get(at) else { break };
            let known = |at: u16| positions.get(usize::from(at)).copied().flatten();
            let (now, waiting) = match *node {
                Node::Call(f, of) => {
                    let waiting = of.iter().take(f.arity()).find(|at| known(**at).is_none()).copied();
                    let mut to = [0u16; 3];
                    for (to, of) in to.iter_mut().zip(of).take(f.arity()) {
                        *to = known(of).unwrap_or(0);
                    }
                    (Node::Call(f, to), waiting)
                }
                simple => (simple, None),
            };
            match waiting {
                Some(at) => open.push(usize::from(at)),
                None => {
                    open.pop();
                    if let Some(position @ None) = positions.get_mut(at) {
                        *position = Some(kept.len() as u16);
                        kept.push(now);
                    }
                }
            }
        }
        Expr { nodes: kept, too_long: false }
    }

    /// The nodes; the last is the result.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of inputs: one more than the highest input index.
    pub fn inputs(&self) -> usize {
        let input = |n: &Node| if let Node::Input(at) = n { usize::from(*at) + 1 } else { 0 };
        self.nodes.iter().map(input).max().unwrap_or(0)
    }

    /// Cost per element, in additions; at least 1.
    pub fn weight(&self) -> u64 {
        let weight = |n: &Node| if let Node::Call(f, _) = n { f.weight() } else { 0 };
        self.nodes.iter().map(weight).sum::<u64>().max(1)
    }

    /// Does it have a heavy function?
    pub fn is_heavy(&self) -> bool {
        self.nodes.iter().any(|n| matches!(n, Node::Call(f, _) if f.weight() >= HEAVY))
    }

    /// Its constants, in node order.
    pub fn constants(&self) -> impl Iterator<Item = f32> + '_ {
        self.nodes
            .iter()
            .filter_map(|n| if let Node::Constant(b) = n { Some(f32::from_bits(*b)) } else { None })
    }

    /// Can it be used?
    pub(crate) fn check(&self, op: &'static str) -> Result<(), OpError> {
        if self.too_long {
            let have = format!("more than {MAX_NODES} steps");
            return Err(OpError::Value {
                op,
                what: "the expression",
                have,
                limit: "it may have at most 256",
            });
        }
        if let Some(odd) = self.constants().find(|c| !c.is_finite()) {
            let have = odd.to_string();
            return Err(OpError::Value { op, what: "a constant", have, limit: "it must be finite" });
        }
        Ok(())
    }

    /// Absolute value.
    #[must_use]
    pub fn abs(self) -> Expr {
        Expr::call(Function::Abs, &[self])
    }

    /// Square root.
    #[must_use]
    pub fn sqrt(self) -> Expr {
        Expr::call(Function::Sqrt, &[self])
    }

    /// Exponential.
    #[must_use]
    pub fn exp(self) -> Expr {
        Expr::call(Function::Exp, &[self])
    }

    /// Natural logarithm.
    #[must_use]
    pub fn ln(self) -> Expr {
        Expr::call(Function::Ln, &[self])
    }

    /// Sine.
    #[must_use]
    pub fn sin(self) -> Expr {
        Expr::call(Function::Sin, &[self])
    }

    /// Cosine.
    #[must_use]
    pub fn cos(self) -> Expr {
        Expr::call(Function::Cos, &[self])
    }

    /// Hyperbolic tangent.
    #[must_use]
    pub fn tanh(self) -> Expr {
        Expr::call(Function::Tanh, &[self])
    }

    /// Floor.
    #[must_use]
    pub fn floor(self) -> Expr {
        Expr::call(Function::Floor, &[self])
    }

    /// Power; the base must not be negative.
    #[must_use]
    pub fn pow(self, power: impl Into<Expr>) -> Expr {
        Expr::call(Function::Pow, &[self, power.into()])
    }

    /// Minimum.
    #[must_use]
    pub fn min(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Min, &[self, other.into()])
    }

    /// Maximum.
    #[must_use]
    pub fn max(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Max, &[self, other.into()])
    }

    /// 1 where it is below the other, else 0.
    #[must_use]
    pub fn below(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Less, &[self, other.into()])
    }

    /// 1 where it is not above the other, else 0.
    #[must_use]
    pub fn at_most(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::LessEqual, &[self, other.into()])
    }

    /// 1 where it is above the other, else 0.
    #[must_use]
    pub fn above(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Greater, &[self, other.into()])
    }

    /// 1 where it is not below the other, else 0.
    #[must_use]
    pub fn at_least(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::GreaterEqual, &[self, other.into()])
    }

    /// 1 where both are equal, else 0.
    #[must_use]
    pub fn equal(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Equal, &[self, other.into()])
    }

    /// `then` where it is not 0, else `otherwise`.
    #[must_use]
    pub fn select(self, then: impl Into<Expr>, otherwise: impl Into<Expr>) -> Expr {
        Expr::call(Function::Select, &[self, then.into(), otherwise.into()])
    }
}

/// A node with unused operands zeroed, so that equal nodes compare equal.
fn normalized(f: Function, at: [u16; 3]) -> Node {
    let mut positions = [0u16; 3];
    for (position, at) in positions.iter_mut().zip(at).take(f.arity()) {
        *position = at;
    }
    Node::Call(f, positions)
}

impl From<f32> for Expr {
    fn from(value: f32) -> Expr {
        Expr::constant(value)
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::call(Function::Neg, &[self])
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident;)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                Expr::call(Function::$trait, &[self, other.into()])
            }
        }
        impl $trait<Expr> for f32 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                Expr::call(Function::$trait, &[self.into(), other])
            }
        }
    )*};
}
operators! { Add, add; Sub, sub; Mul, mul; Div, div; }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_nodes_are_kept_once() {
        let x = || Expr::input(0);
        let e = (x() * x()) + (x() * x());
        assert_eq!(e.nodes().len(), 3);
        assert_eq!(e, Expr::parse("x*x + x*x", &["x"]).unwrap());
        let e = Expr::parse("sin(a+b) * sin(a+b) - a", &["a", "b"]).unwrap();
        assert_eq!(e.nodes().len(), 6, "{e:?}");
        assert_eq!((e.inputs(), e.weight(), e.is_heavy()), (2, 15, true));
    }

    #[test]
    fn constants_are_folded_and_dropped() {
        let e = Expr::parse("x * (2 + 3) * sqrt(4)", &["x"]).unwrap();
        assert_eq!(e.constants().collect::<Vec<_>>(), [5.0, 2.0]);
        assert_eq!(Expr::parse("1/2", &[]).unwrap().nodes(), [Node::Constant(0.5f32.to_bits())]);
        // A non-finite result is not folded.
        assert_eq!(Expr::parse("1/0", &[]).unwrap().nodes().len(), 3);
    }

    #[test]
    fn the_result_is_always_the_last_node() {
        let e = Expr::call(Function::Select, &[1.0.into(), Expr::input(1), Expr::input(0)]);
        assert!(matches!(e.nodes().last(), Some(Node::Call(Function::Select, _))));
        let same = Expr::call(Function::Min, &[Expr::input(0), Expr::input(0)]);
        assert_eq!(same.nodes(), [Node::Input(0), Node::Call(Function::Min, [0, 0, 0])]);
    }

    #[test]
    fn too_many_nodes_are_refused() {
        let mut e = Expr::input(0);
        for i in 0..1000u16 {
            e = e * f32::from(i).mul_add(0.1, 2.0);
        }
        assert!(e.nodes().len() <= MAX_NODES);
        let error = e.check("map").unwrap_err().to_string();
        assert_eq!(error, "map: the expression is more than 256 steps, it may have at most 256");
        assert!(Expr::constant(f32::NAN).check("map").is_err());
    }
}
