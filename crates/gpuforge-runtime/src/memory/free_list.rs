//! Free lists with LRU eviction: allocation pops the most recently freed block of a bin, eviction the oldest of all bins.
//!
//! Plain data, no lock. Every operation is O(1): blocks sit in a slab, an intrusive doubly linked list orders all of them
//! by age, and each bin is a deque of slab slots in the same order, so the oldest block is always the front of its bin.
//! (Not chosen: comparing the oldest of every bin, which makes each eviction cost the number of bins.)

use std::{collections::VecDeque, time::Duration};

use crate::units::Bytes;

/// No slot: `Vec::get` returns `None` for it.
const NONE: usize = usize::MAX;

/// Idle blocks by bin, and over all bins by age.
#[derive(Debug)]
pub(super) struct FreeLists<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<usize>,
    bins: Vec<VecDeque<usize>>,
    oldest: usize,
    newest: usize,
    bytes: Bytes,
    count: usize,
}

#[derive(Debug)]
struct Slot<T> {
    block: Option<T>,
    bin: usize,
    bytes: Bytes,
    since: Duration,
    older: usize,
    newer: usize,
}

impl<T> Default for FreeLists<T> {
    fn default() -> Self {
        let (slots, vacant, bins) = Default::default();
        FreeLists { slots, vacant, bins, oldest: NONE, newest: NONE, bytes: Bytes::ZERO, count: 0 }
    }
}

impl<T> FreeLists<T> {
    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Pushes a block to a bin as the most recently freed.
    pub(super) fn push(&mut self, bin: usize, bytes: Bytes, since: Duration, block: T) {
        if self.bins.len() <= bin {
            self.bins.resize_with(bin + 1, VecDeque::new);
        }
        let slot = Slot { block: Some(block), bin, bytes, since, older: self.newest, newer: NONE };
        let at = self.vacant.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(at) {
            Some(vacant) => *vacant = slot,
            None => self.slots.push(slot),
        }
        match self.slots.get_mut(self.newest) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.bytes += bytes;
        self.count += 1;
        if let Some(bin) = self.bins.get_mut(bin) {
            bin.push_back(at);
        }
    }

    /// Pops the most recently freed block of a bin (LIFO): the one most likely still in the device's caches.
    pub(super) fn pop(&mut self, bin: usize) -> Option<T> {
        let at = self.bins.get_mut(bin)?.pop_back()?;
        self.unlink(at)
    }

    /// When the oldest block became idle.
    pub(super) fn oldest_since(&self) -> Option<Duration> {
        self.slots.get(self.oldest).map(|slot| slot.since)
    }

    /// Pops the least recently freed block of all bins.
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        let at = self.oldest;
        let bin = self.slots.get(at)?.bin;
        let first = self.bins.get_mut(bin)?.pop_front();
        debug_assert_eq!(first, Some(at), "the oldest block is the front of its bin");
        self.unlink(at)
    }

    fn unlink(&mut self, at: usize) -> Option<T> {
        let slot = self.slots.get_mut(at)?;
        let block = slot.block.take()?;
        let (older, newer, bytes) = (slot.older, slot.newer, slot.bytes);
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        self.vacant.push(at);
        self.bytes -= bytes;
        self.count -= 1;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T0: Duration = Duration::ZERO;

    #[test]
    fn pop_is_lifo_per_bin_and_eviction_is_lru() {
        let mut free = FreeLists::default();
        for (bin, name) in [(1, 'a'), (0, 'b'), (1, 'c'), (1, 'd')] {
            free.push(bin, Bytes(10), T0, name);
        }
        assert_eq!((free.len(), free.bytes()), (4, Bytes(40)));
        assert_eq!(free.pop(1), Some('d'));
        assert_eq!(free.pop_oldest(), Some('a'));
        assert_eq!(free.pop_oldest(), Some('b'));
        assert_eq!(free.pop(0), None);
        assert_eq!(free.pop(99), None);
        assert_eq!(free.pop(1), Some('c'));
        assert_eq!((free.pop_oldest(), free.oldest_since(), free.bytes()), (None, None, Bytes::ZERO));
    }

    proptest! {
        /// Against a plain list, oldest first.
        #[test]
        fn free_lists_agree_with_a_plain_list(steps in proptest::collection::vec((0u8..3, 0usize..4), 0..200)) {
            let mut free = FreeLists::default();
            let mut list: Vec<(usize, usize)> = Vec::new();
            for (number, (step, bin)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        free.push(bin, Bytes(bin as u64 + 1), Duration::from_nanos(number as u64), number);
                        list.push((bin, number));
                    }
                    1 => {
                        let at = list.iter().rposition(|(s, _)| *s == bin);
                        prop_assert_eq!(free.pop(bin), at.map(|at| list.remove(at).1));
                    }
                    _ => {
                        let first = (!list.is_empty()).then(|| list.remove(0).1);
                        prop_assert_eq!(free.pop_oldest(), first);
                    }
                }
                prop_assert_eq!(free.len(), list.len());
                prop_assert_eq!(free.bytes(), list.iter().map(|(s, _)| Bytes(*s as u64 + 1)).sum());
                let oldest = list.first().map(|(_, n)| Duration::from_nanos(*n as u64));
                prop_assert_eq!(free.oldest_since(), oldest);
            }
        }
    }
}
