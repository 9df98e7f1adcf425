//! Backend interface: what the rest of the JIT asks of a target, and the backend of this build.
//!
//! | a backend has | which is |
//! |---|---|
//! | `is_supported` | may its code run on this CPU? |
//! | `has_scans` | does it emit prefix scans here? |
//! | `emit` | the machine code of a fused loop |
//! | `MAX_ADVANCING`, `emit_columns` | the machine code of a loop from columns to columns |

#[cfg(target_arch = "aarch64")]
use super::aarch64 as backend;
#[cfg(not(target_arch = "aarch64"))]
use super::x64 as backend;

pub(super) use backend::{MAX_ADVANCING, emit, emit_columns, has_scans, is_supported};

/// Bars of a round of a column loop, at most: some cache lines of every series.
pub(crate) const MAX_ROUND_BARS: usize = 32;

/// Doubles per iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One bar of eight series, or eight bars of one.
    Eight,
    /// One bar of one series.
    One,
}

/// Cache hints of a loop.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryHints<'i> {
    /// Streams that are written with non-temporal stores; they are aligned to cache lines.
    pub(super) nontemporal: &'i [bool],
    /// Pointers in the table, after the streams, whose next line is prefetched at every bar.
    pub(super) prefetch: usize,
}

/// Streams of a column loop that are loaded from columns and stored to them.
#[derive(Debug, Clone, Default)]
#[cfg_attr(
    target_arch = "aarch64",
    allow(dead_code, reason = "AArch64 emits no loop from columns to columns")
)]
pub(super) struct ColumnStreams {
    /// Streams that are interleaved from columns of bars.
    pub(super) inputs: Vec<usize>,
    /// Streams that are deinterleaved to results, in the order of the plan's outputs.
    pub(super) results: Vec<usize>,
    /// Which streams are read some bars later and advance; the others reuse the same few rows.
    pub(super) advancing: Vec<bool>,
}
