//! Tensor operations, each with a CPU path and a recorded device path.
//!
//! ```text
//!   ops::matmul(&a, &b)            plain data: which operation, on which tensors
//!        │ outputs()               checks dtypes and shapes; errors show both sides
//!        ├─ cost()                 FLOPs, bytes, dispatches (`OpCost`); with transfers, the `Work` a router looks at
//!        ├─ cpu(inputs, outputs)   CPU path: Rust over slices, SIMD and threads where they pay
//!        ├─ record(plan, slots)    device path: appends dispatches; each kernel has a CPU reference for engines without hardware
//!        ├─ part(items) · join     partitioning: for operations too large for a device, or spread over several
//!        └─ fuse(group)            horizontal fusion: many small operations become one dispatch
//! ```
//! One stem per operation: `src/x.rs`, `shader/x.wgsl`, `tests/x.rs`. Which backend is faster is not decided here: an
//! operation only states its cost ([`Op::cost`]); `gpuforge-route` measures and decides.
//!
//! **Non-finite numbers.** A shader compiler may assume that all floats are finite, so no kernel here tests for NaN by comparing
//! floats: where an operation promises something about NaN or infinity, it looks at the bits. Each operation's file states its
//! rule, and its test forces it.
//!
//! | file | what is in it |
//! |---|---|
//! | `op.rs` | the [`Op`] trait, [`Threads`], partitioning and fusion |
//! | `cost.rs` | [`OpKind`], [`OpCost`] (FLOPs, bytes), [`Work`] (cost and transfers) |
//! | `record.rs` | kernel variants and tuning, workgroup grids, an operation as a whole plan |
//! | `registry.rs` | every operation with an example: calibration, `gpuforge route` and the benchmarks read it |
//! | `view.rs` · `error.rs` | zero-copy typed views of byte buffers; errors |
//! | `expr.rs` · `expr/*` | element-wise expressions: DAG with CSE and constant folding, parser, block interpreter, SIMD, WGSL codegen |
//! | `map.rs` · `rk4.rs` | fused element-wise kernels; Runge-Kutta steps of ODEs |
//! | `matmul.rs` · `matmul/kernel.rs` | GEMM, single and batched; generated tiled shaders |
//! | `reduce.rs` · `reduce/*` | sum, mean, norm (pairwise summation), min, max, argmin, argmax |
//! | `scan.rs` · `scan/*` | prefix sum, prefix max, affine recurrence (reduce-then-scan) |
//! | `sort.rs` · `sort/*` · `topk.rs` · `topk/*` | radix sort and argsort; top-k by radix select |
//! | `histogram.rs` · `gather.rs` · `transpose.rs` · `xor.rs` | one operation each |
//! | `random.rs` | counter-based RNG (Philox): bits, uniform, normal |
//! | `custom.rs` · `custom/*` | user-supplied WGSL kernels: validation and loop guard |

pub mod cost;
pub mod custom;
pub mod error;
pub mod expr;
pub mod gather;
pub mod histogram;
pub mod map;
pub mod matmul;
pub mod op;
pub mod random;
pub mod record;
pub mod reduce;
pub mod registry;
pub mod rk4;
pub mod scan;
pub mod sort;
pub mod topk;
pub mod transpose;
pub mod view;
pub mod xor;

pub use cost::{OpCost, OpKind, Work};
pub use custom::Custom;
pub use error::OpError;
pub use expr::Expr;
pub use gather::{Gather, gather};
pub use histogram::{Histogram, histogram};
pub use map::{Map, map};
pub use matmul::{Matmul, matmul};
pub use op::{Fused, Op, Threads};
pub use random::{Random, normal, random_bits, uniform};
pub use record::{Target, Tuning, Variant};
pub use reduce::{Reduce, argmax, argmin, max, mean, min, norm, sum};
pub use rk4::{Rk4, rk4};
pub use scan::{Scan, scan_affine, scan_max, scan_sum};
pub use sort::{Sort, argsort, argsort_descending, sort, sort_descending};
pub use topk::{TopK, bottom_k, top_k};
pub use transpose::{Transpose, transpose};
pub use xor::{Xor, xor};
