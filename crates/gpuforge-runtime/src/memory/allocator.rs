//! What is asked, what is given, and what can go wrong? The one interface of every layer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What a block is for, as a person would name it: `"indicator input"`. Tags are few and live in the program text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub &'static str);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How the device may use a block. Blocks of different classes are never exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockClass {
    /// Read and written by kernels.
    Storage,
    /// Written by the host, copied from.
    StagingUp,
    /// Copied to, read by the host.
    StagingDown,
    /// Small, read by every thread of a kernel.
    Uniform,
}

impl BlockClass {
    /// Every class.
    pub const ALL: [BlockClass; 4] =
        [BlockClass::Storage, BlockClass::StagingUp, BlockClass::StagingDown, BlockClass::Uniform];
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// At least that much.
    pub size: Bytes,
    /// For what.
    pub tag: Tag,
    /// For which use by the device.
    pub class: BlockClass,
}

/// A block and what was asked for when it was given.
///
/// It cannot be copied, and [`Allocator::release`] consumes it: a second release does not compile. Dropping it instead
/// leaks the block's accounting, which the leak detector of [`Track`](super::Track) then reports with its tag.
#[derive(Debug)]
#[must_use = "a dropped allocation stays accounted for; give it back with `release`"]
pub struct Allocation<B> {
    block: B,
    request: Request,
    capacity: Bytes,
}

impl<B> Allocation<B> {
    /// A block of exactly the requested size: what a device answers.
    pub fn new(block: B, request: Request) -> Self {
        Allocation { block, request, capacity: request.size }
    }

    /// A block that may be larger than requested: what a pool answers.
    pub fn with_capacity(block: B, request: Request, capacity: Bytes) -> Self {
        Allocation { block, request, capacity }
    }

    /// What the layer below gave.
    pub fn block(&self) -> &B {
        &self.block
    }

    /// What was asked for.
    pub fn request(&self) -> Request {
        self.request
    }

    /// Bytes that are really there, at least the requested size.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Takes the block out. Only a layer that is releasing does this.
    pub fn into_block(self) -> B {
        self.block
    }
}

/// What a layer can never go beyond, however much is freed. `None`: it does not know of a bound.
///
/// Fixed for the life of an allocator. A device that wants aligned sizes reports aligned bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// All blocks together.
    pub total: Option<Bytes>,
    /// One block.
    pub single: Option<Bytes>,
}

impl Limits {
    /// The largest block that can ever be had.
    pub fn largest(self) -> Bytes {
        [self.total, self.single].into_iter().flatten().min().unwrap_or(Bytes(u64::MAX))
    }
}

/// Hands out blocks and takes them back: a device, or a wrapper of another allocator.
///
/// Neither call may wait for another thread's call to end, other than for a short lock of its own.
pub trait Allocator: Send + Sync {
    /// What a user of this layer holds (for a device: a buffer or its id).
    type Block: Send;

    /// A block of at least the requested size.
    fn allocate(&self, request: Request) -> Result<Allocation<Self::Block>, AllocError>;

    /// Takes a block back. It must come from this allocator; the types see to it as far as they can.
    fn release(&self, allocation: Allocation<Self::Block>);

    /// What can never be had, even from an empty device.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

/// An allocator that keeps blocks nobody uses and can let go of them.
pub trait Reclaim: Allocator {
    /// Bytes taken from below: in use and idle.
    fn held(&self) -> Bytes;

    /// Bytes kept that nobody uses.
    fn idle(&self) -> Bytes;

    /// Gives idle blocks back, the longest unused first, until no more than `keep` are left. Returns what was freed.
    fn trim(&self, keep: Bytes) -> Bytes;

    /// The capacity that a request of this size would get; `None` when no block can be that large.
    fn granted(&self, size: Bytes) -> Option<Bytes>;
}

/// Why there is no block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The device has no room.
    #[error("the device is out of memory: asked {asked} for {tag}")]
    OutOfMemory {
        /// The refused size.
        asked: Bytes,
        /// For what.
        tag: Tag,
    },
    /// Our own cap would be passed.
    #[error("the memory limit is reached: asked {asked}, {used} of {limit} used")]
    Limit {
        /// The refused size.
        asked: Bytes,
        /// Reserved at that moment.
        used: Bytes,
        /// The cap.
        limit: Bytes,
    },
    /// No block can have that size, however much is freed.
    #[error("a block of {asked} cannot be had: the largest is {most}")]
    TooLarge {
        /// The refused size.
        asked: Bytes,
        /// The largest possible block.
        most: Bytes,
    },
    /// The device failed in another way (lost, hung, refused); memory has nothing to do with it.
    #[error("the device failed while allocating: {reason}")]
    Device {
        /// What the device said.
        reason: String,
    },
}

impl AllocError {
    /// Could freeing memory help?
    pub fn is_shortage(&self) -> bool {
        matches!(self, AllocError::OutOfMemory { .. } | AllocError::Limit { .. })
    }

    /// What a user can do about it.
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
    fn errors_name_the_thing_the_limit_and_the_next_step() {
        let full = AllocError::Limit { asked: Bytes::mib(64), used: Bytes::mib(500), limit: Bytes::mib(512) };
        assert_eq!(full.to_string(), "the memory limit is reached: asked 64 MiB, 500 MiB of 512 MiB used");
        assert!(full.hint().contains("--memory-limit"));
        assert!(full.is_shortage());
        assert!(!AllocError::Device { reason: "lost".into() }.is_shortage());
        assert!(!AllocError::TooLarge { asked: Bytes(2), most: Bytes(1) }.is_shortage());
    }

    #[test]
    fn the_largest_block_is_the_smaller_bound() {
        let limits = |total, single| Limits { total, single }.largest();
        assert_eq!(limits(None, None), Bytes(u64::MAX));
        assert_eq!(limits(Some(Bytes(7)), None), Bytes(7));
        assert_eq!(limits(Some(Bytes(7)), Some(Bytes(5))), Bytes(5));
    }

    #[test]
    fn classes_count_from_zero_without_gaps() {
        // The pool's shelves are numbered by it.
        assert_eq!(BlockClass::ALL.map(|c| c as usize), [0, 1, 2, 3]);
    }
}
