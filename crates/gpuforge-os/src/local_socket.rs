//! Local sockets: a byte stream between processes of one user, found by a path in a private directory.
//!
//! On Unix the path is a Unix socket (mode 0600). On Windows it is a file that names a port of the loopback interface and a
//! random token; only who can read the file can connect, since a connection begins with the token. Not chosen there: named
//! pipes, whose blocking reads cannot be polled without overlapped I/O, and Unix sockets, which the standard library does
//! not offer on Windows and Wine does not implement.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use crate::sys;

/// Accepts connections at a path.
#[derive(Debug)]
pub struct Listener(sys::local_socket::Listener);

/// One connection.
#[derive(Debug)]
pub struct Stream(sys::local_socket::Stream);

impl Listener {
    /// Listens at a path in a private directory; the path must not exist yet.
    ///
    /// # Errors
    /// The path cannot be created.
    pub fn bind(path: &Path) -> io::Result<Self> {
        sys::local_socket::Listener::bind(path).map(Listener)
    }

    /// The next connection; `Interrupted` when somebody connected who may not.
    ///
    /// # Errors
    /// `WouldBlock` when there is none and the listener does not block.
    pub fn accept(&self) -> io::Result<Stream> {
        self.0.accept().map(Stream)
    }

    /// Whether [`Listener::accept`] returns at once.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set_nonblocking(on)
    }
}

impl Stream {
    /// Connects to a listener at a path.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens there any more.
    pub fn connect(path: &Path) -> io::Result<Self> {
        sys::local_socket::Stream::connect(path).map(Stream)
    }

    /// Whether reads and writes return at once.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set_nonblocking(on)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
