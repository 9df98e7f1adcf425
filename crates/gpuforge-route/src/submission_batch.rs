//! Submission batching: operations that cannot be fused are recorded into one plan and share one submission.

use std::{any::Any, ops::Range, sync::Arc};

use gpuforge_ops::{Op, OpCost, OpError, OpKind, Target, Threads, op::Items};
use gpuforge_runtime::{
    plan::{Plan, Slot},
    tensor::{Tensor, TensorSpec},
};

const OP: &str = "submission-batch";
/// Most operations per plan: submission overhead is small against so many.
pub(crate) const MAX_OPS: usize = 256;

/// Operations of one kind; inputs and results are concatenated.
#[derive(Debug, Clone)]
pub(crate) struct SubmissionBatch {
    ops: Vec<Arc<dyn Op>>,
}

impl SubmissionBatch {
    /// At least one operation, none of them with a guard.
    pub(crate) fn new(ops: Vec<Arc<dyn Op>>) -> Self {
        SubmissionBatch { ops }
    }
}

/// Calls `each` with every operation and its slice of `all` inputs.
fn for_each_op<'a, T>(
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

impl Op for SubmissionBatch {
    fn kind(&self) -> OpKind {
        self.ops.first().map_or(OpKind::Custom, |op| op.kind())
    }

    fn name(&self) -> &str {
        self.ops.first().map_or(OP, |op| op.name())
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.ops.iter().flat_map(|op| op.inputs()).collect()
    }

    fn outputs(&self) -> Result<Vec<TensorSpec>, OpError> {
        let mut all = Vec::new();
        for op in &self.ops {
            all.extend(op.outputs()?);
        }
        Ok(all)
    }

    fn cost(&self) -> OpCost {
        self.ops.iter().map(|op| op.cost()).fold(OpCost::default(), |a, b| OpCost {
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
        for_each_op(&self.ops, inputs, |op, inputs| {
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
        for_each_op(&self.ops, inputs, |op, inputs| {
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
        Ok(Arc::new(SubmissionBatch { ops: self.ops.get(items).ok_or(missing)?.to_vec() }))
    }

    fn join(&self, parts: &[Vec<Vec<u8>>], outputs: &mut [&mut [u8]]) -> Result<(), OpError> {
        for (bytes, output) in parts.iter().flatten().zip(outputs) {
            let n = bytes.len().min(output.len());
            output.get_mut(..n).unwrap_or_default().copy_from_slice(bytes.get(..n).unwrap_or_default());
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
