//! Rows of the statistics group that TA-Lib does not have, beside plain loops over whole columns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;
mod plain;

use common::Bars;
use forge_indicators::catalogue::Group;
use plain::{check, each, greatest, lag, mean, moment, rolling, sample_deviation, sum, zip};

fn median(x: &[f64]) -> f64 {
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    (x[(x.len() - 1) / 2] + x[x.len() / 2]) / 2.0
}

fn medium_ad(w: &[f64]) -> f64 {
    let middle = median(w);
    median(&w.iter().map(|x| (x - middle).abs()).collect::<Vec<_>>())
}

/// G1, as spreadsheets and pandas have it.
fn skew(w: &[f64]) -> f64 {
    let n = w.len() as f64;
    let spread = moment(w, 2);
    if spread == 0.0 {
        return 0.0;
    }
    (n * (n - 1.0)).sqrt() / (n - 2.0) * moment(w, 3) / spread.powf(1.5)
}

fn entropy(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    let shares = zip(&bars.close, &rolling(&bars.close, n, sum), |x, s| x / s);
    let terms: Vec<f64> = shares.iter().map(|p_| -p_ * p_.ln() / p[1].ln()).collect();
    vec![rolling(&terms, n, sum)]
}

/// Ranks from 1, equal values sharing the mean of theirs.
fn ranks(x: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
    let mut ranks = vec![0.0; x.len()];
    let mut from = 0;
    while from < order.len() {
        let to = (from..order.len()).take_while(|i| x[order[*i]] == x[order[from]]).last().unwrap();
        for i in from..=to {
            ranks[order[i]] = (from + to) as f64 / 2.0 + 1.0;
        }
        from = to + 1;
    }
    ranks
}

fn spearman(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    vec![each(bars.len(), |t| {
        let Some(from) = (t + 1).checked_sub(n) else { return f64::NAN };
        let (a, b) = (ranks(&bars.close[from..=t]), ranks(&bars.high[from..=t]));
        let (ma, mb) = (mean(&a), mean(&b));
        let product = |a: &[f64], ma: f64, b: &[f64], mb: f64| sum(&zip(a, b, |a, b| (a - ma) * (b - mb)));
        let scale = (product(&a, ma, &a, ma) * product(&b, mb, &b, mb)).sqrt();
        if scale == 0.0 { 0.0 } else { product(&a, ma, &b, mb) / scale }
    })]
}

fn drawdown(bars: &Bars, _: &[f64]) -> Vec<Vec<f64>> {
    let x = &bars.close;
    let top = each(x.len(), |t| greatest(&x[..=t]));
    let columns: [fn(f64, f64) -> f64; 3] = [|t, x| t - x, |t, x| 1.0 - x / t, |t, x| t.ln() - x.ln()];
    columns.iter().map(|f| zip(&top, x, f)).collect()
}

/// The line through everything up to each bar, fitted anew each time.
fn tos_stdevall(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let fit = |t: usize| {
        let w = &bars.close[..=t];
        let (centre, m) = (t as f64 / 2.0, mean(w));
        let numbers = each(w.len(), |i| i as f64 - centre);
        let slope = sum(&zip(&numbers, w, |i, x| i * (x - m))) / sum(&zip(&numbers, &numbers, |a, b| a * b));
        (m + slope * centre, sample_deviation(w))
    };
    let fits: Vec<(f64, f64)> = (0..bars.len())
        .map(|t| if t + 1 < p[0] as usize { (f64::NAN, f64::NAN) } else { fit(t) })
        .collect();
    let column = |times: f64| fits.iter().map(|(line, d)| line + times * d).collect();
    [0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0].into_iter().map(column).collect()
}

fn zscore(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let score = |w: &[f64]| match sample_deviation(w) {
        0.0 => 0.0,
        d => (w[w.len() - 1] - mean(w)) / (p[1] * d),
    };
    vec![rolling(&bars.close, p[0] as usize, score)]
}

#[test]
fn every_row_agrees_with_its_definition() {
    check(
        Group::Statistics,
        &[
            ("stderr", |b, p| {
                vec![rolling(&b.close, p[0] as usize, |w| sample_deviation(w) / p[0].sqrt())]
            }),
            ("medium_ad", |b, p| vec![rolling(&b.close, p[0] as usize, medium_ad)]),
            ("skew", |b, p| vec![rolling(&b.close, p[0] as usize, skew)]),
            ("zscore", zscore),
            ("entropy", entropy),
            ("spearman", spearman),
            ("log_return", |b, p| vec![zip(&b.close, &lag(&b.close, p[0] as usize), |a, b| (a / b).ln())]),
            ("percent_return", |b, p| vec![zip(&b.close, &lag(&b.close, p[0] as usize), |a, b| a / b - 1.0)]),
            ("drawdown", drawdown),
            ("tos_stdevall", tos_stdevall),
        ],
    );
}
