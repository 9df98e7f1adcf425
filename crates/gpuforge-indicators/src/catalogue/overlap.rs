//! Moving averages and filters.

use super::{
    Group, Indicator, Oracle, Param, even_int,
    filters::{HOLT_WINTERS, JURIK, KALMAN, LAGUERRE, Linear, MCGINLEY},
    ma::{self, MA_TYPE, ma},
    price, real, int,
};
use crate::graph::{Expr, Field};

const BASE: Indicator = Indicator { group: Group::Overlap, ..Indicator::BASE };
/// A row that TA-Lib does not have.
const NON_TALIB: Indicator = Indicator { oracle: Oracle::Reference, ..BASE };

const fn period(default: u32, min: u32) -> Param {
    int("period", default, min, 100_000)
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "sma",
        aliases: &["SMA"],
        params: &[period(30, 1)],
        doc: "Mean of the last `period` values.",
        build: |a| vec![a.source().sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "ema",
        aliases: &["EMA"],
        params: &[period(30, 1)],
        doc: "Exponential mean: each value moves it by 2/(period+1) of the distance; it begins with the mean of the first `period` values.",
        build: |a| vec![a.ema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "wma",
        aliases: &["WMA"],
        params: &[period(30, 1)],
        doc: "Mean of the last `period` values with weights 1 to `period`, the newest the heaviest.",
        build: |a| vec![a.source().wma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "dema",
        aliases: &["DEMA"],
        params: &[period(30, 1)],
        doc: "Double exponential mean (Mulloy): 2 EMA(x) - EMA(EMA(x)), which takes back most of the lag.",
        build: |a| vec![ma::dema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "tema",
        aliases: &["TEMA"],
        params: &[period(30, 1)],
        doc: "Triple exponential mean (Mulloy): 3 e1 - 3 e2 + e3, each the EMA of the one before.",
        build: |a| vec![ma::tema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "trima",
        aliases: &["TRIMA"],
        params: &[period(30, 1)],
        doc: "Triangular mean: weights that rise to the middle of the window and fall again, as a mean of means.",
        build: |a| vec![ma::trima(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "t3",
        aliases: &["T3"],
        params: &[period(5, 1), real("volume_factor", 0.7, 0.0, 1.0)],
        doc: "Tilson's T3: six EMAs in a row; with v the volume factor (1+v)^3 e3 - 3v(1+v)^2 e4 + 3v^2(1+v) e5 - v^3 e6.",
        build: |a| vec![ma::t3(a.source(), a.n(0), a.x(1))],
        ..BASE
    },
    Indicator {
        name: "kama",
        aliases: &["KAMA"],
        params: &[period(30, 1)],
        doc: "Kaufman's adaptive mean: an exponential mean whose factor lies between those of 30 and 2 bars, squared, by the \
              efficiency |change over `period`| / sum of |changes| (1 where nothing changes). It comes from the value before its \
              first bar.",
        build: |a| vec![ma::kama(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "mama",
        aliases: &["MAMA"],
        params: &[real("fast_limit", 0.5, 0.01, 0.99), real("slow_limit", 0.05, 0.01, 0.99)],
        outputs: &["mama", "fama"],
        doc: "MESA adaptive mean (Ehlers): a Hilbert transform measures the phase; the factor is fast_limit / degrees the phase \
              turned, at least slow_limit. FAMA follows it with half the factor. Both come from 0 at bar 12; values from bar 32.",
        build: |a| ma::mama(a.source(), a.x(0), a.x(1)),
        ..BASE
    },
    Indicator {
        name: "hma",
        aliases: &["HMA"],
        params: &[period(20, 1)],
        doc: "Hull's mean: WMA over sqrt(period) of 2 WMA(period/2) - WMA(period); both roots cut to whole numbers.",
        build: |a| vec![ma::hma(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "rma",
        aliases: &["RMA", "smma", "wilders"],
        params: &[period(30, 1)],
        doc: "Wilder's mean: each value moves it by 1/period of the distance; it begins with the mean of the first `period` values.",
        build: |a| vec![a.source().wilder(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "zlema",
        aliases: &["ZLEMA", "zlma"],
        params: &[period(30, 1)],
        doc: "Zero-lag exponential mean: the EMA of 2 x - x of (period-1)/2 bars ago.",
        build: |a| vec![ma::zlema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "vwma",
        aliases: &["VWMA"],
        params: &[period(30, 1)],
        inputs: &[Field::Close, Field::Volume],
        doc: "Mean of the last `period` values weighted with their volumes; NaN where none of them was traded.",
        build: |a| {
            let (x, v, n) = (a.source(), a.bars.volume(), a.n(0));
            if n <= 1 {
                return vec![x];
            }
            // Counted, since the sum of volumes may keep a crumb of those that left.
            let traded = v.ne(0.0).sum(n);
            vec![traded.select((x * v).sum(n) / v.sum(n), f64::NAN)]
        },
        ..BASE
    },
    Indicator {
        name: "alma",
        aliases: &["ALMA"],
        params: &[period(9, 1), real("sigma", 6.0, 0.01, 1e6), real("offset", 0.85, 0.0, 1.0)],
        doc: "Legoux' mean: weights of a bell with width period/sigma whose peak lies at `offset` of the window (1 is the newest).",
        build: |a| vec![ma::alma(a.source(), a.n(0), a.x(1), a.x(2))],
        ..BASE
    },
    Indicator {
        name: "frama",
        aliases: &["FRAMA"],
        params: &[even_int("period", 16, 2, 100_000)],
        inputs: &[Field::High, Field::Low],
        doc: "Fractal adaptive mean (Ehlers) of the median price: the ranges r1, r2 of both halves of the window and r of the whole give \
              the fractal dimension 1 + log2((r1 + r2) / r); the factor is exp(-4.6 (dimension - 1)), and 1 where a range is 0 or \
              the halves do not exceed the whole. An odd period counts as the one below. It comes from the price \
              before its first bar.",
        build: |a| vec![frama(a.bars.high(), a.bars.low(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "vidya",
        aliases: &["VIDYA"],
        params: &[period(12, 1), int("cmo_period", 9, 2, 100_000)],
        doc: "Chande's variable mean: an exponential mean whose factor 2/(period+1) is scaled by |CMO| of the last `cmo_period` \
              changes (of those there are, at the beginning; 0 where nothing changes). It comes from the first value.",
        build: |a| vec![ma::vidya(a.source(), a.n(0), a.n(1))],
        ..BASE
    },
    Indicator {
        name: "mcgd",
        aliases: &["MCGD", "mcginley"],
        params: &[period(14, 2)],
        doc: "McGinley dynamic: y += (x - y) / (period (x/y)^4), beginning with the first value; a step that is not finite is left out.",
        build: |a| a.bars.state_machine(&MCGINLEY, &[a.x(0)], &[a.source()]),
        ..BASE
    },
    Indicator {
        name: "mavp",
        aliases: &["MAVP"],
        params: &[int("min_period", 2, 1, 1000), int("max_period", 30, 8, 1000), MA_TYPE],
        inputs: &[Field::Close, Field::High],
        doc: "Moving average with a period of its own at every bar: the second column read (the high), cut to a whole number between \
              `min_period` and `max_period` (the greater of both where they are the wrong way round). Every average begins so that \
              its first value is that of the longest.",
        build: |a| vec![mavp(a.source(), a.bars.high(), a.n(0), a.n(1), a.n(2))],
        ..BASE
    },
    Indicator {
        name: "swma",
        params: &[int("period", 10, 1, 10_000)],
        doc: "Symmetrically weighted mean: weights 1, 2, 3 up to the middle of the window and down again (pandas-ta-classic).",
        build: |a| {
            let n = a.n(0);
            vec![ma::normal(a.source(), (0..n).map(|i| (i + 1).min(n - i) as f64).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "sinwma",
        params: &[int("period", 14, 1, 10_000)],
        doc: "Sine weighted mean: weight i of n is sin(i pi / (n+1)) (pandas-ta-classic).",
        build: |a| {
            let n = a.n(0);
            let sine = |i: usize| ((i + 1) as f64 * std::f64::consts::PI / (n + 1) as f64).sin();
            vec![ma::normal(a.source(), (0..n).map(sine).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "pwma",
        params: &[int("period", 10, 1, 1000)],
        doc: "Pascal weighted mean: the weights are row period-1 of Pascal's triangle (pandas-ta-classic).",
        build: |a| {
            let n = a.n(0);
            let next = |w: &mut f64, i: usize| {
                let now = *w;
                *w = now * (n - 1 - i) as f64 / (i + 1) as f64;
                Some(now)
            };
            vec![ma::normal(a.source(), (0..n).scan(1.0, next).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "fwma",
        params: &[int("period", 10, 1, 1000)],
        doc: "Fibonacci weighted mean: weights 1, 1, 2, 3, 5 and so on, the newest the heaviest (pandas-ta-classic).",
        build: |a| {
            let next = |pair: &mut (f64, f64), _| {
                let now = pair.0;
                *pair = (pair.1, pair.0 + pair.1);
                Some(now)
            };
            vec![ma::normal(a.source(), (0..a.n(0)).scan((1.0, 1.0), next).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "hwma",
        params: &[real("na", 0.2, 0.01, 0.99), real("nb", 0.1, 0.01, 0.99), real("nc", 0.1, 0.01, 0.99)],
        doc: "Holt-Winters mean: level f = (1-na)(f' + v' + a'/2) + na x, trend v = (1-nb)(v' + a') + nb (f - f'), bend \
              a = (1-nc) a' + nc (v - v'); the value is f + v + a/2. It begins with the first value, no trend and no bend \
              (pandas-ta-classic).",
        build: |a| {
            let both = a.bars.state_machine(&HOLT_WINTERS, &[a.x(0), a.x(1), a.x(2), 0.0], &[a.source()]);
            both.into_iter().take(1).collect()
        },
        ..NON_TALIB
    },
    Indicator {
        name: "ssf",
        aliases: &["supersmoother"],
        params: &[int("period", 10, 2, 10_000), int("poles", 2, 2, 3)],
        doc: "Ehlers' super smoother with two or three poles. With two: e = exp(-sqrt(2) pi / period), y = b y' - e^2 y'' + \
              (1 - b + e^2) x, b = 2 e cos(sqrt(2) pi / period). The first `poles` bars are handed through (pandas-ta-classic).",
        build: |a| vec![Linear::super_smoother(a.n(0), a.n(1)).of(a.source())],
        ..NON_TALIB
    },
    Indicator {
        name: "jma",
        params: &[int("period", 7, 2, 10_000), real("phase", 0.0, -100.0, 100.0)],
        doc: "Jurik's mean, as reconstructed in pandas-ta-classic: an adaptive EMA by the relative volatility of the distance from \
              two bands, a correction of its error, and an adaptive filter over both. It begins with the first value; values from \
              bar `period` - 1.",
        build: |a| a.bars.state_machine(&JURIK, &[a.x(0), a.x(1)], &[a.source()]),
        ..NON_TALIB
    },
    Indicator {
        name: "butterworth",
        aliases: &["SWAK_BUTTER"],
        params: &[int("period", 20, 2, 10_000)],
        doc: "Ehlers' two-pole Butterworth filter of the Swiss army knife: y = 2(1-k) y' - (1-k)^2 y'' + k^2/4 (x + 2x' + x''), k from \
              the period. Everything before the first bar is the first value.",
        build: |a| {
            let (k, poles) = Linear::two_poles(a.n(0));
            let b = k * k / 4.0;
            vec![Linear { b: [b, 2.0 * b, b], a: poles, gain: 1.0, copied: 0 }.of(a.source())]
        },
        ..BASE
    },
    Indicator {
        name: "gaussian",
        aliases: &["SWAK_GAUSS"],
        params: &[int("period", 20, 2, 10_000)],
        doc: "Ehlers' two-pole Gaussian filter of the Swiss army knife: y = 2(1-k) y' - (1-k)^2 y'' + k^2 x, k from the period. \
              Everything before the first bar is the first value.",
        build: |a| {
            let (k, poles) = Linear::two_poles(a.n(0));
            vec![Linear { b: [k * k, 0.0, 0.0], a: poles, gain: 1.0, copied: 0 }.of(a.source())]
        },
        ..BASE
    },
    Indicator {
        name: "laguerre",
        params: &[real("gamma", 0.8, 0.0, 0.99)],
        doc: "Ehlers' Laguerre filter (Time warp, 2000): four stages l0 = (1-g) x + g l0', l1 = l0' + g (l1' - l0) and so on; the value \
              is (l0 + 2 l1 + 2 l2 + l3) / 6. All stages begin with the first value.",
        build: |a| a.bars.state_machine(&LAGUERRE, &[a.x(0)], &[a.source()]),
        ..NON_TALIB
    },
    Indicator {
        name: "decycler",
        params: &[int("period", 125, 3, 100_000)],
        doc: "Ehlers' decycler: the value less its two-pole high-pass, h = (1-k/2)^2 (x - 2x' + x'') + 2(1-k) h' - (1-k)^2 h'' with \
              k = (cos w + sin w - 1) / cos w, w = 0.707 * 2 pi / period. Before the first bar x is the first value and h is 0.",
        build: |a| vec![a.source() - Linear::high_pass(a.n(0)).of(a.source())],
        ..NON_TALIB
    },
    Indicator {
        name: "kalman",
        params: &[real("process", 0.01, 0.0, 1e6), real("measurement", 1.0, 0.01, 1e6)],
        doc: "Kalman filter of a level that wanders: the variance p' + process gives the gain p / (p + measurement). It begins with the \
              first value and the variance of a measurement (Durbin and Koopman, local level model).",
        build: |a| a.bars.state_machine(&KALMAN, &[a.x(0), a.x(1)], &[a.source()]),
        ..NON_TALIB
    },
    Indicator {
        name: "mmar",
        params: &[int("period", 10, 1, 10_000), int("step", 5, 1, 1000)],
        outputs: &["ema_1", "ema_2", "ema_3", "ema_4", "ema_5", "ema_6"],
        doc: "Madrid moving average ribbon: six EMAs with periods `period`, `period` + `step` and so on (pandas-ta-classic); each begins \
              with the mean of its first window.",
        build: |a| (0..6).map(|i| a.source().ema(a.n(0) + i * a.n(1))).collect(),
        ..NON_TALIB
    },
    Indicator {
        name: "rainbow",
        params: &[int("period", 2, 1, 10_000)],
        outputs: &["sma_1", "sma_2", "sma_3", "sma_4", "sma_5", "sma_6", "sma_7", "sma_8", "sma_9", "sma_10"],
        doc: "Rainbow: ten means in a row, each of the last `period` values of the one before (pandas-ta-classic).",
        build: |a| {
            let first = a.source().sma(a.n(0));
            std::iter::successors(Some(first), |x| Some(x.sma(a.n(0)))).take(10).collect()
        },
        ..NON_TALIB
    },
    Indicator {
        name: "gmma",
        outputs: &[
            "ema_3", "ema_5", "ema_8", "ema_10", "ema_12", "ema_15", "ema_30", "ema_35", "ema_40", "ema_45",
            "ema_50", "ema_60",
        ],
        doc: "Guppy's multiple means: EMAs of 3, 5, 8, 10, 12, 15 bars (traders) and of 30, 35, 40, 45, 50, 60 bars (investors); each \
              begins with the mean of its first window.",
        build: |a| [3, 5, 8, 10, 12, 15, 30, 35, 40, 45, 50, 60].map(|n| a.source().ema(n)).to_vec(),
        ..NON_TALIB
    },
    Indicator {
        name: "alligator",
        params: &[
            int("jaw", 13, 1, 10_000),
            int("jaw_shift", 8, 0, 10_000),
            int("teeth", 8, 1, 10_000),
            int("teeth_shift", 5, 0, 10_000),
            int("lips", 5, 1, 10_000),
            int("lips_shift", 3, 0, 10_000),
        ],
        inputs: &[Field::High, Field::Low],
        outputs: &["jaw", "teeth", "lips"],
        doc: "Williams' alligator: three Wilder means of the median price (each beginning with the mean of its first window), each drawn \
              some bars later, that is, its value of that many bars ago.",
        build: |a| {
            let x = price::median(a.bars);
            [0, 2, 4].map(|i| x.wilder(a.n(i)).shift(a.n(i + 1))).to_vec()
        },
        ..NON_TALIB
    },
    Indicator {
        name: "envelopes",
        aliases: &["mae"],
        params: &[int("period", 20, 1, 10_000), real("percent", 2.5, 0.0, 1000.0), MA_TYPE],
        outputs: &["upper", "middle", "lower"],
        doc: "Moving average envelopes: a moving average (of TA-Lib's kinds, 0 is the simple one) and lines `percent` above and below it.",
        build: |a| {
            let (middle, share) = (ma(a.source(), a.n(0), a.n(2)), a.x(1) / 100.0);
            vec![middle * (1.0 + share), middle, middle * (1.0 - share)]
        },
        ..NON_TALIB
    },
];

/// Ehlers' fractal adaptive mean of the middle of two values.
fn frama<'g>(high: Expr<'g>, low: Expr<'g>, n: usize) -> Expr<'g> {
    let half = (n / 2).max(1);
    let (high1, low1) = (high.highest(half), low.lowest(half));
    let (high2, low2) = (high1.shift(half), low1.shift(half));
    let (new, old, whole) = (high1 - low1, high2 - low2, high1.max(high2) - low1.min(low2));
    let both = new + old;
    let usable = new.gt(0.0).and(old.gt(0.0)).and(both.gt(whole));
    let k = usable.select(((both / whole).ln() * (-4.6 / std::f64::consts::LN_2)).exp(), 1.0);
    let price = (high + low) / 2.0;
    price.adaptive_ema(k.from_bar(2 * half), price.shift(1))
}

/// A moving average whose period is another value, cut to whole numbers between two bounds.
fn mavp<'g>(x: Expr<'g>, period: Expr<'g>, least: usize, most: usize, kind: usize) -> Expr<'g> {
    let most = most.max(least);
    let longest = ma(x, most, kind);
    let begin = |n: usize| longest.start() - ma(x, n, kind).start();
    // The longest first, so that the shortest is asked for first: a NaN is no period and gets the shortest.
    (least..most).rev().fold(longest, |longer, n| {
        let this = ma(x.from_bar(x.start() + begin(n)), n, kind);
        period.ge((n + 1) as f64).select(longer, this)
    })
}
