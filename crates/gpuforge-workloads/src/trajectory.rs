//! Ball trajectories: projectile ODE with drag, lift, spin and wind, integrated with RK4 or Dormand-Prince; one launch or millions.
//!
//! ```text
//!   FlightSetup (ball, air, wind, coefficients, method) ── checked once ──► FlightModel
//!   Launch ── checked, each on its own ──► Start ──┬─ FlightModel::fly, fly_all: lanes of eight launches, threads, f64
//!                                                  ├─ FlightModel::path: every step
//!                                                  └─ Flights (an operation): routed; on a device one launch each, f32
//!                                                        └──► FlightSummary: carry, lateral, apex, time, landing
//! ```
//! **Axes.** `x` along the target line, `y` up, `z` to the right; metres, seconds, kilograms. The ground is `y = 0`.
//!
//! **Forces.** Gravity; drag and lift `½ρAv²·C` with coefficients from a [`Coefficients`] table over the Reynolds number and the
//! spin parameter `rω/v`; the lift is perpendicular to the spin axis and to the relative wind. The spin axis keeps its direction,
//! the spin rate decays exponentially. The wind follows a [`Wind`] shear profile; air density falls with height.
//!
//! **Integration.** Classical Runge-Kutta (RK4) with fixed steps, or the embedded Dormand-Prince pair with adaptive steps (halved a
//! bounded number of times, and doubled). Event detection: a step that crosses an event is repeated up to it, first to the root of
//! its cubic Hermite interpolant, then the rest by a second-order series. Events are the ground and every apex.
//!
//! **Reproducibility.** A launch gives the same bits alone, at any position of any batch, on any number of threads and at any SIMD
//! level: lanes never mix, and no product is contracted to an FMA. A device computes in f32; see [`op`].
//!
//! ```
//! use gpuforge_workloads::trajectory::{Launch, FlightSetup};
//! let model = FlightSetup::default().model()?;
//! let flight = model.fly(&Launch { speed: 70.0, angle: 12.0, spin: 2600.0, ..Launch::default() })?;
//! assert!(flight.carry > 180.0 && flight.apex > 15.0 && flight.lateral.abs() < 1e-9);
//! # Ok::<(), gpuforge_workloads::trajectory::TrajectoryError>(())
//! ```

pub mod air;
pub mod ball;
pub mod coefficients;
pub mod error;
mod event;
mod flight_model;
mod integrator;
pub mod launch;
mod math;
pub mod op;
mod simd_batch;
pub mod wind;

pub use air::Air;
pub use ball::Ball;
pub use coefficients::Coefficients;
pub use error::TrajectoryError;
pub use flight_model::{FlightModel, FlightPoint, FlightSetup, IntegrationMethod};
pub use gpuforge_simd::Simd;
pub use launch::{FlightStatus, FlightSummary, Launch};
pub use op::Flights;
pub use wind::{ShearProfile, Wind};
