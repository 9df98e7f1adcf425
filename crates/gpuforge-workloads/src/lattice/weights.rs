//! Cell weights: cost of entering each cell, never negative; the start of a path costs nothing.

use super::{Grid, LatticeError, unit_random};

/// Most cells with weights: 2 GiB.
pub(super) const MAX_WEIGHTS: u64 = 1 << 28;

/// Costs of entering cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    values: Vec<f64>,
    /// Per axis and layer: the minimum weight in the layer. A path between two layers enters every layer between them, each by a step of
    /// its own; this bounds the remaining cost more tightly than the global minimum.
    layers: Vec<Vec<f64>>,
    mean: f64,
    max: f64,
}

impl Weights {
    /// From values in cell order.
    pub fn new(grid: &Grid, values: Vec<f64>) -> Result<Self, LatticeError> {
        let (have, want) = (values.len() as u64, grid.vertices());
        if have != want {
            return Err(LatticeError::Length { what: "weights", have, want });
        }
        if let Some((cell, weight)) = (0u64..).zip(&values).find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
            return Err(LatticeError::Weight { cell, weight: *weight });
        }
        let layers = grid.axes().iter().map(|a| min_per_layer(&values, a.size, a.stride)).collect();
        let mean = values.iter().sum::<f64>() / have as f64;
        let max = values.iter().copied().fold(0.0, f64::max);
        Ok(Weights { values, layers, mean, max })
    }

    /// From a function of the coordinates.
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

    /// Uniform random between two bounds; deterministic per seed.
    pub fn random(grid: &Grid, low: f64, high: f64, seed: u64) -> Result<Self, LatticeError> {
        if !(low >= 0.0 && low <= high && high.is_finite()) {
            return Err(LatticeError::WeightRange { low, high });
        }
        limit(grid)?;
        let values = (0..grid.vertices()).map(|i| low + (high - low) * unit_random(seed ^ 0x77, i)).collect();
        Weights::new(grid, values)
    }

    /// Parses numbers separated by blanks, commas or lines, in cell order; `#` starts a comment.
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

    /// Values in cell order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The largest weight.
    pub(crate) fn max(&self) -> f64 {
        self.max
    }

    /// Mean layer minimum over mean weight: near 1 the heuristic is tight, near 0 useless.
    pub(crate) fn heuristic_quality(&self) -> f64 {
        let (sum, many) = self.layers.iter().flatten().fold((0.0, 0.0), |(sum, n), min| (sum + min, n + 1.0));
        if self.mean > 0.0 { sum / many / self.mean } else { 1.0 }
    }

    /// Heuristic table: for each axis and coordinate, the minimum cost of entering all layers up to the goal's.
    pub(crate) fn heuristic_table(&self, goal: &[u64]) -> Vec<Vec<f64>> {
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
    if cells <= MAX_WEIGHTS {
        return Ok(());
    }
    Err(LatticeError::TooLarge { what: "weights", cells, most: MAX_WEIGHTS })
}

fn min_per_layer(values: &[f64], size: u64, stride: u64) -> Vec<f64> {
    let mut min = vec![f64::INFINITY; size as usize];
    for block in values.chunks((size * stride) as usize) {
        for (min, layer) in min.iter_mut().zip(block.chunks(stride as usize)) {
            *min = layer.iter().copied().fold(*min, f64::min);
        }
    }
    min
}
