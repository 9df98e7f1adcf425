//! Device access: the user's preference and a lazy provider of a runner. Nothing is detected or opened before it is needed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use gpuforge_runtime::runner::Runner;

use super::rates_file;
use crate::cost_model::{DeviceChoice, DeviceRates};

/// A device with its driver: measured rates are stored under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceKey {
    /// Name of the device.
    pub name: String,
    /// Version or name of the driver.
    pub driver: Option<String>,
}

/// Finds the device of this machine; the facade implements it over its detection and settings.
pub trait DeviceProvider: Send + Sync {
    /// Does the device that the settings name exist?
    fn check(&self) -> Result<(), String>;

    /// The device that would be used: its runner, not opened, and the key of its rates.
    fn find(&self) -> Result<(Arc<Runner>, Option<DeviceKey>), String>;
}

/// The requested device, and how it is reached.
pub struct DeviceAccess {
    pub(super) asked: DeviceChoice,
    pub(super) setting: DeviceChoice,
    source: Source,
    /// Device memory limit in bytes.
    pub(super) memory: Option<u64>,
    /// Where measured rates are stored.
    pub(super) rates_file: Option<PathBuf>,
    pub(super) rates: Option<DeviceRates>,
    pub(super) cpu_per_bar: Option<f64>,
}

enum Source {
    CpuOnly,
    Provider(Box<dyn DeviceProvider>),
    Runner(Arc<Runner>),
}

impl DeviceAccess {
    /// The CPU, whatever devices there are.
    pub fn cpu() -> Self {
        DeviceAccess::new(DeviceChoice::Cpu, Source::CpuOnly)
    }

    /// The device of a provider. `asked` is the command's choice, `setting` that of the settings.
    pub fn provided(provider: Box<dyn DeviceProvider>, asked: DeviceChoice, setting: DeviceChoice) -> Self {
        DeviceAccess { setting, ..DeviceAccess::new(asked, Source::Provider(provider)) }
    }

    /// An existing runner.
    pub fn over(runner: Arc<Runner>, asked: DeviceChoice) -> Self {
        DeviceAccess::new(asked, Source::Runner(runner))
    }

    /// Limits device memory.
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        DeviceAccess { memory: Some(bytes), ..self }
    }

    /// Keeps measured rates in this directory.
    pub fn with_rates_in(self, directory: &Path) -> Self {
        DeviceAccess { rates_file: Some(directory.join(rates_file::NAME)), ..self }
    }

    /// Uses these rates instead of calibrating; `cpu_per_bar` are seconds.
    pub fn with_rates(self, rates: DeviceRates, cpu_per_bar: f64) -> Self {
        DeviceAccess { rates: Some(rates), cpu_per_bar: Some(cpu_per_bar), ..self }
    }

    fn new(asked: DeviceChoice, source: Source) -> Self {
        DeviceAccess {
            asked,
            setting: DeviceChoice::Auto,
            source,
            memory: None,
            rates_file: None,
            rates: None,
            cpu_per_bar: None,
        }
    }

    /// Does the device that the settings name exist? Detects nothing where the CPU is asked for or no device is named.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.source {
            Source::Provider(provider)
                if self.asked != DeviceChoice::Cpu && self.setting == DeviceChoice::Gpu =>
            {
                provider.check()
            }
            _ => Ok(()),
        }
    }

    /// The device that would be used and the key of its rates; opens nothing.
    pub(super) fn find(&self) -> Result<(Arc<Runner>, Option<DeviceKey>), String> {
        match &self.source {
            Source::CpuOnly => Err("the CPU was asked for".to_owned()),
            Source::Runner(runner) => Ok((runner.clone(), None)),
            Source::Provider(provider) => provider.find(),
        }
    }
}
