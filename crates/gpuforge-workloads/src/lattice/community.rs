//! Community detection: Louvain modularity optimisation (Blondel, Guillaume, Lambiotte, Lefebvre 2008).
//!
//! Nodes are visited in a seeded random order, and ties go to the smaller label: deterministic per seed.

use serde::Serialize;

use super::{Csr, LatticeError, mix};

/// The most cells.
pub const MAX_COMMUNITIES: u64 = 1 << 22;
/// Sweeps over all nodes per level; gains are tiny long before.
const MAX_SWEEPS: usize = 64;
/// Smallest gain of a move, above rounding.
const MIN_GAIN: f64 = 1e-12;

/// Communities of a graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Communities {
    /// Community of each cell, numbered from 0 in cell order; `None` for a blocked cell.
    pub labels: Vec<Option<u32>>,
    /// Number of communities.
    pub count: usize,
    /// Modularity; `None` without edges.
    pub modularity: Option<f64>,
}

/// Graph of one level: nodes are the communities of the level before.
struct Level {
    offsets: Vec<usize>,
    edges: Vec<(u32, f64)>,
    /// Self-loop weight of a node, counted from both ends.
    inner: Vec<f64>,
}

/// Communities of a graph.
pub fn communities(graph: &Csr, seed: u64) -> Result<Communities, LatticeError> {
    let n = graph.cells();
    if n as u64 > MAX_COMMUNITIES {
        return Err(LatticeError::TooLarge { what: "communities", cells: n as u64, most: MAX_COMMUNITIES });
    }
    let mut level = Level::of(graph);
    let mut labels: Vec<u32> = (0..n as u32).collect();
    let mut round = 0;
    loop {
        let (moved, found) = level.local_moving(mix(seed, round));
        let found = renumbered(&found);
        labels.iter_mut().for_each(|l| *l = found.get(*l as usize).copied().unwrap_or(*l));
        if !moved {
            break;
        }
        level = level.aggregate(&found);
        round += 1;
    }
    let modularity = modularity(graph, &labels);
    let mut names = std::collections::HashMap::new();
    let mut name = |(cell, label): (usize, &u32)| {
        let next = names.len() as u32;
        graph.is_open(cell).then(|| *names.entry(*label).or_insert(next))
    };
    let labels: Vec<Option<u32>> = labels.iter().enumerate().map(&mut name).collect();
    Ok(Communities { labels, count: names.len(), modularity })
}

/// Labels renumbered from 0 in order of appearance.
fn renumbered(labels: &[u32]) -> Vec<u32> {
    let mut names = vec![u32::MAX; labels.len()];
    let mut next = 0;
    let mut name = |label: &u32| match names.get_mut(*label as usize) {
        Some(name) => {
            if *name == u32::MAX {
                *name = next;
                next += 1;
            }
            *name
        }
        None => 0,
    };
    labels.iter().map(&mut name).collect()
}

impl Level {
    fn of(graph: &Csr) -> Level {
        let n = graph.cells();
        let mut level =
            Level { offsets: vec![0], edges: Vec::with_capacity(2 * graph.edges()), inner: vec![0.0; n] };
        for cell in 0..n {
            level.edges.extend(graph.neighbours(cell).iter().map(|t| (*t, 1.0)));
            level.offsets.push(level.edges.len());
        }
        level
    }

    fn nodes(&self) -> usize {
        self.inner.len()
    }

    fn neighbours(&self, node: usize) -> &[(u32, f64)] {
        let range = self.offsets.get(node).zip(self.offsets.get(node + 1));
        range.and_then(|(a, b)| self.edges.get(*a..*b)).unwrap_or_default()
    }

    fn inner(&self, node: usize) -> f64 {
        self.inner.get(node).copied().unwrap_or(0.0)
    }

    /// Local moving: moves nodes to the neighbouring community with the largest gain until none moves. Did any move, and the labels.
    fn local_moving(&self, seed: u64) -> (bool, Vec<u32>) {
        let n = self.nodes();
        let strength: Vec<f64> =
            (0..n).map(|v| self.inner(v) + self.neighbours(v).iter().map(|(_, w)| w).sum::<f64>()).collect();
        let all: f64 = strength.iter().sum();
        let mut labels: Vec<u32> = (0..n as u32).collect();
        let mut total = strength.clone();
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|v| mix(seed, u64::from(*v)));
        let mut links = Links { weight: vec![0.0; n], touched: Vec::new() };
        let mut ever = false;
        for _ in 0..MAX_SWEEPS {
            let mut moved = false;
            for v in order.iter().map(|v| *v as usize) {
                let (own, mine) =
                    (labels.get(v).copied().unwrap_or(0), strength.get(v).copied().unwrap_or(0.0));
                links.gather(self.neighbours(v), &labels, v, own);
                total.get_mut(own as usize).into_iter().for_each(|t| *t -= mine);
                let best = links.best(&total, own, mine / all);
                total.get_mut(best as usize).into_iter().for_each(|t| *t += mine);
                if best != own {
                    labels.get_mut(v).into_iter().for_each(|l| *l = best);
                    moved = true;
                }
            }
            ever |= moved;
            if !moved {
                break;
            }
        }
        (ever, labels)
    }

    /// Aggregation: the graph whose nodes are these communities.
    fn aggregate(&self, labels: &[u32]) -> Level {
        let count = labels.iter().max().map_or(0, |m| *m as usize + 1);
        let mut inner = vec![0.0; count];
        let mut all: Vec<(u32, u32, f64)> = Vec::with_capacity(self.edges.len());
        for (v, own) in labels.iter().enumerate() {
            let mut within = self.inner(v);
            for (to, weight) in self.neighbours(v) {
                match labels.get(*to as usize) {
                    Some(other) if other != own => all.push((*own, *other, *weight)),
                    _ => within += weight,
                }
            }
            inner.get_mut(*own as usize).into_iter().for_each(|i| *i += within);
        }
        all.sort_by_key(|(a, b, _)| (*a, *b));
        let mut merged = Level { offsets: vec![0], edges: Vec::new(), inner };
        let mut next = all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).peekable();
        for node in 0..count as u32 {
            while let Some(same) = next.next_if(|same| same.first().is_some_and(|(a, ..)| *a == node)) {
                let to = same.first().map_or(0, |(_, b, _)| *b);
                merged.edges.push((to, same.iter().map(|(.., w)| w).sum()));
            }
            merged.offsets.push(merged.edges.len());
        }
        merged
    }
}

/// Edge weight from a node to each neighbouring community.
struct Links {
    weight: Vec<f64>,
    touched: Vec<u32>,
}

impl Links {
    fn gather(&mut self, neighbours: &[(u32, f64)], labels: &[u32], v: usize, own: u32) {
        for label in self.touched.drain(..) {
            self.weight.get_mut(label as usize).into_iter().for_each(|w| *w = 0.0);
        }
        self.touched.push(own);
        for (to, weight) in neighbours.iter().filter(|(to, _)| *to as usize != v) {
            let Some(label) = labels.get(*to as usize) else { continue };
            if let Some(sum) = self.weight.get_mut(*label as usize) {
                if *sum == 0.0 && *label != own {
                    self.touched.push(*label);
                }
                *sum += weight;
            }
        }
    }

    /// The community with the largest gain; its own unless another is better.
    fn best(&self, total: &[f64], own: u32, share: f64) -> u32 {
        let gain = |label: u32| {
            let of = |values: &[f64]| values.get(label as usize).copied().unwrap_or(0.0);
            of(&self.weight) - of(total) * share
        };
        let mut best = (gain(own) + MIN_GAIN, own);
        for label in self.touched.iter().copied().filter(|l| *l != own) {
            let gain = gain(label);
            if gain > best.0 || (gain == best.0 && best.1 != own && label < best.1) {
                best = (gain, label);
            }
        }
        best.1
    }
}

/// `Σ_c (inside_c / 2m − (strength_c / 2m)²)`.
fn modularity(graph: &Csr, labels: &[u32]) -> Option<f64> {
    let all = 2.0 * graph.edges() as f64;
    let mut strength = vec![0.0; labels.len()];
    let mut inside = 0.0;
    for (cell, label) in labels.iter().enumerate() {
        let neighbours = graph.neighbours(cell);
        strength.get_mut(*label as usize).into_iter().for_each(|s| *s += neighbours.len() as f64);
        inside += neighbours.iter().filter(|t| labels.get(**t as usize) == Some(label)).count() as f64;
    }
    let chance: f64 = strength.iter().map(|s: &f64| (s / all).powi(2)).sum();
    (all > 0.0).then(|| inside / all - chance)
}
