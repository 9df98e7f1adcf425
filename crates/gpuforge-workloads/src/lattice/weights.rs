//! What does it cost to enter a cell? One number per cell, never negative; the start of a path costs nothing.

use super::{Grid, LatticeError, share};

/// The most cells with weights of their own: 2 GiB.
pub(super) const MOST_WEIGHTS: u64 = 1 << 28;

/// Costs of entering cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    values: Vec<f64>,
    /// Per axis, per layer across it: the least weight in the layer. Whoever gets from one layer to another has to enter every
    /// layer between, each by a step of its own; this bounds what is left to pay more tightly than the least weight of all.
    layers: Vec<Vec<f64>>,
    mean: f64,
    most: f64,
}

impl Weights {
    /// These, in the order of cells.
    pub fn new(grid: &Grid, values: Vec<f64>) -> Result<Self, LatticeError> {
        let (have, want) = (values.len() as u64, grid.vertices());
        if have != want {
            return Err(LatticeError::Length { what: "weights", have, want });
        }
        if let Some((cell, weight)) = (0u64..).zip(&values).find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
            return Err(LatticeError::Weight { cell, weight: *weight });
        }
        let layers = grid.axes().iter().map(|a| least_per_layer(&values, a.size, a.stride)).collect();
        let mean = values.iter().sum::<f64>() / have as f64;
        let most = values.iter().copied().fold(0.0, f64::max);
        Ok(Weights { values, layers, mean, most })
    }

    /// A function of a cell's coordinates.
    pub fn from_fn(grid: &Grid, mut weight: impl FnMut(&[u64]) -> f64) -> Result<Self, LatticeError> {
        limit(grid)?;
        let mut at = vec![0u64; grid.dims()];
        let sizes = grid.sizes();
        let mut values = Vec::with_capacity(grid.vertices() as usize);
        for _ in 0..grid.vertices() {
            values.push(weight(&at));
            for (c, size) in at.iter_mut().zip(&sizes).rev() {
                *c += 1;
                if *c < *size {
                    break;
                }
                *c = 0;
            }
        }
        Weights::new(grid, values)
    }

    /// Evenly between two bounds; the same for a seed.
    pub fn random(grid: &Grid, low: f64, high: f64, seed: u64) -> Result<Self, LatticeError> {
        if !(low >= 0.0 && low <= high && high.is_finite()) {
            return Err(LatticeError::WeightRange { low, high });
        }
        limit(grid)?;
        let values = (0..grid.vertices()).map(|i| low + (high - low) * share(seed ^ 0x77, i)).collect();
        Weights::new(grid, values)
    }

    /// Numbers separated by blanks, commas or lines, in the order of cells; what follows a `#` is a remark.
    pub fn parse(grid: &Grid, text: &str) -> Result<Self, LatticeError> {
        let mut values = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            for word in line.split([' ', '\t', ',', ';']).filter(|w| !w.is_empty()) {
                let no_weight =
                    |_| LatticeError::WeightText { line: i + 1, text: word.chars().take(40).collect() };
                values.push(word.parse().map_err(no_weight)?);
            }
        }
        Weights::new(grid, values)
    }

    /// In the order of cells.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The largest weight.
    pub(crate) fn most(&self) -> f64 {
        self.most
    }

    /// Do the least weights of layers say much about what a path costs? Near 1 they say all, near 0 nothing.
    pub(crate) fn guidance(&self) -> f64 {
        let (sum, many) =
            self.layers.iter().flatten().fold((0.0, 0.0), |(sum, n), least| (sum + least, n + 1.0));
        if self.mean > 0.0 { sum / many / self.mean } else { 1.0 }
    }

    /// For each axis and each place along it: the least that entering all layers from there to the goal's costs.
    pub(crate) fn still_to_pay(&self, goal: &[u64]) -> Vec<Vec<f64>> {
        let axis = |(layers, goal): (&Vec<f64>, &u64)| {
            let mut pay = vec![0.0; layers.len()];
            let goal = *goal as usize;
            let mut sum = 0.0;
            for c in (0..goal).rev() {
                sum += layers.get(c + 1).copied().unwrap_or(0.0);
                pay.get_mut(c).into_iter().for_each(|p| *p = sum);
            }
            sum = 0.0;
            for c in goal + 1..layers.len() {
                sum += layers.get(c - 1).copied().unwrap_or(0.0);
                pay.get_mut(c).into_iter().for_each(|p| *p = sum);
            }
            pay
        };
        self.layers.iter().zip(goal).map(axis).collect()
    }
}

fn limit(grid: &Grid) -> Result<(), LatticeError> {
    let cells = grid.vertices();
    if cells <= MOST_WEIGHTS {
        return Ok(());
    }
    Err(LatticeError::TooLarge { what: "weights", cells, most: MOST_WEIGHTS })
}

fn least_per_layer(values: &[f64], size: u64, stride: u64) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; size as usize];
    for block in values.chunks((size * stride) as usize) {
        for (least, layer) in least.iter_mut().zip(block.chunks(stride as usize)) {
            *least = layer.iter().copied().fold(*least, f64::min);
        }
    }
    least
}
