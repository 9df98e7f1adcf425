//! Bands, channels, trailing stops and pivot levels: Bollinger Bands, Keltner, Donchian, SAR, SuperTrend, pivots.

use super::{
    BuildArgs, Group, Indicator, Oracle,
    filters::HOLT_WINTERS,
    int,
    ma::{MA_TYPE, ma},
    price, real,
    stops::{PARABOLIC, PROFIT_MAX, RATCHET, SESSION, ZIGZAG},
};
use crate::graph::{Expr, Field, GraphBuilder};

const HL: &[Field] = &[Field::High, Field::Low];
const HLC: &[Field] = &[Field::High, Field::Low, Field::Close];
const BANDS: &[&str] = &["upper", "middle", "lower"];
const BASE: Indicator = Indicator { group: Group::Bands, inputs: HLC, ..Indicator::BASE };
/// A row that TA-Lib does not have.
const NON_TALIB: Indicator = Indicator { oracle: Oracle::Reference, ..BASE };

/// True range: max of high - low and the distances from the previous close.
pub(super) fn true_range(bars: GraphBuilder<'_>) -> Expr<'_> {
    let (high, low, before) = (bars.high(), bars.low(), bars.close().shift(1));
    (high - low).max((before - high).abs()).max((before - low).abs())
}

/// Average true range (ATR).
pub(super) fn atr(bars: GraphBuilder<'_>, n: usize) -> Expr<'_> {
    true_range(bars).wilder(n)
}

/// Upper, middle and lower band, all valid from the same bar.
fn around<'g>(middle: Expr<'g>, above: Expr<'g>, below: Expr<'g>) -> Vec<Expr<'g>> {
    let start = middle.start().max(above.start());
    vec![middle + above, middle.from_bar(start), middle - below]
}

/// Midpoint of the highest high and the lowest low.
fn midprice(bars: GraphBuilder<'_>, n: usize) -> Expr<'_> {
    (bars.high().highest(n) + bars.low().lowest(n)) / 2.0
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "bbands",
        aliases: &["BBANDS"],
        params: &[
            int("period", 20, 2, 100_000),
            real("deviations_up", 2.0, -1000.0, 1000.0),
            real("deviations_down", 2.0, -1000.0, 1000.0),
            MA_TYPE,
        ],
        inputs: &[Field::Close],
        outputs: BANDS,
        doc: "Bollinger Bands: a moving average (`ma_type` as in TA-Lib, 0 is the SMA) plus and minus a number of \
              population standard deviations of the last `period` values.",
        build: |a| {
            let (x, n) = (a.source(), a.n(0));
            let deviation = a.deviation(x, n);
            around(ma(x, n, a.n(3)), deviation * a.x(1), deviation * a.x(2))
        },
        ..BASE
    },
    Indicator {
        name: "kc",
        aliases: &["KC", "keltner"],
        params: &[
            int("period", 20, 2, 100_000),
            int("atr_period", 10, 1, 100_000),
            real("deviations", 2.0, -1000.0, 1000.0),
        ],
        outputs: BANDS,
        doc: "Keltner channel: the EMA of the typical price plus and minus a multiple of the average true range \
              (ATR); both are delayed to have their first values at the same bar.",
        build: |a| {
            let (n, atr) = (a.n(0), a.n(1));
            // Both are delayed to have their first values at the same bar.
            let start = (n - 1).max(atr);
            let width = true_range(a.bars).from_bar(start + 1 - atr).wilder(atr) * a.x(2);
            around(price::typical(a.bars).from_bar(start + 1 - n).ema(n), width, width)
        },
        ..BASE
    },
    Indicator {
        name: "donchian",
        aliases: &["DONCHIAN"],
        params: &[int("period", 20, 2, 100_000)],
        inputs: HL,
        outputs: BANDS,
        doc: "Donchian channel: the highest high and the lowest low of the last `period` bars, the current one \
              included, and their midpoint.",
        build: |a| {
            let (upper, lower) = (a.bars.high().highest(a.n(0)), a.bars.low().lowest(a.n(0)));
            vec![upper, (upper + lower) / 2.0, lower]
        },
        ..BASE
    },
    Indicator {
        name: "accbands",
        aliases: &["ACCBANDS"],
        params: &[int("period", 20, 2, 100_000)],
        outputs: BANDS,
        doc: "Acceleration bands (Headley): SMAs of high (1 + w), of the close and of low (1 - w), w = 4 (high - \
              low) / (high + low), 0 where high + low is 0 up to rounding.",
        build: |a| {
            let (high, low, n) = (a.bars.high(), a.bars.low(), a.n(0));
            let sum = high + low;
            let cancels = sum.abs().le((high.abs() + low.abs()) * 1e-14);
            let width = cancels.select(0.0, 4.0 * (high - low) / sum);
            vec![(high * (1.0 + width)).sma(n), a.bars.close().sma(n), (low * (1.0 - width)).sma(n)]
        },
        ..BASE
    },
    Indicator {
        name: "midpoint",
        aliases: &["MIDPOINT"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: &[Field::Close],
        doc: "Midpoint of the highest and the lowest of the last `period` values.",
        build: |a| vec![(a.source().highest(a.n(0)) + a.source().lowest(a.n(0))) / 2.0],
        ..BASE
    },
    Indicator {
        name: "midprice",
        aliases: &["MIDPRICE"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: HL,
        doc: "Midpoint price: midpoint of the highest high and the lowest low of the last `period` bars.",
        build: |a| vec![midprice(a.bars, a.n(0))],
        ..BASE
    },
    Indicator {
        name: "ichimoku",
        aliases: &["ICHIMOKU"],
        params: &[
            int("tenkan", 9, 2, 100_000),
            int("kijun", 26, 2, 100_000),
            int("senkou_b", 52, 2, 100_000),
        ],
        inputs: HL,
        outputs: &["tenkan", "kijun", "senkou_a", "senkou_b"],
        doc: "Ichimoku cloud: midpoints of the price range over three windows; span A is the midpoint of the first \
              two. Every value is at the bar that computes it: charts draw the spans `kijun` bars later.",
        build: |a| {
            let [tenkan, kijun, span_b] = [0, 1, 2].map(|i| midprice(a.bars, a.n(i)));
            let start = tenkan.start().max(kijun.start()).max(span_b.start());
            [tenkan, kijun, (tenkan + kijun) / 2.0, span_b].map(|x| x.from_bar(start)).to_vec()
        },
        ..BASE
    },
    Indicator {
        name: "sar",
        aliases: &["SAR", "psar"],
        params: &[real("acceleration", 0.02, 0.0, 100.0), real("maximum", 0.2, 0.0, 100.0)],
        inputs: HL,
        doc: "Parabolic SAR (Wilder): moves towards the extreme point of the trend by an acceleration factor that \
              grows by `acceleration` with every new extreme up to `maximum`, never into the range of the last two \
              bars, and reverses when a bar reaches it. The second bar decides the first direction.",
        build: |a| {
            let one = [a.x(0), a.x(0), a.x(1)];
            parabolic(a, 0.0, 0.0, one, one).into_iter().take(1).collect()
        },
        ..BASE
    },
    Indicator {
        name: "sarext",
        aliases: &["SAREXT"],
        params: &[
            real("start", 0.0, -1e6, 1e6),
            real("offset_on_reverse", 0.0, 0.0, 100.0),
            real("init_long", 0.02, 0.0, 100.0),
            real("step_long", 0.02, 0.0, 100.0),
            real("max_long", 0.2, 0.0, 100.0),
            real("init_short", 0.02, 0.0, 100.0),
            real("step_short", 0.02, 0.0, 100.0),
            real("max_short", 0.2, 0.0, 100.0),
        ],
        inputs: HL,
        doc: "Parabolic SAR, extended: an initial stop (positive starts long, negative short, 0 as `sar`), an \
              offset after every reversal as a fraction of the price, and acceleration factors per direction. \
              Stops of a falling trend are negative.",
        build: |a| {
            let [long, short] = [2, 5].map(|i| [a.x(i), a.x(i + 1), a.x(i + 2)]);
            match parabolic(a, a.x(0), a.x(1), long, short).as_slice() {
                [stop, side] => vec![*stop * *side],
                other => other.to_vec(),
            }
        },
        ..BASE
    },
    Indicator {
        name: "supertrend",
        aliases: &["SUPERTREND"],
        params: &[int("period", 10, 2, 100_000), real("multiplier", 3.0, 0.0, 1000.0)],
        outputs: &["value", "trend"],
        doc: "SuperTrend: bands of a multiple of the average true range (ATR) around the median price that only \
              tighten while the price stays between them; the line is the lower band in an uptrend, the upper one \
              in a downtrend. Starts as an uptrend.",
        build: |a| {
            let (middle, width) = (price::median(a.bars), atr(a.bars, a.n(0)) * a.x(1));
            a.bars.state_machine(&RATCHET, &[], &[middle + width, middle - width, a.bars.close()])
        },
        ..BASE
    },
    Indicator {
        name: "cksp",
        aliases: &["CKSP"],
        params: &[
            int("period", 10, 2, 100_000),
            real("multiplier", 1.0, 0.0, 1000.0),
            int("stop_period", 9, 1, 100_000),
        ],
        outputs: &["high_stop", "low_stop"],
        doc: "Chande Kroll stop: the highest high minus a multiple of the ATR, and the highest of that over \
              `stop_period` bars; for the short side the lowest of the lowest low plus that multiple.",
        build: |a| {
            let (n, width) = (a.n(0), atr(a.bars, a.n(0)) * a.x(1));
            let high = (a.bars.high().highest(n) - width).highest(a.n(2));
            vec![high, (a.bars.low().lowest(n) + width).lowest(a.n(2))]
        },
        ..BASE
    },
    Indicator {
        name: "ce",
        aliases: &["chandelier_exit"],
        params: &[int("period", 22, 1, 100_000), real("multiplier", 3.0, 0.0, 1000.0)],
        outputs: &["long", "short"],
        doc: "Chandelier exit: the highest high of `period` bars minus a multiple of the average true range \
              (Wilder, SMA-seeded), and the lowest low plus it (pandas-ta-classic).",
        build: |a| {
            let (n, width) = (a.n(0), atr(a.bars, a.n(0)) * a.x(1));
            vec![a.bars.high().highest(n) - width, a.bars.low().lowest(n) + width]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "hilo",
        aliases: &["gann_hilo"],
        params: &[int("high_period", 13, 1, 100_000), int("low_period", 21, 1, 100_000), MA_TYPE],
        outputs: &["value", "trend"],
        doc: "Gann HiLo activator: after a close above the previous average of the highs it is the average of the \
              lows, after a close below the previous average of the lows it is the average of the highs; in \
              between it holds. Starts at the average of the highs, in a downtrend (pandas-ta-classic, which \
              leaves the bars before the first crossing empty).",
        build: |a| {
            let high = ma(a.bars.high(), a.n(0), a.n(2));
            let low = ma(a.bars.low(), a.n(1), a.n(2));
            let (above, below) = (a.bars.close().gt(high.shift(1)), a.bars.close().lt(low.shift(1)));
            let crossed = above.or(below);
            let side = above.select(1.0, -1.0).adaptive_ema(crossed, a.bars.constant(-1.0));
            vec![above.select(low, high).adaptive_ema(crossed, high), side]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "pmax",
        params: &[
            int("period", 10, 1, 100_000),
            real("multiplier", 3.0, 0.0, 1000.0),
            super::Param { default: 1.0, ..MA_TYPE },
        ],
        outputs: &["value", "trend"],
        doc: "Profit maximizer (PMax): bands of a multiple of the ATR around a moving average of the close (1 is \
              the EMA) that only tighten while the price stays inside; the line switches when the close leaves the \
              previous bands. Starts as an uptrend (pandas-ta-classic).",
        build: |a| {
            let middle = ma(a.bars.close(), a.n(0), a.n(2));
            let width = atr(a.bars, a.n(0)) * a.x(1);
            a.bars.state_machine(&PROFIT_MAX, &[], &[middle + width, middle - width, a.bars.close()])
        },
        ..NON_TALIB
    },
    Indicator {
        name: "aberration",
        params: &[int("period", 5, 1, 100_000), int("atr_period", 15, 1, 100_000)],
        outputs: &["middle", "upper", "lower", "atr"],
        doc: "Aberration: the SMA of the typical price and one average true range (Wilder, SMA-seeded) above and \
              below (pandas-ta-classic).",
        build: |a| {
            let (middle, width) = (price::typical(a.bars).sma(a.n(0)), atr(a.bars, a.n(1)));
            vec![middle, middle + width, middle - width, width]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "hwc",
        params: &[
            real("na", 0.2, 0.01, 0.99),
            real("nb", 0.1, 0.01, 0.99),
            real("nc", 0.1, 0.01, 0.99),
            real("nd", 0.1, 0.01, 0.99),
            real("multiplier", 1.0, 0.0, 1000.0),
        ],
        inputs: &[Field::Close],
        outputs: &["middle", "upper", "lower"],
        doc: "Holt-Winters channel: the forecast of `hwma` plus and minus a multiple of the standard deviation of \
              its errors, whose variance is an EMA with smoothing factor `nd` up to the bar before the last, \
              seeded with 0 (pandas-ta-classic).",
        build: |a| {
            let both = a.bars.state_machine(&HOLT_WINTERS, &[a.x(0), a.x(1), a.x(2), a.x(3)], &[a.source()]);
            match both.as_slice() {
                [middle, deviation] => {
                    let width = *deviation * a.x(4);
                    vec![*middle, *middle + width, *middle - width]
                }
                other => other.to_vec(),
            }
        },
        ..NON_TALIB
    },
    Indicator {
        name: "cpr",
        params: &[int("session", 86_400, 1, 31_536_000)],
        inputs: &[Field::High, Field::Low, Field::Close, Field::Time],
        outputs: &["pivot", "top", "bottom", "r1", "s1", "r2", "s2", "width"],
        doc: "Central pivot range of the previous session (of `session` seconds since the epoch: UTC days by \
              default, so that with daily bars it is the previous bar): pivot (h + l + c) / 3, bottom (h + l) / 2, \
              top 2 pivot - bottom, the levels of the classic pivot points, and |top - bottom| in percent of the \
              pivot, 0 where that is 0 (pandas-ta-classic). NaN during the first session.",
        build: |a| {
            let (high, low, close) = session(a, 0);
            let pivot = (high + low + close) / 3.0;
            let bottom = (high + low) / 2.0;
            let top = 2.0 * pivot - bottom;
            let width = ((top - bottom).abs() * 100.0).div0(pivot);
            let [r1, s1, r2, s2, ..] = classic(pivot, high, low);
            vec![pivot, top, bottom, r1, s1, r2, s2, width]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "pivot",
        aliases: &["pivot_points"],
        params: &[int("session", 86_400, 1, 31_536_000), int("method", 0, 0, 3)],
        inputs: &[Field::High, Field::Low, Field::Close, Field::Time],
        outputs: &["pivot", "r1", "s1", "r2", "s2", "r3", "s3"],
        doc: "Pivot points of the previous session (of `session` seconds since the epoch: UTC days by default). \
              Method 0 classic: p = (h + l + c) / 3, r1 = 2p - l, r2 = p + (h - l), r3 = h + 2 (p - l); 1 \
              Fibonacci: p and 0.382, 0.618, 1 of the range; 2 Camarilla: c and 1.1/12, 1.1/6, 1.1/4 of the range; \
              3 Woodie: as classic with p = (h + l + 2c) / 4. NaN during the first session.",
        build: |a| {
            let (high, low, close) = session(a, 0);
            let (third, range) = ((high + low + close) / 3.0, high - low);
            let woodie = (high + low + 2.0 * close) / 4.0;
            let (pivot, levels) = match a.n(1) {
                1 => (third, steps(third, range, [0.382, 0.618, 1.0])),
                2 => (third, steps(close, range, [1.1 / 12.0, 1.1 / 6.0, 1.1 / 4.0])),
                3 => (woodie, classic(woodie, high, low)),
                _ => (third, classic(third, high, low)),
            };
            std::iter::once(pivot).chain(levels).collect()
        },
        ..NON_TALIB
    },
    Indicator {
        name: "zigzag",
        aliases: &["ZIGZAG"],
        params: &[real("percent", 5.0, 0.0, 100.0), int("min_length", 1, 1, 100_000)],
        inputs: HL,
        outputs: &["value", "trend", "bar"],
        doc: "Zigzag without repainting: the extreme of the current swing, its direction, and the bar index of the \
              extreme, counted from 0. A swing reverses when the price retraces by `percent` of its extreme, at \
              least `min_length` bars after it. Starts as a downswing from the first low.",
        build: |a| a.bars.state_machine(&ZIGZAG, &[a.x(0), a.x(1)], &[a.bars.high(), a.bars.low()]),
        ..BASE
    },
];

/// Parabolic SAR and its side, 1 or -1.
fn parabolic<'g>(
    a: &BuildArgs<'g, '_>,
    start: f64,
    offset: f64,
    long: [f64; 3],
    short: [f64; 3],
) -> Vec<Expr<'g>> {
    let params: Vec<f64> = [start, offset].into_iter().chain(long).chain(short).collect();
    a.bars.state_machine(&PARABOLIC, &params, &[a.bars.high(), a.bars.low()])
}

/// High, low and close of the previous session.
fn session<'g>(a: &BuildArgs<'g, '_>, param: usize) -> (Expr<'g>, Expr<'g>, Expr<'g>) {
    let bars = a.bars;
    let inputs = [bars.high(), bars.low(), bars.close(), bars.time()];
    match bars.state_machine(&SESSION, &[a.x(param)], &inputs).as_slice() {
        [high, low, close] => (*high, *low, *close),
        _ => (bars.high(), bars.low(), bars.close()),
    }
}

/// Classic levels around a pivot: r1, s1, r2, s2, r3, s3.
fn classic<'g>(pivot: Expr<'g>, high: Expr<'g>, low: Expr<'g>) -> [Expr<'g>; 6] {
    let range = high - low;
    let (up, down) = (pivot - low, high - pivot);
    [2.0 * pivot - low, 2.0 * pivot - high, pivot + range, pivot - range, high + 2.0 * up, low - 2.0 * down]
}

/// Levels at fractions of a range above and below a price.
fn steps<'g>(from: Expr<'g>, range: Expr<'g>, shares: [f64; 3]) -> [Expr<'g>; 6] {
    let [one, two, three] = shares.map(|s| range * s);
    [from + one, from - one, from + two, from - two, from + three, from - three]
}
