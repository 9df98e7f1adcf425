//! Training on indicator features with Burn: datasets without leakage, models, training loop, scores.
//!
//! ```text
//!   bars ─▶ data::Dataset ─▶ data::split (walk-forward, embargo, leak test) ─▶ train::train ─▶ model card, weights, report
//!             features,           │                                              │
//!             targets             └─▶ baseline (up, momentum, ridge)             ├─ device_table   uploaded once, batches by index
//!                                                                                ├─ model          linear, mlp, tcn, transformer
//!                                                                                ├─ net            loss, gradient, AdamW
//!                                                                                └─ fit            epochs, checkpoints, fault recovery
//! ```
//! Tensors, autodiff and devices are Burn's; everything that decides what a result means is here. A model is a list of matrices in
//! one vector, so optimiser step, norm and checkpoint are one operation each. `fit` is a function of a `TrainConfig` and its data:
//! sample order and initial weights come from the seed, a checkpoint holds all the rest. Every byte between host and device
//! passes `device_table.rs`, which counts it.
//!
//! | file | what is in it |
//! |---|---|
//! | `data/*` | bars, recipes, targets; walk-forward split with embargo; the look-ahead test |
//! | `model/*`, `model.rs` | one file per architecture; parameters as one vector |
//! | `net.rs`, `net/*` | loss, precision, AdamW; backward pass with gradient checkpointing; fused MLP gradient on the CPU |
//! | `device_table.rs`, `shared_device.rs`, `resources.rs` | device-resident features; the wgpu device shared with Burn; memory and threads |
//! | `fit.rs`, `fit/*`, `config.rs`, `checkpoint.rs` | the training loop, OOM and device-lost recovery, batch size; what a result depends on; checkpoints |
//! | `train.rs`, `score.rs`, `baseline.rs`, `importance.rs`, `model_card.rs`, `report.rs` | one fold from data to model card; scores; HTML report |

pub mod baseline;
pub mod checkpoint;
pub mod config;
pub mod data;
pub mod device_table;
pub mod error;
pub mod fit;
pub mod importance;
pub mod model;
pub mod model_card;
pub mod net;
pub mod report;
pub mod resources;
pub mod rng;
pub mod score;
pub mod shared_device;
pub mod train;

pub use error::TrainError;
