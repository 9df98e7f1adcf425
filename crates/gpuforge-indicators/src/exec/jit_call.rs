//! Calls of fused loops: fills the JIT argument block from a tile's buffers and kernel states, and takes the states back.
//!
//! Prefix scans go by iterations of eight bars. Two things must not depend on the bars that follow: the last bars of a series,
//! which fill no iteration, and the bars before a NaN. Both are computed as an iteration whose other bars are masked out
//! ([`JitProgram::run_masked`]), in scratch memory: a value is the same whether its iteration is complete or not.

use crate::{
    exec::tile::Tile,
    jit::{ARG_STREAMS, FusedLoop, ITERATION_BARS, JitProgram, StateSlot},
    kernel::Row,
};

/// What a fused loop did of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FusedRun {
    /// Bars from the beginning of the block; the kernels compute the others.
    pub(super) done: usize,
    /// Bars after those whose results it has as well, without the states after them: [`Tile::put_kept`] writes them when the
    /// kernels have run.
    pub(super) kept: usize,
}

impl<const L: usize> Tile<L> {
    /// Runs a fused loop over a block. It does nothing where a stream is too short, and ends early where a prefix scan meets a
    /// state that is not finite.
    pub(super) fn run_fused_loop(
        &mut self,
        program: &JitProgram,
        fused: &FusedLoop,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> FusedRun {
        if !self.set_args(fused, (t0, t1), fields, columns) {
            return FusedRun::default();
        }
        let bars = t1 - t0;
        if fused.has_scans {
            return self.run_scans(program, fused, bars);
        }
        #[allow(unsafe_code, reason = "JIT code takes raw pointers")]
        // SAFETY: `stream_pointer` checked the bounds of every stream as far as the loop reads and writes it; streams that it
        // writes are buffers or columns that are borrowed mutably here; a stream that is only read may alias one of them,
        // which the IR verifier accounts for.
        unsafe {
            program.run(fused, &mut self.args, bars, L, self.store_mode);
        }
        self.take_states(fused);
        FusedRun { done: bars, kept: 0 }
    }

    /// Runs a loop of prefix scans, whose argument block is set: whole iterations, then the bars that fill none.
    fn run_scans(&mut self, program: &JitProgram, fused: &FusedLoop, bars: usize) -> FusedRun {
        let whole = bars / ITERATION_BARS * ITERATION_BARS;
        // A scan adds 0 times what follows to a bar: to a state that is -0, the sign of that would show.
        self.args.states.iter_mut().flat_map(|StateSlot(state)| state).for_each(|x| *x += 0.0);
        if !finite(&self.args.states) {
            return FusedRun::default();
        }
        #[allow(unsafe_code, reason = "JIT code takes raw pointers")]
        // SAFETY: `set_args` checked the bounds of every stream for `bars` bars, and what is written is borrowed mutably; the
        // pointers are advanced by `done` bars, and `bars - done` are left.
        unsafe {
            let done = match self.run_iterations(program, fused, whole) {
                true => whole,
                // Only one block has the bar from which on a state is not finite: one iteration at a time finds it.
                false => (0..whole)
                    .step_by(ITERATION_BARS)
                    .find(|_| !self.run_iterations(program, fused, ITERATION_BARS))
                    .unwrap_or(whole),
            };
            self.take_states(fused);
            let left = (bars - done).min(ITERATION_BARS);
            if left == 0 {
                return FusedRun { done, kept: 0 };
            }
            if left < ITERATION_BARS && self.run_masked(program, fused, left) {
                self.args.store_masked(fused, left);
                return FusedRun { done: bars, kept: 0 };
            }
            // A bar among these has a NaN. Those before it are what they would be if the series ended there.
            let kept = (1..left).rev().find(|bars| self.run_masked(program, fused, *bars)).unwrap_or(0);
            FusedRun { done, kept }
        }
    }

    /// Runs whole iterations and advances the argument block; `false`, with nothing changed, where a state is not finite then.
    ///
    /// # Safety
    /// As for [`JitProgram::run`].
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    unsafe fn run_iterations(&mut self, program: &JitProgram, fused: &FusedLoop, bars: usize) -> bool {
        // SAFETY: the caller promises what `run` needs for `bars`: saving and restoring touch the same bars of the same streams.
        unsafe {
            fused.save_overwritten(&mut self.args, bars);
            program.run(fused, &mut self.args, bars, L, self.store_mode);
            if finite(&self.args.states) {
                self.args.advance(bars);
                return true;
            }
            self.args.restore_overwritten(bars);
        }
        false
    }

    /// Runs the next bars, fewer than an iteration, in scratch memory; `false` where a state is then not finite.
    ///
    /// # Safety
    /// As for [`JitProgram::run`].
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    unsafe fn run_masked(&mut self, program: &JitProgram, fused: &FusedLoop, bars: usize) -> bool {
        // SAFETY: the caller promises a valid pointer for every stream, from as far back as the loop reads it to `bars` bars on.
        unsafe { program.run_masked(fused, &mut self.args, bars) };
        finite(&self.args.masked.states)
    }

    /// Writes the results that a loop kept over those of the kernels, after they have run.
    pub(super) fn put_kept(
        &mut self,
        fused: &FusedLoop,
        run: FusedRun,
        range: (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) {
        if !self.set_args(fused, range, fields, columns) {
            return;
        }
        self.args.advance(run.done);
        #[allow(unsafe_code, reason = "JIT arguments are raw pointers")]
        // SAFETY: `set_args` checked the bounds of every stream up to the end of the block, which is further than `done + kept`
        // bars; streams that the loop writes are buffers or columns that are borrowed mutably here.
        unsafe {
            self.args.store_masked(fused, run.kept);
        }
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
            match state.as_slice() {
                // Of a single series, all eight elements are the same state.
                [state] => slot.0.fill(*state),
                state => slot.0.iter_mut().zip(state).for_each(|(to, x)| *to = *x),
            }
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

/// Are all states finite? Prefix scans hold only then.
fn finite(states: &[StateSlot]) -> bool {
    states.iter().all(|StateSlot([state, ..])| state.is_finite())
}
