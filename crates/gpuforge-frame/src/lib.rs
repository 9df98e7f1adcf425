//! Market data readers and writers: Parquet, Arrow IPC and CSV to OHLCV bars by symbol, and computed columns back to files.
//!
//! ```text
//!   Input ──────► schema inference ──► chunks ──► external group by symbol ──► BarsBatch
//!   paths, globs, column roles,        decoded    sort by time, dedup,          whole symbols, or segments of
//!   hive, stdin   time columns, types  rows       spill to disk                 one that exceeds the memory limit
//!                                                                                  │
//!   Parquet (zstd, page CRC), Arrow IPC, CSV ◄── Writer: record batches ◄──────────┘
//!     temp file, atomic rename
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`bars`] | [`Bars`]: OHLCV columns of one symbol; [`KeySchema`]: its symbol and time columns; [`BarsBatch`] |
//! | [`column_roles`] | column roles by name or mapping; `time_columns.rs`: time column detection by values |
//! | [`group_by_symbol`] | row grouping: key runs, groups in order of first appearance, gather and scatter |
//! | [`read`] | [`read::Reader`], [`read::ReadOptions`]; batches within a memory budget |
//! | `read/input.rs`, `path_symbol.rs` | file discovery, format detection; symbols from hive partitions and file names |
//! | `read/schema.rs` | schema inference over all files |
//! | `read/{csv,ipc,parquet,record_batch,chunk}.rs` | decoders to chunks of typed columns |
//! | `read/{time,time_of_day,parse_float}.rs` | parsers: timestamps, times of day, decimal numbers |
//! | `read/{external_group_by,series,spill}.rs` | per-symbol buffers, sort and dedup, spill file |
//! | `read/thrift_footer.rs` | Parquet footer validation before allocation |
//! | [`read::numeric_table`] | numeric columns of a table that holds no bars |
//! | [`write`] | [`write::Writer`]; encoders for Parquet (`page_crc.rs`), IPC and CSV (`cell_format.rs`), `output_target.rs` |
//! | [`temp_file`] | temporary file beside its target, atomic rename, cleanup after signals and crashes |
//! | [`sample`] | synthetic market data: GARCH(1,1) factor model, bit-identical on every platform |

pub mod bars;
pub mod column_roles;
pub mod error;
pub mod group_by_symbol;
pub mod read;
pub mod sample;
pub mod temp_file;
pub mod write;

pub use bars::{Bars, BarsBatch, KeySchema, SymbolKey};
pub use error::FrameError;
