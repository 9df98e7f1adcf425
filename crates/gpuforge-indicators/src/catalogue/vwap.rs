//! VWAP: since the first bar, anchored, with bands; and the distance to support or resistance.

use super::{BuildArgs, Group, Indicator, IndicatorKind, Oracle, Param, int, real};
use crate::graph::{Expr, Field};

mod anchor;
mod weighted_moments;

use anchor::{DailyRecord, change, day, final_record, month, record, week};
use weighted_moments::{ANCHORED, CUMULATIVE, PREVIOUS_DAY, ROLLING};

const BASE: Indicator = Indicator {
    group: Group::Bands,
    inputs: &[Field::High, Field::Low, Field::Close, Field::Volume, Field::Time],
    outputs: &["vwap"],
    oracle: Oracle::Reference,
    ..Indicator::BASE
};

/// Parameters of anchored rows. `at` is the number of bars (11), the bar index (12) or the time (13); otherwise unused.
const ANCHOR_PARAMS: &[Param] = &[
    int("anchor", 2, 0, 13),
    real("offset", 0.0, -86_400.0, 86_400.0),
    real("session", 34_200.0, 0.0, 86_400.0),
    real("at", 20.0, 0.0, 1e12),
];

/// Max bars of a rolling VWAP.
const MAX_ROLLING_BARS: f64 = 100_000.0;

/// The VWAP and six bands.
const BANDS: &[&str] = &["vwap", "upper_1", "lower_1", "upper_2", "lower_2", "upper_3", "lower_3"];

/// Typical price and volume.
fn traded<'g>(a: &BuildArgs<'g, '_>) -> (Expr<'g>, Expr<'g>) {
    let bars = a.bars;
    ((bars.high() + bars.low() + bars.close()) / 3.0, bars.volume())
}

/// VWAP and deviation, restarted at the bars of a flag.
fn since<'g>(a: &BuildArgs<'g, '_>, flag: Expr<'g>) -> Vec<Expr<'g>> {
    let (price, volume) = traded(a);
    a.bars.state_machine(&ANCHORED, &[1.0], &[price, volume, flag])
}

/// VWAP and deviation since the anchor of the parameters.
fn anchored<'g>(a: &BuildArgs<'g, '_>) -> Vec<Expr<'g>> {
    let (bars, (price, volume), at) = (a.bars, traded(a), a.x(3));
    let day = || day(bars, a.x(1));
    let so_far = |which: DailyRecord| record(bars, which, change(day()));
    let before = |which: DailyRecord| {
        let new_day = change(day());
        bars.state_machine(&PREVIOUS_DAY, &[], &[price, volume, new_day, record(bars, which, new_day)])
    };
    match a.n(0) {
        0 => since(a, bars.constant(0.0)),
        1 => since(a, change(anchor::day(bars, a.x(1) - a.x(2)))),
        2 => since(a, change(day())),
        3 => since(a, change(week(day()))),
        4 => since(a, change(month(day()))),
        5 => since(a, so_far(DailyRecord::High)),
        6 => since(a, so_far(DailyRecord::Low)),
        7 => since(a, so_far(DailyRecord::Volume)),
        8 => before(DailyRecord::High),
        9 => before(DailyRecord::Low),
        10 => before(DailyRecord::Volume),
        11 => bars.state_machine(&ROLLING, &[at.clamp(1.0, MAX_ROLLING_BARS).floor()], &[price, volume]),
        kind => {
            let clock = if kind == 12 { bars.constant(1.0).cumsum() - 1.0 } else { bars.time() };
            let reached = clock.ge(if kind == 12 { at.floor() } else { at });
            let shown = |x: Expr<'g>| reached.select(x, f64::NAN);
            since(a, change(reached)).into_iter().map(shown).collect()
        }
    }
}

/// The VWAP and bands of one, two and three deviations.
fn bands<'g>(found: Vec<Expr<'g>>) -> Vec<Expr<'g>> {
    let &[line, deviation] = found.as_slice() else { return found };
    let sides = [1.0, 2.0, 3.0].into_iter().flat_map(|k| [line + deviation * k, line - deviation * k]);
    std::iter::once(line).chain(sides).collect()
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "vwap",
        aliases: &["VWAP"],
        inputs: &[Field::High, Field::Low, Field::Close, Field::Volume],
        oracle: Oracle::TaLib,
        doc: "Volume-weighted average price (VWAP) of the typical price (high + low + close) / 3 since the first \
              bar; 0 before any volume.",
        build: |a| {
            let (price, volume) = traded(a);
            a.bars.state_machine(&CUMULATIVE, &[], &[price, volume])
        },
        ..BASE
    },
    Indicator {
        name: "avwap",
        aliases: &["anchored_vwap"],
        params: ANCHOR_PARAMS,
        doc: "Anchored VWAP. Anchors: 0 the first bar, 1 the session (`session` seconds after midnight: 09:30), 2 \
              the day, 3 the week (Monday), 4 the month, 5 the day's high so far, 6 its low so far, 7 its largest \
              volume so far, 8, 9 and 10 the high, low and largest volume of the previous day (on the first day: \
              the first bar), 11 the last `at` bars (at most 100000), 12 bar index `at`, 13 time `at` (both NaN \
              before). The first of equal extremes counts. Days are those of a clock `offset` seconds ahead of \
              UTC. Before any volume since the anchor: the bar's typical price.",
        build: |a| anchored(a).into_iter().take(1).collect(),
        ..BASE
    },
    Indicator {
        name: "avwap_bands",
        aliases: &["anchored_vwap_bands"],
        params: ANCHOR_PARAMS,
        outputs: BANDS,
        doc: "Anchored VWAP (anchors as for `avwap`) and bands of 1, 2 and 3 volume-weighted standard deviations \
              sqrt(sum(volume * (typical - vwap)^2) / sum(volume)); 0 before any volume.",
        build: |a| bands(anchored(a)),
        ..BASE
    },
    Indicator {
        name: "avwap_final",
        aliases: &["anchored_vwap_final"],
        kind: IndicatorKind::Addition,
        params: &[int("anchor", 0, 0, 2), real("offset", 0.0, -86_400.0, 86_400.0)],
        outputs: BANDS,
        causal: false,
        doc: "Anchored VWAP and bands since the bar that will turn out to be the day's high (0), low (1) or \
              largest volume (2): looks ahead to the end of the day (not causal). Before that bar the line of the \
              previous day continues; on the first day, that since the first bar. `avwap` 5 to 10 do not look \
              ahead.",
        build: |a| {
            let which = match a.n(0) {
                0 => DailyRecord::High,
                1 => DailyRecord::Low,
                _ => DailyRecord::Volume,
            };
            bands(since(a, final_record(a.bars, which, a.x(1))))
        },
        ..BASE
    },
    Indicator {
        name: "support_resistance",
        aliases: &["sr_distance"],
        group: Group::Pattern,
        kind: IndicatorKind::Addition,
        params: &[int("period", 50, 1, 100_000)],
        inputs: &[Field::High, Field::Low, Field::Close],
        outputs: &["distance"],
        doc: "Distance to support or resistance: to the nearer of the highest high (+) and the lowest low (-) of \
              the last `period` bars, as a fraction of the close; to the high where both are equally near. 0 where \
              the close is 0.",
        build: |a| {
            let (close, n) = (a.bars.close(), a.n(0));
            let above = (a.bars.high().highest(n) - close).div0(close);
            let below = (close - a.bars.low().lowest(n)).div0(close);
            vec![above.le(below).select(above, -below)]
        },
        ..BASE
    },
];
