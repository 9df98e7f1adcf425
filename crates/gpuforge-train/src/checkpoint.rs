//! Checkpoints: parameters, moments, progress and configuration in one safetensors file, replaced atomically.

use std::{collections::HashMap, fs, path::Path};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{config::TrainConfig, error::TrainError, score::Scores};

/// Version of the file format that is written and read.
pub const FORMAT: u32 = 1;
/// The writing program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Metrics of a finished epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Index, from 0.
    pub epoch: usize,
    /// Mean training loss over its steps.
    pub train_loss: f64,
    /// Scores on the validation part.
    pub validation: Scores,
    /// Learning rate at its end.
    #[serde(rename = "rate")]
    pub learning_rate: f64,
    /// Wall seconds, as far as the epoch ran in this process.
    pub seconds: f64,
}

/// Training progress: everything of the loop's state that is not a tensor.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The current epoch, from 0.
    pub epoch: usize,
    /// Samples of this epoch already processed.
    #[serde(rename = "at")]
    pub epoch_samples: usize,
    /// Batches of this epoch already processed.
    #[serde(rename = "batch_no")]
    pub batch_index: usize,
    /// Steps over all epochs, skipped ones included.
    pub step: u64,
    /// Optimiser updates: steps that were not skipped.
    pub updates: i32,
    /// Batch size; 0 before it is chosen.
    pub batch: usize,
    /// Loss scale (f16 only, else 1).
    #[serde(rename = "scale")]
    pub loss_scale: f32,
    /// Steps since the loss scale last changed.
    #[serde(rename = "steady")]
    pub steps_since_rescale: u32,
    /// Learning rate multiplier: halved by `--on-nan reduce-lr`.
    #[serde(rename = "factor")]
    pub lr_factor: f64,
    /// Sum of the losses of this epoch, and the number of steps in it.
    #[serde(rename = "losses")]
    pub loss_sum: (f64, u64),
    /// Skipped batches.
    pub skipped: u64,
    /// Lowest validation loss, and its epoch.
    pub best: Option<(f64, usize)>,
    /// Whether early stopping ended the training.
    #[serde(rename = "early")]
    pub stopped_early: bool,
    /// Finished epochs.
    pub history: Vec<Epoch>,
}

/// Everything needed to resume a training run.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The configuration it belongs to.
    pub config: TrainConfig,
    /// Loop state.
    pub progress: Progress,
    /// Flat parameter vector.
    pub weights: Vec<f32>,
    /// First moments (EMA of gradients).
    pub first_moment: Vec<f32>,
    /// Second moments (EMA of squared gradients).
    pub second_moment: Vec<f32>,
    /// Parameters of the best validation epoch.
    pub best: Vec<f32>,
}

const TENSORS: [&str; 4] = ["weights", "mean", "square", "best"];
const HINT: &str = "delete it and train again, or take an older copy";

impl Checkpoint {
    /// Writes atomically (temporary file, then rename).
    pub fn write(&self, file: &Path) -> Result<(), TrainError> {
        let json = |text: Result<String, serde_json::Error>| text.unwrap_or_default();
        let metadata = HashMap::from([
            ("format".to_owned(), FORMAT.to_string()),
            ("version".to_owned(), VERSION.to_owned()),
            ("setup".to_owned(), json(serde_json::to_string(&self.config))),
            ("progress".to_owned(), json(serde_json::to_string(&self.progress))),
        ]);
        let all = [&self.weights, &self.first_moment, &self.second_moment, &self.best];
        let tensors: Vec<(&str, Vec<usize>, &[f32])> =
            TENSORS.into_iter().zip(all).map(|(name, v)| (name, vec![v.len()], v.as_slice())).collect();
        write_tensors(file, &tensors, metadata)
    }

    /// Reads and validates a checkpoint.
    pub fn read(file: &Path) -> Result<Checkpoint, TrainError> {
        let bytes = fs::read(file).map_err(|error| file_error("cannot read", file, error))?;
        let (metadata, tensors) = open(file, "checkpoint", &bytes)?;
        let config: TrainConfig = parse(file, &metadata, "setup")?;
        let progress: Progress = parse(file, &metadata, "progress")?;
        let count = config.spec.len();
        let take = |name: &str| {
            let view = tensors.tensor(name).map_err(|e| corrupt(file, "checkpoint", e.to_string()))?;
            let values: Vec<f32> = bytemuck::pod_collect_to_vec(view.data());
            match values.len() == count {
                true => Ok(values),
                false => {
                    let why = format!("`{name}` has {} values, the model {count}", values.len());
                    Err(corrupt(file, "checkpoint", why))
                }
            }
        };
        let [weights, first_moment, second_moment, best] = TENSORS;
        Ok(Checkpoint {
            weights: take(weights)?,
            first_moment: take(first_moment)?,
            second_moment: take(second_moment)?,
            best: take(best)?,
            config,
            progress,
        })
    }

    /// Reads a checkpoint that must belong to this configuration.
    pub fn read_for(file: &Path, config: &TrainConfig) -> Result<Checkpoint, TrainError> {
        let found = Checkpoint::read(file)?;
        match found.config.difference(config) {
            None => Ok(found),
            Some((what, then, now)) => {
                Err(TrainError::ConfigMismatch { file: file.to_owned(), what, then, now })
            }
        }
    }
}

/// Metadata and tensors of a safetensors file; the format version is checked first.
pub(crate) fn open<'a>(
    file: &Path,
    what: &'static str,
    bytes: &'a [u8],
) -> Result<(HashMap<String, String>, SafeTensors<'a>), TrainError> {
    let corrupt_file = |e: safetensors::SafeTensorError| corrupt(file, what, e.to_string());
    let (_, head) = SafeTensors::read_metadata(bytes).map_err(corrupt_file)?;
    let metadata = head.metadata().clone().unwrap_or_default();
    let Some(found) = metadata.get("format").and_then(|f| f.parse().ok()) else {
        return Err(corrupt(file, what, "it has no format version".to_owned()));
    };
    if found != FORMAT {
        let version = metadata.get("version").cloned().unwrap_or_else(|| "unknown".to_owned());
        return Err(TrainError::FormatVersion { file: file.to_owned(), found, known: FORMAT, version });
    }
    Ok((metadata, SafeTensors::deserialize(bytes).map_err(corrupt_file)?))
}

fn parse<T: DeserializeOwned>(
    file: &Path,
    metadata: &HashMap<String, String>,
    key: &str,
) -> Result<T, TrainError> {
    let text = metadata.get(key).map_or("", String::as_str);
    serde_json::from_str(text).map_err(|e| corrupt(file, "checkpoint", format!("{key}: {e}")))
}

pub(crate) fn corrupt(file: &Path, what: &'static str, why: String) -> TrainError {
    TrainError::Corrupt { file: file.to_owned(), what, why, next: HINT }
}

pub(crate) fn file_error(what: &'static str, file: &Path, error: std::io::Error) -> TrainError {
    TrainError::File { what, file: file.to_owned(), error }
}

/// Writes tensors as safetensors.
pub(crate) fn write_tensors(
    file: &Path,
    tensors: &[(&str, Vec<usize>, &[f32])],
    metadata: HashMap<String, String>,
) -> Result<(), TrainError> {
    let view = |(name, shape, values): &(&str, Vec<usize>, &'_ [f32])| {
        let bytes = bytemuck::cast_slice::<f32, u8>(values).to_vec();
        ((*name).to_owned(), shape.clone(), bytes)
    };
    let buffers: Vec<_> = tensors.iter().map(view).collect();
    let mut views = Vec::new();
    for (name, shape, bytes) in &buffers {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes)
            .map_err(|e| corrupt(file, "checkpoint", e.to_string()))?;
        views.push((name.as_str(), view));
    }
    let metadata = (!metadata.is_empty()).then_some(metadata);
    let bytes =
        safetensors::serialize(views, metadata).map_err(|e| corrupt(file, "checkpoint", e.to_string()))?;
    write_atomic(file, &bytes)
}

/// Atomic write: temporary file, fsync, rename. A reader sees the old file or the new one, never a partial one.
pub fn write_atomic(file: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let failed = |error| file_error("cannot write", file, error);
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory).map_err(failed)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    std::io::Write::write_all(&mut temporary, bytes).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(file).map_err(|e| failed(e.error))?;
    Ok(())
}
