//! One price from the prices of a bar.

use super::{Group, Indicator};
use crate::graph::{Expr, Field, GraphBuilder};

const BASE: Indicator = Indicator { group: Group::Price, ..Indicator::BASE };
const OHLC: &[Field] = &[Field::Open, Field::High, Field::Low, Field::Close];

/// High, low and close, in equal parts.
pub(super) fn typical(bars: GraphBuilder<'_>) -> Expr<'_> {
    (bars.high() + bars.low() + bars.close()) / 3.0
}

/// The middle of high and low.
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
        doc: "Heikin-Ashi candles: the close is the bar's average price, the open the middle of the candle before (at the first bar \
              the middle of open and close), high and low reach around both.",
        build: |a| {
            let bars = a.bars;
            let close = (bars.open() + bars.high() + bars.low() + bars.close()) / 4.0;
            let first = (bars.open() + bars.close()) / 2.0;
            // The next bar's open is half way from this one's to the close.
            let next = close.adaptive_ema(bars.constant(0.5), first);
            let open = next.shift(1).fill_warmup(first);
            vec![open, bars.high().max(open).max(close), bars.low().min(open).min(close), close]
        },
        ..BASE
    },
];
