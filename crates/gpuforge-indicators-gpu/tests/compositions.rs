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

use common::Bars;
use generate::Random;
use gpuforge_indicators::{
    catalogue,
    exec::{self, ExecOptions, Series},
    plan::ExecPlan,
    select::{self, Instance, SelectItem, Selector},
};
use gpuforge_indicators_gpu::{
    conditioning::{DIFFERENCE, OVERFLOW, PHASE, RATIO},
    gpu_executor::{GpuExecSettings, GpuExecutor},
    placement::{self, ColumnPlacement, MAX_ERROR, TYPICAL_ERROR, TYPICAL_SHARE},
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

/// Largest error of a column relative to its largest magnitude, and the number of bars above the typical error.
fn errors(got: &[f64], want: &[f64]) -> (f64, usize) {
    let finite = want.iter().filter(|x| x.is_finite());
    let scale = finite.fold(0.0_f64, |m, x| m.max(x.abs())).max(1e-30);
    let off = |(g, w): (&f64, &f64)| match () {
        () if g == w || (g.is_nan() && w.is_nan()) => 0.0,
        () if g.is_nan() || w.is_nan() => f64::INFINITY,
        () => (g - w).abs() / scale,
    };
    let all = got.iter().zip(want).map(off);
    all.fold((0.0, 0), |(worst, over), e| (e.max(worst), over + usize::from(e > TYPICAL_ERROR)))
}

/// Seed of the compositions; `GPUFORGE_COMPOSITION_SEED` tries others.
fn seed() -> u64 {
    let given = std::env::var("GPUFORGE_COMPOSITION_SEED").ok();
    given.map_or(20, |text| text.parse().expect("GPUFORGE_COMPOSITION_SEED is a whole number"))
}

#[test]
fn random_compositions_are_within_the_tolerance_or_refused() {
    let Some(runner) = runner() else { return };
    let sets = [
        in_ticks(common::walk(2000, 31), 0.01),
        in_ticks(common::market(3000, 32), 0.01),
        in_ticks(common::high(900), 1.0 / 128.0),
        in_ticks(common::no_volume(400), 0.01),
        common::flat(300),
        in_ticks(common::monotone(700, 0.5), 0.25),
        in_ticks(common::monotone(700, -0.5), 0.25),
        in_ticks(common::uneven(700, 0.25), 0.25),
    ];
    let (texts, wanted) = compositions(seed(), 150);
    let (graph, values, columns) = select::graph(&wanted);
    let placed = placement::place_columns(&graph, &values, &columns);
    let on: Vec<bool> = placed.iter().map(|p| p.on_device).collect();
    let series: Vec<Series<'_>> = sets.iter().map(Bars::series).collect();
    let longest = sets.iter().map(Bars::len).max().unwrap_or(0);
    let executor =
        GpuExecutor::new(&graph, &values, &on, longest, GpuExecSettings::default()).expect("it is lowered");
    let want = exec::run(&ExecPlan::new(&graph, &values), &series, ExecOptions::default());
    let mut got: Vec<Vec<Vec<f64>>> =
        series.iter().map(|s| vec![vec![f64::NAN; s.close.len()]; values.len()]).collect();
    let mut into: Vec<exec::Columns<'_>> =
        got.iter_mut().map(|c| c.iter_mut().map(Vec::as_mut_slice).collect()).collect();
    executor.run_into(&runner, &series, &mut into).expect("the device computes");
    drop(into);
    let bars: usize = sets.iter().map(Bars::len).sum();
    let allowed = ((1.0 - TYPICAL_SHARE) * bars as f64) as usize;
    let mut wrong = Vec::new();
    for at in (0..values.len()).filter(|at| on[*at]) {
        let each: Vec<(f64, usize)> = got.iter().zip(&want).map(|(g, w)| errors(&g[at], &w[at])).collect();
        let worst = each.iter().fold(0.0_f64, |m, (e, _)| m.max(*e));
        let over: usize = each.iter().map(|(_, n)| n).sum();
        if worst > MAX_ERROR || over > allowed {
            let text = columns[at].strip_prefix("composition").and_then(|i| i.parse::<usize>().ok());
            let text = text.map_or(columns[at].as_str(), |i| texts[i].as_str());
            wrong.push(format!("{text}: worst {worst:.1e}, {over} of {bars} bars above {TYPICAL_ERROR:e}"));
        }
    }
    assert!(wrong.is_empty(), "{} compositions are beyond the tolerance:\n{}", wrong.len(), wrong.join("\n"));
    assert!(placed.iter().all(|p| p.on_device != p.reason.is_some()));
    let count = on.iter().filter(|on| **on).count();
    println!("{count} of {} compositions run on a device", on.len());
    assert!(2 * count > on.len(), "only {count} of {} compositions run on a device", on.len());
}
