//! What is computed from what? Values as nodes; equal nodes are one, whoever asked for them.
//!
//! An indicator is a function that takes [`X`] handles and combines them: `(high + low) / 2.0`, `close.sma(20)`. Every
//! value knows its first valid bar (`start`): before it there is NaN, and no kernel has to look for NaN.

use std::{cell::RefCell, collections::HashMap, fmt};

use crate::kernel::{machine::MachineDef, whole::WholeDef};

/// A column of bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// First price.
    Open,
    /// Highest price.
    High,
    /// Lowest price.
    Low,
    /// Last price.
    Close,
    /// Traded volume.
    Volume,
    /// Time of the bar: seconds since the epoch.
    Time,
}

impl Field {
    /// All of them.
    pub const ALL: [Field; 6] =
        [Field::Open, Field::High, Field::Low, Field::Close, Field::Volume, Field::Time];
}

/// Functions of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum UnaryOp {
    Neg,
    Abs,
    Sqrt,
    Ln,
    Log10,
    Exp,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Floor,
    Ceil,
    /// -1, 0 or 1.
    Sign,
}

/// Functions of two numbers. Comparisons give 1 or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the functions")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    /// Division that gives 0 where the divisor is 0.
    Div0,
    Min,
    Max,
    Pow,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
}

/// Where a recursion begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seed {
    /// At the first value, with it.
    First,
    /// With the mean of the first `n` values, at the last of them.
    Mean(usize),
}

/// One output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId {
    /// Which node, counted from 0.
    pub node: u32,
    /// Which of its outputs.
    pub port: u8,
}

/// A number as bits, so that nodes can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct F64Bits(u64);

impl F64Bits {
    /// From a number.
    pub fn of(x: f64) -> F64Bits {
        F64Bits(x.to_bits())
    }

    /// As a number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Debug for F64Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant says what it is; a and b are inputs, n a window")]
pub enum NodeOp {
    Input(Field),
    Const(F64Bits),
    UnaryOp(UnaryOp, ValueId),
    BinaryOp(BinaryOp, ValueId, ValueId),
    /// Where the first is not 0, the second, else the third.
    Select(ValueId, ValueId, ValueId),
    /// The value `n` bars ago.
    Shift(ValueId, usize),
    /// The second until the first begins, then the first.
    Preceded(ValueId, ValueId),
    /// Sum of the last `n`, by adding the newest and taking off the oldest.
    Sum(ValueId, usize),
    /// Sum of the last `n`, summed afresh at bar `from` and moved since by the newest less the one that leaves.
    Total {
        a: ValueId,
        n: usize,
        from: usize,
    },
    /// Sum of the last `n`, or of as many as there are yet.
    GrowingSum(ValueId, usize),
    /// Sum of the last `n` with weights 1..=n, the newest the heaviest.
    RampSum(ValueId, usize),
    /// Sum of the last values with these weights, the oldest first.
    Fir(ValueId, Vec<F64Bits>),
    /// Greatest or least of the last `n`.
    Extreme {
        a: ValueId,
        n: usize,
        max: bool,
    },
    /// How many bars ago the greatest or least of the last `n` was; the most recent of equals.
    Ago {
        a: ValueId,
        n: usize,
        max: bool,
    },
    /// Mean square of the distance from the mean of the last `n` (population variance).
    Variance(ValueId, usize),
    /// Mean distance from the mean of the last `n`.
    MeanDeviation(ValueId, usize),
    /// Mean square of the distance from the mean of the last `n`, and the mean of this power (3 or 4) of it; 2 is the first
    /// alone.
    CentralMoment(ValueId, usize, u8),
    /// Sum of the products of the distances from the means of the last `n` of both.
    CoMoment(ValueId, ValueId, usize),
    /// The same of the number of the bar and a value.
    TimeMoment(ValueId, usize),
    /// Of the last `n` in ascending order, those at these places, counted from 0.
    Order {
        a: ValueId,
        n: usize,
        places: Vec<usize>,
    },
    /// How many of the last `n` values before this one are less than (or equal to) it.
    Rank {
        a: ValueId,
        n: usize,
        or_equal: bool,
    },
    /// `y += k * (x - y)`.
    Ema {
        a: ValueId,
        k: F64Bits,
        seed: Seed,
    },
    /// `y = (y * (n - 1) + x) / n`.
    Wilder {
        a: ValueId,
        n: usize,
        seed: Seed,
    },
    /// `y = a * y + b`, beginning with the first `b`.
    Affine {
        a: ValueId,
        b: ValueId,
    },
    /// `y += k * (a - y)` with a `k` of every bar; `first` is `y` before the first bar.
    Follow {
        a: ValueId,
        k: ValueId,
        first: ValueId,
    },
    /// Sum of everything so far.
    CumSum(ValueId),
    /// Greatest or least of everything so far.
    CumExtreme {
        a: ValueId,
        max: bool,
    },
    /// A column computed from the whole series beforehand.
    Whole {
        def: &'static WholeDef,
        params: Vec<F64Bits>,
    },
    /// A named state machine: one step a bar.
    Machine {
        def: &'static MachineDef,
        params: Vec<F64Bits>,
        inputs: Vec<ValueId>,
    },
}

/// A node and where it is valid.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it does.
    pub prim: NodeOp,
    /// The first bar at which it has a value.
    pub start: usize,
}

/// All nodes, each after its inputs.
#[derive(Debug, Default)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    known: HashMap<NodeOp, u32>,
}

impl Graph {
    fn add(&mut self, prim: NodeOp) -> u32 {
        if let Some(node) = self.known.get(&prim) {
            return *node;
        }
        let start = self.start_of(&prim);
        let node = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.known.insert(prim.clone(), node);
        self.nodes.push(Node { prim, start });
        node
    }

    /// All nodes, each after what it reads.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The first bar at which a value is there.
    pub fn start(&self, val: ValueId) -> usize {
        self.nodes.get(val.node as usize).map_or(0, |n| n.start)
    }

    /// The first bar at which a node has a value.
    fn start_of(&self, prim: &NodeOp) -> usize {
        let of = |v: &ValueId| self.start(*v);
        let window = |v: &ValueId, n: usize| of(v) + n.saturating_sub(1);
        let seeded = |v: &ValueId, seed: &Seed| match seed {
            Seed::First => of(v),
            Seed::Mean(n) => window(v, *n),
        };
        match prim {
            NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => 0,
            NodeOp::Unary(_, a) | NodeOp::CumSum(a) | NodeOp::CumMinMax { a, .. } | NodeOp::PartialRollingSum(a, _) => of(a),
            NodeOp::AdaptiveEma { a, k, first } => of(a).max(of(k)).max(of(first)),
            NodeOp::Binary(_, a, b) | NodeOp::LinearRecurrence { a, b } => of(a).max(of(b)),
            NodeOp::Select(c, a, b) => of(c).max(of(a)).max(of(b)),
            NodeOp::Shift(a, n) => of(a) + n,
            NodeOp::FillWarmup(_, b) => of(b),
            NodeOp::RollingSum(a, n)
            | NodeOp::LinearWeightedSum(a, n)
            | NodeOp::RollingMinMax { a, n, .. }
            | NodeOp::RollingArgMinMax { a, n, .. }
            | NodeOp::RollingVariance(a, n)
            | NodeOp::RollingMeanDeviation(a, n)
            | NodeOp::RollingCentralMoment(a, n, _)
            | NodeOp::RollingTimeMoment(a, n)
            | NodeOp::RollingOrderStatistic { a, n, .. } => window(a, *n),
            NodeOp::RollingRank { a, n, .. } => of(a) + n,
            NodeOp::RollingSumFrom { a, n, from } => window(a, *n).max(*from),
            NodeOp::Fir(a, weights) => window(a, weights.len()),
            NodeOp::RollingCoMoment(a, b, n) => window(a, *n).max(window(b, *n)),
            NodeOp::Ema { a, seed, .. } | NodeOp::Wilder { a, seed, .. } => seeded(a, seed),
            NodeOp::StateMachine { def, params, inputs } => {
                let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
                inputs.iter().map(of).max().unwrap_or(0) + (def.lookback)(&params)
            }
        }
    }
}

impl NodeOp {
    /// What it reads, and how many bars back at most.
    pub fn reads(&self) -> Vec<(ValueId, usize)> {
        match self {
            NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => vec![],
            NodeOp::Unary(_, a) | NodeOp::CumSum(a) | NodeOp::CumMinMax { a, .. } => vec![(*a, 0)],
            NodeOp::Binary(_, a, b) | NodeOp::LinearRecurrence { a, b } | NodeOp::FillWarmup(a, b) => vec![(*a, 0), (*b, 0)],
            NodeOp::Select(c, a, b) => vec![(*c, 0), (*a, 0), (*b, 0)],
            NodeOp::AdaptiveEma { a, k, first } => vec![(*a, 0), (*k, 0), (*first, 0)],
            NodeOp::PartialRollingSum(a, n) => vec![(*a, *n)],
            NodeOp::Shift(a, n) | NodeOp::RollingSum(a, n) | NodeOp::LinearWeightedSum(a, n) | NodeOp::RollingRank { a, n, .. } => {
                vec![(*a, *n)]
            }
            NodeOp::RollingMinMax { a, n, .. }
            | NodeOp::RollingArgMinMax { a, n, .. }
            | NodeOp::RollingVariance(a, n)
            | NodeOp::RollingMeanDeviation(a, n)
            | NodeOp::RollingCentralMoment(a, n, _)
            | NodeOp::RollingTimeMoment(a, n)
            | NodeOp::RollingSumFrom { a, n, .. }
            | NodeOp::RollingOrderStatistic { a, n, .. } => vec![(*a, *n)],
            NodeOp::Fir(a, weights) => vec![(*a, weights.len())],
            NodeOp::RollingCoMoment(a, b, n) => vec![(*a, *n), (*b, *n)],
            NodeOp::Ema { a, seed, .. } | NodeOp::Wilder { a, seed, .. } => match seed {
                Seed::First => vec![(*a, 0)],
                Seed::Mean(n) => vec![(*a, *n)],
            },
            NodeOp::StateMachine { inputs, .. } => inputs.iter().map(|v| (*v, 0)).collect(),
        }
    }

    /// Is it there before anything is computed?
    pub(crate) fn is_given(&self) -> bool {
        matches!(self, NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. })
    }

    /// How many outputs it has.
    pub fn ports(&self) -> usize {
        match self {
            NodeOp::StateMachine { def, .. } => def.outputs,
            NodeOp::RollingOrderStatistic { places, .. } => places.len(),
            NodeOp::RollingCentralMoment(_, _, 3..) => 2,
            _ => 1,
        }
    }
}

/// A value that is being combined. Copying it copies a reference.
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

/// Where an indicator starts: the bars, the source it was given, constants.
#[derive(Clone, Copy)]
pub struct GraphBuilder<'g> {
    graph: &'g RefCell<Graph>,
}

impl<'g> GraphBuilder<'g> {
    /// Over a graph that others may add to as well.
    pub fn new(graph: &'g RefCell<Graph>) -> Self {
        GraphBuilder { graph }
    }

    fn add(self, prim: NodeOp) -> Expr<'g> {
        let node = self.graph.borrow_mut().add(prim);
        Expr { graph: self.graph, val: ValueId { node, port: 0 } }
    }

    /// A column of the bars.
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
    /// Time, in seconds since the epoch.
    pub fn time(self) -> Expr<'g> {
        self.field(Field::Time)
    }
    /// The same number at every bar.
    pub fn number(self, x: f64) -> Expr<'g> {
        self.add(NodeOp::Const(F64Bits::of(x)))
    }
    /// A column computed from the whole series beforehand. What rests on it is not causal.
    pub fn whole(self, def: &'static WholeDef, params: &[f64]) -> Expr<'g> {
        self.add(NodeOp::WholeSeries { def, params: params.iter().map(|p| F64Bits::of(*p)).collect() })
    }
    /// A state machine over some values; its outputs in order.
    pub fn machine(self, def: &'static MachineDef, params: &[f64], inputs: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let params = params.iter().map(|p| F64Bits::of(*p)).collect();
        let inputs = inputs.iter().map(|x| x.val).collect();
        let first = self.add(NodeOp::StateMachine { def, params, inputs });
        (0..def.outputs).map(|port| first.port(port)).collect()
    }
}

impl<'g> Expr<'g> {
    /// The bars it is made of.
    pub fn bars(self) -> GraphBuilder<'g> {
        GraphBuilder { graph: self.graph }
    }

    pub(crate) fn val(self) -> ValueId {
        self.val
    }

    /// Another output of the same node.
    fn port(self, port: usize) -> Expr<'g> {
        Expr { val: ValueId { port: u8::try_from(port).unwrap_or(0), ..self.val }, ..self }
    }

    /// The first bar at which it has a value.
    pub fn start(self) -> usize {
        self.graph.borrow().start(self.val)
    }

    fn add(self, prim: NodeOp) -> Expr<'g> {
        self.builder().add(prim)
    }

    /// A function of it.
    pub fn un(self, f: UnaryOp) -> Expr<'g> {
        self.add(NodeOp::Unary(f, self.val))
    }

    /// A function of it and another.
    pub fn bin(self, f: BinaryOp, other: impl Operand<'g>) -> Expr<'g> {
        let other = other.on(self.builder());
        self.add(NodeOp::Binary(f, self.val, other.val))
    }

    /// Where this is not 0, `a`, else `b`.
    pub fn select(self, a: impl Operand<'g>, b: impl Operand<'g>) -> Expr<'g> {
        let (a, b) = (a.on(self.builder()), b.on(self.builder()));
        self.add(NodeOp::Select(self.val, a.val, b.val))
    }

    /// `n` bars ago.
    pub fn shift(self, n: usize) -> Expr<'g> {
        if n == 0 { self } else { self.add(NodeOp::Shift(self.val, n)) }
    }

    /// `before` until it begins, then itself: how a recursion or a running sum gets its first value.
    pub fn preceded_by(self, before: impl Operand<'g>) -> Expr<'g> {
        let before = before.on(self.builder());
        if before.start() >= self.start() { self } else { self.add(NodeOp::FillWarmup(self.val, before.val)) }
    }

    /// Sum of the last `n`.
    pub fn sum(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::RollingSum(self.val, n)) }
    }

    /// Sum of the last `n`, or of as many as there are yet.
    pub fn growing_sum(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::PartialRollingSum(self.val, n.max(1)))
    }

    /// Sum of the last `n`, summed afresh at bar `from` and moved since by the newest less the one that leaves: where the
    /// last bit decides, that it began elsewhere or was moved in two steps shows.
    pub fn total(self, n: usize, from: usize) -> Expr<'g> {
        self.add(NodeOp::RollingSumFrom { a: self.val, n: n.max(1), from })
    }

    /// Mean of the last `n`.
    pub fn sma(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.sum(n) / n as f64 }
    }

    /// Linearly weighted mean of the last `n`, the newest the heaviest.
    pub fn wma(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::LinearWeightedSum(self.val, n)) / ((n * (n + 1) / 2) as f64) }
    }

    /// Sum of the last `n` with weights 1..=n.
    pub fn ramp_sum(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::LinearWeightedSum(self.val, n.max(1)))
    }

    /// Sum of the last values with these weights, the oldest first.
    pub fn fir(self, weights: &[f64]) -> Expr<'g> {
        self.add(NodeOp::Fir(self.val, weights.iter().map(|w| F64Bits::of(*w)).collect()))
    }

    /// Greatest of the last `n`.
    pub fn highest(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::RollingMinMax { a: self.val, n, max: true }) }
    }

    /// Were the last `n` all 0? They are counted: a running sum of them may keep a rest of what left it, a count does not.
    pub fn idle(self, n: usize) -> Expr<'g> {
        self.abs().le(0.0).sum(n).ge(n.max(1) as f64)
    }

    /// Least of the last `n`.
    pub fn lowest(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::RollingMinMax { a: self.val, n, max: false }) }
    }

    /// Bars since the greatest of the last `n`.
    pub fn highest_ago(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingArgMinMax { a: self.val, n: n.max(1), max: true })
    }

    /// Bars since the least of the last `n`.
    pub fn lowest_ago(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingArgMinMax { a: self.val, n: n.max(1), max: false })
    }

    /// Population variance of the last `n`.
    pub fn variance(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingVariance(self.val, n.max(1)))
    }

    /// Population standard deviation of the last `n`.
    pub fn stddev(self, n: usize) -> Expr<'g> {
        self.variance(n).unary(UnaryOp::Sqrt)
    }

    /// Mean distance from the mean of the last `n`.
    pub fn mean_deviation(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingMeanDeviation(self.val, n.max(1)))
    }

    /// Mean square of the distance from the mean of the last `n`; exactly 0 where all are equal.
    pub fn mean_square(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingCentralMoment(self.val, n.max(1), 2))
    }

    /// Mean square of the distance from the mean of the last `n`, and the mean of this power (3 or 4) of it; exactly 0 where
    /// all are equal.
    pub fn central_moments(self, n: usize, power: u8) -> (Expr<'g>, Expr<'g>) {
        let square = self.add(NodeOp::RollingCentralMoment(self.val, n.max(1), power.clamp(3, 4)));
        (square, square.port(1))
    }

    /// Sum of the products of the distances from both means over the last `n`.
    pub fn co_moment(self, other: Expr<'g>, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingCoMoment(self.val, other.val, n.max(1)))
    }

    /// Sum over the last `n` of the products of its distance from its mean and that of the bar from the middle one.
    pub fn time_moment(self, n: usize) -> Expr<'g> {
        self.add(NodeOp::RollingTimeMoment(self.val, n.max(1)))
    }

    /// The `k`-th least of the last `n`, counted from 0.
    pub fn order(self, n: usize, k: usize) -> Expr<'g> {
        let n = n.max(1);
        self.add(NodeOp::RollingOrderStatistic { a: self.val, n, places: vec![k.min(n - 1)] })
    }

    /// The median of the last `n`; the mean of the two in the middle where there are two.
    pub fn median(self, n: usize) -> Expr<'g> {
        let n = n.max(1);
        if n % 2 == 1 {
            return self.order_statistic(n, n / 2);
        }
        let lower = self.add(NodeOp::RollingOrderStatistic { a: self.val, n, places: vec![n / 2 - 1, n / 2] });
        (lower + lower.port(1)) / 2.0
    }

    /// How many of the `n` values before it are less than it, or equal if so asked.
    pub fn rank(self, n: usize, or_equal: bool) -> Expr<'g> {
        self.add(NodeOp::RollingRank { a: self.val, n: n.max(1), or_equal })
    }

    /// Exponential mean with factor `k`.
    pub fn ema_by(self, k: f64, seed: Seed) -> Expr<'g> {
        self.add(NodeOp::Ema { a: self.val, k: F64Bits::of(k), seed })
    }

    /// Exponential mean of `n`, seeded with the mean of the first `n`.
    pub fn ema(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.ema_alpha(2.0 / (n as f64 + 1.0), Seed::Mean(n)) }
    }

    /// Wilder's mean of `n`, seeded with the mean of the first `n`.
    pub fn wilder(self, n: usize) -> Expr<'g> {
        if n <= 1 { self } else { self.add(NodeOp::Wilder { a: self.val, n, seed: Seed::Mean(n) }) }
    }

    /// Wilder's mean with a seed of choice.
    pub fn wilder_by(self, n: usize, seed: Seed) -> Expr<'g> {
        self.add(NodeOp::Wilder { a: self.val, n: n.max(1), seed })
    }

    /// `y = self * y + b`, beginning with the first `b`.
    pub fn affine(self, b: Expr<'g>) -> Expr<'g> {
        self.add(NodeOp::LinearRecurrence { a: self.val, b: b.val })
    }

    /// `y += k * (self - y)` with a `k` of every bar, coming from `first`.
    pub fn follow(self, k: Expr<'g>, first: Expr<'g>) -> Expr<'g> {
        self.add(NodeOp::AdaptiveEma { a: self.val, k: k.val, first: first.val })
    }

    /// Sum of everything so far.
    pub fn cumsum(self) -> Expr<'g> {
        self.add(NodeOp::CumSum(self.val))
    }

    /// Greatest of everything so far.
    pub fn cummax(self) -> Expr<'g> {
        self.add(NodeOp::CumMinMax { a: self.val, max: true })
    }

    /// Least of everything so far.
    pub fn cummin(self) -> Expr<'g> {
        self.add(NodeOp::CumMinMax { a: self.val, max: false })
    }

    /// Valid no earlier than bar `start`.
    pub fn from_bar(self, start: usize) -> Expr<'g> {
        let late = start.saturating_sub(self.start());
        if late == 0 {
            return self;
        }
        // A select whose condition is a shifted constant begins exactly there, and computes nothing else.
        let here = self.start();
        let one = self.builder().constant(1.0).shift(here + late);
        one.select(self, self)
    }
}

/// A value or a number.
pub trait Operand<'g> {
    /// As a value of these bars.
    fn on(self, bars: GraphBuilder<'g>) -> Expr<'g>;
}

impl<'g> Operand<'g> for Expr<'g> {
    fn on(self, _bars: GraphBuilder<'g>) -> Expr<'g> {
        self
    }
}

impl<'g> Operand<'g> for f64 {
    fn on(self, bars: GraphBuilder<'g>) -> Expr<'g> {
        bars.constant(self)
    }
}

macro_rules! arithmetic {
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

arithmetic! { Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; }

impl<'g> std::ops::Neg for Expr<'g> {
    type Output = Expr<'g>;
    fn neg(self) -> Expr<'g> {
        self.unary(UnaryOp::Neg)
    }
}

macro_rules! named {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident;)*) => {
        impl<'g> Expr<'g> {$(
            $(#[doc = $doc])*
            pub fn $name(self, other: impl Operand<'g>) -> Expr<'g> {
                self.binary(BinaryOp::$op, other)
            }
        )*}
    };
}

named! {
    /// Division that gives 0 where the divisor is 0.
    div0 Div0;
    /// The lesser.
    min Min;
    /// The greater.
    max Max;
    /// To the power.
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
    same Eq;
    /// 1 where not equal, else 0.
    differs Ne;
    /// 1 where both are not 0, else 0.
    and And;
    /// 1 where one is not 0, else 0.
    or Or;
}

macro_rules! functions {
    ($($name:ident $op:ident;)*) => {
        impl<'g> Expr<'g> {$(
            #[doc = concat!("`", stringify!($name), "` of it.")]
            pub fn $name(self) -> Expr<'g> {
                self.unary(UnaryOp::$op)
            }
        )*}
    };
}

functions! {
    abs Abs; sqrt Sqrt; ln Ln; log10 Log10; exp Exp; sin Sin; cos Cos; tan Tan; asin Asin; acos Acos; atan Atan;
    sinh Sinh; cosh Cosh; tanh Tanh; floor Floor; ceil Ceil; sign Sign;
}
