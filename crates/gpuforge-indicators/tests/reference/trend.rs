//! Reference implementations of the trend rows that TA-Lib does not have.

use crate::columns::{
    Reference, check_halt, each, ema, flag, lag, over, rolling, running_mean, runs, sum, true_range, wilder,
    zip,
};
use crate::common::Bars;
use gpuforge_indicators::catalogue::Group;

fn increasing(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (x, n, strict) = (&bars.close, p[0] as usize, p[1] == 1.0);
    let column = |up: bool| {
        each(x.len(), |t| {
            if t < n {
                return f64::NAN;
            }
            let above = |a: f64, b: f64| if up { a > b } else { a < b };
            let yes = if strict {
                x[t - n..=t].windows(2).all(|w| above(w[1], w[0]))
            } else {
                above(x[t], x[t - n])
            };
            f64::from(u8::from(yes))
        })
    };
    vec![column(true), column(false)]
}

/// Tulip: max(x, y - 1/n) and max(x, y (n-1)/n).
fn decay(bars: &Bars, next: impl Fn(f64) -> f64) -> Vec<Vec<f64>> {
    let mut y = f64::NEG_INFINITY;
    let column = bars.close.iter().map(|x| {
        y = x.max(next(y));
        y
    });
    vec![column.collect()]
}

fn ttm_trend(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let middle = running_mean(&zip(&bars.high, &bars.low, |h, l| (h + l) / 2.0), p[0] as usize);
    vec![zip(&bars.close, &middle, |c, m| flag(c, m, |c, m| c > m) * 2.0 - 1.0)]
}

/// With one lookback, as TradingView and vector-ta have it; Poulos (1991) takes the max of several.
fn rwi(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    let expected: Vec<f64> = wilder(&true_range(bars), n).iter().map(|a| a * p[0].sqrt()).collect();
    let high = zip(&bars.high, &lag(&bars.low, n), |h, l| h - l);
    let low = zip(&lag(&bars.high, n), &bars.low, |h, l| h - l);
    vec![zip(&high, &expected, over), zip(&low, &expected, over)]
}

/// Hannula, Technical Analysis of Stocks and Commodities 12:1 (1994).
fn pfe(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (x, n) = (&bars.close, p[0] as usize);
    let steps = zip(x, &lag(x, 1), |a, b| (a - b).hypot(1.0));
    let path = rolling(&steps, n, sum);
    let raw = each(x.len(), |t| {
        if t < n {
            return f64::NAN;
        }
        let far = x[t] - x[t - n];
        let sign = if far < 0.0 { -1.0 } else { 1.0 };
        100.0 * sign * far.hypot(p[0]) / path[t]
    });
    vec![ema(&raw, p[1] as usize)]
}

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("amat", |b, p| runs(&ema(&b.close, p[0] as usize), &ema(&b.close, p[1] as usize), p[2] as usize)),
    ("decay", |b, p| decay(b, |y| y - 1.0 / p[0])),
    ("edecay", |b, p| decay(b, |y| y * ((p[0] - 1.0) / p[0]))),
    ("increasing", increasing),
    ("long_run", |b, p| {
        let of = |at: usize| running_mean(&b.close, p[at] as usize);
        runs(&of(0), &of(1), p[2] as usize)
    }),
    ("ttm_trend", ttm_trend),
    ("rwi", rwi),
    ("pfe", pfe),
];

#[test]
fn rolling_sums_keep_no_residue_after_a_trading_halt() {
    check_halt(Group::Trend);
}
