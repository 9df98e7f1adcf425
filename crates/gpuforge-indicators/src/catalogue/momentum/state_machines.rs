//! State machines of the momentum indicators: clamp, streak, hold, QQE, RSX, Laguerre, projection bands.
//!
//! Linear recurrences are graph operations; these are the recurrences that clamp, count, switch or hold.

use crate::kernel::state_machine::{BranchlessMachine, StateMachine, StateMachineDef, Value};

pub(super) static CLAMPED: StateMachineDef =
    StateMachineDef::branchless::<Clamped, 1, 1, 1>("clamped", |_| 0);
pub(super) static STREAK: StateMachineDef = StateMachineDef::branchless::<Streak, 1, 2, 1>("streak", |_| 0);
pub(super) static HOLD: StateMachineDef = StateMachineDef::branchless::<Hold, 1, 2, 1>("hold", |_| 0);
pub(super) static SETTLED: StateMachineDef =
    StateMachineDef::branchless::<Settled, 2, 2, 1>("settled", |_| 0);
pub(super) static QQE: StateMachineDef = StateMachineDef::branchless::<Qqe, 6, 2, 4>("qqe", |_| 0);
pub(super) static RSX: StateMachineDef = StateMachineDef::branchless::<Rsx, 15, 1, 1>("rsx", |_| 0);
pub(super) static LAGUERRE: StateMachineDef =
    StateMachineDef::branchless::<Laguerre, 4, 1, 4>("laguerre", |_| 0);
pub(super) static RUN: StateMachineDef = StateMachineDef::branchless::<Run, 1, 1, 1>("run", |_| 0);
pub(super) static PROJECTION: StateMachineDef =
    StateMachineDef::of::<Projection, 2, 2>("projection", |p| window(p).saturating_sub(1));

/// The first parameter as a number of bars.
fn window(params: &[f64]) -> usize {
    params.first().map_or(2, |n| *n as usize).max(2)
}

/// Smoothed and clamped input of the Fisher transform (Ehlers), kept inside ±1, where the logarithm diverges.
#[derive(Clone, Copy)]
struct Clamped;

impl BranchlessMachine<1, 1, 1> for Clamped {
    fn new(_: &[f64]) -> Self {
        Clamped
    }

    #[inline(always)]
    fn first(&self, x: [f64; 1]) -> ([f64; 1], [f64; 1]) {
        self.step([0.0], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [smooth]: [V; 1], [share]: [V; 1]) -> ([V; 1], [V; 1]) {
        let next = smooth * 0.67 + (share - 0.5) * 0.66;
        let next = V::select(next.cmp_gt(0.99), 0.999, next);
        let next = V::select(next.cmp_lt(-0.99), -0.999, next);
        ([next], [next])
    }
}

/// Up/down streak length: positive while rising, negative while falling, 0 on a tie.
#[derive(Clone, Copy)]
struct Streak;

impl BranchlessMachine<1, 2, 1> for Streak {
    fn new(_: &[f64]) -> Self {
        Streak
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 1], [f64; 1]) {
        self.step([0.0], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [count]: [V; 1], [x, before]: [V; 2]) -> ([V; 1], [V; 1]) {
        let up = V::select(count.cmp_gt(0.0), count, 0.0) + 1.0;
        let down = V::select(count.cmp_lt(0.0), count, 0.0) - 1.0;
        let fell = V::select(x.cmp_lt(before), down, 0.0);
        let count = V::select(x.cmp_gt(before), up, fell);
        ([count], [count])
    }
}

/// Holds the last value of a bar that was not idle; 0 before there was one.
#[derive(Clone, Copy)]
struct Hold;

impl BranchlessMachine<1, 2, 1> for Hold {
    fn new(_: &[f64]) -> Self {
        Hold
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 1], [f64; 1]) {
        self.step([0.0], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [held]: [V; 1], [x, idle]: [V; 2]) -> ([V; 1], [V; 1]) {
        let held = V::select(idle.cmp_eq(0.0), x, held);
        ([held], [held])
    }
}

/// Difference of a value and its EMA; exactly 0 once neither moves any more, because an EMA may stall an ulp away from its
/// input.
#[derive(Clone, Copy)]
struct Settled;

impl BranchlessMachine<2, 2, 1> for Settled {
    fn new(_: &[f64]) -> Self {
        Settled
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 2], [f64; 1]) {
        self.step([f64::NAN; 2], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [x_before, mean_before]: [V; 2], [x, mean]: [V; 2]) -> ([V; 2], [V; 1]) {
        let settled = x.cmp_eq(x_before) & mean.cmp_eq(mean_before);
        ([x, mean], [V::select(settled, 0.0, x - mean)])
    }
}

/// QQE: bands that trail a smoothed RSI: the active line, the long and the short band, and the trend (1 or -1).
/// State: RSI, long and short bands of the previous two bars, trend.
#[derive(Clone, Copy)]
struct Qqe;

impl BranchlessMachine<6, 2, 4> for Qqe {
    fn new(_: &[f64]) -> Self {
        Qqe
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 6], [f64; 4]) {
        let none = f64::NAN;
        self.step([none, none, none, none, none, 1.0], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 6], [rsi, width]: [V; 2]) -> ([V; 6], [V; 4]) {
        let [before, long, older_long, short, older_short, trend] = state;
        let (upper, lower) = (rsi + width, rsi - width);
        let holds = before.cmp_gt(long) & rsi.cmp_gt(long);
        let next_long = V::select(holds, V::select(lower.cmp_gt(long), lower, long), lower);
        let holds = before.cmp_lt(short) & rsi.cmp_lt(short);
        let next_short = V::select(holds, V::select(upper.cmp_lt(short), upper, short), upper);
        // A crossing compares each bar with the previous band, in both directions.
        let crosses = |band: V, older: V| {
            (rsi.cmp_gt(band) & before.cmp_lt(older)) | (rsi.cmp_le(band) & before.cmp_ge(older))
        };
        let trend = V::select(crosses(long, older_long), -1.0, trend);
        let trend = V::select(crosses(short, older_short), 1.0, trend);
        let line = V::select(trend.cmp_gt(0.0), next_long, next_short);
        ([rsi, next_long, long, next_short, short, trend], [line, next_long, next_short, trend])
    }
}

/// One of RSX's three cascaded smoothers: 1.5 EMA - 0.5 EMA(EMA).
#[inline(always)]
fn smoother<V: Value>(x: V, k: f64, a: V, b: V) -> (V, V, V) {
    let a = a * (1.0 - k) + x * k;
    let b = a * k + b * (1.0 - k);
    (a * 1.5 - b * 0.5, a, b)
}

/// Three cascaded smoothers, frozen where `rest` is set: output and state.
#[inline(always)]
fn smoothers<V: Value>(x: V, k: f64, rest: V::Mask, stages: [V; 6]) -> (V, [V; 6]) {
    let [a0, b0, a1, b1, a2, b2] = stages;
    let (x, next_a0, next_b0) = smoother(x, k, a0, b0);
    let (x, next_a1, next_b1) = smoother(x, k, a1, b1);
    let (x, next_a2, next_b2) = smoother(x, k, a2, b2);
    let keep = |old: V, new: V| V::select(rest, old, new);
    let first = [keep(a0, next_a0), keep(b0, next_b0)];
    let second = [keep(a1, next_a1), keep(b1, next_b1)];
    let third = [keep(a2, next_a2), keep(b2, next_b2)];
    (x, [first[0], first[1], second[0], second[1], third[0], third[1]])
}

/// RSX: smoothed changes over smoothed absolute changes; 50 during the warm-up. State: the previous value, bars since the start
/// (restarts if nothing moved during the warm-up), whether anything moved, the smoothers of both.
#[derive(Clone, Copy)]
struct Rsx {
    k: f64,
    warm: f64,
}

impl BranchlessMachine<15, 1, 1> for Rsx {
    fn new(params: &[f64]) -> Self {
        let n = params.first().copied().unwrap_or(14.0);
        Rsx { k: 3.0 / (n + 2.0), warm: (n.trunc() - 1.0).max(5.0) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 1]) -> ([f64; 15], [f64; 1]) {
        self.step([0.0; 15], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 15], [x]: [V; 1]) -> ([V; 15], [V; 1]) {
        let [before, age, moved, m0, m1, m2, m3, m4, m5, s0, s1, s2, s3, s4, s5] = state;
        let x = x * 100.0;
        // At the start there is no change yet, and the smoothers are frozen.
        let begins = age.cmp_eq(0.0);
        let change = x - before;
        let (move_, m) = smoothers(change, self.k, begins, [m0, m1, m2, m3, m4, m5]);
        let (size, s) = smoothers(change.abs(), self.k, begins, [s0, s1, s2, s3, s4, s5]);
        let older = age + 1.0;
        let age = V::select(older.cmp_lt(self.warm + 1.0), older, self.warm + 1.0);
        let moves_now = age.cmp_le(self.warm) & change.cmp_ne(0.0) & !begins;
        let moved = V::select(moves_now, 1.0, V::select(begins, 0.0, moved));
        let idle = begins | age.cmp_le(self.warm) | size.cmp_le(1e-10);
        let share = (move_ / size + 1.0) * 50.0;
        let share = V::select(share.cmp_gt(100.0), 100.0, share);
        let share = V::select(share.cmp_lt(0.0), 0.0, share);
        let anew = age.cmp_eq(self.warm) & moved.cmp_eq(0.0) & !begins;
        let age = V::select(anew, 0.0, age);
        let next = [x, age, moved, m[0], m[1], m[2], m[3], m[4], m[5], s[0], s[1], s[2], s[3], s[4], s[5]];
        (next, [V::select(idle, 50.0, share)])
    }
}

/// Laguerre filter (Ehlers): four cascaded stages, seeded with the first value.
#[derive(Clone, Copy)]
struct Laguerre {
    gamma: f64,
}

impl BranchlessMachine<4, 1, 4> for Laguerre {
    fn new(params: &[f64]) -> Self {
        Laguerre { gamma: params.first().copied().unwrap_or(0.5) }
    }

    #[inline(always)]
    fn first(&self, [x]: [f64; 1]) -> ([f64; 4], [f64; 4]) {
        self.step([x; 4], [x])
    }

    #[inline(always)]
    fn step<V: Value>(&self, [a, b, c, d]: [V; 4], [x]: [V; 1]) -> ([V; 4], [V; 4]) {
        let g = self.gamma;
        // Written as differences, so that a constant series is a fixed point to the last bit.
        let next_a = x + (a - x) * g;
        let next_b = a + (b - next_a) * g;
        let next_c = b + (c - next_b) * g;
        let next_d = c + (d - next_c) * g;
        let next = [next_a, next_b, next_c, next_d];
        (next, next)
    }
}

/// Length of the current run of true bars, capped.
#[derive(Clone, Copy)]
struct Run {
    most: f64,
}

impl BranchlessMachine<1, 1, 1> for Run {
    fn new(params: &[f64]) -> Self {
        Run { most: params.first().copied().unwrap_or(f64::INFINITY) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 1]) -> ([f64; 1], [f64; 1]) {
        self.step([0.0], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [count]: [V; 1], [yes]: [V; 1]) -> ([V; 1], [V; 1]) {
        let more = count + 1.0;
        let more = V::select(more.cmp_lt(self.most), more, self.most);
        let count = V::select(yes.cmp_ne(0.0), more, 0.0);
        ([count], [count])
    }
}

/// Projection bands (Widner): the highs of a window projected to the current bar along their regression slope, and the max of
/// them; the lows and their min likewise.
#[derive(Clone)]
struct Projection {
    high: Vec<f64>,
    low: Vec<f64>,
    /// Write position of the ring, where the oldest bar is.
    at: usize,
}

/// The window of a ring, oldest first, with the age of each bar.
fn aged(ring: &[f64], at: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    let last = ring.len().saturating_sub(1);
    let (new, old) = ring.split_at(at.min(ring.len()));
    old.iter().chain(new).enumerate().map(move |(i, x)| ((last - i.min(last)) as f64, *x))
}

/// Regression slope of a window, per bar.
fn slope(ring: &[f64], at: usize) -> f64 {
    let n = ring.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let first = ring.first().copied().unwrap_or(0.0);
    let moment: f64 = aged(ring, at).map(|(age, x)| (middle - age) * (x - first)).sum();
    moment / (n * (n * n - 1.0) / 12.0)
}

impl StateMachine<2, 2> for Projection {
    fn new(params: &[f64]) -> Self {
        let n = window(params);
        Projection { high: vec![0.0; n], low: vec![0.0; n], at: 0 }
    }

    fn step(&mut self, [high, low]: [f64; 2]) -> [f64; 2] {
        for (ring, x) in [(&mut self.high, high), (&mut self.low, low)] {
            if let Some(slot) = ring.get_mut(self.at) {
                *slot = x;
            }
        }
        self.at = (self.at + 1) % self.high.len().max(1);
        let carried = |ring: &[f64], at: usize, outer: fn(f64, f64) -> f64| {
            let slope = slope(ring, at);
            let mut bound = f64::NAN;
            for (age, x) in aged(ring, at) {
                bound = outer(bound, x + slope * age);
            }
            if slope.is_nan() { slope } else { bound }
        };
        [carried(&self.high, self.at, f64::max), carried(&self.low, self.at, f64::min)]
    }
}
