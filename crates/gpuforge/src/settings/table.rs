//! The table of settings: the one place to add one; help, listing, docs, validation and template read it.

use std::{fmt::Write as _, time::Duration};

use super::{
    error::{SettingLocation, SettingsError},
    value::{SettingKind, SettingValue},
};

/// Version of the settings file; raised when a key changes its meaning or goes away.
pub const VERSION: i64 = 1;

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingKey {
    /// Name in the file and for `config get`; flat snake_case.
    pub name: &'static str,
    /// Its kind.
    pub kind: SettingKind,
    /// Default, as text of its kind.
    pub default: &'static str,
    /// Environment variable that sets it, if one does.
    pub env: Option<&'static str>,
    /// One line on what it does.
    pub doc: &'static str,
    /// First version of gpuforge that knows it.
    pub since: &'static str,
}

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// Every setting, in the order of the listing.
pub const KEYS: &[SettingKey] = &[
    SettingKey {
        name: "default_framework",
        kind: SettingKind::OneOf(&["pytorch", "tensorflow", "jax"]),
        default: "pytorch",
        env: None,
        doc: "Framework that an environment gets when none is named",
        since: "0.1.0",
    },
    SettingKey {
        name: "preferred_profile",
        // Not OneOf: a profile may be the user's own.
        kind: SettingKind::Text,
        default: "learning",
        env: None,
        doc: "Profile used when none is named: learning, research, computer_vision, nlp, deep_learning, \
              production, lightweight, reinforcement_learning, or one of your own",
        since: "0.1.0",
    },
    SettingKey {
        name: "auto_install",
        kind: SettingKind::Bool,
        default: "false",
        env: None,
        doc: "Install missing packages without asking",
        since: "0.1.0",
    },
    SettingKey {
        name: "verbosity",
        kind: SettingKind::OneOf(&["quiet", "normal", "verbose"]),
        default: "normal",
        env: Some("GPUFORGE_LOG"),
        doc: "How much is said on standard error",
        since: "0.1.0",
    },
    SettingKey {
        name: "cache_enabled",
        kind: SettingKind::Bool,
        default: "true",
        env: None,
        doc: "Cache what detection found for the next run",
        since: "0.1.0",
    },
    SettingKey {
        name: "cache_ttl",
        kind: SettingKind::Duration { min: Duration::ZERO, max: Duration::from_secs(365 * DAY) },
        default: "1h",
        env: Some("GPUFORGE_CACHE_TTL"),
        doc: "TTL of the detection cache; 0 detects every time",
        since: "0.1.0",
    },
    SettingKey {
        name: "parallel_probes",
        kind: SettingKind::Bool,
        default: "true",
        env: None,
        doc: "Run the probes of a detection in parallel",
        since: "0.1.0",
    },
    SettingKey {
        name: "probe_timeout",
        // Never zero and never endless: every wait has a time-out, and one of zero would find nothing.
        kind: SettingKind::Duration { min: Duration::from_millis(1), max: Duration::from_secs(10 * MINUTE) },
        default: "5s",
        env: Some("GPUFORGE_PROBE_TIMEOUT"),
        doc: "Timeout of one detection probe",
        since: "0.1.0",
    },
    SettingKey {
        name: "fallback",
        kind: SettingKind::OneOf(&["cpu", "error"]),
        default: "cpu",
        env: None,
        doc: "What happens when the chosen device fails: fall back to the CPU, or stop with an error",
        since: "0.1.0",
    },
    SettingKey {
        name: "device",
        kind: SettingKind::Device,
        default: "auto",
        env: Some("GPUFORGE_DEVICE"),
        doc: "Device that work is sent to; auto lets measurement decide, gpu takes the best GPU. A device that does not exist is an error",
        since: "0.1.0",
    },
    SettingKey {
        name: "devices_allow",
        kind: SettingKind::List,
        default: "",
        env: None,
        doc: "Only these devices may be used: positions, bus ids, vendors or parts of names; empty allows all",
        since: "0.1.0",
    },
    SettingKey {
        name: "devices_deny",
        kind: SettingKind::List,
        default: "",
        env: None,
        doc: "These devices are never used, however good they are",
        since: "0.1.0",
    },
    SettingKey {
        name: "cpu_only",
        kind: SettingKind::Bool,
        default: "false",
        env: Some("GPUFORGE_CPU_ONLY"),
        doc: "Never use a GPU",
        since: "0.1.0",
    },
    SettingKey {
        name: "memory_limit",
        kind: SettingKind::Size,
        default: "none",
        env: Some("GPUFORGE_MEMORY_LIMIT"),
        doc: "Device memory limit; none leaves it to the device's budget",
        since: "0.1.0",
    },
    SettingKey {
        name: "explore",
        kind: SettingKind::Bool,
        default: "true",
        env: None,
        doc: "Spend up to a hundredth of the time on backends that the cost model does not prefer, to correct it",
        since: "0.1.0",
    },
    SettingKey {
        name: "device_min_bytes",
        kind: SettingKind::Size,
        default: "none",
        env: None,
        doc: "Work that reads and writes less than this runs on the CPU; none leaves it to measurement",
        since: "0.1.0",
    },
    SettingKey {
        name: "monitor",
        kind: SettingKind::Bool,
        default: "false",
        env: Some("GPUFORGE_MONITOR"),
        doc: "Let `gpuforge monitor` watch every process that uses gpuforge; only their owner can",
        since: "0.1.0",
    },
    SettingKey {
        name: "color",
        kind: SettingKind::OneOf(&["auto", "always", "never"]),
        default: "auto",
        // No variable of its own: NO_COLOR is the convention, and the terminal layer reads it.
        env: None,
        doc: "Whether output is coloured; auto asks the terminal",
        since: "0.1.0",
    },
];

impl SettingKey {
    /// The row of that name.
    pub fn find(name: &str) -> Option<&'static SettingKey> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Parses a text for this key; the error carries its location.
    pub fn parse(
        &'static self,
        text: &str,
        location: SettingLocation,
    ) -> Result<SettingValue, SettingsError> {
        let wrong =
            |reason| SettingsError::WrongValue { location, key: self, given: text.to_owned(), reason };
        self.kind.parse(text).map_err(wrong)
    }

    /// The default as a value.
    pub fn default_value(&self) -> SettingValue {
        // The test `every_default_parses` makes the second arm unreachable.
        self.kind.parse(self.default).unwrap_or_else(|_| SettingValue::Text(self.default.to_owned()))
    }

    /// A valid value, for error messages.
    pub fn example(&self) -> SettingValue {
        match self.kind {
            SettingKind::Size => SettingValue::Size(Some(8 << 30)),
            _ => self.default_value(),
        }
    }
}

/// The setting whose name is closest to a mistyped one, if any is close.
pub fn nearest(name: &str) -> Option<&'static str> {
    // Longer names are not typos, and comparing them is slow.
    if name.len() > 64 {
        return None;
    }
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let score = |key: &SettingKey| strsim::jaro_winkler(&plain, key.name);
    let best = KEYS.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= 0.8).then_some(best.name)
}

/// All names with commas between them.
pub(super) fn all_names() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

/// First lines of every settings file that gpuforge creates.
pub(super) fn header() -> String {
    format!("# gpuforge settings\nversion = {VERSION}\n")
}

/// A settings file with every key commented out at its default; `config edit` starts from it.
pub fn template() -> String {
    let mut text = header();
    text.push_str("\n# Remove the # in front of a name to change its default.\n");
    for key in KEYS {
        let _ = write!(text, "\n# {}.\n# Must be {}", key.doc, key.kind);
        if let Some(env) = key.env {
            let _ = write!(text, "; {env} in the environment wins");
        }
        let _ = write!(text, ".\n# {} = {}\n", key.name, key.default_value().to_toml());
    }
    text
}

/// The table as Markdown, for the documentation.
pub fn markdown() -> String {
    let mut text =
        String::from("| setting | default | must be | environment | what it does |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let env = key.env.map_or_else(String::new, |env| format!("`{env}`"));
        // A default in seconds is set, not measured: the documentation's check for figures wants that said.
        let set =
            if matches!(key.kind, SettingKind::Duration { .. }) { " <!-- figure: a default -->" } else { "" };
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {} | {env} | {}{set} |",
            key.name, key.default, key.kind, key.doc
        );
    }
    text
}
