//! Loads run sets from trace files, directories and comma-separated lists.

use std::path::{Path, PathBuf};

use gpuforge_profile::TraceFormat;

use super::{RunProfile, RunSet};
use crate::trace::{self, TraceFileError};

/// Why a run set could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file is not a trace.
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    /// A directory cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A directory holds no trace.
    #[error("{} holds no trace: no file in it ends in .json", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// A trace holds no span.
    #[error("{} holds no span: nothing in it can be compared", path.display())]
    NoSpans {
        /// Which file.
        path: PathBuf,
    },
}

impl LoadError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            LoadError::Trace(error) => error.hint(),
            LoadError::Directory { .. } => {
                "give a trace, a directory of traces, or several separated by commas"
            }
            LoadError::Empty { .. } => "record into it: GPUFORGE_TRACE=DIRECTORY/run1.json COMMAND",
            LoadError::NoSpans { .. } => "record a program that computes something with gpuforge",
        }
    }
}

/// Expands arguments to files: each a file, a directory, or several separated by commas.
pub fn files(words: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let mut files = Vec::new();
    for word in words {
        match word.to_str() {
            // An existing path is taken literally, even with a comma.
            Some(text) if text.contains(',') && !word.exists() => {
                for part in text.split(',').filter(|part| !part.is_empty()) {
                    files.extend(expand(Path::new(part))?);
                }
            }
            _ => files.extend(expand(word)?),
        }
    }
    Ok(files)
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source| LoadError::Directory { path: path.to_owned(), source };
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let json = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        // Traces for viewers lie beside ours; they say so by their name.
        if json && file.is_file() && TraceFormat::of(&file) == TraceFormat::Raw {
            inside.push(file);
        }
    }
    inside.sort();
    match inside.is_empty() {
        true => Err(LoadError::Empty { path: path.to_owned() }),
        false => Ok(inside),
    }
}

/// Reads these files as the runs of one side, one after the other: only what is compared stays in memory.
pub fn side(files: &[PathBuf]) -> Result<RunSet, LoadError> {
    let runs = files.iter().map(|path| {
        let run = RunProfile::of(&trace::read(path)?);
        match run.operations.is_empty() {
            true => Err(LoadError::NoSpans { path: path.clone() }),
            false => Ok(run),
        }
    });
    Ok(RunSet { runs: runs.collect::<Result<_, _>>()? })
}
