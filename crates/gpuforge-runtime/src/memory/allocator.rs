//! Allocator interface: the traits `Allocator` and `Reclaim`, requests, allocations and errors (OOM, limit, too large).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What a block is for: `"indicator input"`. Tags are few and are string literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub &'static str);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Buffer usage of a block. Blocks of different classes never share a free list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockClass {
    /// Read and written by kernels.
    Storage,
    /// Upload staging: written by the host, copied from.
    StagingUp,
    /// Readback staging: copied to, read by the host.
    StagingDown,
    /// Uniform buffer: small, read by every invocation of a kernel.
    Uniform,
}

impl BlockClass {
    /// Every class.
    pub const ALL: [BlockClass; 4] =
        [BlockClass::Storage, BlockClass::StagingUp, BlockClass::StagingDown, BlockClass::Uniform];
}

/// An allocation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocRequest {
    /// Minimum size.
    pub size: Bytes,
    /// What it is for.
    pub tag: Tag,
    /// Buffer usage.
    pub class: BlockClass,
}

/// A block and the request it was allocated for.
///
/// It cannot be copied, and [`Allocator::release`] consumes it: a double free does not compile. Dropping it instead
/// leaks the block's accounting; the leak detector of [`TrackingAdaptor`](super::TrackingAdaptor) reports it by its tag.
#[derive(Debug)]
#[must_use = "a dropped allocation is leaked; free it with `release`"]
pub struct Allocation<B> {
    block: B,
    request: AllocRequest,
    capacity: Bytes,
}

impl<B> Allocation<B> {
    /// A block of exactly the requested size, as a device allocates it.
    pub fn new(block: B, request: AllocRequest) -> Self {
        Allocation { block, request, capacity: request.size }
    }

    /// A block that may be larger than requested, as a pool returns it (rounded up to its size class).
    pub fn with_capacity(block: B, request: AllocRequest, capacity: Bytes) -> Self {
        Allocation { block, request, capacity }
    }

    /// The block of the upstream layer.
    pub fn block(&self) -> &B {
        &self.block
    }

    /// The request.
    pub fn request(&self) -> AllocRequest {
        self.request
    }

    /// Allocated bytes, at least the requested size.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Unwraps the block. Only a layer that is releasing does this.
    pub fn into_block(self) -> B {
        self.block
    }
}

/// Upper bounds that hold however much is freed. `None`: no known bound.
///
/// Constant for the life of an allocator. A device that needs aligned sizes reports aligned bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocLimits {
    /// All blocks together.
    pub total: Option<Bytes>,
    /// One block.
    pub single: Option<Bytes>,
}

impl AllocLimits {
    /// The largest block that can ever be allocated.
    pub fn largest(self) -> Bytes {
        [self.total, self.single].into_iter().flatten().min().unwrap_or(Bytes(u64::MAX))
    }
}

/// Allocates and frees blocks: a device, or an adaptor of an upstream allocator.
///
/// Neither call may block on another thread's call, other than for a short lock of its own.
pub trait Allocator: Send + Sync {
    /// What a caller of this layer holds (for a device: a buffer or its id).
    type Block: Send;

    /// Allocates a block of at least the requested size.
    fn allocate(&self, request: AllocRequest) -> Result<Allocation<Self::Block>, AllocError>;

    /// Frees a block. It must come from this allocator; the types enforce that as far as they can.
    fn release(&self, allocation: Allocation<Self::Block>);

    /// Upper bounds, even of an empty device.
    fn limits(&self) -> AllocLimits {
        AllocLimits::default()
    }
}

/// An allocator that caches idle blocks and can evict them.
pub trait Reclaim: Allocator {
    /// Bytes allocated upstream: in use and idle.
    fn held(&self) -> Bytes;

    /// Bytes cached in free lists.
    fn idle(&self) -> Bytes;

    /// Evicts idle blocks in LRU order until at most `keep` bytes are cached. Returns the bytes freed.
    fn trim(&self, keep: Bytes) -> Bytes;

    /// The capacity that a request of this size gets, rounded up to its size class; `None` when no block is that large.
    fn rounded_size(&self, size: Bytes) -> Option<Bytes>;
}

/// Why an allocation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// OOM: the device has no memory left.
    #[error("the device is out of memory: asked {asked} for {tag}")]
    OutOfMemory {
        /// The requested size.
        asked: Bytes,
        /// What it is for.
        tag: Tag,
    },
    /// The memory limit (`--memory-limit`, or the budget) would be exceeded.
    #[error("the memory limit is reached: asked {asked}, {used} of {limit} used")]
    Limit {
        /// The requested size.
        asked: Bytes,
        /// In use at that moment.
        used: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// No block can have that size, however much is freed.
    #[error("a block of {asked} cannot be allocated: the largest is {most}")]
    TooLarge {
        /// The requested size.
        asked: Bytes,
        /// The largest possible block.
        most: Bytes,
    },
    /// The device failed in another way (lost, hung, validation error); freeing memory does not help.
    #[error("the device failed while allocating: {reason}")]
    Device {
        /// The device's error.
        reason: String,
    },
}

impl AllocError {
    /// Out of memory or over the limit: could freeing memory help?
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, AllocError::OutOfMemory { .. } | AllocError::Limit { .. })
    }

    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            AllocError::OutOfMemory { .. } => {
                "lower --batch, or close other programs that use this device's memory"
            }
            AllocError::Limit { .. } => "lower --batch or raise --memory-limit",
            AllocError::TooLarge { .. } => "split the input, or raise --memory-limit if that is the bound",
            AllocError::Device { .. } => {
                "see `gpuforge doctor`; GPUFORGE_CPU_ONLY=1 works without the device"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_size_limit_and_hint() {
        let full = AllocError::Limit { asked: Bytes::mib(64), used: Bytes::mib(500), limit: Bytes::mib(512) };
        assert_eq!(full.to_string(), "the memory limit is reached: asked 64 MiB, 500 MiB of 512 MiB used");
        assert!(full.hint().contains("--memory-limit"));
        assert!(full.is_out_of_memory());
        assert!(!AllocError::Device { reason: "lost".into() }.is_out_of_memory());
        assert!(!AllocError::TooLarge { asked: Bytes(2), most: Bytes(1) }.is_out_of_memory());
    }

    #[test]
    fn largest_block_is_min_of_both_bounds() {
        let limits = |total, single| AllocLimits { total, single }.largest();
        assert_eq!(limits(None, None), Bytes(u64::MAX));
        assert_eq!(limits(Some(Bytes(7)), None), Bytes(7));
        assert_eq!(limits(Some(Bytes(7)), Some(Bytes(5))), Bytes(5));
    }

    #[test]
    fn class_indices_are_dense() {
        // The pool's bins are numbered by it.
        assert_eq!(BlockClass::ALL.map(|c| c as usize), [0, 1, 2, 3]);
    }
}
