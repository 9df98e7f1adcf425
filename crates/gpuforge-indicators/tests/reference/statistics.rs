//! Reference implementations of the statistics rows that TA-Lib does not have.

use crate::columns::{Reference, check_halt, each, lag, mean, moment, rolling, sample_deviation, sum, zip};
use crate::common::Bars;
use gpuforge_indicators::catalogue::Group;

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

/// Ranks from 1; ties get the mean rank.
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
        let (a, b) = (ranks(&bars.high[from..=t]), ranks(&bars.low[from..=t]));
        let (ma, mb) = (mean(&a), mean(&b));
        let product = |a: &[f64], ma: f64, b: &[f64], mb: f64| sum(&zip(a, b, |a, b| (a - ma) * (b - mb)));
        let scale = (product(&a, ma, &a, ma) * product(&b, mb, &b, mb)).sqrt();
        if scale == 0.0 { 0.0 } else { product(&a, ma, &b, mb) / scale }
    })]
}

fn drawdown(bars: &Bars, _: &[f64]) -> Vec<Vec<f64>> {
    let x = &bars.close;
    let mut top = x.clone();
    for t in 1..top.len() {
        top[t] = top[t].max(top[t - 1]);
    }
    let columns: [fn(f64, f64) -> f64; 3] = [|t, x| t - x, |t, x| 1.0 - x / t, |t, x| t.ln() - x.ln()];
    columns.iter().map(|f| zip(&top, x, f)).collect()
}

/// Expanding-window linear regression by textbook sums over i and d = x - first x.
fn tos_stdevall(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (mut d1, mut d2, mut id) = (0.0, 0.0, 0.0);
    let mut fits = Vec::new();
    for (i, x) in bars.close.iter().enumerate() {
        let (d, i, n) = (x - bars.close[0], i as f64, i as f64 + 1.0);
        (d1, d2, id) = (d1 + d, d2 + d * d, id + i * d);
        let slope = (id - d1 * i / 2.0) / (n * (n * n - 1.0) / 12.0);
        let deviation = ((d2 - d1 * d1 / n).max(0.0) / (n - 1.0)).sqrt();
        let fit = (bars.close[0] + d1 / n + slope * i / 2.0, deviation);
        fits.push(if n < p[0] { (f64::NAN, f64::NAN) } else { fit });
    }
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

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("stderr", |b, p| vec![rolling(&b.close, p[0] as usize, |w| sample_deviation(w) / p[0].sqrt())]),
    ("medium_ad", |b, p| vec![rolling(&b.close, p[0] as usize, medium_ad)]),
    ("skew", |b, p| vec![rolling(&b.close, p[0] as usize, skew)]),
    ("zscore", zscore),
    ("entropy", entropy),
    ("spearman", spearman),
    ("log_return", |b, p| vec![zip(&b.close, &lag(&b.close, p[0] as usize), |a, b| (a / b).ln())]),
    ("percent_return", |b, p| vec![zip(&b.close, &lag(&b.close, p[0] as usize), |a, b| a / b - 1.0)]),
    ("drawdown", drawdown),
    ("tos_stdevall", tos_stdevall),
];

#[test]
fn rolling_sums_keep_no_residue_after_a_trading_halt() {
    check_halt(Group::Statistics);
}
