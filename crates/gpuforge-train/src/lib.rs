//! Training on indicator features: what is learned, from what, and whether it is worth anything.
//!
//! ```text
//!   bars ──► data::Dataset ──► data::split (walk-forward, embargo, leak test) ──► run::train ──► card, weights, report
//!              features,            │                                                │
//!              targets              └─► baseline (up, as before, linear)             ├─ table   on the device once, batches by index
//!                                                                                    ├─ model   linear, mlp, tcn, transformer
//!                                                                                    ├─ net     loss, gradient, AdamW
//!                                                                                    └─ fit     epochs, checkpoints, faults
//! ```
//! Tensors, automatic gradients and devices are Burn's; everything that decides what a result means is here.

pub mod baseline;
pub mod bridge;
pub mod card;
pub mod checkpoint;
pub mod data;
pub mod dice;
pub mod error;
pub mod fit;
pub mod importance;
pub mod machine;
pub mod model;
pub mod net;
pub mod report;
pub mod run;
pub mod score;
pub mod setup;
pub mod table;

pub use error::TrainError;
