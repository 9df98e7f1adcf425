//! JIT statistics of a plan: what was compiled so far, and why the rest was not.

use std::{sync::Arc, time::Duration};

use super::{JitProgram, switch};

/// Why the kernels compute a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCompiled {
    /// The switch says so.
    #[error("{variable}=off", variable = switch::VARIABLE)]
    SwitchedOff,
    /// There is no backend for this CPU.
    #[error("no JIT backend for this CPU ({}): it needs AVX2 or AArch64", std::env::consts::ARCH)]
    UnsupportedCpu,
    /// No run of steps would be faster as a loop.
    #[error("no run of steps that a fused loop would speed up")]
    NothingToFuse,
    /// The compiler gave up; a bug, or a system without executable memory.
    #[error("{0}")]
    Rejected(String),
}

/// A plan's code, or why there is none.
pub(crate) type Compiled = Result<Arc<JitProgram>, NotCompiled>;

/// What the JIT made of a plan. A plan is compiled when it is first run, once for each way that it is run in (single series,
/// batched, relaxed floating point): before that, everything is 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JitStats {
    /// Fused loops with machine code.
    pub loops: usize,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Time that compilation took.
    pub compile_time: Duration,
    /// Why a plan, or a faster form of it, was not compiled.
    pub reasons: Vec<String>,
}

impl JitStats {
    /// Adds one way of running the plan.
    pub(crate) fn add(&mut self, way: &str, compiled: &Compiled) {
        match compiled {
            Ok(program) => {
                self.loops += program.loops.len();
                self.code_bytes += program.code.len();
                self.compile_time += program.compile_time;
                self.reasons.extend(program.declined.iter().map(|why| format!("{way}: {why}")));
                if program.self_check.is_faulty() {
                    self.reasons.push(format!("{way}: rejected by the self-check"));
                }
            }
            Err(why) => self.reasons.push(format!("{way}: {why}")),
        }
    }
}
