//! Call grouping: nodes of a stage as jobs, one call per kernel, and generated kernels for its pointwise values.

use gpuforge_indicators::graph::{NodeOp, Seed, ValueId};

use super::{Call, Column, Fusion, JobSpec, Lowering, RollingKernel, analysis::NodeClass};
use crate::{
    pointwise::{self, Item},
    rolling, state_machines,
};

/// Results of one generated kernel: limits register pressure and shader compile time.
const MAX_STORES: usize = 48;

impl Lowering<'_> {
    /// The job of a node, and the kernel that runs it.
    fn job(&mut self, at: usize) -> Option<(KernelKind, JobSpec)> {
        let node = self.graph.nodes().get(at)?;
        let reads: Vec<ValueId> = node.op.operands().iter().map(|(v, _)| *v).collect();
        let inputs_start = reads.iter().map(|v| self.graph.start(*v)).max().unwrap_or(0);
        let mut inputs = reads
            .iter()
            .map(|v| {
                let (of, lag) = self.root(*v);
                let columns = if self.needs_decoded(at, of) { &self.decoded } else { &self.columns };
                columns.get(&of).map(|c| (*c, lag))
            })
            .collect::<Option<Vec<_>>>()?;
        let own = |port: usize| ValueId {
            node: u32::try_from(at).unwrap_or(u32::MAX),
            port: u8::try_from(port).unwrap_or(u8::MAX),
        };
        let outputs = (0..node.op.ports())
            .map(|port| self.columns.get(&own(port)).copied())
            .collect::<Option<Vec<_>>>()?;
        if let NodeOp::StateMachine { def, params, .. } = &node.op
            && let Some(m) = state_machines::of(def.name, &params.iter().map(|p| p.get()).collect::<Vec<_>>())
        {
            inputs = m.reads.iter().map(|i| inputs.get(*i).copied()).collect::<Option<_>>()?;
        }
        let mut job = JobSpec {
            mode: 0,
            start: node.start,
            inputs_start,
            window: 1,
            constants: Vec::new(),
            inputs,
            outputs,
            scratch: None,
            state: 0,
            step_iterations: 1,
            setup_iterations: 0,
            slice: u32::MAX,
        };
        if let Some((mode, n, constants)) = scan(&node.op) {
            (job.mode, job.window, job.constants) = (mode, n, constants);
            job.scratch = Some(self.new_column());
            return Some((KernelKind::Scan, job));
        }
        if let Some(w) = rolling::of(&node.op) {
            (job.mode, job.window, job.constants) = (w.mode, w.n, w.constants);
            (job.step_iterations, job.setup_iterations, job.slice) =
                (w.step_iterations, w.setup_iterations, w.slice);
            return Some((KernelKind::Rolling(RollingKernel::Primitive(w.shader)), job));
        }
        let NodeOp::StateMachine { def, params, .. } = &node.op else { return None };
        let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
        if let Some(w) = state_machines::window_of(def.name) {
            (job.mode, job.window, job.constants) = (w.mode, w.n, (w.constants)(&params));
            (job.step_iterations, job.setup_iterations, job.slice) =
                (w.step_iterations, w.setup_iterations, w.slice);
            return Some((KernelKind::Rolling(RollingKernel::StateMachines), job));
        }
        let m = state_machines::of(def.name, &params)?;
        (job.mode, job.state, job.step_iterations, job.constants) =
            (m.mode, m.state, m.per_bar, (m.constants)(&params));
        job.scratch = Some(self.new_column());
        Some((KernelKind::StateMachine, job))
    }

    /// All calls of a stage.
    pub(super) fn calls(&mut self, stage: usize, extra: &[Item]) -> Option<Vec<Call>> {
        let mut found: Vec<(KernelKind, Vec<JobSpec>)> = Vec::new();
        let mut items: Vec<Item> = Vec::new();
        for at in 0..self.needed.len() {
            let there = self.needed.get(at) == Some(&true) && self.stage.get(at) == Some(&stage);
            if !there || self.stored.get(at) != Some(&true) {
                continue;
            }
            let v = ValueId { node: u32::try_from(at).unwrap_or(u32::MAX), port: 0 };
            match self.class(v) {
                NodeClass::Kernel => {
                    let (kind, job) = self.job(at)?;
                    match found.iter_mut().find(|(k, _)| *k == kind) {
                        Some((_, jobs)) => jobs.push(job),
                        None => found.push((kind, vec![job])),
                    }
                }
                NodeClass::Pointwise => {
                    items.push(Item { value: v, lag: 0, decoded: false, into: *self.columns.get(&v)? });
                }
                _ => {}
            }
        }
        let decode = |(v, into): (&ValueId, &Column)| Item { value: *v, lag: 0, decoded: true, into: *into };
        let due = self.decoded.iter().filter(|(v, _)| self.decoded_stage(**v) == stage);
        let mut decoded: Vec<Item> = due.map(decode).collect();
        decoded.sort_unstable_by_key(|i| i.value);
        items.extend(decoded);
        items.extend(extra);
        let most = if self.fusion == Fusion::Unfused { 1 } else { MAX_STORES };
        let mut calls: Vec<Call> = items
            .chunks(most)
            .map(|part| pointwise::generate(self, stage, part).map(Call::Pointwise))
            .collect::<Option<_>>()?;
        calls.extend(found.into_iter().map(|(kind, jobs)| match kind {
            KernelKind::Rolling(shader) => Call::Rolling(shader, jobs),
            KernelKind::Scan => Call::Scan(jobs),
            KernelKind::StateMachine => Call::StateMachines(jobs),
        }));
        Some(calls)
    }
}

/// Jobs of one kind share a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelKind {
    Rolling(RollingKernel),
    Scan,
    StateMachine,
}

/// Mode, window and parameters of a recurrence.
fn scan(op: &NodeOp) -> Option<(u32, u32, Vec<f32>)> {
    let window = |seed: &Seed| match seed {
        Seed::First => 1,
        Seed::Mean(n) => u32::try_from(*n).unwrap_or(u32::MAX),
    };
    Some(match op {
        NodeOp::Ema { k, seed, .. } => (0, window(seed), vec![k.get() as f32]),
        NodeOp::Wilder { n, seed, .. } => (1, window(seed), vec![(1.0 / *n as f64) as f32]),
        NodeOp::LinearRecurrence { .. } => (2, 1, vec![]),
        NodeOp::AdaptiveEma { .. } => (3, 1, vec![]),
        NodeOp::CumSum(_) => (4, 1, vec![]),
        NodeOp::CumMinMax { max, .. } => (if *max { 5 } else { 6 }, 1, vec![]),
        _ => return None,
    })
}
