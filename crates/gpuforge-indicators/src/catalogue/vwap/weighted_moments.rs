//! Volume-weighted mean and deviation since an anchor, restartable (West 1979).
//!
//! Sums are kept relative to the anchor's price and updated as West (1979) does: neither the price level nor a long distance
//! from the anchor cancels digits. A bar whose price or volume is not finite has no weight.

use crate::kernel::state_machine::{BranchlessMachine, StateMachine, StateMachineDef, Value};

/// Weighted moments since one anchor.
#[derive(Clone, Copy)]
struct WeightedMoments<V> {
    /// Price at the anchor.
    base: V,
    /// Volume.
    weight: V,
    /// Weighted mean of the distances from `base`.
    mean: V,
    /// Weighted sum of the squared distances from the mean.
    squares: V,
}

/// Mask: does the bar count? A volume of 0 changes nothing, and would divide by 0 at the anchor.
#[inline(always)]
fn counts<V: Value>(price: V, volume: V) -> V::Mask {
    price.abs().cmp_lt(f64::INFINITY) & volume.cmp_lt(f64::INFINITY) & volume.cmp_gt(0.0)
}

impl<V: Value> WeightedMoments<V> {
    #[inline(always)]
    fn from(price: V) -> Self {
        let none = V::from(0.0);
        WeightedMoments { base: price, weight: none, mean: none, squares: none }
    }

    #[inline(always)]
    fn of([base, weight, mean, squares]: [V; 4]) -> Self {
        WeightedMoments { base, weight, mean, squares }
    }

    #[inline(always)]
    fn state(self) -> [V; 4] {
        [self.base, self.weight, self.mean, self.squares]
    }

    /// Lane-wise select.
    #[inline(always)]
    fn select(first: V::Mask, one: Self, other: Self) -> Self {
        let pick = |a: V, b: V| V::select(first, a, b);
        WeightedMoments {
            base: pick(one.base, other.base),
            weight: pick(one.weight, other.weight),
            mean: pick(one.mean, other.mean),
            squares: pick(one.squares, other.squares),
        }
    }

    #[inline(always)]
    fn with(self, price: V, volume: V) -> Self {
        let counts = counts(price, volume);
        // The base must be finite: the first price with weight becomes the base.
        let base = V::select(self.weight.cmp_eq(0.0), price, self.base);
        let weight = self.weight + volume;
        let distance = price - base - self.mean;
        let step = distance * volume / weight;
        let squares = self.squares + self.weight * distance * step;
        WeightedMoments::select(
            counts,
            WeightedMoments { base, weight, mean: self.mean + step, squares },
            self,
        )
    }

    /// Mean and deviation; before any volume `empty` and 0.
    #[inline(always)]
    fn line(self, empty: V) -> [V; 2] {
        let some = self.weight.cmp_gt(0.0);
        let deviation = (self.squares / self.weight).sqrt();
        [V::select(some, self.base + self.mean, empty), V::select(some, deviation, 0.0)]
    }
}

/// Since the last bar whose flag is set, or the first bar.
#[derive(Clone, Copy)]
struct AnchoredVwap {
    /// The value before any volume: the price if true, else 0.
    price: bool,
}

impl BranchlessMachine<4, 3, 2> for AnchoredVwap {
    fn new(params: &[f64]) -> Self {
        AnchoredVwap { price: params.first() == Some(&1.0) }
    }

    #[inline(always)]
    fn first(&self, x: [f64; 3]) -> ([f64; 4], [f64; 2]) {
        let [price, ..] = x;
        self.step(WeightedMoments::from(price).state(), x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 4], [price, volume, anchor]: [V; 3]) -> ([V; 4], [V; 2]) {
        let sums = WeightedMoments::select(
            anchor.cmp_eq(0.0),
            WeightedMoments::of(state),
            WeightedMoments::from(price),
        )
        .with(price, volume);
        (sums.state(), sums.line(if self.price { price } else { V::from(0.0) }))
    }
}

/// The mean since the first bar and nothing else; 0 before any volume. State: base, weight, weighted sum of the distances from
/// `base`. The division is only for the output: it is not part of the loop-carried dependency.
#[derive(Clone, Copy)]
struct CumulativeVwap;

impl BranchlessMachine<3, 2, 1> for CumulativeVwap {
    fn new(_: &[f64]) -> Self {
        CumulativeVwap
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 3], [f64; 1]) {
        let [price, _] = x;
        self.step([price, 0.0, 0.0], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [base, weight, total]: [V; 3], [price, volume]: [V; 2]) -> ([V; 3], [V; 1]) {
        let counts = counts(price, volume);
        let base = V::select(counts & weight.cmp_eq(0.0), price, base);
        let weight = weight + V::select(counts, volume, 0.0);
        let total = total + V::select(counts, volume * (price - base), 0.0);
        ([base, weight, total], [V::select(weight.cmp_gt(0.0), base + total / weight, 0.0)])
    }
}

/// Since the last bar of the previous day whose flag is set; on the first day, since the first bar. State: the sums that
/// are output; those since the last flag of this day, which become the next day's.
#[derive(Clone, Copy)]
struct PreviousDayVwap;

impl BranchlessMachine<8, 4, 2> for PreviousDayVwap {
    fn new(_: &[f64]) -> Self {
        PreviousDayVwap
    }

    #[inline(always)]
    fn first(&self, x: [f64; 4]) -> ([f64; 8], [f64; 2]) {
        let [price, volume, day, anchor] = x;
        let next = WeightedMoments::select(
            (day != 0.0) | (anchor != 0.0),
            WeightedMoments::from(price),
            WeightedMoments::from(0.0),
        );
        Self::after(WeightedMoments::from(price), next, price, volume)
    }

    #[inline(always)]
    fn step<V: Value>(&self, state: [V; 8], [price, volume, day, anchor]: [V; 4]) -> ([V; 8], [V; 2]) {
        let [b, w, m, s, next_b, next_w, next_m, next_s] = state;
        let (shown, next) =
            (WeightedMoments::of([b, w, m, s]), WeightedMoments::of([next_b, next_w, next_m, next_s]));
        let shown = WeightedMoments::select(day.cmp_ne(0.0), next, shown);
        let next =
            WeightedMoments::select(day.cmp_ne(0.0) | anchor.cmp_ne(0.0), WeightedMoments::from(price), next);
        Self::after(shown, next, price, volume)
    }
}

impl PreviousDayVwap {
    #[inline(always)]
    fn after<V: Value>(
        shown: WeightedMoments<V>,
        next: WeightedMoments<V>,
        price: V,
        volume: V,
    ) -> ([V; 8], [V; 2]) {
        let (shown, next) = (shown.with(price, volume), next.with(price, volume));
        let ([a, b, c, d], [e, f, g, h]) = (shown.state(), next.state());
        ([a, b, c, d, e, f, g, h], shown.line(price))
    }
}

/// Rolling VWAP over the last bars.
#[derive(Clone)]
struct RollingVwap {
    /// Ring of price and volume; the oldest is overwritten.
    bars: Vec<(f64, f64)>,
    at: usize,
}

impl StateMachine<2, 2> for RollingVwap {
    fn new(params: &[f64]) -> Self {
        let n = params.first().map_or(1, |x| *x as usize).max(1);
        RollingVwap { bars: vec![(0.0, 0.0); n], at: 0 }
    }

    #[inline(always)]
    fn step(&mut self, [price, volume]: [f64; 2]) -> [f64; 2] {
        if let Some(slot) = self.bars.get_mut(self.at) {
            *slot = (price, volume);
        }
        self.at = (self.at + 1) % self.bars.len();
        let mut sums = WeightedMoments::from(price);
        let (newer, older) = self.bars.split_at(self.at);
        older.iter().chain(newer).for_each(|(price, volume)| sums = sums.with(*price, *volume));
        sums.line(price)
    }
}

/// 1 where a value exceeds all values since the flag was set.
#[derive(Clone, Copy)]
struct RunningRecord;

impl BranchlessMachine<1, 2, 1> for RunningRecord {
    fn new(_: &[f64]) -> Self {
        RunningRecord
    }

    #[inline(always)]
    fn first(&self, x: [f64; 2]) -> ([f64; 1], [f64; 1]) {
        self.step([f64::NEG_INFINITY], x)
    }

    #[inline(always)]
    fn step<V: Value>(&self, [best]: [V; 1], [x, day]: [V; 2]) -> ([V; 1], [V; 1]) {
        let better = day.cmp_ne(0.0) | x.cmp_gt(best);
        let now = V::select(x.is_nan(), f64::NEG_INFINITY, x);
        ([V::select(better, now, best)], [V::select(better, 1.0, 0.0)])
    }
}

/// Price, volume, anchor; with parameter 1 the value before any volume is the price.
pub(super) static ANCHORED: StateMachineDef =
    StateMachineDef::branchless::<AnchoredVwap, 4, 3, 2>("anchored vwap", |_| 0);
/// Price, volume.
pub(super) static CUMULATIVE: StateMachineDef =
    StateMachineDef::branchless::<CumulativeVwap, 3, 2, 1>("cumulative vwap", |_| 0);
/// Price, volume, new day, anchor.
pub(super) static PREVIOUS_DAY: StateMachineDef =
    StateMachineDef::branchless::<PreviousDayVwap, 8, 4, 2>("previous day anchored vwap", |_| 0);
/// Price, volume; the parameter is how many bars.
pub(super) static ROLLING: StateMachineDef = StateMachineDef::of::<RollingVwap, 2, 2>("rolling vwap", |_| 0);
/// Value, new day.
pub(super) static RUNNING_RECORD: StateMachineDef =
    StateMachineDef::branchless::<RunningRecord, 1, 2, 1>("daily running record", |_| 0);
