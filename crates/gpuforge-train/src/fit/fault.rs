//! Device faults: errors and panics of the backend classified as OOM or device lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A classified device failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// OOM: a smaller batch may fit.
    OutOfMemory(String),
    /// Anything else: the device is not used again.
    DeviceLost(String),
}

/// Fault injection.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// OOM for batches larger than this.
    pub max_batch: Option<usize>,
    /// Device lost, once, before this step.
    pub lost_at: Option<u64>,
}

impl Faults {
    pub(super) fn next(&mut self, step: u64, batch: usize) -> Option<Fault> {
        if self.max_batch.is_some_and(|max_batch| batch > max_batch) {
            return Some(Fault::OutOfMemory("out of memory (injected)".to_owned()));
        }
        self.lost_at.take_if(|at| *at == step).map(|_| Fault::DeviceLost("device lost (injected)".to_owned()))
    }
}

/// OOM messages of allocators and drivers.
const OOM_MESSAGES: [&str; 5] =
    ["out of memory", "out of device memory", "outofmemory", "not enough memory", "can't allocate buffer"];

/// Runs `f` and classifies its error or panic.
pub(super) fn guard<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, Fault> {
    let why = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(why)) => why,
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (_, Some(text)) => (*text).to_owned(),
            _ => "a panic without a message".to_owned(),
        },
    };
    let lower = why.to_lowercase();
    Err(if OOM_MESSAGES.iter().any(|w| lower.contains(w)) {
        Fault::OutOfMemory(why)
    } else {
        Fault::DeviceLost(why)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail")]
    use super::*;
    use burn::tensor::Tensor;
    use gpuforge_testkit::adapter;

    /// The real OOM message of a device is recognised, and the device is usable afterwards.
    #[test]
    fn oversized_buffer_is_classified_as_oom() {
        let Some(gpu) = adapter::or_skip(crate::shared_device::gpu()) else { return };
        let max_batch = gpu.backend.shared.clone().unwrap().external.device.limits().max_buffer_size;
        let ones = |count: usize| Tensor::<1>::ones([count], &gpu.backend.device);
        let full = guard(|| {
            let all = ones(usize::try_from(max_batch).unwrap() / 4 * 3);
            gpu.backend.fetch(all.narrow(0, 0, 2))
        });
        assert!(matches!(full, Err(Fault::OutOfMemory(_))), "{full:?}");
        gpu.backend.device.memory_cleanup();
        assert_eq!(guard(|| gpu.backend.fetch(ones(3))), Ok(vec![1.0; 3]));
    }

    #[test]
    fn panics_and_errors_are_classified() {
        assert_eq!(guard(|| Ok(3)), Ok(3));
        let full = guard::<()>(|| panic!("wgpu: Out of Memory (allocating 3 GiB)"));
        assert!(matches!(full, Err(Fault::OutOfMemory(why)) if why.contains("3 GiB")));
        let lost = guard::<()>(|| Err("device lost".to_owned()));
        assert_eq!(lost, Err(Fault::DeviceLost("device lost".to_owned())));
    }

    #[test]
    fn injected_device_loss_fires_once() {
        let mut faults = Faults { max_batch: Some(4), lost_at: Some(2) };
        assert!(matches!(faults.next(0, 5), Some(Fault::OutOfMemory(_))));
        assert_eq!(faults.next(1, 4), None);
        assert!(matches!(faults.next(2, 4), Some(Fault::DeviceLost(_))));
        assert_eq!(faults.next(2, 4), None);
    }
}
