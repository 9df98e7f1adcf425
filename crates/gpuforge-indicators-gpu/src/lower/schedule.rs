//! Scheduling: the stage of each node, and which pointwise values are stored instead of recomputed.

use gpuforge_indicators::graph::{NodeOp, ValueId};

use super::{
    Fusion, Lowering,
    analysis::{NodeClass, constant},
};

/// A pointwise value of at most so many operations is recomputed rather than stored, if a later stage or a lag needs it.
const RECOMPUTE_LIMIT: usize = 6;

impl Lowering<'_> {
    /// Assigns the stage of each node, and stores pointwise values that are too expensive to recompute.
    pub(super) fn schedule(&mut self) {
        for at in 0..self.needed.len() {
            if self.needed.get(at) != Some(&true) {
                continue;
            }
            let class = self.class.get(at).copied().unwrap_or(NodeClass::Unsupported);
            let Some(op) = self.graph.nodes().get(at).map(|n| &n.op) else { continue };
            if matches!(class, NodeClass::Cpu | NodeClass::Uploaded) {
                self.stored.iter_mut().skip(at).take(1).for_each(|h| *h = true);
                continue;
            }
            let inputs: Vec<(ValueId, usize)> = op.operands().iter().map(|(v, _)| self.root(*v)).collect();
            let mut stage = 1;
            for (v, lag) in &inputs {
                let computed = self.stage(*v);
                let unfused = self.fusion == Fusion::Unfused && !constant(self.graph, *v);
                let inlined =
                    class == NodeClass::Pointwise && self.class(*v) == NodeClass::Pointwise && !unfused;
                let decoded = self.needs_decoded(at, *v);
                if class == NodeClass::Kernel && decoded {
                    stage = stage.max(self.decoded_stage(*v) + 1);
                } else if inlined && *lag > 0 && self.cost_of(*v) > RECOMPUTE_LIMIT {
                    self.store(*v);
                    stage = stage.max(computed + 1);
                } else if inlined {
                    stage = stage.max(computed);
                } else {
                    stage = stage.max(computed + 1);
                }
            }
            let mut cost = 1;
            for (v, _) in &inputs {
                if self.class(*v) != NodeClass::Pointwise {
                    continue;
                }
                if self.stage(*v) < stage && self.cost_of(*v) > RECOMPUTE_LIMIT {
                    self.store(*v);
                }
                let stored = self.is_stored(*v) && self.stage(*v) < stage;
                cost += if stored { 0 } else { self.cost_of(*v) };
            }
            if matches!(op, NodeOp::Const(_)) {
                cost = 0;
            }
            self.stage.iter_mut().skip(at).take(1).for_each(|s| *s = stage);
            self.cost.iter_mut().skip(at).take(1).for_each(|c| *c = cost);
            let unfused = self.fusion == Fusion::Unfused && !matches!(op, NodeOp::Const(_));
            if class == NodeClass::Kernel || unfused {
                self.stored.iter_mut().skip(at).take(1).for_each(|h| *h = true);
            }
        }
    }

    fn cost_of(&self, v: ValueId) -> usize {
        self.cost.get(v.node as usize).copied().unwrap_or(0)
    }
}
