//! Oscillators of TA-Lib: CCI, CMO, Williams %R, ultimate oscillator, TRIX, TSI, awesome oscillator and others.

use super::{
    super::{BuildArgs, Field, Indicator, int},
    BASE, HL, HLC, align_starts, change, flat, gains_losses, hl2, hlc3, line, roc, sum0, trix, true_range,
};
use crate::graph::Expr;

fn cci<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (hlc3(a.bars), a.n(0));
    let mean = x.sma(n);
    let (distance, deviation) = (x - mean, x.mean_deviation(n));
    let epsilon = mean.abs() * 1e-14;
    let still = distance.abs().le(epsilon).or(deviation.le(epsilon));
    vec![still.select(0.0, distance / (0.015 * deviation))]
}

fn cmo<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (gain, loss) = gains_losses(a.source());
    let (gain, loss) = (gain.wilder(a.n(0)), loss.wilder(a.n(0)));
    vec![100.0 * (gain - loss).div0(gain + loss)]
}

fn cmou<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (gain, loss) = gains_losses(a.source());
    let (gain, loss) = (sum0(gain, a.n(0)), sum0(loss, a.n(0)));
    vec![(100.0 * (gain - loss)).div0(gain + loss)]
}

fn willr<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (high, low) = (a.bars.high().highest(a.n(0)), a.bars.low().lowest(a.n(0)));
    let r = (high - a.bars.close()) / (high - low) * -100.0;
    vec![flat(high, low).select(0.0, r.min(0.0).max(-100.0))]
}

fn ultosc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let mut periods = [a.n(0), a.n(1), a.n(2)];
    periods.sort_unstable();
    let [short, middle, long] = periods;
    let pressure = a.bars.close() - a.bars.low().min(a.bars.close().shift(1));
    let range = true_range(a.bars);
    let share = |n: usize| pressure.sum(n).div0(sum0(range, n));
    vec![100.0 * ((4.0 * share(short) + 2.0 * share(middle) + share(long)) / 7.0)]
}

fn tsi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let change = change(a.source());
    let smooth = |x: Expr<'g>| x.ema(a.n(0)).ema(a.n(1));
    vec![(100.0 * smooth(change)).div0(smooth(change.abs()))]
}

fn smi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (high, low) = (a.bars.high().highest(a.n(0)), a.bars.low().lowest(a.n(0)));
    let smooth = |x: Expr<'g>| x.ema(a.n(2)).ema(a.n(1));
    let distance = smooth(a.bars.close() - (high + low) * 0.5);
    let smi = (100.0 * distance).div0(0.5 * smooth(high - low));
    align_starts([smi, smi.ema(a.n(3))])
}

fn ao<'g>(a: &BuildArgs<'g, '_>) -> Expr<'g> {
    let middle = hl2(a.bars);
    middle.sma(a.n(0)) - middle.sma(a.n(1))
}

fn bop<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let range = a.bars.high() - a.bars.low();
    vec![range.le(0.0).select(0.0, (a.bars.close() - a.bars.open()) / range)]
}

fn imi<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let body = a.bars.close() - a.bars.open();
    let gain = body.max(0.0);
    let (up, down) = (sum0(gain, a.n(0)), sum0(gain - body, a.n(0)));
    let total = up + down;
    vec![total.eq(0.0).select(50.0, 100.0 * (up / total))]
}

fn er<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (x, n) = (a.source(), a.n(0));
    let (way, path) = (x - x.shift(n), sum0(change(x).abs(), n));
    let straight = path.le(0.0).or(path.le(way));
    vec![straight.select(1.0, (way / path).abs().min(1.0))]
}

fn eri<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let mean = a.bars.close().ema(a.n(0));
    vec![a.bars.high() - mean, a.bars.low() - mean]
}

fn fosc<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let x = a.source();
    let forecast = line(x.shift(1), a.n(0), 1.0);
    vec![(100.0 * (x - forecast)).div0(x)]
}

fn fractal<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (left, right) = (a.n(0), a.n(1));
    let (high, low) = (a.bars.high(), a.bars.low());
    let above = high.shift(right).gt(high.highest(right).max(high.shift(right + 1).highest(left)));
    let below = low.shift(right).lt(low.lowest(right).min(low.shift(right + 1).lowest(left)));
    vec![above * 100.0, below * 100.0]
}

pub(in crate::catalogue) const OSCILLATORS: &[Indicator] = &[
    Indicator {
        name: "cci",
        aliases: &["CCI"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: HLC,
        doc: "Commodity channel index (CCI): distance of the typical price (h+l+c)/3 from its SMA of `period`, in \
              units of 0.015 mean deviations. 0 where there is no deviation.",
        build: cci,
        ..BASE
    },
    Indicator {
        name: "cmo",
        aliases: &["CMO"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Chande momentum oscillator (CMO) with Wilder's smoothing: 100 * (gains - losses) / (gains + losses), \
              seeded like the RSI. 0 where nothing has moved.",
        build: cmo,
        ..BASE
    },
    Indicator {
        name: "cmou",
        aliases: &["CMOU"],
        params: &[int("period", 14, 2, 100_000)],
        doc: "Chande momentum oscillator, unsmoothed as published: rolling sums of the last `period` changes, 100 \
              * (gains - losses) / (gains + losses). 0 where nothing moved.",
        build: cmou,
        ..BASE
    },
    Indicator {
        name: "willr",
        aliases: &["WILLR"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: HLC,
        doc: "Williams %R: distance of the close below the highest high of `period` bars, in percent of their \
              range, from 0 to -100. 0 where there is no range.",
        build: willr,
        ..BASE
    },
    Indicator {
        name: "ultosc",
        aliases: &["ULTOSC", "uo"],
        params: &[int("short", 7, 1, 100_000), int("middle", 14, 1, 100_000), int("long", 28, 1, 100_000)],
        inputs: HLC,
        doc: "Ultimate oscillator: buying pressure (close - true low) over the true range, over three periods, \
              weighted 4, 2 and 1 from the shortest on, in percent. A period without any range counts as 0.",
        build: ultosc,
        ..BASE
    },
    Indicator {
        name: "trix",
        aliases: &["TRIX"],
        params: &[int("period", 30, 1, 100_000)],
        doc: "TRIX: one-bar rate of change of a triple EMA of `period`, in percent; 0 where the earlier value is 0.",
        build: |a| vec![trix(a.source(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "tsi",
        aliases: &["TSI"],
        params: &[int("first", 25, 2, 100_000), int("second", 13, 2, 100_000)],
        doc: "True strength index (TSI): the price change smoothed by two nested EMAs, in percent of the absolute \
              price change smoothed the same way. 0 where nothing has moved.",
        build: tsi,
        ..BASE
    },
    Indicator {
        name: "smi",
        aliases: &["SMI"],
        params: &[
            int("period", 13, 2, 100_000),
            int("fast", 2, 2, 100_000),
            int("slow", 25, 2, 100_000),
            int("signal", 9, 2, 100_000),
        ],
        inputs: HLC,
        outputs: &["smi", "signal"],
        doc: "Stochastic momentum index (SMI): distance of the close from the midpoint of the range of `period` \
              bars, in percent of half that range, both smoothed by EMAs of `slow` and then `fast`; the signal \
              line is its EMA of `signal`. 0 where there is no range.",
        build: smi,
        ..BASE
    },
    Indicator {
        name: "ao",
        aliases: &["AO"],
        params: &[int("fast", 5, 2, 100_000), int("slow", 34, 2, 100_000)],
        inputs: HL,
        doc: "Awesome oscillator (AO): SMA of (h+l)/2 over `fast` bars minus that over `slow` bars.",
        build: |a| vec![ao(a)],
        ..BASE
    },
    Indicator {
        name: "ac",
        aliases: &["AC"],
        params: &[int("fast", 5, 2, 100_000), int("slow", 34, 2, 100_000), int("signal", 5, 2, 100_000)],
        inputs: HL,
        doc: "Accelerator oscillator (AC): the awesome oscillator minus its own SMA of `signal` bars.",
        build: |a| vec![ao(a) - ao(a).sma(a.n(2))],
        ..BASE
    },
    Indicator {
        name: "bop",
        aliases: &["BOP"],
        inputs: &[Field::Open, Field::High, Field::Low, Field::Close],
        doc: "Balance of power: (close - open) / (high - low); 0 where the bar has no range.",
        build: bop,
        ..BASE
    },
    Indicator {
        name: "imi",
        aliases: &["IMI"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: &[Field::Open, Field::Close],
        doc: "Intraday momentum index (IMI): rising bodies (close - open) in percent of all bodies over `period` \
              bars. 50 where no bar has a body.",
        build: imi,
        ..BASE
    },
    Indicator {
        name: "coppock",
        aliases: &["COPPOCK"],
        params: &[int("period", 10, 1, 100_000), int("short", 11, 1, 100_000), int("long", 14, 1, 100_000)],
        doc: "Coppock curve: WMA of `period` of the sum of two rates of change in percent; a rate of change from 0 \
              counts as 0.",
        build: |a| vec![(roc(a.source(), a.n(1)) + roc(a.source(), a.n(2))).wma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "dpo",
        aliases: &["DPO"],
        params: &[int("period", 20, 2, 100_000)],
        doc: "Detrended price oscillator (DPO): the value period/2 + 1 bars ago minus the SMA of the last `period` \
              values.",
        build: |a| vec![a.source().shift(a.n(0) / 2 + 1) - a.source().sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "er",
        aliases: &["ER"],
        params: &[int("period", 10, 2, 100_000)],
        doc: "Efficiency ratio (Kaufman): absolute change over `period` bars over the sum of absolute one-bar \
              changes. 1 where nothing moved.",
        build: er,
        ..BASE
    },
    Indicator {
        name: "eri",
        aliases: &["ERI"],
        params: &[int("period", 13, 1, 100_000)],
        inputs: HLC,
        outputs: &["bull", "bear"],
        doc: "Elder ray index: bull power (high) and bear power (low), each minus the EMA of `period` of the close.",
        build: eri,
        ..BASE
    },
    Indicator {
        name: "fosc",
        aliases: &["FOSC"],
        params: &[int("period", 5, 2, 100_000)],
        doc: "Forecast oscillator: distance of the value from the forecast of the linear regression through the \
              `period` values before it, in percent of the value; 0 where that is 0.",
        build: fosc,
        ..BASE
    },
    Indicator {
        name: "qstick",
        aliases: &["QSTICK"],
        params: &[int("period", 10, 1, 100_000)],
        inputs: &[Field::Open, Field::Close],
        doc: "Qstick: SMA of the candle bodies (close - open) of the last `period` bars.",
        build: |a| vec![(a.bars.close() - a.bars.open()).sma(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "fractal",
        aliases: &["FRACTAL"],
        params: &[int("left", 2, 1, 100_000), int("right", 2, 1, 100_000)],
        inputs: HL,
        outputs: &["high", "low"],
        doc: "Williams fractal, signalled at the bar that completes it: 100 where the high `right` bars ago \
              exceeds those of the `left` bars before and the `right` bars after it, else 0; and the same for a \
              low that is below them.",
        build: fractal,
        ..BASE
    },
];
