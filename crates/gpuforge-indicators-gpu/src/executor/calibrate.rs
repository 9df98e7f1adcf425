//! Device calibration: times small probe graphs, each dominated by one cost (submission, dispatch, transfer, one kernel
//! kind), and solves for the rates of the cost model. Also times the CPU per bar.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_frame::{
    Bars,
    sample::{Interval, Sample},
};
use gpuforge_indicators::{
    exec::{self, Columns, ExecOptions, Series},
    graph::{Graph, ValueId},
    plan::ExecPlan,
    select::{self, Selector},
};
use gpuforge_runtime::{engine::EngineError, plan::Plan as DevicePlan, runner::Runner};

use super::workload;
use crate::{
    autotune::{self, Variants},
    cost_model::{DeviceRates, RateProbe, RateProbes},
    gpu_executor::{GpuExecError, GpuExecSettings, GpuExecutor},
    lower,
};

/// Time limit of a calibration. It takes a fraction of a second unless shader compilation is slow.
const TIME_LIMIT: Duration = Duration::from_secs(8);
/// Series and bars of the probes.
const SMALL: (usize, usize) = (4, 64);
const LARGE: (usize, usize) = (32, 1024);
const LONG: (usize, usize) = (1, 4096);

const WIDE: &str = "p1, p2, p3, p4, p5, p6, p7, p8";

/// Selections of the probes: one column, many stages, pointwise columns, then one kernel kind each.
const PROBES: [(&str, (usize, usize)); 8] = [
    ("p1", SMALL),
    ("t3(5)", SMALL),
    ("p1", LARGE),
    (WIDE, LARGE),
    ("sma(3|8|21|55), max(14|30), stddev(20), var(9)", LARGE),
    ("ema(3|5|8|13|21|34|55|89)", LARGE),
    ("sar(0.02|0.03|0.04)", LARGE),
    ("sar(0.02|0.03|0.04)", LONG),
];

/// Why a calibration failed.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The device cannot be opened.
    #[error(transparent)]
    Open(#[from] EngineError),
    /// A probe failed.
    #[error(transparent)]
    Run(#[from] GpuExecError),
    /// The time limit was exceeded.
    #[error("it could not be measured in {} s", TIME_LIMIT.as_secs())]
    Slow,
}

/// Opens a device and measures its rates; exceeding the time limit is an error.
pub fn calibrate(runner: &Runner) -> Result<DeviceRates, CalibrationError> {
    let began = Instant::now();
    let caps = runner.warm()?;
    // The time of the first opening, whoever did it.
    let first = runner.session().and_then(|s| s.init().map(|i| i.total));
    let open = first.unwrap_or_else(|| began.elapsed()).as_secs_f64();
    let variants = variants(runner);
    let settings = GpuExecSettings { largest: caps.largest_block, ..GpuExecSettings::default() };
    // Tuned for the largest probe, so that the rates are those of the kernels that will run.
    let settings = variants.map_or(settings, |v| v.settings(settings, &[LARGE.1; LARGE.0]));
    let mut compiled = HashSet::new();
    let mut found: Vec<RateProbe> = Vec::new();
    for (selection, size) in PROBES {
        if began.elapsed() > TIME_LIMIT {
            return Err(CalibrationError::Slow);
        }
        found.push(probe(runner, selection, size, settings, &mut compiled)?.unwrap_or_default());
    }
    let at = |i: usize| found.get(i).copied().unwrap_or_default();
    let kinds = [at(4), at(5), at(6)];
    let probes =
        RateProbes { tiny: at(0), stages: at(1), thin: at(2), wide: at(3), kinds, sequential: at(7) };
    Ok(DeviceRates { variants, ..probes.rates(open) })
}

/// Autotuned kernel variants; `None` where none of them runs.
fn variants(runner: &Runner) -> Option<Variants> {
    let session = runner.session()?;
    let run = |plan: &Arc<DevicePlan>| {
        let began = Instant::now();
        let done = session.run(plan, TIME_LIMIT).ok()?;
        Some(done.device_time.unwrap_or_else(|| began.elapsed()))
    };
    autotune::autotune(run).ok().filter(|t| t.trials.iter().any(|t| t.time.is_some())).map(|t| t.variants())
}

/// The graph of a selection, which may use p1 to p8: the close times a constant.
fn graph(selection: &str) -> Option<(Graph, Vec<ValueId>)> {
    let mut selector = Selector::new();
    for k in 1..=8 {
        selector.define(&format!("p{k} = close * {k}")).ok()?;
    }
    let (graph, values, _) = select::graph(&selector.select(selection).ok()?);
    Some((graph, values))
}

fn probe(
    runner: &Runner,
    selection: &str,
    (symbols, bars): (usize, usize),
    settings: GpuExecSettings,
    compiled: &mut HashSet<u64>,
) -> Result<Option<RateProbe>, CalibrationError> {
    let Some((graph, values)) = graph(selection) else { return Ok(None) };
    let on = lower::fits(&graph, &values);
    let Some(executor) = GpuExecutor::new(&graph, &values, &on, bars, settings) else { return Ok(None) };
    let lengths = vec![bars; symbols];
    let workload = workload::of(executor.programs(), &settings, &lengths, compiled);
    compiled.extend(executor.programs().flat_map(|p| workload::kernels(&p.lowered)));
    let data = SampleData::new(symbols, bars);
    let series = data.series();
    let mut outputs = vec![vec![vec![0.0; bars]; values.len()]; symbols];
    let mut run = || {
        let mut columns: Vec<Columns<'_>> =
            outputs.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
        let began = Instant::now();
        let stats = executor.run_into(runner, &series, &mut columns)?;
        Ok::<_, GpuExecError>((began.elapsed().as_secs_f64(), stats.device_time))
    };
    let (cold, _) = run()?;
    // The minimum of three: interference only ever adds time.
    let mut best = run()?;
    for _ in 0..2 {
        let next = run()?;
        best = if next.0 < best.0 { next } else { best };
    }
    Ok(Some(RateProbe { workload, wall: best.0, device: best.1.map(|d| d.as_secs_f64()), cold }))
}

/// Synthetic bars.
pub(super) struct SampleData {
    bars: Vec<Bars>,
    times: Vec<Vec<f64>>,
}

impl SampleData {
    pub(super) fn new(symbols: usize, bars: usize) -> Self {
        let sample = Sample::new(symbols, Interval::Minute, bars, 11);
        let layout = sample.layout();
        let bars: Vec<Bars> = sample.series().collect();
        let times = bars.iter().map(|b| layout.seconds(&b.time)).collect();
        SampleData { bars, times }
    }

    pub(super) fn series(&self) -> Vec<Series<'_>> {
        self.bars.iter().zip(&self.times).map(|(b, t)| series(b, t)).collect()
    }
}

fn series<'a>(bars: &'a Bars, seconds: &'a [f64]) -> Series<'a> {
    Series {
        open: &bars.open,
        high: &bars.high,
        low: &bars.low,
        close: &bars.close,
        volume: &bars.volume,
        time: seconds,
    }
}

/// Bars per series of a CPU measurement.
const CPU_BARS: usize = 256;

/// Seconds per bar of a plan on the CPU, without JIT compilation.
pub(super) fn cpu_per_bar(plan: &ExecPlan, options: ExecOptions) -> f64 {
    let symbols = exec::LANES * options.threads.max(1);
    let data = SampleData::new(symbols, CPU_BARS);
    let series = data.series();
    let mut outputs = vec![vec![vec![0.0; CPU_BARS]; plan.starts().len()]; symbols];
    let mut run = || {
        let mut columns: Vec<Columns<'_>> =
            outputs.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
        let began = Instant::now();
        exec::run_into(plan, &series, &mut columns, options);
        began.elapsed().as_secs_f64()
    };
    run();
    (0..5).map(|_| run()).fold(f64::INFINITY, f64::min) / (symbols * CPU_BARS) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn every_probe_lowers_completely() {
        for (selection, _) in PROBES {
            let (graph, values) = graph(selection).unwrap();
            assert!(lower::fits(&graph, &values).iter().all(|fits| *fits), "{selection}");
        }
    }
}
