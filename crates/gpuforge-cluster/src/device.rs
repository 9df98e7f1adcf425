//! The device shared by the tasks of this process, opened by the first that wants it.

use std::sync::OnceLock;

use gpuforge::{
    Forge,
    indicators_gpu::{DeviceAccess, DeviceChoice},
    settings::{Settings, UserPaths},
};

use crate::{compute::parse_device, error::ClusterError, spec::Spec};

/// The runtime of this process; its device is opened once.
static SHARED: OnceLock<Option<(Forge, Settings, UserPaths)>> = OnceLock::new();

/// Device access for a specification; opens nothing.
pub(crate) fn access(spec: &Spec) -> Result<DeviceAccess, ClusterError> {
    let choice = parse_device(&spec.device)?;
    if choice == DeviceChoice::Cpu {
        return Ok(DeviceAccess::cpu());
    }
    let shared = SHARED.get_or_init(|| {
        let env = |name: &str| std::env::var(name).ok();
        let places = UserPaths::resolve(&env).ok()?;
        let settings = Settings::load_lenient(&places, &env, &[]);
        Some((Forge::with(&settings, &places, &env), settings, places))
    });
    match shared {
        Some((forge, settings, places)) => Ok(forge.device_access(settings, places, choice)),
        None => Err(ClusterError::Device(
            "no usable device: there is no home directory\n  hint: set HOME, or gpuforge.device = 'cpu'"
                .to_owned(),
        )),
    }
}
