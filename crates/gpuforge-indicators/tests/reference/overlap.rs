//! Reference implementations of the overlap, bands and price rows that TA-Lib does not have; all `MAType`s against TA-Lib; no
//! drift of the WMA.

use std::f64::consts::PI;

use crate::{
    columns::Reference,
    common::{Bars, Random, compare, ours, talib, walk},
};
use gpuforge_indicators::catalogue::{self, Indicator};

/// Definitions are those of pandas-ta-classic 0.8 unless the row says otherwise.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("swma", |b, p| vec![weighted(&b.close, &triangle(p[0] as usize))]),
    ("sinwma", |b, p| vec![weighted(&b.close, &sines(p[0] as usize))]),
    ("pwma", |b, p| vec![weighted(&b.close, &pascal(p[0] as usize))]),
    ("fwma", |b, p| vec![weighted(&b.close, &fibonacci(p[0] as usize))]),
    ("hwma", |b, p| vec![holt_winters(&b.close, p[0], p[1], p[2])]),
    ("ssf", |b, p| vec![super_smoother(&b.close, p[0], p[1])]),
    ("jma", |b, p| vec![jurik(&b.close, p[0] as usize, p[1])]),
    ("laguerre", |b, p| vec![laguerre(&b.close, p[0])]),
    ("decycler", |b, p| vec![decycler(&b.close, p[0])]),
    ("kalman", |b, p| vec![kalman(&b.close, p[0], p[1])]),
    ("mmar", |b, p| (0..6).map(|i| ema(&b.close, p[0] as usize + i * p[1] as usize)).collect()),
    ("rainbow", |b, p| rainbow(&b.close, p[0] as usize)),
    ("gmma", |b, _| [3, 5, 8, 10, 12, 15, 30, 35, 40, 45, 50, 60].map(|n| ema(&b.close, n)).to_vec()),
    ("alligator", |b, p| {
        [0, 2, 4].map(|i| shift(&wilder(&median(b), p[i] as usize), p[i + 1] as usize)).to_vec()
    }),
    ("envelopes", |b, p| {
        let middle = ma(&b.close, p[0], p[2]);
        let times = |f: f64| middle.iter().map(|x| x * f).collect();
        vec![times(1.0 + p[1] / 100.0), middle.clone(), times(1.0 - p[1] / 100.0)]
    }),
    ("ce", |b, p| {
        let (n, atr) = (p[0] as usize, atr(b, p[0] as usize));
        let high = windows(&b.high, n, |w| w.iter().copied().fold(f64::MIN, f64::max));
        let low = windows(&b.low, n, |w| w.iter().copied().fold(f64::MAX, f64::min));
        vec![zip(&high, &atr, |h, a| h - p[1] * a), zip(&low, &atr, |l, a| l + p[1] * a)]
    }),
    ("hilo", hilo),
    ("pmax", pmax),
    ("aberration", |b, p| {
        let typical: Vec<f64> = (0..b.len()).map(|t| (b.high[t] + b.low[t] + b.close[t]) / 3.0).collect();
        let (middle, atr) = (sma(&typical, p[0] as usize), atr(b, p[1] as usize));
        vec![middle.clone(), zip(&middle, &atr, |m, a| m + a), zip(&middle, &atr, |m, a| m - a), atr]
    }),
    ("hwc", holt_winters_channel),
    ("cpr", central_pivot_range),
    ("pivot", pivot_points),
];

/// Rolling function of the last `n` values; NaN during the warm-up.
fn windows(x: &[f64], n: usize, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    (0..x.len()).map(|t| if t + 1 < n { f64::NAN } else { f(&x[t + 1 - n..=t]) }).collect()
}

fn zip(x: &[f64], y: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect()
}

fn weighted(x: &[f64], weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    windows(x, weights.len(), |w| w.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>() / total)
}

fn triangle(n: usize) -> Vec<f64> {
    let mut weights: Vec<f64> = (1..=n.div_ceil(2)).map(|i| i as f64).collect();
    weights.extend((1..=n / 2).rev().map(|i| i as f64));
    weights
}

fn sines(n: usize) -> Vec<f64> {
    (1..=n).map(|i| (PI * i as f64 / (n as f64 + 1.0)).sin()).collect()
}

fn pascal(n: usize) -> Vec<f64> {
    let mut row = vec![1.0];
    while row.len() < n {
        let mut next = vec![1.0];
        next.extend(row.windows(2).map(|pair| pair[0] + pair[1]));
        next.push(1.0);
        row = next;
    }
    row
}

fn fibonacci(n: usize) -> Vec<f64> {
    let mut row = vec![1.0, 1.0];
    while row.len() < n {
        row.push(row[row.len() - 1] + row[row.len() - 2]);
    }
    row.truncate(n);
    row
}

fn sma(x: &[f64], n: usize) -> Vec<f64> {
    windows(x, n, |w| w.iter().sum::<f64>() / n as f64)
}

fn shift(x: &[f64], n: usize) -> Vec<f64> {
    (0..x.len()).map(|t| if t < n { f64::NAN } else { x[t - n] }).collect()
}

/// `y += k (x - y)`, SMA-seeded.
fn exponential(x: &[f64], n: usize, k: f64) -> Vec<f64> {
    let first = x.iter().take_while(|v| v.is_nan()).count();
    let mut out = vec![f64::NAN; x.len()];
    for t in first + n - 1..x.len() {
        out[t] = if t == first + n - 1 {
            x[first..=t].iter().sum::<f64>() / n as f64
        } else {
            out[t - 1] + k * (x[t] - out[t - 1])
        };
    }
    out
}

fn ema(x: &[f64], n: usize) -> Vec<f64> {
    exponential(x, n, 2.0 / (n as f64 + 1.0))
}

fn wilder(x: &[f64], n: usize) -> Vec<f64> {
    exponential(x, n, 1.0 / n as f64)
}

fn median(b: &Bars) -> Vec<f64> {
    zip(&b.high, &b.low, |h, l| (h + l) / 2.0)
}

fn atr(b: &Bars, n: usize) -> Vec<f64> {
    let range = |t: usize| {
        if t == 0 {
            return f64::NAN;
        }
        b.high[t].max(b.close[t - 1]) - b.low[t].min(b.close[t - 1])
    };
    wilder(&(0..b.len()).map(range).collect::<Vec<f64>>(), n)
}

/// TA-Lib's moving average of this `MAType`.
fn ma(x: &[f64], n: f64, kind: f64) -> Vec<f64> {
    static MA: Indicator = Indicator { name: "ma", aliases: &["MA"], ..Indicator::BASE };
    let bars = Bars { close: x.to_vec(), ..Bars::default() };
    let found = talib(&MA, &[n, kind], &bars).expect("TA-Lib has MA").remove(0);
    // A mean of equal values is that value; TA-Lib's rolling sums may be off by an ulp, which comparisons would see.
    let same = x.iter().take_while(|y| **y == x[0]).count();
    let settled = |(t, y): (usize, f64)| if t < same && !y.is_nan() { x[0] } else { y };
    found.into_iter().enumerate().map(settled).collect()
}

fn rainbow(x: &[f64], n: usize) -> Vec<Vec<f64>> {
    let mut all = vec![sma(x, n)];
    while all.len() < 10 {
        let last = all[all.len() - 1].clone();
        all.push(sma(&last, n));
    }
    all
}

fn holt_winters(x: &[f64], na: f64, nb: f64, nc: f64) -> Vec<f64> {
    let (mut f, mut v, mut a) = (x.first().copied().unwrap_or(0.0), 0.0, 0.0);
    let mut out = Vec::new();
    for &price in x {
        let new_f = (1.0 - na) * (f + v + 0.5 * a) + na * price;
        let new_v = (1.0 - nb) * (v + a) + nb * (new_f - f);
        let new_a = (1.0 - nc) * a + nc * (new_v - v);
        (f, v, a) = (new_f, new_v, new_a);
        out.push(f + v + 0.5 * a);
    }
    out
}

fn holt_winters_channel(b: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let x = &b.close;
    let middle = holt_winters(x, p[0], p[1], p[2]);
    let mut variance = vec![0.0; x.len() + 1];
    for t in 1..x.len() {
        variance[t] = (1.0 - p[3]) * variance[t - 1] + p[3] * (x[t - 1] - middle[t - 1]).powi(2);
    }
    // The width uses the variance of the bar before.
    let width: Vec<f64> =
        (0..x.len()).map(|t| if t == 0 { 0.0 } else { p[4] * variance[t - 1].sqrt() }).collect();
    vec![middle.clone(), zip(&middle, &width, |m, w| m + w), zip(&middle, &width, |m, w| m - w)]
}

fn super_smoother(x: &[f64], n: f64, poles: f64) -> Vec<f64> {
    let mut y = x.to_vec();
    if poles == 3.0 {
        let e = (-PI / n).exp();
        let b = 2.0 * e * (3f64.sqrt() * PI / n).cos();
        let (c2, c3, c4) = (e * e + b, -e * e * (1.0 + b), e.powi(4));
        for t in 3..x.len() {
            y[t] = (1.0 - c2 - c3 - c4) * x[t] + c2 * y[t - 1] + c3 * y[t - 2] + c4 * y[t - 3];
        }
    } else {
        let e = (-(2f64.sqrt()) * PI / n).exp();
        let b = 2.0 * e * (2f64.sqrt() * PI / n).cos();
        for t in 2..x.len() {
            y[t] = (1.0 - b + e * e) * x[t] + b * y[t - 1] - e * e * y[t - 2];
        }
    }
    y
}

fn jurik(x: &[f64], n: usize, phase: f64) -> Vec<f64> {
    let m = x.len();
    let (mut y, mut volatility, mut sums) = (vec![0.0; m], vec![0.0; m], vec![0.0; m]);
    if m == 0 {
        return y;
    }
    let half = 0.5 * (n as f64 - 1.0);
    let length = (half.sqrt().ln() / 2f64.ln() + 2.0).max(0.0);
    let power = (length - 2.0).max(0.5);
    let bet = length * half.sqrt() / (length * half.sqrt() + 1.0);
    let beta = 0.45 * (n as f64 - 1.0) / (0.45 * (n as f64 - 1.0) + 2.0);
    let ratio = 1.5 + phase * 0.01;
    let (mut upper, mut lower, mut first, mut det0, mut det1) = (x[0], x[0], x[0], 0.0, 0.0);
    y[0] = x[0];
    for t in 1..m {
        let (above, below): (f64, f64) = (x[t] - upper, x[t] - lower);
        volatility[t] = if above.abs() == below.abs() { 0.0 } else { above.abs().max(below.abs()) };
        let old = volatility[t.saturating_sub(10)];
        sums[t] = sums[t - 1] + (volatility[t] - old) / 10.0;
        let recent = &sums[t.saturating_sub(65)..=t];
        let usual = recent.iter().sum::<f64>() / recent.len() as f64;
        let relative = if usual == 0.0 { 0.0 } else { volatility[t] / usual };
        let r = relative.min(length.powf(1.0 / power)).max(1.0).powf(power);
        let keep = bet.powf(r.sqrt());
        upper = if above > 0.0 { x[t] } else { x[t] - keep * above };
        lower = if below < 0.0 { x[t] } else { x[t] - keep * below };
        let alpha = beta.powf(r);
        first = (1.0 - alpha) * x[t] + alpha * first;
        det0 = (x[t] - first) * (1.0 - beta) + beta * det0;
        det1 = (first + ratio * det0 - y[t - 1]) * (1.0 - alpha).powi(2) + alpha * alpha * det1;
        y[t] = y[t - 1] + det1;
    }
    for early in y.iter_mut().take(n - 1) {
        *early = f64::NAN;
    }
    y
}

/// Ehlers, "Time warp - without space travel" (2000).
fn laguerre(x: &[f64], g: f64) -> Vec<f64> {
    let Some(&first) = x.first() else { return Vec::new() };
    let mut old = [first; 4];
    let mut out = Vec::new();
    for &price in x {
        let mut new = [(1.0 - g) * price + g * old[0], 0.0, 0.0, 0.0];
        for i in 1..4 {
            new[i] = -g * new[i - 1] + old[i - 1] + g * old[i];
        }
        old = new;
        out.push((new[0] + 2.0 * new[1] + 2.0 * new[2] + new[3]) / 6.0);
    }
    out
}

/// Ehlers, "Cycle analytics for traders" (2013): the input minus its two-pole high-pass.
fn decycler(x: &[f64], n: f64) -> Vec<f64> {
    let w = 0.707 * 2.0 * PI / n;
    let k = (w.cos() + w.sin() - 1.0) / w.cos();
    let before = |t: usize, back: usize| x[t.saturating_sub(back)];
    let mut h: Vec<f64> = Vec::new();
    for t in 0..x.len() {
        let past = |back: usize| if t < back { 0.0 } else { h[t - back] };
        let new = (1.0 - k / 2.0).powi(2) * (x[t] - 2.0 * before(t, 1) + before(t, 2))
            + 2.0 * (1.0 - k) * past(1)
            - (1.0 - k).powi(2) * past(2);
        h.push(new);
    }
    zip(x, &h, |x, h| x - h)
}

/// Durbin and Koopman, "Time series analysis by state space methods": the local level model.
fn kalman(x: &[f64], process: f64, measurement: f64) -> Vec<f64> {
    let mut variance = measurement;
    let mut out: Vec<f64> = Vec::new();
    for (t, price) in x.iter().enumerate() {
        if t == 0 {
            out.push(*price);
            continue;
        }
        variance += process;
        let gain = variance / (variance + measurement);
        out.push((1.0 - gain) * out[t - 1] + gain * price);
        variance *= 1.0 - gain;
    }
    out
}

fn hilo(b: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (high, low) = (ma(&b.high, p[0], p[2]), ma(&b.low, p[1], p[2]));
    let (mut line, mut trend) = (vec![f64::NAN; b.len()], vec![f64::NAN; b.len()]);
    for t in 1..b.len() {
        if high[t - 1].is_nan() || low[t - 1].is_nan() {
            continue;
        }
        (line[t], trend[t]) = if b.close[t] > high[t - 1] {
            (low[t], 1.0)
        } else if b.close[t] < low[t - 1] || line[t - 1].is_nan() {
            (high[t], -1.0)
        } else {
            (line[t - 1], trend[t - 1])
        };
    }
    vec![line, trend]
}

fn pmax(b: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (middle, atr) = (ma(&b.close, p[0], p[2]), atr(b, p[0] as usize));
    let mut up = zip(&middle, &atr, |m, a| m - p[1] * a);
    let mut down = zip(&middle, &atr, |m, a| m + p[1] * a);
    let (mut line, mut trend) = (vec![f64::NAN; b.len()], vec![f64::NAN; b.len()]);
    for t in 0..b.len() {
        if up[t].is_nan() {
            continue;
        }
        if t == 0 || up[t - 1].is_nan() {
            (line[t], trend[t]) = (up[t], 1.0);
            continue;
        }
        let before = t - 1;
        if b.close[before] > up[before] {
            up[t] = up[t].max(up[before]);
        }
        if b.close[before] < down[before] {
            down[t] = down[t].min(down[before]);
        }
        trend[t] = if b.close[t] > down[before] {
            1.0
        } else if b.close[t] < up[before] {
            -1.0
        } else {
            trend[before]
        };
        line[t] = if trend[t] == 1.0 { up[t] } else { down[t] };
    }
    vec![line, trend]
}

/// High, low and close of the session before each bar's, for sessions of this many seconds.
fn session_before(b: &Bars, seconds: f64) -> Vec<Option<[f64; 3]>> {
    let number = |t: usize| (b.time[t] / seconds).floor();
    let mut sessions: Vec<(f64, Vec<usize>)> = Vec::new();
    let mut place = Vec::new();
    for t in 0..b.len() {
        match sessions.last_mut() {
            Some((n, bars)) if *n == number(t) => bars.push(t),
            _ => sessions.push((number(t), vec![t])),
        }
        place.push(sessions.len() - 1);
    }
    let summary = |bars: &[usize]| {
        let high = bars.iter().map(|t| b.high[*t]).fold(f64::MIN, f64::max);
        let low = bars.iter().map(|t| b.low[*t]).fold(f64::MAX, f64::min);
        [high, low, b.close[bars[bars.len() - 1]]]
    };
    let summaries: Vec<[f64; 3]> = sessions.iter().map(|(_, bars)| summary(bars)).collect();
    place.into_iter().map(|s: usize| s.checked_sub(1).map(|s| summaries[s])).collect()
}

/// One column per level.
fn columns(b: &Bars, seconds: f64, width: usize, levels: impl Fn([f64; 3]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let mut out = vec![vec![f64::NAN; b.len()]; width];
    for (t, before) in session_before(b, seconds).into_iter().enumerate() {
        if let Some(before) = before {
            levels(before).into_iter().zip(&mut out).for_each(|(x, column)| column[t] = x);
        }
    }
    out
}

fn central_pivot_range(b: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    columns(b, p[0], 8, |[h, l, c]| {
        let pivot = (h + l + c) / 3.0;
        let bottom = (h + l) / 2.0;
        let top = (pivot - bottom) + pivot;
        let width = (top - bottom).abs() / pivot * 100.0;
        vec![pivot, top, bottom, 2.0 * pivot - l, 2.0 * pivot - h, pivot + (h - l), pivot - (h - l), width]
    })
}

fn pivot_points(b: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    columns(b, p[0], 7, |[h, l, c]| {
        let third = (h + l + c) / 3.0;
        let classic = |p: f64| {
            vec![p, 2.0 * p - l, 2.0 * p - h, p + h - l, p - h + l, h + 2.0 * (p - l), l - 2.0 * (h - p)]
        };
        let ladder = |from: f64, shares: [f64; 3]| {
            let levels = shares.into_iter().flat_map(|s| [from + s * (h - l), from - s * (h - l)]);
            std::iter::once(third).chain(levels).collect()
        };
        match p[1] as usize {
            1 => ladder(third, [0.382, 0.618, 1.0]),
            2 => ladder(c, [1.1 / 12.0, 1.1 / 6.0, 1.1 / 4.0]),
            3 => classic((h + l + 2.0 * c) / 4.0),
            _ => classic(third),
        }
    })
}

#[test]
fn all_pivot_methods_match_the_reference() {
    let row = catalogue::find("pivot").unwrap();
    let bars = walk(4000, 5);
    for method in 0..4 {
        let params = [3600.0, f64::from(method)];
        compare(&ours(row, &params, &bars), &pivot_points(&bars, &params), false).unwrap();
    }
}

#[test]
fn all_ma_types_match_talib() {
    let row = catalogue::find("bbands").unwrap();
    for kind in (0..=15).filter(|kind| *kind != 11) {
        for n in [2, 3, 4, 7, 20, 40] {
            let params = [f64::from(n), 2.0, 1.5, f64::from(kind)];
            for bars in [walk(1200, 40 + kind as u64), walk(n as usize, 2), crate::common::flat(300)] {
                let want = talib(row, &params, &bars).unwrap();
                let got = compare(&ours(row, &params, &bars), &want, false);
                assert!(got.is_ok(), "kind {kind} of {n} on {} bars: {got:?}", bars.len());
            }
        }
    }
}

#[test]
fn mavp_matches_talib_for_all_ma_types() {
    // Highs that cover all periods and both clamps.
    let mut r = Random(77);
    let mut bars = walk(800, 9);
    bars.high.iter_mut().for_each(|h| *h = r.next() * 40.0 - 2.0);
    let row = catalogue::find("mavp").unwrap();
    for kind in (0..=15).filter(|kind| *kind != 11) {
        let params = [3.0, 25.0, f64::from(kind)];
        let want = talib(row, &params, &bars).unwrap();
        let got = compare(&ours(row, &params, &bars), &want, false);
        assert!(got.is_ok(), "kind {kind}: {got:?}");
    }
}

#[test]
fn wma_does_not_drift() {
    let bars = walk(200_000, 21);
    let got = ours(catalogue::find("wma").unwrap(), &[30.0], &bars).remove(0);
    let weights: Vec<f64> = (1..=30).map(f64::from).collect();
    let want = weighted(&bars.close, &weights);
    let worst = compare(&[got], &[want], false).unwrap();
    assert!(worst < 1e-13, "{worst:.1e}");
}
