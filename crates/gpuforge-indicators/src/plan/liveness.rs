//! Liveness analysis: look-back of each value, last use, buffers to release.

use super::{BufferSlot, build::OutputLifetime, rewrite::Rewrites};
use crate::graph::{Graph, ValueId};

/// Look-back of each node: how many bars back it is read at most.
pub(super) fn look_back(graph: &Graph, rewrites: &Rewrites) -> Vec<usize> {
    let mut history = vec![0; graph.nodes.len()];
    for at in (0..graph.nodes.len()).filter(|at| rewrites.is_live(*at)) {
        for (v, back) in rewrites.reads(at) {
            if let Some(entry) = history.get_mut(v.node as usize) {
                *entry = back.max(*entry);
            }
        }
    }
    history
}

/// Last reader of each node; pinned outputs live until the end.
pub(super) fn last_use(
    graph: &Graph,
    outputs: &[ValueId],
    rewrites: &Rewrites,
    (lifetime, order): (OutputLifetime, &[usize]),
) -> Vec<usize> {
    let mut last: Vec<usize> = (0..graph.nodes.len()).collect();
    for at in order {
        for (v, _) in rewrites.reads(*at) {
            if let Some(entry) = last.get_mut(v.node as usize) {
                *entry = *at;
            }
        }
    }
    for v in outputs.iter().filter(|_| lifetime == OutputLifetime::Pinned) {
        if let Some(entry) = last.get_mut(rewrites.resolve(*v).0.node as usize) {
            *entry = usize::MAX;
        }
    }
    last
}

/// Buffers to free after a node: those of nodes whose last reader has just run and that keep no history.
pub(super) fn released(
    graph: &Graph,
    history: &[usize],
    last: &[usize],
    at: usize,
    slots: &[Vec<BufferSlot>],
    rewrites: &Rewrites,
) -> Vec<(usize, usize)> {
    let mut done: Vec<usize> = rewrites.reads(at).map(|(v, _)| v.node as usize).chain([at]).collect();
    done.sort_unstable();
    done.dedup();
    done.retain(|i| {
        let plain = graph.nodes.get(*i).is_some_and(|n| !n.op.is_leaf());
        plain && last.get(*i) == Some(&at) && history.get(*i) == Some(&0)
    });
    let buffers = |i: usize| slots.get(i).into_iter().flatten().map(move |p| (i, p.buffer));
    done.into_iter().flat_map(buffers).collect()
}
