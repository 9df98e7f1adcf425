//! Which builds of a framework run on a machine, and why not the others?
//!
//! ```text
//!  inventory, --for, --from ─► Machine ─┐
//!                data/compat.toml ──────┼─► choose ─► Answer { candidates, rejected }, each with its reasons
//!                          a Python ────┘
//! ```
//! Everything is a pure function of the table and the machine. What is not known rejects nothing: it becomes a note.
//!
//! ```
//! use gpuforge_env::compat;
//!
//! let table = compat::embedded();
//! let machine = compat::machine::named(&table, "GTX 1080")?;
//! let pytorch = table.framework("pytorch").expect("it is in the table");
//! let best = &compat::choose(&table, pytorch, &machine, None).candidates[0];
//! assert_eq!(best.requirement, "torch==2.14.1+cu126"); // the last one with code for Pascal
//! # Ok::<(), compat::machine::MachineError>(())
//! ```

pub mod chips;
mod choose;
pub mod machine;
pub mod table;
pub mod version;

use std::path::Path;

pub use choose::{Answer, Candidate, Rejected, choose};
pub use machine::{Chip, Machine, MachineError};
pub use table::{Accelerator, Compat, Framework, Os};
pub use version::{Need, Version};

use crate::data::{self, Loaded};

/// The table's file name, embedded and in the user's data directory.
pub const FILE: &str = "compat.toml";
const EMBEDDED: &str = include_str!("../../data/compat.toml");

/// The user's table in `dir` if it holds, else ours.
pub fn load(dir: Option<&Path>) -> Loaded<Compat> {
    data::load(FILE, EMBEDDED, dir)
}

/// What came with the program.
pub fn embedded() -> Compat {
    load(None).value
}

/// The name among `known` that is nearest to one that does not exist.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let near = known.into_iter().map(|k| (strsim::jaro_winkler(&name, k), k)).filter(|(near, _)| *near > 0.7);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}
