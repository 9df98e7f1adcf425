//! Reference implementations of the cycle rows that TA-Lib does not have; subexpression sharing of the Hilbert rows.

use std::f64::consts::{PI, TAU};

use crate::columns::{Reference, each, ema, zip};
use crate::common::Bars;
use gpuforge_indicators::{
    catalogue,
    select::{Instance, select},
};

/// Tulip Indicators, `msw`: the phase of one turn of `n` bars. A real part within 0.001 is 0.
fn msw(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    let phase = |t: usize| {
        if t < n {
            return f64::NAN;
        }
        let (mut real, mut imag) = (0.0, 0.0);
        for j in 0..n {
            let angle = TAU * j as f64 / n as f64;
            real += angle.cos() * bars.close[t - j];
            imag += angle.sin() * bars.close[t - j];
        }
        if real.abs() <= 0.001 {
            return 1.5 * PI;
        }
        (imag / real).atan() + if real < 0.0 { PI } else { 0.0 } + PI / 2.0
    };
    let lines = |ahead: f64| each(bars.len(), |t| (phase(t) + ahead).sin());
    vec![lines(0.0), lines(PI / 4.0)]
}

/// Ehlers, Cycle Analytics for Traders (2013), chapter 12: high-pass, super smoother, wave over the root of its power.
fn ebsw(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (n, x) = (bars.len(), &bars.close);
    let degrees = 360.0 / p[0];
    let alpha = (1.0 - degrees.to_radians().sin()) / degrees.to_radians().cos();
    let a1 = (-(2f64.sqrt()) * PI / p[1]).exp();
    let b1 = 2.0 * a1 * (2f64.sqrt() * 180.0 / p[1]).to_radians().cos();
    let (c2, c3) = (b1, -a1 * a1);
    let c1 = 1.0 - c2 - c3;
    let (mut high, mut smooth) = (vec![0.0; n], vec![0.0; n]);
    let back = |v: &[f64], t: usize, k: usize| if t < k { 0.0 } else { v[t - k] };
    let mut wave = vec![f64::NAN; n];
    for t in 0..n {
        if t > 0 {
            high[t] = 0.5 * (1.0 + alpha) * (x[t] - x[t - 1]) + alpha * high[t - 1];
        }
        smooth[t] =
            c1 * (high[t] + back(&high, t, 1)) / 2.0 + c2 * back(&smooth, t, 1) + c3 * back(&smooth, t, 2);
        let last = [smooth[t], back(&smooth, t, 1), back(&smooth, t, 2)];
        let power = last.iter().map(|x| x * x).sum::<f64>() / 3.0;
        if t >= p[0] as usize {
            wave[t] = if power == 0.0 { 0.0 } else { last.iter().sum::<f64>() / 3.0 / power.sqrt() };
        }
    }
    vec![wave]
}

/// Ehlers, Rocket Science for Traders (2001): EMAs over a quarter and over half of the cycle.
fn dsp(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let n = p[0] as usize;
    vec![zip(&ema(&bars.close, n / 4), &ema(&bars.close, n / 2), |a, b| a - b)]
}

/// Pearson correlation; 0 where one side is constant.
fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len() as f64;
    let (mx, my) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sum = |f: &dyn Fn(usize) -> f64| (0..x.len()).map(f).sum::<f64>();
    let xy = sum(&|i| (x[i] - mx) * (y[i] - my));
    let (xx, yy) = (sum(&|i| (x[i] - mx).powi(2)), sum(&|i| (y[i] - my).powi(2)));
    if x.iter().all(|a| *a == x[0]) { 0.0 } else { xy / (xx * yy).sqrt() }
}

/// Ehlers, Correlation as a Cycle Indicator, Stocks & Commodities (June 2020).
fn correlation_cycle(bars: &Bars, p: &[f64]) -> Vec<Vec<f64>> {
    let (n, threshold) = (p[0] as usize, p[1]);
    let mut out = vec![vec![f64::NAN; bars.len()]; 4];
    let turn = |f: fn(f64) -> f64| each(n, |k| f(TAU * k as f64 / n as f64));
    let (cosine, sine) = (turn(f64::cos), turn(|x| -x.sin()));
    let mut last = None;
    for t in n - 1..bars.len() {
        let window: Vec<f64> = (0..n).map(|k| bars.close[t - k]).collect();
        let (real, imag) = (correlation(&window, &cosine), correlation(&window, &sine));
        let mut angle = last.unwrap_or(0.0);
        if imag.abs() > 1e-9 {
            angle = 90.0 + (real / imag).atan() * 180.0 / PI;
            if imag > 0.0 {
                angle -= 180.0;
            }
        }
        if let Some(last) = last
            && last - angle < 270.0
            && angle < last
        {
            angle = last;
        }
        let still = last.is_some_and(|last| (angle - last).abs() < threshold);
        let state = if angle < 0.0 { -1.0 } else { 1.0 };
        (out[0][t], out[1][t], out[2][t]) = (real, imag, angle);
        out[3][t] = if still { state } else { 0.0 };
        last = Some(angle);
    }
    out
}

/// Every row, by its name.
pub(super) const REFERENCES: &[(&str, Reference)] =
    &[("msw", msw), ("ebsw", ebsw), ("dsp", dsp), ("correlation_cycle", correlation_cycle)];

/// Common-subexpression elimination: a second Hilbert row adds only its own nodes.
#[test]
fn hilbert_rows_share_the_transform() {
    let steps = |names: &[&str]| {
        let rows: Vec<_> = names.iter().map(|n| Instance::of(catalogue::find(n).unwrap())).collect();
        select(&rows).plan.steps()
    };
    let (mode, line) = (steps(&["ht_trendmode"]), steps(&["ht_trendline"]));
    let all = steps(&["ht_trendmode", "ht_trendline", "ht_sine", "ht_dcphase"]);
    // Sine, lead, phase and trendline are part of the trend mode already; a later start costs no step.
    assert_eq!(all, mode, "{mode} for the mode, {line} for the line");
    assert!(steps(&["ht_dcperiod", "ht_phasor"]) < steps(&["ht_dcperiod"]) + steps(&["ht_phasor"]));
}
