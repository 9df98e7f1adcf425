//! Liveness of buffers across fused loops: which results must be stored, and which can be stored non-temporally.

use std::{collections::HashSet, ops::Range};

use crate::{
    graph::NodeOp,
    plan::{ExecPlan, Step},
};

/// Results of some steps that others read: (step, buffer) that later steps read before the buffer is written again.
pub(super) fn exports(
    plan: &ExecPlan,
    steps: Range<usize>,
    outputs: &HashSet<usize>,
) -> HashSet<(usize, usize)> {
    let mut found = HashSet::new();
    for at in steps.clone() {
        for slot in plan.steps.get(at).iter().flat_map(|s| &s.outputs) {
            if outputs.contains(&slot.buffer) {
                found.insert((at, slot.buffer));
                continue;
            }
            for (later, step) in plan.steps.iter().enumerate().skip(at + 1) {
                let reads = step.inputs.iter().any(|p| p.buffer == slot.buffer);
                if reads && !steps.contains(&later) {
                    found.insert((at, slot.buffer));
                    break;
                }
                if step.outputs.iter().any(|p| p.buffer == slot.buffer) {
                    break;
                }
            }
        }
    }
    found
}

/// Does any step read earlier values of this buffer after the warm-up? EMAs do so only for their seed.
pub(super) fn is_read_with_lag(plan: &ExecPlan, buffer: usize) -> bool {
    use NodeOp::{Binary, Ema, FillWarmup, Select, Unary, Wilder};
    let only_now = |step: &Step| {
        matches!(step.op, Unary(..) | Binary(..) | Select(..) | FillWarmup(..) | Ema { .. } | Wilder { .. })
    };
    let reads =
        |step: &Step| step.inputs.iter().any(|p| p.buffer == buffer && (p.lag > 0 || !only_now(step)));
    plan.steps.iter().any(reads)
}

/// Is this buffer a single series' result that only these steps write, and that nothing reads outside of them or later?
pub(super) fn is_write_only_result(
    plan: &ExecPlan,
    steps: &Range<usize>,
    buffer: usize,
    lanes: usize,
) -> bool {
    let outputs = plan.outputs.iter().filter(|p| p.buffer == buffer).count();
    let outside = plan.steps.iter().enumerate().filter(|(at, _)| !steps.contains(at));
    let accessed = outside.flat_map(|(_, s)| s.inputs.iter().chain(&s.outputs)).any(|p| p.buffer == buffer);
    let has_history = plan.slots().any(|p| p.buffer == buffer && p.history > 0);
    let given =
        plan.fields.iter().any(|(_, p)| p.buffer == buffer) || plan.is_constant_or_whole_series(buffer);
    lanes == 1 && outputs == 1 && !accessed && !has_history && !given
}
