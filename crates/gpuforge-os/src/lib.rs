//! Platform interface: what differs between Unix and Windows, one directory per platform behind one set of functions.
//!
//! | module | what it is |
//! |---|---|
//! | [`files`] | identity, permissions and disk space of files |
//! | [`private_dir`] | directories that only the user can enter: mode 0700, or an access control list |
//! | [`process`] | liveness, CPU time, memory, limits; replacing a process, killing one with its children |
//! | [`local_socket`] | a stream between processes of one user: Unix sockets, or loopback TCP with a token |
//! | [`interrupt`] | what happens on SIGINT, SIGTERM, SIGHUP, or on console control events |
//!
//! The implementations are in `unix/` and `windows/`, file by file under the same names; `other.rs` is for systems without
//! files and processes (wasm32). No other crate of the workspace asks `cfg(windows)` for one of these things. Tests are
//! written against the interface and run on both.

pub mod files;
pub mod interrupt;
pub mod local_socket;
pub mod private_dir;
pub mod process;

#[cfg_attr(unix, path = "unix/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
#[cfg_attr(not(any(unix, windows)), path = "other.rs")]
mod sys;
