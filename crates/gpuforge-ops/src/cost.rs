//! Operation cost: FLOPs, bytes and dispatches of an operation, and the transfers it needs. A router predicts time from these.

use gpuforge_runtime::{
    tensor::{Residency, Tensor, TensorSpec},
    units::Bytes,
};
use serde::{Deserialize, Serialize};

use crate::{Op, OpError};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $name:literal, $unit:literal;)*) => {
        /// Kind of an operation. Every kind has its own cost curve in a backend's cost model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum OpKind { $($(#[doc = $doc])* #[serde(rename = $name)] $kind,)* }

        impl OpKind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$kind),*];
            /// Number of kinds.
            pub const COUNT: usize = OpKind::ALL.len();

            /// Its name, as in `gpuforge route NAME`.
            pub const fn name(self) -> &'static str {
                match self { $(OpKind::$kind => $name),* }
            }

            /// What [`OpCost::units`] counts for this kind.
            pub const fn unit(self) -> &'static str {
                match self { $(OpKind::$kind => $unit),* }
            }
        }
    };
}

kinds! {
    /// Element-wise expressions of a few cheap steps: memory-bound.
    Map = "map", "elements";
    /// Element-wise expressions with functions such as `exp`: compute-bound.
    MapHeavy = "map-heavy", "weighted steps";
    /// Bytes XOR a repeating key.
    Xor = "xor", "bytes";
    /// Sum, mean, norm.
    Sum = "sum", "elements";
    /// Min, max, argmin, argmax.
    MinMax = "extreme", "elements";
    /// Prefix sum, prefix max, affine recurrence.
    Scan = "scan", "elements";
    /// Matrix product (GEMM).
    Matmul = "matmul", "multiply-adds";
    /// Batched matrix product.
    BatchMatmul = "batch-matmul", "multiply-adds";
    /// Matrix transpose.
    Transpose = "transpose", "elements";
    /// Gather by index.
    Gather = "gather", "elements";
    /// Sort and argsort.
    Sort = "sort", "elements";
    /// Top-k and bottom-k.
    TopK = "top-k", "elements";
    /// Uniform random numbers.
    Uniform = "uniform", "elements";
    /// Normal random numbers.
    Normal = "normal", "elements";
    /// Histogram.
    Histogram = "histogram", "elements";
    /// Runge-Kutta steps of an ODE.
    Rk4 = "rk4", "weighted steps";
    /// User-supplied kernel; each has its own cost curve under its name.
    Custom = "custom", "elements";
}

impl OpKind {
    /// Index into per-kind tables.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<OpKind> {
        OpKind::ALL.iter().copied().find(|k| k.name() == name)
    }
}

/// Cost of the computation itself, independent of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct OpCost {
    /// Size on the cost curve of its kind; what is counted depends on the kind ([`OpKind::unit`]).
    pub units: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read by the computation itself.
    pub read: Bytes,
    /// Bytes written by it.
    pub written: Bytes,
    /// Dispatches on a device.
    pub launches: u32,
    /// Dispatches on the critical path; the others could overlap.
    pub depth: u32,
}

/// Cost plus transfers: all that a routing decision looks at. `Copy` and small, so that passing it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Selects the cost curve.
    pub kind: OpKind,
    /// The computation.
    #[serde(rename = "effort")]
    pub cost: OpCost,
    /// Input bytes to upload to a device: those not resident there.
    #[serde(rename = "up")]
    pub upload: Bytes,
    /// Result bytes to download from a device; zero when the result is kept there.
    #[serde(rename = "down")]
    pub download: Bytes,
    /// Input bytes resident only on a device: the CPU has to read them back first.
    #[serde(rename = "home")]
    pub input_readback: Bytes,
    /// The largest single buffer.
    #[serde(rename = "largest")]
    pub largest_buffer: Bytes,
    /// Can it be partitioned?
    pub splittable: bool,
}

impl Work {
    /// Work of an operation whose result is kept on the device (`keep_on_device`) or downloaded.
    pub fn of(op: &dyn Op, keep_on_device: bool) -> Result<Work, OpError> {
        let size = |spec: &TensorSpec| spec.size().unwrap_or(Bytes(u64::MAX));
        let outputs = op.outputs()?;
        let written: Bytes = outputs.iter().map(size).sum();
        let (mut upload, mut input_readback) = (Bytes::ZERO, Bytes::ZERO);
        let mut largest_buffer = outputs.iter().map(size).max().unwrap_or(Bytes::ZERO);
        for tensor in op.inputs() {
            let bytes = size(tensor.spec());
            largest_buffer = largest_buffer.max(bytes);
            match tensor.residency() {
                Residency::Host => upload += bytes,
                Residency::Device => input_readback += bytes,
                Residency::Both => {}
                Residency::Evicted => (upload, input_readback) = (upload + bytes, input_readback + bytes),
            }
        }
        let download = if keep_on_device { Bytes::ZERO } else { written };
        let splittable = op.items().is_some_and(|i| i.count > i.grain);
        Ok(Work {
            kind: op.kind(),
            cost: op.cost(),
            upload,
            download,
            input_readback,
            largest_buffer,
            splittable,
        })
    }
}

/// Elements of a tensor.
pub fn elements(tensor: &Tensor) -> u64 {
    count(&tensor.spec().shape)
}

/// Elements of a shape; saturates.
pub fn count(shape: &[usize]) -> u64 {
    shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64))
}
