//! Reference implementations of the volume rows that TA-Lib does not have.

use crate::columns::{
    Reference, check_halt, each, ema, lag, max, mean, min, over, rolling, runs, sample_deviation, sum,
    wilder, zip,
};
use crate::common::Bars;
use gpuforge_indicators::catalogue::Group;

fn obv(bars: &Bars) -> Vec<f64> {
    let mut total = 0.0;
    each(bars.len(), |t| t as f64)
        .iter()
        .map(|t| {
            let t = *t as usize;
            total += match t {
                0 => bars.volume[0],
                _ if bars.close[t] > bars.close[t - 1] => bars.volume[t],
                _ if bars.close[t] < bars.close[t - 1] => -bars.volume[t],
                _ => 0.0,
            };
            total
        })
        .collect()
}

fn aobv(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let obv = obv(bars);
    let n = |at: usize| p[at] as usize;
    let (fast, slow) = (ema(&obv, n(0)), ema(&obv, n(1)));
    let (lowest, highest) = (rolling(&obv, n(3), min), rolling(&obv, n(2), max));
    let runs = runs(&fast, &slow, n(4));
    [vec![obv, lowest, highest, fast, slow], runs].concat()
}

fn vosc(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (fast, slow) =
        (rolling(&bars.volume, p[0] as usize, mean), rolling(&bars.volume, p[1] as usize, mean));
    vec![zip(&fast, &slow, |f, s| 100.0 * over(f - s, s))]
}

/// Katsanos, Technical Analysis of Stocks and Commodities 22:6 (2004).
fn vfi(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    let typical = each(bars.len(), |t| (bars.high[t] + bars.low[t] + bars.close[t]) / 3.0);
    let before = lag(&typical, 1);
    let spread = rolling(&zip(&typical, &before, |a, b| (a / b).ln()), 30, sample_deviation);
    let average = lag(&rolling(&bars.volume, n, mean), 1);
    let flow = each(bars.len(), |t| {
        if spread[t].is_nan() || average[t].is_nan() {
            return f64::NAN;
        }
        let (cutoff, moved) = (p[1] * spread[t] * bars.close[t], typical[t] - before[t]);
        let volume = bars.volume[t].min(p[2] * average[t]);
        if moved > cutoff {
            volume
        } else if moved < -cutoff {
            -volume
        } else {
            0.0
        }
    });
    vec![ema(&zip(&rolling(&flow, n, sum), &average, over), p[3] as usize)]
}

fn pvr(bars: &Bars, _: &[f64]) -> Vec<Vec<f64>> {
    vec![each(bars.len(), |t| {
        if t == 0 {
            return f64::NAN;
        }
        match (bars.close[t] >= bars.close[t - 1], bars.volume[t] >= bars.volume[t - 1]) {
            (true, true) => 1.0,
            (true, false) => 2.0,
            (false, true) => 3.0,
            (false, false) => 4.0,
        }
    })]
}

/// The profile of one window: point of control, lower and upper edge of the value area.
fn profile(closes: &[f64], volumes: &[f64], bins: usize, area: f64) -> [f64; 3] {
    let (low, high) = (min(closes), max(closes));
    if low == high {
        return [low; 3];
    }
    let width = (high - low) / bins as f64;
    let mut held = vec![0.0; bins];
    for (c, v) in closes.iter().zip(volumes) {
        held[(((c - low) / width) as usize).min(bins - 1)] += v;
    }
    let fullest = (0..bins).find(|b| held[*b] == max(&held)).unwrap();
    let (mut from, mut to) = (fullest, fullest);
    while sum(&held[from..=to]) < sum(&held) * area / 100.0 && to + 1 - from < bins {
        let below = if from > 0 { held[from - 1] } else { -1.0 };
        let above = if to + 1 < bins { held[to + 1] } else { -1.0 };
        if below >= above { from -= 1 } else { to += 1 }
    }
    [low + width * (fullest as f64 + 0.5), low + width * from as f64, low + width * (to as f64 + 1.0)]
}

fn vp(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    let rows: Vec<[f64; 3]> = (0..bars.len())
        .map(|t| match (t + 1).checked_sub(n) {
            Some(from) => profile(&bars.close[from..=t], &bars.volume[from..=t], p[1] as usize, p[2]),
            None => [f64::NAN; 3],
        })
        .collect();
    (0..3).map(|at| rows.iter().map(|r| r[at]).collect()).collect()
}

/// Twiggs's smoothing is Wilder's; the range is the true range.
fn tmf(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let before = lag(&bars.close, 1);
    let flow = each(bars.len(), |t| {
        if t == 0 {
            return f64::NAN;
        }
        let (high, low) = (bars.high[t].max(before[t]), bars.low[t].min(before[t]));
        bars.volume[t] * over(2.0 * bars.close[t] - high - low, high - low)
    });
    let volume = zip(&bars.volume, &before, |v, b| if b.is_nan() { f64::NAN } else { v });
    let n = p[0] as usize;
    vec![zip(&wilder(&flow, n), &wilder(&volume, n), over)]
}

/// Khalil and Steckler, In the Volume Zone (2009).
fn vzo(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let before = lag(&bars.close, 1);
    let signed = each(bars.len(), |t| match bars.close[t].partial_cmp(&before[t]) {
        Some(order) => f64::from(order as i8) * bars.volume[t],
        None => f64::NAN,
    });
    let volume = zip(&bars.volume, &before, |v, b| if b.is_nan() { f64::NAN } else { v });
    let n = p[0] as usize;
    vec![zip(&ema(&signed, n), &ema(&volume, n), |s, v| 100.0 * over(s, v))]
}

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] = &[
    ("aobv", aobv),
    ("vosc", vosc),
    ("vfi", vfi),
    ("pvr", pvr),
    ("pvol", |b, _| vec![zip(&b.close, &b.volume, |c, v| c * v)]),
    ("vp", vp),
    ("tmf", tmf),
    ("vzo", vzo),
];

#[test]
fn rolling_sums_keep_no_residue_after_a_trading_halt() {
    check_halt(Group::Volume);
}
