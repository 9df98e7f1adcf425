//! Zeroed ring slots: lazily committed pages from the allocator (`calloc`), touched only when they are written.
//!
//! A ring is megabytes and most threads record little; initialising the slots one by one would fault in every page at the
//! first span of each thread.

use crate::sync::AtomicU64;

/// `slots` records of zeros.
pub(crate) fn zeroed<const W: usize>(slots: usize) -> Box<[[AtomicU64; W]]> {
    let slots = Box::<[[AtomicU64; W]]>::new_zeroed_slice(slots);
    #[expect(unsafe_code, reason = "safe constructors of atomics write every page")]
    // SAFETY: AtomicU64 has the representation of u64, for which all bytes zero is the value 0.
    unsafe {
        slots.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn every_word_is_zero() {
        let slots = zeroed::<4>(100);
        assert_eq!(slots.len(), 100);
        assert!(slots.iter().flatten().all(|word| word.load(Ordering::Relaxed) == 0));
        assert!(zeroed::<2>(0).is_empty());
    }
}
