//! Model card: weights as safetensors, and a JSON description beside them: features, normalisation, split,
//! metrics, seed, versions.

use std::{collections::HashMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    baseline::Baseline,
    checkpoint::{self, Epoch, FORMAT, VERSION},
    config::TrainConfig,
    data::{Dataset, split::Fold},
    device_table::TrainBackend,
    error::TrainError,
    net::Net,
    score::{Bin, Period, Scores},
};

/// File of the weights.
pub const WEIGHTS: &str = "model.safetensors";
/// File of the model card.
pub const CARD: &str = "model.json";

/// A time range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeRange {
    /// Training, validation or test.
    pub part: String,
    /// First prediction, in seconds since the epoch.
    pub from: f64,
    /// Last prediction.
    pub to: f64,
    /// Samples.
    pub samples: usize,
    /// Samples purged because their targets end in a later part.
    pub purged: usize,
}

/// Time ranges of a fold's parts.
pub fn time_ranges(data: &Dataset, fold: &Fold) -> Vec<TimeRange> {
    let time = |i: Option<&u32>| {
        let at = i
            .and_then(|i| data.samples.time_index.get(*i as usize))
            .and_then(|p| data.time_axis.get(*p as usize));
        at.copied().unwrap_or(f64::NAN)
    };
    let one = |part: &&crate::data::split::SplitPart| TimeRange {
        part: part.name.to_owned(),
        from: time(part.samples.first()),
        to: time(part.samples.last()),
        samples: part.samples.len(),
        purged: part.purged,
    };
    fold.parts().iter().map(one).collect()
}

/// Importance of a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureImportance {
    /// Feature name.
    pub feature: String,
    /// Importance, by the measure in `importance_by`.
    pub weight: f64,
}

/// Model card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Format version of card and weights.
    pub format: u32,
    /// The version that wrote it.
    pub version: String,
    /// Training configuration: features, normalisation, split, model, optimiser, seed.
    #[serde(rename = "setup")]
    pub config: TrainConfig,
    /// Features in model input order.
    pub columns: Vec<String>,
    /// Target scale.
    pub scale: f32,
    /// Time ranges of training, validation and test.
    pub split: Vec<TimeRange>,
    /// Time steps between them.
    pub embargo: usize,
    /// Epochs.
    pub history: Vec<Epoch>,
    /// Epoch of the exported weights, from 0.
    pub best_epoch: usize,
    /// Skipped batches.
    pub skipped: u64,
    /// Scores on the test part.
    pub test: Scores,
    /// Baselines on the same part.
    pub baselines: Vec<Baseline>,
    /// Calibration bins.
    pub calibration: Vec<Bin>,
    /// Test scores by period.
    pub periods: Vec<Period>,
    /// How feature importance is measured.
    pub importance_by: String,
    /// Feature importance, largest first.
    pub importance: Vec<FeatureImportance>,
    /// Training device.
    pub device: String,
    /// Samples per step.
    pub batch: usize,
    /// Training throughput of the last process.
    pub samples_per_second: f64,
}

/// Writes weights and model card into a directory.
pub fn export(directory: &Path, card: &Card, weights: &[f32]) -> Result<(), TrainError> {
    let matrices = card.config.spec.param_matrices();
    let mut tensors = Vec::new();
    let mut rest = weights;
    for matrix in &matrices {
        let (own, after) = rest.split_at(matrix.len().min(rest.len()));
        tensors.push((matrix.name.as_str(), matrix.shape.to_vec(), own));
        rest = after;
    }
    let metadata = HashMap::from([("format".to_owned(), FORMAT.to_string())]);
    checkpoint::write_tensors(&directory.join(WEIGHTS), &tensors, metadata)?;
    let text = serde_json::to_string_pretty(card).unwrap_or_default();
    checkpoint::write_atomic(&directory.join(CARD), text.as_bytes())
}

/// Reads the card of a directory.
pub fn read_card(directory: &Path) -> Result<Card, TrainError> {
    let file = directory.join(CARD);
    let text = fs::read_to_string(&file).map_err(|e| checkpoint::file_error("cannot read", &file, e))?;
    let corrupt = |why: String| checkpoint::corrupt(&file, "card", why);
    // The format first: a card of another version need not have these fields.
    let any: serde_json::Value = serde_json::from_str(&text).map_err(|e| corrupt(e.to_string()))?;
    let field = |key: &str| any.get(key).cloned().unwrap_or_default();
    let found = field("format").as_u64().and_then(|f| u32::try_from(f).ok());
    let found = found.ok_or_else(|| corrupt("it has no format version".to_owned()))?;
    if found != FORMAT {
        let version = field("version").as_str().unwrap_or("unknown").to_owned();
        return Err(TrainError::FormatVersion { file, found, known: FORMAT, version });
    }
    let card: Card = serde_json::from_value(any).map_err(|e| corrupt(e.to_string()))?;
    check_indicators(&file, &card.config, &card.version)?;
    Ok(card)
}

/// Fails if the configuration selects an indicator that this version does not have.
pub fn check_indicators(file: &Path, config: &TrainConfig, version: &str) -> Result<(), TrainError> {
    match config.recipe.select() {
        Err(TrainError::Select(error)) => Err(TrainError::UnknownIndicator {
            file: file.to_owned(),
            selection: config.recipe.indicators.clone(),
            version: version.to_owned(),
            error: Box::new(error),
        }),
        other => other.map(|_| ()),
    }
}

/// Loads model card and network from a directory.
pub fn load(directory: &Path, backend: &TrainBackend) -> Result<(Card, Net), TrainError> {
    let card = read_card(directory)?;
    let file = directory.join(WEIGHTS);
    let bytes = fs::read(&file).map_err(|e| checkpoint::file_error("cannot read", &file, e))?;
    let (_, tensors) = checkpoint::open(&file, "model", &bytes)?;
    let corrupt = |why: String| checkpoint::corrupt(&file, "model", why);
    let mut weights: Vec<f32> = Vec::new();
    for matrix in card.config.spec.param_matrices() {
        let view = tensors.tensor(&matrix.name).map_err(|e| corrupt(e.to_string()))?;
        if view.shape() != matrix.shape {
            return Err(corrupt(format!(
                "`{}` is {:?}, the card says {:?}",
                matrix.name,
                view.shape(),
                matrix.shape
            )));
        }
        weights.extend(bytemuck::pod_collect_to_vec::<u8, f32>(view.data()));
    }
    let flat = backend.parameters(&weights);
    let net = Net::from_parts(&card.config.spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0);
    Ok((card, net))
}

/// The version written into cards.
pub fn version() -> String {
    VERSION.to_owned()
}
