//! CPU reference engine: interprets a plan on host memory with the kernels' CPU references. Used for the fallback after
//! device failures, by the dummy device, and to check devices.

use std::sync::Arc;

use crate::{
    engine::EngineError,
    kernel::{Access, KernelCall},
    plan::{Command, Dispatch, Plan, Slot},
    tensor::Tensor,
};

/// Host memory of a plan: blocks, and the block of every slot. Slots share a block when the first is freed before the
/// second is written; a bug in that assignment shows as a wrong result.
#[derive(Debug, Default)]
pub struct HostMemory {
    blocks: Vec<Vec<u8>>,
    slots: Vec<SlotRange>,
}

/// Where a slot lies.

#[derive(Debug, Clone, Copy)]
struct SlotRange {
    block: usize,
    len: usize,
}

impl HostMemory {
    /// One block per slot.
    pub fn of(plan: &Plan) -> Self {
        let blocks: Vec<usize> = (0..plan.slots().len()).collect();
        HostMemory::shared(plan, &blocks)
    }

    /// `blocks[i]` is the block of slot `i`; equal indices share.
    pub fn shared(plan: &Plan, blocks: &[usize]) -> Self {
        let mut memory = HostMemory::default();
        for (spec, block) in plan.slots().iter().zip(blocks) {
            let len = usize::try_from(spec.size.0).unwrap_or(0);
            if memory.blocks.len() <= *block {
                memory.blocks.resize_with(block + 1, Vec::new);
            }
            if let Some(bytes) = memory.blocks.get_mut(*block) {
                bytes.resize(bytes.len().max(len), 0);
            }
            memory.slots.push(SlotRange { block: *block, len });
        }
        memory
    }

    /// All blocks, for devices whose memory outlives plans.
    pub fn blocks_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.blocks
    }

    /// The bytes of a slot.
    pub fn get(&self, slot: Slot) -> &[u8] {
        let range = self.slots.get(slot.index());
        range.and_then(|p| self.blocks.get(p.block)?.get(..p.len)).unwrap_or(&[])
    }

    fn get_mut(&mut self, slot: Slot) -> &mut [u8] {
        let range = self.slots.get(slot.index()).copied();
        range.and_then(|p| self.blocks.get_mut(p.block)?.get_mut(..p.len)).unwrap_or(&mut [])
    }

    /// Copies host bytes into a slot.
    pub fn upload(&mut self, to: Slot, data: &[u8]) {
        for (byte, value) in self.get_mut(to).iter_mut().zip(data) {
            *byte = *value;
        }
    }

    /// Executes one command; a download returns its bytes.
    pub fn step(&mut self, command: &Command) -> Result<Option<Vec<u8>>, EngineError> {
        match command {
            Command::Upload { to, data } => {
                let to = self.get_mut(*to);
                for (at, chunk) in data.chunks() {
                    let at = usize::try_from(at).unwrap_or(usize::MAX);
                    let target = to.get_mut(at..).unwrap_or_default();
                    target.iter_mut().zip(chunk).for_each(|(byte, value)| *byte = *value);
                }
            }
            Command::Dispatch(dispatch) => self.dispatch(dispatch)?,
            Command::Copy { from, to } => {
                let data = self.get(*from).to_vec();
                self.upload(*to, &data);
            }
            Command::Download { from, size, .. } => {
                let bytes = self.get(*from);
                let size = usize::try_from(size.0).unwrap_or(usize::MAX).min(bytes.len());
                return Ok(Some(bytes.get(..size).unwrap_or_default().to_vec()));
            }
            Command::Free { slot } => {
                // Poisoned, so that a use after free shows as a wrong result.
                self.get_mut(*slot).fill(0xa5);
            }
        }
        Ok(None)
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), EngineError> {
        let bindings = || dispatch.bindings.iter().zip(&dispatch.kernel.bindings);
        let of = |read: bool| bindings().filter(move |(_, a)| (**a == Access::Read) == read);
        // Outputs are computed out of place and copied in afterwards: a slot that wrongly aliases an input then corrupts
        // later commands, as it would on a device.
        let before = |(slot, access): (&Slot, &Access)| match access {
            Access::Update => self.get(*slot).to_vec(),
            _ => vec![0; self.get(*slot).len()],
        };
        let mut outputs: Vec<Vec<u8>> = of(false).map(before).collect();
        let inputs = of(true).map(|(s, _)| self.get(*s)).collect();
        let outs = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let mut call =
            KernelCall { params: &dispatch.params, groups: dispatch.groups, inputs, outputs: outs };
        let result = (dispatch.kernel.cpu_reference)(&mut call);
        drop(call);
        for ((slot, _), bytes) in of(false).zip(&outputs) {
            self.upload(*slot, bytes);
        }
        result.map_err(|e| EngineError::Validation { reason: e.to_string() })
    }
}

/// Outputs of a plan on the CPU.
#[derive(Debug, Default)]
pub struct PlanOutput {
    /// Downloads.
    pub outputs: Vec<Vec<u8>>,
    /// Kept slots.
    pub kept: Vec<Vec<u8>>,
}

/// Runs a whole plan on the CPU. Tensors without a host copy are recomputed from their lineage.
pub fn run(plan: &Plan) -> Result<PlanOutput, EngineError> {
    let mut memory = HostMemory::of(plan);
    for (slot, tensor) in plan.imports() {
        memory.upload(*slot, &tensor_bytes(tensor)?);
    }
    let mut output = PlanOutput::default();
    for command in plan.commands() {
        output.outputs.extend(memory.step(command)?);
    }
    for (slot, spec) in plan.keeps() {
        let len = spec.size().map_or(0, |b| usize::try_from(b.0).unwrap_or(0));
        output.kept.push(memory.get(*slot).get(..len).unwrap_or_default().to_vec());
    }
    Ok(output)
}

/// A tensor's bytes, from the host copy or recomputed.
fn tensor_bytes(tensor: &Tensor) -> Result<Arc<[u8]>, EngineError> {
    if let Some(bytes) = tensor.host() {
        return Ok(bytes);
    }
    let lost = || EngineError::DeviceLost {
        reason: format!("{tensor:?} was only on the device and cannot be recomputed"),
    };
    let lineage = tensor.lineage().ok_or_else(lost)?;
    let made = run(&lineage.plan)?.kept.into_iter().nth(lineage.keep).ok_or_else(lost)?;
    let bytes: Arc<[u8]> = made.into();
    tensor.set_host(bytes.clone(), true);
    Ok(bytes)
}
