//! Instruction scheduling: topological order that groups loop-carried recurrences.

use super::rewrite::Rewrites;
use crate::{
    graph::{Graph, NodeOp},
    jit::is_recurrence,
};

/// Class of a node in the instruction schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScheduleClass {
    /// Element-wise, and an operand of a recurrence or of another kernel.
    ElementwiseBefore,
    /// Loop-carried recurrence.
    Recurrence,
    /// Rolling windows, other kernels, leaves.
    Kernel,
    /// Element-wise, used by element-wise nodes or outputs only.
    ElementwiseAfter,
}

/// Live nodes in the order for a single series: recurrences together and as early as possible, before them only their
/// operands, everything else after. Element-wise steps then form long vectorised loops of their own.
pub(super) fn recurrences_first(graph: &Graph, rewrites: &Rewrites) -> Vec<usize> {
    let live = || (0..graph.nodes.len()).filter(|at| rewrites.is_live(*at));
    let mut classes: Vec<ScheduleClass> = (0..graph.nodes.len())
        .map(|at| rewrites.op(graph, at).map_or(ScheduleClass::Kernel, class_of))
        .collect();
    for at in live().rev() {
        let carried = classes.get(at) != Some(&ScheduleClass::ElementwiseAfter);
        for (v, _) in rewrites.reads(at).filter(|_| carried) {
            let read = classes.iter_mut().skip(v.node as usize).take(1);
            read.filter(|class| **class == ScheduleClass::ElementwiseAfter)
                .for_each(|class| *class = ScheduleClass::ElementwiseBefore);
        }
    }
    let mut left: Vec<usize> = live().collect();
    let (mut order, mut done) = (Vec::with_capacity(left.len()), vec![false; graph.nodes.len()]);
    while !left.is_empty() {
        let before = left.len();
        for now in [ScheduleClass::ElementwiseBefore, ScheduleClass::Recurrence, ScheduleClass::Kernel] {
            left.retain(|at| {
                let ready = || rewrites.reads(*at).all(|(v, _)| done.get(v.node as usize) == Some(&true));
                let next = classes.get(*at) == Some(&now) && ready();
                if next {
                    order.push(*at);
                    done.iter_mut().skip(*at).take(1).for_each(|d| *d = true);
                }
                !next
            });
        }
        if left.len() == before {
            order.append(&mut left);
        }
    }
    order
}

fn class_of(op: &NodeOp) -> ScheduleClass {
    match op {
        NodeOp::Unary(..)
        | NodeOp::Binary(..)
        | NodeOp::Select(..)
        | NodeOp::Shift(..)
        | NodeOp::FillWarmup(..) => ScheduleClass::ElementwiseAfter,
        op if is_recurrence(op) => ScheduleClass::Recurrence,
        _ => ScheduleClass::Kernel,
    }
}
