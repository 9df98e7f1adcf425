//! Hilbert transform (Ehlers): dominant cycle period, phase, trendline and trend mode, shared by MAMA and the HT_ rows.
//!
//! ```text
//!   price ─ smooth ─┬─ cycle (period, in phase, quadrature) ─┬─ phase ─ sine, lead
//!                   │                                        ├─ trend line
//!                   └────────────────────────────────────────┴─ mode
//! ```
//! The transform is an FIR filter whose gain depends on the last measured period: a feedback loop, hence state machines.
//!
//! The smoother keeps its sums in TA-Lib's order of additions ([`RunningWma`]). Prices are multiples of a tick, so that the
//! in-phase component is often 0 up to rounding; its sign then decides between a phase of +90 and -90 degrees.

#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "a lane is below the number of lanes, a position in a ring is taken modulo its length"
)]

use std::{
    f64::consts::{FRAC_PI_2, FRAC_PI_4, PI},
    hint::black_box,
    sync::LazyLock,
};

use crate::{
    graph::Expr,
    kernel::{
        Row, row,
        state_machine::{BranchlessMachine, RowStateMachine, StateMachineDef, Value, lanes, select},
    },
};

/// Degrees per radian.
pub(in super::super) const DEGREES: f64 = 45.0 / FRAC_PI_4;
/// Max cycle period in bars.
const LONGEST: usize = 50;
/// Window of the shared 4-bar WMA smoother.
const SMOOTH: usize = 4;

/// Ring of the last 16 rows, zero before the first; all lanes share the position.
#[derive(Clone)]
struct Ring<const L: usize>([Row<L>; 16]);

impl<const L: usize> Ring<L> {
    const NONE: Self = Ring([[0.0; L]; 16]);

    /// The row this many bars before position `at`.
    #[inline(always)]
    fn ago(&self, at: usize, k: usize) -> &Row<L> {
        &self.0[at.wrapping_sub(k) % 16]
    }

    #[inline(always)]
    fn put(&mut self, at: usize, x: Row<L>) {
        self.0[at % 16] = x;
    }
}

/// Linearly weighted sum of the last [`SMOOTH`] prices, updated incrementally as in TA-Lib and never re-summed: the same
/// rounding, to the last bit. The graph's `linear_weighted_sum` differs by some ulps, which is all there is of a detrended
/// price that should be 0.
#[derive(Clone)]
struct RunningWma<const L: usize> {
    /// Number of prices so far, up to [`SMOOTH`].
    seen: usize,
    /// Position in `past`.
    at: usize,
    past: [Row<L>; SMOOTH],
    /// Unweighted sum, and weighted sum one bar ahead.
    flat: Row<L>,
    ramp: Row<L>,
}

impl<const L: usize> RowStateMachine<1, 1, L> for RunningWma<L> {
    fn new(_: &[f64]) -> Self {
        let none = [0.0; L];
        RunningWma { seen: 0, at: 0, past: [none; SMOOTH], flat: none, ramp: none }
    }

    #[inline(always)]
    fn step(&mut self, [price]: [&Row<L>; 1]) -> [Row<L>; 1] {
        self.seen = (self.seen + 1).min(SMOOTH);
        let (weight, full) = (self.seen as f64, self.seen == SMOOTH);
        let leaves = std::mem::replace(&mut self.past[self.at], *price);
        self.at = (self.at + 1) % SMOOTH;
        let [total, flat, ramp] =
            lanes([price, &leaves, &self.flat, &self.ramp], |[x, leaves, flat, ramp]| {
                let (flat, total) = ((flat + x) - leaves, ramp + x * weight);
                [total, flat, select(full, total - flat, total)]
            });
        (self.flat, self.ramp) = (flat, ramp);
        [total]
    }
}

/// Discrete Hilbert transform (90 degree phase shift): FIR filter over every other of the last seven values.
#[inline(always)]
fn hilbert_fir(now: f64, two: f64, four: f64, six: f64, gain: f64) -> f64 {
    (((-(0.0962 * six) + 0.0962 * now) - 0.5769 * four) + 0.5769 * two) * gain
}

/// Measures the dominant cycle: period, in-phase and quadrature components.
#[derive(Clone)]
struct Cycle<const L: usize> {
    /// Bars left to skip.
    wait: usize,
    /// Position in the rings.
    at: usize,
    smooth: Ring<L>,
    /// Detrended values; those of three bars ago are the in-phase component.
    detrended: Ring<L>,
    quadrature: Ring<L>,
    /// Smoothed in-phase and quadrature components.
    i2: Row<L>,
    q2: Row<L>,
    /// Real and imaginary part of the product with the previous phasor (homodyne discriminator).
    re: Row<L>,
    im: Row<L>,
    period: Row<L>,
    smooth_period: Row<L>,
}

impl<const L: usize> RowStateMachine<1, 3, L> for Cycle<L> {
    /// The parameter is the first bar that is used.
    fn new(params: &[f64]) -> Self {
        let first = params.first().map_or(0, |x| *x as usize);
        let none = [0.0; L];
        Cycle {
            wait: first.saturating_sub(SMOOTH - 1),
            at: 0,
            smooth: Ring::NONE,
            detrended: Ring::NONE,
            quadrature: Ring::NONE,
            i2: none,
            q2: none,
            re: none,
            im: none,
            period: none,
            smooth_period: none,
        }
    }

    #[inline(always)]
    fn step(&mut self, [smooth]: [&Row<L>; 1]) -> [Row<L>; 3] {
        if self.wait > 0 {
            self.wait -= 1;
            return [[0.0; L]; 3];
        }
        self.at = self.at.wrapping_add(1);
        let s = |k: usize| self.smooth.ago(self.at, k);
        let d = |k: usize| self.detrended.ago(self.at, k);
        let q = |k: usize| self.quadrature.ago(self.at, k);
        let history = [smooth, s(2), s(4), s(6), d(2), d(4), d(6), q(2), q(4), q(6), &self.period];
        let [detrended, q1, jq] = lanes(history, |[s0, s2, s4, s6, d2, d4, d6, q2, q4, q6, period]| {
            let gain = 0.075 * period + 0.54;
            let detrended = hilbert_fir(s0, s2, s4, s6, gain);
            let q1 = hilbert_fir(detrended, d2, d4, d6, gain);
            [detrended, q1, hilbert_fir(q1, q2, q4, q6, gain)]
        });
        let i1 = *d(3);
        let phasor = [
            &i1,
            d(5),
            d(7),
            d(9),
            &q1,
            &jq,
            &self.i2,
            &self.q2,
            &self.re,
            &self.im,
            &self.period,
            &self.smooth_period,
        ];
        let [i2, q2, re, im, period, smooth_period] = lanes(phasor, |lane| {
            let [i1, d5, d7, d9, q1, jq, i2_before, q2_before, re, im, period, smooth_period] = lane;
            // Both components advanced by 90 degrees, added for averaging.
            let ji = hilbert_fir(i1, d5, d7, d9, 0.075 * period + 0.54);
            let (i2, q2) = (0.2 * (i1 - jq) + 0.8 * i2_before, 0.2 * (q1 + ji) + 0.8 * q2_before);
            let re = 0.8 * re + 0.2 * (i2 * i2_before + q2 * q2_before);
            let im = 0.8 * im + 0.2 * (i2 * q2_before - q2 * i2_before);
            let period = next_period(period, re, im);
            [i2, q2, re, im, period, 0.67 * smooth_period + 0.33 * period]
        });
        (self.i2, self.q2, self.re, self.im) = (i2, q2, re, im);
        (self.period, self.smooth_period) = (period, smooth_period);
        self.smooth.put(self.at, *smooth);
        self.detrended.put(self.at, detrended);
        self.quadrature.put(self.at, q1);
        [smooth_period, i1, q1]
    }
}

/// `atan(im / re)` to a few ulps with a single division: it is on the loop-carried critical path, where `atan` of a quotient
/// has twice the latency. The polynomial interpolates `(atan √z / √z - 1) / z` at Chebyshev nodes up to tan² π/8.
#[inline(always)]
fn atan_ratio(im: f64, re: f64) -> f64 {
    /// tan π/8 and its inverse.
    const EIGHTH: f64 = 0.414_213_562_373_095_03;
    const THREE: f64 = 2.414_213_562_373_095;
    let (a, b) = (im.abs(), re.abs());
    let (low, high) = (a < EIGHTH * b, a > THREE * b);
    let t = select(low, a, select(high, -b, a - b)) / select(low, b, select(high, a, a + b));
    let base = select(low, 0.0, select(high, FRAC_PI_2, FRAC_PI_4));
    let z = t * t;
    let (zz, zzzz) = (z * z, (z * z) * (z * z));
    let first = (-0.333_333_333_333_332_5 + 0.199_999_999_998_984_07 * z)
        + (-0.142_857_142_660_966_2 + 0.111_111_096_365_343_61 * z) * zz;
    let second = (-0.090_908_525_571_760_49 + 0.076_910_551_583_931_5 * z)
        + (-0.066_496_136_952_916_69 + 0.057_363_321_659_076_43 * z) * zz;
    let third = -0.044_833_346_222_728_86 + 0.022_750_526_993_361_67 * z;
    let p = first + (second + third * zzzz) * zzzz;
    (base + (t + t * z * p)).copysign(im) * 1f64.copysign(re)
}

/// Period from the phase change between two bars, rate-limited and clamped to 6..50 bars.
#[inline(always)]
fn next_period(last: f64, re: f64, im: f64) -> f64 {
    let measured = 360.0 / (atan_ratio(im, re) * DEGREES);
    let measured = select((im != 0.0) & (re != 0.0), measured, last);
    let limited = select(measured > 1.5 * last, 1.5 * last, measured);
    let limited = select(limited < 0.67 * last, 0.67 * last, limited);
    let limited = select(limited < 6.0, 6.0, limited);
    let limited = select(limited > LONGEST as f64, LONGEST as f64, limited);
    0.2 * limited + 0.8 * last
}

/// Period rounded to bars.
#[inline(always)]
fn bars(smooth_period: f64) -> usize {
    // A float cast saturates: negative values and NaN become 0.
    ((smooth_period + 0.5) as usize).min(LONGEST)
}

/// Table length: the longest cycle, padded to whole [`STEP`]s.
const PADDED: usize = LONGEST.next_multiple_of(STEP);
/// Bars summed per vector step.
const STEP: usize = 8;

/// Sine and cosine table of one cycle without its first step (0 and 1), zero-padded.
type SineTable = [[f64; PADDED]; 2];

/// Tables by cycle length.
static SINE_TABLES: LazyLock<Box<[SineTable; LONGEST + 1]>> = LazyLock::new(|| {
    let mut tables = Box::new([[[0.0; PADDED]; 2]; LONGEST + 1]);
    for (n, [sines, cosines]) in tables.iter_mut().enumerate() {
        let steps = sines.iter_mut().zip(cosines).take(n.saturating_sub(1));
        for (i, (sine, cosine)) in (1..).zip(steps) {
            (*sine, *cosine) = (f64::from(i) * (2.0 * PI) / n as f64).sin_cos();
        }
    }
    tables
});

/// Dot products of earlier values with sines and cosines, over some [`STEP`]s.
#[inline(always)]
fn correlate(before: &[f64; PADDED], [sines, cosines]: &SineTable, steps: usize) -> [f64; 2] {
    let (mut real, mut imag) = ([0.0; STEP], [0.0; STEP]);
    let table = sines.as_chunks::<STEP>().0.iter().zip(cosines.as_chunks::<STEP>().0);
    for (x, (sin, cos)) in before.as_chunks::<STEP>().0.iter().zip(table).take(steps) {
        (real, imag) = (row(|j| real[j] + sin[j] * x[j]), row(|j| imag[j] + cos[j] * x[j]));
    }
    let sum = |[a, b, c, d, e, f, g, h]: [f64; STEP]| ((a + e) + (c + g)) + ((b + f) + (d + h));
    // `black_box`: otherwise the compiler pairs sines with cosines and uses half of every vector.
    black_box([real, imag]).map(sum)
}

/// The same with the newest value, in sequential order.
#[cold]
fn correlate_in_order(
    newest: f64,
    before: &[f64; PADDED],
    [sines, cosines]: &SineTable,
    n: usize,
) -> [f64; 2] {
    let products = |table: &[f64; PADDED], first: f64| {
        table.iter().zip(before).take(n.saturating_sub(1)).fold(first, |sum, (w, x)| sum + w * x)
    };
    [products(sines, 0.0 * newest), products(cosines, if n > 0 { newest } else { 0.0 })]
}

/// Amplitudes below this fraction of the price are rounding residue: another order of additions would change the phase.
const FLAT: f64 = 1e-6;

/// Phase of the dominant cycle, in degrees from -45 to 315.
#[derive(Clone)]
struct Phase<const L: usize> {
    tables: &'static [SineTable; LONGEST + 1],
    /// Smoothed prices of each lane, newest first, stored twice: the last 64 are contiguous at any position.
    past: Box<[[f64; 128]; L]>,
    at: usize,
    phase: Row<L>,
}

impl<const L: usize> RowStateMachine<2, 1, L> for Phase<L> {
    fn new(_: &[f64]) -> Self {
        Phase { tables: &SINE_TABLES, past: Box::new([[0.0; 128]; L]), at: 0, phase: [0.0; L] }
    }

    #[inline(always)]
    fn step(&mut self, [smooth, period]: [&Row<L>; 2]) -> [Row<L>; 1] {
        self.at = self.at.wrapping_sub(1) % 64;
        let most = period.iter().fold(0, |most, period| bars(*period).max(most));
        let (mut real, mut imag) = ([0.0; L], [0.0; L]);
        for l in 0..L {
            let (n, x, past) = (bars(period[l]), smooth[l], &mut self.past[l]);
            // Without the newest value: a wide load of a just-stored scalar would stall (no store forwarding).
            let before = past[self.at + 1..].first_chunk().unwrap_or(&[0.0; PADDED]);
            let table = &self.tables[n];
            // All lanes take as many steps as the longest cycle: a well-predicted branch.
            let [re, im] = correlate(before, table, most.saturating_sub(1).div_ceil(STEP));
            [real[l], imag[l]] = [re, im + if n > 0 { x } else { 0.0 }];
            // Flat price: the phase is decided by rounding, so the sums are in TA-Lib's order.
            if re.abs() + imag[l].abs() <= FLAT * n as f64 * x.abs() {
                [real[l], imag[l]] = correlate_in_order(x, before, table, n);
            }
            (past[self.at], past[self.at + 64]) = (x, x);
        }
        [self.phase] = lanes([&real, &imag, period, &self.phase], |[real, imag, period, last]| {
            let side = select(real > 0.0, last + 90.0, last);
            let side = select(real < 0.0, last - 90.0, side);
            let phase = select(imag != 0.0, atan_ratio(real, imag) * DEGREES, side);
            // Compensates the one-bar lag of the smoother.
            let phase = phase + 90.0 + 360.0 / period + select(imag < 0.0, 180.0, 0.0);
            [select(phase > 315.0, phase - 360.0, phase)]
        });
        [self.phase]
    }
}

/// Instantaneous trendline: mean price over one cycle, WMA-smoothed over four bars.
#[derive(Clone)]
struct TrendLine<const L: usize> {
    /// Prefix sums of the prices since the last multiple of 64 bars: a window sum is a difference of two, and the sums stay
    /// small.
    sums: Box<[Row<L>; 64]>,
    /// Total of the previous 64 bars.
    whole: Row<L>,
    at: usize,
    means: [Row<L>; 3],
}

impl<const L: usize> RowStateMachine<2, 1, L> for TrendLine<L> {
    fn new(_: &[f64]) -> Self {
        TrendLine { sums: Box::new([[0.0; L]; 64]), whole: [0.0; L], at: 63, means: [[0.0; L]; 3] }
    }

    #[inline(always)]
    fn step(&mut self, [price, period]: [&Row<L>; 2]) -> [Row<L>; 1] {
        let last = self.sums[self.at % 64];
        self.at = (self.at + 1) % 64;
        if self.at == 0 {
            self.whole = last;
        }
        let before = if self.at == 0 { [0.0; L] } else { last };
        let [sum] = lanes([&before, price], |[before, price]| [before + price]);
        let (mut since, mut count) = ([0.0; L], [0.0; L]);
        for l in 0..L {
            let n = bars(period[l]);
            let base = if n > self.at { self.whole[l] } else { 0.0 };
            (since[l], count[l]) = (base - self.sums[(self.at + 64 - n) % 64][l], n as f64);
        }
        self.sums[self.at % 64] = sum;
        let [one, two, three] = &self.means;
        let [line, mean] = lanes([&sum, &since, &count, period, one, two, three], |lane| {
            let [sum, since, count, period, one, two, three] = lane;
            // No period yet, no mean.
            let mean = select(count > 0.0, (sum + since) / count, 0.0 * period);
            [(4.0 * mean + 3.0 * one + 2.0 * two + three) / 10.0, mean]
        });
        self.means = [mean, *one, *two];
        [line]
    }
}

/// Trend mode: trend (1) or cycle (0). State: previous phase, sine and lead sine, bars since they crossed.
#[derive(Clone, Copy)]
struct Mode;

impl BranchlessMachine<4, 6, 1> for Mode {
    fn new(_: &[f64]) -> Self {
        Mode
    }

    #[inline(always)]
    fn first(&self, x: [f64; 6]) -> ([f64; 4], [f64; 1]) {
        self.step([0.0; 4], x)
    }

    #[inline(always)]
    fn step<V: Value>(
        &self,
        before: [V; 4],
        [phase, sine, lead, line, smooth, period]: [V; 6],
    ) -> ([V; 4], [V; 1]) {
        let [phase_before, sine_before, lead_before, bars] = before;
        let up = sine.cmp_gt(lead) & sine_before.cmp_le(lead_before);
        let crossed = up | (sine.cmp_lt(lead) & sine_before.cmp_ge(lead_before));
        let bars = V::select(crossed, 1.0, bars + 1.0);
        let turn = phase - phase_before;
        // The phase advances at the rate of the measured period.
        let share = |of: f64| V::from(of * 360.0) / period;
        let steady = period.cmp_ne(0.0) & turn.cmp_gt(share(0.67)) & turn.cmp_lt(share(1.5));
        let cycle = crossed | bars.cmp_lt(period * 0.5) | steady;
        let away = line.cmp_ne(0.0) & ((smooth - line) / line).abs().cmp_ge(0.015);
        ([phase, sine, lead, bars], [V::select(away | !cycle, 1.0, 0.0)])
    }
}

static RUNNING_WMA: StateMachineDef =
    StateMachineDef::rows::<RunningWma<1>, RunningWma<8>, 1, 1>("running wma sum", |_| SMOOTH - 1);
static CYCLE: StateMachineDef = StateMachineDef::rows::<Cycle<1>, Cycle<8>, 1, 3>("hilbert cycle", |p| {
    p.first().map_or(0, |x| *x as usize + 1 - SMOOTH)
});
static PHASE: StateMachineDef = StateMachineDef::rows::<Phase<1>, Phase<8>, 2, 1>("hilbert phase", |_| 0);
static TREND_LINE: StateMachineDef =
    StateMachineDef::rows::<TrendLine<1>, TrendLine<8>, 2, 1>("hilbert trend line", |_| 0);
static MODE: StateMachineDef = StateMachineDef::branchless::<Mode, 4, 6, 1>("hilbert mode", |_| 0);

/// First bar used by what needs the period or the phasor only (valid from bar 32 on), and by MAMA.
pub(in super::super) const EARLY: usize = 12;
/// First bar used by what is built on the period (valid from bar 63 on).
const LATE: usize = 37;

/// Outputs of the transform.
#[derive(Clone, Copy)]
pub(in super::super) struct Hilbert<'g> {
    price: Expr<'g>,
    smooth: Expr<'g>,
    /// Period of the dominant cycle in bars, smoothed.
    pub(in super::super) period: Expr<'g>,
    /// In-phase component.
    pub(in super::super) in_phase: Expr<'g>,
    /// Quadrature component, 90 degrees behind.
    pub(in super::super) quadrature: Expr<'g>,
}

/// Hilbert transform of a price; bars before `first` are skipped.
pub(in super::super) fn hilbert(price: Expr<'_>, first: usize) -> Hilbert<'_> {
    let ramp = price.builder().state_machine(&RUNNING_WMA, &[SMOOTH as f64], &[price]);
    let smooth = ramp.first().copied().unwrap_or(price) * 0.1;
    let ports = price.builder().state_machine(&CYCLE, &[first as f64], &[smooth]);
    let port = |at: usize| ports.get(at).copied().unwrap_or(price);
    Hilbert { price, smooth, period: port(0), in_phase: port(1), quadrature: port(2) }
}

impl<'g> Hilbert<'g> {
    /// With the longer warm-up.
    pub(super) fn late(price: Expr<'g>) -> Self {
        hilbert(price, LATE)
    }

    fn one(self, def: &'static StateMachineDef, inputs: &[Expr<'g>]) -> Expr<'g> {
        self.price.builder().state_machine(def, &[], inputs).first().copied().unwrap_or(self.price)
    }

    pub(super) fn phase(self) -> Expr<'g> {
        self.one(&PHASE, &[self.smooth, self.period])
    }

    /// Sine of the phase, and 45 degrees ahead.
    pub(super) fn sine(self) -> (Expr<'g>, Expr<'g>) {
        let phase = self.phase();
        let sine = |x: Expr<'g>| (x * (1.0 / DEGREES)).sin();
        (sine(phase), sine(phase + 45.0))
    }

    pub(super) fn trend_line(self) -> Expr<'g> {
        // Prices before the first used bar are part of the averages.
        self.one(&TREND_LINE, &[self.price, self.period.fill_warmup(0.0)])
    }

    pub(super) fn mode(self) -> Expr<'g> {
        let (sine, lead) = self.sine();
        self.one(&MODE, &[self.phase(), sine, lead, self.trend_line(), self.smooth, self.period])
    }
}
