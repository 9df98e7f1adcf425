//! In which forms does a trace leave? Its own JSON, and the one that trace viewers open.

mod chrome;
mod file;
mod raw;

pub use file::Format;
