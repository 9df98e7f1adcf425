//! MAMA and the HT_ functions against TA-Lib on long series of prices in cents, where rounding decides the phase.
//!
//! The phase is the arctangent of a quotient whose divisor is 0 up to rounding wherever prices repeat. Rounding differently
//! from TA-Lib there gives a phase off by 180 degrees, and the averages follow for dozens of bars. Each test prints its count
//! (`--no-capture`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod common;

use common::{BOUND, Bars, Random, halt, integer_outputs, market, ours, talib, walk};
use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{ExecOptions, run},
    select::{Instance, select},
};
use rayon::prelude::*;

const ROWS: usize = 100_000;
const NAMES: [&str; 7] =
    ["mama", "ht_trendline", "ht_dcperiod", "ht_dcphase", "ht_phasor", "ht_sine", "ht_trendmode"];

/// A price in cents that moves one tick up or down, each with this probability.
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

/// Number of values of all outputs beyond the tolerance; integers must be equal.
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

/// Number of values of one function beyond the tolerance, with default parameters.
fn check(row: &'static Indicator, bars: &Bars) -> usize {
    let want = talib(row, &row.defaults(), bars).unwrap();
    let got = ours(row, &row.defaults(), bars);
    beyond(&got, &want, &integer_outputs(row))
}

/// All functions on a kind of series, for some seeds: no value beyond the tolerance.
fn assert_within_tolerance(what: &str, series: impl Fn(u64) -> Bars + Sync) {
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
fn random_walk_in_cents_matches_talib() {
    assert_within_tolerance("a walk in cents", |seed| walk(ROWS, seed));
}

#[test]
fn market_minutes_match_talib() {
    assert_within_tolerance("a market", |seed| market(ROWS, seed));
}

#[test]
fn one_tick_moves_match_talib() {
    assert_within_tolerance("ticks", |seed| ticks(ROWS, seed, 0.33));
}

#[test]
fn mostly_flat_prices_match_talib() {
    assert_within_tolerance("few ticks", |seed| ticks(ROWS, seed, 0.1));
    assert_within_tolerance("hardly any ticks", |seed| ticks(ROWS, seed, 0.01));
}

#[test]
fn trading_halt_matches_talib() {
    assert_within_tolerance("a halt", |seed| halt(ROWS - seed as usize));
}

/// MAMA with other limits, with and without JIT and relaxed floating point.
#[test]
fn mama_limits_and_exec_options_match_talib() {
    let (row, bars) = (catalogue::find("mama").unwrap(), market(ROWS, 2));
    for params in [[0.5, 0.05], [0.99, 0.01], [0.05, 0.5], [0.2, 0.2]] {
        let want = talib(row, &params, &bars).unwrap();
        let selection = select(&[Instance::with(row, &params)]);
        for (jit, relaxed_fp) in [(false, false), (true, false), (true, true)] {
            let how = ExecOptions { jit, relaxed_fp, ..ExecOptions::default() };
            let got = run(&selection.plan, &[bars.series()], how).remove(0);
            assert_eq!(beyond(&got, &want, &[false, false]), 0, "{params:?} {how:?}");
        }
    }
}
