//! Masked iterations: prefix scans over fewer bars than an iteration has, in scratch memory.
//!
//! A scan over eight bars associates differently from the sequential recurrence, so the last bars of a series may not be
//! computed bar by bar: a longer series would have other digits there. They are copied, with the history that the loop reads, to
//! where eight bars fit, and run through the same code with a mask over every scan's input
//! ([`super::ir::mask_scans`]). Streams need no padding value: whatever is computed of the missing bars is dropped.

use super::{
    ARG_STREAMS, FusedLoop, ITERATION_BARS, JitArgs, JitProgram,
    args::{ARG_CONSTS, ARG_STATES, StateSlot},
};

impl JitProgram {
    /// Runs a loop of prefix scans over the next `bars`, fewer than an iteration. Streams and states of the argument block stay
    /// as they are; [`JitArgs::store_masked`] writes the results.
    ///
    /// # Safety
    /// The argument block has a valid pointer for every stream, from as far back as the loop reads it to `bars` bars on.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn run_masked(&self, fused: &FusedLoop, args: &mut JitArgs, bars: usize) {
        let Some(entry) = fused.masked else { return };
        let bars = bars.min(ITERATION_BARS);
        fused.set_args(args);
        let JitArgs { table, states, masked, .. } = args;
        masked.states.clone_from(states);
        let bits = |at: usize| if at < bars { u64::MAX } else { 0 };
        masked.mask = StateSlot(std::array::from_fn(|at| f64::from_bits(bits(at))));
        masked.streams.clear();
        for ((_, back, _), from) in fused.streams.iter().zip(table.iter().skip(ARG_STREAMS)) {
            // SAFETY: the caller promises that every stream can be read from `back` bars before its pointer to `bars` after it.
            let from = unsafe { std::slice::from_raw_parts(from.wrapping_sub(*back), back + bars) };
            masked.streams.extend_from_slice(from);
            masked.streams.resize(masked.streams.len() + ITERATION_BARS - bars, 0.0);
        }
        masked.table.clear();
        masked.table.extend(table.get(ARG_CONSTS));
        masked.table.push(masked.states.as_mut_ptr().cast());
        debug_assert_eq!((ARG_STATES, ARG_STREAMS), (1, masked.table.len()));
        let mut first = masked.streams.as_mut_ptr();
        for (_, back, _) in &fused.streams {
            masked.table.push(first.wrapping_add(*back));
            first = first.wrapping_add(back + ITERATION_BARS);
        }
        masked.table.push(masked.mask.0.as_mut_ptr());
        // SAFETY: every stream of the loop is in `masked.streams`, `back` bars of history and one iteration; the mask, which is
        // the last stream of this entry point, has one iteration; there are as many states as in the argument block.
        unsafe { self.code.call(entry, &masked.table, ITERATION_BARS * size_of::<f64>()) };
    }
}

impl JitArgs {
    /// Writes the results of the first `bars` of a masked iteration to their streams.
    ///
    /// # Safety
    /// The argument block has a valid pointer for every stream of the loop that was run, for `bars` bars, and nothing else
    /// accesses those that are written.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn store_masked(&mut self, fused: &FusedLoop, bars: usize) {
        let mut first = 0;
        for ((_, back, written), to) in fused.streams.iter().zip(self.table.iter().skip(ARG_STREAMS)) {
            let from = self.masked.streams.get(first + back..first + back + bars.min(ITERATION_BARS));
            if let Some(from) = from.filter(|_| *written) {
                // SAFETY: the caller promises a valid pointer for `bars` bars, at least `from.len()`, that nothing else accesses.
                unsafe { std::slice::from_raw_parts_mut(*to, from.len()) }.copy_from_slice(from);
            }
            first += back + ITERATION_BARS;
        }
    }
}
