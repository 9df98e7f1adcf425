//! Lattice errors: each names the thing and its limit.

use gpuforge_ops::OpError;

use super::grid::MAX_DIMS;

/// Why a lattice operation failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LatticeError {
    /// Too few or too many axes.
    #[error("a lattice of {0} dimensions: there must be between 1 and {MAX_DIMS}")]
    Dims(usize),
    /// An axis without points.
    #[error("axis {axis} has size 0: at least 1 point is needed")]
    Empty {
        /// Which, counted from 0.
        axis: usize,
    },
    /// More cells than can be numbered.
    #[error(
        "sizes {sizes:?} give more than 2^64 - 1 cells, which cannot be numbered: lower the size or the dimensions"
    )]
    Overflow {
        /// Points per axis.
        sizes: Vec<u64>,
    },
    /// More cells than this computation holds in memory.
    #[error("{what} of {cells} cells: at most {most}; closed forms have no such limit")]
    TooLarge {
        /// What was asked.
        what: &'static str,
        /// How many cells there are.
        cells: u64,
        /// How many there may be.
        most: u64,
    },
    /// A cell out of range.
    #[error("the {what} is cell {cell}: the lattice has {cells}, numbered from 0")]
    Outside {
        /// Start, goal, source or blocked cell.
        what: &'static str,
        /// Its number.
        cell: u64,
        /// How many there are.
        cells: u64,
    },
    /// A path cannot begin or end there.
    #[error("the {what}, cell {cell}, is blocked: choose an open cell or unblock it")]
    BlockedEnd {
        /// Start, goal or source.
        what: &'static str,
        /// Its number.
        cell: u64,
    },
    /// Coordinates that are no cell.
    #[error("coordinates {coordinates:?} are outside the lattice of sizes {sizes:?}, counted from 0")]
    Coordinates {
        /// What was given.
        coordinates: Vec<u64>,
        /// Points per axis.
        sizes: Vec<u64>,
    },
    /// A text that names no cell.
    #[error("line {line}: {text:?} is no cell: give its number (17) or its coordinates (1,7)")]
    Cell {
        /// Where, counted from 1.
        line: usize,
        /// What was given.
        text: String,
    },
    /// A text that is no weight.
    #[error("line {line}: {text:?} is no weight: give a number that is not negative")]
    WeightText {
        /// Where, counted from 1.
        line: usize,
        /// What was given.
        text: String,
    },
    /// A cost that shortest paths cannot have.
    #[error("the weight of cell {cell} is {weight}: it must be finite and not negative")]
    Weight {
        /// Which cell.
        cell: u64,
        /// What it is.
        weight: f64,
    },
    /// Bounds of random weights.
    #[error(
        "random weights between {low} and {high}: both must be finite and not negative, the lower one first"
    )]
    WeightRange {
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// Not one entry per cell.
    #[error("{have} {what} for {want} cells: there must be one per cell")]
    Length {
        /// Weights or blocked cells.
        what: &'static str,
        /// How many there are.
        have: u64,
        /// How many there must be.
        want: u64,
    },
    /// A share of blocked cells.
    #[error("a share of {0} blocked cells: it must be between 0 and 1")]
    Share(f64),
    /// Paths of equal cost are not counted.
    #[error("the lattice has weights: shortest paths are counted by steps, count them without weights")]
    Weighted,
    /// The operating system gave no random key.
    #[error("no random key: {0}; give a key")]
    NoKey(String),
    /// Only lattices of one or two dimensions can be drawn.
    #[error("a lattice of {dims} dimensions cannot be drawn: only 1 and 2 can, of at most {most} cells")]
    NotFlat {
        /// How many axes it has.
        dims: usize,
        /// The most cells of a picture.
        most: u64,
    },
    /// An operation underneath.
    #[error(transparent)]
    Op(#[from] OpError),
}
