//! Cycle indicators: Hilbert transform family, sine waves, Ehlers' high-pass and band-pass filters.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, SQRT_2, TAU};

use super::{BuildArgs, Group, Indicator, Oracle, int, real};
use crate::{
    graph::Expr,
    kernel::state_machine::{BranchlessMachine, StateMachineDef, Value},
};

pub(in crate::catalogue) mod hilbert;

use hilbert::{EARLY, Hilbert, hilbert};

const BASE: Indicator = Indicator { group: Group::Cycle, ..Indicator::BASE };

/// Two-pole filter with zero response to a constant, in steady state at the first value:
/// `y = gain * (x + b1 * x[1] + b2 * x[2]) + a1 * y[1] + a2 * y[2]`. State: the last two outputs and inputs.
#[derive(Clone, Copy)]
struct ZeroMean {
    gain: f64,
    b: [f64; 2],
    a: [f64; 2],
}

impl BranchlessMachine<4, 1, 1> for ZeroMean {
    fn new(params: &[f64]) -> Self {
        let at = |i: usize| params.get(i).copied().unwrap_or(0.0);
        ZeroMean { gain: at(0), b: [at(1), at(2)], a: [at(3), at(4)] }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 4], [f64; 1]) {
        self.step([0.0, 0.0, x, x], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [y1, y2, x1, x2]: [V; 4], [x]: [V; 1]) -> ([V; 4], [V; 1]) {
        let ([b1, b2], [a1, a2]) = (self.b, self.a);
        let y = y1 * a1 + (y2 * a2 + (x + x1 * b1 + x2 * b2) * self.gain);
        ([y, y1, x, x1], [y])
    }
}

static ZERO_MEAN: StateMachineDef =
    StateMachineDef::branchless::<ZeroMean, 4, 1, 1>("two pole filter", |_| 0);

fn filter<'g>(a: &BuildArgs<'g, '_>, gain: f64, b: [f64; 2], poles: [f64; 2]) -> Vec<Expr<'g>> {
    a.bars.state_machine(&ZERO_MEAN, &[gain, b[0], b[1], poles[0], poles[1]], &[a.source()])
}

/// Super-smoothed high-pass normalised by its RMS. State: the last input, high-pass output, and two smoothed outputs.
#[derive(Clone, Copy)]
struct EvenBetter {
    alpha: f64,
    c: [f64; 3],
}

impl BranchlessMachine<4, 1, 1> for EvenBetter {
    fn new(params: &[f64]) -> Self {
        let at = |i: usize| params.get(i).copied().unwrap_or(1.0);
        let angle = TAU / at(0);
        let a = (-SQRT_2 * PI / at(1)).exp();
        let (c2, c3) = (2.0 * a * (SQRT_2 * PI / at(1)).cos(), -a * a);
        let alpha = (1.0 - angle.sin()) / angle.cos();
        EvenBetter { alpha, c: [1.0 - c2 - c3, c2, c3] }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 4], [f64; 1]) {
        self.step([x, 0.0, 0.0, 0.0], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [last, before, f1, f2]: [V; 4], [x]: [V; 1]) -> ([V; 4], [V; 1]) {
        let high_pass = (x - last) * (0.5 * (1.0 + self.alpha)) + before * self.alpha;
        let [c1, c2, c3] = self.c;
        let f = (high_pass + before) * c1 / 2.0 + f1 * c2 + f2 * c3;
        let (wave, power) = ((f + f1 + f2) / 3.0, (f * f + f1 * f1 + f2 * f2) / 3.0);
        let share = wave / power.sqrt();
        ([x, high_pass, f, f1], [V::select(power.cmp_eq(0.0), 0.0, share)])
    }
}

static EVEN_BETTER: StateMachineDef =
    StateMachineDef::branchless::<EvenBetter, 4, 1, 1>("even better sine wave", |p| {
        p.first().map_or(0, |n| *n as usize)
    });

/// Correlations below this are rounding residue and count as 0.
const ZERO_CORRELATION: f64 = 1e-9;

/// Monotone phase angle of two correlations, and whether it stalls. Inputs: arctangent of their ratio, the second
/// correlation. State: the last angle.
#[derive(Clone, Copy)]
struct Angle {
    threshold: f64,
}

impl Angle {
    /// In degrees; holds where the second correlation is 0.
    #[inline(always)]
    fn now<V: Value>(last: V, [arc, imag]: [V; 2]) -> V {
        let angle = arc * (180.0 / PI) + 90.0 - V::select(imag.cmp_gt(0.0), 180.0, 0.0);
        V::select(imag.abs().cmp_gt(ZERO_CORRELATION), angle, last)
    }
}

impl BranchlessMachine<1, 2, 2> for Angle {
    fn new(params: &[f64]) -> Self {
        Angle { threshold: params.first().copied().unwrap_or(9.0) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 1], [f64; 2]) {
        let angle = Angle::now(0.0, x);
        ([angle], [angle, 0.0])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [last]: [V; 1], x: [V; 2]) -> ([V; 1], [V; 2]) {
        let angle = Angle::now(last, x);
        let angle = V::select((last - angle).cmp_lt(270.0) & angle.cmp_lt(last), last, angle);
        let side = V::select(angle.cmp_lt(0.0), -1.0, 1.0);
        ([angle], [angle, V::select((angle - last).abs().cmp_lt(self.threshold), side, 0.0)])
    }
}

static ANGLE: StateMachineDef =
    StateMachineDef::branchless::<Angle, 1, 2, 2>("correlation phase angle", |_| 0);

/// FIR weights of one period of a function over `n` bars, oldest first.
fn one_period(n: usize, f: fn(f64) -> f64) -> Vec<f64> {
    (0..n).rev().map(|ago| f(TAU * ago as f64 / n as f64)).collect()
}

fn mesa_sine<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(0));
    let (real, imag) = (x.fir(&one_period(n, f64::cos)), x.fir(&one_period(n, f64::sin)));
    let no_real_part = real.abs().le(0.001);
    let half = real.lt(0.0).select(PI, 0.0);
    let phase = no_real_part.select(PI + FRAC_PI_2, (imag / real).atan() + half + FRAC_PI_2);
    let sine = |x: Expr<'g>| x.sin().from_bar(n);
    vec![sine(phase), sine(phase + FRAC_PI_4)]
}

fn correlation_cycle<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(0));
    // A full period of a sine has mean 0 and mean square 1/2.
    let spread = (x.second_central_moment(n) * 0.5).sqrt() * n as f64;
    let real = x.fir(&one_period(n, f64::cos)).div0(spread);
    let imag = x.fir(&one_period(n, |t| -t.sin())).div0(spread);
    let mut outputs = vec![real, imag];
    outputs.extend(a.bars.state_machine(&ANGLE, &[a.x(1)], &[(real / imag).atan(), imag]));
    outputs
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "ht_trendline",
        aliases: &["HT_TRENDLINE"],
        doc: "Hilbert transform, instantaneous trendline: mean price over one dominant cycle, weighted 4, 3, 2, 1 \
              over the last four bars. Uses bars from 37 on, values from bar 63 on.",
        build: |a| vec![Hilbert::late(a.source()).trend_line().from_bar(63)],
        ..BASE
    },
    Indicator {
        name: "ht_dcperiod",
        aliases: &["HT_DCPERIOD"],
        outputs: &["period"],
        doc: "Hilbert transform, dominant cycle period in bars, 6 to 50, smoothed. Uses bars from 12 on, values \
              from bar 32 on.",
        build: |a| vec![hilbert(a.source(), EARLY).period.from_bar(32)],
        ..BASE
    },
    Indicator {
        name: "ht_dcphase",
        aliases: &["HT_DCPHASE"],
        outputs: &["phase"],
        doc: "Hilbert transform, dominant cycle phase in degrees, -45 to 315, by correlating one cycle of the \
              smoothed price with a sine and a cosine.",
        build: |a| vec![Hilbert::late(a.source()).phase().from_bar(63)],
        ..BASE
    },
    Indicator {
        name: "ht_phasor",
        aliases: &["HT_PHASOR"],
        outputs: &["inphase", "quadrature"],
        doc: "Hilbert transform, phasor components: in-phase (the detrended price three bars ago) and quadrature \
              (its Hilbert transform). Uses bars from 12 on, values from bar 32 on.",
        build: |a| {
            let found = hilbert(a.source(), EARLY);
            vec![found.in_phase.from_bar(32), found.quadrature.from_bar(32)]
        },
        ..BASE
    },
    Indicator {
        name: "ht_sine",
        aliases: &["HT_SINE"],
        outputs: &["sine", "leadsine"],
        doc: "Hilbert transform, sine wave: sine of the dominant cycle's phase, and the lead sine 45 degrees \
              ahead; they cross shortly before turning points.",
        build: |a| {
            let (sine, lead) = Hilbert::late(a.source()).sine();
            vec![sine.from_bar(63), lead.from_bar(63)]
        },
        ..BASE
    },
    Indicator {
        name: "ht_trendmode",
        aliases: &["HT_TRENDMODE"],
        outputs: &["trend"],
        doc: "Hilbert transform, trend mode: 1 in a trend, 0 in a cycle: a cycle from a crossing of sine and lead \
              sine for half a period, or while the phase advances steadily, unless the price is 1.5 % away from \
              the trendline.",
        build: |a| vec![Hilbert::late(a.source()).mode().from_bar(63)],
        ..BASE
    },
    Indicator {
        name: "msw",
        aliases: &["mesa_sine_wave"],
        outputs: &["sine", "lead"],
        params: &[int("period", 5, 2, 100_000)],
        oracle: Oracle::Reference,
        doc: "MESA sine wave: sine of the phase of one cycle of `period` bars in the last `period` prices, and 45 \
              degrees ahead. A real part within 0.001 counts as 0 (phase 270 degrees). First value at bar \
              `period`, as in Tulip Indicators.",
        build: mesa_sine,
        ..BASE
    },
    Indicator {
        name: "ebsw",
        aliases: &["even_better_sinewave"],
        params: &[int("period", 40, 5, 100_000), int("bars", 10, 1, 10_000)],
        oracle: Oracle::Reference,
        doc: "Even better sinewave (EBSW; Ehlers, Cycle Analytics for Traders): a high-pass filter of `period` \
              smoothed over `bars`, its mean of three over their root mean square; 0 where nothing moves. Filters \
              are seeded with 0 at the first bar, values from bar `period`.",
        build: |a| a.bars.state_machine(&EVEN_BETTER, &[a.x(0), a.x(1)], &[a.source()]),
        ..BASE
    },
    Indicator {
        name: "dsp",
        aliases: &["detrended_synthetic_price"],
        params: &[int("period", 40, 4, 100_000)],
        oracle: Oracle::Reference,
        doc: "Detrended synthetic price (Ehlers): EMA over a quarter of the cycle minus the EMA over half of it, \
              each SMA-seeded.",
        build: |a| {
            let x = a.source();
            vec![x.ema(a.n(0) / 4) - x.ema(a.n(0) / 2)]
        },
        ..BASE
    },
    Indicator {
        name: "highpass",
        aliases: &["SWAK_HP"],
        params: &[int("period", 20, 5, 100_000)],
        doc: "One-pole high-pass filter (Ehlers, Swiss Army Knife): components faster than `period` bars. Values \
              before the first bar are taken to be the first value.",
        build: |a| {
            let half = PI / a.x(0);
            let (sin, cos) = half.sin_cos();
            let alpha = 2.0 * sin * (cos - sin) / (1.0 - 2.0 * sin * sin);
            filter(a, 1.0 - alpha / 2.0, [-1.0, 0.0], [1.0 - alpha, 0.0])
        },
        ..BASE
    },
    Indicator {
        name: "highpass2",
        aliases: &["SWAK_2PHP", "highpass_2_pole"],
        params: &[int("period", 20, 2, 10_000)],
        doc: "Two-pole high-pass filter (Ehlers, Swiss Army Knife): as the one-pole filter, twice as steep.",
        build: |a| {
            let sin = (PI / a.x(0)).sin();
            let beta = 2.415 * (2.0 * sin * sin);
            let alpha = -beta + (beta * beta + 2.0 * beta).sqrt();
            let (gain, pole) = (1.0 - alpha / 2.0, 1.0 - alpha);
            filter(a, gain * gain, [-2.0, 1.0], [2.0 * pole, -(pole * pole)])
        },
        ..BASE
    },
    Indicator {
        name: "bandpass",
        aliases: &["SWAK_BP"],
        params: &[int("period", 20, 5, 2000), real("delta", 0.1, 0.05, 0.5)],
        doc: "Band-pass filter (Ehlers, Swiss Army Knife): components with a period of `period` bars, bandwidth \
              `delta` as a fraction.",
        build: |a| {
            let width = 4.0 * PI * a.x(1) / a.x(0);
            let alpha = (1.0 - width.sin()) / width.cos();
            let beta = (2.0 * PI / a.x(0)).cos();
            filter(a, (1.0 - alpha) / 2.0, [0.0, -1.0], [beta * (1.0 + alpha), -alpha])
        },
        ..BASE
    },
    Indicator {
        name: "correlation_cycle",
        aliases: &["corr_cycle"],
        outputs: &["real", "imag", "angle", "state"],
        params: &[int("period", 20, 3, 100_000), real("threshold", 9.0, 1.0, 360.0)],
        oracle: Oracle::Reference,
        doc: "Correlation cycle (Ehlers, 2020): correlation of the last `period` prices with a cosine and a \
              negative sine of that period, their phase angle in degrees, which does not turn back, and the state: \
              1 or -1 (the angle's sign) where it moved less than `threshold`, else 0. Equal prices have a \
              correlation of 0; where the sine's correlation is 0 (within 1e-9) the angle holds; the first state \
              is 0.",
        build: correlation_cycle,
        ..BASE
    },
];
