//! Operation registry: one entry per operation, with an example and calibration sizes. Read by `gpuforge route`, by
//! calibration and by the parity tests.

use std::sync::Arc;

use crate::{Op, OpError, OpKind, xor};

/// Builds an example operation from sizes.
pub type Example = fn(&[usize]) -> Result<Arc<dyn Op>, OpError>;

/// An operation of the registry.
#[derive(Clone, Copy)]
pub struct OpEntry {
    /// Its kind.
    pub kind: OpKind,
    /// One-line description.
    pub what: &'static str,
    /// Meaning of the sizes in `gpuforge route NAME SIZE…`.
    pub sizes: &'static str,
    /// Builds an example from sizes: what calibration runs and what `gpuforge route` asks about. Missing sizes take the value of
    /// the first.
    pub example: Example,
    /// Calibration sizes, ascending.
    pub calibrate: &'static [usize],
}

/// All registered operations.
pub const OPS: &[OpEntry] = &[
    OpEntry {
        kind: OpKind::Xor,
        what: "bytes XOR a repeating key",
        sizes: "BYTES [KEY-BYTES]",
        example: xor::example,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Map,
        what: "element-wise expression, here a*b + c",
        sizes: "ELEMENTS",
        example: crate::map::example,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::MapHeavy,
        what: "element-wise expression with functions, here exp(sin(a))*b",
        sizes: "ELEMENTS",
        example: crate::map::heavy_example,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Rk4,
        what: "Runge-Kutta steps of an ODE, here a damped oscillator",
        sizes: "ELEMENTS [STEPS]",
        example: crate::rk4::example,
        calibrate: &[1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18],
    },
    OpEntry {
        kind: OpKind::Uniform,
        what: "uniform random numbers (Philox)",
        sizes: "ELEMENTS",
        example: crate::random::example_uniform,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Normal,
        what: "normal random numbers (Philox, Box-Muller)",
        sizes: "ELEMENTS",
        example: crate::random::example_normal,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Gather,
        what: "rows by index",
        sizes: "ELEMENTS [ROW-ELEMENTS]",
        example: crate::gather::example,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Matmul,
        what: "one matrix product",
        sizes: "M [K] [N]",
        example: crate::matmul::example,
        calibrate: &[8, 16, 32, 64, 128, 256, 512, 768],
    },
    OpEntry {
        kind: OpKind::BatchMatmul,
        what: "batched product of small square matrices",
        sizes: "BATCH [M]",
        example: crate::matmul::batch_example,
        calibrate: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
    },
    OpEntry {
        kind: OpKind::Transpose,
        what: "matrix transpose",
        sizes: "ROWS [COLUMNS]",
        example: crate::transpose::example,
        calibrate: &[16, 64, 128, 256, 512, 1024, 2048, 4096],
    },
    OpEntry {
        kind: OpKind::Sum,
        what: "sum of all elements, or of each row",
        sizes: "ELEMENTS [ROWS]",
        example: crate::reduce::example_sum,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::MinMax,
        what: "max of all elements, or of each row",
        sizes: "ELEMENTS [ROWS]",
        example: crate::reduce::example_min_max,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Scan,
        what: "prefix sum of a series, or of each row",
        sizes: "ELEMENTS [ROWS]",
        example: crate::scan::example,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Histogram,
        what: "counts per bin",
        sizes: "ELEMENTS [BINS]",
        example: crate::histogram::example,
        calibrate: POINTS,
    },
    OpEntry {
        kind: OpKind::Sort,
        what: "ascending order",
        sizes: "ELEMENTS",
        example: crate::sort::example,
        calibrate: SHORTER,
    },
    OpEntry {
        kind: OpKind::TopK,
        what: "the k largest numbers and their indices",
        sizes: "ELEMENTS [K]",
        example: crate::topk::example,
        calibrate: SHORTER,
    },
];

/// Calibration sizes of most kinds.
const POINTS: &[usize] = &[1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];

/// Calibration sizes of kinds that pass over their elements many times.
const SHORTER: &[usize] = &[1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22];

/// The entry of a kind.
pub fn entry(kind: OpKind) -> Option<&'static OpEntry> {
    OPS.iter().find(|r| r.kind == kind)
}
