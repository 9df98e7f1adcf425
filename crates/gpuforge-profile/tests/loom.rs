//! Model checking of the ring buffer with loom: every interleaving, on the same source file.
//!
//! loom runs each schedule, and lets relaxed loads see every value the memory model allows. A ring this small is
//! overwritten at once, so a reader that trusted a torn record would be caught.

/// Replaces `src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[path = "../src/ring.rs"]
#[allow(dead_code, reason = "the library uses more of the ring than the model does")]
mod ring;

use loom::sync::Arc;
use ring::Ring;

fn ring(slots: usize) -> Arc<Ring<2>> {
    let slot = |_| [sync::AtomicU64::new(0), sync::AtomicU64::new(0)];
    Arc::new(Ring::new((0..slots).map(slot).collect()))
}

/// A writer of `pushes` records, and a concurrent reader that reads twice.
fn check(slots: usize, pushes: u64) {
    loom::model(move || {
        let ring = ring(slots);
        let writer = {
            let ring = ring.clone();
            loom::thread::spawn(move || {
                for i in 0..pushes {
                    ring.push_at(i, [i + 1, !(i + 1)]);
                }
            })
        };
        let (mut tail, mut got, mut lost) = (0, 0, 0);
        let mut collect = || {
            let read = ring.read(tail);
            for (record, i) in read.records.iter().zip(read.first..) {
                assert_eq!(*record, [i + 1, !(i + 1)], "record {i} is torn");
            }
            assert_eq!(read.first + read.records.len() as u64, read.next);
            got += read.records.len() as u64;
            lost += read.first - tail;
            tail = read.next;
        };
        collect();
        assert!(writer.join().is_ok());
        collect();
        assert_eq!(got + lost, pushes, "every record is read or counted");
    });
}

#[test]
fn ring_wraps_under_the_reader() {
    check(2, 3);
}

#[test]
fn ring_just_fills() {
    check(4, 3);
}

#[test]
fn ring_wraps_once() {
    check(4, 5);
}
