//! Snapshot client: connects to a publisher's socket, reads without blocking, reconnects after the process ends.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gpuforge_os::local_socket::Stream;

use super::{
    snapshot::{Snapshot, VERSION},
    socket_dir::{connect, processes},
    tracker::SnapshotTracker,
    view::{ConnectionState, LiveView},
};

/// Interval between connection attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// Time without a snapshot after which a process counts as silent: longer than its slowest pace.
const SILENT_AFTER: Duration = Duration::from_secs(12);
/// Maximum line length; a longer one is a foreign protocol.
const MAX_BYTES: usize = 1 << 20;

/// Follows one process, or the newest.
pub struct Follower {
    directory: PathBuf,
    /// Requested process.
    pid: Option<u32>,
    connection: Option<Connection>,
    last_attempt: Option<Instant>,
    tracker: SnapshotTracker,
}

struct Connection {
    pid: u32,
    stream: Stream,
    buffer: Vec<u8>,
    last_read: Instant,
}

/// Why a connection ended.
enum Disconnect {
    Closed,
    Foreign,
}

impl Follower {
    /// Follows `pid`, or the newest process that publishes in `directory`. Connects at the first [`Follower::poll`].
    pub fn new(directory: &Path, pid: Option<u32>) -> Self {
        Follower {
            directory: directory.to_owned(),
            pid,
            connection: None,
            last_attempt: None,
            tracker: SnapshotTracker::default(),
        }
    }

    /// Current view.
    pub fn view(&self) -> &LiveView {
        self.tracker.view()
    }

    /// Connected process.
    pub fn connected(&self) -> Option<u32> {
        self.connection.as_ref().map(|connection| connection.pid)
    }

    /// Reads available snapshots without blocking. True when the view changed.
    pub fn poll(&mut self) -> bool {
        if self.connection.is_none() {
            self.connect_next();
        }
        let Some(connection) = &mut self.connection else { return false };
        let (lines, over) = connection.read();
        let mut news = false;
        for line in lines {
            match parse(&line) {
                Some(snapshot) if snapshot.version == VERSION => {
                    self.tracker.add(snapshot);
                    news = true;
                }
                Some(_) => return self.end(ConnectionState::Foreign),
                None => {}
            }
        }
        match over {
            Some(Disconnect::Closed) => return self.end(ConnectionState::Ended),
            Some(Disconnect::Foreign) => return self.end(ConnectionState::Foreign),
            None => {}
        }
        let silent = self.connection.as_ref().is_some_and(|l| l.last_read.elapsed() > SILENT_AFTER);
        if silent && self.tracker.view().state == ConnectionState::Live {
            self.tracker.set_state(ConnectionState::Silent);
            news = true;
        }
        news
    }

    /// Ends the connection. A process that never sent a snapshot is waited for.
    fn end(&mut self, state: ConnectionState) -> bool {
        self.connection = None;
        self.last_attempt = Some(Instant::now());
        if state == ConnectionState::Foreign || self.tracker.view().snapshot.is_some() {
            self.tracker.set_state(state);
        }
        true
    }

    /// Connects, if there is a process and the retry interval has passed.
    fn connect_next(&mut self) {
        if self.last_attempt.is_some_and(|at| at.elapsed() < RETRY_INTERVAL) {
            return;
        }
        self.last_attempt = Some(Instant::now());
        let candidates = self.pid.map_or_else(|| processes(&self.directory), |pid| vec![pid]);
        let me = std::process::id();
        for pid in candidates.into_iter().filter(|pid| *pid != me || self.pid.is_some()) {
            let Ok(stream) = connect(&self.directory, pid) else { continue };
            if stream.set_nonblocking(true).is_ok() {
                self.connection =
                    Some(Connection { pid, stream, buffer: Vec::new(), last_read: Instant::now() });
                return;
            }
        }
    }

    /// Polls until `enough` returns true, or for `limit`.
    pub fn wait(&mut self, limit: Duration, enough: impl Fn(&LiveView) -> bool) -> bool {
        let began = Instant::now();
        loop {
            self.poll();
            if enough(self.view()) {
                return true;
            }
            if began.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn parse(line: &[u8]) -> Option<Snapshot> {
    let mut snapshot: Snapshot = serde_json::from_slice(line).ok()?;
    // The publisher bounds it too, but the viewer protects its own terminal.
    snapshot.bound();
    Some(snapshot)
}

impl Connection {
    /// Complete lines received, and whether the connection ended.
    fn read(&mut self) -> (Vec<Vec<u8>>, Option<Disconnect>) {
        let mut over = None;
        let mut part = [0; 16 << 10];
        while over.is_none() {
            match self.stream.read(&mut part) {
                Ok(0) => over = Some(Disconnect::Closed),
                Ok(n) => self.buffer.extend(part.iter().take(n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => over = Some(Disconnect::Closed),
            }
            if self.buffer.len() > MAX_BYTES {
                over = Some(Disconnect::Foreign);
            }
        }
        let mut lines: Vec<Vec<u8>> = Vec::new();
        if let Some(end) = self.buffer.iter().rposition(|b| *b == b'\n') {
            let rest = self.buffer.split_off(end + 1);
            lines.extend(self.buffer.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(<[u8]>::to_vec));
            self.buffer = rest;
            self.last_read = Instant::now();
        }
        (lines, over)
    }
}
