//! What is in the four words of a record? Times, a packed key, and an optional number.
//!
//! Word 0: start, word 1: end (clock ticks on a thread, nanoseconds on a track), word 2: the key, word 3: bytes moved
//! plus one, 0 where nobody said. A sample of a counter or gauge has its time in word 0 and its value in word 1.

use crate::category::Category;

/// Words of one record.
pub(crate) const WORDS: usize = 4;

/// Name ids fit 24 bits.
pub(crate) const NAME_BITS: u32 = 24;

const KIND_COUNTER: u8 = 8;
const KIND_GAUGE: u8 = 9;

/// What a record speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Span(Category),
    Counter,
    Gauge,
}

/// Everything of a record that is not a number of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: u32,
    pub(crate) kind: Kind,
    /// Open spans of the thread around this one.
    pub(crate) depth: u16,
    /// 0: the thread that recorded it; else a track, and times are nanoseconds.
    pub(crate) track: u16,
}

impl Key {
    /// name 24 bits, kind 8, depth 16, track 16.
    #[inline]
    pub(crate) const fn pack(self) -> u64 {
        let kind = match self.kind {
            Kind::Span(category) => category as u8,
            Kind::Counter => KIND_COUNTER,
            Kind::Gauge => KIND_GAUGE,
        };
        (self.name as u64 & ((1 << NAME_BITS) - 1))
            | (kind as u64) << NAME_BITS
            | (self.depth as u64) << 32
            | (self.track as u64) << 48
    }

    /// `None` for a kind that nobody writes.
    pub(crate) fn unpack(word: u64) -> Option<Key> {
        let kind = match (word >> NAME_BITS) as u8 {
            KIND_COUNTER => Kind::Counter,
            KIND_GAUGE => Kind::Gauge,
            category => Kind::Span(*Category::ALL.get(usize::from(category))?),
        };
        let name = (word & ((1 << NAME_BITS) - 1)) as u32;
        Some(Key { name, kind, depth: (word >> 32) as u16, track: (word >> 48) as u16 })
    }
}

/// Word 3 for a number of bytes.
#[inline]
pub(crate) const fn pack_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(1)
}

/// The number of bytes in word 3.
pub(crate) const fn unpack_bytes(word: u64) -> Option<u64> {
    word.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_packing_at_its_limits() {
        let kinds = Category::ALL.map(Kind::Span).into_iter().chain([Kind::Counter, Kind::Gauge]);
        for kind in kinds {
            for (name, depth, track) in [(0, 0, 0), (1, 2, 3), ((1 << NAME_BITS) - 1, u16::MAX, u16::MAX)] {
                let key = Key { name, kind, depth, track };
                assert_eq!(Key::unpack(key.pack()), Some(key));
            }
        }
        assert_eq!(Key::unpack(7 << NAME_BITS), None);
    }

    #[test]
    fn no_bytes_differ_from_zero_bytes() {
        assert_eq!(unpack_bytes(0), None);
        assert_eq!(unpack_bytes(pack_bytes(0)), Some(0));
        assert_eq!(unpack_bytes(pack_bytes(u64::MAX)), Some(u64::MAX - 1));
    }
}
