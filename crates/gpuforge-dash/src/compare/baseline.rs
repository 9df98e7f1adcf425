//! Baseline store: named run sets per machine fingerprint, as JSON files in the data directory.
//!
//! One file per name and machine: timings of another machine are not comparable, so both may keep a baseline of the same
//! name in one directory.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunSet;

/// Version of the file format.
pub const VERSION: u32 = 1;
/// Subdirectory of the data directory.
pub const DIRECTORY: &str = "baselines";
/// Maximum file size.
pub const MAX_BYTES: u64 = 256 << 20;
/// Maximum length of a baseline name.
pub const MAX_NAME: usize = 64;

/// What determines the speed of this machine and survives a restart: no host name, serial number or address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFingerprint {
    /// `linux`, `macos`, `windows`…
    pub os: String,
    /// `x86_64`, `aarch64`…
    pub arch: String,
    /// CPU model, if known.
    pub cpu: Option<String>,
    /// Hardware threads that may be used.
    pub threads: Option<u32>,
    /// Devices by name or number, sorted.
    pub gpus: Vec<String>,
}

impl MachineFingerprint {
    /// Hash of all fields (FNV-1a).
    pub fn fingerprint(&self) -> String {
        let threads = self.threads.map_or_else(String::new, |threads| threads.to_string());
        let mut parts = vec![self.os.as_str(), &self.arch, self.cpu.as_deref().unwrap_or(""), &threads];
        parts.extend(self.gpus.iter().map(String::as_str));
        let hash = parts.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

impl std::fmt::Display for MachineFingerprint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({} {})", self.cpu.as_deref().unwrap_or("unknown CPU"), self.os, self.arch)?;
        if let Some(threads) = self.threads {
            write!(out, ", {threads} threads")?;
        }
        self.gpus.iter().try_for_each(|gpu| write!(out, ", {gpu}"))
    }
}

/// A named run set with its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`VERSION`] of the format.
    pub version: u32,
    /// Name it was saved under.
    pub name: String,
    /// gpuforge version that saved it.
    pub gpuforge: String,
    /// When, in seconds since 1970.
    pub saved_s: u64,
    /// Where it was measured.
    pub machine: MachineFingerprint,
    /// The runs.
    pub side: RunSet,
}

impl Baseline {
    /// Age; `None` when the clock was set back since.
    pub fn age(&self, now: SystemTime) -> Option<Duration> {
        let now = now.duration_since(UNIX_EPOCH).ok()?;
        now.checked_sub(Duration::from_secs(self.saved_s))
    }
}

/// Why a baseline could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// Not a valid file name.
    #[error("`{name}` cannot be the name of a baseline")]
    Name {
        /// Which.
        name: String,
    },
    /// No baseline of this name.
    #[error("there is no baseline `{name}`")]
    Absent {
        /// Which.
        name: String,
        /// Existing names.
        known: Vec<String>,
    },
    /// Measured on another machine.
    #[error("the baseline `{name}` was measured on another machine: there {there}; here {here}")]
    OtherMachine {
        /// Which.
        name: String,
        /// Where it was measured.
        there: String,
        /// Where it would be used.
        here: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not a baseline file.
    #[error("{} is no baseline: {why}", path.display())]
    NotOne {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl BaselineError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            BaselineError::Name { .. } => {
                format!("letters, digits, `-`, `_` and `.` only, at most {MAX_NAME}, a letter or digit first")
            }
            BaselineError::Absent { known, .. } if known.is_empty() => {
                "`gpuforge baseline save NAME TRACE` keeps one".to_owned()
            }
            BaselineError::Absent { known, .. } => format!("there are: {}", known.join(", ")),
            BaselineError::OtherMachine { .. } => {
                "save one here, or add --any-machine to compare all the same".to_owned()
            }
            BaselineError::File { .. } => "check that the data directory is readable and writable".to_owned(),
            BaselineError::NotOne { .. } => "save it again, or remove the file".to_owned(),
        }
    }
}

/// Directory of baselines.
#[derive(Debug, Clone)]
pub struct BaselineStore {
    dir: PathBuf,
}

impl BaselineStore {
    /// Store in this data directory.
    pub fn new(data_dir: &Path) -> BaselineStore {
        BaselineStore { dir: data_dir.join(DIRECTORY) }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, name: &str, machine: &MachineFingerprint) -> PathBuf {
        self.dir.join(format!("{name}@{}.json", machine.fingerprint()))
    }

    /// Saves a run set under a name, replacing one of the same name and machine; the write is atomic.
    pub fn save(
        &self,
        name: &str,
        machine: &MachineFingerprint,
        side: &RunSet,
        now: SystemTime,
    ) -> Result<PathBuf, BaselineError> {
        check_name(name)?;
        let path = self.path(name, machine);
        let failed = |source: io::Error| BaselineError::File { path: path.clone(), source };
        let baseline = Baseline {
            version: VERSION,
            name: name.to_owned(),
            gpuforge: env!("CARGO_PKG_VERSION").to_owned(),
            saved_s: now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            machine: machine.clone(),
            side: side.clone(),
        };
        fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).map_err(failed)?;
        let mut out = io::BufWriter::new(file.as_file_mut());
        serde_json::to_writer(&mut out, &baseline).map_err(|error| failed(error.into()))?;
        out.write_all(b"\n").and_then(|()| out.flush()).map_err(failed)?;
        drop(out);
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }

    /// The baseline of this name and machine; with `any_machine`, else the newest of this name.
    pub fn find(
        &self,
        name: &str,
        machine: &MachineFingerprint,
        any_machine: bool,
    ) -> Result<Baseline, BaselineError> {
        check_name(name)?;
        let own = self.path(name, machine);
        if own.exists() {
            return read(&own);
        }
        let (all, _) = self.list()?;
        let known: Vec<String> = all.iter().map(|(_, baseline)| baseline.name.clone()).collect();
        let newest = all.into_iter().map(|(_, b)| b).filter(|b| b.name == name).max_by_key(|b| b.saved_s);
        match newest {
            Some(baseline) if any_machine => Ok(baseline),
            Some(baseline) => Err(BaselineError::OtherMachine {
                name: name.to_owned(),
                there: baseline.machine.to_string(),
                here: machine.to_string(),
            }),
            None => Err(BaselineError::Absent { name: name.to_owned(), known }),
        }
    }

    /// All baselines by name, and errors of files that are not valid.
    #[expect(clippy::type_complexity, reason = "the file beside what it holds, and what was left out")]
    pub fn list(&self) -> Result<(Vec<(PathBuf, Baseline)>, Vec<BaselineError>), BaselineError> {
        let failed = |source| BaselineError::File { path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
            entries => entries.map_err(failed)?,
        };
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            // Temp files have another extension.
            if path.extension().is_some_and(|end| end == "json") {
                match read(&path) {
                    Ok(baseline) => found.push((path, baseline)),
                    Err(error) => wrong.push(error),
                }
            }
        }
        found.sort_by(|(x, a), (y, b)| a.name.cmp(&b.name).then_with(|| x.cmp(y)));
        Ok((found, wrong))
    }
}

fn check_name(name: &str) -> Result<(), BaselineError> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    match first && rest && name.len() <= MAX_NAME {
        true => Ok(()),
        false => Err(BaselineError::Name { name: name.chars().take(MAX_NAME).collect() }),
    }
}

fn read(path: &Path) -> Result<Baseline, BaselineError> {
    let failed = |source| BaselineError::File { path: path.to_owned(), source };
    let no = |why: String| BaselineError::NotOne { path: path.to_owned(), why };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(failed)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(no(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| no(format!("it does not parse: {error}")))?;
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => return Err(no(format!("it has version {version}, this program reads {VERSION}"))),
        None => return Err(no("it has no version".to_owned())),
    }
    let baseline: Baseline = serde_json::from_value(value).map_err(|error| no(error.to_string()))?;
    // Names are printed to a terminal.
    check_name(&baseline.name)?;
    Ok(baseline)
}
