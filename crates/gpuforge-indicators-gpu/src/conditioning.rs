//! Conditioning analysis: abstract interpretation of the graph that bounds the f32 rounding error of every value.
//!
//! Whether f32 suffices is a property of a node and its inputs, not of an indicator's name. The analysis walks the graph in
//! topological order; [`condition`] maps a node and the [`Conditioning`] of its inputs to that of its outputs.
//!
//! - An error bound is absolute, in unit roundoffs (2^-24), beside the size of the column, for two model markets: a *trend* of
//!   [`TREND`] bars that move by 1 each, and a random *walk* that covers [`WALK`] such moves. Tolerances are relative to a
//!   column's largest magnitude, so a value suffices while `error <= LIMIT * size` in both.
//! - Prices are whole ticks from an offset ([`crate::encoding`]): their sums, differences and extremes have no error. An average
//!   is rounded to the price range: an error of 1 in 700 moves, which is nothing for the average and much for a difference.
//! - `level` is a value's multiple of the price level and `lag` its mean age in bars (zeroth and first moment of the impulse
//!   response): on a trend it is `level * price - lag`. A difference of averages has level 0 and the size of its lag; a
//!   difference of such differences has neither, and is all rounding.
//! - [`ErrorKind`] says whether a divisor may get small: relative to the value, to the values averaged, or to the price range.
//! - What cannot be bounded is refused with its reason: divisors of rounding noise, phase feedback, overflow.
//!
//! | file | what is in it |
//! |---|---|
//! | `conditioning.rs` | the domain ([`Conditioning`]), and the rule of each node ([`condition`]) |
//! | `pointwise.rs` | sums with cancellation, products, quotients, comparisons, functions |
//! | `window.rs` | rolling windows, recurrences, state machines |
//! | `patterns.rs` | graph patterns: kernel rewrites, signs |

use gpuforge_indicators::graph::{BinaryOp, Field, Graph, NodeOp, UnaryOp, ValueId};

use crate::placement::TYPICAL_ERROR;

mod patterns;
mod pointwise;
mod window;

use patterns::{
    constant, is_clamped, is_mean, is_one_less_clamped, is_positive_part, is_power, is_power_of_two,
    is_share, logarithm_of, ratio_of,
};
use pointwise::{alike, angle, binary, excess, product, quotient, sum, times, unary};
use window::{
    accumulated, aged, average, compounded, deviation, drifting, fir, machine, ranked, slope, total,
};

/// A difference of averages, or of differences of them.
pub const DIFFERENCE: &str =
    "a difference of averages that can be next to nothing: f32 keeps too few digits of them";
/// A quotient with a divisor that rounding dominates, or with poles.
pub const RATIO: &str =
    "a ratio of numbers that can both be next to nothing: f32 keeps too few digits of them";
/// Feedback of a phase.
pub const PHASE: &str = "its own phase is fed back, and what f32 rounds off grows";
/// Values beyond f32's range.
pub const OVERFLOW: &str = "its values are too large for f32";
/// A window over infinities.
pub const INFINITE: &str = "a window over infinite values, which f32 and f64 leave at different bars";
/// A decision between values that are equal up to rounding.
pub const DECISION: &str = "it decides between numbers that rounding alone tells apart";

/// Bars of the model trend, which is as long as that of `tests/parity.rs`.
const TREND: f64 = 700.0;
/// Range of the model walk, in moves of a bar.
const WALK: f64 = 200.0;
/// Range of a cumulative sum, in steps.
const SUM: f64 = 200.0;
/// Largest value of a column by its root mean square.
const PEAK: f64 = 4.0;
/// Price level in moves of a bar.
const LEVEL: f64 = 10_000.0;
/// How far a difference of averages strays on a trend of uneven steps.
const UNEVEN: f64 = 4.0;
/// Typical error of a rounding, in unit roundoffs.
const ROUNDING: f64 = 0.5;
/// Roundings of an average whose steps depend on each other, in the end.
const RECURSIVE: f64 = 3.0;
/// How much less than its largest magnitude a divisor can be.
const SHALLOW: f64 = 8.0;
/// Error bound of a result in unit roundoffs of its size.
const LIMIT: f64 = TYPICAL_ERROR * (1u32 << 24) as f64;
/// Error of a sine, in unit roundoffs, and how much less than 1 a column of sines may be.
const TRIGONOMETRY: f64 = 30.0;
const PHASES: f64 = 3.0;
/// Lags and levels below this are 0 up to rounding.
const TINY: f64 = 1e-6;

/// What an error is relative to at each bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The value: a divisor is as good as it was.
    Relative,
    /// The values that it sums up: a signed sum may be less than its error.
    Terms,
    /// The price range, or the largest value of a column.
    Absolute,
}

/// Error bound and largest magnitude of a column in a model market.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Absolute error, in unit roundoffs.
    pub error: f64,
    /// Largest magnitude.
    pub size: f64,
}

impl Bound {
    const fn exact(size: f64) -> Bound {
        Bound { error: 0.0, size }
    }

    fn scaled(self, by: f64) -> Bound {
        Bound { error: self.error * by.abs(), size: self.size * by.abs() }
    }

    fn rounded(self, times: f64) -> Bound {
        Bound { error: self.error + times * ROUNDING * self.size, ..self }
    }

    /// Error in unit roundoffs of the size.
    fn relative(self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.size }
    }

    fn max(self, other: Bound) -> Bound {
        Bound { error: self.error.max(other.error), size: self.size.max(other.size) }
    }
}

/// What is known of a value's rounding error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditioning {
    /// On a trend.
    pub trend: Bound,
    /// On a random walk.
    pub walk: Bound,
    /// What the error is relative to.
    pub kind: ErrorKind,
    /// Multiples of the level in it: that of prices, or of the cumulative sum at node `level_of`.
    pub level: f64,
    /// The node whose level it is; `None` for prices.
    pub level_of: Option<u32>,
    /// What it falls short of `level` times the level on a trend.
    pub lag: f64,
    /// Move of its level from bar to bar.
    pub step: f64,
    /// Size of what is added to the level.
    pub spread: f64,
    /// Fields of the bars in it, a bit each.
    pub fields: u8,
    /// Is it the upper (1) or lower (-1) end of a bar or window, or inside (0)?
    pub side: Option<i8>,
    /// The node whose constant it is on a trend; 0 where it has a level.
    pub steady: u32,
    /// Is it a whole number of ticks on a trend, so that sums are exact?
    pub whole: bool,
    /// Is it 0 on a trend, but for rounding?
    pub vanishes: bool,
    /// Is it a fraction of ticks, so that values are often equal but for rounding?
    pub fraction: bool,
    /// Is it a sum of rounded fractions, so that equal values are rounded differently?
    pub blurred: bool,
    /// Is it a rolling moment, so that equal windows are rounded differently?
    pub rolling: bool,
    /// Does it vary on a trend, as volumes do, though it has no level?
    pub varies: bool,
    /// Does it begin with another constant, which averages forget slowly?
    pub settles: bool,
    /// Is it a number?
    pub constant: bool,
    /// Is it always finite?
    pub finite: bool,
    /// Is it known to be above 0?
    pub positive: bool,
    /// Power of the price that it is measured in.
    pub degree: f64,
    /// Does it add numbers of different units, so that its level may not be the largest of them?
    pub mixed: bool,
    /// Is it never negative?
    pub nonnegative: bool,
    /// Why it cannot be bounded, or what cancelled most.
    pub reason: &'static str,
    /// Is it refused whatever is computed from it?
    pub refused: bool,
}

const EXACT: Conditioning = Conditioning {
    trend: Bound::exact(1.0),
    walk: Bound::exact(1.0),
    kind: ErrorKind::Relative,
    level: 0.0,
    level_of: None,
    lag: 0.0,
    step: 1.0,
    spread: 0.0,
    fields: 0,
    side: None,
    steady: 0,
    whole: true,
    vanishes: false,
    fraction: false,
    blurred: false,
    rolling: false,
    varies: false,
    settles: false,
    constant: false,
    finite: true,
    positive: false,
    degree: 0.0,
    mixed: false,
    nonnegative: true,
    reason: DIFFERENCE,
    refused: false,
};
/// A mask, a count: nothing to round.
const COUNT: Conditioning = EXACT;
const PRICE: Conditioning =
    Conditioning { trend: Bound::exact(TREND), walk: Bound::exact(WALK), level: 1.0, degree: 1.0, ..EXACT };

impl Conditioning {
    /// Why a column of these values is not computed in f32; `None` where f32 suffices.
    pub fn refusal(&self) -> Option<&'static str> {
        let within = |b: Bound| b.error == 0.0 || b.error <= LIMIT * b.size;
        (self.refused || !within(self.trend) || !within(self.walk)).then_some(self.reason)
    }

    fn refuse(self, reason: &'static str) -> Conditioning {
        if self.refused { self } else { Conditioning { refused: true, reason, ..self } }
    }

    fn is_exact(&self) -> bool {
        self.trend.error == 0.0 && self.walk.error == 0.0
    }

    fn has_level(&self) -> bool {
        self.level.abs() > TINY
    }

    /// Is it nothing but rounding on a trend?
    fn is_noise(&self) -> bool {
        self.vanishes && self.trend.error > 0.0
    }

    fn scaled(self, by: f64) -> Conditioning {
        Conditioning {
            trend: self.trend.scaled(by),
            walk: self.walk.scaled(by),
            level: self.level * by,
            lag: self.lag * by,
            step: self.step * by.abs(),
            spread: self.spread * by.abs(),
            nonnegative: self.nonnegative && by >= 0.0,
            positive: self.positive && by > 0.0,
            side: None,
            ..self
        }
    }

    /// One more rounding.
    fn rounded(self) -> Conditioning {
        self.rounded_times(1.0)
    }

    /// A value that is constant on a trend is rounded alike at every bar, which is no noise there.
    fn rounded_times(self, times: f64) -> Conditioning {
        let kind = if self.has_level() { ErrorKind::Absolute } else { self.kind };
        let trend = if self.has_level() || self.varies { self.trend.rounded(times) } else { self.trend };
        Conditioning { trend, walk: self.walk.rounded(times), kind, ..self }
    }

    /// Either of two values.
    fn or(self, other: Conditioning) -> Conditioning {
        let worse = if other.refused && !self.refused { other } else { self };
        Conditioning {
            trend: self.trend.max(other.trend),
            walk: self.walk.max(other.walk),
            kind: self.kind.max(other.kind),
            nonnegative: self.nonnegative && other.nonnegative,
            fields: self.fields | other.fields,
            spread: self.spread.max(other.spread),
            side: None,
            positive: self.positive && other.positive,
            whole: self.whole && other.whole,
            vanishes: self.vanishes && other.vanishes,
            mixed: self.mixed || other.mixed,
            fraction: self.fraction || other.fraction,
            blurred: self.blurred || other.blurred,
            rolling: self.rolling || other.rolling,
            varies: self.varies || other.varies,
            settles: self.settles || other.settles,
            constant: false,
            finite: self.finite && other.finite,
            refused: self.refused || other.refused,
            reason: worse.reason,
            ..if self.has_level() || !other.has_level() { self } else { other }
        }
    }

    /// Is it a price, and so never next to 0?
    fn is_price(&self) -> bool {
        self.has_level() && !self.mixed && self.level_of.is_none()
    }

    /// As it is read by what cannot compute with encoded prices: whole ticks as they are, anything else rounded to the price.
    fn decoded(self) -> Conditioning {
        if !self.has_level() || self.level_of.is_some() {
            return self;
        }
        let size = LEVEL * self.step;
        let round = |b: Bound| {
            let error = if self.is_exact() { 0.0 } else { b.error + ROUNDING * size };
            Bound { error, size: size.max(b.size) }
        };
        Conditioning { trend: round(self.trend), walk: round(self.walk), ..self }
    }

    /// What a window or a recurrence makes of infinities differs.
    fn windowed(self) -> Conditioning {
        if self.finite { self } else { self.refuse(INFINITE) }
    }

    /// Refused where one of the others is.
    fn with(self, others: &[Conditioning]) -> Conditioning {
        others.iter().filter(|o| o.refused).fold(self, |me, o| me.refuse(o.reason))
    }
}

/// Conditioning of every output of every node.
pub fn analyse(graph: &Graph) -> Vec<Vec<Conditioning>> {
    let mut all: Vec<Vec<Conditioning>> = Vec::with_capacity(graph.nodes().len());
    let mut hosts: Vec<bool> = Vec::with_capacity(graph.nodes().len());
    for (at, node) in graph.nodes().iter().enumerate() {
        let of = |v: ValueId| {
            let ports = all.get(v.node as usize);
            ports.and_then(|p| p.get(v.port as usize)).copied().unwrap_or(EXACT)
        };
        let node_of = u32::try_from(at).unwrap_or(u32::MAX);
        let host = is_host(graph, node_of, &hosts);
        let found = |port| {
            let own = if host { EXACT } else { condition(graph, node_of, port, of) };
            // A value without a level is a constant of its own on a trend, unless it follows one.
            let steady =
                if own.has_level() || own.steady != 0 { own.steady } else { node_of.saturating_add(1) };
            Conditioning { steady, ..own }
        };
        let found = (0..node.op.ports()).map(found).collect();
        hosts.push(host);
        all.push(found);
    }
    all
}

/// Is it computed from times and whole-series columns alone? The CPU does that, in f64 (`lower/analysis.rs`).
fn is_host(graph: &Graph, node: u32, hosts: &[bool]) -> bool {
    let Some(op) = graph.nodes().get(node as usize).map(|n| &n.op) else { return false };
    let mut inputs = op.operands().into_iter().filter(|(v, _)| constant(graph, *v).is_none()).peekable();
    match op {
        NodeOp::Input(Field::Time) | NodeOp::WholeSeries { .. } => true,
        _ => inputs.peek().is_some() && inputs.all(|(v, _)| hosts.get(v.node as usize) == Some(&true)),
    }
}

/// Conditioning of an output of a node, by that of its inputs.
pub fn condition(
    graph: &Graph,
    node: u32,
    port: usize,
    of: impl Fn(ValueId) -> Conditioning,
) -> Conditioning {
    let Some(op) = graph.nodes().get(node as usize).map(|n| &n.op) else { return EXACT };
    let number = |v: ValueId| constant(graph, v);
    match op {
        NodeOp::Input(Field::High) => Conditioning { fields: 1, side: Some(1), ..PRICE },
        NodeOp::Input(Field::Low) => Conditioning { fields: 2, side: Some(-1), ..PRICE },
        NodeOp::Input(Field::Open) => Conditioning { fields: 4, side: Some(0), ..PRICE },
        NodeOp::Input(Field::Close) => Conditioning { fields: 8, side: Some(0), ..PRICE },
        NodeOp::Input(_) | NodeOp::WholeSeries { .. } => Conditioning { varies: true, ..EXACT },
        NodeOp::Const(x) => {
            let (whole, positive) = (x.get().fract() == 0.0, x.get() > 0.0);
            Conditioning { whole, positive, constant: true, ..EXACT.scaled(x.get()) }
        }
        NodeOp::Unary(f, a) => unary_node(graph, *f, *a, of),
        NodeOp::Binary(f, a, b) => binary_node(graph, *f, *a, *b, of),
        NodeOp::Select(c, a, b) => {
            let either = match (number(*a), number(*b)) {
                (Some(_), None) => of(*b),
                (None, Some(_)) => of(*a),
                _ => of(*a).or(of(*b)),
            };
            let nonnegative = of(*a).nonnegative && of(*b).nonnegative;
            let whole = of(*a).whole && of(*b).whole;
            // A select guards a division.
            Conditioning { nonnegative, whole, finite: true, constant: false, ..either }.with(&[
                of(*a),
                of(*b),
                of(*c),
            ])
        }
        NodeOp::Shift(a, n) => aged(of(*a), *n as f64),
        NodeOp::FillWarmup(a, b) => {
            let x = of(*a).with(&[of(*b)]);
            Conditioning { settles: x.settles || !x.has_level(), ..x }
        }
        _ => kernel(op, node, port, of, number),
    }
}

/// A function of one value; kernels compute the logarithm of a ratio near 1 from the difference.
fn unary_node(graph: &Graph, f: UnaryOp, a: ValueId, of: impl Fn(ValueId) -> Conditioning) -> Conditioning {
    match (f, ratio_of(graph, a)) {
        (UnaryOp::Atan, Some((x, y))) => angle(of(x), of(y)),
        (UnaryOp::Ln, Some((x, y))) if alike(of(x), of(y)) => excess(of(x), of(y)),
        _ => unary(f, of(a), is_power(graph, a)),
    }
}

/// A function of two values: constants and the patterns of [`patterns`] first.
fn binary_node(
    graph: &Graph,
    f: BinaryOp,
    a: ValueId,
    b: ValueId,
    of: impl Fn(ValueId) -> Conditioning,
) -> Conditioning {
    let (x, y) = (of(a), of(b));
    let (m, n) = (constant(graph, a), constant(graph, b));
    let close = match f {
        BinaryOp::Sub if n == Some(1.0) => ratio_of(graph, a),
        BinaryOp::Sub => logarithm_of(graph, a).zip(logarithm_of(graph, b)),
        _ => None,
    };
    match (f, m, n) {
        (BinaryOp::Sub, ..) if close.is_some_and(|(x, y)| alike(of(x), of(y))) => {
            close.map_or(x, |(x, y)| excess(of(x), of(y)))
        }
        // A loss, max(x, 0) - x; a distance from what is clamped.
        (BinaryOp::Sub, ..) if is_positive_part(graph, a, b) || (m == Some(1.0) && is_clamped(graph, b)) => {
            Conditioning { nonnegative: true, ..sum(x, y, -1.0) }
        }
        (BinaryOp::Div | BinaryOp::Div0, _, Some(k)) if k != 0.0 => {
            times(x, 1.0 / k, is_mean(graph, a, k) || is_power_of_two(k))
        }
        (BinaryOp::Div, ..) if is_one_less_clamped(graph, b) => {
            Conditioning { finite: true, positive: true, ..quotient(x, y) }
        }
        // x / (x + y): on a trend one of both is 0.
        (BinaryOp::Div, ..) if is_share(graph, a, b) => Conditioning { whole: true, ..quotient(x, y) },
        (BinaryOp::Mul, _, Some(k)) => times(x, k, k.fract() == 0.0 || is_power_of_two(k)),
        (BinaryOp::Mul, Some(k), _) => times(y, k, k.fract() == 0.0 || is_power_of_two(k)),
        (BinaryOp::Mul, ..) if a == b => Conditioning { nonnegative: true, ..product(x, y) },
        (BinaryOp::Sub, ..)
            if ratio_of(graph, a).is_some_and(|(x, y)| of(x).steady == of(y).steady) && n == Some(1.0) =>
        {
            // A ratio near 1, computed as it is written.
            let near = |b: Bound| Bound { size: b.size / (SHALLOW * SHALLOW), ..b };
            let change = sum(x, y, -1.0);
            Conditioning { trend: near(change.trend), walk: near(change.walk), ..change }
        }
        _ => binary(f, x, y),
    }
}

/// Rolling, scan and state machine nodes.
fn kernel(
    op: &NodeOp,
    node: u32,
    port: usize,
    of: impl Fn(ValueId) -> Conditioning,
    number: impl Fn(ValueId) -> Option<f64>,
) -> Conditioning {
    let of = |v: ValueId| of(v).windowed();
    match op {
        NodeOp::RollingSum(a, n) | NodeOp::RollingSumFrom { a, n, .. } | NodeOp::PartialRollingSum(a, n) => {
            let n = *n as f64;
            total(of(*a), n, (n - 1.0) / 2.0)
        }
        NodeOp::LinearWeightedSum(a, n) => {
            let n = *n as f64;
            total(of(*a), n * (n + 1.0) / 2.0, (n - 1.0) / 3.0)
        }
        NodeOp::Fir(a, weights) => {
            let weights: Vec<f64> = weights.iter().map(|w| w.get()).collect();
            fir(of(*a), &weights)
        }
        NodeOp::RollingMinMax { a, max, .. } | NodeOp::CumMinMax { a, max } => {
            let end = if *max { 1 } else { -1 };
            Conditioning { side: of(*a).side.filter(|s| *s != -end).map(|_| end), ..of(*a) }
        }
        NodeOp::RollingOrderStatistic { a, n, .. } => aged(of(*a), (*n as f64 - 1.0) / 2.0),
        NodeOp::RollingArgMinMax { a, .. } | NodeOp::RollingRank { a, .. } => ranked(of(*a)),
        NodeOp::RollingVariance(a, n) => deviation(of(*a), *n, 2),
        NodeOp::RollingCentralMoment(a, n, power) => {
            let found = deviation(of(*a), *n, if port == 0 { 2 } else { i32::from(*power) });
            // An odd moment is 0 on a trend.
            let odd = port == 1 && *power == 3;
            Conditioning { nonnegative: !odd, vanishes: odd || found.vanishes, ..found }
        }
        NodeOp::RollingMeanDeviation(a, n) => deviation(of(*a), *n, 1),
        NodeOp::RollingCoMoment(a, b, n) => {
            let (x, y) = (deviation(of(*a), *n, 1), deviation(of(*b), *n, 1));
            Conditioning { nonnegative: a == b, ..product(x, y) }.scaled(*n as f64)
        }
        NodeOp::RollingTimeMoment(a, n) => slope(of(*a), *n as f64),
        NodeOp::Ema { a, k, .. } => average(of(*a), 1.0 / k.get().max(TINY) - 1.0),
        NodeOp::Wilder { a, n, .. } => average(of(*a), *n as f64 - 1.0),
        NodeOp::LinearRecurrence { a, b } => match number(*a) {
            Some(k) if k.abs() < 1.0 => drifting(average(of(*b), k / (1.0 - k)).scaled(1.0 / (1.0 - k))),
            _ => compounded(of(*a), of(*b), node),
        },
        NodeOp::AdaptiveEma { a, k, first } => average(of(*a), 10.0).with(&[of(*k), of(*first)]),
        NodeOp::CumSum(a) => accumulated(of(*a), node),
        NodeOp::StateMachine { def, params, inputs } => {
            let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
            let inputs: Vec<Conditioning> = inputs.iter().map(|v| of(*v)).collect();
            machine(def.name, &params, &inputs, port)
        }
        _ => EXACT,
    }
}
