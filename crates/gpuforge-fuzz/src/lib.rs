//! Differential fuzzing of indicators: is any selection, on any bars, by any schedule, what each row gives by itself?
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
//!   Mismatch ──► shrink ──► a command                shrink.rs, report.rs
//! ```
//! Everything follows from the seed: the same seed gives the same cases on every machine with the same SIMD levels.
//! `cargo xtask fuzz-indicators` runs it for minutes; `tests/seeded.rs` is the short run of the normal tests.

pub mod bars;
pub mod campaign;
pub mod compare;
pub mod cpu;
pub mod device;
pub mod export;
pub mod files;
pub mod oracle;
pub mod random;
pub mod relaxed;
pub mod report;
pub mod schedule;
pub mod selection;
pub mod shrink;
