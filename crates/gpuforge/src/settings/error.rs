//! Settings errors, with location and hint.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    table::{self, SettingKey, VERSION},
    value::ValueError,
};

/// The location of a setting's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingLocation {
    /// An argument of `config get`, `config set` or `config unset`.
    Argument,
    /// The flag of the setting of this name.
    Flag(String),
    /// An environment variable.
    Env(&'static str),
    /// A line of the settings file; line and column count from 1, columns in characters.
    File {
        /// The file; boxed, which keeps errors small where paths are large (Windows).
        path: Box<Path>,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
}

/// Printed in front of a message: nothing for an argument, `FILE:LINE:COLUMN: ` for a file.
impl fmt::Display for SettingLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingLocation::Argument => Ok(()),
            SettingLocation::Flag(name) => write!(f, "--{}: ", name.replace('_', "-")),
            SettingLocation::Env(name) => write!(f, "{name}: "),
            SettingLocation::File { path, line, column } => write!(f, "{}:{line}:{column}: ", path.display()),
        }
    }
}

/// A settings error; [`SettingsError::hint`] is the next step.
///
/// OS errors are stored as text, so that errors can be cloned, compared and collected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The platform's directories are unknown.
    #[error("there is no home directory, so the path of {what} is not known")]
    NoHome {
        /// Which path was needed.
        what: &'static str,
        /// Variable that names it directly.
        env: &'static str,
    },
    /// The file exists and cannot be read.
    #[error("cannot read settings {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The OS error.
        why: String,
    },
    /// The file exceeds the size limit.
    #[error("settings {} are larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The file is not TOML.
    #[error("{location}not valid TOML: {what}")]
    Syntax {
        /// Where parsing stopped.
        location: SettingLocation,
        /// The parser's message.
        what: String,
    },
    /// No setting has this name.
    #[error("{location}there is no setting `{}`", shown(name))]
    UnknownKey {
        /// Location of the name.
        location: SettingLocation,
        /// The name.
        name: String,
    },
    /// The value is invalid for its setting.
    #[error("{location}{} must be {}, not `{}`{}", key.name, key.kind, shown(given), because(reason))]
    WrongValue {
        /// Location of the value.
        location: SettingLocation,
        /// The setting.
        key: &'static SettingKey,
        /// The given text.
        given: String,
        /// Why it is invalid.
        reason: ValueError,
    },
    /// A setting's name heads a table.
    #[error("{location}`{}` is a table; settings are lines of the form name = value", shown(name))]
    NotPlain {
        /// Location of the table.
        location: SettingLocation,
        /// Its name.
        name: String,
    },
    /// The file's version is not a positive integer.
    #[error("{location}version must be a whole number from 1, not `{}`", shown(given))]
    BadVersion {
        /// Location of the version.
        location: SettingLocation,
        /// The given text.
        given: String,
    },
    /// The file was written by a later gpuforge.
    #[error("settings {} have version {found}; this gpuforge knows up to {VERSION}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// The file cannot be written; it is unchanged.
    #[error("cannot write settings {}: {why}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The OS error.
        why: String,
    },
    /// Timed out waiting for another process's lock.
    #[error("settings are locked by another process: waited {} ms for {}", waited.as_millis(), lock.display())]
    Locked {
        /// The lock file.
        lock: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
}

impl SettingsError {
    /// The next step, for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            SettingsError::NoHome { env, .. } => format!("set HOME, or {env} to the path itself"),
            SettingsError::Unreadable { path, .. } => {
                format!("make {} readable, or set GPUFORGE_CONFIG to another file", path.display())
            }
            SettingsError::TooLarge { .. } => {
                "check that GPUFORGE_CONFIG names a settings file, or move the file away".to_owned()
            }
            SettingsError::Syntax { .. } => {
                "correct that line (gpuforge config edit), or move the file away to use the defaults"
                    .to_owned()
            }
            SettingsError::UnknownKey { name, .. } => match table::nearest(name) {
                Some(near) => format!("did you mean {near}? There are: {}", table::all_names()),
                None => format!("there are: {}", table::all_names()),
            },
            SettingsError::WrongValue { location, key, .. } => example(location, key),
            SettingsError::NotPlain { .. } => "remove the table (gpuforge config edit)".to_owned(),
            SettingsError::BadVersion { .. } => format!("for example: version = {VERSION}"),
            SettingsError::Newer { .. } => {
                "use the gpuforge that wrote them, or set GPUFORGE_CONFIG to another file".to_owned()
            }
            SettingsError::Unwritable { path, .. } => {
                format!("make {} writable, or set GPUFORGE_CONFIG to another file", path.display())
            }
            SettingsError::Locked { .. } => {
                "try again when the other gpuforge is done; the lock ends with its process".to_owned()
            }
        };
        Some(hint)
    }
}

/// A valid value, in the syntax of the rejected one's location.
fn example(location: &SettingLocation, key: &SettingKey) -> String {
    let value = key.example();
    match location {
        SettingLocation::Argument => format!("for example: gpuforge config set {} {value}", key.name),
        SettingLocation::Flag(name) => format!("for example: --{} {value}", name.replace('_', "-")),
        SettingLocation::Env(name) => format!("for example: {name}={value}"),
        SettingLocation::File { .. } => format!("for example: {} = {}", key.name, value.to_toml()),
    }
}

fn because(reason: &ValueError) -> String {
    match reason {
        ValueError::WrongKind => String::new(),
        reason => format!(": {reason}"),
    }
}

/// Sanitises text for one terminal line: control characters escaped, long texts truncated.
fn shown(text: &str) -> String {
    const LIMIT: usize = 80;
    let mut short: String = text.chars().take(LIMIT).flat_map(escaped).collect();
    if text.chars().nth(LIMIT).is_some() {
        short.push('…');
    }
    short
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    let plain = (!c.is_control()).then_some(c);
    plain.into_iter().chain(c.is_control().then(|| c.escape_default()).into_iter().flatten())
}
