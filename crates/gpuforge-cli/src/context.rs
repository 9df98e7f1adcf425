//! What holds for the whole run? Output form, settings and places, resolved once.

use std::cell::OnceCell;

use anyhow::Result;
use gpuforge::settings::{Places, Settings, SettingsError};

use crate::{
    args::{Args, When},
    output::Output,
};

/// Reads an environment variable; one that is not UTF-8 counts as unset.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Is this about the device that is asked for?
pub(crate) fn of_device(problem: &SettingsError) -> bool {
    matches!(problem, SettingsError::WrongValue { key, .. } if key.name == "device")
}

/// The run's surroundings. Settings are read when a command asks for them: `completions` needs none.
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

    /// The settings `color` and `verbosity`, as far as the file is in order; what is wrong with it is reported by the
    /// command that reads the rest.
    fn stored_style() -> (When, String) {
        let Ok(places) = Places::of(&env) else { return (When::Auto, String::new()) };
        let settings = Settings::load_lenient(&places, &env, &[]);
        let color = match settings.color() {
            "always" => When::Always,
            "never" => When::Never,
            _ => When::Auto,
        };
        (color, settings.verbosity().to_owned())
    }

    /// `--memory-limit`, as it was typed.
    pub(crate) fn memory_limit(&self) -> Option<&str> {
        self.memory_limit.as_deref()
    }

    /// Where files live.
    pub(crate) fn places(&self) -> Result<Places> {
        Ok(Places::of(&env)?)
    }

    /// Settings of this run with `flags` and those of every command on top. Problems in the file are warnings: detection must not fail for them.
    pub(crate) fn settings(&self, places: &Places, flags: &[(&str, &str)]) -> &Settings {
        self.settings.get_or_init(|| {
            let common = self.memory_limit.as_deref().map(|limit| ("memory_limit", limit));
            let flags: Vec<(&str, &str)> = common.into_iter().chain(flags.iter().copied()).collect();
            let settings = Settings::load_lenient(places, &env, &flags);
            // A device that cannot be is an error where one is chosen, and concerns nobody else.
            for problem in settings.warnings().iter().filter(|p| !of_device(p)) {
                self.out.warn("settings", &problem.to_string(), problem.hint().as_deref());
            }
            settings
        })
    }
}
