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
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_ops::Op;
use gpuforge_runtime::tensor::Tensor;
use serde::Serialize;

use crate::{
    chunk::ChunkResult,
    duty_cycle::DutyThrottle,
    route::PlacementPolicy,
    router::{RouteError, Router, RunOutput},
};

mod schedule;

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
}
