//! Execution backends: the [`Backend`] interface, implemented by the CPU (`backend/cpu.rs`) and by devices
//! (`backend/device.rs`).

use std::{sync::Arc, time::Duration};

use gpuforge_ops::{Op, OpError, Tuning};
use gpuforge_runtime::{runner::RecoveryEvent, tensor::Tensor, units::Bytes};

mod cpu;
mod device;

pub use cpu::CpuBackend;
pub use device::DeviceBackend;

/// Outcome of a run on a backend.
#[derive(Debug, Clone)]
pub struct BackendRun {
    /// Results: on the host, or on the device if they were to be kept there.
    pub outputs: Vec<Tensor>,
    /// Wall-clock time of all of it.
    pub wall: Duration,
    /// GPU time by the device's own timestamps.
    pub device_time: Option<Duration>,
    /// Cold run: a kernel was compiled, so the time is not representative.
    pub cold: bool,
    /// Chunks it was split into.
    pub pieces: usize,
    /// Recovered failures.
    pub events: Vec<RecoveryEvent>,
}

/// Why a backend has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The operation itself is invalid: no other backend would accept it.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The device failed; another backend may succeed.
    #[error("{error}")]
    Device {
        /// The last failure.
        error: String,
        /// All failures, in order.
        events: Vec<RecoveryEvent>,
    },
    /// Host allocation of the result failed.
    #[error("no memory for a result of {0} on the host")]
    NoMemory(Bytes),
}

/// Measured transfer times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Host to device.
    pub upload: Duration,
    /// Device to host.
    pub download: Duration,
}

/// An execution backend.
pub trait Backend: Send + Sync {
    /// Name in reports.
    fn name(&self) -> String;

    /// Driver and version of a device, where known: another driver invalidates the cost model.
    fn driver(&self) -> Option<String> {
        None
    }

    /// Runs an operation whose inputs this backend can reach. With `keep_on_device`, a device keeps the results resident.
    fn run(&self, op: &dyn Op, keep_on_device: bool) -> Result<BackendRun, BackendError>;

    /// Is it usable now?
    fn usable(&self) -> bool {
        true
    }

    /// Largest buffer it can bind, once known; `None` is no limit.
    fn max_buffer(&self) -> Option<Bytes> {
        None
    }

    /// Memory budget, once known; `None` is no limit.
    fn memory_budget(&self) -> Option<Bytes> {
        None
    }

    /// Sets the kernel variants to use from now on.
    fn tune(&self, _tuning: Tuning) {}

    /// Downloads a tensor of this backend to the host.
    fn download(&self, _tensor: &Tensor) -> Result<(), BackendError> {
        Ok(())
    }

    /// Measures an empty submission; zero on the CPU.
    fn launch(&self) -> Result<Duration, BackendError> {
        Ok(Duration::ZERO)
    }

    /// Measures upload and download of so many bytes, without submission overhead; `None` where nothing has to be moved.
    fn transfer(&self, _bytes: usize) -> Result<Option<Transfer>, BackendError> {
        Ok(None)
    }
}

/// Allocates a zeroed host buffer for a result. Fresh pages are zero already, so large buffers cost nothing to clear.
pub(crate) fn alloc_zeroed(size: Bytes) -> Result<Arc<[u8]>, BackendError> {
    let n = usize::try_from(size.0).map_err(|_| BackendError::NoMemory(size))?;
    // A failed allocation aborts the process; a failed reservation does not.
    Vec::<u8>::new().try_reserve_exact(n).map_err(|_| BackendError::NoMemory(size))?;
    let zeroed = Arc::<[u8]>::new_zeroed_slice(n);
    #[allow(unsafe_code, reason = "clearing the pages a second time halves the speed of large results")]
    // SAFETY: every byte was zeroed by the allocator, and any byte is a valid `u8`.
    Ok(unsafe { zeroed.assume_init() })
}
