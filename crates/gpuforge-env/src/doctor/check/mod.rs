//! Table of doctor checks: one row each; one file per subject.

use super::{Finding, SystemView};

mod clock;
mod container;
mod device_nodes;
mod driver;
mod env_vars;
mod framework;
mod framework_driver;
mod memory;
mod network;
mod python;
mod storage;
mod vulkan;
mod wsl;

pub(super) use env_vars::REPORTED;
pub(super) use framework::installed;

/// A doctor check.
pub struct Check {
    /// Stable id.
    pub id: &'static str,
    /// The question it answers.
    pub asks: &'static str,
    /// The check itself; depends on the view only.
    pub run: fn(&SystemView) -> Finding,
}

/// Every check, causes before consequences.
pub const CHECKS: &[Check] = &[
    Check {
        id: "kernel-module",
        asks: "Does the right kernel module hold each GPU?",
        run: driver::kernel_module,
    },
    Check {
        id: "driver-library",
        asks: "Do NVIDIA's module and libraries fit together?",
        run: driver::driver_library,
    },
    Check {
        id: "driver-answers",
        asks: "Does NVIDIA's driver answer its tool?",
        run: driver::driver_answers,
    },
    Check {
        id: "device-nodes",
        asks: "May this user open the GPU's device nodes?",
        run: device_nodes::device_nodes,
    },
    Check { id: "container", asks: "Does this container see the GPU?", run: container::container },
    Check {
        id: "container-toolkit",
        asks: "Can containers be given the GPU?",
        run: container::container_toolkit,
    },
    Check { id: "wsl", asks: "Does WSL pass the GPU on?", run: wsl::wsl },
    Check { id: "variables", asks: "Do variables hide devices or libraries?", run: env_vars::env_vars },
    Check { id: "vulkan", asks: "Do Vulkan's loader and drivers exist?", run: vulkan::vulkan },
    Check { id: "python-env", asks: "Is the Python environment whole?", run: python::python_env },
    Check {
        id: "framework-build",
        asks: "Were frameworks built for this GPU?",
        run: framework::framework_build,
    },
    Check {
        id: "framework-driver",
        asks: "Do driver and GPU run what they hold?",
        run: framework_driver::framework_driver,
    },
    Check {
        id: "framework-gpu",
        asks: "Do frameworks themselves see the GPU?",
        run: framework::framework_gpu,
    },
    Check { id: "disk", asks: "Is there room for packages?", run: storage::disk },
    Check {
        id: "shared-memory",
        asks: "Is /dev/shm large enough for data loaders?",
        run: storage::shared_memory,
    },
    Check { id: "memory-limit", asks: "Do limits leave enough memory?", run: memory::memory_limit },
    Check { id: "clock", asks: "Is the clock right?", run: clock::clock },
    Check { id: "network", asks: "Can package indexes be reached?", run: network::network },
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
