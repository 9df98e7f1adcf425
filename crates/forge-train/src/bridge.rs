//! Which device does Burn compute on, and how do our features get there? One wgpu device that Burn and our runtime share: our
//! kernels write the features, a copy on the device hands them to Burn, and no host sees them.
//!
//! Burn opens the device, because its compiler decides which features of the adapter it needs; our runtime takes the open
//! device ([`GivenDevice`]). Both submit to one queue, so that work runs in the order in which it was submitted; what Burn
//! still holds back is flushed when its buffer is asked for. The callbacks about losses are Burn's: a loss shows as a failed
//! step here ([`crate::fit::Fault`]) and as a failed job there.

use std::{sync::Arc, time::Duration};

use burn::{
    backend::Wgpu,
    cubecl::wgpu::{AutoCompiler, WgpuServer},
    tensor::{Device, Tensor},
};
use forge_resident::features::Features;
use forge_runtime::{
    engine::gpu::{GivenDevice, GpuOpener},
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};

use crate::{error::TrainError, table::Place};

/// How long features may take to be found on the device.
const DEADLINE: Duration = Duration::from_secs(60);
/// What our runtime may use of the device's memory; the rest is Burn's.
const OURS: Bytes = Bytes(1 << 30);

/// A GPU that Burn and our runtime share.
pub struct Gpu {
    /// Burn's side.
    pub place: Place,
    /// Our side.
    pub runner: Arc<Runner>,
    /// What it is called.
    pub name: String,
}

/// Opens the GPU that wgpu ranks best.
pub fn gpu() -> Result<Gpu, TrainError> {
    // The library that drives it panics where a driver cannot be loaded.
    let opened = std::panic::catch_unwind(|| Device::wgpu_options().init_with_setup());
    let (device, setup) = opened
        .map_err(|_| TrainError::NoGpu("opening it failed".to_owned()))?
        .map_err(|e| TrainError::NoGpu(e.to_string()))?;
    let info = setup.adapter.get_info();
    let given = GivenDevice { adapter: setup.adapter, device: setup.device, queue: setup.queue };
    let budget = Budget { bytes: OURS, origin: BudgetOrigin::User };
    let settings = RunnerSettings { cpu_fallback: false, ..RunnerSettings::new(StackSettings::new(budget)) };
    let opener = GpuOpener { given: Some(given.clone()), ..GpuOpener::default() };
    let runner = Arc::new(Runner::new(Box::new(opener), settings));
    let place = Place { given: Some(given), ..Place::new(device) };
    Ok(Gpu { place, runner, name: format!("{} ({:?})", info.name, info.backend) })
}

/// Rows that our kernels wrote, as a tensor of Burn's on the same device: a copy from buffer to buffer.
pub(crate) fn adopt(features: &Features, runner: &Runner, place: &Place) -> Result<Tensor<2>, TrainError> {
    let failed = |why: String| TrainError::Device { step: 0, why };
    let given = place
        .given
        .as_ref()
        .ok_or_else(|| failed("features are on a device that is not shared".to_owned()))?;
    let session =
        runner.session().ok_or_else(|| failed("the device that made the features is gone".to_owned()))?;
    let (rows, columns) = (features.rows(), features.columns());
    let tensor: Tensor<2> = Tensor::empty([rows, columns], &place.device);
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
        let buffer = session.lend(&chunk.values, DEADLINE).map_err(|e| failed(e.to_string()))?;
        let [from, bytes] = [chunk.rows.start, chunk.rows.len()].map(|r| 4 * (r * columns) as u64);
        encoder.copy_buffer_to_buffer(&buffer, 0, &there.buffer, there.offset + from, bytes);
    }
    given.queue.submit([encoder.finish()]);
    Ok(tensor)
}
