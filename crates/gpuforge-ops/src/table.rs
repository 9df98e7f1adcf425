//! Which operations are there? One row each: read by `gpuforge route`, by calibrations and by the tests that compare twins.

use std::sync::Arc;

use crate::{Kind, Op, OpError, xor};

/// Makes an operation of some sizes.
pub type Example = fn(&[usize]) -> Result<Arc<dyn Op>, OpError>;

/// A row.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its kind.
    pub kind: Kind,
    /// What it does, in a line.
    pub what: &'static str,
    /// What the sizes of `gpuforge route NAME SIZE…` mean.
    pub sizes: &'static str,
    /// Makes an example from sizes: what calibrations run, and what `gpuforge route` asks about. Missing sizes take the
    /// first one's value.
    pub example: Example,
    /// Sizes that a calibration tries, ascending.
    pub calibrate: &'static [usize],
}

/// Every operation with an example.
pub const OPS: &[Row] = &[
    Row {
        kind: Kind::Xor,
        what: "bytes XOR a repeating key",
        sizes: "BYTES [KEY-BYTES]",
        example: xor::example,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Map,
        what: "element-wise expression, here a*b + c",
        sizes: "ELEMENTS",
        example: crate::map::example,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::MapHeavy,
        what: "element-wise expression with functions, here exp(sin(a))*b",
        sizes: "ELEMENTS",
        example: crate::map::heavy_example,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Rk4,
        what: "steps of a differential equation, here a damped oscillator",
        sizes: "ELEMENTS [STEPS]",
        example: crate::rk4::example,
        calibrate: &[1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18],
    },
    Row {
        kind: Kind::Uniform,
        what: "uniform random numbers (Philox)",
        sizes: "ELEMENTS",
        example: crate::random::example_uniform,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Normal,
        what: "normal random numbers (Philox, Box-Muller)",
        sizes: "ELEMENTS",
        example: crate::random::example_normal,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Gather,
        what: "rows by index",
        sizes: "ELEMENTS [ROW-ELEMENTS]",
        example: crate::gather::example,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Matmul,
        what: "one matrix product",
        sizes: "M [K] [N]",
        example: crate::matmul::example,
        calibrate: &[8, 16, 32, 64, 128, 256, 512, 768],
    },
    Row {
        kind: Kind::BatchMatmul,
        what: "products of many small square matrices",
        sizes: "BATCH [M]",
        example: crate::matmul::batch_example,
        calibrate: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
    },
    Row {
        kind: Kind::Transpose,
        what: "rows to columns",
        sizes: "ROWS [COLUMNS]",
        example: crate::transpose::example,
        calibrate: &[16, 64, 128, 256, 512, 1024, 2048, 4096],
    },
    Row {
        kind: Kind::Sum,
        what: "sum of all elements, or of each row",
        sizes: "ELEMENTS [ROWS]",
        example: crate::reduce::example_sum,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Extreme,
        what: "greatest of all elements, or of each row",
        sizes: "ELEMENTS [ROWS]",
        example: crate::reduce::example_extreme,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Scan,
        what: "running sums of a series, or of each row",
        sizes: "ELEMENTS [ROWS]",
        example: crate::scan::example,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Histogram,
        what: "counts per bin",
        sizes: "ELEMENTS [BINS]",
        example: crate::histogram::example,
        calibrate: POINTS,
    },
    Row {
        kind: Kind::Sort,
        what: "ascending order",
        sizes: "ELEMENTS",
        example: crate::sort::example,
        calibrate: SHORTER,
    },
    Row {
        kind: Kind::TopK,
        what: "the k greatest numbers and where they stand",
        sizes: "ELEMENTS [K]",
        example: crate::topk::example,
        calibrate: SHORTER,
    },
];

/// Sizes that most kinds are tried at.
const POINTS: &[usize] = &[1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];

/// Sizes of kinds that pass over their elements many times.
const SHORTER: &[usize] = &[1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22];

/// The row of a kind.
pub fn row(kind: Kind) -> Option<&'static Row> {
    OPS.iter().find(|r| r.kind == kind)
}
