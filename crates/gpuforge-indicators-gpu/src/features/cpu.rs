//! The same features where there is no device: plain loops over f64, rounded at the end.

use std::{ops::Range, sync::Arc};

use gpuforge_indicators::{
    exec::{self, ExecOptions, Series},
    plan::ExecPlan,
};
use gpuforge_runtime::{tensor::Tensor, units::Bytes};
use rayon::prelude::*;

use super::{Ask, Chunk, FeatureError, Features, NOTHING, Normalise, SAME, Segment};
use crate::gpu_executor::{GpuExecStats, scale};

/// Series whose columns are there in f64 at once.
const TOGETHER: usize = 32;

impl Features {
    /// On the processor, on every machine: the same rows in the same order.
    pub fn on_processor(ask: &Ask<'_>, series: &[Series<'_>]) -> Result<Features, FeatureError> {
        ask.check()?;
        let start = ask.start();
        let plan = ExecPlan::new(ask.graph, ask.values);
        let (mut segments, mut values, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for (group, some) in series.chunks(TOGETHER).enumerate() {
            let columns = exec::run(&plan, some, ExecOptions::default());
            let rows = |(one, columns): (&Series<'_>, &Vec<Vec<f64>>)| {
                rows(ask.normalise, columns, start, one.len(&plan), scale(one).level)
            };
            let made: Vec<_> = some.par_iter().zip(&columns).map(rows).collect();
            for (at, (own, whole)) in made.into_iter().enumerate().filter(|(_, (_, v))| !v.is_empty()) {
                let rows = valid.len()..valid.len() + whole.len();
                segments.push(Segment { series: group * TOGETHER + at, first_bar: start, rows });
                values.extend(own);
                valid.extend(whole);
            }
        }
        let mut chunks = Vec::new();
        if !valid.is_empty() {
            let columns = ask.values.len();
            chunks.push(Chunk {
                rows: 0..valid.len(),
                values: Tensor::from_floats(&values, &[valid.len(), columns], "features")?,
                valid: Tensor::from_floats(&valid, &[valid.len()], "valid features")?,
            });
        }
        Ok(Features {
            columns: ask.values.len(),
            segments: Arc::from(segments),
            chunks,
            stats: GpuExecStats::default(),
            home: None,
            largest: Bytes(u64::MAX),
        })
    }
}

/// Rows of one series, and which of them are valid.
fn rows(
    ways: &[Normalise],
    columns: &[Vec<f64>],
    start: usize,
    bars: usize,
    level: f64,
) -> (Vec<f32>, Vec<f32>) {
    let count = bars.saturating_sub(start);
    let width = ways.len();
    let mut values = vec![0.0f32; count * width];
    for (k, (way, column)) in ways.iter().zip(columns).enumerate() {
        let places = values.iter_mut().skip(k).step_by(width.max(1));
        for (place, x) in places.zip(along(*way, column, start..bars, level)) {
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

/// What is said of some bars of a column.
pub(super) fn along(
    way: Normalise,
    column: &[f64],
    bars: Range<usize>,
    level: f64,
) -> impl Iterator<Item = f64> + '_ {
    bars.map(move |bar| {
        let first = (bar + 1).saturating_sub(way.bars());
        normalised(way, column.get(first..=bar).unwrap_or_default(), level)
    })
}

/// What is said of the last bar of a window; finite is what a device finds finite.
fn normalised(way: Normalise, window: &[f64], level: f64) -> f64 {
    let there = |x: &f64| (*x as f32).is_finite();
    let Some(own) = window.last().copied().filter(there) else { return f64::NAN };
    if way == Normalise::None {
        return own;
    }
    let all = || window.iter().copied().filter(there);
    let (mut count, mut sum, mut lowest, mut highest) = (0.0, 0.0, own, own);
    for x in all() {
        count += 1.0;
        sum += x - own;
        lowest = x.min(lowest);
        highest = x.max(highest);
    }
    let tie = SAME * lowest.abs().max(highest.abs());
    let flat = highest - lowest <= tie.max(NOTHING * level.abs());
    match way {
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
            // It is its own equal.
            (all().map(below).sum::<f64>() - 0.5) / (count - 1.0)
        }
    }
}
