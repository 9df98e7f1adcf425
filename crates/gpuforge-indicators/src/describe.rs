//! Metadata (JSON) of catalogue rows and of selections: parameters, inputs, output columns, lookback, value ranges.
//!
//! ```
//! use gpuforge_indicators::{describe, select::Selector};
//!
//! let rsi = describe::row(gpuforge_indicators::catalogue::find("rsi").ok_or("no such row")?);
//! assert_eq!(rsi.outputs[0].column, "rsi_14");
//! assert_eq!((rsi.lookback, rsi.causal), (14, true));
//!
//! let wanted = Selector::new().select("macd(12,26,9).signal, close - sma(20)")?;
//! let described = describe::selection(&wanted);
//! assert_eq!(described[0].outputs[0].column, "macd_12_26_9_signal");
//! assert_eq!(serde_json::to_value(&described[1])?["kind"], "expression");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashSet;

use serde::{Serialize, Serializer};

use crate::{
    catalogue::{self, Group, Indicator, IndicatorKind, Oracle, ValueRange},
    graph::Field,
    select::{Instance, SelectItem, field_name, plan},
};

/// Metadata of a row or of a selected item. Field names are a stable contract: fields are added, never renamed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndicatorInfo {
    /// Name of the row or of the expression.
    pub name: String,
    /// Other names; TA-Lib's first where it has the function.
    pub aliases: &'static [&'static str],
    /// Group; none for an expression.
    pub group: Option<Group>,
    /// Parameters, in order.
    pub params: Vec<ParameterInfo>,
    /// Input columns.
    pub inputs: Vec<Field>,
    /// What `source=` replaces, in order: the default columns, or the selected sources; empty if it takes none.
    pub sources: Vec<String>,
    /// Outputs, in TA-Lib's order where it has the function. For a selected item: exactly the columns that are written.
    pub outputs: Vec<OutputInfo>,
    /// Lookback (warm-up): first bar at which all outputs are valid; NaN before it.
    pub lookback: usize,
    /// Does it never look ahead?
    pub causal: bool,
    /// Test oracle; none for an expression.
    pub oracle: Option<Oracle>,
    /// Kind of the item.
    pub kind: InfoKind,
    /// Description with formula; for an expression, its text.
    pub doc: String,
}

/// Metadata of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterInfo {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    #[serde(serialize_with = "plain")]
    pub default: f64,
    /// Lower bound.
    #[serde(serialize_with = "plain")]
    pub min: f64,
    /// Upper bound.
    #[serde(serialize_with = "plain")]
    pub max: f64,
    /// Its value in a selected instance; absent for a row.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain_option")]
    pub value: Option<f64>,
}

/// Metadata of an output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutputInfo {
    /// Its name in the row.
    pub name: String,
    /// Its column name; see [`crate::select::column`].
    pub column: String,
    /// Value range `{"min": 0, "max": 100}`, null for an unbounded end; absent if unbounded.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "range")]
    pub range: Option<ValueRange>,
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoKind {
    /// A catalogue row.
    Row(IndicatorKind),
    /// A user expression.
    Expression,
}

impl Serialize for InfoKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            InfoKind::Row(kind) => kind.serialize(to),
            InfoKind::Expression => to.serialize_str("expression"),
        }
    }
}

/// Serialises integral floats as integers: `14`, not `14.0`.
fn plain<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
    // Integers are exact up to 2^53.
    let whole = x.fract() == 0.0 && x.abs() < (1u64 << 53) as f64;
    if whole { to.serialize_i64(*x as i64) } else { to.serialize_f64(*x) }
}

fn plain_option<S: Serializer>(x: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match x {
        Some(x) => plain(x, to),
        None => to.serialize_none(),
    }
}

fn range<S: Serializer>(range: &Option<ValueRange>, to: S) -> Result<S::Ok, S::Error> {
    /// JSON form of a range; an infinite bound is null.
    #[derive(Serialize)]
    struct Ends {
        #[serde(serialize_with = "plain_option")]
        min: Option<f64>,
        #[serde(serialize_with = "plain_option")]
        max: Option<f64>,
    }
    let end = |x: f64| Some(x).filter(|x| x.is_finite());
    range.map(|ValueRange { min, max }| Ends { min: end(min), max: end(max) }).serialize(to)
}

/// Metadata of a row with default parameters.
pub fn row(row: &'static Indicator) -> IndicatorInfo {
    let mut described = instance(&Instance::of(row));
    described.params.iter_mut().for_each(|p| p.value = None);
    described
}

/// Metadata of every row, in catalogue order.
pub fn all() -> Vec<IndicatorInfo> {
    catalogue::all().map(row).collect()
}

/// Metadata of a selection. All outputs together are the columns that are written, in order: a column selected twice is listed
/// at its first occurrence, and an item that adds no column is omitted.
pub fn selection(wanted: &[SelectItem]) -> Vec<IndicatorInfo> {
    let mut written = HashSet::new();
    let mut described: Vec<IndicatorInfo> = wanted.iter().map(one).collect();
    for item in &mut described {
        item.outputs.retain(|output| written.insert(output.column.clone()));
    }
    described.retain(|item| !item.outputs.is_empty());
    described
}

fn one(wanted: &SelectItem) -> IndicatorInfo {
    match wanted {
        SelectItem::Instance(i) => instance(i),
        SelectItem::Expression(source) => {
            let reads = reads(wanted);
            IndicatorInfo {
                name: source.name.clone(),
                aliases: &[],
                group: None,
                params: Vec::new(),
                inputs: reads.inputs,
                sources: Vec::new(),
                outputs: vec![OutputInfo {
                    name: "value".to_owned(),
                    column: source.name.clone(),
                    range: source.expr.column_meta().0,
                }],
                lookback: reads.lookback,
                causal: reads.causal,
                oracle: None,
                kind: InfoKind::Expression,
                doc: source.text.clone(),
            }
        }
    }
}

fn instance(instance: &Instance) -> IndicatorInfo {
    let row = instance.row;
    let reads = reads(&SelectItem::Instance(instance.clone()));
    let parameter = |(p, value): (&catalogue::Param, &f64)| ParameterInfo {
        name: p.name,
        default: p.default,
        min: p.min,
        max: p.max,
        value: Some(*value),
    };
    let sources = if instance.sources.is_empty() {
        row.inputs.iter().take(row.n_sources()).copied().map(field_name).collect()
    } else {
        instance.sources.iter().map(|s| s.text.clone()).collect()
    };
    let output = |(at, column): (usize, String)| OutputInfo {
        name: row.outputs.get(at).copied().unwrap_or_default().to_owned(),
        column,
        range: instance.range(at),
    };
    IndicatorInfo {
        name: row.name.to_owned(),
        aliases: row.aliases,
        group: Some(row.group),
        params: row.params.iter().zip(&instance.params).map(parameter).collect(),
        // The row's inputs, or what the sources read if others were selected.
        inputs: if instance.sources.is_empty() { row.inputs.to_vec() } else { reads.inputs },
        sources,
        outputs: instance.columns().into_iter().map(output).collect(),
        lookback: reads.lookback,
        causal: row.causal && reads.causal,
        oracle: Some(row.oracle),
        kind: InfoKind::Row(row.kind),
        doc: row.doc.to_owned(),
    }
}

/// What the plan of an item says about it.
struct Reads {
    inputs: Vec<Field>,
    lookback: usize,
    causal: bool,
}

fn reads(wanted: &SelectItem) -> Reads {
    let plan = plan(std::slice::from_ref(wanted)).plan;
    let mut inputs: Vec<Field> = plan.fields().collect();
    inputs.sort_unstable();
    let lookback = plan.starts().iter().copied().max().unwrap_or(0);
    // Whole-series columns are the only way to look ahead.
    Reads { inputs, lookback, causal: plan.whole_series.is_empty() }
}
