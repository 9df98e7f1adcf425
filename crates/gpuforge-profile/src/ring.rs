//! Lock-free ring buffer: single writer, any number of readers, overwrites the oldest record (seqlock).
//!
//! A sequence lock over plain atomics, so there is no unsafe code and a torn read is a discarded record, not undefined
//! behaviour. Record `i` lives in slot `i % slots`. The writer fills the slot of record `head`, then publishes
//! `head + 1`. A reader copies what it wants and then re-reads `head`: record `i` was intact if `i + slots > head`,
//! because the write that would have torn it is that of record `i + slots`, and whoever saw any word of that write also
//! sees `head >= i + slots` (release fence before the words, acquire fence after the copy).
//! Not chosen: a bounded queue that refuses new records when full. It would keep the start of a run and lose its end.

use crate::sync::{AtomicU64, Ordering, fence};

/// A ring of records of `W` words.
#[derive(Debug)]
pub(crate) struct Ring<const W: usize> {
    slots: Box<[[AtomicU64; W]]>,
    /// Records ever written.
    head: AtomicU64,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RingRead<const W: usize> {
    /// Index of the first record in `records`; records between the requested index and this one are lost.
    pub(crate) first: u64,
    /// Intact records, oldest first.
    pub(crate) records: Vec<[u64; W]>,
    /// Index to continue from.
    pub(crate) next: u64,
}

impl<const W: usize> Ring<W> {
    /// A ring over a power-of-two number of slots; its capacity is one less.
    pub(crate) fn new(slots: Box<[[AtomicU64; W]]>) -> Self {
        debug_assert!(slots.len().is_power_of_two(), "{} slots", slots.len());
        Ring { slots, head: AtomicU64::new(0) }
    }

    #[inline]
    fn slot(&self, index: u64) -> Option<&[AtomicU64; W]> {
        // The mask keeps the low bits only, so the narrowing cast is lossless.
        self.slots.get(index as usize & self.slots.len().wrapping_sub(1))
    }

    /// Appends a record and returns how many were ever written. Single writer: only the owner calls this.
    #[inline]
    pub(crate) fn push(&self, record: [u64; W]) -> u64 {
        self.push_at(self.head.load(Ordering::Relaxed), record)
    }

    /// [`Ring::push`] with a known head. Separate, because loom misses races on a value that the writing thread itself
    /// has just loaded.
    #[inline]
    pub(crate) fn push_at(&self, head: u64, record: [u64; W]) -> u64 {
        // Pairs with the acquire fence of `read`: a reader that sees one of the words below sees `head` too.
        fence(Ordering::Release);
        if let Some(slot) = self.slot(head) {
            for (cell, word) in slot.iter().zip(record) {
                cell.store(word, Ordering::Relaxed);
            }
        }
        self.head.store(head + 1, Ordering::Release);
        head + 1
    }

    /// A record of the last `slots` pushes, without a tear check.
    #[inline]
    pub(crate) fn load(&self, index: u64) -> [u64; W] {
        let slot = self.slot(index);
        std::array::from_fn(|word| {
            slot.and_then(|s| s.get(word)).map_or(0, |cell| cell.load(Ordering::Relaxed))
        })
    }

    /// Copies the records from index `from` on that are still intact.
    pub(crate) fn read(&self, from: u64) -> RingRead<W> {
        let slots = self.slots.len() as u64;
        let next = self.head.load(Ordering::Acquire);
        let first = from.min(next).max((next + 1).saturating_sub(slots));
        let mut records: Vec<[u64; W]> = (first..next).map(|index| self.load(index)).collect();
        // Pairs with the release fence of `push`.
        fence(Ordering::Acquire);
        let head = self.head.load(Ordering::Relaxed);
        let intact = (head + 1).saturating_sub(slots).clamp(first, next);
        records.drain(..(intact - first) as usize);
        RingRead { first: intact, records, next }
    }
}
