//! How does a process let itself be watched? One thread that sleeps until somebody connects, and never waits for them.

use std::{
    io::{self, Write as _},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use gpuforge_profile::{MetricValue, Profiler};

use super::{
    LiveError, feed, link,
    place::{prepare, processes, socket},
    process,
    snapshot::{Cost, Counter, Gauge, MOST_ROWS, Operation, Snapshot, VERSION},
};
use crate::trace::known::ROUTE;

/// Switches publishing on; so does the setting `monitor`.
pub const VARIABLE: &str = "GPUFORGE_MONITOR";
/// Shortest time between two snapshots.
pub const INTERVAL: Duration = Duration::from_millis(500);
/// Longest time between two snapshots, whatever one costs.
const SLOWEST: Duration = Duration::from_secs(10);
/// A snapshot may take one part in so many of a core: half of what monitoring is allowed to cost.
const SHARE: u32 = 200;
/// Snapshots that a viewer may miss in a row before it is dropped.
const PATIENCE: u32 = 10;
/// Viewers at once; more are turned away.
pub const MOST_VIEWERS: usize = 8;

/// Adds what it knows to a snapshot; false once it has nothing more to tell, and is then forgotten.
pub type Source = Box<dyn Fn(&mut Snapshot) -> bool + Send>;

static SOURCES: Mutex<Vec<Source>> = Mutex::new(Vec::new());
static CURRENT: Mutex<Option<Running>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishing goes on until the last one is dropped; then the socket is gone.
pub struct Publisher {
    path: Arc<Path>,
}

/// What publishes now. Publishers are counted under one lock rather than shared by a pointer that counts: so one that
/// starts while the last one ends finds all of the old one or nothing of it, and never loses its socket to it.
struct Running {
    path: Arc<Path>,
    stop: Arc<AtomicBool>,
    thread: Thread,
    publishers: usize,
    /// A child that was forked has a copy of this, and neither the thread nor the socket.
    pid: u32,
}

/// Asks `source` at every snapshot of this process, as long as it answers true.
pub fn add_source(source: Source) {
    lock(&SOURCES).push(source);
}

impl Publisher {
    /// Publishes this process under `folder`, and switches the global profiler on. A process has one publisher: a second
    /// call gives the first one again. `command` is what a viewer shows as its name.
    pub fn start(folder: &Path, command: &str) -> Result<Publisher, LiveError> {
        let mut current = lock(&CURRENT);
        if let Some(running) = current.as_mut().filter(|r| r.pid == std::process::id()) {
            running.publishers += 1;
            return Ok(Publisher { path: running.path.clone() });
        }
        prepare(folder)?;
        // Leftovers of processes that were killed.
        processes(folder);
        let path = socket(folder, std::process::id());
        // A socket with our own number can only be a leftover.
        let _ = std::fs::remove_file(&path);
        let failed = |what, path: &Path, error| LiveError::Io { what, path: path.to_owned(), error };
        let listener = link::bind(&path).map_err(|e| failed("listen at", &path, e))?;
        Profiler::global().enable();
        feed::switch(true);
        let (stop, command) = (Arc::new(AtomicBool::new(false)), command.to_owned());
        let stopped = stop.clone();
        let serve = move || serve(&listener, &stopped, &command);
        let handle = thread::Builder::new()
            .name("gpuforge-monitor".to_owned())
            .spawn(serve)
            .map_err(|e| failed("start a thread for", &path, e))?;
        let (path, thread, pid): (Arc<Path>, _, _) =
            (path.into(), handle.thread().clone(), std::process::id());
        *current = Some(Running { path: path.clone(), stop, thread, publishers: 1, pid });
        Ok(Publisher { path })
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let mut current = lock(&CURRENT);
        // One of a parent process, or of one that a child has replaced, is not ours to end.
        let ours = |r: &&mut Running| r.path == self.path && r.pid == std::process::id();
        let Some(running) = current.as_mut().filter(ours) else { return };
        running.publishers -= 1;
        if running.publishers == 0 {
            running.end();
            *current = None;
        }
    }
}

impl Running {
    /// Asks the thread to end and does not wait for it: it holds nothing that anybody needs.
    fn end(&self) {
        feed::switch(false);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.unpark();
        // It may sleep in `accept`; unless it is the caller, because a source held what was dropped last.
        if thread::current().id() != self.thread.id() {
            let _ = link::connect(&self.path);
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A viewer, and what it has not taken yet.
struct Viewer {
    stream: link::Stream,
    pending: Vec<u8>,
    missed: u32,
}

impl Viewer {
    /// Hands over what it takes; a line that is not through yet is never followed by another. False when it is to be
    /// dropped: it is gone, or has taken nothing for long.
    fn send(&mut self, line: &[u8]) -> bool {
        if self.pending.is_empty() {
            self.pending.extend_from_slice(line);
        }
        let before = self.pending.len();
        let alive = self.flush();
        self.missed = if self.pending.len() < before { 0 } else { self.missed + 1 };
        alive && self.missed < PATIENCE
    }

    fn flush(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.stream.write(&self.pending) {
                Ok(0) => return false,
                Ok(taken) => drop(self.pending.drain(..taken)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

fn serve(listener: &link::Listener, stop: &AtomicBool, command: &str) {
    let mut viewers: Vec<Viewer> = Vec::new();
    let mut snapshots = 0;
    let began = process::thread_cpu();
    let mut last = began;
    loop {
        let waits = listener.set_nonblocking(!viewers.is_empty()).is_ok();
        let served = waits && accept(listener, &mut viewers);
        if !served && !stop.load(Ordering::Relaxed) {
            // No more files, say: that passes, or nobody can connect.
            thread::park_timeout(SLOWEST);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // What the last snapshot took: a kernel adds a thread's time up when it goes to sleep.
        let now = process::thread_cpu();
        let took = now.zip(last).map_or(Duration::ZERO, |(now, last)| now.saturating_sub(last));
        last = now;
        snapshots += 1;
        let spent = now.zip(began).map(|(now, began)| now.saturating_sub(began));
        let cpu_ns = spent.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
        let cost = Cost { snapshots, cpu_ns, viewers: viewers.len() as u64 };
        let line = line(&take(command, snapshots, cost));
        viewers.retain_mut(|viewer| viewer.send(&line));
        thread::park_timeout(pause(took));
    }
}

/// Takes in everybody who waits; blocks for the first one. False when the socket is of no use now.
fn accept(listener: &link::Listener, viewers: &mut Vec<Viewer>) -> bool {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let first = viewers.is_empty();
                if viewers.len() < MOST_VIEWERS && stream.set_nonblocking(true).is_ok() {
                    viewers.push(Viewer { stream, pending: Vec::new(), missed: 0 });
                }
                if first {
                    return true;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// How long to rest after a snapshot that took this much processor time; pure.
pub fn pause(took: Duration) -> Duration {
    took.saturating_mul(SHARE).clamp(INTERVAL, SLOWEST)
}

/// One line a snapshot; one that cannot be written is an empty line, which viewers skip.
fn line(snapshot: &Snapshot) -> Vec<u8> {
    let mut line = serde_json::to_vec(snapshot).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The state of this process now.
pub fn take(command: &str, seq: u64, cost: Cost) -> Snapshot {
    let told = feed::tell();
    let (counters, gauges) = levels(Profiler::global());
    let mut snapshot = Snapshot {
        version: VERSION,
        pid: std::process::id(),
        command: command.to_owned(),
        seq,
        uptime_ms: feed::uptime_ms(),
        cpu_ms: process::process_cpu().map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        memory: process::memory().into_iter().collect(),
        operations: operations(Profiler::global()),
        counters,
        gauges,
        routed: told.routed,
        batched: told.batched,
        routing: told.routing,
        events: told.events,
        cost,
        ..Snapshot::default()
    };
    ask(&mut snapshot);
    snapshot.bound();
    snapshot
}

/// Spans by name, the most time first.
fn operations(profiler: &Profiler) -> Vec<Operation> {
    let mut recent = profiler.recent();
    recent.sort_by_key(|r| std::cmp::Reverse(r.total_ns));
    recent.truncate(MOST_ROWS);
    let row = |r: gpuforge_profile::RecentStats| Operation {
        name: r.name,
        count: r.count,
        total_ns: r.total_ns,
        mean_ns: r.mean_ns,
    };
    recent.into_iter().map(row).collect()
}

/// Counters and gauges. Those of decisions are left out: there is one for every reason, and decisions are told apart.
fn levels(profiler: &Profiler) -> (Vec<Counter>, Vec<Gauge>) {
    let (mut counters, mut gauges) = (Vec::new(), Vec::new());
    for level in profiler.metric_values() {
        match level {
            MetricValue::Counter { name, .. } if name.starts_with(ROUTE) => {}
            MetricValue::Counter { name, value } => counters.push(Counter { name, value }),
            MetricValue::Gauge { name, value, min, max } => {
                gauges.push(Gauge { name, value, least: Some(min), most: Some(max) });
            }
        }
    }
    (counters, gauges)
}

/// Lets the sources speak; no lock is held meanwhile, and those that are added meanwhile stay.
fn ask(snapshot: &mut Snapshot) {
    let mut sources = std::mem::take(&mut *lock(&SOURCES));
    sources.retain(|source| source(snapshot));
    let mut now = lock(&SOURCES);
    sources.append(&mut now);
    *now = sources;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_never_costs_more_than_its_share() {
        assert_eq!(pause(Duration::ZERO), INTERVAL);
        assert_eq!(pause(Duration::from_millis(2)), INTERVAL);
        assert_eq!(pause(Duration::from_millis(10)), Duration::from_secs(2));
        assert_eq!(pause(Duration::from_secs(5)), SLOWEST);
        assert_eq!(pause(Duration::MAX), SLOWEST);
    }
}
