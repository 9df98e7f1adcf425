//! Which bars are there when there is no file? Bars that behave like a market's, the same for a seed on every machine.
//!
//! A symbol's return is a share of the whole market's, a share of its sector's and one of its own. Each of the three has
//! a variance that remembers (GARCH(1,1)), so that calm and nervous times alternate. Within a session volatility and
//! volume are high at both ends; volume also follows the size of the return; prices jump overnight and are pulled gently
//! back to where they began, so that they stay plausible over centuries.
//!
//! Bits do not depend on the platform: random numbers are ChaCha8 streams, normal deviates are made by counting bits, and
//! all arithmetic is `+ - × ÷ √`, which IEEE 754 rounds exactly. No function of a mathematics library is called, because
//! those differ between platforms; this is why `rand_distr` is not used here. Prices are whole cents divided by 100.
//!
//! A symbol has a stream of its own: it does not depend on how many others are made. Splits, gaps and bars without volume
//! have further ones, so that a request for them changes only the bars concerned (and what follows a split).

use arrow::datatypes::{DataType, TimeUnit};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

use crate::bars::{Bars, Column, Key, Layout};

/// Bars of a session: 09:30 to 16:00 in New York.
pub const SESSION: usize = 390;
/// When a session begins, in minutes of a UTC day. New York's winter time holds the year round here.
const OPENING: i64 = 14 * 60 + 30;
/// The first session: Tuesday, 2 January 2024, in days since 1970.
const FIRST_DAY: i64 = 19_724;
const MICROSECONDS_PER_MINUTE: i64 = 60_000_000;
/// Groups of symbols that move together.
const SECTORS: usize = 6;
/// Bars without volume, and gaps, are at most this far apart.
const STRIDE: u64 = 400;
/// Bars that a gap takes away, at most.
const GAP: u64 = 15;
/// The strength of the pull back to the first price, per day.
const PULL: f64 = 5e-4;

/// What a bar spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interval {
    /// A minute of a session.
    Minute,
    /// A whole session.
    Day,
}

impl Interval {
    /// Bars of a session.
    pub const fn per_day(self) -> usize {
        match self {
            Interval::Minute => SESSION,
            Interval::Day => 1,
        }
    }
}

/// A recipe of bars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// How many symbols.
    pub symbols: usize,
    /// What a bar spans.
    pub interval: Interval,
    /// Bars of each symbol, before gaps take some away.
    pub bars: usize,
    /// Equal seeds give equal bars.
    pub seed: u64,
    /// One split of 2:1 or 3:1 in every symbol, between two sessions where there are several.
    pub splits: bool,
    /// Missing minutes or days.
    pub gaps: bool,
    /// Some bars in which nothing was traded: volume 0, all prices the last one.
    pub zero_volume: bool,
}

impl Sample {
    /// Bars without anything odd.
    pub fn new(symbols: usize, interval: Interval, bars: usize, seed: u64) -> Self {
        Sample { symbols, interval, bars, seed, splits: false, gaps: false, zero_volume: false }
    }

    /// What the keys are called and are: `symbol`, and `time` in microseconds UTC, or as a date for daily bars.
    pub fn layout(&self) -> Layout {
        let time = match self.interval {
            Interval::Minute => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Interval::Day => DataType::Date32,
        };
        let column = |name: &str, kind| Some(Column { name: name.to_owned(), kind });
        Layout { symbol: column("symbol", DataType::Utf8), time: column("time", time), time_first: false }
    }

    /// The bars, one symbol after another, each made when it is asked for.
    pub fn series(&self) -> impl Iterator<Item = Bars> {
        let market = Factor::new(self, stream::MARKET);
        let sectors: Vec<Factor> =
            (0..SECTORS.min(self.symbols)).map(|s| Factor::new(self, stream::SECTOR + s as u64)).collect();
        (0..self.symbols).filter_map(move |i| Some(self.bars_of(i, &market, sectors.get(i % SECTORS)?)))
    }

    /// The bars of one symbol.
    fn bars_of(&self, index: usize, market: &Factor, sector: &Factor) -> Bars {
        let mut company = Company::new(index, self);
        let mut oddities = Oddities::new(index, self);
        let mut bars = Bars { symbol: Some(Key::Text(ticker(index))), ..Bars::default() };
        for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume] {
            column.reserve_exact(self.bars);
        }
        bars.time.reserve_exact(self.bars);
        for (at, (market, sector)) in market.moves.iter().zip(&sector.moves).enumerate() {
            company.split(oddities.split(at));
            let (last, mut bar) = (company.last, company.bar(at, market, sector));
            if oddities.idle(at) {
                // What happens meanwhile shows in the next bar.
                bar = Bar { open: last, high: last, low: last, close: last, volume: 0 };
                company.last = last;
            }
            if !oddities.missing(at) {
                push(&mut bars, self.time(at), bar);
            }
        }
        bars
    }

    /// When bar `at` begins.
    fn time(&self, at: usize) -> i64 {
        let (session, minute) = (at / self.interval.per_day(), at % self.interval.per_day());
        let day = FIRST_DAY + weekdays(session as i64);
        match self.interval {
            Interval::Day => day,
            Interval::Minute => (day * 1440 + OPENING + minute as i64) * MICROSECONDS_PER_MINUTE,
        }
    }
}

/// Days from a Tuesday to the weekday that comes `sessions` weekdays later.
fn weekdays(sessions: i64) -> i64 {
    // Counted from the Monday before, each five sessions are a week.
    (sessions + 1) / 5 * 7 + (sessions + 1) % 5 - 1
}

/// `ZAAA`, `ZAAB`…: in alphabetical order up to 17 576 symbols; no company is meant.
fn ticker(index: usize) -> String {
    let (mut letters, mut rest) = (Vec::new(), index);
    while letters.len() < 3 || rest > 0 {
        letters.push(char::from(b'A' + (rest % 26) as u8));
        rest /= 26;
    }
    letters.push('Z');
    letters.iter().rev().collect()
}

/// Which stream of random numbers is for what; each symbol has four.
mod stream {
    pub(super) const MARKET: u64 = 1 << 63;
    pub(super) const SECTOR: u64 = MARKET + 1;
    pub(super) const PRICES: u64 = 0;
    pub(super) const SPLIT: u64 = 1;
    pub(super) const IDLE: u64 = 2;
    pub(super) const GAPS: u64 = 3;

    pub(super) const fn of(symbol: usize, kind: u64) -> u64 {
        4 * symbol as u64 + kind
    }
}

/// Random numbers of one stream.
struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        // Not `seed_from_u64`: what it makes of a number may change with its version.
        let mut key = [0; 32];
        key.iter_mut().zip(seed.to_le_bytes()).for_each(|(to, from)| *to = from);
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(stream);
        Random(random)
    }

    /// A number from 0 to below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    /// A number from 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A nearly normal deviate: the sum of 48 fair coins and of a uniform number that fills the steps between its values.
    /// Its kurtosis is 2.96 instead of 3, and it never exceeds 7.
    fn normal(&mut self) -> f64 {
        const VARIANCE: f64 = 48.0 / 4.0 + 1.0 / 12.0;
        let bits = self.0.next_u64();
        let coins = f64::from((bits >> 16).count_ones()) - 24.0;
        let between = (bits & 0xffff) as f64 / 65_536.0 + 0.5 / 65_536.0 - 0.5;
        (coins + between) / VARIANCE.sqrt()
    }
}

/// A variance with memory, whose mean is 1.
struct Cluster(f64);

impl Cluster {
    /// The next return of unit variance on average.
    fn next(&mut self, deviate: f64) -> f64 {
        let value = self.0.sqrt() * deviate;
        self.0 = 0.02 + 0.08 * value * value + 0.90 * self.0;
        value
    }
}

/// What moves several symbols at once: for each bar a return, and one of the night before (0 within a session).
struct Factor {
    moves: Vec<(f64, f64)>,
}

impl Factor {
    fn new(sample: &Sample, stream: u64) -> Self {
        let mut random = Random::new(sample.seed, stream);
        let mut cluster = Cluster(1.0);
        let per_day = sample.interval.per_day();
        let mut step = |at: usize| {
            let overnight = if at.is_multiple_of(per_day) { random.normal() } else { 0.0 };
            (cluster.next(random.normal()), overnight)
        };
        Factor { moves: (0..sample.bars).map(&mut step).collect() }
    }
}

/// One bar: prices in cents.
#[derive(Clone, Copy)]
struct Bar {
    open: i64,
    high: i64,
    low: i64,
    close: i64,
    volume: i64,
}

fn push(bars: &mut Bars, time: i64, bar: Bar) {
    bars.time.push(time);
    bars.open.push(bar.open as f64 / 100.0);
    bars.high.push(bar.high as f64 / 100.0);
    bars.low.push(bar.low as f64 / 100.0);
    bars.close.push(bar.close as f64 / 100.0);
    bars.volume.push(bar.volume as f64);
}

/// How high volatility and volume are at each minute of a session; 1 on average, highest at both ends.
fn smile(at: usize, per_day: usize) -> f64 {
    if per_day == 1 {
        return 1.0;
    }
    let x = (2 * at + 1) as f64 / per_day as f64 - 1.0;
    let square = x * x;
    0.7 + 0.3 * square + square * square
}

/// A symbol while its bars are made.
struct Company {
    random: Random,
    cluster: Cluster,
    /// Weights of market, sector and itself; their squares sum up to 1.
    weights: [f64; 3],
    /// Volatility of a bar and of a night.
    bar: f64,
    night: f64,
    pull: f64,
    per_day: usize,
    /// The last price and the one it is pulled to, in cents.
    price: f64,
    home: f64,
    /// The last close.
    last: i64,
    /// Shares of an ordinary bar.
    shares: f64,
}

impl Company {
    fn new(index: usize, sample: &Sample) -> Self {
        let mut random = Random::new(sample.seed, stream::of(index, stream::PRICES));
        let per_day = sample.interval.per_day();
        let uniform = random.unit();
        // From 5 to 500, low prices more often.
        let price = (500.0 + 49_500.0 * uniform * uniform * uniform).round();
        let (market, sector) = (0.35 + 0.4 * random.unit(), 0.3 + 0.2 * random.unit());
        // Of a day 1 to 3 %; a fifth of the variance falls into the night.
        let day = 0.01 + 0.02 * random.unit();
        let traded = random.unit();
        let dollars = 5e6 + 5e8 * traded * traded * traded;
        Company {
            cluster: Cluster(1.0),
            weights: [market, sector, (1.0 - market * market - sector * sector).sqrt()],
            bar: day * (0.8 / per_day as f64).sqrt(),
            night: day * 0.2f64.sqrt(),
            pull: PULL / per_day as f64,
            per_day,
            price,
            home: price,
            last: price as i64,
            shares: dollars * 100.0 / price / per_day as f64,
            random,
        }
    }

    /// Divides the price from here on.
    fn split(&mut self, ratio: Option<u8>) {
        if let Some(ratio) = ratio.map(f64::from) {
            self.price = (self.price / ratio).max(1.0);
            self.home /= ratio;
            self.last = cents(self.price);
            self.shares *= ratio;
        }
    }

    /// The next bar, which is number `at`.
    fn bar(&mut self, at: usize, market: &(f64, f64), sector: &(f64, f64)) -> Bar {
        let [of_market, of_sector, own] = self.weights;
        let [opening, inside, above, below, trading] = [(); 5].map(|()| self.random.normal());
        let joint =
            |market: f64, sector: f64, mine: f64| of_market * market + of_sector * sector + own * mine;
        let minute = at % self.per_day;
        self.price *= match minute == 0 && at > 0 {
            true => 1.0 + (self.night * joint(market.1, sector.1, opening)).clamp(-0.2, 0.2),
            // Between two bars of a session the price hardly moves.
            false => 1.0 + 0.1 * self.bar * opening,
        };
        let open = cents(self.price);
        let smile = smile(minute, self.per_day);
        let unit = joint(market.0, sector.0, self.cluster.next(inside));
        let pull = self.pull * (1.0 - self.price / self.home).max(-1.0);
        let range = self.bar * smile;
        self.price = (self.price * (1.0 + (range * unit + pull).clamp(-0.2, 0.2))).max(1.0);
        let close = cents(self.price);
        self.last = close;
        let reach = |deviate: f64| (0.5 * range * self.price * deviate.abs()).round() as i64;
        let noise = 1.0 + 0.35 * trading;
        let shares = self.shares * smile * (0.4 + 0.75 * unit.abs()) * noise * noise;
        Bar {
            open,
            high: open.max(close) + reach(above),
            low: (open.min(close) - reach(below)).max(1),
            close,
            volume: (shares as i64).max(1),
        }
    }
}

/// A price on the grid of cents, at least one.
fn cents(price: f64) -> i64 {
    (price.round() as i64).max(1)
}

/// What is odd about a symbol's bars, asked for in their order.
struct Oddities {
    split: Option<(usize, u8)>,
    idle: Option<Runs>,
    gaps: Option<Runs>,
}

impl Oddities {
    fn new(index: usize, sample: &Sample) -> Self {
        let random = |kind| Random::new(sample.seed, stream::of(index, kind));
        let runs =
            |wanted: bool, kind, longest| wanted.then(|| Runs::new(random(kind), sample.bars, longest));
        Oddities {
            split: sample.splits.then(|| split(random(stream::SPLIT), sample)),
            idle: runs(sample.zero_volume, stream::IDLE, 1),
            gaps: runs(sample.gaps, stream::GAPS, GAP),
        }
    }

    fn split(&self, at: usize) -> Option<u8> {
        self.split.and_then(|(when, ratio)| (when == at).then_some(ratio))
    }

    fn idle(&mut self, at: usize) -> bool {
        self.idle.as_mut().is_some_and(|runs| runs.holds(at))
    }

    fn missing(&mut self, at: usize) -> bool {
        self.gaps.as_mut().is_some_and(|runs| runs.holds(at))
    }
}

/// At which bar one share becomes how many; never at the first.
fn split(mut random: Random, sample: &Sample) -> (usize, u8) {
    let (bars, per_day) = (sample.bars as u64, sample.interval.per_day() as u64);
    let when = match bars.div_ceil(per_day) {
        0 | 1 => 1 + random.below(bars.saturating_sub(1)),
        sessions => per_day * (1 + random.below(sessions - 1)),
    };
    (when as usize, 2 + random.below(2) as u8)
}

/// Runs of bars here and there.
struct Runs {
    random: Random,
    next: std::ops::Range<usize>,
    longest: u64,
}

impl Runs {
    /// The first run begins within `bars`, and not with the first of them.
    fn new(random: Random, bars: usize, longest: u64) -> Self {
        let mut runs = Runs { random, next: 0..0, longest };
        runs.draw(1, STRIDE.min(bars.saturating_sub(1) as u64));
        runs
    }

    fn draw(&mut self, from: usize, within: u64) {
        let begin = from + self.random.below(within) as usize;
        self.next = begin..begin + 1 + self.random.below(self.longest) as usize;
    }

    /// Is this bar in a run? Asked for one bar after another.
    fn holds(&mut self, at: usize) -> bool {
        if at == self.next.end {
            self.draw(at + 1, STRIDE);
        }
        self.next.contains(&at)
    }
}
