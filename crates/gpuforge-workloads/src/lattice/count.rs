//! How many shortest paths are there? A multinomial coefficient where nothing is blocked, else counted level by level.

use serde::Serialize;

use super::{
    Lattice, LatticeError,
    flood::{BLOCKED, field, flood, lines},
};

/// The most cells over which paths are counted: 28 bytes each.
pub const MOST_COUNTED: u64 = 1 << 26;

/// A number of paths that may be too large to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Count {
    /// Exactly; `None` beyond 2^128 - 1.
    pub exact: Option<u128>,
    /// Its natural logarithm; `None` when there is no path.
    pub ln: Option<f64>,
}

impl Count {
    const NONE: Count = Count { exact: Some(0), ln: None };
    const ONE: Count = Count { exact: Some(1), ln: Some(0.0) };

    fn plus(self, other: Count) -> Count {
        let exact = self.exact.zip(other.exact).and_then(|(a, b)| a.checked_add(b));
        let ln = match (self.ln, other.ln) {
            (Some(a), Some(b)) => Some(a.max(b) + (-(a - b).abs()).exp().ln_1p()),
            (one, None) | (None, one) => one,
        };
        Count { exact, ln }
    }
}

/// Shortest paths between two open cells, by steps. A lattice with weights is an error: equal sums of rounded numbers are a
/// matter of luck.
pub fn count_paths(lattice: &Lattice, from: u64, to: u64) -> Result<Count, LatticeError> {
    if lattice.weights().is_some() {
        return Err(LatticeError::Weighted);
    }
    lattice.end("start", from)?;
    lattice.end("goal", to)?;
    let grid = lattice.grid();
    if lattice.blocked().is_none() {
        let (a, b) = (grid.coordinates(from)?, grid.coordinates(to)?);
        return Ok(multinomial(a.iter().zip(&b).map(|(a, b)| a.abs_diff(*b))));
    }
    let cells = grid.vertices();
    if cells > MOST_COUNTED {
        return Err(LatticeError::TooLarge { what: "counting paths", cells, most: MOST_COUNTED });
    }
    Ok(by_levels(lattice, from, to))
}

/// `(Σ k_i)! / Π k_i!`: in how many orders so many steps per axis can be taken.
fn multinomial(steps: impl Iterator<Item = u64> + Clone) -> Count {
    let (mut exact, mut total) = (Some(1u128), 0u64);
    for k in steps.clone() {
        for i in 1..=k {
            total += 1;
            // Every partial product is a multinomial coefficient itself, so that the division leaves no rest.
            exact = exact.and_then(|e| times_ratio(e, total, i));
            if exact.is_none() {
                total += k - i;
                break;
            }
        }
    }
    let ln = ln_factorial(total) - steps.map(ln_factorial).sum::<f64>();
    Count { exact, ln: Some(exact.map_or(ln, |e| (e as f64).ln())) }
}

/// `e * n / d` for a quotient that is whole, without overflow on the way where the result fits.
fn times_ratio(e: u128, n: u64, d: u64) -> Option<u128> {
    let common = gcd(u128::from(n), u128::from(d));
    let (n, d) = (u128::from(n) / common, u128::from(d) / common);
    // What is left of `d` divides `e`: the quotient is whole and `n` has no factor in common with `d`.
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

/// From the start outwards: a cell is reached by as many paths as its neighbours one step nearer together.
fn by_levels(lattice: &Lattice, from: u64, to: u64) -> Count {
    let grid = lattice.grid();
    let mut distance = field(lattice);
    distance.get_mut(from as usize).into_iter().for_each(|d| *d = 0);
    let mut order = vec![from as u32];
    flood(&lines(grid.axes()), &mut distance, &mut order);
    let at = |cell: u64| distance.get(cell as usize).copied().unwrap_or(BLOCKED);
    if at(to) >= BLOCKED {
        return Count::NONE;
    }
    let mut counts = vec![Count::NONE; distance.len()];
    counts.get_mut(from as usize).into_iter().for_each(|c| *c = Count::ONE);
    for cell in order.iter().skip(1).map(|c| u64::from(*c)).take_while(|c| at(*c) <= at(to)) {
        let nearer = grid.neighbours(cell).filter(|n| at(*n) < at(cell));
        let paths = nearer.filter_map(|n| counts.get(n as usize)).fold(Count::NONE, |sum, c| sum.plus(*c));
        counts.get_mut(cell as usize).into_iter().for_each(|c| *c = paths);
    }
    counts.get(to as usize).copied().unwrap_or(Count::NONE)
}
