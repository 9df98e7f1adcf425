//! What did the user settle, and where? Flag, then environment, then file, then default.
//!
//! [`KEYS`] is the one table of settings. [`Settings::load`] answers once, at the start of a command, and reads
//! nothing but the one file; [`set`] and [`unset`] change that file. `GPUFORGE_SAFE_MODE` and `NO_COLOR` are no
//! settings: they describe one run and are never stored.
//!
//! ```
//! use gpuforge::settings::{Origin, Places, Settings};
//!
//! let places = Places { config_file: "absent.toml".into(), cache_dir: "c".into(), data_dir: "d".into() };
//! let env = |name: &str| (name == "GPUFORGE_CACHE_TTL").then(|| "90s".to_owned());
//! let settings = Settings::load(&places, &env, &[("cpu_only", "true")])?;
//! assert_eq!(settings.cache_ttl().as_secs(), 90);
//! assert_eq!(settings.get("cache_ttl")?.origin, Origin::Env("GPUFORGE_CACHE_TTL"));
//! assert!(settings.cpu_only());
//! # Ok::<(), gpuforge::settings::SettingsError>(())
//! ```

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Serialize, Serializer};

mod edit;
mod error;
mod file;
mod places;
mod store;
mod table;
mod value;

pub use error::{Place, SettingsError};
pub use places::{Env, Places};
pub use store::{set, unset};
pub use table::{KEYS, Key, VERSION, markdown, nearest, template};
pub use value::{Kind, Reject, Value};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A flag of this command.
    Flag,
    /// This environment variable.
    Env(&'static str),
    /// This settings file.
    #[serde(serialize_with = "lossy")]
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Env(name) => f.write_str(name),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A path that is not UTF-8 must not make a listing fail.
fn lossy<S: Serializer>(path: &std::path::Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// The value that counts.
    pub value: Value,
    /// Who said so.
    pub origin: Origin,
}

/// Every setting of one run, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Parallel to [`KEYS`].
    resolved: Vec<Resolved>,
    warnings: Vec<SettingsError>,
}

impl Settings {
    /// Reads the settings of a run: flag before environment before file before default.
    ///
    /// `flags` are `(name, text)` pairs; of two with one name the last counts. A missing file means defaults.
    /// The first problem is the error, but for a file of a later version: what is wrong in it is a warning.
    pub fn load(places: &Places, env: Env<'_>, flags: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let (settings, problems) = Settings::collect(places, env, flags);
        match problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(settings),
        }
    }

    /// As [`Settings::load`], but every problem becomes a warning and what it concerns is left out. For
    /// commands that must answer whatever the user's file looks like.
    pub fn load_lenient(places: &Places, env: Env<'_>, flags: &[(&str, &str)]) -> Settings {
        let (mut settings, mut problems) = Settings::collect(places, env, flags);
        settings.warnings.append(&mut problems);
        settings
    }

    /// Settings with what is wrong left out, and what is wrong, beginning with what is closest to the user.
    fn collect(places: &Places, env: Env<'_>, flags: &[(&str, &str)]) -> (Settings, Vec<SettingsError>) {
        let mut settings = Settings::default();
        let mut from_file = settings.take_file(places);
        let mut problems = settings.take_flags_over(env, flags);
        if settings.warnings.is_empty() {
            problems.append(&mut from_file);
        } else {
            settings.warnings.append(&mut from_file);
        }
        (settings, problems)
    }

    /// Applies the file; a later version is noted as a warning.
    fn take_file(&mut self, places: &Places) -> Vec<SettingsError> {
        let path = &places.config_file;
        let contents = match file::read(path).and_then(|text| file::parse(path, &text.unwrap_or_default())) {
            Ok(contents) => contents,
            Err(problem) => return vec![problem],
        };
        for (name, value) in contents.values {
            self.put(name, value, Origin::File(path.clone()));
        }
        for problem in &contents.problems {
            if let SettingsError::WrongValue { key, given, .. } = problem {
                let given = given.trim_matches(['"', '\'']);
                self.keep_device(key, given, Origin::File(path.clone()));
            }
        }
        if contents.newer {
            self.warnings = contents.problems;
            return Vec::new();
        }
        contents.problems
    }

    /// Applies the environment, then the flags; problems of the flags come first.
    fn take_flags_over(&mut self, env: Env<'_>, flags: &[(&str, &str)]) -> Vec<SettingsError> {
        let mut of_env = Vec::new();
        for (key, name) in KEYS.iter().filter_map(|key| Some((key, key.env?))) {
            let Some(text) = places::variable(env, name) else { continue };
            match key.parse(&text, Place::Env(name)) {
                Ok(value) => self.put(key.name, value, Origin::Env(name)),
                Err(problem) => {
                    self.keep_device(key, &text, Origin::Env(name));
                    of_env.push(problem);
                }
            }
        }
        let mut problems = Vec::new();
        for (name, text) in flags {
            let place = Place::Flag((*name).to_owned());
            let parsed = match Key::find(name) {
                Some(key) => key.parse(text, place),
                None => Err(SettingsError::UnknownKey { place, name: (*name).to_owned() }),
            };
            match parsed {
                Ok(value) => self.put(name, value, Origin::Flag),
                Err(problem) => {
                    Key::find(name).iter().for_each(|key| self.keep_device(key, text, Origin::Flag));
                    problems.push(problem);
                }
            }
        }
        problems.append(&mut of_env);
        problems
    }

    /// A device that cannot be is not left out as other settings are: `auto` in its place would be a choice that nobody made.
    /// It is refused where devices are chosen.
    fn keep_device(&mut self, key: &Key, text: &str, origin: Origin) {
        if key.kind == Kind::Device {
            self.put(key.name, Value::Text(text.trim().to_owned()), origin);
        }
    }

    fn put(&mut self, name: &str, value: Value, origin: Origin) {
        let row = KEYS.iter().zip(&mut self.resolved).find(|(key, _)| key.name == name);
        if let Some((_, resolved)) = row {
            *resolved = Resolved { value, origin };
        }
    }

    /// What was ignored, in words for the user; empty after a strict load of a file of a known version.
    pub fn warnings(&self) -> &[SettingsError] {
        &self.warnings
    }

    /// One setting by name.
    pub fn get(&self, name: &str) -> Result<&Resolved, SettingsError> {
        let unknown = || SettingsError::UnknownKey { place: Place::Argument, name: name.to_owned() };
        self.all().find(|(key, _)| key.name == name).map(|(_, resolved)| resolved).ok_or_else(unknown)
    }

    /// Every setting in the order of [`KEYS`].
    pub fn all(&self) -> impl Iterator<Item = (&'static Key, &Resolved)> {
        KEYS.iter().zip(&self.resolved)
    }
}

/// Nothing but defaults.
impl Default for Settings {
    fn default() -> Self {
        let default = |key: &Key| Resolved { value: key.default_value(), origin: Origin::Default };
        Settings { resolved: KEYS.iter().map(default).collect(), warnings: Vec::new() }
    }
}

/// Typed access. The names and kinds below are in the table, which a test compares with every method here;
/// the fall-back of each helper is therefore never seen.
impl Settings {
    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name).ok().map(|resolved| &resolved.value)
    }

    fn yes(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Bool(true)))
    }

    fn list(&self, name: &str) -> &[String] {
        match self.get(name).map(|r| &r.value) {
            Ok(Value::List(items)) => items,
            _ => &[],
        }
    }

    fn text(&self, name: &str) -> &str {
        if let Some(Value::Text(text)) = self.value(name) { text } else { "" }
    }

    fn span(&self, name: &str) -> Duration {
        if let Some(Value::Duration(span)) = self.value(name) { *span } else { Duration::ZERO }
    }

    /// Framework that an environment gets when none is named.
    pub fn default_framework(&self) -> &str {
        self.text("default_framework")
    }

    /// Profile used when none is named; may be the user's own.
    pub fn preferred_profile(&self) -> &str {
        self.text("preferred_profile")
    }

    /// May missing packages be installed without asking?
    pub fn auto_install(&self) -> bool {
        self.yes("auto_install")
    }

    /// `quiet`, `normal` or `verbose`.
    pub fn verbosity(&self) -> &str {
        self.text("verbosity")
    }

    /// Is what detection found kept?
    pub fn cache_enabled(&self) -> bool {
        self.yes("cache_enabled")
    }

    /// How long a kept detection is fresh; zero means never.
    pub fn cache_ttl(&self) -> Duration {
        self.span("cache_ttl")
    }

    /// Do probes run side by side?
    pub fn parallel_probes(&self) -> bool {
        self.yes("parallel_probes")
    }

    /// How long one probe may take; never zero.
    pub fn probe_timeout(&self) -> Duration {
        self.span("probe_timeout")
    }

    /// `cpu` or `error`: what happens when the chosen device fails.
    pub fn fallback(&self) -> &str {
        self.text("fallback")
    }

    /// The device asked for; `auto` when measurement decides.
    pub fn device(&self) -> &str {
        self.text("device")
    }

    /// Devices that may be used; empty allows all.
    pub fn devices_allow(&self) -> &[String] {
        self.list("devices_allow")
    }

    /// Devices that are never used.
    pub fn devices_deny(&self) -> &[String] {
        self.list("devices_deny")
    }

    /// Must no GPU be used?
    pub fn cpu_only(&self) -> bool {
        self.yes("cpu_only")
    }

    /// Most device memory in use at once, in bytes; `None` leaves it to the device's budget.
    pub fn memory_limit(&self) -> Option<u64> {
        if let Some(Value::Size(bytes)) = self.value("memory_limit") { *bytes } else { None }
    }

    /// May the router try what its model does not prefer?
    pub fn explore(&self) -> bool {
        self.yes("explore")
    }

    /// Less work than this, in bytes read and written, never leaves the processor; 0 leaves it to measurement.
    pub fn device_min_bytes(&self) -> u64 {
        if let Some(Value::Size(Some(bytes))) = self.value("device_min_bytes") { *bytes } else { 0 }
    }

    /// May `gpuforge monitor` watch?
    pub fn monitor(&self) -> bool {
        self.yes("monitor")
    }

    /// `auto`, `always` or `never`.
    pub fn color(&self) -> &str {
        self.text("color")
    }
}
