//! Hardware detection: an inventory of GPUs and the CPU as plain data ([`Inventory`]), with a ranked, selected GPU.
//!
//! ```text
//!  kernel files ──► tier 0 ─┐                                      ┌─ process limits (cgroup, affinity)
//!  drivers, tools ► tier 1 ─┼─► ProbeReport… ─► merge ─► Detected ─┼─► finish ─► Inventory (score, best, overrides)
//!  pasted text ──► parsers ─┘                    │  ▲              └─ environment variables (CUDA_VISIBLE_DEVICES…)
//!                                                ▼  │
//!                                           DetectionCache (fingerprint, TTL)
//! ```
//! A *probe* is a thin read and a pure parse; a [`model::ProbeReport`] is what one source states; [`merge::merge`]
//! deduplicates devices; [`pipeline::finish`] scores and selects. Tier 0 wakes no device and loads no library. Tier 1
//! queries drivers, each under a deadline and in a child process where the program offers an entry point for it
//! ([`probe::isolate::Isolation`]). The cache holds merged devices only: process limits, environment variables and scores
//! are applied afterwards, and a failed probe is never cached.
//!
//! | module | contents |
//! |---|---|
//! | [`pipeline`] | the detection pipeline; `detect`, `record`, `replay`, `from_text` |
//! | [`model`] | every type of the inventory; the JSON schema |
//! | [`probe`] | table `PROBES` of tier-1 probes, deadlines; `sysfs` (tier 0), `nvml`, `adapters` (wgpu), `isolate` (child processes), `filesystem` (real, recorded, recorder) |
//! | [`parsers`] | one parser per tool output format (`nvidia-smi`, `lspci`, `rocminfo`, …); table `FORMATS` |
//! | [`snapshot`] | what the APIs of Windows and macOS state, as plain data, and the reports that follow from it |
//! | [`sections`] | concatenated files with `==> path <==` headings |
//! | [`merge`] | device deduplication, evidence weights |
//! | [`classify`] · [`pci`] | device type of a chip; PCI ids, classes and names |
//! | [`score`] · [`gpu_specs`] | suitability score and ranking; published figures per model |
//! | [`overrides`] | visibility variables and the user's device preference |
//! | [`cache`] · [`recording`] | detection cache and its fingerprint; record/replay with redaction |
//! | [`cpu`] · [`cgroup`] · [`host`] | CPU topology and caches; cgroup limits; container, WSL, hypervisor |

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
pub mod snapshot;

pub use model::{Gpu, Inventory};
pub use pipeline::{CacheUse, DetectOptions, detect, from_text, record, replay};
