//! Volatility indicators: true range, ATR, Bollinger width, historical, Parkinson, Garman-Klass, Yang-Zhang volatility.

use super::{Group, Indicator, Oracle, int, ma::ma, real};
use crate::graph::{Expr, Field, GraphBuilder, Seed};

const BASE: Indicator = Indicator { group: Group::Volatility, inputs: RANGE, ..Indicator::BASE };
const RANGE: &[Field] = &[Field::High, Field::Low, Field::Close];
const EXTREMES: &[Field] = &[Field::High, Field::Low];
const PRICES: &[Field] = &[Field::Open, Field::High, Field::Low, Field::Close];

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "trange",
        aliases: &["TRANGE", "true_range"],
        doc: "True range: max of high - low, |high - previous close| and |low - previous close|.",
        build: |a| vec![true_range(a.bars)],
        ..BASE
    },
    Indicator {
        name: "atr",
        aliases: &["ATR"],
        params: &[int("period", 14, 1, 100_000)],
        doc: "Average true range (ATR): Wilder's moving average of the true range, seeded with the mean of the \
              first `period`.",
        build: |a| vec![a.smooth(true_range(a.bars), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "natr",
        aliases: &["NATR"],
        params: &[int("period", 14, 1, 100_000)],
        doc: "Normalized average true range (NATR): ATR in percent of the close; 0 where the close is 0. With a \
              period of 1, the true range itself, as TA-Lib has it.",
        build: |a| {
            let atr = a.smooth(true_range(a.bars), a.n(0));
            vec![if a.n(0) <= 1 { atr } else { atr.div0(a.bars.close()) * 100.0 }]
        },
        ..BASE
    },
    Indicator {
        name: "adr",
        aliases: &["ADR"],
        params: &[int("period", 14, 1, 100_000)],
        inputs: EXTREMES,
        doc: "Average day range (ADR): SMA of high - low over the last `period` bars.",
        build: |a| vec![(a.bars.high() - a.bars.low()).sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "cvi",
        aliases: &["CVI"],
        params: &[int("period", 10, 2, 100_000), int("roc", 10, 1, 100_000)],
        inputs: EXTREMES,
        doc: "Chaikin volatility: rate of change in percent, over `roc` bars, of the EMA of high - low; 0 where \
              the earlier EMA is 0.",
        build: |a| {
            let mean = (a.bars.high() - a.bars.low()).ema(a.n(0));
            let before = mean.shift(a.n(1));
            vec![(mean - before).div0(before) * 100.0]
        },
        ..BASE
    },
    Indicator {
        name: "massi",
        aliases: &["MASSI", "mass"],
        params: &[int("fast", 9, 2, 100_000), int("slow", 25, 2, 100_000)],
        inputs: EXTREMES,
        doc: "Mass index: sum over `slow` bars of the ratio of the EMA of high - low to the EMA of that EMA; a \
              ratio whose divisor is 0 counts as 1.",
        build: |a| {
            let once = (a.bars.high() - a.bars.low()).ema(a.n(0));
            let twice = once.ema(a.n(0));
            vec![twice.ne(0.0).select(once / twice, 1.0).sum(a.n(1))]
        },
        ..BASE
    },
    Indicator {
        name: "rvi",
        aliases: &["RVI"],
        params: &[int("period", 14, 1, 100_000), int("deviation", 10, 2, 100_000)],
        inputs: &[Field::Close],
        doc: "Relative volatility index (RVI, Dorsey): Wilder's moving average of the standard deviation on rising \
              bars, in percent of that on rising and on falling bars; 50 where both are 0.",
        build: |a| vec![relative_volatility(a.source(), a.n(0), a.n(1))],
        ..BASE
    },
    Indicator {
        name: "rvir",
        aliases: &["RVIR"],
        params: &[int("period", 14, 1, 100_000), int("deviation", 10, 2, 100_000)],
        inputs: EXTREMES,
        doc: "Relative volatility index, refined (Dorsey, 1995): mean of the RVI of the highs and that of the lows.",
        build: |a| {
            let [highs, lows] = [a.bars.high(), a.bars.low()].map(|x| relative_volatility(x, a.n(0), a.n(1)));
            vec![(highs + lows) * 0.5]
        },
        ..BASE
    },
    Indicator {
        name: "bbw",
        aliases: &["BBW"],
        params: BOLLINGER,
        inputs: &[Field::Close],
        doc: "Bollinger Band width: upper minus lower band in percent of the middle band; 0 where that is 0.",
        build: |a| {
            let (middle, deviation) = (ma(a.source(), a.n(0), a.n(3)), a.deviation(a.source(), a.n(0)));
            let (upper, lower) = (middle + deviation * a.x(1), middle - deviation * a.x(2));
            vec![(upper - lower).div0(middle) * 100.0]
        },
        ..BASE
    },
    Indicator {
        name: "percentb",
        aliases: &["PERCENTB"],
        params: BOLLINGER,
        inputs: &[Field::Close],
        doc: "Bollinger %B: position of the value between the lower band (0) and the upper band (1); 0.5 where \
              they coincide.",
        build: |a| {
            let (middle, deviation) = (ma(a.source(), a.n(0), a.n(3)), a.deviation(a.source(), a.n(0)));
            let (upper, lower) = (middle + deviation * a.x(1), middle - deviation * a.x(2));
            let width = upper - lower;
            vec![width.ne(0.0).select((a.source() - lower) / width, 0.5)]
        },
        ..BASE
    },
    Indicator {
        name: "ui",
        aliases: &["ulcer_index"],
        params: &[int("period", 14, 1, 100_000)],
        inputs: &[Field::Close],
        oracle: Oracle::Reference,
        doc: "Ulcer index: root mean square, over `period` bars, of the percentage drawdown from the highest value \
              of the last `period`; 0 where that is 0.",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            let top = x.highest(n);
            let fall = (x - top).div0(top) * 100.0;
            vec![root(mean0(fall * fall, n))]
        },
        ..BASE
    },
    Indicator {
        name: "hvol",
        aliases: &["historical_volatility"],
        params: &[int("period", 20, 2, 100_000), real("annual", 252.0, 0.0, 1e9)],
        inputs: &[Field::Close],
        oracle: Oracle::Reference,
        doc: "Historical volatility: sample standard deviation of the last `period` log returns, times \
              sqrt(annual), in percent.",
        build: |a| {
            let returns = log_ratio(a.source(), a.source().shift(1));
            vec![sample_variance(returns, a.n(0)).sqrt() * (100.0 * a.x(1).sqrt())]
        },
        ..BASE
    },
    Indicator {
        name: "parkinson",
        params: &[int("period", 10, 1, 100_000), real("annual", 252.0, 0.0, 1e9)],
        inputs: EXTREMES,
        oracle: Oracle::Reference,
        doc: "Parkinson volatility (1980): root of the mean of ln(high/low)^2 / (4 ln 2) over `period` bars, times \
              sqrt(annual).",
        build: |a| {
            let range = log_ratio(a.bars.high(), a.bars.low());
            let variance = mean0(range * range / (4.0 * std::f64::consts::LN_2), a.n(0));
            vec![root(variance) * a.x(1).sqrt()]
        },
        ..BASE
    },
    Indicator {
        name: "garman_klass",
        params: &[int("period", 10, 1, 100_000), real("annual", 252.0, 0.0, 1e9)],
        inputs: PRICES,
        oracle: Oracle::Reference,
        doc: "Garman-Klass volatility (1980): root of the mean of ln(high/low)^2 / 2 - (2 ln 2 - 1) \
              ln(close/open)^2 over `period` bars, times sqrt(annual); 0 where the mean is negative.",
        build: |a| {
            let range = log_ratio(a.bars.high(), a.bars.low());
            let body = log_ratio(a.bars.close(), a.bars.open());
            let term = range * range * 0.5 - body * body * (2.0 * std::f64::consts::LN_2 - 1.0);
            vec![root(mean0(term, a.n(0))) * a.x(1).sqrt()]
        },
        ..BASE
    },
    Indicator {
        name: "rogers_satchell",
        aliases: &["ROGERSSATCHELL"],
        params: &[int("period", 10, 1, 100_000), real("annual", 252.0, 0.0, 1e9)],
        inputs: PRICES,
        doc: "Rogers-Satchell volatility (1991), drift-free: root of the mean of ln(H/C) ln(H/O) + ln(L/C) ln(L/O) \
              over `period` bars, times sqrt(annual); 0 where the mean is negative. A bar with a price of 0 or \
              less counts as 0.",
        build: |a| vec![root(mean0(rogers_satchell(a.bars), a.n(0))) * a.x(1).sqrt()],
        ..BASE
    },
    Indicator {
        name: "yang_zhang",
        params: &[int("period", 10, 2, 100_000), real("annual", 252.0, 0.0, 1e9)],
        inputs: PRICES,
        oracle: Oracle::Reference,
        doc: "Yang-Zhang volatility (2000): root of var(ln(open / previous close)) + k var(ln(close / open)) + (1 \
              - k) times the mean Rogers-Satchell term, with sample variances over `period` bars and k = 0.34 / \
              (1.34 + (n + 1) / (n - 1)), times sqrt(annual).",
        build: |a| {
            let n = a.n(0);
            let k = 0.34 / (1.34 + (a.x(0) + 1.0) / (a.x(0) - 1.0));
            let overnight = sample_variance(log_ratio(a.bars.open(), a.bars.close().shift(1)), n);
            let day = sample_variance(log_ratio(a.bars.close(), a.bars.open()), n);
            let inside = mean0(rogers_satchell(a.bars), n);
            vec![root(overnight + day * k + inside * (1.0 - k)) * a.x(1).sqrt()]
        },
        ..BASE
    },
    Indicator {
        name: "ewma_volatility",
        params: &[real("lambda", 0.94, 0.0, 1.0), real("annual", 252.0, 0.0, 1e9)],
        inputs: &[Field::Close],
        oracle: Oracle::Reference,
        doc: "EWMA volatility (RiskMetrics): root of the exponentially weighted moving average of squared log \
              returns, `lambda` times the last average plus 1 - `lambda` times the newest, seeded with the first, \
              times sqrt(annual).",
        build: |a| {
            let returns = log_ratio(a.source(), a.source().shift(1));
            vec![(returns * returns).ema_alpha(1.0 - a.x(0), Seed::First).sqrt() * a.x(1).sqrt()]
        },
        ..BASE
    },
    Indicator {
        name: "thermo",
        params: &[int("period", 20, 1, 100_000), real("long", 2.0, 0.0, 1e3), real("short", 0.5, 0.0, 1e3)],
        inputs: EXTREMES,
        outputs: &["thermo", "mean", "long", "short"],
        oracle: Oracle::Reference,
        doc: "Elder's market thermometer: max of |high - previous high| and |low - previous low|; its EMA; 1 where \
              it is below `long` times the EMA; 1 where it is above `short` times the EMA.",
        build: |a| {
            let [highs, lows] = [a.bars.high(), a.bars.low()].map(|x| (x - x.shift(1)).abs());
            let heat = highs.max(lows);
            let mean = heat.ema(a.n(0));
            vec![heat, mean, heat.lt(mean * a.x(1)), heat.gt(mean * a.x(2))]
        },
        ..BASE
    },
    Indicator {
        name: "pdist",
        inputs: PRICES,
        oracle: Oracle::Reference,
        doc: "Price distance: 2 (high - low) + |open - previous close| - |close - open|.",
        build: |a| {
            let (open, close) = (a.bars.open(), a.bars.close());
            let range = (a.bars.high() - a.bars.low()) * 2.0;
            vec![range + (open - close.shift(1)).abs() - (close - open).abs()]
        },
        ..BASE
    },
    Indicator {
        name: "donchian_width",
        params: &[int("period", 20, 1, 100_000)],
        inputs: EXTREMES,
        oracle: Oracle::Reference,
        doc: "Donchian channel width: highest high minus lowest low of the last `period` bars.",
        build: |a| vec![a.bars.high().highest(a.n(0)) - a.bars.low().lowest(a.n(0))],
        ..BASE
    },
];

const BOLLINGER: &[super::Param] = &[
    int("period", 20, 2, 100_000),
    real("up", 2.0, 0.0, 1e3),
    real("down", 2.0, 0.0, 1e3),
    super::ma::MA_TYPE,
];

/// True range: max of high - low, |high - previous close| and |low - previous close|.
pub(super) fn true_range(bars: GraphBuilder<'_>) -> Expr<'_> {
    let (high, low, before) = (bars.high(), bars.low(), bars.close().shift(1));
    (high - low).max((before - high).abs()).max((before - low).abs())
}

fn relative_volatility(x: Expr<'_>, n: usize, deviation: usize) -> Expr<'_> {
    let (spread, before) = (x.stddev(deviation), x.shift(1));
    let up = x.gt(before).select(spread, 0.0).wilder(n);
    let down = x.lt(before).select(spread, 0.0).wilder(n);
    let total = up + down;
    total.ne(0.0).select(up / total * 100.0, 50.0)
}

/// ln(a / b), 0 where either is 0 or less.
fn log_ratio<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    a.min(b).gt(0.0).select((a / b).ln(), 0.0)
}

fn rogers_satchell(bars: GraphBuilder<'_>) -> Expr<'_> {
    let (open, high, low, close) = (bars.open(), bars.high(), bars.low(), bars.close());
    let term = (high / close).ln() * (high / open).ln() + (low / close).ln() * (low / open).ln();
    open.min(high).min(low.min(close)).gt(0.0).select(term, 0.0)
}

/// 1 where the last `n` values are not all equal.
pub(super) fn varies(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.highest(n).ne(x.lowest(n))
}

/// Sample variance (n - 1).
pub(super) fn sample_variance(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.variance(n) * (n as f64 / (n as f64 - 1.0))
}

/// SMA that is exactly 0 where all values are 0: a square root would magnify the rounding residue of a rolling sum.
fn mean0(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.all_zero(n).select(0.0, x.sma(n))
}

/// Square root of a mean of squares, clamped at 0 against rounding.
fn root(x: Expr<'_>) -> Expr<'_> {
    x.max(0.0).sqrt()
}
