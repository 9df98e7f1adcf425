//! Indicator catalogue: one table row per indicator with name, parameters, outputs, documentation and graph builder.
//!
//! To add one: a row (and a builder function) in the file of its group. A row whose first alias is a TA-Lib function is
//! compared with it automatically (`tests/parity.rs`); any other needs a reference implementation in `tests/reference/`.
//!
//! | file | group |
//! |---|---|
//! | `overlap.rs`, `ma.rs`, `filters.rs` | moving averages; TA-Lib's `MAType`; filter state machines |
//! | `bands.rs`, `stops.rs`, `vwap.rs` | bands, channels, pivots; trailing-stop state machines; VWAP |
//! | `momentum/` | oscillators |
//! | `trend.rs`, `volatility.rs`, `volume.rs`, `price.rs` | as named |
//! | `statistics.rs`, `math.rs` | rolling statistics; math operators |
//! | `cycle.rs`, `pattern.rs` | Hilbert transform and filters; candlestick patterns |
//! | `ranges.rs` | value ranges of outputs |

use crate::graph::{Expr, Field, GraphBuilder, UnaryOp};

mod bands;
mod cycle;
mod filters;
mod ma;
mod math;
mod momentum;
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

/// Kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndicatorKind {
    /// An indicator.
    Indicator,
    /// A candlestick pattern: -200 to 200.
    Candlestick,
    /// Math operator or transform.
    Primitive,
    /// Extra column that a named set needs.
    Addition,
}

/// Group of an indicator, as in `group:momentum`.
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
    /// Lower bound.
    pub min: f64,
    /// Upper bound.
    pub max: f64,
    /// Integers only?
    #[serde(skip)]
    pub integer: bool,
    /// Even numbers only?
    #[serde(skip)]
    pub even: bool,
}

/// Integer parameter, such as a period.
pub const fn int(name: &'static str, default: u32, min: u32, max: u32) -> Param {
    Param { name, default: default as f64, min: min as f64, max: max as f64, integer: true, even: false }
}

/// Real parameter.
pub const fn real(name: &'static str, default: f64, min: f64, max: f64) -> Param {
    Param { name, default, min, max, integer: false, even: false }
}

/// Even integer parameter, such as a period that is halved.
pub const fn even_int(name: &'static str, default: u32, min: u32, max: u32) -> Param {
    Param { even: true, ..int(name, default, min, max) }
}

/// Test oracle of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oracle {
    /// The TA-Lib function named by the first alias.
    TaLib,
    /// A reference implementation in the tests.
    Reference,
}

/// Convention for EMA, RSI, ATR and Bollinger Bands, where TA-Lib and pandas code differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Convention {
    /// TA-Lib: SMA-seeded EMA, Wilder's smoothing, population standard deviation.
    #[default]
    TaLib,
    /// pandas: `ewm(span, adjust=True)`, rolling means, sample standard deviation.
    Pandas,
}

/// Arguments of a builder: graph, parameters, sources, convention.
#[derive(Clone, Copy)]
pub struct BuildArgs<'g, 'p> {
    /// Graph builder with the input columns.
    pub bars: GraphBuilder<'g>,
    params: &'p [f64],
    sources: &'p [Expr<'g>],
    convention: Convention,
}

impl<'g, 'p> BuildArgs<'g, 'p> {
    /// With TA-Lib's convention. No sources: the row reads its input columns.
    pub fn new(bars: GraphBuilder<'g>, params: &'p [f64], sources: &'p [Expr<'g>]) -> Self {
        BuildArgs { bars, params, sources, convention: Convention::TaLib }
    }

    /// The convention.
    pub fn convention(&self) -> Convention {
        self.convention
    }

    /// With another convention.
    pub fn by(self, convention: Convention) -> Self {
        BuildArgs { convention, ..self }
    }

    /// EMA of the convention. That of pandas (`adjust=True`) is the weighted mean of all values so far, normalised by the sum of
    /// the weights.
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

    /// Smoothing of RSI and ATR: Wilder's moving average, or an SMA.
    pub fn smooth(&self, x: Expr<'g>, n: usize) -> Expr<'g> {
        match self.convention {
            Convention::TaLib => x.wilder(n),
            Convention::Pandas => x.sma(n),
        }
    }

    /// Standard deviation of Bollinger Bands: population, or sample.
    pub fn deviation(&self, x: Expr<'g>, n: usize) -> Expr<'g> {
        match self.convention {
            Convention::Pandas if n > 1 => (x.variance(n) * (n as f64 / (n - 1) as f64)).unary(UnaryOp::Sqrt),
            _ => x.stddev(n),
        }
    }

    /// Integer parameter, such as a period.
    pub fn n(&self, at: usize) -> usize {
        self.params.get(at).map_or(1, |x| *x as usize)
    }

    /// Real parameter.
    pub fn x(&self, at: usize) -> f64 {
        self.params.get(at).copied().unwrap_or(0.0)
    }

    /// Source of a one-input indicator: the selected one, else the close.
    pub fn source(&self) -> Expr<'g> {
        self.source_or(Field::Close)
    }

    /// Source of a one-input indicator: the selected one, else this column.
    pub fn source_or(&self, field: Field) -> Expr<'g> {
        self.sources.first().copied().unwrap_or_else(|| self.bars.field(field))
    }

    /// Sources of an indicator of two free inputs: the selected ones, else these columns, which are the row's inputs.
    pub fn sources_or(&self, [first, second]: [Field; 2]) -> [Expr<'g>; 2] {
        let other = self.sources.get(1).copied();
        [self.source_or(first), other.unwrap_or_else(|| self.bars.field(second))]
    }
}

/// Default inputs of rows with two free inputs: those of TA-Lib's abstract interface.
const HIGH_LOW: [Field; 2] = [Field::High, Field::Low];

/// Builds the outputs, in the row's order.
pub type Build = for<'g, 'p> fn(&BuildArgs<'g, 'p>) -> Vec<Expr<'g>>;

/// A row of the catalogue.
#[derive(Clone, Copy)]
pub struct Indicator {
    /// Name; lower case.
    pub name: &'static str,
    /// Other names; the first is TA-Lib's where it has the function.
    pub aliases: &'static [&'static str],
    /// Group.
    pub group: Group,
    /// Kind of the row.
    pub kind: IndicatorKind,
    /// Parameters, in order.
    pub params: &'static [Param],
    /// Input columns; a single `Close` (or `Volume`) can be replaced by `source=`.
    pub inputs: &'static [Field],
    /// Can both of its two inputs be replaced, by `source=a,b`?
    pub free_pair: bool,
    /// Names of the outputs, in TA-Lib's order; see [`crate::select::column`] for the names of their columns.
    pub outputs: &'static [&'static str],
    /// Does it never look ahead?
    pub causal: bool,
    /// Test oracle.
    pub oracle: Oracle,
    /// Description with formula, in a sentence or two.
    pub doc: &'static str,
    /// Adds it to a graph.
    pub build: Build,
}

impl Indicator {
    /// Defaults of a row; a row states what differs.
    pub const BASE: Indicator = Indicator {
        name: "",
        aliases: &[],
        group: Group::Overlap,
        kind: IndicatorKind::Indicator,
        params: &[],
        inputs: &[Field::Close],
        free_pair: false,
        outputs: &["value"],
        causal: true,
        oracle: Oracle::TaLib,
        doc: "",
        build: |_| Vec::new(),
    };

    /// How many inputs `source=` replaces: the only one, both of a free pair, or none.
    pub fn n_sources(&self) -> usize {
        match self.inputs.len() {
            1 => 1,
            2 if self.free_pair => 2,
            _ => 0,
        }
    }

    /// Can its inputs be replaced by `source=`?
    pub fn takes_source(&self) -> bool {
        self.n_sources() > 0
    }

    /// Value range of an output (by index) with default parameters; `None` if unbounded.
    /// [`crate::select::Instance::range`] takes parameters and source into account.
    pub fn range(&self, output: usize) -> Option<ValueRange> {
        ranges::of(self, output)
    }

    /// Does its range hold for these parameters, and with another source?
    pub(crate) fn range_holds(&self, params: &[f64], sourced: bool) -> bool {
        ranges::holds(self, params, sourced)
    }

    /// Does its first value depend on the data, such as the end of a session, and not only on the number of bars?
    pub fn starts_late(&self) -> bool {
        ranges::starts_late(self)
    }

    /// Default parameters.
    pub fn defaults(&self) -> Vec<f64> {
        self.params.iter().map(|p| p.default).collect()
    }
}

impl std::fmt::Debug for Indicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every table, in the order of the catalogue.
const TABLES: &[&[Indicator]] = &[
    overlap::ROWS,
    bands::ROWS,
    price::ROWS,
    math::ROWS,
    momentum::CLASSIC,
    momentum::OSCILLATORS,
    momentum::EXTENDED,
    momentum::COMMUNITY,
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
    TABLES.iter().flat_map(|rows| rows.iter())
}

/// The row with this name or alias, case-insensitive.
pub fn find(name: &str) -> Option<&'static Indicator> {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    all().find(|r| is(&r.name)).or_else(|| all().find(|r| r.aliases.iter().any(is)))
}
