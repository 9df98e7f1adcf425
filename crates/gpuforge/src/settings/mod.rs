//! Settings: resolved from flag, environment, file, default, in this order of precedence, each value with its origin.
//!
//! [`KEYS`] is the table of settings. [`Settings::load`] runs once, at the start of a command, and reads one file; [`set`] and
//! [`unset`] edit that file. `GPUFORGE_SAFE_MODE` and `NO_COLOR` are not settings: they apply to one run and are never stored.
//!
//! ```
//! use gpuforge::settings::{Origin, UserPaths, Settings};
//!
//! let paths = UserPaths { config_file: "absent.toml".into(), cache_dir: "c".into(), data_dir: "d".into() };
//! let env = |name: &str| (name == "GPUFORGE_CACHE_TTL").then(|| "90s".to_owned());
//! let settings = Settings::load(&paths, &env, &[("cpu_only", "true")])?;
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
mod paths;
mod store;
mod table;
mod value;

pub use error::{SettingLocation, SettingsError};
pub use paths::{Env, UserPaths};
pub use store::{set, unset};
pub use table::{KEYS, SettingKey, VERSION, markdown, nearest, template};
pub use value::{SettingKind, SettingValue, ValueError};

/// The origin of a value.
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
    /// The built-in default.
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
    /// The effective value.
    pub value: SettingValue,
    /// Where it was set.
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
    /// Loads the settings of a run: flag before environment before file before default.
    ///
    /// `flags` are `(name, text)` pairs; the last of duplicates wins. A missing file means defaults. The first problem is the
    /// error, except in a file of a later version, where problems are warnings.
    pub fn load(paths: &UserPaths, env: Env<'_>, flags: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        let (settings, problems) = Settings::collect(paths, env, flags);
        match problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(settings),
        }
    }

    /// As [`Settings::load`], but every problem becomes a warning and the affected setting is skipped. For commands that must
    /// work with a broken settings file.
    pub fn load_lenient(paths: &UserPaths, env: Env<'_>, flags: &[(&str, &str)]) -> Settings {
        let (mut settings, mut problems) = Settings::collect(paths, env, flags);
        settings.warnings.append(&mut problems);
        settings
    }

    /// Settings without the invalid ones, and the problems: flags first, then environment, then file.
    fn collect(paths: &UserPaths, env: Env<'_>, flags: &[(&str, &str)]) -> (Settings, Vec<SettingsError>) {
        let mut settings = Settings::default();
        let mut from_file = settings.take_file(paths);
        let mut problems = settings.take_flags_over(env, flags);
        if settings.warnings.is_empty() {
            problems.append(&mut from_file);
        } else {
            settings.warnings.append(&mut from_file);
        }
        (settings, problems)
    }

    /// Applies the file; a later version is noted as a warning.
    fn take_file(&mut self, paths: &UserPaths) -> Vec<SettingsError> {
        let path = &paths.config_file;
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
            let Some(text) = paths::variable(env, name) else { continue };
            match key.parse(&text, SettingLocation::Env(name)) {
                Ok(value) => self.put(key.name, value, Origin::Env(name)),
                Err(problem) => {
                    self.keep_device(key, &text, Origin::Env(name));
                    of_env.push(problem);
                }
            }
        }
        let mut problems = Vec::new();
        for (name, text) in flags {
            let location = SettingLocation::Flag((*name).to_owned());
            let parsed = match SettingKey::find(name) {
                Some(key) => key.parse(text, location),
                None => Err(SettingsError::UnknownKey { location, name: (*name).to_owned() }),
            };
            match parsed {
                Ok(value) => self.put(name, value, Origin::Flag),
                Err(problem) => {
                    SettingKey::find(name).iter().for_each(|key| self.keep_device(key, text, Origin::Flag));
                    problems.push(problem);
                }
            }
        }
        problems.append(&mut of_env);
        problems
    }

    /// An invalid device is kept, unlike other settings: falling back to `auto` would be a choice that nobody made. It is
    /// rejected when a device is chosen.
    fn keep_device(&mut self, key: &SettingKey, text: &str, origin: Origin) {
        if key.kind == SettingKind::Device {
            self.put(key.name, SettingValue::Text(text.trim().to_owned()), origin);
        }
    }

    fn put(&mut self, name: &str, value: SettingValue, origin: Origin) {
        let row = KEYS.iter().zip(&mut self.resolved).find(|(key, _)| key.name == name);
        if let Some((_, resolved)) = row {
            *resolved = Resolved { value, origin };
        }
    }

    /// Ignored problems; empty after a strict load of a file of a known version.
    pub fn warnings(&self) -> &[SettingsError] {
        &self.warnings
    }

    /// One setting by name.
    pub fn get(&self, name: &str) -> Result<&Resolved, SettingsError> {
        let unknown =
            || SettingsError::UnknownKey { location: SettingLocation::Argument, name: name.to_owned() };
        self.all().find(|(key, _)| key.name == name).map(|(_, resolved)| resolved).ok_or_else(unknown)
    }

    /// Every setting in the order of [`KEYS`].
    pub fn all(&self) -> impl Iterator<Item = (&'static SettingKey, &Resolved)> {
        KEYS.iter().zip(&self.resolved)
    }
}

/// All defaults.
impl Default for Settings {
    fn default() -> Self {
        let default = |key: &SettingKey| Resolved { value: key.default_value(), origin: Origin::Default };
        Settings { resolved: KEYS.iter().map(default).collect(), warnings: Vec::new() }
    }
}

/// Typed accessors. A test compares every one with the table, so the fallbacks of the helpers are unreachable.
impl Settings {
    fn value(&self, name: &str) -> Option<&SettingValue> {
        self.get(name).ok().map(|resolved| &resolved.value)
    }

    fn yes(&self, name: &str) -> bool {
        matches!(self.value(name), Some(SettingValue::Bool(true)))
    }

    fn list(&self, name: &str) -> &[String] {
        match self.get(name).map(|r| &r.value) {
            Ok(SettingValue::List(items)) => items,
            _ => &[],
        }
    }

    fn text(&self, name: &str) -> &str {
        if let Some(SettingValue::Text(text)) = self.value(name) { text } else { "" }
    }

    fn span(&self, name: &str) -> Duration {
        if let Some(SettingValue::Duration(span)) = self.value(name) { *span } else { Duration::ZERO }
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

    /// Is the detection cache enabled?
    pub fn cache_enabled(&self) -> bool {
        self.yes("cache_enabled")
    }

    /// TTL of the detection cache; zero disables it.
    pub fn cache_ttl(&self) -> Duration {
        self.span("cache_ttl")
    }

    /// Do probes run in parallel?
    pub fn parallel_probes(&self) -> bool {
        self.yes("parallel_probes")
    }

    /// Timeout of one probe; never zero.
    pub fn probe_timeout(&self) -> Duration {
        self.span("probe_timeout")
    }

    /// `cpu` or `error`: what happens when the chosen device fails.
    pub fn fallback(&self) -> &str {
        self.text("fallback")
    }

    /// Requested device; `auto` leaves it to measurement.
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

    /// Are GPUs disabled?
    pub fn cpu_only(&self) -> bool {
        self.yes("cpu_only")
    }

    /// Device memory limit in bytes; `None` leaves it to the device's budget.
    pub fn memory_limit(&self) -> Option<u64> {
        if let Some(SettingValue::Size(bytes)) = self.value("memory_limit") { *bytes } else { None }
    }

    /// May the router explore backends that its model does not prefer?
    pub fn explore(&self) -> bool {
        self.yes("explore")
    }

    /// Work below this many bytes read and written always runs on the CPU; 0 leaves it to measurement.
    pub fn device_min_bytes(&self) -> u64 {
        if let Some(SettingValue::Size(Some(bytes))) = self.value("device_min_bytes") { *bytes } else { 0 }
    }

    /// May `gpuforge monitor` watch this process?
    pub fn monitor(&self) -> bool {
        self.yes("monitor")
    }

    /// `auto`, `always` or `never`.
    pub fn color(&self) -> &str {
        self.text("color")
    }
}
