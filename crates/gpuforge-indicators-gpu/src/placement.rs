//! Which columns are computed on a device, and what may they be off by? Everything that the lowering knows, except the rows
//! below: what f32 makes of them is not within the tolerance.
//!
//! **Tolerance**, against the processor's f64 on prices in whole ticks: within [`MAX_ERROR`] of the column's scale (its largest
//! magnitude) at every bar, within [`TYPICAL_ERROR`] at [`TYPICAL_SHARE`] of them. Candlesticks and counts are the same. `tests/parity.rs`
//! holds every row to it.

use gpuforge_indicators::{
    graph::{Graph, ValueId},
    select::SelectItem,
};

use crate::lower;

/// The most that a value may be off by, as a share of its column's scale.
pub const MAX_ERROR: f64 = 1e-4;
/// What most are within.
pub const TYPICAL_ERROR: f64 = 1e-5;
/// How many are.
pub const TYPICAL_SHARE: f64 = 0.999;

/// Where a column is computed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ColumnPlacement {
    /// Its name.
    pub column: String,
    /// On a device, unless something else speaks against it?
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

/// Rows that stay on the processor.
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

/// Why a row stays on the processor.
pub fn cpu_only_reason(row: &str) -> Option<&'static str> {
    CPU_ONLY.iter().find(|(name, _)| *name == row).map(|(_, why)| *why)
}

/// Where every column of what is wanted belongs; in the order of [`gpuforge_indicators::select::graph`], whose results the
/// others are.
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
