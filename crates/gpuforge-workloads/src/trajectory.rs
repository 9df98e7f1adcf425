//! Where does a ball fly? Launches in, landing points or whole paths out: one, or millions at once.
//!
//! ```text
//!   Setup (ball, air, wind, coefficients, method) ── checked once ──► Model
//!   Launch ── checked, each on its own ──► Start ──┬─ Model::fly, fly_all: lanes of eight launches, threads, f64
//!                                                  ├─ Model::path: every step
//!                                                  └─ Flights (an operation): routed; on a device one launch each, f32
//!                                                        └──► Summary: carry, lateral, apex, time, landing
//! ```
//! **Axes.** `x` along the target line, `y` up, `z` to the right; metres, seconds, kilograms. The ground is `y = 0`.
//!
//! **Forces.** Gravity; drag and lift `½ρAv²·C` with coefficients from a [`Coefficients`] table over the Reynolds number and
//! the spin parameter `rω/v`; the lift stands on the spin axis and the air that comes towards the ball. The axis keeps its
//! direction, the rate decays exponentially. The air moves with a [`Wind`] profile and thins out with height.
//!
//! **Methods.** Fixed steps of the classical Runge-Kutta method, or the embedded pair of Dormand and Prince, whose step is
//! halved (a bounded number of times) and doubled. A step that crosses an event is taken again up to the event: first to
//! the root of the step's cubic, then the rest by a series of second order. Events are the ground and every apex.
//!
//! **The same bits.** A launch gives the same result alone, at any place of any batch, on any number of threads and with any
//! instruction set: lanes never mix, and no product is fused with a sum. A device computes in f32; see [`op`].
//!
//! ```
//! use gpuforge_workloads::trajectory::{Launch, Setup};
//! let model = Setup::default().model()?;
//! let flight = model.fly(&Launch { speed: 70.0, angle: 12.0, spin: 2600.0, ..Launch::default() })?;
//! assert!(flight.carry > 180.0 && flight.apex > 15.0 && flight.lateral.abs() < 1e-9);
//! # Ok::<(), gpuforge_workloads::trajectory::TrajectoryError>(())
//! ```

pub mod air;
pub mod ball;
pub mod coefficients;
pub mod error;
mod event;
mod lanes;
pub mod launch;
mod math;
mod model;
pub mod op;
mod step;
pub mod wind;

pub use air::Air;
pub use ball::Ball;
pub use coefficients::Coefficients;
pub use error::TrajectoryError;
pub use gpuforge_simd::Simd;
pub use launch::{Launch, Status, Summary};
pub use model::{Method, Model, Point, Setup};
pub use op::Flights;
pub use wind::{Profile, Wind};
