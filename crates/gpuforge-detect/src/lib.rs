//! What hardware is here? An inventory of GPUs and CPU as plain data.
//!
//! ```text
//!  kernel files ─► tier 0 ─┐                                 ┌─ limits of this process (cgroup, affinity)
//!  drivers, tools ► tier 1 ┼─► Report… ─► merge ─► Detected ─┼─► finish ─► Inventory (score, best, overrides)
//!  pasted text ─► text ────┘                │  ▲             └─ environment variables
//!                                           ▼  │
//!                                           cache
//! ```
//! A *probe* is a thin read and a pure parse; a [`model::Report`] is what one source says; [`merge::merge`] decides
//! which mentions are one device; [`live::finish`] scores and chooses. Tier 0 wakes no device and loads no library.
//! Tier 1 asks drivers under a deadline each, in child processes where the program offers an entry point for them
//! ([`probe::isolate::Isolation`]). The cache holds the merged devices only, never a failed probe.

pub mod cache;
pub mod cards;
pub mod cgroup;
pub mod cpu;
pub mod families;
pub mod host;
pub mod live;
pub mod merge;
pub mod model;
pub mod overrides;
pub mod pci;
pub mod probe;
pub mod record;
pub mod score;
pub mod sections;
pub mod text;

pub use live::{CacheUse, Options, detect, from_text, record, replay};
pub use model::{Gpu, Inventory};
