//! Where should it run? Measured models of every place, a pure decision with its reason, and work that gets done there.
//!
//! ```text
//!   Op ──► Work (what it computes and moves)
//!             │            Model per place ◄── calibrate (measures each kind at several sizes) ◄── store (file, share)
//!             ▼                 │                                                  ▲
//!          route(work, models, corrections, wish) ──► Decision { place, predicted, reason }
//!                                                        │                         │
//!          Router::run ──► Site (processor or device) ──► Ran ── what it took ──► feedback
//!          Router::batch ── equal shapes fused, shared between places by their speed
//! ```
//! A *place* is the processor (always the first) or a device. A *lane* is a kind of operation, or one custom kernel: each
//! lane has a curve of time over size for every place. `route` reads only plain data: no lock, no allocation.

pub mod batch;
pub mod calibrate;
pub mod chart;
mod chunk;
mod crew;
pub mod curve;
pub mod duty;
pub mod feedback;
pub mod model;
pub mod route;
pub mod router;
mod several;
pub mod share;
pub mod share_out;
pub mod site;
pub mod sizing;
mod spread;
pub mod store;

pub use batch::{BatchOptions, BatchRun, BatchStats, CancelToken, Item};
pub use gpuforge_ops::{Effort, Kind, Work};
pub use model::{Lane, Model};
pub use route::{Decision, Reason, Wish, route};
pub use router::{Options, Ran, Report, RouteError, Router, RouterSettings};
pub use site::{CpuSite, DeviceSite, Site};
