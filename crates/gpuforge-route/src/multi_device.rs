//! Multi-device execution: one thread per backend pulls ranges of items from a shared work queue; the items of a backend that
//! fails go to the others.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use gpuforge_ops::{Op, OpError, Work};
use gpuforge_runtime::{
    tensor::{Tensor, TensorSpec},
    units::Bytes,
};

use crate::{
    backend::{BackendError, BackendRun, alloc_zeroed},
    batch::{BatchRules, BatchState, CancelToken},
    chunk::{ChunkResult, OpGroup, scale_work},
    duty_cycle::DutyThrottle,
    partition::{Failover, ItemRange, LinearCost, NextWork, WorkQueue, WorkerSpec},
    route::{PlacementPolicy, Reason},
    router::{RouteError, Router, RunOutput},
};

/// Poll interval of an idle backend; it is also notified when something changes.
const IDLE_POLL: Duration = Duration::from_millis(5);

/// Outcome of a range of items.
pub(crate) struct RangeOutcome<T> {
    pub(crate) output: T,
    /// The failure, and the first item that was not done.
    pub(crate) failed: Option<(BackendError, usize)>,
    /// Busy time.
    pub(crate) busy: Duration,
    /// Cold: a kernel was compiled, so the time is not representative.
    pub(crate) cold: bool,
}

/// Work queue shared by the backend threads.
struct SharedQueue {
    queue: Mutex<WorkQueue>,
    changed: Condvar,
    began: Instant,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Next range of a backend; blocks while another backend may still fail.
    fn next(&self, backend_id: usize, stop: &dyn Fn() -> bool) -> Option<ItemRange> {
        let mut queue = self.lock();
        loop {
            if stop() {
                return None;
            }
            let now = self.began.elapsed().as_nanos() as f64;
            match queue.next(backend_id, now) {
                NextWork::Items(range) => return Some(range),
                NextWork::Done => return None,
                NextWork::Wait => {
                    let waited = self.changed.wait_timeout(queue, IDLE_POLL);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Records the outcome of a range.
    fn record<T>(&self, backend_id: usize, range: ItemRange, outcome: &RangeOutcome<T>) {
        let mut queue = self.lock();
        match &outcome.failed {
            None => queue.done(backend_id, range.items.len(), outcome.busy.as_nanos() as f64, !outcome.cold),
            Some((error, from)) => {
                let items = range.items.start + from..range.items.end;
                queue.failed(backend_id, ItemRange { items, ..range }, error.clone());
            }
        }
        drop(queue);
        self.changed.notify_all();
    }
}

/// Drains a work queue: `job` runs ranges on one thread per backend, `sink` receives their outputs on the calling thread.
/// Returns the ranges no backend could run.
pub(crate) fn drain<T: Send>(
    queue: WorkQueue,
    backends: &[usize],
    (duty, stop): (Option<f64>, &(dyn Fn() -> bool + Sync)),
    cancel: Option<&CancelToken>,
    job: &(dyn Fn(usize, &ItemRange) -> RangeOutcome<Option<T>> + Sync),
    mut sink: impl FnMut(T),
) -> Vec<ItemRange> {
    let shared = SharedQueue { queue: Mutex::new(queue), changed: Condvar::new(), began: Instant::now() };
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for backend_id in backends.iter().copied() {
            let (shared, send) = (&shared, send.clone());
            scope.spawn(move || {
                let mut throttle = DutyThrottle::new(duty);
                while let Some(range) = shared.next(backend_id, stop) {
                    // A panic must not leave the other backends waiting.
                    let outcome =
                        catch_unwind(AssertUnwindSafe(|| job(backend_id, &range))).unwrap_or_else(|_| {
                            let error =
                                BackendError::Device { error: "it panicked".to_owned(), events: Vec::new() };
                            RangeOutcome {
                                output: None,
                                failed: Some((error, 0)),
                                busy: Duration::ZERO,
                                cold: true,
                            }
                        });
                    shared.record(backend_id, range, &outcome);
                    let busy = outcome.busy;
                    if let Some(output) = outcome.output {
                        // The receiver is gone only after a panic of the calling thread.
                        let _ = send.send(output);
                    }
                    throttle.throttle(busy, cancel);
                }
            });
        }
        drop(send);
        receive.into_iter().for_each(&mut sink);
    });
    shared.queue.into_inner().unwrap_or_else(PoisonError::into_inner).into_rest()
}

impl Router {
    /// Backends that can take part now.
    pub(crate) fn sharing_backends(&self, rules: &BatchRules) -> Vec<usize> {
        if matches!(rules.placement, PlacementPolicy::Only(_))
            || matches!(self.settings().placement, PlacementPolicy::Only(_))
        {
            return Vec::new();
        }
        (0..self.backends().len()).filter(|p| self.backends().get(*p).is_some_and(|s| s.usable())).collect()
    }

    /// Runs a group of a batch on all these backends.
    pub(crate) fn run_group_multi_device(
        &self,
        group: &OpGroup<'_>,
        backends: &[usize],
        rules: &BatchRules,
        state: &mut BatchState,
    ) {
        let n = group.members.len();
        let Ok(item) = self.decide(&group.item, group.class, PlacementPolicy::Fastest) else { return };
        let predicted = |n: usize, id: usize| -> Option<f64> {
            let decision = self.decide_chunk(group, n, &item, None, PlacementPolicy::Fastest).ok()?;
            decision.predicted_ns(id).map(f64::from)
        };
        let spec = |id: usize| {
            let max_items = self.sizer(group, id, rules).max();
            let many = max_items.min(n).max(1);
            let times = predicted(1, id).zip(predicted(many, id));
            WorkerSpec {
                backend_id: id,
                cost: times.map(|(one, all)| LinearCost::fit(one, all, many)),
                max_items,
            }
        };
        let specs: Vec<WorkerSpec> = backends.iter().copied().map(spec).collect();
        let job = |backend_id: usize, range: &ItemRange| {
            let (chunk, failed) = self.run_range(group, backend_id, range, &item, rules);
            let (busy, cold) = (chunk.busy, chunk.cold);
            RangeOutcome { output: (!chunk.results.is_empty()).then_some(chunk), failed, busy, cold }
        };
        let stop = || rules.cancelled();
        let cancel = rules.cancel.as_ref();
        let rest = drain(WorkQueue::new(n, &specs), backends, (rules.duty_cycle, &stop), cancel, &job, |c| {
            state.add(c)
        });
        if rules.cancelled() {
            return;
        }
        // Every backend has failed: the CPU is tried once more, or the error is returned.
        for ItemRange { items, failover } in rest {
            let members = group.members.get(items).unwrap_or_default();
            let failed = failover.as_ref().map_or(0, |f| f.backend_id);
            state.add(if failed != 0 && !self.settings().cpu_fallback {
                self.run_each_to_end(members, &item.with_backend(failed, Reason::MultiDevice))
            } else {
                self.run_on_cpu(group, members, &item, Reason::Fallback, failover.as_deref())
            });
        }
    }

    fn run_range(
        &self,
        group: &OpGroup<'_>,
        backend_id: usize,
        range: &ItemRange,
        item: &crate::route::Decision,
        rules: &BatchRules,
    ) -> (ChunkResult, Option<(BackendError, usize)>) {
        let members = group.members.get(range.items.clone()).unwrap_or_default();
        let failover = range.failover.as_deref();
        if backend_id == 0 {
            return (self.run_on_cpu(group, members, item, Reason::MultiDevice, failover), None);
        }
        let decision =
            self.decide_chunk(group, members.len(), item, None, PlacementPolicy::Fastest).unwrap_or(*item);
        let (mut chunk, failed) = self.run_on_device(
            group,
            members,
            &decision.with_backend(backend_id, Reason::MultiDevice),
            rules.keep_on_device,
        );
        if let Some(failover) = failover {
            chunk
                .results
                .iter_mut()
                .filter_map(|(_, r)| r.as_mut().ok())
                .for_each(|ran| note_failover(ran, failover));
        }
        (chunk, failed)
    }

    /// Runs one operation partitioned over all backends, each with a share by its throughput. Results are bit-identical to a run on
    /// one backend wherever all backends compute the same bits. What cannot be split runs as with [`Router::run`].
    pub fn run_multi_device(&self, op: &dyn Op) -> Result<RunOutput, RouteError> {
        let work = Work::of(op, false)?;
        let backends: Vec<usize> = (0..self.backends().len())
            .filter(|p| self.backends().get(*p).is_some_and(|s| s.usable()))
            .collect();
        let Some(items) = op.items().filter(|i| i.count > i.grain && backends.len() > 1) else {
            return self.run(op);
        };
        for tensor in op.inputs().into_iter().filter(|t| !t.on_host()) {
            self.download(tensor).map_err(|error| self.backend_error(error, 0))?;
        }
        let began = Instant::now();
        let grain = items.grain.max(1);
        let units = items.count.div_ceil(grain);
        let class = self.op_class(op);
        let whole = self.decide(&work, class, PlacementPolicy::Fastest)?;
        let unit = self.decide(&scale_work(&work, 1, units), class, PlacementPolicy::Fastest)?;
        let spec = |id: usize| {
            let times = unit.predicted_ns(id).zip(whole.predicted_ns(id));
            let cost = times.map(|(one, all)| LinearCost::fit(one.into(), all.into(), units));
            WorkerSpec { backend_id: id, cost, max_items: usize::MAX }
        };
        let specs: Vec<WorkerSpec> = backends.iter().copied().map(spec).collect();
        // An invalid operation is invalid on every backend: all stop.
        let invalid = AtomicBool::new(false);
        let job = |backend_id: usize, range: &ItemRange| {
            let items_range = range.items.start * grain..(range.items.end * grain).min(items.count);
            let outcome = self.run_part(op, items_range, backend_id, range);
            if matches!(outcome.failed, Some((BackendError::Op(_), _))) {
                invalid.store(true, Ordering::Release);
            }
            outcome
        };
        let stop = || invalid.load(Ordering::Acquire);
        let mut parts = Vec::new();
        let rest =
            drain(WorkQueue::new(units, &specs), &backends, (None, &stop), None, &job, |p| parts.push(p));
        for left in rest {
            let before = left.failover.as_ref().map(|f| (f.error.clone(), f.backend_id));
            match before {
                Some((BackendError::Op(error), _)) => return Err(error.into()),
                // Not tried, because an invalid operation stopped everything: that error is among the rest.
                None if stop() => continue,
                _ => {}
            }
            let outcome = job(0, &left);
            parts.push(outcome.output.ok_or_else(|| {
                let now = outcome.failed.map(|(error, _)| (error, 0));
                let (error, failed) = now.or(before).unwrap_or((BackendError::NoMemory(Bytes::ZERO), 0));
                self.backend_error(error, failed)
            })?);
        }
        self.join_parts(op, parts, whole.with_backend(whole.backend_id, Reason::MultiDevice), began)
    }

    /// Runs one part of an operation on one backend.
    fn run_part(
        &self,
        op: &dyn Op,
        items: Range<usize>,
        backend_id: usize,
        range: &ItemRange,
    ) -> RangeOutcome<Option<FinishedPart>> {
        let began = Instant::now();
        let part = op.part(items).map_err(BackendError::from);
        let run = part.and_then(|part| self.run_on(part.as_ref(), backend_id, false));
        let busy = began.elapsed();
        match run {
            Ok(run) => {
                let (start, cold) = (range.items.start, run.cold);
                let part = FinishedPart { start, backend_id, run, failover: range.failover.clone() };
                RangeOutcome { output: Some(part), failed: None, busy, cold }
            }
            Err(error) => RangeOutcome { output: None, failed: Some((error, 0)), busy, cold: true },
        }
    }

    /// Joins the parts into one result.
    fn join_parts(
        &self,
        op: &dyn Op,
        mut parts: Vec<FinishedPart>,
        decision: crate::route::Decision,
        began: Instant,
    ) -> Result<RunOutput, RouteError> {
        parts.sort_by_key(|p| p.start);
        let specs = op.outputs()?;
        let size = |s: &TensorSpec| alloc_zeroed(s.size().unwrap_or(Bytes(u64::MAX)));
        let made: Result<Vec<Arc<[u8]>>, BackendError> = specs.iter().map(size).collect();
        let mut results = made.map_err(|error| self.backend_error(error, 0))?;
        let bytes: Vec<Vec<Vec<u8>>> = parts
            .iter()
            .map(|p| p.run.outputs.iter().filter_map(Tensor::host).map(|b| b.to_vec()).collect())
            .collect();
        let mut views: Vec<&mut [u8]> = results.iter_mut().filter_map(Arc::get_mut).collect();
        op.join(&bytes, &mut views)?;
        let tensor = |(bytes, spec)| Tensor::from_bytes(bytes, spec).map_err(OpError::from);
        let outputs = results.into_iter().zip(specs).map(tensor).collect::<Result<Vec<_>, _>>()?;
        let mut ids: Vec<usize> = parts.iter().map(|p| p.backend_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let backend = ids.iter().map(|id| self.backend_name(*id)).collect::<Vec<_>>().join(" + ");
        let run = BackendRun {
            outputs,
            wall: began.elapsed(),
            device_time: None,
            cold: parts.iter().any(|p| p.run.cold),
            pieces: parts.iter().map(|p| p.run.pieces).sum(),
            events: parts.iter().flat_map(|p| p.run.events.iter().cloned()).collect(),
        };
        let mut ran = self.output(run, decision, decision.backend_id, None);
        ran.report_mut().backend = backend;
        for failover in parts.iter().filter_map(|p| p.failover.as_deref()) {
            note_failover(&mut ran, failover);
        }
        Ok(ran)
    }
}

/// Notes in a report that another backend had it first and failed.
fn note_failover(ran: &mut RunOutput, failover: &Failover) {
    let report = ran.report_mut();
    if let BackendError::Device { events, .. } = &failover.error {
        report.events.splice(0..0, events.iter().cloned());
    }
    report.fallback.get_or_insert_with(|| failover.error.to_string());
}

/// A finished part of an operation.
struct FinishedPart {
    start: usize,
    backend_id: usize,
    run: BackendRun,
    failover: Option<Arc<Failover>>,
}
