//! Trailing-stop state machines: parabolic SAR, SuperTrend, PMax, zigzag, previous-session levels.

use crate::kernel::{
    Row,
    state_machine::{BranchlessMachine, RowStateMachine, StateMachineDef, Value, lanes, select},
};

fn at(params: &[f64], i: usize) -> f64 {
    params.get(i).copied().unwrap_or(0.0)
}

/// Max that ignores NaN.
#[inline(always)]
fn max<V: Value>(a: V, b: V) -> V {
    V::select(a.cmp_gt(b) | b.is_nan(), a, b)
}

/// Min that ignores NaN.
#[inline(always)]
fn min<V: Value>(a: V, b: V) -> V {
    V::select(a.cmp_lt(b) | b.is_nan(), a, b)
}

/// Parabolic SAR from highs and lows. Parameters: initial stop (0 is automatic, the sign gives the side), offset on reversal,
/// then initial acceleration factor, step and limit for rising and for falling trends. Gives the stop and the side, 1 or -1.
pub(super) static PARABOLIC: StateMachineDef =
    StateMachineDef::rows::<Parabolic<1>, Parabolic<8>, 2, 2>("parabolic", |_| 1);

/// A falling trend is a rising one of negated prices: the state is kept negated while the side is -1.
#[derive(Clone)]
struct Parabolic<const L: usize> {
    start: f64,
    offset: f64,
    /// Initial acceleration factor, step and limit: rising, falling.
    factors: [[f64; 3]; 2],
    /// The second bar decides the side.
    begun: bool,
    /// High and low of the previous bar.
    before: [Row<L>; 2],
    /// Side, factor, extreme, stop.
    state: [Row<L>; 4],
}

/// High and low mirrored for a side.
#[inline(always)]
fn mirrored(rising: bool, high: f64, low: f64) -> (f64, f64) {
    (select(rising, high, -low), select(rising, low, -high))
}

impl<const L: usize> Parabolic<L> {
    /// Falling if the low fell by more than the high rose.
    #[inline(always)]
    fn begin(&mut self, high: &Row<L>, low: &Row<L>) {
        let (start, [[rising, ..], [falling, ..]]) = (self.start, self.factors);
        let [high_before, low_before] = self.before;
        self.state = lanes([&high_before, &low_before, high, low], |[high_before, low_before, high, low]| {
            let (rise, fall) = (high - high_before, low_before - low);
            let falls = select(start == 0.0, (fall > 0.0) & (fall > rise), start < 0.0);
            let own = select(falls, high_before, low_before);
            let stop = select(start == 0.0, own, start.abs());
            let (side, factor) = (select(falls, -1.0, 1.0), select(falls, falling, rising));
            [side, factor, mirrored(!falls, high, low).0, side * stop]
        });
        self.before = [*high, *low];
        self.begun = true;
    }
}

impl<const L: usize> RowStateMachine<2, 2, L> for Parabolic<L> {
    fn new(p: &[f64]) -> Self {
        let side = |i: usize| {
            let limit = at(p, i + 2);
            [at(p, i).min(limit), at(p, i + 1).min(limit), limit]
        };
        Parabolic {
            start: at(p, 0),
            offset: at(p, 1),
            factors: [side(2), side(5)],
            begun: false,
            before: [[0.0; L]; 2],
            state: [[0.0; L]; 4],
        }
    }

    #[inline(always)]
    fn first(&mut self, [high, low]: [&Row<L>; 2]) -> [Row<L>; 2] {
        self.before = [*high, *low];
        [[f64::NAN; L]; 2]
    }

    #[inline(always)]
    fn step(&mut self, [high, low]: [&Row<L>; 2]) -> [Row<L>; 2] {
        if !self.begun {
            self.begin(high, low);
        }
        let (offset, [rise, fall]) = (self.offset, self.factors);
        let ([side, factor, extreme, stop], [before_high, before_low]) = (&self.state, &self.before);
        let inputs = [side, factor, extreme, stop, before_high, before_low, high, low];
        let [side, factor, extreme, stop, given, given_side] = lanes(inputs, |lane| {
            let [side, factor, extreme, stop, high_before, low_before, high, low] = lane;
            let rising = side > 0.0;
            let (top, bottom) = mirrored(rising, high, low);
            let (top_before, bottom_before) = mirrored(rising, high_before, low_before);

            // Trend continues: the stop accelerates towards the extreme point with every new extreme.
            let goes_on = || {
                let further = top > extreme;
                let (step, limit) = (select(rising, rise[1], fall[1]), select(rising, rise[2], fall[2]));
                let faster = factor + step;
                let faster = select(faster < limit, faster, limit);
                let (follow, reached) = (select(further, faster, factor), select(further, top, extreme));
                let next = min(min(stop + follow * (reached - stop), bottom_before), bottom);
                [side, follow, reached, next, side * stop, side]
            };
            // Reversal: the stop restarts at the extreme point, mirrored to the other side.
            let turns = || {
                let turn = max(max(extreme, top_before), top);
                let turn = turn + side * turn * offset;
                let anew = select(rising, fall[0], rise[0]);
                let turned = -max(max(turn + anew * (bottom - turn), top_before), top);
                [-side, anew, -bottom, turned, side * turn, -side]
            };
            let stays = bottom > stop;
            if L == 1 {
                // Most bars continue the trend: a well-predicted branch is not part of the loop-carried dependency.
                if stays { goes_on() } else { turns() }
            } else {
                let mut next = goes_on();
                next.iter_mut().zip(turns()).for_each(|(on, other)| *on = select(stays, *on, other));
                next
            }
        });
        (self.state, self.before) = ([side, factor, extreme, stop], [*high, *low]);
        [given, given_side]
    }
}

/// SuperTrend ratchet: bands that only tighten while the price stays inside, and the active one. Inputs: raw upper and lower
/// band, close. Gives the line and the side, 1 or -1; starts as an uptrend.
pub(super) static RATCHET: StateMachineDef =
    StateMachineDef::branchless::<Ratchet, 4, 3, 2>("ratchet", |_| 0);

/// State: upper band, lower band, close of the bar before, side.
#[derive(Clone, Copy)]
struct Ratchet;

impl BranchlessMachine<4, 3, 2> for Ratchet {
    fn new(_: &[f64]) -> Self {
        Ratchet
    }

    #[inline(always)]
    fn first(&self, [upper, lower, close]: [f64; 3]) -> ([f64; 4], [f64; 2]) {
        ([upper, lower, close, 1.0], [lower, 1.0])
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 4], [upper, lower, close]: [V; 3]) -> ([V; 4], [V; 2]) {
        let [upper_before, lower_before, close_before, side] = state;
        let closes_in = upper.cmp_ge(upper_before) & close_before.cmp_le(upper_before);
        let upper = V::select(closes_in, upper_before, upper);
        let closes_in = lower.cmp_le(lower_before) & close_before.cmp_ge(lower_before);
        let lower = V::select(closes_in, lower_before, lower);
        let rising = side.cmp_gt(0.0);
        let rising = (rising & close.cmp_ge(lower)) | (!rising & close.cmp_gt(upper));
        let side = V::select(rising, 1.0, -1.0);
        ([upper, lower, close, side], [V::select(rising, lower, upper), side])
    }
}

/// PMax ratchet: as [`RATCHET`], but the close is compared with the previous bands.
pub(super) static PROFIT_MAX: StateMachineDef =
    StateMachineDef::branchless::<ProfitMax, 4, 3, 2>("profit_max", |_| 0);

/// State as of [`Ratchet`].
#[derive(Clone, Copy)]
struct ProfitMax;

impl BranchlessMachine<4, 3, 2> for ProfitMax {
    fn new(_: &[f64]) -> Self {
        ProfitMax
    }

    #[inline(always)]
    fn first(&self, [upper, lower, close]: [f64; 3]) -> ([f64; 4], [f64; 2]) {
        ([upper, lower, close, 1.0], [lower, 1.0])
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 4], [upper, lower, close]: [V; 3]) -> ([V; 4], [V; 2]) {
        let [upper_before, lower_before, close_before, side] = state;
        let lower = V::select(close_before.cmp_gt(lower_before), max(lower, lower_before), lower);
        let upper = V::select(close_before.cmp_lt(upper_before), min(upper, upper_before), upper);
        let rising = close.cmp_gt(upper_before) | (side.cmp_gt(0.0) & close.cmp_ge(lower_before));
        let side = V::select(rising, 1.0, -1.0);
        ([upper, lower, close, side], [V::select(rising, lower, upper), side])
    }
}

/// Zigzag swings of at least some percent and bars, from highs and lows. Gives the extreme of the current swing, its direction
/// and the bar index of that extreme.
pub(super) static ZIGZAG: StateMachineDef =
    StateMachineDef::branchless::<ZigZag, 4, 2, 3>("zigzag", |p| at(p, 1) as usize);

/// State: the pivot, its bar, the direction, this bar.
#[derive(Clone, Copy)]
struct ZigZag {
    /// Reversal thresholds as factors of the pivot: for a low after a high pivot, for a high after a low one.
    fall: f64,
    rise: f64,
    min_bars: f64,
}

impl BranchlessMachine<4, 2, 3> for ZigZag {
    fn new(p: &[f64]) -> Self {
        let share = at(p, 0) / 100.0;
        ZigZag { fall: 1.0 - share, rise: 1.0 + share, min_bars: at(p, 1).trunc() }
    }

    #[inline(always)]
    fn first(&self, [_, low]: [f64; 2]) -> ([f64; 4], [f64; 3]) {
        ([low, 0.0, -1.0, 0.0], [low, -1.0, 0.0])
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 4], [high, low]: [V; 2]) -> ([V; 4], [V; 3]) {
        let [pivot, pivot_bar, side, bar] = state;
        let (bar, rising) = (bar + 1.0, side.cmp_gt(0.0));
        let far = (low.cmp_le(pivot * self.fall) & rising) | (high.cmp_ge(pivot * self.rise) & !rising);
        let turns = far & (bar - pivot_bar).cmp_ge(self.min_bars);
        let rising = rising ^ turns;
        let reached = V::select(rising, high, low);
        // Of equal extremes the later is the pivot.
        let moves = turns | (reached.cmp_ge(pivot) & rising) | (reached.cmp_le(pivot) & !rising);
        let (pivot, pivot_bar) = (V::select(moves, reached, pivot), V::select(moves, bar, pivot_bar));
        let side = V::select(rising, 1.0, -1.0);
        ([pivot, pivot_bar, side, bar], [pivot, side, pivot_bar])
    }
}

/// High, low and close of the previous session, from high, low, close and time. Parameter: session length in seconds, aligned
/// to the epoch. NaN during the first session.
pub(super) static SESSION: StateMachineDef =
    StateMachineDef::branchless::<Session, 7, 4, 3>("previous_session", |_| 0);

/// State: session number; its high, low and close; those of the previous one.
#[derive(Clone, Copy)]
struct Session {
    seconds: f64,
}

impl BranchlessMachine<7, 4, 3> for Session {
    fn new(p: &[f64]) -> Self {
        Session { seconds: at(p, 0).max(1.0) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 4]) -> ([f64; 7], [f64; 3]) {
        self.step([f64::NAN; 7], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 7], [high, low, close, time]: [V; 4]) -> ([V; 7], [V; 3]) {
        let [number, highest, lowest, last, high_before, low_before, close_before] = state;
        let now = (time / self.seconds).floor();
        let same = now.cmp_eq(number);
        let before = [
            V::select(same, high_before, highest),
            V::select(same, low_before, lowest),
            V::select(same, close_before, last),
        ];
        let highest = V::select(same, max(highest, high), high);
        let lowest = V::select(same, min(lowest, low), low);
        let [h, l, c] = before;
        ([now, highest, lowest, close, h, l, c], before)
    }
}
