//! How does one plan run on one open device? Blocks for its slots, submit, wait, and trust nothing.

use std::{sync::Arc, time::Duration};

use crate::{
    engine::{BlockId, Caps, Done, Engine, EngineError, Health, Job},
    kernel::Access,
    memory::{
        AllocError, Allocation, Allocator, BlockClass, Grant, Limits, MemoryStack, Request, StackSettings,
        Tag,
    },
    plan::{Command, Plan, Slot},
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
    memory: MemoryStack<Device>,
}

impl Session {
    /// Puts memory on top of a device.
    pub fn new(engine: Arc<dyn Engine>, settings: StackSettings) -> Self {
        Session { memory: MemoryStack::new(Device(engine.clone()), settings), engine }
    }

    /// What the device can do.
    pub fn caps(&self) -> &Caps {
        self.engine.caps()
    }

    /// Its memory.
    pub fn memory(&self) -> &MemoryStack<Device> {
        &self.memory
    }

    /// Can it still be used?
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Runs a plan from its beginning. Whatever happens, every block is given back.
    pub fn run(&self, plan: &Arc<Plan>, deadline: Duration) -> Result<Done, EngineError> {
        let mut grants = Vec::new();
        let result = self.attempt(plan, deadline, &mut grants);
        for grant in grants {
            self.memory.release(grant);
        }
        result
    }

    fn attempt(
        &self,
        plan: &Arc<Plan>,
        deadline: Duration,
        grants: &mut Vec<Grant<BlockId>>,
    ) -> Result<Done, EngineError> {
        let blocks = self.place(plan, grants).map_err(|error| self.truth(error.into()))?;
        let ticket = self.engine.submit(Job { plan: plan.clone(), blocks }).map_err(|e| self.truth(e))?;
        let done = self.engine.wait(ticket, deadline).map_err(|e| self.truth(e))?;
        // A lost device reports success: its word counts only if it is well afterwards.
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
    fn place(&self, plan: &Plan, grants: &mut Vec<Grant<BlockId>>) -> Result<Vec<BlockId>, AllocError> {
        let mut places: Vec<Option<usize>> = vec![None; plan.slots().len()];
        let mut free: Vec<usize> = Vec::new();
        for command in plan.commands() {
            if let Command::Free { slot } = command {
                free.extend(places.get(slot.index()).copied().flatten());
                continue;
            }
            for slot in written(command) {
                let Some(spec) = plan.slots().get(slot.index()) else { continue };
                let capacity = |i: &usize| grants.get(*i).map_or(Bytes::ZERO, Grant::capacity);
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
                        grants.push(self.memory.allocate(request)?);
                        grants.len() - 1
                    }
                };
                if let Some(entry) = places.get_mut(slot.index()) {
                    *entry = Some(place);
                }
            }
        }
        // A slot that nothing writes is never read either (recording checks it); it needs no memory of its own.
        let any = grants.first().map(|g| *g.block());
        let block = |p: Option<usize>| {
            p.and_then(|i| grants.get(i)).map(|g| *g.block()).or(any).unwrap_or(BlockId(0))
        };
        Ok(places.into_iter().map(block).collect())
    }
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
