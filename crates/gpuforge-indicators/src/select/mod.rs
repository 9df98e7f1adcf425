//! Selection language: text such as `rsi(14), macd(12,26,9).signal` to indicator instances, column names and one plan.
//!
//! | file | what is in it |
//! |---|---|
//! | `parse.rs` | recursive-descent parser: text to syntax tree |
//! | `resolve.rs` | [`Selector`]: name resolution, user definitions, parameter sweeps |
//! | `arguments.rs` | binding of arguments to parameters and sources |
//! | `sets.rs` | named sets, `set:NAME` |
//! | `mod.rs` | [`Instance`], [`SelectItem`], column names, [`plan`] |

use std::{cell::RefCell, collections::HashMap, fmt};

use crate::{
    catalogue::{self, BuildArgs, Indicator, IndicatorKind, ValueRange},
    graph::{Expr, Field, Graph, GraphBuilder, ValueId},
    plan::ExecPlan,
};

mod arguments;
mod parse;
mod resolve;
mod sets;

pub use crate::catalogue::Convention;
pub use resolve::Selector;
pub use sets::{IndicatorSet, SETS};

/// Error in a selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Syntax or name error at a position.
    #[error("{message}\n  {text}\n  {:>width$}", "^", width = at + 1)]
    At {
        /// What is wrong.
        message: String,
        /// The line.
        text: String,
        /// Where in it, in characters.
        at: usize,
    },
    /// Text too long.
    #[error("a selection of {bytes} bytes; at most {most} are read")]
    Long {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
}

impl SelectError {
    pub(crate) fn at(text: &str, at: usize, message: impl Into<String>) -> Self {
        SelectError::At { message: message.into(), text: text.replace(['\n', '\t', '\r'], " "), at }
    }
}

/// Source expression of an indicator, or a named expression.
#[derive(Clone)]
pub struct Source {
    /// Its name in column names.
    pub name: String,
    /// Its text as written.
    pub text: String,
    pub(crate) expr: std::sync::Arc<resolve::ResolvedExpr>,
}

impl Source {
    /// An input column.
    fn column(field: Field) -> Self {
        let name = field_name(field);
        let expr = std::sync::Arc::new(resolve::ResolvedExpr::Price(name.clone()));
        Source { text: name.clone(), name, expr }
    }
}

/// Name of an input column: `close`.
pub(crate) fn field_name(field: Field) -> String {
    format!("{field:?}").to_lowercase()
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A catalogue row with parameter values.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The row.
    pub row: &'static Indicator,
    /// Parameter values, one per parameter of the row.
    pub params: Vec<f64>,
    /// Selected output; `None` is all.
    pub output: Option<usize>,
    /// Sources that replace its input columns: none, or [`Indicator::n_sources`] of them.
    pub sources: Vec<Source>,
    /// Convention.
    pub convention: Convention,
}

impl Instance {
    /// A row with default parameters.
    pub fn of(row: &'static Indicator) -> Self {
        Instance {
            row,
            params: row.defaults(),
            output: None,
            sources: Vec::new(),
            convention: Convention::TaLib,
        }
    }

    /// A row with these parameters, the rest at their defaults.
    pub fn with(row: &'static Indicator, params: &[f64]) -> Self {
        let mut all = row.defaults();
        for (slot, x) in all.iter_mut().zip(params) {
            *slot = *x;
        }
        Instance { params: all, ..Instance::of(row) }
    }

    fn build<'g>(&self, bars: GraphBuilder<'g>) -> Vec<Expr<'g>> {
        let sources: Vec<Expr<'g>> = self.sources.iter().map(|s| s.expr.build(bars)).collect();
        (self.row.build)(&BuildArgs::new(bars, &self.params, &sources).by(self.convention))
    }

    /// Its columns: output index and column name.
    pub fn columns(&self) -> Vec<(usize, String)> {
        let wanted = |at: &usize| self.output.is_none_or(|o| o == *at);
        (0..self.row.outputs.len()).filter(wanted).map(|at| (at, column(self, at))).collect()
    }

    /// Value range of an output with these parameters and sources; `None` if unbounded.
    pub fn range(&self, output: usize) -> Option<ValueRange> {
        let holds = self.row.range_holds(&self.params, !self.sources.is_empty());
        self.row.range(output).filter(|_| holds)
    }

    /// Lookback: first bar at which all outputs are valid.
    pub fn lookback(&self) -> usize {
        let graph = RefCell::new(Graph::default());
        let outputs = self.build(GraphBuilder::new(&graph));
        outputs.iter().map(|x| x.start()).max().unwrap_or(0)
    }
}

/// One item of a selection: an indicator, or a named expression.
#[derive(Debug, Clone)]
pub enum SelectItem {
    /// An indicator.
    Instance(Instance),
    /// An expression.
    Expression(Source),
}

impl From<Instance> for SelectItem {
    fn from(instance: Instance) -> Self {
        SelectItem::Instance(instance)
    }
}

impl SelectItem {
    /// Names of its columns.
    pub fn columns(&self) -> Vec<String> {
        match self {
            SelectItem::Instance(instance) => instance.columns().into_iter().map(|(_, name)| name).collect(),
            SelectItem::Expression(source) => vec![source.name.clone()],
        }
    }

    fn column_meta(&self) -> Vec<ColumnMeta> {
        match self {
            SelectItem::Instance(i) => {
                let (starts_late, pattern) = (i.row.starts_late(), i.row.kind == IndicatorKind::Candlestick);
                let fact = |(at, column)| ColumnMeta { column, range: i.range(at), starts_late, pattern };
                i.columns().into_iter().map(fact).collect()
            }
            SelectItem::Expression(source) => {
                let (range, starts_late) = source.expr.column_meta();
                vec![ColumnMeta { column: source.name.clone(), range, starts_late, pattern: false }]
            }
        }
    }

    fn values(&self, bars: GraphBuilder<'_>) -> Vec<ValueId> {
        match self {
            SelectItem::Instance(instance) => {
                let outputs = instance.build(bars);
                instance.columns().iter().filter_map(|(at, _)| outputs.get(*at).map(|x| x.val())).collect()
            }
            SelectItem::Expression(source) => vec![source.expr.build(bars).val()],
        }
    }
}

/// Static metadata of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMeta {
    /// Its name.
    pub column: String,
    /// Value range; `None` if unbounded.
    pub range: Option<ValueRange>,
    /// May it be NaN for longer than its warm-up? See [`Indicator::starts_late`].
    pub starts_late: bool,
    /// Is it a candlestick pattern: 0 where there is none, which may be on every bar?
    pub pattern: bool,
}

/// What is known of the columns of a [`plan`] of the same, in their order.
pub fn column_meta(wanted: &[SelectItem], columns: &[String]) -> Vec<ColumnMeta> {
    let mut known: HashMap<String, ColumnMeta> = HashMap::new();
    for fact in wanted.iter().flat_map(SelectItem::column_meta) {
        let both = known.entry(fact.column.clone()).or_insert_with(|| fact.clone());
        // Two values with one name: what holds for both.
        both.range = both.range.filter(|range| fact.range == Some(*range));
        both.starts_late |= fact.starts_late;
        both.pattern |= fact.pattern;
    }
    let of = |column: &String| {
        let stem = || column.rsplit_once('#').and_then(|(stem, _)| known.get(stem));
        let found = known.get(column).or_else(stem).cloned();
        let unknown = ColumnMeta { column: String::new(), range: None, starts_late: false, pattern: false };
        ColumnMeta { column: column.clone(), ..found.unwrap_or(unknown) }
    };
    columns.iter().map(of).collect()
}

/// A planned selection: one plan for all items, and the column names.
#[derive(Debug)]
pub struct Selection {
    /// Execution plan.
    pub plan: ExecPlan,
    /// Column names of the outputs, in order.
    pub columns: Vec<String>,
}

/// Plans instances together.
pub fn select(instances: &[Instance]) -> Selection {
    let wanted: Vec<SelectItem> = instances.iter().cloned().map(SelectItem::from).collect();
    plan(&wanted)
}

/// Plans all items together: shared subexpressions are computed once.
pub fn plan(wanted: &[SelectItem]) -> Selection {
    let (graph, values, columns) = graph(wanted);
    let plan = ExecPlan::new(&graph, &values);
    Selection { plan, columns }
}

/// Builds one graph for all items: the graph, the output values, and their column names.
pub fn graph(wanted: &[SelectItem]) -> (Graph, Vec<ValueId>, Vec<String>) {
    let graph = RefCell::new(Graph::default());
    let (mut values, mut columns): (Vec<ValueId>, Vec<String>) = (Vec::new(), Vec::new());
    for item in wanted {
        let names = item.columns();
        let found = item.values(GraphBuilder::new(&graph));
        for (name, val) in names.into_iter().zip(found) {
            let known: Vec<ValueId> =
                columns.iter().zip(&values).filter(|(c, _)| stem(c, &name)).map(|(_, v)| *v).collect();
            // The same column selected twice is one; a different value with the same name gets a `#n` suffix.
            if !known.contains(&val) {
                let nth = known.len() + 1;
                columns.push(if nth == 1 { name } else { format!("{name}#{nth}") });
                values.push(val);
            }
        }
    }
    (graph.into_inner(), values, columns)
}

/// Is this column that name, or a deduplicated variant of it (`NAME#2`)?
fn stem(column: &str, name: &str) -> bool {
    column.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Column name of an output: indicator name, parameters, sources and output name, joined by `_`.
///
/// The output name is omitted for the main output: the only one, or the first if it is named like the row or `value`
/// (`macd_12_26_9`, but `bbands_20_2_2_upper`). Moving average types (`ma_type`) are included unless all are the defaults.
pub fn column(instance: &Instance, output: usize) -> String {
    let row = instance.row;
    let mut name = row.name.to_owned();
    let is_ma_type = |p: &catalogue::Param| p.name.ends_with("_type");
    let default_types =
        row.params.iter().zip(&instance.params).all(|(p, x)| !is_ma_type(p) || p.default == *x);
    for (_, x) in row.params.iter().zip(&instance.params).filter(|(p, _)| !(default_types && is_ma_type(p))) {
        name.push('_');
        name.push_str(&x.to_string());
    }
    for source in &instance.sources {
        name.push('_');
        name.push_str(&source.name);
    }
    let main =
        |called: &str| row.outputs.len() == 1 || output == 0 && (called == row.name || called == "value");
    if let Some(called) = row.outputs.get(output).filter(|called| !main(called)) {
        name.push('_');
        name.push_str(called);
    }
    name
}

/// Price source by name: an input column, or HL2, HLC3, HLCC4, OHLC4.
pub(crate) fn price<'g>(bars: GraphBuilder<'g>, word: &str) -> Option<Expr<'g>> {
    let field = Field::ALL.into_iter().find(|f| format!("{f:?}").eq_ignore_ascii_case(word));
    if let Some(field) = field {
        return Some(bars.field(field));
    }
    let (o, h, l, c) = (|| bars.open(), || bars.high(), || bars.low(), || bars.close());
    match word.to_ascii_lowercase().as_str() {
        "hl2" => Some((h() + l()) / 2.0),
        "hlc3" => Some((h() + l() + c()) / 3.0),
        "hlcc4" => Some((h() + l() + c() + c()) / 4.0),
        "ohlc4" => Some((o() + h() + l() + c()) / 4.0),
        _ => None,
    }
}

/// Names that [`price`] knows.
pub(crate) const PRICES: [&str; 10] =
    ["open", "high", "low", "close", "volume", "time", "hl2", "hlc3", "hlcc4", "ohlc4"];

/// Name of the row whose name or alias is closest (edit distance) to an unknown name.
pub fn nearest_row(name: &str) -> Option<&'static str> {
    let known = catalogue::all().flat_map(|r| r.aliases.iter().map(|a| a.to_ascii_lowercase()));
    let found = best(name, catalogue::all().map(|r| r.name.to_owned()).chain(known))?;
    catalogue::find(&found).map(|row| row.name)
}

/// The known name closest (edit distance) to an unknown one.
pub(crate) fn nearest(name: &str, more: &[String]) -> Option<String> {
    let all = catalogue::all()
        .map(|r| r.name.to_owned())
        .chain(PRICES.map(str::to_owned))
        .chain(more.iter().cloned());
    best(name, all)
}

fn best(name: &str, all: impl Iterator<Item = String>) -> Option<String> {
    let name = name.to_ascii_lowercase();
    // Transposed letters are the most common typo.
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let score = |known: &String| {
        let swapped = if sorted(known) == sorted(&name) { 0.3 } else { 0.0 };
        strsim::normalized_damerau_levenshtein(known, &name) + swapped
    };
    let best = all.map(|known| (score(&known), known)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score >= 0.6).map(|(_, known)| known)
}
