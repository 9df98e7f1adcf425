//! Time-parallel execution: one long series as eight overlapping chunks in SIMD lanes, each begun a warm-up early.
//!
//! Rolling windows do not depend on what was before them, and an EMA forgets it: from any start it converges to the same bits.
//! So eight chunks run in the lanes of a tile, each over the last bars of the chunk before first; those results are discarded.
//! Convergence is not assumed but checked: where a chunk's results end, its EMA states must equal, bit for bit, those that the
//! next chunk's results began with. Where one does not (a NaN in a state, for example), the series is computed again
//! sequentially. Cumulative sums and running sums depend on where they began: plans with those are not split.

use crate::{
    exec::{Columns, LANES, Series, batched::gather, buffers::BlockBuffers, fill_warmup_nan, tile::Tile},
    graph::NodeOp,
    kernel::{Row, transpose},
    plan::{ExecPlan, Step},
};

/// Rolling moments are recomputed every so many bars, counted from their first: chunks begin at multiples of it.
const MOMENT_PERIOD: usize = 256;
/// Chunks of plans without moments begin at multiples of this: bars of a block.
const MIN_BLOCK: usize = 64;
/// Time constants after which an EMA has converged to the last bit, with a margin.
const CONVERGENCE_TIME_CONSTANTS: f64 = 60.0;
/// A chunk is at least so many times as long as its warm-up.
const MIN_CHUNK_WARMUPS: usize = 8;

/// Convergence length of a plan: when its results no longer depend on where they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Convergence {
    bars: usize,
    /// Chunks begin at multiples of this.
    unit: usize,
}

/// The convergence length; `None` where results always depend on the first bar.
pub(super) fn convergence(plan: &ExecPlan) -> Option<Convergence> {
    if !plan.whole_series.is_empty() {
        return None;
    }
    let mut needs = vec![0usize; plan.buffers];
    let mut max = 0;
    for step in &plan.steps {
        let before = step.inputs.iter().map(|p| p.lag + needs.get(p.buffer).copied().unwrap_or(0));
        let need = before.max().unwrap_or(0) + own_convergence(&step.op)?;
        max = need.max(step.start).max(max);
        for slot in &step.outputs {
            if let Some(entry) = needs.get_mut(slot.buffer) {
                *entry = need;
            }
        }
    }
    let moments = |step: &Step| {
        matches!(
            step.op,
            NodeOp::RollingVariance(..) | NodeOp::RollingCoMoment(..) | NodeOp::RollingTimeMoment(..)
        )
    };
    let unit = if plan.steps.iter().any(moments) { MOMENT_PERIOD } else { MIN_BLOCK };
    Some(Convergence { bars: max, unit })
}

fn own_convergence(prim: &NodeOp) -> Option<usize> {
    match prim {
        NodeOp::Unary(..) | NodeOp::Binary(..) | NodeOp::Select(..) | NodeOp::FillWarmup(..) => Some(0),
        NodeOp::Shift(_, n) => Some(*n),
        NodeOp::RollingMinMax { n, .. }
        | NodeOp::RollingArgMinMax { n, .. }
        | NodeOp::RollingRank { n, .. } => Some(*n),
        NodeOp::Fir(_, weights) => Some(weights.len()),
        NodeOp::RollingVariance(_, n)
        | NodeOp::RollingCoMoment(_, _, n)
        | NodeOp::RollingTimeMoment(_, n) => Some(n + 2 * MOMENT_PERIOD),
        NodeOp::Ema { k, .. } => ema_convergence(k.get()),
        NodeOp::Wilder { n, .. } => ema_convergence(1.0 / *n as f64),
        _ => None,
    }
}

fn ema_convergence(k: f64) -> Option<usize> {
    // Outside of this the recurrence diverges or never moves.
    (k > 0.0 && k <= 1.0).then(|| (CONVERGENCE_TIME_CONSTANTS / k).ceil().min(1e9) as usize)
}

/// Is it a step whose state has to have converged?
fn is_checked(step: &Step) -> bool {
    matches!(step.op, NodeOp::Ema { .. } | NodeOp::Wilder { .. })
}

/// The chunks of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeSplit {
    /// Bars of a chunk whose results are discarded, but for the first chunk.
    warmup: usize,
    /// Bars from the beginning of one chunk to that of the next.
    stride: usize,
    /// Bars of every chunk.
    len: usize,
    /// Bars of a block: warm-up and stride are multiples of it.
    unit: usize,
}

impl TimeSplit {
    /// `None` where the series is too short for it.
    pub(super) fn new(bars: usize, convergence: Convergence) -> Option<TimeSplit> {
        // Longer blocks are better, where chunks are long.
        [MOMENT_PERIOD, convergence.unit].into_iter().find_map(|unit| {
            let warmup = convergence.bars.max(1).next_multiple_of(unit);
            let stride = bars.checked_sub(warmup)? / LANES / unit * unit;
            (stride >= MIN_CHUNK_WARMUPS * warmup).then(|| TimeSplit {
                warmup,
                stride,
                len: bars - (LANES - 1) * stride,
                unit,
            })
        })
    }

    /// Bars of a block.
    pub(super) fn block(&self) -> usize {
        self.unit
    }

    /// Are a lane's results of these bars kept?
    fn is_kept(&self, lane: usize, t0: usize) -> bool {
        let first = lane == 0 || t0 >= self.warmup;
        first && (lane == LANES - 1 || t0 < self.warmup + self.stride)
    }
}

impl Tile<LANES> {
    /// Computes the chunks of a series in the lanes; `false` where their states did not converge.
    pub(super) fn run_time_parallel(
        &mut self,
        plan: &ExecPlan,
        series: &Series<'_>,
        columns: &mut Columns<'_>,
        split: TimeSplit,
    ) -> bool {
        self.begin(plan);
        self.bars_done = 1;
        if !split.unit.is_multiple_of(self.block) {
            return false;
        }
        let simd = self.simd;
        let mut discarded = vec![vec![0.0; self.block]; LANES];
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        let mut t0 = 0;
        while t0 < split.len {
            let t1 = (t0 + self.block).min(split.len);
            if t0 == split.warmup {
                begun = self.recurrence_states(plan);
            }
            if t0 == split.warmup + split.stride {
                ended = self.recurrence_states(plan);
            }
            self.next_block(t0);
            for (field, slot) in &plan.fields {
                let all = series.field(*field);
                let chunk = |l: usize| all.get(l * split.stride..l * split.stride + split.len).unwrap_or(&[]);
                self.fill(*slot, |rows| gather(chunk, (t0, t1), rows, (simd, true)));
            }
            let mut deliver = |buffers: &BlockBuffers<LANES>, output: usize| {
                let (Some(slot), Some(column)) = (plan.outputs.get(output), columns.get_mut(output)) else {
                    return;
                };
                let mut lanes = chunk_columns(column, &mut discarded, split, (t0, t1));
                transpose::deinterleave(buffers.rows(*slot, t1 - t0), &mut lanes, simd);
            };
            plan.leaf_outputs.iter().for_each(|output| deliver(&self.buffers, *output));
            self.run_steps(plan, t0, t1, &[], &mut [], |store, at| {
                let outputs = plan.outputs_of_step.get(at).map_or(&[] as &[usize], Vec::as_slice);
                outputs.iter().for_each(|output| deliver(store, *output));
            });
            t0 = t1;
        }
        if !converged(&begun, &ended) {
            return false;
        }
        for (column, start) in columns.iter_mut().zip(&plan.starts) {
            fill_warmup_nan(column, 0, *start);
        }
        true
    }

    /// The state of every EMA.
    fn recurrence_states(&mut self, plan: &ExecPlan) -> Vec<Row<LANES>> {
        let steps = plan.steps.iter().zip(&mut self.kernels).filter(|(step, _)| is_checked(step));
        steps.filter_map(|(_, kernel)| kernel.state(0).copied()).collect()
    }
}

/// Did each chunk begin its results with the states that the chunk before ended with?
fn converged(begun: &[Row<LANES>], ended: &[Row<LANES>]) -> bool {
    begun.len() == ended.len()
        && begun.iter().zip(ended).all(|(begun, ended)| {
            ended.iter().zip(begun.iter().skip(1)).all(|(end, begin)| end.to_bits() == begin.to_bits())
        })
}

/// The destination of each lane's results of these bars.
fn chunk_columns<'c>(
    column: &'c mut [f64],
    discarded: &'c mut [Vec<f64>],
    split: TimeSplit,
    (t0, t1): (usize, usize),
) -> [&'c mut [f64]; LANES] {
    let mut lanes: [&mut [f64]; LANES] = Default::default();
    let mut rest = column;
    let mut at = 0;
    for (lane, (slot, discarded)) in lanes.iter_mut().zip(discarded).enumerate() {
        let begin = lane * split.stride + t0;
        *slot = discarded.get_mut(..t1 - t0).unwrap_or_default();
        if split.is_kept(lane, t0)
            && let Some((chunk, after)) =
                std::mem::take(&mut rest).get_mut(begin - at..).and_then(|r| r.split_at_mut_checked(t1 - t0))
        {
            (*slot, rest, at) = (chunk, after, begin + (t1 - t0));
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_bar_once() {
        for (bars, convergence, unit) in [
            (100_000, 300, 256),
            (65_536, 1, 64),
            (1_000_003, 12_345, 64),
            (20_480, 256, 256),
            (10_000, 14, 64),
        ] {
            let Some(split) = TimeSplit::new(bars, Convergence { bars: convergence, unit }) else { continue };
            let mut column = vec![0.0; bars];
            let mut t0 = 0;
            while t0 < split.len {
                let t1 = (t0 + split.unit).min(split.len);
                let mut discarded = vec![vec![0.0; split.unit]; LANES];
                for lane in chunk_columns(&mut column, &mut discarded, split, (t0, t1)) {
                    lane.iter_mut().for_each(|x| *x += 1.0);
                }
                t0 = t1;
            }
            assert!(column.iter().all(|x| *x == 1.0), "{bars} {convergence} {split:?}");
        }
        let unit = MIN_BLOCK;
        assert_eq!(
            TimeSplit::new(10_000, Convergence { bars: 14, unit }).map(|split| split.unit),
            Some(MIN_BLOCK)
        );
        assert_eq!(
            TimeSplit::new(100_000, Convergence { bars: 14, unit }).map(|split| split.unit),
            Some(MOMENT_PERIOD)
        );
        assert_eq!(TimeSplit::new(10_000, Convergence { bars: 14, unit: MOMENT_PERIOD }), None);
        assert_eq!(TimeSplit::new(5_000, Convergence { bars: 1_000, unit }), None);
        assert_eq!(TimeSplit::new(10, Convergence { bars: 1_000, unit }), None);
    }

    #[test]
    fn chunks_with_different_states_have_not_converged() {
        let mut begun = vec![[1.0; LANES]; 3];
        let ended = vec![[1.0; LANES]; 3];
        assert!(converged(&begun, &ended));
        // No chunk ends where the first lane begins.
        begun[1][0] = 2.0;
        assert!(converged(&begun, &ended));
        begun[2][5] = f64::from_bits(1.0f64.to_bits() + 1);
        assert!(!converged(&begun, &ended));
    }
}
