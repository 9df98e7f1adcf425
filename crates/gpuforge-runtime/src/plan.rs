//! What is to be done on a device? Recorded as plain data, so that it can be printed, counted, costed and replayed.
//!
//! A slot is written by one command before anything reads it, changed only by kernels that say so ([`Access::Update`]),
//! and what a plan uploads is immutable and held. Running a plan again from its beginning therefore gives the same result, bit for
//! bit, whatever happened in between; recovery rests on that.

use std::{fmt, sync::Arc};

use crate::{
    host::HostBytes,
    kernel::{Access, Kernel},
    tensor::{Spec, Tensor},
    units::Bytes,
};

/// A buffer of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// Position in [`Plan::slots`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Size and purpose of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSpec {
    /// Bytes, a multiple of four.
    pub size: Bytes,
    /// Whose memory it is, for the tracker.
    pub tag: &'static str,
}

/// One step.
#[derive(Debug, Clone)]
pub enum Command {
    /// Host bytes into a slot.
    Upload {
        /// Destination.
        to: Slot,
        /// Immutable and held until the plan is dropped.
        data: HostBytes,
    },
    /// A kernel over some groups.
    Dispatch(Dispatch),
    /// One slot into another of the same size.
    Copy {
        /// Source.
        from: Slot,
        /// Destination.
        to: Slot,
    },
    /// A slot back to the host.
    Download {
        /// Source.
        from: Slot,
        /// Position in the outputs.
        output: usize,
        /// How much of it, from its beginning.
        size: Bytes,
    },
    /// The slot is not needed any more; its memory may be reused by later commands.
    Free {
        /// Which.
        slot: Slot,
    },
}

/// A kernel call.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// What to run.
    pub kernel: Arc<Kernel>,
    /// Its buffers, in binding order.
    pub bindings: Vec<Slot>,
    /// Its parameters, at most [`MAX_PARAMS`] words.
    pub params: Vec<u32>,
    /// Work groups per dimension.
    pub groups: [u32; 3],
}

/// Words in a parameter block.
pub const MAX_PARAMS: usize = 16;
/// The most groups per dimension that every adapter allows.
pub const MAX_GROUPS: u32 = 65_535;

/// Why a plan cannot be recorded. Always the recorder's mistake: nothing is retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A slot is read before anything was written to it, or after it was freed.
    #[error("command {at}: slot {slot} is read but holds nothing")]
    NotWritten {
        /// Command.
        at: usize,
        /// Slot.
        slot: usize,
    },
    /// A slot is written twice.
    #[error("command {at}: slot {slot} is written a second time")]
    Rewritten {
        /// Command.
        at: usize,
        /// Slot.
        slot: usize,
    },
    /// Sizes do not agree.
    #[error("command {at}: slot {slot} holds {have}, {what} needs {need}")]
    Size {
        /// Command.
        at: usize,
        /// Slot.
        slot: usize,
        /// What it is needed for.
        what: &'static str,
        /// Size of the slot.
        have: Bytes,
        /// Size that is needed.
        need: Bytes,
    },
    /// A slot that outlives the plan is freed or changed in it.
    #[error("command {at}: slot {slot} belongs to a tensor and cannot be freed or changed here")]
    NotOwned {
        /// Command.
        at: usize,
        /// Slot.
        slot: usize,
    },
    /// A call does not fit its kernel.
    #[error("command {at}: kernel {kernel}: {why}")]
    Call {
        /// Command.
        at: usize,
        /// Kernel.
        kernel: String,
        /// What is wrong.
        why: String,
    },
}

/// A recorded piece of work.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    label: String,
    slots: Vec<SlotSpec>,
    commands: Vec<Command>,
    outputs: Vec<Bytes>,
    imports: Vec<(Slot, Tensor)>,
    keeps: Vec<(Slot, Spec)>,
    state: Vec<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Written,
    /// Belongs to a tensor: read here, never written or freed.
    Imported,
    /// Outlives the plan as a tensor.
    Kept,
    Freed,
}

impl Plan {
    /// An empty plan; the label names it in reports.
    pub fn new(label: impl Into<String>) -> Self {
        Plan { label: label.into(), ..Plan::default() }
    }

    /// A slot that a later command writes. Sizes are rounded up to whole words.
    pub fn slot(&mut self, size: Bytes, tag: &'static str) -> Slot {
        let slot = Slot(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        self.slots.push(SlotSpec { size: Bytes(size.0.max(4).next_multiple_of(4)), tag });
        self.state.push(State::Empty);
        slot
    }

    /// A slot that holds a tensor; where that is, and whether it must be moved, is found out when the plan runs.
    pub fn import(&mut self, tensor: &Tensor) -> Slot {
        let slot = self.slot(tensor.spec().size().unwrap_or(Bytes::ZERO), tensor.spec().tag);
        if let Some(state) = self.state.get_mut(slot.index()) {
            *state = State::Imported;
        }
        self.imports.push((slot, tensor.clone()));
        slot
    }

    /// Leaves a slot on the device as a tensor; returns its position among the kept ones.
    pub fn keep(&mut self, slot: Slot, spec: Spec) -> Result<usize, PlanError> {
        let at = self.commands.len();
        let (have, need) = (self.slots.get(slot.index()).map_or(Bytes::ZERO, |s| s.size), spec.size());
        if need.is_none_or(|n| n > have) {
            let need = need.unwrap_or(Bytes(u64::MAX));
            return Err(PlanError::Size { at, slot: slot.index(), what: "the tensor", have, need });
        }
        match self.state.get_mut(slot.index()) {
            Some(state @ State::Written) => *state = State::Kept,
            _ => return Err(PlanError::NotWritten { at, slot: slot.index() }),
        }
        self.keeps.push((slot, spec));
        Ok(self.keeps.len() - 1)
    }

    /// A slot filled from the host.
    pub fn upload(&mut self, data: impl Into<HostBytes>, tag: &'static str) -> Result<Slot, PlanError> {
        let data = data.into();
        let to = self.slot(Bytes(data.len() as u64), tag);
        self.write(to)?;
        self.commands.push(Command::Upload { to, data });
        Ok(to)
    }

    /// A kernel call; slots with [`Access::Write`] must be fresh.
    pub fn dispatch(
        &mut self,
        kernel: &Arc<Kernel>,
        bindings: &[Slot],
        params: &[u32],
        groups: [u32; 3],
    ) -> Result<(), PlanError> {
        let at = self.commands.len();
        let call = |why: String| PlanError::Call { at, kernel: kernel.name.to_string(), why };
        if bindings.len() != kernel.bindings.len() {
            return Err(call(format!("{} buffers for {} bindings", bindings.len(), kernel.bindings.len())));
        }
        if params.len() > MAX_PARAMS {
            return Err(call(format!("{} parameter words, at most {MAX_PARAMS}", params.len())));
        }
        if let Some(n) = groups.iter().find(|g| **g > MAX_GROUPS) {
            return Err(call(format!(
                "{n} groups in one dimension, at most {MAX_GROUPS}: use a second dimension"
            )));
        }
        for (slot, _) in bindings.iter().zip(&kernel.bindings).filter(|(_, a)| **a != Access::Write) {
            self.read(*slot)?;
        }
        for (slot, _) in bindings.iter().zip(&kernel.bindings).filter(|(_, a)| **a == Access::Update) {
            if self.state.get(slot.index()) != Some(&State::Written) {
                return Err(PlanError::NotOwned { at, slot: slot.index() });
            }
        }
        for (slot, _) in bindings.iter().zip(&kernel.bindings).filter(|(_, a)| **a == Access::Write) {
            self.write(*slot)?;
        }
        let dispatch =
            Dispatch { kernel: kernel.clone(), bindings: bindings.to_vec(), params: params.to_vec(), groups };
        self.commands.push(Command::Dispatch(dispatch));
        Ok(())
    }

    /// A copy on the device into a fresh slot.
    pub fn copy(&mut self, from: Slot, tag: &'static str) -> Result<Slot, PlanError> {
        self.read(from)?;
        let size = self.slots.get(from.index()).map_or(Bytes::ZERO, |s| s.size);
        let to = self.slot(size, tag);
        self.write(to)?;
        self.commands.push(Command::Copy { from, to });
        Ok(to)
    }

    /// Brings a slot back; returns its position in the outputs.
    pub fn download(&mut self, from: Slot) -> Result<usize, PlanError> {
        self.download_first(from, Bytes(u64::MAX))
    }

    /// Brings the first bytes of a slot back (all of it if it is smaller); returns their position in the outputs.
    pub fn download_first(&mut self, from: Slot, size: Bytes) -> Result<usize, PlanError> {
        self.read(from)?;
        let whole = self.slots.get(from.index()).map_or(Bytes::ZERO, |s| s.size);
        let size = Bytes(size.0.min(whole.0).next_multiple_of(4));
        let output = self.outputs.len();
        self.outputs.push(size);
        self.commands.push(Command::Download { from, output, size });
        Ok(output)
    }

    /// Gives a slot's memory back before the plan ends.
    pub fn free(&mut self, slot: Slot) -> Result<(), PlanError> {
        self.read(slot)?;
        let at = self.commands.len();
        match self.state.get_mut(slot.index()) {
            Some(state @ State::Written) => *state = State::Freed,
            _ => return Err(PlanError::NotOwned { at, slot: slot.index() }),
        }
        self.commands.push(Command::Free { slot });
        Ok(())
    }

    fn read(&self, slot: Slot) -> Result<(), PlanError> {
        match self.state.get(slot.index()) {
            Some(State::Written | State::Imported | State::Kept) => Ok(()),
            _ => Err(PlanError::NotWritten { at: self.commands.len(), slot: slot.index() }),
        }
    }

    fn write(&mut self, slot: Slot) -> Result<(), PlanError> {
        let at = self.commands.len();
        match self.state.get_mut(slot.index()) {
            Some(state @ State::Empty) => {
                *state = State::Written;
                Ok(())
            }
            _ => Err(PlanError::Rewritten { at, slot: slot.index() }),
        }
    }

    /// Its name.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its buffers.
    pub fn slots(&self) -> &[SlotSpec] {
        &self.slots
    }

    /// Its steps.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Tensors that it reads.
    pub fn imports(&self) -> &[(Slot, Tensor)] {
        &self.imports
    }

    /// Slots that outlive it.
    pub fn keeps(&self) -> &[(Slot, Spec)] {
        &self.keeps
    }

    /// How many downloads it has, and of which sizes.
    pub fn output_sizes(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.outputs.iter().copied()
    }

    /// What it costs in memory and steps; pure.
    pub fn cost(&self) -> Cost {
        let size = |slot: Slot| self.slots.get(slot.index()).map_or(Bytes::ZERO, |s| s.size);
        let mut cost = Cost::default();
        let mut live = Bytes::ZERO;
        for command in &self.commands {
            match command {
                Command::Upload { to, data } => {
                    cost.uploaded += Bytes(data.len() as u64);
                    live += size(*to);
                }
                Command::Dispatch(dispatch) => {
                    cost.dispatches += 1;
                    let written = dispatch.bindings.iter().zip(&dispatch.kernel.bindings);
                    live += written.filter(|(_, a)| **a == Access::Write).map(|(s, _)| size(*s)).sum();
                }
                Command::Copy { to, .. } => live += size(*to),
                Command::Download { size, .. } => cost.downloaded += *size,
                Command::Free { slot } => live -= size(*slot),
            }
            cost.peak = cost.peak.max(live);
        }
        cost
    }
}

/// Figures of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Cost {
    /// Kernel calls.
    pub dispatches: u64,
    /// Bytes to the device.
    pub uploaded: Bytes,
    /// Bytes from the device.
    pub downloaded: Bytes,
    /// The most memory that is live at once.
    pub peak: Bytes,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {} ({} slots, {} commands)", self.label, self.slots.len(), self.commands.len())?;
        for (at, command) in self.commands.iter().enumerate() {
            match command {
                Command::Upload { to, data } => {
                    writeln!(f, "{at:4}  upload   s{} <- {}", to.0, Bytes(data.len() as u64))?
                }
                Command::Dispatch(d) => {
                    let slots: Vec<String> = d.bindings.iter().map(|s| format!("s{}", s.0)).collect();
                    writeln!(f, "{at:4}  dispatch {}({}) {:?}", d.kernel.name, slots.join(", "), d.groups)?;
                }
                Command::Copy { from, to } => writeln!(f, "{at:4}  copy     s{} <- s{}", to.0, from.0)?,
                Command::Download { from, output, .. } => {
                    writeln!(f, "{at:4}  download out{output} <- s{}", from.0)?
                }
                Command::Free { slot } => writeln!(f, "{at:4}  free     s{}", slot.0)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double() -> Arc<Kernel> {
        Arc::new(Kernel {
            name: "double".into(),
            wgsl: "".into(),
            entry: "main",
            bindings: vec![Access::Read, Access::Write],
            twin: Arc::new(|_| Ok(())),
        })
    }

    #[test]
    fn a_plan_is_counted_and_printed() {
        let mut plan = Plan::new("test");
        let a = plan.upload(vec![0; 16], "in").unwrap();
        let b = plan.slot(Bytes(16), "out");
        plan.dispatch(&double(), &[a, b], &[4], [1, 1, 1]).unwrap();
        plan.free(a).unwrap();
        let c = plan.copy(b, "copy").unwrap();
        plan.download(c).unwrap();
        let cost = plan.cost();
        assert_eq!((cost.dispatches, cost.peak, cost.downloaded), (1, Bytes(32), Bytes(16)));
        assert!(plan.to_string().contains("dispatch double(s0, s1)"), "{plan}");
    }

    #[test]
    fn single_assignment_is_enforced() {
        let mut plan = Plan::new("test");
        let empty = plan.slot(Bytes(4), "x");
        assert!(matches!(plan.download(empty), Err(PlanError::NotWritten { .. })));
        let a = plan.upload(vec![0; 4], "in").unwrap();
        assert!(matches!(plan.dispatch(&double(), &[a, a], &[], [1; 3]), Err(PlanError::Rewritten { .. })));
        plan.free(a).unwrap();
        assert!(matches!(plan.copy(a, "x"), Err(PlanError::NotWritten { .. })));
    }

    #[test]
    fn a_slot_can_be_changed_by_kernels_that_say_so_and_fetched_in_part() {
        let change = Arc::new(Kernel { bindings: vec![Access::Read, Access::Update], ..(*double()).clone() });
        let mut plan = Plan::new("test");
        let a = plan.upload(vec![0; 16], "in").unwrap();
        let b = plan.slot(Bytes(64), "arena");
        assert!(matches!(plan.dispatch(&change, &[a, b], &[], [1; 3]), Err(PlanError::NotWritten { .. })));
        plan.dispatch(&double(), &[a, b], &[], [1; 3]).unwrap();
        plan.dispatch(&change, &[a, b], &[], [1; 3]).unwrap();
        plan.download_first(b, Bytes(10)).unwrap();
        assert_eq!(plan.output_sizes().collect::<Vec<_>>(), [Bytes(12)]);
        assert_eq!((plan.cost().peak, plan.cost().downloaded), (Bytes(80), Bytes(12)));
        let tensor = Tensor::from_floats(&[1.0], &[1], "given").unwrap();
        let given = plan.import(&tensor);
        assert!(matches!(plan.dispatch(&change, &[a, given], &[], [1; 3]), Err(PlanError::NotOwned { .. })));
    }

    #[test]
    fn calls_are_checked_against_their_kernel() {
        let mut plan = Plan::new("test");
        let a = plan.upload(vec![0; 4], "in").unwrap();
        let b = plan.slot(Bytes(4), "out");
        for (bindings, params, groups) in [(vec![a], 0, 1), (vec![a, b], 17, 1), (vec![a, b], 0, 70_000)] {
            let error = plan.dispatch(&double(), &bindings, &vec![0; params], [groups, 1, 1]);
            assert!(matches!(error, Err(PlanError::Call { .. })), "{error:?}");
        }
    }
}
