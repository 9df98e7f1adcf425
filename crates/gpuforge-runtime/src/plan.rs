//! Plan: a recorded command list (upload, dispatch, copy, download, free) over slots in single-assignment form. Plain
//! data, so that it can be printed, costed and replayed.
//!
//! A slot is written by one command before anything reads it, modified only by kernels that declare it
//! ([`Access::Update`]), and uploaded data is immutable and held. Replaying a plan from its beginning is therefore
//! deterministic, bit for bit; recovery rests on that.

use std::{fmt, sync::Arc};

use crate::{
    host::HostBytes,
    kernel::{Access, Kernel},
    tensor::{Tensor, TensorSpec},
    units::Bytes,
};

/// A virtual buffer of a plan.
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
    /// What its memory is for.
    pub tag: &'static str,
}

/// One command.
#[derive(Debug, Clone)]
pub enum Command {
    /// Host to device.
    Upload {
        /// Destination.
        to: Slot,
        /// Immutable and held until the plan is dropped.
        data: HostBytes,
    },
    /// A kernel dispatch.
    Dispatch(Dispatch),
    /// Device to device, between slots of the same size.
    Copy {
        /// Source.
        from: Slot,
        /// Destination.
        to: Slot,
    },
    /// Device to host.
    Download {
        /// Source.
        from: Slot,
        /// Position in the outputs.
        output: usize,
        /// Bytes, from the beginning of the slot.
        size: Bytes,
    },
    /// End of the slot's lifetime; its memory may be reused by later commands.
    Free {
        /// The slot.
        slot: Slot,
    },
}

/// A kernel dispatch.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Its buffers, in binding order.
    pub bindings: Vec<Slot>,
    /// Its parameters, at most [`MAX_PARAMS`] words.
    pub params: Vec<u32>,
    /// Workgroups per dimension.
    pub groups: [u32; 3],
}

/// Words in a parameter block.
pub const MAX_PARAMS: usize = 16;
/// Maximum workgroups per dimension that every adapter allows.
pub const MAX_GROUPS: u32 = 65_535;

/// Why a plan cannot be recorded. Always a bug of the recorder: never retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A slot is read before anything was written to it, or after it was freed.
    #[error("command {at}: slot {slot} is read but not written")]
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
    /// Sizes do not match.
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
    /// A slot that outlives the plan is freed or modified in it.
    #[error("command {at}: slot {slot} belongs to a tensor and cannot be freed or modified here")]
    NotOwned {
        /// Command.
        at: usize,
        /// Slot.
        slot: usize,
    },
    /// A dispatch does not match its kernel.
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

/// A recorded command list.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    label: String,
    slots: Vec<SlotSpec>,
    commands: Vec<Command>,
    outputs: Vec<Bytes>,
    imports: Vec<(Slot, Tensor)>,
    keeps: Vec<(Slot, TensorSpec)>,
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

    /// A slot that a later command writes. Sizes are rounded up to a multiple of four bytes.
    pub fn slot(&mut self, size: Bytes, tag: &'static str) -> Slot {
        let slot = Slot(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        self.slots.push(SlotSpec { size: Bytes(size.0.max(4).next_multiple_of(4)), tag });
        self.state.push(State::Empty);
        slot
    }

    /// A slot that holds a tensor; whether it must be uploaded is decided when the plan runs.
    pub fn import(&mut self, tensor: &Tensor) -> Slot {
        let slot = self.slot(tensor.spec().size().unwrap_or(Bytes::ZERO), tensor.spec().tag);
        if let Some(state) = self.state.get_mut(slot.index()) {
            *state = State::Imported;
        }
        self.imports.push((slot, tensor.clone()));
        slot
    }

    /// Keeps a slot on the device as a tensor; returns its index among the kept ones.
    pub fn keep(&mut self, slot: Slot, spec: TensorSpec) -> Result<usize, PlanError> {
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

    /// Uploads host data into a new slot.
    pub fn upload(&mut self, data: impl Into<HostBytes>, tag: &'static str) -> Result<Slot, PlanError> {
        let data = data.into();
        let to = self.slot(Bytes(data.len() as u64), tag);
        self.write(to)?;
        self.commands.push(Command::Upload { to, data });
        Ok(to)
    }

    /// A kernel dispatch; slots with [`Access::Write`] must not have been written.
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

    /// A device-to-device copy into a new slot.
    pub fn copy(&mut self, from: Slot, tag: &'static str) -> Result<Slot, PlanError> {
        self.read(from)?;
        let size = self.slots.get(from.index()).map_or(Bytes::ZERO, |s| s.size);
        let to = self.slot(size, tag);
        self.write(to)?;
        self.commands.push(Command::Copy { from, to });
        Ok(to)
    }

    /// Downloads a slot; returns its index in the outputs.
    pub fn download(&mut self, from: Slot) -> Result<usize, PlanError> {
        self.download_first(from, Bytes(u64::MAX))
    }

    /// Downloads the first bytes of a slot (all of it if it is smaller); returns their index in the outputs.
    pub fn download_first(&mut self, from: Slot, size: Bytes) -> Result<usize, PlanError> {
        self.read(from)?;
        let whole = self.slots.get(from.index()).map_or(Bytes::ZERO, |s| s.size);
        let size = Bytes(size.0.min(whole.0).next_multiple_of(4));
        let output = self.outputs.len();
        self.outputs.push(size);
        self.commands.push(Command::Download { from, output, size });
        Ok(output)
    }

    /// Frees a slot before the plan ends.
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

    /// Its label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its slots.
    pub fn slots(&self) -> &[SlotSpec] {
        &self.slots
    }

    /// Its commands.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Tensors that it imports.
    pub fn imports(&self) -> &[(Slot, Tensor)] {
        &self.imports
    }

    /// Slots that it keeps on the device.
    pub fn keeps(&self) -> &[(Slot, TensorSpec)] {
        &self.keeps
    }

    /// Sizes of its downloads.
    pub fn output_sizes(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.outputs.iter().copied()
    }

    /// Its dispatches, transfers and peak memory; pure.
    pub fn cost(&self) -> PlanCost {
        let size = |slot: Slot| self.slots.get(slot.index()).map_or(Bytes::ZERO, |s| s.size);
        let mut cost = PlanCost::default();
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

/// Dispatches, transfers and peak memory of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PlanCost {
    /// Kernel dispatches.
    pub dispatches: u64,
    /// Bytes to the device.
    pub uploaded: Bytes,
    /// Bytes from the device.
    pub downloaded: Bytes,
    /// Peak of live memory.
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
            cpu_reference: Arc::new(|_| Ok(())),
        })
    }

    #[test]
    fn plan_is_costed_and_printed() {
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
    fn update_access_modifies_a_slot_and_download_may_be_partial() {
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
    fn dispatches_are_validated_against_their_kernel() {
        let mut plan = Plan::new("test");
        let a = plan.upload(vec![0; 4], "in").unwrap();
        let b = plan.slot(Bytes(4), "out");
        for (bindings, params, groups) in [(vec![a], 0, 1), (vec![a, b], 17, 1), (vec![a, b], 0, 70_000)] {
            let error = plan.dispatch(&double(), &bindings, &vec![0; params], [groups, 1, 1]);
            assert!(matches!(error, Err(PlanError::Call { .. })), "{error:?}");
        }
    }
}
