//! Synthetic market data: OHLCV bars of a factor model with GARCH(1,1) volatility, bit-identical for a seed on every platform.
//!
//! A symbol's return is a weighted sum of a market, a sector and an idiosyncratic factor. Each has GARCH(1,1) variance, so
//! that volatility clusters. Within a session volatility and volume follow a U-shape; volume also follows the absolute
//! return; prices gap overnight and revert slowly to their first price, so that they stay plausible over centuries.
//!
//! Bit-identical: random numbers are ChaCha8 streams, normal deviates are made by counting bits, and all arithmetic is
//! `+ - × ÷ √`, which IEEE 754 rounds exactly. No libm function is called, because those differ between platforms; this is
//! why `rand_distr` is not used. Prices are whole cents divided by 100.
//!
//! A symbol has a random stream of its own, independent of the number of symbols. Splits, gaps and zero-volume bars have
//! further ones, so that requesting them changes only the bars concerned (and what follows a split).

use arrow::datatypes::{DataType, TimeUnit};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

use crate::bars::{Bars, KeyColumn, KeySchema, SymbolKey};

/// Minute bars per session: 09:30 to 16:00 in New York.
pub const SESSION: usize = 390;
/// Session open, in minutes of a UTC day; New York winter time all year round.
const OPENING: i64 = 14 * 60 + 30;
/// The first session: Tuesday, 2 January 2024, in days since 1970.
const FIRST_DAY: i64 = 19_724;
const MICROSECONDS_PER_MINUTE: i64 = 60_000_000;
/// Number of sectors.
const SECTORS: usize = 6;
/// Maximum distance between zero-volume bars and between gaps.
const STRIDE: u64 = 400;
/// Maximum length of a gap in bars.
const MAX_GAP: u64 = 15;
/// Mean reversion to the first price, per day.
const REVERSION: f64 = 5e-4;

/// Bar interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interval {
    /// One minute.
    Minute,
    /// One session.
    Day,
}

impl Interval {
    /// Bars per session.
    pub const fn per_day(self) -> usize {
        match self {
            Interval::Minute => SESSION,
            Interval::Day => 1,
        }
    }
}

/// Parameters of a synthetic data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Number of symbols.
    pub symbols: usize,
    /// Bar interval.
    pub interval: Interval,
    /// Bars per symbol, before gaps.
    pub bars: usize,
    /// Random seed.
    pub seed: u64,
    /// One 2:1 or 3:1 split per symbol, between two sessions where there are several.
    pub splits: bool,
    /// Gaps: missing bars.
    pub gaps: bool,
    /// Some zero-volume bars: all prices are the last close.
    pub zero_volume: bool,
}

impl Sample {
    /// Without splits, gaps and zero-volume bars.
    pub fn new(symbols: usize, interval: Interval, bars: usize, seed: u64) -> Self {
        Sample { symbols, interval, bars, seed, splits: false, gaps: false, zero_volume: false }
    }

    /// Key columns: `symbol`, and `time` in microseconds UTC, or a date for daily bars.
    pub fn layout(&self) -> KeySchema {
        let time = match self.interval {
            Interval::Minute => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Interval::Day => DataType::Date32,
        };
        let column = |name: &str, kind| Some(KeyColumn { name: name.to_owned(), data_type: kind });
        KeySchema { symbol: column("symbol", DataType::Utf8), time: column("time", time), time_first: false }
    }

    /// Bars symbol by symbol, generated lazily.
    pub fn series(&self) -> impl Iterator<Item = Bars> {
        let market = Factor::new(self, stream::MARKET);
        let sectors: Vec<Factor> =
            (0..SECTORS.min(self.symbols)).map(|s| Factor::new(self, stream::SECTOR + s as u64)).collect();
        (0..self.symbols).filter_map(move |i| Some(self.bars_of(i, &market, sectors.get(i % SECTORS)?)))
    }

    /// The bars of one symbol.
    fn bars_of(&self, index: usize, market: &Factor, sector: &Factor) -> Bars {
        let mut symbol = SymbolState::new(index, self);
        let mut anomalies = Anomalies::new(index, self);
        let mut bars = Bars { symbol: Some(SymbolKey::Text(ticker(index))), ..Bars::default() };
        for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume] {
            column.reserve_exact(self.bars);
        }
        bars.time.reserve_exact(self.bars);
        for (at, (market, sector)) in market.returns.iter().zip(&sector.returns).enumerate() {
            symbol.split(anomalies.split(at));
            let (last, mut bar) = (symbol.last, symbol.bar(at, market, sector));
            if anomalies.idle(at) {
                // The move shows in the next bar.
                bar = Bar { open: last, high: last, low: last, close: last, volume: 0 };
                symbol.last = last;
            }
            if !anomalies.missing(at) {
                push(&mut bars, self.time(at), bar);
            }
        }
        bars
    }

    /// Start time of bar `at`.
    fn time(&self, at: usize) -> i64 {
        let (session, minute) = (at / self.interval.per_day(), at % self.interval.per_day());
        let day = FIRST_DAY + weekdays(session as i64);
        match self.interval {
            Interval::Day => day,
            Interval::Minute => (day * 1440 + OPENING + minute as i64) * MICROSECONDS_PER_MINUTE,
        }
    }
}

/// Calendar days from a Tuesday to `sessions` weekdays later.
fn weekdays(sessions: i64) -> i64 {
    // From the Monday before, five sessions are a week.
    (sessions + 1) / 5 * 7 + (sessions + 1) % 5 - 1
}

/// `ZAAA`, `ZAAB`…: alphabetical up to 17 576 symbols; fictitious.
fn ticker(index: usize) -> String {
    let (mut letters, mut rest) = (Vec::new(), index);
    while letters.len() < 3 || rest > 0 {
        letters.push(char::from(b'A' + (rest % 26) as u8));
        rest /= 26;
    }
    letters.push('Z');
    letters.iter().rev().collect()
}

/// Random stream ids; each symbol has four.
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

/// Random number generator of one stream.
struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        // Not `seed_from_u64`: its expansion may change between versions.
        let mut key = [0; 32];
        key.iter_mut().zip(seed.to_le_bytes()).for_each(|(to, from)| *to = from);
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(stream);
        Random(random)
    }

    /// Uniform integer in `0..n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal deviate: the sum of 48 fair coins plus a uniform that fills the gaps. Kurtosis 2.96, bounded by 7.
    fn normal(&mut self) -> f64 {
        const VARIANCE: f64 = 48.0 / 4.0 + 1.0 / 12.0;
        let bits = self.0.next_u64();
        let coins = f64::from((bits >> 16).count_ones()) - 24.0;
        let between = (bits & 0xffff) as f64 / 65_536.0 + 0.5 / 65_536.0 - 0.5;
        (coins + between) / VARIANCE.sqrt()
    }
}

/// GARCH(1,1) variance with mean 1.
struct Garch(f64);

impl Garch {
    /// Next return; unit variance on average.
    fn next(&mut self, deviate: f64) -> f64 {
        let value = self.0.sqrt() * deviate;
        self.0 = 0.02 + 0.08 * value * value + 0.90 * self.0;
        value
    }
}

/// Common factor: per bar a return and an overnight return (0 within a session).
struct Factor {
    returns: Vec<(f64, f64)>,
}

impl Factor {
    fn new(sample: &Sample, stream: u64) -> Self {
        let mut random = Random::new(sample.seed, stream);
        let mut garch = Garch(1.0);
        let per_day = sample.interval.per_day();
        let mut step = |at: usize| {
            let overnight = if at.is_multiple_of(per_day) { random.normal() } else { 0.0 };
            (garch.next(random.normal()), overnight)
        };
        Factor { returns: (0..sample.bars).map(&mut step).collect() }
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

/// Intraday U-shape of volatility and volume; mean 1, highest at both ends.
fn u_shape(at: usize, per_day: usize) -> f64 {
    if per_day == 1 {
        return 1.0;
    }
    let x = (2 * at + 1) as f64 / per_day as f64 - 1.0;
    let square = x * x;
    0.7 + 0.3 * square + square * square
}

/// Generator state of a symbol.
struct SymbolState {
    random: Random,
    garch: Garch,
    /// Loadings on market, sector and idiosyncratic factor; their squares sum to 1.
    loadings: [f64; 3],
    /// Volatility per bar and overnight.
    bar_volatility: f64,
    overnight_volatility: f64,
    reversion: f64,
    per_day: usize,
    /// Current price and the level it reverts to, in cents.
    price: f64,
    anchor: f64,
    /// Last close.
    last: i64,
    /// Mean volume per bar.
    volume: f64,
}

impl SymbolState {
    fn new(index: usize, sample: &Sample) -> Self {
        let mut random = Random::new(sample.seed, stream::of(index, stream::PRICES));
        let per_day = sample.interval.per_day();
        let uniform = random.unit();
        // From 5 to 500 dollars, skewed to low prices.
        let price = (500.0 + 49_500.0 * uniform * uniform * uniform).round();
        let (market, sector) = (0.35 + 0.4 * random.unit(), 0.3 + 0.2 * random.unit());
        // Daily volatility of 1 to 3 %; a fifth of the variance is overnight.
        let day = 0.01 + 0.02 * random.unit();
        let traded = random.unit();
        let dollars = 5e6 + 5e8 * traded * traded * traded;
        SymbolState {
            garch: Garch(1.0),
            loadings: [market, sector, (1.0 - market * market - sector * sector).sqrt()],
            bar_volatility: day * (0.8 / per_day as f64).sqrt(),
            overnight_volatility: day * 0.2f64.sqrt(),
            reversion: REVERSION / per_day as f64,
            per_day,
            price,
            anchor: price,
            last: price as i64,
            volume: dollars * 100.0 / price / per_day as f64,
            random,
        }
    }

    /// Applies a split.
    fn split(&mut self, ratio: Option<u8>) {
        if let Some(ratio) = ratio.map(f64::from) {
            self.price = (self.price / ratio).max(1.0);
            self.anchor /= ratio;
            self.last = cents(self.price);
            self.volume *= ratio;
        }
    }

    /// Next bar, number `at`.
    fn bar(&mut self, at: usize, market: &(f64, f64), sector: &(f64, f64)) -> Bar {
        let [of_market, of_sector, own] = self.loadings;
        let [opening, inside, above, below, trading] = [(); 5].map(|()| self.random.normal());
        let joint =
            |market: f64, sector: f64, mine: f64| of_market * market + of_sector * sector + own * mine;
        let minute = at % self.per_day;
        self.price *= match minute == 0 && at > 0 {
            true => 1.0 + (self.overnight_volatility * joint(market.1, sector.1, opening)).clamp(-0.2, 0.2),
            // Between two bars of a session the price moves little.
            false => 1.0 + 0.1 * self.bar_volatility * opening,
        };
        let open = cents(self.price);
        let u_shape = u_shape(minute, self.per_day);
        let unit = joint(market.0, sector.0, self.garch.next(inside));
        let reversion = self.reversion * (1.0 - self.price / self.anchor).max(-1.0);
        let range = self.bar_volatility * u_shape;
        self.price = (self.price * (1.0 + (range * unit + reversion).clamp(-0.2, 0.2))).max(1.0);
        let close = cents(self.price);
        self.last = close;
        let reach = |deviate: f64| (0.5 * range * self.price * deviate.abs()).round() as i64;
        let noise = 1.0 + 0.35 * trading;
        let shares = self.volume * u_shape * (0.4 + 0.75 * unit.abs()) * noise * noise;
        Bar {
            open,
            high: open.max(close) + reach(above),
            low: (open.min(close) - reach(below)).max(1),
            close,
            volume: (shares as i64).max(1),
        }
    }
}

/// Price rounded to cents, at least one.
fn cents(price: f64) -> i64 {
    (price.round() as i64).max(1)
}

/// Splits, zero-volume bars and gaps of a symbol, queried in bar order.
struct Anomalies {
    split: Option<(usize, u8)>,
    idle: Option<Runs>,
    gaps: Option<Runs>,
}

impl Anomalies {
    fn new(index: usize, sample: &Sample) -> Self {
        let random = |kind| Random::new(sample.seed, stream::of(index, kind));
        let runs =
            |wanted: bool, kind, longest| wanted.then(|| Runs::new(random(kind), sample.bars, longest));
        Anomalies {
            split: sample.splits.then(|| split(random(stream::SPLIT), sample)),
            idle: runs(sample.zero_volume, stream::IDLE, 1),
            gaps: runs(sample.gaps, stream::GAPS, MAX_GAP),
        }
    }

    fn split(&self, at: usize) -> Option<u8> {
        self.split.and_then(|(when, ratio)| (when == at).then_some(ratio))
    }

    fn idle(&mut self, at: usize) -> bool {
        self.idle.as_mut().is_some_and(|runs| runs.contains(at))
    }

    fn missing(&mut self, at: usize) -> bool {
        self.gaps.as_mut().is_some_and(|runs| runs.contains(at))
    }
}

/// Bar and ratio of the split; never at the first bar.
fn split(mut random: Random, sample: &Sample) -> (usize, u8) {
    let (bars, per_day) = (sample.bars as u64, sample.interval.per_day() as u64);
    let when = match bars.div_ceil(per_day) {
        0 | 1 => 1 + random.below(bars.saturating_sub(1)),
        sessions => per_day * (1 + random.below(sessions - 1)),
    };
    (when as usize, 2 + random.below(2) as u8)
}

/// Random runs of bars.
struct Runs {
    random: Random,
    next: std::ops::Range<usize>,
    longest: u64,
}

impl Runs {
    /// The first run starts within `bars`, but not at the first.
    fn new(random: Random, bars: usize, longest: u64) -> Self {
        let mut runs = Runs { random, next: 0..0, longest };
        runs.draw(1, STRIDE.min(bars.saturating_sub(1) as u64));
        runs
    }

    fn draw(&mut self, from: usize, within: u64) {
        let begin = from + self.random.below(within) as usize;
        self.next = begin..begin + 1 + self.random.below(self.longest) as usize;
    }

    /// Is this bar in a run? Queried in bar order.
    fn contains(&mut self, at: usize) -> bool {
        if at == self.next.end {
            self.draw(at + 1, STRIDE);
        }
        self.next.contains(&at)
    }
}
