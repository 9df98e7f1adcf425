//! Four- and five-candle patterns: three black crows, breakaway, mat hold, three methods and others. 0 is the last.

use super::{
    super::Indicator,
    PENETRATION_0_5,
    candle::{Candles, NEAR, all},
    row, with_penetration,
};

pub(super) const ROWS: &[Indicator] = &[
    row(
        "cdl3blackcrows",
        &["CDL3BLACKCROWS"],
        "Three black crows: after a white candle three falling black ones without lower shadows, each from within the body before, the first closing below the white one's high (-100).",
        |a| {
            let k = Candles::new(a, 13);
            let crow = |i: usize| k.black(i).and(k.no_lower(i));
            let from = |i: usize| k.o(i).lt(k.o(i + 1)).and(k.o(i).gt(k.c(i + 1)));
            let falling = all(k.h(3).gt(k.c(2)), &[k.c(2).gt(k.c(1)), k.c(1).gt(k.c(0))]);
            k.when(-100.0, k.white(3), &[crow(2), crow(1), crow(0), from(1), from(0), falling])
        },
    ),
    row(
        "cdl3linestrike",
        &["CDL3LINESTRIKE"],
        "Three-line strike: three candles of one colour moving on, each from within or near the body before, and a fourth of the other colour that takes all of it back (±100 by the three).",
        |a| {
            let k = Candles::new(a, 8);
            let from = |i: usize| {
                let near = k.limit(NEAR, i + 1);
                k.o(i).ge(k.bottom(i + 1) - near).and(k.o(i).le(k.top(i + 1) + near))
            };
            let opens = from(2).and(from(1));
            let strike_down = k.o(0).gt(k.c(1)).and(k.c(0).lt(k.o(3)));
            let strike_up = k.o(0).lt(k.c(1)).and(k.c(0).gt(k.o(3)));
            let white =
                all(k.white(3), &[k.white(2), k.white(1), k.black(0), k.c(1).gt(k.c(2)), k.c(2).gt(k.c(3))]);
            let black =
                all(k.black(3), &[k.black(2), k.black(1), k.white(0), k.c(1).lt(k.c(2)), k.c(2).lt(k.c(3))]);
            k.either(all(white, &[opens, strike_down]), all(black, &[opens, strike_up]))
        },
    ),
    row(
        "cdlbreakaway",
        &["CDLBREAKAWAY"],
        "Breakaway: a long candle, a gap in its direction, two more candles that way, and a fifth of the other colour that closes in the gap (±100 by the fifth).",
        |a| {
            let k = Candles::new(a, 14);
            let lower = |i: usize| k.h(i).lt(k.h(i + 1)).and(k.l(i).lt(k.l(i + 1)));
            let higher = |i: usize| k.h(i).gt(k.h(i + 1)).and(k.l(i).gt(k.l(i + 1)));
            let up = k.c(0).gt(k.o(3)).and(k.c(0).lt(k.c(4)));
            let down = k.c(0).lt(k.o(3)).and(k.c(0).gt(k.c(4)));
            let black = all(
                k.black(4),
                &[k.black(3), k.black(1), k.white(0), k.gap_down(3, 4), lower(2), lower(1), up],
            );
            let white = all(
                k.white(4),
                &[k.white(3), k.white(1), k.black(0), k.gap_up(3, 4), higher(2), higher(1), down],
            );
            k.either(k.long(4).and(black), k.long(4).and(white))
        },
    ),
    row(
        "cdlconcealbabyswall",
        &["CDLCONCEALBABYSWALL"],
        "Concealing baby swallow: two black candles without shadows, a black one below that reaches back into the second body, and a black one around its whole range (100).",
        |a| {
            let k = Candles::new(a, 13);
            let bare = |i: usize| all(k.black(i), &[k.no_lower(i), k.no_upper(i)]);
            let third = all(k.black(1), &[k.gap_down(1, 2), k.has_upper(1), k.h(1).gt(k.c(2))]);
            let around = k.h(0).gt(k.h(1)).and(k.l(0).lt(k.l(1)));
            k.when(100.0, bare(3), &[bare(2), third, k.black(0), around])
        },
    ),
    row(
        "cdlladderbottom",
        &["CDLLADDERBOTTOM"],
        "Ladder bottom: three black candles of falling opens and closes, a black one with an upper shadow, and a white one from above its body that closes above its high (100).",
        |a| {
            let k = Candles::new(a, 14);
            let opens = k.o(4).gt(k.o(3)).and(k.o(3).gt(k.o(2)));
            let closes = k.c(4).gt(k.c(3)).and(k.c(3).gt(k.c(2)));
            let ladder = all(k.black(4), &[k.black(3), k.black(2), opens, closes]);
            let fourth = k.black(1).and(k.has_upper(1));
            k.when(100.0, ladder, &[fourth, k.white(0), k.o(0).gt(k.o(1)), k.c(0).gt(k.h(1))])
        },
    ),
    with_penetration(
        row(
            "cdlmathold",
            &["CDLMATHOLD"],
            "Mat hold: a long white candle, a short black one above it, two short falling ones that take back less than `penetration` of the first body, and a white one that closes above all three (100).",
            |a| {
                let k = Candles::new(a, 14);
                let floor = k.c(4) - k.body(4) * a.x(0);
                let holds = |i: usize| all(k.bottom(i).lt(k.c(4)), &[k.bottom(i).gt(floor), k.short(i)]);
                let falling = k.top(2).lt(k.o(3)).and(k.top(1).lt(k.top(2)));
                let second = all(k.black(3), &[k.short(3), k.gap_up(3, 4)]);
                let last = all(k.white(0), &[k.o(0).gt(k.c(1)), k.c(0).gt(k.h(3).max(k.h(2)).max(k.h(1)))]);
                k.when(100.0, k.white(4), &[k.long(4), second, holds(2), holds(1), falling, last])
            },
        ),
        PENETRATION_0_5,
    ),
    row(
        "cdlrisefall3methods",
        &["CDLRISEFALL3METHODS"],
        "Rising or falling three methods: a long candle, three short ones against it that stay in its range, and a long one that carries on beyond its close (±100 by the first).",
        |a| {
            let k = Candles::new(a, 14);
            let rests = |i: usize| all(k.bottom(i).lt(k.h(4)), &[k.top(i).gt(k.l(4)), k.short(i)]);
            let sizes = all(k.long(4), &[rests(3), rests(2), rests(1), k.long(0)]);
            let down = all(k.c(2).lt(k.c(3)), &[k.c(1).lt(k.c(2)), k.o(0).gt(k.c(1)), k.c(0).gt(k.c(4))]);
            let up = all(k.c(2).gt(k.c(3)), &[k.c(1).gt(k.c(2)), k.o(0).lt(k.c(1)), k.c(0).lt(k.c(4))]);
            let rising = all(k.white(4), &[k.black(3), k.black(2), k.black(1), k.white(0), down]);
            let falling = all(k.black(4), &[k.white(3), k.white(2), k.white(1), k.black(0), up]);
            k.either(sizes.and(rising), sizes.and(falling))
        },
    ),
];
