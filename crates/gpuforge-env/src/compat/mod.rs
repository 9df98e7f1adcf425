//! Compatibility matrix: which wheel builds of a framework run on a host (driver, CUDA/ROCm, GPU target, OS, Python).
//!
//! ```text
//!  inventory, --for, --from ─► HostSpec ─┐
//!          data/compat.toml (CompatTable)┼─► resolve ─► Resolution { candidates, rejected }, each with its reasons
//!                       Python version ──┘
//! ```
//! Everything is a pure function of the table and the host. An unknown value rejects nothing: it becomes a note.
//!
//! ```
//! use gpuforge_env::compat;
//!
//! let table = compat::embedded();
//! let host = compat::host_spec::named(&table, "GTX 1080")?;
//! let pytorch = table.framework("pytorch").expect("it is in the table");
//! let best = &compat::resolve(&table, pytorch, &host, None).candidates[0];
//! assert_eq!(best.requirement, "torch==2.14.1+cu126"); // the last one with code for Pascal
//! # Ok::<(), compat::host_spec::HostSpecError>(())
//! ```

pub mod chips;
pub mod host_spec;
mod resolve;
pub mod table;
pub mod version;

use std::path::Path;

pub use host_spec::{Chip, HostSpec, HostSpecError};
pub use resolve::{Candidate, Rejected, Resolution, resolve};
pub use table::{Accelerator, CompatTable, Framework, Os};
pub use version::{Version, VersionReq};

use crate::data::{self, LoadedTable};

/// The table's file name, embedded and in the user's data directory.
pub const FILE: &str = "compat.toml";
const EMBEDDED: &str = include_str!("../../data/compat.toml");

/// The user's table in `dir` if it is valid, else the embedded one.
pub fn load(dir: Option<&Path>) -> LoadedTable<CompatTable> {
    data::load(FILE, EMBEDDED, dir)
}

/// The embedded table.
pub fn embedded() -> CompatTable {
    load(None).value
}

/// The closest of `known` (Jaro-Winkler) to an unknown name.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let near = known.into_iter().map(|k| (strsim::jaro_winkler(&name, k), k)).filter(|(near, _)| *near > 0.7);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}
