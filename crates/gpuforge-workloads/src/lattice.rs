//! Hyper-cubic lattices: path finding (A*, bidirectional BFS, Dijkstra), distances, components, centrality and communities.
//!
//! ```text
//!   Grid (shape, nothing stored) ─┬─► closed forms: counts, degrees, diameter, distances, paths, path counts
//!   Blocked · Weights ─► Lattice ─┼─► Searcher: shortest paths          (A*, bidirectional BFS, weighted A*)
//!                                 ├─► Distances: one source, all cells  (an operation: CPU or device)
//!                                 ├─► analyse: components, diameter or its bounds, degrees
//!                                 └─► Csr, petgraph: centrality, communities, any graph algorithm
//! ```
//! Cells are numbered in row-major order; neighbours differ by one step along one axis, without wrap-around. Neighbours follow from
//! the cell number, so adjacency is only built when it is asked for.
//!
//! ```
//! use gpuforge_workloads::lattice::{Blocked, Grid, Lattice, SearchResult, Searcher};
//! let grid = Grid::new(4, 10)?;
//! assert_eq!((grid.vertices(), grid.edges(), grid.diameter()), (10_000, 36_000, 36));
//! let lattice = Lattice::new(grid.clone()).block(Blocked::random(&grid, 0.2, 7, &[0, 9_999])?)?;
//! if let SearchResult::Found(path) = Searcher::new().path(&lattice, 0, 9_999)? {
//!     assert!(path.cells.len() >= 37);
//! }
//! # Ok::<(), gpuforge_workloads::lattice::LatticeError>(())
//! ```

pub mod analyse;
pub mod batch;
mod bfs;
mod bidirectional;
mod blocked;
mod calendar_queue;
pub mod centrality;
pub mod community;
pub mod csr;
pub mod distances;
mod error;
mod grid;
pub mod path_count;
pub mod search;
pub mod svg;
mod weighted_astar;
mod weights;
mod xor;

pub use analyse::{Analysis, analyse};
pub use blocked::{Blocked, parse_cell, parse_cells};
pub use csr::Csr;
pub use distances::Distances;
pub use error::LatticeError;
pub use grid::Grid;
pub use path_count::{PathCount, count_paths};
pub use search::{LatticePath, NoPath, SearchMethod, SearchResult, SearchStrategy, Searcher};
pub use weights::Weights;
pub use xor::{KEY_BYTES, xor_transform};

/// A grid with blocked cells and cell weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Lattice {
    grid: Grid,
    blocked: Option<Blocked>,
    weights: Option<Weights>,
}

impl Lattice {
    /// All cells open, unit weights.
    pub fn new(grid: Grid) -> Self {
        Lattice { grid, blocked: None, weights: None }
    }

    /// Sets the blocked cells.
    pub fn block(self, blocked: Blocked) -> Result<Self, LatticeError> {
        self.check_length("blocked cells", blocked.cells())?;
        Ok(Lattice { blocked: Some(blocked).filter(|b| b.count() > 0), ..self })
    }

    /// Sets the weights.
    pub fn weigh(self, weights: Weights) -> Result<Self, LatticeError> {
        self.check_length("weights", weights.values().len() as u64)?;
        Ok(Lattice { weights: Some(weights), ..self })
    }

    fn check_length(&self, what: &'static str, have: u64) -> Result<(), LatticeError> {
        let want = self.grid.vertices();
        if have == want { Ok(()) } else { Err(LatticeError::Length { what, have, want }) }
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Blocked cells; `None` when there are none.
    pub fn blocked(&self) -> Option<&Blocked> {
        self.blocked.as_ref()
    }

    /// Weights; `None` when each cell costs 1.
    pub fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// Number of open cells.
    pub fn open_cells(&self) -> u64 {
        self.grid.vertices() - self.blocked.as_ref().map_or(0, Blocked::count)
    }

    /// Is this cell open?
    pub fn is_open(&self, cell: u64) -> bool {
        cell < self.grid.vertices() && self.blocked.as_ref().is_none_or(|b| !b.contains(cell))
    }

    /// Checks that an end of a path exists and is open.
    pub(crate) fn check_end(&self, what: &'static str, cell: u64) -> Result<(), LatticeError> {
        let cells = self.grid.vertices();
        if cell >= cells {
            return Err(LatticeError::Outside { what, cell, cells });
        }
        if self.is_open(cell) { Ok(()) } else { Err(LatticeError::BlockedEnd { what, cell }) }
    }
}

/// SplitMix64 finalizer (Steele, Lea, Flood 2014): deterministic pseudo-random numbers per seed.
pub(crate) fn mix(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in [0, 1).
pub(crate) fn unit_random(seed: u64, at: u64) -> f64 {
    (mix(seed, at) >> 11) as f64 / (1u64 << 53) as f64
}
