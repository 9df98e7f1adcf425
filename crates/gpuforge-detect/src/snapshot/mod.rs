//! API snapshots: what Windows and macOS state about themselves, as plain data, and the report that follows from it.
//!
//! The reads are in `probe/windows.rs` and `probe/macos.rs` and compile on their platform only; everything here is pure
//! and compiles everywhere, so that a snapshot recorded on one platform is tested on another (tests/snapshots).

pub mod macos;
pub mod processor_info;
pub mod windows;

pub use macos::MacosSnapshot;
pub use windows::WindowsSnapshot;
