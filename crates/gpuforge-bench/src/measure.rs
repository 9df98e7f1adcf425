//! Statistics of measurements: median, and noise as the relative interquartile range.

use std::time::Instant;

/// Median, noise and number of measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) median: f64,
    pub(crate) noise: f64,
    pub(crate) n: u64,
}

impl Sample {
    pub(crate) fn of(values: &[f64]) -> Self {
        Sample { median: median(values), noise: iqr(values), n: values.len() as u64 }
    }
}

/// Quantile by nearest rank.
fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = (fraction * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Interquartile range ÷ median.
pub(crate) fn iqr(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

/// Runs `work` and returns its milliseconds.
pub(crate) fn ms<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
