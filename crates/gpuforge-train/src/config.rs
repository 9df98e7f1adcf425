//! Training configuration: everything that a result depends on, as plain data; equal configurations give equal weights.

use serde::{Deserialize, Serialize};

use crate::{
    data::{Dataset, Recipe, split::SplitConfig, target::Target},
    error::TrainError,
    model::ModelSpec,
    net::{OptimiserConfig, Precision},
};

/// What is done about a step that gives no finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNan {
    /// Training ends with an error.
    Stop,
    /// The batch is left out.
    Skip,
    /// The parameters of the last checkpoint come back, and the rate is halved.
    ReduceLr,
}

/// Samples of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchSize {
    /// Measured when training begins.
    Auto,
    /// So many.
    Of(usize),
}

/// Which data, without the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Rows of features.
    pub rows: usize,
    /// Windows with targets.
    pub samples: usize,
    /// Of targets and places in time.
    pub hash: String,
}

impl Fingerprint {
    /// Of a data set.
    pub fn of(data: &Dataset) -> Fingerprint {
        let samples = &data.samples;
        let words = samples.target.iter().map(|y| y.to_bits()).chain(samples.at.iter().copied());
        // FNV-1a over words: told apart are data that were changed, not data that were forged.
        let hash =
            words.fold(0xcbf2_9ce4_8422_2325u64, |h, w| (h ^ u64::from(w)).wrapping_mul(0x100_0000_01b3));
        Fingerprint { rows: data.count, samples: samples.len(), hash: format!("{hash:016x}") }
    }
}

/// Everything that a result depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// How the data set is made.
    pub recipe: Recipe,
    /// Which data.
    pub data: Fingerprint,
    /// How time is divided.
    pub shares: SplitConfig,
    /// Which fold, from 0.
    pub fold: usize,
    /// Which function.
    pub spec: ModelSpec,
    /// How steps are made.
    pub steps: OptimiserConfig,
    /// How often every sample is seen.
    pub epochs: usize,
    /// Samples of a step.
    pub batch: BatchSize,
    /// Epochs without a better validation before training ends; 0 never ends early.
    pub patience: usize,
    /// What is done about a step that gives no finite number.
    pub on_nan: OnNan,
    /// Of parameters and orders.
    pub seed: u64,
    /// Keep less between forward and backward, and compute it again? Also done where memory is short.
    pub recompute: bool,
    /// In what activations are computed.
    pub precision: Precision,
}

impl TrainConfig {
    /// Are the numbers possible?
    pub fn check(&self) -> Result<(), TrainError> {
        self.recipe.check()?;
        self.spec.check()?;
        let wrong = |what, value: String, rule| Err(TrainError::Setting { what, value, rule });
        let steps = &self.steps;
        if self.epochs == 0 {
            return wrong("--epochs", "0".to_owned(), "at least 1");
        }
        if self.batch == BatchSize::Of(0) {
            return wrong("--batch-size", "0".to_owned(), "at least 1, or auto");
        }
        if !(steps.rate > 0.0 && steps.rate.is_finite()) {
            return wrong("--lr", steps.rate.to_string(), "above 0");
        }
        if !(0.0..1.0).contains(&steps.warm_up) {
            return wrong("--warm-up", steps.warm_up.to_string(), "a share from 0 to below 1");
        }
        if !(steps.decay >= 0.0 && steps.clip >= 0.0) {
            return wrong(
                "--weight-decay or --clip-norm",
                format!("{} {}", steps.decay, steps.clip),
                "not below 0",
            );
        }
        Ok(())
    }

    /// The first thing in which two trainings differ: what it is called, there and here.
    pub fn difference(&self, other: &TrainConfig) -> Option<(String, String, String)> {
        let value = |setup: &TrainConfig| serde_json::to_value(setup).unwrap_or_default();
        differ("", &value(self), &value(other))
    }
}

fn differ(name: &str, a: &serde_json::Value, b: &serde_json::Value) -> Option<(String, String, String)> {
    match (a, b) {
        (serde_json::Value::Object(a), serde_json::Value::Object(b)) => {
            a.keys().chain(b.keys()).find_map(|key| {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                let nothing = serde_json::Value::Null;
                differ(&name, a.get(key).unwrap_or(&nothing), b.get(key).unwrap_or(&nothing))
            })
        }
        _ if a == b => None,
        _ => Some((name.to_owned(), a.to_string(), b.to_string())),
    }
}

/// What targets are divided by: the root mean square of the training part's; 1 for classes.
pub fn scale(data: &Dataset, train: &[u32]) -> f32 {
    if matches!(data.recipe.target, Target::Direction | Target::TripleBarrier { .. }) {
        return 1.0;
    }
    let squares =
        train.iter().filter_map(|i| data.samples.target.get(*i as usize)).map(|y| f64::from(*y).powi(2));
    let mean = (squares.sum::<f64>() / train.len().max(1) as f64).sqrt() as f32;
    if mean > 0.0 && mean.is_finite() { mean } else { 1.0 }
}

/// An error where the training part's targets are all the same.
pub fn check_classes(data: &Dataset, train: &[u32]) -> Result<(), TrainError> {
    let of = |i: &u32| data.samples.target.get(*i as usize).copied();
    let mut all = train.iter().filter_map(of);
    let Some(first) = all.next() else { return Ok(()) };
    if all.any(|y| y != first) {
        return Ok(());
    }
    let classes = data.recipe.target.classes();
    let class = classes.get(first as usize).map_or_else(|| first.to_string(), |c| (*c).to_owned());
    Err(TrainError::OneClass { samples: train.len(), class })
}
