//! How does work get done although devices fail? Open when needed, run, and after a failure take the next step of the
//! table in [`crate::recovery`] until there is a result. Every step is an event in the outcome.

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
    engine::{EngineError, Health, Opener, twin},
    memory::StackSettings,
    plan::{Plan, PlanError},
    recovery::{self, Breaker, Kind, Step, Tried},
    session::Session,
    tensor::{Origin, Tensor},
    units::Bytes,
};

/// How a runner behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerSettings {
    /// Memory of the device.
    pub memory: StackSettings,
    /// The most that one piece of work may take on the device.
    pub deadline: Duration,
    /// May the processor take over?
    pub cpu_fallback: bool,
    /// May a lost device be opened anew and the plan replayed? Off only to show that it matters.
    pub replay: bool,
    /// How long a device that failed several times in a row is not asked.
    pub breaker_pause: Duration,
}

/// How long one piece of work may take on a device before it counts as hung, unless it is said otherwise.
pub const DEADLINE: Duration = Duration::from_secs(120);

impl RunnerSettings {
    /// The defaults on this memory: every way to a result is allowed.
    pub fn new(memory: StackSettings) -> Self {
        let breaker_pause = recovery::BREAKER_PAUSE;
        RunnerSettings { memory, deadline: DEADLINE, cpu_fallback: true, replay: true, breaker_pause }
    }
}

/// Where a piece was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// On the device.
    Device,
    /// By the kernels' twins.
    Cpu,
}

/// Something that went wrong and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// The error's own words.
    pub error: String,
    /// What was done next.
    pub step: Step,
    /// Why that.
    pub reason: &'static str,
}

/// The result of one piece of a batch.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Items it covers.
    pub items: Range<usize>,
    /// Its downloads.
    pub outputs: Vec<Vec<u8>>,
    /// What it kept on the device, or made on the host when the device could not.
    pub kept: Vec<Tensor>,
    /// Where it ran.
    pub place: Place,
    /// Time that the device measured.
    pub device_time: Option<Duration>,
}

/// What a run brought.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Results, in the order of their items.
    pub pieces: Vec<Piece>,
    /// What went wrong on the way.
    pub events: Vec<Event>,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A piece of work cannot be recorded.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No allowed step was left.
    #[error("{error} (after {tried} attempts)")]
    Failed {
        /// The last failure.
        error: EngineError,
        /// How many attempts there were.
        tried: u32,
    },
}

/// A failed attempt, and the device it failed on if one was open.
struct Failure {
    error: EngineError,
    session: Option<Arc<Session>>,
}

/// Work made of independent items, which can be recorded in pieces.
pub trait Batch {
    /// How many items.
    fn len(&self) -> usize;

    /// No items at all?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most items that one piece may have; what is known to be too large need not be tried.
    fn most(&self) -> usize {
        self.len()
    }

    /// The plan of some of them.
    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError>;
}

/// Work that the device could not do, and what was tried.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct Stopped {
    /// The last failure.
    #[source]
    pub error: RunError,
    /// All of them.
    pub events: Vec<Event>,
}

/// Runs plans on a device that is opened when it is first needed.
pub struct Runner {
    opener: Box<dyn Opener>,
    settings: RunnerSettings,
    session: Mutex<Option<Arc<Session>>>,
    breaker: Mutex<Breaker>,
    started: Instant,
    work: Mutex<WorkStats>,
    /// When the memory was last looked after, in milliseconds since the start.
    ticked: AtomicU64,
}

/// How often idle memory and leaks are looked after while work runs.
const TICK: Duration = Duration::from_secs(5);

/// What a runner has done so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkStats {
    /// Pieces done on the device.
    pub on_device: u64,
    /// Pieces done by the processor instead.
    pub on_cpu: u64,
    /// Bytes sent to the device.
    pub uploaded: Bytes,
    /// Bytes brought back.
    pub downloaded: Bytes,
    /// Wall time of the pieces done on the device.
    pub wall: Duration,
    /// Time that the device itself measured; `None` as soon as one piece came without.
    pub device: Option<Duration>,
    /// Failures that were met, whatever was done about them.
    pub events: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// Touches nothing yet.
    pub fn new(opener: Box<dyn Opener>, settings: RunnerSettings) -> Self {
        Runner {
            opener,
            settings,
            session: Mutex::new(None),
            breaker: Mutex::new(Breaker::new(settings.breaker_pause)),
            started: Instant::now(),
            work: Mutex::default(),
            ticked: AtomicU64::new(0),
        }
    }

    /// Would the device be asked now? Not while it is left alone after failing several times in a row.
    pub fn available(&self) -> bool {
        lock(&self.breaker).allows(self.started.elapsed())
    }

    /// What was done so far.
    pub fn work(&self) -> WorkStats {
        lock(&self.work).clone()
    }

    /// The open device, if there is one.
    pub fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    /// Forgets the device; the next work opens it anew. What runs on it still ends.
    pub fn reset(&self) {
        let gone = lock(&self.session).take();
        // After the lock: closing a device calls its driver.
        drop(gone);
    }

    /// Forgets this device, unless another thread has opened a new one since: that one is good.
    fn forget(&self, failed: &Arc<Session>) {
        let gone = lock(&self.session).take_if(|current| Arc::ptr_eq(current, failed));
        drop(gone);
    }

    /// Opens the device now, so that later work does not wait for it.
    pub fn warm(&self) -> Result<crate::engine::Caps, EngineError> {
        Ok(self.open()?.caps().clone())
    }

    /// Runs one plan.
    pub fn run(&self, plan: Plan) -> Result<Outcome, RunError> {
        let mut outcome = Outcome::default();
        let plan = Arc::new(plan);
        let cpu = self.settings.cpu_fallback;
        if let Some(piece) = self.piece(&plan, 0..1, cpu, &mut outcome.events)? {
            outcome.pieces.push(piece);
        }
        Ok(outcome)
    }

    /// A tensor's numbers on the host; read once, kept there.
    pub fn read(&self, tensor: &Tensor) -> Result<Arc<[u8]>, RunError> {
        self.fetch(tensor, true)
    }

    /// As [`Runner::read`], and lets go of the plan that made it: from now on the host copy is what survives a loss.
    pub fn checkpoint(&self, tensor: &Tensor) -> Result<Arc<[u8]>, RunError> {
        self.fetch(tensor, false)
    }

    fn fetch(&self, tensor: &Tensor, keep_origin: bool) -> Result<Arc<[u8]>, RunError> {
        let bytes = match tensor.host() {
            Some(bytes) => bytes,
            None => {
                let mut plan = Plan::new("read");
                let slot = plan.import(tensor);
                plan.download(slot)?;
                let outcome = self.run(plan)?;
                let len = tensor.spec().size().map_or(0, |b| usize::try_from(b.0).unwrap_or(0));
                let mut bytes = outcome.pieces.into_iter().flat_map(|p| p.outputs).next().unwrap_or_default();
                bytes.truncate(len);
                bytes.into()
            }
        };
        tensor.set_host(bytes.clone(), keep_origin);
        Ok(bytes)
    }

    /// Runs `work`; every tensor that its plans kept leaves the device at the end, also on an error or a panic, unless
    /// [`Scope::escape`] named it.
    pub fn scope<T>(&self, work: impl FnOnce(&Scope<'_>) -> T) -> T {
        let scope = Scope { runner: self, made: Mutex::default() };
        work(&scope)
    }

    /// Runs a batch, in as few pieces as memory allows.
    pub fn run_batch(&self, batch: &dyn Batch) -> Result<Outcome, RunError> {
        self.batch(batch, self.settings.cpu_fallback).map_err(|stopped| stopped.error)
    }

    /// As [`Runner::run_batch`], without the twins: for callers that have a faster way on the processor.
    pub fn run_batch_on_device(&self, batch: &dyn Batch) -> Result<Outcome, Stopped> {
        self.batch(batch, false)
    }

    fn batch(&self, batch: &dyn Batch, cpu: bool) -> Result<Outcome, Stopped> {
        let mut outcome = Outcome::default();
        let most = batch.most().max(1);
        let cut = |start: usize| start..start.saturating_add(most).min(batch.len());
        let mut left: VecDeque<Range<usize>> = (0..batch.len()).step_by(most).map(cut).collect();
        while let Some(items) = left.pop_front() {
            let done = match batch.record(items.clone()) {
                Ok(plan) => self.piece(&Arc::new(plan), items.clone(), cpu, &mut outcome.events),
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(Some(piece)) => outcome.pieces.push(piece),
                Ok(None) => {
                    let middle = items.start + items.len() / 2;
                    left.push_front(middle..items.end);
                    left.push_front(items.start..middle);
                }
                Err(error) => return Err(Stopped { error, events: outcome.events }),
            }
        }
        Ok(outcome)
    }

    /// One piece, whatever it takes; `None` asks for it to be split.
    fn piece(
        &self,
        plan: &Arc<Plan>,
        items: Range<usize>,
        cpu: bool,
        events: &mut Vec<Event>,
    ) -> Result<Option<Piece>, RunError> {
        let _span = span!("piece", Category::Cpu);
        let mut tried = Tried { splittable: items.len() > 1, ..Tried::default() };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let began = Instant::now();
            let Failure { error, session } = match self.attempt(plan) {
                Ok((done, kept)) => {
                    lock(&self.breaker).succeeded();
                    self.account(plan, began.elapsed(), done.device_time);
                    let (outputs, device_time) = (done.outputs, done.device_time);
                    return Ok(Some(Piece { items, outputs, kept, place: Place::Device, device_time }));
                }
                Err(failure) => failure,
            };
            let kind = recovery::classify(&error);
            let (step, reason) = match recovery::next(kind, tried, cpu) {
                (Step::Rebuild { .. }, _) if !self.settings.replay => {
                    (Step::GiveUp, "replay is switched off")
                }
                next => next,
            };
            lock(&self.work).events += 1;
            trace_event(kind, step, reason);
            events.push(Event { kind, error: error.to_string(), step, reason });
            match step {
                Step::TrimAndRetry => {
                    tried.trims += 1;
                    if let Some(session) = session {
                        let mut span = span!("memory clean-up", Category::Overhead);
                        span.bytes(session.memory().trim(Bytes::ZERO).0);
                    }
                }
                Step::Retry => tried.retries += 1,
                Step::Split => return Ok(None),
                Step::Rebuild { backoff } => {
                    tried.rebuilds += 1;
                    if let Some(failed) = session {
                        self.forget(&failed);
                    }
                    std::thread::sleep(backoff);
                }
                Step::Cpu => {
                    lock(&self.breaker).failed(self.started.elapsed());
                    lock(&self.work).on_cpu += 1;
                    let _span = span!("twins", Category::Cpu);
                    let ran = twin::run(plan).map_err(|error| RunError::Failed { error, tried: attempts })?;
                    return Ok(Some(on_cpu(plan, items, ran)));
                }
                Step::GiveUp => {
                    // A mistake in the work says nothing about the device.
                    if kind != Kind::Bug {
                        lock(&self.breaker).failed(self.started.elapsed());
                    }
                    return Err(RunError::Failed { error, tried: attempts });
                }
            }
        }
    }

    /// Counts a piece that the device has done, and looks after its memory now and then.
    fn account(&self, plan: &Plan, wall: Duration, device: Option<Duration>) {
        let cost = plan.cost();
        {
            let mut work = lock(&self.work);
            let before = if work.on_device == 0 { Some(Duration::ZERO) } else { work.device };
            work.device = before.zip(device).map(|(sum, time)| sum + time);
            work.on_device += 1;
            work.wall += wall;
            work.uploaded += cost.uploaded;
            work.downloaded += cost.downloaded;
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

    fn attempt(&self, plan: &Arc<Plan>) -> Result<(crate::engine::Done, Vec<Tensor>), Failure> {
        if !lock(&self.breaker).allows(self.started.elapsed()) {
            let pause = self.settings.breaker_pause;
            let reason = format!("it failed several times in a row; it is left alone for {pause:?}");
            return Err(Failure { error: EngineError::Unavailable { reason }, session: None });
        }
        let session = self.open().map_err(|error| Failure { error, session: None })?;
        session
            .run_keeping(plan, self.settings.deadline)
            .map_err(|error| Failure { error, session: Some(session) })
    }

    /// The open device, or a new one. No lock is held while a driver is called: of two threads that open at once, one
    /// device is kept and the other closed.
    fn open(&self) -> Result<Arc<Session>, EngineError> {
        if let Some(session) = self.session().filter(|s| s.health() == Health::Good) {
            return Ok(session);
        }
        let _span = span!("open the device", Category::Overhead);
        let fresh = Arc::new(Session::new(self.opener.open()?, self.settings.memory));
        let (kept, gone) = {
            let mut current = lock(&self.session);
            match current.as_ref().filter(|s| s.health() == Health::Good) {
                Some(other) => (other.clone(), Some(fresh)),
                None => (fresh.clone(), current.replace(fresh)),
            }
        };
        // After the lock, as in `reset`.
        drop(gone);
        Ok(kept)
    }
}

/// Puts an event into the trace, as a span of no length on a track of its own. The error's own words are left out: names
/// are few, and errors have numbers in them.
fn trace_event(kind: Kind, step: Step, reason: &str) {
    let profiler = Profiler::global();
    if profiler.is_enabled() {
        let name = Name::new(&format!("{}: {} ({reason})", kind.word(), step.word()));
        let track = profiler.track("recovery");
        profiler.record(name, Category::Overhead, Instant::now(), Duration::ZERO, track);
    }
}

/// What the processor made in the device's place: its tensors live on the host.
fn on_cpu(plan: &Arc<Plan>, items: Range<usize>, ran: twin::Ran) -> Piece {
    let tensor =
        |(keep, (bytes, (_, spec))): (usize, (Vec<u8>, &(crate::plan::Slot, crate::tensor::Spec)))| {
            Tensor::kept(spec.clone(), Origin { plan: plan.clone(), keep }, None, Some(bytes.into()))
        };
    let kept = ran.kept.into_iter().zip(plan.keeps()).enumerate().map(tensor).collect();
    Piece { items, outputs: ran.outputs, kept, place: Place::Cpu, device_time: None }
}

/// A stretch of work whose intermediates are given back at its end.
pub struct Scope<'a> {
    runner: &'a Runner,
    made: Mutex<Vec<Tensor>>,
}

impl Scope<'_> {
    /// Runs a plan; what it keeps belongs to the scope.
    pub fn run(&self, plan: Plan) -> Result<Outcome, RunError> {
        let outcome = self.runner.run(plan)?;
        lock(&self.made).extend(outcome.pieces.iter().flat_map(|p| p.kept.iter().cloned()));
        Ok(outcome)
    }

    /// Lets a tensor outlive the scope.
    pub fn escape(&self, tensor: &Tensor) {
        lock(&self.made).retain(|made| !made.is(tensor));
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        let made = std::mem::take(&mut *lock(&self.made));
        for tensor in made {
            tensor.leave_device();
        }
    }
}
