//! Where do numbers live between plans? On the host, on a device, or on both; moved when a plan needs them.
//!
//! A tensor that a plan kept on the device has no host copy until it is read. It holds the plan that made it, so that after
//! a loss it can be made again; [`Runner::checkpoint`](crate::runner::Runner::checkpoint) trades that for a host copy.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;

use crate::{
    engine::BlockId,
    host::HostBytes,
    memory::{Grant, MemoryStack},
    plan::Plan,
    session::Device,
    units::Bytes,
};

/// Kind of a number.
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
    /// A byte.
    U8,
}

impl DType {
    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        match self {
            DType::F32 | DType::U32 | DType::I32 => 4,
            DType::F16 => 2,
            DType::U8 => 1,
        }
    }
}

/// Where a tensor's numbers are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Residency {
    /// On the host only.
    Host,
    /// On a device only.
    Device,
    /// On both.
    Both,
    /// On neither: it is made again when it is needed.
    Nowhere,
}

/// What a tensor is, apart from its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// Kind of its numbers.
    pub dtype: DType,
    /// Sizes per dimension.
    pub shape: Vec<usize>,
    /// Whose memory it is.
    pub tag: &'static str,
}

impl Spec {
    /// Bytes of all its numbers; `None` when that does not fit.
    pub fn size(&self) -> Option<Bytes> {
        let n = self.shape.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(*d).ok()?))?;
        n.checked_mul(self.dtype.bytes()).map(Bytes)
    }
}

/// Numbers and a shape do not agree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shape {shape:?} of {dtype:?} needs {need:?} bytes, there are {have}")]
pub struct ShapeError {
    /// The shape.
    pub shape: Vec<usize>,
    /// The kind of number.
    pub dtype: DType,
    /// Bytes it needs; `None` when more than can be counted.
    pub need: Option<u64>,
    /// Bytes there are.
    pub have: u64,
}

/// A handle; cloning shares the numbers.
#[derive(Clone)]
pub struct Tensor {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Spec,
    /// Plans that would have to run one after the other to make it again.
    depth: u32,
    state: Mutex<State>,
}

/// The longest chain of plans that is replayed after a loss; beyond it a tensor must have been checkpointed.
pub const MOST_REPLAYED: u32 = 256;

#[derive(Default)]
struct State {
    host: Option<HostBytes>,
    device: Option<Resident>,
    origin: Option<Origin>,
}

/// The plan that made it, and which of its kept slots it is.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) plan: Arc<Plan>,
    pub(crate) keep: usize,
}

/// A block on a device, given back when it is dropped.
pub(crate) struct Resident {
    memory: Arc<MemoryStack<Device>>,
    grant: Option<Grant<BlockId>>,
}

impl Resident {
    pub(crate) fn new(memory: Arc<MemoryStack<Device>>, grant: Grant<BlockId>) -> Self {
        Resident { memory, grant: Some(grant) }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.memory.release(grant);
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { dtype, shape, tag } = &self.inner.spec;
        write!(f, "Tensor({tag}: {dtype:?} {shape:?}, {:?})", self.residency())
    }
}

impl Tensor {
    /// Numbers of the host.
    pub fn from_bytes(data: impl Into<HostBytes>, spec: Spec) -> Result<Self, ShapeError> {
        let data = data.into();
        let need = spec.size().map(|b| b.0);
        if need != Some(data.len() as u64) {
            let have = data.len() as u64;
            return Err(ShapeError { shape: spec.shape, dtype: spec.dtype, need, have });
        }
        Ok(Tensor::new(spec, State { host: Some(data), ..State::default() }))
    }

    /// Floats of the host.
    pub fn from_floats(values: &[f32], shape: &[usize], tag: &'static str) -> Result<Self, ShapeError> {
        let spec = Spec { dtype: DType::F32, shape: shape.to_vec(), tag };
        Tensor::from_bytes(crate::kernel::bytes_of_floats(values), spec)
    }

    pub(crate) fn kept(
        spec: Spec,
        origin: Origin,
        resident: Option<Resident>,
        host: Option<Arc<[u8]>>,
    ) -> Self {
        let before = origin.plan.imports().iter().map(|(_, t)| t.replays()).max().unwrap_or(0);
        let state = State { host: host.map(HostBytes::from), device: resident, origin: Some(origin) };
        Tensor { inner: Arc::new(Inner { spec, depth: before + 1, state: Mutex::new(state) }) }
    }

    fn new(spec: Spec, state: State) -> Self {
        Tensor { inner: Arc::new(Inner { spec, depth: 0, state: Mutex::new(state) }) }
    }

    /// Plans that a loss now would make us replay for it; none when it has a host copy.
    fn replays(&self) -> u32 {
        if self.state().host.is_some() { 0 } else { self.inner.depth }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Are these handles of one tensor?
    pub fn is(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// What it is.
    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    /// Where it is now.
    pub fn residency(&self) -> Residency {
        let state = self.state();
        match (state.host.is_some(), state.device.is_some()) {
            (true, true) => Residency::Both,
            (true, false) => Residency::Host,
            (false, true) => Residency::Device,
            (false, false) => Residency::Nowhere,
        }
    }

    /// Does it live on some device now?
    pub fn on_device(&self) -> bool {
        self.state().device.is_some()
    }

    /// Gives its device memory back. What has no host copy is made again when it is needed.
    pub fn leave_device(&self) {
        // Taken out first: giving memory back calls into the stack, which must not happen under this lock.
        let gone = self.state().device.take();
        drop(gone);
    }

    /// The numbers on the host, if they are there.
    pub fn host(&self) -> Option<Arc<[u8]>> {
        let bytes = self.pieces()?;
        let whole = bytes.whole();
        if !bytes.is_whole() {
            // Put together once, not at every look.
            self.state().host = Some(whole.clone().into());
        }
        Some(whole)
    }

    /// The numbers on the host as they came, possibly in several pieces.
    pub fn pieces(&self) -> Option<HostBytes> {
        self.state().host.clone()
    }

    /// Are the numbers on the host?
    pub fn on_host(&self) -> bool {
        self.state().host.is_some()
    }

    pub(crate) fn set_host(&self, bytes: Arc<[u8]>, keep_origin: bool) {
        let mut state = self.state();
        state.host = Some(bytes.into());
        if !keep_origin {
            state.origin = None;
        }
    }

    /// The plan that makes it again, unless the chain behind it is too long to replay.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.state().origin.clone().filter(|_| self.inner.depth <= MOST_REPLAYED)
    }

    /// Its block on this device.
    pub(crate) fn block_on(&self, memory: &Arc<MemoryStack<Device>>) -> Option<BlockId> {
        let state = self.state();
        let resident = state.device.as_ref().filter(|r| Arc::ptr_eq(&r.memory, memory))?;
        resident.grant.as_ref().map(|g| *g.block())
    }

    /// Now it is there; an earlier device's block is given back.
    pub(crate) fn set_device(&self, resident: Resident) {
        let gone = self.state().device.replace(resident);
        drop(gone);
    }

    pub(crate) fn take_device(&self) -> Option<Resident> {
        self.state().device.take()
    }
}
