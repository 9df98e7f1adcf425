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

/// The file of weights.
pub const WEIGHTS: &str = "model.safetensors";
/// The card beside it.
pub const CARD: &str = "model.json";

/// A time range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeRange {
    /// What it was for.
    pub part: String,
    /// Its first decision, in seconds since the epoch.
    pub from: f64,
    /// Its last.
    pub to: f64,
    /// Samples.
    pub samples: usize,
    /// Samples left out because their targets end later.
    pub purged: usize,
}

/// The parts of a fold as a card has them.
pub fn time_ranges(data: &Dataset, fold: &Fold) -> Vec<TimeRange> {
    let time = |i: Option<&u32>| {
        let at = i.and_then(|i| data.samples.at.get(*i as usize)).and_then(|p| data.axis.get(*p as usize));
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

/// How much a feature counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureWeight {
    /// Which.
    pub feature: String,
    /// How much, by the card's measure.
    pub weight: f64,
}

/// What a model says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The format of card and weights.
    pub format: u32,
    /// Who made it.
    pub version: String,
    /// Everything that it depends on: features, normalisation, split, model, steps, seed.
    pub setup: TrainConfig,
    /// Features in the order of the model's inputs.
    pub columns: Vec<String>,
    /// What targets are divided by.
    pub scale: f32,
    /// Training, validation and test in time.
    pub split: Vec<TimeRange>,
    /// Points of time between them.
    pub embargo: usize,
    /// Epochs.
    pub history: Vec<Epoch>,
    /// The epoch whose weights these are, from 0.
    pub best_epoch: usize,
    /// Batches that were left out.
    pub skipped: u64,
    /// On the test part.
    pub test: Scores,
    /// Rules without a model, on the same part.
    pub baselines: Vec<Baseline>,
    /// Groups of answers that are about equally sure.
    pub calibration: Vec<Bin>,
    /// The test part period by period.
    pub periods: Vec<Period>,
    /// What the weights of features mean.
    pub importance_by: String,
    /// How much each feature counts, the most first.
    pub importance: Vec<FeatureWeight>,
    /// Where it was trained.
    pub device: String,
    /// Samples of a step.
    pub batch: usize,
    /// Samples per second, as far as it ran in one process.
    pub samples_per_second: f64,
}

/// Writes weights and card into a directory.
pub fn export(directory: &Path, card: &Card, weights: &[f32]) -> Result<(), TrainError> {
    let param_matrices = card.setup.spec.param_matrices();
    let mut tensors = Vec::new();
    let mut rest = weights;
    for piece in &param_matrices {
        let (own, after) = rest.split_at(piece.len().min(rest.len()));
        tensors.push((piece.name.as_str(), piece.shape.to_vec(), own));
        rest = after;
    }
    let said = HashMap::from([("format".to_owned(), FORMAT.to_string())]);
    checkpoint::write_tensors(&directory.join(WEIGHTS), &tensors, said)?;
    let text = serde_json::to_string_pretty(card).unwrap_or_default();
    checkpoint::write_whole(&directory.join(CARD), text.as_bytes())
}

/// Reads the card of a directory.
pub fn read_card(directory: &Path) -> Result<Card, TrainError> {
    let file = directory.join(CARD);
    let text = fs::read_to_string(&file).map_err(|e| checkpoint::file_error("cannot read", &file, e))?;
    let damaged = |why: String| checkpoint::damaged(&file, "card", why);
    // The format first: a card of another time need not have our fields.
    let any: serde_json::Value = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
    let said = |key: &str| any.get(key).cloned().unwrap_or_default();
    let found = said("format").as_u64().and_then(|f| u32::try_from(f).ok());
    let found = found.ok_or_else(|| damaged("it does not say its format".to_owned()))?;
    if found != FORMAT {
        let version = said("version").as_str().unwrap_or("unknown").to_owned();
        return Err(TrainError::OtherVersion { file, found, known: FORMAT, version });
    }
    let card: Card = serde_json::from_value(any).map_err(|e| damaged(e.to_string()))?;
    known(&file, &card.setup, &card.version)?;
    Ok(card)
}

/// An error where a model was made with an indicator that is not there.
pub fn known(file: &Path, setup: &TrainConfig, version: &str) -> Result<(), TrainError> {
    match setup.recipe.wanted() {
        Err(TrainError::Select(error)) => Err(TrainError::UnknownIndicator {
            file: file.to_owned(),
            selection: setup.recipe.indicators.clone(),
            version: version.to_owned(),
            error: Box::new(error),
        }),
        other => other.map(|_| ()),
    }
}

/// Reads the model of a directory.
pub fn load(directory: &Path, backend: &TrainBackend) -> Result<(Card, Net), TrainError> {
    let card = read_card(directory)?;
    let file = directory.join(WEIGHTS);
    let bytes = fs::read(&file).map_err(|e| checkpoint::file_error("cannot read", &file, e))?;
    let (_, tensors) = checkpoint::open(&file, "model", &bytes)?;
    let damaged = |why: String| checkpoint::damaged(&file, "model", why);
    let mut weights: Vec<f32> = Vec::new();
    for piece in card.setup.spec.param_matrices() {
        let view = tensors.tensor(&piece.name).map_err(|e| damaged(e.to_string()))?;
        if view.shape() != piece.shape {
            return Err(damaged(format!(
                "`{}` is {:?}, the card says {:?}",
                piece.name,
                view.shape(),
                piece.shape
            )));
        }
        weights.extend(bytemuck::pod_collect_to_vec::<u8, f32>(view.data()));
    }
    let flat = backend.parameters(&weights);
    let net = Net::from_parts(&card.setup.spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0);
    Ok((card, net))
}

/// Who writes, for cards.
pub fn version() -> String {
    VERSION.to_owned()
}
