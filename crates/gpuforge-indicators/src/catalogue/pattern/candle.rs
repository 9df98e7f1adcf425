//! Candle predicates: body, shadow and gap tests against TA-Lib's candle settings (averages of earlier candles).
//!
//! A threshold is a factor times an average over the candles *before* the one it tests. TA-Lib keeps one rolling sum per
//! threshold and pattern, started at the pattern's first bar; prices in cents tie so often that the last bit of that sum
//! decides. Each rolling sum here starts where TA-Lib's does, and patterns with the same lookback share it.

use super::super::BuildArgs;
use crate::{
    graph::{Expr, GraphBuilder},
    kernel::state_machine::{StateMachine, StateMachineDef},
};

/// The range type that is averaged.
#[derive(Clone, Copy)]
enum Extent {
    Body,
    Range,
    Shadows,
}

/// A threshold: `factor` times the mean extent of `n` candles before; of the candle itself where `n` is 0.
#[derive(Clone, Copy)]
pub(super) struct Threshold {
    of: Extent,
    n: usize,
    factor: f64,
}

const fn threshold(of: Extent, n: usize, factor: f64) -> Threshold {
    Threshold { of, n, factor }
}

/// A body longer than this is long, one shorter is short.
const BODY: Threshold = threshold(Extent::Body, 10, 1.0);
/// A body up to this is a doji.
const DOJI: Threshold = threshold(Extent::Range, 10, 0.1);
/// A shadow longer than this is long.
const LONG_SHADOW: Threshold = threshold(Extent::Body, 0, 1.0);
/// A shadow longer than this is very long.
const VERY_LONG_SHADOW: Threshold = threshold(Extent::Body, 0, 2.0);
/// A shadow shorter than this is short: half the mean of both.
const SHORT_SHADOW: Threshold = threshold(Extent::Shadows, 10, 1.0);
/// A shadow shorter than this is negligible.
const NO_SHADOW: Threshold = threshold(Extent::Range, 10, 0.1);
/// Prices within this are near.
pub(super) const NEAR: Threshold = threshold(Extent::Range, 5, 0.2);
/// Beyond this, far.
pub(super) const FAR: Threshold = threshold(Extent::Range, 5, 0.6);
/// Within this, equal.
pub(super) const EQUAL: Threshold = threshold(Extent::Range, 5, 0.05);

/// The last candles, for a pattern with lookback `first`. Methods take how many bars ago.
#[derive(Clone, Copy)]
pub(super) struct Candles<'g> {
    bars: GraphBuilder<'g>,
    first: usize,
}

/// Conjunction of conditions.
pub(super) fn all<'g>(first: Expr<'g>, rest: &[Expr<'g>]) -> Expr<'g> {
    rest.iter().fold(first, |a, b| a.and(*b))
}

impl<'g> Candles<'g> {
    pub(super) fn new(a: &BuildArgs<'g, '_>, first: usize) -> Self {
        Candles { bars: a.bars, first }
    }

    /// Open.
    pub(super) fn o(self, k: usize) -> Expr<'g> {
        self.bars.open().shift(k)
    }
    /// High.
    pub(super) fn h(self, k: usize) -> Expr<'g> {
        self.bars.high().shift(k)
    }
    /// Low.
    pub(super) fn l(self, k: usize) -> Expr<'g> {
        self.bars.low().shift(k)
    }
    /// Close.
    pub(super) fn c(self, k: usize) -> Expr<'g> {
        self.bars.close().shift(k)
    }
    /// Upper end of the body. (Cheap expressions are recomputed per lag, except the body: that costs less than keeping a
    /// column with look-back.)
    pub(super) fn top(self, k: usize) -> Expr<'g> {
        self.o(k).max(self.c(k))
    }
    /// Lower end of the body.
    pub(super) fn bottom(self, k: usize) -> Expr<'g> {
        self.o(k).min(self.c(k))
    }
    /// Length of the body: a column that exists anyway, for its rolling sums.
    pub(super) fn body(self, k: usize) -> Expr<'g> {
        (self.bars.close() - self.bars.open()).abs().shift(k)
    }
    /// Length of the upper shadow.
    pub(super) fn upper(self, k: usize) -> Expr<'g> {
        self.h(k) - self.top(k)
    }
    /// Length of the lower shadow.
    pub(super) fn lower(self, k: usize) -> Expr<'g> {
        self.bottom(k) - self.l(k)
    }

    /// The threshold for a candle.
    pub(super) fn limit(self, t: Threshold, k: usize) -> Expr<'g> {
        let extent = |k: usize| match t.of {
            Extent::Body => self.body(k),
            Extent::Range => self.h(k) - self.l(k),
            Extent::Shadows => self.upper(k) + self.lower(k),
        };
        // The threshold is for one shadow, the extent is the sum of both.
        let factor = if matches!(t.of, Extent::Shadows) { t.factor / 2.0 } else { t.factor };
        if t.n == 0 {
            return extent(k) * factor;
        }
        let before = self.first.saturating_sub(k + 1);
        extent(0).sum_from(t.n, before).shift(k + 1) / t.n as f64 * factor
    }

    /// `a` within a threshold of `b` on both sides.
    pub(super) fn within(self, a: Expr<'g>, b: Expr<'g>, t: Threshold, k: usize) -> Expr<'g> {
        let limit = self.limit(t, k);
        a.le(b + limit).and(a.ge(b - limit))
    }

    /// Closes at or above its open.
    pub(super) fn white(self, k: usize) -> Expr<'g> {
        self.c(k).ge(self.o(k))
    }
    /// Closes below its open.
    pub(super) fn black(self, k: usize) -> Expr<'g> {
        self.c(k).lt(self.o(k))
    }
    /// 1 for white, -1 for black.
    pub(super) fn color(self, k: usize) -> Expr<'g> {
        self.white(k).select(1.0, -1.0)
    }
    /// Long body.
    pub(super) fn long(self, k: usize) -> Expr<'g> {
        self.body(k).gt(self.limit(BODY, k))
    }
    /// Short body.
    pub(super) fn short(self, k: usize) -> Expr<'g> {
        self.body(k).lt(self.limit(BODY, k))
    }
    /// Body of mean length at most. (Not short is the same as long: one threshold separates both.)
    pub(super) fn not_long(self, k: usize) -> Expr<'g> {
        self.body(k).le(self.limit(BODY, k))
    }
    /// A body up to this is a doji.
    pub(super) fn doji_limit(self, k: usize) -> Expr<'g> {
        self.limit(DOJI, k)
    }
    /// Doji: body within the doji threshold.
    pub(super) fn doji(self, k: usize) -> Expr<'g> {
        self.body(k).le(self.doji_limit(k))
    }
    /// Negligible upper shadow.
    pub(super) fn no_upper(self, k: usize) -> Expr<'g> {
        self.upper(k).lt(self.limit(NO_SHADOW, k))
    }
    /// Negligible lower shadow.
    pub(super) fn no_lower(self, k: usize) -> Expr<'g> {
        self.lower(k).lt(self.limit(NO_SHADOW, k))
    }
    /// Non-negligible upper shadow.
    pub(super) fn has_upper(self, k: usize) -> Expr<'g> {
        self.upper(k).gt(self.limit(NO_SHADOW, k))
    }
    /// Non-negligible lower shadow.
    pub(super) fn has_lower(self, k: usize) -> Expr<'g> {
        self.lower(k).gt(self.limit(NO_SHADOW, k))
    }
    /// Short upper shadow.
    pub(super) fn short_upper(self, k: usize) -> Expr<'g> {
        self.upper(k).lt(self.limit(SHORT_SHADOW, k))
    }
    /// Short lower shadow.
    pub(super) fn short_lower(self, k: usize) -> Expr<'g> {
        self.lower(k).lt(self.limit(SHORT_SHADOW, k))
    }
    /// Upper shadow that is not short.
    pub(super) fn upper_not_short(self, k: usize) -> Expr<'g> {
        self.upper(k).gt(self.limit(SHORT_SHADOW, k))
    }
    /// Upper shadow longer than the body.
    pub(super) fn long_upper(self, k: usize) -> Expr<'g> {
        self.upper(k).gt(self.limit(LONG_SHADOW, k))
    }
    /// Lower shadow longer than the body.
    pub(super) fn long_lower(self, k: usize) -> Expr<'g> {
        self.lower(k).gt(self.limit(LONG_SHADOW, k))
    }
    /// Upper shadow longer than two bodies.
    pub(super) fn very_long_upper(self, k: usize) -> Expr<'g> {
        self.upper(k).gt(self.limit(VERY_LONG_SHADOW, k))
    }
    /// Lower shadow longer than two bodies.
    pub(super) fn very_long_lower(self, k: usize) -> Expr<'g> {
        self.lower(k).gt(self.limit(VERY_LONG_SHADOW, k))
    }
    /// The body of `k` lies above that of `j`.
    pub(super) fn gap_up(self, k: usize, j: usize) -> Expr<'g> {
        self.bottom(k).gt(self.top(j))
    }
    /// The body of `k` lies below that of `j`.
    pub(super) fn gap_down(self, k: usize, j: usize) -> Expr<'g> {
        self.top(k).lt(self.bottom(j))
    }
    /// The body of `k` lies inside that of `j`, neither end touching.
    pub(super) fn inside(self, k: usize, j: usize) -> Expr<'g> {
        self.top(k).lt(self.top(j)).and(self.bottom(k).gt(self.bottom(j)))
    }
    /// The close of 0 lies more than `share` of the body above the close of `k`.
    pub(super) fn penetrates_up(self, k: usize, share: f64) -> Expr<'g> {
        let inputs = [self.c(0), self.body(k), self.c(k)];
        let above = self.bars.state_machine(&PENETRATES_UP, &[share], &inputs);
        above.first().copied().unwrap_or(self.c(0))
    }
    /// The close of 0 lies more than `share` of the body below the close of `k`.
    pub(super) fn penetrates_down(self, k: usize, share: f64) -> Expr<'g> {
        self.c(0).lt(self.c(k) - self.body(k) * share)
    }

    /// The pattern: `value` where all conditions hold, else 0.
    pub(super) fn when(self, value: f64, first: Expr<'g>, rest: &[Expr<'g>]) -> Vec<Expr<'g>> {
        vec![all(first, rest).select(value, 0.0).from_bar(self.first)]
    }
    /// A pattern that comes in the colour of candle `k`: ±100 where all conditions hold, else 0.
    pub(super) fn colored(self, k: usize, first: Expr<'g>, rest: &[Expr<'g>]) -> Vec<Expr<'g>> {
        vec![all(first, rest).select(self.color(k) * 100.0, 0.0).from_bar(self.first)]
    }
    /// A pattern of two kinds: 100 where it is bullish, -100 where bearish, else 0.
    pub(super) fn either(self, bull: Expr<'g>, bear: Expr<'g>) -> Vec<Expr<'g>> {
        vec![bull.select(100.0, bear.select(-100.0, 0.0)).from_bar(self.first)]
    }
}

/// Is the first input above `share` times the second plus the third? A fused multiply-add, as in TA-Lib: the only one in the
/// catalogue; `mul_add` gives the same bits on every machine.
#[derive(Clone)]
struct PenetratesUp {
    share: f64,
}

impl StateMachine<3, 1> for PenetratesUp {
    fn new(params: &[f64]) -> Self {
        PenetratesUp { share: params.first().copied().unwrap_or(0.0) }
    }

    #[inline(always)]
    fn step(&mut self, [close, body, base]: [f64; 3]) -> [f64; 1] {
        [if close > body.mul_add(self.share, base) { 1.0 } else { 0.0 }]
    }
}

static PENETRATES_UP: StateMachineDef =
    StateMachineDef::of::<PenetratesUp, 3, 1>("close above body fraction", |_| 0);
