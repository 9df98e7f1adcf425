//! How does a plan run without a device? By its kernels' twins, on host memory.

use std::sync::Arc;

use crate::{
    engine::EngineError,
    kernel::{Access, Call},
    plan::{Command, Dispatch, Plan, Slot},
    tensor::Tensor,
};

/// Memory of a plan: blocks, and for every slot the block it lies in. Slots share a block when the first is freed
/// before the second is written; a mistake in that shows as a wrong result.
#[derive(Debug, Default)]
pub struct Memory {
    blocks: Vec<Vec<u8>>,
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    block: usize,
    len: usize,
}

impl Memory {
    /// One block per slot.
    pub fn of(plan: &Plan) -> Self {
        let blocks: Vec<usize> = (0..plan.slots().len()).collect();
        Memory::shared(plan, &blocks)
    }

    /// `blocks[i]` is the block of slot `i`; equal numbers share.
    pub fn shared(plan: &Plan, blocks: &[usize]) -> Self {
        let mut memory = Memory::default();
        for (spec, block) in plan.slots().iter().zip(blocks) {
            let len = usize::try_from(spec.size.0).unwrap_or(0);
            if memory.blocks.len() <= *block {
                memory.blocks.resize_with(block + 1, Vec::new);
            }
            if let Some(bytes) = memory.blocks.get_mut(*block) {
                bytes.resize(bytes.len().max(len), 0);
            }
            memory.places.push(Place { block: *block, len });
        }
        memory
    }

    /// All blocks, for devices that keep theirs between plans.
    pub fn blocks_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.blocks
    }

    /// The bytes of a slot.
    pub fn get(&self, slot: Slot) -> &[u8] {
        let place = self.places.get(slot.index());
        place.and_then(|p| self.blocks.get(p.block)?.get(..p.len)).unwrap_or(&[])
    }

    fn get_mut(&mut self, slot: Slot) -> &mut [u8] {
        let place = self.places.get(slot.index()).copied();
        place.and_then(|p| self.blocks.get_mut(p.block)?.get_mut(..p.len)).unwrap_or(&mut [])
    }

    /// Fills a slot from the host.
    pub fn upload(&mut self, to: Slot, data: &[u8]) {
        for (byte, value) in self.get_mut(to).iter_mut().zip(data) {
            *byte = *value;
        }
    }

    /// Runs one command; a download returns its bytes.
    pub fn step(&mut self, command: &Command) -> Result<Option<Vec<u8>>, EngineError> {
        match command {
            Command::Upload { to, data } => {
                let to = self.get_mut(*to);
                for (at, piece) in data.pieces() {
                    let at = usize::try_from(at).unwrap_or(usize::MAX);
                    let room = to.get_mut(at..).unwrap_or_default();
                    room.iter_mut().zip(piece).for_each(|(byte, value)| *byte = *value);
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
                // Whoever reads it afterwards must notice: the bytes go.
                self.get_mut(*slot).fill(0xa5);
            }
        }
        Ok(None)
    }

    fn dispatch(&mut self, dispatch: &Dispatch) -> Result<(), EngineError> {
        let bindings = || dispatch.bindings.iter().zip(&dispatch.kernel.bindings);
        let of = |read: bool| bindings().filter(move |(_, a)| (**a == Access::Read) == read);
        // Outputs are computed beside the blocks and put there afterwards: a slot that wrongly shares its block with an
        // input then spoils later commands, as it would on a device.
        let before = |(slot, access): (&Slot, &Access)| match access {
            Access::Update => self.get(*slot).to_vec(),
            _ => vec![0; self.get(*slot).len()],
        };
        let mut outputs: Vec<Vec<u8>> = of(false).map(before).collect();
        let inputs = of(true).map(|(s, _)| self.get(*s)).collect();
        let outs = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let mut call = Call { params: &dispatch.params, groups: dispatch.groups, inputs, outputs: outs };
        let ran = (dispatch.kernel.twin)(&mut call);
        drop(call);
        for ((slot, _), bytes) in of(false).zip(&outputs) {
            self.upload(*slot, bytes);
        }
        ran.map_err(|e| EngineError::Validation { reason: e.to_string() })
    }
}

/// What a plan left behind on the processor.
#[derive(Debug, Default)]
pub struct Ran {
    /// Downloads.
    pub outputs: Vec<Vec<u8>>,
    /// Kept slots.
    pub kept: Vec<Vec<u8>>,
}

/// Runs a whole plan on the processor. Tensors that are nowhere on the host are made again by their plans.
pub fn run(plan: &Plan) -> Result<Ran, EngineError> {
    let mut memory = Memory::of(plan);
    for (slot, tensor) in plan.imports() {
        memory.upload(*slot, &bytes_of(tensor)?);
    }
    let mut ran = Ran::default();
    for command in plan.commands() {
        ran.outputs.extend(memory.step(command)?);
    }
    for (slot, spec) in plan.keeps() {
        let len = spec.size().map_or(0, |b| usize::try_from(b.0).unwrap_or(0));
        ran.kept.push(memory.get(*slot).get(..len).unwrap_or_default().to_vec());
    }
    Ok(ran)
}

/// A tensor's numbers, from the host or made again.
fn bytes_of(tensor: &Tensor) -> Result<Arc<[u8]>, EngineError> {
    if let Some(bytes) = tensor.host() {
        return Ok(bytes);
    }
    let lost = || EngineError::Lost {
        reason: format!("{tensor:?} was only on the device and cannot be made again"),
    };
    let origin = tensor.origin().ok_or_else(lost)?;
    let made = run(&origin.plan)?.kept.into_iter().nth(origin.keep).ok_or_else(lost)?;
    let bytes: Arc<[u8]> = made.into();
    tensor.set_host(bytes.clone(), true);
    Ok(bytes)
}
