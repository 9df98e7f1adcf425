//! Catalogue to graph to columns: indicators defined once, computed for many series at once.
//!
//! ```text
//!   catalogue (a row: name, parameters, outputs, build)
//!        │ select "rsi(14), macd(12,26,9).signal"          select.rs
//!        ▼
//!   graph: about 25 primitives; equal values are one node   graph.rs
//!        ▼
//!   plan: nodes that are needed, buffers, history           plan.rs
//!        ▼
//!   kernels and compiled loops: eight series side by side,
//!   or one where it is, block after block                   exec.rs, kernel/, native/
//!        ▼
//!   columns: one per output and series, NaN before the first valid bar
//! ```
//! Evaluation order is fixed per node and nothing is contracted, so that results do not depend on threads, instruction set,
//! block length or the order of the series.

pub mod catalogue;
pub mod describe;
pub mod exec;
pub mod formula;
pub mod graph;
mod jit;
pub mod kernel;
pub mod plan;
pub mod select;
