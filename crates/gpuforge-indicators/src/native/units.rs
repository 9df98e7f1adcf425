//! Which steps are compiled together?

use std::{collections::HashSet, ops::Range};

use super::ir;
use crate::{graph::NodeOp, plan::Step};

/// Steps that run one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Each by its kernel.
    Steps(Range<usize>),
    /// As one loop.
    Group {
        /// Which of the groups.
        at: usize,
        /// Its steps, for bars at which the loop does not hold yet.
        steps: Range<usize>,
    },
}

impl Unit {
    /// Steps of a group.
    pub(super) fn group_len(&self) -> Option<usize> {
        match self {
            Unit::Group { steps, .. } => Some(steps.len()),
            Unit::Steps(_) => None,
        }
    }
}

/// A loop of more steps than this needs more registers and pointers than there are.
pub(crate) const MOST_STEPS: usize = 48;
/// For one series: stateless steps that are faster four bars at a time by themselves than one bar at a time among others.
const STRETCH: usize = 14;

/// Who computes what goes from bar to bar?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chains {
    /// Loops, one bar after the other.
    InOrder,
    /// Kernels, which cut them into pieces.
    InPieces,
    /// Loops, eight bars at once, if they can be scans; else kernels.
    Scanned,
}

impl Chains {
    /// Can this step be part of a loop?
    fn fits(self, step: &Step) -> bool {
        ir::fits(step) && !(self != Chains::InOrder && self.waits(&step.op))
    }

    /// Does the next bar wait for this one?
    fn waits(self, prim: &NodeOp) -> bool {
        ir::is_state(prim) && !(self == Chains::Scanned && ir::is_scan(prim))
    }
}

/// Units for so many series side by side.
pub(super) fn of(steps: &[Step], lanes: usize, chains: Chains) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut groups = 0;
    let mut at = 0;
    while at < steps.len() {
        let run = steps.iter().skip(at).take_while(|s| chains.fits(s)).count();
        if run == 0 {
            match units.last_mut() {
                Some(Unit::Steps(range)) => range.end += 1,
                _ => units.push(Unit::Steps(at..at + 1)),
            }
            at += 1;
            continue;
        }
        for range in cut(steps, at..at + run, (lanes, chains)) {
            // One step by itself is a loop already. Of one series it may write its result past the caches; of several, if it is
            // all there is, it is read and written without a detour.
            let all = lanes > 1 && range.len() == steps.len();
            let alone = !all
                && steps.get(range.clone()).is_some_and(
                    |s| matches!(s, [one] if one.fusion.is_none() && (lanes > 1 || chains.waits(&one.op))),
                );
            if alone {
                match units.last_mut() {
                    Some(Unit::Steps(before)) => before.end = range.end,
                    _ => units.push(Unit::Steps(range)),
                }
            } else {
                units.push(Unit::Group { at: groups, steps: range });
                groups += 1;
            }
        }
        at += run;
    }
    units
}

/// A run of simple steps as ranges that are each one loop.
fn cut(steps: &[Step], run: Range<usize>, (lanes, chains): (usize, Chains)) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    if lanes > 1 {
        ranges.push(run);
    } else {
        let is_state = |i: usize| steps.get(i).is_some_and(|s| chains.waits(&s.op));
        let mut at = run.start;
        while at < run.end {
            let kind = is_state(at);
            let end = (at..run.end).find(|i| is_state(*i) != kind).unwrap_or(run.end);
            let short = !kind && end - at < STRETCH;
            // A short stretch joins what is before it; what has a state joins a short stretch before it.
            let join = ranges.last().is_some_and(|r| {
                let stateful = r.clone().any(is_state);
                (short && stateful) || (kind && (stateful || r.len() < STRETCH))
            });
            match ranges.last_mut().filter(|_| join) {
                Some(last) => last.end = end,
                None => ranges.push(at..end),
            }
            at = end;
        }
    }
    ranges.into_iter().flat_map(|r| parts(steps, r, (lanes, chains))).collect()
}

/// Not too long; and along time, nothing that looks back at what the same loop writes.
fn parts(steps: &[Step], range: Range<usize>, (lanes, chains): (usize, Chains)) -> Vec<Range<usize>> {
    let stateless = !range.clone().any(|i| steps.get(i).is_some_and(|s| chains.waits(&s.op)));
    let mut all = Vec::new();
    let mut begin = range.start;
    let mut written: HashSet<usize> = HashSet::new();
    for at in range.clone() {
        let Some(step) = steps.get(at) else { break };
        let earlier =
            matches!(step.op, NodeOp::Shift(..) | NodeOp::RollingSum(..) | NodeOp::PartialRollingSum(..) | NodeOp::RollingSumFrom { .. });
        let back = step.inputs.iter().any(|p| (p.lag > 0 || earlier) && written.contains(&p.buffer));
        if at - begin >= MOST_STEPS || (lanes == 1 && stateless && back) {
            all.push(begin..at);
            begin = at;
            written.clear();
        }
        written.extend(step.outputs.iter().map(|p| p.buffer));
    }
    all.push(begin..range.end);
    all
}
