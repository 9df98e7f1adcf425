//! How is one long series computed as if it were eight? Cut in time, each piece begun a little early.
//!
//! Windows do not know what was before them, and an exponential mean forgets it: begun anywhere, it soon is the same to the
//! last bit. So eight pieces run side by side, each over some bars of the piece before first; what those gave is thrown away.
//! That every mean of every piece had become the same is not believed but compared, where a piece ends and the next one's
//! results begin. Where one had not (a NaN that stays, for example), the series is computed again from its beginning to its
//! end. Sums of all that ever was, and sums that are moved along, depend on where they began: plans with those are not cut.

use crate::{
    exec::{Columns, LANES, Series, Tile, gather, silence, store::Store},
    graph::NodeOp,
    kernel::{Row, turn},
    plan::{Plan, Step},
};

/// Moments are summed anew after so many bars, counted from their first: pieces begin at multiples of it.
const RENEWED: usize = 256;
/// Pieces without moments begin at multiples of this: bars of a block.
const LEAST: usize = 64;
/// Time constants after which what was before is less than the last bit, with room to spare.
const FORGOTTEN: f64 = 60.0;
/// A piece is at least so many times as long as what is computed twice.
const WORTH: usize = 8;

/// When a plan's results no longer depend on where they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settles {
    /// After so many bars.
    bars: usize,
    /// Pieces begin at multiples of this.
    unit: usize,
}

/// `None` where results always depend on where they began.
pub(super) fn settles(plan: &Plan) -> Option<Settles> {
    if !plan.wholes.is_empty() {
        return None;
    }
    let mut needs = vec![0usize; plan.buffers];
    let mut most = 0;
    for step in &plan.steps {
        let before = step.inputs.iter().map(|p| p.lag + needs.get(p.buffer).copied().unwrap_or(0));
        let need = before.max().unwrap_or(0) + own(&step.op)?;
        most = need.max(step.start).max(most);
        for place in &step.outputs {
            if let Some(entry) = needs.get_mut(place.buffer) {
                *entry = need;
            }
        }
    }
    let moments =
        |step: &Step| matches!(step.op, NodeOp::RollingVariance(..) | NodeOp::RollingCoMoment(..) | NodeOp::RollingTimeMoment(..));
    let unit = if plan.steps.iter().any(moments) { RENEWED } else { LEAST };
    Some(Settles { bars: most, unit })
}

fn own(prim: &NodeOp) -> Option<usize> {
    match prim {
        NodeOp::Unary(..) | NodeOp::Binary(..) | NodeOp::Select(..) | NodeOp::FillWarmup(..) => Some(0),
        NodeOp::Shift(_, n) => Some(*n),
        NodeOp::RollingMinMax { n, .. } | NodeOp::RollingArgMinMax { n, .. } | NodeOp::RollingRank { n, .. } => Some(*n),
        NodeOp::Fir(_, weights) => Some(weights.len()),
        NodeOp::RollingVariance(_, n) | NodeOp::RollingCoMoment(_, _, n) | NodeOp::RollingTimeMoment(_, n) => Some(n + 2 * RENEWED),
        NodeOp::Ema { k, .. } => time_constants(k.get()),
        NodeOp::Wilder { n, .. } => time_constants(1.0 / *n as f64),
        _ => None,
    }
}

fn time_constants(k: f64) -> Option<usize> {
    // A mean that moves away from its values, or not at all, never forgets.
    (k > 0.0 && k <= 1.0).then(|| (FORGOTTEN / k).ceil().min(1e9) as usize)
}

/// Is this what has to have become the same?
fn remembers(step: &Step) -> bool {
    matches!(step.op, NodeOp::Ema { .. } | NodeOp::Wilder { .. })
}

/// Where the pieces of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bars that a piece computes before its results count; the first has none of them to lose.
    early: usize,
    /// Bars from one piece's beginning to the next one's.
    apart: usize,
    /// Bars of every piece.
    each: usize,
    /// Bars of a block: of these, all of the above but the last are multiples.
    unit: usize,
}

impl Cut {
    /// `None` where the series is too short for it.
    pub(super) fn of(bars: usize, settles: Settles) -> Option<Cut> {
        // Longer blocks are better, where pieces are long.
        [RENEWED, settles.unit].into_iter().find_map(|unit| {
            let early = settles.bars.max(1).next_multiple_of(unit);
            let apart = bars.checked_sub(early)? / LANES / unit * unit;
            (apart >= WORTH * early).then(|| Cut { early, apart, each: bars - (LANES - 1) * apart, unit })
        })
    }

    /// Bars of a block.
    pub(super) fn block(&self) -> usize {
        self.unit
    }

    /// Does a lane's result of these bars count?
    fn counts(&self, lane: usize, t0: usize) -> bool {
        let first = lane == 0 || t0 >= self.early;
        first && (lane == LANES - 1 || t0 < self.early + self.apart)
    }
}

impl Tile<LANES> {
    /// Computes the pieces of a series side by side; `false` where they do not fit together.
    pub(super) fn along(
        &mut self,
        plan: &Plan,
        series: &Series<'_>,
        columns: &mut Columns<'_>,
        cut: Cut,
    ) -> bool {
        self.begin(plan);
        self.bars = 1;
        if !cut.unit.is_multiple_of(self.block) {
            return false;
        }
        let simd = self.simd;
        let mut spare = vec![vec![0.0; self.block]; LANES];
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        let mut t0 = 0;
        while t0 < cut.each {
            let t1 = (t0 + self.block).min(cut.each);
            if t0 == cut.early {
                begun = self.memories(plan);
            }
            if t0 == cut.early + cut.apart {
                ended = self.memories(plan);
            }
            self.next(t0);
            for (field, place) in &plan.fields {
                let whole = series.field(*field);
                let piece = |l: usize| whole.get(l * cut.apart..l * cut.apart + cut.each).unwrap_or(&[]);
                self.fill(*place, |rows| gather(piece, (t0, t1), rows, (simd, true)));
            }
            let mut deliver = |store: &Store<LANES>, output: usize| {
                let (Some(place), Some(column)) = (plan.outputs.get(output), columns.get_mut(output)) else {
                    return;
                };
                let mut lanes = pieces(column, &mut spare, cut, (t0, t1));
                turn::apart(store.rows(*place, t1 - t0), &mut lanes, simd);
            };
            plan.given.iter().for_each(|output| deliver(&self.store, *output));
            self.steps(plan, t0, t1, &[], &mut [], |store, at| {
                let outputs = plan.delivers.get(at).map_or(&[] as &[usize], Vec::as_slice);
                outputs.iter().for_each(|output| deliver(store, *output));
            });
            t0 = t1;
        }
        if !fit(&begun, &ended) {
            return false;
        }
        for (column, start) in columns.iter_mut().zip(&plan.starts) {
            silence(column, 0, *start);
        }
        true
    }

    /// What every mean remembers.
    fn memories(&mut self, plan: &Plan) -> Vec<Row<LANES>> {
        let steps = plan.steps.iter().zip(&mut self.kernels).filter(|(step, _)| remembers(step));
        steps.filter_map(|(_, kernel)| kernel.state(0).copied()).collect()
    }
}

/// Had the next piece's means become what this piece's are where its results end?
fn fit(begun: &[Row<LANES>], ended: &[Row<LANES>]) -> bool {
    begun.len() == ended.len()
        && begun.iter().zip(ended).all(|(begun, ended)| {
            ended.iter().zip(begun.iter().skip(1)).all(|(end, begin)| end.to_bits() == begin.to_bits())
        })
}

/// Where each lane's results of these bars go.
fn pieces<'c>(
    column: &'c mut [f64],
    spare: &'c mut [Vec<f64>],
    cut: Cut,
    (t0, t1): (usize, usize),
) -> [&'c mut [f64]; LANES] {
    let mut lanes: [&mut [f64]; LANES] = Default::default();
    let mut rest = column;
    let mut at = 0;
    for (lane, (slot, spare)) in lanes.iter_mut().zip(spare).enumerate() {
        let begin = lane * cut.apart + t0;
        let room = spare.get_mut(..t1 - t0).unwrap_or_default();
        *slot = room;
        if cut.counts(lane, t0)
            && let Some((piece, after)) =
                std::mem::take(&mut rest).get_mut(begin - at..).and_then(|r| r.split_at_mut_checked(t1 - t0))
        {
            (*slot, rest, at) = (piece, after, begin + (t1 - t0));
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_bar_once() {
        for (bars, settles, unit) in [
            (100_000, 300, 256),
            (65_536, 1, 64),
            (1_000_003, 12_345, 64),
            (20_480, 256, 256),
            (10_000, 14, 64),
        ] {
            let Some(cut) = Cut::of(bars, Settles { bars: settles, unit }) else { continue };
            let mut column = vec![0.0; bars];
            let mut t0 = 0;
            while t0 < cut.each {
                let t1 = (t0 + cut.unit).min(cut.each);
                let mut spare = vec![vec![0.0; cut.unit]; LANES];
                for lane in pieces(&mut column, &mut spare, cut, (t0, t1)) {
                    lane.iter_mut().for_each(|x| *x += 1.0);
                }
                t0 = t1;
            }
            assert!(column.iter().all(|x| *x == 1.0), "{bars} {settles} {cut:?}");
        }
        let unit = LEAST;
        assert_eq!(Cut::of(10_000, Settles { bars: 14, unit }).map(|cut| cut.unit), Some(LEAST));
        assert_eq!(Cut::of(100_000, Settles { bars: 14, unit }).map(|cut| cut.unit), Some(RENEWED));
        assert_eq!(Cut::of(10_000, Settles { bars: 14, unit: RENEWED }), None);
        assert_eq!(Cut::of(5_000, Settles { bars: 1_000, unit }), None);
        assert_eq!(Cut::of(10, Settles { bars: 1_000, unit }), None);
    }

    #[test]
    fn a_piece_that_remembers_something_else_does_not_fit() {
        let mut begun = vec![[1.0; LANES]; 3];
        let ended = vec![[1.0; LANES]; 3];
        assert!(fit(&begun, &ended));
        // What the first lane began with is nobody's end.
        begun[1][0] = 2.0;
        assert!(fit(&begun, &ended));
        begun[2][5] = f64::from_bits(1.0f64.to_bits() + 1);
        assert!(!fit(&begun, &ended));
    }
}
