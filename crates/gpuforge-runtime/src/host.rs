//! Bytes of the host, in one piece or in several: what many operations bring along becomes one block of a device without
//! being copied together first.

use std::{fmt, sync::Arc};

/// Immutable bytes; cloning shares them.
#[derive(Clone)]
pub struct HostBytes {
    pieces: Pieces,
    len: usize,
}

#[derive(Clone)]
enum Pieces {
    One(Arc<[u8]>),
    Several(Arc<[Arc<[u8]>]>),
}

impl HostBytes {
    /// Pieces one after the other. Mapped memory is written from multiples of eight bytes on: where a piece ends elsewhere, they
    /// are put together here.
    pub fn several(pieces: Vec<Arc<[u8]>>) -> Self {
        let len = pieces.iter().map(|p| p.len()).sum();
        let inner = pieces.split_last().map_or(&[] as &[Arc<[u8]>], |(_, before)| before);
        if inner.iter().all(|p| p.len().is_multiple_of(8)) {
            HostBytes { pieces: Pieces::Several(pieces.into()), len }
        } else {
            HostBytes::from(pieces.concat())
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, with where each begins.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let all = match &self.pieces {
            Pieces::One(one) => std::slice::from_ref(one),
            Pieces::Several(several) => several,
        };
        let mut at = 0;
        all.iter().map(move |piece| {
            let begin = at;
            at += piece.len() as u64;
            (begin, piece.as_ref())
        })
    }

    /// All of them in one piece: shared if they are, put together if not.
    pub fn whole(&self) -> Arc<[u8]> {
        match &self.pieces {
            Pieces::One(one) => one.clone(),
            Pieces::Several(several) => several.concat().into(),
        }
    }

    /// Are they one piece already?
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.pieces, Pieces::One(_))
    }
}

impl<T: Into<Arc<[u8]>>> From<T> for HostBytes {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        HostBytes { len: bytes.len(), pieces: Pieces::One(bytes) }
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} pieces", self.len, self.pieces().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_apart_where_a_device_can_put_them_together() {
        let of = |sizes: &[usize]| {
            HostBytes::several(sizes.iter().map(|n| Arc::from(vec![*n as u8; *n])).collect())
        };
        let begins = |b: &HostBytes| b.pieces().map(|(at, p)| (at, p.len())).collect::<Vec<_>>();
        assert_eq!(begins(&of(&[8, 16, 3])), [(0, 8), (8, 16), (24, 3)]);
        assert_eq!(begins(&of(&[4, 8])), [(0, 12)], "the second would begin at 4");
        assert_eq!(&*of(&[8, 3]).whole(), [8, 8, 8, 8, 8, 8, 8, 8, 3, 3, 3]);
        assert!(of(&[]).is_empty() && of(&[3, 4]).is_whole() && !of(&[8, 4]).is_whole());
    }
}
