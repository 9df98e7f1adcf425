//! Operation errors: each names the operation and shows both sides.

use gpuforge_runtime::{
    plan::PlanError,
    tensor::{DType, ShapeError},
};

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// Incompatible shapes.
    #[error("{op}: {rule}: {left:?} and {right:?}")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// The rule that was violated.
        rule: &'static str,
        /// Left shape.
        left: Vec<usize>,
        /// Right shape.
        right: Vec<usize>,
    },
    /// Wrong dtype.
    #[error("{op}: {what} must be {want:?}, it is {have:?}")]
    DType {
        /// The operation.
        op: &'static str,
        /// Which tensor.
        what: &'static str,
        /// Expected dtype.
        want: DType,
        /// Actual dtype.
        have: DType,
    },
    /// A value is out of range.
    #[error("{op}: {what} is {have}, {limit}")]
    Value {
        /// The operation.
        op: &'static str,
        /// Which value.
        what: &'static str,
        /// What it is.
        have: String,
        /// What it may be.
        limit: &'static str,
    },
    /// More elements than can be addressed.
    #[error("{op}: {elements} elements, at most {most}")]
    TooMany {
        /// The operation.
        op: &'static str,
        /// How many.
        elements: u64,
        /// The limit.
        most: u64,
    },
    /// An expression does not parse.
    #[error("{message}\n  {text}\n  {:>width$}", "^", width = at + 1)]
    Expression {
        /// What is wrong.
        message: String,
        /// The whole expression.
        text: String,
        /// Position, in characters.
        at: usize,
    },
    /// A custom kernel does not compile or may not run here.
    #[error("kernel {name}: {message}")]
    Kernel {
        /// Its name.
        name: String,
        /// The compiler's message, with line and caret.
        message: String,
    },
    /// A user function failed.
    #[error("{op}: {message}")]
    User {
        /// The operation.
        op: String,
        /// Its message.
        message: String,
    },
    /// Data and shape do not match.
    #[error(transparent)]
    Tensor(#[from] ShapeError),
    /// The recorded plan is invalid: a bug of the operation.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Called with the wrong buffers: a bug of the caller.
    #[error("{op}: called with {have} {what}, it has {want}")]
    Call {
        /// The operation.
        op: &'static str,
        /// Inputs, outputs or bytes.
        what: &'static str,
        /// How many there should be.
        want: usize,
        /// How many there are.
        have: usize,
    },
}
