//! Device memory limits: batches within the limit, results independent of batching, errors that state what does
//! not fit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::Bars;
use gpuforge_indicators::{
    catalogue,
    exec::{self, Series},
    select::{self, Instance, SelectItem},
};
use gpuforge_indicators_gpu::{
    gpu_executor::{GpuExecError, GpuExecSettings, GpuExecStats, GpuExecutor},
    layout::SegmentLayout,
    placement,
};
use gpuforge_runtime::{
    engine::gpu::GpuOpener,
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::adapter;

#[path = "../../gpuforge-indicators/tests/common/mod.rs"]
mod common;

fn runner() -> Option<Runner> {
    let budget = Budget { bytes: Bytes::mib(1024), origin: BudgetOrigin::User };
    let settings = RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    adapter::or_skip(runner.warm())?;
    Some(runner)
}

fn wanted(names: &[&str]) -> Vec<SelectItem> {
    names.iter().map(|n| SelectItem::from(Instance::of(catalogue::find(n).unwrap()))).collect()
}

fn executor(wanted: &[SelectItem], longest: usize, settings: GpuExecSettings) -> GpuExecutor {
    let (graph, values, columns) = select::graph(wanted);
    let placed = placement::place_columns(&graph, &values, &columns);
    let on: Vec<bool> = placed.iter().map(|p| p.on_device).collect();
    GpuExecutor::new(&graph, &values, &on, longest, settings).expect("it can be lowered")
}

fn run(
    executor: &GpuExecutor,
    runner: &Runner,
    sets: &[Bars],
    columns: usize,
) -> (Vec<Vec<Vec<u64>>>, GpuExecStats) {
    let series: Vec<Series<'_>> = sets.iter().map(Bars::series).collect();
    let mut got: Vec<Vec<Vec<f64>>> = sets.iter().map(|b| vec![vec![f64::NAN; b.len()]; columns]).collect();
    let mut into: Vec<exec::Columns<'_>> =
        got.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    let stats = executor.run_into(runner, &series, &mut into).expect("the device computes");
    let bits = |c: Vec<f64>| c.into_iter().map(f64::to_bits).collect();
    (got.into_iter().map(|s| s.into_iter().map(bits).collect()).collect(), stats)
}

const SOME: [&str; 8] = ["sma", "rsi", "bbands", "atr", "sar", "adx", "obv", "aroon"];

#[test]
fn batches_fit_the_limit_and_do_not_change_results() {
    let Some(runner) = runner() else { return };
    let sets: Vec<Bars> =
        [3000, 1200, 2999, 50, 3000, 1].iter().map(|n| common::walk(*n, *n as u64)).collect();
    let wanted = wanted(&SOME);
    let columns = select::graph(&wanted).2.len();
    let large = executor(&wanted, 3000, GpuExecSettings::default());
    let (want, stats) = run(&large, &runner, &sets, columns);
    assert_eq!((stats.batches, stats.uploads, stats.downloads), (1, 1, 1));
    let memory = Bytes::mib(2);
    let small = executor(&wanted, 3000, GpuExecSettings { memory, ..GpuExecSettings::default() });
    let (got, stats) = run(&small, &runner, &sets, columns);
    assert!(stats.batches > 1, "{stats:?}");
    assert_eq!((stats.uploads, stats.downloads), (stats.batches, stats.batches), "one of each a batch");
    assert!(stats.peak <= memory, "{} of {memory}", stats.peak);
    assert!(got == want, "results do not depend on batches");
}

#[test]
fn long_series_are_computed_in_parts_that_fit() {
    // Planned, not run: 30 symbols of 100 000 bars under 256 MiB.
    let all: Vec<SelectItem> = catalogue::all().map(|row| SelectItem::from(Instance::of(row))).collect();
    let settings = GpuExecSettings { memory: Bytes::mib(256), ..GpuExecSettings::default() };
    let executor = executor(&all, 100_000, settings);
    let words = SegmentLayout::words_of(&[100_000], SegmentLayout::segment_log2_for(&[100_000]));
    let parts: Vec<u64> = executor.programs().map(|p| p.arena(words) + p.download_bytes(words)).collect();
    println!("{} parts, {:?} MiB", parts.len(), parts.iter().map(|b| b >> 20).collect::<Vec<_>>());
    let most = parts.iter().max().copied().unwrap_or(0) * settings.in_flight as u64;
    assert!(most <= settings.memory.0, "{} of {}", Bytes(most), settings.memory);
}

#[test]
fn oversized_series_is_an_error() {
    let Some(runner) = runner() else { return };
    let sets = [common::walk(3000, 1)];
    let wanted = wanted(&["sma"]);
    let settings = GpuExecSettings { memory: Bytes(1 << 10), ..GpuExecSettings::default() };
    let executor = executor(&wanted, 3000, settings);
    let series: Vec<Series<'_>> = sets.iter().map(Bars::series).collect();
    let mut column = vec![0.0; 3000];
    let error = executor.run_into(&runner, &series, &mut [vec![column.as_mut_slice()]]).unwrap_err();
    assert!(matches!(error, GpuExecError::Memory { bars: 3000, .. }), "{error}");
    assert!(error.to_string().contains("raise the memory limit"), "{error}");
}
