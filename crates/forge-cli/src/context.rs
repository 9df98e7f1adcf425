//! What holds for the whole run? Output form, settings and places, resolved once.

use std::cell::OnceCell;

use anyhow::Result;
use gpuforge::settings::{Places, Settings};

use crate::{
    args::{Args, When},
    output::Output,
};

/// Reads an environment variable; one that is not UTF-8 counts as unset.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The run's surroundings. Settings are read when a command asks for them: `completions` needs none.
pub(crate) struct Context {
    pub(crate) out: Output,
    settings: OnceCell<Settings>,
}

impl Context {
    pub(crate) fn new(args: &Args) -> Self {
        let color = args.color.unwrap_or_else(|| Context::color_setting());
        Context { out: Output::new(args.json, args.quiet, args.verbose, color), settings: OnceCell::new() }
    }

    /// The `color` setting counts only when the file is in order; a broken one is reported by the command itself.
    fn color_setting() -> When {
        let settings = Places::of(&env).map(|places| Settings::load_lenient(&places, &env, &[]));
        match settings.as_ref().map(|s| s.color()) {
            Ok("always") => When::Always,
            Ok("never") => When::Never,
            _ => When::Auto,
        }
    }

    /// Where files live.
    pub(crate) fn places(&self) -> Result<Places> {
        Ok(Places::of(&env)?)
    }

    /// Settings of this run with `flags` on top. Problems in the file are warnings: detection must not fail for them.
    pub(crate) fn settings(&self, places: &Places, flags: &[(&str, &str)]) -> &Settings {
        self.settings.get_or_init(|| {
            let settings = Settings::load_lenient(places, &env, flags);
            for problem in settings.warnings() {
                self.out.warn("settings", &problem.to_string(), problem.hint().as_deref());
            }
            settings
        })
    }
}
