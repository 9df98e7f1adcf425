//! JIT compiler: runs of simple steps become fused loops in machine code when a plan is first run.
//!
//! ```text
//!   steps ──► segments: kernels, or simple steps that fuse           partition.rs, fusable.rs, liveness.rs
//!         ──► IR: SSA values, streams, constants, states             ir.rs, ir/
//!         ──► verified                                               verify.rs
//!         ──► registers                                              regalloc.rs
//!         ──► machine code: x86-64 (AVX2), AArch64 (NEON)            target.rs, x64.rs, x64/, aarch64.rs, aarch64/
//!         ──► executable pages (W^X)                                 exec_memory.rs
//!   JitProgram::run(fused loop, argument block)                      fused_loop.rs, args.rs, masked.rs
//!   what was compiled, what was not and why                          stats.rs, guard.rs, switch.rs, error.rs
//!   tests                                                            golden.rs, tests.rs, differential.rs, ir/{interpret,random,decode}.rs
//! ```
//! Intermediate values of a loop stay in registers; only what others read is stored. The kernels remain: they compute what is
//! not simple, the warm-up of everything, and the whole plan where the JIT is unavailable (another CPU, a system that forbids
//! executable memory) or was rejected by a check ([`guard`]). Both do the same IEEE operations in the same order, so that
//! results are bit-identical; tests compare them for the whole catalogue.
//!
//! Every step returns a `Result`: an index out of range, a displacement that does not fit, a constant that is not in the table
//! is an error, never a number. [`JitProgram::compile`] handles it once. `GPUFORGE_JIT=off|on|require` is the switch
//! ([`switch::JitSwitch`]): `require` turns every fallback into a panic, so that a test run cannot pass without the JIT.
//!
//! Both encoders are our own. Not chosen: `dynasmrt` 5.1 and `iced-x86` 1.22's assembler. Measured on two EPYC cores, release
//! profile, 200 000 instructions of this kind: `dynasmrt` adds 9.3 CPU-seconds to a build from nothing and encodes in 2.5 ns an
//! instruction, `iced-x86` 13.1 seconds and 322 ns (x86 only). The emitters need some forty instructions of a target, each a
//! pattern and register numbers, so speed decides nothing; a general assembler would add a procedural macro or large opcode
//! tables to every build, and errors at run time that we would have to map to ours anyway. What a library has and we lacked is tables
//! that somebody else checked, so tests disassemble what we emit with theirs (`golden.rs`: `iced-x86`, binutils), and run random
//! IR through machine code and through an interpreter (`tests.rs`).

#[cfg(any(target_arch = "aarch64", test))]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "its encoder is tested on every target"))]
mod aarch64;
mod args;
#[cfg(any(test, fuzzing))]
#[allow(clippy::indexing_slicing, reason = "of tests and fuzzing: a wrong index is a finding")]
pub(crate) mod differential;
mod error;
mod exec_memory;
mod fusable;
mod fused_loop;
#[cfg(test)]
mod golden;
pub(crate) mod guard;
mod ir;
mod liveness;
mod masked;
mod partition;
mod regalloc;
pub(crate) mod stats;
pub(crate) mod switch;
mod target;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]
mod tests;
mod verify;
#[cfg(any(not(target_arch = "aarch64"), test))]
#[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "its encoder is tested on every target"))]
mod x64;

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use args::{ARG_STREAMS, JitArgs, StateSlot};
use error::JitError;
use exec_memory::{CodeBuffer, CodePages, EntryPoint};
pub(crate) use fused_loop::{ColumnLoop, FusedLoop};
use guard::SelfCheckState;
use ir::Builder;
use partition::RecurrenceMode;
pub(crate) use partition::{MAX_FUSED_STEPS, Segment};
use stats::{Compiled, NotCompiled};
use switch::JitSwitch;
pub(crate) use target::MAX_ROUND_BARS;
use verify::IrError;

use crate::{
    exec::LANES,
    graph::NodeOp,
    kernel::transpose::StoreMode,
    plan::{BufferSlot, ExecPlan, Step},
};

/// Steps whose loop takes about as long as the memory latency of a cache line.
const STEPS_PER_PREFETCH: usize = 4;
/// Bytes of a bar of eight series.
const ROW_BYTES: usize = LANES * size_of::<f64>();
/// Bars of an iteration of a loop along time.
pub(crate) const ITERATION_BARS: usize = 8;

/// The segments of a plan and the machine code of its fused loops.
#[derive(Debug)]
pub(crate) struct JitProgram {
    pub(crate) segments: Vec<Segment>,
    loops: Vec<FusedLoop>,
    /// The whole plan as one loop from columns to columns.
    column_loop: Option<ColumnLoop>,
    code: CodePages,
    /// The bar from which on all of its loops hold: the warm-up is over.
    steady_from: usize,
    /// Faster forms that it could not have.
    declined: Vec<&'static str>,
    compile_time: Duration,
    pub(crate) self_check: SelfCheckState,
}

impl JitProgram {
    /// The code of a plan, or why there is none. What should have been compiled and was not is recorded.
    pub(crate) fn compile(plan: &ExecPlan, lanes: usize, relaxed_fp: bool) -> Compiled {
        if JitSwitch::from_env() == JitSwitch::Off {
            return Err(NotCompiled::SwitchedOff);
        }
        if !target::is_supported() {
            if JitSwitch::from_env() == JitSwitch::Require {
                guard::record(NotCompiled::UnsupportedCpu.to_string());
            }
            return Err(NotCompiled::UnsupportedCpu);
        }
        match JitProgram::build(plan, lanes, relaxed_fp) {
            Ok(Some(program)) => Ok(Arc::new(program)),
            Ok(None) => Err(NotCompiled::NothingToFuse),
            Err(error) => {
                let reason = format!("a plan of {} steps was not compiled: {error}", plan.steps.len());
                guard::record(reason.clone());
                Err(NotCompiled::Rejected(reason))
            }
        }
    }

    /// `None` where there is nothing to fuse.
    fn build(plan: &ExecPlan, lanes: usize, relaxed_fp: bool) -> Result<Option<JitProgram>, JitError> {
        let begun = Instant::now();
        let mut declined = Vec::new();
        let mode = match relaxed_fp && lanes == 1 {
            true if target::has_scans() => RecurrenceMode::Scanned,
            true => {
                declined
                    .push("prefix scans are not emitted on this target: recurrences are kernels, in chunks");
                RecurrenceMode::Chunked
            }
            false => RecurrenceMode::Sequential,
        };
        let segments = partition::partition(&plan.steps, lanes, mode);
        let constants: HashMap<usize, f64> = plan.constants.iter().map(|(x, p)| (p.buffer, *x)).collect();
        let outputs: HashSet<usize> = plan.outputs.iter().map(|p| p.buffer).collect();
        let mut predicates = HashSet::new();
        // The longest loop prefetches bars of the next block while it runs.
        let Some(longest) = segments.iter().filter_map(Segment::fused_len).max() else { return Ok(None) };
        let mut to_prefetch =
            if lanes > 1 { longest.div_ceil(STEPS_PER_PREFETCH).min(plan.fields.len()) } else { 0 };
        let (mut loops, mut code, mut column_loop) = (Vec::new(), CodeBuffer::default(), None);
        for segment in &segments {
            if let Segment::Fused { steps, .. } = segment {
                let exported = liveness::exports(plan, steps.clone(), &outputs);
                let is_exported = |at: usize, slot: BufferSlot| {
                    (slot.history > 0 && liveness::is_read_with_lag(plan, slot.buffer))
                        || exported.contains(&(at, slot.buffer))
                        || outputs.contains(&slot.buffer)
                };
                let mut builder = Builder::new(&is_exported, &predicates, &constants, mode);
                for (at, step) in steps.clone().zip(steps_of(plan, steps)?) {
                    builder.step(at, step)?;
                }
                let ir = builder.finish()?;
                let nontemporal: Vec<bool> = ir
                    .streams
                    .iter()
                    .map(|(b, _)| liveness::is_write_only_result(plan, steps, *b, lanes))
                    .collect();
                let prefetch = if steps.len() == longest { std::mem::take(&mut to_prefetch) } else { 0 };
                let of_ir = (&ir, nontemporal, prefetch);
                loops.push(FusedLoop::new(plan, steps.clone(), of_ir, lanes, &mut code)?);
                if lanes == LANES && segments.len() == 1 {
                    let made = ColumnLoop::new(plan, &ir, &mut code)?;
                    column_loop = made.map_err(|why| declined.push(why)).ok();
                }
            }
            let (Segment::Fused { steps, .. } | Segment::Kernels(steps)) = segment;
            for step in steps_of(plan, steps)? {
                for slot in &step.outputs {
                    if fusable::is_predicate(&step.op) {
                        predicates.insert(slot.buffer);
                    } else {
                        predicates.remove(&slot.buffer);
                    }
                }
            }
        }
        let code = code.finish()?;
        let Some(steady_from) = loops.iter().map(|l| l.steady_from).max() else { return Ok(None) };
        Ok(Some(JitProgram {
            segments,
            loops,
            column_loop,
            code,
            steady_from,
            declined,
            compile_time: begun.elapsed(),
            self_check: SelfCheckState::default(),
        }))
    }

    /// Columns of bars that its loops prefetch while they run, of batched series.
    pub(crate) fn prefetched_columns(&self) -> usize {
        self.loops.iter().map(|l| l.prefetch).sum()
    }

    /// Is the whole plan one fused loop?
    pub(crate) fn is_single_loop(&self) -> bool {
        matches!(self.segments.as_slice(), [Segment::Fused { .. }])
    }

    /// The bar from which on all of its loops hold: the warm-up is over.
    pub(crate) fn steady_from(&self) -> usize {
        self.steady_from
    }

    pub(crate) fn fused_loop(&self, index: usize) -> Option<&FusedLoop> {
        self.loops.get(index)
    }

    /// The whole plan as one loop from columns to columns of eight series, if it is that simple.
    pub(crate) fn column_loop(&self) -> Option<(&ColumnLoop, &FusedLoop)> {
        self.column_loop.as_ref().zip(self.loops.first())
    }

    /// Runs the column loop over some bars, whole rounds of them.
    ///
    /// # Safety
    /// The argument block has what `run` needs, with [`MAX_ROUND_BARS`] bars of streams that do not advance, and after that
    /// eight pointers for every field that is read and for every output, each valid for `bars` bars and, with non-temporal
    /// stores, aligned to a cache line.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn run_columns(
        &self,
        columns: &ColumnLoop,
        fused: &FusedLoop,
        args: &mut JitArgs,
        bars: usize,
        store: StoreMode,
    ) {
        fused.set_args(args);
        let entry = if store == StoreMode::NonTemporal { columns.nontemporal } else { columns.cached };
        // SAFETY: the caller promises the table and its columns; the entry point is of this program's column loop.
        unsafe { self.code.call(entry, &args.table, bars * size_of::<f64>()) };
    }

    /// Runs a fused loop over some bars: whole iterations, if it has prefix scans.
    ///
    /// # Safety
    /// The argument block has a valid pointer for every stream, from as far back as the loop reads it to `bars` bars on, and
    /// nothing else accesses those that are written.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn run(
        &self,
        fused: &FusedLoop,
        args: &mut JitArgs,
        bars: usize,
        lanes: usize,
        store: StoreMode,
    ) {
        fused.set_args(args);
        let nontemporal = fused.simd_nontemporal.filter(|_| store == StoreMode::NonTemporal);
        if let Some(entry) = nontemporal.filter(|_| fused.prefetch > 0) {
            // SAFETY: the caller promises the table and its streams; the entry point is of this program's loop.
            return unsafe { self.run_prefetching(entry, fused, args, bars) };
        }
        let simd_bars = if lanes == 1 { bars / ITERATION_BARS * ITERATION_BARS } else { bars };
        let nontemporal = nontemporal.filter(|_| fused.is_aligned(args));
        let done = match nontemporal.or(fused.simd) {
            Some(entry) if simd_bars > 0 => {
                // SAFETY: the caller promises the table and its streams for `bars`, which `simd_bars` does not exceed; the
                // entry point is of this program's loop.
                unsafe { self.code.call(entry, &args.table, simd_bars * lanes * 8) };
                simd_bars
            }
            _ => 0,
        };
        if let Some(entry) = fused.scalar.filter(|_| done < bars) {
            args.advance(done);
            // SAFETY: the caller promises the streams for `bars`; the pointers were advanced by `done` and `bars - done` are
            // left; the entry point is of this program's loop.
            unsafe { self.code.call(entry, &args.table, (bars - done) * 8) };
        }
    }

    /// The same for eight series, in eight calls: each prefetches one lane's next bars.
    ///
    /// # Safety
    /// The argument block has a valid pointer for every stream, from as far back as the loop reads it to `bars` bars on, and
    /// nothing else accesses those that are written.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    unsafe fn run_prefetching(&self, entry: EntryPoint, fused: &FusedLoop, args: &mut JitArgs, bars: usize) {
        let each = bars.div_ceil(LANES).max(1);
        let streams = ARG_STREAMS + fused.streams.len();
        for (lane, from) in (0..bars).step_by(each).enumerate() {
            args.table.truncate(streams);
            let lanes = args.prefetch.chunks_exact(LANES).take(fused.prefetch);
            args.table.extend(lanes.map(|l| l.get(lane).map_or(std::ptr::null_mut(), |p| p.cast_mut())));
            args.table.resize(streams + fused.prefetch, std::ptr::null_mut());
            let bars = each.min(bars - from);
            // SAFETY: the caller promises the streams for `bars`, of which these are the next; what is after the streams is
            // only prefetched, which no address forbids; the entry point is of this program's loop.
            unsafe { self.code.call(entry, &args.table, bars * ROW_BYTES) };
            for pointer in args.table.iter_mut().take(streams).skip(ARG_STREAMS) {
                *pointer = pointer.wrapping_add(bars * LANES);
            }
        }
    }
}

/// Can a plan be one loop from columns to columns on this target?
#[cfg(test)]
pub(crate) fn has_column_loops() -> bool {
    target::MAX_ADVANCING.is_some()
}

/// The steps of a segment.
fn steps_of<'p>(plan: &'p ExecPlan, steps: &Range<usize>) -> Result<&'p [Step], IrError> {
    plan.steps.get(steps.clone()).ok_or(IrError::Missing { what: "step", at: steps.end })
}

/// Is it a recurrence that a fused loop can compute?
pub(crate) fn is_recurrence(op: &NodeOp) -> bool {
    fusable::is_recurrence(op)
}

/// Can it be a prefix scan over several bars at once, on this CPU?
pub(crate) fn is_scannable(op: &NodeOp) -> bool {
    ir::is_scannable(op) && target::is_supported() && target::has_scans()
}
