//! What can be computed? Operations, each with an ordinary fast path on the processor and one recorded for a device.
//!
//! ```text
//!   ops::matmul(&a, &b)            plain data: which operation, on which tensors
//!        │ outputs()               shapes and kinds are checked here; errors show both sides
//!        ├─ cpu(inputs, outputs)   ordinary Rust over slices, never bent into the device's shape
//!        ├─ record(plan, slots)    appends dispatches of kernels; each kernel has a twin for engines without hardware
//!        ├─ part(items) · join     how it is cut when it is too large for a device, or shared between several
//!        └─ fuse(group)            how many small ones become one dispatch
//! ```
//! One stem per operation: `src/x.rs`, `shader/x.wgsl`, `tests/x.rs`. Which place is faster is not asked here: an
//! operation only says what it moves and computes ([`Op::effort`]); `gpuforge-route` measures and decides.
//!
//! **Numbers that are not finite.** A shader may assume that all numbers are finite, so that no kernel here tests for NaN
//! by comparing floats: where an operation promises something about NaN or infinity, it looks at bits. Each operation's
//! file states its rule, and its test forces it.

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
pub mod rk4;
pub mod scan;
pub mod sort;
pub mod table;
pub mod topk;
pub mod transpose;
pub mod view;
pub mod work;
pub mod xor;

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
pub use work::{Effort, Kind, Work};
pub use xor::{Xor, xor};
