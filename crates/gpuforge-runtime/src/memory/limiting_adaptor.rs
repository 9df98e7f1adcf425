//! Limiting adaptor: a hard memory cap, enforced by compare-and-swap so that it is never exceeded on any thread.

use serde::{Deserialize, Serialize};

use super::{
    AllocError, AllocLimits, AllocRequest, Allocation, Allocator,
    sync::{AtomicU64, Ordering},
};
use crate::units::Bytes;

/// A hard cap: bytes are reserved before the upstream allocates, and returned after it has freed.
#[derive(Debug)]
pub struct LimitingAdaptor<A> {
    upstream: A,
    limit: Bytes,
    used: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
}

/// What a [`LimitingAdaptor`] counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStats {
    /// The cap.
    pub limit: Bytes,
    /// Bytes in use now.
    pub used: Bytes,
    /// High-water mark.
    pub peak: Bytes,
    /// Requests refused.
    pub refused: u64,
}

impl<A> LimitingAdaptor<A> {
    /// At most `limit` bytes from `upstream`.
    pub fn new(upstream: A, limit: Bytes) -> Self {
        let (used, peak, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        LimitingAdaptor { upstream, limit, used, peak, refused }
    }

    /// The upstream allocator.
    pub fn upstream(&self) -> &A {
        &self.upstream
    }

    /// Bytes in use now.
    pub fn used(&self) -> Bytes {
        Bytes(self.used.load(Ordering::Acquire))
    }

    /// Statistics so far.
    pub fn stats(&self) -> LimitStats {
        LimitStats {
            limit: self.limit,
            used: self.used(),
            peak: Bytes(self.peak.load(Ordering::Relaxed)),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn reserve(&self, size: Bytes) -> Result<Reservation<'_>, AllocError> {
        // Compare-and-swap rather than add-then-check: the sum never exceeds the limit, not even for a moment, so two
        // requests of which one fits cannot refuse each other.
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let Some(next) = used.checked_add(size.0).filter(|next| *next <= self.limit.0) else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(AllocError::Limit { asked: size, used: Bytes(used), limit: self.limit });
            };
            match self.used.compare_exchange_weak(used, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    self.peak.fetch_max(next, Ordering::Relaxed);
                    return Ok(Reservation { used: &self.used, size });
                }
                Err(now) => used = now,
            }
        }
    }
}

/// Reservation bytes, returned on drop, also when the upstream panics.
struct Reservation<'a> {
    used: &'a AtomicU64,
    size: Bytes,
}

impl Reservation<'_> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.used.fetch_sub(self.size.0, Ordering::AcqRel);
    }
}

impl<A: Allocator> Allocator for LimitingAdaptor<A> {
    type Block = A::Block;

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<A::Block>, AllocError> {
        let reserved = self.reserve(request.size)?;
        let allocation = self.upstream.allocate(request)?;
        reserved.keep();
        Ok(allocation)
    }

    fn release(&self, allocation: Allocation<A::Block>) {
        // Dropped at the end: the bytes are available only when the block is freed.
        let _reservation = Reservation { used: &self.used, size: allocation.request().size };
        self.upstream.release(allocation);
    }

    fn limits(&self) -> AllocLimits {
        let upstream = self.upstream.limits();
        let total = upstream.total.map_or(self.limit, |total| total.min(self.limit));
        AllocLimits { total: Some(total), ..upstream }
    }
}
