//! How does work run safely? Plans, engines, memory, recovery.

pub mod engine;
pub mod host;
pub mod kernel;
pub mod lazy;
pub mod memory;
pub mod plan;
pub mod recovery;
pub mod runner;
pub mod session;
pub mod tensor;
pub mod units;
