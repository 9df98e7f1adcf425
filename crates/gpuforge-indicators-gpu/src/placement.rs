//! Column placement by f32 precision: every column that can be lowered may run on a device, unless the bound of its rounding
//! error ([`crate::conditioning`]) exceeds the tolerance.
//!
//! **Tolerance** against the CPU's f64, on prices in whole ticks and relative to the column's largest magnitude: within
//! [`MAX_ERROR`] at every bar, within [`TYPICAL_ERROR`] at [`TYPICAL_SHARE`] of them. Candlestick patterns and counts are
//! exact. `tests/parity.rs` checks every indicator.

use gpuforge_indicators::graph::{Graph, ValueId};

use crate::{
    conditioning::{self, Conditioning},
    lower,
};

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

/// No kernel for it, or a window beyond the iteration limit.
pub(crate) const UNKNOWN: &str =
    "no kernel computes what it rests on, or its window is longer than a device may loop";

/// Placement of every column; `graph`, `values` and `columns` are those of [`gpuforge_indicators::select::graph`].
pub fn place_columns(graph: &Graph, values: &[ValueId], columns: &[String]) -> Vec<ColumnPlacement> {
    let fits = lower::fits(graph, values);
    let known = conditioning::analyse(graph);
    let of = |v: &ValueId| known.get(v.node as usize).and_then(|ports| ports.get(v.port as usize));
    let placed = |((column, value), fits): ((&String, &ValueId), bool)| {
        let reason = if fits { of(value).and_then(Conditioning::refusal) } else { Some(UNKNOWN) };
        ColumnPlacement { column: column.clone(), on_device: reason.is_none(), reason }
    };
    columns.iter().zip(values).zip(fits).map(placed).collect()
}
