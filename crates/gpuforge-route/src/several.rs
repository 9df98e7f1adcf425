//! How do operations that cannot become one share a submission? Recorded one after the other into one plan.

use std::{any::Any, ops::Range, sync::Arc};

use gpuforge_ops::{Effort, Kind, Op, OpError, Target, Threads, op::Items};
use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{Spec, Tensor},
};

const OP: &str = "several";
/// The most operations in one plan: the cost of a submission is small beside so many.
pub(crate) const MOST: usize = 256;

/// Operations of one kind; their inputs and results one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Several {
    ops: Vec<Arc<dyn Op>>,
}

impl Several {
    /// At least one, none of them with a guard.
    pub(crate) fn new(ops: Vec<Arc<dyn Op>>) -> Self {
        Several { ops }
    }
}

/// Calls `each` with every operation and its share of `all`.
fn deal<'a, T>(
    ops: &[Arc<dyn Op>],
    all: &'a [T],
    mut each: impl FnMut(&dyn Op, &'a [T]) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let mut at = 0;
    for op in ops {
        let n = op.inputs().len();
        let short = OpError::Call { op: OP, what: "inputs", want: at + n, have: all.len() };
        each(op.as_ref(), all.get(at..at + n).ok_or(short)?)?;
        at += n;
    }
    Ok(())
}

impl Op for Several {
    fn kind(&self) -> Kind {
        self.ops.first().map_or(Kind::Custom, |op| op.kind())
    }

    fn name(&self) -> &str {
        self.ops.first().map_or(OP, |op| op.name())
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.ops.iter().flat_map(|op| op.inputs()).collect()
    }

    fn outputs(&self) -> Result<Vec<Spec>, OpError> {
        let mut all = Vec::new();
        for op in &self.ops {
            all.extend(op.outputs()?);
        }
        Ok(all)
    }

    fn effort(&self) -> Effort {
        self.ops.iter().map(|op| op.effort()).fold(Effort::default(), |a, b| Effort {
            units: a.units.saturating_add(b.units),
            flops: a.flops.saturating_add(b.flops),
            read: a.read + b.read,
            written: a.written + b.written,
            launches: a.launches.saturating_add(b.launches),
            depth: a.depth.max(b.depth),
        })
    }

    fn cpu(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], threads: Threads) -> Result<(), OpError> {
        let mut rest = outputs;
        deal(&self.ops, inputs, |op, inputs| {
            let n = op.outputs()?.len();
            let have = rest.len();
            let short = OpError::Call { op: OP, what: "outputs", want: n, have };
            let (now, later) = std::mem::take(&mut rest).split_at_mut_checked(n).ok_or(short)?;
            rest = later;
            op.cpu(inputs, now, threads)
        })
    }

    fn record(&self, plan: &mut Plan, inputs: &[Slot], target: &Target<'_>) -> Result<Vec<Slot>, OpError> {
        let mut results = Vec::new();
        deal(&self.ops, inputs, |op, inputs| {
            results.extend(op.record(plan, inputs, target)?);
            Ok(())
        })?;
        Ok(results)
    }

    fn items(&self) -> Option<Items> {
        Some(Items { count: self.ops.len(), grain: 1 })
    }

    fn part(&self, items: Range<usize>) -> Result<Arc<dyn Op>, OpError> {
        let missing = OpError::Call { op: OP, what: "operations", want: items.end, have: self.ops.len() };
        Ok(Arc::new(Several { ops: self.ops.get(items).ok_or(missing)?.to_vec() }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        for (bytes, room) in parts.iter().flatten().zip(outputs) {
            let n = bytes.len().min(room.len());
            room.get_mut(..n).unwrap_or_default().copy_from_slice(bytes.get(..n).unwrap_or_default());
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
