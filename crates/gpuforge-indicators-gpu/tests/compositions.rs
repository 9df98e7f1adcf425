//! f32 placement of compositions: definitions, `source=` and arithmetic are judged like rows, by their graph nodes; and what is
//! placed on a device is within the stated tolerance of the CPU.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::sync::Arc;

use common::Bars;
use generate::Random;
use gpuforge_indicators::{
    catalogue,
    exec::{self, ExecOptions, Series},
    select::{self, Instance, SelectItem, Selector},
};
use gpuforge_indicators_gpu::{
    conditioning::{DIFFERENCE, OVERFLOW, PHASE, RATIO},
    cost_model::DeviceChoice,
    executor::{DeviceAccess, ExecRequest, HybridExecutor},
    placement::{self, ColumnError, ColumnPlacement},
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
#[path = "compositions/generate.rs"]
mod generate;

fn placed(wanted: &[SelectItem]) -> Vec<ColumnPlacement> {
    let (graph, values, columns) = select::graph(wanted);
    placement::place_columns(&graph, &values, &columns)
}

/// Placement of a selection's only column.
fn place(definitions: &[&str], selection: &str) -> Option<&'static str> {
    let mut selector = Selector::new();
    definitions.iter().for_each(|d| selector.define(d).unwrap());
    let found = placed(&selector.select(selection).unwrap());
    assert_eq!(found.len(), 1, "{selection}");
    assert_eq!(found[0].on_device, found[0].reason.is_none());
    found[0].reason
}

#[test]
fn compositions_are_refused_like_rows() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["m = macd(12,26,9)"], "m", DIFFERENCE),
        (&["h = macd(12,26,9).hist"], "h", DIFFERENCE),
        (&[], "sma(20, source=macd(12,26,9).macd)", DIFFERENCE),
        (&[], "ema(close,12) - ema(close,26)", DIFFERENCE),
        (&["spread = ema(close,5) - ema(close,20)"], "sma(10, source=spread)", DIFFERENCE),
        (&["c = cci(14)"], "c", RATIO),
        (&["s = stochrsi().k"], "s", RATIO),
        (&["b = percentb"], "b * 100", RATIO),
        (&[], "close / macd(12,26,9).hist", RATIO),
        (&[], "exp(close) + 1", OVERFLOW),
        (&["e = exp(close)"], "e", OVERFLOW),
        (&[], "rsi(14, source=ht_dcperiod)", PHASE),
        (&["f = mama().fama"], "close - f", PHASE),
    ];
    for (definitions, selection, reason) in cases {
        assert_eq!(place(definitions, selection), Some(*reason), "{definitions:?} {selection}");
    }
}

#[test]
fn well_conditioned_compositions_run_on_a_device() {
    let cases: &[(&[&str], &str)] = &[
        (&["d = high - low"], "ema(10, source=d)"),
        (&["r = rsi(14)"], "sma(5, source=r)"),
        (&[], "sma(20) + 2 * stddev(20)"),
        (&[], "sma(close,10) - sma(close,50)"),
        // A lag of 40 bars: its size is far above the rounding of either average.
        (&[], "ema(close,20) - ema(close,100)"),
        // What is next to nothing in it does not matter beside the price.
        (&[], "close + macd(12,26,9).hist"),
        (&["t = atr(14) / close"], "t * 100"),
    ];
    for (definitions, selection) in cases {
        assert_eq!(place(definitions, selection), None, "{definitions:?} {selection}");
    }
}

/// Columns of rows, with their defaults, that stay on the CPU, and why.
#[test]
fn refused_rows_are_these() {
    let mut found = String::new();
    for row in catalogue::all() {
        let wanted = [SelectItem::from(Instance::of(row))];
        let refused: Vec<ColumnPlacement> = placed(&wanted).into_iter().filter(|p| !p.on_device).collect();
        let mut reasons: Vec<&str> = refused.iter().filter_map(|p| p.reason).collect();
        reasons.dedup();
        for reason in reasons {
            let columns = refused.iter().filter(|p| p.reason == Some(reason)).count();
            let part = match columns == row.outputs.len() {
                true => String::new(),
                false => {
                    let names = refused.iter().map(|p| p.column.rsplit('_').next().unwrap_or_default());
                    format!(".{}", names.collect::<Vec<_>>().join(", ."))
                }
            };
            found.push_str(&format!("{}{part}: {reason}\n", row.name));
        }
    }
    assert_eq!(found, include_str!("compositions/refused_rows.txt"), "the file has another list:\n{found}");
}

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

/// Random compositions: their texts and what they select.
fn compositions(seed: u64, count: usize) -> (Vec<String>, Vec<SelectItem>) {
    let mut random = Random::new(seed);
    let mut selector = Selector::new();
    let texts: Vec<String> = (0..count).map(|i| generate::expression(&mut random, 1 + i % 3)).collect();
    for (i, text) in texts.iter().enumerate() {
        selector.define(&format!("composition{i} = {text}")).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    let names: Vec<String> = (0..count).map(|i| format!("composition{i}")).collect();
    let wanted = selector.select(&names.join(", ")).unwrap();
    (texts, wanted)
}

/// Seeds of the compositions; `GPUFORGE_COMPOSITION_SEEDS=FROM..TO` tries others.
fn seeds() -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("GPUFORGE_COMPOSITION_SEEDS") else { return 20..23 };
    let bounds = given.split_once("..").expect("GPUFORGE_COMPOSITION_SEEDS is FROM..TO");
    bounds.0.parse().expect("a whole number")..bounds.1.parse().expect("a whole number")
}

/// Two batches of more series than are verified, and of longer ones; some kinds of market are in the second one only.
fn batches() -> [Vec<Bars>; 2] {
    let market = |n, seed| in_ticks(common::market(n, seed), 0.01);
    let walk = |n, seed| in_ticks(common::walk(n, seed), 0.01);
    let kinds = [
        walk(2000, 31),
        market(3000, 32),
        in_ticks(common::high(900), 1.0 / 128.0),
        in_ticks(common::no_volume(400), 0.01),
        common::flat(300),
        in_ticks(common::monotone(700, 0.5), 0.25),
        in_ticks(common::monotone(700, -0.5), 0.25),
        in_ticks(common::uneven(700, 0.25), 0.25),
    ];
    let first = (40..44).flat_map(|seed| [walk(2500, seed), market(1500, seed), market(600, seed)]);
    let second = kinds.into_iter().flat_map(|bars| [bars, market(500, 50), walk(300, 51)]);
    [first.collect(), second.collect()]
}

/// The arctangent of a price is next to a constant: f32 keeps nothing of its deviation, which the analysis does not see.
#[test]
fn inexact_columns_move_to_the_cpu() {
    let Some(runner) = runner() else { return };
    let access = DeviceAccess::over(Arc::new(runner), DeviceChoice::Gpu);
    let wanted = Selector::new().select("sma(20), stddev(source=atan(source=close))").unwrap();
    assert!(placed(&wanted).iter().all(|p| p.on_device));
    let selection = select::plan(&wanted);
    let request = ExecRequest { wanted: &wanted, selection: &selection };
    let mut executor = HybridExecutor::new(request, ExecOptions::default(), &access).unwrap();
    let bars = in_ticks(common::walk(3000, 7), 0.01);
    let got = executor.run(&[bars.series()]);
    let want = exec::run(&selection.plan, &[bars.series()], ExecOptions::default());
    let bits = |column: &[f64]| column.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&got[0][1]), bits(&want[0][1]));
    let reasons: Vec<_> = executor.placements().iter().map(|p| p.reason).collect();
    assert_eq!(reasons, [None, Some(placement::MEASURED)]);
    let events = &executor.summary().events;
    assert!(events.len() == 1 && events[0].contains("computed on the CPU"), "{events:?}");
}

#[test]
fn random_compositions_are_within_the_tolerance_or_refused() {
    let Some(runner) = runner() else { return };
    let access = DeviceAccess::over(Arc::new(runner), DeviceChoice::Gpu);
    let batches = batches();
    let (mut wrong, mut count, mut all) = (Vec::new(), 0, 0);
    for seed in seeds() {
        let (texts, wanted) = compositions(seed, 150);
        let selection = select::plan(&wanted);
        let request = ExecRequest { wanted: &wanted, selection: &selection };
        let mut executor = HybridExecutor::new(request, ExecOptions::default(), &access).unwrap();
        let mut errors = vec![Vec::new(); selection.columns.len()];
        for bars in &batches {
            let series: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
            let got = executor.run(&series);
            let want = exec::run(&selection.plan, &series, ExecOptions::default());
            for (got, want) in got.iter().zip(&want) {
                for (at, errors) in errors.iter_mut().enumerate() {
                    errors.push(placement::column_error(&got[at], &want[at], 1.0));
                }
            }
        }
        for (at, errors) in errors.iter().enumerate() {
            let error = ColumnError::sum(errors);
            if !error.is_within(1.0) {
                let text =
                    selection.columns[at].strip_prefix("composition").and_then(|i| i.parse::<usize>().ok());
                let text = text.map_or(selection.columns[at].as_str(), |i| texts[i].as_str());
                wrong.push(format!("seed {seed}: {text}: {error:?}"));
            }
        }
        assert_eq!(executor.summary().groups.gpu, batches.len() as u64, "{:?}", executor.summary().events);
        let placed = executor.placements();
        assert!(placed.iter().all(|p| p.on_device != p.reason.is_some()));
        count += placed.iter().filter(|p| p.on_device).count();
        all += placed.len();
        let measured = placed.iter().filter(|p| p.reason == Some(placement::MEASURED)).count();
        println!("seed {seed}: {measured} of {} moved to the CPU by their sample", placed.len());
    }
    assert!(wrong.is_empty(), "{} compositions are beyond the tolerance:\n{}", wrong.len(), wrong.join("\n"));
    println!("{count} of {all} compositions run on a device");
    assert!(2 * count > all, "only {count} of {all} compositions run on a device");
}
