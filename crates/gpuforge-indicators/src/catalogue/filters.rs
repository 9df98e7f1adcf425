//! Filter state machines: IIR filters, McGinley, Holt-Winters, Laguerre, Kalman, Jurik (JMA).

use std::f64::consts::PI;

use crate::{
    graph::Expr,
    kernel::state_machine::{BranchlessMachine, StateMachine, StateMachineDef, Value},
};

fn at(params: &[f64], i: usize) -> f64 {
    params.get(i).copied().unwrap_or(0.0)
}

/// Linear IIR filter: `y = b0 x + b1 x' + b2 x'' + a1 y' + a2 y'' + a3 y'''`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Linear {
    /// Feed-forward coefficients of the input and the two before.
    pub(super) b: [f64; 3],
    /// Feedback coefficients of the last three outputs.
    pub(super) a: [f64; 3],
    /// DC gain: the outputs before the first bar are this times the first value.
    pub(super) gain: f64,
    /// Number of first bars that are passed through.
    pub(super) copied: usize,
}

impl Linear {
    /// Applies the filter. Inputs before the first bar are the first value.
    pub(super) fn of(self, x: Expr<'_>) -> Expr<'_> {
        let Linear { b: [b0, b1, b2], a: [a1, a2, a3], gain, copied } = self;
        let params = [b0, b1, b2, a1, a2, a3, gain, copied as f64];
        x.builder().state_machine(&LINEAR, &params, &[x]).first().copied().unwrap_or(x)
    }

    /// Two equal poles whose half-power point is at a period (Ehlers, Swiss army knife indicator, 2006): what feeds the filter
    /// is the square of the returned factor.
    pub(super) fn two_poles(period: usize) -> (f64, [f64; 3]) {
        let s = (PI / period as f64).sin();
        let beta = 2.415 * (2.0 * s * s);
        let alpha = -beta + (beta * beta + 2.0 * beta).sqrt();
        let rest = 1.0 - alpha;
        (alpha, [2.0 * rest, -(rest * rest), 0.0])
    }

    /// Ehlers' super smoother of two or three poles.
    pub(super) fn super_smoother(period: usize, poles: usize) -> Self {
        let n = period as f64;
        let a = if poles == 3 {
            let x = PI / n;
            let e = (-x).exp();
            let (wave, square) = (2.0 * e * (3f64.sqrt() * x).cos(), e * e);
            [square + wave, -square * (1.0 + wave), square * square]
        } else {
            let x = PI * 2f64.sqrt() / n;
            let e = (-x).exp();
            [2.0 * e * x.cos(), -(e * e), 0.0]
        };
        let [a1, a2, a3] = a;
        Linear { b: [1.0 - a1 - a2 - a3, 0.0, 0.0], a, gain: 1.0, copied: poles.clamp(2, 3) }
    }

    /// Ehlers' two-pole high-pass filter: removes components slower than the period.
    pub(super) fn high_pass(period: usize) -> Self {
        let angle = 0.707 * 2.0 * PI / period as f64;
        let alpha = (angle.cos() + angle.sin() - 1.0) / angle.cos();
        let (half, rest) = (1.0 - alpha / 2.0, 1.0 - alpha);
        let b = half * half;
        Linear { b: [b, -2.0 * b, b], a: [2.0 * rest, -(rest * rest), 0.0], gain: 0.0, copied: 0 }
    }
}

static LINEAR: StateMachineDef = StateMachineDef::branchless::<Linear, 6, 1, 1>("linear", |_| 0);

/// State: the last three outputs, the last two inputs, and the number of bars passed through.
impl BranchlessMachine<6, 1, 1> for Linear {
    fn new(p: &[f64]) -> Self {
        Linear {
            b: [at(p, 0), at(p, 1), at(p, 2)],
            a: [at(p, 3), at(p, 4), at(p, 5)],
            gain: at(p, 6),
            copied: at(p, 7) as usize,
        }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 6], [f64; 1]) {
        let y = self.gain * x;
        self.step([y, y, y, x, x, 0.0], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [y1, y2, y3, x1, x2, seen]: [V; 6], [x]: [V; 1]) -> ([V; 6], [V; 1]) {
        let (b, a) = (self.b, self.a);
        // Older terms first: the loop-carried dependency is one multiplication and one addition.
        let y = y1 * a[0] + (y2 * a[1] + (y3 * a[2] + (x * b[0] + x1 * b[1] + x2 * b[2])));
        if self.copied == 0 {
            return ([y, y1, y2, x, x1, seen], [y]);
        }
        let early = seen.cmp_lt(self.copied as f64);
        let y = V::select(early, x, y);
        ([y, y1, y2, x, x1, V::select(early, seen + 1.0, seen)], [y])
    }
}

/// McGinley's dynamic: parameter: the period.
pub(super) static MCGINLEY: StateMachineDef =
    StateMachineDef::branchless::<McGinley, 1, 1, 1>("mcginley", |p| (at(p, 0) as usize).saturating_sub(1));

#[derive(Clone, Copy)]
struct McGinley {
    period: f64,
}

impl BranchlessMachine<1, 1, 1> for McGinley {
    fn new(p: &[f64]) -> Self {
        McGinley { period: at(p, 0) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 1]) -> ([f64; 1], [f64; 1]) {
        (x, x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [y]: [V; 1], [x]: [V; 1]) -> ([V; 1], [V; 1]) {
        let square = (x / y) * (x / y);
        let next = y + (x - y) / (square * square * self.period);
        let y = V::select(next.abs().cmp_lt(f64::INFINITY), next, y);
        ([y], [y])
    }
}

/// Holt-Winters: level, trend, acceleration and error variance. Parameters: a smoothing factor for each; gives the forecast
/// and the standard deviation of the bar before.
pub(super) static HOLT_WINTERS: StateMachineDef =
    StateMachineDef::branchless::<HoltWinters, 5, 1, 2>("holt_winters", |_| 0);

/// State: level, trend, acceleration, variance, and the last forecast error.
#[derive(Clone, Copy)]
struct HoltWinters {
    factors: [f64; 4],
}

impl BranchlessMachine<5, 1, 2> for HoltWinters {
    fn new(p: &[f64]) -> Self {
        HoltWinters { factors: [at(p, 0), at(p, 1), at(p, 2), at(p, 3)] }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 5], [f64; 2]) {
        self.step([x, 0.0, 0.0, 0.0, 0.0], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 5], [x]: [V; 1]) -> ([V; 5], [V; 2]) {
        let ([na, nb, nc, nd], [level_before, trend_before, acceleration_before, variance, miss]) =
            (self.factors, state);
        let level = (level_before + trend_before + acceleration_before * 0.5) * (1.0 - na) + x * na;
        let trend = (trend_before + acceleration_before) * (1.0 - nb) + (level - level_before) * nb;
        let acceleration = acceleration_before * (1.0 - nc) + (trend - trend_before) * nc;
        let forecast = level + trend + acceleration * 0.5;
        let next = variance * (1.0 - nd) + miss * nd * miss;
        ([level, trend, acceleration, next, x - forecast], [forecast, variance.sqrt()])
    }
}

/// Ehlers' Laguerre filter. Parameter: the damping.
pub(super) static LAGUERRE: StateMachineDef =
    StateMachineDef::branchless::<Laguerre, 4, 1, 1>("laguerre_filter", |_| 0);

#[derive(Clone, Copy)]
struct Laguerre {
    gamma: f64,
}

impl BranchlessMachine<4, 1, 1> for Laguerre {
    fn new(p: &[f64]) -> Self {
        Laguerre { gamma: at(p, 0) }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 4], [f64; 1]) {
        self.step([x; 4], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [p0, p1, p2, p3]: [V; 4], [x]: [V; 1]) -> ([V; 4], [V; 1]) {
        let g = self.gamma;
        let l0 = x * (1.0 - g) + p0 * g;
        let l1 = p0 + (p1 - l0) * g;
        let l2 = p1 + (p2 - l1) * g;
        let l3 = p2 + (p3 - l2) * g;
        ([l0, l1, l2, l3], [(l0 + l1 * 2.0 + l2 * 2.0 + l3) / 6.0])
    }
}

/// Kalman filter of a local level model. Parameters: process variance, measurement variance.
pub(super) static KALMAN: StateMachineDef =
    StateMachineDef::branchless::<Kalman, 2, 1, 1>("kalman_level", |_| 0);

/// State: the level and its variance.
#[derive(Clone, Copy)]
struct Kalman {
    process: f64,
    measurement: f64,
}

impl BranchlessMachine<2, 1, 1> for Kalman {
    fn new(p: &[f64]) -> Self {
        Kalman { process: at(p, 0), measurement: at(p, 1) }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 2], [f64; 1]) {
        ([x, self.measurement], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [level, variance]: [V; 2], [x]: [V; 1]) -> ([V; 2], [V; 1]) {
        let before = variance + self.process;
        let gain = before / (before + self.measurement);
        let level = level + gain * (x - level);
        ([level, (V::from(1.0) - gain) * before], [level])
    }
}

/// Jurik moving average (JMA), as reconstructed in open source. Parameters: period, phase.
pub(super) static JURIK: StateMachineDef =
    StateMachineDef::of::<Jurik, 1, 1>("jurik", |p| (at(p, 0) as usize).saturating_sub(1));

/// Bars over which the volatility is averaged, and over which that average is averaged.
const SHORT: usize = 10;
const LONG: usize = 66;

#[derive(Clone)]
pub(super) struct Jurik {
    beta: f64,
    /// Decay of the bands, max relative volatility, its exponent, the phase ratio.
    band: f64,
    max_relative: f64,
    power: f64,
    phase: f64,
    bars: usize,
    bands: [f64; 2],
    volatility: [f64; SHORT],
    mean: f64,
    means: [f64; LONG],
    sum: f64,
    first: f64,
    error: f64,
    speed: f64,
    y: f64,
}

impl Jurik {
    /// Volatility relative to its long average, at least 1.
    fn relative(&mut self, x: f64) -> f64 {
        let [up, down] = self.bands.map(|band| (x - band).abs());
        let now = if up == down { 0.0 } else { up.max(down) };
        let gone = self.volatility.get_mut(self.bars % SHORT).map_or(0.0, |v| std::mem::replace(v, now));
        self.mean += (now - gone) / SHORT as f64;
        let mean = self.mean;
        self.sum += mean - self.means.get_mut(self.bars % LONG).map_or(0.0, |m| std::mem::replace(m, mean));
        let average = self.sum / (self.bars + 1).min(LONG) as f64;
        let relative = if now == 0.0 || average == 0.0 { 0.0 } else { now / average };
        relative.min(self.max_relative).max(1.0)
    }
}

impl StateMachine<1, 1> for Jurik {
    fn new(p: &[f64]) -> Self {
        let half = 0.5 * (at(p, 0) - 1.0);
        let length = (half.sqrt().log2() + 2.0).max(0.0);
        let power = (length - 2.0).max(0.5);
        let band = length * half.sqrt();
        Jurik {
            beta: 0.9 * half / (0.9 * half + 2.0),
            band: band / (band + 1.0),
            max_relative: length.powf(1.0 / power),
            power,
            phase: (1.5 + 0.01 * at(p, 1)).clamp(0.5, 2.5),
            bars: 0,
            bands: [0.0; 2],
            volatility: [0.0; SHORT],
            mean: 0.0,
            means: [0.0; LONG],
            sum: 0.0,
            first: 0.0,
            error: 0.0,
            speed: 0.0,
            y: 0.0,
        }
    }

    fn step(&mut self, [x]: [f64; 1]) -> [f64; 1] {
        if self.bars == 0 {
            (self.bands, self.first, self.y, self.bars) = ([x; 2], x, x, 1);
            return [x];
        }
        let power = self.relative(x).powf(self.power);
        let keep = self.band.powf(power.sqrt());
        let [upper, lower] = self.bands;
        let upper = if x > upper { x } else { x - keep * (x - upper) };
        let lower = if x < lower { x } else { x - keep * (x - lower) };
        self.bands = [upper, lower];

        let alpha = self.beta.powf(power);
        self.first = (1.0 - alpha) * x + alpha * self.first;
        self.error = (x - self.first) * (1.0 - self.beta) + self.beta * self.error;
        let second = self.first + self.phase * self.error;
        self.speed = (second - self.y) * (1.0 - alpha) * (1.0 - alpha) + alpha * alpha * self.speed;
        self.y += self.speed;
        self.bars += 1;
        [self.y]
    }
}
