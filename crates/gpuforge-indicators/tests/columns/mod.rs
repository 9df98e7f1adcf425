//! Column helpers for reference implementations: rolling windows, EMA, lag. NaN during the warm-up.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod double_double;

use gpuforge_indicators::catalogue::{self, Group, Oracle};

use crate::common::{Bars, compare, halt, ours, talib};

/// Reference implementation: the output columns of a row, from its definition.
pub(crate) type Reference = fn(&Bars, &[f64]) -> Vec<Vec<f64>>;

/// Compares the TA-Lib rows of a group on a market with a trading halt (constant price, no volume): rolling sums must keep no
/// rounding residue of what has left the window.
pub(crate) fn check_halt(group: Group) {
    let bars = halt(900);
    let mut wrong = Vec::new();
    for row in catalogue::all().filter(|r| r.group == group && r.oracle == Oracle::TaLib) {
        let params = row.defaults();
        let got = ours(row, &params, &bars);
        let want = talib(row, &params, &bars).expect("TA-Lib computes it");
        if let Err(why) = compare(&got, &want, false) {
            wrong.push(format!("{}: {why}", row.name));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ after a halt:\n{}", wrong.len(), wrong.join("\n"));
}

/// A column from a function of the bar index.
pub(crate) fn each(n: usize, f: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..n).map(f).collect()
}

/// Element-wise function of two columns.
pub(crate) fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

/// Lag by `n` bars.
pub(crate) fn lag(x: &[f64], n: usize) -> Vec<f64> {
    each(x.len(), |t| if t < n { f64::NAN } else { x[t - n] })
}

/// Rolling function of the last `n` values; NaN while one of them is.
pub(crate) fn rolling(x: &[f64], n: usize, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    each(x.len(), |t| match t.checked_sub(n - 1) {
        Some(from) if x[from..=t].iter().all(|x| !x.is_nan()) => f(&x[from..=t]),
        _ => f64::NAN,
    })
}

pub(crate) fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

pub(crate) fn mean(x: &[f64]) -> f64 {
    sum(x) / x.len() as f64
}

/// Central moment.
pub(crate) fn moment(x: &[f64], power: i32) -> f64 {
    if x.iter().all(|y| *y == x[0]) {
        return 0.0;
    }
    let m = mean(x);
    x.iter().map(|x| (x - m).powi(power)).sum::<f64>() / x.len() as f64
}

/// Sample standard deviation.
pub(crate) fn sample_deviation(x: &[f64]) -> f64 {
    (moment(x, 2) * x.len() as f64 / (x.len() as f64 - 1.0)).sqrt()
}

pub(crate) fn min(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(crate) fn max(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Recurrence `y = step(y, x)`, seeded with the mean of the first `n` values.
fn sma_seeded(x: &[f64], n: usize, step: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut out = vec![f64::NAN; x.len()];
    let begin = x.iter().position(|x| !x.is_nan()).unwrap_or(x.len());
    if begin + n > x.len() {
        return out;
    }
    let mut y = mean(&x[begin..begin + n]);
    out[begin + n - 1] = y;
    for t in begin + n..x.len() {
        y = step(y, x[t]);
        out[t] = y;
    }
    out
}

/// EMA, SMA-seeded.
pub(crate) fn ema(x: &[f64], n: usize) -> Vec<f64> {
    let k = 2.0 / (n as f64 + 1.0);
    sma_seeded(x, n, |y, x| if n == 1 { x } else { (x - y) * k + y })
}

/// Wilder's moving average, SMA-seeded.
pub(crate) fn wilder(x: &[f64], n: usize) -> Vec<f64> {
    sma_seeded(x, n, |y, x| (y * (n as f64 - 1.0) + x) / n as f64)
}

/// SMA in the rounding order of a rolling sum: rows that compare averages must see the same ties.
pub(crate) fn running_mean(x: &[f64], n: usize) -> Vec<f64> {
    let mut rest: f64 = x.iter().take(n - 1).sum();
    each(x.len(), |_| 0.0)
        .iter()
        .enumerate()
        .map(|(t, _)| {
            if t + 1 < n {
                return f64::NAN;
            }
            let sum = rest + x[t];
            rest = sum - x[t + 1 - n];
            sum / n as f64
        })
        .collect()
}

/// a / b, 0 where b is 0.
pub(crate) fn over(a: f64, b: f64) -> f64 {
    if b == 0.0 && !a.is_nan() { 0.0 } else { a / b }
}

/// 1 or 0, NaN where either side is.
pub(crate) fn flag(a: f64, b: f64, f: impl Fn(f64, f64) -> bool) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { f64::from(u8::from(f(a, b))) }
}

pub(crate) fn true_range(bars: &Bars) -> Vec<f64> {
    each(bars.len(), |t| match t {
        0 => f64::NAN,
        _ => {
            let (h, l, c) = (bars.high[t], bars.low[t], bars.close[t - 1]);
            (h - l).max((h - c).abs()).max((l - c).abs())
        }
    })
}

/// Long run and short run (pandas-ta): fast up (down) while slow moves.
pub(crate) fn runs(fast: &[f64], slow: &[f64], back: usize) -> Vec<Vec<f64>> {
    let (fast_before, slow_before) = (lag(fast, back), lag(slow, back));
    let run = |up: bool| {
        each(fast.len(), |t| {
            let (f, g, s, u) = (fast[t], fast_before[t], slow[t], slow_before[t]);
            if [f, g, s, u].iter().any(|x| x.is_nan()) {
                return f64::NAN;
            }
            let moves = if up { f > g } else { f < g };
            f64::from(u8::from(moves && s != u))
        })
    };
    vec![run(true), run(false)]
}
