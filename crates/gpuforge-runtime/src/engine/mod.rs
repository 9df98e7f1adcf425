//! What runs a plan? One interface, implemented by a real device and by one that computes without hardware.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use crate::{
    memory::{AllocError, BlockClass, Measured},
    plan::Plan,
    units::Bytes,
};

pub mod chain;
pub mod dummy;
pub mod gpu;
pub mod init;
pub mod twin;

/// A buffer of a device. Meaningful only to the engine that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

/// What a device can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caps {
    /// Name of the device.
    pub name: String,
    /// The largest single buffer that a kernel can bind.
    pub largest_block: Bytes,
    /// The processor and the device use one memory, and buffers can be mapped in place.
    pub unified_memory: bool,
    /// Pass timing by timestamp queries.
    pub timestamps: bool,
    /// Threads that run in lock-step, where the device says.
    pub subgroup: Option<(u32, u32)>,
    /// Half-precision arithmetic in shaders.
    pub f16: bool,
    /// Iterations of one invocation's loops that were proven to run; software adapters cut longer ones silently.
    pub loop_iterations: Option<u32>,
}

/// Work ready to be submitted: a plan, and the block behind each of its slots.
#[derive(Debug, Clone)]
pub struct Job {
    /// What to do.
    pub plan: Arc<Plan>,
    /// Parallel to the plan's slots. Two slots may share a block when the first is freed before the second is written.
    pub blocks: Vec<BlockId>,
}

/// A submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// What a finished job brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    /// Downloads, in the plan's order.
    pub outputs: Vec<Vec<u8>>,
    /// Time that the device itself measured; `None` where it cannot.
    pub device_time: Option<Duration>,
}

/// Can the device still be used?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As far as anybody knows.
    Good,
    /// The driver said that it is gone: everything on it is lost.
    Lost,
    /// A call did not return in time: every call may block for ever.
    Hung,
}

/// What an engine can fail with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No room on the device.
    #[error(transparent)]
    Memory(#[from] AllocError),
    /// The device is gone.
    #[error("the device is lost: {reason}")]
    Lost {
        /// What the driver said.
        reason: String,
    },
    /// The device did not answer.
    #[error("the device did not answer within {} ms ({what})", waited.as_millis())]
    Hung {
        /// How long we waited.
        waited: Duration,
        /// For what.
        what: &'static str,
    },
    /// Fewer bytes came back than were asked for.
    #[error("output {output} came back short: {got} of {want}")]
    ShortRead {
        /// Which download.
        output: usize,
        /// Bytes asked for.
        want: Bytes,
        /// Bytes that came.
        got: Bytes,
    },
    /// The driver refused a call: a mistake of ours or of the kernel, never repeated.
    #[error("refused by the device: {reason}")]
    Validation {
        /// What it said.
        reason: String,
    },
    /// No such device, or it cannot be opened.
    #[error("cannot open the device: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

/// A device that runs jobs. Calls return: those that could block for ever are bounded by `deadline` or by the engine.
pub trait Engine: Send + Sync {
    /// What it can do.
    fn caps(&self) -> &Caps;

    /// What opening it took, where that was measured.
    fn init(&self) -> Option<&init::InitStats> {
        None
    }

    /// Iterations of one invocation's loops that were proven to run. May run a tiny kernel the first time it is asked;
    /// `None` where nobody tried or the trial failed.
    fn loop_iterations(&self) -> Option<u32> {
        self.caps().loop_iterations
    }

    /// The most memory that the engine keeps for itself between jobs, beside the blocks it was asked for.
    fn reserved(&self) -> Bytes {
        Bytes::ZERO
    }

    /// What the driver said, when the device was opened, that this process may use of its memory.
    fn memory_budget(&self) -> Option<Measured> {
        None
    }

    /// A buffer of exactly this size.
    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError>;

    /// The buffer behind a block, for another library that uses the same device ([`gpu::GivenDevice`]). It stays ours: the
    /// block must be held as long as work of the other library reads it.
    fn lend(&self, _block: BlockId) -> Result<wgpu::Buffer, EngineError> {
        Err(EngineError::Unavailable { reason: "this engine has no buffers of a real device".to_owned() })
    }

    /// Gives a buffer back. A dead device's buffers are gone already: nothing happens.
    fn destroy(&self, block: BlockId);

    /// Hands a job over.
    fn submit(&self, job: Job) -> Result<Ticket, EngineError>;

    /// Waits for a job no longer than `deadline`.
    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<Done, EngineError>;

    /// Can it still be used? Must be asked after every job: a lost device may report success.
    fn health(&self) -> Health;
}

/// Opens a device, again after it was lost.
pub trait Opener: Send + Sync {
    /// A fresh engine that shares nothing with an earlier one.
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError>;
}
