//! MAMA and the HT_ functions beside TA-Lib on long series of prices with two decimals: how many values are beyond the bound?
//!
//! Their phase is the arc of a quotient whose divisor is 0 but for rounding wherever prices repeat, as prices in cents do.
//! Whoever rounds otherwise than TA-Lib there is 180 degrees off, and the means follow for some dozens of bars. Each test
//! prints what it counted (`--no-capture`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod common;

use common::{BOUND, Bars, Random, halt, market, ours, talib, walk, whole_outputs};
use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{How, run},
    select::{Instance, select},
};
use rayon::prelude::*;

const ROWS: usize = 100_000;
const NAMES: [&str; 7] =
    ["mama", "ht_trendline", "ht_dcperiod", "ht_dcphase", "ht_phasor", "ht_sine", "ht_trendmode"];

/// A price in cents that moves by one of them up or down, each with this chance, and stands still else.
fn ticks(n: usize, seed: u64, chance: f64) -> Bars {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bars = walk(n, seed);
    let mut cents = 10_000.0;
    for close in &mut bars.close {
        let u = r.next();
        cents += if u < chance { 1.0 } else { 0.0 } - if u > 1.0 - chance { 1.0 } else { 0.0 };
        *close = cents / 100.0;
    }
    bars
}

/// Values of all outputs that are beyond the bound; of whole numbers, that are not equal.
fn beyond(got: &[Vec<f64>], want: &[Vec<f64>], whole: &[bool]) -> usize {
    assert_eq!(got.len(), want.len());
    let count = |at: usize| {
        let (got, want) = (&got[at], &want[at]);
        assert_eq!(got.len(), want.len());
        let scale = want.iter().filter(|x| x.is_finite()).fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
        let bound = if whole[at] { 0.0 } else { BOUND * scale };
        let same = |g: f64, w: f64| g.is_nan() && w.is_nan() || (g - w).abs() <= bound;
        got.iter().zip(want).filter(|(g, w)| !same(**g, **w)).count()
    };
    (0..got.len()).map(count).sum()
}

/// Values of one function that are beyond the bound, with its defaults.
fn check(row: &'static Indicator, bars: &Bars) -> usize {
    let want = talib(row, &row.defaults(), bars).unwrap();
    let got = ours(row, &row.defaults(), bars);
    beyond(&got, &want, &whole_outputs(row))
}

/// All functions on a kind of series, for some seeds: none is off.
fn none_is_off(what: &str, series: impl Fn(u64) -> Bars + Sync) {
    let all: Vec<(u64, &str)> = (1..=4).flat_map(|seed| NAMES.map(|name| (seed, name))).collect();
    let off: Vec<String> = all
        .into_par_iter()
        .filter_map(|(seed, name)| {
            let row = catalogue::find(name).unwrap();
            let n = check(row, &series(seed));
            println!("{what}, seed {seed}: {name} has {n} values of {ROWS} rows beyond {BOUND:e}");
            (n > 0).then(|| format!("{what}, seed {seed}: {name} has {n} values beyond {BOUND:e}"))
        })
        .collect();
    assert!(off.is_empty(), "{}", off.join("\n"));
}

#[test]
fn walks_in_cents() {
    none_is_off("a walk in cents", |seed| walk(ROWS, seed));
}

#[test]
fn minutes_of_a_market() {
    none_is_off("a market", |seed| market(ROWS, seed));
}

#[test]
fn prices_that_move_by_a_tick() {
    none_is_off("ticks", |seed| ticks(ROWS, seed, 0.33));
}

#[test]
fn prices_that_stand_still_most_of_the_time() {
    none_is_off("few ticks", |seed| ticks(ROWS, seed, 0.1));
    none_is_off("hardly any ticks", |seed| ticks(ROWS, seed, 0.01));
}

#[test]
fn a_market_that_stops() {
    none_is_off("a halt", |seed| halt(ROWS - seed as usize));
}

/// Limits of MAMA other than the defaults, and every way to compute a long series: compiled or not, relaxed or not.
#[test]
fn limits_and_ways_to_compute() {
    let (row, bars) = (catalogue::find("mama").unwrap(), market(ROWS, 2));
    for params in [[0.5, 0.05], [0.99, 0.01], [0.05, 0.5], [0.2, 0.2]] {
        let want = talib(row, &params, &bars).unwrap();
        let selection = select(&[Instance::with(row, &params)]);
        for (compiled, loose) in [(false, false), (true, false), (true, true)] {
            let how = How { compiled, loose, ..How::default() };
            let got = run(&selection.plan, &[bars.series()], how).remove(0);
            assert_eq!(beyond(&got, &want, &[false, false]), 0, "{params:?} {how:?}");
        }
    }
}
