//! Engine interface: a device that runs jobs (plans with buffers), implemented by wgpu and by a dummy without hardware.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use crate::{
    memory::{AllocError, BlockClass, MeasuredBudget},
    plan::Plan,
    units::Bytes,
};

pub mod dummy;
pub mod fallback;
pub mod gpu;
pub mod init;
pub mod reference;

/// Id of a device buffer. Meaningful only to the engine that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u64);

/// Device capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caps {
    /// Name of the device.
    pub name: String,
    /// The largest single buffer that a kernel can bind.
    pub largest_block: Bytes,
    /// Unified memory: CPU and device share it, and storage buffers can be mapped (zero-copy).
    pub unified_memory: bool,
    /// Timestamp queries.
    pub timestamps: bool,
    /// Subgroup size (min, max), if reported.
    pub subgroup: Option<(u32, u32)>,
    /// f16 in shaders.
    pub f16: bool,
    /// Loop iterations per invocation that are verified to run; software adapters truncate longer loops silently.
    pub loop_iterations: Option<u32>,
}

/// A job ready to be submitted: a plan, and the block of each of its slots.
#[derive(Debug, Clone)]
pub struct Job {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Parallel to the plan's slots. Slots may alias a block when the first is freed before the second is written.
    pub blocks: Vec<BlockId>,
}

/// Handle of a submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Result of a finished job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobOutput {
    /// Downloads, in the plan's order.
    pub outputs: Vec<Vec<u8>>,
    /// Device time from timestamp queries; `None` if not supported.
    pub device_time: Option<Duration>,
}

/// Device health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Usable, as far as is known.
    Good,
    /// Device lost, reported by the driver: all its memory is gone.
    Lost,
    /// Device hung: a call missed its deadline, and every further call may block for ever.
    Hung,
}

/// Engine errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Allocation failed (OOM).
    #[error(transparent)]
    Memory(#[from] AllocError),
    /// Device lost.
    #[error("the device is lost: {reason}")]
    DeviceLost {
        /// The driver's message.
        reason: String,
    },
    /// Device hung: the deadline was exceeded.
    #[error("the device did not answer within {} ms ({what})", waited.as_millis())]
    DeviceHung {
        /// How long we waited.
        waited: Duration,
        /// The operation.
        what: &'static str,
    },
    /// A download returned fewer bytes than requested.
    #[error("output {output} came back short: {got} of {want}")]
    ShortRead {
        /// Which download.
        output: usize,
        /// Bytes requested.
        want: Bytes,
        /// Bytes received.
        got: Bytes,
    },
    /// Validation error: a bug in the plan or the kernel, never retried.
    #[error("refused by the device: {reason}")]
    Validation {
        /// The validation message.
        reason: String,
    },
    /// No such device, or it cannot be opened.
    #[error("cannot open the device: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
}

/// A device that runs jobs. Every call returns: those that could block for ever are bounded by a deadline.
pub trait Engine: Send + Sync {
    /// Its capabilities.
    fn caps(&self) -> &Caps;

    /// Initialisation times, if measured.
    fn init(&self) -> Option<&init::DeviceInitStats> {
        None
    }

    /// Loop iterations per invocation that are verified to run. The first call may run a tiny probe kernel; `None` if it
    /// was not probed or the probe failed.
    fn loop_iterations(&self) -> Option<u32> {
        self.caps().loop_iterations
    }

    /// Maximum memory that the engine holds for itself between jobs (staging buffers), besides allocated blocks.
    fn reserved(&self) -> Bytes {
        Bytes::ZERO
    }

    /// The driver's memory budget for this process, queried when the device was opened.
    fn memory_budget(&self) -> Option<MeasuredBudget> {
        None
    }

    /// Allocates a buffer of exactly this size.
    fn create(&self, size: Bytes, class: BlockClass) -> Result<BlockId, EngineError>;

    /// The wgpu buffer of a block (zero-copy), for another library that shares the device ([`gpu::ExternalDevice`]).
    /// Ownership stays here: the block must be held as long as the other library's work reads it.
    fn raw_buffer(&self, _block: BlockId) -> Result<wgpu::Buffer, EngineError> {
        Err(EngineError::Unavailable { reason: "this engine has no wgpu buffers".to_owned() })
    }

    /// Frees a buffer. No-op on a dead device, whose buffers are gone already.
    fn destroy(&self, block: BlockId);

    /// Submits a job.
    fn submit(&self, job: Job) -> Result<Ticket, EngineError>;

    /// Waits for a job, at most `deadline`.
    fn wait(&self, ticket: Ticket, deadline: Duration) -> Result<JobOutput, EngineError>;

    /// Device health. Must be checked after every job: a lost device may report success.
    fn health(&self) -> Health;
}

/// Opens a device, and reopens it after it was lost.
pub trait Opener: Send + Sync {
    /// A new engine that shares nothing with an earlier one.
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError>;
}
