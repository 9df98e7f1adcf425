//! Beyond one machine: the indicator plan of this workspace as a node of DataFusion, on one machine or on a Ballista
//! cluster.
//!
//! ```text
//!   SELECT * FROM indicators('bars', 'rsi(14)')   bars.indicators("rsi(14)")    table.rs, frame.rs
//!                     └──────────────┬───────────────────────┘
//!            IndicatorNode (logical: what, from which columns)                  node.rs, spec.rs
//!                                    │ planner                                  ── codec.rs: the same on every machine
//!            IndicatorExec (physical: by symbol, in time order)                 exec.rs
//!                                    │ rows ──► groups of symbols               groups.rs, rows.rs
//!            gpuforge-indicators, or a device ──► columns                          compute.rs
//! ```
//! Scheduling, shuffling, retrying and transport are DataFusion's and Ballista's; nothing of that kind is here. Results
//! have the bits of `gpuforge indicators`, whatever the partitions.
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
pub mod dataset;
mod engine;
pub mod error;
pub mod exec;
mod frame;
mod groups;
pub mod node;
pub mod options;
mod rows;
pub mod session;
pub mod spec;
#[cfg(feature = "s3")]
mod stores;
mod table;
pub mod window;

pub use error::ClusterError;
pub use frame::Indicators;
pub use table::IndicatorsFunction;
