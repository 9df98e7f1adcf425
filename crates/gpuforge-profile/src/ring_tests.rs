//! Tests of the ring buffer: keeps the newest, counts every loss, returns no torn record. Not in `ring.rs`, which loom includes.

use crate::{
    ring::{Ring, RingRead},
    sync::{AtomicU64, Ordering},
};
use std::sync::atomic::AtomicBool;

fn ring<const W: usize>(slots: usize) -> Ring<W> {
    Ring::new((0..slots).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
}

#[test]
fn empty_ring_reads_nothing() {
    assert_eq!(ring::<2>(4).read(0), RingRead { first: 0, records: vec![], next: 0 });
}

#[test]
fn capacity_is_slots_minus_one_then_the_oldest_is_overwritten() {
    let ring = ring::<1>(4);
    for count in 1..=20_u64 {
        assert_eq!(ring.push([count - 1]), count);
        let read = ring.read(0);
        let first = count.saturating_sub(3);
        assert_eq!((read.first, read.next), (first, count));
        assert_eq!(read.records, (first..count).map(|i| [i]).collect::<Vec<_>>());
    }
    assert_eq!(ring.read(19).records, [[19]]);
    assert_eq!(ring.read(20).records, Vec::<[u64; 1]>::new());
    // A future index reads nothing.
    assert_eq!(ring.read(99), RingRead { first: 20, records: vec![], next: 20 });
}

#[test]
fn concurrent_reader_never_sees_a_torn_record_and_counts_every_loss() {
    const TOTAL: u64 = if cfg!(debug_assertions) { 400_000 } else { 4_000_000 };
    let ring = ring::<4>(64);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for i in 0..TOTAL {
                ring.push([i, i ^ 0xabcd, i.wrapping_mul(3), !i]);
            }
            done.store(true, Ordering::Release);
        });
        let (mut tail, mut got, mut lost) = (0, 0, 0);
        loop {
            let last = done.load(Ordering::Acquire);
            let read = ring.read(tail);
            lost += read.first - tail;
            got += read.records.len() as u64;
            for (offset, record) in read.records.iter().enumerate() {
                let i = read.first + offset as u64;
                assert_eq!(*record, [i, i ^ 0xabcd, i.wrapping_mul(3), !i]);
            }
            tail = read.next;
            if last && tail == TOTAL {
                break;
            }
        }
        assert_eq!(got + lost, TOTAL);
    });
}

proptest::proptest! {
    #[test]
    fn ring_agrees_with_a_bounded_list(bits in 1_u32..7, steps in proptest::collection::vec(0_u64..40, 1..30)) {
        let ring = ring::<1>(1 << bits);
        let (mut all, mut tail) = (Vec::new(), 0_u64);
        for pushes in steps {
            for _ in 0..pushes {
                ring.push([all.len() as u64]);
                all.push([all.len() as u64]);
            }
            let read = ring.read(tail);
            let kept = all.len().saturating_sub((1 << bits) - 1).max(tail as usize);
            proptest::prop_assert_eq!(read.first, kept as u64);
            proptest::prop_assert_eq!(&read.records[..], &all[kept..]);
            tail = read.next;
        }
    }
}
