//! One-candle patterns: doji, hammer, marubozu, shooting star, spinning top and others (some also test the previous candle).

use super::{
    super::Indicator,
    candle::{Candles, NEAR, all},
    row,
};

pub(super) const ROWS: &[Indicator] = &[
    row(
        "cdlbelthold",
        &["CDLBELTHOLD"],
        "Belt hold: a long candle that opens at its extreme: white without a lower shadow (100), black without an upper one (-100).",
        |a| {
            let k = Candles::new(a, 10);
            let long = k.long(0);
            k.either(all(long, &[k.white(0), k.no_lower(0)]), all(long, &[k.black(0), k.no_upper(0)]))
        },
    ),
    row(
        "cdlclosingmarubozu",
        &["CDLCLOSINGMARUBOZU"],
        "Closing marubozu: a long candle that closes at its extreme: white without an upper shadow (100), black without a lower one (-100).",
        |a| {
            let k = Candles::new(a, 10);
            let long = k.long(0);
            k.either(all(long, &[k.white(0), k.no_upper(0)]), all(long, &[k.black(0), k.no_lower(0)]))
        },
    ),
    row(
        "cdldoji",
        &["CDLDOJI"],
        "Doji: open and close nearly equal, within a tenth of the mean range of the 10 candles before (100).",
        |a| {
            let k = Candles::new(a, 10);
            k.when(100.0, k.doji(0), &[])
        },
    ),
    row(
        "cdldragonflydoji",
        &["CDLDRAGONFLYDOJI"],
        "Dragonfly doji: a doji at its high, with a lower shadow (100).",
        |a| {
            let k = Candles::new(a, 10);
            k.when(100.0, k.doji(0), &[k.no_upper(0), k.has_lower(0)])
        },
    ),
    row(
        "cdlgravestonedoji",
        &["CDLGRAVESTONEDOJI"],
        "Gravestone doji: a doji at its low, with an upper shadow (100).",
        |a| {
            let k = Candles::new(a, 10);
            k.when(100.0, k.doji(0), &[k.no_lower(0), k.has_upper(0)])
        },
    ),
    row(
        "cdlhammer",
        &["CDLHAMMER"],
        "Hammer: a short body over a long lower shadow, no upper shadow, and the body below or near the previous low (100).",
        |a| {
            let k = Candles::new(a, 11);
            let low = k.bottom(0).le(k.l(1) + k.limit(NEAR, 1));
            k.when(100.0, k.short(0), &[k.long_lower(0), k.no_upper(0), low])
        },
    ),
    row(
        "cdlhangingman",
        &["CDLHANGINGMAN"],
        "Hanging man: a hammer whose body lies above or near the previous high (-100).",
        |a| {
            let k = Candles::new(a, 11);
            let high = k.bottom(0).ge(k.h(1) - k.limit(NEAR, 1));
            k.when(-100.0, k.short(0), &[k.long_lower(0), k.no_upper(0), high])
        },
    ),
    row(
        "cdlhighwave",
        &["CDLHIGHWAVE"],
        "High wave: a short body between two shadows of more than twice its length (±100 by colour).",
        |a| {
            let k = Candles::new(a, 10);
            k.colored(0, k.short(0), &[k.very_long_upper(0), k.very_long_lower(0)])
        },
    ),
    row(
        "cdlinvertedhammer",
        &["CDLINVERTEDHAMMER"],
        "Inverted hammer: a short body under a long upper shadow, no lower shadow, gapping below the previous body (100).",
        |a| {
            let k = Candles::new(a, 11);
            k.when(100.0, k.gap_down(0, 1), &[k.short(0), k.long_upper(0), k.no_lower(0)])
        },
    ),
    row(
        "cdllongleggeddoji",
        &["CDLLONGLEGGEDDOJI"],
        "Long-legged doji: a doji with a long shadow on one side at least (100).",
        |a| {
            let k = Candles::new(a, 10);
            k.when(100.0, k.doji(0), &[k.long_lower(0).or(k.long_upper(0))])
        },
    ),
    row(
        "cdllongline",
        &["CDLLONGLINE"],
        "Long line: a long body with two short shadows (±100 by colour).",
        |a| {
            let k = Candles::new(a, 10);
            k.colored(0, k.long(0), &[k.short_upper(0), k.short_lower(0)])
        },
    ),
    row("cdlmarubozu", &["CDLMARUBOZU"], "Marubozu: a long body without shadows (±100 by colour).", |a| {
        let k = Candles::new(a, 10);
        k.colored(0, k.long(0), &[k.no_upper(0), k.no_lower(0)])
    }),
    row(
        "cdlrickshawman",
        &["CDLRICKSHAWMAN"],
        "Rickshaw man: a doji with two long shadows whose body is near the middle of its range (100).",
        |a| {
            let k = Candles::new(a, 10);
            let middle = k.l(0) + (k.h(0) - k.l(0)) / 2.0;
            let near = k.limit(NEAR, 0);
            let centred = k.bottom(0).le(middle + near).and(k.top(0).ge(middle - near));
            k.when(100.0, k.doji(0), &[k.long_lower(0), k.long_upper(0), centred])
        },
    ),
    row(
        "cdlshootingstar",
        &["CDLSHOOTINGSTAR"],
        "Shooting star: a short body under a long upper shadow, no lower shadow, gapping above the previous body (-100).",
        |a| {
            let k = Candles::new(a, 11);
            k.when(-100.0, k.gap_up(0, 1), &[k.short(0), k.long_upper(0), k.no_lower(0)])
        },
    ),
    row(
        "cdlshortline",
        &["CDLSHORTLINE"],
        "Short line: a short body with two short shadows (±100 by colour).",
        |a| {
            let k = Candles::new(a, 10);
            k.colored(0, k.short(0), &[k.short_upper(0), k.short_lower(0)])
        },
    ),
    row(
        "cdlspinningtop",
        &["CDLSPINNINGTOP"],
        "Spinning top: a short body between two shadows longer than it (±100 by colour).",
        |a| {
            let k = Candles::new(a, 10);
            k.colored(0, k.upper(0).gt(k.body(0)), &[k.lower(0).gt(k.body(0)), k.short(0)])
        },
    ),
    row(
        "cdltakuri",
        &["CDLTAKURI"],
        "Takuri: a dragonfly doji with a lower shadow of more than twice its body (100).",
        |a| {
            let k = Candles::new(a, 10);
            k.when(100.0, k.doji(0), &[k.no_upper(0), k.very_long_lower(0)])
        },
    ),
];
