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

use gpuforge_indicators::graph::{BinaryOp, Field, Graph, NodeOp, UnaryOp, ValueId};

use crate::{
    placement::TYPICAL_ERROR,
    state_machines::{self, Response},
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
        let trend = if self.has_level() { self.trend.rounded(times) } else { self.trend };
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
            let steady = if own.has_level() || own.steady != 0 { own.steady } else { node_of + 1 };
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
        NodeOp::Input(_) | NodeOp::WholeSeries { .. } => EXACT,
        NodeOp::Const(x) => {
            Conditioning { whole: x.get().fract() == 0.0, positive: x.get() > 0.0, ..EXACT.scaled(x.get()) }
        }
        NodeOp::Unary(UnaryOp::Atan, v) if ratio_of(graph, *v).is_some() => match ratio_of(graph, *v) {
            Some((a, b)) => angle(of(a), of(b)),
            None => unary(UnaryOp::Atan, of(*v), false),
        },
        NodeOp::Unary(f, a) => match ratio_of(graph, *a).filter(|_| *f == UnaryOp::Ln) {
            Some((a, b)) if alike(of(a), of(b)) => excess(of(a), of(b)),
            _ => unary(*f, of(*a), is_power(graph, *a)),
        },
        NodeOp::Binary(BinaryOp::Div, a, b)
            if of(*b).kind <= ErrorKind::Terms && is_one_less_clamped(graph, *b) =>
        {
            // Both are within 0.001 and 2.
            Conditioning { finite: true, positive: true, ..quotient(of(*a), of(*b)) }
        }
        NodeOp::Binary(BinaryOp::Sub, a, b) if is_positive_part(graph, *a, *b) => {
            // max(x, 0) - x, a loss.
            Conditioning { nonnegative: true, ..sum(of(*a), of(*b), -1.0) }
        }
        NodeOp::Binary(BinaryOp::Sub, a, b) if number(*a) == Some(1.0) && is_clamped(graph, *b) => {
            Conditioning { nonnegative: true, ..sum(of(*a), of(*b), -1.0) }
        }
        NodeOp::Binary(BinaryOp::Div, a, b) if is_share(graph, *a, *b) => {
            // x / (x + y): on a trend one of both is 0.
            Conditioning { whole: true, ..quotient(of(*a), of(*b)) }
        }
        NodeOp::Binary(BinaryOp::Sub, a, b) if ratio_of(graph, *a).is_some() && number(*b) == Some(1.0) => {
            match ratio_of(graph, *a) {
                Some((x, y)) if alike(of(x), of(y)) => excess(of(x), of(y)),
                _ => sum(of(*a), of(*b), -1.0),
            }
        }
        NodeOp::Binary(BinaryOp::Sub, a, b) => match (logarithm_of(graph, *a), logarithm_of(graph, *b)) {
            (Some(x), Some(y)) if alike(of(x), of(y)) => excess(of(x), of(y)),
            _ => sum(of(*a), of(*b), -1.0),
        },
        NodeOp::Binary(BinaryOp::Div | BinaryOp::Div0, a, b) if number(*b).is_some_and(|k| k != 0.0) => {
            let k = number(*b).unwrap_or(1.0);
            times(of(*a), 1.0 / k, is_mean(graph, *a, k) || is_power_of_two(k))
        }
        NodeOp::Binary(BinaryOp::Mul, a, b) if number(*a).is_some() || number(*b).is_some() => {
            let (x, k) = match number(*b) {
                Some(k) => (of(*a), k),
                None => (of(*b), number(*a).unwrap_or(1.0)),
            };
            times(x, k, k.fract() == 0.0 || is_power_of_two(k))
        }
        NodeOp::Binary(BinaryOp::Mul, a, b) if a == b => {
            Conditioning { nonnegative: true, ..product(of(*a), of(*b)) }
        }
        NodeOp::Binary(f, a, b) => binary(*f, of(*a), of(*b)),
        NodeOp::Select(c, a, b) => {
            let either = match (number(*a), number(*b)) {
                (Some(_), None) => of(*b),
                (None, Some(_)) => of(*a),
                _ => of(*a).or(of(*b)),
            };
            let nonnegative = of(*a).nonnegative && of(*b).nonnegative;
            let whole = of(*a).whole && of(*b).whole;
            // A select guards a division.
            Conditioning { nonnegative, whole, finite: true, ..either }.with(&[of(*a), of(*b), of(*c)])
        }
        NodeOp::Shift(a, n) => aged(of(*a), *n as f64),
        NodeOp::FillWarmup(a, b) => of(*a).with(&[of(*b)]),
        _ => kernel(op, node, port, of, number),
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
            Conditioning { nonnegative: port == 0 || *power == 4, ..found }
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

fn constant(graph: &Graph, v: ValueId) -> Option<f64> {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Const(x)) => Some(x.get()),
        _ => None,
    }
}

/// The operands of a quotient: near 1, kernels compute `(a - b) / b` (`pointwise.rs`).
fn ratio_of(graph: &Graph, v: ValueId) -> Option<(ValueId, ValueId)> {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Div, a, b)) => Some((*a, *b)),
        _ => None,
    }
}

fn logarithm_of(graph: &Graph, v: ValueId) -> Option<ValueId> {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Unary(UnaryOp::Ln, a)) => Some(*a),
        _ => None,
    }
}

/// Is it a multiple of a logarithm, so that its exponential is a power?
fn is_power(graph: &Graph, v: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Mul, a, b)) => {
            constant(graph, *b).is_some() && logarithm_of(graph, *a).is_some()
        }
        _ => false,
    }
}

/// A scale that rounds nothing.
fn is_power_of_two(k: f64) -> bool {
    k.abs().log2().fract() == 0.0
}

/// Is it the larger of the other value and 0?
fn is_positive_part(graph: &Graph, v: ValueId, of: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Max, a, b)) => *a == of && constant(graph, *b) == Some(0.0),
        _ => false,
    }
}

/// Is the divisor a sum with the dividend?
fn is_share(graph: &Graph, part: ValueId, whole: ValueId) -> bool {
    match graph.nodes().get(whole.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Add, a, b)) => *a == part || *b == part,
        _ => false,
    }
}

/// Is it a machine's output that stays within 1?
fn is_clamped(graph: &Graph, v: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::StateMachine { def, .. }) => {
            state_machines::response(def.name) == Some(Response::Clamped)
        }
        _ => false,
    }
}

/// Is it 1 less such an output?
fn is_one_less_clamped(graph: &Graph, v: ValueId) -> bool {
    match graph.nodes().get(v.node as usize).map(|n| &n.op) {
        Some(NodeOp::Binary(BinaryOp::Sub, a, b)) => {
            constant(graph, *a) == Some(1.0) && is_clamped(graph, *b)
        }
        _ => false,
    }
}

/// Is it a rolling sum of `n`? Divided by it, a constant is the constant again, if it is a whole number.
fn is_mean(graph: &Graph, v: ValueId, n: f64) -> bool {
    matches!(graph.nodes().get(v.node as usize).map(|n| &n.op), Some(NodeOp::RollingSum(_, of)) if *of as f64 == n)
}

/// A product with a constant; `keeps` whole numbers whole.
fn times(x: Conditioning, k: f64, keeps: bool) -> Conditioning {
    let exact = x.is_exact() && (k.fract() == 0.0 || is_power_of_two(k));
    let scaled = Conditioning { whole: x.whole && keeps, ..x.scaled(k) };
    let fraction = scaled.fraction || x.is_exact();
    if exact { scaled } else { Conditioning { fraction, ..scaled.rounded() } }
}

/// A sum, or with `sign` -1 a difference.
fn sum(a: Conditioning, b: Conditioning, sign: f64) -> Conditioning {
    let same_level = a.level_of == b.level_of || !a.has_level() || !b.has_level();
    let unlike_units = a.degree != b.degree || !same_level;
    let (a, b) = if unlike_units { (a.decoded(), b.decoded()) } else { (a, b) };
    let owner = if a.has_level() { a } else { b };
    let level = a.level + if same_level { sign * b.level } else { 0.0 };
    let level = if level.abs() > TINY { level } else { 0.0 };
    let lag = a.lag + sign * b.lag;
    let exact = a.is_exact() && b.is_exact() && same_level;
    let ordered = sign < 0.0 && matches!((a.side, b.side), (Some(x), Some(y)) if x > y);
    let nonnegative = (a.nonnegative && b.nonnegative && sign > 0.0) || ordered;
    let unlike = |x: &Conditioning| if x.has_level() { x.spread } else { x.walk.size };
    let spread = if level == 0.0 { 0.0 } else { unlike(&a).max(unlike(&b)) };
    let largest = (a.trend.size.max(b.trend.size), a.walk.size.max(b.walk.size));
    let cancels = level == 0.0 && a.has_level();
    let opposed = sign < 0.0
        && level == 0.0
        && a.level == 0.0
        && a.steady != 0
        && a.steady == b.steady
        && (a.trend.size - b.trend.size).abs() <= TINY * a.trend.size;
    let still = lag.abs() <= TINY * (1.0 + a.lag.abs());
    let vanishes = match () {
        () if cancels => still && a.fields == b.fields && a.spread.max(b.spread) == 0.0,
        () if opposed => true,
        () => a.vanishes && b.vanishes,
    };
    let (trend, walk) = match () {
        () if cancels => {
            let (apart, step) = (a.spread + b.spread, a.step.max(b.step));
            let bars = (lag.abs() / step).max(1.0);
            (lag.abs() + UNEVEN * step + apart, PEAK * step * bars.sqrt() + apart)
        }
        () if opposed && still && !exact => (0.0, largest.1),
        () => largest,
    };
    let worse = if b.refused && !a.refused { b } else { a };
    let found = Conditioning {
        trend: Bound { error: a.trend.error + b.trend.error, size: trend },
        walk: Bound { error: a.walk.error + b.walk.error, size: walk },
        kind: a.kind.max(b.kind).max(if exact || nonnegative {
            ErrorKind::Relative
        } else {
            ErrorKind::Terms
        }),
        level,
        level_of: owner.level_of,
        lag,
        step: if a.has_level() && b.has_level() { a.step.max(b.step) } else { owner.step },
        spread,
        fields: a.fields | b.fields,
        side: None,
        steady: match () {
            () if b.vanishes => a.steady,
            () if a.vanishes && sign > 0.0 => b.steady,
            () => 0,
        },
        whole: a.whole && b.whole,
        vanishes,
        fraction: a.fraction || b.fraction,
        blurred: a.blurred || b.blurred || (sign > 0.0 && a.fraction && b.fraction),
        finite: a.finite && b.finite,
        positive: nonnegative && !ordered && (a.positive || b.positive),
        degree: owner.degree,
        mixed: a.mixed || b.mixed || unlike_units,
        nonnegative,
        reason: worse.reason,
        refused: a.refused || b.refused,
    };
    if exact { found } else { found.rounded() }
}

/// Are both prices with the same offset?
fn alike(a: Conditioning, b: Conditioning) -> bool {
    a.is_price() && b.is_price() && a.degree == b.degree && (a.level - b.level).abs() <= TINY
}

/// `a / b - 1` of two levels, which kernels compute from their difference.
fn excess(a: Conditioning, b: Conditioning) -> Conditioning {
    quotient(sum(a, b, -1.0), b)
}

fn product(a: Conditioning, b: Conditioning) -> Conditioning {
    let times = |x: Bound, y: Bound| {
        let size = x.size * y.size;
        let error = x.error * y.size + y.error * x.size;
        Bound { error, size }
    };
    let (a, b) = if a.has_level() { (a, b) } else { (b, a) };
    let (a, b) = (a.decoded(), b.decoded());
    let worse = if b.refused && !a.refused { b } else { a };
    let found = Conditioning {
        trend: times(a.trend, b.trend),
        walk: times(a.walk, b.walk),
        kind: a.kind.max(b.kind),
        // What a level weighs varies: it cancels no more, until it is divided by the weights.
        level: if b.nonnegative { a.level * b.trend.size } else { 0.0 },
        lag: if b.nonnegative { a.lag * b.trend.size } else { 0.0 },
        degree: a.degree + b.degree,
        mixed: a.mixed || b.mixed,
        nonnegative: a.nonnegative && b.nonnegative,
        // Weights vary by as much as they are.
        spread: if a.has_level() { a.walk.size * b.walk.size } else { 0.0 },
        step: a.step * b.trend.size,
        finite: a.finite && b.finite,
        fraction: a.fraction || b.fraction,
        blurred: a.blurred || b.blurred,
        positive: false,
        fields: a.fields | b.fields,
        side: None,
        steady: 0,
        whole: a.whole && b.whole,
        vanishes: a.vanishes || b.vanishes,
        refused: a.refused || b.refused,
        reason: worse.reason,
        ..a
    };
    if a.is_exact() && b.is_exact() && !found.has_level() { found } else { found.rounded() }
}

fn quotient(a: Conditioning, b: Conditioning) -> Conditioning {
    let worse = if b.refused && !a.refused { b } else { a };
    let refused = a.refused || b.refused;
    let (fraction, finite) = (false, a.finite && b.finite);
    let a = Conditioning {
        refused,
        reason: worse.reason,
        side: None,
        steady: 0,
        whole: false,
        fraction,
        finite,
        ..a
    };
    if b.is_price() {
        let size = b.step * LEVEL;
        let level = if a.has_level() { a.level / b.level } else { 0.0 };
        let lag = if a.has_level() { (a.lag - level * b.lag) / size } else { a.lag / size };
        let step = if a.has_level() { a.step / size } else { 1.0 };
        let scaled = Conditioning { degree: a.degree - b.degree, ..a.scaled(1.0 / size) };
        if !a.has_level() {
            // No constant on a trend any more: it drifts as the level moves.
            return Conditioning { lag, step, trend: scaled.trend.rounded(1.0), ..scaled.rounded() };
        }
        let own = if a.level_of.is_none() { level.abs() } else { a.walk.size / size };
        let ratio = Bound::exact(own).rounded(2.0);
        let spread = (a.spread + level.abs() * b.spread) / size;
        let (degree, kind) = (a.degree - b.degree, ErrorKind::Absolute);
        return Conditioning { trend: ratio, walk: ratio, level, lag, step, spread, degree, kind, ..a };
    }
    let signed = !b.nonnegative || b.has_level();
    let a = a.decoded();
    if b.is_noise() || (!b.is_exact() && signed && b.kind > ErrorKind::Relative) {
        return a.refuse(RATIO);
    }
    let over = |x: Bound, y: Bound, shallow: f64| {
        // An error that does not shrink with the divisor counts where the divisor is small.
        let of_divisor = if b.kind == ErrorKind::Relative { 1.0 } else { shallow };
        let size = x.size / y.size.max(TINY);
        let own = if a.kind == ErrorKind::Absolute { shallow } else { 1.0 };
        let error = (x.error * own + size * y.error * of_divisor) / y.size.max(TINY);
        Bound { error, size }
    };
    let reason = if a.refused { a.reason } else { RATIO };
    let found = Conditioning {
        trend: over(a.trend, b.trend, 1.0),
        walk: over(a.walk, b.walk, SHALLOW),
        kind: a.kind.max(b.kind),
        level: a.level / b.trend.size.max(TINY),
        lag: a.lag / b.trend.size.max(TINY),
        // Weights cancel.
        spread: 0.0,
        step: a.step / b.trend.size.max(TINY),
        degree: a.degree - b.degree,
        mixed: a.mixed || b.mixed,
        finite: a.finite && b.positive,
        positive: a.positive && b.positive,
        nonnegative: a.nonnegative && b.nonnegative,
        reason,
        ..a
    };
    found.rounded()
}

/// Arctangent of a quotient: the angle of a vector, whose parts may be 0 one at a time.
fn angle(a: Conditioning, b: Conditioning) -> Conditioning {
    let vector = |x: Bound, y: Bound| Bound { error: SHALLOW * (x.relative() + y.relative()), size: 1.0 };
    let found = Conditioning {
        trend: vector(a.trend, b.trend),
        walk: vector(a.walk, b.walk),
        kind: ErrorKind::Absolute,
        reason: RATIO,
        nonnegative: false,
        ..EXACT
    };
    let found = found.rounded().with(&[a, b]);
    if a.is_noise() || b.is_noise() { found.refuse(RATIO) } else { found }
}

fn binary(f: BinaryOp, a: Conditioning, b: Conditioning) -> Conditioning {
    match f {
        BinaryOp::Add => sum(a, b, 1.0),
        BinaryOp::Sub => sum(a, b, -1.0),
        BinaryOp::Mul => product(a, b),
        BinaryOp::Div => quotient(a, b),
        BinaryOp::Div0 => Conditioning { finite: a.finite && b.finite, ..quotient(a, b) },
        BinaryOp::Max => Conditioning { nonnegative: a.nonnegative || b.nonnegative, ..a.or(b) },
        BinaryOp::Min => a.or(b),
        BinaryOp::Pow => Conditioning { level: 0.0, lag: 0.0, ..product(a, a).with(&[b]) },
        BinaryOp::And | BinaryOp::Or => COUNT.with(&[a, b]),
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => {
            decision(a, b)
        }
    }
}

/// A comparison: wrong where both are closer than their errors, which must be rare.
fn decision(a: Conditioning, b: Conditioning) -> Conditioning {
    let apart = sum(a, b, -1.0);
    let found = COUNT.with(&[a, b]);
    let comparable = a.walk.size.min(b.walk.size) > TINY * a.walk.size.max(b.walk.size);
    let same = a.fields == b.fields && a.fields != 0 && comparable;
    let ties = same && (a.blurred || b.blurred);
    let close = apart.walk.error > LIMIT * apart.walk.size;
    if apart.is_noise() || ties || close { found.refuse(DECISION) } else { found }
}

fn unary(f: UnaryOp, x: Conditioning, power: bool) -> Conditioning {
    let free = Conditioning { level: 0.0, lag: 0.0, spread: 0.0, side: None, steady: 0, whole: false, ..x };
    match f {
        UnaryOp::Neg => Conditioning { steady: 0, ..x.scaled(-1.0) },
        UnaryOp::Abs if x.has_level() => x,
        UnaryOp::Abs => Conditioning { nonnegative: true, lag: 0.0, steady: 0, ..x },
        UnaryOp::Sqrt if x.is_price() => x.decoded().rounded(),
        UnaryOp::Ln | UnaryOp::Log10 if x.is_price() => {
            let unit = |b: Bound| Bound { error: b.relative() + 1.0, size: 1.0 };
            let x = x.decoded();
            let finite = x.finite && x.spread == 0.0;
            let (trend, walk) = (unit(x.trend), unit(x.walk));
            Conditioning {
                level: 1.0,
                step: 1.0 / LEVEL,
                lag: x.lag / (LEVEL * x.step),
                trend,
                walk,
                finite,
                ..x
            }
        }
        UnaryOp::Sqrt => {
            let root = |b: Bound| {
                let size = b.size.sqrt();
                Bound { error: b.error / (2.0 * size.max(TINY)), size }
            };
            let degree = x.degree / 2.0;
            Conditioning { trend: root(x.trend), walk: root(x.walk), degree, nonnegative: true, ..free }
                .rounded()
        }
        UnaryOp::Ln | UnaryOp::Log10 => {
            let kind = x.kind.max(ErrorKind::Terms);
            let unit = |b: Bound| Bound { error: b.relative(), size: 1.0 };
            let finite = x.finite && x.positive;
            Conditioning {
                trend: unit(x.trend),
                walk: unit(x.walk),
                nonnegative: false,
                kind,
                finite,
                ..free
            }
            .rounded()
        }
        UnaryOp::Exp if power => Conditioning { nonnegative: true, ..free.rounded() },
        UnaryOp::Exp | UnaryOp::Sinh | UnaryOp::Cosh => x.refuse(OVERFLOW),
        UnaryOp::Tan => x.refuse(RATIO),
        UnaryOp::Sin | UnaryOp::Cos => {
            // The argument's absolute error, of a column that may be small; and the function's own.
            let unit = |b: Bound| Bound { error: PHASES * b.error + TRIGONOMETRY, size: 1.0 };
            let (kind, x) = (ErrorKind::Absolute, x.decoded());
            let reason = if x.refused { x.reason } else { RATIO };
            Conditioning {
                trend: unit(x.trend),
                walk: unit(x.walk),
                nonnegative: false,
                kind,
                reason,
                ..free
            }
        }
        // The error is magnified near 1.
        UnaryOp::Asin | UnaryOp::Acos if !x.is_exact() => x.refuse(RATIO),
        UnaryOp::Asin | UnaryOp::Acos => Conditioning { nonnegative: false, ..free.rounded() },
        UnaryOp::Atan => free.rounded(),
        // Rounded to 1, however small the argument is.
        UnaryOp::Tanh => {
            let unit = |b: Bound| Bound { error: b.error + 1.0, size: b.size.min(1.0) };
            Conditioning { trend: unit(x.trend), walk: unit(x.walk), ..free }
        }
        UnaryOp::Floor | UnaryOp::Ceil if x.is_exact() => x,
        UnaryOp::Floor | UnaryOp::Ceil => x.refuse(DECISION),
        UnaryOp::Sign => {
            let found = Conditioning { nonnegative: false, ..COUNT }.with(&[x]);
            if x.is_noise() { found.refuse(DECISION) } else { found }
        }
    }
}

/// A value that is older by some bars on average.
fn aged(x: Conditioning, bars: f64) -> Conditioning {
    // A ratio of levels does not move on a trend.
    let moves = x.has_level() && (x.degree != 0.0 || x.level_of.is_some());
    let lag = if moves { x.lag + x.step * x.level.signum() * bars } else { x.lag };
    Conditioning { lag, side: None, ..x }
}

/// A rolling sum with these weights in total, whose terms are that old on average: exact for whole ticks.
fn total(x: Conditioning, weight: f64, age: f64) -> Conditioning {
    let found = aged(x, age).scaled(weight);
    let kind = if x.nonnegative { x.kind } else { x.kind.max(ErrorKind::Terms) };
    if x.is_exact() {
        return found;
    }
    let rounded = found.rounded();
    let trend = if x.whole || x.has_level() { rounded.trend } else { rounded.trend.rounded(1.0) };
    Conditioning { kind, trend, blurred: x.blurred || x.fraction, ..rounded }
}

/// A moving average of gain 1, that old on average: rounded to the range of what it averages.
fn average(x: Conditioning, age: f64) -> Conditioning {
    let kind = if x.nonnegative || x.has_level() { x.kind } else { x.kind.max(ErrorKind::Terms) };
    Conditioning { kind, fraction: false, blurred: false, ..aged(x, age) }.rounded_times(RECURSIVE)
}

fn fir(x: Conditioning, weights: &[f64]) -> Conditioning {
    let n = weights.len() as f64;
    let gain: f64 = weights.iter().sum();
    let size: f64 = weights.iter().map(|w| w.abs()).sum();
    let moment: f64 = weights.iter().enumerate().map(|(i, w)| w * (n - 1.0 - i as f64)).sum();
    let positive = weights.iter().all(|w| *w >= 0.0);
    let scaled = x.scaled(size);
    let found = Conditioning {
        step: x.step * if gain.abs() <= TINY * size { size } else { gain.abs() },
        level: if gain.abs() <= TINY * size { 0.0 } else { x.level * gain },
        lag: x.lag * gain + aged(x, moment).lag - x.lag,
        nonnegative: x.nonnegative && positive,
        kind: if x.nonnegative && positive { x.kind } else { x.kind.max(ErrorKind::Terms) },
        whole: false,
        steady: if positive && (gain - 1.0).abs() < TINY { x.steady } else { 0 },
        ..scaled
    };
    if found.has_level() || !x.has_level() {
        return found.rounded();
    }
    // Weights that cancel: the kernel sums distances from a value of the window.
    let near = |error: f64, span: f64| Bound { error: error * size, size: span };
    let (trend, walk) = (near(x.trend.error, x.step * size), near(x.walk.error, x.step * size * n.sqrt()));
    Conditioning { trend, walk, spread: 0.0, ..found }.rounded_times(2.0 * n.sqrt())
}

/// A central moment of a window; the kernel computes distances from one of its values, so that whole ticks have no error.
fn deviation(x: Conditioning, n: usize, power: i32) -> Conditioning {
    let n = n as f64;
    // What is constant on a trend but for rounding drifts with the level.
    let trend = if x.has_level() { x.step * n / 4.0 + x.spread } else { x.trend.size * n / (4.0 * TREND) };
    let walk = if x.has_level() { x.step * n.sqrt() + x.spread } else { x.walk.size / 2.0 };
    let moment = |error: f64, size: f64| {
        let slope = f64::from(power) * size.powi(power - 1);
        Bound { error: error * slope.max(if error > 0.0 { TINY } else { 0.0 }), size: size.powi(power) }
    };
    let kind = if x.is_exact() { ErrorKind::Relative } else { ErrorKind::Absolute };
    Conditioning {
        trend: moment(x.trend.error, trend),
        walk: moment(x.walk.error, walk),
        kind,
        level: 0.0,
        lag: 0.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        vanishes: x.vanishes || !x.has_level(),
        degree: x.degree * f64::from(power),
        nonnegative: true,
        ..x
    }
    .rounded()
}

/// Co-moment with the bar index: on a trend, its slope times the index's own moment.
fn slope(x: Conditioning, n: f64) -> Conditioning {
    let weight = n * (n * n - 1.0) / 12.0;
    // Errors of neighbouring bars are independent.
    let spread = (n * n * n / 12.0).sqrt();
    let near = |b: Bound, size: f64| Bound { error: b.error * spread, size };
    let full = n * n / 4.0;
    let (trend, walk) = if x.has_level() {
        (x.step * weight, x.step * weight)
    } else {
        (x.trend.size * n * n * n / (12.0 * TREND), x.walk.size * full)
    };
    Conditioning {
        trend: near(x.trend, trend),
        walk: near(x.walk, walk),
        kind: x.kind.max(ErrorKind::Terms),
        level: 0.0,
        lag: if x.has_level() { -x.step * weight } else { 0.0 },
        step: 1.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        vanishes: x.vanishes || !x.has_level(),
        nonnegative: false,
        ..x
    }
    .rounded()
}

/// Ranks and positions: whole numbers, decided by comparisons within a window.
fn ranked(x: Conditioning) -> Conditioning {
    let found = COUNT.with(&[x]);
    if x.is_noise() { found.refuse(DECISION) } else { found }
}

/// A cumulative sum: a level of its own, which whole numbers reach without error.
fn accumulated(x: Conditioning, node: u32) -> Conditioning {
    let reach = |b: Bound| b.scaled(SUM);
    let found = Conditioning {
        trend: reach(x.trend),
        walk: reach(x.walk),
        level: x.walk.size,
        level_of: Some(node),
        lag: 0.0,
        step: x.walk.size,
        spread: 0.0,
        side: None,
        steady: 0,
        vanishes: false,
        ..x
    };
    if x.is_exact() { found } else { Conditioning { kind: ErrorKind::Absolute, ..found.rounded() } }
}

/// A recurrence that rounds also what is constant.
fn drifting(x: Conditioning) -> Conditioning {
    Conditioning { trend: x.trend.rounded(1.0), whole: false, ..x }
}

/// A recurrence with a factor per bar: a held value, or a compounded one, which is a level of its own.
fn compounded(factor: Conditioning, x: Conditioning, node: u32) -> Conditioning {
    if factor.is_exact() && factor.whole && x.is_exact() {
        return Conditioning { level: 0.0, lag: 0.0, steady: 0, ..x.scaled(PEAK) }.with(&[factor]);
    }
    if factor.is_exact() {
        return drifting(Conditioning { level: 0.0, lag: 0.0, ..average(x, 0.0) }).with(&[factor]);
    }
    let found = accumulated(x.or(factor), node);
    Conditioning { kind: ErrorKind::Absolute, ..found.rounded() }
}

/// A state machine, by its response (`state_machines.rs`).
fn machine(name: &str, params: &[f64], inputs: &[Conditioning], port: usize) -> Conditioning {
    let input = |at: usize| inputs.get(at).copied().unwrap_or(EXACT);
    let first = input(0);
    let all = inputs.iter().skip(1).fold(first, |all, x| all.or(*x));
    let noisy = inputs.iter().any(Conditioning::is_noise);
    let decided = |x: Conditioning| if noisy { x.refuse(DECISION) } else { x };
    match state_machines::response(name) {
        Some(Response::Average) if port == 0 => average(first.decoded(), 5.0).with(inputs),
        Some(Response::Average) => deviation(first.decoded(), 10, 1).with(inputs),
        Some(Response::RatioAverage) if first.is_price() => average(first.decoded(), 5.0).with(inputs),
        Some(Response::RatioAverage) => first.refuse(RATIO),
        Some(Response::Trailing) if port == 0 => decided(average(all.decoded(), 5.0)),
        Some(Response::Filter { gain }) => {
            filter(first, gain.map_or(0.0, |at| params.get(at).copied().unwrap_or(0.0)))
        }
        Some(Response::Distances) => {
            let near = sum(first, aged(first, 1.0), -1.0);
            let scaled =
                if first.is_exact() { Conditioning { kind: ErrorKind::Terms, ..near } } else { near };
            scaled.rounded()
        }
        Some(Response::Residual) => sum(first, input(1), -1.0),
        Some(Response::Selected { values }) if port < values => decided(all.decoded()),
        Some(Response::Held) => first.with(inputs),
        Some(Response::Count | Response::Trailing | Response::Selected { .. }) => {
            decided(Conditioning { nonnegative: false, ..COUNT }.with(inputs))
        }
        Some(Response::Oscillator) => {
            let change = sum(first, aged(first, 1.0), -1.0);
            let bounded = quotient(
                Conditioning { nonnegative: true, ..change },
                Conditioning { nonnegative: true, ..change },
            );
            Conditioning { nonnegative: false, level: 0.0, lag: 0.0, ..bounded }.rounded()
        }
        Some(Response::Smoothed | Response::Clamped) => average(first, 0.0).with(inputs),
        Some(Response::Deviation) => deviation(first, params.first().map_or(1, |n| *n as usize), 1),
        Some(Response::WeightedSum) => {
            let n = params.first().copied().unwrap_or(1.0);
            total(first, n * (n + 1.0) / 2.0, (n - 1.0) / 3.0)
        }
        Some(Response::Phase) => all.refuse(PHASE),
        None => all.refuse(crate::placement::UNKNOWN),
    }
}

/// A linear filter of this gain at frequency 0; its state is the distance from the input.
fn filter(x: Conditioning, gain: f64) -> Conditioning {
    let x = x.decoded();
    if gain.abs() > TINY {
        return average(x, 5.0).scaled(gain);
    }
    let size = if x.has_level() { 5.0 * x.step } else { x.walk.size };
    let bound = |b: Bound| Bound { error: b.error, size }.rounded(1.0);
    let kind = x.kind.max(ErrorKind::Terms);
    Conditioning {
        trend: bound(x.trend),
        walk: bound(x.walk),
        kind,
        level: 0.0,
        lag: 0.0,
        spread: 0.0,
        side: None,
        steady: 0,
        whole: false,
        vanishes: true,
        nonnegative: false,
        ..x
    }
}
