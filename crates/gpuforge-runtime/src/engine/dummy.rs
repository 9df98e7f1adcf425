//! Dummy device: an engine without hardware that really computes (CPU references) and injects scripted faults.
//!
//! It runs each kernel's CPU reference, so that a lost or skipped command shows as a wrong result. Faults count events
//! over the life of the *opener*, so that a reopened device does not fail at the same event again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{BlockId, Caps, Engine, EngineError, Health, Job, JobOutput, Opener, Ticket, reference};
use crate::{
    memory::{AllocError, BlockClass, Tag},
    plan::Command,
    units::Bytes,
};

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DummyFault {
    /// OOM while a job runs.
    OutOfMemory,
    /// OOM while a buffer is created.
    AllocFailure,
    /// Device lost, and reported.
    Loss,
    /// Device hung.
    Hang,
    /// A download returns too few bytes.
    ShortRead,
    /// Device lost, but every call reports success; only its health shows it.
    SilentLoss,
}

impl DummyFault {
    /// All faults.
    pub const ALL: [DummyFault; 6] = [
        DummyFault::OutOfMemory,
        DummyFault::AllocFailure,
        DummyFault::Loss,
        DummyFault::Hang,
        DummyFault::ShortRead,
        DummyFault::SilentLoss,
    ];
}

/// When faults happen: at events counted from 0. [`DummyFault::AllocFailure`] counts buffer creations, the others
/// commands.
#[derive(Debug, Clone, Default)]
pub struct DummyScript {
    /// Faults and the event at which each happens, once.
    pub once: Vec<(DummyFault, u64)>,
    /// A fault that happens at every event from this one on: a permanently broken device.
    pub from: Option<(DummyFault, u64)>,
}

impl DummyScript {
    /// One fault at one event.
    pub fn once(fault: DummyFault, at: u64) -> Self {
        DummyScript { once: vec![(fault, at)], from: None }
    }

    /// The same fault at every event.
    pub fn always(fault: DummyFault) -> Self {
        DummyScript { once: Vec::new(), from: Some((fault, 0)) }
    }

    fn hits(&self, event: u64, of: impl Fn(DummyFault) -> bool) -> Option<DummyFault> {
        let once = self.once.iter().find(|(f, at)| of(*f) && *at == event).map(|(f, _)| *f);
        once.or_else(|| self.from.filter(|(f, at)| of(*f) && event >= *at).map(|(f, _)| f))
    }
}

/// Events seen by all devices of one opener.
#[derive(Debug, Default)]
struct Counters {
    creations: AtomicU64,
    commands: AtomicU64,
    opened: AtomicU64,
}

/// Opens dummy devices that share one fault script.
#[derive(Debug, Clone)]
pub struct DummyOpener {
    script: Arc<DummyScript>,
    memory: Bytes,
    counters: Arc<Counters>,
}

impl DummyOpener {
    /// Devices with this much memory and these faults.
    pub fn new(memory: Bytes, script: DummyScript) -> Self {
        DummyOpener { script: Arc::new(script), memory, counters: Arc::default() }
    }

    /// How many devices were opened.
    pub fn opened(&self) -> u64 {
        self.counters.opened.load(Ordering::Relaxed)
    }

    /// How many commands were executed; a fault beyond this number never happened.
    pub fn commands(&self) -> u64 {
        self.counters.commands.load(Ordering::Relaxed)
    }

    /// How many buffers were requested.
    pub fn creations(&self) -> u64 {
        self.counters.creations.load(Ordering::Relaxed)
    }
}

impl Opener for DummyOpener {
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(DummyEngine::new(self.clone())))
    }
}

/// A device without hardware.
pub struct DummyEngine {
    opener: DummyOpener,
    caps: Caps,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Memory outlives jobs: tensors stay resident between them.
    blocks: HashMap<BlockId, Vec<u8>>,
    used: Bytes,
    finished: HashMap<Ticket, Result<JobOutput, EngineError>>,
    health: Option<Health>,
}

impl DummyEngine {
    fn new(opener: DummyOpener) -> Self {
        let caps = Caps {
            name: "dummy".to_owned(),
            largest_block: Bytes::mib(128),
            unified_memory: false,
            timestamps: false,
            subgroup: None,
            f16: false,
            loop_iterations: None,
        };
        DummyEngine { opener, caps, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dead(state: &State) -> Option<EngineError> {
        match state.health {
            Some(Health::Lost) => Some(EngineError::DeviceLost { reason: "dummy device lost".to_owned() }),
            Some(Health::Hung) => {
                Some(EngineError::DeviceHung { waited: Duration::ZERO, what: "dummy device" })
            }
            _ => None,
        }
    }

    /// Runs the commands; a fault aborts or, when silent, turns the rest into no-ops.
    fn execute(&self, job: &Job) -> Result<JobOutput, (EngineError, Option<Health>)> {
        let mut distinct: Vec<BlockId> = job.blocks.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let block_of: Vec<usize> =
            job.blocks.iter().map(|b| distinct.binary_search(b).unwrap_or(0)).collect();
        let mut memory = reference::HostMemory::shared(&job.plan, &block_of);
        self.exchange(&distinct, &mut memory, |stored, working| working.copy_from_slice(stored));
        let mut done = JobOutput::default();
        let mut silent = false;
        for command in job.plan.commands() {
            let event = self.opener.counters.commands.fetch_add(1, Ordering::Relaxed);
            let fault = self.opener.script.hits(event, |f| f != DummyFault::AllocFailure);
            match fault {
                Some(DummyFault::OutOfMemory) => {
                    let size = job.plan.cost().peak;
                    return Err((AllocError::OutOfMemory { asked: size, tag: Tag("dummy") }.into(), None));
                }
                Some(DummyFault::Loss) => {
                    let lost = EngineError::DeviceLost { reason: format!("dummy fault at command {event}") };
                    return Err((lost, Some(Health::Lost)));
                }
                Some(DummyFault::Hang) => {
                    let hung = EngineError::DeviceHung { waited: Duration::ZERO, what: "dummy fault" };
                    return Err((hung, Some(Health::Hung)));
                }
                Some(DummyFault::SilentLoss) => silent = true,
                _ => {}
            }
            match (command, silent) {
                // As a lost device behaves: nothing ran, reads succeed and return zeros.
                (Command::Download { size, .. }, true) => {
                    done.outputs.push(vec![0; usize::try_from(size.0).unwrap_or_default()]);
                }
                (_, true) => {}
                (_, false) => {
                    let mut read = memory.step(command).map_err(|e| (e, None))?;
                    if let (Some(DummyFault::ShortRead), Some(bytes)) = (fault, read.as_mut()) {
                        bytes.truncate(bytes.len() / 2);
                    }
                    done.outputs.extend(read);
                }
            }
        }
        if silent {
            self.state().health = Some(Health::Lost);
        } else {
            self.exchange(&distinct, &mut memory, |stored, working| stored.copy_from_slice(working));
        }
        Ok(done)
    }

    /// Copies between the device's memory and a job's view of it; blocks may be larger than what the job uses.
    fn exchange(
        &self,
        blocks: &[BlockId],
        memory: &mut reference::HostMemory,
        copy: impl Fn(&mut [u8], &mut [u8]),
    ) {
        let mut state = self.state();
        for (block, working) in blocks.iter().zip(memory.blocks_mut()) {
            if let Some(stored) = state.blocks.get_mut(block) {
                let len = stored.len().min(working.len());
                if let (Some(stored), Some(working)) = (stored.get_mut(..len), working.get_mut(..len)) {
                    copy(stored, working);
                }
            }
        }
    }
}

impl Engine for DummyEngine {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn create(&self, size: Bytes, _class: BlockClass) -> Result<BlockId, EngineError> {
        let event = self.opener.counters.creations.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        if let Some(dead) = DummyEngine::dead(&state) {
            return Err(dead);
        }
        if size > self.caps.largest_block {
            return Err(AllocError::TooLarge { asked: size, most: self.caps.largest_block }.into());
        }
        let refused = self.opener.script.hits(event, |f| f == DummyFault::AllocFailure).is_some();
        if refused || (state.used + size) > self.opener.memory {
            return Err(AllocError::OutOfMemory { asked: size, tag: Tag("dummy") }.into());
        }
        state.used += size;
        state.next += 1;
        let block = BlockId(state.next);
        state.blocks.insert(block, vec![0; usize::try_from(size.0).unwrap_or(0)]);
        Ok(block)
    }

    fn destroy(&self, block: BlockId) {
        let mut state = self.state();
        if let Some(bytes) = state.blocks.remove(&block) {
            state.used -= Bytes(bytes.len() as u64);
        }
    }

    fn submit(&self, job: Job) -> Result<Ticket, EngineError> {
        {
            let state = self.state();
            if let Some(dead) = DummyEngine::dead(&state) {
                return Err(dead);
            }
            if let Some(block) = job.blocks.iter().find(|b| !state.blocks.contains_key(b)) {
                return Err(EngineError::Validation {
                    reason: format!("block {} is not this device's", block.0),
                });
            }
        }
        let result = self.execute(&job);
        let mut state = self.state();
        state.next += 1;
        let ticket = Ticket(state.next);
        let result = result.map_err(|(error, health)| {
            state.health = health.or(state.health);
            error
        });
        state.finished.insert(ticket, result);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, _deadline: Duration) -> Result<JobOutput, EngineError> {
        let unknown = || Err(EngineError::Validation { reason: format!("no job {}", ticket.0) });
        self.state().finished.remove(&ticket).unwrap_or_else(unknown)
    }

    fn health(&self) -> Health {
        self.state().health.unwrap_or(Health::Good)
    }
}
