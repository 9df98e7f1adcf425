//! From bars to a model with its card: the whole way, fold by fold.

use std::path::Path;

use crate::{
    baseline::baselines,
    card::{self, Card},
    checkpoint::FORMAT,
    data::{
        Dataset,
        split::{Fold, Shares},
    },
    error::TrainError,
    fit::{self, Event, Faults, Fitted, Job},
    importance::importance,
    model::{Shape, Spec},
    net::{Net, Precision, Steps},
    score,
    setup::{self, BatchSize, Fingerprint, OnNan, Setup},
    table::{Place, Table},
};

/// The checkpoint in a folder.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// Groups of the calibration, and periods of the test.
const BINS: usize = 10;
const PERIODS: usize = 12;

/// What is asked for, beside the data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Which function.
    pub shape: Shape,
    /// How time is divided.
    pub shares: Shares,
    /// How steps are made.
    pub steps: Steps,
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

impl Ask {
    /// The setup of one fold.
    pub fn setup(&self, data: &Dataset, fold: usize) -> Setup {
        Setup {
            recipe: data.recipe.clone(),
            data: Fingerprint::of(data),
            shares: self.shares,
            fold,
            spec: Spec {
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

/// What to go on with when a device was lost: its place, and for which time. A place, the data set there, and its name.
pub type Rescue<'a> = dyn Fn(&Place, usize) -> Result<(Place, Dataset, String), TrainError> + 'a;

/// Where and how one fold is trained.
pub struct Way<'a> {
    /// The device.
    pub place: Place,
    /// What the card calls it.
    pub device: &'a str,
    /// The folder of checkpoint, weights and card; nothing is written without one.
    pub folder: Option<&'a Path>,
    /// Steps between checkpoints.
    pub every: Option<u64>,
    /// Go on from the checkpoint that is there?
    pub resume: bool,
    /// What to go on with, should the device be lost.
    pub rescue: Option<&'a Rescue<'a>>,
    /// Failures on purpose, for tests.
    pub faults: Faults,
}

impl<'a> Way<'a> {
    /// On the processor, with nothing written.
    pub fn cpu() -> Way<'a> {
        Way {
            place: Place::cpu(),
            device: "cpu",
            folder: None,
            every: None,
            resume: false,
            rescue: None,
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
    pub table: Table,
}

/// Trains one fold, tests it beside the baselines, and writes what there is to write.
pub fn train(
    data: &Dataset,
    fold: &Fold,
    setup: &Setup,
    way: Way<'_>,
    tell: &mut dyn FnMut(Event),
) -> Result<Trained, TrainError> {
    setup.check()?;
    setup::check_classes(data, &fold.train.samples)?;
    let scale = setup::scale(data, &fold.train.samples);
    let mut table = Table::new(way.place.clone(), data, scale)?;
    let rescue = way.rescue.map(|make| {
        move |lost: &Place, times: usize| {
            let (place, data, name) = make(lost, times)?;
            Ok((Table::new(place, &data, scale)?, name))
        }
    });
    let job = Job {
        setup,
        data,
        fold,
        scale,
        file: way.folder.map(|f| f.join(CHECKPOINT)),
        every: way.every,
        resume: way.resume,
        rescue: rescue.as_ref().map(|r| r as &fit::Rescue<'_>),
        faults: way.faults.clone(),
    };
    let fitted = fit::fit(&job, &mut table, tell)?;
    let device = fitted.device.as_deref().unwrap_or(way.device);
    let card = test(data, fold, setup, &fitted, &table, scale, device)?;
    if let Some(folder) = way.folder {
        card::export(folder, &card, &fitted.weights)?;
    }
    Ok(Trained { card, weights: fitted.weights, table })
}

/// The test part, beside the baselines.
fn test(
    data: &Dataset,
    fold: &Fold,
    setup: &Setup,
    fitted: &Fitted,
    table: &Table,
    scale: f32,
    device: &str,
) -> Result<Card, TrainError> {
    let failed = |why| TrainError::Device { step: fitted.progress.step, why };
    let flat = table.place.parameters(&fitted.weights);
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
        version: card::version(),
        setup: setup.clone(),
        columns: data.columns.clone(),
        scale,
        split: card::stretches(data, fold),
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
