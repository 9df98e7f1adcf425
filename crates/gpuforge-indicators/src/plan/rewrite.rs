//! Graph rewriting: dead-code elimination, shift forwarding, fusion of binary operations.
//!
//! A shift costs nothing: its readers look back themselves. `select(c, a, a)` only delays validity: its readers read `a`. A
//! binary operation with a single user that is one itself is computed inside it.

use crate::graph::{BinaryOp, Graph, NodeOp, UnaryOp, ValueId};

/// Two fused binary operations: `f(g(a, b), c)`, or `f(c, g(a, b))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fusion {
    pub(crate) f: BinaryOp,
    pub(crate) g: BinaryOp,
    /// Is `g` the left operand of `f`?
    pub(crate) left: bool,
}

/// An element-wise operation that a rolling kernel applies to its results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Epilogue {
    /// Square root of a variance.
    Sqrt,
    /// A weighted sum over the sum of its weights.
    Div(f64),
}

/// Are epilogues part of the kernels? On x86-64 a fused loop computes them four at a time; on AArch64 it saves half an
/// instruction of arithmetic per bar, and costs one and a half to load, store and loop.
const EPILOGUES: bool = cfg!(target_arch = "aarch64");

/// Operations that may be fused. Few, because each pair is a monomorphised loop of its own.
fn fuses(f: BinaryOp) -> bool {
    matches!(f, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min | BinaryOp::Max)
}

/// A graph after rewriting.
pub(crate) struct Rewrites {
    /// The value that a node forwards, and its lag.
    aliases: Vec<Option<(ValueId, usize)>>,
    /// Operands of each node, and their look-back.
    operands: Vec<Vec<(ValueId, usize)>>,
    /// Fusion of each node.
    fused: Vec<Option<Fusion>>,
    /// Nodes that are computed by the kernel of their operand: that operand, and what is left to do.
    epilogues: Vec<Option<(usize, Epilogue)>>,
    /// Nodes that need a step.
    live: Vec<bool>,
}

impl Rewrites {
    pub(crate) fn new(graph: &Graph, outputs: &[ValueId]) -> Rewrites {
        let aliases = aliases(graph, outputs);
        let operands = graph.nodes.iter().map(|n| n.op.operands()).collect();
        let fused = vec![None; graph.nodes.len()];
        let epilogues = vec![None; graph.nodes.len()];
        let mut rewrites = Rewrites { aliases, operands, fused, epilogues, live: Vec::new() };
        rewrites.live = rewrites.mark_live(graph, outputs);
        if EPILOGUES {
            rewrites.fuse_epilogues(graph, outputs);
        }
        rewrites.fuse(graph, outputs);
        rewrites
    }

    /// The value behind a chain of aliases, and the total lag.
    pub(crate) fn resolve(&self, v: ValueId) -> (ValueId, usize) {
        resolve(&self.aliases, v)
    }

    /// Operands as written, after fusion.
    pub(crate) fn operands(&self, at: usize) -> &[(ValueId, usize)] {
        self.operands.get(at).map_or(&[], Vec::as_slice)
    }

    /// Operands behind their aliases, with look-back.
    pub(crate) fn reads(&self, at: usize) -> impl Iterator<Item = (ValueId, usize)> + '_ {
        self.operands(at).iter().map(|(v, back)| {
            let (of, lag) = self.resolve(*v);
            (of, back + lag)
        })
    }

    pub(crate) fn fusion(&self, at: usize) -> Option<Fusion> {
        self.fused.get(at).copied().flatten()
    }

    /// The node whose operation computes this one, and what its kernel does with the results.
    pub(crate) fn epilogue(&self, at: usize) -> Option<(usize, Epilogue)> {
        self.epilogues.get(at).copied().flatten()
    }

    /// The operation of a node's step.
    pub(crate) fn op<'g>(&self, graph: &'g Graph, at: usize) -> Option<&'g NodeOp> {
        let of = self.epilogue(at).map_or(at, |(of, _)| of);
        graph.nodes.get(of).map(|node| &node.op)
    }

    pub(crate) fn is_live(&self, at: usize) -> bool {
        self.live.get(at) == Some(&true)
    }

    /// Dead-code elimination: marks the nodes that the outputs depend on.
    fn mark_live(&self, graph: &Graph, outputs: &[ValueId]) -> Vec<bool> {
        let mut live = vec![false; graph.nodes.len()];
        let mark = |live: &mut Vec<bool>, v: ValueId| {
            if let Some(entry) = live.get_mut(v.node as usize) {
                *entry = true;
            }
        };
        outputs.iter().for_each(|v| mark(&mut live, self.resolve(*v).0));
        for at in (0..graph.nodes.len()).rev() {
            if live.get(at) == Some(&true) {
                self.reads(at).for_each(|(v, _)| mark(&mut live, v));
            }
        }
        live
    }

    /// Readers of each node, outputs included.
    fn uses(&self, graph: &Graph, outputs: &[ValueId]) -> Vec<u32> {
        let n = graph.nodes.len();
        let mut uses = vec![0u32; n];
        let read = (0..n).filter(|at| self.is_live(*at)).flat_map(|at| self.reads(at).collect::<Vec<_>>());
        for (v, _) in read.chain(outputs.iter().map(|v| self.resolve(*v))) {
            uses.iter_mut().skip(v.node as usize).take(1).for_each(|u| *u += 1);
        }
        uses
    }

    /// Fuses a square root into the variance that only it reads, a division by a constant into the weighted sum.
    fn fuse_epilogues(&mut self, graph: &Graph, outputs: &[ValueId]) {
        let uses = self.uses(graph, outputs);
        let number = |v: ValueId| match graph.nodes.get(self.resolve(v).0.node as usize).map(|n| &n.op) {
            Some(NodeOp::Const(x)) => Some(x.get()),
            _ => None,
        };
        let mut found = Vec::new();
        for (at, node) in graph.nodes.iter().enumerate().filter(|(at, _)| self.is_live(*at)) {
            let (operand, epilogue) = match node.op {
                NodeOp::Unary(UnaryOp::Sqrt, a) => (a, Some(Epilogue::Sqrt)),
                NodeOp::Binary(BinaryOp::Div, a, b) => (a, number(b).map(Epilogue::Div)),
                _ => continue,
            };
            let (child, lag) = self.resolve(operand);
            let i = child.node as usize;
            let fits = match graph.nodes.get(i).map(|n| &n.op) {
                Some(NodeOp::RollingVariance(..)) => epilogue == Some(Epilogue::Sqrt),
                Some(NodeOp::LinearWeightedSum(..)) => epilogue != Some(Epilogue::Sqrt),
                _ => false,
            };
            if let Some(epilogue) = epilogue.filter(|_| fits && lag == 0 && uses.get(i) == Some(&1)) {
                found.push((at, i, epilogue));
            }
        }
        for (at, i, epilogue) in found {
            self.live.iter_mut().skip(i).take(1).for_each(|n| *n = false);
            self.epilogues.iter_mut().skip(at).take(1).for_each(|x| *x = Some((i, epilogue)));
            let reads = self.operands(i).to_vec();
            self.operands.iter_mut().skip(at).take(1).for_each(|r| r.clone_from(&reads));
        }
    }

    /// Fuses binary operations into their only users.
    fn fuse(&mut self, graph: &Graph, outputs: &[ValueId]) {
        let n = graph.nodes.len();
        let uses = self.uses(graph, outputs);
        let is_output = |v: ValueId| outputs.iter().any(|w| self.resolve(*w).0 == v);
        let output: Vec<bool> = (0..n)
            .map(|at| is_output(ValueId { node: u32::try_from(at).unwrap_or(u32::MAX), port: 0 }))
            .collect();
        for at in (0..n).rev().filter(|at| self.is_live(*at)).collect::<Vec<_>>() {
            let Some(NodeOp::Binary(f, a, b)) = graph.nodes.get(at).map(|n| &n.op) else { continue };
            // A node that was fused into another has no step to fuse into.
            if !fuses(*f) || !self.is_live(at) || self.epilogue(at).is_some() {
                continue;
            }
            for (inner, other, left) in [(*a, *b, true), (*b, *a, false)] {
                let (child, lag) = self.resolve(inner);
                let i = child.node as usize;
                let Some(NodeOp::Binary(g, c, d)) = graph.nodes.get(i).map(|n| &n.op) else { continue };
                let only = uses.get(i) == Some(&1) && output.get(i) == Some(&false);
                let free = self.fusion(i).is_none() && self.epilogue(i).is_none();
                if lag == 0 && only && fuses(*g) && free && i != at {
                    self.live.iter_mut().skip(i).take(1).for_each(|n| *n = false);
                    self.fused
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|x| *x = Some(Fusion { f: *f, g: *g, left }));
                    let reads = vec![(*c, 0), (*d, 0), (other, 0)];
                    self.operands.iter_mut().skip(at).take(1).for_each(|r| r.clone_from(&reads));
                    break;
                }
            }
        }
    }
}

/// Aliases: shifts (unless the shift itself is an output), selects between a value and itself, products with 1.
fn aliases(graph: &Graph, outputs: &[ValueId]) -> Vec<Option<(ValueId, usize)>> {
    let mut aliases: Vec<Option<(ValueId, usize)>> = vec![None; graph.nodes.len()];
    let is_one = |v: ValueId| {
        let op = graph.nodes.get(v.node as usize).map(|node| &node.op);
        matches!(op, Some(NodeOp::Const(x)) if x.get() == 1.0)
    };
    for (at, node) in graph.nodes.iter().enumerate() {
        let internal = || !outputs.iter().any(|v| v.node as usize == at);
        let alias = match node.op {
            NodeOp::Shift(a, n) if internal() => {
                let (of, before) = resolve(&aliases, a);
                Some((of, before + n))
            }
            NodeOp::Select(_, a, b) if a == b => {
                Some(resolve(&aliases, a)).filter(|(_, lag)| *lag == 0 || internal())
            }
            NodeOp::Binary(BinaryOp::Mul | BinaryOp::Div, a, b) if is_one(b) => {
                Some(resolve(&aliases, a)).filter(|(_, lag)| *lag == 0 || internal())
            }
            _ => None,
        };
        if let Some(entry) = aliases.get_mut(at) {
            *entry = alias;
        }
    }
    aliases
}

fn resolve(aliases: &[Option<(ValueId, usize)>], v: ValueId) -> (ValueId, usize) {
    aliases.get(v.node as usize).copied().flatten().unwrap_or((v, 0))
}
