//! Training loop: epochs of checked steps, checkpoints, and recovery from non-finite numbers, OOM and device lost.
//!
//! A training is a function of its [`TrainConfig`] and its data: orders and first parameters come from the seed, so that a run that
//! was killed and resumed ends with the weights of one that was not (CPU; devices do not promise the order of sums).

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

/// Batches without a finite gradient, one after the other, that are too many.
const MAX_CONSECUTIVE: usize = 10;
/// Numbers of activations of answers that are made at once.
const INFERENCE_VALUES: usize = 1 << 20;
/// What losses are multiplied by at first where gradients have 16 bits of a narrow range, and at most.
const FIRST_SCALE: f32 = 4096.0;
const MOST_SCALE: f32 = 65536.0;
/// Steps that must go well before it is doubled.
const STEADY: u32 = 500;
/// Purpose of the random numbers of an epoch's order.
const ORDER: u64 = 1 << 32;

/// The same table elsewhere, and what that is called: for a backend that was lost, and how often that happened.
pub type DeviceRecovery<'a> = dyn Fn(&TrainBackend, usize) -> Result<(DeviceTable, String), TrainError> + 'a;

/// What is to be done.
pub struct FitJob<'a> {
    /// What is learned.
    pub setup: &'a TrainConfig,
    /// From what.
    pub data: &'a Dataset,
    /// From which part of it.
    pub fold: &'a Fold,
    /// What targets are divided by.
    pub scale: f32,
    /// Where checkpoints go.
    pub file: Option<PathBuf>,
    /// Steps between checkpoints; one is written after every epoch in any case.
    pub every: Option<u64>,
    /// Go on from the checkpoint that is there?
    pub resume: bool,
    /// What to go on with, should the device be lost.
    pub recover: Option<&'a DeviceRecovery<'a>>,
    /// Failures on purpose, for tests.
    pub faults: Faults,
}

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Training begins or goes on.
    Init {
        /// Steps that are done already.
        step: u64,
        /// Samples of a step.
        batch: usize,
        /// How that was settled.
        why: String,
    },
    /// A step was made.
    Step(StepProgress),
    /// An epoch is done.
    Epoch(Epoch),
    /// A batch was left out.
    Skipped {
        /// Why.
        error: String,
    },
    /// Memory ran out; batches are smaller now.
    BatchHalved {
        /// Samples of a step from now on.
        batch: usize,
    },
    /// Gradients did not fit 16 bits; losses are multiplied by less now.
    Rescaled {
        /// By that.
        scale: f32,
    },
    /// The device was lost; another goes on.
    Recovered {
        /// From which step.
        step: u64,
        /// Which one.
        device: String,
        /// What was said.
        why: String,
    },
    /// Validation got no better for long enough.
    Early {
        /// The best epoch.
        best: usize,
    },
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepProgress {
    /// Steps.
    pub step: u64,
    /// The epoch, from 0.
    pub epoch: usize,
    /// Share of all samples of all epochs that are done.
    pub done: f64,
    /// Loss of this step.
    pub loss: f32,
    /// Length of the gradient.
    pub norm: f32,
    /// The rate of this step.
    pub rate: f64,
    /// Samples per second of this process.
    pub per_second: f64,
    /// What is left at this speed.
    pub left: Duration,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub struct FitResult {
    /// Parameters of the best validation.
    pub weights: Vec<f32>,
    /// How it went.
    pub progress: Progress,
    /// Samples per second of this process.
    pub per_second: f64,
    /// The device that it ended on, where that is not the one it began on.
    pub device: Option<String>,
}

/// Trains, and tells what happens. The table may be exchanged for one elsewhere.
pub fn fit(
    job: &FitJob<'_>,
    table: &mut DeviceTable,
    on_event: &mut dyn FnMut(Event),
) -> Result<FitResult, TrainError> {
    job.setup.check()?;
    let saved = match (&job.file, job.resume) {
        (Some(file), true) if file.exists() => Some(Checkpoint::read_for(file, job.setup)?),
        _ => None,
    };
    let mut run = FitState::begin(job, table, saved, on_event)?;
    while !run.over() {
        match run.epoch(on_event) {
            Ok(()) => {}
            Err(EpochError::Error(error)) => return Err(error),
            Err(EpochError::Lost(why)) => run.recover(why, on_event)?,
        }
    }
    let per_second = run.speed();
    // Saved after every epoch, so that a device that is lost now takes nothing with it.
    Ok(FitResult { weights: run.saved.best, progress: run.progress, per_second, device: run.device })
}

/// Why an epoch ended before its time.
enum EpochError {
    Error(TrainError),
    Lost(String),
}

impl From<Fault> for EpochError {
    fn from(fault: Fault) -> EpochError {
        let (Fault::Memory(why) | Fault::Lost(why)) = fault;
        EpochError::Lost(why)
    }
}

impl From<TrainError> for EpochError {
    fn from(error: TrainError) -> EpochError {
        EpochError::Error(error)
    }
}

struct FitState<'a, 'j> {
    job: &'a FitJob<'j>,
    table: &'a mut DeviceTable,
    net: Net,
    best: Tensor<1>,
    progress: Progress,
    /// What a lost device goes back to.
    saved: Checkpoint,
    began: Instant,
    /// Samples of this process.
    seen: u64,
    consecutive_failures: usize,
    /// Times that a device was lost, and what was then gone on with.
    lost: usize,
    device: Option<String>,
    faults: Faults,
}

impl<'a, 'j> FitState<'a, 'j> {
    fn begin(
        job: &'a FitJob<'j>,
        table: &'a mut DeviceTable,
        saved: Option<Checkpoint>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Self, TrainError> {
        let fresh = saved.is_none();
        let saved = saved.unwrap_or_else(|| {
            let weights = job.setup.spec.begin(job.setup.seed);
            let nothing = vec![0.0; weights.len()];
            let scale = if job.setup.precision == Precision::F16 { FIRST_SCALE } else { 1.0 };
            let progress = Progress { factor: 1.0, scale, ..Progress::default() };
            let (mean, square, best) = (nothing.clone(), nothing, weights.clone());
            Checkpoint { setup: job.setup.clone(), progress, weights, mean, square, best }
        });
        let device = &table.backend.device;
        if !job.setup.precision.is_on(device) {
            return Err(TrainError::Precision {
                precision: job.setup.precision.name(),
                device: format!("{device:?}"),
            });
        }
        let (net, best) = raise(&saved, table);
        let mut run = FitState {
            job,
            device_table,
            net,
            best,
            progress: saved.progress.clone(),
            saved,
            began: Instant::now(),
            seen: 0,
            consecutive_failures: 0,
            lost: 0,
            device: None,
            faults: job.faults.clone(),
        };
        run.net.recompute |= batch_size::is_short(&run.net, run.table);
        let why = match (job.setup.batch, run.progress.batch) {
            (_, batch) if batch > 0 => "as before".to_owned(),
            (BatchSize::Of(batch), _) => {
                run.progress.batch = batch;
                "as asked".to_owned()
            }
            (BatchSize::Auto, _) => {
                let (batch, why) =
                    batch_size::choose(&run.net, run.table, &job.fold.train.samples, job.setup);
                run.progress.batch = batch;
                why
            }
        };
        if fresh {
            run.saved.progress = run.progress.clone();
        }
        run.began = Instant::now();
        on_event(Event::Init { step: run.progress.step, batch: run.progress.batch, why });
        Ok(run)
    }

    fn over(&self) -> bool {
        self.progress.early || self.progress.epoch >= self.job.setup.epochs
    }

    fn speed(&self) -> f64 {
        self.seen as f64 / self.began.elapsed().as_secs_f64().max(1e-9)
    }

    /// The samples of an epoch in its order.
    fn order(&self) -> Vec<u32> {
        let mut samples = self.job.fold.train.samples.clone();
        SeededRng::new(self.job.setup.seed, ORDER + self.progress.epoch as u64).shuffle(&mut samples);
        samples
    }

    fn epoch(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), EpochError> {
        let began = Instant::now();
        let samples = self.order();
        let order = fault::guard(|| Ok(self.table.backend.order(&samples)))?;
        while self.progress.at < samples.len() {
            let of = self.progress.at..(self.progress.at + self.progress.batch).min(samples.len());
            match self.guarded(&order, of.clone()) {
                Ok((gradient, scalars)) => self.advance(gradient, scalars, &samples, of, on_event)?,
                Err(Fault::Memory(why)) => self.halve_batch(why, on_event)?,
                Err(Fault::Lost(why)) => return Err(EpochError::Lost(why)),
            }
            if self.job.every.is_some_and(|n| n > 0 && self.progress.step.is_multiple_of(n)) {
                self.save()?;
            }
        }
        self.close(began, on_event)?;
        Ok(())
    }

    /// The gradient of a batch and its two numbers; failures of the device as what can be done about them.
    fn guarded(
        &mut self,
        order: &SampleOrder,
        of: std::ops::Range<usize>,
    ) -> Result<(Gradient, [f32; 2]), Fault> {
        if let Some(fault) = self.faults.due(self.progress.step, of.len()) {
            return Err(fault);
        }
        let (table, net, target) = (&*self.table, &self.net, self.job.data.recipe.target);
        fault::guard(|| {
            let gradient = net.gradient_of(table, order, of, target);
            let scalars = table.backend.scalars(gradient.scalars.clone())?;
            match scalars.as_slice() {
                [loss, norm] => Ok((gradient, [*loss, *norm])),
                _ => Err("the device gave no loss".to_owned()),
            }
        })
    }

    /// Uses a gradient, or does what was settled for those that are no numbers.
    fn advance(
        &mut self,
        gradient: Gradient,
        [loss, norm]: [f32; 2],
        samples: &[u32],
        of: std::ops::Range<usize>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), EpochError> {
        let count = of.len();
        if loss.is_finite() && !norm.is_finite() && self.progress.scale > 1.0 {
            // Not the numbers of the batch, but those of its gradient in 16 bits: the same batch again.
            self.rescale(self.progress.scale / 2.0);
            on_event(Event::Rescaled { scale: self.progress.scale });
            return Ok(());
        }
        if !(loss.is_finite() && norm.is_finite()) {
            let list = samples.get(of).unwrap_or_default();
            let error =
                self.not_finite(if loss.is_finite() { "an infinite gradient" } else { "a NaN loss" }, list);
            return Ok(self.handle_non_finite(error, count, on_event)?);
        }
        self.consecutive_failures = 0;
        let steps = &self.job.setup.steps;
        let rate = steps.rate_at(self.done()) * self.progress.factor;
        let net = &mut self.net;
        fault::guard(|| {
            net.step(gradient.flat, steps.shorten(norm), rate as f32, steps);
            Ok(())
        })?;
        self.progress.steady += 1;
        if self.job.setup.precision == Precision::F16
            && self.progress.steady >= STEADY
            && self.progress.scale < MOST_SCALE
        {
            self.rescale(self.progress.scale * 2.0);
        }
        self.progress.losses.0 += f64::from(loss);
        self.progress.losses.1 += 1;
        self.pass(count);
        let (done, per_second) = (self.done(), self.speed());
        let total = (self.job.fold.train.samples.len() * self.job.setup.epochs) as f64;
        let left =
            Duration::try_from_secs_f64((1.0 - done).max(0.0) * total / per_second).unwrap_or_default();
        let (step, epoch) = (self.progress.step, self.progress.epoch);
        on_event(Event::Step(StepProgress { step, epoch, done, loss, norm, rate, per_second, left }));
        Ok(())
    }

    fn rescale(&mut self, scale: f32) {
        (self.progress.scale, self.progress.steady, self.net.scale) = (scale, 0, scale);
    }

    /// Counts a batch, used or not.
    fn pass(&mut self, count: usize) {
        self.progress.at += count;
        self.progress.batch_no += 1;
        self.progress.step += 1;
        self.seen += count as u64;
    }

    /// Share of all samples that are done.
    fn done(&self) -> f64 {
        let each = self.job.fold.train.samples.len().max(1) as f64;
        (self.progress.epoch as f64 + self.progress.at as f64 / each) / self.job.setup.epochs.max(1) as f64
    }

    fn not_finite(&self, what: &'static str, samples: &[u32]) -> TrainError {
        TrainError::NotFinite {
            step: self.progress.step,
            epoch: self.progress.epoch + 1,
            batch: self.progress.batch_no + 1,
            what,
            cause: nan_source::nan_source(self.job.data, self.table, samples),
        }
    }

    /// What was settled for numbers that run away.
    fn handle_non_finite(
        &mut self,
        error: TrainError,
        count: usize,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        self.consecutive_failures += 1;
        if self.job.setup.on_nan == OnNan::Stop {
            return Err(error);
        }
        if self.consecutive_failures >= MAX_CONSECUTIVE {
            let cause = error.to_string().lines().next().unwrap_or_default().to_owned();
            return Err(TrainError::NeverFinite {
                count: self.consecutive_failures,
                step: self.progress.step,
                cause,
            });
        }
        if self.job.setup.on_nan == OnNan::ReduceLr {
            self.progress.factor /= 2.0;
            let updates = self.net.steps;
            let recompute = self.net.recompute;
            (self.net, _) = raise(&self.saved, self.table);
            (self.net.recompute, self.net.scale) = (recompute, self.progress.scale);
            self.net.steps = updates.min(self.saved.progress.updates.max(1));
        }
        self.progress.skipped += 1;
        self.pass(count);
        on_event(Event::Skipped { error: error.to_string() });
        Ok(())
    }

    fn halve_batch(&mut self, why: String, on_event: &mut dyn FnMut(Event)) -> Result<(), TrainError> {
        if self.progress.batch <= 1 {
            return Err(TrainError::Memory { batch: self.progress.batch, why });
        }
        self.progress.batch /= 2;
        self.table.backend.device.memory_cleanup();
        on_event(Event::BatchHalved { batch: self.progress.batch });
        Ok(())
    }

    /// The end of an epoch: validation, the best so far, whether it is worth going on, a checkpoint.
    fn close(&mut self, began: Instant, on_event: &mut dyn FnMut(Event)) -> Result<(), EpochError> {
        let (data, setup) = (self.job.data, self.job.setup);
        let list = &self.job.fold.validation.samples;
        let answers = fault::guard(|| answers(&self.net, self.table, list))?;
        let targets: Vec<f32> =
            list.iter().filter_map(|i| data.samples.target.get(*i as usize)).copied().collect();
        let validation = score::scores(data.recipe.target, &answers, &targets, self.job.scale);
        let loss = validation.loss.unwrap_or(f64::INFINITY);
        let best = self.progress.best.map_or(f64::INFINITY, |(least, _)| least);
        if loss < best {
            self.progress.best = Some((loss, self.progress.epoch));
            self.best = self.net.flat.clone();
        }
        let (sum, count) = self.progress.losses;
        let epoch = Epoch {
            epoch: self.progress.epoch,
            train_loss: sum / count.max(1) as f64,
            validation,
            rate: setup.steps.rate_at(self.done()) * self.progress.factor,
            seconds: began.elapsed().as_secs_f64(),
        };
        self.progress.history.push(epoch.clone());
        let stale = self.progress.epoch - self.progress.best.map_or(0, |(_, at)| at);
        self.progress.early = setup.patience > 0 && stale >= setup.patience;
        self.progress.epoch += 1;
        self.progress.at = 0;
        self.progress.batch_no = 0;
        self.progress.losses = (0.0, 0);
        self.save()?;
        on_event(Event::Epoch(epoch));
        if self.progress.early {
            on_event(Event::Early { best: self.progress.best.map_or(0, |(_, at)| at) });
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), EpochError> {
        self.progress.updates = self.net.steps;
        let fetch = |values: &Tensor<1>| self.table.backend.fetch(values.clone());
        let (net, best) = (&self.net, &self.best);
        let [weights, mean, square, best] =
            fault::guard(|| Ok([fetch(&net.flat)?, fetch(&net.mean)?, fetch(&net.square)?, fetch(best)?]))?;
        let (setup, progress) = (self.job.setup.clone(), self.progress.clone());
        self.saved = Checkpoint { setup, progress, weights, mean, square, best };
        match &self.job.file {
            Some(file) => Ok(self.saved.write(file)?),
            None => Ok(()),
        }
    }

    /// Another device goes on from the last checkpoint.
    fn recover(&mut self, why: String, on_event: &mut dyn FnMut(Event)) -> Result<(), TrainError> {
        let Some(recover) = self.job.recover else {
            return Err(TrainError::Device { step: self.progress.step, why });
        };
        self.lost += 1;
        let (table, device) = recover(&self.table.backend, self.lost)?;
        *self.table = table;
        (self.net, self.best) = raise(&self.saved, self.table);
        self.net.recompute |= batch_size::is_short(&self.net, self.table);
        if !self.net.precision.is_on(&self.table.backend.device) {
            // Better exact than not at all.
            (self.net.precision, self.net.scale) = (Precision::F32, 1.0);
        }
        self.progress = self.saved.progress.clone();
        on_event(Event::Recovered { step: self.progress.step, device: device.clone(), why });
        self.device = Some(device);
        Ok(())
    }
}

/// A checkpoint on a device: the model, and the parameters of the best validation.
fn raise(saved: &Checkpoint, table: &DeviceTable) -> (Net, Tensor<1>) {
    let up = |values: &[f32]| table.backend.parameters(values);
    let (flat, mean, square) = (up(&saved.weights), up(&saved.mean), up(&saved.square));
    let mut net = Net::from_parts(&saved.setup.spec, flat, mean, square, saved.progress.updates);
    net.recompute = saved.setup.recompute;
    net.precision = saved.setup.precision;
    net.scale = saved.progress.scale;
    (net, up(&saved.best))
}

/// Answers to some samples, as many at once as is sensible.
pub fn answers(net: &Net, table: &DeviceTable, samples: &[u32]) -> Result<Vec<f32>, String> {
    let order = table.backend.order(samples);
    let mut all = Vec::with_capacity(samples.len() * net.spec.outputs);
    let each = inference_batch(net);
    for first in (0..samples.len()).step_by(each) {
        let batch = table.draw(&order, first..(first + each).min(samples.len()));
        all.extend(table.backend.answers(net.answer(batch.x).values)?);
    }
    Ok(all)
}

/// Samples that are answered at once.
pub(crate) fn inference_batch(net: &Net) -> usize {
    let widest =
        net.spec.param_matrices().iter().map(|p| p.shape[1]).max().unwrap_or(1).max(net.spec.features);
    let tokens = if net.spec.window > 1 { net.spec.features.max(net.spec.window) } else { 1 };
    (INFERENCE_VALUES / (widest * tokens).max(1)).clamp(16, 8192)
}
