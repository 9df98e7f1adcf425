//! Which plain reference belongs to which row? Every row that TA-Lib does not have is in one of these tables.
//!
//! A reference is loops over whole columns, written from the definition; what else a family promises is tested beside it.

mod cycle;
pub(crate) mod loses;
mod momentum;
mod overlap;
mod statistics;
mod trend;
mod volatility;
mod volume;
mod vwap;

use crate::plain::Reference;

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

/// Every reference with the name of its row.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Reference)> {
    TABLES.into_iter().flatten().copied()
}

/// The reference of a row.
pub(crate) fn find(name: &str) -> Option<Reference> {
    all().find(|(known, _)| *known == name).map(|(_, reference)| reference)
}
