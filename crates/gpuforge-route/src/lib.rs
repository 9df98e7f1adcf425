//! Routing: predicts where an operation runs fastest (CPU or a device) from measured cost models, runs it there, and corrects
//! the models online.
//!
//! ```text
//!   Op ──► Work (FLOPs, bytes, transfers)
//!             │        CostModel per backend ◄── calibrate (benchmarks each op kind over sizes) ◄──► store, bundle (files)
//!             ▼                 │                                                    ▲
//!          route(work, models, corrections, policy) ──► Decision { backend_id, predicted, reason }
//!                                                          │                         │ measured time
//!          Router::run ──► Backend (CPU or device) ──► RunOutput ──► correction, exploration budget
//!          Router::batch ── equal operations fused, chunked, partitioned over backends by throughput
//! ```
//! A *backend* is the CPU (always index 0) or a device. An *op class* is an operation kind, or one custom kernel: each has a
//! cost curve (time over size) per backend. [`route()`] reads plain data only: no lock, no allocation.
//!
//! | file | what is in it |
//! |---|---|
//! | `route.rs` | the decision: [`PlacementPolicy`], [`Reason`], [`Decision`] |
//! | `curve.rs` · `model.rs` | cost curves (log-log interpolation); [`CostModel`], [`OpClass`], roofline fallback |
//! | `correction.rs` | online corrections of predictions, exploration budget |
//! | `backend.rs` · `backend/cpu.rs` · `backend/device.rs` | the [`Backend`] interface; the CPU; a device behind its runner |
//! | `router.rs` | decide, run, fall back to the CPU, learn |
//! | `calibrate.rs` · `calibrate/measure.rs` · `calibrate/sampling.rs` | calibration within a time budget; benchmark runs; sample sizes and statistics |
//! | `store.rs` · `bundle.rs` | the calibration file; export and import of a calibration for equal hardware |
//! | `chart.rs` · `chart/*` | crossover charts: terminal and SVG |
//! | `batch.rs` · `batch/schedule.rs` | batches: items, options, statistics; grouping and chunk scheduling |
//! | `chunk.rs` · `chunk_size.rs` | running one chunk (fused, one submission, one by one); adaptive chunk size |
//! | `submission_batch.rs` · `worker_pool.rs` · `duty_cycle.rs` | many operations in one submission; work sharing between CPU threads; duty-cycle limit |
//! | `partition.rs` · `multi_device.rs` | load balancing between backends; running a batch or one operation on several |

pub mod backend;
pub mod batch;
pub mod bundle;
pub mod calibrate;
pub mod chart;
mod chunk;
pub mod chunk_size;
pub mod correction;
pub mod curve;
pub mod duty_cycle;
pub mod model;
mod multi_device;
pub mod partition;
pub mod route;
pub mod router;
pub mod store;
mod submission_batch;
mod worker_pool;

pub use backend::{Backend, CpuBackend, DeviceBackend};
pub use batch::{BatchOptions, BatchRun, BatchStats, CancelToken, Item};
pub use gpuforge_ops::{OpCost, OpKind, Work};
pub use model::{CostModel, OpClass};
pub use route::{Decision, PlacementPolicy, Reason, route};
pub use router::{RouteError, Router, RouterSettings, RunOptions, RunOutput, RunReport};
