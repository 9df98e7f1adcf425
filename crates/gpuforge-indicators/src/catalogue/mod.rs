//! Which indicators are there? One row each: name, parameters, outputs, what it means, and the function that builds it.
//!
//! Adding one is a row and a function in the file of its group, and its case in `tests/`: a row whose first alias is a name
//! of TA-Lib is compared with it automatically (`tests/parity.rs`), any other needs a plain reference in
//! `tests/reference/`.

use crate::graph::{Expr, Field, GraphBuilder, UnaryOp};

mod bands;
mod cycle;
mod filters;
mod ma;
mod math;
mod momentum;
mod momentum_more;
mod momentum_state;
mod overlap;
mod pattern;
mod price;
mod ranges;
mod statistics;
mod stops;
mod trend;
mod volatility;
mod volume;
mod vwap;

pub use ranges::ValueRange;

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndicatorKind {
    /// One of the catalogue's indicators.
    Indicator,
    /// A candlestick pattern: -200 to 200.
    Candlestick,
    /// Arithmetic that indicators are made of.
    Primitive,
    /// Beyond the catalogue, for sets that need it.
    Addition,
}

/// Groups, as in `group:momentum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are the groups")]
pub enum Group {
    Overlap,
    Bands,
    Momentum,
    Trend,
    Volatility,
    Volume,
    Statistics,
    Price,
    Cycle,
    Pattern,
    Math,
}

/// A parameter.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Whole numbers only?
    #[serde(skip)]
    pub integer: bool,
    /// Even numbers only?
    #[serde(skip)]
    pub even: bool,
}

/// A whole number, such as a period.
pub const fn int(name: &'static str, default: u32, min: u32, max: u32) -> Param {
    Param { name, default: default as f64, min: min as f64, max: max as f64, integer: true, even: false }
}

/// A real number.
pub const fn real(name: &'static str, default: f64, min: f64, max: f64) -> Param {
    Param { name, default, min, max, integer: false, even: false }
}

/// An even number, such as a period that is halved.
pub const fn even_int(name: &'static str, default: u32, min: u32, max: u32) -> Param {
    Param { even: true, ..int(name, default, min, max) }
}

/// What the values are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oracle {
    /// The function of TA-Lib that the first alias names.
    TaLib,
    /// A plain reference in the tests.
    Reference,
}

/// Whose definitions of exponential means, RSI, ATR and Bollinger width: where people disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Convention {
    /// TA-Lib's: seeded exponential means, Wilder's means, population deviations.
    #[default]
    TaLib,
    /// What code on pandas does: `ewm(span, adjust=True)`, rolling means, sample deviations.
    Pandas,
}

/// What a builder gets: the bars, the parameters, the source.
#[derive(Clone, Copy)]
pub struct BuildArgs<'g, 'p> {
    /// The bars.
    pub bars: GraphBuilder<'g>,
    params: &'p [f64],
    source: Option<Expr<'g>>,
    convention: Convention,
}

impl<'g, 'p> BuildArgs<'g, 'p> {
    /// For a builder, by TA-Lib's conventions.
    pub fn new(bars: GraphBuilder<'g>, params: &'p [f64], source: Option<Expr<'g>>) -> Self {
        BuildArgs { bars, params, source, convention: Convention::TaLib }
    }

    /// Whose definitions.
    pub fn convention(&self) -> Convention {
        self.convention
    }

    /// By another convention.
    pub fn by(self, convention: Convention) -> Self {
        BuildArgs { convention, ..self }
    }

    /// The exponential mean of the convention. That of pandas weighs all values so far and divides by their weights.
    pub fn ema(&self, x: Expr<'g>, n: usize) -> Expr<'g> {
        match self.convention {
            Convention::TaLib => x.ema(n),
            Convention::Pandas => {
                let keep = self.bars.constant(1.0 - 2.0 / (n as f64 + 1.0));
                let weights = keep.linear_recurrence(self.bars.constant(1.0).from_bar(x.start()));
                keep.linear_recurrence(x) / weights
            }
        }
    }

    /// The smoothing of RSI and ATR: Wilder's mean, or a rolling one.
    pub fn smooth(&self, x: Expr<'g>, n: usize) -> Expr<'g> {
        match self.convention {
            Convention::TaLib => x.wilder(n),
            Convention::Pandas => x.sma(n),
        }
    }

    /// The standard deviation of Bollinger bands: of a population, or of a sample.
    pub fn deviation(&self, x: Expr<'g>, n: usize) -> Expr<'g> {
        match self.convention {
            Convention::Pandas if n > 1 => (x.variance(n) * (n as f64 / (n - 1) as f64)).unary(UnaryOp::Sqrt),
            _ => x.stddev(n),
        }
    }

    /// A whole parameter, such as a period.
    pub fn n(&self, at: usize) -> usize {
        self.params.get(at).map_or(1, |x| *x as usize)
    }

    /// A real parameter.
    pub fn x(&self, at: usize) -> f64 {
        self.params.get(at).copied().unwrap_or(0.0)
    }

    /// What a one-input indicator reads: the source that was asked for, else the close.
    pub fn source(&self) -> Expr<'g> {
        self.source.unwrap_or_else(|| self.bars.close())
    }

    /// What a one-input indicator reads: the source that was asked for, else this column.
    pub fn source_or(&self, field: Field) -> Expr<'g> {
        self.source.unwrap_or_else(|| self.bars.field(field))
    }
}

/// Builds the outputs, in the row's order.
pub type Build = for<'g, 'p> fn(&BuildArgs<'g, 'p>) -> Vec<Expr<'g>>;

/// A row.
#[derive(Clone, Copy)]
pub struct Indicator {
    /// Name; lower case.
    pub name: &'static str,
    /// Other names; the first is TA-Lib's where it has the function.
    pub aliases: &'static [&'static str],
    /// Where it belongs.
    pub group: Group,
    /// What it is.
    pub kind: IndicatorKind,
    /// Parameters, in order.
    pub params: &'static [Param],
    /// Columns it reads; a single `Close` (or `Volume`) can be replaced by `source=`.
    pub inputs: &'static [Field],
    /// Names of the outputs, in TA-Lib's order; see [`crate::select::column`] for the names of their columns.
    pub outputs: &'static [&'static str],
    /// Does no value depend on a later bar?
    pub causal: bool,
    /// What it is compared with.
    pub oracle: Oracle,
    /// What it means, in a sentence or two, with the formula.
    pub doc: &'static str,
    /// How it is built.
    pub build: Build,
}

impl Indicator {
    /// What most rows are; a row states what differs.
    pub const BASE: Indicator = Indicator {
        name: "",
        aliases: &[],
        group: Group::Overlap,
        kind: IndicatorKind::Indicator,
        params: &[],
        inputs: &[Field::Close],
        outputs: &["value"],
        causal: true,
        oracle: Oracle::TaLib,
        doc: "",
        build: |_| Vec::new(),
    };

    /// Can the column that it reads be replaced by `source=`?
    pub fn takes_source(&self) -> bool {
        self.inputs.len() == 1
    }

    /// Where the values of an output lie with the defaults, given by its place; `None` where nothing bounds them.
    /// [`crate::select::Instance::range`] knows parameters and sources.
    pub fn range(&self, output: usize) -> Option<ValueRange> {
        ranges::of(self, output)
    }

    /// Does its range hold with these parameters, and with a source of its own?
    pub(crate) fn range_holds(&self, params: &[f64], sourced: bool) -> bool {
        ranges::holds(self, params, sourced)
    }

    /// Does its first value wait for something in the bars, such as the end of a session, and not only for their number?
    pub fn starts_late(&self) -> bool {
        ranges::starts_late(self)
    }

    /// Its parameters' defaults.
    pub fn defaults(&self) -> Vec<f64> {
        self.params.iter().map(|p| p.default).collect()
    }
}

impl std::fmt::Debug for Indicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every family, in the order of the catalogue.
const FAMILIES: &[&[Indicator]] = &[
    overlap::ROWS,
    bands::ROWS,
    price::ROWS,
    math::ROWS,
    momentum::ROWS,
    momentum_more::ROWS,
    pattern::ONE,
    pattern::TWO,
    pattern::THREE,
    pattern::FIVE,
    pattern::HIKKAKE,
    trend::ROWS,
    volatility::ROWS,
    volume::ROWS,
    statistics::ROWS,
    cycle::ROWS,
    vwap::ROWS,
];

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Indicator> {
    FAMILIES.iter().flat_map(|rows| rows.iter())
}

/// The row of this name or alias, in any case.
pub fn find(name: &str) -> Option<&'static Indicator> {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    all().find(|r| is(&r.name)).or_else(|| all().find(|r| r.aliases.iter().any(is)))
}
