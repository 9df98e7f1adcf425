//! Which indicators with which parameters? A selection as text, instances of rows, and the plan that computes all of them
//! at once.

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
pub use sets::{SETS, IndicatorSet};

/// Why a selection cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Something in the text.
    #[error("{message}\n  {text}\n  {:>width$}", "^", width = at + 1)]
    At {
        /// What is wrong.
        message: String,
        /// The line.
        text: String,
        /// Where in it, in characters.
        at: usize,
    },
    /// More text than is read.
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

/// Where a one-input indicator reads from, other than its own column.
#[derive(Clone)]
pub struct Source {
    /// Its name in columns.
    pub name: String,
    /// What it computes, as it was written.
    pub text: String,
    pub(crate) expr: std::sync::Arc<resolve::ResolvedExpr>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A row with its parameters.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The row.
    pub row: &'static Indicator,
    /// Parameters, as many as the row has.
    pub params: Vec<f64>,
    /// Which of its outputs is wanted; `None` is all.
    pub output: Option<usize>,
    /// What it reads instead of its own column.
    pub source: Option<Source>,
    /// Whose definitions.
    pub convention: Convention,
}

impl Instance {
    /// A row with its defaults.
    pub fn of(row: &'static Indicator) -> Self {
        Instance { row, params: row.defaults(), output: None, source: None, convention: Convention::TaLib }
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
        let source = self.source.as_ref().map(|s| s.expr.build(bars));
        (self.row.build)(&BuildArgs::new(bars, &self.params, source).by(self.convention))
    }

    /// Its columns: output and name.
    pub fn columns(&self) -> Vec<(usize, String)> {
        let wanted = |at: &usize| self.output.is_none_or(|o| o == *at);
        (0..self.row.outputs.len()).filter(wanted).map(|at| (at, column(self, at))).collect()
    }

    /// Where the values of an output lie with these parameters and this source; `None` where nothing bounds them.
    pub fn range(&self, output: usize) -> Option<ValueRange> {
        let holds = self.row.range_holds(&self.params, self.source.is_some());
        self.row.range(output).filter(|_| holds)
    }

    /// The first bar at which every wanted output has a value.
    pub fn lookback(&self) -> usize {
        let graph = RefCell::new(Graph::default());
        let outputs = self.build(GraphBuilder::new(&graph));
        outputs.iter().map(|x| x.start()).max().unwrap_or(0)
    }
}

/// One thing to compute: an indicator, or an expression with a name.
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

/// What is known of a column without computing it.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMeta {
    /// Its name.
    pub column: String,
    /// Where its values lie; `None` where nothing bounds them.
    pub range: Option<ValueRange>,
    /// May it be NaN for longer than its warm-up? See [`Indicator::starts_late`].
    pub starts_late: bool,
    /// Is it a candlestick pattern: 0 where there is none, which may be everywhere?
    pub pattern: bool,
}

/// What is known of the columns of a [`plan`] of the same, in their order.
pub fn column_meta(wanted: &[SelectItem], columns: &[String]) -> Vec<ColumnMeta> {
    let mut known: HashMap<String, ColumnMeta> = HashMap::new();
    for fact in wanted.iter().flat_map(SelectItem::column_meta) {
        let both = known.entry(fact.column.clone()).or_insert_with(|| fact.clone());
        // Of two values with one name, what holds for either.
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

/// Everything that was wanted, planned together, and the names of its columns.
#[derive(Debug)]
pub struct Selection {
    /// What to run.
    pub plan: ExecPlan,
    /// Names of the outputs, in order.
    pub columns: Vec<String>,
}

/// Plans instances together.
pub fn select(instances: &[Instance]) -> Selection {
    let wanted: Vec<SelectItem> = instances.iter().cloned().map(SelectItem::from).collect();
    plan(&wanted)
}

/// Plans everything together: what several of them need is computed once.
pub fn plan(wanted: &[SelectItem]) -> Selection {
    let (graph, values, columns) = graph(wanted);
    let plan = ExecPlan::new(&graph, &values);
    Selection { plan, columns }
}

/// What everything rests on: one graph, the values that are wanted of it, and the names of their columns.
pub fn graph(wanted: &[SelectItem]) -> (Graph, Vec<ValueId>, Vec<String>) {
    let graph = RefCell::new(Graph::default());
    let (mut values, mut columns): (Vec<ValueId>, Vec<String>) = (Vec::new(), Vec::new());
    for item in wanted {
        let names = item.columns();
        let found = item.values(GraphBuilder::new(&graph));
        for (name, val) in names.into_iter().zip(found) {
            let known: Vec<ValueId> =
                columns.iter().zip(&values).filter(|(c, _)| stem(c, &name)).map(|(_, v)| *v).collect();
            // The same column asked for twice is one; another value that would have the same name gets one of its own.
            if !known.contains(&val) {
                let nth = known.len() + 1;
                columns.push(if nth == 1 { name } else { format!("{name}#{nth}") });
                values.push(val);
            }
        }
    }
    (graph.into_inner(), values, columns)
}

/// Is this column that name, or one of several that would have had it (`NAME#2`)?
fn stem(column: &str, name: &str) -> bool {
    column.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// The column of an output: the name, the parameters, the source and the output's name, joined by `_`.
///
/// The output is not named where it is the row's own: its only one, or the first if that is called like the row or `value`
/// (`macd_12_26_9`, but `bbands_20_2_2_upper`). Kinds of means (`ma_type`) are named unless all of them are the defaults.
pub fn column(instance: &Instance, output: usize) -> String {
    let row = instance.row;
    let mut name = row.name.to_owned();
    let kind = |p: &catalogue::Param| p.name.ends_with("_type");
    let usual = row.params.iter().zip(&instance.params).all(|(p, x)| !kind(p) || p.default == *x);
    for (_, x) in row.params.iter().zip(&instance.params).filter(|(p, _)| !(usual && kind(p))) {
        name.push('_');
        name.push_str(&x.to_string());
    }
    if let Some(source) = &instance.source {
        name.push('_');
        name.push_str(&source.name);
    }
    let own =
        |called: &str| row.outputs.len() == 1 || output == 0 && (called == row.name || called == "value");
    if let Some(called) = row.outputs.get(output).filter(|called| !own(called)) {
        name.push('_');
        name.push_str(called);
    }
    name
}

/// Columns and simple means of them that a word names.
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

/// The row whose name or alias is nearest to one that is not known, by its name.
pub fn nearest_row(name: &str) -> Option<&'static str> {
    let known = catalogue::all().flat_map(|r| r.aliases.iter().map(|a| a.to_ascii_lowercase()));
    let found = best(name, catalogue::all().map(|r| r.name.to_owned()).chain(known))?;
    catalogue::find(&found).map(|row| row.name)
}

/// The known name that is nearest to one that is not known.
pub(crate) fn nearest(name: &str, more: &[String]) -> Option<String> {
    let all = catalogue::all()
        .map(|r| r.name.to_owned())
        .chain(PRICES.map(str::to_owned))
        .chain(more.iter().cloned());
    best(name, all)
}

fn best(name: &str, all: impl Iterator<Item = String>) -> Option<String> {
    let name = name.to_ascii_lowercase();
    // Letters that changed places are the commonest mistake of all.
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
