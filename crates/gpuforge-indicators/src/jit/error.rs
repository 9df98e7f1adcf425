//! JIT errors: why a plan was not compiled. Handled once, by [`super::JitProgram::compile`]: recorded, then the kernels compute.

pub(super) use super::verify::IrError;

/// A fused loop that cannot be emitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EmitError {
    #[error("there is no {what} {at}")]
    Missing { what: &'static str, at: usize },
    #[error("value {0} is neither in a register, nor spilled, nor a load")]
    Lost(usize),
    #[error("{what} {value} does not fit its field of the instruction")]
    Range { what: &'static str, value: usize },
    #[error("every register belongs to the current instruction")]
    OutOfRegisters,
    #[error("constant {0} is missing from the table")]
    #[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "AArch64 has 0 and 1 as immediates"))]
    NoConstant(u8),
    #[error("an instruction has fewer operands than it reads")]
    NoOperand,
    #[error("{0} is not emitted on this target")]
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, reason = "x86-64 emits everything"))]
    Unsupported(&'static str),
    #[error("the function is empty")]
    EmptyFunction,
}

/// Anything that keeps a plan from being compiled.
#[derive(Debug, thiserror::Error)]
pub(super) enum JitError {
    #[error("IR rejected: {0}")]
    Ir(#[from] IrError),
    #[error("not emitted: {0}")]
    Emit(#[from] EmitError),
    #[error("no executable memory: {0}")]
    Memory(#[from] std::io::Error),
}
