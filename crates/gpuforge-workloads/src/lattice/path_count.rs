//! Number of shortest paths: a multinomial coefficient where nothing is blocked, else dynamic programming over BFS levels.

use serde::Serialize;

use super::{
    Lattice, LatticeError,
    bfs::{BLOCKED, axis_strides, bfs, distance_field},
};

/// Most cells: 28 bytes each.
pub const MAX_COUNTED: u64 = 1 << 26;

/// A path count that may overflow u128.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PathCount {
    /// Exact count; `None` beyond 2^128 - 1.
    pub exact: Option<u128>,
    /// Its natural logarithm; `None` when there is no path.
    pub ln: Option<f64>,
}

impl PathCount {
    const NONE: PathCount = PathCount { exact: Some(0), ln: None };
    const ONE: PathCount = PathCount { exact: Some(1), ln: Some(0.0) };

    fn plus(self, other: PathCount) -> PathCount {
        let exact = self.exact.zip(other.exact).and_then(|(a, b)| a.checked_add(b));
        let ln = match (self.ln, other.ln) {
            (Some(a), Some(b)) => Some(a.max(b) + (-(a - b).abs()).exp().ln_1p()),
            (one, None) | (None, one) => one,
        };
        PathCount { exact, ln }
    }
}

/// Counts shortest paths (by steps) between two open cells. A weighted lattice is an error: ties between rounded sums are a matter
/// of luck.
pub fn count_paths(lattice: &Lattice, from: u64, to: u64) -> Result<PathCount, LatticeError> {
    if lattice.weights().is_some() {
        return Err(LatticeError::Weighted);
    }
    lattice.check_end("start", from)?;
    lattice.check_end("goal", to)?;
    let grid = lattice.grid();
    if lattice.blocked().is_none() {
        let (a, b) = (grid.coordinates(from)?, grid.coordinates(to)?);
        return Ok(multinomial(a.iter().zip(&b).map(|(a, b)| a.abs_diff(*b))));
    }
    let cells = grid.vertices();
    if cells > MAX_COUNTED {
        return Err(LatticeError::TooLarge { what: "counting paths", cells, most: MAX_COUNTED });
    }
    Ok(by_levels(lattice, from, to))
}

/// Multinomial coefficient `(Σ k_i)! / Π k_i!`: orders in which so many steps per axis can be taken.
fn multinomial(steps: impl Iterator<Item = u64> + Clone) -> PathCount {
    let (mut exact, mut total) = (Some(1u128), 0u64);
    for k in steps.clone() {
        for i in 1..=k {
            total += 1;
            // Every partial product is a multinomial coefficient itself, so the division is exact.
            exact = exact.and_then(|e| times_ratio(e, total, i));
            if exact.is_none() {
                total += k - i;
                break;
            }
        }
    }
    let ln = ln_factorial(total) - steps.map(ln_factorial).sum::<f64>();
    PathCount { exact, ln: Some(exact.map_or(ln, |e| (e as f64).ln())) }
}

/// `e * n / d` for an exact quotient, without intermediate overflow where the result fits.
fn times_ratio(e: u128, n: u64, d: u64) -> Option<u128> {
    let common = gcd(u128::from(n), u128::from(d));
    let (n, d) = (u128::from(n) / common, u128::from(d) / common);
    // The rest of `d` divides `e`: the quotient is exact and `n` is coprime to `d`.
    (e / d).checked_mul(n)
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `ln n!`: a sum for small numbers, Stirling's series with three terms beyond, whose error is below 1e-15 there.
fn ln_factorial(n: u64) -> f64 {
    if n < 256 {
        return (2..=n).map(|i| (i as f64).ln()).sum();
    }
    let x = n as f64;
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

/// By BFS levels: the count of a cell is the sum over its predecessors.
fn by_levels(lattice: &Lattice, from: u64, to: u64) -> PathCount {
    let grid = lattice.grid();
    let mut distance = distance_field(lattice);
    distance.get_mut(from as usize).into_iter().for_each(|d| *d = 0);
    let mut order = vec![from as u32];
    bfs(&axis_strides(grid.axes()), &mut distance, &mut order);
    let at = |cell: u64| distance.get(cell as usize).copied().unwrap_or(BLOCKED);
    if at(to) >= BLOCKED {
        return PathCount::NONE;
    }
    let mut counts = vec![PathCount::NONE; distance.len()];
    counts.get_mut(from as usize).into_iter().for_each(|c| *c = PathCount::ONE);
    for cell in order.iter().skip(1).map(|c| u64::from(*c)).take_while(|c| at(*c) <= at(to)) {
        let nearer = grid.neighbours(cell).filter(|n| at(*n) < at(cell));
        let paths =
            nearer.filter_map(|n| counts.get(n as usize)).fold(PathCount::NONE, |sum, c| sum.plus(*c));
        counts.get_mut(cell as usize).into_iter().for_each(|c| *c = paths);
    }
    counts.get(to as usize).copied().unwrap_or(PathCount::NONE)
}
