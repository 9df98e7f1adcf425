//! How does one plan run on one open device? Blocks for its slots, submit, wait, and trust nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_profile::{Category, Profiler, counter, gauge, span};

use crate::{
    engine::{BlockId, Caps, Done, Engine, EngineError, Health, Job, init::InitStats},
    host::HostBytes,
    kernel::Access,
    memory::{
        AllocError, Allocation, Allocator, BlockClass, Grant, Limits, MemoryStack, Request, StackSettings,
        Tag, refine, without,
    },
    plan::{Command, Plan, Slot},
    tensor::{Origin, Resident, Tensor},
    units::Bytes,
};

/// The engine as the lowest layer of a memory stack.
pub struct Device(Arc<dyn Engine>);

impl Allocator for Device {
    type Block = BlockId;

    fn allocate(&self, request: Request) -> Result<Allocation<BlockId>, AllocError> {
        match self.0.create(request.size, request.class) {
            Ok(block) => Ok(Allocation::new(block, request)),
            Err(EngineError::Memory(AllocError::OutOfMemory { asked, .. })) => {
                Err(AllocError::OutOfMemory { asked, tag: request.tag })
            }
            Err(EngineError::Memory(error)) => Err(error),
            Err(other) => Err(AllocError::Device { reason: other.to_string() }),
        }
    }

    fn release(&self, allocation: Allocation<BlockId>) {
        self.0.destroy(allocation.into_block());
    }

    fn limits(&self) -> Limits {
        Limits { total: None, single: Some(self.0.caps().largest_block) }
    }
}

/// An open device with its memory.
pub struct Session {
    engine: Arc<dyn Engine>,
    memory: Arc<MemoryStack<Device>>,
    /// Bytes that clean-ups had freed when a trace last heard of them.
    freed: AtomicU64,
}

impl Session {
    /// Puts memory on top of a device. The budget is the driver's own where nobody else gave one, and what the engine
    /// keeps for itself is taken off it: the limit holds for both together.
    pub fn new(engine: Arc<dyn Engine>, mut settings: StackSettings) -> Self {
        settings.budget = without(refine(settings.budget, engine.memory_budget()), engine.reserved());
        let memory = Arc::new(MemoryStack::new(Device(engine.clone()), settings));
        Session { memory, engine, freed: AtomicU64::new(0) }
    }

    /// What the device can do.
    pub fn caps(&self) -> &Caps {
        self.engine.caps()
    }

    /// What opening the device took, where that was measured.
    pub fn init(&self) -> Option<&InitStats> {
        self.engine.init()
    }

    /// Iterations of one invocation's loops that were proven to run; the first question may run a tiny kernel.
    pub fn loop_iterations(&self) -> Option<u32> {
        self.engine.loop_iterations()
    }

    /// The most memory that the engine keeps for itself; it is not part of the budget that [`Session::memory`] shows.
    pub fn reserved(&self) -> Bytes {
        self.engine.reserved()
    }

    /// Its memory.
    pub fn memory(&self) -> &MemoryStack<Device> {
        &self.memory
    }

    /// Can it still be used?
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Runs a plan from its beginning; what it keeps is dropped. Whatever happens, every block is given back.
    pub fn run(&self, plan: &Arc<Plan>, deadline: Duration) -> Result<Done, EngineError> {
        self.run_keeping(plan, deadline).map(|(done, _)| done)
    }

    /// Runs a plan from its beginning; what it keeps stays on the device as tensors.
    pub fn run_keeping(
        &self,
        plan: &Arc<Plan>,
        deadline: Duration,
    ) -> Result<(Done, Vec<Tensor>), EngineError> {
        let mut grants = Vec::new();
        let result = self.attempt(plan, deadline, &mut grants);
        let mut kept = Vec::new();
        if let Ok((_, places)) = &result {
            for (keep, (slot, spec)) in plan.keeps().iter().enumerate() {
                let grant =
                    places.get(slot.index()).copied().flatten().and_then(|i| grants.get_mut(i)?.take());
                let resident = grant.map(|g| Resident::new(self.memory.clone(), g));
                kept.push(Tensor::kept(spec.clone(), Origin { plan: plan.clone(), keep }, resident, None));
            }
        }
        for grant in grants.into_iter().flatten() {
            self.memory.release(grant);
        }
        self.trace_memory();
        result.map(|(done, _)| (done, kept))
    }

    fn attempt(
        &self,
        plan: &Arc<Plan>,
        deadline: Duration,
        grants: &mut Grants,
    ) -> Result<(Done, Places), EngineError> {
        let mut given = Vec::new();
        for (slot, tensor) in plan.imports() {
            given.push((*slot, self.bring(tensor, deadline)?));
        }
        let places = self.place(plan, grants).map_err(|error| self.truth(error.into()))?;
        self.trace_memory();
        let blocks = blocks(&places, grants, &given);
        let done = self.execute(Job { plan: plan.clone(), blocks }, deadline)?;
        Ok((done, places))
    }

    /// Submits, waits, and believes only a device that is well afterwards and whole outputs.
    fn execute(&self, job: Job, deadline: Duration) -> Result<Done, EngineError> {
        let plan = job.plan.clone();
        let started = Instant::now();
        let ticket = {
            let _span = span!("submit", Category::Overhead);
            self.engine.submit(job).map_err(|e| self.truth(e))?
        };
        let done = {
            let _span = span!("wait for the device", Category::Wait);
            self.engine.wait(ticket, deadline).map_err(|e| self.truth(e))?
        };
        // The device says how long, not when: its time is placed at the start of the wait.
        if let (Some(time), true) = (done.device_time, Profiler::global().is_enabled()) {
            let track = Profiler::global().track(&self.engine.caps().name);
            Profiler::global().record("passes", Category::Gpu, started, time, track);
        }
        if Profiler::global().is_enabled() {
            let cost = plan.cost();
            counter!("bytes uploaded").add(cost.uploaded.0);
            counter!("bytes downloaded").add(cost.downloaded.0);
        }
        if let Some(error) = self.failing() {
            return Err(error);
        }
        for (output, want) in plan.output_sizes().enumerate() {
            let got = done.outputs.get(output).map_or(0, Vec::len);
            if got as u64 != want.0 {
                return Err(EngineError::ShortRead { output, want, got: Bytes(got as u64) });
            }
        }
        Ok(done)
    }

    /// The tensor's block on this device: it is there, or comes from the host, or is made again by the plan that made it.
    fn bring(&self, tensor: &Tensor, deadline: Duration) -> Result<BlockId, EngineError> {
        if let Some(block) = tensor.block_on(&self.memory) {
            return Ok(block);
        }
        let lost = || EngineError::Lost { reason: format!("{tensor:?} is nowhere and cannot be made again") };
        let resident = match (tensor.pieces(), tensor.origin()) {
            (Some(bytes), origin) => {
                // It was made by a plan and read back: it could have stayed.
                if origin.is_some() {
                    counter!("bytes uploaded again").add(bytes.len() as u64);
                }
                self.send(tensor, &bytes, deadline)?
            }
            (None, Some(origin)) => {
                let (_, made) = self.run_keeping(&origin.plan, deadline)?;
                made.get(origin.keep).and_then(Tensor::take_device).ok_or_else(lost)?
            }
            (None, None) => return Err(lost()),
        };
        tensor.set_device(resident);
        tensor.block_on(&self.memory).ok_or_else(lost)
    }

    /// The buffer of a tensor on this device, for another library that uses the same device. The tensor must be held as long
    /// as that library's work reads it.
    pub fn lend(&self, tensor: &Tensor, deadline: Duration) -> Result<wgpu::Buffer, EngineError> {
        self.engine.lend(self.bring(tensor, deadline)?)
    }

    /// Uploads a host tensor into a block of its own.
    fn send(&self, tensor: &Tensor, bytes: &HostBytes, deadline: Duration) -> Result<Resident, EngineError> {
        let mut plan = Plan::new("send");
        let record = |plan: &mut Plan| {
            let slot = plan.upload(bytes.clone(), tensor.spec().tag)?;
            plan.keep(slot, tensor.spec().clone())
        };
        record(&mut plan).map_err(|e| EngineError::Validation { reason: e.to_string() })?;
        let (_, made) = self.run_keeping(&Arc::new(plan), deadline)?;
        let lost = || EngineError::Lost { reason: format!("{tensor:?} did not arrive") };
        made.first().and_then(Tensor::take_device).ok_or_else(lost)
    }

    /// Tells a trace how much memory is held, and that idle memory was given back. Nothing while the profiler is off.
    fn trace_memory(&self) {
        if !Profiler::global().is_enabled() {
            return;
        }
        let stats = self.memory.stats();
        let name = &self.engine.caps().name;
        gauge(&format!("memory/used/{name}")).set(stats.limit.used.0 as f64);
        gauge(&format!("memory/budget/{name}")).set(stats.budget.bytes.0 as f64);
        let before = self.freed.swap(stats.monitor.freed.0, Ordering::Relaxed);
        if stats.monitor.freed.0 > before {
            let mut span = span!("memory clean-up", Category::Overhead);
            span.bytes(stats.monitor.freed.0 - before);
        }
    }

    /// A device that is gone explains every other error.
    fn truth(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Lost { .. } | EngineError::Hung { .. } => error,
            other => self.failing().unwrap_or(other),
        }
    }

    fn failing(&self) -> Option<EngineError> {
        match self.engine.health() {
            Health::Good => None,
            Health::Lost => {
                Some(EngineError::Lost { reason: "the device says so after the fact".to_owned() })
            }
            Health::Hung => {
                Some(EngineError::Hung { waited: Duration::ZERO, what: "a call before this one" })
            }
        }
    }

    /// A block for every slot; slots whose lives do not overlap share one.
    fn place(&self, plan: &Plan, grants: &mut Grants) -> Result<Places, AllocError> {
        let _span = span!("place buffers", Category::Overhead);
        let mut places: Vec<Option<usize>> = vec![None; plan.slots().len()];
        let mut free: Vec<usize> = Vec::new();
        for command in plan.commands() {
            if let Command::Free { slot } = command {
                free.extend(places.get(slot.index()).copied().flatten());
                continue;
            }
            for slot in written(command) {
                let Some(spec) = plan.slots().get(slot.index()) else { continue };
                let capacity =
                    |i: &usize| grants.get(*i).and_then(Option::as_ref).map_or(Bytes::ZERO, Grant::capacity);
                // The smallest that fits; one much larger is kept for a slot that needs it.
                let fits =
                    |i: &usize| (spec.size..=Bytes(spec.size.0.saturating_mul(2))).contains(&capacity(i));
                let best = free
                    .iter()
                    .enumerate()
                    .filter(|(_, i)| fits(i))
                    .min_by_key(|(_, i)| capacity(i))
                    .map(|(at, _)| at);
                let place = match best {
                    Some(at) => free.swap_remove(at),
                    None => {
                        let request =
                            Request { size: spec.size, tag: Tag(spec.tag), class: BlockClass::Storage };
                        grants.push(Some(self.memory.allocate(request)?));
                        grants.len() - 1
                    }
                };
                if let Some(entry) = places.get_mut(slot.index()) {
                    *entry = Some(place);
                }
            }
        }
        Ok(places)
    }
}

/// Memory of one run; a kept block is taken out of it.
type Grants = Vec<Option<Grant<BlockId>>>;
/// For every slot, which of the grants it lies in.
type Places = Vec<Option<usize>>;

/// The block of every slot: its own, its tensor's, or any for a slot that nothing writes and so nothing reads.
fn blocks(places: &Places, grants: &Grants, given: &[(Slot, BlockId)]) -> Vec<BlockId> {
    let own = |place: Option<usize>| place.and_then(|i| grants.get(i)?.as_ref()).map(|g| *g.block());
    let tensors = |slot: usize| given.iter().find(|(s, _)| s.index() == slot).map(|(_, block)| *block);
    let any = grants.iter().flatten().map(|g| *g.block()).next().or(given.first().map(|(_, b)| *b));
    let block = |(slot, place): (usize, &Option<usize>)| {
        tensors(slot).or_else(|| own(*place)).or(any).unwrap_or(BlockId(0))
    };
    places.iter().enumerate().map(block).collect()
}

/// The slots that a command writes.
fn written(command: &Command) -> Vec<Slot> {
    match command {
        Command::Upload { to, .. } | Command::Copy { to, .. } => vec![*to],
        Command::Dispatch(d) => {
            let bindings = d.bindings.iter().zip(&d.kernel.bindings);
            bindings.filter(|(_, a)| **a == Access::Write).map(|(s, _)| *s).collect()
        }
        Command::Download { .. } | Command::Free { .. } => Vec::new(),
    }
}
