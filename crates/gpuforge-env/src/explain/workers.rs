//! Worker pool: scans the chunks of a long log in parallel; a short log is scanned by the reading thread alone.
//!
//! The reading thread hands chunks to workers with a free queue slot and scans the rest itself. The result is independent of
//! scheduling: of each pattern, the first hits in log order are kept.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, Scope, ScopedJoinHandle},
};

use super::{
    ExplainError,
    chunk::LogChunk,
    clean,
    rule::RuleSet,
    scan::{ScanResult, Scanner},
    table::ErrorTable,
};

/// Chunks scanned serially before workers start: a thread and its tables cost more than that.
const SERIAL_CHUNKS: u64 = 16;
/// Max worker threads beside the reading one; more would wait for it.
const MAX_WORKERS: usize = 3;
/// Max chunks queued per worker: memory does not grow with the log.
const QUEUE_DEPTH: usize = 4;

struct Worker<'s, 'r> {
    chunks: Sender<(u64, LogChunk)>,
    waiting: Arc<AtomicUsize>,
    thread: ScopedJoinHandle<'s, Result<Scanner<'r>, ExplainError>>,
}

impl<'s, 'r: 's> Worker<'s, 'r> {
    fn start(scope: &'s Scope<'s, '_>, rules: &'r RuleSet<'r>) -> Worker<'s, 'r> {
        let (chunks, work) = channel::<(u64, LogChunk)>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        let thread = scope.spawn(move || {
            let mut scanner = Scanner::new(rules);
            for (number, chunk) in work {
                scanner.scan_chunk(number, &chunk)?;
                left.fetch_sub(1, Ordering::Relaxed);
            }
            Ok(scanner)
        });
        Worker { chunks, waiting, thread }
    }

    /// Queues the chunk if there is room; returns whether it was queued.
    fn try_queue(&self, number: u64, chunk: &LogChunk) -> bool {
        let room = self.waiting.load(Ordering::Relaxed) < QUEUE_DEPTH;
        if room {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        // A failed worker has stopped; its error is returned by the join.
        room && self.chunks.send((number, chunk.clone())).is_ok()
    }
}

/// Scans a log.
pub(super) fn scan(log: impl Read, table: &ErrorTable) -> Result<ScanResult, ExplainError> {
    let workers = thread::available_parallelism().map_or(0, |n| n.get() - 1).min(MAX_WORKERS);
    scan_with(log, table, workers)
}

fn scan_with(log: impl Read, table: &ErrorTable, worker_count: usize) -> Result<ScanResult, ExplainError> {
    let rules = &RuleSet::new(table);
    thread::scope(|scope| {
        let mut own = Scanner::new(rules);
        let mut workers: Vec<Worker<'_, '_>> = Vec::new();
        let mut number = 0;
        clean::chunks(log, &mut |chunk| {
            number += 1;
            if number == SERIAL_CHUNKS {
                workers = (0..worker_count).map(|_| Worker::start(scope, rules)).collect();
            }
            let queued = workers.iter().any(|worker| worker.try_queue(number, chunk));
            if queued { Ok(()) } else { own.scan_chunk(number, chunk) }
        })??;
        let mut seen = own.finish();
        for Worker { chunks, thread, .. } in workers {
            drop(chunks);
            // A panicked worker loses its hits, so there is no result.
            let scanner =
                thread.join().map_err(|_| std::io::Error::other("a thread that reads it ended early"))??;
            seen.join(scanner.finish());
        }
        Ok(seen)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::PatternDb;

    #[test]
    fn the_result_is_independent_of_the_number_of_workers() {
        let known = PatternDb::embedded();
        let mut log = Vec::new();
        for i in 0..60_000 {
            let line = match i % 97 {
                3 => format!("RuntimeError: CUDA error: out of memory, rank {i}\n"),
                41 => "FutureWarning: this is deprecated and will be removed\n".to_owned(),
                50 => "Traceback (most recent call last):\n  File \"train.py\", line 3\nKeyError: 'x'\n"
                    .to_owned(),
                _ => format!("step {i} loss 0.{i:05}\n"),
            };
            log.extend_from_slice(line.as_bytes());
        }
        let serial = scan_with(log.as_slice(), known.table(), 0).map(|seen| format!("{seen:?}"));
        for workers in [1, 3] {
            let parallel = scan_with(log.as_slice(), known.table(), workers).map(|seen| format!("{seen:?}"));
            assert!(matches!((&serial, &parallel), (Ok(a), Ok(b)) if a == b), "{serial:?}\n{parallel:?}");
        }
    }
}
