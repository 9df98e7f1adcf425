//! Calls of fused loops: fills the JIT argument block from a tile's buffers and kernel states, and takes the states back.

use crate::{
    exec::tile::Tile,
    jit::{ARG_STREAMS, FusedLoop, JitProgram, StateSlot},
    kernel::Row,
};

impl<const L: usize> Tile<L> {
    /// Runs a fused loop over a block; `false`, with nothing changed, where a stream is too short, or a prefix scan met a state
    /// that is not finite.
    pub(super) fn run_fused_loop(
        &mut self,
        program: &JitProgram,
        fused: &FusedLoop,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> bool {
        if !self.set_args(fused, (t0, t1), fields, columns) || !self.scans_hold(fused) {
            return false;
        }
        let bars = t1 - t0;
        #[allow(unsafe_code, reason = "JIT code takes raw pointers")]
        // SAFETY: `stream_pointer` checked the bounds of every stream as far as the loop reads and writes it; streams that it
        // writes are buffers or columns that are borrowed mutably here; a stream that is only read may alias one of them,
        // which the IR verifier accounts for.
        unsafe {
            fused.save_overwritten(&mut self.args, bars);
            program.run(fused, &mut self.args, bars, L, self.store_mode);
            if self.scans_hold(fused) {
                self.take_states(fused);
                return true;
            }
            // Undo: the kernels compute these bars again from the same inputs.
            self.args.restore_overwritten(bars);
        }
        false
    }

    /// Are the states of prefix scans finite?
    fn scans_hold(&self, fused: &FusedLoop) -> bool {
        !fused.has_scans || self.args.states.iter().all(|StateSlot([state, ..])| state.is_finite())
    }

    /// Fills the argument block with the pointers and states of a loop; `false` where a stream is too short.
    pub(super) fn set_args(
        &mut self,
        fused: &FusedLoop,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> bool {
        self.args.table.clear();
        self.args.table.resize(ARG_STREAMS, std::ptr::null_mut());
        for (buffer, back, written) in &fused.streams {
            let pointer = self.buffers.stream_pointer(*buffer, (t0, t1), *back, *written, fields, columns);
            let Some(pointer) = pointer else { return false };
            self.args.table.push(pointer);
        }
        self.args.states.resize(fused.states.len(), StateSlot::default());
        for (slot, (at, which)) in self.args.states.iter_mut().zip(&fused.states) {
            let Some(state) = self.kernels.get_mut(*at).and_then(|k| k.state(*which)) else { return false };
            // Of a single series, all eight elements are the same state.
            slot.0.iter_mut().zip(state.iter().cycle()).for_each(|(to, x)| *to = *x);
        }
        true
    }

    /// The states that a loop left, back into the kernels.
    pub(super) fn take_states(&mut self, fused: &FusedLoop) {
        for (slot, (at, which)) in self.args.states.iter().zip(&fused.states) {
            if let Some(state) = self.kernels.get_mut(*at).and_then(|k| k.state(*which)) {
                state.iter_mut().zip(&slot.0).for_each(|(to, x)| *to = *x);
            }
        }
    }
}
