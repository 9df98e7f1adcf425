//! What is in a hyper-cubic grid, and how does one get from here to there?
//!
//! ```text
//!   Grid (shape, nothing stored) ─┬─► closed forms: counts, degrees, diameter, distances, paths, how many paths
//!   Blocked · Weights ─► Lattice ─┼─► Searcher: shortest paths          (A* by detours, bidirectional, weighted A*)
//!                                 ├─► Distances: one source, all cells  (an operation: processor or device)
//!                                 ├─► analyse: components, diameter or its bounds, degrees
//!                                 └─► Csr, petgraph: centrality, communities, whatever else wants a graph
//! ```
//! Cells are numbered row by row, the last axis fastest; neighbours differ by one step along one axis, and nothing wraps
//! around. A cell's number is all that is needed to find its neighbours, so that adjacency is made only when it is asked for.
//!
//! ```
//! use gpuforge_workloads::lattice::{Blocked, Grid, Lattice, Route, Searcher};
//! let grid = Grid::new(4, 10)?;
//! assert_eq!((grid.vertices(), grid.edges(), grid.diameter()), (10_000, 36_000, 36));
//! let lattice = Lattice::new(grid.clone()).block(Blocked::random(&grid, 0.2, 7, &[0, 9_999])?)?;
//! if let Route::Found(path) = Searcher::new().path(&lattice, 0, 9_999)? {
//!     assert!(path.cells.len() >= 37);
//! }
//! # Ok::<(), gpuforge_workloads::lattice::LatticeError>(())
//! ```

pub mod analyse;
pub mod batch;
mod bidirectional;
mod calendar;
mod cells;
pub mod central;
pub mod community;
pub mod count;
pub mod csr;
pub mod distances;
mod error;
mod flood;
mod grid;
pub mod search;
pub mod svg;
mod weighted;
mod weights;
mod xor;

pub use analyse::{Analysis, analyse};
pub use cells::{Blocked, parse_cell, parse_cells};
pub use count::{Count, count_paths};
pub use csr::Csr;
pub use distances::Distances;
pub use error::LatticeError;
pub use grid::Grid;
pub use search::{Method, NoPath, Path, Route, Searcher, Strategy};
pub use weights::Weights;
pub use xor::{KEY_BYTES, xor_transform};

/// A grid with cells that cannot be entered and costs of those that can.
#[derive(Debug, Clone, PartialEq)]
pub struct Lattice {
    grid: Grid,
    blocked: Option<Blocked>,
    weights: Option<Weights>,
}

impl Lattice {
    /// All cells open, every step costs 1.
    pub fn new(grid: Grid) -> Self {
        Lattice { grid, blocked: None, weights: None }
    }

    /// With these cells blocked, instead of any others.
    pub fn block(self, blocked: Blocked) -> Result<Self, LatticeError> {
        self.fits("blocked cells", blocked.cells())?;
        Ok(Lattice { blocked: Some(blocked).filter(|b| b.count() > 0), ..self })
    }

    /// With these costs of entering a cell.
    pub fn weigh(self, weights: Weights) -> Result<Self, LatticeError> {
        self.fits("weights", weights.values().len() as u64)?;
        Ok(Lattice { weights: Some(weights), ..self })
    }

    fn fits(&self, what: &'static str, have: u64) -> Result<(), LatticeError> {
        let want = self.grid.vertices();
        if have == want { Ok(()) } else { Err(LatticeError::Length { what, have, want }) }
    }

    /// Its shape.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Cells that cannot be entered; `None` when all can.
    pub fn blocked(&self) -> Option<&Blocked> {
        self.blocked.as_ref()
    }

    /// Costs of entering cells; `None` when each costs 1.
    pub fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// Cells that can be entered.
    pub fn open_cells(&self) -> u64 {
        self.grid.vertices() - self.blocked.as_ref().map_or(0, Blocked::count)
    }

    /// Can this cell be entered?
    pub fn is_open(&self, cell: u64) -> bool {
        cell < self.grid.vertices() && self.blocked.as_ref().is_none_or(|b| !b.contains(cell))
    }

    /// An end of a path must be there and open.
    pub(crate) fn end(&self, what: &'static str, cell: u64) -> Result<(), LatticeError> {
        let cells = self.grid.vertices();
        if cell >= cells {
            return Err(LatticeError::Outside { what, cell, cells });
        }
        if self.is_open(cell) { Ok(()) } else { Err(LatticeError::BlockedEnd { what, cell }) }
    }
}

/// Numbers that look random and are the same for a seed everywhere: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same as a share of one.
pub(crate) fn share(seed: u64, at: u64) -> f64 {
    (mix(seed, at) >> 11) as f64 / (1u64 << 53) as f64
}
