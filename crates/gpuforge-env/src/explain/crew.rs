//! Who looks through which piece of a log? One thread for a short one; of a long one, the thread that reads hands pieces to
//! others as long as they keep up, and takes the rest itself. Answers do not depend on who saw what: what is kept of a
//! pattern is what comes first in the log.

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
    clean::{self, Piece},
    rule::Rules,
    scan::{Scanner, Seen},
    table::Errors,
};

/// Pieces that are looked through before others are asked: a thread and its tables cost more than that.
const ALONE: u64 = 16;
/// Threads beside the one that reads; more would wait for it.
const MOST_HELPERS: usize = 3;
/// Pieces that wait for a helper, at most: memory does not grow with the log.
const WAITING: usize = 4;

struct Helper<'s, 'r> {
    pieces: Sender<(u64, Piece)>,
    waiting: Arc<AtomicUsize>,
    thread: ScopedJoinHandle<'s, Result<Scanner<'r>, ExplainError>>,
}

impl<'s, 'r: 's> Helper<'s, 'r> {
    fn start(scope: &'s Scope<'s, '_>, rules: &'r Rules<'r>) -> Helper<'s, 'r> {
        let (pieces, work) = channel::<(u64, Piece)>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        let thread = scope.spawn(move || {
            let mut scanner = Scanner::new(rules);
            for (number, piece) in work {
                scanner.take(number, &piece)?;
                left.fetch_sub(1, Ordering::Relaxed);
            }
            Ok(scanner)
        });
        Helper { pieces, waiting, thread }
    }

    /// Is the piece taken?
    fn take(&self, number: u64, piece: &Piece) -> bool {
        let room = self.waiting.load(Ordering::Relaxed) < WAITING;
        if room {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        // One that failed has stopped; its error is told when it is joined.
        room && self.pieces.send((number, piece.clone())).is_ok()
    }
}

/// Everything that a log holds.
pub(super) fn scan(log: impl Read, table: &Errors) -> Result<Seen, ExplainError> {
    let helpers = thread::available_parallelism().map_or(0, |n| n.get() - 1).min(MOST_HELPERS);
    scan_with(log, table, helpers)
}

fn scan_with(log: impl Read, table: &Errors, helpers: usize) -> Result<Seen, ExplainError> {
    let rules = &Rules::new(table);
    thread::scope(|scope| {
        let mut own = Scanner::new(rules);
        let mut crew: Vec<Helper<'_, '_>> = Vec::new();
        let mut number = 0;
        clean::pieces(log, &mut |piece| {
            number += 1;
            if number == ALONE {
                crew = (0..helpers).map(|_| Helper::start(scope, rules)).collect();
            }
            let taken = crew.iter().any(|helper| helper.take(number, piece));
            if taken { Ok(()) } else { own.take(number, piece) }
        })??;
        let mut seen = own.finish();
        for Helper { pieces, thread, .. } in crew {
            drop(pieces);
            // A thread that panicked has told why; what it saw is missing, and nothing else can be said.
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
    use crate::explain::Knowledge;

    #[test]
    fn answers_do_not_depend_on_who_saw_what() {
        let known = Knowledge::embedded();
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
        let alone = scan_with(log.as_slice(), known.table(), 0).map(|seen| format!("{seen:?}"));
        for helpers in [1, 3] {
            let together = scan_with(log.as_slice(), known.table(), helpers).map(|seen| format!("{seen:?}"));
            assert!(matches!((&alone, &together), (Ok(a), Ok(b)) if a == b), "{alone:?}\n{together:?}");
        }
    }
}
