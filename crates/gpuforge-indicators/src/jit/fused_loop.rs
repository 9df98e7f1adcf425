//! Fused loops: the compiled functions of a run of steps, their streams, states and constants.

use std::ops::Range;

use super::{
    args::{ARG_CONSTS, ARG_STATES, ARG_STREAMS, ConstVector, JitArgs},
    error::{EmitError, IrError, JitError},
    exec_memory::{CodeBuffer, EntryPoint},
    fusable,
    ir::{self, Ir, overwritten_streams},
    target::{self, ColumnStreams, MAX_ADVANCING, MemoryHints, Width},
    verify,
};
use crate::{
    kernel::transpose::CACHE_LINE,
    plan::{BufferSlot, ExecPlan},
};

/// Steps that are one loop.
#[derive(Debug)]
pub(crate) struct FusedLoop {
    /// The first bar from which on the loop holds: the warm-up of its steps is over.
    pub(crate) steady_from: usize,
    /// The buffer of each stream, how far back it is read, and whether it is written.
    pub(crate) streams: Vec<(usize, usize, bool)>,
    /// The steps whose kernels hold its states, and which of theirs these are.
    pub(crate) states: Vec<(usize, usize)>,
    /// Are its recurrences prefix scans? They do not hold where a state is not finite.
    pub(crate) has_scans: bool,
    /// Streams that it reads and then overwrites, where the loop may have to be undone.
    overwrites: Vec<usize>,
    constants: Vec<ConstVector>,
    /// Which streams are write-only results: candidates for non-temporal stores.
    nontemporal: Vec<bool>,
    /// Columns of bars that it prefetches while it runs.
    pub(super) prefetch: usize,
    /// Entry points: eight doubles per iteration, the same with non-temporal stores and prefetches, one double per iteration.
    pub(super) simd: Option<EntryPoint>,
    pub(super) simd_nontemporal: Option<EntryPoint>,
    pub(super) scalar: Option<EntryPoint>,
    /// Eight bars of which some are masked out: loops of prefix scans have this instead of the one above.
    pub(super) masked: Option<EntryPoint>,
}

/// A plan of eight series that is one loop from columns to columns.
#[derive(Debug)]
pub(crate) struct ColumnLoop {
    /// Which of the plan's fields it reads.
    pub(crate) fields: Vec<usize>,
    /// Entry points: through the caches, and with non-temporal stores.
    pub(super) cached: EntryPoint,
    pub(super) nontemporal: EntryPoint,
}

impl FusedLoop {
    pub(super) fn new(
        plan: &ExecPlan,
        steps: Range<usize>,
        (ir, nontemporal, prefetch): (&Ir, Vec<bool>, usize),
        lanes: usize,
        code: &mut CodeBuffer,
    ) -> Result<FusedLoop, JitError> {
        let mut emit = |ir: &Ir, width: Width, hints: MemoryHints<'_>| {
            code.append(target::emit(ir, width, size_of::<f64>() * lanes, hints)?)
        };
        let sequential = ir.scans.len() < ir.states.len();
        let along_time = lanes == 1 && !sequential && !ir.looks_back;
        let simd = match lanes > 1 || along_time {
            true => Some(emit(ir, Width::Eight, MemoryHints::default())?),
            false => None,
        };
        // 4K aliasing: a lagged load at the same page offset as a pending non-temporal store waits for it.
        let lagged_loads = ir.streams.iter().any(|(_, back)| *back > 0);
        let differs = prefetch > 0 || (nontemporal.contains(&true) && !lagged_loads);
        let hints = MemoryHints { nontemporal: &nontemporal, prefetch };
        let simd_nontemporal = match simd.is_some() && differs {
            true => Some(emit(ir, Width::Eight, hints)?),
            false => None,
        };
        let masked = match ir.scans.is_empty() {
            true => None,
            // The partition does not make any.
            false if !along_time => {
                let what = "a prefix scan in a loop that reads earlier bars of its own results";
                return Err(IrError::Unsupported { what }.into());
            }
            false => {
                let masked = ir::mask_scans(ir);
                verify::verify(&masked)?;
                Some(emit(&masked, Width::Eight, MemoryHints::default())?)
            }
        };
        let scalar = match lanes {
            1 if masked.is_none() => Some(emit(ir, Width::One, MemoryHints::default())?),
            _ => None,
        };
        let own = plan.steps.get(steps.clone()).unwrap_or_default();
        let steady_from = own.iter().map(fusable::steady_from).max();
        let steady_from = steady_from.ok_or(EmitError::Missing { what: "step", at: steps.start })?;
        let written = ir.streams.iter().zip(&ir.written);
        Ok(FusedLoop {
            steady_from,
            streams: written.map(|((buffer, back), written)| (*buffer, *back, *written)).collect(),
            states: ir.states.clone(),
            has_scans: !ir.scans.is_empty(),
            overwrites: if ir.scans.is_empty() { Vec::new() } else { overwritten_streams(ir) },
            constants: ir.consts.iter().map(|c| ConstVector(c.map(f64::from_bits))).collect(),
            nontemporal,
            prefetch,
            simd,
            simd_nontemporal,
            scalar,
            masked,
        })
    }

    /// Its constants and states into the argument block.
    pub(super) fn set_args(&self, args: &mut JitArgs) {
        if let Some(slot) = args.table.get_mut(ARG_CONSTS) {
            *slot = self.constants.as_ptr().cast_mut().cast();
        }
        if let Some(slot) = args.table.get_mut(ARG_STATES) {
            *slot = args.states.as_mut_ptr().cast();
        }
    }

    /// Copies what it is going to overwrite of some bars, and the states.
    ///
    /// # Safety
    /// The argument block has a valid pointer for every stream, for as many bars.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn save_overwritten(&self, args: &mut JitArgs, bars: usize) {
        args.saved.clear();
        args.saved_from.clear();
        args.saved_states.clone_from(&args.states);
        for from in self.overwrites.iter().filter_map(|stream| args.table.get(ARG_STREAMS + stream)) {
            args.saved_from.push(*from);
            // SAFETY: the caller promises that the pointer of every stream is valid for `bars` doubles.
            args.saved.extend_from_slice(unsafe { std::slice::from_raw_parts(*from, bars) });
        }
    }

    /// Are the streams of non-temporal stores aligned to cache lines?
    pub(super) fn is_aligned(&self, args: &JitArgs) -> bool {
        let streams = args.table.iter().skip(ARG_STREAMS).zip(&self.nontemporal).filter(|(_, nt)| **nt);
        streams.into_iter().all(|(pointer, _)| pointer.addr().is_multiple_of(CACHE_LINE))
    }
}

impl ColumnLoop {
    /// The loop, or why there is none: an output is not computed by a step, too many streams advance, or the target has none.
    pub(super) fn new(
        plan: &ExecPlan,
        ir: &Ir,
        code: &mut CodeBuffer,
    ) -> Result<Result<ColumnLoop, &'static str>, EmitError> {
        let streams = match ColumnLoop::streams(plan, ir) {
            Ok(streams) => streams,
            Err(why) => return Ok(Err(why)),
        };
        let (fields, streams) = streams;
        let mut function = |nontemporal: bool| code.append(target::emit_columns(ir, &streams, nontemporal)?);
        let (cached, nontemporal) = (function(false)?, function(true)?);
        Ok(Ok(ColumnLoop { fields, cached, nontemporal }))
    }

    /// The plan's fields that it reads, and its streams.
    fn streams(plan: &ExecPlan, ir: &Ir) -> Result<(Vec<usize>, ColumnStreams), &'static str> {
        let max_advancing =
            MAX_ADVANCING.ok_or("loops from columns to columns are not emitted on this target")?;
        if !plan.leaf_outputs.is_empty() || !plan.whole_series.is_empty() || plan.outputs.is_empty() {
            return Err("no loop from columns to columns: an output is not computed by a step");
        }
        let stream = |slot: &BufferSlot| ir.streams.iter().position(|(buffer, _)| *buffer == slot.buffer);
        let has_history = |buffer: usize| plan.slots().any(|p| p.buffer == buffer && p.history > 0);
        let read = plan.fields.iter().enumerate().filter_map(|(at, (_, slot))| Some((at, stream(slot)?)));
        let (fields, inputs) = read.unzip();
        let results = plan.outputs.iter().map(|p| stream(p).filter(|_| p.lag == 0)).collect::<Option<_>>();
        let results = results.ok_or("no loop from columns to columns: an output is an earlier bar")?;
        let advancing: Vec<bool> = ir.streams.iter().map(|(buffer, _)| has_history(*buffer)).collect();
        if advancing.iter().skip(max_advancing).any(|a| *a) {
            return Err("no loop from columns to columns: too many streams advance");
        }
        Ok((fields, ColumnStreams { inputs, results, advancing }))
    }
}
