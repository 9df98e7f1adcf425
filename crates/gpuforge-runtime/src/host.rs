//! Host bytes for upload: immutable, shared, in one chunk or several (scatter list), so that the inputs of many
//! operations become one device buffer without being concatenated first.

use std::{fmt, sync::Arc};

/// Immutable bytes; cloning shares them.
#[derive(Clone)]
pub struct HostBytes {
    chunks: Chunks,
    len: usize,
}

#[derive(Clone)]
enum Chunks {
    One(Arc<[u8]>),
    Many(Arc<[Arc<[u8]>]>),
}

impl HostBytes {
    /// Chunks one after the other. Mapped memory is written at offsets that are multiples of eight bytes: if a chunk ends
    /// elsewhere, they are concatenated here.
    pub fn from_chunks(chunks: Vec<Arc<[u8]>>) -> Self {
        let len = chunks.iter().map(|p| p.len()).sum();
        let inner = chunks.split_last().map_or(&[] as &[Arc<[u8]>], |(_, before)| before);
        if inner.iter().all(|p| p.len().is_multiple_of(8)) {
            HostBytes { chunks: Chunks::Many(chunks.into()), len }
        } else {
            HostBytes::from(chunks.concat())
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunks with their offsets.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let all = match &self.chunks {
            Chunks::One(one) => std::slice::from_ref(one),
            Chunks::Many(many) => many,
        };
        let mut at = 0;
        all.iter().map(move |chunk| {
            let offset = at;
            at += chunk.len() as u64;
            (offset, chunk.as_ref())
        })
    }

    /// All bytes in one contiguous chunk: zero-copy if there is only one, else concatenated.
    pub fn contiguous(&self) -> Arc<[u8]> {
        match &self.chunks {
            Chunks::One(one) => one.clone(),
            Chunks::Many(many) => many.concat().into(),
        }
    }

    /// Is there a single chunk?
    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(self.chunks, Chunks::One(_))
    }
}

impl<T: Into<Arc<[u8]>>> From<T> for HostBytes {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        HostBytes { len: bytes.len(), chunks: Chunks::One(bytes) }
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} chunks", self.len, self.chunks().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_stay_separate_if_aligned() {
        let of = |sizes: &[usize]| {
            HostBytes::from_chunks(sizes.iter().map(|n| Arc::from(vec![*n as u8; *n])).collect())
        };
        let begins = |b: &HostBytes| b.chunks().map(|(at, p)| (at, p.len())).collect::<Vec<_>>();
        assert_eq!(begins(&of(&[8, 16, 3])), [(0, 8), (8, 16), (24, 3)]);
        assert_eq!(begins(&of(&[4, 8])), [(0, 12)], "the second would begin at 4");
        assert_eq!(&*of(&[8, 3]).contiguous(), [8, 8, 8, 8, 8, 8, 8, 8, 3, 3, 3]);
        assert!(of(&[]).is_empty() && of(&[3, 4]).is_contiguous() && !of(&[8, 4]).is_contiguous());
    }
}
