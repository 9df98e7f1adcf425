//! Batch scheduling: groups equal operations, then runs each group chunk by chunk on the backend that is best for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gpuforge_ops::{Op, OpKind, Work};
use gpuforge_runtime::units::Bytes;

use super::{BatchRules, BatchState, Call};
use crate::{
    chunk::{ChunkResult, GroupMember, OpGroup},
    chunk_size::ChunkSizer,
    duty_cycle::DutyThrottle,
    model::OpClass,
    partition::Failover,
    route::{Decision, PlacementPolicy, Reason},
    router::{RouteError, Router},
};

/// Bytes of the first chunk, inputs and results: on the CPU about a cache, on a device enough to amortise the submission.
const START_CPU: u64 = 8 << 20;
const START_DEVICE: u64 = 16 << 20;
/// Fraction of a device's memory budget that a chunk may take; the rest is for intermediates.
const BUDGET_DIVISOR: u64 = 4;

impl Router {
    /// Checks every operation and groups those of equal cost; invalid ones get their result now.
    pub(super) fn group_ops<'a>(
        &self,
        ops: &'a [(usize, Arc<dyn Op>)],
        rules: &BatchRules,
        state: &mut BatchState,
    ) -> Vec<OpGroup<'a>> {
        let mut groups: Vec<OpGroup<'a>> = Vec::new();
        let mut known: HashMap<(OpClass, bool, u64, Bytes, Bytes), usize> = HashMap::new();
        for (index, op) in ops {
            let work = match Work::of(op.as_ref(), rules.keep_on_device) {
                Ok(work) => work,
                Err(error) => {
                    state.set(*index, Err(error.into()));
                    continue;
                }
            };
            let class = self.op_class(op.as_ref());
            let fuse = op.fuse_key();
            let key =
                (class, fuse.is_some(), fuse.unwrap_or(work.cost.units), work.upload, work.input_readback);
            let member = GroupMember { index: *index, op };
            match known.get(&key).and_then(|at| groups.get_mut(*at)) {
                Some(group) => group.members.push(member),
                None => {
                    known.insert(key, groups.len());
                    groups.push(OpGroup::new(member, work, class, fuse.is_some()));
                }
            }
        }
        let devices =
            self.backends().iter().skip(1).any(|s| s.usable()) && rules.placement != PlacementPolicy::Only(0);
        if devices {
            groups.iter_mut().for_each(|group| group.probe(self, rules.keep_on_device));
        }
        groups
    }

    /// Runs a group chunk by chunk, each on the backend that is best for it.
    pub(super) fn run_group(
        &self,
        group: &OpGroup<'_>,
        rules: &BatchRules,
        state: &mut BatchState,
        throttle: &mut DutyThrottle,
    ) {
        let mut sizers: Vec<ChunkSizer> =
            (0..self.backends().len()).map(|id| self.sizer(group, id, rules)).collect();
        let mut cpu_item_ns: Option<f32> = None;
        let mut rest = group.members.as_slice();
        while !rest.is_empty() && !rules.cancelled() {
            let (item, decision, n) =
                match self.next_chunk(group, rest.len(), &mut sizers, cpu_item_ns, rules) {
                    Ok(choice) => choice,
                    Err(error) => {
                        let repeat = || match &error {
                            RouteError::NoBackend { asked, there } => {
                                RouteError::NoBackend { asked: *asked, there: *there }
                            }
                            other => RouteError::User(other.to_string()),
                        };
                        return rest.iter().for_each(|m| state.set(m.index, Err(repeat())));
                    }
                };
            let (now, later) = rest.split_at_checked(n).unwrap_or((rest, &[]));
            let backend_id = decision.backend_id;
            let chunk = if backend_id == 0 {
                self.run_on_cpu(group, now, &item, decision.reason, None)
            } else {
                let (done, failed) = self.run_on_device(group, now, &decision, rules.keep_on_device);
                match failed {
                    None => done,
                    Some((error, from)) => {
                        let (tried, left) = now.split_at_checked(from).unwrap_or((now, &[]));
                        if !tried.is_empty() {
                            state.add(done);
                        }
                        self.fall_back_chunk(group, left, &item, &decision, error)
                    }
                }
            };
            let busy = chunk.busy;
            // A fused device run was accounted for already.
            if backend_id == 0 || group.fused.is_none() {
                self.account(&decision, busy);
            }
            if backend_id == 0 && decision.reason != Reason::Exploring {
                cpu_item_ns = Some(busy.as_nanos() as f32 / n.max(1) as f32);
            }
            if let Some(sizer) = sizers.get_mut(backend_id) {
                sizer.observe(n, busy);
            }
            state.add(chunk);
            throttle.throttle(busy, rules.cancel.as_ref());
            rest = later;
        }
    }

    /// Fallback after a device failure: the CPU if allowed, else one by one, so that only what fails alone fails.
    fn fall_back_chunk(
        &self,
        group: &OpGroup<'_>,
        left: &[GroupMember<'_>],
        item: &Decision,
        decision: &Decision,
        error: crate::backend::BackendError,
    ) -> ChunkResult {
        if self.settings().cpu_fallback {
            let failover = Failover { backend_id: decision.backend_id, error };
            self.run_on_cpu(group, left, item, Reason::Fallback, Some(&failover))
        } else {
            self.run_each_to_end(left, decision)
        }
    }

    pub(crate) fn sizer(&self, group: &OpGroup<'_>, backend_id: usize, rules: &BatchRules) -> ChunkSizer {
        let item_bytes = group.bytes().max(1);
        let max = match self.backends().get(backend_id) {
            Some(backend) if backend_id > 0 => {
                let by_budget =
                    backend.memory_budget().map_or(u64::MAX, |b| b.0 / BUDGET_DIVISOR / item_bytes);
                let by_buffer =
                    backend.max_buffer().map_or(u64::MAX, |b| b.0 / group.item.largest_buffer.0.max(1));
                by_budget.min(by_buffer)
            }
            _ => u64::MAX,
        };
        let start = (if backend_id == 0 { START_CPU } else { START_DEVICE } / item_bytes).max(1);
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let max = count(max).min(rules.max_chunk).min(group.max_chunk(backend_id));
        ChunkSizer::new(count(start), rules.min_chunk, max, rules.max_chunk_time())
    }

    /// The decision for one item, the decision for the next chunk, and the size of that chunk.
    fn next_chunk(
        &self,
        group: &OpGroup<'_>,
        left: usize,
        sizers: &mut [ChunkSizer],
        cpu_item_ns: Option<f32>,
        rules: &BatchRules,
    ) -> Result<(Decision, Decision, usize), RouteError> {
        let item = self.decide(&group.item, group.class, rules.placement)?;
        let usual = sizers.iter().map(ChunkSizer::size).max().unwrap_or(1).min(left);
        let decision = self.decide_chunk(group, usual, &item, cpu_item_ns, rules.placement)?;
        let backend_id = decision.backend_id;
        let Some(sizer) = sizers.get_mut(backend_id) else { return Ok((item, decision, usual)) };
        if let Some(ns) = decision.predicted_ns(backend_id) {
            sizer.expect(Duration::from_nanos((ns / usual.max(1) as f32) as u64));
        }
        let n = sizer.size().min(left).max(1);
        if n == usual {
            return Ok((item, decision, n));
        }
        let exact = self.decide_chunk(group, n, &item, cpu_item_ns, rules.placement)?;
        Ok((item, exact.with_backend(backend_id, decision.reason), n))
    }

    /// Decision for a chunk of `n` items. The CPU runs them one by one, a device all at once: its prediction is that of the fused
    /// work, where they can be fused.
    pub(crate) fn decide_chunk(
        &self,
        group: &OpGroup<'_>,
        n: usize,
        item: &Decision,
        cpu_item_ns: Option<f32>,
        placement: PlacementPolicy,
    ) -> Result<Decision, RouteError> {
        let (work, class) = group.work(n);
        let mut decision = self.decide(&work, class, placement)?;
        let sequential = |id: usize, saved: f32| {
            let total = |ns: Option<f32>| ns.map_or(f32::INFINITY, |ns| ns * n as f32 - saved);
            (total(item.predicted_ns(id)), total(item.model_ns(id)))
        };
        let (predicted, model) = sequential(0, 0.0);
        decision = decision.with_prediction(0, cpu_item_ns.map_or(predicted, |ns| ns * n as f32), model);
        if group.fused.is_none() {
            let models = self.models();
            for (id, device) in models.iter().enumerate().skip(1) {
                let saved_submissions = if group.batchable { n.saturating_sub(1) } else { 0 };
                let (predicted, model) = sequential(id, device.launch_ns as f32 * saved_submissions as f32);
                decision = decision.with_prediction(id, predicted, model);
            }
        }
        if !matches!(decision.reason, Reason::Faster { .. } | Reason::NotMeasured) {
            return Ok(decision);
        }
        let usable = |id: &usize| self.backends().get(*id).is_some_and(|s| s.usable());
        let mut times: Vec<(usize, f32)> = (0..decision.backend_count())
            .filter(usable)
            .filter_map(|id| Some((id, decision.predicted_ns(id)?)))
            .collect();
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let decision = match times.as_slice() {
            [(id, best), (_, next), ..] => {
                decision.with_backend(*id, Reason::Faster { factor: next / best.max(f32::MIN_POSITIVE) })
            }
            _ => decision,
        };
        Ok(if group.fused.is_some() { self.maybe_explore(&work, class, decision) } else { decision })
    }

    /// Runs user functions on the CPU's threads.
    pub(super) fn run_user_calls(
        &self,
        calls: Vec<(usize, Call)>,
        rules: &BatchRules,
        state: &mut BatchState,
        throttle: &mut DutyThrottle,
    ) {
        if calls.is_empty() {
            return;
        }
        let work = Work {
            kind: OpKind::Custom,
            cost: gpuforge_ops::OpCost::default(),
            upload: Bytes::ZERO,
            download: Bytes::ZERO,
            input_readback: Bytes::ZERO,
            largest_buffer: Bytes::ZERO,
            splittable: false,
        };
        let Ok(decision) = self.decide(&work, OpClass::of(OpKind::Custom), PlacementPolicy::Only(0)) else {
            return;
        };
        let decision =
            decision.with_prediction(0, f32::INFINITY, f32::INFINITY).with_backend(0, Reason::Only);
        let start = rayon::current_num_threads();
        // Fewer items than threads are never faster, whatever a noisy measurement says.
        let min = rules.min_chunk.max(start).min(rules.max_chunk);
        let mut sizer = ChunkSizer::new(start, min, rules.max_chunk, rules.max_chunk_time());
        let mut rest = calls.into_iter();
        while rest.len() > 0 && !rules.cancelled() {
            let now: Vec<_> = rest.by_ref().take(sizer.size()).collect();
            let n = now.len();
            let chunk = self.run_calls(now, decision);
            let busy = chunk.busy;
            sizer.observe(n, busy);
            state.add(chunk);
            throttle.throttle(busy, rules.cancel.as_ref());
        }
    }
}
