//! Batched execution: equal operations are grouped and fused into one dispatch, the others share a submission where they can;
//! every item has its own result.
//!
//! ```text
//!   items ─► check each ─► groups of equal cost ─► per group: backend and size of the next chunk ─► run (see `chunk.rs`)
//!                 │                                    ▲  decided and sized from measured times       │
//!                 └── invalid items fail alone         └──────────────────────────────────────────────┘
//! ```
//! On the CPU nothing is fused: gathering inputs would only copy them. Items run as they are, small ones on all threads.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_ops::{Op, OpKind, Work};
use gpuforge_runtime::{tensor::Tensor, units::Bytes};
use serde::Serialize;

use crate::{
    chunk::{ChunkResult, GroupMember, OpGroup},
    chunk_size::ChunkSizer,
    duty_cycle::DutyThrottle,
    model::OpClass,
    partition::Failover,
    route::{Decision, PlacementPolicy, Reason},
    router::{RouteError, Router, RunOutput},
};

/// Cancellation token of a batch: chunks that have not begun are skipped. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the batch.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Was it cancelled?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) type Call = Box<dyn FnOnce() -> Result<Vec<Tensor>, String> + Send>;

/// An item of a batch: an operation, or a user function.
pub struct Item(Task);

enum Task {
    Op(Arc<dyn Op>),
    Call(Call),
}

impl Item {
    /// An operation that is shared with the caller.
    pub fn shared(op: Arc<dyn Op>) -> Self {
        Item(Task::Op(op))
    }

    /// A function that runs on the CPU's threads. A panic becomes the error of its item.
    pub fn call(function: impl FnOnce() -> Result<Vec<Tensor>, String> + Send + 'static) -> Self {
        Item(Task::Call(Box::new(function)))
    }
}

impl<T: Op> From<T> for Item {
    fn from(op: T) -> Self {
        Item::shared(Arc::new(op))
    }
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Task::Op(op) => write!(f, "Item({op:?})"),
            Task::Call(_) => write!(f, "Item(a function)"),
        }
    }
}

/// Progress callback: items done and items in total.
pub type ProgressFn = Box<dyn FnMut(usize, usize) + Send>;

/// Options of a batch.
#[derive(Default)]
pub struct BatchOptions {
    /// Placement policy; [`PlacementPolicy::Only`] overrides `multi_device`.
    pub placement: PlacementPolicy,
    /// Duty cycle: largest share of the time that work may run, between 0.01 and 1.
    pub duty_cycle: Option<f64>,
    /// Checked between chunks.
    pub cancel: Option<CancelToken>,
    /// Called after each chunk.
    pub progress: Option<ProgressFn>,
    /// Smallest chunk, as long as there are so many items.
    pub min_chunk: Option<usize>,
    /// Largest chunk; memory may set a lower limit.
    pub max_chunk: Option<usize>,
    /// Keep results resident on the device that computed them. Then nothing is fused, only submitted together.
    pub keep_on_device: bool,
    /// Use all backends at once, each with a share by its throughput.
    pub multi_device: bool,
}

/// Items done by a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendCount {
    /// Name of the backend.
    #[serde(rename = "place")]
    pub backend: String,
    /// Number of items.
    pub items: usize,
}

/// Statistics of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BatchStats {
    /// Number of items.
    pub items: usize,
    /// Items without a result.
    pub failed: usize,
    /// Chunks run.
    pub chunks: usize,
    /// Items that were fused into a larger operation.
    pub fused: usize,
    /// Device submissions.
    pub submissions: usize,
    /// Dispatches in them, as counted by the operations.
    pub dispatches: usize,
    /// Wall-clock time of the batch.
    pub wall: Duration,
    /// Busy time, summed over backends.
    pub busy: Duration,
    /// Available time, summed over the backends that took part at once.
    pub available: Duration,
    /// Items per backend.
    #[serde(rename = "places")]
    pub backends: Vec<BackendCount>,
}

impl BatchStats {
    /// Busy share of the available time; `None` when there was none.
    pub fn busy_share(&self) -> Option<f64> {
        let available = self.available.as_secs_f64();
        (available > 0.0).then(|| self.busy.as_secs_f64() / available)
    }
}

/// Results of a batch in item order. Times in the reports of items that shared a run are their shares of it.
#[derive(Debug)]
pub struct BatchRun {
    /// One result per item.
    pub results: Vec<Result<RunOutput, RouteError>>,
    /// Statistics.
    pub stats: BatchStats,
}

/// Results and statistics so far.
pub(crate) struct BatchState {
    results: Vec<Option<Result<RunOutput, RouteError>>>,
    done: usize,
    items_per_backend: Vec<usize>,
    pub(crate) stats: BatchStats,
    progress: Option<ProgressFn>,
}

impl BatchState {
    fn new(items: usize, backends: usize, progress: Option<ProgressFn>) -> Self {
        let results = std::iter::repeat_with(|| None).take(items).collect();
        let stats = BatchStats { items, ..BatchStats::default() };
        BatchState { results, done: 0, items_per_backend: vec![0; backends], stats, progress }
    }

    /// Sets the result of an item.
    fn set(&mut self, index: usize, result: Result<RunOutput, RouteError>) {
        let result = result.map_err(|error| match error {
            RouteError::Cancelled => error,
            error => RouteError::Item { index, error: Box::new(error) },
        });
        self.stats.failed += usize::from(result.is_err());
        if let Some(slot) = self.results.get_mut(index) {
            *slot = Some(result);
            self.done += 1;
        }
    }

    pub(crate) fn add(&mut self, chunk: ChunkResult) {
        self.stats.chunks += 1;
        self.stats.fused += chunk.fused;
        self.stats.submissions += chunk.submissions;
        self.stats.dispatches += chunk.dispatches;
        self.stats.busy += chunk.busy;
        if let Some(count) = self.items_per_backend.get_mut(chunk.backend_id) {
            *count += chunk.results.len();
        }
        for (index, result) in chunk.results {
            self.set(index, result);
        }
        let (done, all) = (self.done, self.results.len());
        if let Some(progress) = &mut self.progress {
            progress(done, all);
        }
    }

    fn finish(mut self, router: &Router, wall: Duration) -> BatchRun {
        self.stats.wall = wall;
        let counted = router.backends().iter().zip(&self.items_per_backend).filter(|(_, items)| **items > 0);
        self.stats.backends = counted.map(|(s, n)| BackendCount { backend: s.name(), items: *n }).collect();
        // Items without a result were never started.
        let cancelled = || Err(RouteError::Cancelled);
        self.stats.failed += self.results.iter().filter(|r| r.is_none()).count();
        let results = self.results.into_iter().map(|r| r.unwrap_or_else(cancelled)).collect();
        BatchRun { results, stats: self.stats }
    }
}

/// Longest chunk: cancellation waits for it, and with a duty-cycle limit the sleep comes after it.
const MAX_CHUNK_TIME: Duration = Duration::from_millis(100);
const MAX_CHUNK_TIME_WITH_DUTY: Duration = Duration::from_millis(20);
/// Bytes of the first chunk, inputs and results: on the CPU about a cache, on a device enough to amortise the submission.
const START_CPU: u64 = 8 << 20;
const START_DEVICE: u64 = 16 << 20;
/// Fraction of a device's memory budget that a chunk may take; the rest is for intermediates.
const BUDGET_DIVISOR: u64 = 4;

/// Options of a batch, checked.
pub(crate) struct BatchRules {
    pub(crate) placement: PlacementPolicy,
    pub(crate) duty_cycle: Option<f64>,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) min_chunk: usize,
    pub(crate) max_chunk: usize,
    pub(crate) keep_on_device: bool,
    multi_device: bool,
}

impl BatchRules {
    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    fn max_chunk_time(&self) -> Duration {
        if self.duty_cycle.is_some() { MAX_CHUNK_TIME_WITH_DUTY } else { MAX_CHUNK_TIME }
    }
}

impl Router {
    /// Runs many operations and functions. Results are in item order; an item that fails, fails alone, and its error names it
    /// ([`RouteError::Item`]).
    pub fn batch<I>(&self, items: I, options: BatchOptions) -> BatchRun
    where
        I: IntoIterator,
        I::Item: Into<Item>,
    {
        let began = Instant::now();
        let BatchOptions {
            placement,
            duty_cycle,
            cancel,
            progress,
            min_chunk,
            max_chunk,
            keep_on_device,
            multi_device,
        } = options;
        let (min_chunk, max_chunk) = (min_chunk.unwrap_or(1).max(1), max_chunk.unwrap_or(usize::MAX).max(1));
        let rules = BatchRules {
            placement,
            duty_cycle,
            cancel,
            min_chunk: min_chunk.min(max_chunk),
            max_chunk,
            keep_on_device,
            multi_device,
        };
        let (mut ops, mut calls) = (Vec::new(), Vec::new());
        for (index, item) in items.into_iter().enumerate() {
            match item.into().0 {
                Task::Op(op) => ops.push((index, op)),
                Task::Call(call) => calls.push((index, call)),
            }
        }
        let mut state = BatchState::new(ops.len() + calls.len(), self.backends().len(), progress);
        let mut throttle = DutyThrottle::new(rules.duty_cycle);
        for group in self.group_ops(&ops, &rules, &mut state) {
            let backends = if rules.multi_device { self.sharing_backends(&rules) } else { Vec::new() };
            let before = Instant::now();
            let concurrent = if backends.len() > 1 && group.members.len() > 1 {
                self.run_group_multi_device(&group, &backends, &rules, &mut state);
                backends.len()
            } else {
                self.run_group(&group, &rules, &mut state, &mut throttle);
                1
            };
            state.stats.available += before.elapsed() * u32::try_from(concurrent).unwrap_or(1);
        }
        let before = Instant::now();
        self.run_user_calls(calls, &rules, &mut state, &mut throttle);
        state.stats.available += before.elapsed();
        state.finish(self, began.elapsed())
    }

    /// Checks every operation and groups those of equal cost; invalid ones get their result now.
    fn group_ops<'a>(
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
    fn run_group(
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
    fn run_user_calls(
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
