//! Runs one chunk of equal operations on one backend: on a device fused into one operation, or recorded into one submission; on
//! the CPU one by one, small ones in parallel.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gpuforge_ops::{Fused, Op, OpError, Work};
use gpuforge_runtime::{tensor::Tensor, units::Bytes};
use rayon::prelude::*;

use crate::{
    backend::{BackendError, BackendRun},
    batch::Call,
    model::OpClass,
    partition::Failover,
    route::{Decision, Reason},
    router::{RouteError, Router, RunOutput, RunReport},
    submission_batch::{self, SubmissionBatch},
    worker_pool::{self, catch_panic},
};

/// An item of a batch: its position and its operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupMember<'a> {
    pub(crate) index: usize,
    pub(crate) op: &'a Arc<dyn Op>,
}

/// Operations of equal cost, which can share a prediction, a chunk size and possibly a kernel.
#[derive(Debug)]
pub(crate) struct OpGroup<'a> {
    pub(crate) members: Vec<GroupMember<'a>>,
    /// Work of one of them.
    pub(crate) item: Work,
    pub(crate) class: OpClass,
    /// They have a fuse key.
    fusible: bool,
    /// Work of one of them inside a fused operation, and the op class of that.
    pub(crate) fused: Option<(Work, OpClass)>,
    /// They can be recorded into one submission.
    pub(crate) batchable: bool,
}

/// Above this size batching gains nothing: the transfer takes longer than a submission.
const MAX_BATCHED_BYTES: u64 = 8 << 20;
/// Above this size items are not fused but share a submission: gathering inputs and scattering results takes longer than a
/// dispatch each.
const MAX_FUSED_BYTES: u64 = 64 << 10;
/// Below this size items run in parallel on the CPU: several of them stay in cache.
const MAX_PARALLEL_BYTES: u64 = 2 << 20;
/// Remaining work that is worth waking other threads for.
const MIN_PARALLEL_TIME: Duration = Duration::from_micros(300);

/// Scales work to `n` of `of` parts; launches stay, because they are batched.
pub(crate) fn scale_work(work: &Work, n: usize, of: usize) -> Work {
    let (n, of) = (n as u128, (of as u128).max(1));
    let part = |v: u64| u64::try_from((u128::from(v) * n).div_ceil(of)).unwrap_or(u64::MAX);
    let bytes = |b: Bytes| Bytes(part(b.0));
    let mut scaled = *work;
    scaled.cost.units = part(work.cost.units);
    scaled.cost.flops = part(work.cost.flops);
    scaled.cost.read = bytes(work.cost.read);
    scaled.cost.written = bytes(work.cost.written);
    (scaled.upload, scaled.download, scaled.input_readback) =
        (bytes(work.upload), bytes(work.download), bytes(work.input_readback));
    scaled.largest_buffer = bytes(work.largest_buffer);
    scaled.splittable |= n > 1;
    scaled
}

impl<'a> OpGroup<'a> {
    pub(crate) fn new(first: GroupMember<'a>, item: Work, class: OpClass, fusible: bool) -> Self {
        OpGroup { members: vec![first], item, class, fusible, fused: None, batchable: false }
    }

    /// Finds out whether a device can fuse or batch them.
    pub(crate) fn probe(&mut self, router: &Router, keep_on_device: bool) {
        let Some(first) = self.members.first().filter(|_| self.members.len() > 1) else { return };
        if self.bytes() > MAX_BATCHED_BYTES {
            return;
        }
        self.batchable = first.op.guard().is_none();
        if self.fusible
            && !keep_on_device
            && self.bytes() <= MAX_FUSED_BYTES
            && let Ok(Some(Fused { op, .. })) = first.op.fuse(&[first.op.as_ref()])
            && let Ok(work) = Work::of(op.as_ref(), false)
        {
            self.fused = Some((work, router.op_class(op.as_ref())));
        }
    }

    /// Bytes of one item: inputs and results.
    pub(crate) fn bytes(&self) -> u64 {
        self.item.cost.read.0.saturating_add(self.item.cost.written.0)
    }

    /// Most items per chunk for reasons other than memory.
    pub(crate) fn max_chunk(&self, backend_id: usize) -> usize {
        if backend_id > 0 && self.fused.is_none() { submission_batch::MAX_OPS } else { usize::MAX }
    }

    /// Work of `n` of them on a device, and its op class.
    pub(crate) fn work(&self, n: usize) -> (Work, OpClass) {
        let (item, class) =
            self.fused.as_ref().map_or((&self.item, self.class), |(work, class)| (work, *class));
        (scale_work(item, n, 1), class)
    }
}

/// Outcome of a chunk.
#[derive(Debug)]
pub(crate) struct ChunkResult {
    pub(crate) backend_id: usize,
    pub(crate) results: Vec<(usize, Result<RunOutput, RouteError>)>,
    pub(crate) busy: Duration,
    pub(crate) fused: usize,
    pub(crate) submissions: usize,
    pub(crate) dispatches: usize,
    /// Cold: a kernel was compiled.
    pub(crate) cold: bool,
}

impl ChunkResult {
    fn on(backend_id: usize) -> Self {
        let (results, busy) = (Vec::new(), Duration::ZERO);
        ChunkResult { backend_id, results, busy, fused: 0, submissions: 0, dispatches: 0, cold: false }
    }

    fn add_run(&mut self, op: &dyn Op, run: &BackendRun) {
        self.submissions += run.pieces;
        self.dispatches += run.pieces * op.cost().launches as usize;
        self.cold |= run.cold;
    }
}

impl Router {
    /// Runs every item on the CPU: sequentially until the rest is worth waking other threads for.
    pub(crate) fn run_on_cpu(
        &self,
        group: &OpGroup<'_>,
        members: &[GroupMember<'_>],
        item: &Decision,
        reason: Reason,
        failover: Option<&Failover>,
    ) -> ChunkResult {
        let began = Instant::now();
        let decision = item.with_backend(0, reason);
        let mut chunk = ChunkResult::on(0);
        chunk.results.reserve_exact(members.len());
        let mut rest = members;
        while let Some((first, later)) = rest.split_first() {
            let run = catch_panic(|| self.run_on(first.op.as_ref(), 0, false));
            chunk.results.push((first.index, self.cpu_result(run, &decision, failover)));
            rest = later;
            let n = chunk.results.len();
            if !n.is_power_of_two() || rest.is_empty() {
                continue;
            }
            let each = began.elapsed() / u32::try_from(n).unwrap_or(u32::MAX);
            let left = each.saturating_mul(u32::try_from(rest.len()).unwrap_or(u32::MAX));
            // Sleeping threads are only woken once it is known to pay.
            if left > MIN_PARALLEL_TIME
                && group.bytes() <= MAX_PARALLEL_BYTES
                && group.item.input_readback == Bytes::ZERO
            {
                self.observe_items(group, item, each);
                if let Some(backend) = self.backends().first() {
                    let ops = rest.iter().map(|m| m.op.clone()).collect();
                    let runs = worker_pool::run_parallel(backend, ops, each).into_iter();
                    let result = |run| self.cpu_result(run, &decision, failover);
                    chunk.results.extend(rest.iter().map(|m| m.index).zip(runs.map(result)));
                    rest = &[];
                }
            }
        }
        chunk.busy = began.elapsed();
        chunk
    }

    /// Feeds back the mean time of items that ran sequentially.
    fn observe_items(&self, group: &OpGroup<'_>, item: &Decision, each: Duration) {
        if let (Some(model), Some(corrections)) = (item.model_ns(0), self.corrections().first()) {
            corrections.observe(group.class, group.item.cost.units, model, each);
        }
    }

    /// A CPU run as an item's result.
    fn cpu_result(
        &self,
        run: Result<Result<BackendRun, BackendError>, String>,
        decision: &Decision,
        failover: Option<&Failover>,
    ) -> Result<RunOutput, RouteError> {
        let mut run = run.map_err(RouteError::User)?.map_err(|error| self.backend_error(error, 0))?;
        if let Some(Failover { error: BackendError::Device { events, .. }, .. }) = failover {
            run.events.splice(0..0, events.iter().cloned());
        }
        Ok(self.output(run, *decision, 0, failover.map(|f| f.error.to_string())))
    }

    pub(crate) fn backend_error(&self, error: BackendError, backend_id: usize) -> RouteError {
        match error {
            BackendError::Op(error) => RouteError::Op(error),
            error => RouteError::Backend { backend: self.backend_name(backend_id), error },
        }
    }

    pub(crate) fn backend_name(&self, backend_id: usize) -> String {
        self.backends().get(backend_id).map_or_else(String::new, |s| s.name())
    }

    /// Runs all items on a device: fused, in one submission, or one by one. On failure, returns the error and the position of the
    /// first item that was not done; another backend can take over.
    pub(crate) fn run_on_device(
        &self,
        group: &OpGroup<'_>,
        members: &[GroupMember<'_>],
        decision: &Decision,
        keep_on_device: bool,
    ) -> (ChunkResult, Option<(BackendError, usize)>) {
        let began = Instant::now();
        let mut chunk = ChunkResult::on(decision.backend_id);
        let failed = self.try_run_on_device(group, members, decision, keep_on_device, &mut chunk).err();
        chunk.busy = began.elapsed();
        (chunk, failed)
    }

    fn try_run_on_device(
        &self,
        group: &OpGroup<'_>,
        members: &[GroupMember<'_>],
        decision: &Decision,
        keep_on_device: bool,
        chunk: &mut ChunkResult,
    ) -> Result<(), (BackendError, usize)> {
        let backend_id = decision.backend_id;
        if members.len() > 1 && group.fused.is_some() {
            let ops: Vec<&dyn Op> = members.iter().map(|m| m.op.as_ref()).collect();
            // What cannot be fused after all shares a submission.
            if let Some(Ok(Some(fused))) = ops.first().map(|first| first.fuse(&ops)) {
                match self.run_on(fused.op.as_ref(), backend_id, false) {
                    Ok(run) => {
                        let (work, class) = group.work(members.len());
                        self.learn(&work, class, decision, &run);
                        chunk.fused += members.len();
                        chunk.add_run(fused.op.as_ref(), &run);
                        return self.slice_fused(members, &fused, run, decision, chunk);
                    }
                    Err(BackendError::Op(_)) => {
                        return self.run_each(members, decision, keep_on_device, chunk);
                    }
                    Err(error) => return Err((error, 0)),
                }
            }
        }
        if members.len() > 1 && group.batchable {
            let all = SubmissionBatch::new(members.iter().map(|m| m.op.clone()).collect());
            match self.run_on(&all, backend_id, keep_on_device) {
                Ok(run) => {
                    chunk.add_run(&all, &run);
                    return self.split_outputs(members, run, decision, chunk);
                }
                Err(BackendError::Op(_)) => {}
                Err(error) => return Err((error, 0)),
            }
        }
        self.run_each(members, decision, keep_on_device, chunk)
    }

    /// Runs items one by one until the device fails.
    fn run_each(
        &self,
        members: &[GroupMember<'_>],
        decision: &Decision,
        keep_on_device: bool,
        chunk: &mut ChunkResult,
    ) -> Result<(), (BackendError, usize)> {
        for (at, member) in members.iter().enumerate() {
            match self.run_on(member.op.as_ref(), decision.backend_id, keep_on_device) {
                Ok(run) => {
                    chunk.add_run(member.op.as_ref(), &run);
                    let ran = self.item_output(run.outputs.clone(), &run, decision, members.len(), 1);
                    chunk.results.push((member.index, Ok(ran)));
                }
                Err(BackendError::Op(error)) => chunk.results.push((member.index, Err(error.into()))),
                Err(error) => return Err((error, at)),
            }
        }
        Ok(())
    }

    /// Runs items one by one on a device without a fallback: each has its own result or error.
    pub(crate) fn run_each_to_end(&self, members: &[GroupMember<'_>], decision: &Decision) -> ChunkResult {
        let began = Instant::now();
        let mut chunk = ChunkResult::on(decision.backend_id);
        let mut rest = members;
        while let Err((error, at)) = self.run_each(rest, decision, false, &mut chunk) {
            if let Some(member) = rest.get(at) {
                chunk.results.push((member.index, Err(self.backend_error(error, decision.backend_id))));
            }
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        chunk.busy = began.elapsed();
        chunk
    }

    /// Slices the results of a fused run into those of each item.
    fn slice_fused(
        &self,
        members: &[GroupMember<'_>],
        fused: &Fused,
        run: BackendRun,
        decision: &Decision,
        chunk: &mut ChunkResult,
    ) -> Result<(), (BackendError, usize)> {
        let whole: Vec<Arc<[u8]>> = run.outputs.iter().filter_map(Tensor::host).collect();
        for (at, member) in members.iter().enumerate() {
            let own = || -> Result<Vec<Tensor>, OpError> {
                let specs = member.op.outputs()?;
                let ranges = fused.output_ranges.get(at).map_or(&[][..], Vec::as_slice);
                let mut tensors = Vec::with_capacity(specs.len());
                for ((spec, range), bytes) in specs.into_iter().zip(ranges).zip(&whole) {
                    let have = bytes.len();
                    let short = OpError::Call { op: "batch", what: "bytes", want: range.end, have };
                    tensors.push(Tensor::from_bytes(bytes.get(range.clone()).ok_or(short)?, spec)?);
                }
                Ok(tensors)
            };
            let n = members.len();
            let result = own().map(|outputs| self.item_output(outputs, &run, decision, n, n));
            chunk.results.push((member.index, result.map_err(RouteError::from)));
        }
        Ok(())
    }

    /// Splits the results of a shared submission between its items.
    fn split_outputs(
        &self,
        members: &[GroupMember<'_>],
        mut run: BackendRun,
        decision: &Decision,
        chunk: &mut ChunkResult,
    ) -> Result<(), (BackendError, usize)> {
        let mut all = std::mem::take(&mut run.outputs).into_iter();
        for member in members {
            let own = member.op.outputs().map(|specs| all.by_ref().take(specs.len()).collect());
            let n = members.len();
            let result = own.map(|outputs| self.item_output(outputs, &run, decision, n, n));
            chunk.results.push((member.index, result.map_err(RouteError::from)));
        }
        Ok(())
    }

    /// An item's share of a run: `of` items shared the prediction, `ran` shared the run.
    fn item_output(
        &self,
        outputs: Vec<Tensor>,
        run: &BackendRun,
        decision: &Decision,
        of: usize,
        ran: usize,
    ) -> RunOutput {
        let part = |n: usize| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        let predicted = decision.predicted_ns(decision.backend_id).map(|ns| Duration::from_nanos(ns as u64));
        let report = RunReport {
            backend: self.backend_name(decision.backend_id),
            wall: run.wall / part(ran),
            predicted: predicted.map(|p| p / part(of)),
            device_time: run.device_time.map(|t| t / part(ran)),
            cold: run.cold,
            pieces: run.pieces,
            events: run.events.clone(),
            fallback: None,
        };
        RunOutput::new(outputs, *decision, report)
    }

    /// Runs user functions in parallel.
    pub(crate) fn run_calls(&self, calls: Vec<(usize, Call)>, decision: Decision) -> ChunkResult {
        let began = Instant::now();
        let run = |(index, call): (usize, Call)| {
            let began = Instant::now();
            let result = match catch_panic(call) {
                Ok(Ok(outputs)) => {
                    let wall = began.elapsed();
                    let events = Vec::new();
                    let run = BackendRun { outputs, wall, device_time: None, cold: false, pieces: 1, events };
                    Ok(self.output(run, decision, 0, None))
                }
                Ok(Err(error)) | Err(error) => Err(RouteError::User(error)),
            };
            (index, result)
        };
        let mut chunk = ChunkResult::on(0);
        chunk.results = match calls.len() {
            1 => calls.into_iter().map(run).collect(),
            _ => calls.into_par_iter().map(run).collect(),
        };
        chunk.busy = began.elapsed();
        chunk
    }
}
