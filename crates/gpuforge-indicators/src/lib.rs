//! Technical indicators for many series at once: a catalogue of definitions, compiled to SIMD kernels and JIT-fused loops.
//!
//! ```text
//!   "rsi(14), macd(12,26,9).signal"
//!        │ select       selectors, parameters and formulas into catalogue entries
//!        │ catalogue    each entry builds expressions
//!        ▼
//!   graph::Graph        expression graph: about 30 operations, common subexpressions merged
//!        ▼
//!   plan::ExecPlan      order of the steps, buffers by liveness, kernel of each step
//!        │ jit          runs of simple steps as fused loops in machine code, verified
//!        │ kernel       every other step, and the reference that the JIT is compared with
//!        ▼
//!   exec::run_into      batched (SIMD across series), fused, time-parallel, single series, or exec::Stream
//!        ▼
//!   columns             one per output and series, NaN during the warm-up
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`catalogue`] | the indicators: name, parameters, outputs, expressions |
//! | [`describe`] | metadata of indicators for help, documentation and bindings |
//! | [`formula`] | formulas that `indicators show` prints, from the graph |
//! | [`select`] | selector syntax: parsing, arguments, resolution |
//! | [`graph`] | expression graph and its builder |
//! | [`plan`] | execution plan: rewrites, order, liveness, cost model |
//! | [`kernel`] | kernels, SIMD dispatch, transpose, state machines |
//! | `jit` | IR, verifier, register allocation, x86-64 and AArch64 encoders, executable memory |
//! | [`exec`] | execution: options, tiles, streaming, JIT self-check |
//!
//! Evaluation order is fixed per node and nothing is contracted (no FMA), so that results do not depend on threads, SIMD level,
//! block length or the order of the series; only [`exec::ExecOptions::relaxed_fp`] trades the last digits for speed.

pub mod catalogue;
pub mod describe;
pub mod exec;
pub mod formula;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
mod jit;
pub mod kernel;
pub mod plan;
pub mod select;
