//! Profile table: the schema of `data/profiles.toml` and of a user's own profile file.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    compat::{Accelerator, Os, Version, VersionReq},
    data::{self, DataError, DataTable},
    render::is_safe_name,
};

/// A kind of work.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name; for a file of one profile the file's name where it is not given.
    #[serde(default)]
    pub name: String,
    /// One line on what it is for.
    #[serde(default)]
    pub title: String,
    /// GiB of GPU memory below which it hardly works.
    #[serde(default)]
    pub least: f64,
    /// GiB of GPU memory from which on it is enough.
    #[serde(default)]
    pub good: f64,
    /// Fit without a GPU (0-100).
    #[serde(rename = "processor", default = "half")]
    pub cpu_fit: u8,
    /// Packages, by the names of the table or of the default index.
    pub packages: Vec<String>,
    /// Added when the GPU has less memory than `good`.
    #[serde(default)]
    pub when_short: Vec<String>,
    /// Exact versions by package.
    #[serde(default)]
    pub pins: BTreeMap<String, Version>,
    /// Oldest and newest Python the versions are for.
    pub pins_python: Option<(Version, Version)>,
}

fn half() -> u8 {
    50
}

/// A package with constraints or different names.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Its name in profiles.
    pub name: String,
    /// Its name for pip, where it differs.
    pub pip: Option<String>,
    /// Its name on conda-forge, where it differs; empty where it is not there.
    pub conda: Option<String>,
    /// Its version comes with the framework's release.
    #[serde(default)]
    pub with: bool,
    /// Frameworks it works with; any where none is named.
    #[serde(default)]
    pub frameworks: Vec<String>,
    /// Releases of the framework it works with.
    pub framework_version: Option<VersionReq>,
    /// Accelerators it supports; any where none is named.
    #[serde(default)]
    pub accelerators: Vec<Accelerator>,
    /// Lowest compute capability.
    pub least: Option<Version>,
    /// Systems; any where none is named.
    #[serde(default)]
    pub os: Vec<Os>,
    /// CPU architectures; any where none is named.
    #[serde(default)]
    pub arch: Vec<String>,
    /// How to install what has no wheels.
    pub by_hand: Option<String>,
}

/// The whole table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// Layout.
    pub version: u32,
    /// Kinds of work.
    pub profile: Vec<Profile>,
    /// Packages that are not simply a name.
    #[serde(default)]
    pub package: Vec<Package>,
}

impl Profiles {
    /// A profile by name; `-` and `_` are the same.
    pub fn find(&self, name: &str) -> Option<&Profile> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        self.profile.iter().find(|p| p.name.to_ascii_lowercase().replace('-', "_") == name)
    }

    /// A package's row, or one that says nothing but the name.
    pub fn package(&self, name: &str) -> Package {
        let row = self.package.iter().find(|p| p.name == name).cloned();
        row.unwrap_or_else(|| Package { name: name.to_owned(), ..Package::default() })
    }

    /// Adds a profile, or changes the one of its name.
    pub fn put(&mut self, profile: Profile) {
        match self.profile.iter_mut().find(|p| p.name == profile.name) {
            Some(old) => *old = profile,
            None => self.profile.push(profile),
        }
    }
}

impl DataTable for Profiles {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        if self.profile.is_empty() {
            return Err("there is no profile".to_owned());
        }
        let mut names = BTreeSet::new();
        for profile in &self.profile {
            check(profile)?;
            if !names.insert(&profile.name) {
                return Err(format!("profile {:?} is listed twice", profile.name));
            }
        }
        let mut names = BTreeSet::new();
        for package in &self.package {
            let spelled = [Some(&package.name), package.pip.as_ref(), package.conda.as_ref()];
            if let Some(word) = spelled.into_iter().flatten().find(|w| !w.is_empty() && !is_safe_name(w)) {
                return Err(format!("package {word:?} is not a plain name"));
            }
            if package.by_hand.as_ref().is_some_and(|text| text.chars().any(char::is_control)) {
                return Err(format!("package {:?}: by_hand has more than one line", package.name));
            }
            if !names.insert(&package.name) {
                return Err(format!("package {:?} is listed twice", package.name));
            }
        }
        Ok(())
    }
}

fn check(profile: &Profile) -> Result<(), String> {
    let name = &profile.name;
    if name.is_empty() || !is_safe_name(name) {
        return Err(format!("profile {name:?}: the name has letters, digits, - and _ only"));
    }
    if profile.title.chars().any(char::is_control) {
        return Err(format!("profile {name}: title has more than one line"));
    }
    let sound = profile.least.is_finite() && profile.least >= 0.0 && profile.good.is_finite();
    if !sound || profile.good < profile.least || profile.cpu_fit > 100 {
        return Err(format!("profile {name}: 0 <= least <= good, processor at most 100"));
    }
    if profile.packages.is_empty() {
        return Err(format!("profile {name}: there is no package"));
    }
    // Only plain names may be written into files that tools execute.
    let all = profile.packages.iter().chain(&profile.when_short).chain(profile.pins.keys());
    match all.into_iter().find(|package| !is_safe_name(package)) {
        Some(package) => Err(format!("profile {name}: {package:?} is not a package name")),
        None => Ok(()),
    }
}

/// A file of one profile has no layout version.
impl DataTable for Profile {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        1
    }
}

/// Reads a file of one profile; its name is the file's where it gives none.
pub fn read_one(path: &Path) -> Result<Profile, DataError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| DataError::Read { path: path.to_owned(), error })?;
    let mut profile: Profile = data::parse(&text, path)?;
    if profile.name.is_empty() {
        profile.name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    }
    if profile.title.is_empty() {
        "a profile of your own".clone_into(&mut profile.title);
    }
    check(&profile).map_err(|message| DataError::Content { path: path.to_owned(), message })?;
    Ok(profile)
}

/// Files of profiles in the user's directory, by name.
pub(super) fn own_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("profiles")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}
