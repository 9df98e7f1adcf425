//! How is a device reached, and by what wish? Nothing is detected or opened before somebody asks.

use std::{path::PathBuf, sync::Arc};

use gpuforge_runtime::runner::Runner;

use super::{
    Device,
    cost::Rates,
    measure::{FILE, Key},
};
use crate::{
    Forge,
    devices::DeviceRules,
    settings::{Places, Settings},
};

/// What is asked for, and how a device is reached.
pub struct Access {
    pub(super) asked: Device,
    pub(super) setting: Device,
    source: Source,
    /// The most memory in use on the device.
    pub(super) memory: Option<u64>,
    /// Where measured rates are kept.
    pub(super) file: Option<PathBuf>,
    pub(super) rates: Option<Rates>,
    pub(super) per_bar: Option<f64>,
}

enum Source {
    Nothing,
    Forge(Forge, DeviceRules),
    Runner(Arc<Runner>),
}

impl Access {
    /// The processor, whatever there is.
    pub fn cpu() -> Self {
        Access::new(Device::Cpu, Source::Nothing)
    }

    /// The machine's devices, by the user's settings. Nothing is detected or opened before it could pay.
    pub fn of(forge: &Forge, settings: &Settings, places: &Places, asked: Device) -> Self {
        let devices =
            DeviceRules { allow: settings.devices_allow().to_vec(), deny: settings.devices_deny().to_vec() };
        let setting = match settings.device() {
            _ if settings.cpu_only() => Device::Cpu,
            "cpu" => Device::Cpu,
            "auto" => Device::Auto,
            _ => Device::Gpu,
        };
        let file = (!forge.inner.safe_mode).then(|| places.data_dir.join(FILE));
        let memory = settings.memory_limit();
        Access { setting, memory, file, ..Access::new(asked, Source::Forge(forge.clone(), devices)) }
    }

    /// A device that is at hand.
    pub fn over(runner: Arc<Runner>, asked: Device) -> Self {
        Access::new(asked, Source::Runner(runner))
    }

    /// With the most memory that may be in use on the device.
    pub fn within(self, memory: u64) -> Self {
        Access { memory: Some(memory), ..self }
    }

    /// With rates of the device that need not be measured, and seconds that the processor takes for a bar.
    pub fn at(self, rates: Rates, per_bar: f64) -> Self {
        Access { rates: Some(rates), per_bar: Some(per_bar), ..self }
    }

    fn new(asked: Device, source: Source) -> Self {
        let setting = Device::Auto;
        Access { asked, setting, source, memory: None, file: None, rates: None, per_bar: None }
    }

    /// Is the device there that the settings name? Nothing is detected where the CPU is asked for, or no device is named.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.source {
            Source::Forge(forge, _) if self.asked != Device::Cpu && self.setting == Device::Gpu => {
                forge.check_device().map_err(|e| e.to_string())
            }
            _ => Ok(()),
        }
    }

    /// The device that would be used: its runner, and whose rates count; nothing is opened.
    pub(super) fn find(&self) -> Result<(Arc<Runner>, Option<Key>), String> {
        let (forge, rules) = match &self.source {
            Source::Nothing => return Err("the processor was asked for".to_owned()),
            Source::Runner(runner) => return Ok((runner.clone(), None)),
            Source::Forge(forge, rules) => (forge, rules),
        };
        forge.check_device().map_err(|e| e.to_string())?;
        let inventory = forge.inventory()?;
        let first = rules.routable(inventory).into_iter().find_map(|i| Some((i, inventory.gpus.get(i)?)));
        let Some((index, gpu)) = first else { return Err(inventory.best_reason.clone()) };
        let driver = gpu.driver_version.clone().or_else(|| gpu.drivers.first().cloned());
        let key = Key { name: gpu.display_name().to_owned(), driver };
        // The chosen device is opened once, whoever uses it.
        let chosen = inventory.best.as_ref().is_some_and(|b| b.index == index);
        let runner = match chosen {
            true => forge.inner.runner.get().cloned()?,
            false => forge.on_device(index).map_err(|e| e.to_string())?,
        };
        Ok((runner, Some(key)))
    }
}
