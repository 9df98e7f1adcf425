//! Graph rewriting: dead-code elimination, shift forwarding, fusion of binary operations.
//!
//! A shift costs nothing: its readers look back themselves. `select(c, a, a)` only delays validity: its readers read `a`. A
//! binary operation with a single user that is one itself is computed inside it.

use crate::graph::{BinaryOp, Graph, NodeOp, ValueId};

/// Two fused binary operations: `f(g(a, b), c)`, or `f(c, g(a, b))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fusion {
    pub(crate) f: BinaryOp,
    pub(crate) g: BinaryOp,
    /// Is `g` the left operand of `f`?
    pub(crate) left: bool,
}

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
    /// Nodes that need a step.
    live: Vec<bool>,
}

impl Rewrites {
    pub(crate) fn new(graph: &Graph, outputs: &[ValueId]) -> Rewrites {
        let aliases = aliases(graph, outputs);
        let operands = graph.nodes.iter().map(|n| n.op.operands()).collect();
        let fused = vec![None; graph.nodes.len()];
        let mut rewrites = Rewrites { aliases, operands, fused, live: Vec::new() };
        rewrites.live = rewrites.mark_live(graph, outputs);
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

    /// Fuses binary operations into their only users.
    fn fuse(&mut self, graph: &Graph, outputs: &[ValueId]) {
        let n = graph.nodes.len();
        let mut uses = vec![0u32; n];
        let read = (0..n).filter(|at| self.is_live(*at)).flat_map(|at| self.reads(at).collect::<Vec<_>>());
        for (v, _) in read.chain(outputs.iter().map(|v| self.resolve(*v))) {
            uses.iter_mut().skip(v.node as usize).take(1).for_each(|u| *u += 1);
        }
        let is_output = |v: ValueId| outputs.iter().any(|w| self.resolve(*w).0 == v);
        let output: Vec<bool> = (0..n)
            .map(|at| is_output(ValueId { node: u32::try_from(at).unwrap_or(u32::MAX), port: 0 }))
            .collect();
        for at in (0..n).rev().filter(|at| self.is_live(*at)).collect::<Vec<_>>() {
            let Some(NodeOp::Binary(f, a, b)) = graph.nodes.get(at).map(|n| &n.op) else { continue };
            // A node that was fused into another has no step to fuse into.
            if !fuses(*f) || !self.is_live(at) {
                continue;
            }
            for (inner, other, left) in [(*a, *b, true), (*b, *a, false)] {
                let (child, lag) = self.resolve(inner);
                let i = child.node as usize;
                let Some(NodeOp::Binary(g, c, d)) = graph.nodes.get(i).map(|n| &n.op) else { continue };
                let only = uses.get(i) == Some(&1) && output.get(i) == Some(&false);
                if lag == 0 && only && fuses(*g) && self.fusion(i).is_none() && i != at {
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

/// Aliases: shifts (unless the shift itself is an output) and selects between a value and itself.
fn aliases(graph: &Graph, outputs: &[ValueId]) -> Vec<Option<(ValueId, usize)>> {
    let mut aliases: Vec<Option<(ValueId, usize)>> = vec![None; graph.nodes.len()];
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
