//! JIT eligibility: which steps can be part of a fused loop, which of them carry state, and from which bar on.

use crate::{
    graph::{BinaryOp, NodeOp, UnaryOp},
    plan::Step,
};

/// Can this step be part of a fused loop?
pub(super) fn is_fusable(step: &Step) -> bool {
    match &step.op {
        NodeOp::Unary(f, _) => matches!(
            f,
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sqrt | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Sign
        ),
        NodeOp::Binary(f, ..) => *f != BinaryOp::Pow,
        op => {
            is_recurrence(op) || matches!(op, NodeOp::Select(..) | NodeOp::Shift(..) | NodeOp::FillWarmup(..))
        }
    }
}

/// Is it a recurrence (loop-carried dependency)?
pub(super) fn is_recurrence(op: &NodeOp) -> bool {
    matches!(
        op,
        NodeOp::RollingSum(..)
            | NodeOp::PartialRollingSum(..)
            | NodeOp::RollingSumFrom { .. }
            | NodeOp::Ema { .. }
            | NodeOp::Wilder { .. }
            | NodeOp::LinearRecurrence { .. }
            | NodeOp::AdaptiveEma { .. }
            | NodeOp::CumSum(_)
    ) || is_traced_machine(op)
}

/// Is it a state machine with a traced, branch-free step?
fn is_traced_machine(op: &NodeOp) -> bool {
    matches!(op, NodeOp::StateMachine { def, .. } if def.traced.is_some())
}

/// The first bar from which on a step is computed like any later one: its warm-up is over.
pub(super) fn steady_from(step: &Step) -> usize {
    let full_window = if let NodeOp::PartialRollingSum(_, n) = step.op { step.start + n } else { 0 };
    // One bar after its start: the first one, which seeds a recurrence, is the kernel's.
    (step.start + 1).max(step.begin + 1).max(full_window)
}

/// Is it a predicate: is every result 0 or 1?
pub(super) fn is_predicate(op: &NodeOp) -> bool {
    use BinaryOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
    matches!(op, NodeOp::Binary(Lt | Le | Gt | Ge | Eq | Ne | And | Or, ..))
}
