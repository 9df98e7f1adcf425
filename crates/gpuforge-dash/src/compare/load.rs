//! Which runs are meant? Files, folders, and lists of them with commas between.

use std::path::{Path, PathBuf};

use gpuforge_profile::TraceFormat;

use super::{Run, Side};
use crate::trace::{self, TraceFileError};

/// Why there is no side to compare.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file is no trace.
    #[error(transparent)]
    Trace(#[from] TraceFileError),
    /// A folder cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder holds no trace.
    #[error("{} holds no trace: no file in it ends in .json", path.display())]
    Empty {
        /// Which folder.
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
            LoadError::Folder { .. } => "give a trace, a folder of traces, or several with commas between",
            LoadError::Empty { .. } => "record into it: GPUFORGE_TRACE=FOLDER/run1.json COMMAND",
            LoadError::NoSpans { .. } => "record a program that computes something with gpuforge",
        }
    }
}

/// The files that are meant: each word a file, a folder, or several of those with commas between.
pub fn files(words: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let mut files = Vec::new();
    for word in words {
        match word.to_str() {
            // A name with a comma in it is a name if it is there.
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
    let failed = |source| LoadError::Folder { path: path.to_owned(), source };
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
pub fn side(files: &[PathBuf]) -> Result<Side, LoadError> {
    let runs = files.iter().map(|path| {
        let run = Run::of(&trace::read(path)?);
        match run.operations.is_empty() {
            true => Err(LoadError::NoSpans { path: path.clone() }),
            false => Ok(run),
        }
    });
    Ok(Side { runs: runs.collect::<Result<_, _>>()? })
}
