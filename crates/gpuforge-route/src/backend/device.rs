//! Device backend: records an operation as a plan, splits it where it exceeds the device's limits, joins the results.

use std::{
    collections::HashSet,
    hash::{Hash as _, Hasher as _},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_ops::{Op, OpError, OpKind, Target, Tuning, op::guard_passed, record};
use gpuforge_profile::{Category, span};
use gpuforge_runtime::{
    engine::Caps,
    plan::{Command, Plan, PlanError},
    runner::{RunError, RunOutcome, Runner, SplittableBatch},
    tensor::{Tensor, TensorSpec},
    units::Bytes,
};

use super::{Backend, BackendError, BackendRun, Transfer, alloc_zeroed};

/// A device behind its runner: records a plan per operation, splits it where it exceeds the device's limits.
pub struct DeviceBackend {
    name: String,
    driver: Option<String>,
    runner: Arc<Runner>,
    tuning: Mutex<Tuning>,
    /// Limits of the device that was last open, in bytes; 0 before one was opened.
    max_buffer: AtomicU64,
    memory_budget: AtomicU64,
    /// Compiled kernels by session: a reopened device starts with none.
    compiled: Mutex<(usize, HashSet<u64>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceBackend {
    /// A device; it is opened on first use.
    pub fn new(name: impl Into<String>, driver: Option<String>, runner: Arc<Runner>) -> Self {
        let (tuning, compiled) = (Mutex::default(), Mutex::default());
        let (max_buffer, memory_budget) = (AtomicU64::new(0), AtomicU64::new(0));
        DeviceBackend { name: name.into(), driver, runner, tuning, max_buffer, memory_budget, compiled }
    }

    /// The runner of this device.
    pub fn runner(&self) -> &Arc<Runner> {
        &self.runner
    }

    fn caps(&self, op: Option<&dyn Op>) -> Result<Caps, BackendError> {
        let failed = |e: gpuforge_runtime::engine::EngineError| BackendError::Device {
            error: e.to_string(),
            events: Vec::new(),
        };
        let mut caps = self.runner.warm().map_err(failed)?;
        // Cached: every routing decision reads these limits.
        if self.max_buffer.swap(caps.largest_block.0, Ordering::Relaxed) != caps.largest_block.0
            && let Some(session) = self.runner.session()
        {
            self.memory_budget.store(session.memory().stats().budget.bytes.0, Ordering::Relaxed);
        }
        // Only user kernels may have loops of unknown length.
        if op.is_some_and(|op| op.kind() == OpKind::Custom) {
            caps.loop_iterations = self.runner.session().and_then(|s| s.loop_iterations());
        }
        Ok(caps)
    }

    /// Marks the kernels of a plan as compiled; `true` if one is new to the open device (a cold run).
    fn mark_compiled(&self, plan: &Plan) -> bool {
        let session = self.runner.session().map_or(0, |s| Arc::as_ptr(&s) as usize);
        let mut compiled = lock(&self.compiled);
        if compiled.0 != session {
            *compiled = (session, HashSet::new());
        }
        let mut cold = false;
        for command in plan.commands() {
            if let Command::Dispatch(d) = command {
                let mut hash = std::hash::DefaultHasher::new();
                (&d.kernel.name, &d.kernel.wgsl, d.kernel.entry).hash(&mut hash);
                cold |= compiled.1.insert(hash.finish());
            }
        }
        cold
    }

    /// Runs a plan for its time only.
    fn time_plan(&self, plan: Plan) -> Result<Duration, BackendError> {
        let began = Instant::now();
        let whole = SinglePlan { plan };
        self.runner.run_batch_on_device(&whole).map_err(backend_error)?;
        Ok(began.elapsed())
    }
}

fn backend_error(stopped: gpuforge_runtime::runner::DeviceRunError) -> BackendError {
    match stopped.error {
        // An invalid plan is invalid on every backend.
        RunError::Plan(error) => BackendError::Op(error.into()),
        error => BackendError::Device { error: error.to_string(), events: stopped.events },
    }
}

/// One plan as a batch of one.
struct SinglePlan {
    plan: Plan,
}

impl SplittableBatch for SinglePlan {
    fn len(&self) -> usize {
        1
    }

    fn record(&self, _items: Range<usize>) -> Result<Plan, PlanError> {
        Ok(self.plan.clone())
    }
}

/// An operation as a batch of its items, in units of its grain, so that the runner can split it.
struct SplitOp<'a> {
    op: &'a dyn Op,
    target: Target<'a>,
    keep_on_device: bool,
    units: usize,
    max_units: usize,
    grain: usize,
    count: usize,
    /// Why a part could not be recorded, if not for the plan itself.
    failed: Mutex<Option<OpError>>,
    cold: Mutex<bool>,
    backend: &'a DeviceBackend,
}

impl SplitOp<'_> {
    fn items(&self, units: &Range<usize>) -> Range<usize> {
        units.start * self.grain..(units.end * self.grain).min(self.count)
    }
}

impl SplittableBatch for SplitOp<'_> {
    fn len(&self) -> usize {
        self.units
    }

    fn max_chunk(&self) -> usize {
        self.max_units
    }

    fn record(&self, units: Range<usize>) -> Result<Plan, PlanError> {
        let recorded = if units.len() == self.units {
            record::plan(self.op, &self.target, self.keep_on_device)
        } else {
            self.op.part(self.items(&units)).and_then(|part| record::plan(part.as_ref(), &self.target, false))
        };
        match recorded {
            Ok(plan) => {
                *lock(&self.cold) |= self.backend.mark_compiled(&plan);
                Ok(plan)
            }
            Err(OpError::Plan(error)) => Err(error),
            Err(error) => {
                let (kernel, why) = (self.op.name().to_owned(), error.to_string());
                *lock(&self.failed) = Some(error);
                Err(PlanError::Call { at: 0, kernel, why })
            }
        }
    }
}

impl Backend for DeviceBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn driver(&self) -> Option<String> {
        self.driver.clone()
    }

    fn run(&self, op: &dyn Op, keep_on_device: bool) -> Result<BackendRun, BackendError> {
        let _span = span!("operation on a device", Category::Overhead);
        let began = Instant::now();
        let specs = op.outputs()?;
        let caps = self.caps(Some(op))?;
        let tuning = lock(&self.tuning).clone();
        let (units, max_units, grain, count) = self.split(op, &caps);
        let target = Target { caps: &caps, tuning: &tuning };
        let (failed, cold) = (Mutex::default(), Mutex::default());
        let parts = SplitOp {
            op,
            target,
            keep_on_device,
            units,
            max_units,
            grain,
            count,
            failed,
            cold,
            backend: self,
        };
        let outcome =
            self.runner.run_batch_on_device(&parts).map_err(|e| match lock(&parts.failed).take() {
                Some(error) => BackendError::Op(error),
                None => backend_error(e),
            })?;
        let cold = *lock(&parts.cold);
        let pieces = outcome.chunks.len();
        let events = outcome.events.clone();
        let device_time = outcome.chunks.iter().map(|p| p.device_time).sum();
        let outputs = join_results(op, specs, outcome, &parts)?;
        Ok(BackendRun { outputs, wall: began.elapsed(), device_time, cold, pieces, events })
    }

    fn usable(&self) -> bool {
        self.runner.available()
    }

    fn max_buffer(&self) -> Option<Bytes> {
        Some(self.max_buffer.load(Ordering::Relaxed)).filter(|b| *b > 0).map(Bytes)
    }

    fn memory_budget(&self) -> Option<Bytes> {
        Some(self.memory_budget.load(Ordering::Relaxed)).filter(|b| *b > 0).map(Bytes)
    }

    fn tune(&self, tuning: Tuning) {
        *lock(&self.tuning) = tuning;
    }

    fn download(&self, tensor: &Tensor) -> Result<(), BackendError> {
        let failed = |e: RunError| BackendError::Device { error: e.to_string(), events: Vec::new() };
        self.runner.read(tensor).map(drop).map_err(failed)
    }

    fn launch(&self) -> Result<Duration, BackendError> {
        let mut plan = Plan::new("nothing");
        let slot = plan.upload(vec![0u8; 4], "nothing").map_err(OpError::from)?;
        plan.download(slot).map_err(OpError::from)?;
        self.time_plan(plan)
    }

    fn transfer(&self, bytes: usize) -> Result<Option<Transfer>, BackendError> {
        let spec =
            TensorSpec { dtype: gpuforge_runtime::tensor::DType::U8, shape: vec![bytes], tag: "transfer" };
        let data: Arc<[u8]> = vec![1u8; bytes].into();
        let mut up = Plan::new("up");
        let slot = up.upload(data, "transfer").map_err(OpError::from)?;
        up.keep(slot, spec).map_err(OpError::from)?;
        let began = Instant::now();
        let outcome = self.runner.run_batch_on_device(&SinglePlan { plan: up }).map_err(backend_error)?;
        let sent = began.elapsed();
        let Some(tensor) = outcome.chunks.into_iter().flat_map(|p| p.kept).next() else { return Ok(None) };
        let mut down = Plan::new("down");
        let slot = down.import(&tensor);
        down.download(slot).map_err(OpError::from)?;
        let came = self.time_plan(down)?;
        let launch = self.launch()?;
        let min = Duration::from_nanos(1);
        let net = |d: Duration| d.saturating_sub(launch).max(min);
        Ok(Some(Transfer { upload: net(sent), download: net(came) }))
    }
}

impl DeviceBackend {
    /// Units an operation can be split into, most units per submission, grain and item count.
    fn split(&self, op: &dyn Op, caps: &Caps) -> (usize, usize, usize, usize) {
        let Some(items) = op.items().filter(|i| i.count > i.grain) else { return (1, 1, 1, 1) };
        let units = items.count.div_ceil(items.grain.max(1));
        let outputs = op.outputs().unwrap_or_default();
        let sizes =
            op.inputs().into_iter().map(|t| t.spec().size()).chain(outputs.iter().map(TensorSpec::size));
        let sizes: Vec<u64> = sizes.map(|s| s.map_or(u64::MAX, |b| b.0)).collect();
        let largest_buffer = sizes.iter().copied().max().unwrap_or(0);
        let total: u64 = sizes.iter().fold(0, |sum, s| sum.saturating_add(*s));
        let budget = self.memory_budget().map_or(u64::MAX, |b| b.0);
        // Headroom for intermediates; a first guess, which the runner halves where it is too large.
        let parts = largest_buffer
            .div_ceil(caps.largest_block.0.max(1))
            .max(total.saturating_mul(5) / 4 / budget.max(1) + 1);
        let parts = usize::try_from(parts.max(1)).unwrap_or(usize::MAX).min(units);
        (units, units.div_ceil(parts), items.grain.max(1), items.count)
    }
}

/// Joins the results of all chunks into tensors of the whole operation.
fn join_results(
    op: &dyn Op,
    specs: Vec<TensorSpec>,
    outcome: RunOutcome,
    parts: &SplitOp<'_>,
) -> Result<Vec<Tensor>, BackendError> {
    let bytes =
        |spec: &TensorSpec| usize::try_from(spec.size().unwrap_or(Bytes(u64::MAX)).0).unwrap_or(usize::MAX);
    let mut pieces = Vec::new();
    for piece in outcome.chunks {
        let whole = piece.items.len() == parts.units;
        let part = if whole { None } else { Some(op.part(parts.items(&piece.items))?) };
        let here = match &part {
            Some(part) => part.outputs()?,
            None => specs.clone(),
        };
        let guarded = part.as_deref().unwrap_or(op).guard().is_some();
        let mut outputs = piece.outputs;
        if guarded && !outputs.pop().is_some_and(|words| guard_passed(&words)) {
            let error = format!("{}: a loop ran into the device's limit", op.name());
            return Err(BackendError::Device { error, events: outcome.events });
        }
        if !piece.kept.is_empty() {
            return Ok(piece.kept);
        }
        outputs.iter_mut().zip(&here).for_each(|(o, s)| o.truncate(bytes(s)));
        pieces.push(outputs);
    }
    if let [outputs] = pieces.as_mut_slice() {
        let tensor = |(bytes, spec)| Ok(Tensor::from_bytes(bytes, spec).map_err(OpError::from)?);
        return std::mem::take(outputs).into_iter().zip(specs).map(tensor).collect();
    }
    let mut results =
        specs.iter().map(|s| alloc_zeroed(Bytes(bytes(s) as u64))).collect::<Result<Vec<_>, _>>()?;
    let mut views: Vec<&mut [u8]> = results.iter_mut().filter_map(Arc::get_mut).collect();
    op.join(&pieces, &mut views)?;
    let tensor = |(bytes, spec)| Ok(Tensor::from_bytes(bytes, spec).map_err(OpError::from)?);
    results.into_iter().zip(specs).map(tensor).collect()
}
