//! How is an engine tested? One suite that every engine runs, kernels whose answers are known bit for bit, faults at
//! every event of any engine, comparisons with stated tolerances, and a soak that watches what the process holds.

pub mod conformance;
pub mod damage;
pub mod faulty;
pub mod kernels;
pub mod leaks;
pub mod matrix;
pub mod plans;
pub mod sample;
pub mod script;
pub mod soak;
pub mod tolerance;
pub mod trend;
pub mod usage;
pub mod workload;
