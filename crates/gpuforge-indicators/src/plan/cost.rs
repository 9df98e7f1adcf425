//! Cost model: single-series or batched (SIMD across series) execution?

use super::ExecPlan;
use crate::graph::NodeOp;

impl ExecPlan {
    /// Is SIMD across series faster than one series at a time?
    pub fn prefers_batched(&self) -> bool {
        let costs: Vec<StepCost> = self.steps.iter().map(|s| cost(&s.op)).collect();
        let longest = costs.iter().map(|c| c.latency).fold(0.0, f64::max);
        let elementwise = costs.iter().filter(|c| c.latency == 0.0 && c.single < SCALAR_STEP).count() as f64;
        let (read, written) = (self.fields.len() as f64, self.outputs.len() as f64);
        let scalar = if longest > 1.0 { SCALAR_STEP * elementwise } else { 0.0 };
        let single =
            longest + scalar + costs.iter().map(|c| c.single).sum::<f64>() + STREAM * (read + written);
        let moved = INTERLEAVE * read + DEINTERLEAVE * written;
        let batched = moved + costs.iter().map(|c| c.batched).sum::<f64>();
        batched < single
    }
}

/// Nanoseconds per bar to interleave an input column, and to deinterleave an output column.
const INTERLEAVE: f64 = 0.5;
const DEINTERLEAVE: f64 = 0.5;
/// Nanoseconds per bar to read or write a contiguous column.
const STREAM: f64 = 0.12;
/// Nanoseconds per bar of an element-wise step that runs scalar because it shares the loop of a recurrence.
const SCALAR_STEP: f64 = 0.2;

/// Cost of a step in nanoseconds per bar. For a single series the loop-carried dependencies overlap, so only the longest
/// counts; across series they are ordinary work.
struct StepCost {
    /// Latency of the loop-carried dependency.
    latency: f64,
    /// Throughput cost, single series.
    single: f64,
    /// Throughput cost per series, SIMD across series.
    batched: f64,
}

/// Measured with `cargo xtask bench indicators`; only which of the two sums is smaller matters.
fn cost(op: &NodeOp) -> StepCost {
    let (latency, single, batched) = match op {
        NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => (0.0, 0.0, 0.0),
        NodeOp::Unary(..)
        | NodeOp::Binary(..)
        | NodeOp::Select(..)
        | NodeOp::Shift(..)
        | NodeOp::FillWarmup(..) => (0.0, 0.12, 0.12),
        NodeOp::RollingOrderStatistic { .. } => (0.0, 25.0, 12.0),
        NodeOp::RollingMinMax { .. } => (0.0, 0.55, 0.5),
        NodeOp::RollingRank { .. } | NodeOp::RollingMeanDeviation(..) | NodeOp::Fir(..) => (0.0, 3.0, 3.0),
        NodeOp::StateMachine { .. } => (0.0, 5.0, 2.0),
        NodeOp::Ema { .. }
        | NodeOp::Wilder { .. }
        | NodeOp::LinearRecurrence { .. }
        | NodeOp::AdaptiveEma { .. } => (2.8, 0.4, 0.3),
        NodeOp::RollingSum(..) | NodeOp::RollingSumFrom { .. } | NodeOp::PartialRollingSum(..) => {
            (1.8, 0.4, 0.3)
        }
        NodeOp::CumSum(_) => (1.8, 0.3, 0.3),
        _ => (0.0, 2.5, 0.8),
    };
    StepCost { latency, single, batched }
}
