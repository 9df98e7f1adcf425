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
    NoConstant(u8),
    #[error("an instruction has fewer operands than it reads")]
    NoOperand,
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
