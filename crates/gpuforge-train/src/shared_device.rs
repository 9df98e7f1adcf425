//! Shared wgpu device of Burn and our runtime: our kernels write the features, a device-side copy hands them to Burn, zero
//! host transfers.
//!
//! Burn opens the device, because its compiler decides which features of the adapter it needs; our runtime takes the open
//! device ([`ExternalDevice`]). Both submit to one queue, so that work runs in the order in which it was submitted; what Burn
//! still holds back is flushed when its buffer is asked for. The callbacks about losses are Burn's: a loss shows as a failed
//! step here ([`crate::fit::Fault`]) and as a failed job there. A lost device is opened again on its adapter and registered
//! under a name of its own, because Burn never forgets the first.

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

/// How long features may take to be found on the device.
const DEADLINE: Duration = Duration::from_secs(60);
/// What our runtime may use where neither the driver nor the system says how much there is.
const UNKNOWN: Bytes = Bytes(1 << 30);
/// Times that a device is opened again before the CPU goes on.
const REBUILDS: usize = 2;

/// A GPU that Burn and our runtime share.
pub struct SharedGpu {
    /// Burn's side.
    pub backend: TrainBackend,
    /// Our side.
    pub runner: Arc<Runner>,
    /// What it is called.
    pub name: String,
}

/// The handles of a device that Burn and our runtime share.
#[derive(Clone)]
pub struct SharedDevice {
    /// Our side.
    pub given: ExternalDevice,
    /// Burn's side.
    setup: WgpuSetup,
}

/// Opens the GPU that wgpu ranks best.
pub fn gpu() -> Result<SharedGpu, TrainError> {
    // The library that drives it panics where a driver cannot be loaded.
    let opened = std::panic::catch_unwind(|| Device::wgpu_options().init_with_setup());
    let (device, setup) = opened
        .map_err(|_| TrainError::NoGpu("opening it failed".to_owned()))?
        .map_err(|e| TrainError::NoGpu(e.to_string()))?;
    share(device, setup)
}

/// Opens the adapter of a lost device again, with the features that it had.
pub fn rebuild(lost: &SharedDevice) -> Result<SharedGpu, TrainError> {
    let failed = |why: String| TrainError::NoGpu(why);
    let old = &lost.setup;
    let wanted = wgpu::DeviceDescriptor {
        label: Some("gpuforge-train"),
        // Experimental ones need a promise that we cannot make; nothing that Burn compiles to WGSL uses them.
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
    let own = setup.clone();
    let given = ExternalDevice { adapter: own.adapter, device: own.device, queue: own.queue };
    // As nobody's own number it gives way to what the driver says.
    let origin = BudgetOrigin::ShareOfSystem { percent: SYSTEM_SHARE_PERCENT };
    let budget = Budget { bytes: resources::memory().map_or(UNKNOWN, Bytes), origin };
    let settings = RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
    let opener = GpuOpener { external: Some(given.clone()), ..GpuOpener::default() };
    let runner = Arc::new(Runner::new(Box::new(opener), settings));
    runner.warm().map_err(|e| TrainError::NoGpu(e.to_string()))?;
    let memory = runner.session().map(|s| s.memory().stats().budget.bytes.0);
    let shared = Some(SharedDevice { given, setup });
    let backend = TrainBackend { shared, memory, ..TrainBackend::new(device) };
    Ok(SharedGpu { backend, runner, name: format!("{} ({:?})", info.name, info.backend) })
}

/// What a training goes on with when its device was lost for the `times`th time: the device opened again, or the CPU;
/// with the features made there anew.
pub fn replace(
    lost: &TrainBackend,
    times: usize,
    market: &MarketData,
    recipe: &Recipe,
) -> Result<(TrainBackend, Dataset, String), TrainError> {
    if let (Some(shared), true) = (&lost.shared, times <= REBUILDS)
        && let Ok(gpu) = rebuild(shared)
        && let Ok(data) = Dataset::on_device(market, recipe, &gpu.runner)
    {
        return Ok((gpu.backend, data, gpu.name));
    }
    Ok((TrainBackend::cpu(), Dataset::on_cpu(market, recipe)?, "cpu".to_owned()))
}

/// Rows that our kernels wrote, as a tensor of Burn's on the same device: a copy from buffer to buffer.
pub(crate) fn adopt(
    features: &Features,
    runner: &Runner,
    backend: &TrainBackend,
) -> Result<Tensor<2>, TrainError> {
    let failed = |why: String| TrainError::Device { step: 0, why };
    let shared = backend.shared.as_ref();
    let shared = shared.ok_or_else(|| failed("features are on a device that is not shared".to_owned()))?;
    let given = &shared.given;
    let session =
        runner.session().ok_or_else(|| failed("the device that made the features is gone".to_owned()))?;
    let (rows, columns) = (features.rows(), features.columns());
    let tensor: Tensor<2> = Tensor::empty([rows, columns], &backend.device);
    let own = tensor.clone().try_into_primitive::<Wgpu>().map_err(|e| failed(format!("{e:?}")))?;
    let there = own.client.get_resource::<WgpuServer<AutoCompiler>>(own.handle.clone());
    let there = there.map_err(|e| failed(format!("{e:?}")))?;
    let there = there.resource();
    let size = 4 * (rows * columns) as u64;
    if there.size < size {
        return Err(failed(format!("a tensor of {size} bytes lies in {} bytes", there.size)));
    }
    let mut encoder = given.device.create_command_encoder(&Default::default());
    for chunk in features.chunks() {
        let buffer = session.raw_buffer(&chunk.values, DEADLINE).map_err(|e| failed(e.to_string()))?;
        let [from, bytes] = [chunk.rows.start, chunk.rows.len()].map(|r| 4 * (r * columns) as u64);
        encoder.copy_buffer_to_buffer(&buffer, 0, &there.buffer, there.offset + from, bytes);
    }
    given.queue.submit([encoder.finish()]);
    Ok(tensor)
}
