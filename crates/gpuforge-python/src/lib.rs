//! Python bindings (PyO3): the compiled half of the package `gpuforge`; `python/gpuforge` is the other half.
//!
//! ```text
//!   NumPy, pandas ──► zero-copy arrays ────┐                         ┌─► NumPy arrays that own the results
//!   Arrow, Polars, DuckDB ──► capsules ────┼─► symbols ─► gpuforge ──┼─► Arrow table, by capsule
//!   talib.SMA(…) ──► planned once ─────────┘                         └─► NumPy arrays, written in place
//! ```
//! Long calls run on a thread pool with the GIL released, while the calling thread polls for signals. Threads and devices
//! belong to one process: a forked child makes its own.
//!
//! | file | what is in it |
//! |---|---|
//! | `arrays.rs`, `arrow_data.rs` | NumPy and Arrow zero-copy, in and out; every byte that had to be copied is counted |
//! | `buffer_pool.rs` | memory of long results, reused |
//! | `indicators.rs` | a request planned once, computed into result columns on the pool or a device |
//! | `talib/table.rs`, `talib/mod.rs` | TA-Lib's functions, one row each; the call path |
//! | `talib/precision.rs`, `talib/unstable.rs` | exact or reassociated sums; unstable periods |
//! | `talib/variable.rs`, `talib/stream.rs` | variable-period averages; bar by bar |
//! | `process.rs` | per-process thread pool and runtime; waits that answer Ctrl-C |
//! | `cli.rs` | the command line `gpuforge`, inside the extension module |
//! | `forge.rs`, `ops.rs`, `workloads.rs`, `machine.rs`, `profiling.rs` | the facade as Python classes or JSON |

mod arrays;
mod arrow_data;
mod buffer_pool;
mod cli;
mod errors;
mod forge;
mod indicators;
mod machine;
mod ops;
mod process;
mod profiling;
mod talib;
mod workloads;

/// The compiled half of `gpuforge`.
#[pyo3::pymodule]
mod _gpuforge {
    #[pymodule_export]
    use crate::{
        arrays::{copied_bytes, count_copy},
        arrow_data::Table,
        buffer_pool::kept_bytes,
        cli::cli_main,
        errors::{ColumnError, DeviceError, DeviceMemoryError, ForgeError, SelectError},
        forge::{Forge, Ran},
        indicators::{Request, catalogue, indicators_arrays, indicators_arrow, jit_fallbacks},
        machine::{detect, doctor, explain, recommend_env, status},
        ops::{Op, Tensor},
        profiling::{
            profiler_bottlenecks, profiler_enable, profiler_html, profiler_is_enabled, profiler_json,
            profiler_reset, profiler_summary, profiler_write, span_enter, span_exit,
        },
        talib::{
            InsufficientHistory, TalibStream, talib_call, talib_functions, talib_lookback, talib_precision,
            talib_set_precision, talib_set_unstable, talib_unstable,
        },
        workloads::{Lattice, lattice_xor, trajectory_fly, trajectory_path},
    };
}
