//! What does an oscillator remember? State machines of the momentum rows.
//!
//! Everything linear is built from means; these are the recursions that clamp, count, switch or wait.

use crate::kernel::machine::{Machine, MachineDef};

pub(super) static FISHER: MachineDef = MachineDef::of::<Fisher, 1, 2>("fisher", |_| 0);
pub(super) static STREAK: MachineDef = MachineDef::of::<Streak, 2, 1>("streak", |_| 0);
pub(super) static HOLD: MachineDef = MachineDef::of::<Hold, 2, 1>("hold", |_| 0);
pub(super) static SETTLED: MachineDef = MachineDef::of::<Settled, 2, 1>("settled", |_| 0);
pub(super) static PRIOR: MachineDef = MachineDef::of::<Prior, 1, 1>("prior", |_| 0);
pub(super) static QQE: MachineDef = MachineDef::of::<Qqe, 2, 4>("qqe", |_| 0);
pub(super) static RSX: MachineDef = MachineDef::of::<Rsx, 1, 1>("rsx", |_| 0);
pub(super) static LAGUERRE: MachineDef = MachineDef::of::<Laguerre, 1, 4>("laguerre", |_| 0);
pub(super) static RUN: MachineDef = MachineDef::of::<Run, 1, 1>("run", |_| 0);
pub(super) static PROJECTION: MachineDef =
    MachineDef::of::<Projection, 2, 2>("projection", |p| window(p).saturating_sub(1));

/// The first parameter as a number of bars.
fn window(params: &[f64]) -> usize {
    params.first().map_or(2, |n| *n as usize).max(2)
}

/// Ehlers' smoothed and clamped share, its transform, and the transform before.
#[derive(Clone)]
struct Fisher {
    smooth: f64,
    fish: f64,
}

impl Machine<1, 2> for Fisher {
    fn new(_: &[f64]) -> Self {
        Fisher { smooth: 0.0, fish: 0.0 }
    }

    fn step(&mut self, [share]: [f64; 1]) -> [f64; 2] {
        let next = 0.67 * self.smooth + 0.66 * (share - 0.5);
        // Just inside 1, where the logarithm ends.
        self.smooth = match next {
            x if x > 0.99 => 0.999,
            x if x < -0.99 => -0.999,
            x => x,
        };
        let before = self.fish;
        self.fish = 0.5 * ((1.0 + self.smooth) / (1.0 - self.smooth)).ln() + 0.5 * before;
        [self.fish, before]
    }
}

/// How many bars in a row rose (counted up) or fell (counted down); a bar that did neither is 0.
#[derive(Clone)]
struct Streak(f64);

impl Machine<2, 1> for Streak {
    fn new(_: &[f64]) -> Self {
        Streak(0.0)
    }

    fn step(&mut self, [x, before]: [f64; 2]) -> [f64; 1] {
        self.0 = if x > before {
            self.0.max(0.0) + 1.0
        } else if x < before {
            self.0.min(0.0) - 1.0
        } else {
            0.0
        };
        [self.0]
    }
}

/// The last value of a bar that was not idle; 0 before there was one.
#[derive(Clone)]
struct Hold(f64);

impl Machine<2, 1> for Hold {
    fn new(_: &[f64]) -> Self {
        Hold(0.0)
    }

    fn step(&mut self, [x, idle]: [f64; 2]) -> [f64; 1] {
        if idle == 0.0 {
            self.0 = x;
        }
        [self.0]
    }
}

/// The distance of two values; exactly 0 once neither moves any more, because a mean may stop an ulp away from what it
/// follows.
#[derive(Clone)]
struct Settled([f64; 2]);

impl Machine<2, 1> for Settled {
    fn new(_: &[f64]) -> Self {
        Settled([f64::NAN; 2])
    }

    fn step(&mut self, now: [f64; 2]) -> [f64; 1] {
        let [x, mean] = now;
        let settled = now == self.0;
        self.0 = now;
        [if settled { 0.0 } else { x - mean }]
    }
}

/// The value of the bar before; at the first bar its own.
#[derive(Clone)]
struct Prior(Option<f64>);

impl Machine<1, 1> for Prior {
    fn new(_: &[f64]) -> Self {
        Prior(None)
    }

    fn step(&mut self, [x]: [f64; 1]) -> [f64; 1] {
        [self.0.replace(x).unwrap_or(x)]
    }
}

/// Bands that trail a smoothed RSI: the line in force, the long and the short band, and the trend (1 or -1).
#[derive(Clone)]
struct Qqe {
    rsi: f64,
    /// Long bands of the bar before and of the one before that.
    long: [f64; 2],
    /// Short bands, likewise.
    short: [f64; 2],
    trend: f64,
}

impl Machine<2, 4> for Qqe {
    fn new(_: &[f64]) -> Self {
        let none = f64::NAN;
        Qqe { rsi: none, long: [none; 2], short: [none; 2], trend: 1.0 }
    }

    fn step(&mut self, [rsi, width]: [f64; 2]) -> [f64; 4] {
        let (upper, lower) = (rsi + width, rsi - width);
        let ([long, older_long], [short, older_short]) = (self.long, self.short);
        let holds = self.rsi > long && rsi > long;
        let next_long = if holds { long.max(lower) } else { lower };
        let holds = self.rsi < short && rsi < short;
        let next_short = if holds { short.min(upper) } else { upper };
        // A crossing compares each bar with the band of the bar before it, in both directions.
        let crosses =
            |band: f64, older: f64| rsi > band && self.rsi < older || rsi <= band && self.rsi >= older;
        if crosses(short, older_short) {
            self.trend = 1.0;
        } else if crosses(long, older_long) {
            self.trend = -1.0;
        }
        *self = Qqe { rsi, long: [next_long, long], short: [next_short, short], trend: self.trend };
        [if self.trend > 0.0 { next_long } else { next_short }, next_long, next_short, self.trend]
    }
}

/// One of three smoothers in a row: two exponential means, the first of them counted half more and the second half off.
#[derive(Clone, Copy, Default)]
struct Smoother([f64; 2]);

impl Smoother {
    fn step(&mut self, x: f64, k: f64) -> f64 {
        let [a, b] = self.0;
        let a = (1.0 - k) * a + k * x;
        let b = k * a + (1.0 - k) * b;
        self.0 = [a, b];
        1.5 * a - 0.5 * b
    }
}

/// Smoothed moves as a share of smoothed sizes of moves; 50 until it has warmed up.
#[derive(Clone)]
struct Rsx {
    k: f64,
    warm: usize,
    /// Bars since it began; it begins anew when nothing has moved while it warmed up.
    age: usize,
    moved: bool,
    before: f64,
    moves: [Smoother; 3],
    sizes: [Smoother; 3],
}

impl Machine<1, 1> for Rsx {
    fn new(params: &[f64]) -> Self {
        let n = params.first().copied().unwrap_or(14.0);
        let stages = [Smoother::default(); 3];
        Rsx {
            k: 3.0 / (n + 2.0),
            warm: (n as usize).saturating_sub(1).max(5),
            age: 0,
            moved: false,
            before: 0.0,
            moves: stages,
            sizes: stages,
        }
    }

    fn step(&mut self, [x]: [f64; 1]) -> [f64; 1] {
        let x = 100.0 * x;
        let change = x - self.before;
        self.before = x;
        if self.age == 0 {
            (self.age, self.moved) = (1, false);
            return [50.0];
        }
        self.age = (self.age + 1).min(self.warm + 1);
        let k = self.k;
        let run = |stages: &mut [Smoother; 3], x: f64| stages.iter_mut().fold(x, |x, s| s.step(x, k));
        let (move_, size) = (run(&mut self.moves, change), run(&mut self.sizes, change.abs()));
        self.moved |= self.age <= self.warm && change != 0.0;
        let ready = self.age > self.warm;
        if self.age == self.warm && !self.moved {
            self.age = 0;
        }
        let idle = !ready || size <= 1e-10;
        [if idle { 50.0 } else { ((move_ / size + 1.0) * 50.0).clamp(0.0, 100.0) }]
    }
}

/// Ehlers' Laguerre filter: four stages, each behind the one before; all begin with the first value.
#[derive(Clone)]
struct Laguerre {
    gamma: f64,
    stages: Option<[f64; 4]>,
}

impl Machine<1, 4> for Laguerre {
    fn new(params: &[f64]) -> Self {
        Laguerre { gamma: params.first().copied().unwrap_or(0.5), stages: None }
    }

    fn step(&mut self, [x]: [f64; 1]) -> [f64; 4] {
        let [a, b, c, d] = self.stages.unwrap_or([x; 4]);
        let g = self.gamma;
        // Written as distances, so that a series that stands still stays where it is to the last bit.
        let next_a = x + g * (a - x);
        let next_b = a + g * (b - next_a);
        let next_c = b + g * (c - next_b);
        let next_d = c + g * (d - next_c);
        let next = [next_a, next_b, next_c, next_d];
        self.stages = Some(next);
        next
    }
}

/// How many bars in a row were a yes, at most so many.
#[derive(Clone)]
struct Run {
    most: f64,
    count: f64,
}

impl Machine<1, 1> for Run {
    fn new(params: &[f64]) -> Self {
        Run { most: params.first().copied().unwrap_or(f64::INFINITY), count: 0.0 }
    }

    fn step(&mut self, [yes]: [f64; 1]) -> [f64; 1] {
        self.count = if yes != 0.0 { (self.count + 1.0).min(self.most) } else { 0.0 };
        [self.count]
    }
}

/// Widner's projection bands: the highs of a window carried on to today along the slope of the line through them, and the
/// greatest of them; the lows and the least likewise.
#[derive(Clone)]
struct Projection {
    high: Vec<f64>,
    low: Vec<f64>,
    /// Where the next bar goes, which is where the oldest is.
    at: usize,
}

/// The window of a ring, the oldest first, with its age today.
fn aged(ring: &[f64], at: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    let last = ring.len().saturating_sub(1);
    let (new, old) = ring.split_at(at.min(ring.len()));
    old.iter().chain(new).enumerate().map(move |(i, x)| ((last - i.min(last)) as f64, *x))
}

/// Slope of the line through a window, per bar.
fn slope(ring: &[f64], at: usize) -> f64 {
    let n = ring.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let first = ring.first().copied().unwrap_or(0.0);
    let moment: f64 = aged(ring, at).map(|(age, x)| (middle - age) * (x - first)).sum();
    moment / (n * (n * n - 1.0) / 12.0)
}

impl Machine<2, 2> for Projection {
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
