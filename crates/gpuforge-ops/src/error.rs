//! What can be wrong with an operation? Each error names the operation and shows both sides.

use gpuforge_runtime::{
    plan::PlanError,
    tensor::{DType, ShapeError},
};

/// Why an operation cannot be done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// Two shapes do not fit each other.
    #[error("{op}: {rule}: {left:?} and {right:?}")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// What has to hold.
        rule: &'static str,
        /// One side.
        left: Vec<usize>,
        /// The other side.
        right: Vec<usize>,
    },
    /// A tensor holds another kind of number.
    #[error("{op}: {what} must be {want:?}, it is {have:?}")]
    Kind {
        /// The operation.
        op: &'static str,
        /// Which tensor.
        what: &'static str,
        /// What it must hold.
        want: DType,
        /// What it holds.
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
        /// How many there may be.
        most: u64,
    },
    /// An expression cannot be read.
    #[error("{message}\n  {text}\n  {:>width$}", "^", width = at + 1)]
    Expression {
        /// What is wrong.
        message: String,
        /// The whole expression.
        text: String,
        /// Where, in characters.
        at: usize,
    },
    /// A kernel of the user's does not compile or may not run here.
    #[error("kernel {name}: {message}")]
    Kernel {
        /// Its name.
        name: String,
        /// What the compiler says, with line and caret.
        message: String,
    },
    /// A function of the user's failed.
    #[error("{op}: {message}")]
    User {
        /// The operation.
        op: String,
        /// Its own words.
        message: String,
    },
    /// Numbers and a shape do not agree.
    #[error(transparent)]
    Tensor(#[from] ShapeError),
    /// It cannot be recorded: a mistake of the operation.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It was called with buffers that do not belong to it: a mistake of the caller.
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
