//! Which environment fits this machine, what is wrong with it, and what does this log mean?
//!
//! `compat` and `profiles` choose framework wheels for a machine and `render` writes them as files; `doctor` runs checks over
//! a [`doctor`] view of the system; `explain` reads a log and names one root cause. All knowledge is in `data/*.toml`.

pub mod compat;
pub mod data;
pub mod doctor;
pub mod explain;
pub mod profiles;
pub mod render;
