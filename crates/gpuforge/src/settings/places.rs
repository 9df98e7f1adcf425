//! Where do settings, cache and data live on this platform?

use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::error::SettingsError;

/// Looks up an environment variable; a parameter, so that tests need not change the process's own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The files and folders gpuforge uses. Nothing is created here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The settings file.
    pub config_file: PathBuf,
    /// Folder of what can be made again.
    pub cache_dir: PathBuf,
    /// Folder of what cannot.
    pub data_dir: PathBuf,
}

/// The platform's folders for every program of the user.
struct Base {
    config: PathBuf,
    cache: PathBuf,
    data: PathBuf,
}

impl Places {
    /// Places that no system can open, for users without a home folder: nothing is read, nothing is kept.
    pub fn nowhere() -> Places {
        let never = || PathBuf::from("\0");
        Places { config_file: never(), cache_dir: never(), data_dir: never() }
    }

    /// `GPUFORGE_CONFIG` (a file), `GPUFORGE_CACHE_DIR` and `GPUFORGE_DATA_DIR` where set and not empty, else
    /// the platform's convention: `$XDG_CONFIG_HOME/gpuforge/config.toml` and so on, `%APPDATA%` on Windows.
    ///
    /// `env` answers for the `GPUFORGE_` variables only; the home folder and the `XDG_` variables belong to the
    /// process. A missing home is an error only for a place that is not named by its variable.
    pub fn of(env: Env<'_>) -> Result<Places, SettingsError> {
        // The convention of command-line tools, which is XDG on macOS too: ~/Library is for bundles.
        let base = etcetera::choose_base_strategy().ok().map(|base| Base {
            config: base.config_dir(),
            cache: base.cache_dir(),
            data: base.data_dir(),
        });
        Places::within(env, base)
    }

    fn within(env: Env<'_>, base: Option<Base>) -> Result<Places, SettingsError> {
        // HOME="" or a relative HOME would scatter files over working folders.
        let folder = |pick: fn(&Base) -> &PathBuf| {
            base.as_ref().map(pick).filter(|path| path.is_absolute()).map(|path| path.join("gpuforge"))
        };
        let place = |name: &'static str, what: &'static str, fallback: Option<PathBuf>| {
            let named = variable(env, name).map(PathBuf::from);
            named.or(fallback).ok_or(SettingsError::NoHome { what, env: name })
        };
        let config = folder(|base| &base.config).map(|dir| dir.join("config.toml"));
        Ok(Places {
            config_file: place("GPUFORGE_CONFIG", "the settings file", config)?,
            cache_dir: place("GPUFORGE_CACHE_DIR", "the cache", folder(|base| &base.cache))?,
            data_dir: place("GPUFORGE_DATA_DIR", "the data folder", folder(|base| &base.data))?,
        })
    }
}

/// A variable's value; one that is empty or blank counts as unset.
pub(super) fn variable(env: Env<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(home: &str) -> Option<Base> {
        let home = PathBuf::from(home);
        Some(Base { config: home.join("c"), cache: home.join("k"), data: home.join("d") })
    }

    #[cfg(unix)]
    #[test]
    fn variables_win_and_empty_ones_do_not_count() {
        let env = |name: &str| match name {
            "GPUFORGE_CONFIG" => Some("mine.toml".to_owned()),
            "GPUFORGE_CACHE_DIR" => Some(String::new()),
            _ => None,
        };
        let places = Places::within(&env, base("/home/u")).unwrap();
        assert_eq!(places.config_file, PathBuf::from("mine.toml"));
        assert_eq!(places.cache_dir, PathBuf::from("/home/u/k/gpuforge"));
        assert_eq!(places.data_dir, PathBuf::from("/home/u/d/gpuforge"));
        let places = Places::within(&|_| None, base("/home/u")).unwrap();
        assert_eq!(places.config_file, PathBuf::from("/home/u/c/gpuforge/config.toml"));
    }

    #[test]
    fn no_home_or_a_relative_one_is_an_error_that_names_the_variable() {
        for base in [None, base("")] {
            let error = Places::within(&|_| None, base).unwrap_err();
            assert_eq!(
                error.to_string(),
                "there is no home folder, so the place of the settings file is not known"
            );
            assert_eq!(error.hint().unwrap(), "set HOME, or GPUFORGE_CONFIG to the place itself");
        }
    }

    #[test]
    fn with_every_place_named_no_home_is_needed() {
        let places = Places::within(&|name| Some(name.to_lowercase()), None).unwrap();
        assert_eq!(places.data_dir, PathBuf::from("gpuforge_data_dir"));
    }
}
