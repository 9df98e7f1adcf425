//! Price transforms: average, median, typical, weighted close, Heikin-Ashi.

use super::{Group, Indicator};
use crate::graph::{Expr, Field, GraphBuilder};

const BASE: Indicator = Indicator { group: Group::Price, ..Indicator::BASE };
const OHLC: &[Field] = &[Field::Open, Field::High, Field::Low, Field::Close];

/// Typical price (HLC3).
pub(super) fn typical(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low() + bars.close()) / 3.0
}

/// Median price (HL2).
pub(super) fn median(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low()) / 2.0
}

pub(super) const ROWS: &[Indicator] = &[
    Indicator {
        name: "avgprice",
        aliases: &["AVGPRICE", "ohlc4"],
        inputs: OHLC,
        doc: "Average price: (open + high + low + close) / 4.",
        build: |a| vec![(a.bars.high() + a.bars.low() + a.bars.close() + a.bars.open()) / 4.0],
        ..BASE
    },
    Indicator {
        name: "medprice",
        aliases: &["MEDPRICE", "hl2"],
        inputs: &[Field::High, Field::Low],
        doc: "Median price: (high + low) / 2.",
        build: |a| vec![median(a.bars)],
        ..BASE
    },
    Indicator {
        name: "typprice",
        aliases: &["TYPPRICE", "hlc3"],
        inputs: &[Field::High, Field::Low, Field::Close],
        doc: "Typical price: (high + low + close) / 3.",
        build: |a| vec![typical(a.bars)],
        ..BASE
    },
    Indicator {
        name: "wclprice",
        aliases: &["WCLPRICE", "wcp"],
        inputs: &[Field::High, Field::Low, Field::Close],
        doc: "Weighted close: (high + low + 2 close) / 4.",
        build: |a| vec![(a.bars.high() + a.bars.low() + a.bars.close() * 2.0) / 4.0],
        ..BASE
    },
    Indicator {
        name: "ha",
        aliases: &["HA", "heikin_ashi"],
        inputs: OHLC,
        outputs: &["open", "high", "low", "close"],
        doc: "Heikin-Ashi candles: the close is the bar's average price, the open the midpoint of the previous \
              candle's open and close (at the first bar of its own open and close), high and low are the max and \
              min including both.",
        build: |a| {
            let bars = a.bars;
            let close = (bars.open() + bars.high() + bars.low() + bars.close()) / 4.0;
            let first = (bars.open() + bars.close()) / 2.0;
            // The next bar's open is the midpoint of this one's open and close.
            let next = close.adaptive_ema(bars.constant(0.5), first);
            let open = next.shift(1).fill_warmup(first);
            vec![open, bars.high().max(open).max(close), bars.low().min(open).min(close), close]
        },
        ..BASE
    },
];
