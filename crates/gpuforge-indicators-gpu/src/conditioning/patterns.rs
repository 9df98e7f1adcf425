//! Graph patterns that the analysis knows: what kernels rewrite, and signs that follow from how a value is built.

use gpuforge_indicators::graph::{BinaryOp, Graph, NodeOp, UnaryOp, ValueId};

use crate::state_machines::{self, Response};

pub(super) fn constant(graph: &Graph, v: ValueId) -> Option<f64> {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Const(x)) => Some(x.get()),
        _ => None,
    }
}

/// The operands of a quotient: near 1, kernels compute `(a - b) / b` (`pointwise.rs`).
pub(super) fn ratio_of(graph: &Graph, v: ValueId) -> Option<(ValueId, ValueId)> {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Div, a, b)) => Some((*a, *b)),
        _ => None,
    }
}

pub(super) fn logarithm_of(graph: &Graph, v: ValueId) -> Option<ValueId> {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Unary(UnaryOp::Ln, a)) => Some(*a),
        _ => None,
    }
}

/// Is it a multiple of a logarithm, so that its exponential is a power?
pub(super) fn is_power(graph: &Graph, v: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Mul, a, b)) => {
            constant(graph, *b).is_some() && logarithm_of(graph, *a).is_some()
        }
        _ => false,
    }
}

/// A scale that rounds nothing.
pub(super) fn is_power_of_two(k: f64) -> bool {
    k.abs().log2().fract() == 0.0
}

/// Is it the larger of the other value and 0?
pub(super) fn is_positive_part(graph: &Graph, v: ValueId, of: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Max, a, b)) => *a == of && constant(graph, *b) == Some(0.0),
        _ => false,
    }
}

/// Is the divisor a sum with the dividend?
pub(super) fn is_share(graph: &Graph, part: ValueId, whole: ValueId) -> bool {
    match graph.nodes().get(whole.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Add, a, b)) => *a == part || *b == part,
        _ => false,
    }
}

/// Is it a machine's output that stays within 1?
pub(super) fn is_clamped(graph: &Graph, v: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::StateMachine { def, .. }) => {
            state_machines::response(def.name) == Some(Response::Clamped)
        }
        _ => false,
    }
}

/// Is it 1 less such an output?
pub(super) fn is_one_less_clamped(graph: &Graph, v: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Sub, a, b)) => {
            constant(graph, *a) == Some(1.0) && is_clamped(graph, *b)
        }
        _ => false,
    }
}

/// Is it a rolling sum of `n`? Divided by it, a constant is the constant again, if it is a whole number.
pub(super) fn is_mean(graph: &Graph, v: ValueId, n: f64) -> bool {
    matches!(graph.nodes().get(v.node as usize).map(|n| &n.op), Some(NodeOp::RollingSum(_, of)) if *of as f64 == n)
}
