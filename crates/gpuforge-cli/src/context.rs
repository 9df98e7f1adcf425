//! Context of a run: output mode, settings and paths, resolved once.

use std::cell::OnceCell;

use anyhow::Result;
use gpuforge::settings::{Settings, SettingsError, UserPaths};

use crate::{
    args::{Args, ColorWhen},
    output::Output,
};

/// Reads an environment variable; one that is not UTF-8 counts as unset.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Is it an invalid value of the setting `device`?
pub(crate) fn of_device(problem: &SettingsError) -> bool {
    matches!(problem, SettingsError::WrongValue { key, .. } if key.name == "device")
}

/// Settings are read when a command first asks for them: `completions` needs none.
pub(crate) struct Context {
    pub(crate) out: Output,
    settings: OnceCell<Settings>,
    /// `--memory-limit`, which every command takes.
    memory_limit: Option<String>,
}

impl Context {
    pub(crate) fn new(args: &Args) -> Self {
        let (color, verbosity) = Context::stored_style();
        let (quiet, verbose) = match (args.quiet, args.verbose) {
            (false, false) => (verbosity == "quiet", verbosity == "verbose"),
            flags => flags,
        };
        let out = Output::new(args.json, quiet, verbose, args.color.unwrap_or(color));
        Context { out, settings: OnceCell::new(), memory_limit: args.memory_limit.clone() }
    }

    /// The settings `color` and `verbosity`. Problems in the file are reported by the command that reads the rest.
    fn stored_style() -> (ColorWhen, String) {
        let Ok(places) = UserPaths::resolve(&env) else { return (ColorWhen::Auto, String::new()) };
        let settings = Settings::load_lenient(&places, &env, &[]);
        let color = match settings.color() {
            "always" => ColorWhen::Always,
            "never" => ColorWhen::Never,
            _ => ColorWhen::Auto,
        };
        (color, settings.verbosity().to_owned())
    }

    /// `--memory-limit`, as it was typed.
    pub(crate) fn memory_limit(&self) -> Option<&str> {
        self.memory_limit.as_deref()
    }

    /// Paths of the settings file, the cache and the data directory.
    pub(crate) fn places(&self) -> Result<UserPaths> {
        Ok(UserPaths::resolve(&env)?)
    }

    /// Settings with `flags` and the global flags on top. Problems in the file are warnings: detection must not fail for them.
    pub(crate) fn settings(&self, places: &UserPaths, flags: &[(&str, &str)]) -> &Settings {
        self.settings.get_or_init(|| {
            let common = self.memory_limit.as_deref().map(|limit| ("memory_limit", limit));
            let flags: Vec<(&str, &str)> = common.into_iter().chain(flags.iter().copied()).collect();
            let settings = Settings::load_lenient(places, &env, &flags);
            // An invalid device is an error in commands that choose one, and no concern of the others.
            for problem in settings.warnings().iter().filter(|p| !of_device(p)) {
                self.out.warn("settings", &problem.to_string(), problem.hint().as_deref());
            }
            settings
        })
    }
}
