//! Node operations of the expression graph: element-wise, rolling-window, recurrence, cumulative, state machine.
//!
//! An operation is plain data that compares and hashes by value, which is what common-subexpression elimination needs.

use std::fmt;

use super::ValueId;
use crate::kernel::{state_machine::StateMachineDef, whole_series::WholeSeriesDef};

/// A column of the input bars (OHLCV and time).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Opening price.
    Open,
    /// Highest price.
    High,
    /// Lowest price.
    Low,
    /// Closing price.
    Close,
    /// Traded volume.
    Volume,
    /// Bar timestamp: seconds since the epoch.
    Time,
}

impl Field {
    /// Every field.
    pub const ALL: [Field; 6] =
        [Field::Open, Field::High, Field::Low, Field::Close, Field::Volume, Field::Time];
}

/// Element-wise functions of one value.
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

/// Element-wise functions of two values. Comparisons give 1 or 0.
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

/// Initial value of a recurrence (EMA, Wilder's smoothing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seed {
    /// The first input value, at its bar.
    First,
    /// The mean of the first `n` input values, at the last of them.
    Mean(usize),
}

/// An `f64` stored as its bits, so that operations are `Eq` and `Hash`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct F64Bits(u64);

impl F64Bits {
    /// From an `f64`.
    pub fn of(x: f64) -> F64Bits {
        F64Bits(x.to_bits())
    }

    /// The `f64`.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Debug for F64Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

/// What a node computes. `a` and `b` are operands, `n` is a window length in bars.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant says what it is; a and b are operands, n a window")]
pub enum NodeOp {
    Input(Field),
    Const(F64Bits),
    Unary(UnaryOp, ValueId),
    Binary(BinaryOp, ValueId, ValueId),
    /// `if c != 0 { a } else { b }`.
    Select(ValueId, ValueId, ValueId),
    /// Lag: the value `n` bars ago.
    Shift(ValueId, usize),
    /// Fills the warm-up of the first operand with the second: the second until the first is valid, then the first.
    FillWarmup(ValueId, ValueId),
    /// Rolling sum, updated by adding the newest value and then subtracting the oldest.
    RollingSum(ValueId, usize),
    /// Rolling sum in TA-Lib's order of additions: summed at bar `from`, then updated by (newest - oldest).
    RollingSumFrom {
        a: ValueId,
        n: usize,
        from: usize,
    },
    /// Rolling sum over the last `n` values, or over as many as there are yet (pandas `min_periods=1`).
    PartialRollingSum(ValueId, usize),
    /// Rolling sum with linear weights 1..=n, the newest weighted most (numerator of a WMA).
    LinearWeightedSum(ValueId, usize),
    /// FIR filter: rolling dot product with these weights, oldest first.
    Fir(ValueId, Vec<F64Bits>),
    /// Rolling max or min.
    RollingMinMax {
        a: ValueId,
        n: usize,
        max: bool,
    },
    /// Bars since the rolling max or min; the most recent of equals.
    RollingArgMinMax {
        a: ValueId,
        n: usize,
        max: bool,
    },
    /// Rolling population variance.
    RollingVariance(ValueId, usize),
    /// Rolling mean absolute deviation from the mean.
    RollingMeanDeviation(ValueId, usize),
    /// Rolling central moments: the second on port 0 and, where the power is 3 or 4, that one on port 1.
    RollingCentralMoment(ValueId, usize, u8),
    /// Rolling co-moment: sum of the products of both operands' deviations from their means.
    RollingCoMoment(ValueId, ValueId, usize),
    /// Rolling co-moment of the bar index and the operand (numerator of a least-squares slope).
    RollingTimeMoment(ValueId, usize),
    /// Rolling order statistics: the values at these ranks of the sorted window, counted from 0; one port each.
    RollingOrderStatistic {
        a: ValueId,
        n: usize,
        ranks: Vec<usize>,
    },
    /// How many of the `n` values before this one are less than (or equal to) it.
    RollingRank {
        a: ValueId,
        n: usize,
        or_equal: bool,
    },
    /// EMA: `y += k * (x - y)`.
    Ema {
        a: ValueId,
        k: F64Bits,
        seed: Seed,
    },
    /// Wilder's smoothing (RMA, SMMA): `y = (y * (n - 1) + x) / n`.
    Wilder {
        a: ValueId,
        n: usize,
        seed: Seed,
    },
    /// First-order linear recurrence with per-bar coefficients: `y = a * y + b`, beginning with the first `b`.
    LinearRecurrence {
        a: ValueId,
        b: ValueId,
    },
    /// EMA with a per-bar smoothing factor: `y += k * (a - y)`; `first` is `y` before the first bar.
    AdaptiveEma {
        a: ValueId,
        k: ValueId,
        first: ValueId,
    },
    /// Cumulative sum.
    CumSum(ValueId),
    /// Cumulative max or min.
    CumMinMax {
        a: ValueId,
        max: bool,
    },
    /// A column computed from the whole series beforehand: the only operation that looks ahead.
    WholeSeries {
        def: &'static WholeSeriesDef,
        params: Vec<F64Bits>,
    },
    /// A named state machine: one step per bar, one port per output.
    StateMachine {
        def: &'static StateMachineDef,
        params: Vec<F64Bits>,
        inputs: Vec<ValueId>,
    },
}

impl NodeOp {
    /// Its operands, each with its lookback: how many bars back it is read at most.
    pub fn operands(&self) -> Vec<(ValueId, usize)> {
        match self {
            NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => vec![],
            NodeOp::Unary(_, a) | NodeOp::CumSum(a) | NodeOp::CumMinMax { a, .. } => vec![(*a, 0)],
            NodeOp::Binary(_, a, b) | NodeOp::LinearRecurrence { a, b } | NodeOp::FillWarmup(a, b) => {
                vec![(*a, 0), (*b, 0)]
            }
            NodeOp::Select(c, a, b) => vec![(*c, 0), (*a, 0), (*b, 0)],
            NodeOp::AdaptiveEma { a, k, first } => vec![(*a, 0), (*k, 0), (*first, 0)],
            NodeOp::PartialRollingSum(a, n) => vec![(*a, *n)],
            NodeOp::Shift(a, n)
            | NodeOp::RollingSum(a, n)
            | NodeOp::LinearWeightedSum(a, n)
            | NodeOp::RollingRank { a, n, .. } => {
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

    /// Is it a leaf (input, constant, whole-series column), available before any step runs?
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self, NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. })
    }

    /// Number of output ports.
    pub fn ports(&self) -> usize {
        match self {
            NodeOp::StateMachine { def, .. } => def.outputs,
            NodeOp::RollingOrderStatistic { ranks, .. } => ranks.len(),
            NodeOp::RollingCentralMoment(_, _, 3..) => 2,
            _ => 1,
        }
    }
}
