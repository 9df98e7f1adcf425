//! Table of doctor checks: one row each; one file per subject.

use super::{Finding, SystemView, ViewOs};

mod clock;
mod container;
mod device_nodes;
mod driver;
mod env_vars;
mod framework;
mod framework_driver;
mod macos;
mod memory;
mod network;
mod python;
mod storage;
mod vulkan;
mod windows;
mod wsl;

pub(super) use env_vars::REPORTED;
pub(super) use framework::installed;

/// A doctor check.
pub struct Check {
    /// Stable id.
    pub id: &'static str,
    /// The question it answers.
    pub asks: &'static str,
    /// Systems it applies to; it is skipped on others.
    pub on: &'static [ViewOs],
    /// The check itself; depends on the view only.
    pub run: fn(&SystemView) -> Finding,
}

impl Check {
    /// Runs the check where it applies.
    pub fn judge(&self, view: &SystemView) -> Finding {
        match self.on.contains(&view.os()) {
            true => (self.run)(view),
            false => Finding::skipped("does not apply to this system"),
        }
    }
}

const LINUX: &[ViewOs] = &[ViewOs::Linux];
const WINDOWS: &[ViewOs] = &[ViewOs::Windows];
const MACOS: &[ViewOs] = &[ViewOs::Macos];
const LINUX_OR_WINDOWS: &[ViewOs] = &[ViewOs::Linux, ViewOs::Windows];
const ANY: &[ViewOs] = &[ViewOs::Linux, ViewOs::Windows, ViewOs::Macos];

/// Every check, causes before consequences.
pub const CHECKS: &[Check] = &[
    Check {
        id: "kernel-module",
        asks: "Does the right kernel module hold each GPU?",
        on: LINUX,
        run: driver::kernel_module,
    },
    Check {
        id: "driver-library",
        asks: "Do NVIDIA's module and libraries fit together?",
        on: LINUX,
        run: driver::driver_library,
    },
    Check {
        id: "driver-answers",
        asks: "Does NVIDIA's driver answer its tool?",
        on: LINUX,
        run: driver::driver_answers,
    },
    Check {
        id: "device-nodes",
        asks: "May this user open the GPU's device nodes?",
        on: LINUX,
        run: device_nodes::device_nodes,
    },
    Check { id: "container", asks: "Does this container see the GPU?", on: LINUX, run: container::container },
    Check {
        id: "container-toolkit",
        asks: "Can containers be given the GPU?",
        on: LINUX,
        run: container::container_toolkit,
    },
    Check { id: "wsl", asks: "Does WSL pass the GPU on?", on: LINUX_OR_WINDOWS, run: wsl::wsl },
    Check {
        id: "display-driver",
        asks: "Does each display adapter have its maker's driver?",
        on: WINDOWS,
        run: windows::display_driver,
    },
    Check {
        id: "vc-runtime",
        asks: "Is the Visual C++ runtime there, and new enough?",
        on: WINDOWS,
        run: windows::vc_runtime,
    },
    Check {
        id: "page-file",
        asks: "Is the page file large enough for frameworks?",
        on: WINDOWS,
        run: windows::page_file,
    },
    Check {
        id: "long-paths",
        asks: "Does Windows allow the long paths of packages?",
        on: WINDOWS,
        run: windows::long_paths,
    },
    Check {
        id: "rosetta",
        asks: "Does Python run natively on Apple silicon?",
        on: MACOS,
        run: macos::rosetta,
    },
    Check { id: "metal", asks: "Does Metal list a GPU?", on: MACOS, run: macos::metal },
    Check {
        id: "variables",
        asks: "Do variables hide devices or libraries?",
        on: ANY,
        run: env_vars::env_vars,
    },
    Check { id: "vulkan", asks: "Do Vulkan's loader and drivers exist?", on: LINUX, run: vulkan::vulkan },
    Check { id: "python-env", asks: "Is the Python environment whole?", on: ANY, run: python::python_env },
    Check {
        id: "framework-build",
        asks: "Were frameworks built for this GPU?",
        on: ANY,
        run: framework::framework_build,
    },
    Check {
        id: "framework-driver",
        asks: "Do driver and GPU run what they hold?",
        on: ANY,
        run: framework_driver::framework_driver,
    },
    Check {
        id: "framework-gpu",
        asks: "Do frameworks themselves see the GPU?",
        on: ANY,
        run: framework::framework_gpu,
    },
    Check { id: "disk", asks: "Is there room for packages?", on: ANY, run: storage::disk },
    Check {
        id: "shared-memory",
        asks: "Is /dev/shm large enough for data loaders?",
        on: LINUX,
        run: storage::shared_memory,
    },
    Check {
        id: "memory-limit",
        asks: "Do limits leave enough memory?",
        on: LINUX,
        run: memory::memory_limit,
    },
    Check { id: "clock", asks: "Is the clock right?", on: ANY, run: clock::clock },
    Check { id: "network", asks: "Can package indexes be reached?", on: ANY, run: network::network },
];

/// Decimal gigabytes: `12.0 GB`.
fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// Binary units: `64 MiB`.
fn mib(bytes: u64) -> String {
    match bytes {
        b if b < 1 << 20 => format!("{} KiB", b >> 10),
        b if b < 1 << 30 => format!("{} MiB", b >> 20),
        b => format!("{:.1} GiB", b as f64 / f64::from(1u32 << 30)),
    }
}

/// Numeric components of a version; a non-numeric tail is ignored.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_words() {
        for (at, check) in CHECKS.iter().enumerate() {
            assert!(check.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", check.id);
            assert!(CHECKS.iter().skip(at + 1).all(|c| c.id != check.id), "{} is there twice", check.id);
            assert!(check.asks.ends_with('?'), "{}", check.id);
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("580.95.05") > numbers("580"));
        assert!(numbers("525.60.13") < numbers("1000.1"));
        assert_eq!(numbers("12.x"), [12]);
        assert_eq!([mib(64 << 20), mib(8 << 10), gb(5_000_000_000)], ["64 MiB", "8 KiB", "5.0 GB"]);
    }
}
