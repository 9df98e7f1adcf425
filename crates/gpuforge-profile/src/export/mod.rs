//! Trace export: JSON, Chrome trace events, files.

mod chrome;
mod file;
mod raw;

pub use file::TraceFormat;
