//! Training configuration: everything that a result depends on, as plain data; equal configurations give equal weights.

use serde::{Deserialize, Serialize};

use crate::{
    data::{Dataset, Recipe, split::SplitConfig, target::Target},
    error::TrainError,
    model::ModelSpec,
    net::{OptimiserConfig, Precision},
};

/// Policy for a step whose loss or gradient is NaN or infinite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNan {
    /// Stop with an error.
    Stop,
    /// Skip the batch.
    Skip,
    /// Restore the last checkpoint's parameters and halve the learning rate.
    ReduceLr,
}

/// Samples per step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchSize {
    /// Chosen by short trials when training starts.
    Auto,
    /// Fixed.
    Of(usize),
}

/// Fingerprint of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Rows of features.
    pub rows: usize,
    /// Samples: windows with targets.
    pub samples: usize,
    /// Hash of targets and time indices.
    pub hash: String,
}

impl Fingerprint {
    /// The fingerprint of a dataset.
    pub fn of(data: &Dataset) -> Fingerprint {
        let samples = &data.samples;
        let words = samples.target.iter().map(|y| y.to_bits()).chain(samples.time_index.iter().copied());
        // FNV-1a over 32-bit words: detects changed data, not forged data.
        let hash =
            words.fold(0xcbf2_9ce4_8422_2325u64, |h, w| (h ^ u64::from(w)).wrapping_mul(0x100_0000_01b3));
        Fingerprint { rows: data.row_count, samples: samples.len(), hash: format!("{hash:016x}") }
    }
}

/// Training configuration: everything that a result depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// How the dataset is built.
    pub recipe: Recipe,
    /// Fingerprint of the dataset.
    pub data: Fingerprint,
    /// Walk-forward split.
    #[serde(rename = "shares")]
    pub split: SplitConfig,
    /// Fold index, from 0.
    pub fold: usize,
    /// Architecture.
    pub spec: ModelSpec,
    /// Optimiser settings.
    #[serde(rename = "steps")]
    pub optimiser: OptimiserConfig,
    /// Epochs, at most.
    pub epochs: usize,
    /// Samples per step.
    pub batch: BatchSize,
    /// Early stopping: epochs without a better validation loss; 0 disables it.
    pub patience: usize,
    /// Policy for a step whose loss or gradient is NaN or infinite.
    pub on_nan: OnNan,
    /// Seed of initial weights and sample order.
    pub seed: u64,
    /// Gradient checkpointing: recompute activations in the backward pass. Also enabled when memory is short.
    pub recompute: bool,
    /// Precision of activations.
    pub precision: Precision,
}

impl TrainConfig {
    /// Validates the settings.
    pub fn check(&self) -> Result<(), TrainError> {
        self.recipe.check()?;
        self.spec.check()?;
        let invalid = |what, value: String, rule| Err(TrainError::InvalidSetting { what, value, rule });
        let optimiser = &self.optimiser;
        if self.epochs == 0 {
            return invalid("--epochs", "0".to_owned(), "at least 1");
        }
        if self.batch == BatchSize::Of(0) {
            return invalid("--batch-size", "0".to_owned(), "at least 1, or auto");
        }
        if !(optimiser.learning_rate > 0.0 && optimiser.learning_rate.is_finite()) {
            return invalid("--lr", optimiser.learning_rate.to_string(), "above 0");
        }
        if !(0.0..1.0).contains(&optimiser.warm_up) {
            return invalid("--warm-up", optimiser.warm_up.to_string(), "a share from 0 to below 1");
        }
        if !(optimiser.weight_decay >= 0.0 && optimiser.clip_norm >= 0.0) {
            return invalid(
                "--weight-decay or --clip-norm",
                format!("{} {}", optimiser.weight_decay, optimiser.clip_norm),
                "not below 0",
            );
        }
        Ok(())
    }

    /// The first setting in which two configurations differ: its path, the value there and here.
    pub fn difference(&self, other: &TrainConfig) -> Option<(String, String, String)> {
        let value = |config: &TrainConfig| serde_json::to_value(config).unwrap_or_default();
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

/// Target scale: RMS of the training targets; 1 for classes.
pub fn scale(data: &Dataset, train: &[u32]) -> f32 {
    if matches!(data.recipe.target, Target::Direction | Target::TripleBarrier { .. }) {
        return 1.0;
    }
    let squares =
        train.iter().filter_map(|i| data.samples.target.get(*i as usize)).map(|y| f64::from(*y).powi(2));
    let mean = (squares.sum::<f64>() / train.len().max(1) as f64).sqrt() as f32;
    if mean > 0.0 && mean.is_finite() { mean } else { 1.0 }
}

/// Fails if all training targets are equal.
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
