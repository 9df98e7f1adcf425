//! Which checks are there? One row each; one file per subject.

use super::{Finding, View};

mod clock;
mod container;
mod driver;
mod fit;
mod framework;
mod memory;
mod network;
mod nodes;
mod python;
mod storage;
mod variables;
mod vulkan;
mod wsl;

pub(super) use framework::installed;
pub(super) use variables::SEEN;

/// A question about a machine.
pub struct Check {
    /// Stable name.
    pub id: &'static str,
    /// What it asks.
    pub asks: &'static str,
    /// How it is answered: from the view alone.
    pub run: fn(&View) -> Finding,
}

/// Every check, causes before consequences.
pub const CHECKS: &[Check] = &[
    Check { id: "kernel-module", asks: "Does the right kernel module hold each GPU?", run: driver::module },
    Check {
        id: "driver-library",
        asks: "Do NVIDIA's module and libraries fit together?",
        run: driver::library,
    },
    Check { id: "driver-answers", asks: "Does NVIDIA's driver answer its tool?", run: driver::answers },
    Check { id: "device-nodes", asks: "May this user open the GPU's device nodes?", run: nodes::nodes },
    Check { id: "container", asks: "Does this container see the GPU?", run: container::inside },
    Check { id: "container-toolkit", asks: "Can containers be given the GPU?", run: container::toolkit },
    Check { id: "wsl", asks: "Does WSL pass the GPU on?", run: wsl::wsl },
    Check { id: "variables", asks: "Do variables hide devices or libraries?", run: variables::variables },
    Check { id: "vulkan", asks: "Do Vulkan's loader and drivers exist?", run: vulkan::vulkan },
    Check { id: "python-env", asks: "Is the Python environment whole?", run: python::health },
    Check { id: "framework-build", asks: "Were frameworks built for this GPU?", run: framework::build },
    Check { id: "framework-driver", asks: "Do driver and GPU run what they hold?", run: fit::fit },
    Check { id: "framework-gpu", asks: "Do frameworks themselves see the GPU?", run: framework::sees },
    Check { id: "disk", asks: "Is there room for packages?", run: storage::disk },
    Check { id: "shared-memory", asks: "Is /dev/shm large enough for data loaders?", run: storage::shm },
    Check { id: "memory-limit", asks: "Do limits leave enough memory?", run: memory::memory },
    Check { id: "clock", asks: "Is the clock right?", run: clock::clock },
    Check { id: "network", asks: "Can package indexes be reached?", run: network::network },
];

/// `12.0 GB` in the unit of disks.
fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// `64 MiB` in the unit of memory.
fn mib(bytes: u64) -> String {
    match bytes {
        b if b < 1 << 20 => format!("{} KiB", b >> 10),
        b if b < 1 << 30 => format!("{} MiB", b >> 20),
        b => format!("{:.1} GiB", b as f64 / f64::from(1u32 << 30)),
    }
}

/// The numbers of a version, for comparison; text behind the third changes nothing.
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
