//! Candlestick patterns: the 61 CDL functions of TA-Lib, each a conjunction of candle conditions.
//!
//! Candles are counted back from the newest, 0. Long, short, near and equal are relative to averages of earlier candles, with
//! TA-Lib's default candle settings; ties are decided as TA-Lib does, to the last bit (`candle.rs`).

mod candle;
mod five_candles;
mod hikkake;
mod one_candle;
mod three_candles;
mod two_candles;

use super::{Build, Group, Indicator, IndicatorKind, Param, real};
use crate::graph::Field;

/// Patterns by the number of their candles, then the stateful ones.
pub(super) const ONE: &[Indicator] = one_candle::ROWS;
pub(super) const TWO: &[Indicator] = two_candles::ROWS;
pub(super) const THREE: &[Indicator] = three_candles::ROWS;
pub(super) const FIVE: &[Indicator] = five_candles::ROWS;
pub(super) const HIKKAKE: &[Indicator] = hikkake::ROWS;

const BASE: Indicator = Indicator {
    group: Group::Pattern,
    kind: IndicatorKind::Candlestick,
    inputs: &[Field::Open, Field::High, Field::Low, Field::Close],
    outputs: &["signal"],
    ..Indicator::BASE
};

/// A row without parameters.
const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    doc: &'static str,
    build: Build,
) -> Indicator {
    Indicator { name, aliases, doc, build, ..BASE }
}

/// A row with the `penetration` parameter: how deep a candle reaches into an earlier body, as a fraction of that body.
const fn with_penetration(row: Indicator, penetration: &'static [Param]) -> Indicator {
    Indicator { params: penetration, ..row }
}

const PENETRATION_0_3: &[Param] = &[real("penetration", 0.3, 0.0, 1e6)];
const PENETRATION_0_5: &[Param] = &[real("penetration", 0.5, 0.0, 1e6)];
