//! Checkpoints: parameters, moments, progress and configuration in one safetensors file, written to a temporary name and
//! renamed, so that it is whole or the one before.

use std::{collections::HashMap, fs, path::Path};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{config::TrainConfig, error::TrainError, score::Scores};

/// The format that is written and read.
pub const FORMAT: u32 = 1;
/// Who writes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One epoch, afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Which, from 0.
    pub epoch: usize,
    /// Mean loss of its steps.
    pub train_loss: f64,
    /// On the validation part.
    pub validation: Scores,
    /// The rate at its end.
    pub rate: f64,
    /// Seconds that it took, as far as it ran in one process.
    pub seconds: f64,
}

/// How far training got.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The current epoch, from 0.
    pub epoch: usize,
    /// Samples of it that are done.
    pub at: usize,
    /// Batches of it that are done.
    pub batch_no: usize,
    /// Steps of all epochs.
    pub step: u64,
    /// Steps of the optimiser: those that were not skipped.
    pub updates: i32,
    /// Samples of a step; 0 before it was settled.
    pub batch: usize,
    /// What losses are multiplied by before their gradient is made (f16 only, else 1).
    pub scale: f32,
    /// Steps since that was last changed.
    pub steady: u32,
    /// What the rate is multiplied by: halved when numbers ran away.
    pub factor: f64,
    /// Sum of losses of this epoch, and of how many steps.
    pub losses: (f64, u64),
    /// Batches that were left out.
    pub skipped: u64,
    /// The least validation loss, and after which epoch.
    pub best: Option<(f64, usize)>,
    /// Was training ended early?
    pub early: bool,
    /// Epochs that are done.
    pub history: Vec<Epoch>,
}

/// Everything that a training needs to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What it is.
    pub setup: TrainConfig,
    /// How far it got.
    pub progress: Progress,
    /// Parameters.
    pub weights: Vec<f32>,
    /// Means of gradients.
    pub mean: Vec<f32>,
    /// Means of their squares.
    pub square: Vec<f32>,
    /// Parameters of the best validation.
    pub best: Vec<f32>,
}

const NAMES: [&str; 4] = ["weights", "mean", "square", "best"];
const NEXT: &str = "delete it and train again, or take an older copy";

impl Checkpoint {
    /// Writes it beside, then renames.
    pub fn write(&self, file: &Path) -> Result<(), TrainError> {
        let json = |text: Result<String, serde_json::Error>| text.unwrap_or_default();
        let said = HashMap::from([
            ("format".to_owned(), FORMAT.to_string()),
            ("version".to_owned(), VERSION.to_owned()),
            ("setup".to_owned(), json(serde_json::to_string(&self.setup))),
            ("progress".to_owned(), json(serde_json::to_string(&self.progress))),
        ]);
        let all = [&self.weights, &self.mean, &self.square, &self.best];
        let tensors: Vec<(&str, Vec<usize>, &[f32])> =
            NAMES.into_iter().zip(all).map(|(name, v)| (name, vec![v.len()], v.as_slice())).collect();
        write_tensors(file, &tensors, said)
    }

    /// Reads one, and says what is wrong with it.
    pub fn read(file: &Path) -> Result<Checkpoint, TrainError> {
        let bytes = fs::read(file).map_err(|error| file_error("cannot read", file, error))?;
        let (said, tensors) = open(file, "checkpoint", &bytes)?;
        let setup: TrainConfig = parse(file, &said, "setup")?;
        let progress: Progress = parse(file, &said, "progress")?;
        let count = setup.spec.len();
        let take = |name: &str| {
            let view = tensors.tensor(name).map_err(|e| damaged(file, "checkpoint", e.to_string()))?;
            let values: Vec<f32> = bytemuck::pod_collect_to_vec(view.data());
            match values.len() == count {
                true => Ok(values),
                false => {
                    let why = format!("`{name}` has {} numbers, the model {count}", values.len());
                    Err(damaged(file, "checkpoint", why))
                }
            }
        };
        let [weights, mean, square, best] = NAMES;
        Ok(Checkpoint {
            weights: take(weights)?,
            mean: take(mean)?,
            square: take(square)?,
            best: take(best)?,
            config,
            progress,
        })
    }

    /// Reads one that must be of this training.
    pub fn read_for(file: &Path, setup: &TrainConfig) -> Result<Checkpoint, TrainError> {
        let found = Checkpoint::read(file)?;
        match found.setup.difference(setup) {
            None => Ok(found),
            Some((what, then, now)) => {
                Err(TrainError::OtherTraining { file: file.to_owned(), what, then, now })
            }
        }
    }
}

/// What a file of ours says of itself, and its tensors; the format comes first.
pub(crate) fn open<'a>(
    file: &Path,
    what: &'static str,
    bytes: &'a [u8],
) -> Result<(HashMap<String, String>, SafeTensors<'a>), TrainError> {
    let wrong = |e: safetensors::SafeTensorError| damaged(file, what, e.to_string());
    let (_, head) = SafeTensors::read_metadata(bytes).map_err(wrong)?;
    let said = head.metadata().clone().unwrap_or_default();
    let Some(found) = said.get("format").and_then(|f| f.parse().ok()) else {
        return Err(damaged(file, what, "it does not say its format".to_owned()));
    };
    if found != FORMAT {
        let version = said.get("version").cloned().unwrap_or_else(|| "unknown".to_owned());
        return Err(TrainError::OtherVersion { file: file.to_owned(), found, known: FORMAT, version });
    }
    Ok((said, SafeTensors::deserialize(bytes).map_err(wrong)?))
}

fn parse<T: DeserializeOwned>(
    file: &Path,
    said: &HashMap<String, String>,
    key: &str,
) -> Result<T, TrainError> {
    let text = said.get(key).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|e| damaged(file, "checkpoint", format!("{key}: {e}")))
}

pub(crate) fn damaged(file: &Path, what: &'static str, why: String) -> TrainError {
    TrainError::Damaged { file: file.to_owned(), what, why, next: NEXT }
}

pub(crate) fn file_error(what: &'static str, file: &Path, error: std::io::Error) -> TrainError {
    TrainError::File { what, file: file.to_owned(), error }
}

/// Writes tensors as safetensors.
pub(crate) fn write_tensors(
    file: &Path,
    tensors: &[(&str, Vec<usize>, &[f32])],
    said: HashMap<String, String>,
) -> Result<(), TrainError> {
    let view = |(name, shape, values): &(&str, Vec<usize>, &'_ [f32])| {
        let bytes = bytemuck::cast_slice::<f32, u8>(values).to_vec();
        ((*name).to_owned(), shape.clone(), bytes)
    };
    let held: Vec<_> = tensors.iter().map(view).collect();
    let mut views = Vec::new();
    for (name, shape, bytes) in &held {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes)
            .map_err(|e| damaged(file, "checkpoint", e.to_string()))?;
        views.push((name.as_str(), view));
    }
    let said = (!said.is_empty()).then_some(said);
    let bytes =
        safetensors::serialize(views, said).map_err(|e| damaged(file, "checkpoint", e.to_string()))?;
    write_whole(file, &bytes)
}

/// Writes beside, then renames: whoever looks finds the old file or the new one, whole.
pub fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let failed = |error| file_error("cannot write", file, error);
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let mut beside = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    std::io::Write::write_all(&mut beside, bytes).map_err(failed)?;
    beside.as_file().sync_all().map_err(failed)?;
    beside.persist(file).map_err(|e| failed(e.error))?;
    Ok(())
}
