//! Training loop: epochs of checked steps, checkpoints, and recovery from non-finite numbers, OOM and device lost.
//!
//! A run is a function of its [`TrainConfig`] and its data: shuffles and initial weights come from the seed, so a run that was
//! killed and resumed ends with bit-identical weights (on the CPU; devices do not guarantee the summation order).

mod batch_size;
mod fault;
mod nan_source;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use burn::tensor::Tensor;

use crate::{
    checkpoint::{Checkpoint, Epoch, Progress},
    config::{BatchSize, OnNan, TrainConfig},
    data::{Dataset, split::Fold},
    device_table::{DeviceTable, SampleOrder, TrainBackend},
    error::TrainError,
    net::{Gradient, Net, Precision},
    rng::SeededRng,
    score,
};
pub use fault::{Fault, Faults};

/// Consecutive non-finite batches after which training stops.
const MAX_CONSECUTIVE_FAILURES: usize = 10;
/// Activation values per inference batch.
const INFERENCE_VALUES: usize = 1 << 20;
/// Dynamic loss scaling for f16: initial and maximum scale.
const INITIAL_LOSS_SCALE: f32 = 4096.0;
const MAX_LOSS_SCALE: f32 = 65536.0;
/// Finite steps before the loss scale is doubled.
const LOSS_SCALE_GROWTH_STEPS: u32 = 500;
/// RNG stream of the epoch shuffles.
const ORDER: u64 = 1 << 32;

/// Recovery callback: given the lost backend and the number of losses so far, a table on another device and its name.
pub type DeviceRecovery<'a> = dyn Fn(&TrainBackend, usize) -> Result<(DeviceTable, String), TrainError> + 'a;

/// Input of [`fit`].
pub struct FitJob<'a> {
    /// Configuration.
    pub config: &'a TrainConfig,
    /// Dataset.
    pub data: &'a Dataset,
    /// Fold.
    pub fold: &'a Fold,
    /// Target scale.
    pub scale: f32,
    /// Checkpoint file.
    pub file: Option<PathBuf>,
    /// Steps between checkpoints, beside the one after every epoch.
    pub every: Option<u64>,
    /// Resume from the existing checkpoint.
    pub resume: bool,
    /// Called when the device is lost.
    pub recover: Option<&'a DeviceRecovery<'a>>,
    /// Fault injection for tests.
    pub faults: Faults,
}

/// Training events.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Training started or resumed.
    Started {
        /// Steps already done.
        step: u64,
        /// Samples per step.
        batch: usize,
        /// How the batch size was chosen.
        why: String,
    },
    /// A step was applied.
    Step(StepProgress),
    /// An epoch ended.
    Epoch(Epoch),
    /// A non-finite batch was skipped.
    Skipped {
        /// Why.
        error: String,
    },
    /// Out of memory: the batch size was halved.
    BatchHalved {
        /// New batch size.
        batch: usize,
    },
    /// f16 gradients overflowed: the loss scale was halved.
    LossScaleReduced {
        /// New loss scale.
        scale: f32,
    },
    /// The device was lost; training continues on another one.
    Recovered {
        /// Step of the restored checkpoint.
        step: u64,
        /// The new device.
        device: String,
        /// The backend's message.
        why: String,
    },
    /// Early stopping.
    EarlyStop {
        /// The best epoch.
        best: usize,
    },
}

/// Metrics of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepProgress {
    /// Step number.
    pub step: u64,
    /// The epoch, from 0.
    pub epoch: usize,
    /// Fraction of the training done.
    pub done: f64,
    /// Loss of this step.
    pub loss: f32,
    /// Gradient norm.
    pub norm: f32,
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Throughput of this process in samples per second.
    pub samples_per_second: f64,
    /// Estimated time left.
    pub eta: Duration,
}

/// Output of [`fit`].
#[derive(Debug, Clone, PartialEq)]
pub struct FitResult {
    /// Parameters of the best validation epoch.
    pub weights: Vec<f32>,
    /// Final loop state.
    pub progress: Progress,
    /// Throughput of this process in samples per second.
    pub samples_per_second: f64,
    /// The device it ended on, if not the one it started on.
    pub device: Option<String>,
}

/// Runs the training loop. After a device loss, `table` is replaced by one on another device.
pub fn fit(
    job: &FitJob<'_>,
    table: &mut DeviceTable,
    on_event: &mut dyn FnMut(Event),
) -> Result<FitResult, TrainError> {
    job.config.check()?;
    let saved = match (&job.file, job.resume) {
        (Some(file), true) if file.exists() => Some(Checkpoint::read_for(file, job.config)?),
        _ => None,
    };
    let mut state = FitState::start(job, table, saved, on_event)?;
    while !state.finished() {
        match state.run_epoch(on_event) {
            Ok(()) => {}
            Err(EpochError::Train(error)) => return Err(error),
            Err(EpochError::DeviceLost(why)) => state.recover(why, on_event)?,
        }
    }
    let samples_per_second = state.samples_per_second();
    // Saved after every epoch, so a device lost now loses nothing.
    Ok(FitResult {
        weights: state.saved.best,
        progress: state.progress,
        samples_per_second,
        device: state.device,
    })
}

/// Why an epoch was aborted.
enum EpochError {
    Train(TrainError),
    DeviceLost(String),
}

impl From<Fault> for EpochError {
    fn from(fault: Fault) -> EpochError {
        let (Fault::OutOfMemory(why) | Fault::DeviceLost(why)) = fault;
        EpochError::DeviceLost(why)
    }
}

impl From<TrainError> for EpochError {
    fn from(error: TrainError) -> EpochError {
        EpochError::Train(error)
    }
}

struct FitState<'a, 'j> {
    job: &'a FitJob<'j>,
    table: &'a mut DeviceTable,
    net: Net,
    best: Tensor<1>,
    progress: Progress,
    /// Last checkpoint: restored after a device loss.
    saved: Checkpoint,
    began: Instant,
    /// Samples processed by this process.
    samples_seen: u64,
    consecutive_failures: usize,
    /// Number of device losses, and the device used since.
    lost: usize,
    device: Option<String>,
    faults: Faults,
}

impl<'a, 'j> FitState<'a, 'j> {
    fn start(
        job: &'a FitJob<'j>,
        table: &'a mut DeviceTable,
        saved: Option<Checkpoint>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Self, TrainError> {
        let fresh = saved.is_none();
        let saved = saved.unwrap_or_else(|| {
            let weights = job.config.spec.init(job.config.seed);
            let zeros = vec![0.0; weights.len()];
            let loss_scale = if job.config.precision == Precision::F16 { INITIAL_LOSS_SCALE } else { 1.0 };
            let progress = Progress { lr_factor: 1.0, loss_scale, ..Progress::default() };
            let (first_moment, second_moment, best) = (zeros.clone(), zeros, weights.clone());
            Checkpoint { config: job.config.clone(), progress, weights, first_moment, second_moment, best }
        });
        let device = &table.backend.device;
        if !job.config.precision.is_on(device) {
            return Err(TrainError::Precision {
                precision: job.config.precision.name(),
                device: format!("{device:?}"),
            });
        }
        let (net, best) = to_device(&saved, table);
        let mut state = FitState {
            job,
            table,
            net,
            best,
            progress: saved.progress.clone(),
            saved,
            began: Instant::now(),
            samples_seen: 0,
            consecutive_failures: 0,
            lost: 0,
            device: None,
            faults: job.faults.clone(),
        };
        state.net.recompute |= batch_size::needs_recompute(&state.net, state.table);
        let why = match (job.config.batch, state.progress.batch) {
            (_, batch) if batch > 0 => "as before".to_owned(),
            (BatchSize::Of(batch), _) => {
                state.progress.batch = batch;
                "as requested".to_owned()
            }
            (BatchSize::Auto, _) => {
                let (batch, why) =
                    batch_size::choose(&state.net, state.table, &job.fold.train.samples, job.config);
                state.progress.batch = batch;
                why
            }
        };
        if fresh {
            state.saved.progress = state.progress.clone();
        }
        state.began = Instant::now();
        on_event(Event::Started { step: state.progress.step, batch: state.progress.batch, why });
        Ok(state)
    }

    fn finished(&self) -> bool {
        self.progress.stopped_early || self.progress.epoch >= self.job.config.epochs
    }

    fn samples_per_second(&self) -> f64 {
        self.samples_seen as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// Shuffled sample order of this epoch.
    fn order(&self) -> Vec<u32> {
        let mut samples = self.job.fold.train.samples.clone();
        SeededRng::new(self.job.config.seed, ORDER + self.progress.epoch as u64).shuffle(&mut samples);
        samples
    }

    fn run_epoch(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), EpochError> {
        let began = Instant::now();
        let samples = self.order();
        let order = fault::guard(|| Ok(self.table.backend.order(&samples)))?;
        while self.progress.epoch_samples < samples.len() {
            let range = self.progress.epoch_samples
                ..(self.progress.epoch_samples + self.progress.batch).min(samples.len());
            match self.gradient(&order, range.clone()) {
                Ok((gradient, scalars)) => self.advance(gradient, scalars, &samples, range, on_event)?,
                Err(Fault::OutOfMemory(why)) => self.halve_batch(why, on_event)?,
                Err(Fault::DeviceLost(why)) => return Err(EpochError::DeviceLost(why)),
            }
            if self.job.every.is_some_and(|n| n > 0 && self.progress.step.is_multiple_of(n)) {
                self.save()?;
            }
        }
        self.end_epoch(began, on_event)?;
        Ok(())
    }

    /// Gradient, loss and norm of a batch; device failures are classified as [`Fault`]s.
    fn gradient(
        &mut self,
        order: &SampleOrder,
        range: std::ops::Range<usize>,
    ) -> Result<(Gradient, [f32; 2]), Fault> {
        if let Some(fault) = self.faults.next(self.progress.step, range.len()) {
            return Err(fault);
        }
        let (table, net, target) = (&*self.table, &self.net, self.job.data.recipe.target);
        fault::guard(|| {
            let gradient = net.gradient_of(table, order, range, target);
            let scalars = table.backend.scalars(gradient.scalars.clone())?;
            match scalars.as_slice() {
                [loss, norm] => Ok((gradient, [*loss, *norm])),
                _ => Err("the device returned no loss".to_owned()),
            }
        })
    }

    /// Applies a gradient, or the non-finite policy.
    fn advance(
        &mut self,
        gradient: Gradient,
        [loss, norm]: [f32; 2],
        samples: &[u32],
        range: std::ops::Range<usize>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), EpochError> {
        let count = range.len();
        if loss.is_finite() && !norm.is_finite() && self.progress.loss_scale > 1.0 {
            // f16 overflow of the scaled gradient, not of the batch: retry the same batch with a smaller scale.
            self.rescale(self.progress.loss_scale / 2.0);
            on_event(Event::LossScaleReduced { scale: self.progress.loss_scale });
            return Ok(());
        }
        if !(loss.is_finite() && norm.is_finite()) {
            let list = samples.get(range).unwrap_or_default();
            let error = self
                .non_finite_error(if loss.is_finite() { "an infinite gradient" } else { "a NaN loss" }, list);
            return Ok(self.handle_non_finite(error, count, on_event)?);
        }
        self.consecutive_failures = 0;
        let optimiser = &self.job.config.optimiser;
        let learning_rate = optimiser.learning_rate_at(self.fraction_done()) * self.progress.lr_factor;
        let net = &mut self.net;
        fault::guard(|| {
            net.step(gradient.flat, optimiser.clip_factor(norm), learning_rate as f32, optimiser);
            Ok(())
        })?;
        self.progress.steps_since_rescale += 1;
        if self.job.config.precision == Precision::F16
            && self.progress.steps_since_rescale >= LOSS_SCALE_GROWTH_STEPS
            && self.progress.loss_scale < MAX_LOSS_SCALE
        {
            self.rescale(self.progress.loss_scale * 2.0);
        }
        self.progress.loss_sum.0 += f64::from(loss);
        self.progress.loss_sum.1 += 1;
        self.count_batch(count);
        let (done, samples_per_second) = (self.fraction_done(), self.samples_per_second());
        let total = (self.job.fold.train.samples.len() * self.job.config.epochs) as f64;
        let eta = Duration::try_from_secs_f64((1.0 - done).max(0.0) * total / samples_per_second)
            .unwrap_or_default();
        let (step, epoch) = (self.progress.step, self.progress.epoch);
        on_event(Event::Step(StepProgress {
            step,
            epoch,
            done,
            loss,
            norm,
            learning_rate,
            samples_per_second,
            eta,
        }));
        Ok(())
    }

    fn rescale(&mut self, scale: f32) {
        (self.progress.loss_scale, self.progress.steps_since_rescale, self.net.loss_scale) =
            (scale, 0, scale);
    }

    /// Counts a batch, applied or skipped.
    fn count_batch(&mut self, count: usize) {
        self.progress.epoch_samples += count;
        self.progress.batch_index += 1;
        self.progress.step += 1;
        self.samples_seen += count as u64;
    }

    /// Fraction of all samples of all epochs done.
    fn fraction_done(&self) -> f64 {
        let each = self.job.fold.train.samples.len().max(1) as f64;
        (self.progress.epoch as f64 + self.progress.epoch_samples as f64 / each)
            / self.job.config.epochs.max(1) as f64
    }

    fn non_finite_error(&self, what: &'static str, samples: &[u32]) -> TrainError {
        TrainError::NotFinite {
            step: self.progress.step,
            epoch: self.progress.epoch + 1,
            batch: self.progress.batch_index + 1,
            what,
            cause: nan_source::describe(self.job.data, self.table, samples),
        }
    }

    /// Applies the `--on-nan` policy.
    fn handle_non_finite(
        &mut self,
        error: TrainError,
        count: usize,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        self.consecutive_failures += 1;
        if self.job.config.on_nan == OnNan::Stop {
            return Err(error);
        }
        if self.consecutive_failures >= MAX_CONSECUTIVE_FAILURES {
            let cause = error.to_string().lines().next().unwrap_or_default().to_owned();
            return Err(TrainError::NeverFinite {
                count: self.consecutive_failures,
                step: self.progress.step,
                cause,
            });
        }
        if self.job.config.on_nan == OnNan::ReduceLr {
            self.progress.lr_factor /= 2.0;
            let updates = self.net.steps;
            let recompute = self.net.recompute;
            (self.net, _) = to_device(&self.saved, self.table);
            (self.net.recompute, self.net.loss_scale) = (recompute, self.progress.loss_scale);
            self.net.steps = updates.min(self.saved.progress.updates.max(1));
        }
        self.progress.skipped += 1;
        self.count_batch(count);
        on_event(Event::Skipped { error: error.to_string() });
        Ok(())
    }

    fn halve_batch(&mut self, why: String, on_event: &mut dyn FnMut(Event)) -> Result<(), TrainError> {
        if self.progress.batch <= 1 {
            return Err(TrainError::OutOfMemory { batch: self.progress.batch, why });
        }
        self.progress.batch /= 2;
        self.table.backend.device.memory_cleanup();
        on_event(Event::BatchHalved { batch: self.progress.batch });
        Ok(())
    }

    /// End of an epoch: validation, best weights, early stopping, checkpoint.
    fn end_epoch(&mut self, began: Instant, on_event: &mut dyn FnMut(Event)) -> Result<(), EpochError> {
        let (data, config) = (self.job.data, self.job.config);
        let list = &self.job.fold.validation.samples;
        let predictions = fault::guard(|| predict(&self.net, self.table, list))?;
        let targets: Vec<f32> =
            list.iter().filter_map(|i| data.samples.target.get(*i as usize)).copied().collect();
        let validation = score::scores(data.recipe.target, &predictions, &targets, self.job.scale);
        let loss = validation.loss.unwrap_or(f64::INFINITY);
        let best = self.progress.best.map_or(f64::INFINITY, |(min, _)| min);
        if loss < best {
            self.progress.best = Some((loss, self.progress.epoch));
            self.best = self.net.flat.clone();
        }
        let (sum, count) = self.progress.loss_sum;
        let epoch = Epoch {
            epoch: self.progress.epoch,
            train_loss: sum / count.max(1) as f64,
            validation,
            learning_rate: config.optimiser.learning_rate_at(self.fraction_done()) * self.progress.lr_factor,
            seconds: began.elapsed().as_secs_f64(),
        };
        self.progress.history.push(epoch.clone());
        let epochs_since_best = self.progress.epoch - self.progress.best.map_or(0, |(_, at)| at);
        self.progress.stopped_early = config.patience > 0 && epochs_since_best >= config.patience;
        self.progress.epoch += 1;
        self.progress.epoch_samples = 0;
        self.progress.batch_index = 0;
        self.progress.loss_sum = (0.0, 0);
        self.save()?;
        on_event(Event::Epoch(epoch));
        if self.progress.stopped_early {
            on_event(Event::EarlyStop { best: self.progress.best.map_or(0, |(_, at)| at) });
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), EpochError> {
        self.progress.updates = self.net.steps;
        let fetch = |values: &Tensor<1>| self.table.backend.fetch(values.clone());
        let (net, best) = (&self.net, &self.best);
        let [weights, first_moment, second_moment, best] = fault::guard(|| {
            Ok([fetch(&net.flat)?, fetch(&net.first_moment)?, fetch(&net.second_moment)?, fetch(best)?])
        })?;
        let (config, progress) = (self.job.config.clone(), self.progress.clone());
        self.saved = Checkpoint { config, progress, weights, first_moment, second_moment, best };
        match &self.job.file {
            Some(file) => Ok(self.saved.write(file)?),
            None => Ok(()),
        }
    }

    /// Device-lost recovery: continues from the last checkpoint on another device.
    fn recover(&mut self, why: String, on_event: &mut dyn FnMut(Event)) -> Result<(), TrainError> {
        let Some(recover) = self.job.recover else {
            return Err(TrainError::Device { step: self.progress.step, why });
        };
        self.lost += 1;
        let (table, device) = recover(&self.table.backend, self.lost)?;
        *self.table = table;
        (self.net, self.best) = to_device(&self.saved, self.table);
        self.net.recompute |= batch_size::needs_recompute(&self.net, self.table);
        if !self.net.precision.is_on(&self.table.backend.device) {
            // The new device lacks the half precision: fall back to f32.
            (self.net.precision, self.net.loss_scale) = (Precision::F32, 1.0);
        }
        self.progress = self.saved.progress.clone();
        on_event(Event::Recovered { step: self.progress.step, device: device.clone(), why });
        self.device = Some(device);
        Ok(())
    }
}

/// Uploads a checkpoint: the network, and the best parameters.
fn to_device(saved: &Checkpoint, table: &DeviceTable) -> (Net, Tensor<1>) {
    let up = |values: &[f32]| table.backend.parameters(values);
    let (flat, first_moment, second_moment) =
        (up(&saved.weights), up(&saved.first_moment), up(&saved.second_moment));
    let mut net =
        Net::from_parts(&saved.config.spec, flat, first_moment, second_moment, saved.progress.updates);
    net.recompute = saved.config.recompute;
    net.precision = saved.config.precision;
    net.loss_scale = saved.progress.loss_scale;
    (net, up(&saved.best))
}

/// Predictions for some samples, in inference batches.
pub fn predict(net: &Net, table: &DeviceTable, samples: &[u32]) -> Result<Vec<f32>, String> {
    let order = table.backend.order(samples);
    let mut all = Vec::with_capacity(samples.len() * net.spec.outputs);
    let each = inference_batch(net);
    for first in (0..samples.len()).step_by(each) {
        let batch = table.batch(&order, first..(first + each).min(samples.len()));
        all.extend(table.backend.fetch_predictions(net.forward(batch.x).values)?);
    }
    Ok(all)
}

/// Inference batch size.
pub(crate) fn inference_batch(net: &Net) -> usize {
    let widest =
        net.spec.param_matrices().iter().map(|p| p.shape[1]).max().unwrap_or(1).max(net.spec.features);
    let tokens = if net.spec.window > 1 { net.spec.features.max(net.spec.window) } else { 1 };
    (INFERENCE_VALUES / (widest * tokens).max(1)).clamp(16, 8192)
}
