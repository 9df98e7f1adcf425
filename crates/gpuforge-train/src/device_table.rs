//! Device-resident dataset: features and targets are uploaded once, an epoch's order once per epoch; a step gathers its
//! batch by index and downloads two scalars. Every transferred byte is counted here; no other file of this crate moves tensors
//! to or from host memory (a test reads the sources).

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use burn::{
    backend::Flex,
    tensor::{Device, Int, Tensor, TensorData},
};
use gpuforge_indicators_gpu::features::HostRows;
use serde::Serialize;

use crate::{
    data::{Dataset, Rows},
    error::TrainError,
    resources,
    shared_device::SharedDevice,
};

/// Counters of host-device transfers, by kind.
#[derive(Debug, Default)]
pub struct TransferMeter {
    features: AtomicU64,
    targets: AtomicU64,
    orders: AtomicU64,
    parameters: AtomicU64,
    scalars: AtomicU64,
    predictions: AtomicU64,
}

/// Transferred bytes by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TransferBytes {
    /// Features, uploaded.
    pub features: u64,
    /// Targets and window ends, uploaded.
    pub targets: u64,
    /// Sample orders and index lists, uploaded.
    pub orders: u64,
    /// Parameters and moments, both directions: at start, at checkpoints and at the end.
    pub parameters: u64,
    /// Losses and gradient norms, downloaded.
    pub scalars: u64,
    /// Predictions, downloaded: after epochs and at the end.
    #[serde(rename = "answers")]
    pub predictions: u64,
}

impl TransferMeter {
    /// Bytes so far.
    pub fn read(&self) -> TransferBytes {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransferBytes {
            features: of(&self.features),
            targets: of(&self.targets),
            orders: of(&self.orders),
            parameters: of(&self.parameters),
            scalars: of(&self.scalars),
            predictions: of(&self.predictions),
        }
    }
}

/// A training device and its transfer meter.
#[derive(Clone)]
pub struct TrainBackend {
    /// Burn's device.
    pub device: Device,
    /// Transfer counters.
    pub meter: Arc<TransferMeter>,
    /// Memory budget for training, where known.
    pub memory: Option<u64>,
    /// Handles of the same device in our runtime, if it is a shared GPU.
    pub shared: Option<SharedDevice>,
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(4 * count as u64, Ordering::Relaxed);
}

impl TrainBackend {
    /// A device with zeroed counters.
    pub fn new(device: Device) -> TrainBackend {
        TrainBackend { device, meter: Arc::default(), memory: None, shared: None }
    }

    /// The CPU.
    pub fn cpu() -> TrainBackend {
        TrainBackend { memory: resources::memory_budget(), ..TrainBackend::new(Device::flex()) }
    }

    /// Uploads a vector of parameters or moments.
    pub fn parameters(&self, values: &[f32]) -> Tensor<1> {
        add(&self.meter.parameters, values.len());
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &self.device)
    }

    /// Downloads a vector of parameters or moments.
    pub fn fetch(&self, values: Tensor<1>) -> Result<Vec<f32>, String> {
        let values = values.try_into_vec_as::<f32>().map_err(|e| e.to_string())?;
        add(&self.meter.parameters, values.len());
        Ok(values)
    }

    /// Losses and gradient norms, downloaded.
    pub fn scalars(&self, values: Tensor<1>) -> Result<Vec<f32>, String> {
        let values = values.try_into_vec_as::<f32>().map_err(|e| e.to_string())?;
        add(&self.meter.scalars, values.len());
        Ok(values)
    }

    /// Downloads predictions.
    pub fn fetch_predictions(&self, values: Tensor<2>) -> Result<Vec<f32>, String> {
        let values = values.try_into_vec_as::<f32>().map_err(|e| e.to_string())?;
        add(&self.meter.predictions, values.len());
        Ok(values)
    }

    /// Uploads a list of sample indices.
    pub fn order(&self, samples: &[u32]) -> SampleOrder {
        add(&self.meter.orders, samples.len());
        SampleOrder { device: self.int_tensor(samples), host: self.is_host().then(|| samples.into()) }
    }

    /// Uploads feature rows.
    pub fn rows(&self, rows: HostRows) -> Tensor<2> {
        self.matrix(&self.meter.features, rows.values, rows.columns)
    }

    /// Wraps a host vector as a tensor of the CPU backend; not counted as a transfer.
    pub(crate) fn host_tensor(&self, values: Vec<f32>) -> Tensor<1> {
        let count = values.len();
        Tensor::from_data(TensorData::new(values, [count]), &self.device)
    }

    fn is_host(&self) -> bool {
        self.device == Device::flex()
    }

    fn int_tensor(&self, values: &[u32]) -> Tensor<1, Int> {
        let values: Vec<i32> = values.iter().map(|i| *i as i32).collect();
        let count = values.len();
        Tensor::from_data(TensorData::new(values, [count]), &self.device)
    }

    fn matrix(&self, counter: &AtomicU64, values: Vec<f32>, columns: usize) -> Tensor<2> {
        add(counter, values.len());
        let rows = values.len() / columns.max(1);
        Tensor::from_data(TensorData::new(values, [rows, columns]), &self.device)
    }
}

/// Features and targets of a dataset, resident on a device.
pub struct DeviceTable {
    /// The device.
    pub backend: TrainBackend,
    /// `[rows, features]`.
    features: Tensor<2>,
    /// `[samples, outputs]`.
    targets: Tensor<2>,
    /// Last row of each sample's window.
    window_ends: Tensor<1, Int>,
    /// The same in host memory, if the device is the CPU.
    host_window_ends: Option<Arc<[u32]>>,
    /// Row offsets of a window: 1 - window ..= 0.
    window_offsets: Tensor<2, Int>,
    window: usize,
}

/// Sample indices on the device, in training order.
#[derive(Clone)]
pub struct SampleOrder {
    device: Tensor<1, Int>,
    /// The same in host memory, if the device is the CPU.
    host: Option<Arc<[u32]>>,
}

/// A batch of a table that lies in host memory.
#[derive(Clone, Copy)]
pub(crate) struct HostBatch<'a> {
    features: &'a [f32],
    targets: &'a [f32],
    window_ends: &'a [u32],
    columns: usize,
    window: usize,
    /// Values per target.
    pub(crate) outputs: usize,
    /// Sample indices.
    pub(crate) samples: &'a [u32],
}

impl<'a> HostBatch<'a> {
    /// The same table with other samples.
    pub(crate) fn with<'b>(&self, samples: &'b [u32]) -> HostBatch<'b>
    where
        'a: 'b,
    {
        HostBatch { samples, ..*self }
    }

    /// Gathers the windows of all samples contiguously.
    pub(crate) fn gather(&self, to: &mut [f32]) {
        let width = self.window * self.columns;
        for (to, sample) in to.chunks_exact_mut(width.max(1)).zip(self.samples) {
            let end =
                self.window_ends.get(*sample as usize).map_or(0, |row| (*row as usize + 1) * self.columns);
            // Rows of a window are contiguous.
            match end.checked_sub(width).and_then(|first| self.features.get(first..end)) {
                Some(window) => to.copy_from_slice(window),
                None => to.fill(f32::NAN),
            }
        }
    }

    /// The target of a sample.
    pub(crate) fn target(&self, sample: u32) -> &[f32] {
        let first = sample as usize * self.outputs;
        self.targets.get(first..first + self.outputs).unwrap_or_default()
    }
}

/// A batch on the device.
pub struct DeviceBatch {
    /// `[batch, window, features]`.
    pub x: Tensor<3>,
    /// `[batch, outputs]`.
    pub y: Tensor<2>,
}

impl DeviceTable {
    /// Uploads a dataset once. Regression targets are divided by `scale`; classes are one-hot encoded.
    pub fn new(backend: TrainBackend, data: &Dataset, scale: f32) -> Result<DeviceTable, TrainError> {
        let features = match &data.rows {
            Rows::Host(rows) => backend.rows(rows.clone()),
            Rows::Device { features, runner } => {
                crate::shared_device::import_features(features, runner, &backend)?
            }
        };
        Ok(DeviceTable::with_features(backend, data, scale, features))
    }

    /// With features that are already on the device.
    fn with_features(backend: TrainBackend, data: &Dataset, scale: f32, features: Tensor<2>) -> DeviceTable {
        let outputs = data.recipe.target.outputs();
        let target = &data.samples.target;
        let values: Vec<f32> = match outputs {
            1 => target.iter().map(|y| y / scale).collect(),
            _ => target.iter().flat_map(|y| (0..outputs).map(move |k| f32::from(*y == k as f32))).collect(),
        };
        DeviceTable::from_parts(backend, features, &data.samples.last_row, values, data.recipe.window)
    }

    /// From a feature matrix, the last row of each window, and row-major targets.
    pub fn from_parts(
        backend: TrainBackend,
        features: Tensor<2>,
        window_ends: &[u32],
        targets: Vec<f32>,
        window: usize,
    ) -> DeviceTable {
        let outputs = targets.len() / window_ends.len().max(1);
        let targets = backend.matrix(&backend.meter.targets, targets, outputs);
        add(&backend.meter.targets, window_ends.len());
        let host_window_ends = backend.is_host().then(|| window_ends.into());
        let window_ends = backend.int_tensor(window_ends);
        let window_offsets =
            Tensor::<1, Int>::arange(1 - window as i64..1, &backend.device).reshape([1, window]);
        DeviceTable { backend, features, targets, window_ends, host_window_ends, window_offsets, window }
    }

    /// Values per window.
    pub fn width(&self) -> usize {
        let [_, features] = self.features.dims();
        features * self.window
    }

    /// Gathers a batch by index, on the device.
    pub fn batch(&self, order: &SampleOrder, range: Range<usize>) -> DeviceBatch {
        let batch = range.len();
        let samples = order.device.clone().slice([range]);
        let window_ends = self.window_ends.clone().select(0, samples.clone());
        let rows = match self.window {
            1 => window_ends,
            window => {
                (window_ends.reshape([batch, 1]) + self.window_offsets.clone()).reshape([batch * window])
            }
        };
        let [_, features] = self.features.dims();
        let x = self.features.clone().select(0, rows).reshape([batch, self.window, features]);
        DeviceBatch { x, y: self.targets.clone().select(0, samples) }
    }

    /// Calls `f` with a batch in host memory; `None` if the device is not the CPU.
    pub(crate) fn with_host_batch<T>(
        &self,
        order: &SampleOrder,
        range: Range<usize>,
        f: impl FnOnce(&HostBatch<'_>) -> T,
    ) -> Option<T> {
        let window_ends = self.host_window_ends.as_deref()?;
        let samples = order.host.as_deref()?.get(range)?;
        let features = self.features.clone().try_into_primitive::<Flex>().ok()?;
        let targets = self.targets.clone().try_into_primitive::<Flex>().ok()?;
        let ([_, columns], [_, outputs]) = (self.features.dims(), self.targets.dims());
        Some(f(&HostBatch {
            features: features.as_slice()?,
            targets: targets.as_slice()?,
            window_ends,
            columns,
            window: self.window,
            outputs,
            samples,
        }))
    }

    /// Permutes a feature between samples: column `feature` of `x` is replaced by that of `other`.
    pub fn permute_feature(x: Tensor<3>, other: Tensor<3>, feature: usize) -> Tensor<3> {
        let [batch, window, _] = x.dims();
        let column = [0..batch, 0..window, feature..feature + 1];
        x.slice_assign(column.clone(), other.slice(column))
    }
}
