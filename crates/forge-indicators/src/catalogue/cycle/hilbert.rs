//! How long is the dominant cycle, and where in it are we? Ehlers' Hilbert transform, one pass for everything built on it.
//!
//! ```text
//!   price ─ smooth ─┬─ cycle (period, in phase, quadrature) ─┬─ phase ─ sine, lead
//!                   │                                        ├─ trend line
//!                   └────────────────────────────────────────┴─ mode
//! ```
//! The transform is a fixed filter whose gain follows the period that it measured last: a feedback, hence machines.

use std::{
    f64::consts::{FRAC_PI_4, PI},
    sync::LazyLock,
};

use crate::{
    graph::X,
    kernel::machine::{Machine, MachineDef},
};

/// Degrees per radian.
pub(super) const DEGREES: f64 = 45.0 / FRAC_PI_4;
/// The longest cycle.
const LONGEST: usize = 50;
/// Bars that the shared smoother needs.
const SMOOTH: usize = 4;

/// The last 64 values, zero before the first.
#[derive(Clone)]
struct Last {
    values: [f64; 64],
    at: usize,
}

impl Last {
    const NONE: Last = Last { values: [0.0; 64], at: 0 };

    #[inline(always)]
    fn push(&mut self, x: f64) {
        self.at = (self.at + 1) % 64;
        if let Some(slot) = self.values.get_mut(self.at) {
            *slot = x;
        }
    }

    /// The value this many bars ago.
    #[inline(always)]
    fn ago(&self, k: usize) -> f64 {
        self.values.get((self.at + 64 - k % 64) % 64).copied().unwrap_or(0.0)
    }
}

/// The transform of one value: a filter over every other of its last seven.
#[derive(Clone, Copy, Default)]
struct Quarter([f64; 7]);

impl Quarter {
    #[inline(always)]
    fn step(&mut self, x: f64, gain: f64) -> f64 {
        let [a, b, c, d, e, f, _] = self.0;
        self.0 = [x, a, b, c, d, e, f];
        let [now, _, two, _, four, _, six] = self.0;
        (((-(0.0962 * six) + 0.0962 * now) - 0.5769 * four) + 0.5769 * two) * gain
    }
}

/// Measures the cycle.
#[derive(Clone)]
struct Cycle {
    /// Bars to let pass.
    wait: usize,
    detrend: Quarter,
    quadrature: Quarter,
    ahead_i: Quarter,
    ahead_q: Quarter,
    /// Detrended values of the last bars.
    past: [f64; 3],
    i2: f64,
    q2: f64,
    re: f64,
    im: f64,
    period: f64,
    smooth_period: f64,
}

impl Machine<1, 3> for Cycle {
    /// The parameter is the first bar that counts.
    fn new(params: &[f64]) -> Self {
        let first = params.first().map_or(0, |x| *x as usize);
        let none = Quarter::default();
        Cycle {
            wait: first.saturating_sub(SMOOTH - 1),
            detrend: none,
            quadrature: none,
            ahead_i: none,
            ahead_q: none,
            past: [0.0; 3],
            i2: 0.0,
            q2: 0.0,
            re: 0.0,
            im: 0.0,
            period: 0.0,
            smooth_period: 0.0,
        }
    }

    #[inline(always)]
    fn step(&mut self, [smooth]: [f64; 1]) -> [f64; 3] {
        if self.wait > 0 {
            self.wait -= 1;
            return [0.0; 3];
        }
        let gain = 0.075 * self.period + 0.54;
        let detrended = self.detrend.step(smooth, gain);
        let q1 = self.quadrature.step(detrended, gain);
        let [one, two, i1] = self.past;
        self.past = [detrended, one, two];
        // Both components a quarter of a cycle on; together with the others they make a smoother pair.
        let (ji, jq) = (self.ahead_i.step(i1, gain), self.ahead_q.step(q1, gain));
        let (i2, q2) = (0.2 * (i1 - jq) + 0.8 * self.i2, 0.2 * (q1 + ji) + 0.8 * self.q2);
        self.re = 0.8 * self.re + 0.2 * (i2 * self.i2 + q2 * self.q2);
        self.im = 0.8 * self.im + 0.2 * (i2 * self.q2 - q2 * self.i2);
        (self.i2, self.q2) = (i2, q2);
        self.period = next_period(self.period, self.re, self.im);
        self.smooth_period = 0.67 * self.smooth_period + 0.33 * self.period;
        [self.smooth_period, i1, q1]
    }
}

/// The angle between two bars gives a period; it may not jump, nor leave 6 to 50 bars.
#[inline(always)]
fn next_period(last: f64, re: f64, im: f64) -> f64 {
    let measured = if im != 0.0 && re != 0.0 { 360.0 / ((im / re).atan() * DEGREES) } else { last };
    let tamed = if measured > 1.5 * last { 1.5 * last } else { measured };
    let tamed = if tamed < 0.67 * last { 0.67 * last } else { tamed };
    let tamed = if tamed < 6.0 {
        6.0
    } else if tamed > LONGEST as f64 {
        LONGEST as f64
    } else {
        tamed
    };
    0.2 * tamed + 0.8 * last
}

/// A period in whole bars.
#[inline(always)]
fn bars(smooth_period: f64) -> usize {
    // A cast from a float saturates: nothing below 0, NaN is 0.
    ((smooth_period + 0.5) as usize).min(LONGEST)
}

/// Sine and cosine of every step of every cycle: they are the same at every bar.
static CIRCLE: LazyLock<Vec<Vec<(f64, f64)>>> = LazyLock::new(|| {
    let step = |n: usize| move |i: usize| (i as f64 * (2.0 * PI) / n as f64).sin_cos();
    (0..=LONGEST).map(|n| (0..n).map(step(n)).collect()).collect()
});

/// Where in the cycle, in degrees from -45 to 315.
#[derive(Clone)]
struct Phase {
    smooth: Last,
    phase: f64,
}

impl Machine<2, 1> for Phase {
    fn new(_: &[f64]) -> Self {
        Phase { smooth: Last::NONE, phase: 0.0 }
    }

    #[inline(always)]
    fn step(&mut self, [smooth, period]: [f64; 2]) -> [f64; 1] {
        self.smooth.push(smooth);
        let (mut real, mut imag) = (0.0, 0.0);
        for (k, (sin, cos)) in CIRCLE.get(bars(period)).into_iter().flatten().enumerate() {
            let x = self.smooth.ago(k);
            real += sin * x;
            imag += cos * x;
        }
        let mut phase = self.phase;
        if imag != 0.0 {
            phase = (real / imag).atan() * DEGREES;
        } else if real < 0.0 {
            phase -= 90.0;
        } else if real > 0.0 {
            phase += 90.0;
        }
        // The smoother is one bar late.
        phase += 90.0;
        phase += 360.0 / period;
        phase += if imag < 0.0 { 180.0 } else { 0.0 };
        self.phase = if phase > 315.0 { phase - 360.0 } else { phase };
        [self.phase]
    }
}

/// Mean price over one cycle, weighted over four bars: the trend that is left when the cycle is taken out.
#[derive(Clone)]
struct TrendLine {
    price: Last,
    means: [f64; 3],
}

impl Machine<2, 1> for TrendLine {
    fn new(_: &[f64]) -> Self {
        TrendLine { price: Last::NONE, means: [0.0; 3] }
    }

    #[inline(always)]
    fn step(&mut self, [price, period]: [f64; 2]) -> [f64; 1] {
        self.price.push(price);
        let n = bars(period);
        let sum: f64 = (0..n).fold(0.0, |sum, k| sum + self.price.ago(k));
        // Without a period there is no mean.
        let mean = if n > 0 { sum / n as f64 } else { 0.0 * period };
        let [one, two, three] = self.means;
        self.means = [mean, one, two];
        [(4.0 * mean + 3.0 * one + 2.0 * two + three) / 10.0]
    }
}

/// Trend (1) or cycle (0).
#[derive(Clone)]
struct Mode {
    phase: f64,
    sine: f64,
    lead: f64,
    /// Bars since sine and lead crossed.
    bars: u32,
}

impl Machine<6, 1> for Mode {
    fn new(_: &[f64]) -> Self {
        Mode { phase: 0.0, sine: 0.0, lead: 0.0, bars: 0 }
    }

    #[inline(always)]
    fn step(&mut self, [phase, sine, lead, line, smooth, period]: [f64; 6]) -> [f64; 1] {
        let up = sine > lead && self.sine <= self.lead;
        let crossed = up || sine < lead && self.sine >= self.lead;
        self.bars = if crossed { 1 } else { self.bars.saturating_add(1) };
        let turn = phase - self.phase;
        // The phase advances as fast as the period says it should.
        let steady = period != 0.0 && turn > 0.67 * 360.0 / period && turn < 1.5 * 360.0 / period;
        let cycle = crossed || f64::from(self.bars) < 0.5 * period || steady;
        let away = line != 0.0 && ((smooth - line) / line).abs() >= 0.015;
        (self.phase, self.sine, self.lead) = (phase, sine, lead);
        [if away || !cycle { 1.0 } else { 0.0 }]
    }
}

static CYCLE: MachineDef =
    MachineDef::of::<Cycle, 1, 3>("hilbert cycle", |p| p.first().map_or(0, |x| *x as usize + 1 - SMOOTH));
static PHASE: MachineDef = MachineDef::of::<Phase, 2, 1>("hilbert phase", |_| 0);
static TREND_LINE: MachineDef = MachineDef::of::<TrendLine, 2, 1>("hilbert trend line", |_| 0);
static MODE: MachineDef = MachineDef::of::<Mode, 6, 1>("hilbert mode", |_| 0);

/// First bar that counts for what needs the period or the phasor only; shown from bar 32 on. MAMA begins here as well.
pub(in super::super) const EARLY: usize = 12;
/// First bar that counts for what is built on the period; shown from bar 63 on.
const LATE: usize = 37;

/// What the transform finds in a price.
#[derive(Clone, Copy)]
pub(in super::super) struct Hilbert<'g> {
    price: X<'g>,
    smooth: X<'g>,
    /// Period of the dominant cycle in bars, smoothed.
    pub(in super::super) period: X<'g>,
    /// In-phase component.
    pub(in super::super) in_phase: X<'g>,
    /// Component a quarter of a cycle later.
    pub(in super::super) quadrature: X<'g>,
}

/// The transform of a price; bars before `first` do not count.
pub(in super::super) fn hilbert(price: X<'_>, first: usize) -> Hilbert<'_> {
    let smooth = price.ramp_sum(SMOOTH) * 0.1;
    let ports = price.bars().machine(&CYCLE, &[first as f64], &[smooth]);
    let port = |at: usize| ports.get(at).copied().unwrap_or(price);
    Hilbert { price, smooth, period: port(0), in_phase: port(1), quadrature: port(2) }
}

impl<'g> Hilbert<'g> {
    /// Of a price, with the longer warm-up.
    pub(super) fn late(price: X<'g>) -> Self {
        hilbert(price, LATE)
    }

    fn one(self, def: &'static MachineDef, inputs: &[X<'g>]) -> X<'g> {
        self.price.bars().machine(def, &[], inputs).first().copied().unwrap_or(self.price)
    }

    pub(super) fn phase(self) -> X<'g> {
        self.one(&PHASE, &[self.smooth, self.period])
    }

    /// Sine of the phase, and 45 degrees ahead.
    pub(super) fn sine(self) -> (X<'g>, X<'g>) {
        let phase = self.phase();
        let sine = |x: X<'g>| (x * (1.0 / DEGREES)).sin();
        (sine(phase), sine(phase + 45.0))
    }

    pub(super) fn trend_line(self) -> X<'g> {
        // Prices before the first bar that counts are part of the means.
        self.one(&TREND_LINE, &[self.price, self.period.preceded_by(0.0)])
    }

    pub(super) fn mode(self) -> X<'g> {
        let (sine, lead) = self.sine();
        self.one(&MODE, &[self.phase(), sine, lead, self.trend_line(), self.smooth, self.period])
    }
}
