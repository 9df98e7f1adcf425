//! Reference implementations: one per row that TA-Lib does not have, in tables by group.
//!
//! A reference is plain loops over whole columns, written from the published definition; group-specific tests are beside it.

mod cycle;
mod momentum;
mod overlap;
mod statistics;
pub(crate) mod talib_precision;
mod trend;
mod volatility;
mod volume;
mod vwap;

use crate::columns::Reference;

/// Every table.
const TABLES: [&[(&str, Reference)]; 8] = [
    overlap::REFERENCES,
    momentum::REFERENCES,
    trend::REFERENCES,
    volatility::REFERENCES,
    volume::REFERENCES,
    statistics::REFERENCES,
    cycle::REFERENCES,
    vwap::REFERENCES,
];

/// Every reference with its row name.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Reference)> {
    TABLES.into_iter().flatten().copied()
}

/// The reference of a row.
pub(crate) fn find(name: &str) -> Option<Reference> {
    all().find(|(known, _)| *known == name).map(|(_, reference)| reference)
}
