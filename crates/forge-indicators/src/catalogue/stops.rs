//! Stops and levels that remember on which side the price is: their states and steps.

use crate::kernel::machine::{Machine, MachineDef};

fn at(params: &[f64], i: usize) -> f64 {
    params.get(i).copied().unwrap_or(0.0)
}

/// Wilder's parabolic stop from highs and lows. Parameters: start value (0 finds its own, the sign gives the side), offset on
/// reversal, then first factor, step and limit for rising and for falling trends. Gives the stop and the side, 1 or -1.
pub(super) static PARABOLIC: MachineDef = MachineDef::of::<Parabolic, 2, 2>("parabolic", |_| 1);

/// A falling trend is a rising one of negated prices: everything with a side is kept negated while the side is -1.
#[derive(Clone)]
pub(super) struct Parabolic {
    start: f64,
    offset: f64,
    /// First factor, step and limit: rising, falling.
    factors: [[f64; 3]; 2],
    /// High and low of the bar before.
    before: Option<(f64, f64)>,
    side: f64,
    factor: f64,
    extreme: f64,
    stop: f64,
}

impl Parabolic {
    fn factors(&self) -> [f64; 3] {
        let [rising, falling] = self.factors;
        if self.side > 0.0 { rising } else { falling }
    }

    /// High and low as the side sees them.
    fn seen(&self, high: f64, low: f64) -> (f64, f64) {
        if self.side > 0.0 { (high, low) } else { (-low, -high) }
    }

    /// The second bar decides the side: falling if the low fell by more than the high rose.
    fn begin(&mut self, before: (f64, f64), high: f64, low: f64) {
        let (rise, fall) = (high - before.0, before.1 - low);
        let falls = if self.start == 0.0 { fall > 0.0 && fall > rise } else { self.start < 0.0 };
        self.side = if falls { -1.0 } else { 1.0 };
        [self.factor, _, _] = self.factors();
        let own = if falls { before.0 } else { before.1 };
        let stop = if self.start == 0.0 { own } else { self.start.abs() };
        (self.extreme, self.stop) = (self.seen(high, low).0, self.side * stop);
    }
}

impl Machine<2, 2> for Parabolic {
    fn new(p: &[f64]) -> Self {
        let side = |i: usize| {
            let limit = at(p, i + 2);
            [at(p, i).min(limit), at(p, i + 1).min(limit), limit]
        };
        Parabolic {
            start: at(p, 0),
            offset: at(p, 1),
            factors: [side(2), side(5)],
            before: None,
            side: 0.0,
            factor: 0.0,
            extreme: 0.0,
            stop: 0.0,
        }
    }

    fn step(&mut self, [high, low]: [f64; 2]) -> [f64; 2] {
        let Some(mut before) = self.before.replace((high, low)) else { return [f64::NAN; 2] };
        if self.side == 0.0 {
            self.begin(before, high, low);
            before = (high, low);
        }
        let (top, bottom) = self.seen(high, low);
        let (top_before, bottom_before) = self.seen(before.0, before.1);
        if bottom > self.stop {
            let given = [self.side * self.stop, self.side];
            if top > self.extreme {
                let [_, step, limit] = self.factors();
                (self.extreme, self.factor) = (top, (self.factor + step).min(limit));
            }
            self.stop += self.factor * (self.extreme - self.stop);
            self.stop = self.stop.min(bottom_before).min(bottom);
            return given;
        }
        let mut stop = self.extreme.max(top_before).max(top);
        stop += self.side * stop * self.offset;
        let given = [self.side * stop, -self.side];
        let turned = self.side;
        self.side = -turned;
        [self.factor, _, _] = self.factors();
        self.extreme = -bottom;
        stop += self.factor * (bottom - stop);
        self.stop = -stop.max(top_before).max(top);
        given
    }
}

/// Bands that only close in while the price stays inside, and the one behind the price. Inputs: upper and lower band as they
/// would be by themselves, close. Gives the line and the side, 1 or -1; it begins rising.
pub(super) static RATCHET: MachineDef = MachineDef::of::<Ratchet, 3, 2>("ratchet", |_| 0);

#[derive(Clone)]
pub(super) struct Ratchet {
    /// Upper band, lower band, close of the bar before.
    before: Option<[f64; 3]>,
    rising: bool,
}

impl Machine<3, 2> for Ratchet {
    fn new(_: &[f64]) -> Self {
        Ratchet { before: None, rising: true }
    }

    fn step(&mut self, [mut upper, mut lower, close]: [f64; 3]) -> [f64; 2] {
        if let Some([upper_before, lower_before, close_before]) = self.before {
            if upper >= upper_before && close_before <= upper_before {
                upper = upper_before;
            }
            if lower <= lower_before && close_before >= lower_before {
                lower = lower_before;
            }
            self.rising = if self.rising { close >= lower } else { close > upper };
        }
        self.before = Some([upper, lower, close]);
        if self.rising { [lower, 1.0] } else { [upper, -1.0] }
    }
}

/// As [`RATCHET`], but the close is compared with the bands of the bar before.
pub(super) static PROFIT_MAX: MachineDef = MachineDef::of::<ProfitMax, 3, 2>("profit_max", |_| 0);

#[derive(Clone)]
pub(super) struct ProfitMax {
    before: Option<[f64; 3]>,
    rising: bool,
}

impl Machine<3, 2> for ProfitMax {
    fn new(_: &[f64]) -> Self {
        ProfitMax { before: None, rising: true }
    }

    fn step(&mut self, [mut upper, mut lower, close]: [f64; 3]) -> [f64; 2] {
        if let Some([upper_before, lower_before, close_before]) = self.before {
            if close_before > lower_before {
                lower = lower.max(lower_before);
            }
            if close_before < upper_before {
                upper = upper.min(upper_before);
            }
            self.rising = close > upper_before || self.rising && close >= lower_before;
        }
        self.before = Some([upper, lower, close]);
        if self.rising { [lower, 1.0] } else { [upper, -1.0] }
    }
}

/// Swings of at least some percent and bars, from highs and lows. Gives the extreme of the swing so far, its direction and
/// the bar of that extreme, counted from the first.
pub(super) static ZIGZAG: MachineDef = MachineDef::of::<ZigZag, 2, 3>("zigzag", |p| at(p, 1) as usize);

#[derive(Clone)]
pub(super) struct ZigZag {
    share: f64,
    least: usize,
    rising: bool,
    bar: usize,
    pivot_bar: usize,
    pivot: Option<f64>,
}

impl Machine<2, 3> for ZigZag {
    fn new(p: &[f64]) -> Self {
        let (share, least) = (at(p, 0) / 100.0, at(p, 1) as usize);
        ZigZag { share, least, rising: false, bar: 0, pivot_bar: 0, pivot: None }
    }

    fn step(&mut self, [high, low]: [f64; 2]) -> [f64; 3] {
        let pivot = match self.pivot {
            None => low,
            Some(pivot) => {
                self.bar += 1;
                let turn = if self.rising {
                    low <= pivot * (1.0 - self.share)
                } else {
                    high >= pivot * (1.0 + self.share)
                };
                let turns = turn && self.bar - self.pivot_bar >= self.least;
                self.rising ^= turns;
                let reached = if self.rising { high } else { low };
                // Of equal extremes the later is the pivot.
                let moves = turns || if self.rising { reached >= pivot } else { reached <= pivot };
                if moves {
                    self.pivot_bar = self.bar;
                }
                if moves { reached } else { pivot }
            }
        };
        self.pivot = Some(pivot);
        [pivot, if self.rising { 1.0 } else { -1.0 }, self.pivot_bar as f64]
    }
}

/// High, low and close of the session before, from high, low, close and time. Parameter: seconds of a session; sessions are
/// counted from the epoch. NaN during the first session.
pub(super) static SESSION: MachineDef = MachineDef::of::<Session, 4, 3>("session_before", |_| 0);

#[derive(Clone)]
pub(super) struct Session {
    seconds: f64,
    number: Option<f64>,
    now: [f64; 3],
    before: [f64; 3],
}

impl Machine<4, 3> for Session {
    fn new(p: &[f64]) -> Self {
        Session { seconds: at(p, 0).max(1.0), number: None, now: [f64::NAN; 3], before: [f64::NAN; 3] }
    }

    fn step(&mut self, [high, low, close, time]: [f64; 4]) -> [f64; 3] {
        let number = (time / self.seconds).floor();
        if self.number == Some(number) {
            let [highest, lowest, _] = self.now;
            self.now = [highest.max(high), lowest.min(low), close];
        } else {
            self.before = self.now;
            self.now = [high, low, close];
            self.number = Some(number);
        }
        self.before
    }
}
