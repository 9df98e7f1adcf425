//! Calibration file: cost models keyed by backend and driver. A file that cannot be trusted is ignored with a reason.
//!
//! Written atomically (temporary file, rename): two concurrent writers leave one whole file, the last one's. Nothing is trusted
//! because it parses: sizes, counts and times must lie within bounds that no measurement leaves.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{backend::Backend, curve::Curve, model::CostModel};

/// Name of the file in the data directory.
pub const FILE: &str = "calibration.json";
/// Version of the file.
pub const VERSION: u32 = 1;
/// This program's version: another one measures other kernels.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Largest accepted file.
pub const MAX_BYTES: u64 = 2 << 20;
/// Entries kept for backends that are not present (another driver, a removed card).
const MAX_OTHERS: usize = 32;
const MAX_POINTS: usize = 256;
const MAX_CURVES: usize = 128;
const MAX_NAME: usize = 256;
/// Eleven days: no run takes longer.
const MAX_NS: f64 = 1e15;

/// Key of a cost model: backend name and driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CalibrationKey {
    /// Name of the backend.
    pub name: String,
    /// Driver and version, where it is a device.
    pub driver: Option<String>,
}

impl CalibrationKey {
    /// The key of a model.
    pub fn of(model: &CostModel) -> CalibrationKey {
        CalibrationKey { name: model.name.clone(), driver: model.driver.clone() }
    }

    /// The key of a backend.
    pub fn of_backend(backend: &dyn Backend) -> CalibrationKey {
        CalibrationKey { name: backend.name(), driver: backend.driver() }
    }
}

impl fmt::Display for CalibrationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.driver {
            Some(driver) => write!(f, "{} ({driver})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Why a calibration was not saved.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct StoreError {
    /// Which file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: io::Error,
}

/// The file. Models are parsed one by one: a broken one costs only itself.
#[derive(Debug, Serialize, Deserialize)]
struct CalibrationFile {
    version: u32,
    gpuforge: String,
    /// The first `here` models belong to the backends of the last calibration, in order; the others to backends that were absent.
    here: usize,
    models: Vec<Value>,
}

/// Models of the last calibration in order, the CPU first, and notes on what was ignored. Empty without a file, which is not
/// worth a note.
pub fn read(path: &Path) -> (Vec<CostModel>, Vec<String>) {
    let (file, mut notes) = open(path);
    let (models, bad) = parse(file.models.into_iter().take(file.here));
    notes.extend(bad.into_iter().map(|why| ignored(path, &why)));
    (models, notes)
}

/// A model for each of these backends, empty where the file has none for its name and driver; and notes on what was ignored.
pub fn load(path: &Path, backends: &[Arc<dyn Backend>]) -> (Vec<CostModel>, Vec<String>) {
    let (file, mut notes) = open(path);
    let (mut stored, bad) = parse(file.models);
    notes.extend(bad.into_iter().map(|why| ignored(path, &why)));
    let mut models = Vec::new();
    for backend in backends {
        let key = CalibrationKey::of_backend(backend.as_ref());
        let found = stored.iter().position(|m| CalibrationKey::of(m) == key);
        models.push(match found {
            // Several equal cards have a model each, in order; one more than there are models shares the last.
            Some(i) if stored.iter().filter(|m| CalibrationKey::of(m) == key).count() > 1 => stored.remove(i),
            Some(i) => stored.get(i).cloned().unwrap_or_default(),
            None => {
                if let Some(other) = stored.iter().find(|m| m.name == key.name) {
                    let why = format!("it is for {}, here is {key}", CalibrationKey::of(other));
                    notes.push(ignored(path, &why));
                }
                let mut unknown = CostModel::named(key.name);
                unknown.driver = key.driver;
                unknown
            }
        });
    }
    (models, notes)
}

/// Saves these models, in order, as those of the present backends. Entries of absent backends stay, and so do curves of custom
/// kernels that the new models do not have.
pub fn save(path: &Path, models: &[CostModel]) -> Result<(), StoreError> {
    let (old, _) = parse(open(path).0.models);
    let mut new = models.to_vec();
    for model in &mut new {
        let before = old.iter().find(|m| CalibrationKey::of(m) == CalibrationKey::of(model));
        for (name, curve) in before.into_iter().flat_map(|m| &m.custom) {
            if !model.custom.iter().any(|(known, _)| known == name) {
                model.custom.push((name.clone(), curve.clone()));
            }
        }
    }
    let here = new.len();
    let others =
        old.into_iter().filter(|m| !models.iter().any(|n| CalibrationKey::of(n) == CalibrationKey::of(m)));
    new.extend(others.take(MAX_OTHERS));
    let failed = |error: io::Error| StoreError { path: path.to_owned(), error };
    let value = |m: &CostModel| serde_json::to_value(m).map_err(|e| failed(e.into()));
    let models = new.iter().map(value).collect::<Result<Vec<_>, _>>()?;
    write(path, &CalibrationFile { version: VERSION, gpuforge: PROGRAM_VERSION.to_owned(), here, models })
        .map_err(failed)
}

/// Writes JSON to a temporary file next to `path` and renames it.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    serde_json::to_writer(io::BufWriter::new(file.as_file_mut()), value)?;
    file.write_all(b"\n")?;
    file.persist(path)?;
    Ok(())
}

/// Reads a file of at most `max` bytes.
pub(crate) fn bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max} bytes")));
    }
    Ok(bytes)
}

fn ignored(path: &Path, why: &str) -> String {
    format!("{} is ignored: {why}", path.display())
}

/// The parsed file, or an empty one and why.
fn open(path: &Path) -> (CalibrationFile, Vec<String>) {
    let empty = || CalibrationFile {
        version: VERSION,
        gpuforge: PROGRAM_VERSION.to_owned(),
        here: 0,
        models: Vec::new(),
    };
    let no = |why: String| (empty(), vec![ignored(path, &why)]);
    let bytes = match bytes(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (empty(), Vec::new()),
        Err(e) => return no(format!("it cannot be read: {e}")),
    };
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(e) => return no(format!("it does not parse: {e}")),
    };
    match (value.get("version").and_then(Value::as_u64), value.get("gpuforge").and_then(Value::as_str)) {
        (Some(version), _) if version != u64::from(VERSION) => {
            no(format!("it has version {version}, this is {VERSION}"))
        }
        (Some(_), Some(theirs)) if theirs != PROGRAM_VERSION => {
            no(format!("it was measured by gpuforge {theirs:.40}, this is {PROGRAM_VERSION}"))
        }
        _ => match serde_json::from_value::<CalibrationFile>(value) {
            Ok(file) => (file, Vec::new()),
            Err(e) => no(format!("not a calibration: {e}")),
        },
    }
}

/// Models that pass [`check`], and why the others do not.
pub(crate) fn parse(values: impl IntoIterator<Item = Value>) -> (Vec<CostModel>, Vec<String>) {
    let (mut models, mut bad) = (Vec::new(), Vec::new());
    for (i, value) in values.into_iter().enumerate() {
        let parsed = serde_json::from_value::<CostModel>(value).map_err(|e| e.to_string());
        match parsed.and_then(|m| check(&m).map(|()| m)) {
            Ok(mut model) => {
                model.rebuild_index();
                models.push(model);
            }
            Err(why) => bad.push(format!("model {i}: {why}")),
        }
    }
    (models, bad)
}

/// Sanity bounds: could this have been measured?
pub fn check(model: &CostModel) -> Result<(), String> {
    let names = [Some(&model.name), model.driver.as_ref()].into_iter().flatten();
    for name in names.chain(model.custom.iter().map(|(name, _)| name)) {
        // Names reach a terminal: no control characters.
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(format!("{name:.40?} is no name"));
        }
    }
    within("launch_ns", Some(model.launch_ns), 0.0, MAX_NS)?;
    within("byte_ns", model.byte_ns, f64::MIN_POSITIVE, MAX_NS)?;
    within("flop_ns", model.flop_ns, f64::MIN_POSITIVE, MAX_NS)?;
    within("spread", model.spread, 0.0, 1e6)?;
    let curves: Vec<&Curve> = model
        .kinds()
        .filter_map(|k| model.curve(k))
        .chain(model.custom.iter().map(|(_, c)| c))
        .chain(&model.upload)
        .chain(&model.download)
        .collect();
    if curves.len() > MAX_CURVES {
        return Err(format!("{} curves, at most {MAX_CURVES} are possible", curves.len()));
    }
    for curve in curves {
        let points = curve.points();
        if points.len() > MAX_POINTS {
            return Err(format!("a curve of {} points, at most {MAX_POINTS} are possible", points.len()));
        }
        for point in points {
            within("ns", Some(point.ns), 1e-3, MAX_NS)?;
            within("units", Some(point.units as f64), 1.0, 2f64.powi(48))?;
        }
    }
    Ok(())
}

fn within(what: &str, value: Option<f64>, min: f64, max: f64) -> Result<(), String> {
    match value {
        Some(value) if !(min..=max).contains(&value) => Err(format!("{what} = {value:e} was never measured")),
        _ => Ok(()),
    }
}
