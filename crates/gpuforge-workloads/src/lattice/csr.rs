//! What does a lattice look like as a graph? Neighbour lists in one array, or a graph of petgraph.
//!
//! Cells keep their numbers; blocked ones are there and have no neighbours.

use petgraph::graph::{DiGraph, NodeIndex, UnGraph};

use super::{Lattice, LatticeError};

/// The most cells that are written out: neighbour lists of 4-dimensional cells take 36 bytes each.
pub const MOST_BUILT: u64 = 1 << 26;
/// The most cells of a graph of petgraph, which takes several times as much.
pub const MOST_PETGRAPH: u64 = 1 << 23;

/// Neighbour lists one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csr {
    offsets: Vec<u64>,
    targets: Vec<u32>,
    open: Vec<bool>,
}

impl Csr {
    /// Neighbour lists of a lattice; weights are no part of them.
    pub fn build(lattice: &Lattice) -> Result<Self, LatticeError> {
        let cells = check(lattice, "neighbour lists", MOST_BUILT)?;
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

    /// How many cells, blocked ones among them.
    pub fn cells(&self) -> usize {
        self.open.len()
    }

    /// How many cells are open.
    pub fn open_cells(&self) -> usize {
        self.open.iter().filter(|open| **open).count()
    }

    /// Is this cell open?
    pub fn is_open(&self, cell: usize) -> bool {
        self.open.get(cell).copied().unwrap_or(false)
    }

    /// How many pairs of neighbours.
    pub fn edges(&self) -> usize {
        self.targets.len() / 2
    }

    /// Neighbours of a cell; none of one that is not there.
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

/// The lattice as an undirected graph of petgraph, without weights. A node's index is its cell's number.
pub fn petgraph(lattice: &Lattice) -> Result<UnGraph<(), ()>, LatticeError> {
    let cells = check(lattice, "a graph of petgraph", MOST_PETGRAPH)?;
    let mut graph = UnGraph::with_capacity(cells as usize, lattice.grid().edges() as usize);
    for _ in 0..cells {
        graph.add_node(());
    }
    for (from, to) in pairs(lattice, cells).filter(|(a, b)| a < b) {
        graph.add_edge(NodeIndex::new(from as usize), NodeIndex::new(to as usize), ());
    }
    Ok(graph)
}

/// The lattice as a directed graph of petgraph: an edge costs what entering its target costs, 1 where there are no weights.
pub fn petgraph_weighted(lattice: &Lattice) -> Result<DiGraph<(), f64>, LatticeError> {
    let cells = check(lattice, "a graph of petgraph", MOST_PETGRAPH)?;
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
