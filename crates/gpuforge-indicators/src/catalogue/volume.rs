//! Volume indicators: OBV, accumulation/distribution, MFI, CMF, force index, NVI/PVI, Klinger, volume profile.

use std::collections::VecDeque;

use super::{Group, Indicator, Oracle, int, real, trend::runs, volatility::sample_variance};
use crate::{
    graph::{Expr, Field, GraphBuilder, Seed},
    kernel::state_machine::{StateMachine, StateMachineDef},
};

const BASE: Indicator = Indicator { group: Group::Volume, inputs: TRADED, ..Indicator::BASE };
const TRADED: &[Field] = &[Field::Close, Field::Volume];
const RANGE: &[Field] = &[Field::High, Field::Low, Field::Close, Field::Volume];

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "ad",
        aliases: &["AD"],
        inputs: RANGE,
        doc: "Accumulation/distribution line (AD): cumulative sum of the volume times the close location value, \
              from -1 (low) to 1 (high); a bar without a range adds 0.",
        build: |a| vec![money_flow(a.bars).cumsum()],
        ..BASE
    },
    Indicator {
        name: "adosc",
        aliases: &["ADOSC"],
        params: &[int("fast", 3, 2, 100_000), int("slow", 10, 2, 100_000)],
        inputs: RANGE,
        doc: "Chaikin oscillator (ADOSC): fast minus slow EMA of the accumulation/distribution line, both seeded \
              with its first value; valid from the longer period on.",
        build: |a| {
            let line = money_flow(a.bars).cumsum();
            let mean = |at: usize| line.ema_alpha(2.0 / (a.x(at) + 1.0), Seed::First);
            vec![(mean(0) - mean(1)).from_bar(a.n(0).max(a.n(1)) - 1)]
        },
        ..BASE
    },
    Indicator {
        name: "obv",
        aliases: &["OBV"],
        doc: "On-balance volume (OBV): cumulative sum of the volume, added on a rise and subtracted on a fall; \
              starts with the first volume.",
        build: |a| vec![on_balance(a.bars)],
        ..BASE
    },
    Indicator {
        name: "aobv",
        params: &[
            int("fast", 4, 1, 100_000),
            int("slow", 12, 1, 100_000),
            int("max", 2, 1, 100_000),
            int("min", 2, 1, 100_000),
            int("run", 2, 1, 10_000),
        ],
        outputs: &["obv", "min", "max", "fast", "slow", "long", "short"],
        oracle: Oracle::Reference,
        doc: "Archer on-balance volume (pandas-ta): OBV, its rolling min and max, its fast and slow EMAs, and \
              their long and short run over `run` bars.",
        build: |a| {
            let obv = on_balance(a.bars);
            let (fast, slow) = (obv.ema(a.n(0)), obv.ema(a.n(1)));
            let mut all = vec![obv, obv.lowest(a.n(3)), obv.highest(a.n(2)), fast, slow];
            all.extend(runs(fast, slow, a.n(4)));
            all
        },
        ..BASE
    },
    Indicator {
        name: "mfi",
        aliases: &["MFI"],
        params: &[int("period", 14, 2, 100_000)],
        inputs: RANGE,
        doc: "Money flow index (MFI): typical price times volume on rising bars, in percent of that on rising and \
              falling bars, over `period` bars. Typical prices that differ by less than 1e-14 of their sum are \
              equal, and the bar does not count; 0 where none counts.",
        build: |a| vec![money_flow_index(a.bars, a.n(0))],
        ..BASE
    },
    Indicator {
        name: "cmf",
        aliases: &["CMF"],
        params: &[int("period", 20, 2, 100_000)],
        inputs: RANGE,
        doc: "Chaikin money flow (CMF): rolling sum of the money flow volume of `period` bars over that of the \
              volume; 0 where there is no volume.",
        build: |a| vec![share(money_flow(a.bars), a.bars.volume(), a.n(0))],
        ..BASE
    },
    Indicator {
        name: "efi",
        aliases: &["EFI"],
        params: &[int("period", 13, 1, 100_000)],
        doc: "Elder's force index (EFI): EMA of the change of the close times the volume.",
        build: |a| vec![(change(a.bars.close()) * a.bars.volume()).ema(a.n(0))],
        ..BASE
    },
    Indicator {
        name: "marketfi",
        aliases: &["MARKETFI"],
        inputs: &[Field::High, Field::Low, Field::Volume],
        doc: "Market facilitation index: (high - low) / volume; 0 without volume.",
        build: |a| vec![(a.bars.high() - a.bars.low()).div0(a.bars.volume())],
        ..BASE
    },
    Indicator {
        name: "nvi",
        aliases: &["NVI"],
        doc: "Negative volume index (NVI): starts at 1000 and changes with the close on bars whose volume is below \
              the previous one's.",
        build: |a| vec![volume_index(a.bars, a.bars.volume().lt(a.bars.volume().shift(1)))],
        ..BASE
    },
    Indicator {
        name: "pvi",
        aliases: &["PVI"],
        doc: "Positive volume index (PVI): starts at 1000 and changes with the close on bars whose volume is above \
              the previous one's.",
        build: |a| vec![volume_index(a.bars, a.bars.volume().gt(a.bars.volume().shift(1)))],
        ..BASE
    },
    Indicator {
        name: "pvt",
        aliases: &["PVT"],
        doc: "Price volume trend (PVT): cumulative sum of the relative change of the close times the volume, 0 on \
              the first bar; a previous close of 0 adds 0.",
        build: |a| vec![(relative_change(a.bars.close()) * a.bars.volume()).fill_warmup(0.0).cumsum()],
        ..BASE
    },
    Indicator {
        name: "rvol",
        aliases: &["RVOL"],
        params: &[int("period", 20, 1, 100_000)],
        inputs: &[Field::Volume],
        doc: "Relative volume (RVOL): the volume over the SMA of the `period` bars before. Not guarded, as in \
              TA-Lib: after bars without any volume it is infinite, or NaN where there is still none.",
        build: |a| {
            let (x, n) = (a.source_or(Field::Volume), a.n(0));
            // A rolling sum of zeros may keep a rounding residue of what left the window.
            let mean = x.all_zero(n).select(0.0, x.sma(n));
            vec![x / mean.shift(1)]
        },
        ..BASE
    },
    Indicator {
        name: "emv",
        aliases: &["EMV", "eom"],
        params: &[int("period", 14, 1, 100_000), real("divisor", 10_000.0, 1.0, 1e12)],
        inputs: &[Field::High, Field::Low, Field::Volume],
        doc: "Ease of movement (EMV): change of (high + low) / 2 over (volume / divisor) / (high - low), SMA of \
              `period` bars; a bar without range or volume counts as 0.",
        build: |a| {
            let (high, low) = (a.bars.high(), a.bars.low());
            let ratio = (a.bars.volume() / a.x(1)).div0(high - low);
            vec![change((high + low) / 2.0).div0(ratio).sma(a.n(0))]
        },
        ..BASE
    },
    Indicator {
        name: "kvo",
        aliases: &["KVO"],
        params: &[int("fast", 34, 2, 100_000), int("slow", 55, 2, 100_000), int("signal", 13, 2, 100_000)],
        inputs: RANGE,
        outputs: &["kvo", "signal"],
        doc: "Klinger volume oscillator (KVO): fast minus slow EMA of the volume force, and a signal EMA of it; \
              all are seeded with the first value and valid from the longest period on. The force is the volume \
              times the trend (the sign of the change of high + low + close, held on a tie, 1 at first) times 100 \
              |2 range / sum - 1|, where the sum is that of the ranges since one bar before the trend changed; 0 \
              where it is 0.",
        build: |a| {
            let force = volume_force(a.bars);
            let [fast, slow, signal] = [0, 1, 2].map(|at| 2.0 / (a.x(at) + 1.0));
            let kvo = force.ema_alpha(fast, Seed::First) - force.ema_alpha(slow, Seed::First);
            let longest = a.n(0).max(a.n(1)).max(a.n(2));
            vec![kvo.from_bar(longest), kvo.ema_alpha(signal, Seed::First).from_bar(longest)]
        },
        ..BASE
    },
    Indicator {
        name: "vosc",
        params: &[int("fast", 14, 1, 100_000), int("slow", 28, 1, 100_000)],
        inputs: &[Field::Volume],
        oracle: Oracle::Reference,
        doc: "Volume oscillator: fast minus slow SMA of the volume, in percent of the slow one; 0 where that is 0.",
        build: |a| {
            let x = a.source_or(Field::Volume);
            let slow = x.sma(a.n(1));
            vec![(x.sma(a.n(0)) - slow).div0(slow) * 100.0]
        },
        ..BASE
    },
    Indicator {
        name: "wad",
        aliases: &["WAD"],
        inputs: &[Field::High, Field::Low, Field::Close],
        doc: "Williams accumulation/distribution (WAD): cumulative sum of close - true low on a rise and close - \
              true high on a fall, 0 on a tie and on the first bar.",
        build: |a| {
            let (close, before) = (a.bars.close(), a.bars.close().shift(1));
            let rise = close - a.bars.low().min(before);
            let fall = close - a.bars.high().max(before);
            let step = close.gt(before).select(rise, close.lt(before).select(fall, 0.0));
            vec![step.fill_warmup(0.0).cumsum()]
        },
        ..BASE
    },
    Indicator {
        name: "vfi",
        params: &[
            int("period", 130, 2, 100_000),
            real("coef", 0.2, 0.0, 100.0),
            real("cap", 2.5, 0.0, 100.0),
            int("smooth", 3, 1, 100_000),
        ],
        inputs: RANGE,
        oracle: Oracle::Reference,
        doc: "Volume flow indicator (VFI, Katsanos, 2004): the volume, capped at `cap` times the SMA of the \
              `period` bars before, is added where the typical price rose by more than a cutoff and subtracted \
              where it fell by more; the sum of `period` bars over that SMA (0 where it is 0), smoothed by an EMA \
              of `smooth`. The cutoff is `coef` times the close times the sample standard deviation of the last 30 \
              log changes.",
        build: |a| vec![volume_flow(a.bars, a.n(0), a.x(1), a.x(2)).ema(a.n(3))],
        ..BASE
    },
    Indicator {
        name: "pvr",
        oracle: Oracle::Reference,
        doc: "Price volume rank: 1 where neither the close nor the volume fell, 2 where only the volume fell, 3 where only the \
              close fell, 4 where both did.",
        build: |a| {
            let (close, volume) = (change(a.bars.close()), change(a.bars.volume()));
            vec![close.lt(0.0) * 2.0 + volume.lt(0.0) + 1.0]
        },
        ..BASE
    },
    Indicator {
        name: "pvol",
        oracle: Oracle::Reference,
        doc: "Price-volume: close times volume.",
        build: |a| vec![a.bars.close() * a.bars.volume()],
        ..BASE
    },
    Indicator {
        name: "vp",
        aliases: &["volume_profile"],
        params: &[int("period", 100, 1, 10_000), int("bins", 10, 1, 1000), real("area", 70.0, 0.0, 100.0)],
        outputs: &["poc", "low", "high"],
        oracle: Oracle::Reference,
        doc: "Volume profile of the last `period` bars: the range of their closes in `bins` equal bins, each bar's \
              volume in the bin of its close. The point of control (middle of the fullest bin, the lowest of \
              equals), and the edges of the value area: bins added around it, the fuller neighbour first (the \
              lower of equals), until they hold `area` percent of the volume.",
        build: |a| {
            a.bars.state_machine(&PROFILE, &[a.x(0), a.x(1), a.x(2)], &[a.bars.close(), a.bars.volume()])
        },
        ..BASE
    },
    Indicator {
        name: "tmf",
        aliases: &["twiggs_money_flow"],
        params: &[int("period", 21, 1, 100_000)],
        inputs: RANGE,
        oracle: Oracle::Reference,
        doc: "Twiggs money flow (TMF): Wilder's moving average of the volume times the position of the close \
              between the true low (-1) and the true high (1), over Wilder's moving average of the volume; 0 where \
              there is none. A bar without a true range counts as 0.",
        build: |a| {
            let (close, before) = (a.bars.close(), a.bars.close().shift(1));
            let (high, low) = (a.bars.high().max(before), a.bars.low().min(before));
            let flow = (close - low - (high - close)).div0(high - low) * a.bars.volume();
            vec![flow.wilder(a.n(0)).div0(a.bars.volume().from_bar(1).wilder(a.n(0)))]
        },
        ..BASE
    },
    Indicator {
        name: "vzo",
        aliases: &["volume_zone_oscillator"],
        params: &[int("period", 14, 1, 100_000)],
        oracle: Oracle::Reference,
        doc: "Volume zone oscillator (VZO, Khalil and Steckler, 2009): EMA of the volume signed by the change of \
              the close, in percent of the EMA of the volume of the same bars; 0 where that is 0.",
        build: |a| {
            let volume = a.bars.volume();
            let signed = change(a.bars.close()).sign() * volume;
            vec![signed.ema(a.n(0)).div0(volume.from_bar(1).ema(a.n(0))) * 100.0]
        },
        ..BASE
    },
];

fn change(x: Expr<'_>) -> Expr<'_> {
    x - x.shift(1)
}

/// Relative change; 0 where the previous value is 0.
fn relative_change(x: Expr<'_>) -> Expr<'_> {
    change(x).div0(x.shift(1))
}

/// Money flow volume: volume times the close location value.
fn money_flow(bars: GraphBuilder<'_>) -> Expr<'_> {
    let (high, low, close) = (bars.high(), bars.low(), bars.close());
    let range = high - low;
    range.gt(0.0).select((close - low - (high - close)) / range * bars.volume(), 0.0)
}

/// Ratio of rolling sums; exactly 0 where all of `whole` is 0, despite the rounding residue of a rolling sum.
fn share<'g>(part: Expr<'g>, whole: Expr<'g>, n: usize) -> Expr<'g> {
    let (sum, none) = (whole.sum(n), whole.all_zero(n));
    none.or(sum.le(0.0)).select(0.0, part.sum(n) / sum)
}

fn on_balance(bars: GraphBuilder<'_>) -> Expr<'_> {
    let volume = bars.volume();
    (change(bars.close()).sign() * volume).fill_warmup(volume).cumsum()
}

fn money_flow_index(bars: GraphBuilder<'_>, n: usize) -> Expr<'_> {
    let typical = (bars.high() + bars.low() + bars.close()) / 3.0;
    let (before, moved) = (typical.shift(1), change(typical));
    let tie = moved.abs().le((typical.abs() + before.abs()) * 1e-14);
    let flow = tie.select(0.0, typical * bars.volume());
    let up = moved.lt(0.0).select(0.0, flow);
    let (gain, loss) = (up.sum(n), (flow - up).sum(n));
    let total = gain + loss;
    let none = flow.ne(0.0).sum(n).le(0.0).or(total.le(0.0));
    none.select(0.0, gain.max(0.0).min(total) / total * 100.0)
}

/// Volume index: 1000, compounded by the relative change of the close on the bars that count.
fn volume_index<'g>(bars: GraphBuilder<'g>, counts: Expr<'g>) -> Expr<'g> {
    let factor = counts.select(relative_change(bars.close()), 0.0) + 1.0;
    factor.fill_warmup(0.0).linear_recurrence(bars.constant(0.0).shift(1).fill_warmup(1000.0))
}

fn volume_force(bars: GraphBuilder<'_>) -> Expr<'_> {
    let direction = change(bars.high() + bars.low() + bars.close()).sign();
    let tie = direction.eq(0.0).fill_warmup(0.0);
    let trend = tie.linear_recurrence(direction.fill_warmup(1.0));
    let range = bars.high() - bars.low();
    let goes_on = trend.eq(trend.shift(1));
    let added = goes_on.select(range, range + range.shift(1));
    let sum = goes_on.fill_warmup(0.0).linear_recurrence(added.fill_warmup(range));
    let force = bars.volume() * (range / sum * 2.0 - 1.0).abs() * 100.0 * trend;
    sum.ne(0.0).select(force, 0.0).from_bar(1)
}

fn volume_flow(bars: GraphBuilder<'_>, n: usize, coef: f64, cap: f64) -> Expr<'_> {
    let typical = (bars.high() + bars.low() + bars.close()) / 3.0;
    let spread = sample_variance((typical / typical.shift(1)).ln(), 30).sqrt();
    let (cutoff, moved) = (spread * bars.close() * coef, change(typical));
    let mean = bars.volume().sma(n).shift(1);
    let volume = bars.volume().min(mean * cap);
    let flow = moved.gt(cutoff).select(volume, moved.lt(-cutoff).select(-volume, 0.0));
    flow.sum(n).div0(mean)
}

/// Volume profile of a window of closes and volumes.
#[derive(Clone)]
struct Profile {
    period: usize,
    bins: usize,
    area: f64,
    window: VecDeque<(f64, f64)>,
    volumes: Vec<f64>,
}

static PROFILE: StateMachineDef =
    StateMachineDef::of::<Profile, 2, 3>("volume profile", |p| p.first().map_or(0, |n| *n as usize - 1));

impl StateMachine<2, 3> for Profile {
    fn new(params: &[f64]) -> Self {
        let param = |at: usize| params.get(at).copied().unwrap_or(1.0);
        Profile {
            period: param(0) as usize,
            bins: param(1) as usize,
            area: param(2) / 100.0,
            window: VecDeque::new(),
            volumes: Vec::new(),
        }
    }

    fn step(&mut self, [close, volume]: [f64; 2]) -> [f64; 3] {
        self.window.push_back((close, volume));
        if self.window.len() > self.period {
            self.window.pop_front();
        }
        if self.window.len() < self.period || self.window.iter().any(|(c, v)| c.is_nan() || v.is_nan()) {
            return [f64::NAN; 3];
        }
        let (low, high) = self
            .window
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (c, _)| (low.min(*c), high.max(*c)));
        let width = (high - low) / self.bins as f64;
        if width == 0.0 {
            return [low; 3];
        }
        self.volumes.clear();
        self.volumes.resize(self.bins, 0.0);
        for (close, volume) in &self.window {
            let bin = ((close - low) / width) as usize;
            if let Some(slot) = self.volumes.get_mut(bin.min(self.bins - 1)) {
                *slot += volume;
            }
        }
        let (from, fullest, to) = value_area(&self.volumes, self.area);
        let edge = |bin: usize| low + width * bin as f64;
        [low + width * (fullest as f64 + 0.5), edge(from), edge(to + 1)]
    }
}

/// First bin, fullest bin and last bin of the value area.
fn value_area(volumes: &[f64], area: f64) -> (usize, usize, usize) {
    let volume = |bin: usize| volumes.get(bin).copied();
    let fullest = volumes
        .iter()
        .enumerate()
        .fold((0, f64::NEG_INFINITY), |best, (bin, v)| if *v > best.1 { (bin, *v) } else { best });
    let wanted = volumes.iter().sum::<f64>() * area;
    let (mut from, mut to, mut held) = (fullest.0, fullest.0, fullest.1);
    while held < wanted {
        let (below, above) = (from.checked_sub(1).and_then(volume), volume(to + 1));
        match (below, above) {
            (Some(b), Some(a)) if b >= a => (from, held) = (from - 1, held + b),
            (_, Some(a)) => (to, held) = (to + 1, held + a),
            (Some(b), None) => (from, held) = (from - 1, held + b),
            (None, None) => break,
        }
    }
    (from, fullest.0, to)
}
