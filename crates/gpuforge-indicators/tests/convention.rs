//! `Convention::Pandas` against reference implementations of the pandas definitions.
//!
//! | column | in pandas |
//! |---|---|
//! | ema | `close.ewm(span=n, adjust=True).mean()`: all values so far, each with `(1 - 2/(n+1))^age` |
//! | macd | the difference of two of them; the signal is one of that |
//! | rsi | rolling means of gains and of losses: `100 - 100 / (1 + gain / loss)` |
//! | atr | `true_range.rolling(n).mean()` |
//! | natr | that in percent of the close |
//! | bbands, bbw | `sma` and `rolling(n).std()`, which divides by n - 1; `(upper - lower) / sma` in percent |
//! | percentb | `(close - lower) / (upper - lower)` of the same bands |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{Bars, compare, flat, gaps, high, monotone, walk};
use gpuforge_indicators::{
    exec::{ExecOptions, Stream, run},
    select::{Convention, Selection, Selector, plan},
};

const NAN: f64 = f64::NAN;

fn selected(convention: Convention, text: &str) -> Selection {
    plan(&Selector::by(convention).select(text).unwrap())
}

fn pandas(text: &str, bars: &Bars) -> Vec<Vec<f64>> {
    let selection = selected(Convention::Pandas, text);
    run(&selection.plan, &[bars.series()], ExecOptions { threads: 1, ..ExecOptions::default() }).remove(0)
}

/// Shapes of markets, and lengths around the lookback.
fn markets() -> Vec<(String, Bars)> {
    let mut all: Vec<(String, Bars)> = vec![
        ("a walk".into(), walk(2000, 3)),
        ("jumps".into(), gaps(700)),
        ("far above 0".into(), high(700)),
        ("up".into(), monotone(300, 0.25)),
        ("down".into(), monotone(300, -0.25)),
        ("flat".into(), flat(300)),
    ];
    all.extend([0, 1, 2, 13, 14, 15, 21].map(|n| (format!("a walk of {n}"), walk(n, 5))));
    all
}

fn check(text: &str, reference: impl Fn(&Bars) -> Vec<Vec<f64>>) {
    for (name, bars) in markets() {
        if let Err(why) = compare(&pandas(text, &bars), &reference(&bars), false) {
            panic!("{text} of {name}: {why}");
        }
    }
}

/// `ewm(span=n, adjust=True).mean()`, as documented; leading NaNs are ignored.
fn ewm(x: &[f64], n: usize) -> Vec<f64> {
    let keep = 1.0 - 2.0 / (n as f64 + 1.0);
    let first = x.iter().position(|x| !x.is_nan()).unwrap_or(x.len());
    let at = |t: usize| {
        if t < first {
            return NAN;
        }
        let (mut sum, mut weights, mut weight) = (0.0, 0.0, 1.0);
        for i in (first..=t).rev() {
            sum += weight * x[i];
            weights += weight;
            weight *= keep;
        }
        sum / weights
    };
    (0..x.len()).map(at).collect()
}

/// `rolling(n)`: NaN unless the window is complete.
fn rolling(x: &[f64], n: usize, of: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let at = |t: usize| match (t + 1).checked_sub(n).map(|from| &x[from..=t]) {
        Some(window) if window.iter().all(|x| !x.is_nan()) => of(window),
        _ => NAN,
    };
    (0..x.len()).map(at).collect()
}

fn mean(window: &[f64]) -> f64 {
    window.iter().sum::<f64>() / window.len() as f64
}

/// `std()`: sample standard deviation.
fn std(window: &[f64]) -> f64 {
    let middle = mean(window);
    let squares: f64 = window.iter().map(|x| (x - middle).powi(2)).sum();
    (squares / (window.len() as f64 - 1.0)).sqrt()
}

fn zip(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
}

/// `diff()`.
fn changes(x: &[f64]) -> Vec<f64> {
    let nothing = x.iter().take(1).map(|_| NAN);
    nothing.chain(x.windows(2).map(|pair| pair[1] - pair[0])).collect()
}

#[test]
fn ema_is_ewm_adjust_true() {
    for n in [2, 5, 20, 1000] {
        check(&format!("ema({n})"), |bars| vec![ewm(&bars.close, n)]);
    }
    // No warm-up: the first value is the first close.
    let bars = walk(10, 1);
    assert_eq!(pandas("ema(1000)", &bars)[0][0], bars.close[0]);
    assert!(selected(Convention::TaLib, "ema(1000)").plan.starts() == [999]);
    assert!(selected(Convention::Pandas, "ema(1000)").plan.starts() == [0]);
}

#[test]
fn ema_of_a_source_starts_with_the_source() {
    let mut selector = Selector::by(Convention::Pandas);
    selector.define("smooth = sma(close, 10)").unwrap();
    let selection = plan(&selector.select("ema(5, source=smooth)").unwrap());
    for (name, bars) in markets() {
        let got = run(&selection.plan, &[bars.series()], ExecOptions::default()).remove(0);
        let want = vec![ewm(&rolling(&bars.close, 10, mean), 5)];
        compare(&got, &want, false).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn macd_is_built_from_ewm() {
    let macd = |bars: &Bars| {
        let line = zip(&ewm(&bars.close, 12), &ewm(&bars.close, 26), |a, b| a - b);
        let signal = ewm(&line, 9);
        let hist = zip(&line, &signal, |a, b| a - b);
        vec![line, signal, hist]
    };
    for (name, bars) in markets() {
        // Tolerance relative to the prices: differences of nearly equal values.
        let got = pandas("macd(12,26,9)", &bars);
        for (got, want) in got.iter().zip(macd(&bars)) {
            let scale = bars.close.iter().copied().fold(0.0, f64::max);
            for (t, (g, w)) in got.iter().zip(&want).enumerate() {
                assert!((g - w).abs() <= 1e-9 * scale, "{name}, bar {t}: {g} instead of {w}");
            }
        }
    }
}

#[test]
fn rsi_and_atr_use_rolling_means() {
    for n in [2, 7, 14] {
        check(&format!("rsi({n})"), |bars| {
            let change = changes(&bars.close);
            let side = |sign: f64| {
                let part: Vec<f64> =
                    change.iter().map(|x| if x.is_nan() { NAN } else { (sign * x).max(0.0) }).collect();
                rolling(&part, n, mean)
            };
            // 0 / 0 is NaN in pandas; here a flat market has an RSI of 50.
            let strength = |gain: f64, loss: f64| match gain + loss == 0.0 {
                true => 50.0,
                false => 100.0 - 100.0 / (1.0 + gain / loss),
            };
            vec![zip(&side(1.0), &side(-1.0), strength)]
        });
        check(&format!("atr({n})"), |bars| {
            let range = |t: usize| match t {
                0 => NAN,
                _ => {
                    let before = bars.close[t - 1];
                    let (high, low) = (bars.high[t], bars.low[t]);
                    (high - low).max((high - before).abs()).max((low - before).abs())
                }
            };
            vec![rolling(&(0..bars.len()).map(range).collect::<Vec<_>>(), n, mean)]
        });
    }
}

#[test]
fn bollinger_bands_use_the_sample_standard_deviation() {
    for n in [2, 10, 20] {
        check(&format!("bbw({n})"), |bars| {
            let (middle, deviation) = (rolling(&bars.close, n, mean), rolling(&bars.close, n, std));
            vec![zip(&middle, &deviation, |m, d| ((m + 2.0 * d) - (m - 2.0 * d)) / m * 100.0)]
        });
        check(&format!("bbands({n}, 2, 3)"), |bars| {
            let (middle, deviation) = (rolling(&bars.close, n, mean), rolling(&bars.close, n, std));
            let upper = zip(&middle, &deviation, |m, d| m + 2.0 * d);
            let lower = zip(&middle, &deviation, |m, d| m - 3.0 * d);
            vec![upper, middle, lower]
        });
    }
}

#[test]
fn other_indicators_do_not_depend_on_the_convention() {
    let bars = walk(500, 9);
    let text = "sma(20), obv, stoch, avwap_bands(1), support_resistance(50)";
    let talib = selected(Convention::TaLib, text);
    let talib = run(&talib.plan, &[bars.series()], ExecOptions::default()).remove(0);
    let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(pandas(text, &bars).iter().zip(&talib).all(|(a, b)| same(a, b)));
}

#[test]
fn classic111_has_the_same_columns_in_both_conventions() {
    let [talib, pandas] = [Convention::TaLib, Convention::Pandas].map(|c| selected(c, "set:classic111"));
    assert_eq!(pandas.columns.len(), 111);
    assert_eq!(pandas.columns, talib.columns);
    let bars = walk(1200, 4);
    let [talib, pandas] = [talib, pandas]
        .map(|s| (run(&s.plan, &[bars.series()], ExecOptions::default()).remove(0), s.columns));
    let differ =
        |at: usize| (0..1200).any(|t| talib.0[at][t] != pandas.0[at][t] && !pandas.0[at][t].is_nan());
    for (at, name) in pandas.1.iter().enumerate() {
        let other = ["ema_", "rsi_", "macd_", "atr_", "bbw_"].iter().any(|p| name.starts_with(p));
        assert_eq!(differ(at), other, "{name}");
    }
}

#[test]
fn results_do_not_depend_on_blocks_lanes_or_streaming() {
    let selection = selected(Convention::Pandas, "set:classic111");
    let all: Vec<Bars> = (0..9).map(|seed| walk(700 + 13 * seed as usize, seed)).collect();
    let series: Vec<_> = all.iter().map(Bars::series).collect();
    let plain = run(&selection.plan, &series, ExecOptions { threads: 1, ..ExecOptions::default() });
    let bits = |columns: &[Vec<f64>]| -> Vec<u64> { columns.iter().flatten().map(|x| x.to_bits()).collect() };
    for batched in [Some(false), Some(true)] {
        let how = ExecOptions { threads: 2, block: Some(7), batched, ..ExecOptions::default() };
        let other = run(&selection.plan, &series, how);
        assert!(plain.iter().zip(&other).all(|(a, b)| bits(a) == bits(b)), "{batched:?}");
    }
    let (bars, want) = (&all[0], &plain[0]);
    let mut stream = Stream::new(&selection.plan, ExecOptions::default());
    let mut got: Vec<Vec<f64>> = vec![Vec::new(); 111];
    for (from, to) in [(0, 1), (1, 300), (300, 301), (301, 700)] {
        let part = bars.between(from, to);
        let mut chunk = vec![vec![0.0; to - from]; 111];
        stream.push(&part.series(), &mut chunk.iter_mut().map(Vec::as_mut_slice).collect());
        got.iter_mut().zip(chunk).for_each(|(all, more)| all.extend(more));
    }
    assert_eq!(bits(&got), bits(want));
}
