//! How does an operation run at a place? On the processor as ordinary Rust, on a device as a recorded plan, cut where it
//! must be.

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

use gpuforge_ops::{Kind, Op, OpError, Target, Threads, Tuning, op::trusted, record};
use gpuforge_profile::{Category, span};
use gpuforge_runtime::{
    engine::Caps,
    plan::{Command, Plan, PlanError},
    runner::{Batch, Event, Outcome, RunError, Runner},
    tensor::{Spec, Tensor},
    units::Bytes,
};

/// What a run at a place brought.
#[derive(Debug, Clone)]
pub struct SiteRun {
    /// Results: on the host, or on the device if they were to stay and could.
    pub outputs: Vec<Tensor>,
    /// Wall time of all of it.
    pub wall: Duration,
    /// Time that the device itself measured.
    pub device_time: Option<Duration>,
    /// Something was compiled: the time says nothing about the next run.
    pub cold: bool,
    /// How many parts it was cut into.
    pub pieces: usize,
    /// What went wrong on the way.
    pub events: Vec<Event>,
}

/// Why a place has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The operation itself is wrong: no other place would take it.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The device could not do it; another place can.
    #[error("{error}")]
    Device {
        /// The last failure.
        error: String,
        /// All of them.
        events: Vec<Event>,
    },
    /// The result has no room on the host.
    #[error("no memory for a result of {0} on the host")]
    NoMemory(Bytes),
}

/// Bytes one way and the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// To the device.
    pub up: Duration,
    /// Back.
    pub down: Duration,
}

/// A place where operations run.
pub trait Site: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> String;

    /// Driver and version of a device, where known: another driver is another model.
    fn driver(&self) -> Option<String> {
        None
    }

    /// Runs an operation whose inputs are where this place can reach them. Results stay on the device if `stays` and it
    /// is one.
    fn run(&self, op: &dyn Op, stays: bool) -> Result<SiteRun, SiteError>;

    /// May it be asked now?
    fn usable(&self) -> bool {
        true
    }

    /// The largest buffer it can bind, once known; `None` is no limit.
    fn largest(&self) -> Option<Bytes> {
        None
    }

    /// Memory that may be in use there at once, once known; `None` is no limit.
    fn room(&self) -> Option<Bytes> {
        None
    }

    /// Which kernel variants to use from now on.
    fn tune(&self, _tuning: Tuning) {}

    /// Brings a tensor of this place to the host.
    fn read(&self, _tensor: &Tensor) -> Result<(), SiteError> {
        Ok(())
    }

    /// Measures a submission with nothing to do; zero where there is none.
    fn launch(&self) -> Result<Duration, SiteError> {
        Ok(Duration::ZERO)
    }

    /// Measures how long so many bytes take there and back, without the submission around them; `None` where nothing has
    /// to be moved.
    fn transfer(&self, _bytes: usize) -> Result<Option<Transfer>, SiteError> {
        Ok(None)
    }
}

/// The processor.
#[derive(Debug, Clone)]
pub struct CpuSite {
    /// Threads that an operation may use.
    pub threads: Threads,
    /// Which processor, where known: a model of another one, or of another number of threads, does not count.
    pub hardware: Option<String>,
}

impl Default for CpuSite {
    fn default() -> Self {
        CpuSite { threads: Threads::all(), hardware: None }
    }
}

impl CpuSite {
    /// A processor of this name.
    pub fn named(brand: Option<&str>) -> Self {
        let threads = Threads::all();
        CpuSite { threads, hardware: brand.map(|b| format!("{b}, {} threads", threads.0)) }
    }
}

/// Room for a result. Fresh pages of the system are zero already, so that large ones cost nothing to clear.
pub(crate) fn room(size: Bytes) -> Result<Arc<[u8]>, SiteError> {
    let n = usize::try_from(size.0).map_err(|_| SiteError::NoMemory(size))?;
    // An allocation that fails ends the process; a reservation that fails does not.
    Vec::<u8>::new().try_reserve_exact(n).map_err(|_| SiteError::NoMemory(size))?;
    let zeroed = Arc::<[u8]>::new_zeroed_slice(n);
    #[allow(unsafe_code, reason = "clearing the pages a second time halves the speed of large results")]
    // SAFETY: every byte was zeroed by the allocator, and any byte is a valid `u8`.
    Ok(unsafe { zeroed.assume_init() })
}

impl Site for CpuSite {
    fn name(&self) -> String {
        "cpu".to_owned()
    }

    fn driver(&self) -> Option<String> {
        self.hardware.clone()
    }

    fn run(&self, op: &dyn Op, _stays: bool) -> Result<SiteRun, SiteError> {
        let _span = span!("operation on the processor", Category::Cpu);
        let began = Instant::now();
        let specs = op.outputs()?;
        let inputs = op.inputs();
        let held: Vec<Arc<[u8]>> = inputs.iter().filter_map(|t| t.host()).collect();
        let missing = OpError::Call {
            op: op.kind().name(),
            what: "inputs on the host",
            want: inputs.len(),
            have: held.len(),
        };
        if held.len() != inputs.len() {
            return Err(missing.into());
        }
        let views: Vec<&[u8]> = held.iter().map(AsRef::as_ref).collect();
        let sizes = specs.iter().map(|s| s.size().unwrap_or(Bytes(u64::MAX)));
        let mut results = sizes.map(room).collect::<Result<Vec<_>, _>>()?;
        let mut outputs: Vec<&mut [u8]> = results.iter_mut().filter_map(Arc::get_mut).collect();
        op.cpu(&views, &mut outputs, self.threads)?;
        let tensor =
            |(bytes, spec): (Arc<[u8]>, Spec)| Ok(Tensor::from_bytes(bytes, spec).map_err(OpError::from)?);
        let outputs = results.into_iter().zip(specs).map(tensor).collect::<Result<Vec<_>, SiteError>>()?;
        let wall = began.elapsed();
        Ok(SiteRun { outputs, wall, device_time: None, cold: false, pieces: 1, events: Vec::new() })
    }
}

/// A device behind its runner.
pub struct DeviceSite {
    name: String,
    driver: Option<String>,
    runner: Arc<Runner>,
    tuning: Mutex<Tuning>,
    /// Limits of the device that was last open, in bytes; 0 before there was one.
    largest: AtomicU64,
    room: AtomicU64,
    /// Kernels that were compiled, and on which device: one that is opened anew starts with none.
    warm: Mutex<(usize, HashSet<u64>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceSite {
    /// A device; nothing is opened yet.
    pub fn new(name: impl Into<String>, driver: Option<String>, runner: Arc<Runner>) -> Self {
        let (tuning, warm) = (Mutex::default(), Mutex::default());
        let (largest, room) = (AtomicU64::new(0), AtomicU64::new(0));
        DeviceSite { name: name.into(), driver, runner, tuning, largest, room, warm }
    }

    /// Its runner.
    pub fn runner(&self) -> &Arc<Runner> {
        &self.runner
    }

    fn caps(&self, op: Option<&dyn Op>) -> Result<Caps, SiteError> {
        let failed = |e: gpuforge_runtime::engine::EngineError| SiteError::Device {
            error: e.to_string(),
            events: Vec::new(),
        };
        let mut caps = self.runner.warm().map_err(failed)?;
        // Asked for with every decision: they must cost nothing there.
        if self.largest.swap(caps.largest_block.0, Ordering::Relaxed) != caps.largest_block.0
            && let Some(session) = self.runner.session()
        {
            self.room.store(session.memory().stats().budget.bytes.0, Ordering::Relaxed);
        }
        // Only kernels that we did not write may have loops of unknown length.
        if op.is_some_and(|op| op.kind() == Kind::Custom) {
            caps.loop_iterations = self.runner.session().and_then(|s| s.loop_iterations());
        }
        Ok(caps)
    }

    /// Notes the kernels of a plan; `true` if one is new to the open device.
    fn note(&self, plan: &Plan) -> bool {
        let session = self.runner.session().map_or(0, |s| Arc::as_ptr(&s) as usize);
        let mut warm = lock(&self.warm);
        if warm.0 != session {
            *warm = (session, HashSet::new());
        }
        let mut cold = false;
        for command in plan.commands() {
            if let Command::Dispatch(d) = command {
                let mut hash = std::hash::DefaultHasher::new();
                (&d.kernel.name, &d.kernel.wgsl, d.kernel.entry).hash(&mut hash);
                cold |= warm.1.insert(hash.finish());
            }
        }
        cold
    }

    /// Runs a plan that needs no result.
    fn timed(&self, plan: Plan) -> Result<Duration, SiteError> {
        let began = Instant::now();
        let whole = Whole { plan };
        self.runner.run_batch_on_device(&whole).map_err(stopped)?;
        Ok(began.elapsed())
    }
}

fn stopped(stopped: gpuforge_runtime::runner::Stopped) -> SiteError {
    match stopped.error {
        // What was recorded is a mistake wherever it runs.
        RunError::Plan(error) => SiteError::Op(error.into()),
        error => SiteError::Device { error: error.to_string(), events: stopped.events },
    }
}

/// One plan as a batch of one.
struct Whole {
    plan: Plan,
}

impl Batch for Whole {
    fn len(&self) -> usize {
        1
    }

    fn record(&self, _items: Range<usize>) -> Result<Plan, PlanError> {
        Ok(self.plan.clone())
    }
}

/// An operation as a batch of its items, in units of its grain.
struct Parts<'a> {
    op: &'a dyn Op,
    target: Target<'a>,
    stays: bool,
    units: usize,
    most: usize,
    grain: usize,
    count: usize,
    /// Why a part could not be recorded, where it was not the plan.
    failed: Mutex<Option<OpError>>,
    cold: Mutex<bool>,
    site: &'a DeviceSite,
}

impl Parts<'_> {
    fn items(&self, units: &Range<usize>) -> Range<usize> {
        units.start * self.grain..(units.end * self.grain).min(self.count)
    }
}

impl Batch for Parts<'_> {
    fn len(&self) -> usize {
        self.units
    }

    fn most(&self) -> usize {
        self.most
    }

    fn record(&self, units: Range<usize>) -> Result<Plan, PlanError> {
        let recorded = if units.len() == self.units {
            record::plan(self.op, &self.target, self.stays)
        } else {
            self.op.part(self.items(&units)).and_then(|part| record::plan(part.as_ref(), &self.target, false))
        };
        match recorded {
            Ok(plan) => {
                *lock(&self.cold) |= self.site.note(&plan);
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

impl Site for DeviceSite {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn driver(&self) -> Option<String> {
        self.driver.clone()
    }

    fn run(&self, op: &dyn Op, stays: bool) -> Result<SiteRun, SiteError> {
        let _span = span!("operation on a device", Category::Overhead);
        let began = Instant::now();
        let specs = op.outputs()?;
        let caps = self.caps(Some(op))?;
        let tuning = lock(&self.tuning).clone();
        let (units, most, grain, count) = self.pieces(op, &caps);
        let target = Target { caps: &caps, tuning: &tuning };
        let (failed, cold) = (Mutex::default(), Mutex::default());
        let parts = Parts { op, target, stays, units, most, grain, count, failed, cold, site: self };
        let outcome =
            self.runner.run_batch_on_device(&parts).map_err(|e| match lock(&parts.failed).take() {
                Some(error) => SiteError::Op(error),
                None => stopped(e),
            })?;
        let cold = *lock(&parts.cold);
        let pieces = outcome.pieces.len();
        let events = outcome.events.clone();
        let device_time = outcome.pieces.iter().map(|p| p.device_time).sum();
        let outputs = collect(op, specs, outcome, &parts)?;
        Ok(SiteRun { outputs, wall: began.elapsed(), device_time, cold, pieces, events })
    }

    fn usable(&self) -> bool {
        self.runner.available()
    }

    fn largest(&self) -> Option<Bytes> {
        Some(self.largest.load(Ordering::Relaxed)).filter(|b| *b > 0).map(Bytes)
    }

    fn room(&self) -> Option<Bytes> {
        Some(self.room.load(Ordering::Relaxed)).filter(|b| *b > 0).map(Bytes)
    }

    fn tune(&self, tuning: Tuning) {
        *lock(&self.tuning) = tuning;
    }

    fn read(&self, tensor: &Tensor) -> Result<(), SiteError> {
        let failed = |e: RunError| SiteError::Device { error: e.to_string(), events: Vec::new() };
        self.runner.read(tensor).map(drop).map_err(failed)
    }

    fn launch(&self) -> Result<Duration, SiteError> {
        let mut plan = Plan::new("nothing");
        let slot = plan.upload(vec![0u8; 4], "nothing").map_err(OpError::from)?;
        plan.download(slot).map_err(OpError::from)?;
        self.timed(plan)
    }

    fn transfer(&self, bytes: usize) -> Result<Option<Transfer>, SiteError> {
        let spec = Spec { dtype: gpuforge_runtime::tensor::DType::U8, shape: vec![bytes], tag: "transfer" };
        let data: Arc<[u8]> = vec![1u8; bytes].into();
        let mut up = Plan::new("up");
        let slot = up.upload(data, "transfer").map_err(OpError::from)?;
        up.keep(slot, spec).map_err(OpError::from)?;
        let began = Instant::now();
        let outcome = self.runner.run_batch_on_device(&Whole { plan: up }).map_err(stopped)?;
        let sent = began.elapsed();
        let Some(tensor) = outcome.pieces.into_iter().flat_map(|p| p.kept).next() else { return Ok(None) };
        let mut down = Plan::new("down");
        let slot = down.import(&tensor);
        down.download(slot).map_err(OpError::from)?;
        let came = self.timed(down)?;
        let launch = self.launch()?;
        let least = Duration::from_nanos(1);
        let net = |d: Duration| d.saturating_sub(launch).max(least);
        Ok(Some(Transfer { up: net(sent), down: net(came) }))
    }
}

impl DeviceSite {
    /// Into how many units an operation can be cut, how many may go at once, and what a unit is.
    fn pieces(&self, op: &dyn Op, caps: &Caps) -> (usize, usize, usize, usize) {
        let Some(items) = op.items().filter(|i| i.count > i.grain) else { return (1, 1, 1, 1) };
        let units = items.count.div_ceil(items.grain.max(1));
        let outputs = op.outputs().unwrap_or_default();
        let sizes = op.inputs().into_iter().map(|t| t.spec().size()).chain(outputs.iter().map(Spec::size));
        let sizes: Vec<u64> = sizes.map(|s| s.map_or(u64::MAX, |b| b.0)).collect();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let all: u64 = sizes.iter().fold(0, |sum, s| sum.saturating_add(*s));
        let room = self.room().map_or(u64::MAX, |b| b.0);
        // Intermediates need room too: a first guess, which the runner halves where it is wrong.
        let parts =
            largest.div_ceil(caps.largest_block.0.max(1)).max(all.saturating_mul(5) / 4 / room.max(1) + 1);
        let parts = usize::try_from(parts.max(1)).unwrap_or(usize::MAX).min(units);
        (units, units.div_ceil(parts), items.grain.max(1), items.count)
    }
}

/// The results of all pieces as tensors of the whole.
fn collect(
    op: &dyn Op,
    specs: Vec<Spec>,
    outcome: Outcome,
    parts: &Parts<'_>,
) -> Result<Vec<Tensor>, SiteError> {
    let bytes = |spec: &Spec| usize::try_from(spec.size().unwrap_or(Bytes(u64::MAX)).0).unwrap_or(usize::MAX);
    let mut pieces = Vec::new();
    for piece in outcome.pieces {
        let whole = piece.items.len() == parts.units;
        let part = if whole { None } else { Some(op.part(parts.items(&piece.items))?) };
        let here = match &part {
            Some(part) => part.outputs()?,
            None => specs.clone(),
        };
        let guarded = part.as_deref().unwrap_or(op).guard().is_some();
        let mut outputs = piece.outputs;
        if guarded && !outputs.pop().is_some_and(|words| trusted(&words)) {
            let error = format!("{}: a loop ran into the device's limit", op.name());
            return Err(SiteError::Device { error, events: outcome.events });
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
    let mut results = specs.iter().map(|s| room(Bytes(bytes(s) as u64))).collect::<Result<Vec<_>, _>>()?;
    let mut views: Vec<&mut [u8]> = results.iter_mut().filter_map(Arc::get_mut).collect();
    op.join(&pieces, &mut views)?;
    let tensor = |(bytes, spec)| Ok(Tensor::from_bytes(bytes, spec).map_err(OpError::from)?);
    results.into_iter().zip(specs).map(tensor).collect()
}
