//! Software Vulkan driver (lavapipe) for tests: found in the ICD directories, or installed by apt-get where allowed.

use crate::{debian, sh};
use anyhow::Result;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// ICD directories of the Vulkan loader on Linux.
const ICD_DIRECTORIES: [&str; 3] =
    ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// Words in a driver file's name or text that mean it computes on the CPU.
const SOFTWARE: [&str; 3] = ["lvp", "lavapipe", "swiftshader"];

/// Variables that replace the ICD directories; the loader reads nothing else when one is set.
const OVERRIDES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// Inputs of the decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VulkanFacts {
    /// Linux, where the loader reads ICD directories.
    pub(crate) linux: bool,
    /// The file of a software driver that the loader will see.
    pub(crate) software: Option<PathBuf>,
    /// The variable that replaces the ICD directories, if one is set.
    pub(crate) overridden: Option<&'static str>,
    /// `--no-install`, `--fast` or `GPUFORGE_NO_INSTALL=1`: the name of what forbids it.
    pub(crate) forbidden: Option<&'static str>,
    /// Is there an apt-get?
    pub(crate) apt: bool,
    /// Are we root?
    pub(crate) root: bool,
    /// Can we become root without being asked for a password?
    pub(crate) sudo: bool,
}

/// What to do, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstallPlan {
    /// Nothing: it is installed.
    Present(PathBuf),
    /// Install, perhaps through `sudo -n`.
    Install { sudo: bool },
    /// Go on without it.
    Skip(String),
}

/// Decides from the facts alone.
pub(crate) fn plan(facts: &VulkanFacts) -> InstallPlan {
    let skip = |why: &str| InstallPlan::Skip(why.to_owned());
    if !facts.linux {
        return skip("not Linux, the system's own drivers are used");
    }
    if let Some(path) = &facts.software {
        return InstallPlan::Present(path.clone());
    }
    if let Some(variable) = facts.overridden {
        return InstallPlan::Skip(format!("{variable} names other Vulkan drivers"));
    }
    if let Some(what) = facts.forbidden {
        return InstallPlan::Skip(format!("no software Vulkan driver, and {what} forbids installing one"));
    }
    if !facts.apt {
        return skip("no software Vulkan driver, and no apt-get to install one with");
    }
    match (facts.root, facts.sudo) {
        (true, _) => InstallPlan::Install { sudo: false },
        (false, true) => InstallPlan::Install { sudo: true },
        (false, false) => skip("no software Vulkan driver, and installing one needs root"),
    }
}

/// The variable that replaces the ICD directories, if one is set.
fn overridden() -> Option<&'static str> {
    OVERRIDES.into_iter().find(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// The file of a software driver that the loader will see.
pub(crate) fn software() -> Option<PathBuf> {
    let files = match overridden().and_then(env::var_os) {
        Some(list) => env::split_paths(&list).collect(),
        None => {
            ICD_DIRECTORIES.iter().flat_map(|directory| json_files(Path::new(directory))).collect::<Vec<_>>()
        }
    };
    files.into_iter().find(|file| cfg!(target_os = "linux") && is_software(file))
}

/// Reads the facts of this machine.
pub(crate) fn facts(no_install: Option<&'static str>) -> VulkanFacts {
    let env_forbids = env::var("GPUFORGE_NO_INSTALL").is_ok_and(|value| value == "1");
    VulkanFacts {
        linux: cfg!(target_os = "linux"),
        software: software(),
        overridden: overridden(),
        forbidden: no_install.or(env_forbids.then_some("GPUFORGE_NO_INSTALL=1")),
        apt: sh::works(Command::new("apt-get").arg("--version")),
        root: sh::capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0"),
        sudo: sh::works(Command::new("sudo").args(["-n", "true"])),
    }
}

/// Installs Debian's package of Mesa's Vulkan drivers (it brings the loader along).
pub(crate) fn install(sudo: bool) -> Result<()> {
    debian::install(&["mesa-vulkan-drivers"], sudo)
}

fn json_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.sort_unstable();
    files
}

/// By the file's name, or by the library its text names. A file that cannot be read is no driver.
fn is_software(file: &Path) -> bool {
    let Ok(text) = fs::read_to_string(file) else { return false };
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let text = text.to_ascii_lowercase();
    SOFTWARE.iter().any(|word| name.contains(word) || text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> VulkanFacts {
        VulkanFacts { linux: true, apt: true, root: true, ..VulkanFacts::default() }
    }

    #[test]
    fn installs_only_where_it_may() {
        let skipped = |facts: VulkanFacts, word: &str| match plan(&facts) {
            InstallPlan::Skip(why) => assert!(why.contains(word), "{why}"),
            other => panic!("{other:?} instead of a skip that mentions {word}"),
        };
        assert_eq!(plan(&bare()), InstallPlan::Install { sudo: false });
        assert_eq!(
            plan(&VulkanFacts { root: false, sudo: true, ..bare() }),
            InstallPlan::Install { sudo: true }
        );
        skipped(VulkanFacts { root: false, ..bare() }, "root");
        skipped(VulkanFacts { apt: false, ..bare() }, "apt-get");
        skipped(VulkanFacts { forbidden: Some("--no-install"), ..bare() }, "--no-install");
        skipped(VulkanFacts { overridden: Some("VK_DRIVER_FILES"), ..bare() }, "VK_DRIVER_FILES");
        skipped(VulkanFacts { linux: false, ..bare() }, "Linux");
    }

    #[test]
    fn what_is_there_is_not_installed_again() {
        let path = PathBuf::from("/x/lvp_icd.json");
        let facts = VulkanFacts { software: Some(path.clone()), forbidden: Some("--no-install"), ..bare() };
        assert_eq!(plan(&facts), InstallPlan::Present(path));
    }

    #[test]
    fn software_drivers_are_known_by_name_or_library() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        assert!(is_software(&file("lvp_icd.x86_64.json", "{}")));
        assert!(is_software(&file("a.json", r#"{"ICD":{"library_path":"libvk_swiftshader.so"}}"#)));
        assert!(!is_software(&file("radeon_icd.json", r#"{"ICD":{"library_path":"libvulkan_radeon.so"}}"#)));
        assert!(!is_software(&directory.path().join("lvp_missing.json")));
        file("notes.txt", "lvp");
        assert_eq!(json_files(directory.path()).len(), 3);
        assert!(json_files(&directory.path().join("missing")).is_empty());
    }
}
