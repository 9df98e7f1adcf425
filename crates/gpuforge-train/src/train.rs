//! One fold from dataset to model card: split, fit, test, baselines, importance.

use std::path::Path;

use crate::{
    baseline::baselines,
    checkpoint::FORMAT,
    config::{self, BatchSize, Fingerprint, OnNan, TrainConfig},
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

/// The checkpoint in a directory.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// Groups of the calibration, and periods of the test.
const BINS: usize = 10;
const PERIODS: usize = 12;

/// What is asked for, beside the data set.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainRequest {
    /// Which function.
    pub shape: Architecture,
    /// How time is divided.
    pub shares: SplitConfig,
    /// How steps are made.
    pub steps: OptimiserConfig,
    /// How often every sample is seen.
    pub epochs: usize,
    /// Samples of a step.
    pub batch: BatchSize,
    /// Epochs without a better validation before training ends.
    pub patience: usize,
    /// What is done about a step that gives no finite number.
    pub on_nan: OnNan,
    /// Of parameters and orders.
    pub seed: u64,
    /// Compute again what backward needs?
    pub recompute: bool,
    /// In what activations are computed.
    pub precision: Precision,
}

impl TrainRequest {
    /// The setup of one fold.
    pub fn setup(&self, data: &Dataset, fold: usize) -> TrainConfig {
        TrainConfig {
            recipe: data.recipe.clone(),
            data: Fingerprint::of(data),
            shares: self.shares,
            fold,
            spec: ModelSpec {
                shape: self.shape.clone(),
                features: data.columns.len(),
                window: data.recipe.window,
                outputs: data.recipe.target.outputs(),
            },
            steps: self.steps,
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

/// What to go on with when a device was lost: its backend, and for which time. A backend, the data set there, and its name.
pub type DeviceRecovery<'a> =
    dyn Fn(&TrainBackend, usize) -> Result<(TrainBackend, Dataset, String), TrainError> + 'a;

/// Where and how one fold is trained.
pub struct FoldOptions<'a> {
    /// The device.
    pub backend: TrainBackend,
    /// What the card calls it.
    pub device: &'a str,
    /// The directory of checkpoint, weights and card; nothing is written without one.
    pub directory: Option<&'a Path>,
    /// Steps between checkpoints.
    pub every: Option<u64>,
    /// Go on from the checkpoint that is there?
    pub resume: bool,
    /// What to go on with, should the device be lost.
    pub recover: Option<&'a DeviceRecovery<'a>>,
    /// Failures on purpose, for tests.
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

/// A model, its card, and where it lies.
pub struct Trained {
    /// What it says of itself.
    pub card: Card,
    /// Its parameters.
    pub weights: Vec<f32>,
    /// The table that it was trained on.
    pub table: DeviceTable,
}

/// Trains one fold, tests it beside the baselines, and writes what there is to write.
pub fn train(
    data: &Dataset,
    fold: &Fold,
    setup: &TrainConfig,
    way: FoldOptions<'_>,
    on_event: &mut dyn FnMut(Event),
) -> Result<Trained, TrainError> {
    setup.check()?;
    config::check_classes(data, &fold.train.samples)?;
    let scale = config::scale(data, &fold.train.samples);
    let mut table = DeviceTable::new(way.backend.clone(), data, scale)?;
    let recover = way.recover.map(|make| {
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
        file: way.directory.map(|f| f.join(CHECKPOINT)),
        every: way.every,
        resume: way.resume,
        recover: recover.as_ref().map(|r| r as &fit::DeviceRecovery<'_>),
        faults: way.faults.clone(),
    };
    let fitted = fit::fit(&job, &mut table, on_event)?;
    let device = fitted.device.as_deref().unwrap_or(way.device);
    let card = test(data, fold, setup, &fitted, &table, scale, device)?;
    if let Some(directory) = way.directory {
        model_card::export(directory, &card, &fitted.weights)?;
    }
    Ok(Trained { card, weights: fitted.weights, table })
}

/// The test part, beside the baselines.
fn test(
    data: &Dataset,
    fold: &Fold,
    setup: &TrainConfig,
    fitted: &FitResult,
    table: &DeviceTable,
    scale: f32,
    device: &str,
) -> Result<Card, TrainError> {
    let failed = |why| TrainError::Device { step: fitted.progress.step, why };
    let flat = table.backend.parameters(&fitted.weights);
    let net = Net::from_parts(&setup.spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0);
    let list = &fold.test.samples;
    let answers = fit::answers(&net, table, list).map_err(failed)?;
    let target = data.recipe.target;
    let of =
        |column: &[f32]| list.iter().filter_map(|i| column.get(*i as usize)).copied().collect::<Vec<_>>();
    let targets = of(&data.samples.target);
    let at = |i: &u32| data.axis.get(data.samples.at.get(*i as usize).map_or(0, |p| *p as usize)).copied();
    let times: Vec<f64> = list.iter().filter_map(at).collect();
    let (importance_by, importance) =
        importance(data, &net, table, &fold.validation.samples, setup.seed).map_err(failed)?;
    Ok(Card {
        format: FORMAT,
        version: model_card::version(),
        setup: setup.clone(),
        columns: data.columns.clone(),
        scale,
        split: model_card::time_ranges(data, fold),
        embargo: fold.embargo,
        history: fitted.progress.history.clone(),
        best_epoch: fitted.progress.best.map_or(0, |(_, at)| at),
        skipped: fitted.progress.skipped,
        test: score::scores(target, &answers, &targets, scale),
        baselines: baselines(data, table, &fold.train.samples, list, scale)?,
        calibration: score::calibration(target, &answers, &targets, scale, BINS),
        periods: score::periods(target, &answers, &targets, scale, &times, PERIODS),
        importance_by,
        importance,
        device: device.to_owned(),
        batch: fitted.progress.batch,
        samples_per_second: fitted.per_second,
    })
}
