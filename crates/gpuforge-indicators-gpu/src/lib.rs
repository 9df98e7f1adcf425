//! The indicator graph on a device: lowered once, run for batches of series, results left there or fetched once.
//!
//! ```text
//!   graph of gpuforge-indicators (values wanted)
//!        │ lower.rs      levels: pointwise nodes of a level fused into few generated kernels (pointwise.rs), every
//!        │               other primitive a job of a kernel that serves many (windows.rs, scans, machines.rs)
//!        ▼
//!   Lowered: levels of calls, columns with lifetimes in one arena
//!        │ layout.rs     series of any length cut into runs, runs interleaved: neighbouring threads, neighbouring words
//!        ▼
//!   gpuforge_runtime::Plan per batch: 1 upload (bars, tables, jobs), dispatches, 1 download       run.rs
//! ```

pub mod cost;
pub mod features;
pub mod kernels;
pub mod layout;
pub mod lower;
pub mod machines;
pub mod placement;
pub mod pointwise;
pub mod record;
pub mod run;
pub mod tune;
pub mod weight;
pub mod windows;
