//! Can a calibration be handed on? A file with what hardware it is for and what was measured, and nothing else.
//!
//! What may leave the machine is a list of fields, not a list of what may not: a fact that is added to the inventory stays
//! at home until somebody writes it down here.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    model::Model,
    store::{self, GPUFORGE, Key},
};

/// Version of the file.
pub const VERSION: u32 = 1;
/// No such file is larger.
pub const MOST_BYTES: u64 = 4 << 20;

/// Facts of a GPU that describe the hardware and its driver. Not among them: bus address, identifiers of the chip, what
/// tools said (paths), what was hidden or preferred here.
const GPU: &[&str] = &[
    "vendor",
    "name",
    "memory_bytes",
    "driver_version",
    "arch",
    "type",
    "usable_for_compute",
    "pci_name",
    "pci_id",
    "pci_device",
    "kernel_driver",
    "driver_model",
    "drivers",
    "apis",
    "unified_memory",
    "gpu_cores",
    "mig",
    "mig_profiles",
    "partitions",
];
/// Facts of the processor. Not among them: why less of it is available.
const CPU: &[&str] = &[
    "brand",
    "arch",
    "sockets",
    "cores",
    "logical",
    "available",
    "performance_cores",
    "efficiency_cores",
    "simd",
    "caches",
    "memory_bytes",
    "numa_nodes",
];
/// Facts of the surroundings. Not among them: the kernel's release, which may carry a name.
const HOST: &[&str] = &["os", "wsl", "hypervisor"];
/// Facts of the whole.
const WHOLE: &[&str] = &["schema", "driver_version", "cuda_version", "kernel_module"];

/// Hardware and what was measured on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// Version of the file.
    pub version: u32,
    /// Version of the program that measured.
    pub gpuforge: String,
    /// The hardware, in the schema of `gpuforge detect --json`, without anything that tells one machine from another.
    pub inventory: Value,
    /// Models, the processor's first.
    pub calibration: Vec<Value>,
}

/// Why nothing was handed on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is no such file.
    #[error("{} is no shared calibration: {why}", path.display())]
    NotOne {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It was measured by another version.
    #[error(
        "it was measured by gpuforge {theirs} (file version {version}), this is gpuforge {GPUFORGE} ({VERSION})"
    )]
    OtherVersion {
        /// Its program.
        theirs: String,
        /// Its version.
        version: u64,
    },
    /// It is for another machine.
    #[error("it was measured on other hardware or with another driver: there {there}; here {here}")]
    OtherHardware {
        /// Its key.
        there: String,
        /// Ours.
        here: String,
    },
}

impl Bundle {
    /// What may be handed on of an inventory (as JSON) and models. Custom kernels stay at home: their names are the user's.
    pub fn new(inventory: &Value, models: &[Model]) -> Self {
        let bare = |model: &Model| {
            let mut bare = model.clone();
            bare.custom.clear();
            serde_json::to_value(bare).ok()
        };
        let calibration = models.iter().filter_map(bare).collect();
        Bundle {
            version: VERSION,
            gpuforge: GPUFORGE.to_owned(),
            inventory: hardware(inventory),
            calibration,
        }
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), ShareError> {
        store::write(path, self).map_err(|error| ShareError::File { path: path.to_owned(), error })
    }

    /// Reads one.
    pub fn load(path: &Path) -> Result<Bundle, ShareError> {
        let bytes = store::bytes(path, MOST_BYTES)
            .map_err(|error| ShareError::File { path: path.to_owned(), error })?;
        let no = |why: String| ShareError::NotOne { path: path.to_owned(), why };
        let value: Value = serde_json::from_slice(&bytes).map_err(|e| no(e.to_string()))?;
        let version = value.get("version").and_then(Value::as_u64);
        let theirs = value.get("gpuforge").and_then(Value::as_str);
        match (version, theirs) {
            (Some(version), Some(theirs)) if version != u64::from(VERSION) || theirs != GPUFORGE => {
                let theirs = theirs.chars().filter(|c| !c.is_control()).take(40).collect();
                Err(ShareError::OtherVersion { theirs, version })
            }
            _ => serde_json::from_value(value).map_err(|e| no(e.to_string())),
        }
    }

    /// Its models, if they are of this hardware: `inventory` is ours as JSON, `places` are ours.
    pub fn accept(&self, path: &Path, inventory: &Value, places: &[Key]) -> Result<Vec<Model>, ShareError> {
        let (models, bad) = store::parse(self.calibration.iter().cloned());
        let why = bad.into_iter().next().or_else(|| models.is_empty().then(|| "it has no models".to_owned()));
        if let Some(why) = why {
            return Err(ShareError::NotOne { path: path.to_owned(), why });
        }
        let theirs: Vec<Key> = models.iter().map(Key::of).collect();
        let known = |key: &Key| places.contains(key);
        if processor(&self.inventory) != processor(inventory) || !theirs.iter().all(known) {
            let there = machine(&processor(&self.inventory), &theirs);
            return Err(ShareError::OtherHardware { there, here: machine(&processor(inventory), places) });
        }
        Ok(models)
    }
}

/// A machine in a line: its processor, then its devices with their drivers.
fn machine(processor: &str, places: &[Key]) -> String {
    let devices = places.iter().filter(|k| k.name != "cpu").map(Key::to_string);
    std::iter::once(processor.to_owned()).chain(devices).collect::<Vec<_>>().join(" + ")
}

/// The processor in a few words: what its curves depend on.
fn processor(inventory: &Value) -> String {
    let cpu = inventory.get("cpu");
    let fact = |name: &str| cpu.and_then(|c| c.get(name)).filter(|v| !v.is_null());
    let text = |name: &str| fact(name).and_then(Value::as_str).unwrap_or("?").chars();
    let brand: String = text("brand").filter(|c| !c.is_control()).take(80).collect();
    let simd: String = text("simd").filter(|c| !c.is_control()).take(20).collect();
    let threads = fact("available").or(fact("logical")).and_then(Value::as_u64);
    match threads {
        Some(threads) => format!("{brand} ({simd}, {threads} threads)"),
        None => format!("{brand} ({simd})"),
    }
}

/// The inventory without anything that tells one machine from another; still the schema of `detect --json`.
fn hardware(inventory: &Value) -> Value {
    let mut whole = keep(inventory, WHOLE);
    let gpus = inventory.get("gpus").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    whole.insert("gpus".into(), gpus.iter().map(|g| Value::Object(keep(g, GPU))).collect());
    let part = |name: &str, fields| inventory.get(name).map_or(Value::Null, |v| keep(v, fields).into());
    whole.insert("cpu".into(), part("cpu", CPU));
    whole.insert("host".into(), part("host", HOST));
    // What the schema asks for, and what nobody else needs.
    whole.insert("best".into(), Value::Null);
    whole.insert("best_reason".into(), "".into());
    whole.insert("cache".into(), serde_json::json!({"hit": false, "age_s": null}));
    whole.into()
}

fn keep(value: &Value, fields: &[&str]) -> Map<String, Value> {
    let known = |name: &&str| value.get(*name).map(|v| ((*name).to_owned(), v.clone()));
    fields.iter().filter_map(known).collect()
}
