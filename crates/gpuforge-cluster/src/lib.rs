//! Indicators in DataFusion and Ballista: the indicator plan as a node of a query plan, on one machine or on a cluster.
//!
//! ```text
//!   SELECT * FROM indicators('bars', 'rsi(14)')   bars.indicators("rsi(14)")    table_function.rs, dataframe.rs
//!                     └──────────────┬───────────────────────┘
//!            IndicatorNode (logical: what, from which columns)                  node.rs, spec.rs
//!                                    │ planner                                  ── codec.rs: serialised for other processes
//!            IndicatorExec (physical: by symbol, in time order)                 exec.rs
//!                                    │ rows ──► groups of symbols               symbol_groups.rs, key_columns.rs
//!            gpuforge-indicators, or a device ──► columns                          compute.rs
//! ```
//! Scheduling, shuffling, retries and transport are DataFusion's and Ballista's, except `cluster/slots.rs`: Ballista's slot
//! counter leaks when an executor dies. Results are bit-identical to `gpuforge indicators`, whatever the partitioning. Input is
//! partitioned by symbol; sorted input streams, unsorted input is grouped in memory, and beyond the memory pool it goes through
//! DataFusion's external sort. Only the specification is sent (`codec.rs`): every process binds it to the columns it finds. Not
//! chosen: window functions alone (one symbol at a time, one column per function), a scheduler of our own.
//!
//! | file | what is in it |
//! |---|---|
//! | `spec.rs`, `node.rs`, `exec.rs` | specification bound to columns; logical node and planner; execution, memory, metrics |
//! | `key_columns.rs`, `symbol_groups.rs`, `compute.rs`, `device.rs` | symbol runs; group by symbol; columns on the CPU or the shared device |
//! | `table_function.rs`, `dataframe.rs`, `window_functions.rs`, `options.rs` | the SQL table function, data frames, window functions, settings |
//! | `dataset.rs` | distributed writer; only files that the finished query names count |
//! | `codec.rs`, `session.rs`, `cluster/*` | plan nodes as protobuf; the session of every process; scheduler, executor, client |
//! | `bin/gpuforge-cluster/*` | the program |
//!
//! ```
//! # use gpuforge_cluster::{Indicators as _, session};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let session = session::local(&session::Limits::default())?;
//! session.sql("CREATE TABLE bars AS SELECT 'A' AS symbol, column1 AS ts, column2 AS close \
//!              FROM (VALUES (1, 10.0), (2, 11.0), (3, 12.0))").await?;
//! let rows = session.sql("SELECT ts, sma_2 FROM indicators('bars', 'sma(2)') WHERE ts > 1").await?;
//! assert_eq!(rows.count().await?, 2);
//! let same = session.table("bars").await?.indicators("sma(2)")?;
//! assert_eq!(same.count().await?, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cluster;
pub mod codec;
mod compute;
mod dataframe;
pub mod dataset;
mod device;
pub mod error;
pub mod exec;
mod key_columns;
pub mod node;
#[cfg(feature = "s3")]
mod object_store;
pub mod options;
pub mod session;
pub mod spec;
mod symbol_groups;
mod table_function;
pub mod window_functions;

pub use dataframe::Indicators;
pub use error::ClusterError;
pub use table_function::IndicatorsFunction;
