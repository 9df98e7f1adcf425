//! Indicators on the GPU: the indicator graph lowered to WGSL kernels, a hybrid CPU/GPU executor, and device-resident feature
//! tables.
//!
//! ```text
//!   Selection (gpuforge-indicators)
//!        │ executor      decides CPU or GPU per batch (cost model), splits columns between both, falls back to the CPU
//!        ▼
//!   Graph and wanted values
//!        │ lower         stages: pointwise nodes fused into generated kernels (pointwise), every other node a job of a
//!        │               shared kernel (rolling, prefix scans, state machines); column lifetimes in one arena
//!        ▼
//!   Lowered ──► Program  (kernels, record)
//!        │ layout        series cut into segments, segments interleaved for coalesced access; prices offset/scale encoded
//!        ▼
//!   runtime::Plan per batch: 1 upload, dispatches, 1 download         (gpu_executor)
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`executor`] | hybrid CPU/GPU executor: placement decision, calibration, fallback, spilling, `--explain`, regret |
//! | [`cost_model`] | predicted seconds from workload counts and calibrated rates; CPU or GPU, with the reason |
//! | [`placement`] | which columns may run on a device: f32 tolerance, and the reason of those that may not |
//! | [`conditioning`] | bounds of f32 rounding errors per graph node, by abstract interpretation |
//! | [`lower`] | graph to stages of kernel calls: fusion, scheduling, column allocation |
//! | [`pointwise`] | WGSL code generation of fused pointwise kernels |
//! | [`rolling`] | rolling-window kernels: sums, extremes, moments, order statistics |
//! | [`state_machines`] | sequential indicators (SAR, adaptive averages, Hilbert transform), one invocation per series |
//! | [`encoding`] | offset/scale encoding of prices in f32 |
//! | [`layout`] | segments of series, interleaved (SoA) for coalesced memory access |
//! | [`kernels`] | WGSL sources as runtime kernels |
//! | [`record`] | records a batch as a runtime plan |
//! | [`gpu_executor`] | runs lowered graphs: batching within the memory limit, batches in flight, decoding of results |
//! | [`autotune`] | workgroup size, segment length and slice length, measured per adapter |
//! | [`features`] | device-resident feature tables for training: normalisation, masks, sliding windows |
//! | [`spill_file`] | temporary file for results that exceed the memory limit |

pub mod autotune;
pub mod conditioning;
pub mod cost_model;
pub mod encoding;
pub mod executor;
pub mod features;
pub mod gpu_executor;
pub mod kernels;
pub mod layout;
pub mod lower;
pub mod placement;
pub mod pointwise;
pub mod record;
pub mod rolling;
pub mod spill_file;
pub mod state_machines;

pub use cost_model::DeviceChoice;
pub use executor::{
    DeviceAccess, DeviceError, DeviceKey, DeviceProvider, ExecRequest, ExecSummary, HybridExecutor, explain,
};
pub use spill_file::SpillFile;
