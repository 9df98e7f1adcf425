//! How does a viewer keep up with a process? It connects, reads what is there, and survives the process's end.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    link,
    place::{connect, processes},
    snapshot::{Snapshot, VERSION},
    view::{State, View},
    watch::Watch,
};

/// How often to look for a process.
const LOOK: Duration = Duration::from_millis(300);
/// Silence after which a process counts as silent: longer than its slowest pace.
const SILENCE: Duration = Duration::from_secs(12);
/// No line is longer; what is, is not ours.
const MOST_BYTES: usize = 1 << 20;

/// Follows one process, or whichever is the newest.
pub struct Follower {
    folder: PathBuf,
    /// The process that was asked for.
    pid: Option<u32>,
    link: Option<Link>,
    looked: Option<Instant>,
    watch: Watch,
}

struct Link {
    pid: u32,
    stream: link::Stream,
    read: Vec<u8>,
    heard: Instant,
}

/// Why nothing more comes.
enum Over {
    Closed,
    Foreign,
}

impl Follower {
    /// Follows `pid`, or the newest process that publishes in `folder`. Connects at the first [`Follower::poll`].
    pub fn new(folder: &Path, pid: Option<u32>) -> Self {
        Follower { folder: folder.to_owned(), pid, link: None, looked: None, watch: Watch::default() }
    }

    /// What is to be shown.
    pub fn view(&self) -> &View {
        self.watch.view()
    }

    /// The process it is connected to.
    pub fn connected(&self) -> Option<u32> {
        self.link.as_ref().map(|link| link.pid)
    }

    /// Takes in what has come, without waiting. True when there is something new to show.
    pub fn poll(&mut self) -> bool {
        if self.link.is_none() {
            self.look();
        }
        let Some(link) = &mut self.link else { return false };
        let (lines, over) = link.read();
        let mut news = false;
        for line in lines {
            match parse(&line) {
                Some(snapshot) if snapshot.version == VERSION => {
                    self.watch.take(snapshot);
                    news = true;
                }
                Some(_) => return self.end(State::Foreign),
                None => {}
            }
        }
        match over {
            Some(Over::Closed) => return self.end(State::Ended),
            Some(Over::Foreign) => return self.end(State::Foreign),
            None => {}
        }
        let silent = self.link.as_ref().is_some_and(|l| l.heard.elapsed() > SILENCE);
        if silent && self.watch.view().state == State::Live {
            self.watch.set_state(State::Silent);
            news = true;
        }
        news
    }

    /// The connection is over. A process that never told anything is only waited for.
    fn end(&mut self, state: State) -> bool {
        self.link = None;
        self.looked = Some(Instant::now());
        if state == State::Foreign || self.watch.view().snapshot.is_some() {
            self.watch.set_state(state);
        }
        true
    }

    /// Connects, if there is somebody to connect to and it is time to look again.
    fn look(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        let candidates = self.pid.map_or_else(|| processes(&self.folder), |pid| vec![pid]);
        let me = std::process::id();
        for pid in candidates.into_iter().filter(|pid| *pid != me || self.pid.is_some()) {
            let Ok(stream) = connect(&self.folder, pid) else { continue };
            if stream.set_nonblocking(true).is_ok() {
                self.link = Some(Link { pid, stream, read: Vec::new(), heard: Instant::now() });
                return;
            }
        }
    }

    /// Polls until `enough` says so, or for `limit`. True when it was enough.
    pub fn wait(&mut self, limit: Duration, enough: impl Fn(&View) -> bool) -> bool {
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
    // The other side bounds it too; but it is the viewer's terminal.
    snapshot.bound();
    Some(snapshot)
}

impl Link {
    /// Whole lines that have come, and whether more may come.
    fn read(&mut self) -> (Vec<Vec<u8>>, Option<Over>) {
        let mut over = None;
        let mut part = [0; 16 << 10];
        while over.is_none() {
            match self.stream.read(&mut part) {
                Ok(0) => over = Some(Over::Closed),
                Ok(n) => self.read.extend(part.iter().take(n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => over = Some(Over::Closed),
            }
            if self.read.len() > MOST_BYTES {
                over = Some(Over::Foreign);
            }
        }
        let mut lines: Vec<Vec<u8>> = Vec::new();
        if let Some(end) = self.read.iter().rposition(|b| *b == b'\n') {
            let rest = self.read.split_off(end + 1);
            lines.extend(self.read.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(<[u8]>::to_vec));
            self.read = rest;
            self.heard = Instant::now();
        }
        (lines, over)
    }
}
