//! CPU reference of the feature table: plain f64 loops, rounded to f32 at the end.

use std::{ops::Range, sync::Arc};

use gpuforge_indicators::{
    exec::{self, ExecOptions, Series},
    plan::ExecPlan,
};
use gpuforge_runtime::{tensor::Tensor, units::Bytes};
use rayon::prelude::*;

use super::{
    FLAT_TOLERANCE, FeatureChunk, FeatureError, FeatureSpec, Features, Normalise, SeriesRows, TIE_TOLERANCE,
};
use crate::gpu_executor::{GpuExecStats, scale};

/// Series whose f64 columns are in memory at once.
const BATCH_SERIES: usize = 32;

impl Features {
    /// Builds a table on the CPU: the same rows in the same order.
    pub fn on_cpu(spec: &FeatureSpec<'_>, series: &[Series<'_>]) -> Result<Features, FeatureError> {
        spec.check()?;
        let start = spec.start();
        let plan = ExecPlan::new(spec.graph, spec.values);
        let (mut series_rows, mut values, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for (group, some) in series.chunks(BATCH_SERIES).enumerate() {
            let columns = exec::run(&plan, some, ExecOptions::default());
            let rows = |(one, columns): (&Series<'_>, &Vec<Vec<f64>>)| {
                rows(spec.normalise, columns, start, one.len(&plan), scale(one).offset)
            };
            let made: Vec<_> = some.par_iter().zip(&columns).map(rows).collect();
            for (at, (own, whole)) in made.into_iter().enumerate().filter(|(_, (_, v))| !v.is_empty()) {
                let rows = valid.len()..valid.len() + whole.len();
                series_rows.push(SeriesRows { series: group * BATCH_SERIES + at, first_bar: start, rows });
                values.extend(own);
                valid.extend(whole);
            }
        }
        let mut chunks = Vec::new();
        if !valid.is_empty() {
            let columns = spec.values.len();
            chunks.push(FeatureChunk {
                rows: 0..valid.len(),
                values: Tensor::from_floats(&values, &[valid.len(), columns], "features")?,
                valid: Tensor::from_floats(&valid, &[valid.len()], "valid features")?,
            });
        }
        Ok(Features {
            columns: spec.values.len(),
            series_rows: Arc::from(series_rows),
            chunks,
            stats: GpuExecStats::default(),
            device: None,
            largest: Bytes(u64::MAX),
        })
    }
}

/// Row-major values and validity mask of one series.
fn rows(
    normalisations: &[Normalise],
    columns: &[Vec<f64>],
    start: usize,
    bars: usize,
    offset: f64,
) -> (Vec<f32>, Vec<f32>) {
    let count = bars.saturating_sub(start);
    let width = normalisations.len();
    let mut values = vec![0.0f32; count * width];
    for (k, (normalise, column)) in normalisations.iter().zip(columns).enumerate() {
        let places = values.iter_mut().skip(k).step_by(width.max(1));
        for (place, x) in places.zip(normalise_column(*normalise, column, start..bars, offset)) {
            *place = x as f32;
        }
    }
    let whole = |row: &mut [f32]| {
        let valid = row.iter().all(|x| x.is_finite());
        if !valid {
            row.fill(0.0);
        }
        f32::from(valid)
    };
    let valid = values.chunks_mut(width.max(1)).map(whole).collect();
    (values, valid)
}

/// Normalised values of some bars of a column.
pub(super) fn normalise_column(
    normalise: Normalise,
    column: &[f64],
    bars: Range<usize>,
    offset: f64,
) -> impl Iterator<Item = f64> + '_ {
    bars.map(move |bar| {
        let first = (bar + 1).saturating_sub(normalise.bars());
        normalise_last(normalise, column.get(first..=bar).unwrap_or_default(), offset)
    })
}

/// The normalised last bar of a window; finite means finite in f32, as on a device.
fn normalise_last(normalise: Normalise, window: &[f64], offset: f64) -> f64 {
    let finite = |x: &f64| (*x as f32).is_finite();
    let Some(own) = window.last().copied().filter(finite) else { return f64::NAN };
    if normalise == Normalise::None {
        return own;
    }
    let all = || window.iter().copied().filter(finite);
    let (mut count, mut sum, mut lowest, mut highest) = (0.0, 0.0, own, own);
    for x in all() {
        count += 1.0;
        sum += x - own;
        lowest = x.min(lowest);
        highest = x.max(highest);
    }
    let tie = TIE_TOLERANCE * lowest.abs().max(highest.abs());
    let flat = highest - lowest <= tie.max(FLAT_TOLERANCE * offset.abs());
    match normalise {
        Normalise::None => own,
        Normalise::ZScore(_) if flat => 0.0,
        Normalise::Rank(_) if flat => 0.5,
        Normalise::ZScore(_) => {
            let mean: f64 = sum / count;
            let squares: f64 = all().map(|x| (x - own - mean) * (x - own - mean)).sum();
            -mean / (squares / count).sqrt()
        }
        Normalise::Rank(_) => {
            let below = |x: f64| match x - own {
                off if off < -tie => 1.0,
                off if off <= tie => 0.5,
                _ => 0.0,
            };
            // It ties with itself.
            (all().map(below).sum::<f64>() - 0.5) / (count - 1.0)
        }
    }
}
