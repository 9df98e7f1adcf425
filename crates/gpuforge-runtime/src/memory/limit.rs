//! How much may all blocks together take? Never more than the limit, at any moment, on any number of threads.

use serde::{Deserialize, Serialize};

use super::{
    AllocError, Allocation, Allocator, Limits, Request,
    sync::{AtomicU64, Ordering},
};
use crate::units::Bytes;

/// A hard cap: room is reserved before the layer below is asked, and given back after it let go.
#[derive(Debug)]
pub struct Limit<A> {
    below: A,
    limit: Bytes,
    used: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
}

/// What a [`Limit`] counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStats {
    /// The cap.
    pub limit: Bytes,
    /// Reserved now.
    pub used: Bytes,
    /// The most that was ever reserved.
    pub peak: Bytes,
    /// Requests that did not fit.
    pub refused: u64,
}

impl<A> Limit<A> {
    /// At most `limit` from `below`.
    pub fn new(below: A, limit: Bytes) -> Self {
        let (used, peak, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Limit { below, limit, used, peak, refused }
    }

    /// The layer below.
    pub fn below(&self) -> &A {
        &self.below
    }

    /// Reserved now.
    pub fn used(&self) -> Bytes {
        Bytes(self.used.load(Ordering::Acquire))
    }

    /// Counts so far.
    pub fn stats(&self) -> LimitStats {
        LimitStats {
            limit: self.limit,
            used: self.used(),
            peak: Bytes(self.peak.load(Ordering::Relaxed)),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn reserve(&self, size: Bytes) -> Result<Reserved<'_>, AllocError> {
        // Compare-and-swap rather than add-then-check: the sum is never above the limit, not even for a moment, so
        // that two requests of which one fits cannot refuse each other.
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let Some(next) = used.checked_add(size.0).filter(|next| *next <= self.limit.0) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(AllocError::Limit { asked: size, used: Bytes(used), limit: self.limit });
            };
            match self.used.compare_exchange_weak(used, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.peak.fetch_max(next, Ordering::Relaxed);
                    return Ok(Reserved { used: &self.used, size });
                }
                Err(now) => used = now,
            }
        }
    }
}

/// Room that is given back when dropped, also when the layer below panics.
struct Reserved<'a> {
    used: &'a AtomicU64,
    size: Bytes,
}

impl Reserved<'_> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.used.fetch_sub(self.size.0, Ordering::AcqRel);
    }
}

impl<A: Allocator> Allocator for Limit<A> {
    type Block = A::Block;

    fn allocate(&self, request: Request) -> Result<Allocation<A::Block>, AllocError> {
        let reserved = self.reserve(request.size)?;
        let allocation = self.below.allocate(request)?;
        reserved.keep();
        Ok(allocation)
    }

    fn release(&self, allocation: Allocation<A::Block>) {
        // Dropped at the end: the room is free only when the block is.
        let _reserved = Reserved { used: &self.used, size: allocation.request().size };
        self.below.release(allocation);
    }

    fn limits(&self) -> Limits {
        let below = self.below.limits();
        let total = below.total.map_or(self.limit, |total| total.min(self.limit));
        Limits { total: Some(total), ..below }
    }
}
