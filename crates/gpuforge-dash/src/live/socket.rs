//! Unix socket bind and connect; `Unsupported` on other platforms.

use std::{io, path::Path};

#[cfg(unix)]
pub(crate) use std::os::unix::net::{UnixListener as Listener, UnixStream as Stream};

// Never opened: only so that the rest compiles.
#[cfg(not(unix))]
pub(crate) use std::net::{TcpListener as Listener, TcpStream as Stream};

#[cfg(unix)]
pub(crate) fn bind(path: &Path) -> io::Result<Listener> {
    use std::os::unix::fs::PermissionsExt as _;
    let listener = Listener::bind(path)?;
    // The directory is private already: no race between these two calls.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(unix)]
pub(crate) fn connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path)
}

#[cfg(not(unix))]
pub(crate) fn bind(_: &Path) -> io::Result<Listener> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
pub(crate) fn connect(_: &Path) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}
