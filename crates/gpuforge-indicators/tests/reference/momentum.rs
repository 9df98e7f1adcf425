//! Reference implementations of the momentum rows that TA-Lib does not have.
//!
//! Written from the definitions: pandas-ta-classic for trixh, cfo, squeeze_pro, qqe, rsx, lrsi, inertia, pgo, psl, bias, brar,
//! rvgi, td_seq, slope and smc_sweep; Ehlers (2004) for the inverse Fisher transform; Dormeier for the MACD by volume;
//! Widner (1995) for the projection oscillator. Every window is summed directly at every bar.

use super::talib_precision::ours_is_closer;
use crate::{
    columns::Reference,
    common::{Bars, compare, ours, talib, walk},
};
use gpuforge_indicators::catalogue::{self, Group, Oracle};

type Column = Vec<f64>;

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("trixh", trixh),
    ("cfo", |b, p| vec![zip(&b.close, &line(&b.close, n(p, 0), 1.0), |c, f| 100.0 * (c - f) / c)]),
    ("squeeze_pro", squeeze_pro),
    ("qqe", qqe),
    ("rsx", |b, p| vec![rsx(&b.close, n(p, 0))]),
    ("lrsi", |b, p| vec![lrsi(&b.close, p[0])]),
    ("ift_rsi", ift_rsi),
    ("inertia", inertia),
    ("pgo", pgo),
    ("psl", psl),
    ("bias", |b, p| vec![zip(&b.close, &sma(&b.close, n(p, 0)), |c, m| (c - m) / m)]),
    ("brar", brar),
    ("rvgi", rvgi),
    ("td_seq", td_seq),
    ("vwmacd", vwmacd),
    ("po", po),
    ("slope", |b, p| vec![each(b, |t| ago(t, n(p, 0)).map(|s| (b.close[t] - b.close[s]) / p[0]))]),
    ("smc_sweep", smc_sweep),
];

/// `parity.rs` samples a few parameters; here all moving average types and the shortest windows.
#[test]
fn all_ma_types_and_shortest_windows_match_talib() {
    let mut wrong = Vec::new();
    for row in catalogue::all().filter(|r| r.group == Group::Momentum && r.oracle == Oracle::TaLib) {
        let kinds: Vec<usize> =
            (0..row.params.len()).filter(|at| row.params[*at].name.ends_with("_type")).collect();
        let mut sets: Vec<Vec<f64>> = Vec::new();
        for kind in (0..16).filter(|_| !kinds.is_empty()) {
            // MAMA of a constant %K is the phase of rounding residue.
            if row.name == "stochrsi" && kind == 7 {
                continue;
            }
            let mut params = row.defaults();
            kinds.iter().enumerate().for_each(|(i, at)| params[*at] = f64::from((kind + 5 * i as u32) % 16));
            sets.push(params);
        }
        for more in 0..4 {
            let short = |p: &catalogue::Param| {
                if p.integer { (p.min + f64::from(more)).min(p.max) } else { p.default }
            };
            sets.push(row.params.iter().map(short).collect());
        }
        for (params, bars) in sets.iter().flat_map(|p| [(p, walk(3000, 5)), (p, walk(70, 6))]) {
            let want = talib(row, params, &bars).unwrap();
            let got = ours(row, params, &bars);
            let agrees = compare(&got, &want, false);
            if let Err(why) = agrees.or_else(|why| ours_is_closer(row, params, &bars, (&got, &want), why)) {
                wrong.push(format!("{} {params:?} on {} bars: {why}", row.name, bars.len()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn n(params: &[f64], at: usize) -> usize {
    params[at] as usize
}

/// The bar `n` bars ago, if there is one.
fn ago(t: usize, n: usize) -> Option<usize> {
    t.checked_sub(n)
}

/// A value per bar; `None` is NaN.
fn each(bars: &Bars, f: impl Fn(usize) -> Option<f64>) -> Column {
    (0..bars.len()).map(|t| f(t).unwrap_or(f64::NAN)).collect()
}

fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Column {
    a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect()
}

fn map(a: &[f64], f: impl Fn(f64) -> f64) -> Column {
    a.iter().map(|a| f(*a)).collect()
}

/// Rolling function of the last `n` values; NaN where one is missing.
fn windows(x: &[f64], n: usize, f: impl Fn(&[f64]) -> f64) -> Column {
    let at = |t: usize| {
        let window = &x[ago(t + 1, n)?..=t];
        (!window.iter().any(|x| x.is_nan())).then(|| f(window))
    };
    (0..x.len()).map(|t| at(t).unwrap_or(f64::NAN)).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn sma(x: &[f64], n: usize) -> Column {
    windows(x, n, mean)
}

fn sum(x: &[f64], n: usize) -> Column {
    windows(x, n, |w| w.iter().sum())
}

fn wma(x: &[f64], n: usize) -> Column {
    let total = (n * (n + 1) / 2) as f64;
    windows(x, n, |w| w.iter().enumerate().map(|(i, x)| x * (i + 1) as f64).sum::<f64>() / total)
}

fn stddev(x: &[f64], n: usize) -> Column {
    windows(x, n, |w| {
        if w.iter().all(|x| *x == w[0]) {
            return 0.0;
        }
        let m = mean(w);
        (w.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / w.len() as f64).sqrt()
    })
}

/// Recurrence seeded with the mean of the first `n` values.
fn recurrence(x: &[f64], n: usize, step: impl Fn(f64, f64) -> f64) -> Column {
    let mut out = vec![f64::NAN; x.len()];
    let first = x.iter().position(|x| !x.is_nan()).unwrap_or(x.len());
    if first + n > x.len() {
        return out;
    }
    let mut y = mean(&x[first..first + n]);
    out[first + n - 1] = y;
    for t in first + n..x.len() {
        y = step(y, x[t]);
        out[t] = y;
    }
    out
}

fn ema(x: &[f64], n: usize) -> Column {
    let k = 2.0 / (n as f64 + 1.0);
    if n == 1 { x.to_vec() } else { recurrence(x, n, |y, x| y + k * (x - y)) }
}

fn wilder(x: &[f64], n: usize) -> Column {
    recurrence(x, n, |y, x| (y * (n as f64 - 1.0) + x) / n as f64)
}

fn change(x: &[f64]) -> Column {
    (0..x.len()).map(|t| if t == 0 { f64::NAN } else { x[t] - x[t - 1] }).collect()
}

fn rsi(x: &[f64], n: usize) -> Column {
    let moves = change(x);
    let gain = wilder(&map(&moves, |d| if d.is_nan() { d } else { d.max(0.0) }), n);
    let loss = wilder(&map(&moves, |d| if d.is_nan() { d } else { (-d).max(0.0) }), n);
    zip(&gain, &loss, |g, l| if g + l == 0.0 { 50.0 } else { 100.0 * g / (g + l) })
}

/// Linear regression of each window, extrapolated `ahead` bars.
fn line(x: &[f64], n: usize, ahead: f64) -> Column {
    windows(x, n, |w| {
        let (m, middle) = (mean(w), (w.len() as f64 - 1.0) / 2.0);
        m + slope(w) * (middle + ahead)
    })
}

fn slope(w: &[f64]) -> f64 {
    let (m, middle) = (mean(w), (w.len() as f64 - 1.0) / 2.0);
    let (mut xy, mut xx) = (0.0, 0.0);
    for (i, y) in w.iter().enumerate() {
        xy += (i as f64 - middle) * (y - m);
        xx += (i as f64 - middle) * (i as f64 - middle);
    }
    xy / xx
}

fn true_range(b: &Bars) -> Column {
    each(b, |t| {
        let before = b.close[ago(t, 1)?];
        Some(b.high[t].max(before) - b.low[t].min(before))
    })
}

/// Aligns the columns: NaN until all are valid.
fn align_starts(mut columns: Vec<Column>) -> Vec<Column> {
    for t in 0..columns[0].len() {
        if columns.iter().any(|c| c[t].is_nan()) {
            columns.iter_mut().for_each(|c| c[t] = f64::NAN);
        }
    }
    columns
}

fn trixh(b: &Bars, p: &[f64]) -> Vec<Column> {
    let triple = ema(&ema(&ema(&b.close, n(p, 0)), n(p, 0)), n(p, 0));
    let trix = each(b, |t| Some(100.0 * (triple[t] / triple[ago(t, 1)?] - 1.0)));
    let signal = sma(&trix, n(p, 1));
    let hist = zip(&trix, &signal, |a, b| a - b);
    align_starts(vec![trix, signal, hist])
}

fn squeeze_pro(b: &Bars, p: &[f64]) -> Vec<Column> {
    let (middle, width) = (sma(&b.close, n(p, 0)), stddev(&b.close, n(p, 0)));
    let (centre, range) = (sma(&b.close, n(p, 2)), sma(&true_range(b), n(p, 2)));
    let moved = each(b, |t| Some(b.close[t] - b.close[ago(t, n(p, 6))?]));
    let momentum = sma(&moved, n(p, 7));
    let told = |f: &dyn Fn(f64, f64, f64, f64) -> bool| {
        each(b, |t| {
            let (low, high) = (middle[t] - p[1] * width[t], middle[t] + p[1] * width[t]);
            let known = !(low + centre[t] + range[t]).is_nan();
            known.then(|| f64::from(u8::from(f(low, high, centre[t], range[t]))))
        })
    };
    let inside = |k: f64| told(&|low, high, c, r| low > c - k * r && high < c + k * r);
    let outside = told(&|low, high, c, r| low < c - p[3] * r && high > c + p[3] * r);
    let wide = inside(p[3]);
    let none = zip(&wide, &outside, |a, b| if (a + b).is_nan() { a + b } else { 1.0 - (a + b).min(1.0) });
    align_starts(vec![momentum, wide, inside(p[4]), inside(p[5]), outside, none])
}

fn qqe(b: &Bars, p: &[f64]) -> Vec<Column> {
    let smooth = ema(&rsi(&b.close, n(p, 0)), n(p, 1));
    let twice = 2 * n(p, 0) - 1;
    let width = map(&ema(&ema(&map(&change(&smooth), f64::abs), twice), twice), |w| p[2] * w);
    let size = b.len();
    let nan = || vec![f64::NAN; size];
    let (mut line, mut long, mut short, mut trend) = (nan(), nan(), nan(), nan());
    let first = width.iter().position(|w| !w.is_nan()).unwrap_or(size);
    for t in first..size {
        let (x, upper, lower) = (smooth[t], smooth[t] + width[t], smooth[t] - width[t]);
        (long[t], short[t], trend[t]) = (lower, upper, 1.0);
        if t > first {
            let before = smooth[t - 1];
            if before > long[t - 1] && x > long[t - 1] {
                long[t] = lower.max(long[t - 1]);
            }
            if before < short[t - 1] && x < short[t - 1] {
                short[t] = upper.min(short[t - 1]);
            }
            trend[t] = trend[t - 1];
        }
        if t > first + 1 {
            let before = smooth[t - 1];
            let cross = |band: &[f64]| {
                (x > band[t - 1] && before < band[t - 2]) || (x <= band[t - 1] && before >= band[t - 2])
            };
            if cross(&short) {
                trend[t] = 1.0;
            } else if cross(&long) {
                trend[t] = -1.0;
            }
        }
        line[t] = if trend[t] == 1.0 { long[t] } else { short[t] };
    }
    let smooth = zip(&smooth, &line, |s, l| if l.is_nan() { l } else { s });
    vec![line, smooth, long, short, trend]
}

/// Three cascaded smoothers: an EMA `a`, an EMA `b` of it, and 1.5 a - 0.5 b. All seeded with 0.
fn triple(x: &[f64], k: f64) -> Column {
    let mut x = x.to_vec();
    for _ in 0..3 {
        let (mut a, mut b) = (0.0, 0.0);
        for x in &mut x {
            a += k * (*x - a);
            b += k * (a - b);
            *x = 1.5 * a - 0.5 * b;
        }
    }
    x
}

fn rsx(x: &[f64], n: usize) -> Column {
    let mut out = vec![f64::NAN; x.len()];
    if x.len() <= n {
        return out;
    }
    let warm = (n - 1).max(5);
    let mut begin = n;
    // Restarts after a flat stretch as long as the warm-up.
    while begin + warm <= x.len() && x[begin..begin + warm].iter().all(|v| *v == x[begin]) {
        begin += warm;
    }
    let begin = begin.min(x.len());
    out[n..begin].fill(50.0);
    let moves: Column = (begin + 1..x.len()).map(|t| 100.0 * x[t] - 100.0 * x[t - 1]).collect();
    let k = 3.0 / (n as f64 + 2.0);
    let (signed, sizes) = (triple(&moves, k), triple(&map(&moves, f64::abs), k));
    for t in begin..x.len() {
        let ready = t - begin >= warm && sizes[t - begin - 1] > 1e-10;
        let share = |i: usize| ((signed[i] / sizes[i] + 1.0) * 50.0).clamp(0.0, 100.0);
        out[t] = if ready { share(t - begin - 1) } else { 50.0 };
    }
    out
}

fn lrsi(x: &[f64], g: f64) -> Column {
    let mut l = [x.first().copied().unwrap_or(0.0); 4];
    let step = |x: &f64| {
        let old = l;
        // As differences: equal stages stay equal.
        l[0] = x + g * (old[0] - x);
        for i in 1..4 {
            l[i] = old[i - 1] + g * (old[i] - l[i - 1]);
        }
        let (mut up, mut down) = (0.0, 0.0);
        for i in 0..3 {
            up += (l[i] - l[i + 1]).max(0.0);
            down += (l[i + 1] - l[i]).max(0.0);
        }
        if up + down == 0.0 { 0.0 } else { 100.0 * up / (up + down) }
    };
    x.iter().map(step).collect()
}

fn ift_rsi(b: &Bars, p: &[f64]) -> Vec<Column> {
    let smooth = wma(&map(&rsi(&b.close, n(p, 0)), |r| 0.1 * (r - 50.0)), n(p, 1));
    vec![map(&smooth, |v| ((2.0 * v).exp() - 1.0) / ((2.0 * v).exp() + 1.0))]
}

fn inertia(b: &Bars, p: &[f64]) -> Vec<Column> {
    let (moves, width) = (change(&b.close), stddev(&b.close, n(p, 1)));
    let side = |up: bool| {
        zip(&moves, &width, |d, w| match (d + w).is_nan() {
            true => f64::NAN,
            false if d != 0.0 && (d > 0.0) == up => w,
            false => 0.0,
        })
    };
    let (up, down) = (ema(&side(true), n(p, 1)), ema(&side(false), n(p, 1)));
    let rvi = zip(&up, &down, |u, d| if u + d == 0.0 { 50.0 } else { 100.0 * u / (u + d) });
    vec![line(&rvi, n(p, 0), 0.0)]
}

fn pgo(b: &Bars, p: &[f64]) -> Vec<Column> {
    let range = ema(&wilder(&true_range(b), n(p, 0)), n(p, 0));
    let distance = zip(&b.close, &sma(&b.close, n(p, 0)), |c, m| c - m);
    vec![zip(&distance, &range, |d, r| if r == 0.0 { 0.0 } else { d / r })]
}

fn psl(b: &Bars, p: &[f64]) -> Vec<Column> {
    let rose = each(b, |t| Some(f64::from(u8::from(b.close[t] > b.close[ago(t, 1)?]))));
    vec![map(&sum(&rose, n(p, 0)), |s| 100.0 * s / p[0])]
}

fn brar(b: &Bars, p: &[f64]) -> Vec<Column> {
    let ratio = |up: Column, down: Column| {
        zip(&sum(&up, n(p, 0)), &sum(&down, n(p, 0)), |u, d| if d == 0.0 { 0.0 } else { 100.0 * u / d })
    };
    let ar = ratio(zip(&b.high, &b.open, |h, o| h - o), zip(&b.open, &b.low, |o, l| o - l));
    let up = each(b, |t| Some((b.high[t] - b.close[ago(t, 1)?]).max(0.0)));
    let down = each(b, |t| Some((b.close[ago(t, 1)?] - b.low[t]).max(0.0)));
    vec![ar, ratio(up, down)]
}

fn rvgi(b: &Bars, p: &[f64]) -> Vec<Column> {
    // 1 2 .. 2 1
    let weight = |i: usize| (i + 1).min(n(p, 1) - i) as f64;
    let total: f64 = (0..n(p, 1)).map(weight).sum();
    let smooth = |x: &[f64]| {
        windows(x, n(p, 1), |w| w.iter().enumerate().map(|(i, x)| weight(i) * x).sum::<f64>() / total)
    };
    let body = sum(&smooth(&zip(&b.close, &b.open, |c, o| c - o)), n(p, 0));
    let range = sum(&smooth(&zip(&b.high, &b.low, |h, l| h - l)), n(p, 0));
    let vigor = zip(&body, &range, |b, r| if r == 0.0 { 0.0 } else { b / r });
    let signal = smooth(&vigor);
    align_starts(vec![vigor, signal])
}

fn td_seq(b: &Bars, _: &[f64]) -> Vec<Column> {
    let count = |yes: fn(f64, f64) -> bool| {
        each(b, |t| {
            ago(t, 4)?;
            let run = (4..=t).rev().take_while(|s| yes(b.close[*s], b.close[s - 4])).count();
            Some(run.min(13) as f64)
        })
    };
    vec![count(|x, y| x > y), count(|x, y| x < y)]
}

fn vwma(b: &Bars, n: usize) -> Column {
    each(b, |t| {
        let from = ago(t + 1, n)?;
        let (price, volume) = (&b.close[from..=t], &b.volume[from..=t]);
        let traded: f64 = volume.iter().sum();
        let paid: f64 = price.iter().zip(volume).map(|(p, v)| p * v).sum();
        Some(if traded == 0.0 { mean(price) } else { paid / traded })
    })
}

fn vwmacd(b: &Bars, p: &[f64]) -> Vec<Column> {
    let (fast, slow) = (p[0].min(p[1]) as usize, p[0].max(p[1]) as usize);
    let macd = zip(&vwma(b, fast), &vwma(b, slow), |f, s| f - s);
    let signal = ema(&macd, n(p, 2));
    let hist = zip(&macd, &signal, |m, s| m - s);
    align_starts(vec![macd, signal, hist])
}

fn po(b: &Bars, p: &[f64]) -> Vec<Column> {
    let carried = |x: &[f64], outer: fn(f64, f64) -> f64| {
        windows(x, n(p, 0), |w| {
            let m = slope(w);
            let today = |(i, x): (usize, &f64)| x + m * (w.len() - 1 - i) as f64;
            w.iter().enumerate().map(today).reduce(outer).unwrap()
        })
    };
    let (upper, lower) = (carried(&b.high, f64::max), carried(&b.low, f64::min));
    vec![each(b, |t| {
        let range = upper[t] - lower[t];
        Some(if range == 0.0 { 50.0 } else { 100.0 * (b.close[t] - lower[t]) / range })
    })]
}

fn smc_sweep(b: &Bars, p: &[f64]) -> Vec<Column> {
    vec![each(b, |t| {
        let from = ago(t, n(p, 0))?;
        let floor = b.low[from..t].iter().copied().fold(f64::INFINITY, f64::min);
        let roof = b.high[from..t].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (open, high, low, close) = (b.open[t], b.high[t], b.low[t], b.close[t]);
        let wick = p[1] * (close - open).abs();
        let bull = low < floor && close > floor && close > open && open.min(close) - low > wick;
        let bear = high > roof && close < roof && close < open && high - open.max(close) > wick;
        Some(f64::from(i8::from(bull) - i8::from(bear)))
    })]
}
