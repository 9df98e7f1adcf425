//! Environment profiles: package sets for kinds of work, their fit to a host, and the planned environment.
//!
//! A profile names packages and the GPU memory they need. [`fit()`] rates a host for it, with reasons; [`plan_env`] plans an
//! environment for one build of one framework: packages that do not work there are skipped and named, those without wheels
//! are listed with the command that installs them.

mod fit;
mod plan;
mod table;

use std::path::Path;

pub use fit::{ProfileFit, fit};
pub use plan::{EnvPlan, ManualInstall, PlannedPackage, SkippedPackage, plan_env};
pub use table::{Package, Profile, Profiles, read_one};

use crate::data::{self, DataError, LoadedTable};

/// The table's file name, embedded and in the user's data directory.
pub const FILE: &str = "profiles.toml";
const EMBEDDED: &str = include_str!("../../data/profiles.toml");

/// The user's table in `dir` if it is valid, else the embedded one; profiles of `dir/profiles/*.toml` are added. Invalid
/// files are reported and skipped.
pub fn load(dir: Option<&Path>) -> (LoadedTable<Profiles>, Vec<DataError>) {
    let mut loaded: LoadedTable<Profiles> = data::load(FILE, EMBEDDED, dir);
    let mut problems = Vec::new();
    for file in dir.map(table::own_files).unwrap_or_default() {
        match read_one(&file) {
            Ok(profile) => loaded.value.put(profile),
            Err(problem) => problems.push(problem),
        }
    }
    (loaded, problems)
}

/// The embedded table.
pub fn embedded() -> Profiles {
    load(None).0.value
}
