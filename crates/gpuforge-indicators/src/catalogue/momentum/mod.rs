//! Momentum indicators: shared building blocks (RSI, ROC, %K, regression line, MACD line) of the tables below.
//!
//! | file | rows |
//! |---|---|
//! | `classic.rs` | RSI, stochastics, MACD family, rate of change |
//! | `oscillators.rs` | the other oscillators of TA-Lib |
//! | `extended.rs` | oscillators of TA-Lib's Rust crate |
//! | `community.rs` | oscillators that TA-Lib does not have |
//! | `state_machines.rs` | recurrences that clamp, count, switch or hold |
//!
//! Where a divisor can be 0, the row says what it gives instead. That all values of a window are exactly 0 is found by counting
//! zeros, not from a rolling sum, which may keep a rounding residue of values that have left the window.

use super::{BuildArgs, Field, Group, Indicator, Oracle, Param, int, ma::ma};
use crate::graph::{Expr, GraphBuilder};

mod classic;
mod community;
mod extended;
mod oscillators;
mod state_machines;

pub(super) use self::{classic::CLASSIC, community::COMMUNITY, extended::EXTENDED, oscillators::OSCILLATORS};

const BASE: Indicator = Indicator { group: Group::Momentum, ..Indicator::BASE };
/// A row that TA-Lib does not have.
const NON_TALIB: Indicator = Indicator { oracle: Oracle::Reference, ..BASE };
const HL: &[Field] = &[Field::High, Field::Low];
const HLC: &[Field] = &[Field::High, Field::Low, Field::Close];
const OHLC: &[Field] = &[Field::Open, Field::High, Field::Low, Field::Close];

/// One-bar change.
fn change(x: Expr<'_>) -> Expr<'_> {
    x - x.shift(1)
}

/// Gains and losses per bar, both >= 0.
fn gains_losses(x: Expr<'_>) -> (Expr<'_>, Expr<'_>) {
    let change = change(x);
    let gain = change.max(0.0);
    (gain, gain - change)
}

/// RSI (Wilder); 50 where nothing ever moved.
fn rsi(x: Expr<'_>, n: usize) -> Expr<'_> {
    rsi_of(x, |x| x.wilder(n))
}

/// RSI with this smoothing.
fn rsi_of<'g>(x: Expr<'g>, smooth: impl Fn(Expr<'g>) -> Expr<'g>) -> Expr<'g> {
    let (gain, loss) = gains_losses(x);
    let (gain, loss) = (smooth(gain), smooth(loss));
    let total = gain + loss;
    total.le(0.0).select(50.0, 100.0 * (gain / total))
}

/// Rate of change in percent; 0 where the earlier value is 0.
fn roc(x: Expr<'_>, n: usize) -> Expr<'_> {
    let before = x.shift(n);
    before.eq(0.0).select(0.0, (x / before - 1.0) * 100.0)
}

/// Rolling sum of non-negative values; exactly 0 where all of them are.
fn sum0(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.all_zero(n).select(0.0, x.sum(n))
}

/// Median price (HL2).
fn hl2(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low()) / 2.0
}

/// Typical price (HLC3).
fn hlc3(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low() + bars.close()) / 3.0
}

/// True range.
fn true_range(bars: GraphBuilder<'_>) -> Expr<'_> {
    let before = bars.close().shift(1);
    (bars.high() - bars.low()).max((before - bars.high()).abs()).max((before - bars.low()).abs())
}

/// 1 where a range is 0 up to rounding.
fn flat<'g>(high: Expr<'g>, low: Expr<'g>) -> Expr<'g> {
    (high - low).le((high.abs() + low.abs()) * 1e-14)
}

/// Stochastic %K: position of `x` between the lowest low and the highest high of `n` bars; `idle` where there is no range.
fn percent_k<'g>(high: Expr<'g>, low: Expr<'g>, x: Expr<'g>, n: usize, idle: f64) -> Expr<'g> {
    let (high, low) = (high.highest(n), low.lowest(n));
    flat(high, low).select(idle, (x - low) / (high - low) * 100.0)
}

/// Linear regression slope of the last `n` values, per bar.
fn slope(x: Expr<'_>, n: usize) -> Expr<'_> {
    let n = n.max(2);
    x.time_moment(n) / ((n * (n * n - 1)) as f64 / 12.0)
}

/// Linear regression line through the last `n` values, extrapolated `ahead` bars.
fn line(x: Expr<'_>, n: usize, ahead: f64) -> Expr<'_> {
    x.sma(n) + slope(x, n) * ((n as f64 - 1.0) / 2.0 + ahead)
}

/// Aligns the outputs: all valid from the latest start.
fn align_starts<const N: usize>(outputs: [Expr<'_>; N]) -> Vec<Expr<'_>> {
    let start = outputs.iter().map(|x| x.start()).max().unwrap_or(0);
    outputs.into_iter().map(|x| x.from_bar(start)).collect()
}

/// Both periods in ascending order.
fn ordered(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// MACD line: fast EMA minus slow EMA, both first valid at the same bar, each SMA-seeded over its own period before it.
fn macd_line(x: Expr<'_>, fast: usize, slow: usize) -> Expr<'_> {
    let (fast, slow) = ordered(fast, slow);
    x.from_bar(x.start() + slow - fast).ema(fast) - x.ema(slow)
}

/// Line, signal line and histogram.
fn with_signal<'g>(line: Expr<'g>, signal: Expr<'g>) -> Vec<Expr<'g>> {
    align_starts([line, signal, line - signal])
}

/// Parameter for the moving average type, by TA-Lib's `MAType` number.
const fn ma_type(name: &'static str, default: u32) -> Param {
    int(name, default, 0, 15)
}

/// The moving average type of a parameter; 11 is the row's default.
fn ma_type_of(a: &BuildArgs<'_, '_>, at: usize, default: usize) -> usize {
    if a.n(at) == 11 { default } else { a.n(at) }
}

/// Moving average whose first value is at bar `first`: earlier bars than that window do not contribute.
fn ma_from(x: Expr<'_>, n: usize, kind: usize, first: usize) -> Expr<'_> {
    let needs = ma(x, n, kind).start() - x.start();
    ma(x.from_bar(first.saturating_sub(needs)), n, kind)
}

/// TRIX: one-bar rate of change of a triple EMA.
fn trix(x: Expr<'_>, n: usize) -> Expr<'_> {
    roc(x.ema(n).ema(n).ema(n), 1)
}

/// Bollinger Bands and Keltner channels around SMAs, for squeeze detection.
#[derive(Clone, Copy)]
struct Squeeze<'g> {
    low: Expr<'g>,
    high: Expr<'g>,
    centre: Expr<'g>,
    band: Expr<'g>,
}

impl<'g> Squeeze<'g> {
    fn new(a: &BuildArgs<'g, '_>, bollinger: usize, deviations: f64, keltner: usize) -> Self {
        let close = a.bars.close();
        let (middle, width) = (close.sma(bollinger), close.stddev(bollinger) * deviations);
        let (centre, band) = (close.sma(keltner), true_range(a.bars).sma(keltner));
        Squeeze { low: middle - width, high: middle + width, centre, band }
    }

    /// Are the bands inside a channel of this width?
    fn inside(self, factor: f64) -> Expr<'g> {
        self.low.gt(self.centre - factor * self.band).and(self.high.lt(self.centre + factor * self.band))
    }

    /// Are they outside it on both sides?
    fn outside(self, factor: f64) -> Expr<'g> {
        self.low.lt(self.centre - factor * self.band).and(self.high.gt(self.centre + factor * self.band))
    }
}
