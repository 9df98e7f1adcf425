//! What can go wrong with settings, and what is the next step?

use std::{fmt, path::PathBuf, time::Duration};

use super::{
    table::{self, Key, VERSION},
    value::Reject,
};

/// Where a setting's text came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// An argument of `config get`, `config set` or `config unset`.
    Argument,
    /// A flag that stands for the setting of this name.
    Flag(String),
    /// An environment variable.
    Env(&'static str),
    /// A line of the settings file; line and column count from 1, columns in characters.
    File {
        /// The file.
        path: PathBuf,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
}

/// Printed in front of a message: nothing for an argument, `FILE:LINE:COLUMN: ` for a file.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Argument => Ok(()),
            Place::Flag(name) => write!(f, "--{}: ", name.replace('_', "-")),
            Place::Env(name) => write!(f, "{name}: "),
            Place::File { path, line, column } => write!(f, "{}:{line}:{column}: ", path.display()),
        }
    }
}

/// A problem with settings. `Display` names the thing and the limit, [`SettingsError::hint`] the next step.
///
/// Causes of the operating system are kept as text, so that a problem can be cloned, compared and collected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The platform's folders cannot be told.
    #[error("there is no home folder, so the place of {what} is not known")]
    NoHome {
        /// Which place was asked for.
        what: &'static str,
        /// Variable that names it directly.
        env: &'static str,
    },
    /// The file exists and cannot be read.
    #[error("cannot read settings {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The file is larger than any settings file.
    #[error("settings {} are larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// The file is not TOML.
    #[error("{place}not valid TOML: {what}")]
    Syntax {
        /// Where parsing stopped.
        place: Place,
        /// What stands in the way.
        what: String,
    },
    /// No setting has this name.
    #[error("{place}there is no setting `{}`", shown(name))]
    UnknownKey {
        /// Where the name stands.
        place: Place,
        /// The name.
        name: String,
    },
    /// The value does not fit its setting.
    #[error("{place}{} must be {}, not `{}`{}", key.name, key.kind, shown(given), because(reason))]
    WrongValue {
        /// Where the value stands.
        place: Place,
        /// The setting.
        key: &'static Key,
        /// What was given.
        given: String,
        /// Why that does not fit.
        reason: Reject,
    },
    /// A setting's name heads a table.
    #[error("{place}`{}` is a table; settings are lines of the form name = value", shown(name))]
    NotPlain {
        /// Where the table stands.
        place: Place,
        /// Its name.
        name: String,
    },
    /// The file's version is no whole number from 1.
    #[error("{place}version must be a whole number from 1, not `{}`", shown(given))]
    BadVersion {
        /// Where it stands.
        place: Place,
        /// What was given.
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
    /// The file cannot be written. The old content is untouched.
    #[error("cannot write settings {}: {why}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Another process did not finish writing in time.
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
            SettingsError::NoHome { env, .. } => format!("set HOME, or {env} to the place itself"),
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
            SettingsError::WrongValue { place, key, .. } => example(place, key),
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

/// An accepted value, written the way the rejected one was.
fn example(place: &Place, key: &Key) -> String {
    let value = key.example();
    match place {
        Place::Argument => format!("for example: gpuforge config set {} {value}", key.name),
        Place::Flag(name) => format!("for example: --{} {value}", name.replace('_', "-")),
        Place::Env(name) => format!("for example: {name}={value}"),
        Place::File { .. } => format!("for example: {} = {}", key.name, value.to_toml()),
    }
}

fn because(reason: &Reject) -> String {
    match reason {
        Reject::Kind => String::new(),
        reason => format!(": {reason}"),
    }
}

/// Hostile text made fit for one line of a terminal: control characters escaped, long texts cut.
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
