//! GPU check: a selection on an adapter matches the CPU within the documented tolerance, on prices in integer ticks, for which
//! it is documented (`gpuforge_indicators_gpu::placement`).

use std::sync::Arc;

use gpuforge::{
    indicators::{
        catalogue::{self, IndicatorKind},
        exec::{self, ExecOptions},
    },
    indicators_gpu::{DeviceAccess, DeviceChoice, HybridExecutor},
    market::Request,
    runtime::{
        engine::gpu::GpuOpener,
        memory::{Budget, BudgetOrigin, StackSettings},
        runner::{Runner, RunnerSettings},
        units::Bytes,
    },
};
use gpuforge_indicators_gpu::placement::{MAX_ERROR, TYPICAL_ERROR, TYPICAL_SHARE};

use crate::{bars::Dataset, compare::Mismatch, cpu::Failure, selection::Selection};

/// An open GPU adapter.
pub struct Adapter {
    runner: Arc<Runner>,
    /// Its name.
    pub name: String,
}

impl Adapter {
    /// Opens the adapter of this machine, or says why there is none.
    pub fn open() -> Result<Adapter, String> {
        let budget = Budget { bytes: Bytes::mib(512), origin: BudgetOrigin::User };
        let settings =
            RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
        let runner = Runner::new(Box::new(GpuOpener::default()), settings);
        runner.warm().map_err(|e| e.to_string())?;
        Ok(Adapter { runner: Arc::new(runner), name: "the adapter".to_owned() })
    }

    /// Runs a selection on the GPU and on the CPU; returns the number of columns computed on the GPU.
    pub fn check(&self, selection: &Selection, data: &Dataset) -> Result<u64, Failure> {
        let request = Request::of(&selection.wanted().map_err(Failure::Refused)?);
        let access = DeviceAccess::over(self.runner.clone(), DeviceChoice::Gpu);
        let mut executor = HybridExecutor::new(&request, ExecOptions::with_threads(1), &access)
            .map_err(|e| Failure::Refused(e.to_string()))?;
        let series = data.as_series();
        let got = executor.run(&series);
        let want = exec::run(&request.selection.plan, &series, ExecOptions::with_threads(1));
        for (at, column) in request.selection.columns.iter().enumerate() {
            let exact = catalogue::find(column).is_some_and(|row| row.kind == IndicatorKind::Candlestick);
            let of = |all: &'_ [Vec<Vec<f64>>]| -> Vec<Vec<f64>> {
                all.iter().filter_map(|columns| columns.get(at).cloned()).collect()
            };
            if let Some((series, bar, got, want)) = beyond(&of(&got), &of(&want), exact) {
                return Err(Failure::Wrong(Mismatch { column: column.clone(), series, bar, got, want }));
            }
        }
        Ok(executor.summary().columns.gpu)
    }
}

/// Min number of values for the typical-error quantile to be meaningful.
const QUANTILE_MIN: usize = 1000;

/// First value beyond the max error, or beyond the typical error if too many are: series, bar, and both values.
fn beyond(got: &[Vec<f64>], want: &[Vec<f64>], exact: bool) -> Option<(usize, usize, f64, f64)> {
    let mut errors = Vec::new();
    for (series, (got, want)) in got.iter().zip(want).enumerate() {
        let scale = want.iter().filter(|x| x.is_finite()).fold(1e-30f64, |max, x| max.max(x.abs()));
        for (bar, (g, w)) in got.iter().zip(want).enumerate() {
            let error = match () {
                () if g == w || (g.is_nan() && w.is_nan()) => 0.0,
                () if g.is_nan() || w.is_nan() => f64::INFINITY,
                () => (g - w).abs() / scale,
            };
            errors.push((error, (series, bar, *g, *w)));
        }
    }
    let first = |limit: f64| errors.iter().find(|(error, _)| *error > limit).map(|(_, found)| *found);
    let over = errors.iter().filter(|(error, _)| *error > TYPICAL_ERROR).count();
    let too_many = errors.len() >= QUANTILE_MIN && over as f64 > (1.0 - TYPICAL_SHARE) * errors.len() as f64;
    first(if exact { 0.0 } else { MAX_ERROR }).or_else(|| if too_many { first(TYPICAL_ERROR) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_error_applies_to_all_and_typical_error_to_large_columns() {
        let want = |n: usize| vec![vec![100.0; n]];
        let off = |n: usize, every: usize, by: f64| {
            vec![(0..n).map(|t| if t % every == 0 { 100.0 + by } else { 100.0 }).collect()]
        };
        let bar = |got: &[Vec<f64>], n, exact| beyond(got, &want(n), exact).map(|(_, bar, ..)| bar);
        assert_eq!(bar(&off(50, 7, 0.02), 50, false), Some(0));
        assert_eq!(bar(&off(50, 7, 0.005), 50, false), None);
        assert_eq!(bar(&off(50, 7, 0.005), 50, true), Some(0));
        assert_eq!(bar(&off(2000, 7, 0.005), 2000, false), Some(0));
        assert_eq!(bar(&off(2000, 1999, 0.005), 2000, false), None);
        assert_eq!(bar(&[vec![f64::NAN; 3]], 3, false), Some(0));
    }
}
