//! Device-resident dataset: features and targets are uploaded once, an epoch's order once per epoch; a step draws its
//! batch by index and downloads two numbers. Every transferred byte is counted here, and nowhere else in this crate do
//! tensors meet host memory (a test reads the sources).

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

/// Bytes between host and device, by what they are.
#[derive(Debug, Default)]
pub struct TransferMeter {
    features: AtomicU64,
    targets: AtomicU64,
    orders: AtomicU64,
    parameters: AtomicU64,
    scalars: AtomicU64,
    answers: AtomicU64,
}

/// What a meter shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TransferBytes {
    /// Features, up.
    pub features: u64,
    /// Targets and places of windows, up.
    pub targets: u64,
    /// Orders of epochs and lists of samples, up.
    pub orders: u64,
    /// Parameters and moments, both ways: at the beginning, at checkpoints and at the end.
    pub parameters: u64,
    /// Losses and norms, down.
    pub scalars: u64,
    /// Answers of the model, down: after epochs and at the end.
    pub answers: u64,
}

impl TransferMeter {
    /// So far.
    pub fn read(&self) -> TransferBytes {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransferBytes {
            features: of(&self.features),
            targets: of(&self.targets),
            orders: of(&self.orders),
            parameters: of(&self.parameters),
            scalars: of(&self.scalars),
            answers: of(&self.answers),
        }
    }
}

/// A device with its meter.
#[derive(Clone)]
pub struct TrainBackend {
    /// Burn's device.
    pub device: Device,
    /// What crossed.
    pub meter: Arc<TransferMeter>,
    /// What a training may plan with of its memory, where that is known.
    pub memory: Option<u64>,
    /// The same device as our runtime uses it, where it is a GPU that both share.
    pub shared: Option<SharedDevice>,
}

fn add(counter: &AtomicU64, numbers: usize) {
    counter.fetch_add(4 * numbers as u64, Ordering::Relaxed);
}

impl TrainBackend {
    /// A device with a new meter.
    pub fn new(device: Device) -> TrainBackend {
        TrainBackend { device, meter: Arc::default(), memory: None, shared: None }
    }

    /// The CPU.
    pub fn cpu() -> TrainBackend {
        TrainBackend { memory: resources::memory(), ..TrainBackend::new(Device::flex()) }
    }

    /// A vector of parameters or moments, up.
    pub fn parameters(&self, values: &[f32]) -> Tensor<1> {
        add(&self.meter.parameters, values.len());
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &self.device)
    }

    /// The same, down.
    pub fn fetch(&self, values: Tensor<1>) -> Result<Vec<f32>, String> {
        let values = values.try_into_vec_as::<f32>().map_err(|e| e.to_string())?;
        add(&self.meter.parameters, values.len());
        Ok(values)
    }

    /// Losses and norms, down.
    pub fn scalars(&self, values: Tensor<1>) -> Result<Vec<f32>, String> {
        let values = values.try_into_vec_as::<f32>().map_err(|e| e.to_string())?;
        add(&self.meter.scalars, values.len());
        Ok(values)
    }

    /// Answers of a model, down.
    pub fn answers(&self, values: Tensor<2>) -> Result<Vec<f32>, String> {
        let values = values.try_into_vec_as::<f32>().map_err(|e| e.to_string())?;
        add(&self.meter.answers, values.len());
        Ok(values)
    }

    /// A list of samples, up.
    pub fn order(&self, samples: &[u32]) -> SampleOrder {
        add(&self.meter.orders, samples.len());
        SampleOrder { there: self.whole(samples), here: self.is_host().then(|| samples.into()) }
    }

    /// Rows of features, up.
    pub fn rows(&self, rows: HostRows) -> Tensor<2> {
        self.matrix(&self.meter.features, rows.values, rows.columns)
    }

    /// What the CPU made, as a tensor of its own: nothing crosses.
    pub(crate) fn own(&self, values: Vec<f32>) -> Tensor<1> {
        let count = values.len();
        Tensor::from_data(TensorData::new(values, [count]), &self.device)
    }

    fn is_host(&self) -> bool {
        self.device == Device::flex()
    }

    fn whole(&self, values: &[u32]) -> Tensor<1, Int> {
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

/// Features and targets of a data set on a device.
pub struct DeviceTable {
    /// Where.
    pub backend: TrainBackend,
    /// `[rows, features]`.
    features: Tensor<2>,
    /// `[samples, outputs]`.
    targets: Tensor<2>,
    /// Last row of each sample's window.
    ends: Tensor<1, Int>,
    /// The same where the device is the CPU.
    ends_here: Option<Arc<[u32]>>,
    /// 1 - window to 0.
    back: Tensor<2, Int>,
    window: usize,
}

/// A list of samples on the device.
#[derive(Clone)]
pub struct SampleOrder {
    there: Tensor<1, Int>,
    /// The same where the device is the CPU.
    here: Option<Arc<[u32]>>,
}

/// Some samples of a table in host memory.
#[derive(Clone, Copy)]
pub(crate) struct HostBatch<'a> {
    features: &'a [f32],
    targets: &'a [f32],
    ends: &'a [u32],
    columns: usize,
    window: usize,
    /// Numbers of a target.
    pub(crate) outputs: usize,
    /// Which ones.
    pub(crate) samples: &'a [u32],
}

impl<'a> HostBatch<'a> {
    /// Others of the same table.
    pub(crate) fn with<'b>(&self, samples: &'b [u32]) -> HostBatch<'b>
    where
        'a: 'b,
    {
        HostBatch { samples, ..*self }
    }

    /// Copies the windows of all samples behind each other.
    pub(crate) fn gather(&self, to: &mut [f32]) {
        let width = self.window * self.columns;
        for (to, sample) in to.chunks_exact_mut(width.max(1)).zip(self.samples) {
            let end = self.ends.get(*sample as usize).map_or(0, |row| (*row as usize + 1) * self.columns);
            // Rows of a window follow each other.
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

/// One batch on the device.
pub struct DeviceBatch {
    /// `[batch, window, features]`.
    pub x: Tensor<3>,
    /// `[batch, outputs]`.
    pub y: Tensor<2>,
}

impl DeviceTable {
    /// Sends a data set up, once. Numbers of a regression are divided by `scale`; classes become columns of 0 and 1.
    pub fn new(backend: TrainBackend, data: &Dataset, scale: f32) -> Result<DeviceTable, TrainError> {
        let features = match &data.rows {
            Rows::Host(rows) => backend.rows(rows.clone()),
            Rows::Device { features, runner } => crate::shared_device::adopt(features, runner, &backend)?,
        };
        Ok(DeviceTable::over(backend, data, scale, features))
    }

    /// With features that are on the device already.
    fn over(backend: TrainBackend, data: &Dataset, scale: f32, features: Tensor<2>) -> DeviceTable {
        let outputs = data.recipe.target.outputs();
        let target = &data.samples.target;
        let spread: Vec<f32> = match outputs {
            1 => target.iter().map(|y| y / scale).collect(),
            _ => target.iter().flat_map(|y| (0..outputs).map(move |k| f32::from(*y == k as f32))).collect(),
        };
        DeviceTable::from_parts(backend, features, &data.samples.row, spread, data.recipe.window)
    }

    /// From a matrix of features, last rows of windows, and their targets, the values of a sample contiguous.
    pub fn from_parts(
        backend: TrainBackend,
        features: Tensor<2>,
        ends: &[u32],
        targets: Vec<f32>,
        window: usize,
    ) -> DeviceTable {
        let outputs = targets.len() / ends.len().max(1);
        let targets = backend.matrix(&backend.meter.targets, targets, outputs);
        add(&backend.meter.targets, ends.len());
        let ends_here = backend.is_host().then(|| ends.into());
        let ends = backend.whole(ends);
        let back = Tensor::<1, Int>::arange(1 - window as i64..1, &backend.device).reshape([1, window]);
        DeviceTable { backend, features, targets, ends, ends_here, back, window }
    }

    /// Numbers of a window.
    pub fn width(&self) -> usize {
        let [_, features] = self.features.dims();
        features * self.window
    }

    /// The samples of a range of an order; nothing but indices is touched, and they are on the device.
    pub fn draw(&self, order: &SampleOrder, of: Range<usize>) -> DeviceBatch {
        let batch = of.len();
        let samples = order.there.clone().slice([of]);
        let ends = self.ends.clone().select(0, samples.clone());
        let rows = match self.window {
            1 => ends,
            window => (ends.reshape([batch, 1]) + self.back.clone()).reshape([batch * window]),
        };
        let [_, features] = self.features.dims();
        let x = self.features.clone().select(0, rows).reshape([batch, self.window, features]);
        DeviceBatch { x, y: self.targets.clone().select(0, samples) }
    }

    /// Shows samples of a range of an order in host memory; `None` where the device is not the CPU.
    pub(crate) fn on_host<T>(
        &self,
        order: &SampleOrder,
        of: Range<usize>,
        work: impl FnOnce(&HostBatch<'_>) -> T,
    ) -> Option<T> {
        let ends = self.ends_here.as_deref()?;
        let samples = order.here.as_deref()?.get(of)?;
        let features = self.features.clone().try_into_primitive::<Flex>().ok()?;
        let targets = self.targets.clone().try_into_primitive::<Flex>().ok()?;
        let ([_, columns], [_, outputs]) = (self.features.dims(), self.targets.dims());
        Some(work(&HostBatch {
            features: features.as_slice()?,
            targets: targets.as_slice()?,
            ends,
            columns,
            window: self.window,
            outputs,
            samples,
        }))
    }

    /// Feature permuted between the samples of a batch: column `feature` of `x` becomes that of `other`.
    pub fn permute_feature(x: Tensor<3>, other: Tensor<3>, feature: usize) -> Tensor<3> {
        let [batch, window, _] = x.dims();
        let backend = [0..batch, 0..window, feature..feature + 1];
        x.slice_assign(backend.clone(), other.slice(backend))
    }
}
