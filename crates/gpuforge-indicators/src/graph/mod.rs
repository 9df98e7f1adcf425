//! Expression graph: hash-consed nodes (common-subexpression elimination) with their warm-up.
//!
//! An indicator is a function that combines [`Expr`] handles: `(high + low) / 2.0`, `close.sma(20)`. Equal nodes are
//! merged when they are added, whichever indicator asked for them. Every node knows its first valid bar (`start`): the bars
//! before it are NaN, so that no kernel has to test for a warm-up.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | [`Graph`]: hash-consing, first valid bar |
//! | `op.rs` | [`NodeOp`] and its operands |
//! | `expr.rs` | [`GraphBuilder`] and [`Expr`]: the builder API with operator overloading |

use std::collections::HashMap;

mod expr;
mod op;

pub use expr::{Expr, GraphBuilder, Operand};
pub use op::{BinaryOp, F64Bits, Field, NodeOp, Seed, UnaryOp};

/// One output port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId {
    /// Index of the node.
    pub node: u32,
    /// Output port of the node.
    pub port: u8,
}

/// An operation and its first valid bar.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it computes.
    pub op: NodeOp,
    /// First valid bar; NaN before it.
    pub start: usize,
}

/// All nodes in topological order: operands come before their users.
#[derive(Debug, Default)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// Hash-consing table: the node of each operation.
    interned: HashMap<NodeOp, u32>,
}

impl Graph {
    /// Adds an operation, or returns the equal node that exists already.
    fn add(&mut self, op: NodeOp) -> u32 {
        if let Some(node) = self.interned.get(&op) {
            return *node;
        }
        let start = self.start_of(&op);
        let node = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.interned.insert(op.clone(), node);
        self.nodes.push(Node { op, start });
        node
    }

    /// All nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// First valid bar of a value.
    pub fn start(&self, val: ValueId) -> usize {
        self.nodes.get(val.node as usize).map_or(0, |n| n.start)
    }

    /// First valid bar of an operation: the latest of its operands plus its own warm-up.
    fn start_of(&self, op: &NodeOp) -> usize {
        let of = |v: &ValueId| self.start(*v);
        let window = |v: &ValueId, n: usize| of(v) + n.saturating_sub(1);
        let seeded = |v: &ValueId, seed: &Seed| match seed {
            Seed::First => of(v),
            Seed::Mean(n) => window(v, *n),
        };
        match op {
            NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => 0,
            NodeOp::Unary(_, a)
            | NodeOp::CumSum(a)
            | NodeOp::CumMinMax { a, .. }
            | NodeOp::PartialRollingSum(a, _) => of(a),
            NodeOp::AdaptiveEma { a, k, first } => of(a).max(of(k)).max(of(first)),
            NodeOp::Binary(_, a, b) | NodeOp::LinearRecurrence { a, b } => of(a).max(of(b)),
            NodeOp::Select(c, a, b) => of(c).max(of(a)).max(of(b)),
            NodeOp::Shift(a, n) => of(a) + n,
            NodeOp::FillWarmup(_, b) => of(b),
            NodeOp::RollingSum(a, n)
            | NodeOp::LinearWeightedSum(a, n)
            | NodeOp::RollingMinMax { a, n, .. }
            | NodeOp::RollingArgMinMax { a, n, .. }
            | NodeOp::RollingVariance(a, n)
            | NodeOp::RollingMeanDeviation(a, n)
            | NodeOp::RollingCentralMoment(a, n, _)
            | NodeOp::RollingTimeMoment(a, n)
            | NodeOp::RollingOrderStatistic { a, n, .. } => window(a, *n),
            NodeOp::RollingRank { a, n, .. } => of(a) + n,
            NodeOp::RollingSumFrom { a, n, from } => window(a, *n).max(*from),
            NodeOp::Fir(a, weights) => window(a, weights.len()),
            NodeOp::RollingCoMoment(a, b, n) => window(a, *n).max(window(b, *n)),
            NodeOp::Ema { a, seed, .. } | NodeOp::Wilder { a, seed, .. } => seeded(a, seed),
            NodeOp::StateMachine { def, params, inputs } => {
                let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
                inputs.iter().map(of).max().unwrap_or(0) + (def.lookback)(&params)
            }
        }
    }
}
