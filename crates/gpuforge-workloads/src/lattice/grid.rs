//! Grid geometry: cell numbering, neighbours, and closed forms (edges, degrees, diameter, distances).
//!
//! Closed forms for sizes `s_1 … s_d` (a cube has all equal to `s`): `V = Π s_i`, `E = Σ (s_i − 1)·V/s_i`, mean degree `2E/V`,
//! diameter `Σ (s_i − 1)`, distance = L1, density `2E / (V(V−1))`; a grid has no triangles, so that clustering is 0.

use super::LatticeError;

/// Most axes; with two points each, more cells could not be numbered anyway.
pub(super) const MAX_DIMS: usize = 63;

/// The shape of a lattice. Holds two numbers per axis and nothing per cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grid {
    axes: Vec<Axis>,
    vertices: u64,
}

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Axis {
    /// Points along it.
    pub(crate) size: u64,
    /// Difference of cell numbers between neighbours along it.
    pub(crate) stride: u64,
}

impl Grid {
    /// `dims` axes of `size` points each.
    pub fn new(dims: usize, size: u64) -> Result<Self, LatticeError> {
        if !(1..=MAX_DIMS).contains(&dims) {
            return Err(LatticeError::Dims(dims));
        }
        Grid::rectangular(&vec![size; dims])
    }

    /// Axes of different sizes.
    pub fn rectangular(sizes: &[u64]) -> Result<Self, LatticeError> {
        if !(1..=MAX_DIMS).contains(&sizes.len()) {
            return Err(LatticeError::Dims(sizes.len()));
        }
        if let Some(axis) = sizes.iter().position(|s| *s == 0) {
            return Err(LatticeError::Empty { axis });
        }
        let mut axes = Vec::with_capacity(sizes.len());
        let mut stride = 1u64;
        for size in sizes.iter().rev() {
            axes.push(Axis { size: *size, stride });
            let more = || LatticeError::Overflow { sizes: sizes.to_vec() };
            stride = stride.checked_mul(*size).ok_or_else(more)?;
        }
        axes.reverse();
        Ok(Grid { axes, vertices: stride })
    }

    /// Number of axes.
    pub fn dims(&self) -> usize {
        self.axes.len()
    }

    /// Points per axis.
    pub fn sizes(&self) -> Vec<u64> {
        self.axes.iter().map(|a| a.size).collect()
    }

    pub(crate) fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Number of cells.
    pub fn vertices(&self) -> u64 {
        self.vertices
    }

    /// Number of edges.
    pub fn edges(&self) -> u128 {
        self.axes.iter().map(|a| u128::from(a.size - 1) * u128::from(self.vertices / a.size)).sum()
    }

    /// Mean degree.
    pub fn mean_degree(&self) -> f64 {
        2.0 * self.edges() as f64 / self.vertices as f64
    }

    /// Diameter, saturating.
    pub fn diameter(&self) -> u64 {
        self.axes.iter().fold(0, |sum, a| sum.saturating_add(a.size - 1))
    }

    /// Edge density; `None` for a single cell.
    pub fn density(&self) -> Option<f64> {
        let v = self.vertices as f64;
        (self.vertices > 1).then(|| 2.0 * self.edges() as f64 / (v * (v - 1.0)))
    }

    /// Degree histogram: cells with 0, 1, 2, … neighbours.
    pub fn degrees(&self) -> Vec<u64> {
        // The degree is a sum over axes: 0 for an axis of one point, else 1 at both ends and 2 between. Convolved axis by axis.
        let mut counts = vec![1u64];
        for axis in &self.axes {
            let (ends, inner) = if axis.size == 1 { (0, 0) } else { (2, axis.size - 2) };
            let mut next = vec![0u64; counts.len() + 2];
            for (degree, count) in counts.iter().enumerate() {
                for (more, times) in [(0, u64::from(axis.size == 1)), (1, ends), (2, inner)] {
                    if let Some(n) = next.get_mut(degree + more) {
                        *n += count * times;
                    }
                }
            }
            counts = next;
        }
        while counts.len() > 1 && counts.last() == Some(&0) {
            counts.pop();
        }
        counts
    }

    /// Coordinates of a cell.
    pub fn coordinates(&self, cell: u64) -> Result<Vec<u64>, LatticeError> {
        let cells = self.vertices;
        if cell >= cells {
            return Err(LatticeError::Outside { what: "cell", cell, cells });
        }
        Ok(self.axes.iter().map(|a| a.at(cell)).collect())
    }

    /// The cell at these coordinates.
    pub fn cell(&self, coordinates: &[u64]) -> Result<u64, LatticeError> {
        let inside =
            coordinates.len() == self.dims() && coordinates.iter().zip(&self.axes).all(|(c, a)| *c < a.size);
        if !inside {
            return Err(LatticeError::Coordinates { coordinates: coordinates.to_vec(), sizes: self.sizes() });
        }
        Ok(coordinates.iter().zip(&self.axes).map(|(c, a)| c * a.stride).sum())
    }

    /// Neighbours of a cell: per axis the previous, then the next. Empty for a cell out of range.
    pub fn neighbours(&self, cell: u64) -> impl Iterator<Item = u64> + '_ {
        let axes = if cell < self.vertices { self.axes.as_slice() } else { &[] };
        axes.iter().flat_map(move |a| {
            let at = a.at(cell);
            let before = (at > 0).then(|| cell - a.stride);
            let behind = (at + 1 < a.size).then(|| cell + a.stride);
            before.into_iter().chain(behind)
        })
    }

    /// L1 distance of two cells.
    pub fn distance(&self, from: u64, to: u64) -> Result<u64, LatticeError> {
        let (from, to) = (self.coordinates(from)?, self.coordinates(to)?);
        Ok(from.iter().zip(&to).map(|(a, b)| a.abs_diff(*b)).sum())
    }

    /// Eccentricity of a cell.
    pub fn eccentricity(&self, cell: u64) -> Result<u64, LatticeError> {
        let at = self.coordinates(cell)?;
        Ok(at.iter().zip(&self.axes).map(|(c, a)| (*c).max(a.size - 1 - c)).sum())
    }

    /// A shortest path without blocked cells: axis by axis, the last one first. Both ends included.
    pub fn straight_path(&self, from: u64, to: u64) -> Result<Vec<u64>, LatticeError> {
        let (at, goal) = (self.coordinates(from)?, self.coordinates(to)?);
        let steps: u64 = at.iter().zip(&goal).map(|(a, b)| a.abs_diff(*b)).sum();
        let most = MAX_STEPS;
        if steps > most {
            return Err(LatticeError::TooLarge { what: "a path", cells: steps.saturating_add(1), most });
        }
        let mut path = Vec::with_capacity(steps as usize + 1);
        let mut cell = from;
        path.push(cell);
        for ((axis, at), goal) in self.axes.iter().zip(at).zip(goal).rev() {
            for _ in 0..at.abs_diff(goal) {
                cell = if at < goal { cell + axis.stride } else { cell - axis.stride };
                path.push(cell);
            }
        }
        Ok(path)
    }
}

/// Longest path that is materialised: 2 GiB.
const MAX_STEPS: u64 = 1 << 28;

impl Axis {
    /// Coordinate of a cell.
    pub(crate) fn at(self, cell: u64) -> u64 {
        cell / self.stride % self.size
    }
}
