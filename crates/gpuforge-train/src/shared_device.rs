//! Shared wgpu device of Burn and our runtime: our kernels write the features, a device-side copy hands them to Burn, zero
//! host transfers.
//!
//! Burn opens the device, because its compiler decides which adapter features it needs; our runtime borrows the open device
//! ([`ExternalDevice`]). Both submit to one queue, so work runs in submission order; Burn flushes its pending work when its
//! buffer is requested. The device-lost callbacks are Burn's: a loss shows as a failed step here ([`crate::fit::Fault`]) and as
//! a failed job in our runtime. A lost device is reopened on its adapter and registered under a new name, because Burn keeps
//! the first one forever.

use std::{sync::Arc, time::Duration};

use burn::{
    backend::Wgpu,
    cubecl::{
        future,
        wgpu::{AutoCompiler, WgpuServer},
    },
    tensor::{Device, Tensor, wgpu::WgpuSetup},
};
use gpuforge_indicators_gpu::features::Features;
use gpuforge_runtime::{
    engine::gpu::{ExternalDevice, GpuOpener},
    memory::{Budget, BudgetOrigin, SYSTEM_SHARE_PERCENT, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};

use crate::{
    data::{Dataset, MarketData, Recipe},
    device_table::TrainBackend,
    error::TrainError,
    resources,
};

/// Deadline for looking up feature buffers on the device.
const DEADLINE: Duration = Duration::from_secs(60);
/// Memory budget of our runtime if neither driver nor system reports one.
const DEFAULT_BUDGET: Bytes = Bytes(1 << 30);
/// Times that a lost device is reopened before falling back to the CPU.
const MAX_REOPENS: usize = 2;

/// A GPU that Burn and our runtime share.
pub struct SharedGpu {
    /// Burn's side.
    pub backend: TrainBackend,
    /// Our side.
    pub runner: Arc<Runner>,
    /// Adapter name and API.
    pub name: String,
}

/// Handles of a device shared by Burn and our runtime.
#[derive(Clone)]
pub struct SharedDevice {
    /// Our side.
    pub external: ExternalDevice,
    /// Burn's side.
    setup: WgpuSetup,
}

/// Opens the GPU that wgpu ranks best.
pub fn gpu() -> Result<SharedGpu, TrainError> {
    // The wgpu backend of Burn panics if a driver cannot be loaded.
    let opened = std::panic::catch_unwind(|| Device::wgpu_options().init_with_setup());
    let (device, setup) = opened
        .map_err(|_| TrainError::NoGpu("opening it failed".to_owned()))?
        .map_err(|e| TrainError::NoGpu(e.to_string()))?;
    share(device, setup)
}

/// Reopens the adapter of a lost device with the same features and limits.
pub fn reopen(lost: &SharedDevice) -> Result<SharedGpu, TrainError> {
    let failed = |why: String| TrainError::NoGpu(why);
    let old = &lost.setup;
    let wanted = wgpu::DeviceDescriptor {
        label: Some("gpuforge-train"),
        // Experimental features need an unsafe opt-in; nothing that Burn compiles to WGSL uses them.
        required_features: old.device.features().difference(wgpu::Features::all_experimental_mask()),
        required_limits: old.device.limits(),
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        ..wgpu::DeviceDescriptor::default()
    };
    let opened = future::block_on(old.adapter.request_device(&wanted));
    let (device, queue) = opened.map_err(|e| failed(e.to_string()))?;
    let setup = WgpuSetup { device, queue, ..old.clone() };
    let device = Device::wgpu_options().setup(setup.clone()).init().map_err(|e| failed(e.to_string()))?;
    share(device, setup)
}

fn share(device: Device, setup: WgpuSetup) -> Result<SharedGpu, TrainError> {
    let info = setup.adapter.get_info();
    let handles = setup.clone();
    let external = ExternalDevice { adapter: handles.adapter, device: handles.device, queue: handles.queue };
    // A default origin: a budget reported by the driver takes precedence.
    let origin = BudgetOrigin::ShareOfSystem { percent: SYSTEM_SHARE_PERCENT };
    let budget = Budget { bytes: resources::memory_budget().map_or(DEFAULT_BUDGET, Bytes), origin };
    let settings = RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
    let opener = GpuOpener { external: Some(external.clone()), ..GpuOpener::default() };
    let runner = Arc::new(Runner::new(Box::new(opener), settings));
    runner.warm().map_err(|e| TrainError::NoGpu(e.to_string()))?;
    let memory = runner.session().map(|s| s.memory().stats().budget.bytes.0);
    let shared = Some(SharedDevice { external, setup });
    let backend = TrainBackend { shared, memory, ..TrainBackend::new(device) };
    Ok(SharedGpu { backend, runner, name: format!("{} ({:?})", info.name, info.backend) })
}

/// Device-lost recovery: the adapter reopened, up to `MAX_REOPENS` times, else the CPU; features are recomputed there.
pub fn recover(
    lost: &TrainBackend,
    times: usize,
    market: &MarketData,
    recipe: &Recipe,
) -> Result<(TrainBackend, Dataset, String), TrainError> {
    if let (Some(shared), true) = (&lost.shared, times <= MAX_REOPENS)
        && let Ok(gpu) = reopen(shared)
        && let Ok(data) = Dataset::on_device(market, recipe, &gpu.runner)
    {
        return Ok((gpu.backend, data, gpu.name));
    }
    Ok((TrainBackend::cpu(), Dataset::on_cpu(market, recipe)?, "cpu".to_owned()))
}

/// Imports feature rows as a Burn tensor: a buffer-to-buffer copy on the same device.
pub(crate) fn import_features(
    features: &Features,
    runner: &Runner,
    backend: &TrainBackend,
) -> Result<Tensor<2>, TrainError> {
    let failed = |why: String| TrainError::Device { step: 0, why };
    let shared = backend.shared.as_ref();
    let shared = shared.ok_or_else(|| failed("features are on a device that is not shared".to_owned()))?;
    let external = &shared.external;
    let session =
        runner.session().ok_or_else(|| failed("the device that made the features is gone".to_owned()))?;
    let (rows, columns) = (features.rows(), features.columns());
    let tensor: Tensor<2> = Tensor::empty([rows, columns], &backend.device);
    let handles = tensor.clone().try_into_primitive::<Wgpu>().map_err(|e| failed(format!("{e:?}")))?;
    let tensor_buffer = handles.client.get_resource::<WgpuServer<AutoCompiler>>(handles.handle.clone());
    let tensor_buffer = tensor_buffer.map_err(|e| failed(format!("{e:?}")))?;
    let tensor_buffer = tensor_buffer.resource();
    let size = 4 * (rows * columns) as u64;
    if tensor_buffer.size < size {
        return Err(failed(format!("a tensor of {size} bytes has a buffer of {} bytes", tensor_buffer.size)));
    }
    let mut encoder = external.device.create_command_encoder(&Default::default());
    for chunk in features.chunks() {
        let buffer = session.raw_buffer(&chunk.values, DEADLINE).map_err(|e| failed(e.to_string()))?;
        let [from, bytes] = [chunk.rows.start, chunk.rows.len()].map(|r| 4 * (r * columns) as u64);
        encoder.copy_buffer_to_buffer(&buffer, 0, &tensor_buffer.buffer, tensor_buffer.offset + from, bytes);
    }
    external.queue.submit([encoder.finish()]);
    Ok(tensor)
}
