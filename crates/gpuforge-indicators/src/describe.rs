//! What is there to choose from, as data? Rows of the catalogue, and what a selection would write, for programs and people.
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
    select::{Instance, SelectItem, plan},
};

/// A row, or one thing that was selected. Field names are a contract with programs: they are added to, never changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndicatorInfo {
    /// Name of the row; of an expression, its name.
    pub name: String,
    /// Other names; TA-Lib's first where it has the function.
    pub aliases: &'static [&'static str],
    /// Where it belongs; nothing for an expression.
    pub group: Option<Group>,
    /// Parameters, in order.
    pub params: Vec<ParameterInfo>,
    /// Columns of the bars that it reads.
    pub inputs: Vec<Field>,
    /// Outputs, in TA-Lib's order where it has the function. Of something that was selected: exactly the columns that are
    /// written for it.
    pub outputs: Vec<OutputInfo>,
    /// The first bar at which all outputs are computed: before it they are NaN.
    pub lookback: usize,
    /// Does no value depend on a later bar?
    pub causal: bool,
    /// What it is compared with; nothing for an expression.
    pub oracle: Option<Oracle>,
    /// What it is.
    pub kind: InfoKind,
    /// What it means, with the formula; of an expression, its text.
    pub doc: String,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterInfo {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    #[serde(serialize_with = "plain")]
    pub default: f64,
    /// The least.
    #[serde(serialize_with = "plain")]
    pub min: f64,
    /// The greatest.
    #[serde(serialize_with = "plain")]
    pub max: f64,
    /// What it is in an instance that was selected; not there for a row.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "plain_option")]
    pub value: Option<f64>,
}

/// An output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutputInfo {
    /// Its name in the row.
    pub name: String,
    /// Its column; see [`crate::select::column`].
    pub column: String,
    /// Where its values lie: `{"min": 0, "max": 100}`, null for an end without a bound; not there where nothing bounds them.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "range")]
    pub range: Option<ValueRange>,
}

/// What a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoKind {
    /// A row.
    Row(IndicatorKind),
    /// An expression of the user's.
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

/// A whole number is written as one: `14`, not `14.0`.
fn plain<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
    // All whole numbers up to here are exact.
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
    /// An end; one that is infinite is none.
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

/// A row with its defaults.
pub fn row(row: &'static Indicator) -> IndicatorInfo {
    let mut described = instance(&Instance::of(row));
    described.params.iter_mut().for_each(|p| p.value = None);
    described
}

/// Every row, in the order of the catalogue.
pub fn all() -> Vec<IndicatorInfo> {
    catalogue::all().map(row).collect()
}

/// What a selection would compute. All outputs together are the columns that are written, in their order: a column that was
/// asked for twice is listed where it was first, and what would write nothing new is not listed.
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
        // A row states its inputs; with another source they are those of the source.
        inputs: if instance.source.is_some() { reads.inputs } else { row.inputs.to_vec() },
        outputs: instance.columns().into_iter().map(output).collect(),
        lookback: reads.lookback,
        causal: row.causal && reads.causal,
        oracle: Some(row.oracle),
        kind: InfoKind::Row(row.kind),
        doc: row.doc.to_owned(),
    }
}

/// What the plan of a thing says about it.
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
    // A column of the whole series is the only way to look ahead.
    Reads { inputs, lookback, causal: plan.whole_series.is_empty() }
}
