//! How much do prices move?

use super::{Group, Indicator, Oracle, ma::ma, real, int};
use crate::graph::{Expr, Field, GraphBuilder, Seed};

const BASE: Indicator = Indicator { group: Group::Volatility, inputs: RANGE, ..Indicator::BASE };
const RANGE: &[Field] = &[Field::High, Field::Low, Field::Close];
const EXTREMES: &[Field] = &[Field::High, Field::Low];
const PRICES: &[Field] = &[Field::Open, Field::High, Field::Low, Field::Close];

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "trange",
        aliases: &["TRANGE", "true_range"],
        doc: "True range: the greatest of high - low, |high - last close| and |low - last close|.",
        build: |a| vec![true_range(a.bars)],
        ..BASE
    },
    Indicator {
        name: "atr",
        aliases: &["ATR"],
        params: &[int("period", 14, 1, 100_000)],
        doc: "Average true range: Wilder's mean of the true range, beginning with the mean of the first `period`.",
        build: |a| vec![a.smooth(true_range(a.bars), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "natr",
        aliases: &["NATR"],
        params: &[int("period", 14, 1, 100_000)],
        doc: "Average true range in percent of the close; 0 where the close is 0. With a period of 1, the true range itself, as \
              TA-Lib has it.",
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
        doc: "Average day range: mean of high - low over the last `period` bars.",
        build: |a| vec![(a.bars.high() - a.bars.low()).sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "cvi",
        aliases: &["CVI"],
        params: &[int("period", 10, 2, 100_000), int("roc", 10, 1, 100_000)],
        inputs: EXTREMES,
        doc: "Chaikin volatility: change in percent, over `roc` bars, of the exponential mean of high - low; 0 where the earlier \
              mean is 0.",
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
        doc: "Mass index: sum over `slow` bars of the exponential mean of high - low over the exponential mean of that mean; a \
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
        doc: "Relative volatility index (Dorsey): Wilder's mean of the standard deviation on rising bars, in percent of that on \
              rising and on falling bars; 50 where both are 0.",
        build: |a| vec![relative_volatility(a.source(), a.n(0), a.n(1))],
        ..BASE
    },
    Indicator {
        name: "rvir",
        aliases: &["RVIR"],
        params: &[int("period", 14, 1, 100_000), int("deviation", 10, 2, 100_000)],
        inputs: EXTREMES,
        doc: "Relative volatility index, refined (Dorsey, 1995): mean of those of the highs and of the lows.",
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
        doc: "Bollinger width: distance of the bands in percent of the middle one; 0 where that is 0.",
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
        doc: "Bollinger %B: where the value lies between the lower band (0) and the upper one (1); 0.5 where they are one.",
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
        doc: "Ulcer index: root of the mean, over `period` bars, of the squared fall in percent from the highest value of the \
              last `period`; 0 where that is 0.",
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
        doc: "Historical volatility: sample standard deviation of the last `period` logarithmic returns, times the root of \
              `annual`, in percent.",
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
        doc: "Parkinson's volatility (1980): root of the mean of ln(high/low)^2 / (4 ln 2) over `period` bars, times the root \
              of `annual`.",
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
        doc: "Garman and Klass's volatility (1980): root of the mean of ln(high/low)^2 / 2 - (2 ln 2 - 1) ln(close/open)^2 over \
              `period` bars, times the root of `annual`; 0 where the mean is below 0.",
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
        doc: "Rogers and Satchell's volatility (1991), free of drift: root of the mean of ln(H/C) ln(H/O) + ln(L/C) ln(L/O) over \
              `period` bars, times the root of `annual`; 0 where the mean is below 0. A bar with a price of 0 or less counts \
              as 0.",
        build: |a| vec![root(mean0(rogers_satchell(a.bars), a.n(0))) * a.x(1).sqrt()],
        ..BASE
    },
    Indicator {
        name: "yang_zhang",
        params: &[int("period", 10, 2, 100_000), real("annual", 252.0, 0.0, 1e9)],
        inputs: PRICES,
        oracle: Oracle::Reference,
        doc: "Yang and Zhang's volatility (2000): root of var(ln(open / last close)) + k var(ln(close / open)) + (1 - k) times \
              the mean of Rogers and Satchell's term, with sample variances over `period` bars and \
              k = 0.34 / (1.34 + (n + 1) / (n - 1)), times the root of `annual`.",
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
        doc: "Root of the exponential mean of the squared logarithmic returns, `lambda` of the last mean and 1 - `lambda` of the \
              newest, beginning with the first (RiskMetrics), times the root of `annual`.",
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
        doc: "Elder's thermometer: the greater of |high - last high| and |low - last low|; its exponential mean; 1 where it is \
              below `long` times the mean; 1 where it is above `short` times the mean.",
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
        doc: "Price distance: 2 (high - low) + |open - last close| - |close - open|.",
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
        doc: "Highest high less lowest low of the last `period` bars.",
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

/// The greatest of high - low, |high - last close| and |low - last close|.
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

/// Does any of the last `n` values differ from another?
pub(super) fn varies(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.highest(n).ne(x.lowest(n))
}

/// Variance with n - 1.
pub(super) fn sample_variance(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.variance(n) * (n as f64 / (n as f64 - 1.0))
}

/// Mean of the last `n`; exactly 0 where all of them are, whatever a running sum has kept: a root would make it large.
fn mean0(x: Expr<'_>, n: usize) -> Expr<'_> {
    x.all_zero(n).select(0.0, x.sma(n))
}

/// Root of what is a mean of squares up to rounding.
fn root(x: Expr<'_>) -> Expr<'_> {
    x.max(0.0).sqrt()
}
