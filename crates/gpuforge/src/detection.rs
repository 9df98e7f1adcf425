//! Detection options from the settings: cache, probe timeout, device preference, safe mode.

use std::path::PathBuf;

pub use gpuforge_detect::overrides::UnknownDevice;
use gpuforge_detect::{
    CacheUse, DetectOptions, Inventory, cache::DetectionCache, overrides::is_truthy,
    probe::isolate::Isolation,
};

use crate::settings::{Env, Origin, Settings, UserPaths};

/// Disables every optimisation, for debugging.
pub const SAFE_MODE: &str = "GPUFORGE_SAFE_MODE";

/// Is safe mode on?
pub fn safe_mode(env: Env<'_>) -> bool {
    env(SAFE_MODE).is_some_and(|value| is_truthy(&value))
}

/// The detection cache.
pub fn detection_cache(settings: &Settings, paths: &UserPaths) -> DetectionCache {
    DetectionCache::new(paths.cache_dir.clone(), settings.cache_ttl())
}

/// Directory of the pipeline cache.
pub fn pipeline_cache_dir(paths: &UserPaths) -> PathBuf {
    paths.cache_dir.join("pipelines")
}

/// Files of the pipeline cache and their sizes.
pub fn pipeline_files(paths: &UserPaths) -> Vec<(PathBuf, u64)> {
    let Ok(dir) = std::fs::read_dir(pipeline_cache_dir(paths)) else { return Vec::new() };
    let files =
        dir.flatten().filter_map(|e| Some((e.path(), e.metadata().ok().filter(|m| m.is_file())?.len())));
    files.collect()
}

/// Detection options; probes run in threads unless the caller sets process isolation.
pub fn options(settings: &Settings, paths: &UserPaths, env: Env<'_>) -> DetectOptions {
    let safe = safe_mode(env);
    let mut options = DetectOptions::default();
    if settings.cache_enabled() && !safe {
        options.cache = CacheUse::On(detection_cache(settings, paths));
    }
    options.tier1.deadline = settings.probe_timeout();
    options.tier1.parallel = settings.parallel_probes() && !safe;
    options.tier1.isolation = Isolation::Thread;
    let named = |key: &str| match settings.get(key).ok().map(|r| r.origin.clone()) {
        Some(Origin::Env(variable)) => variable.to_owned(),
        Some(Origin::Flag) => format!("--{}", key.replace('_', "-")),
        _ => format!("setting {key}"),
    };
    if settings.device() != "auto" {
        options.preference = Some((named("device"), settings.device().to_owned()));
    }
    options.cpu_only = settings.cpu_only().then(|| named("cpu_only"));
    options
}

/// Checks that the preferred device exists; pure. The error lists the existing ones.
pub fn check_device(options: &DetectOptions, inventory: &Inventory) -> Result<(), UnknownDevice> {
    let wanted = options.preference.as_ref().map(|(origin, text)| (origin.as_str(), text.as_str()));
    gpuforge_detect::overrides::check_preference(&inventory.gpus, options.cpu_only.is_some(), wanted)
}

/// The inventory of this machine under these settings. Probes run in threads of this process: see
/// [`gpuforge_detect::probe::isolate`] for what that means when a driver crashes, and how to isolate it.
pub fn detect(settings: &Settings, paths: &UserPaths, env: Env<'_>) -> Inventory {
    gpuforge_detect::detect(&options(settings, paths, env), env)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options_for(vars: &[(&str, &str)]) -> DetectOptions {
        let env = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let paths = UserPaths {
            config_file: "absent.toml".into(),
            cache_dir: "cache".into(),
            data_dir: "data".into(),
        };
        options(&Settings::load_lenient(&paths, &env, &[]), &paths, &env)
    }

    #[test]
    fn settings_become_options() {
        let plain = options_for(&[]);
        assert!(matches!(plain.cache, CacheUse::On(_)) && plain.tier1.parallel && plain.preference.is_none());
        let asked = options_for(&[("GPUFORGE_DEVICE", "nvidia"), ("GPUFORGE_CPU_ONLY", "1")]);
        assert_eq!(asked.preference, Some(("GPUFORGE_DEVICE".into(), "nvidia".into())));
        assert_eq!(asked.cpu_only.as_deref(), Some("GPUFORGE_CPU_ONLY"));
    }

    #[test]
    fn missing_preferred_device_is_an_error_naming_its_origin() {
        use gpuforge_detect::model::Gpu;
        let card = Gpu { name: Some("Card 9".into()), ..Gpu::default() };
        let here = Inventory { gpus: vec![card], ..Inventory::default() };
        let asked = |text: &str| check_device(&options_for(&[("GPUFORGE_DEVICE", text)]), &here);
        for text in ["nonsense", "gpu0x", "7", "gpu:1"] {
            let unknown = asked(text).unwrap_err().to_string();
            assert!(unknown.starts_with("GPUFORGE_DEVICE: ") && unknown.contains("0 = Card 9"), "{unknown}");
        }
        for text in ["auto", "CPU", "none", "GPU", "0", "gpu:0", "card"] {
            assert_eq!(asked(text), Ok(()), "{text}");
        }
        assert_eq!(check_device(&options_for(&[]), &here), Ok(()));
        let both = options_for(&[("GPUFORGE_DEVICE", "nonsense"), ("GPUFORGE_CPU_ONLY", "1")]);
        assert_eq!(check_device(&both, &here), Ok(()));
    }

    #[test]
    fn safe_mode_disables_cache_and_parallel_probes() {
        let safe = options_for(&[(SAFE_MODE, "1")]);
        assert_eq!(safe.cache, CacheUse::Off);
        assert!(!safe.tier1.parallel);
    }
}
