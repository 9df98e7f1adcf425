//! Record layout: four words - start, end, packed key, bytes.
//!
//! Word 0: start, word 1: end (clock ticks on a thread, nanoseconds on a track), word 2: the key, word 3: bytes moved
//! plus one, 0 if not stated. A sample of a counter or gauge has its time in word 0 and its value in word 1.

use crate::category::Category;

/// Words of one record.
pub(crate) const WORDS: usize = 4;

/// Name ids fit 24 bits.
pub(crate) const NAME_BITS: u32 = 24;

const KIND_COUNTER: u8 = 8;
const KIND_GAUGE: u8 = 9;

/// Record type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Span(Category),
    Counter,
    Gauge,
}

/// Word 2 of a record: name, kind, depth and track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: u32,
    pub(crate) kind: RecordKind,
    /// Nesting depth: open spans of the thread around this one.
    pub(crate) depth: u16,
    /// 0: the thread that recorded it; else a track, and times are nanoseconds.
    pub(crate) track: u16,
}

impl Key {
    /// name 24 bits, kind 8, depth 16, track 16.
    #[inline]
    pub(crate) const fn pack(self) -> u64 {
        let kind = match self.kind {
            RecordKind::Span(category) => category as u8,
            RecordKind::Counter => KIND_COUNTER,
            RecordKind::Gauge => KIND_GAUGE,
        };
        (self.name as u64 & ((1 << NAME_BITS) - 1))
            | (kind as u64) << NAME_BITS
            | (self.depth as u64) << 32
            | (self.track as u64) << 48
    }

    /// `None` for an unknown kind.
    pub(crate) fn unpack(word: u64) -> Option<Key> {
        let kind = match (word >> NAME_BITS) as u8 {
            KIND_COUNTER => RecordKind::Counter,
            KIND_GAUGE => RecordKind::Gauge,
            category => RecordKind::Span(*Category::ALL.get(usize::from(category))?),
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
    fn key_round_trips_at_its_limits() {
        let kinds =
            Category::ALL.map(RecordKind::Span).into_iter().chain([RecordKind::Counter, RecordKind::Gauge]);
        for kind in kinds {
            for (name, depth, track) in [(0, 0, 0), (1, 2, 3), ((1 << NAME_BITS) - 1, u16::MAX, u16::MAX)] {
                let key = Key { name, kind, depth, track };
                assert_eq!(Key::unpack(key.pack()), Some(key));
            }
        }
        assert_eq!(Key::unpack(7 << NAME_BITS), None);
    }

    #[test]
    fn unstated_bytes_differ_from_zero_bytes() {
        assert_eq!(unpack_bytes(0), None);
        assert_eq!(unpack_bytes(pack_bytes(0)), Some(0));
        assert_eq!(unpack_bytes(pack_bytes(u64::MAX)), Some(u64::MAX - 1));
    }
}
