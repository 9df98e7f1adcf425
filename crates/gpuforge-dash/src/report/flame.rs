//! Flame graph: equal stacks of all threads merged into one tree; folded stacks export.

use std::{cmp::Reverse, collections::HashMap, fmt::Write as _};

use gpuforge_profile::{Category, SpanRecord, Trace, TrackKind};

/// Maximum depth; deeper calls count for their ancestor.
pub const MAX_DEPTH: usize = 256;

/// A node: a call path merged over all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameNode {
    /// Index of the caller; `None` for a root.
    pub parent: Option<usize>,
    /// Index in [`FlameGraph::names`].
    pub name: usize,
    /// Number of ancestors.
    pub depth: usize,
    /// Category of its first span.
    pub category: Category,
    /// Self time.
    pub self_ns: u64,
    /// Total time.
    pub total_ns: u64,
    /// Number of spans.
    pub count: u64,
}

/// Merged stacks; callers precede callees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlameGraph {
    /// Names of nodes.
    pub names: Vec<String>,
    /// Nodes in preorder, siblings by total time descending.
    pub nodes: Vec<FlameNode>,
}

/// An open span of the track walk.
struct Open<'a> {
    node: usize,
    span: &'a SpanRecord,
}

struct Builder {
    nodes: Vec<FlameNode>,
    known: HashMap<(Option<usize>, usize), usize>,
}

impl Builder {
    fn node(&mut self, parent: Option<usize>, name: usize, category: Category) -> usize {
        let depth = parent.and_then(|p| self.nodes.get(p)).map_or(0, |p| p.depth + 1);
        if let (Some(parent), true) = (parent, depth >= MAX_DEPTH) {
            return parent;
        }
        let next = self.nodes.len();
        let at = *self.known.entry((parent, name)).or_insert(next);
        if at == next {
            self.nodes.push(FlameNode { parent, name, depth, category, self_ns: 0, total_ns: 0, count: 0 });
        }
        at
    }

    fn add(&mut self, node: usize, ns: u64) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.self_ns = node.self_ns.saturating_add(ns);
        }
    }
}

impl FlameGraph {
    /// Merges the stacks of a trace. A device is a root frame; async spans, which have no callers, are left out.
    pub fn of(trace: &Trace) -> FlameGraph {
        let mut names = trace.names.clone();
        let mut builder = Builder { nodes: Vec::new(), known: HashMap::new() };
        // A device is a root frame of its own, so that its time is not mixed with threads.
        let mut roots: Vec<Option<usize>> = Vec::with_capacity(trace.tracks.len());
        for track in &trace.tracks {
            let device = track.kind == TrackKind::Device;
            roots.push(device.then(|| {
                names.push(track.name.clone().unwrap_or_else(|| format!("track {}", track.id)));
                names.len() - 1
            }));
        }
        let nests = |span: &&SpanRecord| trace.kind_of(span).is_some_and(|kind| kind != TrackKind::Async);
        let mut spans: Vec<&SpanRecord> = trace.spans.iter().filter(nests).collect();
        spans.sort_by_key(|s| (s.track, s.start_ns, s.depth, Reverse(s.end_ns())));
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut now = 0;
        for span in spans {
            let over = |top: &mut Open<'_>| {
                let (end, deeper) = (top.span.end_ns(), top.span.depth >= span.depth);
                top.span.track != span.track || end < span.start_ns || (end == span.start_ns && deeper)
            };
            while let Some(top) = open.pop_if(over) {
                close(&mut builder, &top, &mut now);
            }
            let parent = match open.last() {
                Some(around) => {
                    builder.add(around.node, span.start_ns.saturating_sub(now));
                    Some(around.node)
                }
                None => {
                    let root = roots.get(span.track as usize).copied().flatten();
                    root.map(|name| builder.node(None, name, Category::Gpu))
                }
            };
            now = span.start_ns;
            let node = builder.node(parent, span.name as usize, span.category);
            if let Some(node) = builder.nodes.get_mut(node) {
                node.count += 1;
            }
            open.push(Open { node, span });
        }
        while let Some(top) = open.pop() {
            close(&mut builder, &top, &mut now);
        }
        FlameGraph { names, nodes: builder.nodes }.finish()
    }

    /// Computes totals, drops zero-time nodes, sorts siblings.
    fn finish(mut self) -> FlameGraph {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.self_ns).collect();
        // Callers precede callees, so a reverse walk sees complete totals.
        for at in (0..self.nodes.len()).rev() {
            let total = totals.get(at).copied().unwrap_or(0);
            if let Some(parent) =
                self.nodes.get(at).and_then(|node| node.parent).and_then(|p| totals.get_mut(p))
            {
                *parent = parent.saturating_add(total);
            }
        }
        for (node, total) in self.nodes.iter_mut().zip(totals) {
            node.total_ns = total;
        }
        self.ordered(1)
    }

    /// Nodes of at least `least` nanoseconds in preorder, siblings by total time descending.
    fn ordered(&self, least: u64) -> FlameGraph {
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.total_ns >= least) {
            children.entry(node.parent).or_default().push(at);
        }
        let name = |at: usize| self.nodes.get(at).and_then(|n| self.names.get(n.name));
        for list in children.values_mut() {
            list.sort_by_key(|at| (self.nodes.get(*at).map(|n| Reverse(n.total_ns)), name(*at)));
            list.reverse();
        }
        let mut nodes: Vec<FlameNode> = Vec::new();
        let mut left: Vec<(Option<usize>, usize)> =
            children.remove(&None).unwrap_or_default().into_iter().map(|at| (None, at)).collect();
        while let Some((parent, at)) = left.pop() {
            let Some(node) = self.nodes.get(at) else { continue };
            let index = nodes.len();
            nodes.push(FlameNode { parent, ..node.clone() });
            left.extend(
                children.remove(&Some(at)).unwrap_or_default().into_iter().map(|child| (Some(index), child)),
            );
        }
        FlameGraph { names: self.names.clone(), nodes }
    }

    /// The `max` largest nodes; pruned ones still count in their callers' totals.
    pub fn largest(&self, max: usize) -> FlameGraph {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.total_ns).collect();
        if totals.len() <= max {
            return self.clone();
        }
        totals.sort_unstable_by_key(|ns| Reverse(*ns));
        let first_out = totals.get(max).copied().unwrap_or(0);
        self.ordered(first_out.saturating_add(1))
    }

    /// Total time of the roots.
    pub fn total_ns(&self) -> u64 {
        self.nodes.iter().filter(|n| n.parent.is_none()).map(|n| n.total_ns).fold(0, u64::saturating_add)
    }

    /// Call path from the root to the node.
    pub fn path(&self, node: usize) -> Vec<&str> {
        let up = |at: &usize| self.nodes.get(*at).and_then(|node| node.parent);
        let name =
            |at: usize| self.nodes.get(at).and_then(|n| self.names.get(n.name)).map_or("?", String::as_str);
        let mut path: Vec<&str> = std::iter::successors(Some(node), up).map(name).collect();
        path.reverse();
        path
    }

    /// Folded stacks with self time in nanoseconds: `caller;callee 123`, as flame graph tools read them.
    pub fn folded(&self) -> String {
        let mut out = String::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.self_ns > 0) {
            for (n, name) in self.path(at).into_iter().enumerate() {
                out.push_str(if n == 0 { "" } else { ";" });
                out.extend(name.chars().map(escape_folded));
            }
            let _ = writeln!(out, " {}", node.self_ns);
        }
        out
    }
}

/// Escapes the separators of folded stacks: semicolons and control characters.
fn escape_folded(c: char) -> char {
    match c {
        ';' => ':',
        c if c.is_control() => ' ',
        c => c,
    }
}

fn close(builder: &mut Builder, top: &Open<'_>, now: &mut u64) {
    let end = top.span.end_ns();
    if end > *now {
        builder.add(top.node, end - *now);
        *now = end;
    }
}
