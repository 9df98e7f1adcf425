//! Which idle block is taken, and which is given up first? The newest of its shelf, and the oldest of all.
//!
//! Plain data, no lock. Every operation takes constant time: blocks sit in a slab, a list through the slab orders them
//! all by age, and each shelf has its slots in the same order. So the oldest block is always the first of its shelf.
//! (Asking every shelf for its oldest was not chosen: it makes each trimmed block cost the number of shelves.)

use std::{collections::VecDeque, time::Duration};

use crate::units::Bytes;

/// No slot: `Vec::get` answers `None` for it.
const NONE: usize = usize::MAX;

/// Blocks that nobody uses, by shelf and by age.
#[derive(Debug)]
pub(super) struct Idle<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<usize>,
    shelves: Vec<VecDeque<usize>>,
    oldest: usize,
    newest: usize,
    bytes: Bytes,
    count: usize,
}

#[derive(Debug)]
struct Slot<T> {
    block: Option<T>,
    shelf: usize,
    bytes: Bytes,
    since: Duration,
    older: usize,
    newer: usize,
}

impl<T> Default for Idle<T> {
    fn default() -> Self {
        let (slots, vacant, shelves) = Default::default();
        Idle { slots, vacant, shelves, oldest: NONE, newest: NONE, bytes: Bytes::ZERO, count: 0 }
    }
}

impl<T> Idle<T> {
    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Puts a block on a shelf as the newest.
    pub(super) fn put(&mut self, shelf: usize, bytes: Bytes, since: Duration, block: T) {
        if self.shelves.len() <= shelf {
            self.shelves.resize_with(shelf + 1, VecDeque::new);
        }
        let slot = Slot { block: Some(block), shelf, bytes, since, older: self.newest, newer: NONE };
        let at = self.vacant.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(at) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        match self.slots.get_mut(self.newest) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.bytes += bytes;
        self.count += 1;
        if let Some(shelf) = self.shelves.get_mut(shelf) {
            shelf.push_back(at);
        }
    }

    /// Takes the newest block of a shelf: the one most likely still in the device's caches.
    pub(super) fn take(&mut self, shelf: usize) -> Option<T> {
        let at = self.shelves.get_mut(shelf)?.pop_back()?;
        self.unlink(at)
    }

    /// Since when the oldest block is idle.
    pub(super) fn oldest_since(&self) -> Option<Duration> {
        self.slots.get(self.oldest).map(|slot| slot.since)
    }

    /// Takes the oldest block of all.
    pub(super) fn take_oldest(&mut self) -> Option<T> {
        let at = self.oldest;
        let shelf = self.slots.get(at)?.shelf;
        let first = self.shelves.get_mut(shelf)?.pop_front();
        debug_assert_eq!(first, Some(at), "the oldest block is the first of its shelf");
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
    fn newest_of_the_shelf_oldest_of_all() {
        let mut idle = Idle::default();
        for (shelf, name) in [(1, 'a'), (0, 'b'), (1, 'c'), (1, 'd')] {
            idle.put(shelf, Bytes(10), T0, name);
        }
        assert_eq!((idle.len(), idle.bytes()), (4, Bytes(40)));
        assert_eq!(idle.take(1), Some('d'));
        assert_eq!(idle.take_oldest(), Some('a'));
        assert_eq!(idle.take_oldest(), Some('b'));
        assert_eq!(idle.take(0), None);
        assert_eq!(idle.take(99), None);
        assert_eq!(idle.take(1), Some('c'));
        assert_eq!((idle.take_oldest(), idle.oldest_since(), idle.bytes()), (None, None, Bytes::ZERO));
    }

    proptest! {
        /// Against a plain list, oldest first.
        #[test]
        fn behaves_like_a_list(steps in proptest::collection::vec((0u8..3, 0usize..4), 0..200)) {
            let mut idle = Idle::default();
            let mut list: Vec<(usize, usize)> = Vec::new();
            for (number, (step, shelf)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        idle.put(shelf, Bytes(shelf as u64 + 1), Duration::from_nanos(number as u64), number);
                        list.push((shelf, number));
                    }
                    1 => {
                        let at = list.iter().rposition(|(s, _)| *s == shelf);
                        prop_assert_eq!(idle.take(shelf), at.map(|at| list.remove(at).1));
                    }
                    _ => {
                        let first = (!list.is_empty()).then(|| list.remove(0).1);
                        prop_assert_eq!(idle.take_oldest(), first);
                    }
                }
                prop_assert_eq!(idle.len(), list.len());
                prop_assert_eq!(idle.bytes(), list.iter().map(|(s, _)| Bytes(*s as u64 + 1)).sum());
                let oldest = list.first().map(|(_, n)| Duration::from_nanos(*n as u64));
                prop_assert_eq!(idle.oldest_since(), oldest);
            }
        }
    }
}
