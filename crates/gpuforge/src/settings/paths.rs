//! Paths of the settings file, cache and data directories: environment variables, else the platform's convention (XDG).

use std::path::PathBuf;

use etcetera::BaseStrategy as _;

use super::error::SettingsError;

/// Looks up an environment variable; injected, so that tests need not change the process environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The files and directories of gpuforge. Nothing is created here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPaths {
    /// The settings file.
    pub config_file: PathBuf,
    /// Cache directory: can be deleted at any time.
    pub cache_dir: PathBuf,
    /// Data directory: calibration, history, measured rates.
    pub data_dir: PathBuf,
}

/// The platform's base directories.
struct Base {
    config: PathBuf,
    cache: PathBuf,
    data: PathBuf,
}

impl UserPaths {
    /// Paths that cannot be opened, for users without a home directory: nothing is read or stored.
    pub fn unavailable() -> UserPaths {
        let never = || PathBuf::from("\0");
        UserPaths { config_file: never(), cache_dir: never(), data_dir: never() }
    }

    /// `GPUFORGE_CONFIG` (a file), `GPUFORGE_CACHE_DIR` and `GPUFORGE_DATA_DIR` where set and not empty, else
    /// the platform's convention: `$XDG_CONFIG_HOME/gpuforge/config.toml` and so on, `%APPDATA%` on Windows.
    ///
    /// `env` answers for the `GPUFORGE_` variables only; the home directory and the `XDG_` variables are those of
    /// the process. A missing home is an error only for a path that is not set by its variable.
    pub fn resolve(env: Env<'_>) -> Result<UserPaths, SettingsError> {
        // XDG on macOS too, as command-line tools do: ~/Library is for bundles.
        let base = etcetera::choose_base_strategy().ok().map(|base| Base {
            config: base.config_dir(),
            cache: base.cache_dir(),
            data: base.data_dir(),
        });
        UserPaths::within(env, base)
    }

    fn within(env: Env<'_>, base: Option<Base>) -> Result<UserPaths, SettingsError> {
        // HOME="" or a relative HOME would scatter files over working directories.
        let directory = |pick: fn(&Base) -> &PathBuf| {
            base.as_ref().map(pick).filter(|path| path.is_absolute()).map(|path| path.join("gpuforge"))
        };
        let path = |name: &'static str, what: &'static str, fallback: Option<PathBuf>| {
            let named = variable(env, name).map(PathBuf::from);
            named.or(fallback).ok_or(SettingsError::NoHome { what, env: name })
        };
        let config = directory(|base| &base.config).map(|dir| dir.join("config.toml"));
        Ok(UserPaths {
            config_file: path("GPUFORGE_CONFIG", "the settings file", config)?,
            cache_dir: path("GPUFORGE_CACHE_DIR", "the cache", directory(|base| &base.cache))?,
            data_dir: path("GPUFORGE_DATA_DIR", "the data directory", directory(|base| &base.data))?,
        })
    }
}

/// The value of a variable; blank counts as unset.
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
    fn variables_override_and_empty_ones_are_ignored() {
        let env = |name: &str| match name {
            "GPUFORGE_CONFIG" => Some("mine.toml".to_owned()),
            "GPUFORGE_CACHE_DIR" => Some(String::new()),
            _ => None,
        };
        let paths = UserPaths::within(&env, base("/home/u")).unwrap();
        assert_eq!(paths.config_file, PathBuf::from("mine.toml"));
        assert_eq!(paths.cache_dir, PathBuf::from("/home/u/k/gpuforge"));
        assert_eq!(paths.data_dir, PathBuf::from("/home/u/d/gpuforge"));
        let paths = UserPaths::within(&|_| None, base("/home/u")).unwrap();
        assert_eq!(paths.config_file, PathBuf::from("/home/u/c/gpuforge/config.toml"));
    }

    #[test]
    fn missing_or_relative_home_is_an_error_naming_the_variable() {
        for base in [None, base("")] {
            let error = UserPaths::within(&|_| None, base).unwrap_err();
            assert_eq!(
                error.to_string(),
                "there is no home directory, so the path of the settings file is not known"
            );
            assert_eq!(error.hint().unwrap(), "set HOME, or GPUFORGE_CONFIG to the path itself");
        }
    }

    #[test]
    fn no_home_is_needed_if_every_path_is_set() {
        let paths = UserPaths::within(&|name| Some(name.to_lowercase()), None).unwrap();
        assert_eq!(paths.data_dir, PathBuf::from("gpuforge_data_dir"));
    }
}
