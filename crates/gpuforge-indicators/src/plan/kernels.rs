//! Kernel selection: the kernel that runs each step.

use super::{Epilogue, Step};
#[cfg(not(target_arch = "aarch64"))]
use crate::kernel::chunked::ChunkedWeightedSum;
#[cfg(target_arch = "aarch64")]
use crate::kernel::{moment::PairedVariance, pair::NeonPair, paired_weighted_sum::PairedWeightedSum};
use crate::{
    graph::{F64Bits, NodeOp},
    kernel::{
        Kernel,
        chunked::Chunked,
        min_max::{RollingArgMinMax, RollingMinMax},
        moment::{
            RollingCentralMoment, RollingCoMoment, RollingMeanDeviation, RollingTimeMoment, RollingVariance,
        },
        pointwise::{
            BinaryConstKernel, BinaryKernel, FillWarmup, FusedBinaryKernel, IfThenElse, Shift, UnaryKernel,
        },
        rank::{RollingOrderStatistic, RollingRank},
        recurrence::{AdaptiveEma, CumMinMax, CumSum, Ema, LinearRecurrence, Wilder},
        rolling_sum::{Fir, LinearWeightedSum, PartialRollingSum, RollingSum, RollingSumFrom},
    },
};

/// The divisor of a weighted sum.
fn divisor(step: &Step) -> Option<f64> {
    match step.epilogue {
        Some(Epilogue::Div(divisor)) => Some(divisor),
        _ => None,
    }
}

/// Is the square root of a variance asked for?
fn is_root(step: &Step) -> bool {
    step.epilogue == Some(Epilogue::Sqrt)
}

/// Defines the constructor of a step's kernel for `L` series; state machines exist for one and for eight lanes.
macro_rules! kernel_for {
    ($name:ident, $lanes:literal, $machine:ident) => {
        pub(crate) fn $name(step: &Step) -> Box<dyn Kernel<$lanes>> {
            const L: usize = $lanes;
            match &step.op {
                NodeOp::Unary(f, _) => Box::new(UnaryKernel(*f)),
                NodeOp::Binary(f, ..) => match (step.fusion, step.constant) {
                    (Some(fusion), _) => Box::new(FusedBinaryKernel(fusion)),
                    (None, Some((at, k))) => Box::new(BinaryConstKernel { f: *f, k, first: at == 0 }),
                    (None, None) => Box::new(BinaryKernel(*f)),
                },
                NodeOp::Select(..) | NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::WholeSeries { .. } => {
                    Box::new(IfThenElse)
                }
                NodeOp::Shift(_, n) => Box::new(Shift(*n)),
                // The later start of the two is that of the first operand.
                NodeOp::FillWarmup(..) => Box::new(FillWarmup { begin: step.begin }),
                NodeOp::RollingSum(_, n) => Box::new(RollingSum::<L> { n: *n, rest: [0.0; L] }),
                NodeOp::PartialRollingSum(_, n) => Box::new(PartialRollingSum::<L> { n: *n, rest: [0.0; L] }),
                NodeOp::RollingSumFrom { n, .. } => Box::new(RollingSumFrom::<L> { n: *n, sum: [0.0; L] }),
                NodeOp::LinearWeightedSum(_, n) => Box::new(LinearWeightedSum::<L> {
                    n: *n,
                    divisor: divisor(step),
                    plain: [0.0; L],
                    weighted: [0.0; L],
                    leaving: [0.0; L],
                }),
                NodeOp::Fir(_, weights) => {
                    Box::new(Fir { weights: weights.iter().map(|w| F64Bits::get(*w)).collect() })
                }
                NodeOp::RollingMinMax { n, max, .. } => Box::new(RollingMinMax::<L>::new(*n, *max)),
                NodeOp::RollingArgMinMax { n, max, .. } => Box::new(RollingArgMinMax::<L>::new(*n, *max)),
                NodeOp::RollingVariance(_, n) => {
                    Box::new(RollingVariance::<L> { n: *n, root: is_root(step), state: Default::default() })
                }
                NodeOp::RollingMeanDeviation(_, n) => Box::new(RollingMeanDeviation::<L>::new(*n)),
                NodeOp::RollingCentralMoment(_, n, power) => {
                    Box::new(RollingCentralMoment::<L>::new(*n, *power))
                }
                NodeOp::RollingCoMoment(a, b, n) => Box::new(RollingCoMoment::<L>::new(*n, a == b)),
                NodeOp::RollingTimeMoment(_, n) => Box::new(RollingTimeMoment::<L>::new(*n)),
                NodeOp::RollingOrderStatistic { n, ranks, .. } => {
                    Box::new(RollingOrderStatistic::<L>::new(*n, ranks))
                }
                NodeOp::RollingRank { n, or_equal, .. } => {
                    Box::new(RollingRank { n: *n, or_equal: *or_equal })
                }
                NodeOp::Ema { k, seed, .. } => Box::new(Ema::<L> { k: k.get(), seed: *seed, y: [0.0; L] }),
                NodeOp::Wilder { n, seed, .. } => {
                    Box::new(Wilder::<L> { n: *n as f64, seed: *seed, y: [0.0; L] })
                }
                NodeOp::LinearRecurrence { .. } => Box::new(LinearRecurrence::<L> { y: [0.0; L] }),
                NodeOp::AdaptiveEma { .. } => Box::new(AdaptiveEma::<L> { y: [0.0; L] }),
                NodeOp::CumSum(_) => Box::new(CumSum::<L> { y: [0.0; L] }),
                NodeOp::CumMinMax { max, .. } => Box::new(CumMinMax::<L> { max: *max, y: [0.0; L] }),
                NodeOp::StateMachine { def, params, .. } => {
                    let params: Vec<f64> = params.iter().map(|p| p.get()).collect();
                    (def.$machine)(&params, step.begin)
                }
            }
        }
    };
}

kernel_for!(single_kernel, 1, one);

/// As [`single_kernel`], with chunked recurrences (relaxed floating point).
pub(crate) fn relaxed_kernel(step: &Step) -> Box<dyn Kernel<1>> {
    match &step.op {
        NodeOp::Ema { k, seed, .. } => Box::new(Chunked(Ema::<1> { k: k.get(), seed: *seed, y: [0.0] })),
        NodeOp::Wilder { n, seed, .. } => {
            Box::new(Chunked(Wilder::<1> { n: *n as f64, seed: *seed, y: [0.0] }))
        }
        // The order of additions is relaxed too: one of them fewer per bar.
        NodeOp::RollingSum(_, n) | NodeOp::RollingSumFrom { n, .. } => {
            Box::new(Chunked(RollingSumFrom::<1> { n: *n, sum: [0.0] }))
        }
        NodeOp::CumSum(_) => Box::new(Chunked(CumSum::<1> { y: [0.0] })),
        #[cfg(target_arch = "aarch64")]
        NodeOp::RollingVariance(_, n) => Box::new(PairedVariance::<NeonPair>::new(*n, is_root(step))),
        #[cfg(target_arch = "aarch64")]
        NodeOp::LinearWeightedSum(_, n) => {
            Box::new(PairedWeightedSum::<NeonPair>::new(*n, divisor(step).unwrap_or(1.0)))
        }
        #[cfg(not(target_arch = "aarch64"))]
        NodeOp::LinearWeightedSum(_, n) => Box::new(ChunkedWeightedSum(LinearWeightedSum::<1> {
            n: *n,
            divisor: divisor(step),
            plain: [0.0],
            weighted: [0.0],
            leaving: [0.0],
        })),
        _ => single_kernel(step),
    }
}
kernel_for!(batched_kernel, 8, many);
