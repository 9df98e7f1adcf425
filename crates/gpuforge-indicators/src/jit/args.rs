//! JIT argument block: the table of pointers that a fused loop is called with, loop-carried states, constants.
//!
//! ```text
//!   table[ARG_CONSTS]    ──► constants, a vector each
//!   table[ARG_STATES]    ──► states, a cache line each
//!   table[ARG_STREAMS..] ──► this bar of every stream; then prefetch addresses, or columns
//! ```

use std::cell::Cell;

/// Bytes of a state or a spilled value: a pair of vectors.
pub(super) const STATE_BYTES: usize = 64;
/// Bytes of a constant: one vector.
pub(super) const CONST_BYTES: usize = 32;

/// Positions in the table.
pub(super) const ARG_CONSTS: usize = 0;
pub(super) const ARG_STATES: usize = 1;
pub(crate) const ARG_STREAMS: usize = 2;

/// The argument block of fused loops; one per tile, rewritten before every call.
#[derive(Debug, Default)]
pub(crate) struct JitArgs {
    pub(crate) table: Vec<*mut f64>,
    /// Where the next block's bars are: eight lanes of every column that a loop prefetches.
    pub(crate) prefetch: Vec<*const f64>,
    pub(crate) states: Vec<StateSlot>,
    /// Copies of what a scan overwrites, and where it was; the states before it.
    pub(super) saved: Vec<f64>,
    pub(super) saved_from: Vec<*mut f64>,
    pub(super) saved_states: Vec<StateSlot>,
    /// An iteration of a scan that the series does not fill.
    pub(crate) masked: MaskedIteration,
}

/// Scratch of [`super::JitProgram::run_masked`].
#[derive(Debug, Default)]
pub(crate) struct MaskedIteration {
    pub(super) table: Vec<*mut f64>,
    /// Copies of the streams, one after the other: their history, then an iteration.
    pub(super) streams: Vec<f64>,
    /// All bits of the bars that there are.
    pub(super) mask: StateSlot,
    /// The states after it: finite if the bars that there are keep them so.
    pub(crate) states: Vec<StateSlot>,
}

thread_local! {
    /// The last argument block that a tile of this thread returned: allocating its tables takes as long as a short series.
    static FREE: Cell<JitArgs> = Cell::default();
}
/// Max doubles of scratch in it.
const MAX_FREE_SCRATCH: usize = 1 << 15;

impl JitArgs {
    /// From the free list of the thread, if there is one.
    pub(crate) fn recycled() -> JitArgs {
        FREE.take()
    }

    /// Returns it to the free list.
    pub(crate) fn recycle(self) {
        if self.masked.streams.capacity() + self.saved.capacity() <= MAX_FREE_SCRATCH {
            FREE.set(self);
        }
    }

    /// Restores what [`super::FusedLoop::save_overwritten`] saved of this many bars.
    ///
    /// # Safety
    /// Nothing else accesses those streams.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn restore_overwritten(&mut self, bars: usize) {
        for (to, saved) in self.saved_from.iter().zip(self.saved.chunks_exact(bars.max(1))) {
            // SAFETY: the pointer was valid for `bars` doubles when they were saved, and the caller promises that nothing
            // else accesses the stream.
            unsafe { std::slice::from_raw_parts_mut(*to, bars) }.copy_from_slice(saved);
        }
        self.states.clone_from(&self.saved_states);
    }

    /// Advances every stream of a single series by some bars.
    pub(crate) fn advance(&mut self, bars: usize) {
        self.table.iter_mut().skip(ARG_STREAMS).for_each(|pointer| *pointer = pointer.wrapping_add(bars));
    }
}

#[allow(unsafe_code, reason = "the pointers are only set and used within one call")]
// SAFETY: the pointers are written anew before every call, by the thread that makes it.
unsafe impl Send for JitArgs {}

/// A loop-carried state, in a cache line of its own: a vector load that crosses two is slower.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct StateSlot(pub(crate) [f64; STATE_BYTES / 8]);

/// A constant, broadcast to a vector, or a vector of constants.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct ConstVector(pub(super) [f64; CONST_BYTES / 8]);
