//! Rolling-window kernels: which shader computes a graph node, with which constants and loop bounds. One row per op, and per state
//! machine whose state is a window; no row means CPU only.
//!
//! Costs are upper bounds on the iterations of all loops of an invocation, including those over the segments of a window. A slice
//! of `k` bars takes at most `setup_iterations + k * step_iterations`.

use gpuforge_indicators::graph::{F64Bits, NodeOp};

/// Maximum loop iterations of one invocation: software adapters truncate longer loops silently, watchdogs reset the device.
pub const MAX_ITERATIONS: u32 = 16_384;
/// Bins of a volume profile that fit into registers.
const MAX_BINS: f64 = 64.0;
/// Maximum outputs of a job.
const MAX_OUTPUTS: usize = 8;
/// Windows that one invocation computes together.
const TILE: u64 = 8;
/// Bars of the shortest segment, and of a partial sum.
const MIN_SEGMENT: u64 = 32;

/// The rolling shaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RollingShader {
    /// `shader/rolling_sum.wgsl`.
    Sum,
    /// `shader/rolling_min_max.wgsl`.
    MinMax,
    /// `shader/rolling_moment.wgsl`.
    Moment,
    /// `shader/rolling_order.wgsl`.
    Order,
}

/// A node as a job of a rolling kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct RollingJob {
    /// The kernel.
    pub shader: RollingShader,
    /// Function of the kernel.
    pub mode: u32,
    /// Window length in bars.
    pub n: u32,
    /// Constants: weights, ranks, parameters.
    pub constants: Vec<f32>,
    /// Loop iterations per bar.
    pub step_iterations: u32,
    /// Loop iterations to set up a slice.
    pub setup_iterations: u32,
    /// Preferred bars per slice, which amortise its setup.
    pub slice: u32,
}

/// A row before the iteration limit is applied.
struct Row {
    shader: RollingShader,
    mode: u32,
    n: usize,
    constants: Vec<f32>,
    cost: Cost,
}

/// Loop iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    step_iterations: u64,
    setup_iterations: u64,
    slice: u32,
}

/// The job of a node; `None` where no kernel computes it, or where one bar exceeds the iteration limit: the CPU then computes
/// everything that depends on it.
pub fn of(op: &NodeOp) -> Option<RollingJob> {
    let row = row(op)?;
    let Cost { step_iterations, setup_iterations, slice } = row.cost;
    let iterations = |x: u64| u32::try_from(x).ok().filter(|x| *x <= MAX_ITERATIONS);
    iterations(step_iterations + setup_iterations)?;
    Some(RollingJob {
        shader: row.shader,
        mode: row.mode,
        n: u32::try_from(row.n).ok().filter(|n| *n > 0)?,
        constants: row.constants,
        step_iterations: iterations(step_iterations)?,
        setup_iterations: iterations(setup_iterations)?,
        slice,
    })
}

fn row(op: &NodeOp) -> Option<Row> {
    use RollingShader::{MinMax, Moment, Order, Sum};
    let plain = |shader, mode, n: &usize, cost| Row { shader, mode, n: *n, constants: vec![], cost };
    Some(match op {
        // The rounding order of the CPU's running total is not reproduced.
        NodeOp::RollingSum(_, n) | NodeOp::RollingSumFrom { n, .. } => plain(Sum, 0, n, blocks(*n)),
        NodeOp::PartialRollingSum(_, n) => plain(Sum, 1, n, expanding(*n)),
        NodeOp::LinearWeightedSum(_, n) => plain(Sum, 2, n, blocks(*n)),
        NodeOp::Fir(_, weights) => {
            let constants = weights.iter().map(|w| w.get() as f32).chain([sum_of(weights)]).collect();
            Row { constants, ..plain(Sum, 3, &weights.len(), tiles(weights.len(), TILE, 1)) }
        }
        NodeOp::RollingMinMax { n, max, .. } => plain(MinMax, u32::from(!max), n, blocks(*n)),
        NodeOp::RollingArgMinMax { n, max, .. } => plain(MinMax, 2 + u32::from(!max), n, arg_blocks(*n)),
        NodeOp::RollingVariance(_, n) | NodeOp::RollingCentralMoment(_, n, 2) => {
            plain(Moment, 0, n, moments(*n, 2))
        }
        NodeOp::RollingMeanDeviation(_, n) => plain(Moment, 1, n, moments(*n, 2)),
        NodeOp::RollingCentralMoment(_, n, power @ 3..=4) => {
            plain(Moment, u32::from(*power), n, moments(*n, 2))
        }
        NodeOp::RollingCoMoment(_, _, n) => plain(Moment, 5, n, moments(*n, 3)),
        NodeOp::RollingTimeMoment(_, n) => plain(Moment, 6, n, moments(*n, 1)),
        // Each rank is found from the previous one, which has to be adjacent.
        NodeOp::RollingOrderStatistic { n, ranks, .. }
            if ranks.len() <= MAX_OUTPUTS && ranks.is_sorted_by(|a, b| *a <= *b && *b <= *a + 1) =>
        {
            let constants = ranks.iter().map(|p| *p as f32).collect();
            Row { constants, ..plain(Order, 0, n, ranks_of(*n, ranks.len())) }
        }
        NodeOp::RollingRank { n, or_equal, .. } => {
            plain(Order, 1 + u32::from(*or_equal), n, tiles(*n, TILE, 1))
        }
        NodeOp::StateMachine { def, params, .. } => return machine(def.name, params),
        _ => return None,
    })
}

/// The sum of weights; exactly 0 where they cancel but for rounding.
fn sum_of(weights: &[F64Bits]) -> f32 {
    let (sum, size) = weights.iter().fold((0.0, 0.0), |(sum, size), w| (sum + w.get(), size + w.get().abs()));
    if sum.abs() <= 1e-12 * size { 0.0 } else { sum as f32 }
}

/// CPU state machines whose state is a window.
fn machine(name: &str, params: &[F64Bits]) -> Option<Row> {
    let param = |at: usize| params.get(at).map(|p| p.get());
    let n = param(0)?.max(1.0) as usize;
    let plain = |shader, mode, n, cost| Some(Row { shader, mode, n, constants: vec![], cost });
    match name {
        // The rounding order of the CPU's running sum is not reproduced.
        "running wma sum" => plain(RollingShader::Sum, 2, n, blocks(n)),
        "projection" => plain(RollingShader::Moment, 7, n.max(2), moments(n.max(2), 4)),
        "rolling vwap" => plain(RollingShader::Moment, 8, n, moments(n, 2)),
        "median deviation" => plain(RollingShader::Order, 3, n, each(2 * (counts(n) + walk(n)))),
        "spearman" => plain(RollingShader::Order, 4, n, each(2 * counts(n))),
        // More bins do not fit into registers.
        "volume profile" if param(1)? <= MAX_BINS => {
            let (bins, share) = (param(1)?, param(2)? / 100.0);
            let constants = vec![bins as f32, share as f32];
            plain(RollingShader::Order, 5, n, each(2 * walk(n) + 3 * bins as u64))
                .map(|row| Row { constants, ..row })
        }
        _ => None,
    }
}

/// Iterations over `n` bars: their own, and those over segments and partial sums.
fn walk(n: usize) -> u64 {
    let n = n as u64;
    n + 3 * (n / MIN_SEGMENT + 1)
}

/// van Herk blocks of at most a window: every bar is read forwards and backwards, the common bars once per block.
fn blocks(n: usize) -> Cost {
    // Five loops per block, however short; short windows have more blocks.
    let per_block = 12;
    Cost {
        step_iterations: 3 + per_block / (n as u64).max(1),
        setup_iterations: 2 * walk(n) + per_block,
        slice: 64,
    }
}

/// The same after an expanding prefix.
fn expanding(n: usize) -> Cost {
    let cost = blocks(n);
    Cost {
        step_iterations: cost.step_iterations + 1,
        setup_iterations: cost.setup_iterations + walk(n),
        ..cost
    }
}

/// The same where an index is kept, and the value is reloaded.
fn arg_blocks(n: usize) -> Cost {
    let cost = blocks(n);
    Cost { step_iterations: cost.step_iterations + n as u64 / MIN_SEGMENT + 1, ..cost }
}

/// Tiles of `wide` neighbouring windows, read `passes` times, and stored one by one.
fn tiles(n: usize, wide: u64, passes: u64) -> Cost {
    let tile = passes * walk(n + TILE as usize) + 4 * TILE;
    // A partial tile costs as much as a full one.
    Cost { step_iterations: tile.div_ceil(wide), setup_iterations: tile, slice: 32 }
}

/// Tiles whose windows share a bar.
fn moments(n: usize, passes: u64) -> Cost {
    tiles(n, TILE.min(n as u64).max(1), passes)
}

/// Every value of a window compared with eight others at a time.
fn counts(n: usize) -> u64 {
    (n as u64).div_ceil(TILE) * (walk(n) + 2 * TILE)
}

/// Ranks found by counting, then updated by one pass over the window.
fn ranks_of(n: usize, places: usize) -> Cost {
    let places = places as u64;
    Cost {
        step_iterations: places * (walk(n) + 1),
        setup_iterations: counts(n) + places * walk(n),
        slice: 64,
    }
}

/// Windows computed independently.
fn each(step_iterations: u64) -> Cost {
    Cost { step_iterations: step_iterations + 4, setup_iterations: 8, slice: 16 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
    use std::cell::RefCell;

    use gpuforge_indicators::graph::{Expr, Graph, GraphBuilder, ValueId};

    use super::*;

    const A: ValueId = ValueId { node: 0, port: 0 };

    /// The last node that a function adds.
    fn built(build: impl for<'g> Fn(GraphBuilder<'g>) -> Expr<'g>) -> NodeOp {
        let graph = RefCell::new(Graph::default());
        let _ = build(GraphBuilder::new(&graph));
        graph.into_inner().nodes().last().unwrap().op.clone()
    }

    fn kind(op: &NodeOp) -> Option<(RollingShader, u32, u32)> {
        of(op).map(|w| (w.shader, w.mode, w.n))
    }

    #[test]
    fn every_rolling_op_has_a_kernel_function() {
        type Build = for<'g> fn(GraphBuilder<'g>) -> Expr<'g>;
        let rows: [(Build, RollingShader, u32, u32); 17] = [
            (|b| b.close().sum(5), RollingShader::Sum, 0, 5),
            (|b| b.close().sum_from(6, 9), RollingShader::Sum, 0, 6),
            (|b| b.close().partial_sum(7), RollingShader::Sum, 1, 7),
            (|b| b.close().linear_weighted_sum(8), RollingShader::Sum, 2, 8),
            (|b| b.close().fir(&[0.5, 0.25]), RollingShader::Sum, 3, 2),
            (|b| b.close().highest(5), RollingShader::MinMax, 0, 5),
            (|b| b.close().lowest(5), RollingShader::MinMax, 1, 5),
            (|b| b.close().bars_since_highest(5), RollingShader::MinMax, 2, 5),
            (|b| b.close().bars_since_lowest(5), RollingShader::MinMax, 3, 5),
            (|b| b.close().variance(5), RollingShader::Moment, 0, 5),
            (|b| b.close().second_central_moment(5), RollingShader::Moment, 0, 5),
            (|b| b.close().mean_deviation(5), RollingShader::Moment, 1, 5),
            (|b| b.close().central_moments(5, 4).1, RollingShader::Moment, 4, 5),
            (|b| b.close().co_moment(b.high(), 5), RollingShader::Moment, 5, 5),
            (|b| b.close().time_moment(5), RollingShader::Moment, 6, 5),
            (|b| b.close().rank(5, false), RollingShader::Order, 1, 5),
            (|b| b.close().rank(5, true), RollingShader::Order, 2, 5),
        ];
        for (build, shader, mode, n) in rows {
            let op = built(build);
            assert_eq!(kind(&op), Some((shader, mode, n)), "{op:?}");
        }
    }

    #[test]
    fn constants_are_weights_and_ranks() {
        assert_eq!(of(&built(|b| b.close().fir(&[0.5, 0.25]))).unwrap().constants, [0.5, 0.25, 0.75]);
        assert_eq!(
            of(&built(|b| b.close().fir(&[0.1, 0.2, -0.3]))).unwrap().constants,
            [0.1, 0.2, -0.3, 0.0]
        );
        let median = NodeOp::RollingOrderStatistic { a: A, n: 6, ranks: vec![2, 3] };
        assert_eq!(of(&median).unwrap().constants, [2.0, 3.0]);
        let many = NodeOp::RollingOrderStatistic { a: A, n: 60, ranks: (0..9).collect() };
        assert_eq!(of(&many), None);
        let apart = NodeOp::RollingOrderStatistic { a: A, n: 60, ranks: vec![14, 44] };
        assert_eq!(of(&apart), None);
    }

    #[test]
    fn windowed_state_machines_have_a_function_and_others_none() {
        let params = |x: &[f64]| x.iter().map(|x| F64Bits::of(*x)).collect::<Vec<_>>();
        let kind =
            |name: &str, x: &[f64]| machine(name, &params(x)).map(|r| (r.shader, r.mode, r.n, r.constants));
        assert_eq!(kind("running wma sum", &[4.0]), Some((RollingShader::Sum, 2, 4, vec![])));
        assert_eq!(kind("projection", &[1.0]), Some((RollingShader::Moment, 7, 2, vec![])));
        assert_eq!(kind("rolling vwap", &[9.0]), Some((RollingShader::Moment, 8, 9, vec![])));
        assert_eq!(kind("median deviation", &[5.0]), Some((RollingShader::Order, 3, 5, vec![])));
        assert_eq!(kind("spearman", &[30.0]), Some((RollingShader::Order, 4, 30, vec![])));
        let profile = Some((RollingShader::Order, 5, 100, vec![10.0, 0.5]));
        assert_eq!(kind("volume profile", &[100.0, 10.0, 50.0]), profile);
        assert_eq!(kind("volume profile", &[100.0, 65.0, 50.0]), None);
        assert_eq!(kind("streak", &[3.0]), None);
        assert_eq!(kind("projection", &[]), None);
    }

    #[test]
    fn windows_over_the_iteration_limit_are_cpu_only() {
        // The longest window of each op that still has a kernel.
        let longest = |op: &dyn Fn(usize) -> NodeOp| {
            let longest = (1..20_000).take_while(|n| of(&op(*n)).is_some()).last().unwrap();
            assert!((longest + 64..longest + 128).all(|n| of(&op(n)).is_none()));
            longest
        };
        assert!(longest(&|n| NodeOp::RollingSum(A, n)) > 7000);
        assert!(longest(&|n| NodeOp::RollingMinMax { a: A, n, max: true }) > 7000);
        assert!(longest(&|n| NodeOp::RollingVariance(A, n)) > 6000);
        assert!(longest(&|n| NodeOp::RollingCoMoment(A, A, n)) > 4000);
        assert!(longest(&|n| NodeOp::RollingRank { a: A, n, or_equal: true }) > 10_000);
        assert!(longest(&|n| NodeOp::RollingOrderStatistic { a: A, n, ranks: vec![n / 2] }) > 300);
    }

    #[test]
    fn slices_of_short_windows_stay_within_the_iteration_limit() {
        for n in 2..=100 {
            let w = of(&NodeOp::RollingSum(A, n)).unwrap();
            assert!(w.setup_iterations + w.slice * w.step_iterations <= MAX_ITERATIONS);
            let w = of(&NodeOp::RollingVariance(A, n)).unwrap();
            assert!(
                w.slice.is_multiple_of(8)
                    && w.setup_iterations + w.slice * w.step_iterations <= MAX_ITERATIONS
            );
        }
    }
}
