//! Which cells matter most? Degree, closeness and betweenness of every cell, as NetworkX defines them.
//!
//! With `n` open cells: degree centrality is `degree/(n−1)`; closeness is `(r−1)/Σd · (r−1)/(n−1)` over the `r` cells of the
//! component (Wasserman and Faust); betweenness is the share of shortest paths of other pairs that lead through the cell,
//! divided by `(n−1)(n−2)/2` (Brandes 2001). Blocked cells have 0 throughout.

use gpuforge_ops::Threads;
use serde::Serialize;

use super::{Csr, LatticeError};

/// The most cells: there is a pass from each of them to all others.
pub const MOST_CENTRAL: u64 = 1 << 15;
/// Sources are shared out in so many portions whatever the number of threads, so that sums have one order.
const PORTIONS: usize = 64;

/// Three measures, one number per cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Centrality {
    /// Share of the other cells that are neighbours.
    pub degree: Vec<f64>,
    /// How near all the others are.
    pub closeness: Vec<f64>,
    /// How many shortest paths lead through it.
    pub betweenness: Vec<f64>,
}

/// All three for every cell.
pub fn centrality(graph: &Csr) -> Result<Centrality, LatticeError> {
    let n = graph.cells();
    if n as u64 > MOST_CENTRAL {
        return Err(LatticeError::TooLarge { what: "centrality", cells: n as u64, most: MOST_CENTRAL });
    }
    let others = graph.open_cells().saturating_sub(1) as f64;
    let mut portions: Vec<Portion> = (0..PORTIONS.min(n.max(1))).map(|_| Portion::new(n)).collect();
    let step = portions.len();
    Threads::all().each(portions.iter_mut().enumerate(), |(first, portion)| {
        let mut pass = Pass::new(n);
        for source in (first..n).step_by(step).filter(|s| graph.is_open(*s)) {
            pass.run(graph, source as u32);
            portion.add(source, &pass, others);
        }
    });
    let sum = |of: fn(&Portion) -> &Vec<f64>| -> Vec<f64> {
        let mut all = vec![0.0; n];
        for portion in &portions {
            all.iter_mut().zip(of(portion)).for_each(|(sum, one)| *sum += one);
        }
        all
    };
    let per = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
    let degree = (0..n).map(|c| per(graph.neighbours(c).len() as f64, others)).collect();
    // Every pair was met from both ends.
    let pairs = others * (others - 1.0);
    let betweenness = sum(|p| &p.through).into_iter().map(|b| per(b, pairs)).collect();
    Ok(Centrality { degree, closeness: sum(|p| &p.closeness), betweenness })
}

/// What some of the sources add up to.
struct Portion {
    through: Vec<f64>,
    closeness: Vec<f64>,
}

impl Portion {
    fn new(n: usize) -> Self {
        Portion { through: vec![0.0; n], closeness: vec![0.0; n] }
    }

    fn add(&mut self, source: usize, pass: &Pass, others: f64) {
        for cell in pass.order.iter().skip(1).map(|c| *c as usize) {
            let part = pass.part.get(cell).copied().unwrap_or(0.0);
            self.through.get_mut(cell).into_iter().for_each(|b| *b += part);
        }
        let reached = pass.order.len() as f64 - 1.0;
        let total: f64 = pass.order.iter().map(|c| f64::from(pass.at(*c))).sum();
        let closeness = if total > 0.0 { reached / total * (reached / others) } else { 0.0 };
        self.closeness.get_mut(source).into_iter().for_each(|c| *c = closeness);
    }
}

/// One breadth-first pass and its way back.
struct Pass {
    distance: Vec<u32>,
    /// Shortest paths from the source.
    paths: Vec<f64>,
    /// What depends on a cell.
    part: Vec<f64>,
    order: Vec<u32>,
}

impl Pass {
    fn new(n: usize) -> Self {
        Pass { distance: vec![u32::MAX; n], paths: vec![0.0; n], part: vec![0.0; n], order: Vec::new() }
    }

    fn at(&self, cell: u32) -> u32 {
        self.distance.get(cell as usize).copied().unwrap_or(u32::MAX)
    }

    fn run(&mut self, graph: &Csr, source: u32) {
        for cell in self.order.drain(..).map(|c| c as usize) {
            put(&mut self.distance, cell, u32::MAX);
            put(&mut self.paths, cell, 0.0);
            put(&mut self.part, cell, 0.0);
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
            let each = (1.0 + of(&self.part)) / of(&self.paths);
            for neighbour in graph.neighbours(cell as usize).iter().copied() {
                if self.at(neighbour) < self.at(cell) {
                    let paths = self.paths.get(neighbour as usize).copied().unwrap_or(0.0);
                    self.part.get_mut(neighbour as usize).into_iter().for_each(|p| *p += paths * each);
                }
            }
        }
    }
}

fn put<T>(values: &mut [T], at: usize, value: T) {
    values.get_mut(at).into_iter().zip(Some(value)).for_each(|(room, value)| *room = value);
}
