//! Device faults: errors and panics of the backend classified as OOM or device lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a device said no to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Memory ran out: a smaller batch may fit.
    Memory(String),
    /// Anything else: the device is not asked again.
    Lost(String),
}

/// Failures on purpose.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Memory runs out for batches that are larger than this.
    pub most: Option<usize>,
    /// The device is lost, once, before this step.
    pub lost_at: Option<u64>,
}

impl Faults {
    pub(super) fn due(&mut self, step: u64, batch: usize) -> Option<Fault> {
        if self.most.is_some_and(|most| batch > most) {
            return Some(Fault::Memory("out of memory (on purpose)".to_owned()));
        }
        self.lost_at.take_if(|at| *at == step).map(|_| Fault::Lost("device lost (on purpose)".to_owned()))
    }
}

/// Words by which allocators and drivers say that there is no memory left.
const MEMORY: [&str; 5] =
    ["out of memory", "out of device memory", "outofmemory", "not enough memory", "can't allocate buffer"];

/// Runs what may fail by an error or by a panic.
pub(super) fn guard<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, Fault> {
    let why = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => return Ok(result),
        Ok(Err(why)) => why,
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (_, Some(text)) => (*text).to_owned(),
            _ => "a panic without a message".to_owned(),
        },
    };
    let plain = why.to_lowercase();
    Err(if MEMORY.iter().any(|w| plain.contains(w)) { Fault::Memory(why) } else { Fault::Lost(why) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail")]
    use super::*;
    use burn::tensor::Tensor;

    /// What a device really says when there is no memory, and that it can be asked again afterwards.
    #[test]
    fn a_buffer_that_no_device_has_is_a_lack_of_memory() {
        let gpu = match crate::shared_device::gpu() {
            Ok(gpu) => gpu,
            Err(error) => return println!("skipped: {error}"),
        };
        let most = gpu.backend.shared.clone().unwrap().given.device.limits().max_buffer_size;
        let ones = |count: usize| Tensor::<1>::ones([count], &gpu.backend.device);
        let full = guard(|| {
            let all = ones(usize::try_from(most).unwrap() / 4 * 3);
            gpu.backend.fetch(all.narrow(0, 0, 2))
        });
        assert!(matches!(full, Err(Fault::Memory(_))), "{full:?}");
        gpu.backend.device.memory_cleanup();
        assert_eq!(guard(|| gpu.backend.fetch(ones(3))), Ok(vec![1.0; 3]));
    }

    #[test]
    fn panics_and_errors_become_what_can_be_done() {
        assert_eq!(guard(|| Ok(3)), Ok(3));
        let full = guard::<()>(|| panic!("wgpu: Out of Memory (allocating 3 GiB)"));
        assert!(matches!(full, Err(Fault::Memory(why)) if why.contains("3 GiB")));
        let lost = guard::<()>(|| Err("device lost".to_owned()));
        assert_eq!(lost, Err(Fault::Lost("device lost".to_owned())));
    }

    #[test]
    fn a_loss_on_purpose_comes_once() {
        let mut faults = Faults { most: Some(4), lost_at: Some(2) };
        assert!(matches!(faults.due(0, 5), Some(Fault::Memory(_))));
        assert_eq!(faults.due(1, 4), None);
        assert!(matches!(faults.due(2, 4), Some(Fault::Lost(_))));
        assert_eq!(faults.due(2, 4), None);
    }
}
