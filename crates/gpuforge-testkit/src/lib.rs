//! Test kit for engines: conformance suite, fault injection, fault sweeps, soak test, tolerances. Test-only.
//!
//! ```text
//! plans, kernels, workload   known answers (integer kernels, plain Rust reference)
//!        │
//!        ├─► conformance     every check on one engine: results, memory, jobs
//!        ├─► fault_matrix    dummy engine: one fault at every event, one run each
//!        ├─► fault_sweep     any engine behind fault_injection: every fault × injection point, sampled events
//!        └─► soak            random faults for minutes; trend (regression) of usage: RSS, threads, file descriptors
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `conformance/*` | checks that every engine must pass; table `CHECKS` |
//! | `fault_injection.rs` · `fault_script.rs` | engine wrapper that injects faults; which fault at which event |
//! | `fault_matrix.rs` · `fault_sweep.rs` · `soak.rs` | exhaustive, sampled and random fault runs with a table of results |
//! | `leaks.rs` · `usage.rs` · `trend.rs` | memory that is still held; resources of the process; does a series grow? |
//! | `kernels.rs` · `plans.rs` · `workload.rs` | test kernels, plans and workloads with known answers |
//! | `adapter.rs` | the GPU adapter of a test: opened, skipped or required |
//! | `tolerance.rs` · `file_corruption.rs` | absolute/relative/ulp comparison; corrupted files |

pub mod adapter;
pub mod conformance;
pub mod fault_injection;
pub mod fault_matrix;
pub mod fault_script;
pub mod fault_sweep;
pub mod file_corruption;
pub mod kernels;
pub mod leaks;
pub mod plans;
pub mod soak;
pub mod tolerance;
pub mod trend;
pub mod usage;
pub mod workload;
