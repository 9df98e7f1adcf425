//! Graph export: CSR adjacency, or a petgraph graph.
//!
//! Cells keep their numbers; blocked ones are isolated nodes.

use petgraph::graph::{DiGraph, NodeIndex, UnGraph};

use super::{Lattice, LatticeError};

/// Most cells of a CSR graph: 36 bytes each in four dimensions.
pub const MAX_BUILT: u64 = 1 << 26;
/// Most cells of a petgraph graph, which takes several times as much.
pub const MAX_PETGRAPH: u64 = 1 << 23;

/// CSR adjacency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csr {
    offsets: Vec<u64>,
    targets: Vec<u32>,
    open: Vec<bool>,
}

impl Csr {
    /// Builds the adjacency of a lattice, without weights.
    pub fn build(lattice: &Lattice) -> Result<Self, LatticeError> {
        let cells = check(lattice, "neighbour lists", MAX_BUILT)?;
        let mut csr =
            Csr { offsets: Vec::with_capacity(cells as usize + 1), targets: Vec::new(), open: Vec::new() };
        csr.offsets.push(0);
        csr.targets.reserve_exact((lattice.grid().edges() * 2) as usize);
        for cell in 0..cells {
            let open = lattice.is_open(cell);
            csr.open.push(open);
            if open {
                let open = lattice.grid().neighbours(cell).filter(|n| lattice.is_open(*n));
                csr.targets.extend(open.map(|n| n as u32));
            }
            csr.offsets.push(csr.targets.len() as u64);
        }
        Ok(csr)
    }

    /// Number of cells, including blocked ones.
    pub fn cells(&self) -> usize {
        self.open.len()
    }

    /// Number of open cells.
    pub fn open_cells(&self) -> usize {
        self.open.iter().filter(|open| **open).count()
    }

    /// Is this cell open?
    pub fn is_open(&self, cell: usize) -> bool {
        self.open.get(cell).copied().unwrap_or(false)
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.targets.len() / 2
    }

    /// Neighbours of a cell; empty for a cell out of range.
    #[inline]
    pub fn neighbours(&self, cell: usize) -> &[u32] {
        let range = self.offsets.get(cell).zip(self.offsets.get(cell + 1));
        range.and_then(|(a, b)| self.targets.get(*a as usize..*b as usize)).unwrap_or_default()
    }
}

fn check(lattice: &Lattice, what: &'static str, most: u64) -> Result<u64, LatticeError> {
    let cells = lattice.grid().vertices();
    if cells > most { Err(LatticeError::TooLarge { what, cells, most }) } else { Ok(cells) }
}

/// The lattice as an undirected petgraph graph, without weights. A node's index is its cell number.
pub fn petgraph(lattice: &Lattice) -> Result<UnGraph<(), ()>, LatticeError> {
    let cells = check(lattice, "a graph of petgraph", MAX_PETGRAPH)?;
    let mut graph = UnGraph::with_capacity(cells as usize, lattice.grid().edges() as usize);
    for _ in 0..cells {
        graph.add_node(());
    }
    for (from, to) in pairs(lattice, cells).filter(|(a, b)| a < b) {
        graph.add_edge(NodeIndex::new(from as usize), NodeIndex::new(to as usize), ());
    }
    Ok(graph)
}

/// The lattice as a directed petgraph graph: an edge costs what entering its target costs, 1 without weights.
pub fn petgraph_weighted(lattice: &Lattice) -> Result<DiGraph<(), f64>, LatticeError> {
    let cells = check(lattice, "a graph of petgraph", MAX_PETGRAPH)?;
    let weights = lattice.weights().map(|w| w.values()).unwrap_or_default();
    let mut graph = DiGraph::with_capacity(cells as usize, 2 * lattice.grid().edges() as usize);
    for _ in 0..cells {
        graph.add_node(());
    }
    for (from, to) in pairs(lattice, cells) {
        let weight = weights.get(to as usize).copied().unwrap_or(1.0);
        graph.add_edge(NodeIndex::new(from as usize), NodeIndex::new(to as usize), weight);
    }
    Ok(graph)
}

/// Every pair of open neighbours, both ways.
fn pairs(lattice: &Lattice, cells: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let open = (0..cells).filter(|c| lattice.is_open(*c));
    open.flat_map(|c| lattice.grid().neighbours(c).filter(|n| lattice.is_open(*n)).map(move |n| (c, n)))
}
