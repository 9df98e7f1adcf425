//! What does a step really read? Shifts and later beginnings are seen through, and a value that only one function of two
//! values reads is computed inside it.

use crate::graph::{BinaryOp, Graph, NodeOp, ValueId};

/// `f(g(a, b), c)`, or `f(c, g(a, b))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fusion {
    pub(crate) f: BinaryOp,
    pub(crate) g: BinaryOp,
    /// Is the inner one `f`'s first?
    pub(crate) left: bool,
}

/// Functions that are computed two at once: each pair has a loop of its own, so they are few.
pub(crate) fn fuses(f: BinaryOp) -> bool {
    matches!(f, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min | BinaryOp::Max)
}

/// Where values come from.
pub(crate) struct Links {
    /// What a node is but for its beginning, and how many bars ago.
    roots: Vec<Option<(ValueId, usize)>>,
    /// What each node reads, and how far back.
    reads: Vec<Vec<(ValueId, usize)>>,
    /// Nodes that compute another inside.
    fused: Vec<Option<Fusion>>,
    /// Nodes that have a step.
    needed: Vec<bool>,
}

impl Links {
    pub(crate) fn new(graph: &Graph, wanted: &[ValueId]) -> Links {
        let roots = roots(graph, wanted);
        let reads = graph.nodes.iter().map(|n| n.op.operands()).collect();
        let fused = vec![None; graph.nodes.len()];
        let mut links = Links { roots, reads, fused, needed: Vec::new() };
        links.needed = links.reach(graph, wanted);
        links.fuse(graph, wanted);
        links
    }

    /// What a value is, and how many bars ago.
    pub(crate) fn root(&self, v: ValueId) -> (ValueId, usize) {
        root(&self.roots, v)
    }

    /// What a node reads as it was written.
    pub(crate) fn inputs(&self, at: usize) -> &[(ValueId, usize)] {
        self.reads.get(at).map_or(&[], Vec::as_slice)
    }

    /// What a node reads and how far back, seen through.
    pub(crate) fn reads(&self, at: usize) -> impl Iterator<Item = (ValueId, usize)> + '_ {
        self.inputs(at).iter().map(|(v, back)| {
            let (of, lag) = self.root(*v);
            (of, back + lag)
        })
    }

    pub(crate) fn fusion(&self, at: usize) -> Option<Fusion> {
        self.fused.get(at).copied().flatten()
    }

    pub(crate) fn needed(&self, at: usize) -> bool {
        self.needed.get(at) == Some(&true)
    }

    /// Nodes that wanted values rest on.
    fn reach(&self, graph: &Graph, wanted: &[ValueId]) -> Vec<bool> {
        let mut needed = vec![false; graph.nodes.len()];
        let mark = |needed: &mut Vec<bool>, v: ValueId| {
            if let Some(entry) = needed.get_mut(v.node as usize) {
                *entry = true;
            }
        };
        wanted.iter().for_each(|v| mark(&mut needed, self.root(*v).0));
        for at in (0..graph.nodes.len()).rev() {
            if needed.get(at) == Some(&true) {
                self.reads(at).for_each(|(v, _)| mark(&mut needed, v));
            }
        }
        needed
    }

    /// Puts functions of two values into their only readers.
    fn fuse(&mut self, graph: &Graph, wanted: &[ValueId]) {
        let n = graph.nodes.len();
        let mut uses = vec![0u32; n];
        let read = (0..n).filter(|at| self.needed(*at)).flat_map(|at| self.reads(at).collect::<Vec<_>>());
        for (v, _) in read.chain(wanted.iter().map(|v| self.root(*v))) {
            uses.iter_mut().skip(v.node as usize).take(1).for_each(|u| *u += 1);
        }
        let is_wanted = |v: ValueId| wanted.iter().any(|w| self.root(*w).0 == v);
        let kept: Vec<bool> = (0..n)
            .map(|at| is_wanted(ValueId { node: u32::try_from(at).unwrap_or(u32::MAX), port: 0 }))
            .collect();
        for at in (0..n).rev().filter(|at| self.needed(*at)).collect::<Vec<_>>() {
            let Some(NodeOp::Binary(f, a, b)) = graph.nodes.get(at).map(|n| &n.op) else { continue };
            // One that is inside another has no step to be inside of.
            if !fuses(*f) || !self.needed(at) {
                continue;
            }
            for (inner, other, left) in [(*a, *b, true), (*b, *a, false)] {
                let (child, lag) = self.root(inner);
                let i = child.node as usize;
                let Some(NodeOp::Binary(g, c, d)) = graph.nodes.get(i).map(|n| &n.op) else { continue };
                let only = uses.get(i) == Some(&1) && kept.get(i) == Some(&false);
                if lag == 0 && only && fuses(*g) && self.fusion(i).is_none() && i != at {
                    self.needed.iter_mut().skip(i).take(1).for_each(|n| *n = false);
                    self.fused
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|x| *x = Some(Fusion { f: *f, g: *g, left }));
                    let reads = vec![(*c, 0), (*d, 0), (other, 0)];
                    self.reads.iter_mut().skip(at).take(1).for_each(|r| r.clone_from(&reads));
                    break;
                }
            }
        }
    }
}

/// A shift is no work where its readers can look back themselves; one that is wanted as it is stays a node. A choice between
/// a value and itself only begins later, which its readers know.
fn roots(graph: &Graph, wanted: &[ValueId]) -> Vec<Option<(ValueId, usize)>> {
    let mut roots: Vec<Option<(ValueId, usize)>> = vec![None; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        let alone = || !wanted.iter().any(|v| v.node as usize == at);
        let really = match node.op {
            NodeOp::Shift(a, n) if alone() => {
                let (of, before) = root(&roots, a);
                Some((of, before + n))
            }
            NodeOp::Select(_, a, b) if a == b => Some(root(&roots, a)).filter(|(_, lag)| *lag == 0 || alone()),
            _ => None,
        };
        if let Some(entry) = roots.get_mut(at) {
            *entry = really;
        }
    }
    roots
}

fn root(roots: &[Option<(ValueId, usize)>], v: ValueId) -> (ValueId, usize) {
    roots.get(v.node as usize).copied().flatten().unwrap_or((v, 0))
}
