//! What hardware is here? An inventory of GPUs and CPU as plain data.
//!
//! ```text
//!  kernel files ─► tier 0 ─┐                                 ┌─ limits of this process (cgroup, affinity)
//!  drivers, tools ► tier 1 ┼─► ProbeReport… ─► merge ─► Detected ─┼─► finish ─► Inventory (score, best, overrides)
//!  pasted text ─► text ────┘                │  ▲             └─ environment variables
//!                                           ▼  │
//!                                           cache
//! ```
//! A *probe* is a thin read and a pure parse; a [`model::ProbeReport`] is what one source says; [`merge::merge`] decides
//! which mentions are one device; [`pipeline::finish`] scores and chooses. Tier 0 wakes no device and loads no library.
//! Tier 1 asks drivers under a deadline each, in child processes where the program offers an entry point for them
//! ([`probe::isolate::Isolation`]). The cache holds the merged devices only, never a failed probe.

pub mod cache;
pub mod cgroup;
pub mod classify;
pub mod cpu;
pub mod gpu_specs;
pub mod host;
pub mod merge;
pub mod model;
pub mod overrides;
pub mod parsers;
pub mod pci;
pub mod pipeline;
pub mod probe;
pub mod recording;
pub mod score;
pub mod sections;

pub use model::{Gpu, Inventory};
pub use pipeline::{CacheUse, Options, detect, from_text, record, replay};
