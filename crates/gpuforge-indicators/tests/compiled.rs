//! Do compiled loops compute what the kernels compute? To the last bit, for every row, alone and side by side.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{Bars, walk};
use gpuforge_indicators::{
    catalogue,
    exec::{ExecOptions, Series, run},
    select::{Instance, SelectItem, Selection, Selector, plan, select},
};

fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Bars of which some are NaN, flat, without volume.
fn odd(n: usize, seed: u64) -> Bars {
    let mut bars = walk(n, seed);
    for at in (37..n).step_by(211) {
        bars.close[at] = f64::NAN;
        bars.volume[at / 2] = 0.0;
    }
    for at in n / 3..n / 3 + n / 10 {
        (bars.open[at], bars.high[at], bars.low[at], bars.close[at]) = (10.0, 10.0, 10.0, 10.0);
    }
    bars
}

/// The first difference, in words.
fn difference(selection: &Selection, bars: &[Bars], how: ExecOptions) -> Option<String> {
    let series: Vec<Series<'_>> = bars.iter().map(Bars::series).collect();
    let kernels = run(&selection.plan, &series, ExecOptions { jit: false, ..how });
    let compiled = run(&selection.plan, &series, ExecOptions { jit: true, ..how });
    for (s, (want, got)) in kernels.iter().zip(&compiled).enumerate() {
        for (name, (want, got)) in selection.columns.iter().zip(want.iter().zip(got)) {
            let at = want.iter().zip(got).position(|(w, g)| bits(*w) != bits(*g));
            if let Some(at) = at {
                return Some(format!(
                    "{name}, series {s}, bar {at}: {:e} instead of {:e}",
                    got[at], want[at]
                ));
            }
        }
    }
    None
}

fn ways() -> Vec<ExecOptions> {
    let mut ways = Vec::new();
    for batched in [Some(false), Some(true)] {
        for (block, past) in
            [(None, false), (None, true), (Some(8), false), (Some(13), true), (Some(77), false)]
        {
            ways.push(ExecOptions {
                threads: 1,
                batched,
                block,
                nontemporal_stores: Some(past),
                ..ExecOptions::default()
            });
        }
    }
    ways
}

#[test]
fn every_row_by_itself() {
    let bars: Vec<Bars> =
        (0..8).map(|i| if i % 3 == 2 { odd(900, i) } else { walk(900 - 7 * i as usize, i) }).collect();
    let mut wrong = Vec::new();
    for row in catalogue::all() {
        let selection = select(&[Instance::of(row)]);
        for how in ways() {
            if let Some(why) = difference(&selection, &bars, how) {
                wrong.push(format!("{} ({how:?}): {why}", row.name));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn all_rows_together() {
    let bars: Vec<Bars> = (0..9).map(|i| if i % 3 == 2 { odd(1500, i) } else { walk(1500, i) }).collect();
    let instances: Vec<Instance> = catalogue::all().map(Instance::of).collect();
    let selection = select(&instances);
    for how in ways() {
        if let Some(why) = difference(&selection, &bars, how) {
            panic!("{how:?}: {why}");
        }
    }
}

/// The bars of one series, long enough to be cut, with and without what never leaves a mean.
#[test]
fn a_long_series_is_its_own_neighbour() {
    let plain = walk(60_000, 5);
    let mut holed = walk(60_000, 6);
    holed.close[31_000] = f64::NAN;
    let (alone, along) =
        (ExecOptions { batched: Some(false), ..one() }, ExecOptions { batched: Some(true), ..one() });
    let mut wrong = Vec::new();
    for row in catalogue::all() {
        let selection = select(&[Instance::of(row)]);
        for bars in [&plain, &holed] {
            let want = run(&selection.plan, &[bars.series()], alone).remove(0);
            let got = run(&selection.plan, &[bars.series()], along).remove(0);
            let differ =
                want.iter().zip(&got).any(|(w, g)| w.iter().zip(g).any(|(w, g)| bits(*w) != bits(*g)));
            if differ {
                wrong.push(row.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn one() -> ExecOptions {
    ExecOptions { threads: 1, ..ExecOptions::default() }
}

/// A formula with many values alive at once: more than there are registers.
fn formula(random: &mut impl FnMut(usize) -> usize, depth: usize) -> String {
    // Arithmetic of numbers alone is no source.
    let leaf = ["close", "open", "high", "low", "volume", "(close * 3)", "(open + 0.5)", "(low - 7)"];
    if depth == 0 {
        return leaf[random(leaf.len())].to_owned();
    }
    let mut part = |d: usize| formula(random, d);
    let (a, b) = (part(depth - 1), part(depth - 1));
    match random(10) {
        0 => format!("ema({a} + {b}, {})", 2 + random(6)),
        1 => format!("sma({a} - {b}, {})", 2 + random(6)),
        2 => format!("mom({a} * {b}, {})", 1 + random(4)),
        3 => format!("floor({a} / {b})"),
        4 => format!("sqrt({a} * {b})"),
        5 => format!("({a} / {b})"),
        6 => format!("({a} * {b})"),
        7 => format!("({a} - {b})"),
        _ => format!("({a} + {b})"),
    }
}

#[test]
fn formulas_of_more_values_than_registers() {
    let bars: Vec<Bars> = (0..8).map(|i| odd(700, 40 + i)).collect();
    let mut state = 7u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for turn in 0..60 {
        let mut selector = Selector::new();
        for k in 0..1 + turn % 4 {
            selector.define(&format!("f{k} = {}", formula(&mut random, 2 + turn % 5))).unwrap();
        }
        let wanted: Vec<SelectItem> = selector.defined().collect();
        let selection = plan(&wanted);
        for how in ways() {
            if let Some(why) = difference(&selection, &bars, how) {
                panic!("{how:?}: {why}\n{wanted:?}");
            }
        }
    }
}
