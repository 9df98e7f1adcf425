//! What was measured before? Models in a file, by place and driver; a file that cannot be trusted is ignored with a reason.
//!
//! The file is written to a temporary name and renamed: two writers at once leave one whole file, the last one's. Nothing
//! in it is believed because it parses: sizes, counts and times must lie within bounds that no measurement leaves.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{curve::Curve, model::Model, site::Site};

/// Name of the file in the data folder.
pub const FILE: &str = "calibration.json";
/// Version of the file.
pub const VERSION: u32 = 1;
/// This program's version: another one measures other kernels.
pub const GPUFORGE: &str = env!("CARGO_PKG_VERSION");
/// No calibration is larger.
pub const MOST_BYTES: u64 = 2 << 20;
/// Entries of places that are not here (another driver, a card that was taken out) that are kept.
const MOST_OTHERS: usize = 32;
const MOST_POINTS: usize = 256;
const MOST_CURVES: usize = 128;
const MOST_NAME: usize = 256;
/// Eleven days: no run takes longer.
const MOST_NS: f64 = 1e15;

/// Whose model: a place by name, with its driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Name of the place.
    pub name: String,
    /// Driver and version, where it is a device.
    pub driver: Option<String>,
}

impl Key {
    /// The key of a model.
    pub fn of(model: &Model) -> Key {
        Key { name: model.name.clone(), driver: model.driver.clone() }
    }

    /// The key of a place.
    pub fn at(site: &dyn Site) -> Key {
        Key { name: site.name(), driver: site.driver() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.driver {
            Some(driver) => write!(f, "{} ({driver})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Why a calibration was not kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct StoreError {
    /// Which file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub error: io::Error,
}

/// The file. Models are read one by one: a broken one costs only itself.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    gpuforge: String,
    /// How many of the models, the first ones, are the places of the last calibration in their order; the others are of
    /// places that were not there then.
    here: usize,
    models: Vec<Value>,
}

/// The places of the last calibration in their order, the processor first, and what was ignored and why. Empty without a
/// file, which needs no word.
pub fn read(path: &Path) -> (Vec<Model>, Vec<String>) {
    let (file, mut notes) = open(path);
    let (models, bad) = parse(file.models.into_iter().take(file.here));
    notes.extend(bad.into_iter().map(|why| ignored(path, &why)));
    (models, notes)
}

/// A model for each of these places, without any figures where the file has none for its name and driver; and what was
/// ignored and why.
pub fn load(path: &Path, sites: &[Arc<dyn Site>]) -> (Vec<Model>, Vec<String>) {
    let (file, mut notes) = open(path);
    let (mut stored, bad) = parse(file.models);
    notes.extend(bad.into_iter().map(|why| ignored(path, &why)));
    let mut models = Vec::new();
    for site in sites {
        let key = Key::at(site.as_ref());
        let found = stored.iter().position(|m| Key::of(m) == key);
        models.push(match found {
            // Several cards of one kind have a model each, in their order; one more than there are models shares the last.
            Some(i) if stored.iter().filter(|m| Key::of(m) == key).count() > 1 => stored.remove(i),
            Some(i) => stored.get(i).cloned().unwrap_or_default(),
            None => {
                if let Some(other) = stored.iter().find(|m| m.name == key.name) {
                    let why = format!("it is for {}, here is {key}", Key::of(other));
                    notes.push(ignored(path, &why));
                }
                let mut unknown = Model::named(key.name);
                unknown.driver = key.driver;
                unknown
            }
        });
    }
    (models, notes)
}

/// Keeps these models, in this order, as those of the machine's places. Entries of other places stay, and so do curves of
/// custom kernels that the new models do not have.
pub fn save(path: &Path, models: &[Model]) -> Result<(), StoreError> {
    let (old, _) = parse(open(path).0.models);
    let mut new = models.to_vec();
    for model in &mut new {
        let before = old.iter().find(|m| Key::of(m) == Key::of(model));
        for (name, curve) in before.into_iter().flat_map(|m| &m.custom) {
            if !model.custom.iter().any(|(known, _)| known == name) {
                model.custom.push((name.clone(), curve.clone()));
            }
        }
    }
    let here = new.len();
    let others = old.into_iter().filter(|m| !models.iter().any(|n| Key::of(n) == Key::of(m)));
    new.extend(others.take(MOST_OTHERS));
    let failed = |error: io::Error| StoreError { path: path.to_owned(), error };
    let value = |m: &Model| serde_json::to_value(m).map_err(|e| failed(e.into()));
    let models = new.iter().map(value).collect::<Result<Vec<_>, _>>()?;
    write(path, &File { version: VERSION, gpuforge: GPUFORGE.to_owned(), here, models }).map_err(failed)
}

/// Writes JSON to a temporary name beside the file and renames it.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(io::BufWriter::new(file.as_file_mut()), value)?;
    file.write_all(b"\n")?;
    file.persist(path)?;
    Ok(())
}

/// Bytes of a file that may be `most` large.
pub(crate) fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

fn ignored(path: &Path, why: &str) -> String {
    format!("{} is ignored: {why}", path.display())
}

/// The file as far as it is one of ours, else an empty one and why.
fn open(path: &Path) -> (File, Vec<String>) {
    let empty = || File { version: VERSION, gpuforge: GPUFORGE.to_owned(), here: 0, models: Vec::new() };
    let no = |why: String| (empty(), vec![ignored(path, &why)]);
    let bytes = match bytes(path, MOST_BYTES) {
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
        (Some(_), Some(theirs)) if theirs != GPUFORGE => {
            no(format!("it was measured by gpuforge {theirs:.40}, this is {GPUFORGE}"))
        }
        _ => match serde_json::from_value::<File>(value) {
            Ok(file) => (file, Vec::new()),
            Err(e) => no(format!("it is no calibration: {e}")),
        },
    }
}

/// Models that can be trusted, and why others cannot.
pub(crate) fn parse(values: impl IntoIterator<Item = Value>) -> (Vec<Model>, Vec<String>) {
    let (mut models, mut bad) = (Vec::new(), Vec::new());
    for (i, value) in values.into_iter().enumerate() {
        let parsed = serde_json::from_value::<Model>(value).map_err(|e| e.to_string());
        match parsed.and_then(|m| check(&m).map(|()| m)) {
            Ok(mut model) => {
                model.index();
                models.push(model);
            }
            Err(why) => bad.push(format!("model {i}: {why}")),
        }
    }
    (models, bad)
}

/// Could this have been measured?
pub fn check(model: &Model) -> Result<(), String> {
    let names = [Some(&model.name), model.driver.as_ref()].into_iter().flatten();
    for name in names.chain(model.custom.iter().map(|(name, _)| name)) {
        // A name reaches a terminal.
        if name.is_empty() || name.len() > MOST_NAME || name.chars().any(char::is_control) {
            return Err(format!("{name:.40?} is no name"));
        }
    }
    within("launch_ns", Some(model.launch_ns), 0.0, MOST_NS)?;
    within("byte_ns", model.byte_ns, f64::MIN_POSITIVE, MOST_NS)?;
    within("flop_ns", model.flop_ns, f64::MIN_POSITIVE, MOST_NS)?;
    within("spread", model.spread, 0.0, 1e6)?;
    let curves: Vec<&Curve> = model
        .kinds()
        .filter_map(|k| model.curve(k))
        .chain(model.custom.iter().map(|(_, c)| c))
        .chain(&model.up)
        .chain(&model.down)
        .collect();
    if curves.len() > MOST_CURVES {
        return Err(format!("{} curves, at most {MOST_CURVES} are possible", curves.len()));
    }
    for curve in curves {
        let points = curve.points();
        if points.len() > MOST_POINTS {
            return Err(format!("a curve of {} points, at most {MOST_POINTS} are possible", points.len()));
        }
        for point in points {
            within("ns", Some(point.ns), 1e-3, MOST_NS)?;
            within("units", Some(point.units as f64), 1.0, 2f64.powi(48))?;
        }
    }
    Ok(())
}

fn within(what: &str, value: Option<f64>, least: f64, most: f64) -> Result<(), String> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(format!("{what} = {value:e} was never measured"))
        }
        _ => Ok(()),
    }
}
