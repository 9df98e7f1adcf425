//! Lowering: the indicator graph to stages of kernel calls, with pointwise nodes fused into generated kernels.
//!
//! A value is *stored* (has a column) where a rolling, scan or state machine kernel reads or writes it, or where it is a
//! result; every other pointwise value is recomputed inside the kernels that read it. A stage depends on earlier ones only
//! and has one call per kernel for all of its nodes. Columns are reused after their last reader; results come first in the
//! arena, so that they are downloaded as one contiguous range.
//!
//! ```text
//!   analysis   classify nodes (CPU, uploaded, pointwise, kernel), see through shifts, propagate encodings
//!   schedule   stage of each node; which pointwise values are stored, which recomputed
//!   columns    column of each stored value; lifetimes, reuse
//!   calls      jobs of a stage grouped by kernel; code generation of its pointwise kernels
//! ```

mod analysis;
mod calls;
mod columns;
mod schedule;

use std::collections::HashMap;

use gpuforge_indicators::graph::{Field, Graph, ValueId};

pub(crate) use analysis::Lowering;
use analysis::NodeClass;
use columns::{reuse_columns, unfused, uploads};

use crate::{
    encoding::Encoding,
    pointwise::{Item, Pointwise},
    rolling::RollingShader,
};

/// A column of the arena.
pub type Column = usize;

/// The source of an uploaded column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadSource {
    /// A column of the bars.
    Field(Field),
    /// A value computed on the CPU: depends on time alone, or on the whole series.
    Cpu(ValueId),
}

/// A node as a job: one kernel call computes many jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// Which function of the kernel.
    pub mode: u32,
    /// First bar with a value.
    pub start: usize,
    /// First bar at which all inputs have a value.
    pub inputs_start: usize,
    /// Window length in bars.
    pub window: u32,
    /// Constants: weights, parameters, coefficients.
    pub constants: Vec<f32>,
    /// Columns that it reads, with lags in bars.
    pub inputs: Vec<(Column, usize)>,
    /// Columns that it writes.
    pub outputs: Vec<Column>,
    /// A scratch column.
    pub scratch: Option<Column>,
    /// Words of state per series.
    pub state: u32,
    /// Loop iterations per bar.
    pub step_iterations: u32,
    /// Loop iterations to set up a slice.
    pub setup_iterations: u32,
    /// Preferred bars per slice (the part of a segment that one invocation computes).
    pub slice: u32,
}

/// A rolling-window kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollingKernel {
    /// Of graph primitives.
    Primitive(RollingShader),
    /// Of state machines whose state is a window.
    StateMachines,
}

impl RollingKernel {
    /// Name in explanations.
    pub fn name(self) -> &'static str {
        match self {
            RollingKernel::Primitive(RollingShader::Sum) => "sum",
            RollingKernel::Primitive(RollingShader::MinMax) => "extreme",
            RollingKernel::Primitive(RollingShader::Moment) => "moment",
            RollingKernel::Primitive(RollingShader::Order) => "order",
            RollingKernel::StateMachines => "machines",
        }
    }
}

/// A kernel call for many jobs; scans and state machines take several dispatches.
#[derive(Debug, Clone)]
pub enum Call {
    /// A generated kernel.
    Pointwise(Pointwise),
    /// Rolling windows: an invocation per segment and slice.
    Rolling(RollingKernel, Vec<JobSpec>),
    /// Recurrences as a prefix scan in three passes.
    Scan(Vec<JobSpec>),
    /// State machines: an invocation per series, in chunks of bars.
    StateMachines(Vec<JobSpec>),
}

impl Call {
    /// Columns that it reads.
    fn reads(&self) -> Vec<Column> {
        match self {
            Call::Pointwise(p) => p.loads.clone(),
            Call::Rolling(_, jobs) | Call::Scan(jobs) | Call::StateMachines(jobs) => {
                jobs.iter().flat_map(|j| j.inputs.iter().map(|(c, _)| *c)).collect()
            }
        }
    }

    /// Columns that it writes.
    fn writes(&self) -> Vec<Column> {
        match self {
            Call::Pointwise(p) => p.stores.clone(),
            Call::Rolling(_, jobs) | Call::Scan(jobs) | Call::StateMachines(jobs) => {
                jobs.iter().flat_map(|j| j.outputs.iter().copied().chain(j.scratch)).collect()
            }
        }
    }

    fn rename_columns(&mut self, to: impl Fn(Column) -> Column) {
        match self {
            Call::Pointwise(p) => p.loads.iter_mut().chain(&mut p.stores).for_each(|c| *c = to(*c)),
            Call::Rolling(_, jobs) | Call::Scan(jobs) | Call::StateMachines(jobs) => {
                for job in jobs {
                    job.inputs.iter_mut().for_each(|(c, _)| *c = to(*c));
                    job.outputs.iter_mut().chain(&mut job.scratch).for_each(|c| *c = to(*c));
                }
            }
        }
    }
}

/// A lowered graph.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// Uploaded columns, in order; they follow the results in the arena.
    pub uploads: Vec<UploadSource>,
    /// Calls by stage.
    pub stages: Vec<Vec<Call>>,
    /// Position of each wanted value among the results; `None` where the CPU computes it.
    pub outputs: Vec<Option<Column>>,
    /// Number of results.
    pub results: usize,
    /// Encoding and output port of each result.
    pub encodings: Vec<(Encoding, u8)>,
    /// Columns of the arena.
    pub columns: usize,
    /// Nodes that are computed, stored or inlined.
    pub nodes: usize,
    /// Columns that an unfused plan would write.
    pub unfused: usize,
}

/// Fusion of pointwise nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Pointwise nodes are inlined into the kernels that read them.
    #[default]
    Fused,
    /// A column and a kernel call per pointwise node: the baseline that measures what fusion saves.
    Unfused,
}

impl Lowered {
    /// Memory traffic: columns read and written, a column as often as a call reads it.
    pub fn traffic(&self) -> usize {
        let moved = |call: &Call| match call {
            Call::Pointwise(p) => p.loads.len() + p.stores.len(),
            Call::Rolling(_, jobs) | Call::Scan(jobs) | Call::StateMachines(jobs) => {
                jobs.iter().map(|j| j.inputs.len() + j.outputs.len()).sum()
            }
        };
        self.stages.iter().flatten().map(moved).sum()
    }
}

/// Can each of these values be lowered?
pub fn fits(graph: &Graph, wanted: &[ValueId]) -> Vec<bool> {
    let lowering = Lowering::new(graph, wanted);
    let fit = |v: &ValueId| {
        matches!(lowering.class(*v), NodeClass::Uploaded | NodeClass::Pointwise | NodeClass::Kernel)
    };
    wanted.iter().map(fit).collect()
}

/// Lowers those of the wanted values that `on` selects.
pub fn lower(graph: &Graph, wanted: &[ValueId], on: &[bool]) -> Option<Lowered> {
    lower_with(graph, wanted, on, Fusion::Fused)
}

/// The same, with or without fusion.
pub fn lower_with(graph: &Graph, wanted: &[ValueId], on: &[bool], fusion: Fusion) -> Option<Lowered> {
    let chosen: Vec<ValueId> = wanted.iter().zip(on).filter(|(_, on)| **on).map(|(v, _)| *v).collect();
    let mut lowering = Lowering::new(graph, &chosen);
    lowering.fusion = fusion;
    lowering.mark_needed(&chosen);
    // A computed result is stored in the result's column; uploads and shifts are copied there.
    for v in &chosen {
        let (of, lag) = lowering.root(*v);
        if lag == 0 && matches!(lowering.class(of), NodeClass::Pointwise | NodeClass::Kernel) {
            lowering.store(of);
        }
    }
    lowering.schedule();
    lowering.assign_columns();
    let mut results: Vec<Column> = Vec::new();
    let mut outputs = Vec::new();
    let mut encodings: Vec<(Encoding, u8)> = Vec::new();
    let mut extra: HashMap<usize, Vec<Item>> = HashMap::new();
    for (v, on) in wanted.iter().zip(on) {
        if !on {
            outputs.push(None);
            continue;
        }
        let (of, lag) = lowering.root(*v);
        let own =
            lowering.columns.get(&of).copied().filter(|_| {
                lag == 0 && matches!(lowering.class(of), NodeClass::Pointwise | NodeClass::Kernel)
            });
        let column = own.unwrap_or_else(|| {
            let column = lowering.new_column();
            let stage = match lowering.class(of) {
                NodeClass::Pointwise if !lowering.is_stored(of) => lowering.stage(of),
                _ => lowering.stage(of) + 1,
            };
            extra.entry(stage).or_default().push(Item { value: of, lag, decoded: false, into: column });
            column
        });
        let at = results.iter().position(|c| *c == column).unwrap_or_else(|| {
            results.push(column);
            encodings.push((lowering.encoding(of), of.port));
            results.len() - 1
        });
        outputs.push(Some(at));
    }
    let decoded = lowering.decoded.keys().map(|v| lowering.decoded_stage(*v));
    let last = lowering.stage.iter().copied().chain(extra.keys().copied()).chain(decoded).max().unwrap_or(0);
    let mut stages = Vec::new();
    for stage in 1..=last {
        let calls = lowering.calls(stage, extra.get(&stage).map_or(&[], Vec::as_slice))?;
        stages.push(calls);
    }
    let uploads = uploads(&lowering);
    let nodes = lowering.needed.iter().filter(|n| **n).count();
    let unfused = unfused(&lowering);
    let (columns, rename) = reuse_columns(&stages, &results, &uploads);
    for call in stages.iter_mut().flatten() {
        call.rename_columns(|c| rename.get(&c).copied().unwrap_or(c));
    }
    let uploads = uploads.into_iter().map(|(g, _)| g).collect();
    Some(Lowered { uploads, stages, outputs, results: results.len(), encodings, columns, nodes, unfused })
}
