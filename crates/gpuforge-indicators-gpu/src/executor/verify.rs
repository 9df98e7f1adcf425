//! Verification of device columns: before a batch, the device computes a sample of it, which the CPU computes as well; columns
//! beyond the tolerance stay on the CPU from then on.
//!
//! The conditioning analysis bounds rounding by its model of a market. What it misses, and what the data itself does (prices
//! that are no whole ticks, levels next to 0, comparisons that rounding decides), is measured here: on prefixes of some series,
//! whose results are those of the whole series, and before the first batch on markets where rounding dominates ([`model`]).

use gpuforge_indicators::{
    exec::{self, Columns, ExecOptions, Series},
    graph::ValueId,
    plan::ExecPlan,
};
use gpuforge_runtime::runner::Runner;

mod model;

use super::{GraphPartition, HybridExecutor};
use crate::{
    gpu_executor::{GpuExecStats, GpuExecutor},
    placement,
};

/// Most series of a sample.
const SAMPLE_SERIES: usize = 8;
/// Bars of the first of them: some errors grow with every bar.
const LONG_SAMPLE_BARS: usize = 16_384;
/// Bars of each of the others.
const SAMPLE_BARS: usize = 1024;
/// The sample must be within the tolerance divided by this: it is not all of the batch.
const MARGIN: f64 = 2.0;

impl HybridExecutor<'_> {
    /// Verifies the plan on a sample of these series; the device must be open and the graph lowered.
    ///
    /// `true` if columns were moved to the CPU: the graph must be lowered again.
    pub(super) fn verify(&mut self, series: &[Series<'_>]) -> bool {
        let first = !std::mem::replace(&mut self.verified, true);
        let (Some(partition), Some(opened), Some((_, gpu))) = (&mut self.partition, &self.opened, &self.gpu)
        else {
            return false;
        };
        let models = if first { model::markets() } else { Vec::new() };
        let mut sample = prefixes(series);
        sample.extend(models.iter().map(model::Market::series));
        if sample.is_empty() {
            return false;
        }
        let Some(Verified { inexact, stats }) =
            verified(partition, &opened.runner, gpu, &sample, self.options)
        else {
            return false;
        };
        self.summary.record_events(&stats);
        for (column, error) in &inexact {
            let name = partition.placed.get(*column).map_or("", |p| p.column.as_str());
            self.summary.events.push(format!(
                "{name}: f32 was off by {error:.0e} of the column's largest magnitude on a sample, computed on the CPU"
            ));
        }
        if inexact.is_empty() {
            return false;
        }
        partition.move_to_cpu(inexact.iter().map(|(column, _)| *column));
        self.gpu = None;
        true
    }
}

/// Prefixes of some of the series, evenly spaced.
fn prefixes<'a>(series: &[Series<'a>]) -> Vec<Series<'a>> {
    let step = series.len().div_ceil(SAMPLE_SERIES).max(1);
    let lengths = std::iter::once(LONG_SAMPLE_BARS).chain(std::iter::repeat(SAMPLE_BARS));
    series.iter().step_by(step).zip(lengths).map(|(s, bars)| prefix(s, bars)).collect()
}

fn prefix<'a>(series: &Series<'a>, bars: usize) -> Series<'a> {
    let cut = |column: &'a [f64]| column.get(..bars).unwrap_or(column);
    Series {
        open: cut(series.open),
        high: cut(series.high),
        low: cut(series.low),
        close: cut(series.close),
        volume: cut(series.volume),
        time: cut(series.time),
    }
}

/// What a sample showed.
struct Verified {
    /// Device columns beyond the tolerance, with their largest errors.
    inexact: Vec<(usize, f64)>,
    stats: GpuExecStats,
}

/// Computes the sample on both sides; `None` where the device failed, which the run will find out.
fn verified(
    partition: &GraphPartition,
    runner: &Runner,
    gpu: &GpuExecutor,
    sample: &[Series<'_>],
    options: ExecOptions,
) -> Option<Verified> {
    let on_device = || partition.on_device.iter().enumerate().filter(|(_, on)| **on).map(|(at, _)| at);
    let values: Vec<ValueId> = on_device().filter_map(|at| partition.values.get(at).copied()).collect();
    let plan = ExecPlan::new(&partition.graph, &values);
    let want = exec::run(&plan, sample, options);
    let mut got: Vec<Vec<Vec<f64>>> = sample
        .iter()
        .map(|s| {
            let column = |on: &bool| if *on { vec![f64::NAN; s.len(&plan)] } else { Vec::new() };
            partition.on_device.iter().map(column).collect()
        })
        .collect();
    let mut columns: Vec<Columns<'_>> =
        got.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    let stats = gpu.run_into(runner, sample, &mut columns).ok()?;
    let off = |(index, column): (usize, usize)| {
        let pairs = got.iter().zip(&want).filter_map(|(g, w)| Some((g.get(column)?, w.get(index)?)));
        let errors: Vec<_> = pairs.map(|(g, w)| placement::column_error(g, w, MARGIN)).collect();
        let all = placement::ColumnError::sum(&errors);
        (!all.is_within(MARGIN)).then_some((column, all.largest))
    };
    Some(Verified { inexact: on_device().enumerate().filter_map(off).collect(), stats })
}
