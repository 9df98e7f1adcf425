//! Execution options: threads, SIMD level, batching, JIT, non-temporal stores, relaxed floating point.

use crate::kernel::Simd;

/// Execution options of a plan. But for `relaxed_fp`, none of them changes a bit of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecOptions {
    /// Threads; 1 runs on the caller's.
    pub threads: usize,
    /// SIMD level of the kernels.
    pub simd: Simd,
    /// Bars per block, for tests; `None` sizes blocks to L1. With `relaxed_fp` the last digits depend on it, and it is rounded
    /// up to a cache line.
    pub block: Option<usize>,
    /// SIMD across series (batched), or each series by itself? `None` is what the plan's cost model says is faster.
    pub batched: Option<bool>,
    /// May runs of simple steps be JIT-compiled to fused loops? `GPUFORGE_JIT=off` overrides it; see
    /// [`JitSwitch`](super::JitSwitch).
    pub jit: bool,
    /// Are results written with non-temporal (streaming) stores? `None` is from 16 MiB of results on: larger than a cache.
    pub nontemporal_stores: Option<bool>,
    /// Relaxed (reassociated) floating point: twelve digits are enough. Recurrences of a single series become chunks or prefix
    /// scans; several series and streams are always exact. A value depends on the bars up to its own and never on how many
    /// follow: the first `n` results are those of the first `n` bars, bit for bit, a NaN later on included. The exception is a
    /// series whose sums overflow.
    pub relaxed_fp: bool,
    /// Is JIT code compared with the kernels on the first bars that a plan computes? On a mismatch the kernels compute
    /// everything, and [`jit_fallbacks`](super::jit_fallbacks) says so. Costs some hundred bars once per plan.
    pub verify_jit: bool,
    /// For tests: buffers hold signalling NaNs until they are written, in every block.
    pub poison_buffers: bool,
}

impl ExecOptions {
    /// Defaults on this many threads. Starts no thread pool.
    pub fn with_threads(threads: usize) -> ExecOptions {
        ExecOptions {
            threads,
            simd: Simd::detect(),
            block: None,
            batched: None,
            jit: true,
            nontemporal_stores: None,
            relaxed_fp: false,
            verify_jit: true,
            poison_buffers: false,
        }
    }
}

impl Default for ExecOptions {
    fn default() -> Self {
        ExecOptions::with_threads(rayon::current_num_threads())
    }
}
