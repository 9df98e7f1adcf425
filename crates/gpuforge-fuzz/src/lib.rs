//! Differential fuzzer of the indicator engine: any selection, data and schedule against a scalar bar-by-bar oracle.
//!
//! ```text
//!   seed ──► Dataset (series of many shapes)         bars.rs
//!        ──► Selection (terms, definitions)          selection.rs
//!        ──► Schedule (threads, SIMD, blocks, JIT …) schedule.rs
//!                 │
//!   oracle: each term alone, scalar kernels, bar by bar   oracle.rs
//!                 │ compared bit for bit             compare.rs, cpu.rs, relaxed.rs,
//!                 │                                  device.rs, files.rs
//!                 ▼
//!   Mismatch ──► shrink ──► reproducer (a command)   shrink.rs, reproducer.rs
//! ```
//! Everything follows from the seed: the same seed gives the same cases on every machine with the same SIMD levels.
//! `cargo xtask fuzz-indicators` runs it for minutes; `tests/seeded.rs` is the short deterministic run of the normal tests.
//!
//! | file | what is in it |
//! |---|---|
//! | `campaign.rs` | worker threads, budget, counters, failures |
//! | `random.rs` | SplitMix64 |
//! | `bars.rs` · `selection.rs` · `schedule.rs` | generators: datasets, selections, execution options |
//! | `oracle.rs` · `compare.rs` | expected columns; bitwise or tolerance comparison |
//! | `cpu.rs` · `relaxed.rs` · `device.rs` · `files.rs` | checks: CPU engine, relaxed floating point, GPU, file to file |
//! | `shrink.rs` · `reproducer.rs` | test-case minimisation; the failing case as a shell command |
//! | `corpus.rs` | exported cases for the Python and SQL front ends |

pub mod bars;
pub mod campaign;
pub mod compare;
pub mod corpus;
pub mod cpu;
pub mod device;
pub mod files;
pub mod oracle;
pub mod random;
pub mod relaxed;
pub mod reproducer;
pub mod schedule;
pub mod selection;
pub mod shrink;
