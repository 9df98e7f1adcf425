//! Session: runs one plan on one open device - assigns buffers to slots (memory planning), submits, waits with a
//! deadline, and checks device health and output sizes afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gpuforge_profile::{Category, Profiler, counter, gauge, span};

use crate::{
    engine::{BlockId, Caps, Engine, EngineError, Health, Job, JobOutput, init::DeviceInitStats},
    host::HostBytes,
    kernel::Access,
    memory::{
        AllocError, AllocLimits, AllocRequest, Allocation, Allocator, BlockClass, MemoryStack,
        StackAllocation, StackSettings, Tag, refine_budget, subtract_reserved,
    },
    plan::{Command, Plan, Slot},
    tensor::{Lineage, ResidentBlock, Tensor},
    units::Bytes,
};

/// The device as the bottom layer of a memory stack.
pub struct DeviceAllocator(Arc<dyn Engine>);

impl Allocator for DeviceAllocator {
    type Block = BlockId;

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<BlockId>, AllocError> {
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

    fn limits(&self) -> AllocLimits {
        AllocLimits { total: None, single: Some(self.0.caps().largest_block) }
    }
}

/// An open device with its memory stack.
pub struct Session {
    engine: Arc<dyn Engine>,
    memory: Arc<MemoryStack<DeviceAllocator>>,
    /// Bytes that evictions had freed when they were last recorded in a trace.
    freed: AtomicU64,
}

impl Session {
    /// Builds a memory stack over a device. The budget is the driver's own unless another source gave one, minus what the
    /// engine reserves for itself: the limit holds for both together.
    pub fn new(engine: Arc<dyn Engine>, mut settings: StackSettings) -> Self {
        settings.budget =
            subtract_reserved(refine_budget(settings.budget, engine.memory_budget()), engine.reserved());
        let memory = Arc::new(MemoryStack::new(DeviceAllocator(engine.clone()), settings));
        Session { memory, engine, freed: AtomicU64::new(0) }
    }

    /// Capabilities of the device.
    pub fn caps(&self) -> &Caps {
        self.engine.caps()
    }

    /// Initialisation times of the device, if measured.
    pub fn init(&self) -> Option<&DeviceInitStats> {
        self.engine.init()
    }

    /// Loop iterations per invocation that are verified to run; the first call may run a tiny probe kernel.
    pub fn loop_iterations(&self) -> Option<u32> {
        self.engine.loop_iterations()
    }

    /// Maximum memory that the engine reserves for itself (staging); not part of the budget of [`Session::memory`].
    pub fn reserved(&self) -> Bytes {
        self.engine.reserved()
    }

    /// Its memory stack.
    pub fn memory(&self) -> &MemoryStack<DeviceAllocator> {
        &self.memory
    }

    /// Device health.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Runs a plan from its beginning; kept slots are dropped. Every block is freed, also on errors.
    pub fn run(&self, plan: &Arc<Plan>, deadline: Duration) -> Result<JobOutput, EngineError> {
        self.run_keeping(plan, deadline).map(|(done, _)| done)
    }

    /// Runs a plan from its beginning; kept slots stay resident on the device as tensors.
    pub fn run_keeping(
        &self,
        plan: &Arc<Plan>,
        deadline: Duration,
    ) -> Result<(JobOutput, Vec<Tensor>), EngineError> {
        let mut allocations = Vec::new();
        let result = self.attempt(plan, deadline, &mut allocations);
        let mut kept = Vec::new();
        if let Ok((_, assignment)) = &result {
            for (keep, (slot, spec)) in plan.keeps().iter().enumerate() {
                let allocation = assignment
                    .get(slot.index())
                    .copied()
                    .flatten()
                    .and_then(|i| allocations.get_mut(i)?.take());
                let resident = allocation.map(|g| ResidentBlock::new(self.memory.clone(), g));
                kept.push(Tensor::kept(spec.clone(), Lineage { plan: plan.clone(), keep }, resident, None));
            }
        }
        for allocation in allocations.into_iter().flatten() {
            self.memory.release(allocation);
        }
        self.trace_memory();
        result.map(|(done, _)| (done, kept))
    }

    fn attempt(
        &self,
        plan: &Arc<Plan>,
        deadline: Duration,
        allocations: &mut Allocations,
    ) -> Result<(JobOutput, BufferAssignment), EngineError> {
        let mut imported = Vec::new();
        for (slot, tensor) in plan.imports() {
            imported.push((*slot, self.materialize(tensor, deadline)?));
        }
        let assignment =
            self.assign_buffers(plan, allocations).map_err(|error| self.root_cause(error.into()))?;
        self.trace_memory();
        let blocks = slot_blocks(&assignment, allocations, &imported);
        let done = self.execute(Job { plan: plan.clone(), blocks }, deadline)?;
        Ok((done, assignment))
    }

    /// Submits and waits; accepts the result only if the device is healthy afterwards and all outputs are complete.
    fn execute(&self, job: Job, deadline: Duration) -> Result<JobOutput, EngineError> {
        let plan = job.plan.clone();
        let started = Instant::now();
        let ticket = {
            let _span = span!("submit", Category::Overhead);
            self.engine.submit(job).map_err(|e| self.root_cause(e))?
        };
        let done = {
            let _span = span!("wait for the device", Category::Wait);
            self.engine.wait(ticket, deadline).map_err(|e| self.root_cause(e))?
        };
        // Timestamp queries give a duration, not a start: it is recorded at the start of the wait.
        if let (Some(time), true) = (done.device_time, Profiler::global().is_enabled()) {
            let track = Profiler::global().track(&self.engine.caps().name);
            Profiler::global().record("passes", Category::Gpu, started, time, track);
        }
        if Profiler::global().is_enabled() {
            let cost = plan.cost();
            counter!("bytes uploaded").add(cost.uploaded.0);
            counter!("bytes downloaded").add(cost.downloaded.0);
        }
        if let Some(error) = self.device_failure() {
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

    /// The tensor's block on this device: resident already, uploaded from the host copy, or recomputed from its lineage.
    fn materialize(&self, tensor: &Tensor, deadline: Duration) -> Result<BlockId, EngineError> {
        if let Some(block) = tensor.block_on(&self.memory) {
            return Ok(block);
        }
        let lost =
            || EngineError::DeviceLost { reason: format!("{tensor:?} is evicted and cannot be recomputed") };
        let resident = match (tensor.host_chunks(), tensor.lineage()) {
            (Some(bytes), lineage) => {
                // A plan produced it and it was read back: it could have stayed resident.
                if lineage.is_some() {
                    counter!("bytes uploaded again").add(bytes.len() as u64);
                }
                self.upload(tensor, &bytes, deadline)?
            }
            (None, Some(lineage)) => {
                let (_, made) = self.run_keeping(&lineage.plan, deadline)?;
                made.get(lineage.keep).and_then(Tensor::take_device).ok_or_else(lost)?
            }
            (None, None) => return Err(lost()),
        };
        tensor.set_device(resident);
        tensor.block_on(&self.memory).ok_or_else(lost)
    }

    /// The wgpu buffer of a tensor on this device (zero-copy), for another library that shares the device. The tensor
    /// must be held as long as that library's work reads it.
    pub fn raw_buffer(&self, tensor: &Tensor, deadline: Duration) -> Result<wgpu::Buffer, EngineError> {
        self.engine.raw_buffer(self.materialize(tensor, deadline)?)
    }

    /// Uploads a host tensor into its own block.
    fn upload(
        &self,
        tensor: &Tensor,
        bytes: &HostBytes,
        deadline: Duration,
    ) -> Result<ResidentBlock, EngineError> {
        let mut plan = Plan::new("send");
        let record = |plan: &mut Plan| {
            let slot = plan.upload(bytes.clone(), tensor.spec().tag)?;
            plan.keep(slot, tensor.spec().clone())
        };
        record(&mut plan).map_err(|e| EngineError::Validation { reason: e.to_string() })?;
        let (_, made) = self.run_keeping(&Arc::new(plan), deadline)?;
        let lost = || EngineError::DeviceLost { reason: format!("{tensor:?} did not arrive") };
        made.first().and_then(Tensor::take_device).ok_or_else(lost)
    }

    /// Records memory usage and evictions in the trace. Does nothing while the profiler is off.
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

    /// A lost or hung device is the root cause of every other error.
    fn root_cause(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::DeviceLost { .. } | EngineError::DeviceHung { .. } => error,
            other => self.device_failure().unwrap_or(other),
        }
    }

    fn device_failure(&self) -> Option<EngineError> {
        match self.engine.health() {
            Health::Good => None,
            Health::Lost => Some(EngineError::DeviceLost { reason: "reported after the job".to_owned() }),
            Health::Hung => {
                Some(EngineError::DeviceHung { waited: Duration::ZERO, what: "a call before this one" })
            }
        }
    }

    /// Memory planning: a block for every slot; slots with disjoint lifetimes share one (buffer aliasing, best fit).
    fn assign_buffers(
        &self,
        plan: &Plan,
        allocations: &mut Allocations,
    ) -> Result<BufferAssignment, AllocError> {
        let _span = span!("place buffers", Category::Overhead);
        let mut assignment: BufferAssignment = vec![None; plan.slots().len()];
        let mut free: Vec<usize> = Vec::new();
        for command in plan.commands() {
            if let Command::Free { slot } = command {
                free.extend(assignment.get(slot.index()).copied().flatten());
                continue;
            }
            for slot in written(command) {
                let Some(spec) = plan.slots().get(slot.index()) else { continue };
                let capacity = |i: &usize| {
                    allocations
                        .get(*i)
                        .and_then(Option::as_ref)
                        .map_or(Bytes::ZERO, StackAllocation::capacity)
                };
                // Best fit; a much larger block is kept for a slot that needs it.
                let fits =
                    |i: &usize| (spec.size..=Bytes(spec.size.0.saturating_mul(2))).contains(&capacity(i));
                let best = free
                    .iter()
                    .enumerate()
                    .filter(|(_, i)| fits(i))
                    .min_by_key(|(_, i)| capacity(i))
                    .map(|(at, _)| at);
                let index = match best {
                    Some(at) => free.swap_remove(at),
                    None => {
                        let request =
                            AllocRequest { size: spec.size, tag: Tag(spec.tag), class: BlockClass::Storage };
                        allocations.push(Some(self.memory.allocate(request)?));
                        allocations.len() - 1
                    }
                };
                if let Some(entry) = assignment.get_mut(slot.index()) {
                    *entry = Some(index);
                }
            }
        }
        Ok(assignment)
    }
}

/// Allocations of one run; a kept block is taken out of it.
type Allocations = Vec<Option<StackAllocation<BlockId>>>;
/// For every slot, the index of its allocation.
type BufferAssignment = Vec<Option<usize>>;

/// The block of every slot: its own, its tensor's, or any for a slot that nothing writes and so nothing reads.
fn slot_blocks(
    assignment: &BufferAssignment,
    allocations: &Allocations,
    imported: &[(Slot, BlockId)],
) -> Vec<BlockId> {
    let own = |index: Option<usize>| index.and_then(|i| allocations.get(i)?.as_ref()).map(|g| *g.block());
    let tensors = |slot: usize| imported.iter().find(|(s, _)| s.index() == slot).map(|(_, block)| *block);
    let any = allocations.iter().flatten().map(|g| *g.block()).next().or(imported.first().map(|(_, b)| *b));
    let block = |(slot, index): (usize, &Option<usize>)| {
        tensors(slot).or_else(|| own(*index)).or(any).unwrap_or(BlockId(0))
    };
    assignment.iter().enumerate().map(block).collect()
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
