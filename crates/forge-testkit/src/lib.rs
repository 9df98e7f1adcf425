//! How is an engine tested? One suite that every engine runs, kernels whose answers are known bit for bit, and a matrix of
//! every fault at every command.

pub mod conformance;
pub mod kernels;
pub mod matrix;
pub mod plans;
