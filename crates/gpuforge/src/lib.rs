//! The facade users depend on: operations that run where a measurement says they are fastest, settings, detection, and
//! the choice of device with its reason.
//!
//! ```
//! use gpuforge::{Forge, ops, tensor};
//!
//! let forge = Forge::new();
//! let a = tensor(&vec![1f32; 64 * 64], &[64, 64])?;
//! let c = forge.run(ops::matmul(&a, &a))?;
//! println!("on {}, because {}", c.report().place, c.decision().reason);
//! assert!(c.to_vec::<f32>()?.iter().all(|x| *x == 64.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! What the machine has:
//! ```no_run
//! let env = |name: &str| std::env::var(name).ok();
//! let paths = gpuforge::settings::UserPaths::resolve(&env)?;
//! let settings = gpuforge::settings::Settings::load_lenient(&paths, &env, &[]);
//! let inventory = gpuforge::detect(&settings, &paths, &env);
//! let choice = gpuforge::choice::choose(&inventory);
//! println!("{}: {}", choice.device, choice.reason);
//! # Ok::<(), gpuforge::settings::SettingsError>(())
//! ```
//! Nothing here touches a GPU library before work needs it, or a detection misses its cache.

pub mod chart;
pub mod choice;
pub mod detection;
mod device_access;
pub mod devices;
pub mod forge;
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
pub use gpuforge_profile as profile;
pub use gpuforge_route as route;
pub use gpuforge_runtime as runtime;
pub use gpuforge_workloads as workloads;

/// A tensor of these numbers in this shape.
pub fn tensor<T: ops::view::Number>(
    values: &[T],
    shape: &[usize],
) -> Result<runtime::tensor::Tensor, ops::OpError> {
    ops::view::tensor(values, shape, "user")
}
