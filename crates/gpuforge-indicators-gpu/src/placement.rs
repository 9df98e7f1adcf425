//! Column placement by f32 precision: every column that can be lowered may run on a device, unless the bound of its rounding
//! error ([`crate::conditioning`]) exceeds the tolerance.
//!
//! **Tolerance** against the CPU's f64, on prices in whole ticks and relative to the column's largest magnitude: within
//! [`MAX_ERROR`] at every bar, within [`TYPICAL_ERROR`] at [`TYPICAL_SHARE`] of them. Candlestick patterns and counts are
//! exact. `tests/parity.rs` checks every indicator; `executor/verify.rs` checks every plan on a sample of its data.

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

/// Error of device columns against the CPU's, relative to the largest magnitude of each.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ColumnError {
    /// Largest error; infinite where one side is NaN or infinite and the other is not.
    pub largest: f64,
    /// Values above [`TYPICAL_ERROR`], divided by the margin.
    pub above_typical: usize,
    /// All values.
    pub values: usize,
}

impl ColumnError {
    /// Of several series of a column.
    pub fn sum(each: &[ColumnError]) -> ColumnError {
        each.iter().fold(ColumnError::default(), |a, b| ColumnError {
            largest: a.largest.max(b.largest),
            above_typical: a.above_typical + b.above_typical,
            values: a.values + b.values,
        })
    }

    /// Is it within the tolerance divided by `margin`?
    pub fn is_within(&self, margin: f64) -> bool {
        let allowed = ((1.0 - TYPICAL_SHARE) * self.values as f64) as usize;
        self.largest <= MAX_ERROR / margin && self.above_typical <= allowed
    }
}

/// Error of a column of one series, to be compared with the tolerance divided by `margin`.
pub fn column_error(got: &[f64], want: &[f64], margin: f64) -> ColumnError {
    let finite = want.iter().filter(|x| x.is_finite());
    let scale = finite.fold(0.0_f64, |most, x| most.max(x.abs())).max(f64::MIN_POSITIVE);
    let off = |(g, w): (&f64, &f64)| match () {
        () if g == w || (g.is_nan() && w.is_nan()) => 0.0,
        () if !g.is_finite() || !w.is_finite() => f64::INFINITY,
        () => (g - w).abs() / scale,
    };
    let none = ColumnError { values: want.len(), ..ColumnError::default() };
    got.iter().zip(want).map(off).fold(none, |all, error| ColumnError {
        largest: all.largest.max(error),
        above_typical: all.above_typical + usize::from(error > TYPICAL_ERROR / margin),
        ..all
    })
}

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

/// Beyond the tolerance when a device computed a sample of it.
pub const MEASURED: &str = "f32 was beyond the tolerance on a sample of the bars";
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
