//! How do records leave a running thread without a lock? One writer, any number of readers, the oldest overwritten.
//!
//! A sequence lock over plain atomics, so there is no unsafe code and a torn read is a discarded record, not
//! undefined behaviour. Record `i` lives in slot `i % slots`. The writer fills the slot of record `head`, then
//! publishes `head + 1`. A reader copies what it wants and then looks at `head` again: record `i` was intact if
//! `i + slots > head`, because the write that would have damaged it is that of record `i + slots`, and whoever saw
//! any word of that write also sees `head >= i + slots` (release fence before the words, acquire fence after the copy).
//! Not chosen: a bounded queue that refuses new records when full. It would keep the start of a run and lose its end.

use crate::sync::{AtomicU64, Ordering, fence};

/// A ring of records of `W` words.
#[derive(Debug)]
pub(crate) struct Ring<const W: usize> {
    slots: Box<[[AtomicU64; W]]>,
    /// Records ever written.
    head: AtomicU64,
}

/// What a reader got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read<const W: usize> {
    /// Index of the first record in `records`; what lies between the index asked for and this one is lost.
    pub(crate) first: u64,
    /// Intact records, oldest first.
    pub(crate) records: Vec<[u64; W]>,
    /// Index to go on from.
    pub(crate) next: u64,
}

impl<const W: usize> Ring<W> {
    /// A ring over slots whose number is a power of two; it holds one record less than it has slots.
    pub(crate) fn new(slots: Box<[[AtomicU64; W]]>) -> Self {
        debug_assert!(slots.len().is_power_of_two(), "{} slots", slots.len());
        Ring { slots, head: AtomicU64::new(0) }
    }

    #[inline]
    fn slot(&self, index: u64) -> Option<&[AtomicU64; W]> {
        // The mask keeps the low bits only, so the narrowing cast loses nothing that counts.
        self.slots.get(index as usize & self.slots.len().wrapping_sub(1))
    }

    /// Appends a record and returns how many were ever written. Only the owner of the ring calls this.
    #[inline]
    pub(crate) fn push(&self, record: [u64; W]) -> u64 {
        self.push_at(self.head.load(Ordering::Relaxed), record)
    }

    /// [`Ring::push`] by an owner that knows how many it wrote. Apart, because loom's search misses races on a value
    /// that the writing thread itself has just loaded.
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

    /// A record the owner itself wrote within the last `slots` pushes. Only the owner of the ring calls this.
    #[inline]
    pub(crate) fn own(&self, index: u64) -> [u64; W] {
        let slot = self.slot(index);
        std::array::from_fn(|word| {
            slot.and_then(|s| s.get(word)).map_or(0, |cell| cell.load(Ordering::Relaxed))
        })
    }

    /// Copies what is left of the records from index `from` on.
    pub(crate) fn read(&self, from: u64) -> Read<W> {
        let slots = self.slots.len() as u64;
        let next = self.head.load(Ordering::Acquire);
        let first = from.min(next).max((next + 1).saturating_sub(slots));
        let mut records: Vec<[u64; W]> = (first..next).map(|index| self.own(index)).collect();
        // Pairs with the release fence of `push`.
        fence(Ordering::Acquire);
        let head = self.head.load(Ordering::Relaxed);
        let intact = (head + 1).saturating_sub(slots).clamp(first, next);
        records.drain(..(intact - first) as usize);
        Read { first: intact, records, next }
    }
}
