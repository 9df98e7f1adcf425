//! Files to bars, columns to files: many series with their keys, whole or in portions that fit into memory.
//!
//! ```text
//!   files, globs, stdin ──► schema ──► which column is what? ──► rows by symbol, in time order ──► portions
//!     Parquet, Arrow IPC, CSV          names.rs                  read/, spill.rs                  bars.rs
//!                                                                                                   │
//!   Parquet (zstd), Arrow IPC, CSV ◄── rows of one symbol: its keys and computed columns ◄──────────┘
//!     written beside, then renamed     write/
//! ```
//! A file larger than the memory that may be used is first divided by symbol into temporary files; a symbol larger than
//! that comes in parts. [`sample`] makes bars without a file.

pub mod bars;
pub mod error;
pub mod names;
pub mod read;
pub mod sample;
pub mod temporary;
pub mod write;

pub use bars::{Bars, Key, Layout, Portion};
pub use error::FrameError;
