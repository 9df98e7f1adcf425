//! The facade users depend on: operations routed to the fastest backend, the market pipeline, settings, detection, self-test.
//!
//! ```
//! use gpuforge::{Forge, ops, tensor};
//!
//! let forge = Forge::new();
//! let a = tensor(&vec![1f32; 64 * 64], &[64, 64])?;
//! let c = forge.run(ops::matmul(&a, &a))?;
//! println!("on {}, because {}", c.report().backend, c.decision().reason);
//! assert!(c.to_vec::<f32>()?.iter().all(|x| *x == 64.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! The hardware inventory and the default device:
//! ```no_run
//! let env = |name: &str| std::env::var(name).ok();
//! let paths = gpuforge::settings::UserPaths::resolve(&env)?;
//! let settings = gpuforge::settings::Settings::load_lenient(&paths, &env, &[]);
//! let inventory = gpuforge::detect(&settings, &paths, &env);
//! let choice = gpuforge::choice::choose(&inventory);
//! println!("{}: {}", choice.device, choice.reason);
//! # Ok::<(), gpuforge::settings::SettingsError>(())
//! ```
//! GPU libraries are loaded lazily: when work needs a device, or the detection cache misses.
//!
//! ```text
//!   Settings ──► Forge ──► Inventory ──► Runner (plans) ──► device, CPU fallback
//!                  │            └──────► Router (operations) ──► fastest backend
//!                  └──► DeviceAccess ──► market: Reader ──► HybridExecutor ──► Writer
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`forge`] | `Forge`: lazily loaded components, plans, status, metrics |
//! | `routing` | `Forge::run` and `Forge::batch`: router, first-use calibration, custom operations |
//! | `runners` | runner construction: fallback chain, memory budget |
//! | `device_access` | `Forge::device_access`: the indicator executor's device, by settings |
//! | [`devices`] | allow and deny lists over the inventory |
//! | [`choice`] | default device choice, with its reason |
//! | [`detection`] | detection options from the settings, detection cache, pipeline cache directory |
//! | [`market`] | bars to indicators to a file, within a memory limit; data quality checks |
//! | [`chart`] | candlestick charts of bars |
//! | [`settings`] | flags, environment, file and defaults, with origins; atomic edits of the file |
//! | [`selftest`] | self-test of settings, CPU, device, recovery |
//! | [`jit_status`] | whether the indicator JIT works here, for `gpuforge status` |
//! | [`usage`] | usage history for warm-up prediction |
//! | `live` | publishes state to `gpuforge monitor` |

pub mod chart;
pub mod choice;
pub mod detection;
mod device_access;
pub mod devices;
pub mod forge;
pub mod jit_status;
mod live;
pub mod market;
mod routing;
mod runners;
pub mod selftest;
pub mod settings;
pub mod usage;

pub use detection::detect;
pub use forge::Forge;
pub use gpuforge_dash as dash;
pub use gpuforge_detect as hardware;
pub use gpuforge_env as env;
pub use gpuforge_frame as frame;
pub use gpuforge_indicators as indicators;
pub use gpuforge_indicators_gpu as indicators_gpu;
pub use gpuforge_ops as ops;
pub use gpuforge_os as os;
pub use gpuforge_profile as profile;
pub use gpuforge_route as route;
pub use gpuforge_runtime as runtime;
pub use gpuforge_workloads as workloads;

/// A tensor of these values with this shape.
pub fn tensor<T: ops::view::Number>(
    values: &[T],
    shape: &[usize],
) -> Result<runtime::tensor::Tensor, ops::OpError> {
    ops::view::tensor(values, shape, "user")
}
