//! What is known about this machine that could confirm a cause? Plain data, filled without waking a device.

use gpuforge_detect::model::{Inventory, Vendor};
use serde::{Deserialize, Serialize};

use crate::doctor::{Checked, Status};

/// Which steps apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux.
    #[default]
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
    /// The Windows Subsystem for Linux.
    Wsl,
    /// Inside a container.
    Container,
}

impl Platform {
    /// Where that is, in words.
    pub fn place(self) -> &'static str {
        match self {
            Platform::Linux => "on Linux",
            Platform::Windows => "on Windows",
            Platform::Macos => "on macOS",
            Platform::Wsl => "in WSL",
            Platform::Container => "in a container",
        }
    }
}

/// This machine; what is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Where steps are taken; `None` when nothing is known.
    pub platform: Option<Platform>,
    /// NVIDIA GPUs.
    pub nvidia_gpus: Option<usize>,
    /// GPUs of any maker.
    pub gpus: Option<usize>,
    /// Major version of the NVIDIA driver.
    pub nvidia_driver: Option<u32>,
    /// Lowest and highest compute capability of the NVIDIA GPUs, ten times (8.9 is 89).
    pub capability: Option<(u32, u32)>,
    /// A variable that hides devices.
    pub hidden_by: Option<String>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<String>,
    /// What checks of the doctor showed.
    pub checks: Vec<Shown>,
}

/// What a check of the doctor says about this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The check.
    pub check: String,
    /// Something is wrong there.
    pub broken: bool,
    /// What was seen.
    pub evidence: String,
}

impl Shown {
    /// `None` where the check did not apply or could not be answered.
    pub fn of(checked: &Checked) -> Option<Shown> {
        let broken = match checked.status {
            Status::Skipped | Status::Unknown => return None,
            Status::Healthy => false,
            Status::Warning | Status::Error | Status::Critical => true,
        };
        Some(Shown { check: checked.id.to_owned(), broken, evidence: checked.evidence.clone() })
    }
}

impl Facts {
    /// What an inventory tells.
    pub fn of(inventory: &Inventory) -> Facts {
        let host = &inventory.host;
        let platform = match (host.os.as_deref(), host.wsl.is_some(), host.container.is_some()) {
            (_, _, true) => Some(Platform::Container),
            (_, true, _) => Some(Platform::Wsl),
            (Some("linux"), ..) => Some(Platform::Linux),
            (Some("windows"), ..) => Some(Platform::Windows),
            (Some("macos"), ..) => Some(Platform::Macos),
            _ => None,
        };
        let nvidia = || inventory.gpus.iter().filter(|g| g.vendor == Some(Vendor::Nvidia));
        let driver =
            inventory.driver_version.clone().or_else(|| nvidia().find_map(|g| g.driver_version.clone()));
        let capabilities: Vec<u32> = nvidia().filter_map(|g| tenfold(g.arch.as_deref()?)).collect();
        Facts {
            platform,
            nvidia_gpus: Some(nvidia().count()),
            gpus: Some(inventory.gpus.len()),
            nvidia_driver: driver
                .filter(|_| nvidia().count() > 0)
                .and_then(|v| v.split('.').next()?.parse().ok()),
            capability: capabilities.iter().min().copied().zip(capabilities.iter().max().copied()),
            hidden_by: inventory.gpus.iter().find_map(|g| g.hidden_by.clone()),
            library_path: None,
            checks: Vec::new(),
        }
    }
}

/// `8.9` as 89.
fn tenfold(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.')?;
    Some(major.parse::<u32>().ok()?.checked_mul(10)? + minor.parse::<u32>().ok().filter(|m| *m < 10)?)
}

/// Something about this machine that makes a cause more, or less, likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A GPU older than compute capability 7.5.
    OldGpu,
    /// A GPU of compute capability 10 or newer.
    NewGpu,
    /// A GPU older than compute capability 8.0.
    BeforeAmpere,
    /// No NVIDIA driver answers.
    NoNvidiaDriver,
    /// An NVIDIA driver older than 580, the floor of CUDA 13.
    DriverBefore580,
    /// This is a container.
    InContainer,
    /// This is WSL.
    InWsl,
    /// A variable hides devices.
    DevicesHidden,
    /// `LD_LIBRARY_PATH` is set.
    LibraryPathSet,
    /// No GPU at all.
    NoGpu,
}

impl Probe {
    /// Does this machine show it, and in which words? `None` where nothing is known.
    pub fn ask(self, facts: &Facts) -> Option<(bool, String)> {
        let capability = |test: fn(u32, u32) -> bool| {
            let (low, high) = facts.capability?;
            let said = format!("compute capability {}.{}", low / 10, low % 10);
            Some((test(low, high), said))
        };
        let driver = |holds: fn(u32) -> bool| {
            facts.nvidia_driver.map(|version| (holds(version), format!("NVIDIA driver {version}")))
        };
        let platform = |wanted| facts.platform.map(|p| (p == wanted, format!("runs {}", p.place())));
        let set = |variable: &str, value: &Option<String>| match value {
            Some(value) if !value.is_empty() => (true, format!("{variable} is set")),
            _ => (false, format!("{variable} is not set")),
        };
        match self {
            Probe::OldGpu => capability(|low, _| low < 75),
            Probe::NewGpu => capability(|_, high| high >= 100),
            Probe::BeforeAmpere => capability(|low, _| low < 80),
            Probe::NoNvidiaDriver => match (facts.nvidia_driver, facts.nvidia_gpus) {
                (Some(version), _) => Some((false, format!("NVIDIA driver {version}"))),
                (None, Some(gpus)) => Some((true, format!("{gpus} NVIDIA GPUs and no driver that answers"))),
                (None, None) => None,
            },
            Probe::DriverBefore580 => driver(|version| version < 580),
            Probe::InContainer => platform(Platform::Container),
            Probe::InWsl => platform(Platform::Wsl),
            Probe::DevicesHidden => {
                facts.gpus?;
                let said = facts.hidden_by.as_deref().map(|v| format!("{v} hides a device"));
                Some((said.is_some(), said.unwrap_or_else(|| "no variable hides devices".to_owned())))
            }
            Probe::LibraryPathSet => Some(set("LD_LIBRARY_PATH", &facts.library_path)).filter(|(is, _)| *is),
            Probe::NoGpu => facts.gpus.map(|gpus| (gpus == 0, format!("{gpus} GPUs"))),
        }
    }
}
