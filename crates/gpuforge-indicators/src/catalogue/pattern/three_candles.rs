//! Three-candle patterns: morning and evening star, three white soldiers, abandoned baby, tristar and others. 2 is the first, 0
//! the last.

use super::{
    super::Indicator,
    PENETRATION_0_3,
    candle::{Candles, EQUAL, FAR, NEAR, all},
    row, with_penetration,
};
use crate::graph::Expr;

/// Three white candles of rising closes, each opening within or near the previous body.
fn advance<'g>(k: Candles<'g>) -> Expr<'g> {
    let opens = |i: usize| k.o(i).gt(k.o(i + 1)).and(k.o(i).le(k.c(i + 1) + k.limit(NEAR, i + 1)));
    let rising = k.c(0).gt(k.c(1)).and(k.c(1).gt(k.c(2)));
    all(k.white(2), &[k.white(1), k.white(0), rising, opens(1), opens(0)])
}

/// A long candle, a star above it and a long black candle back into its body.
fn evening<'g>(k: Candles<'g>, star: Expr<'g>, share: f64) -> Vec<Expr<'g>> {
    let back = all(k.black(0), &[k.long(0), k.penetrates_down(2, share)]);
    k.when(-100.0, k.white(2), &[k.long(2), star, k.gap_up(1, 2), back])
}

/// A long candle, a star below it and a long white candle back into its body.
fn morning<'g>(k: Candles<'g>, star: Expr<'g>, share: f64) -> Vec<Expr<'g>> {
    let back = all(k.white(0), &[k.long(0), k.penetrates_up(2, share)]);
    k.when(100.0, k.black(2), &[k.long(2), star, k.gap_down(1, 2), back])
}

pub(super) const ROWS: &[Indicator] = &[
    row(
        "cdl2crows",
        &["CDL2CROWS"],
        "Two crows: a long white candle, a black one above it, and a black one that opens in the second body and closes in the first (-100).",
        |a| {
            let k = Candles::new(a, 12);
            let opens = k.o(0).lt(k.o(1)).and(k.o(0).gt(k.c(1)));
            let closes = k.c(0).gt(k.o(2)).and(k.c(0).lt(k.c(2)));
            k.when(-100.0, k.white(2), &[k.long(2), k.black(1), k.gap_up(1, 2), k.black(0), opens, closes])
        },
    ),
    row(
        "cdl3inside",
        &["CDL3INSIDE"],
        "Three inside: a long candle, a short body inside it, and a candle of the other colour that closes beyond the first open (100 up, -100 down).",
        |a| {
            let k = Candles::new(a, 12);
            let pair = all(k.inside(1, 2), &[k.long(2), k.not_long(1)]);
            let up = all(pair, &[k.black(2), k.white(0), k.c(0).gt(k.o(2))]);
            k.either(up, all(pair, &[k.white(2), k.black(0), k.c(0).lt(k.o(2))]))
        },
    ),
    row(
        "cdl3outside",
        &["CDL3OUTSIDE"],
        "Three outside: an engulfing body of the opposite colour, and a close further in its direction (100 up, -100 down).",
        |a| {
            let k = Candles::new(a, 3);
            let up = all(k.white(1), &[k.black(2), k.c(1).gt(k.o(2)), k.o(1).lt(k.c(2)), k.c(0).gt(k.c(1))]);
            k.either(
                up,
                all(k.black(1), &[k.white(2), k.o(1).gt(k.c(2)), k.c(1).lt(k.o(2)), k.c(0).lt(k.c(1))]),
            )
        },
    ),
    row(
        "cdl3starsinsouth",
        &["CDL3STARSINSOUTH"],
        "Three stars in the south: three black candles that weaken: a long one with a long lower shadow, a smaller one that holds the low and has a lower shadow, a short one without shadows inside its range (100).",
        |a| {
            let k = Candles::new(a, 12);
            let first = all(k.black(2), &[k.long(2), k.long_lower(2)]);
            let opens = k.o(1).gt(k.c(2)).and(k.o(1).le(k.h(2)));
            let holds = k.l(1).lt(k.c(2)).and(k.l(1).ge(k.l(2)));
            let second = all(k.black(1), &[k.body(1).lt(k.body(2)), opens, holds, k.has_lower(1)]);
            let within = k.l(0).gt(k.l(1)).and(k.h(0).lt(k.h(1)));
            k.when(100.0, first, &[second, k.black(0), k.short(0), k.no_lower(0), k.no_upper(0), within])
        },
    ),
    row(
        "cdl3whitesoldiers",
        &["CDL3WHITESOLDIERS"],
        "Three white soldiers: three white candles of rising closes without upper shadows, each from within or near the body before and not far shorter than it, the last long (100).",
        |a| {
            let k = Candles::new(a, 12);
            let kept = |i: usize| k.body(i).gt(k.body(i + 1) - k.limit(FAR, i + 1));
            k.when(
                100.0,
                advance(k),
                &[k.no_upper(2), k.no_upper(1), k.no_upper(0), kept(1), kept(0), k.long(0)],
            )
        },
    ),
    with_penetration(
        row(
            "cdlabandonedbaby",
            &["CDLABANDONEDBABY"],
            "Abandoned baby: a long candle, a doji with a gap between all shadows, and a candle of the other colour back into the first body, more than `penetration` of it (±100 by the third).",
            |a| {
                let k = Candles::new(a, 12);
                let baby = all(k.long(2), &[k.doji(1), k.long(0)]);
                let top = k.l(1).gt(k.h(2)).and(k.h(0).lt(k.l(1)));
                let bottom = k.h(1).lt(k.l(2)).and(k.l(0).gt(k.h(1)));
                let up = all(baby, &[k.black(2), k.white(0), k.penetrates_up(2, a.x(0)), bottom]);
                k.either(up, all(baby, &[k.white(2), k.black(0), k.penetrates_down(2, a.x(0)), top]))
            },
        ),
        PENETRATION_0_3,
    ),
    row(
        "cdladvanceblock",
        &["CDLADVANCEBLOCK"],
        "Advance block: three white candles of rising closes, the first long with a short upper shadow, that weaken: bodies far smaller, or smaller with upper shadows (-100).",
        |a| {
            let k = Candles::new(a, 12);
            let far_smaller = |i: usize| k.body(i).lt(k.body(i + 1) - k.limit(FAR, i + 1));
            let smaller = |i: usize| k.body(i).lt(k.body(i + 1));
            let blocked = far_smaller(1).and(k.body(0).lt(k.body(1) + k.limit(NEAR, 1)));
            let shaded = all(smaller(0), &[smaller(1), k.upper_not_short(0).or(k.upper_not_short(1))]);
            let weak = blocked.or(far_smaller(0)).or(shaded).or(smaller(0).and(k.long_upper(0)));
            k.when(-100.0, advance(k), &[k.long(2), k.short_upper(2), weak])
        },
    ),
    with_penetration(
        row(
            "cdleveningdojistar",
            &["CDLEVENINGDOJISTAR"],
            "Evening doji star: a long white candle, a doji above it, and a long black candle back into its body, more than `penetration` of it (-100).",
            |a| {
                let k = Candles::new(a, 12);
                evening(k, k.doji(1), a.x(0))
            },
        ),
        PENETRATION_0_3,
    ),
    with_penetration(
        row(
            "cdleveningstar",
            &["CDLEVENINGSTAR"],
            "Evening star: a long white candle, a short body above it, and a long black candle back into its body, more than `penetration` of it (-100).",
            |a| {
                let k = Candles::new(a, 12);
                evening(k, k.not_long(1), a.x(0))
            },
        ),
        PENETRATION_0_3,
    ),
    row(
        "cdlgapsidesidewhite",
        &["CDLGAPSIDESIDEWHITE"],
        "Side-by-side white lines: after a gap two white candles of like size and equal open that leave it open (100 up, -100 down).",
        |a| {
            let k = Candles::new(a, 7);
            let size = k.within(k.body(0), k.body(1), NEAR, 1);
            let alike = all(k.white(1), &[k.white(0), size, k.within(k.o(0), k.o(1), EQUAL, 1)]);
            let up = all(alike, &[k.gap_up(1, 2), k.gap_up(0, 2)]);
            k.either(up, all(alike, &[k.gap_down(1, 2), k.gap_down(0, 2)]))
        },
    ),
    row(
        "cdlidentical3crows",
        &["CDLIDENTICAL3CROWS"],
        "Identical three crows: three falling black candles without lower shadows, each from the close before (-100).",
        |a| {
            let k = Candles::new(a, 12);
            let crow = |i: usize| k.black(i).and(k.no_lower(i));
            let from = |i: usize| k.within(k.o(i), k.c(i + 1), EQUAL, i + 1);
            let falling = k.c(2).gt(k.c(1)).and(k.c(1).gt(k.c(0)));
            k.when(-100.0, crow(2), &[crow(1), crow(0), falling, from(1), from(0)])
        },
    ),
    with_penetration(
        row(
            "cdlmorningdojistar",
            &["CDLMORNINGDOJISTAR"],
            "Morning doji star: a long black candle, a doji below it, and a long white candle back into its body, more than `penetration` of it (100).",
            |a| {
                let k = Candles::new(a, 12);
                morning(k, k.doji(1), a.x(0))
            },
        ),
        PENETRATION_0_3,
    ),
    with_penetration(
        row(
            "cdlmorningstar",
            &["CDLMORNINGSTAR"],
            "Morning star: a long black candle, a short body below it, and a long white candle back into its body, more than `penetration` of it (100).",
            |a| {
                let k = Candles::new(a, 12);
                morning(k, k.not_long(1), a.x(0))
            },
        ),
        PENETRATION_0_3,
    ),
    row(
        "cdlstalledpattern",
        &["CDLSTALLEDPATTERN"],
        "Stalled pattern: two long white candles, the second without an upper shadow and from within or near the first body, then a short white one at the upper end of the second (-100).",
        |a| {
            let k = Candles::new(a, 12);
            let rising = k.c(0).gt(k.c(1)).and(k.c(1).gt(k.c(2)));
            let opens = k.o(1).gt(k.o(2)).and(k.o(1).le(k.c(2) + k.limit(NEAR, 2)));
            let shoulder = k.o(0).ge(k.c(1) - k.body(0) - k.limit(NEAR, 1));
            let long = all(k.white(2), &[k.long(2), k.white(1), k.long(1), k.no_upper(1), opens]);
            k.when(-100.0, long, &[k.white(0), rising, k.short(0), shoulder])
        },
    ),
    row(
        "cdlsticksandwich",
        &["CDLSTICKSANDWICH"],
        "Stick sandwich: a white candle that trades above the first close between two black ones of equal close (100).",
        |a| {
            let k = Candles::new(a, 7);
            let bread = k.within(k.c(0), k.c(2), EQUAL, 2);
            k.when(100.0, k.black(2), &[k.white(1), k.black(0), k.l(1).gt(k.c(2)), bread])
        },
    ),
    row(
        "cdltasukigap",
        &["CDLTASUKIGAP"],
        "Tasuki gap: after a gap a candle in its direction, then one of like size against it that opens in the body before and closes in the gap without filling it (±100 by the gap).",
        |a| {
            let k = Candles::new(a, 7);
            let alike = (k.body(1) - k.body(0)).abs().lt(k.limit(NEAR, 1));
            let opens = k.o(0).lt(k.top(1)).and(k.o(0).gt(k.bottom(1)));
            let up = all(
                alike,
                &[k.gap_up(1, 2), k.white(1), k.black(0), opens, k.c(0).lt(k.o(1)), k.c(0).gt(k.top(2))],
            );
            let closes = k.c(0).gt(k.o(1)).and(k.c(0).lt(k.bottom(2)));
            k.either(up, all(alike, &[k.gap_down(1, 2), k.black(1), k.white(0), opens, closes]))
        },
    ),
    row(
        "cdltristar",
        &["CDLTRISTAR"],
        "Tristar: three doji, the second beyond the first with a gap and the third back from it (100 at the bottom, -100 at the top). One threshold, the first candle's, serves all three.",
        |a| {
            let k = Candles::new(a, 12);
            let limit = k.doji_limit(2);
            let doji = |i: usize| k.body(i).le(limit);
            let three = all(doji(2), &[doji(1), doji(0)]);
            let bottom = all(three, &[k.gap_down(1, 2), k.bottom(0).gt(k.bottom(1))]);
            k.either(bottom, all(three, &[k.gap_up(1, 2), k.top(0).lt(k.top(1))]))
        },
    ),
    row(
        "cdlunique3river",
        &["CDLUNIQUE3RIVER"],
        "Unique three river: a long black candle, a black body inside it with a lower low, and a short white one that opens above that low (100).",
        |a| {
            let k = Candles::new(a, 12);
            let harami = all(k.black(1), &[k.c(1).gt(k.c(2)), k.o(1).le(k.o(2)), k.l(1).lt(k.l(2))]);
            k.when(100.0, k.black(2), &[k.long(2), harami, k.white(0), k.short(0), k.o(0).gt(k.l(1))])
        },
    ),
    row(
        "cdlupsidegap2crows",
        &["CDLUPSIDEGAP2CROWS"],
        "Upside gap two crows: a long white candle, a short black one above it, and a black one around that body that still closes above the first (-100).",
        |a| {
            let k = Candles::new(a, 12);
            let second = all(k.black(1), &[k.not_long(1), k.gap_up(1, 2)]);
            let third = all(k.black(0), &[k.o(0).gt(k.o(1)), k.c(0).lt(k.c(1)), k.c(0).gt(k.c(2))]);
            k.when(-100.0, k.white(2), &[k.long(2), second, third])
        },
    ),
    row(
        "cdlxsidegap3methods",
        &["CDLXSIDEGAP3METHODS"],
        "Gap three methods: two candles of one colour with a gap in its direction, and one of the other colour that opens in the second body and closes in the first (±100 by the first).",
        |a| {
            let k = Candles::new(a, 2);
            let opens = k.o(0).lt(k.top(1)).and(k.o(0).gt(k.bottom(1)));
            let closes = k.c(0).lt(k.top(2)).and(k.c(0).gt(k.bottom(2)));
            let up = all(k.white(2), &[k.white(1), k.black(0), opens, closes, k.gap_up(1, 2)]);
            k.either(up, all(k.black(2), &[k.black(1), k.white(0), opens, closes, k.gap_down(1, 2)]))
        },
    ),
];
