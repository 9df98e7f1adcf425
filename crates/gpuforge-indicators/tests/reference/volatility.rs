//! Reference implementations of the volatility rows that TA-Lib does not have.

use crate::columns::{
    Reference, check_halt, each, ema, flag, lag, max, mean, min, moment, rolling, sample_deviation, zip,
};
use crate::common::Bars;
use gpuforge_indicators::catalogue::Group;

fn log_returns(x: &[f64]) -> Vec<f64> {
    zip(x, &lag(x, 1), |a, b| (a / b).ln())
}

/// Root of a rolling mean, clamped at 0, annualised.
fn annual_root(terms: &[f64], n: f64, annual: f64) -> Vec<Vec<f64>> {
    vec![rolling(terms, n as usize, |w| mean(w).max(0.0).sqrt() * annual.sqrt())]
}

/// Martin: drawdowns in percent from the highest of the window, then their quadratic mean.
fn ui(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    let fall = rolling(&bars.close, n, |w| {
        let top = max(w);
        100.0 * (w[w.len() - 1] - top) / top
    });
    vec![rolling(&fall, n, |w| (w.iter().map(|x| x * x).sum::<f64>() / w.len() as f64).sqrt())]
}

/// Parkinson, Journal of Business 53:1 (1980).
fn parkinson(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let terms = zip(&bars.high, &bars.low, |h, l| (h / l).ln().powi(2) / (4.0 * 2f64.ln()));
    annual_root(&terms, p[0], p[1])
}

/// Garman and Klass, Journal of Business 53:1 (1980).
fn garman_klass(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let terms = each(bars.len(), |t| {
        let (o, h, l, c) = (bars.open[t], bars.high[t], bars.low[t], bars.close[t]);
        0.5 * (h / l).ln().powi(2) - (2.0 * 2f64.ln() - 1.0) * (c / o).ln().powi(2)
    });
    annual_root(&terms, p[0], p[1])
}

/// Yang and Zhang, Journal of Business 73:3 (2000).
fn yang_zhang(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0];
    let k = 0.34 / (1.34 + (n + 1.0) / (n - 1.0));
    let variance = |x: &[f64]| rolling(x, n as usize, |w| moment(w, 2) * n / (n - 1.0));
    let overnight = variance(&zip(&bars.open, &lag(&bars.close, 1), |o, c| (o / c).ln()));
    let day = variance(&zip(&bars.close, &bars.open, |c, o| (c / o).ln()));
    let inside = each(bars.len(), |t| {
        let (o, h, l, c) = (bars.open[t], bars.high[t], bars.low[t], bars.close[t]);
        (h / c).ln() * (h / o).ln() + (l / c).ln() * (l / o).ln()
    });
    let inside = rolling(&inside, n as usize, mean);
    vec![each(bars.len(), |t| {
        let variance = overnight[t] + k * day[t] + (1.0 - k) * inside[t];
        if variance.is_nan() { variance } else { variance.max(0.0).sqrt() * p[1].sqrt() }
    })]
}

/// RiskMetrics technical document (1996): the newest square gets 1 - lambda.
fn ewma_volatility(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let mut variance = f64::NAN;
    let column = log_returns(&bars.close).into_iter().map(|r| {
        variance = if variance.is_nan() { r * r } else { p[0] * variance + (1.0 - p[0]) * r * r };
        (variance * p[1]).sqrt()
    });
    vec![column.collect()]
}

/// pandas-ta, after Elder, Come Into My Trading Room (2002).
fn thermo(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let change = |x: &[f64]| zip(x, &lag(x, 1), |a, b| (a - b).abs());
    let heat = zip(&change(&bars.high), &change(&bars.low), |h, l| if h < l { l } else { h });
    let mean = ema(&heat, p[0] as usize);
    let long = zip(&heat, &mean, |h, m| flag(h, m * p[1], |h, m| h < m));
    let short = zip(&heat, &mean, |h, m| flag(h, m * p[2], |h, m| h > m));
    vec![heat, mean, long, short]
}

fn pdist(bars: &Bars, _: &[f64]) -> Vec<Vec<f64>> {
    vec![each(bars.len(), |t| {
        let before = if t == 0 { f64::NAN } else { bars.close[t - 1] };
        let (o, h, l, c) = (bars.open[t], bars.high[t], bars.low[t], bars.close[t]);
        2.0 * (h - l) + (o - before).abs() - (c - o).abs()
    })]
}

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("ui", ui),
    ("hvol", |b, p| {
        let deviation = rolling(&log_returns(&b.close), p[0] as usize, sample_deviation);
        vec![deviation.iter().map(|d| 100.0 * d * p[1].sqrt()).collect()]
    }),
    ("parkinson", parkinson),
    ("garman_klass", garman_klass),
    ("yang_zhang", yang_zhang),
    ("ewma_volatility", ewma_volatility),
    ("thermo", thermo),
    ("pdist", pdist),
    ("donchian_width", |b, p| {
        let n = p[0] as usize;
        vec![zip(&rolling(&b.high, n, max), &rolling(&b.low, n, min), |h, l| h - l)]
    }),
];

#[test]
fn rolling_sums_keep_no_residue_after_a_trading_halt() {
    check_halt(Group::Volatility);
}
