//! Fault-tolerant GPU runtime: plans recorded as data, engines that run them, pooled device memory, recovery from OOM and
//! device loss, fallback to the CPU.
//!
//! ```text
//! Plan (commands over slots: upload, dispatch, copy, download, free)
//!   │ Runner::run / run_batch
//!   ▼
//! Runner ── opens on demand ──► Session = Engine + MemoryStack
//!   │                             │ 1. materialises imported tensors   (tensor.rs: host copy, resident, or lineage)
//!   │                             │ 2. assigns buffers to slots        (session.rs, memory/: pool ► limit ► device)
//!   │                             │ 3. submits a Job, waits with a deadline, checks health and outputs
//!   │                             ▼
//!   │                           Engine: GpuEngine (wgpu on its own thread) · DummyEngine (faults) · CPU reference
//!   │ on failure: recovery::next_step
//!   ├─ OOM           evict idle buffers and retry, then split the batch
//!   ├─ device lost   reopen the device, replay the plan
//!   └─ otherwise     fall back to the CPU reference
//!   ▼
//! RunOutcome (ChunkOutputs, RecoveryEvents)
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `plan.rs` · `kernel.rs` · `host.rs` | single-assignment command list; WGSL kernel with its CPU reference; host bytes for upload |
//! | `engine/mod.rs` | the `Engine` and `Opener` traits, capabilities, errors |
//! | `engine/gpu/*` | wgpu engine: device thread, command encoding, staging ring, readback, pipeline cache |
//! | `engine/reference.rs` · `engine/dummy.rs` | CPU reference engine; device without hardware with fault injection |
//! | `engine/fallback.rs` · `engine/init.rs` | device fallback list; initialisation times |
//! | `memory/*` | buffer pool, limit, tracking, pressure, leak detection, budget; see the picture in `memory/mod.rs` |
//! | `tensor.rs` | device-resident tensors, re-materialised after device loss |
//! | `session.rs` · `runner.rs` · `recovery.rs` | one plan on one device; runs with recovery; the recovery table and circuit breaker |
//! | `lazy.rs` | lazily initialised components and their startup cost |
//! | `units.rs` | `Bytes` |
//!
//! Invariants: a plan can be replayed from its beginning and gives the same bits; no lock is held while a driver, callback
//! or allocator is called; every wait has a deadline.

pub mod engine;
pub mod host;
pub mod kernel;
pub mod lazy;
pub mod memory;
pub mod plan;
pub mod recovery;
pub mod runner;
pub mod session;
pub mod tensor;
pub mod units;
