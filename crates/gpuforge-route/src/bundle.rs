//! Calibration bundle: export and import of a calibration between machines with equal hardware.
//!
//! Fields are allow-listed: a fact that is added to the inventory is not exported until it is listed here.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    model::CostModel,
    store::{self, CalibrationKey, PROGRAM_VERSION},
};

/// Version of the file.
pub const VERSION: u32 = 1;
/// Largest accepted file.
pub const MAX_BYTES: u64 = 4 << 20;

/// Exported GPU fields: hardware and driver. Not among them: bus address, chip identifiers, output of tools (paths), what was
/// hidden or preferred.
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
/// Exported CPU fields. Not among them: why less of it is available.
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
/// Exported host fields. Not among them: the kernel release, which may carry a name.
const HOST: &[&str] = &["os", "wsl", "hypervisor"];
/// Exported top-level fields.
const TOP_LEVEL: &[&str] = &["schema", "driver_version", "cuda_version", "kernel_module"];

/// Hardware description and its cost models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationBundle {
    /// Version of the file.
    pub version: u32,
    /// Program version that measured.
    pub gpuforge: String,
    /// The hardware in the schema of `gpuforge detect --json`, without anything that identifies one machine.
    pub inventory: Value,
    /// Cost models, the CPU first.
    pub calibration: Vec<Value>,
}

/// Why an export or import failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Not a calibration bundle.
    #[error("{} is not a calibration bundle: {why}", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Measured by another program version.
    #[error(
        "it was measured by gpuforge {theirs} (file version {version}), this is gpuforge {PROGRAM_VERSION} ({VERSION})"
    )]
    OtherVersion {
        /// Its program version.
        theirs: String,
        /// Its file version.
        version: u64,
    },
    /// Measured on other hardware.
    #[error("it was measured on other hardware or with another driver: there {there}; here {here}")]
    OtherHardware {
        /// Its key.
        there: String,
        /// Ours.
        here: String,
    },
}

impl CalibrationBundle {
    /// The exportable part of an inventory (as JSON) and models. Custom kernels are left out: their names are the user's.
    pub fn new(inventory: &Value, models: &[CostModel]) -> Self {
        let bare = |model: &CostModel| {
            let mut bare = model.clone();
            bare.custom.clear();
            serde_json::to_value(bare).ok()
        };
        let calibration = models.iter().filter_map(bare).collect();
        CalibrationBundle {
            version: VERSION,
            gpuforge: PROGRAM_VERSION.to_owned(),
            inventory: anonymized(inventory),
            calibration,
        }
    }

    /// Writes it atomically.
    pub fn save(&self, path: &Path) -> Result<(), BundleError> {
        store::write(path, self).map_err(|error| BundleError::File { path: path.to_owned(), error })
    }

    /// Reads a bundle.
    pub fn load(path: &Path) -> Result<CalibrationBundle, BundleError> {
        let bytes = store::bytes(path, MAX_BYTES)
            .map_err(|error| BundleError::File { path: path.to_owned(), error })?;
        let no = |why: String| BundleError::Malformed { path: path.to_owned(), why };
        let value: Value = serde_json::from_slice(&bytes).map_err(|e| no(e.to_string()))?;
        let version = value.get("version").and_then(Value::as_u64);
        let theirs = value.get("gpuforge").and_then(Value::as_str);
        match (version, theirs) {
            (Some(version), Some(theirs)) if version != u64::from(VERSION) || theirs != PROGRAM_VERSION => {
                let theirs = theirs.chars().filter(|c| !c.is_control()).take(40).collect();
                Err(BundleError::OtherVersion { theirs, version })
            }
            _ => serde_json::from_value(value).map_err(|e| no(e.to_string())),
        }
    }

    /// Its models if they match this hardware; `inventory` and `here` describe the local machine.
    pub fn accept(
        &self,
        path: &Path,
        inventory: &Value,
        here: &[CalibrationKey],
    ) -> Result<Vec<CostModel>, BundleError> {
        let (models, bad) = store::parse(self.calibration.iter().cloned());
        let why = bad.into_iter().next().or_else(|| models.is_empty().then(|| "it has no models".to_owned()));
        if let Some(why) = why {
            return Err(BundleError::Malformed { path: path.to_owned(), why });
        }
        let theirs: Vec<CalibrationKey> = models.iter().map(CalibrationKey::of).collect();
        let known = |key: &CalibrationKey| here.contains(key);
        if describe_cpu(&self.inventory) != describe_cpu(inventory) || !theirs.iter().all(known) {
            let there = describe_machine(&describe_cpu(&self.inventory), &theirs);
            return Err(BundleError::OtherHardware {
                there,
                here: describe_machine(&describe_cpu(inventory), here),
            });
        }
        Ok(models)
    }
}

/// One-line description: the CPU, then the devices with their drivers.
fn describe_machine(cpu: &str, keys: &[CalibrationKey]) -> String {
    let devices = keys.iter().filter(|k| k.name != "cpu").map(CalibrationKey::to_string);
    std::iter::once(cpu.to_owned()).chain(devices).collect::<Vec<_>>().join(" + ")
}

/// CPU brand, SIMD level and thread count: what its curves depend on.
fn describe_cpu(inventory: &Value) -> String {
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

/// The inventory without anything that identifies a machine; still the schema of `detect --json`.
fn anonymized(inventory: &Value) -> Value {
    let mut whole = select_fields(inventory, TOP_LEVEL);
    let gpus = inventory.get("gpus").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    whole.insert("gpus".into(), gpus.iter().map(|g| Value::Object(select_fields(g, GPU))).collect());
    let part =
        |name: &str, fields| inventory.get(name).map_or(Value::Null, |v| select_fields(v, fields).into());
    whole.insert("cpu".into(), part("cpu", CPU));
    whole.insert("host".into(), part("host", HOST));
    // Required by the schema, of no use elsewhere.
    whole.insert("best".into(), Value::Null);
    whole.insert("best_reason".into(), "".into());
    whole.insert("cache".into(), serde_json::json!({"hit": false, "age_s": null}));
    whole.into()
}

fn select_fields(value: &Value, fields: &[&str]) -> Map<String, Value> {
    let known = |name: &&str| value.get(*name).map(|v| ((*name).to_owned(), v.clone()));
    fields.iter().filter_map(known).collect()
}
