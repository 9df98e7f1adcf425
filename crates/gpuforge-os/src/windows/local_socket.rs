//! Loopback TCP with a token: the path is a file that holds port and token, written before its name appears.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    time::Duration,
};

/// Bytes of a token.
const TOKEN: usize = 32;
/// Deadline of the token of a new connection: its sender writes it at once.
const GREETING: Duration = Duration::from_millis(250);
/// Deadline of a connection to this machine.
const CONNECT: Duration = Duration::from_secs(1);

type Token = [u8; TOKEN];

#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    token: Token,
}

#[derive(Debug)]
pub(crate) struct Stream(TcpStream);

impl Listener {
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        let mut token = [0; TOKEN];
        getrandom::fill(&mut token).map_err(io::Error::other)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let text = encode(listener.local_addr()?.port(), &token);
        // The directory is private: the file inherits its access list.
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())?;
        Ok(Listener { listener, token })
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        let (stream, _) = self.listener.accept()?;
        match greeted(&stream, &self.token) {
            Ok(true) => Ok(Stream(stream)),
            // Another user of this machine, or a program that scans ports.
            Ok(false) | Err(_) => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    pub(crate) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.listener.set_nonblocking(on)
    }
}

/// Did the token arrive in time? Every byte is compared, whatever the first ones are.
fn greeted(stream: &TcpStream, token: &Token) -> io::Result<bool> {
    // A connection inherits this from a listener that does not block.
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(GREETING))?;
    let mut sent = [0; TOKEN];
    let mut reader = stream;
    reader.read_exact(&mut sent)?;
    stream.set_read_timeout(None)?;
    Ok(sent.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0)
}

impl Stream {
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let (port, token) = decode(&fs::read_to_string(path)?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::ConnectionRefused, "no port and token in it"))?;
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let mut stream = match TcpStream::connect_timeout(&address, CONNECT) {
            // A port of this machine that does not answer has no listener.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            other => other?,
        };
        stream.write_all(&token)?;
        Ok(Stream(stream))
    }

    pub(crate) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.set_nonblocking(on)
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// `PORT HEX`, one line.
fn encode(port: u16, token: &Token) -> String {
    let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{port} {hex}\n")
}

fn decode(text: &str) -> Option<(u16, Token)> {
    let (port, hex) = text.strip_suffix('\n')?.split_once(' ')?;
    let mut token = [0; TOKEN];
    let (pairs, []) = hex.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != TOKEN {
        return None;
    }
    for (byte, pair) in token.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some((port.parse().ok()?, token))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn port_and_token_are_read_back_and_damaged_files_are_not() {
        let token: Token = std::array::from_fn(|i| (i * 9) as u8);
        let text = encode(4711, &token);
        assert_eq!(decode(&text), Some((4711, token)));
        for wrong in
            ["", "4711\n", "4711 00ff\n", "x 00\n", &text[..text.len() - 1], &text.replace("00", "0g")]
        {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_connection_without_the_token_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.sock");
        let listener = Listener::bind(&path).unwrap();
        let (port, mut token) = decode(&fs::read_to_string(&path).unwrap()).unwrap();
        token[0] ^= 1;
        let mut wrong = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        wrong.write_all(&token).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::Interrupted);
        // Who says nothing is not waited for.
        let _silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::Interrupted);
        let mut right = Stream::connect(&path).unwrap();
        let mut accepted = listener.accept().unwrap();
        accepted.write(b"x").unwrap();
        assert_eq!(right.read(&mut [0; 8]).unwrap(), 1);
    }
}
