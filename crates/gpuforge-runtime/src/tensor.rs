//! Device-resident tensors: kept on host, device or both between plans, transferred on demand, re-materialised after
//! device loss by replaying their lineage.
//!
//! A tensor that a plan kept on the device has no host copy until it is read. It holds the plan that produced it (its
//! lineage, as Spark's RDDs do), so that it can be recomputed after a device loss or an eviction;
//! [`Runner::checkpoint`](crate::runner::Runner::checkpoint) replaces the lineage by a host copy.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;

use crate::{
    engine::BlockId,
    host::HostBytes,
    memory::{MemoryStack, StackAllocation},
    plan::Plan,
    session::DeviceAllocator,
    units::Bytes,
};

/// Element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 8-bit unsigned integer.
    U8,
}

impl DType {
    /// Size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            DType::F32 | DType::U32 | DType::I32 => 4,
            DType::F16 => 2,
            DType::U8 => 1,
        }
    }
}

/// Where a tensor's data is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Residency {
    /// On the host only.
    Host,
    /// On a device only.
    Device,
    /// On both.
    Both,
    /// On neither: it is re-materialised from its lineage when it is needed.
    #[serde(rename = "nowhere")]
    Evicted,
}

/// Element type, shape and tag of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorSpec {
    /// Element type.
    pub dtype: DType,
    /// Size per dimension.
    pub shape: Vec<usize>,
    /// What its memory is for.
    pub tag: &'static str,
}

impl TensorSpec {
    /// Size in bytes; `None` on overflow.
    pub fn size(&self) -> Option<Bytes> {
        let n = self.shape.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(*d).ok()?))?;
        n.checked_mul(self.dtype.bytes()).map(Bytes)
    }
}

/// Data and shape do not match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shape {shape:?} of {dtype:?} needs {need:?} bytes, there are {have}")]
pub struct ShapeError {
    /// The shape.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
    /// Bytes it needs; `None` on overflow.
    pub need: Option<u64>,
    /// Bytes given.
    pub have: u64,
}

/// A handle to a tensor; cloning shares the data.
#[derive(Clone)]
pub struct Tensor {
    inner: Arc<Inner>,
}

struct Inner {
    spec: TensorSpec,
    /// Length of the lineage: plans that a replay would have to run one after the other.
    depth: u32,
    state: Mutex<State>,
}

/// The longest lineage that is replayed after a device loss; beyond it a tensor must have been checkpointed.
pub const MAX_REPLAY_DEPTH: u32 = 256;

#[derive(Default)]
struct State {
    host: Option<HostBytes>,
    device: Option<ResidentBlock>,
    lineage: Option<Lineage>,
}

/// The plan that produced a tensor, and which of its kept slots it is.
#[derive(Clone)]
pub(crate) struct Lineage {
    pub(crate) plan: Arc<Plan>,
    pub(crate) keep: usize,
}

/// A block on a device, freed on drop.
pub(crate) struct ResidentBlock {
    memory: Arc<MemoryStack<DeviceAllocator>>,
    allocation: Option<StackAllocation<BlockId>>,
}

impl ResidentBlock {
    pub(crate) fn new(
        memory: Arc<MemoryStack<DeviceAllocator>>,
        allocation: StackAllocation<BlockId>,
    ) -> Self {
        ResidentBlock { memory, allocation: Some(allocation) }
    }
}

impl Drop for ResidentBlock {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            self.memory.release(allocation);
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorSpec { dtype, shape, tag } = &self.inner.spec;
        write!(f, "Tensor({tag}: {dtype:?} {shape:?}, {:?})", self.residency())
    }
}

impl Tensor {
    /// A tensor from host bytes.
    pub fn from_bytes(data: impl Into<HostBytes>, spec: TensorSpec) -> Result<Self, ShapeError> {
        let data = data.into();
        let need = spec.size().map(|b| b.0);
        if need != Some(data.len() as u64) {
            let have = data.len() as u64;
            return Err(ShapeError { shape: spec.shape, dtype: spec.dtype, need, have });
        }
        Ok(Tensor::new(spec, State { host: Some(data), ..State::default() }))
    }

    /// A tensor from host floats.
    pub fn from_floats(values: &[f32], shape: &[usize], tag: &'static str) -> Result<Self, ShapeError> {
        let spec = TensorSpec { dtype: DType::F32, shape: shape.to_vec(), tag };
        Tensor::from_bytes(crate::kernel::bytes_of_floats(values), spec)
    }

    pub(crate) fn kept(
        spec: TensorSpec,
        lineage: Lineage,
        resident: Option<ResidentBlock>,
        host: Option<Arc<[u8]>>,
    ) -> Self {
        let before = lineage.plan.imports().iter().map(|(_, t)| t.replay_depth()).max().unwrap_or(0);
        let state = State { host: host.map(HostBytes::from), device: resident, lineage: Some(lineage) };
        Tensor { inner: Arc::new(Inner { spec, depth: before + 1, state: Mutex::new(state) }) }
    }

    fn new(spec: TensorSpec, state: State) -> Self {
        Tensor { inner: Arc::new(Inner { spec, depth: 0, state: Mutex::new(state) }) }
    }

    /// Plans that a device loss now would make us replay; 0 when it has a host copy.
    fn replay_depth(&self) -> u32 {
        if self.state().host.is_some() { 0 } else { self.inner.depth }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Are these handles of the same tensor?
    pub fn ptr_eq(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Element type, shape and tag.
    pub fn spec(&self) -> &TensorSpec {
        &self.inner.spec
    }

    /// Where its data is now.
    pub fn residency(&self) -> Residency {
        let state = self.state();
        match (state.host.is_some(), state.device.is_some()) {
            (true, true) => Residency::Both,
            (true, false) => Residency::Host,
            (false, true) => Residency::Device,
            (false, false) => Residency::Evicted,
        }
    }

    /// Is it resident on a device?
    pub fn on_device(&self) -> bool {
        self.state().device.is_some()
    }

    /// Frees its device memory. Without a host copy it is re-materialised when it is needed.
    pub fn evict(&self) {
        // Taken out first: freeing calls into the memory stack, which must not happen under this lock.
        let evicted = self.state().device.take();
        drop(evicted);
    }

    /// The host copy in one contiguous chunk, if there is one.
    pub fn host(&self) -> Option<Arc<[u8]>> {
        let bytes = self.host_chunks()?;
        let contiguous = bytes.contiguous();
        if !bytes.is_contiguous() {
            // Concatenated once, not at every call.
            self.state().host = Some(contiguous.clone().into());
        }
        Some(contiguous)
    }

    /// The host copy without concatenation, possibly in several chunks.
    pub fn host_chunks(&self) -> Option<HostBytes> {
        self.state().host.clone()
    }

    /// Is there a host copy?
    pub fn on_host(&self) -> bool {
        self.state().host.is_some()
    }

    pub(crate) fn set_host(&self, bytes: Arc<[u8]>, keep_lineage: bool) {
        let mut state = self.state();
        state.host = Some(bytes.into());
        if !keep_lineage {
            state.lineage = None;
        }
    }

    /// The plan that recomputes it, unless its lineage is too long to replay.
    pub(crate) fn lineage(&self) -> Option<Lineage> {
        self.state().lineage.clone().filter(|_| self.inner.depth <= MAX_REPLAY_DEPTH)
    }

    /// Its block on this device.
    pub(crate) fn block_on(&self, memory: &Arc<MemoryStack<DeviceAllocator>>) -> Option<BlockId> {
        let state = self.state();
        let resident = state.device.as_ref().filter(|r| Arc::ptr_eq(&r.memory, memory))?;
        resident.allocation.as_ref().map(|g| *g.block())
    }

    /// Makes it resident; a block of an earlier device is freed.
    pub(crate) fn set_device(&self, resident: ResidentBlock) {
        let replaced = self.state().device.replace(resident);
        drop(replaced);
    }

    pub(crate) fn take_device(&self) -> Option<ResidentBlock> {
        self.state().device.take()
    }
}
