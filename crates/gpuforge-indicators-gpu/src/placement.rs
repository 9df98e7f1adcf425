//! Column placement by f32 precision: every column that can be lowered may run on a device, except the CPU-only indicators
//! below, whose f32 error exceeds the tolerance.
//!
//! **Tolerance** against the CPU's f64, on prices in whole ticks and relative to the column's largest magnitude: within
//! [`MAX_ERROR`] at every bar, within [`TYPICAL_ERROR`] at [`TYPICAL_SHARE`] of them. Candlestick patterns and counts are
//! exact. `tests/parity.rs` checks every indicator.

use gpuforge_indicators::{
    graph::{Graph, ValueId},
    select::SelectItem,
};

use crate::lower;

/// Maximum error of a value, relative to the largest magnitude of its column.
pub const MAX_ERROR: f64 = 1e-4;
/// Error bound of most values.
pub const TYPICAL_ERROR: f64 = 1e-5;
/// Fraction of values within [`TYPICAL_ERROR`].
pub const TYPICAL_SHARE: f64 = 0.999;

/// Where a column is computed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ColumnPlacement {
    /// Name of the column.
    pub column: String,
    /// May it run on a device?
    pub on_device: bool,
    /// Why not.
    pub reason: Option<&'static str>,
}

const DIFFERENCE: &str =
    "a difference of averages that can be next to nothing: f32 keeps too few digits of them";
const RATIO: &str = "a ratio of numbers that can both be next to nothing: f32 keeps too few digits of them";
const PHASE: &str = "its own phase is fed back, and what f32 rounds off grows";
const OVERFLOW: &str = "its values are too large for f32";
const UNKNOWN: &str = "no kernel computes what it rests on, or its window is longer than a device may loop";

/// Indicators that run on the CPU only, with the reason.
pub const CPU_ONLY: &[(&str, &str)] = &[
    ("ac", DIFFERENCE),
    ("macd", DIFFERENCE),
    ("macdext", DIFFERENCE),
    ("macdfix", DIFFERENCE),
    ("stc", DIFFERENCE),
    ("trix", DIFFERENCE),
    ("trixh", DIFFERENCE),
    ("vwmacd", DIFFERENCE),
    ("wavetrend", DIFFERENCE),
    ("beta", RATIO),
    ("cci", RATIO),
    ("percentb", RATIO),
    ("stochrsi", RATIO),
    ("tan", RATIO),
    ("ht_dcperiod", PHASE),
    ("ht_dcphase", PHASE),
    ("ht_phasor", PHASE),
    ("ht_sine", PHASE),
    ("ht_trendline", PHASE),
    ("ht_trendmode", PHASE),
    ("mama", PHASE),
    ("cosh", OVERFLOW),
    ("exp", OVERFLOW),
    ("sinh", OVERFLOW),
];

/// Why an indicator runs on the CPU only.
pub fn cpu_only_reason(name: &str) -> Option<&'static str> {
    CPU_ONLY.iter().find(|(listed, _)| *listed == name).map(|(_, why)| *why)
}

/// Placement of every column; `graph`, `values` and `columns` are those of [`gpuforge_indicators::select::graph`].
pub fn place_columns(
    wanted: &[SelectItem],
    graph: &Graph,
    values: &[ValueId],
    columns: &[String],
) -> Vec<ColumnPlacement> {
    let fits = lower::fits(graph, values);
    let owner = |column: &String| {
        wanted.iter().find_map(|w| match w {
            SelectItem::Instance(i) if w.columns().contains(column) => Some(i.row.name),
            _ => None,
        })
    };
    let placed = |(column, fits): (&String, bool)| {
        let listed = owner(column).and_then(cpu_only_reason);
        let reason = listed.or((!fits).then_some(UNKNOWN));
        ColumnPlacement { column: column.clone(), on_device: reason.is_none(), reason }
    };
    columns.iter().zip(fits).map(placed).collect()
}
