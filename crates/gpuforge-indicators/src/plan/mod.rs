//! Execution plan: topological order, buffer allocation by liveness, kernel choice.
//!
//! ```text
//!   Graph + output values
//!     │ rewrite.rs      dead-code elimination, shift forwarding, fusion of binary operations
//!     │ order.rs        order of the steps: recurrences grouped, so that element-wise steps form long vector loops
//!     │ liveness.rs     last use, look-back history, buffers released
//!     ▼ build.rs        one BufferSlot per value, buffers reused after their last reader
//!   ExecPlan
//!     │ cost.rs         single series or SIMD across series?
//!     ▼ kernels.rs      the kernel of each step
//! ```

use std::sync::{Arc, OnceLock};

use crate::{
    graph::{Field, Graph, NodeOp, ValueId},
    jit::{
        JitProgram, is_scannable,
        stats::{Compiled, JitStats},
    },
    kernel::whole_series::WholeSeriesDef,
};

mod build;
mod cost;
mod kernels;
mod liveness;
mod order;
mod rewrite;

use build::OutputLifetime;
pub(crate) use kernels::{batched_kernel, relaxed_kernel, single_kernel};
pub(crate) use rewrite::{Epilogue, Fusion};

/// Max input or output ports of a step.
pub(crate) const MAX_PORTS: usize = 8;

/// Location of a value: a buffer, its look-back rows, and the lag at which it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferSlot {
    /// Index of the buffer.
    pub(crate) buffer: usize,
    /// Rows of look-back history kept before the block.
    pub(crate) history: usize,
    /// Lag in bars: a forwarded shift.
    pub(crate) lag: usize,
}

/// One operation to run, with its buffers.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) op: NodeOp,
    /// First valid bar of the result.
    pub(crate) start: usize,
    pub(crate) inputs: Vec<BufferSlot>,
    /// First valid bar of the inputs.
    pub(crate) begin: usize,
    pub(crate) outputs: Vec<BufferSlot>,
    /// Constant operand: which input it is, and its value.
    pub(crate) constant: Option<(usize, f64)>,
    /// Binary operation fused into this one.
    pub(crate) fusion: Option<Fusion>,
    /// What its kernel does with its results.
    pub(crate) epilogue: Option<Epilogue>,
}

impl Step {
    /// Is it a loop-carried recurrence with a kernel for relaxed floating point: chunked, or two bars to a register?
    pub(crate) fn is_chunkable(&self) -> bool {
        let paired = cfg!(target_arch = "aarch64") && matches!(self.op, NodeOp::RollingVariance(..));
        paired
            || matches!(
                self.op,
                NodeOp::Ema { .. }
                    | NodeOp::Wilder { .. }
                    | NodeOp::RollingSum(..)
                    | NodeOp::RollingSumFrom { .. }
                    | NodeOp::CumSum(_)
                    | NodeOp::LinearWeightedSum(..)
            )
    }
}

/// Steps, buffers and outputs: everything that the executor needs to run a graph.
#[derive(Debug, Clone)]
pub struct ExecPlan {
    pub(crate) steps: Vec<Step>,
    /// Input columns and their slots.
    pub(crate) fields: Vec<(Field, BufferSlot)>,
    pub(crate) constants: Vec<(f64, BufferSlot)>,
    /// Whole-series (look-ahead) columns and their slots.
    pub(crate) whole_series: Vec<(&'static WholeSeriesDef, Vec<f64>, BufferSlot)>,
    pub(crate) outputs: Vec<BufferSlot>,
    pub(crate) starts: Vec<usize>,
    pub(crate) buffers: usize,
    /// Nodes of the graph before dead-code elimination.
    pub(crate) nodes: usize,
    /// JIT code, made on first use: single series, batched, relaxed; or why there is none.
    jit: [OnceLock<Compiled>; 3],
    /// Outputs that are complete after each step.
    pub(crate) outputs_of_step: Vec<Vec<usize>>,
    /// Outputs that are leaves: complete before any step.
    pub(crate) leaf_outputs: Vec<usize>,
    /// The variant for SIMD across series: outputs are deinterleaved as soon as they are complete, so that their buffers can
    /// be reused.
    batched: Option<Box<ExecPlan>>,
}

impl ExecPlan {
    /// Plans these values of a graph.
    pub fn new(graph: &Graph, outputs: &[ValueId]) -> ExecPlan {
        let mut plan = build::build(graph, outputs, OutputLifetime::Pinned);
        plan.batched = Some(Box::new(build::build(graph, outputs, OutputLifetime::UntilDelivered)));
        plan
    }

    /// The variant for tiles of this many series.
    pub(crate) fn for_lanes(&self, lanes: usize) -> &ExecPlan {
        self.batched.as_deref().filter(|_| lanes > 1).unwrap_or(self)
    }

    /// Its JIT code, compiled on first use.
    pub(crate) fn jit_program(&self, lanes: usize, relaxed_fp: bool) -> Option<Arc<JitProgram>> {
        let [single, batched, relaxed] = &self.jit;
        let cell = match (lanes, relaxed_fp) {
            (1, false) => single,
            (1, true) => relaxed,
            _ => batched,
        };
        cell.get_or_init(|| JitProgram::compile(self, lanes, relaxed_fp)).clone().ok()
    }

    /// What the JIT made of the plan so far: fused loops, bytes of code, why the rest was not compiled.
    pub fn jit_stats(&self) -> JitStats {
        let mut stats = JitStats::default();
        for plan in [Some(self), self.batched.as_deref()].into_iter().flatten() {
            for (way, cell) in ["single series", "batched", "relaxed"].into_iter().zip(&plan.jit) {
                cell.get().into_iter().for_each(|compiled| stats.add(way, compiled));
            }
        }
        stats
    }

    /// Has it a recurrence that relaxed floating point may chunk or compute as a prefix scan?
    pub(crate) fn has_recurrences(&self) -> bool {
        self.steps.iter().any(|step| step.is_chunkable() || is_scannable(&step.op))
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Number of graph nodes, after common-subexpression elimination and before dead-code elimination.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Input columns that are read.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        let plain = |field: &Field| self.fields.iter().any(|(f, _)| f == field);
        let ahead = self.whole_series.iter().flat_map(|(def, ..)| def.fields).filter(move |f| !plain(f));
        self.fields.iter().map(|(f, _)| *f).chain(ahead.copied())
    }

    /// Every slot that is written.
    pub(crate) fn slots(&self) -> impl Iterator<Item = BufferSlot> + '_ {
        let steps = self.steps.iter().flat_map(|s| s.outputs.iter().copied());
        let fields = self.fields.iter().map(|(_, p)| *p);
        let constants = self.constants.iter().map(|(_, p)| *p);
        steps.chain(fields).chain(constants).chain(self.whole_series.iter().map(|(.., p)| *p))
    }

    /// Does this buffer hold a constant?
    pub(crate) fn is_constant(&self, buffer: usize) -> bool {
        self.constants.iter().any(|(_, p)| p.buffer == buffer)
    }

    /// Does this buffer hold a constant or a whole-series column?
    pub(crate) fn is_constant_or_whole_series(&self, buffer: usize) -> bool {
        self.is_constant(buffer) || self.whole_series.iter().any(|(.., p)| p.buffer == buffer)
    }

    /// Can a series be streamed in chunks? Not where a column looks ahead at the whole series.
    pub fn supports_streaming(&self) -> bool {
        self.whole_series.is_empty()
    }

    /// First valid bar of each output.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }
}
