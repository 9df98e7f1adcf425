//! Check `vulkan`: the Vulkan loader, and the driver libraries named by ICD manifests.

use gpuforge_detect::probe::filesystem::FileSystem;

use crate::doctor::{Finding, Status, SystemView, host_facts};

/// ICD manifest directories, besides the user's.
const ICD_DIRS: [&str; 4] = [
    "/etc/vulkan/icd.d",
    "/usr/local/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
];

/// Software drivers.
const SOFTWARE: [&str; 3] = ["lvp", "lavapipe", "swiftshader"];

/// `vulkan`
pub(super) fn vulkan(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    let gpu = facts.has_gpu() || view.exists("/dev/dxg");
    let libraries = host_facts::library_dirs(view);
    let loader = host_facts::has_library(view, &libraries, "libvulkan.so.1");
    let manifests = manifests(view);
    if !loader {
        return match gpu {
            true => Finding::new(Status::Warning, "the Vulkan loader (libvulkan.so.1) is not installed")
                .step("install it: package libvulkan1, vulkan-loader or vulkan-icd-loader"),
            false => Finding::skipped("no Vulkan loader, and no GPU that would need it"),
        };
    }
    let drivers: Vec<(String, Option<String>)> =
        manifests.iter().map(|path| (name(path), missing(view, &libraries, path))).collect();
    let good: Vec<&str> = drivers.iter().filter(|(_, m)| m.is_none()).map(|(n, _)| n.as_str()).collect();
    let software = |name: &&&str| SOFTWARE.iter().any(|s| name.contains(s));
    let bad =
        drivers.iter().filter_map(|(name, missing)| {
            let missing = missing.as_ref()?;
            let found = Finding::new(Status::Warning, format!("{name}: {missing}"));
            Some(found.step(
                "install the driver's package again, or remove the manifest with the package that left it",
            ))
        });
    let status = match (gpu, good.iter().find(|n| !software(n)), good.is_empty()) {
        (true, None, true) => Finding::new(Status::Warning, "the loader is there, and no driver"),
        (true, None, false) => Finding::new(
            Status::Warning,
            format!("only software drivers, which run on the CPU: {}", good.join(", ")),
        ),
        (false, _, true) => Finding::healthy("the loader is there, and no driver"),
        _ => Finding::healthy(format!("the loader and {}", good.join(", "))),
    };
    let status = match status.status {
        Status::Warning => status.step(install(view)),
        _ => status,
    };
    bad.fold(status, Finding::and)
}

fn install(view: &SystemView) -> &'static str {
    match (view.host_facts().nvidia.is_some(), view.host_facts().platform.container.is_some()) {
        (true, true) => "start the container with NVIDIA_DRIVER_CAPABILITIES=all",
        (true, false) => "install the graphics part of NVIDIA's driver (package libnvidia-gl-*)",
        (false, _) => "install mesa-vulkan-drivers (or vulkan-radeon, vulkan-intel)",
    }
}

/// ICD manifests; `VK_DRIVER_FILES` replaces the directories.
fn manifests(view: &SystemView) -> Vec<String> {
    let named = view.env_nonempty("VK_DRIVER_FILES").or_else(|| view.env_nonempty("VK_ICD_FILENAMES"));
    if let Some(list) = named {
        return list.split(':').filter(|f| !f.is_empty()).map(str::to_owned).collect();
    }
    let own = view.home().map(|h| format!("{h}/.local/share/vulkan/icd.d"));
    let added = view.env("XDG_DATA_DIRS").unwrap_or_default().split(':').filter(|d| d.starts_with('/'));
    let added = added.map(|d| format!("{}/vulkan/icd.d", d.trim_end_matches('/')));
    let mut dirs: Vec<String> = own.into_iter().chain(added).chain(ICD_DIRS.map(str::to_owned)).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let in_dir = |dir: &String| {
        let names = view.list(dir).into_iter().filter(|n| n.ends_with(".json"));
        names.map(|n| format!("{dir}/{n}")).collect::<Vec<_>>()
    };
    dirs.iter().flat_map(in_dir).collect()
}

fn name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// What is wrong with a manifest.
fn missing(view: &SystemView, libraries: &[String], path: &str) -> Option<String> {
    let Some(text) = view.read(path) else { return Some("cannot be read".to_owned()) };
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(library) = manifest.get("ICD").and_then(|icd| icd.get("library_path")?.as_str()) else {
        return Some("names no library".to_owned());
    };
    let found = match library {
        absolute if absolute.starts_with('/') => view.exists(absolute),
        // Relative to the manifest.
        relative if relative.contains('/') => {
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
            view.exists(&format!("{dir}/{relative}"))
        }
        name => host_facts::has_library(view, libraries, name),
    };
    (!found).then(|| format!("names {library}, which does not exist"))
}
