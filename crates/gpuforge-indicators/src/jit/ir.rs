//! JIT intermediate representation: the body of a fused loop, one bar in SSA form, independent of the target.
//!
//! ```text
//!   steps ──► build.rs   instructions: values are defined once, memory is streams (build_trace.rs: state machines)
//!         ──► passes.rs  dead stores and values, copies before stores, loads into operands
//!         ──► masks.rs   predicates 0/1 into masks
//!   scan.rs   recurrences as prefix scans over eight bars
//!   interpret.rs, random.rs, decode.rs   tests and fuzzing: the plain meaning of the IR, random programs, programs from bytes
//! ```
//! A stream is a column in memory that is read and written bar by bar; a value of some bars ago is read from its stream. A
//! state is a loop-carried value. The IR holds from the bar on at which every step of the loop is warmed up; the kernels
//! compute the bars before.

mod build;
mod build_trace;
#[cfg(any(test, fuzzing))]
pub(super) mod decode;
#[cfg(any(test, fuzzing))]
#[allow(clippy::indexing_slicing, reason = "a test may fail")]
pub(super) mod interpret;
mod masks;
mod passes;
#[cfg(any(test, fuzzing))]
#[cfg_attr(not(test), allow(dead_code, reason = "fuzzing decodes its programs, and takes the numbers"))]
#[allow(clippy::indexing_slicing, reason = "a test may fail")]
pub(super) mod random;
mod scan;

pub(super) use build::Builder;
pub(super) use passes::overwritten_streams;
pub(super) use scan::{EmaPowers, Scan, ScanKind, is_scannable, mask_scans};

use super::partition::RecurrenceMode;
pub(super) use crate::kernel::trace::Compare;

/// A source operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Src {
    /// The result of an instruction.
    Val(usize),
    /// A stream, `lag` bars ago.
    Mem { stream: usize, lag: usize },
    /// A constant of the table.
    Const(usize),
    /// A loop-carried value, as the bar before left it.
    State(usize),
    /// No operand: positions that an opcode does not read. Never a default; the verifier rejects it where one is read.
    None,
}

/// IEEE arithmetic of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arith {
    Add,
    Sub,
    Mul,
    Div,
}

/// Bitwise logic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bitwise {
    And,
    Or,
    Xor,
}

/// Min or max.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinMax {
    Min,
    Max,
}

/// Rounding to an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Down,
    Up,
}

/// What an instruction does with up to three operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    /// `a op b`.
    Arith(Arith),
    /// `a op b`, bit by bit.
    Bitwise(Bitwise),
    /// 1 where the comparison holds, else 0.
    Predicate(Compare),
    /// 1 where both (`And`) or one of them (`Or`) are not 0.
    Logical(Bitwise),
    /// Min or max that is NaN where either operand is.
    NanMinMax(MinMax),
    /// Division that gives 0 where the divisor is 0.
    Div0,
    /// The second operand where the first is not 0, else the third.
    Select,
    /// All bits where the comparison holds, else none.
    Mask(Compare),
    /// The second operand where the first is an all-ones mask, else the third.
    Blend,
    Sqrt,
    Round(Rounding),
    Sign,
    /// A recurrence over eight bars at once: which of the scans.
    Scan(usize),
    /// Names a stream. Nothing is emitted for it: each use reads memory, so nothing may store there in between.
    Load,
    /// A register of its own for what a state or a stream holds now.
    Copy,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Inst {
    Op { to: usize, op: Opcode, from: [Src; 3] },
    Store { stream: usize, val: Src },
    SetState { state: usize, val: Src },
}

/// The body of a fused loop.
#[derive(Debug, Default)]
pub(super) struct Ir {
    pub(super) insts: Vec<Inst>,
    pub(super) vals: usize,
    /// Constants by their bits, a vector each: four times the same, but for those of scans.
    pub(super) consts: Vec<[u64; 4]>,
    /// The buffer of each stream, and how far back it is read.
    pub(super) streams: Vec<(usize, usize)>,
    /// The step whose kernel holds each state, and which of that kernel's states it is.
    pub(super) states: Vec<(usize, usize)>,
    /// Recurrences that are prefix scans along time; where there are any, all states are theirs.
    pub(super) scans: Vec<Scan>,
    /// Which streams are written.
    pub(super) written: Vec<bool>,
    /// Is a stream that is written also read some bars back? Then bars are sequential.
    pub(super) looks_back: bool,
}

impl Ir {
    /// Operands that an opcode reads; `None` for a scan that does not exist.
    pub(super) fn operands(&self, op: Opcode) -> Option<usize> {
        Some(match op {
            Opcode::Sqrt | Opcode::Round(_) | Opcode::Sign | Opcode::Load | Opcode::Copy => 1,
            Opcode::Arith(_)
            | Opcode::Bitwise(_)
            | Opcode::Predicate(_)
            | Opcode::Logical(_)
            | Opcode::NanMinMax(_)
            | Opcode::Div0
            | Opcode::Mask(_) => 2,
            Opcode::Select | Opcode::Blend => 3,
            Opcode::Scan(at) => self.scans.get(at)?.kind.operands(),
        })
    }
}
