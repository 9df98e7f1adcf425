//! CPU backend: runs the CPU path of an operation over host buffers.

use std::{sync::Arc, time::Instant};

use gpuforge_ops::{Op, OpError, Threads};
use gpuforge_profile::{Category, span};
use gpuforge_runtime::{
    tensor::{Tensor, TensorSpec},
    units::Bytes,
};

use super::{Backend, BackendError, BackendRun, alloc_zeroed};

/// The CPU: runs [`Op::cpu`] on the thread pool.
#[derive(Debug, Clone)]
pub struct CpuBackend {
    /// Threads an operation may use.
    pub threads: Threads,
    /// CPU name and thread count, where known: a cost model of another CPU does not apply.
    pub hardware: Option<String>,
}

impl Default for CpuBackend {
    fn default() -> Self {
        CpuBackend { threads: Threads::all(), hardware: None }
    }
}

impl CpuBackend {
    /// A CPU of this brand.
    pub fn named(brand: Option<&str>) -> Self {
        let threads = Threads::all();
        CpuBackend { threads, hardware: brand.map(|b| format!("{b}, {} threads", threads.0)) }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> String {
        "cpu".to_owned()
    }

    fn driver(&self) -> Option<String> {
        self.hardware.clone()
    }

    fn run(&self, op: &dyn Op, _keep_on_device: bool) -> Result<BackendRun, BackendError> {
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
        let mut results = sizes.map(alloc_zeroed).collect::<Result<Vec<_>, _>>()?;
        let mut outputs: Vec<&mut [u8]> = results.iter_mut().filter_map(Arc::get_mut).collect();
        op.cpu(&views, &mut outputs, self.threads)?;
        let tensor = |(bytes, spec): (Arc<[u8]>, TensorSpec)| {
            Ok(Tensor::from_bytes(bytes, spec).map_err(OpError::from)?)
        };
        let outputs = results.into_iter().zip(specs).map(tensor).collect::<Result<Vec<_>, BackendError>>()?;
        let wall = began.elapsed();
        Ok(BackendRun { outputs, wall, device_time: None, cold: false, pieces: 1, events: Vec::new() })
    }
}
