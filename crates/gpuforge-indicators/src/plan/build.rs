//! Buffer allocation: assigns a slot to every live value, reusing buffers after their last reader (linear scan).

use std::collections::{HashMap, HashSet, VecDeque};

use super::{
    BufferSlot, ExecPlan, Step,
    liveness::{last_use, look_back, released},
    order::recurrences_first,
    rewrite::Rewrites,
};
use crate::{
    graph::{Graph, NodeOp, ValueId},
    jit::MAX_FUSED_STEPS,
};

/// Lifetime of the buffers that hold outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputLifetime {
    /// Until the end of the block: the buffer may alias the output column.
    Pinned,
    /// Until the step that computes it has delivered it.
    UntilDelivered,
}

/// Builds one variant of a plan.
pub(super) fn build(graph: &Graph, outputs: &[ValueId], lifetime: OutputLifetime) -> ExecPlan {
    let rewrites = Rewrites::new(graph, outputs);
    let history = look_back(graph, &rewrites);
    let order = match lifetime {
        OutputLifetime::Pinned => recurrences_first(graph, &rewrites),
        OutputLifetime::UntilDelivered => (0..graph.nodes.len()).filter(|at| rewrites.is_live(*at)).collect(),
    };
    let last = last_use(graph, outputs, &rewrites, (lifetime, &order));
    let mut slots: Vec<Vec<BufferSlot>> = vec![Vec::new(); graph.nodes.len()];
    let mut free: Vec<usize> = Vec::new();
    // Outputs past their last reader, and the step after which they are certain to have been delivered.
    let mut waiting: VecDeque<(usize, usize)> = VecDeque::new();
    let is_output: HashSet<usize> = outputs.iter().map(|v| rewrites.resolve(*v).0.node as usize).collect();
    let mut step_of: HashMap<usize, usize> = HashMap::new();
    let mut plan = ExecPlan {
        steps: Vec::new(),
        fields: Vec::new(),
        constants: Vec::new(),
        whole_series: Vec::new(),
        outputs: Vec::new(),
        starts: outputs.iter().map(|v| graph.start(*v)).collect(),
        buffers: 0,
        nodes: graph.nodes.len(),
        jit: Default::default(),
        outputs_of_step: Vec::new(),
        leaf_outputs: Vec::new(),
        batched: None,
    };
    let slot_of = |slots: &[Vec<BufferSlot>], v: ValueId| {
        let (v, lag) = rewrites.resolve(v);
        let found = slots.get(v.node as usize).and_then(|p| p.get(v.port as usize)).copied();
        BufferSlot { lag, ..found.unwrap_or(BufferSlot { buffer: 0, history: 0, lag: 0 }) }
    };
    for (at, node) in order.iter().filter_map(|at| graph.nodes.get(*at).map(|node| (*at, node))) {
        let kept = history.get(at).copied().unwrap_or(0);
        let fixed = node.op.is_leaf();
        while let Some((_, buffer)) = waiting.pop_front_if(|(from, _)| *from <= plan.steps.len()) {
            free.push(buffer);
        }
        let mut own = Vec::new();
        for _ in 0..node.op.ports() {
            // A buffer with look-back history is never reused, and a pinned output is no buffer but a column: a fused loop that
            // reads what it overwrites there would have to copy it first.
            let pinned = lifetime == OutputLifetime::Pinned && is_output.contains(&at);
            let again = if kept == 0 && !fixed && !pinned { free.pop() } else { None };
            let buffer = again.unwrap_or_else(|| {
                plan.buffers += 1;
                plan.buffers - 1
            });
            own.push(BufferSlot { buffer, history: kept, lag: 0 });
        }
        if let Some(entry) = slots.get_mut(at) {
            entry.clone_from(&own);
        }
        match (&node.op, own.first()) {
            (NodeOp::Input(field), Some(slot)) => plan.fields.push((*field, *slot)),
            (NodeOp::Const(x), Some(slot)) => plan.constants.push((x.get(), *slot)),
            (NodeOp::WholeSeries { def, params }, Some(slot)) => {
                plan.whole_series.push((def, params.iter().map(|p| p.get()).collect(), *slot));
            }
            _ => {
                let reads = rewrites.operands(at);
                let inputs = reads.iter().map(|(v, _)| slot_of(&slots, *v)).collect();
                let begin = reads.iter().map(|(v, _)| graph.start(*v)).max().unwrap_or(0);
                let (op, start) = (rewrites.op(graph, at).unwrap_or(&node.op).clone(), node.start);
                let epilogue = rewrites.epilogue(at).map(|(_, epilogue)| epilogue);
                let fusion = rewrites.fusion(at);
                let constant = constant_operand(graph, &op, &rewrites).filter(|_| fusion.is_none());
                step_of.insert(at, plan.steps.len());
                plan.steps.push(Step { op, start, inputs, begin, outputs: own, constant, fusion, epilogue });
            }
        }
        for (node, buffer) in released(graph, &history, &last, at, &slots, &rewrites) {
            if is_output.contains(&node) {
                waiting.push_back((plan.steps.len() + MAX_FUSED_STEPS, buffer));
            } else {
                free.push(buffer);
            }
        }
    }
    plan.outputs = outputs.iter().map(|v| slot_of(&slots, *v)).collect();
    plan.outputs_of_step = vec![Vec::new(); plan.steps.len()];
    for (output, v) in outputs.iter().enumerate() {
        let step = step_of.get(&(rewrites.resolve(*v).0.node as usize)).copied();
        let list = step.and_then(|s| plan.outputs_of_step.get_mut(s)).unwrap_or(&mut plan.leaf_outputs);
        list.push(output);
    }
    plan
}

/// The constant operand of a binary operation, if it has one.
fn constant_operand(graph: &Graph, op: &NodeOp, rewrites: &Rewrites) -> Option<(usize, f64)> {
    let NodeOp::Binary(_, a, b) = op else { return None };
    let number = |v: ValueId| match graph.nodes.get(rewrites.resolve(v).0.node as usize).map(|n| &n.op) {
        Some(NodeOp::Const(x)) => Some(x.get()),
        _ => None,
    };
    number(*b).map(|x| (1, x)).or_else(|| number(*a).map(|x| (0, x)))
}
