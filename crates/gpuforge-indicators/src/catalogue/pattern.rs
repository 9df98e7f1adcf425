//! Which candlestick patterns are there? One row each, written as the conditions that its candles meet.
//!
//! Candles are counted back from the newest, 0. What is long, short, near or equal is measured by the candles before, with
//! TA-Lib's default settings; equal cases fall as they do there, to the last bit (`candle.rs`).

mod candle;
mod five;
mod hikkake;
mod one;
mod three;
mod two;

use super::{Build, Group, Indicator, IndicatorKind, Param, real};
use crate::graph::Field;

/// Patterns by the number of their candles, then those with a memory.
pub(super) const ONE: &[Indicator] = one::ROWS;
pub(super) const TWO: &[Indicator] = two::ROWS;
pub(super) const THREE: &[Indicator] = three::ROWS;
pub(super) const FIVE: &[Indicator] = five::ROWS;
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

/// A row whose only parameter is how deep a candle reaches into the body of an earlier one, as a share of that body.
const fn deep(row: Indicator, penetration: &'static [Param]) -> Indicator {
    Indicator { params: penetration, ..row }
}

const THIRD: &[Param] = &[real("penetration", 0.3, 0.0, 1e6)];
const HALF: &[Param] = &[real("penetration", 0.5, 0.0, 1e6)];
