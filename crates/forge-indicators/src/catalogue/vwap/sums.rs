//! What was paid on average since an anchor, and how far from it? Weighted mean and deviation, begun anew at will.
//!
//! Sums are kept as distances from the anchor's price and updated as West (1979) does, so that neither the level of a price
//! nor a long way from the anchor costs digits. A bar whose price or volume is not finite has no weight.

use crate::kernel::machine::{Machine, MachineDef};

/// Since one anchor.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Price at the anchor.
    base: f64,
    /// Volume.
    weight: f64,
    /// Weighted mean of the distances from `base`.
    mean: f64,
    /// Weighted sum of the squared distances from the mean.
    squares: f64,
}

impl Sums {
    #[inline(always)]
    fn from(price: f64) -> Self {
        Sums { base: price, ..Sums::default() }
    }

    #[inline(always)]
    fn add(&mut self, price: f64, volume: f64) {
        // A volume of 0 changes nothing, and would divide by 0 at the anchor.
        if !price.is_finite() || !volume.is_finite() || volume <= 0.0 {
            return;
        }
        // What is not a number must not become the base; the first price with weight takes its place.
        if self.weight == 0.0 {
            self.base = price;
        }
        let weight = self.weight + volume;
        let distance = price - self.base - self.mean;
        let step = distance * volume / weight;
        self.mean += step;
        self.squares += self.weight * distance * step;
        self.weight = weight;
    }

    /// Mean and deviation; before any volume `empty` and 0.
    #[inline(always)]
    fn line(&self, empty: f64) -> [f64; 2] {
        if self.weight > 0.0 {
            [self.base + self.mean, (self.squares / self.weight).sqrt()]
        } else {
            [empty, 0.0]
        }
    }
}

/// Since the last bar whose flag is set, or the first bar.
#[derive(Clone)]
struct Since {
    sums: Option<Sums>,
    /// The value before any volume is the price, else 0.
    price: bool,
}

impl Machine<3, 2> for Since {
    fn new(params: &[f64]) -> Self {
        Since { sums: None, price: params.first() == Some(&1.0) }
    }

    #[inline(always)]
    fn step(&mut self, [price, volume, anchor]: [f64; 3]) -> [f64; 2] {
        let mut sums = self.sums.filter(|_| anchor == 0.0).unwrap_or(Sums::from(price));
        sums.add(price, volume);
        self.sums = Some(sums);
        sums.line(if self.price { price } else { 0.0 })
    }
}

/// Since the last bar of the previous day whose flag is set; on the first day, since the first bar.
#[derive(Clone, Default)]
struct SinceBefore {
    shown: Option<Sums>,
    /// Since the last flag of this day: tomorrow's.
    next: Sums,
}

impl Machine<4, 2> for SinceBefore {
    fn new(_: &[f64]) -> Self {
        SinceBefore::default()
    }

    #[inline(always)]
    fn step(&mut self, [price, volume, day, anchor]: [f64; 4]) -> [f64; 2] {
        let mut shown = match self.shown {
            None => Sums::from(price),
            Some(_) if day != 0.0 => self.next,
            Some(shown) => shown,
        };
        if day != 0.0 || anchor != 0.0 {
            self.next = Sums::from(price);
        }
        shown.add(price, volume);
        self.next.add(price, volume);
        self.shown = Some(shown);
        shown.line(price)
    }
}

/// Over the last bars.
#[derive(Clone)]
struct Over {
    /// Price and volume of each; the oldest is overwritten.
    bars: Vec<(f64, f64)>,
    at: usize,
}

impl Machine<2, 2> for Over {
    fn new(params: &[f64]) -> Self {
        let n = params.first().map_or(1, |x| *x as usize).max(1);
        Over { bars: vec![(0.0, 0.0); n], at: 0 }
    }

    #[inline(always)]
    fn step(&mut self, [price, volume]: [f64; 2]) -> [f64; 2] {
        if let Some(slot) = self.bars.get_mut(self.at) {
            *slot = (price, volume);
        }
        self.at = (self.at + 1) % self.bars.len();
        let mut sums = Sums::from(price);
        let (newer, older) = self.bars.split_at(self.at);
        older.iter().chain(newer).for_each(|(price, volume)| sums.add(*price, *volume));
        sums.line(price)
    }
}

/// 1 where a value exceeds all before it since the flag was set.
#[derive(Clone)]
struct Record {
    best: f64,
}

impl Machine<2, 1> for Record {
    fn new(_: &[f64]) -> Self {
        Record { best: f64::NEG_INFINITY }
    }

    #[inline(always)]
    fn step(&mut self, [x, day]: [f64; 2]) -> [f64; 1] {
        let first = day != 0.0;
        let better = first || x > self.best;
        if better {
            self.best = if x.is_nan() { f64::NEG_INFINITY } else { x };
        }
        [if better { 1.0 } else { 0.0 }]
    }
}

/// Price, volume, anchor; the parameter 1 shows the price before any volume.
pub(super) static SINCE: MachineDef = MachineDef::of::<Since, 3, 2>("weighted since an anchor", |_| 0);
/// Price, volume, new day, anchor.
pub(super) static SINCE_BEFORE: MachineDef =
    MachineDef::of::<SinceBefore, 4, 2>("weighted since an anchor of the day before", |_| 0);
/// Price, volume; the parameter is how many bars.
pub(super) static OVER: MachineDef = MachineDef::of::<Over, 2, 2>("weighted over bars", |_| 0);
/// Value, new day.
pub(super) static RECORD: MachineDef = MachineDef::of::<Record, 2, 1>("record of the day", |_| 0);
