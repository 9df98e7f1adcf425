//! Centrality: degree, closeness and betweenness (Brandes) of every cell, as NetworkX defines them.
//!
//! With `n` open cells: degree centrality is `degree/(n−1)`; closeness is `(r−1)/Σd · (r−1)/(n−1)` over the `r` cells of the
//! component (Wasserman and Faust); betweenness is the share of shortest paths of other pairs that lead through the cell,
//! divided by `(n−1)(n−2)/2` (Brandes 2001). Blocked cells have 0 throughout.

use gpuforge_ops::Threads;
use serde::Serialize;

use super::{Csr, LatticeError};

/// Most cells: one BFS per cell.
pub const MAX_CENTRAL: u64 = 1 << 15;
/// Sources are split into a fixed number of chunks whatever the number of threads, so that sums have one order.
const CHUNKS: usize = 64;

/// Three measures per cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Centrality {
    /// Degree centrality.
    pub degree: Vec<f64>,
    /// Closeness centrality.
    pub closeness: Vec<f64>,
    /// Betweenness centrality.
    pub betweenness: Vec<f64>,
}

/// All three for every cell.
pub fn centrality(graph: &Csr) -> Result<Centrality, LatticeError> {
    let n = graph.cells();
    if n as u64 > MAX_CENTRAL {
        return Err(LatticeError::TooLarge { what: "centrality", cells: n as u64, most: MAX_CENTRAL });
    }
    let others = graph.open_cells().saturating_sub(1) as f64;
    let mut partials: Vec<PartialSums> = (0..CHUNKS.min(n.max(1))).map(|_| PartialSums::new(n)).collect();
    let step = partials.len();
    Threads::all().par_for_each(partials.iter_mut().enumerate(), |(first, partial)| {
        let mut pass = BrandesPass::new(n);
        for source in (first..n).step_by(step).filter(|s| graph.is_open(*s)) {
            pass.run(graph, source as u32);
            partial.add(source, &pass, others);
        }
    });
    let sum = |of: fn(&PartialSums) -> &Vec<f64>| -> Vec<f64> {
        let mut all = vec![0.0; n];
        for partial in &partials {
            all.iter_mut().zip(of(partial)).for_each(|(sum, one)| *sum += one);
        }
        all
    };
    let per = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
    let degree = (0..n).map(|c| per(graph.neighbours(c).len() as f64, others)).collect();
    // Every pair was counted from both ends.
    let pairs = others * (others - 1.0);
    let betweenness = sum(|p| &p.through).into_iter().map(|b| per(b, pairs)).collect();
    Ok(Centrality { degree, closeness: sum(|p| &p.closeness), betweenness })
}

/// Partial sums of a chunk of sources.
struct PartialSums {
    through: Vec<f64>,
    closeness: Vec<f64>,
}

impl PartialSums {
    fn new(n: usize) -> Self {
        PartialSums { through: vec![0.0; n], closeness: vec![0.0; n] }
    }

    fn add(&mut self, source: usize, pass: &BrandesPass, others: f64) {
        for cell in pass.order.iter().skip(1).map(|c| *c as usize) {
            let dependency = pass.dependency.get(cell).copied().unwrap_or(0.0);
            self.through.get_mut(cell).into_iter().for_each(|b| *b += dependency);
        }
        let reached = pass.order.len() as f64 - 1.0;
        let total: f64 = pass.order.iter().map(|c| f64::from(pass.at(*c))).sum();
        let closeness = if total > 0.0 { reached / total * (reached / others) } else { 0.0 };
        self.closeness.get_mut(source).into_iter().for_each(|c| *c = closeness);
    }
}

/// One BFS and its back-propagation (Brandes).
struct BrandesPass {
    distance: Vec<u32>,
    /// Number of shortest paths from the source.
    paths: Vec<f64>,
    /// Dependency of the source on a cell.
    dependency: Vec<f64>,
    order: Vec<u32>,
}

impl BrandesPass {
    fn new(n: usize) -> Self {
        BrandesPass {
            distance: vec![u32::MAX; n],
            paths: vec![0.0; n],
            dependency: vec![0.0; n],
            order: Vec::new(),
        }
    }

    fn at(&self, cell: u32) -> u32 {
        self.distance.get(cell as usize).copied().unwrap_or(u32::MAX)
    }

    fn run(&mut self, graph: &Csr, source: u32) {
        for cell in self.order.drain(..).map(|c| c as usize) {
            put(&mut self.distance, cell, u32::MAX);
            put(&mut self.paths, cell, 0.0);
            put(&mut self.dependency, cell, 0.0);
        }
        put(&mut self.distance, source as usize, 0);
        put(&mut self.paths, source as usize, 1.0);
        self.order.push(source);
        let mut head = 0;
        while let Some(cell) = self.order.get(head).copied() {
            head += 1;
            let (next, paths) = (self.at(cell) + 1, self.paths.get(cell as usize).copied().unwrap_or(0.0));
            for neighbour in graph.neighbours(cell as usize).iter().copied() {
                if self.at(neighbour) == u32::MAX {
                    put(&mut self.distance, neighbour as usize, next);
                    self.order.push(neighbour);
                }
                if self.at(neighbour) == next {
                    self.paths.get_mut(neighbour as usize).into_iter().for_each(|p| *p += paths);
                }
            }
        }
        for cell in self.order.iter().rev().copied() {
            let of = |values: &[f64]| values.get(cell as usize).copied().unwrap_or(0.0);
            let each = (1.0 + of(&self.dependency)) / of(&self.paths);
            for neighbour in graph.neighbours(cell as usize).iter().copied() {
                if self.at(neighbour) < self.at(cell) {
                    let paths = self.paths.get(neighbour as usize).copied().unwrap_or(0.0);
                    self.dependency.get_mut(neighbour as usize).into_iter().for_each(|p| *p += paths * each);
                }
            }
        }
    }
}

fn put<T>(values: &mut [T], at: usize, value: T) {
    values.get_mut(at).into_iter().zip(Some(value)).for_each(|(slot, value)| *slot = value);
}
