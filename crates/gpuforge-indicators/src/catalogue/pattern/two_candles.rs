//! Two-candle patterns: engulfing, harami, piercing, dark cloud cover, kicking and others. Candle 1 is the first, 0 the second.

use super::{
    super::Indicator,
    PENETRATION_0_5,
    candle::{Candles, EQUAL, all},
    row, with_penetration,
};
use crate::graph::Expr;

/// Harami: 100 where the second body lies inside the first, 80 where an end touches; opposite to the colour of the first.
fn harami<'g>(k: Candles<'g>, small: Expr<'g>) -> Vec<Expr<'g>> {
    let pair = k.long(1).and(small);
    let touching = k.top(0).le(k.top(1)).and(k.bottom(0).ge(k.bottom(1)));
    let size = k.inside(0, 1).select(-100.0, touching.select(-80.0, 0.0));
    vec![pair.select(k.color(1) * size, 0.0)]
}

/// Two marubozu of opposite colour with a gap between them.
fn kicks<'g>(k: Candles<'g>) -> Expr<'g> {
    let marubozu = |i| all(k.long(i), &[k.no_upper(i), k.no_lower(i)]);
    let up = k.black(1).and(k.l(0).gt(k.h(1)));
    let down = k.white(1).and(k.h(0).lt(k.l(1)));
    all(k.color(1).ne(k.color(0)), &[marubozu(1), marubozu(0), up.or(down)])
}

/// A long black candle, then a white one that opens below its low.
fn rebound<'g>(k: Candles<'g>) -> Expr<'g> {
    all(k.black(1), &[k.long(1), k.white(0), k.o(0).lt(k.l(1))])
}

pub(super) const ROWS: &[Indicator] = &[
    row(
        "cdlcounterattack",
        &["CDLCOUNTERATTACK"],
        "Counterattack: two long candles of opposite colour with equal closes (±100 by the second).",
        |a| {
            let k = Candles::new(a, 11);
            let opposite = k.color(1).ne(k.color(0));
            k.colored(0, opposite, &[k.long(1), k.long(0), k.within(k.c(0), k.c(1), EQUAL, 1)])
        },
    ),
    with_penetration(
        row(
            "cdldarkcloudcover",
            &["CDLDARKCLOUDCOVER"],
            "Dark cloud cover: a long white candle, then a black one that opens above its high and closes in its body, more than `penetration` of it below the first close (-100).",
            |a| {
                let k = Candles::new(a, 11);
                let within = k.c(0).gt(k.o(1)).and(k.penetrates_down(1, a.x(0)));
                k.when(-100.0, k.white(1), &[k.long(1), k.black(0), k.o(0).gt(k.h(1)), within])
            },
        ),
        PENETRATION_0_5,
    ),
    row(
        "cdldojistar",
        &["CDLDOJISTAR"],
        "Doji star: a long candle, then a doji beyond its close with a gap (100 after black, -100 after white).",
        |a| {
            let k = Candles::new(a, 11);
            let star = k.long(1).and(k.doji(0));
            k.either(all(star, &[k.black(1), k.gap_down(0, 1)]), all(star, &[k.white(1), k.gap_up(0, 1)]))
        },
    ),
    row(
        "cdlengulfing",
        &["CDLENGULFING"],
        "Engulfing: a body that engulfs the previous one of the opposite colour: ±100 by its colour, ±80 where one end is equal.",
        |a| {
            let k = Candles::new(a, 2);
            // Engulfs at both ends; at most one end may be equal.
            let (above, below) = (k.top(0).gt(k.top(1)), k.bottom(0).lt(k.bottom(1)));
            let reaches = k.top(0).ge(k.top(1)).and(k.bottom(0).le(k.bottom(1)));
            let covers = all(k.white(0).ne(k.white(1)), &[reaches, above.or(below)]);
            let size = above.and(below).select(100.0, 80.0);
            vec![covers.select(k.color(0) * size, 0.0).from_bar(2)]
        },
    ),
    row(
        "cdlharami",
        &["CDLHARAMI"],
        "Harami: a long body, then a short one inside it: 100 after black, -100 after white; ±80 where an end is the same.",
        |a| {
            let k = Candles::new(a, 11);
            harami(k, k.not_long(0))
        },
    ),
    row(
        "cdlharamicross",
        &["CDLHARAMICROSS"],
        "Harami cross: a harami whose second candle is a doji: 100 after black, -100 after white; ±80 where an end is the same.",
        |a| {
            let k = Candles::new(a, 11);
            harami(k, k.doji(0))
        },
    ),
    row(
        "cdlhomingpigeon",
        &["CDLHOMINGPIGEON"],
        "Homing pigeon: a long black candle, then a short black body inside its body (100).",
        |a| {
            let k = Candles::new(a, 11);
            let within = k.o(0).lt(k.o(1)).and(k.c(0).gt(k.c(1)));
            k.when(100.0, k.black(1), &[k.black(0), k.long(1), k.not_long(0), within])
        },
    ),
    row(
        "cdlinneck",
        &["CDLINNECK"],
        "In neck: a long black candle, then a white one from below its low that closes at its close or barely above (-100).",
        |a| {
            let k = Candles::new(a, 11);
            let neck = k.c(0).le(k.c(1) + k.limit(EQUAL, 1)).and(k.c(0).ge(k.c(1)));
            k.when(-100.0, rebound(k), &[neck])
        },
    ),
    row(
        "cdlkicking",
        &["CDLKICKING"],
        "Kicking: two marubozu of opposite colour with a gap in the second's direction (±100 by the second).",
        |a| {
            let k = Candles::new(a, 11);
            k.colored(0, kicks(k), &[])
        },
    ),
    row(
        "cdlkickingbylength",
        &["CDLKICKINGBYLENGTH"],
        "Kicking, with the sign of the longer of both marubozu; of the first where they are equal.",
        |a| {
            let k = Candles::new(a, 11);
            let sign = k.body(0).gt(k.body(1)).select(k.color(0), k.color(1));
            vec![kicks(k).select(sign * 100.0, 0.0)]
        },
    ),
    row(
        "cdlmatchinglow",
        &["CDLMATCHINGLOW"],
        "Matching low: two black candles with equal closes (100).",
        |a| {
            let k = Candles::new(a, 6);
            k.when(100.0, k.black(1), &[k.black(0), k.within(k.c(0), k.c(1), EQUAL, 1)])
        },
    ),
    row(
        "cdlonneck",
        &["CDLONNECK"],
        "On neck: a long black candle, then a white one from below its low that closes at that low (-100).",
        |a| {
            let k = Candles::new(a, 11);
            k.when(-100.0, rebound(k), &[k.within(k.c(0), k.l(1), EQUAL, 1)])
        },
    ),
    row(
        "cdlpiercing",
        &["CDLPIERCING"],
        "Piercing: a long black candle, then a long white one from below its low that closes in the upper half of its body (100).",
        |a| {
            let k = Candles::new(a, 11);
            // Halving is exact in floating point, so the rounding order does not matter.
            let upper_half = k.c(0).lt(k.o(1)).and(k.c(0).gt(k.c(1) + k.body(1) * 0.5));
            k.when(100.0, rebound(k), &[k.long(0), upper_half])
        },
    ),
    row(
        "cdlseparatinglines",
        &["CDLSEPARATINGLINES"],
        "Separating lines: two candles of opposite colour with equal opens, the second a belt hold (±100 by the second).",
        |a| {
            let k = Candles::new(a, 11);
            let pair = all(k.color(1).ne(k.color(0)), &[k.within(k.o(0), k.o(1), EQUAL, 1), k.long(0)]);
            k.either(all(pair, &[k.white(0), k.no_lower(0)]), all(pair, &[k.black(0), k.no_upper(0)]))
        },
    ),
    row(
        "cdlthrusting",
        &["CDLTHRUSTING"],
        "Thrusting: a long black candle, then a white one from below its low that closes in the lower half of its body, clearly above its close (-100).",
        |a| {
            let k = Candles::new(a, 11);
            let lower_half = k.c(0).gt(k.c(1) + k.limit(EQUAL, 1)).and(k.c(0).le(k.c(1) + k.body(1) * 0.5));
            k.when(-100.0, rebound(k), &[lower_half])
        },
    ),
];
