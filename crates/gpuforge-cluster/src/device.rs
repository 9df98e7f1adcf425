//! The device shared by the tasks of this process, opened by the first that wants it.

use std::sync::OnceLock;

use gpuforge::{
    Forge,
    indicators_gpu::{DeviceAccess, DeviceChoice},
    settings::{UserPaths, Settings},
};

use crate::{compute::device_choice, error::ClusterError, spec::Spec};

/// The runtime of this process; its device is opened once, whichever task asks.
static SHARED: OnceLock<Option<(Forge, Settings, UserPaths)>> = OnceLock::new();

/// How tasks of a specification reach a device. Touches none.
pub(crate) fn access(spec: &Spec) -> Result<DeviceAccess, ClusterError> {
    let asked = device_choice(&spec.device)?;
    if asked == DeviceChoice::Cpu {
        return Ok(DeviceAccess::cpu());
    }
    let shared = SHARED.get_or_init(|| {
        let env = |name: &str| std::env::var(name).ok();
        let places = UserPaths::resolve(&env).ok()?;
        let settings = Settings::load_lenient(&places, &env, &[]);
        Some((Forge::with(&settings, &places, &env), settings, places))
    });
    match shared {
        Some((forge, settings, places)) => Ok(forge.device_access(settings, places, asked)),
        None => Err(ClusterError::Device(
            "no device can be used: there is no home directory\n  hint: set HOME, or gpuforge.device = 'cpu'"
                .to_owned(),
        )),
    }
}
