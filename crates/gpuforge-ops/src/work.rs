//! How much work is it? Plain figures of an operation, from which a router predicts its time.

use gpuforge_runtime::{
    tensor::{Residency, Spec, Tensor},
    units::Bytes,
};
use serde::{Deserialize, Serialize};

use crate::{Op, OpError};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $name:literal, $unit:literal;)*) => {
        /// What kind of work an operation is. Each kind has a curve of its own in a device's model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Kind { $($(#[doc = $doc])* #[serde(rename = $name)] $kind,)* }

        impl Kind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];
            /// How many there are.
            pub const COUNT: usize = Kind::ALL.len();

            /// Its name, as in `gpuforge route NAME`.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name),* }
            }

            /// What [`Effort::units`] counts.
            pub const fn unit(self) -> &'static str {
                match self { $(Kind::$kind => $unit),* }
            }
        }
    };
}

kinds! {
    /// Element-wise expressions of a few cheap steps: memory decides.
    Map = "map", "elements";
    /// Element-wise expressions with functions such as `exp`: arithmetic decides.
    MapHeavy = "map-heavy", "weighted steps";
    /// Bytes XOR a repeating key.
    Xor = "xor", "bytes";
    /// Sum, mean, norm.
    Sum = "sum", "elements";
    /// Least, greatest, and where.
    Extreme = "extreme", "elements";
    /// Running sums, maxima and affine recurrences.
    Scan = "scan", "elements";
    /// One matrix product.
    Matmul = "matmul", "multiply-adds";
    /// Many products of equal shape.
    BatchMatmul = "batch-matmul", "multiply-adds";
    /// Rows to columns.
    Transpose = "transpose", "elements";
    /// Elements by index.
    Gather = "gather", "elements";
    /// Ascending or descending order.
    Sort = "sort", "elements";
    /// The k greatest or least.
    TopK = "top-k", "elements";
    /// Uniform random numbers.
    Uniform = "uniform", "elements";
    /// Normal random numbers.
    Normal = "normal", "elements";
    /// Counts per bin.
    Histogram = "histogram", "elements";
    /// Steps of a differential equation.
    Rk4 = "rk4", "weighted steps";
    /// Somebody else's kernel; each has a curve of its own under its name.
    Custom = "custom", "elements";
}

impl Kind {
    /// Position in tables.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.name() == name)
    }
}

/// What an operation computes and touches, wherever it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Effort {
    /// Where on its kind's curve it lies; what is counted depends on the kind.
    pub units: u64,
    /// Arithmetic steps.
    pub flops: u64,
    /// Bytes read by the computation itself.
    pub read: Bytes,
    /// Bytes written by it.
    pub written: Bytes,
    /// Dispatches on a device.
    pub launches: u32,
    /// Dispatches that wait for each other; the rest could overlap.
    pub depth: u32,
}

/// An effort and what has to be moved for it: all that a router looks at. Small and plain, so that it is free to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Whose curve.
    pub kind: Kind,
    /// The computation.
    pub effort: Effort,
    /// Bytes that must go to a device first, because they are not there.
    pub up: Bytes,
    /// Bytes of the result that must come back from a device; none when it stays there.
    pub down: Bytes,
    /// Bytes that must come from a device first if the processor does it.
    pub home: Bytes,
    /// The largest single buffer.
    pub largest: Bytes,
    /// Can it be cut into parts?
    pub splittable: bool,
}

impl Work {
    /// The work of an operation whose result stays on the device (`stays`) or is read.
    pub fn of(op: &dyn Op, stays: bool) -> Result<Work, OpError> {
        let size = |spec: &Spec| spec.size().unwrap_or(Bytes(u64::MAX));
        let outputs = op.outputs()?;
        let written: Bytes = outputs.iter().map(size).sum();
        let (mut up, mut home) = (Bytes::ZERO, Bytes::ZERO);
        let mut largest = outputs.iter().map(size).max().unwrap_or(Bytes::ZERO);
        for tensor in op.inputs() {
            let bytes = size(tensor.spec());
            largest = largest.max(bytes);
            match tensor.residency() {
                Residency::Host => up += bytes,
                Residency::Device => home += bytes,
                Residency::Both => {}
                Residency::Nowhere => (up, home) = (up + bytes, home + bytes),
            }
        }
        let down = if stays { Bytes::ZERO } else { written };
        let splittable = op.items().is_some_and(|i| i.count > i.grain);
        Ok(Work { kind: op.kind(), effort: op.effort(), up, down, home, largest, splittable })
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
