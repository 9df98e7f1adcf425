//! How does a tile run a compiled loop? Pointers and states are laid out for it, and what it leaves goes back to the kernels.

use crate::{
    exec::Tile,
    kernel::Row,
    native::{Group, Native, STREAMS_AT, Slot},
};

impl<const L: usize> Tile<L> {
    /// A compiled group; `false` where its streams are not as long as it needs them, or a scan does not hold: nothing has
    /// happened then.
    pub(super) fn group(
        &mut self,
        native: &Native,
        group: &Group,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> bool {
        if !self.set_desk(group, (t0, t1), fields, columns) || !self.holds(group) {
            return false;
        }
        let bars = t1 - t0;
        #[allow(unsafe_code, reason = "compiled loops take pointers")]
        // SAFETY: `pointer` found room for every stream as far as the group reads and writes it; streams that it writes
        // are buffers or columns that are borrowed mutably here; a stream that is only read may be one of them, which the
        // loop knows.
        unsafe {
            group.keep(&mut self.desk, bars);
            native.run(group, &mut self.desk, bars, L, self.write);
            if self.holds(group) {
                self.take_states(group);
                return true;
            }
            // Kernels do these bars again, from what was there before.
            self.desk.put_back(bars);
        }
        false
    }

    /// Are the states numbers, where that matters?
    fn holds(&self, group: &Group) -> bool {
        !group.scans || self.desk.states.iter().all(|Slot([state, ..])| state.is_finite())
    }

    /// Pointers and states of a group; `false` where its streams are not as long as it needs them.
    pub(super) fn set_desk(
        &mut self,
        group: &Group,
        (t0, t1): (usize, usize),
        fields: &[&[Row<L>]],
        columns: &mut [&mut [Row<L>]],
    ) -> bool {
        self.desk.table.clear();
        self.desk.table.resize(STREAMS_AT, std::ptr::null_mut());
        for (buffer, back, written) in &group.streams {
            let pointer = self.store.pointer(*buffer, (t0, t1), *back, *written, fields, columns);
            let Some(pointer) = pointer else { return false };
            self.desk.table.push(pointer);
        }
        self.desk.states.resize(group.states.len(), Slot::default());
        for (slot, (at, which)) in self.desk.states.iter_mut().zip(&group.states) {
            let Some(state) = self.kernels.get_mut(*at).and_then(|k| k.state(*which)) else { return false };
            // Of one series, eight bars read the same.
            slot.0.iter_mut().zip(state.iter().cycle()).for_each(|(to, x)| *to = *x);
        }
        true
    }

    /// What a group left for the next bar, to the kernels.
    pub(super) fn take_states(&mut self, group: &Group) {
        for (slot, (at, which)) in self.desk.states.iter().zip(&group.states) {
            if let Some(state) = self.kernels.get_mut(*at).and_then(|k| k.state(*which)) {
                state.iter_mut().zip(&slot.0).for_each(|(to, x)| *to = *x);
            }
        }
    }
}
