//! Which kind of work suits this machine? Eight profiles and how well each fits.
//!
//! A profile names packages and the GPU memory they want. [`fit()`] says how well a machine serves it, with reasons;
//! [`plan`] makes an environment of it for one build of one framework: packages that do not work there are left out and
//! named, those without wheels are named with the command that installs them.

mod fit;
mod plan;
mod table;

use std::path::Path;

pub use fit::{Fit, fit};
pub use plan::{ByHand, LeftOut, Member, Plan, plan};
pub use table::{Package, Profile, Profiles, read_one};

use crate::data::{self, DataError, Loaded};

/// The table's file name, embedded and in the user's data directory.
pub const FILE: &str = "profiles.toml";
const EMBEDDED: &str = include_str!("../../data/profiles.toml");

/// The user's table in `dir` if it holds, else ours; profiles of `dir/profiles/*.toml` are added. Files that do not
/// hold are named and passed over.
pub fn load(dir: Option<&Path>) -> (Loaded<Profiles>, Vec<DataError>) {
    let mut loaded: Loaded<Profiles> = data::load(FILE, EMBEDDED, dir);
    let mut problems = Vec::new();
    for file in dir.map(table::own_files).unwrap_or_default() {
        match read_one(&file) {
            Ok(profile) => loaded.value.put(profile),
            Err(problem) => problems.push(problem),
        }
    }
    (loaded, problems)
}

/// What came with the program.
pub fn embedded() -> Profiles {
    load(None).0.value
}
