//! One fold from dataset to model card: split, fit, test, baselines, importance.

use std::path::Path;

use crate::{
    baseline::baselines,
    checkpoint::FORMAT,
    config::{BatchSize, Fingerprint, OnNan, TrainConfig},
    data::{
        Dataset,
        split::{Fold, SplitConfig},
    },
    device_table::{DeviceTable, TrainBackend},
    error::TrainError,
    fit::{self, Event, Faults, FitJob, FitResult},
    importance::importance,
    model::{Architecture, ModelSpec},
    model_card::{self, Card},
    net::{Net, OptimiserConfig, Precision},
    score,
};

/// Checkpoint file name.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// Calibration bins, and test periods.
const BINS: usize = 10;
const PERIODS: usize = 12;

/// Training settings, without the dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainRequest {
    /// Architecture.
    pub architecture: Architecture,
    /// Walk-forward split.
    pub split: SplitConfig,
    /// Optimiser settings.
    pub optimiser: OptimiserConfig,
    /// Epochs, at most.
    pub epochs: usize,
    /// Samples per step.
    pub batch: BatchSize,
    /// Early stopping patience in epochs.
    pub patience: usize,
    /// Policy for a step whose loss or gradient is NaN or infinite.
    pub on_nan: OnNan,
    /// Seed of initial weights and sample order.
    pub seed: u64,
    /// Gradient checkpointing.
    pub recompute: bool,
    /// Precision of activations.
    pub precision: Precision,
}

impl TrainRequest {
    /// The configuration of one fold.
    pub fn config(&self, data: &Dataset, fold: usize) -> TrainConfig {
        TrainConfig {
            recipe: data.recipe.clone(),
            data: Fingerprint::of(data),
            split: self.split,
            fold,
            spec: ModelSpec {
                architecture: self.architecture.clone(),
                features: data.columns.len(),
                window: data.recipe.window,
                outputs: data.recipe.target.outputs(),
            },
            optimiser: self.optimiser,
            epochs: self.epochs,
            batch: self.batch,
            patience: self.patience,
            on_nan: self.on_nan,
            seed: self.seed,
            recompute: self.recompute,
            precision: self.precision,
        }
    }
}

/// Recovery callback: given the lost backend and the number of losses so far, a new backend, the dataset on it, and the
/// device name.
pub type DeviceRecovery<'a> =
    dyn Fn(&TrainBackend, usize) -> Result<(TrainBackend, Dataset, String), TrainError> + 'a;

/// Device, output and recovery options of one fold.
pub struct FoldOptions<'a> {
    /// The device.
    pub backend: TrainBackend,
    /// Its name in the model card.
    pub device: &'a str,
    /// Directory of checkpoint, weights and card; nothing is written without one.
    pub directory: Option<&'a Path>,
    /// Steps between checkpoints.
    pub every: Option<u64>,
    /// Resume from the existing checkpoint.
    pub resume: bool,
    /// Called when the device is lost.
    pub recover: Option<&'a DeviceRecovery<'a>>,
    /// Fault injection for tests.
    pub faults: Faults,
}

impl<'a> FoldOptions<'a> {
    /// On the CPU, with nothing written.
    pub fn cpu() -> FoldOptions<'a> {
        FoldOptions {
            backend: TrainBackend::cpu(),
            device: "cpu",
            directory: None,
            every: None,
            resume: false,
            recover: None,
            faults: Faults::default(),
        }
    }
}

/// A trained model.
pub struct Trained {
    /// Model card.
    pub card: Card,
    /// Parameter matrices, in the order of use.
    pub weights: Vec<f32>,
    /// The table that it was trained on.
    pub table: DeviceTable,
}

/// Trains one fold, evaluates it against the baselines, and exports it.
pub fn train(
    data: &Dataset,
    fold: &Fold,
    config: &TrainConfig,
    options: FoldOptions<'_>,
    on_event: &mut dyn FnMut(Event),
) -> Result<Trained, TrainError> {
    config.check()?;
    crate::config::check_classes(data, &fold.train.samples)?;
    let scale = crate::config::scale(data, &fold.train.samples);
    let mut table = DeviceTable::new(options.backend.clone(), data, scale)?;
    let recover = options.recover.map(|make| {
        move |lost: &TrainBackend, times: usize| {
            let (backend, data, name) = make(lost, times)?;
            Ok((DeviceTable::new(backend, &data, scale)?, name))
        }
    });
    let job = FitJob {
        config,
        data,
        fold,
        scale,
        file: options.directory.map(|f| f.join(CHECKPOINT)),
        every: options.every,
        resume: options.resume,
        recover: recover.as_ref().map(|r| r as &fit::DeviceRecovery<'_>),
        faults: options.faults.clone(),
    };
    let fitted = fit::fit(&job, &mut table, on_event)?;
    let device = fitted.device.as_deref().unwrap_or(options.device);
    let card = test(data, fold, config, &fitted, &table, scale, device)?;
    if let Some(directory) = options.directory {
        model_card::export(directory, &card, &fitted.weights)?;
    }
    Ok(Trained { card, weights: fitted.weights, table })
}

/// Evaluates on the test part, with baselines and importance.
fn test(
    data: &Dataset,
    fold: &Fold,
    config: &TrainConfig,
    fitted: &FitResult,
    table: &DeviceTable,
    scale: f32,
    device: &str,
) -> Result<Card, TrainError> {
    let failed = |why| TrainError::Device { step: fitted.progress.step, why };
    let flat = table.backend.parameters(&fitted.weights);
    let net = Net::from_parts(&config.spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0);
    let list = &fold.test.samples;
    let predictions = fit::predict(&net, table, list).map_err(failed)?;
    let target = data.recipe.target;
    let of =
        |column: &[f32]| list.iter().filter_map(|i| column.get(*i as usize)).copied().collect::<Vec<_>>();
    let targets = of(&data.samples.target);
    let at = |i: &u32| {
        data.time_axis.get(data.samples.time_index.get(*i as usize).map_or(0, |p| *p as usize)).copied()
    };
    let times: Vec<f64> = list.iter().filter_map(at).collect();
    let (importance_by, importance) =
        importance(data, &net, table, &fold.validation.samples, config.seed).map_err(failed)?;
    Ok(Card {
        format: FORMAT,
        version: model_card::version(),
        config: config.clone(),
        columns: data.columns.clone(),
        scale,
        split: model_card::time_ranges(data, fold),
        embargo: fold.embargo,
        history: fitted.progress.history.clone(),
        best_epoch: fitted.progress.best.map_or(0, |(_, at)| at),
        skipped: fitted.progress.skipped,
        test: score::scores(target, &predictions, &targets, scale),
        baselines: baselines(data, table, &fold.train.samples, list, scale)?,
        calibration: score::calibration(target, &predictions, &targets, scale, BINS),
        periods: score::periods(target, &predictions, &targets, scale, &times, PERIODS),
        importance_by,
        importance,
        device: device.to_owned(),
        batch: fitted.progress.batch,
        samples_per_second: fitted.samples_per_second,
    })
}
