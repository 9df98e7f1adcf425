//! Overlap studies: moving averages (SMA, EMA, WMA, KAMA, HMA, ...) and smoothing filters.

use super::{
    Group, Indicator, Oracle, Param, even_int,
    filters::{HOLT_WINTERS, JURIK, KALMAN, LAGUERRE, Linear, MCGINLEY},
    int,
    ma::{self, MA_TYPE, ma},
    price, real,
};
use crate::graph::{Expr, Field};

const BASE: Indicator = Indicator { group: Group::Overlap, ..Indicator::BASE };
/// A row that TA-Lib does not have.
const NON_TALIB: Indicator = Indicator { oracle: Oracle::Reference, ..BASE };
/// Inputs of `mavp`. Bars have no column of periods, which is what TA-Lib reads by default.
const MAVP_INPUTS: [Field; 2] = [Field::Close, Field::High];

const fn period(default: u32, min: u32) -> Param {
    int("period", default, min, 100_000)
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "sma",
        aliases: &["SMA"],
        params: &[period(30, 1)],
        doc: "Simple moving average (SMA): mean of the last `period` values.",
        build: |a| vec![a.source().sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "ema",
        aliases: &["EMA"],
        params: &[period(30, 1)],
        doc: "Exponential moving average (EMA): y += 2/(period+1) (x - y), seeded with the SMA of the first \
              `period` values.",
        build: |a| vec![a.ema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "wma",
        aliases: &["WMA"],
        params: &[period(30, 1)],
        doc: "Weighted moving average (WMA): linear weights 1 to `period`, the newest value weighted most.",
        build: |a| vec![a.source().wma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "dema",
        aliases: &["DEMA"],
        params: &[period(30, 1)],
        doc: "Double exponential moving average (DEMA, Mulloy): 2 EMA(x) - EMA(EMA(x)), which removes most of the \
              lag.",
        build: |a| vec![ma::dema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "tema",
        aliases: &["TEMA"],
        params: &[period(30, 1)],
        doc: "Triple exponential moving average (TEMA, Mulloy): 3 e1 - 3 e2 + e3, each the EMA of the one before.",
        build: |a| vec![ma::tema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "trima",
        aliases: &["TRIMA"],
        params: &[period(30, 1)],
        doc: "Triangular moving average (TRIMA): weights that rise to the middle of the window and fall again; an \
              SMA of an SMA.",
        build: |a| vec![ma::trima(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "t3",
        aliases: &["T3"],
        params: &[period(5, 1), real("volume_factor", 0.7, 0.0, 1.0)],
        doc: "T3 moving average (Tilson): six nested EMAs; with v the volume factor (1+v)^3 e3 - 3v(1+v)^2 e4 + \
              3v^2(1+v) e5 - v^3 e6.",
        build: |a| vec![ma::t3(a.source(), a.n(0), a.x(1))],
        ..BASE
    },
    Indicator {
        name: "kama",
        aliases: &["KAMA"],
        params: &[period(30, 1)],
        doc: "Kaufman's adaptive moving average (KAMA): an EMA whose smoothing factor is interpolated between \
              those of 30 and 2 bars and squared, by the efficiency ratio |change over `period`| / sum of \
              |changes| (1 where nothing changes). Seeded with the value before its first bar.",
        build: |a| vec![ma::kama(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "mama",
        aliases: &["MAMA"],
        params: &[real("fast_limit", 0.5, 0.01, 0.99), real("slow_limit", 0.05, 0.01, 0.99)],
        outputs: &["mama", "fama"],
        doc: "MESA adaptive moving average (MAMA, Ehlers): a Hilbert transform measures the phase; the smoothing \
              factor is fast_limit / (phase change in degrees), at least slow_limit. FAMA follows it with half the \
              factor. Both start from 0 at bar 12; values from bar 32.",
        build: |a| ma::mama(a.source(), a.x(0), a.x(1)),
        ..BASE
    },
    Indicator {
        name: "hma",
        aliases: &["HMA"],
        params: &[period(20, 1)],
        doc: "Hull moving average (HMA): WMA over sqrt(period) of 2 WMA(period/2) - WMA(period); both lengths \
              truncated to integers.",
        build: |a| vec![ma::hma(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "rma",
        aliases: &["RMA", "smma", "wilders"],
        params: &[period(30, 1)],
        doc: "Wilder's moving average (RMA, SMMA): y += (x - y) / period, seeded with the SMA of the first \
              `period` values.",
        build: |a| vec![a.source().wilder(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "zlema",
        aliases: &["ZLEMA", "zlma"],
        params: &[period(30, 1)],
        doc: "Zero-lag exponential moving average (ZLEMA): the EMA of 2 x - x[(period-1)/2 bars ago].",
        build: |a| vec![ma::zlema(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "vwma",
        aliases: &["VWMA"],
        params: &[period(30, 1)],
        inputs: &[Field::Close, Field::Volume],
        doc: "Volume-weighted moving average (VWMA) of the last `period` values; NaN where all their volumes are 0.",
        build: |a| {
            let (x, v, n) = (a.source(), a.bars.volume(), a.n(0));
            if n <= 1 {
                return vec![x];
            }
            // Counted: a rolling sum of volumes may keep a rounding residue of those that left the window.
            let traded = v.ne(0.0).sum(n);
            vec![traded.select((x * v).sum(n) / v.sum(n), f64::NAN)]
        },
        ..BASE
    },
    Indicator {
        name: "alma",
        aliases: &["ALMA"],
        params: &[period(9, 1), real("sigma", 6.0, 0.01, 1e6), real("offset", 0.85, 0.0, 1.0)],
        doc: "Arnaud Legoux moving average (ALMA): Gaussian weights of width period/sigma whose peak lies at \
              `offset` of the window (1 is the newest bar).",
        build: |a| vec![ma::alma(a.source(), a.n(0), a.x(1), a.x(2))],
        ..BASE
    },
    Indicator {
        name: "frama",
        aliases: &["FRAMA"],
        params: &[even_int("period", 16, 2, 100_000)],
        inputs: &[Field::High, Field::Low],
        doc: "Fractal adaptive moving average (FRAMA, Ehlers) of the median price: the ranges r1, r2 of both \
              halves of the window and r of the whole give the fractal dimension 1 + log2((r1 + r2) / r); the \
              smoothing factor is exp(-4.6 (dimension - 1)), and 1 where a range is 0 or the halves do not exceed \
              the whole. An odd period counts as the one below. Seeded with the price before its first bar.",
        build: |a| vec![frama(a.bars.high(), a.bars.low(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "vidya",
        aliases: &["VIDYA"],
        params: &[period(12, 1), int("cmo_period", 9, 2, 100_000)],
        doc: "Variable index dynamic average (VIDYA, Chande): an EMA whose smoothing factor 2/(period+1) is scaled \
              by |CMO| of the last `cmo_period` changes (of those available, during the warm-up; 0 where nothing \
              changes). Seeded with the first value.",
        build: |a| vec![ma::vidya(a.source(), a.n(0), a.n(1))],
        ..BASE
    },
    Indicator {
        name: "mcgd",
        aliases: &["MCGD", "mcginley"],
        params: &[period(14, 2)],
        doc: "McGinley dynamic: y += (x - y) / (period (x/y)^4), seeded with the first value; a step that is not \
              finite is skipped.",
        build: |a| a.bars.state_machine(&MCGINLEY, &[a.x(0)], &[a.source()]),
        ..BASE
    },
    Indicator {
        name: "mavp",
        aliases: &["MAVP"],
        params: &[int("min_period", 2, 1, 1000), int("max_period", 30, 8, 1000), MA_TYPE],
        inputs: &MAVP_INPUTS,
        free_pair: true,
        doc: "Moving average with variable period: the period of each bar is the second source (by default the high), \
              truncated to an integer and clamped to `min_period`..`max_period` (if min exceeds max, both are the \
              larger). Every average starts so that its first value is at the bar of the longest one's.",
        build: |a| {
            let [x, periods] = a.sources_or(MAVP_INPUTS);
            vec![mavp(x, periods, a.n(0), a.n(1), a.n(2))]
        },
        ..BASE
    },
    Indicator {
        name: "swma",
        params: &[int("period", 10, 1, 10_000)],
        doc: "Symmetrically weighted moving average: weights 1, 2, 3 up to the middle of the window and down again \
              (pandas-ta-classic).",
        build: |a| {
            let n = a.n(0);
            vec![ma::weighted_average(a.source(), (0..n).map(|i| (i + 1).min(n - i) as f64).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "sinwma",
        params: &[int("period", 14, 1, 10_000)],
        doc: "Sine weighted moving average: weight i of n is sin(i pi / (n+1)) (pandas-ta-classic).",
        build: |a| {
            let n = a.n(0);
            let sine = |i: usize| ((i + 1) as f64 * std::f64::consts::PI / (n + 1) as f64).sin();
            vec![ma::weighted_average(a.source(), (0..n).map(sine).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "pwma",
        params: &[int("period", 10, 1, 1000)],
        doc: "Pascal weighted moving average: the weights are row period-1 of Pascal's triangle (pandas-ta-classic).",
        build: |a| {
            let n = a.n(0);
            let next = |w: &mut f64, i: usize| {
                let now = *w;
                *w = now * (n - 1 - i) as f64 / (i + 1) as f64;
                Some(now)
            };
            vec![ma::weighted_average(a.source(), (0..n).scan(1.0, next).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "fwma",
        params: &[int("period", 10, 1, 1000)],
        doc: "Fibonacci weighted moving average: weights 1, 1, 2, 3, 5 and so on, the newest value weighted most \
              (pandas-ta-classic).",
        build: |a| {
            let next = |pair: &mut (f64, f64), _| {
                let now = pair.0;
                *pair = (pair.1, pair.0 + pair.1);
                Some(now)
            };
            vec![ma::weighted_average(a.source(), (0..a.n(0)).scan((1.0, 1.0), next).collect())]
        },
        ..NON_TALIB
    },
    Indicator {
        name: "hwma",
        params: &[real("na", 0.2, 0.01, 0.99), real("nb", 0.1, 0.01, 0.99), real("nc", 0.1, 0.01, 0.99)],
        doc: "Holt-Winters moving average: level f = (1-na)(f' + v' + a'/2) + na x, trend v = (1-nb)(v' + a') + nb \
              (f - f'), acceleration a = (1-nc) a' + nc (v - v'); the value is f + v + a/2. Seeded with the first \
              value, trend 0 and acceleration 0 (pandas-ta-classic).",
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
        doc: "Super smoother filter (Ehlers) with two or three poles. With two: e = exp(-sqrt(2) pi / period), y = \
              b y' - e^2 y'' + (1 - b + e^2) x, b = 2 e cos(sqrt(2) pi / period). The first `poles` bars are \
              passed through (pandas-ta-classic).",
        build: |a| vec![Linear::super_smoother(a.n(0), a.n(1)).of(a.source())],
        ..NON_TALIB
    },
    Indicator {
        name: "jma",
        params: &[int("period", 7, 2, 10_000), real("phase", 0.0, -100.0, 100.0)],
        doc: "Jurik moving average (JMA), as reconstructed in pandas-ta-classic: an EMA that adapts to the \
              relative volatility of the distance from two bands, an error correction, and an adaptive filter over \
              both. Seeded with the first value; values from bar `period` - 1.",
        build: |a| a.bars.state_machine(&JURIK, &[a.x(0), a.x(1)], &[a.source()]),
        ..NON_TALIB
    },
    Indicator {
        name: "butterworth",
        aliases: &["SWAK_BUTTER"],
        params: &[int("period", 20, 2, 10_000)],
        doc: "Two-pole Butterworth filter (Ehlers, Swiss Army Knife): y = 2(1-k) y' - (1-k)^2 y'' + k^2/4 (x + 2x' \
              + x''), k from the period. Values before the first bar are taken to be the first value.",
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
        doc: "Two-pole Gaussian filter (Ehlers, Swiss Army Knife): y = 2(1-k) y' - (1-k)^2 y'' + k^2 x, k from the \
              period. Values before the first bar are taken to be the first value.",
        build: |a| {
            let (k, poles) = Linear::two_poles(a.n(0));
            vec![Linear { b: [k * k, 0.0, 0.0], a: poles, gain: 1.0, copied: 0 }.of(a.source())]
        },
        ..BASE
    },
    Indicator {
        name: "laguerre",
        params: &[real("gamma", 0.8, 0.0, 0.99)],
        doc: "Laguerre filter (Ehlers, Time Warp, 2000): four stages l0 = (1-g) x + g l0', l1 = l0' + g (l1' - l0) \
              and so on; the value is (l0 + 2 l1 + 2 l2 + l3) / 6. All stages are seeded with the first value.",
        build: |a| a.bars.state_machine(&LAGUERRE, &[a.x(0)], &[a.source()]),
        ..NON_TALIB
    },
    Indicator {
        name: "decycler",
        params: &[int("period", 125, 3, 100_000)],
        doc: "Decycler (Ehlers): the value minus its two-pole high-pass filter h = (1-k/2)^2 (x - 2x' + x'') + \
              2(1-k) h' - (1-k)^2 h'' with k = (cos w + sin w - 1) / cos w, w = 0.707 * 2 pi / period. Before the \
              first bar x is the first value and h is 0.",
        build: |a| vec![a.source() - Linear::high_pass(a.n(0)).of(a.source())],
        ..NON_TALIB
    },
    Indicator {
        name: "kalman",
        params: &[real("process", 0.01, 0.0, 1e6), real("measurement", 1.0, 0.01, 1e6)],
        doc: "Kalman filter of a local level model (Durbin and Koopman): the predicted variance p' + process gives \
              the gain p / (p + measurement). Seeded with the first value and the measurement variance.",
        build: |a| a.bars.state_machine(&KALMAN, &[a.x(0), a.x(1)], &[a.source()]),
        ..NON_TALIB
    },
    Indicator {
        name: "mmar",
        params: &[int("period", 10, 1, 10_000), int("step", 5, 1, 1000)],
        outputs: &["ema_1", "ema_2", "ema_3", "ema_4", "ema_5", "ema_6"],
        doc: "Madrid moving average ribbon: six EMAs with periods `period`, `period` + `step` and so on, each \
              seeded with the SMA of its first window (pandas-ta-classic).",
        build: |a| (0..6).map(|i| a.source().ema(a.n(0) + i * a.n(1))).collect(),
        ..NON_TALIB
    },
    Indicator {
        name: "rainbow",
        params: &[int("period", 2, 1, 10_000)],
        outputs: &["sma_1", "sma_2", "sma_3", "sma_4", "sma_5", "sma_6", "sma_7", "sma_8", "sma_9", "sma_10"],
        doc: "Rainbow: ten nested SMAs, each over the last `period` values of the one before (pandas-ta-classic).",
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
        doc: "Guppy multiple moving average (GMMA): EMAs of 3, 5, 8, 10, 12, 15 bars (traders) and of 30, 35, 40, \
              45, 50, 60 bars (investors), each seeded with the SMA of its first window.",
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
        doc: "Alligator (Williams): three Wilder moving averages of the median price, each seeded with the SMA of \
              its first window and shifted forward, so that a bar shows the value of that many bars ago.",
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
        doc: "Moving average envelopes: a moving average (`ma_type` as in TA-Lib, 0 is the SMA) and lines \
              `percent` above and below it.",
        build: |a| {
            let (middle, share) = (ma(a.source(), a.n(0), a.n(2)), a.x(1) / 100.0);
            vec![middle * (1.0 + share), middle, middle * (1.0 - share)]
        },
        ..NON_TALIB
    },
];

/// Fractal adaptive moving average (Ehlers) of the midpoint of two values.
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

/// Moving average whose period is another value, truncated to integers and clamped.
fn mavp<'g>(x: Expr<'g>, period: Expr<'g>, min_period: usize, max_period: usize, kind: usize) -> Expr<'g> {
    let max_period = max_period.max(min_period);
    let longest = ma(x, max_period, kind);
    let begin = |n: usize| longest.start() - ma(x, n, kind).start();
    // Fold from the longest, so that the shortest is compared last: a NaN period selects the shortest.
    (min_period..max_period).rev().fold(longest, |longer, n| {
        let this = ma(x.from_bar(x.start() + begin(n)), n, kind);
        period.ge((n + 1) as f64).select(longer, this)
    })
}
