//! What does Python see? The compiled half of the package `gpuforge`; `python/gpuforge` is the other half.
//!
//! ```text
//!   NumPy, pandas ──► arrays by reference ─┐                         ┌─► NumPy arrays that own the results
//!   Arrow, Polars, DuckDB ──► capsules ────┼─► groups ──► gpuforge ──┼─► Arrow table, by capsule
//!   talib.SMA(…) ──► planned once ─────────┘                         └─► NumPy arrays, written in place
//! ```
//! Long work runs on threads of our own without the interpreter's lock, while the calling thread looks for signals; nothing
//! that belongs to threads or devices outlives a fork.

mod arrays;
mod arrow_data;
mod errors;
mod forge;
mod groups;
mod indicators;
mod machine;
mod ops;
mod process;
mod profiling;
mod rooms;
mod talib;
mod workloads;

/// The compiled half of `gpuforge`.
#[pyo3::pymodule]
mod _gpuforge {
    #[pymodule_export]
    use crate::{
        arrays::{copied_bytes, count_copy},
        arrow_data::Table,
        errors::{ColumnError, DeviceError, DeviceMemoryError, ForgeError, SelectError},
        forge::{Forge, Ran},
        indicators::{Request, catalogue, indicators_arrays, indicators_arrow, jit_fallbacks},
        machine::{detect, doctor, explain, recommend_env, status},
        ops::{Op, Tensor},
        profiling::{
            profiler_bottlenecks, profiler_enable, profiler_html, profiler_is_enabled, profiler_json,
            profiler_reset, profiler_summary, profiler_write, span_enter, span_exit,
        },
        rooms::kept_bytes,
        talib::{
            InsufficientHistory, TalibStream, talib_call, talib_functions, talib_lookback,
            talib_set_unstable, talib_unstable,
        },
        workloads::{Lattice, lattice_xor, trajectory_fly, trajectory_path},
    };
}
