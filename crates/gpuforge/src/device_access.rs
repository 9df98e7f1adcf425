//! Device access of the indicator executor: resolves `device`, allow and deny lists to the runner of one detected GPU.

use std::sync::Arc;

use gpuforge_indicators_gpu::{DeviceAccess, DeviceChoice, DeviceKey, DeviceProvider};
use gpuforge_runtime::runner::Runner;

use crate::{
    Forge,
    devices::DeviceFilter,
    settings::{Settings, UserPaths},
};

/// The machine's devices by the user's settings; detection runs on first use.
struct ForgeDevices {
    forge: Forge,
    rules: DeviceFilter,
}

impl DeviceProvider for ForgeDevices {
    fn check(&self) -> Result<(), String> {
        self.forge.check_device().map_err(|e| e.to_string())
    }

    fn find(&self) -> Result<(Arc<Runner>, Option<DeviceKey>), String> {
        let ForgeDevices { forge, rules } = self;
        forge.check_device().map_err(|e| e.to_string())?;
        let inventory = forge.inventory()?;
        let first = rules.routable(inventory).into_iter().find_map(|i| Some((i, inventory.gpus.get(i)?)));
        let Some((index, gpu)) = first else { return Err(inventory.best_reason.clone()) };
        let driver = gpu.driver_version.clone().or_else(|| gpu.drivers.first().cloned());
        let key = DeviceKey { name: gpu.display_name().to_owned(), driver };
        // The chosen device shares the forge's runner, so that it is opened once.
        let chosen = inventory.best.as_ref().is_some_and(|b| b.index == index);
        let runner = match chosen {
            true => forge.inner.runner.get().cloned()?,
            false => forge.on_device(index).map_err(|e| e.to_string())?,
        };
        Ok((runner, Some(key)))
    }
}

impl Forge {
    /// How indicators reach a device of this machine, by the user's settings. Nothing is detected or opened before it could
    /// pay.
    pub fn device_access(&self, settings: &Settings, paths: &UserPaths, asked: DeviceChoice) -> DeviceAccess {
        let rules =
            DeviceFilter { allow: settings.devices_allow().to_vec(), deny: settings.devices_deny().to_vec() };
        let setting = match settings.device() {
            _ if settings.cpu_only() => DeviceChoice::Cpu,
            "cpu" => DeviceChoice::Cpu,
            "auto" => DeviceChoice::Auto,
            _ => DeviceChoice::Gpu,
        };
        let provider = ForgeDevices { forge: self.clone(), rules };
        let mut access = DeviceAccess::provided(Box::new(provider), asked, setting);
        if !self.inner.safe_mode {
            access = access.with_rates_in(&paths.data_dir);
        }
        match settings.memory_limit() {
            Some(bytes) => access.with_memory_limit(bytes),
            None => access,
        }
    }
}
