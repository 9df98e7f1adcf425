//! Analysis: node classes, shift elimination, encodings, and the nodes that the results need.

use std::collections::HashMap;

use gpuforge_indicators::graph::{Field, Graph, NodeOp, ValueId};

use super::{Column, Fusion};
use crate::{
    encoding::{self, Encoding, UNENCODED},
    rolling, state_machines,
};

/// Where a node is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeClass {
    /// It has no kernel.
    Unsupported,
    /// Computed on the CPU and uploaded.
    Cpu,
    /// An uploaded column of the bars.
    Uploaded,
    /// Inside generated kernels.
    Pointwise,
    /// By a rolling, scan or state machine kernel.
    Kernel,
}

/// Working state of a lowering, indexed by node.
pub(crate) struct Lowering<'g> {
    pub(crate) graph: &'g Graph,
    /// Value and lag that a shift stands for.
    pub(super) roots: Vec<Option<(ValueId, usize)>>,
    pub(super) class: Vec<NodeClass>,
    pub(super) needed: Vec<bool>,
    pub(super) stored: Vec<bool>,
    /// Operations to recompute it from stored values.
    pub(super) cost: Vec<usize>,
    /// The stage that computes it.
    pub(super) stage: Vec<usize>,
    pub(super) columns: HashMap<ValueId, Column>,
    /// Columns of decoded values, for kernels that need them.
    pub(super) decoded: HashMap<ValueId, Column>,
    pub(super) encodings: Vec<Encoding>,
    pub(super) count: Column,
    pub(super) fusion: Fusion,
}

/// The class of an op, regardless of its inputs.
fn classify(op: &NodeOp) -> NodeClass {
    match op {
        NodeOp::Input(Field::Time) | NodeOp::WholeSeries { .. } => NodeClass::Cpu,
        NodeOp::Input(_) => NodeClass::Uploaded,
        NodeOp::Const(_)
        | NodeOp::Unary(..)
        | NodeOp::Binary(..)
        | NodeOp::Select(..)
        | NodeOp::Shift(..)
        | NodeOp::FillWarmup(..) => NodeClass::Pointwise,
        NodeOp::Ema { .. }
        | NodeOp::Wilder { .. }
        | NodeOp::LinearRecurrence { .. }
        | NodeOp::AdaptiveEma { .. }
        | NodeOp::CumSum(_)
        | NodeOp::CumMinMax { .. } => NodeClass::Kernel,
        NodeOp::StateMachine { def, params, .. } => {
            let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
            let window = rolling::of(op).is_some() || state_machines::window_of(def.name).is_some();
            if window || state_machines::of(def.name, &params).is_some() {
                NodeClass::Kernel
            } else {
                NodeClass::Unsupported
            }
        }
        _ if rolling::of(op).is_some() => NodeClass::Kernel,
        _ => NodeClass::Unsupported,
    }
}

impl<'g> Lowering<'g> {
    pub(super) fn new(graph: &'g Graph, wanted: &[ValueId]) -> Self {
        let n = graph.nodes().len();
        let roots = resolve_shifts(graph, wanted);
        let mut class = Vec::with_capacity(n);
        for node in graph.nodes() {
            let inputs: Vec<NodeClass> = node
                .op
                .operands()
                .iter()
                .filter(|(v, _)| !constant(graph, *v))
                .map(|(v, _)| class.get(v.node as usize).copied().unwrap_or(NodeClass::Unsupported))
                .collect();
            let host = !inputs.is_empty() && inputs.iter().all(|c| *c == NodeClass::Cpu);
            class.push(match classify(&node.op) {
                _ if inputs.contains(&NodeClass::Unsupported) => NodeClass::Unsupported,
                _ if host => NodeClass::Cpu,
                own => own,
            });
        }
        let mut encodings: Vec<Encoding> = Vec::with_capacity(n);
        for node in graph.nodes() {
            let encoding = |v: ValueId| encodings.get(v.node as usize).copied().unwrap_or(UNENCODED);
            let number = |v: ValueId| match graph.nodes().get(v.node as usize).map(|n| &n.op) {
                Some(NodeOp::Const(x)) => Some(x.get()),
                _ => None,
            };
            let own = encoding::of(&node.op, encoding, number);
            encodings.push(own);
        }
        Lowering {
            graph,
            roots,
            class,
            decoded: HashMap::new(),
            encodings,
            needed: vec![false; n],
            stored: vec![false; n],
            cost: vec![0; n],
            stage: vec![0; n],
            columns: HashMap::new(),
            count: 0,
            fusion: Fusion::Fused,
        }
    }

    /// The value behind shifts, and its lag in bars.
    pub(crate) fn root(&self, v: ValueId) -> (ValueId, usize) {
        self.roots.get(v.node as usize).copied().flatten().unwrap_or((v, 0))
    }

    pub(crate) fn op(&self, v: ValueId) -> Option<&'g NodeOp> {
        self.graph.nodes().get(v.node as usize).map(|n| &n.op)
    }

    pub(super) fn class(&self, v: ValueId) -> NodeClass {
        self.class.get(v.node as usize).copied().unwrap_or(NodeClass::Unsupported)
    }

    pub(super) fn is_stored(&self, v: ValueId) -> bool {
        self.stored.get(v.node as usize) == Some(&true)
    }

    pub(super) fn stage(&self, v: ValueId) -> usize {
        self.stage.get(v.node as usize).copied().unwrap_or(0)
    }

    /// The column of a value that is stored before a stage.
    pub(crate) fn column_before(&self, v: ValueId, stage: usize) -> Option<Column> {
        let there = self.is_stored(v) && (self.class(v) != NodeClass::Pointwise || self.stage(v) < stage);
        there.then(|| self.columns.get(&v).copied()).flatten()
    }

    /// The encoding of a value.
    pub(crate) fn encoding(&self, v: ValueId) -> Encoding {
        self.encodings.get(v.node as usize).copied().unwrap_or(UNENCODED)
    }

    /// Does a node need this encoded input decoded?
    pub(super) fn needs_decoded(&self, at: usize, v: ValueId) -> bool {
        self.encodings.get(at).is_some_and(|f| f.reads_decoded) && !self.encoding(v).is_unencoded()
    }

    /// The stage that decodes a value.
    pub(super) fn decoded_stage(&self, v: ValueId) -> usize {
        self.stage(v) + usize::from(self.class(v) != NodeClass::Pointwise)
    }

    pub(super) fn new_column(&mut self) -> Column {
        self.count += 1;
        self.count - 1
    }

    /// Marks the transitive inputs of the results, down to uploads; stores what kernels read.
    pub(super) fn mark_needed(&mut self, wanted: &[ValueId]) {
        for v in wanted {
            let (of, _) = self.root(*v);
            self.mark(of);
        }
        for at in (0..self.needed.len()).rev() {
            if self.needed.get(at) != Some(&true) || matches!(self.class.get(at), Some(NodeClass::Cpu)) {
                continue;
            }
            let reads: Vec<ValueId> = self
                .graph
                .nodes()
                .get(at)
                .map(|n| n.op.operands())
                .into_iter()
                .flatten()
                .map(|(v, _)| v)
                .collect();
            let kernel = self.class.get(at) == Some(&NodeClass::Kernel);
            for v in reads {
                let (of, _) = self.root(v);
                self.mark(of);
                let decoded = self.needs_decoded(at, of);
                if kernel && decoded {
                    self.decoded.entry(of).or_insert(Column::MAX);
                } else if kernel {
                    self.store(of);
                }
            }
        }
    }

    fn mark(&mut self, v: ValueId) {
        self.needed.iter_mut().skip(v.node as usize).take(1).for_each(|n| *n = true);
    }

    pub(super) fn store(&mut self, v: ValueId) {
        self.stored.iter_mut().skip(v.node as usize).take(1).for_each(|n| *n = true);
    }
}

pub(super) fn constant(graph: &Graph, v: ValueId) -> bool {
    matches!(graph.nodes().get(v.node as usize).map(|n| &n.op), Some(NodeOp::Const(_)))
}

/// Resolves shifts, and selects between equal values, to the value behind them; except shifts that are results.
fn resolve_shifts(graph: &Graph, wanted: &[ValueId]) -> Vec<Option<(ValueId, usize)>> {
    let mut roots: Vec<Option<(ValueId, usize)>> = vec![None; graph.nodes().len()];
    for (at, node) in graph.nodes().iter().enumerate() {
        let inner = !wanted.iter().any(|v| v.node as usize == at);
        let find = |v: ValueId| roots.get(v.node as usize).copied().flatten().unwrap_or((v, 0));
        let root = match node.op {
            NodeOp::Shift(a, n) if inner => {
                let (of, before) = find(a);
                Some((of, before + n))
            }
            NodeOp::Select(_, a, b) if a == b => Some(find(a)).filter(|(_, lag)| *lag == 0 || inner),
            _ => None,
        };
        if let Some(entry) = roots.get_mut(at) {
            *entry = root;
        }
    }
    roots
}
