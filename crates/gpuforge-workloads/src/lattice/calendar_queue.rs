//! Calendar queue: a monotone bucket priority queue for keys that grow by bounded steps (a ring of buckets).
//!
//! Entries wait unsorted in a bucket; when the bucket is current it is sorted. Entries that arrive for the current bucket go to a
//! binary heap: where weights are so uneven that all fall into one bucket, that is what remains. A radix heap was tried and moved
//! entries too often, because costs differ in their low bits.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Number of buckets, a power of two: one occupancy word per 64.
const BUCKETS: u64 = 1024;

/// Keys are the bits of non-negative floats, which are ordered like the floats.
type Entry = (u64, u32);

/// A calendar queue; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct CalendarQueue {
    /// Entries of the current bucket, the minimum at the end.
    sorted: Vec<Entry>,
    /// Late entries of the current bucket.
    heap: BinaryHeap<Reverse<Entry>>,
    buckets: Vec<Vec<Entry>>,
    /// Occupancy bit per bucket.
    occupied: [u64; (BUCKETS / 64) as usize],
    current: u64,
    per_key: f64,
}

impl CalendarQueue {
    /// Clears it. Later keys are at most `step` above the last popped one.
    pub(super) fn begin(&mut self, step: f64) {
        self.heap.clear();
        self.sorted.clear();
        self.buckets.iter_mut().for_each(Vec::clear);
        self.buckets.resize_with(BUCKETS as usize, Vec::new);
        self.occupied = Default::default();
        self.current = 0;
        let per_key = (BUCKETS - 2) as f64 / step;
        self.per_key = if per_key.is_finite() { per_key } else { 0.0 };
    }

    #[inline]
    pub(super) fn push(&mut self, key: f64, value: u32) {
        let entry = (key.to_bits(), value);
        // Rounding may be one bucket off, never around the ring.
        let bucket = ((key * self.per_key) as u64).min(self.current + (BUCKETS - 1));
        if bucket <= self.current {
            return self.heap.push(Reverse(entry));
        }
        let slot = bucket % BUCKETS;
        if let Some(entries) = self.buckets.get_mut(slot as usize) {
            entries.push(entry);
        }
        if let Some(word) = self.occupied.get_mut((slot / 64) as usize) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Pops an entry with the smallest key.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(f64, u32)> {
        loop {
            let sooner = match (self.sorted.last(), self.heap.peek()) {
                (Some(waiting), Some(Reverse(came))) if came < waiting => None,
                _ => self.sorted.pop(),
            };
            if let Some((key, value)) = sooner.or_else(|| self.heap.pop().map(|Reverse(entry)| entry)) {
                return Some((f64::from_bits(key), value));
            }
            self.advance()?;
        }
    }

    /// Advances to the next occupied bucket; `None` when there is none.
    fn advance(&mut self) -> Option<()> {
        let start = (self.current + 1) % BUCKETS;
        let words = self.occupied.len() as u64;
        // Once around the ring: the first word is visited again at the end for the bits before the start.
        for turn in 0..=words {
            let at = (start / 64 + turn) % words;
            let mask = if turn == 0 { u64::MAX << (start % 64) } else { u64::MAX };
            let word = self.occupied.get_mut(at as usize)?;
            let found = *word & mask;
            if found != 0 {
                let bit = u64::from(found.trailing_zeros());
                *word &= !(1 << bit);
                let slot = at * 64 + bit;
                self.current += 1 + (slot + BUCKETS - start) % BUCKETS;
                std::mem::swap(&mut self.sorted, self.buckets.get_mut(slot as usize)?);
                self.sorted.sort_unstable_by(|a, b| b.cmp(a));
                return Some(());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_pop_in_key_order() {
        let mut queue = CalendarQueue::default();
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        for (round, step) in
            [1.0, 1e-9, 1e12, 0.0, 3.0, f64::MIN_POSITIVE].into_iter().cycle().take(60).enumerate()
        {
            queue.begin(step);
            let mut model: Vec<(f64, u32)> = Vec::new();
            let mut last = 0.0;
            for i in 0..600 {
                if next() > 0.4 || model.is_empty() {
                    // Uneven steps: most of them tiny in every other round.
                    let share = if round % 2 == 0 { next() } else { next().powi(40) };
                    let key = last + step * share;
                    queue.push(key, i);
                    model.push((key, i));
                    continue;
                }
                let (key, got) = queue.pop().unwrap();
                let min = model.iter().map(|(k, _)| *k).fold(f64::INFINITY, f64::min);
                let at = model.iter().position(|(_, v)| *v == got).unwrap();
                assert_eq!((model.swap_remove(at).0, key), (min, min));
                last = min;
            }
            while let Some((_, got)) = queue.pop() {
                model.retain(|(_, v)| *v != got);
            }
            assert!(model.is_empty());
        }
    }
}
