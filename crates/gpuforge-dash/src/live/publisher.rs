//! Snapshot publisher: one thread that blocks in `accept` without viewers and never blocks on a viewer.

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

use gpuforge_os::{
    local_socket::{Listener, Stream},
    process::{self, ProcessMemory},
};
use gpuforge_profile::{MetricValue, Profiler};

use super::{
    LiveError, feed,
    snapshot::{
        CounterValue, GaugeValue, MAX_ROWS, MemoryStatus, OperationStats, PublishCost, Snapshot, VERSION,
    },
    socket_dir::{prepare, processes, socket},
};
use crate::trace::conventions::ROUTE;

/// Environment variable that enables publishing, as does the setting `monitor`.
pub const VARIABLE: &str = "GPUFORGE_MONITOR";
/// Minimum interval between snapshots.
pub const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum interval between snapshots, whatever one costs.
const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// CPU budget: a snapshot may take 1/200 of a core, half of what monitoring may cost.
const CPU_BUDGET: u32 = 200;
/// Consecutive snapshots that a viewer may miss before it is dropped.
const MAX_MISSED: u32 = 10;
/// Maximum concurrent viewers.
pub const MAX_VIEWERS: usize = 8;

/// Callback that adds data to a snapshot; it is removed once it returns false.
pub type SnapshotSource = Box<dyn Fn(&mut Snapshot) -> bool + Send>;

static SOURCES: Mutex<Vec<SnapshotSource>> = Mutex::new(Vec::new());
static CURRENT: Mutex<Option<Running>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handle of the publisher; publishing stops and the socket is removed when the last one is dropped.
pub struct Publisher {
    path: Arc<Path>,
}

/// The running publisher. Handles are counted under one lock instead of an `Arc`: one that starts while the last one ends
/// sees either all of the old publisher or nothing of it, and never loses its socket to it.
struct Running {
    path: Arc<Path>,
    stop: Arc<AtomicBool>,
    thread: Thread,
    publishers: usize,
    /// A forked child has a copy of this, but neither the thread nor the socket.
    pid: u32,
}

/// Calls `source` at every snapshot, as long as it returns true.
pub fn add_source(source: SnapshotSource) {
    lock(&SOURCES).push(source);
}

impl Publisher {
    /// Publishes this process in `directory`, and enables the global profiler. A process has one publisher: a second call
    /// returns another handle. `command` is the name shown by viewers.
    pub fn start(directory: &Path, command: &str) -> Result<Publisher, LiveError> {
        let mut current = lock(&CURRENT);
        if let Some(running) = current.as_mut().filter(|r| r.pid == std::process::id()) {
            running.publishers += 1;
            return Ok(Publisher { path: running.path.clone() });
        }
        prepare(directory)?;
        // Removes stale sockets of killed processes.
        processes(directory);
        let path = socket(directory, std::process::id());
        // A socket with our own pid is stale.
        let _ = std::fs::remove_file(&path);
        let failed = |what, path: &Path, error| LiveError::Io { what, path: path.to_owned(), error };
        let listener = Listener::bind(&path).map_err(|e| failed("listen at", &path, e))?;
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
        // A publisher of the parent process, or one replaced in a child, is not ours to stop.
        let ours = |r: &&mut Running| r.path == self.path && r.pid == std::process::id();
        let Some(running) = current.as_mut().filter(ours) else { return };
        running.publishers -= 1;
        if running.publishers == 0 {
            running.stop();
            *current = None;
        }
    }
}

impl Running {
    /// Stops the thread without joining it: it holds no shared resources.
    fn stop(&self) {
        feed::switch(false);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.unpark();
        // It may block in `accept`; unless it is the caller, because a source held the last handle.
        if thread::current().id() != self.thread.id() {
            let _ = Stream::connect(&self.path);
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A connected viewer with its unsent bytes.
struct Viewer {
    stream: Stream,
    pending: Vec<u8>,
    missed: u32,
}

impl Viewer {
    /// Sends without blocking; a line is never started before the previous one is complete. False to drop the viewer: it is
    /// gone or has not read for long.
    fn send(&mut self, line: &[u8]) -> bool {
        if self.pending.is_empty() {
            self.pending.extend_from_slice(line);
        }
        let before = self.pending.len();
        let alive = self.flush();
        self.missed = if self.pending.len() < before { 0 } else { self.missed + 1 };
        alive && self.missed < MAX_MISSED
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

fn serve(listener: &Listener, stop: &AtomicBool, command: &str) {
    let mut viewers: Vec<Viewer> = Vec::new();
    let mut snapshots = 0;
    let began = process::thread_cpu_time();
    let mut last = began;
    loop {
        let waits = listener.set_nonblocking(!viewers.is_empty()).is_ok();
        let served = waits && accept(listener, &mut viewers);
        if !served && !stop.load(Ordering::Relaxed) {
            // E.g. out of file descriptors: retry later.
            thread::park_timeout(MAX_INTERVAL);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // Cost of the last snapshot: the kernel accounts a thread's time when it sleeps.
        let now = process::thread_cpu_time();
        let took = now.zip(last).map_or(Duration::ZERO, |(now, last)| now.saturating_sub(last));
        last = now;
        snapshots += 1;
        let spent = now.zip(began).map(|(now, began)| now.saturating_sub(began));
        let cpu_ns = spent.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
        let cost = PublishCost { snapshots, cpu_ns, viewers: viewers.len() as u64 };
        let line = line(&take(command, snapshots, cost));
        viewers.retain_mut(|viewer| viewer.send(&line));
        thread::park_timeout(pause(took));
    }
}

/// Accepts pending connections; blocks for the first viewer. False when the socket fails.
fn accept(listener: &Listener, viewers: &mut Vec<Viewer>) -> bool {
    loop {
        match listener.accept() {
            Ok(stream) => {
                let first = viewers.is_empty();
                if viewers.len() < MAX_VIEWERS && stream.set_nonblocking(true).is_ok() {
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

/// Interval to the next snapshot, from the CPU time of the last one; pure.
pub fn pause(took: Duration) -> Duration {
    took.saturating_mul(CPU_BUDGET).clamp(INTERVAL, MAX_INTERVAL)
}

/// Serialises a snapshot to one line; an empty line on failure, which viewers skip.
fn line(snapshot: &Snapshot) -> Vec<u8> {
    let mut line = serde_json::to_vec(snapshot).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Takes a snapshot of this process.
pub fn take(command: &str, seq: u64, cost: PublishCost) -> Snapshot {
    let contents = feed::collect();
    let (counters, gauges) = metrics(Profiler::global());
    let mut snapshot = Snapshot {
        version: VERSION,
        pid: std::process::id(),
        command: command.to_owned(),
        seq,
        uptime_ms: feed::uptime_ms(),
        cpu_ms: process::cpu_time().map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        memory: process::memory().map(memory_status).into_iter().collect(),
        operations: operations(Profiler::global()),
        counters,
        gauges,
        routed: contents.routed,
        batched: contents.batched,
        routing: contents.routing,
        events: contents.events,
        cost,
        ..Snapshot::default()
    };
    call_sources(&mut snapshot);
    snapshot.bound();
    snapshot
}

/// Resident memory of this process; the budget is the machine's total.
fn memory_status(memory: ProcessMemory) -> MemoryStatus {
    MemoryStatus {
        name: "this process".to_owned(),
        used: memory.resident,
        budget: memory.machine,
        peak: memory.peak,
        ..MemoryStatus::default()
    }
}

/// Spans by name, the most time first.
fn operations(profiler: &Profiler) -> Vec<OperationStats> {
    let mut recent = profiler.recent();
    recent.sort_by_key(|r| std::cmp::Reverse(r.total_ns));
    recent.truncate(MAX_ROWS);
    let row = |r: gpuforge_profile::RecentStats| OperationStats {
        name: r.name,
        count: r.count,
        total_ns: r.total_ns,
        mean_ns: r.mean_ns,
    };
    recent.into_iter().map(row).collect()
}

/// Counters and gauges; routing counters are left out, since decisions are reported separately.
fn metrics(profiler: &Profiler) -> (Vec<CounterValue>, Vec<GaugeValue>) {
    let (mut counters, mut gauges) = (Vec::new(), Vec::new());
    for level in profiler.metric_values() {
        match level {
            MetricValue::Counter { name, .. } if name.starts_with(ROUTE) => {}
            MetricValue::Counter { name, value } => counters.push(CounterValue { name, value }),
            MetricValue::Gauge { name, value, min, max } => {
                gauges.push(GaugeValue { name, value, least: Some(min), most: Some(max) });
            }
        }
    }
    (counters, gauges)
}

/// Calls the sources without holding the lock; sources added meanwhile are kept.
fn call_sources(snapshot: &mut Snapshot) {
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
    fn snapshot_interval_respects_the_cpu_budget() {
        assert_eq!(pause(Duration::ZERO), INTERVAL);
        assert_eq!(pause(Duration::from_millis(2)), INTERVAL);
        assert_eq!(pause(Duration::from_millis(10)), Duration::from_secs(2));
        assert_eq!(pause(Duration::from_secs(5)), MAX_INTERVAL);
        assert_eq!(pause(Duration::MAX), MAX_INTERVAL);
    }
}
