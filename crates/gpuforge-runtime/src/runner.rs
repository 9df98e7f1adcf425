//! Fault-tolerant runner: opens the device lazily, runs plans, and follows the recovery table in [`crate::recovery`]
//! (OOM: evict, retry, split; device lost: reopen and replay; else fall back to the CPU) until there is a result.
//!
//! Every recovery step is an event in the outcome.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_profile::{Category, Name, Profiler, span};
use serde::Serialize;

use crate::{
    engine::{EngineError, Health, Opener, reference},
    memory::StackSettings,
    plan::{Plan, PlanError},
    recovery::{self, CircuitBreaker, FailureKind, RecoveryAttempts, RecoveryStep},
    session::Session,
    tensor::{Lineage, Tensor},
    units::Bytes,
};

/// Settings of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerSettings {
    /// Device memory.
    pub memory: StackSettings,
    /// Deadline of one chunk on the device.
    pub deadline: Duration,
    /// May work fall back to the CPU?
    pub cpu_fallback: bool,
    /// May a lost device be reopened and the plan replayed? Off only in tests that show that it matters.
    pub replay: bool,
    /// Cool-down of the circuit breaker after repeated failures.
    pub breaker_pause: Duration,
}

/// Default deadline of one chunk on a device, after which the device counts as hung.
pub const DEADLINE: Duration = Duration::from_secs(120);

impl RunnerSettings {
    /// The defaults with this memory: every recovery step is allowed.
    pub fn new(memory: StackSettings) -> Self {
        let breaker_pause = recovery::BREAKER_PAUSE;
        RunnerSettings { memory, deadline: DEADLINE, cpu_fallback: true, replay: true, breaker_pause }
    }
}

/// Where a chunk was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutedOn {
    /// On the device.
    Device,
    /// On the CPU, by the kernels' CPU references.
    Cpu,
}

/// A failure and the recovery step taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveryEvent {
    /// The class of the failure.
    pub kind: FailureKind,
    /// The error message.
    pub error: String,
    /// The step taken.
    pub step: RecoveryStep,
    /// Why this step.
    pub reason: &'static str,
}

/// The result of one chunk of a batch.
#[derive(Debug, Clone)]
pub struct ChunkOutput {
    /// Items it covers.
    pub items: Range<usize>,
    /// Its downloads.
    pub outputs: Vec<Vec<u8>>,
    /// Tensors it kept on the device, or on the host after a fallback to the CPU.
    pub kept: Vec<Tensor>,
    /// Where it was executed.
    pub executed_on: ExecutedOn,
    /// Device time from timestamp queries.
    pub device_time: Option<Duration>,
}

/// The outcome of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOutcome {
    /// Results, in the order of their items.
    pub chunks: Vec<ChunkOutput>,
    /// Recovery steps on the way.
    pub events: Vec<RecoveryEvent>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A chunk cannot be recorded as a plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No recovery step was left.
    #[error("{error} (after {tried} attempts)")]
    Failed {
        /// The last failure.
        error: EngineError,
        /// Number of attempts.
        tried: u32,
    },
}

/// A failed attempt, and the session it failed on if one was open.
struct Failure {
    error: EngineError,
    session: Option<Arc<Session>>,
}

/// A batch of independent items that can be split into chunks on OOM.
pub trait SplittableBatch {
    /// How many items.
    fn len(&self) -> usize;

    /// No items at all?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum number of items per chunk; what is known to be too large need not be tried.
    fn max_chunk(&self) -> usize {
        self.len()
    }

    /// Records the plan of some items.
    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError>;
}

/// A batch that failed on the device, with the recovery steps that were tried.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct DeviceRunError {
    /// The last failure.
    #[source]
    pub error: RunError,
    /// All recovery steps.
    pub events: Vec<RecoveryEvent>,
}

/// Runs plans on a device that is opened at first use.
pub struct Runner {
    opener: Box<dyn Opener>,
    settings: RunnerSettings,
    session: Mutex<Option<Arc<Session>>>,
    breaker: Mutex<CircuitBreaker>,
    started: Instant,
    stats: Mutex<RunnerStats>,
    /// When memory maintenance last ran, in milliseconds since the start.
    ticked: AtomicU64,
}

/// Interval of memory maintenance (expiry of idle blocks, leak samples) while work runs.
const TICK: Duration = Duration::from_secs(5);

/// Statistics of a runner.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunnerStats {
    /// Chunks executed on the device.
    pub on_device: u64,
    /// Chunks that fell back to the CPU.
    pub on_cpu: u64,
    /// Bytes uploaded.
    pub uploaded: Bytes,
    /// Bytes downloaded.
    pub downloaded: Bytes,
    /// Wall time of the chunks on the device.
    pub wall: Duration,
    /// Device time from timestamp queries; `None` as soon as one chunk has none.
    pub device: Option<Duration>,
    /// Recovery steps.
    pub events: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// A runner; opens no device yet.
    pub fn new(opener: Box<dyn Opener>, settings: RunnerSettings) -> Self {
        Runner {
            opener,
            settings,
            session: Mutex::new(None),
            breaker: Mutex::new(CircuitBreaker::new(settings.breaker_pause)),
            started: Instant::now(),
            stats: Mutex::default(),
            ticked: AtomicU64::new(0),
        }
    }

    /// Would the device be used now? Not while the circuit breaker is open.
    pub fn available(&self) -> bool {
        lock(&self.breaker).allows(self.started.elapsed())
    }

    /// Statistics so far.
    pub fn stats(&self) -> RunnerStats {
        lock(&self.stats).clone()
    }

    /// The open device, if there is one.
    pub fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    /// Closes the device; the next run reopens it. What runs on it still ends.
    pub fn reset(&self) {
        let closed = lock(&self.session).take();
        // After the lock: closing a device calls its driver.
        drop(closed);
    }

    /// Closes this device, unless another thread has reopened it since: the new one is good.
    fn discard(&self, failed: &Arc<Session>) {
        let closed = lock(&self.session).take_if(|current| Arc::ptr_eq(current, failed));
        drop(closed);
    }

    /// Opens the device now (warm-up), so that later work does not wait for it.
    pub fn warm(&self) -> Result<crate::engine::Caps, EngineError> {
        Ok(self.open()?.caps().clone())
    }

    /// Runs one plan.
    pub fn run(&self, plan: Plan) -> Result<RunOutcome, RunError> {
        let mut outcome = RunOutcome::default();
        let plan = Arc::new(plan);
        let cpu = self.settings.cpu_fallback;
        if let Some(chunk) = self.run_chunk(&plan, 0..1, cpu, &mut outcome.events)? {
            outcome.chunks.push(chunk);
        }
        Ok(outcome)
    }

    /// Reads a tensor back to the host; the host copy is kept.
    pub fn read(&self, tensor: &Tensor) -> Result<Arc<[u8]>, RunError> {
        self.fetch(tensor, true)
    }

    /// As [`Runner::read`], and drops the lineage: from now on the host copy is what survives a device loss.
    pub fn checkpoint(&self, tensor: &Tensor) -> Result<Arc<[u8]>, RunError> {
        self.fetch(tensor, false)
    }

    fn fetch(&self, tensor: &Tensor, keep_lineage: bool) -> Result<Arc<[u8]>, RunError> {
        let bytes = match tensor.host() {
            Some(bytes) => bytes,
            None => {
                let mut plan = Plan::new("read");
                let slot = plan.import(tensor);
                plan.download(slot)?;
                let outcome = self.run(plan)?;
                let len = tensor.spec().size().map_or(0, |b| usize::try_from(b.0).unwrap_or(0));
                let mut bytes = outcome.chunks.into_iter().flat_map(|p| p.outputs).next().unwrap_or_default();
                bytes.truncate(len);
                bytes.into()
            }
        };
        tensor.set_host(bytes.clone(), keep_lineage);
        Ok(bytes)
    }

    /// Runs `work`; every tensor that its plans kept on the device is evicted at the end, also on an error or a panic,
    /// unless [`TensorScope::escape`] named it.
    pub fn scope<T>(&self, work: impl FnOnce(&TensorScope<'_>) -> T) -> T {
        let scope = TensorScope { runner: self, tensors: Mutex::default() };
        work(&scope)
    }

    /// Runs a batch, in as few chunks as memory allows.
    pub fn run_batch(&self, batch: &dyn SplittableBatch) -> Result<RunOutcome, RunError> {
        self.run_chunks(batch, self.settings.cpu_fallback).map_err(|failed| failed.error)
    }

    /// As [`Runner::run_batch`], without the CPU references: for callers that have a faster CPU path.
    pub fn run_batch_on_device(&self, batch: &dyn SplittableBatch) -> Result<RunOutcome, DeviceRunError> {
        self.run_chunks(batch, false)
    }

    fn run_chunks(&self, batch: &dyn SplittableBatch, cpu: bool) -> Result<RunOutcome, DeviceRunError> {
        let mut outcome = RunOutcome::default();
        let max_chunk = batch.max_chunk().max(1);
        let chunk = |start: usize| start..start.saturating_add(max_chunk).min(batch.len());
        let mut pending: VecDeque<Range<usize>> = (0..batch.len()).step_by(max_chunk).map(chunk).collect();
        while let Some(items) = pending.pop_front() {
            let done = match batch.record(items.clone()) {
                Ok(plan) => self.run_chunk(&Arc::new(plan), items.clone(), cpu, &mut outcome.events),
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(Some(chunk)) => outcome.chunks.push(chunk),
                Ok(None) => {
                    let middle = items.start + items.len() / 2;
                    pending.push_front(middle..items.end);
                    pending.push_front(items.start..middle);
                }
                Err(error) => return Err(DeviceRunError { error, events: outcome.events }),
            }
        }
        Ok(outcome)
    }

    /// Runs one chunk with recovery; `None` asks the caller to split it.
    fn run_chunk(
        &self,
        plan: &Arc<Plan>,
        items: Range<usize>,
        cpu: bool,
        events: &mut Vec<RecoveryEvent>,
    ) -> Result<Option<ChunkOutput>, RunError> {
        let _span = span!("piece", Category::Cpu);
        let mut tried = RecoveryAttempts { splittable: items.len() > 1, ..RecoveryAttempts::default() };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let began = Instant::now();
            let Failure { error, session } = match self.attempt(plan) {
                Ok((done, kept)) => {
                    lock(&self.breaker).succeeded();
                    self.account(plan, began.elapsed(), done.device_time);
                    let (outputs, device_time) = (done.outputs, done.device_time);
                    return Ok(Some(ChunkOutput {
                        items,
                        outputs,
                        kept,
                        executed_on: ExecutedOn::Device,
                        device_time,
                    }));
                }
                Err(failure) => failure,
            };
            let kind = recovery::classify(&error);
            let (step, reason) = match recovery::next_step(kind, tried, cpu) {
                (RecoveryStep::Rebuild { .. }, _) if !self.settings.replay => {
                    (RecoveryStep::GiveUp, "replay is switched off")
                }
                next => next,
            };
            lock(&self.stats).events += 1;
            trace_event(kind, step, reason);
            events.push(RecoveryEvent { kind, error: error.to_string(), step, reason });
            match step {
                RecoveryStep::TrimAndRetry => {
                    tried.trims += 1;
                    if let Some(session) = session {
                        let mut span = span!("memory clean-up", Category::Overhead);
                        span.bytes(session.memory().trim(Bytes::ZERO).0);
                    }
                }
                RecoveryStep::Retry => tried.retries += 1,
                RecoveryStep::Split => return Ok(None),
                RecoveryStep::Rebuild { backoff } => {
                    tried.rebuilds += 1;
                    if let Some(failed) = session {
                        self.discard(&failed);
                    }
                    std::thread::sleep(backoff);
                }
                RecoveryStep::CpuFallback => {
                    lock(&self.breaker).failed(self.started.elapsed());
                    lock(&self.stats).on_cpu += 1;
                    let _span = span!("twins", Category::Cpu);
                    let output =
                        reference::run(plan).map_err(|error| RunError::Failed { error, tried: attempts })?;
                    return Ok(Some(cpu_chunk(plan, items, output)));
                }
                RecoveryStep::GiveUp => {
                    // An invalid plan says nothing about the device.
                    if kind != FailureKind::InvalidPlan {
                        lock(&self.breaker).failed(self.started.elapsed());
                    }
                    return Err(RunError::Failed { error, tried: attempts });
                }
            }
        }
    }

    /// Counts a chunk executed on the device, and runs memory maintenance periodically.
    fn account(&self, plan: &Plan, wall: Duration, device: Option<Duration>) {
        let cost = plan.cost();
        {
            let mut stats = lock(&self.stats);
            let before = if stats.on_device == 0 { Some(Duration::ZERO) } else { stats.device };
            stats.device = before.zip(device).map(|(sum, time)| sum + time);
            stats.on_device += 1;
            stats.wall += wall;
            stats.uploaded += cost.uploaded;
            stats.downloaded += cost.downloaded;
        }
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.ticked.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= TICK.as_millis() as u64;
        if due
            && self.ticked.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Some(session) = self.session()
        {
            session.memory().tick();
        }
    }

    fn attempt(&self, plan: &Arc<Plan>) -> Result<(crate::engine::JobOutput, Vec<Tensor>), Failure> {
        if !lock(&self.breaker).allows(self.started.elapsed()) {
            let pause = self.settings.breaker_pause;
            let reason =
                format!("it failed several times in a row; the circuit breaker is open for {pause:?}");
            return Err(Failure { error: EngineError::Unavailable { reason }, session: None });
        }
        let session = self.open().map_err(|error| Failure { error, session: None })?;
        session
            .run_keeping(plan, self.settings.deadline)
            .map_err(|error| Failure { error, session: Some(session) })
    }

    /// The open device, or a new one. No lock is held while a driver is called: of two threads that open concurrently,
    /// one device is kept and the other closed.
    fn open(&self) -> Result<Arc<Session>, EngineError> {
        if let Some(session) = self.session().filter(|s| s.health() == Health::Good) {
            return Ok(session);
        }
        let _span = span!("open the device", Category::Overhead);
        let fresh = Arc::new(Session::new(self.opener.open()?, self.settings.memory));
        let (kept, closed) = {
            let mut current = lock(&self.session);
            match current.as_ref().filter(|s| s.health() == Health::Good) {
                Some(other) => (other.clone(), Some(fresh)),
                None => (fresh.clone(), current.replace(fresh)),
            }
        };
        // After the lock, as in `reset`.
        drop(closed);
        Ok(kept)
    }
}

/// Records a recovery event in the trace, as a zero-length span on its own track. The error message is left out: span
/// names are interned, and errors contain numbers.
fn trace_event(kind: FailureKind, step: RecoveryStep, reason: &str) {
    let profiler = Profiler::global();
    if profiler.is_enabled() {
        let name = Name::new(&format!("{}: {} ({reason})", kind.as_str(), step.as_str()));
        let track = profiler.track("recovery");
        profiler.record(name, Category::Overhead, Instant::now(), Duration::ZERO, track);
    }
}

/// The result of a CPU fallback: its tensors live on the host.
fn cpu_chunk(plan: &Arc<Plan>, items: Range<usize>, output: reference::PlanOutput) -> ChunkOutput {
    let tensor =
        |(keep, (bytes, (_, spec))): (usize, (Vec<u8>, &(crate::plan::Slot, crate::tensor::TensorSpec)))| {
            Tensor::kept(spec.clone(), Lineage { plan: plan.clone(), keep }, None, Some(bytes.into()))
        };
    let kept = output.kept.into_iter().zip(plan.keeps()).enumerate().map(tensor).collect();
    ChunkOutput { items, outputs: output.outputs, kept, executed_on: ExecutedOn::Cpu, device_time: None }
}

/// A scope whose intermediate tensors are evicted from the device at its end.
pub struct TensorScope<'a> {
    runner: &'a Runner,
    tensors: Mutex<Vec<Tensor>>,
}

impl TensorScope<'_> {
    /// Runs a plan; what it keeps belongs to the scope.
    pub fn run(&self, plan: Plan) -> Result<RunOutcome, RunError> {
        let outcome = self.runner.run(plan)?;
        lock(&self.tensors).extend(outcome.chunks.iter().flat_map(|p| p.kept.iter().cloned()));
        Ok(outcome)
    }

    /// Lets a tensor outlive the scope.
    pub fn escape(&self, tensor: &Tensor) {
        lock(&self.tensors).retain(|kept| !kept.ptr_eq(tensor));
    }
}

impl Drop for TensorScope<'_> {
    fn drop(&mut self) {
        let tensors = std::mem::take(&mut *lock(&self.tensors));
        for tensor in tensors {
            tensor.evict();
        }
    }
}
