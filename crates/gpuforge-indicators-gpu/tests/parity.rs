//! Parity of every indicator on a device with the CPU's f64, within the stated tolerance, on prices in ticks;
//! and what a batch of all of them costs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::collections::BTreeMap;

use common::Bars;
use gpuforge_indicators::{
    catalogue::{self, IndicatorKind},
    exec::{self, ExecOptions, Series},
    plan::ExecPlan,
    select::{self, Instance, SelectItem},
};
use gpuforge_indicators_gpu::{
    gpu_executor::{GpuExecSettings, GpuExecStats, GpuExecutor},
    placement::{self, MAX_ERROR, TYPICAL_ERROR, TYPICAL_SHARE},
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

/// The same bars with prices in whole ticks.
fn in_ticks(mut bars: Bars, tick: f64) -> Bars {
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
        column.iter_mut().for_each(|x| *x = (*x / tick).round());
    }
    bars
}

/// The same bars, some of which are the first of them again and again.
fn still(mut bars: Bars, at: std::ops::Range<usize>) -> Bars {
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close] {
        let first = column[at.start];
        column[at.clone()].fill(first);
    }
    bars
}

struct Worst {
    error: f64,
    set: usize,
    over: usize,
    bars: usize,
}

/// Results of both, by column: the worst error of a series as a share of its scale, and how often it is above the usual.
fn compare(wanted: &[SelectItem], sets: &[Bars], runner: &Runner) -> (BTreeMap<String, Worst>, GpuExecStats) {
    let (graph, values, columns) = select::graph(wanted);
    let placed = placement::place_columns(&graph, &values, &columns);
    let on: Vec<bool> = placed.iter().map(|p| p.on_device).collect();
    let series: Vec<Series<'_>> = sets.iter().map(Bars::series).collect();
    let longest = sets.iter().map(Bars::len).max().unwrap_or(0);
    let executor = GpuExecutor::new(&graph, &values, &on, longest, GpuExecSettings::default())
        .expect("it can be lowered");
    let want = exec::run(&ExecPlan::new(&graph, &values), &series, ExecOptions::default());
    let mut got: Vec<Vec<Vec<f64>>> =
        series.iter().map(|s| vec![vec![f64::NAN; s.close.len()]; values.len()]).collect();
    let mut into: Vec<exec::Columns<'_>> =
        got.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    let stats = executor.run_into(runner, &series, &mut into).expect("the device computes");
    drop(into);
    let mut found = BTreeMap::new();
    for (at, name) in columns.iter().enumerate().filter(|(at, _)| on[*at]) {
        let mut worst = Worst { error: 0.0, set: 0, over: 0, bars: 0 };
        for (set, (got, want)) in got.iter().zip(&want).enumerate() {
            let finite = want[at].iter().filter(|x| x.is_finite());
            let scale = finite.fold(0.0_f64, |m, x| m.max(x.abs())).max(1e-30);
            for (g, w) in got[at].iter().zip(&want[at]) {
                let equal = g == w || (g.is_nan() && w.is_nan());
                let off = if equal { 0.0 } else { (g - w).abs() / scale };
                let off = if off.is_nan() { f64::INFINITY } else { off };
                worst.bars += 1;
                worst.over += usize::from(off > TYPICAL_ERROR);
                if off > worst.error {
                    (worst.error, worst.set) = (off, set);
                }
            }
        }
        found.insert(name.clone(), worst);
    }
    (found, stats)
}

fn all() -> Vec<SelectItem> {
    catalogue::all().map(|row| SelectItem::from(Instance::of(row))).collect()
}

#[test]
fn every_indicator_matches_the_cpu_or_is_cpu_only() {
    let Some(runner) = runner() else { return };
    let sets = [
        in_ticks(common::walk(3000, 1), 0.01),
        in_ticks(common::market(5000, 2), 0.01),
        in_ticks(common::walk(777, 3), 0.01),
        in_ticks(common::no_volume(600), 0.01),
        in_ticks(common::high(900), 1.0 / 128.0),
        common::flat(500),
        in_ticks(common::monotone(700, 0.5), 0.25),
        in_ticks(common::monotone(700, -0.5), 0.25),
        in_ticks(common::uneven(700, 0.25), 0.25),
        still(in_ticks(common::walk(800, 7), 0.01), 0..5),
        still(in_ticks(common::walk(800, 8), 0.01), 0..2),
        common::walk(1, 5),
        common::walk(0, 5),
    ];
    let wanted = all();
    let (found, stats) = compare(&wanted, &sets, &runner);
    let candles: Vec<String> = catalogue::all()
        .filter(|row| row.kind == IndicatorKind::Candlestick)
        .flat_map(|row| SelectItem::from(Instance::of(row)).columns())
        .collect();
    let mut wrong = Vec::new();
    for (name, w) in &found {
        let most = if candles.contains(name) { 0.0 } else { MAX_ERROR };
        let allowed = ((1.0 - TYPICAL_SHARE) * w.bars as f64) as usize;
        if w.error > most || w.over > allowed {
            wrong.push(format!(
                "{name}: worst {:.1e} in set {}, {} of {} bars above {TYPICAL_ERROR:e}",
                w.error, w.set, w.over, w.bars
            ));
        }
    }
    assert!(wrong.is_empty(), "{} columns are not within the tolerance:\n{}", wrong.len(), wrong.join("\n"));
    // One batch of everything: one upload, one download, few calls and pipelines.
    assert_eq!((stats.batches, stats.uploads, stats.downloads), (1, 1, 1));
    assert!(stats.dispatches <= 400, "{} dispatches", stats.dispatches);
    assert!(stats.pipelines.len() <= 60, "{} pipelines", stats.pipelines.len());
    println!("{} dispatches, {} pipelines", stats.dispatches, stats.pipelines.len());
}

#[test]
fn most_indicators_run_on_a_device() {
    let counted = |row: &&catalogue::Indicator| {
        matches!(row.kind, IndicatorKind::Indicator | IndicatorKind::Candlestick)
    };
    let rows: Vec<_> = catalogue::all().filter(counted).collect();
    assert_eq!(rows.len(), 290);
    let whole = |row: &&&'static catalogue::Indicator| {
        let wanted = [SelectItem::from(Instance::of(row))];
        let (graph, values, columns) = select::graph(&wanted);
        placement::place_columns(&graph, &values, &columns).iter().all(|p| p.on_device)
    };
    let on = rows.iter().filter(whole).count();
    println!("{on} of {} rows run on a device", rows.len());
    assert!(on >= 260, "only {on} rows run on a device");
}
