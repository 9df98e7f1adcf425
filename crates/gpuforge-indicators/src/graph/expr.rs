//! Graph builder: expression handles with operator overloading, and the inputs they start from.

use std::{cell::RefCell, fmt};

use super::{BinaryOp, F64Bits, Field, Graph, NodeOp, Seed, UnaryOp, ValueId};
use crate::kernel::{state_machine::StateMachineDef, whole_series::WholeSeriesDef};

/// Handle of a value in a graph that is being built. A copy refers to the same value.
#[derive(Clone, Copy)]
pub struct Expr<'g> {
    graph: &'g RefCell<Graph>,
    val: ValueId,
}

impl fmt::Debug for Expr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.val)
    }
}

/// Adds input columns, constants and state machines to a graph.
#[derive(Clone, Copy)]
pub struct GraphBuilder<'g> {
    graph: &'g RefCell<Graph>,
}

impl<'g> GraphBuilder<'g> {
    /// A builder that adds to this graph.
    pub fn new(graph: &'g RefCell<Graph>) -> Self {
        GraphBuilder { graph }
    }

    fn add(self, op: NodeOp) -> Expr<'g> {
        let node = self.graph.borrow_mut().add(op);
        Expr { graph: self.graph, val: ValueId { node, port: 0 } }
    }

    /// An input column.
    pub fn field(self, field: Field) -> Expr<'g> {
        self.add(NodeOp::Input(field))
    }
    /// Open.
    pub fn open(self) -> Expr<'g> {
        self.field(Field::Open)
    }
    /// High.
    pub fn high(self) -> Expr<'g> {
        self.field(Field::High)
    }
    /// Low.
    pub fn low(self) -> Expr<'g> {
        self.field(Field::Low)
    }
    /// Close.
    pub fn close(self) -> Expr<'g> {
        self.field(Field::Close)
    }
    /// Volume.
    pub fn volume(self) -> Expr<'g> {
        self.field(Field::Volume)
    }
    /// Bar timestamp, in seconds since the epoch.
    pub fn time(self) -> Expr<'g> {
        self.field(Field::Time)
    }
    /// A constant column.
    pub fn constant(self, x: f64) -> Expr<'g> {
        self.add(NodeOp::Const(F64Bits::of(x)))
    }
    /// A column computed from the whole series beforehand (looks ahead): whatever uses it is not causal.
    pub fn whole_series(self, def: &'static WholeSeriesDef, params: &[f64]) -> Expr<'g> {
        self.add(NodeOp::WholeSeries { def, params: params.iter().map(|p| F64Bits::of(*p)).collect() })
    }
    /// A state machine over these inputs; its outputs in order.
    pub fn state_machine(
        self,
        def: &'static StateMachineDef,
        params: &[f64],
        inputs: &[Expr<'g>],
    ) -> Vec<Expr<'g>> {
        let params = params.iter().map(|p| F64Bits::of(*p)).collect();
        let inputs = inputs.iter().map(|x| x.val).collect();
        let first = self.add(NodeOp::StateMachine { def, params, inputs });
        (0..def.outputs).map(|port| first.port(port)).collect()
    }
}

impl<'g> Expr<'g> {
    /// The builder of its graph.
    pub fn builder(self) -> GraphBuilder<'g> {
        GraphBuilder { graph: self.graph }
    }

    pub(crate) fn val(self) -> ValueId {
        self.val
    }

    /// Another output port of the same node.
    fn port(self, port: usize) -> Expr<'g> {
        Expr { val: ValueId { port: u8::try_from(port).unwrap_or(0), ..self.val }, ..self }
    }

    /// First valid bar.
    pub fn start(self) -> usize {
        self.graph.borrow().start(self.val)
    }

    fn add(self, op: NodeOp) -> Expr<'g> {
        self.builder().add(op)
    }

    /// Element-wise function of this value.
    pub fn unary(self, f: UnaryOp) -> Expr<'g> {
        self.add(NodeOp::Unary(f, self.val))
    }

    /// Element-wise function of this value and another.
    pub fn binary(self, f: BinaryOp, other: impl Operand<'g>) -> Expr<'g> {
        let other = other.into_expr(self.builder());
        self.add(NodeOp::Binary(f, self.val, other.val))
    }

    /// `if self != 0 { a } else { b }`.
    pub fn select(self, a: impl Operand<'g>, b: impl Operand<'g>) -> Expr<'g> {
        let (a, b) = (a.into_expr(self.builder()), b.into_expr(self.builder()));
        self.add(NodeOp::Select(self.val, a.val, b.val))
    }

    /// Lag: the value `n` bars ago.
    pub fn shift(self, n: usize) -> Expr<'g> {
        if n == 0 { self } else { self.add(NodeOp::Shift(self.val, n)) }
    }

    /// Fills its warm-up with `before`: the initial values of a recurrence or of a cumulative sum.
    pub fn fill_warmup(self, before: impl Operand<'g>) -> Expr<'g> {
        let before = before.into_expr(self.builder());
        if before.start() >= self.start() { self } else { self.add(NodeOp::FillWarmup(self.val, before.val)) }
    }

    /// Rolling sum.
    pub fn sum(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::RollingSum(self.val, n)) }
    }

    /// Rolling sum over the last `n` values, or over as many as there are yet (pandas `min_periods=1`).
    pub fn partial_sum(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::PartialRollingSum(self.val, n.max(1)))
    }

    /// Rolling sum in TA-Lib's order of additions: summed at bar `from`, then updated by (newest - oldest). For comparisons
    /// that the last bit decides: another first bar, or adding and subtracting in two steps, rounds differently.
    pub fn sum_from(self, n: usize, from: usize) -> Expr<'g> {
        self.add(NodeOp::RollingSumFrom { a: self.val, n: n.max(1), from })
    }

    /// Simple moving average.
    pub fn sma(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.sum(n) / n as f64 }
    }

    /// Linearly weighted moving average, the newest value weighted most.
    pub fn wma(self, n: usize) -> Expr<'g> {
        if n <= 1 {
            self
        } else {
            self.add(NodeOp::LinearWeightedSum(self.val, n)) / ((n * (n + 1) / 2) as f64)
        }
    }

    /// Rolling sum with linear weights 1..=n.
    pub fn linear_weighted_sum(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::LinearWeightedSum(self.val, n.max(1)))
    }

    /// FIR filter: rolling dot product with these weights, oldest first.
    pub fn fir(self, weights: &[f64]) -> Expr<'g> {
        self.add(NodeOp::Fir(self.val, weights.iter().map(|w| F64Bits::of(*w)).collect()))
    }

    /// Rolling max.
    pub fn highest(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::RollingMinMax { a: self.val, n, max: true }) }
    }

    /// 1 where the last `n` values are all exactly 0. Counts zeros: a rolling sum of the values may keep a rounding residue of
    /// what left the window, an integer count does not.
    pub fn all_zero(self, n: usize) -> Expr<'g> {
        self.abs().le(0.0).sum(n).ge(n.max(1) as f64)
    }

    /// Rolling min.
    pub fn lowest(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::RollingMinMax { a: self.val, n, max: false }) }
    }

    /// Bars since the rolling max.
    pub fn bars_since_highest(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingArgMinMax { a: self.val, n: n.max(1), max: true })
    }

    /// Bars since the rolling min.
    pub fn bars_since_lowest(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingArgMinMax { a: self.val, n: n.max(1), max: false })
    }

    /// Rolling population variance.
    pub fn variance(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingVariance(self.val, n.max(1)))
    }

    /// Rolling population standard deviation.
    pub fn stddev(self, n: usize) -> Expr<'g> {
        self.variance(n).unary(UnaryOp::Sqrt)
    }

    /// Rolling mean absolute deviation from the mean.
    pub fn mean_deviation(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingMeanDeviation(self.val, n.max(1)))
    }

    /// Rolling second central moment (population variance) that is exactly 0 where all values are equal.
    pub fn second_central_moment(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingCentralMoment(self.val, n.max(1), 2))
    }

    /// Rolling second central moment and the one of this power (3 or 4); exactly 0 where all values are equal.
    pub fn central_moments(self, n: usize, power: u8) -> (Expr<'g>, Expr<'g>) {
        let square = self.add(NodeOp::RollingCentralMoment(self.val, n.max(1), power.clamp(3, 4)));
        (square, square.port(1))
    }

    /// Rolling co-moment: sum of the products of both deviations from their means.
    pub fn co_moment(self, other: Expr<'g>, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingCoMoment(self.val, other.val, n.max(1)))
    }

    /// Rolling co-moment with the bar index (numerator of a least-squares slope).
    pub fn time_moment(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingTimeMoment(self.val, n.max(1)))
    }

    /// Rolling order statistic: the `k`-th smallest of the last `n`, counted from 0.
    pub fn order_statistic(self, n: usize, k: usize) -> Expr<'g> {
        let n = n.max(1);
        self.add(NodeOp::RollingOrderStatistic { a: self.val, n, ranks: vec![k.min(n - 1)] })
    }

    /// Rolling median; the mean of the two middle values where `n` is even.
    pub fn median(self, n: usize) -> Expr<'g> {
        let n = n.max(1);
        if n % 2 == 1 {
            return self.order_statistic(n, n / 2);
        }
        let lower = self.add(NodeOp::RollingOrderStatistic { a: self.val, n, ranks: vec![n / 2 - 1, n / 2] });
        (lower + lower.port(1)) / 2.0
    }

    /// How many of the `n` values before this one are less than (or equal to) it.
    pub fn rank(self, n: usize, or_equal: bool) -> Expr<'g> {
        self.add(NodeOp::RollingRank { a: self.val, n: n.max(1), or_equal })
    }

    /// EMA with smoothing factor `k`.
    pub fn ema_alpha(self, k: f64, seed: Seed) -> Expr<'g> {
        self.add(NodeOp::Ema { a: self.val, k: F64Bits::of(k), seed })
    }

    /// EMA with `k = 2 / (n + 1)`, seeded with the mean of the first `n` values.
    pub fn ema(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.ema_alpha(2.0 / (n as f64 + 1.0), Seed::Mean(n)) }
    }

    /// Wilder's smoothing (RMA), seeded with the mean of the first `n` values.
    pub fn wilder(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::Wilder { a: self.val, n, seed: Seed::Mean(n) }) }
    }

    /// Wilder's smoothing (RMA) with this seed.
    pub fn wilder_seeded(self, n: usize, seed: Seed) -> Expr<'g> {
        self.add(NodeOp::Wilder { a: self.val, n: n.max(1), seed })
    }

    /// First-order linear recurrence `y = self * y + b`, beginning with the first `b`.
    pub fn linear_recurrence(self, b: Expr<'g>) -> Expr<'g> {
        self.add(NodeOp::LinearRecurrence { a: self.val, b: b.val })
    }

    /// EMA with a per-bar smoothing factor: `y += k * (self - y)`, with `first` as the initial `y`.
    pub fn adaptive_ema(self, k: Expr<'g>, first: Expr<'g>) -> Expr<'g> {
        self.add(NodeOp::AdaptiveEma { a: self.val, k: k.val, first: first.val })
    }

    /// Cumulative sum.
    pub fn cumsum(self) -> Expr<'g> {
        self.add(NodeOp::CumSum(self.val))
    }

    /// Cumulative max.
    pub fn cummax(self) -> Expr<'g> {
        self.add(NodeOp::CumMinMax { a: self.val, max: true })
    }

    /// Cumulative min.
    pub fn cummin(self) -> Expr<'g> {
        self.add(NodeOp::CumMinMax { a: self.val, max: false })
    }

    /// Delays validity: NaN before bar `start`.
    pub fn from_bar(self, start: usize) -> Expr<'g> {
        let late = start.saturating_sub(self.start());
        if late == 0 {
            return self;
        }
        // A select whose condition is a shifted constant has exactly this start; the plan forwards its operand, so it costs nothing.
        let here = self.start();
        let one = self.builder().constant(1.0).shift(here + late);
        one.select(self, self)
    }
}

/// Right-hand side of an operator: an expression or a constant.
pub trait Operand<'g> {
    /// As an expression of this graph.
    fn into_expr(self, builder: GraphBuilder<'g>) -> Expr<'g>;
}

impl<'g> Operand<'g> for Expr<'g> {
    fn into_expr(self, _builder: GraphBuilder<'g>) -> Expr<'g> {
        self
    }
}

impl<'g> Operand<'g> for f64 {
    fn into_expr(self, builder: GraphBuilder<'g>) -> Expr<'g> {
        builder.constant(self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'g, T: Operand<'g>> std::ops::$trait<T> for Expr<'g> {
            type Output = Expr<'g>;
            fn $method(self, other: T) -> Expr<'g> {
                self.binary(BinaryOp::$op, other)
            }
        }
        impl<'g> std::ops::$trait<Expr<'g>> for f64 {
            type Output = Expr<'g>;
            fn $method(self, other: Expr<'g>) -> Expr<'g> {
                other.builder().constant(self).binary(BinaryOp::$op, other)
            }
        }
    )*};
}

operators! { Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; }

impl<'g> std::ops::Neg for Expr<'g> {
    type Output = Expr<'g>;
    fn neg(self) -> Expr<'g> {
        self.unary(UnaryOp::Neg)
    }
}

macro_rules! binary_methods {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident;)*) => {
        impl<'g> Expr<'g> {$(
            $(#[doc = $doc])*
            pub fn $name(self, other: impl Operand<'g>) -> Expr<'g> {
                self.binary(BinaryOp::$op, other)
            }
        )*}
    };
}

binary_methods! {
    /// Division that gives 0 where the divisor is 0.
    div0 Div0;
    /// Minimum of both.
    min Min;
    /// Maximum of both.
    max Max;
    /// Power.
    pow Pow;
    /// 1 where less, else 0.
    lt Lt;
    /// 1 where less or equal, else 0.
    le Le;
    /// 1 where greater, else 0.
    gt Gt;
    /// 1 where greater or equal, else 0.
    ge Ge;
    /// 1 where equal, else 0.
    eq Eq;
    /// 1 where not equal, else 0.
    ne Ne;
    /// 1 where both are not 0, else 0.
    and And;
    /// 1 where either is not 0, else 0.
    or Or;
}

macro_rules! unary_methods {
    ($($name:ident $op:ident;)*) => {
        impl<'g> Expr<'g> {$(
            #[doc = concat!("`", stringify!($name), "`, element-wise.")]
            pub fn $name(self) -> Expr<'g> {
                self.unary(UnaryOp::$op)
            }
        )*}
    };
}

unary_methods! {
    abs Abs; sqrt Sqrt; ln Ln; log10 Log10; exp Exp; sin Sin; cos Cos; tan Tan; asin Asin; acos Acos; atan Atan;
    sinh Sinh; cosh Cosh; tanh Tanh; floor Floor; ceil Ceil; sign Sign;
}
