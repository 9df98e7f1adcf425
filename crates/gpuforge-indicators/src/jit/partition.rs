//! Partition of a plan into segments: steps that run as kernels, and runs of simple steps that become one fused loop.

use std::{collections::HashSet, ops::Range};

use super::{fusable, ir};
use crate::{graph::NodeOp, plan::Step};

/// Consecutive steps of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Each by its kernel.
    Kernels(Range<usize>),
    /// As one fused loop.
    Fused {
        /// Which of the program's loops.
        index: usize,
        /// Its steps: their kernels compute the warm-up.
        steps: Range<usize>,
    },
}

impl Segment {
    /// Steps of a fused loop.
    pub(super) fn fused_len(&self) -> Option<usize> {
        match self {
            Segment::Fused { steps, .. } => Some(steps.len()),
            Segment::Kernels(_) => None,
        }
    }
}

/// Steps of one loop, at most: longer ones spill more than they fuse.
pub(crate) const MAX_FUSED_STEPS: usize = 48;
/// Single series: runs of this many stateless steps are faster as a SIMD loop of their own than scalar inside a recurrence.
const MIN_SIMD_RUN: usize = 14;

/// How recurrences are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecurrenceMode {
    /// In fused loops, bar by bar.
    Sequential,
    /// By kernels, in chunks.
    Chunked,
    /// In fused loops, eight bars at once, where they can be prefix scans; else by kernels.
    Scanned,
}

impl RecurrenceMode {
    /// Can this step be part of a loop?
    fn is_fusable(self, step: &Step) -> bool {
        fusable::is_fusable(step) && !(self != RecurrenceMode::Sequential && self.is_sequential(&step.op))
    }

    /// Is it a loop-carried dependency in this mode?
    fn is_sequential(self, op: &NodeOp) -> bool {
        fusable::is_recurrence(op) && !(self == RecurrenceMode::Scanned && ir::is_scannable(op))
    }
}

/// Segments of a plan for `lanes` series.
pub(super) fn partition(steps: &[Step], lanes: usize, mode: RecurrenceMode) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut loops = 0;
    let mut at = 0;
    while at < steps.len() {
        let run = steps.iter().skip(at).take_while(|s| mode.is_fusable(s)).count();
        if run == 0 {
            match segments.last_mut() {
                Some(Segment::Kernels(range)) => range.end += 1,
                _ => segments.push(Segment::Kernels(at..at + 1)),
            }
            at += 1;
            continue;
        }
        for range in split_run(steps, at..at + run, (lanes, mode)) {
            // A kernel is one loop already, so fusing a single step pays only where a loop can do more: of one series, write
            // with non-temporal stores; batched, if the step is the whole plan, run from columns to columns.
            let whole_plan = lanes > 1 && range.len() == steps.len();
            let single = !whole_plan
                && steps.get(range.clone()).is_some_and(
                    |s| matches!(s, [one] if one.fusion.is_none() && (lanes > 1 || mode.is_sequential(&one.op))),
                );
            if single {
                match segments.last_mut() {
                    Some(Segment::Kernels(before)) => before.end = range.end,
                    _ => segments.push(Segment::Kernels(range)),
                }
            } else {
                segments.push(Segment::Fused { index: loops, steps: range });
                loops += 1;
            }
        }
        at += run;
    }
    segments
}

/// Splits a run of simple steps into ranges that are each one loop.
fn split_run(steps: &[Step], run: Range<usize>, (lanes, mode): (usize, RecurrenceMode)) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    if lanes > 1 {
        ranges.push(run);
    } else {
        let is_state = |i: usize| steps.get(i).is_some_and(|s| mode.is_sequential(&s.op));
        let mut at = run.start;
        while at < run.end {
            let stateful = is_state(at);
            let end = (at..run.end).find(|i| is_state(*i) != stateful).unwrap_or(run.end);
            let short = !stateful && end - at < MIN_SIMD_RUN;
            // A short stateless run joins the recurrence before it; a recurrence joins a short run before it.
            let join = ranges.last().is_some_and(|r| {
                let before = r.clone().any(is_state);
                (short && before) || (stateful && (before || r.len() < MIN_SIMD_RUN))
            });
            match ranges.last_mut().filter(|_| join) {
                Some(last) => last.end = end,
                None => ranges.push(at..end),
            }
            at = end;
        }
    }
    ranges.into_iter().flat_map(|r| split_long(steps, r, (lanes, mode))).collect()
}

/// Limits the length of a loop; along time, a loop must not look back at what it writes itself.
fn split_long(
    steps: &[Step],
    range: Range<usize>,
    (lanes, mode): (usize, RecurrenceMode),
) -> Vec<Range<usize>> {
    let stateless = !range.clone().any(|i| steps.get(i).is_some_and(|s| mode.is_sequential(&s.op)));
    let mut all = Vec::new();
    let mut begin = range.start;
    let mut written: HashSet<usize> = HashSet::new();
    for at in range.clone() {
        let Some(step) = steps.get(at) else { break };
        let earlier = matches!(
            step.op,
            NodeOp::Shift(..)
                | NodeOp::RollingSum(..)
                | NodeOp::PartialRollingSum(..)
                | NodeOp::RollingSumFrom { .. }
        );
        let back = step.inputs.iter().any(|p| (p.lag > 0 || earlier) && written.contains(&p.buffer));
        if at - begin >= MAX_FUSED_STEPS || (lanes == 1 && stateless && back) {
            all.push(begin..at);
            begin = at;
            written.clear();
        }
        written.extend(step.outputs.iter().map(|p| p.buffer));
    }
    all.push(begin..range.end);
    all
}
