//! Unix: Linux, macOS and what is like them.

pub(crate) mod files;
pub(crate) mod interrupt;
pub(crate) mod local_socket;
pub(crate) mod private_dir;
pub(crate) mod process;
