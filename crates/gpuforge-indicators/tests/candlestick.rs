//! Candlestick patterns against TA-Lib on coarse price grids, where ties, gaps and rare patterns are frequent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{Bars, Random, compare, ours, talib};
use gpuforge_indicators::{
    catalogue::{self, Indicator, IndicatorKind},
    select::{Instance, select},
};

/// Three patterns that random bars do not produce: open, high, low, close in ticks from the previous close.
const RARE: [&[[i32; 4]]; 3] = [
    // Three stars in the south.
    &[[0, 0, -45, -20], [-10, -9, -30, -18], [-19, -19, -22, -22]],
    // Concealing baby swallow.
    &[[0, 0, -10, -10], [-5, -5, -15, -15], [-18, -12, -22, -22], [-10, -10, -26, -25]],
    // Mat hold.
    &[[0, 21, -1, 20], [25, 26, 21, 22], [19, 20, 16, 17], [18, 19, 15, 16], [17, 31, 16, 30]],
];

/// Bars on a grid of `tick`: bodies and shadows of a few ticks, every so often a long candle, a gap or none at all.
fn coarse(n: usize, seed: u64, tick: f64, trend: f64) -> Bars {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bars = Bars::default();
    let mut last = 2000i32;
    let mut drift = trend;
    while bars.len() < n {
        let mut pick = |k: f64| (r.next() * k) as i32;
        if pick(40.0) == 0 {
            let jitter = pick(2.0);
            let from = last.clamp(1100, 2900);
            for candle in RARE[pick(3.0) as usize] {
                let [open, high, low, close] = candle.map(|x| from + x);
                // Half of them are off by a tick here and there.
                last = close + jitter * pick(2.0);
                push(&mut bars, tick, [open, high.max(last), low, last]);
            }
            continue;
        }
        if pick(12.0) == 0 {
            drift = -drift;
        }
        let gap = [0, 0, 0, 1, -1, 2, -2, 5, -5, 9, -9][pick(11.0) as usize];
        let open = (last + gap).clamp(1000, 3000);
        let size = [0, 0, 1, 1, 2, 3, 4, 8, 12][pick(9.0) as usize];
        let up = f64::from(pick(1000.0)) < 500.0 + 500.0 * drift;
        let close = (open + if up { size } else { -size }).clamp(1000, 3000);
        let mut shadow = || [0, 0, 0, 1, 1, 2, 4, 9][pick(8.0) as usize];
        let (high, low) = (open.max(close) + shadow(), open.min(close) - shadow());
        push(&mut bars, tick, [open, high, low, close]);
        last = close;
    }
    bars
}

fn push(bars: &mut Bars, tick: f64, candle: [i32; 4]) {
    let columns = [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close];
    for (column, x) in columns.into_iter().zip(candle) {
        column.push(f64::from(x) * tick);
    }
}

fn rows() -> Vec<&'static Indicator> {
    catalogue::all().filter(|r| r.kind == IndicatorKind::Candlestick).collect()
}

#[test]
fn there_are_61_patterns() {
    assert_eq!(rows().len(), 61);
}

#[test]
fn ties_match_talib_and_every_pattern_occurs() {
    let mut seen = vec![(0, 0); rows().len()];
    // A hundredth and a twentieth are not binary fractions: running sums round, and the last bit decides.
    for (seed, tick, trend) in [(1, 0.01, 0.0), (2, 0.05, 0.6), (3, 0.01, 0.9), (4, 0.25, 0.3)] {
        let bars = coarse(15_000, seed, tick, trend);
        for (row, (up, down)) in rows().into_iter().zip(&mut seen) {
            let shares: &[f64] = if row.params.is_empty() { &[0.0] } else { &[0.0, 0.1, 0.3, 0.5, 0.7] };
            for share in shares {
                let params = if row.params.is_empty() { vec![] } else { vec![*share] };
                let want = talib(row, &params, &bars).unwrap();
                let got = ours(row, &params, &bars);
                if let Err(why) = compare(&got, &want, true) {
                    panic!("{} {params:?} with ticks of {tick}: {why}", row.name);
                }
                *up += want[0].iter().filter(|x| **x > 0.0).count();
                *down += want[0].iter().filter(|x| **x < 0.0).count();
            }
        }
    }
    let never: Vec<_> =
        rows().iter().zip(&seen).filter(|(_, s)| s.0 + s.1 == 0).map(|(r, _)| r.name).collect();
    assert!(never.is_empty(), "never seen: {never:?}");
}

/// Patterns with the same lookback share rolling sums (common-subexpression elimination).
#[test]
fn patterns_share_threshold_sums() {
    let each: usize = rows().iter().map(|r| select(&[Instance::of(r)]).plan.steps()).sum();
    let all: Vec<_> = rows().into_iter().map(Instance::of).collect();
    let together = select(&all).plan.steps();
    assert!(together * 2 < each, "{together} together, {each} one by one");
}
