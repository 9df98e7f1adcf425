//! How do two processes reach each other? Unix sockets; elsewhere nothing is opened and every call says so.

use std::{io, path::Path};

#[cfg(unix)]
pub(crate) use std::os::unix::net::{UnixListener as Listener, UnixStream as Stream};

// Never opened: the types only let the rest compile.
#[cfg(not(unix))]
pub(crate) use std::net::{TcpListener as Listener, TcpStream as Stream};

#[cfg(unix)]
pub(crate) fn bind(path: &Path) -> io::Result<Listener> {
    use std::os::unix::fs::PermissionsExt as _;
    let listener = Listener::bind(path)?;
    // The folder is the owner's alone already: nobody can come between these two calls.
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
