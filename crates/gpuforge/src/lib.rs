//! The facade users depend on: settings, detection with them, and the choice of device with its reason.
//!
//! ```no_run
//! let env = |name: &str| std::env::var(name).ok();
//! let places = gpuforge::settings::Places::of(&env)?;
//! let settings = gpuforge::settings::Settings::load_lenient(&places, &env, &[]);
//! let inventory = gpuforge::detect(&settings, &places, &env);
//! let choice = gpuforge::choice::choose(&inventory);
//! println!("{}: {}", choice.device, choice.reason);
//! # Ok::<(), gpuforge::settings::SettingsError>(())
//! ```
//! Nothing here touches a GPU library unless a detection misses its cache.

pub mod choice;
pub mod devices;
pub mod forge;
pub mod machine;
pub mod selftest;
pub mod settings;
pub mod usage;

pub use forge::Forge;
pub use forge_detect as hardware;
pub use forge_profile as profile;
pub use forge_runtime as runtime;
pub use machine::detect;
