//! Host evidence: facts about this machine that confirm or refute a cause. Plain data, collected without waking a device.

use gpuforge_detect::{
    model::{Inventory, Vendor},
    parsers::nvidia_release,
};
use serde::{Deserialize, Serialize};

use crate::doctor::{CheckResult, Status};

/// Platform that the steps are for.
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
    /// The platform in prose.
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

/// Facts about this machine; unknown is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostEvidence {
    /// Platform; `None` when unknown.
    pub platform: Option<Platform>,
    /// NVIDIA GPUs.
    pub nvidia_gpus: Option<usize>,
    /// GPUs of any vendor.
    pub gpus: Option<usize>,
    /// Major version of the NVIDIA driver.
    pub nvidia_driver: Option<u32>,
    /// Lowest and highest compute capability of the NVIDIA GPUs, ten times (8.9 is 89).
    pub capability: Option<(u32, u32)>,
    /// A variable that hides devices.
    pub hidden_by: Option<String>,
    /// This process is translated (Rosetta 2, Windows on ARM).
    pub translated: Option<bool>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<String>,
    /// Results of doctor checks.
    pub checks: Vec<CheckEvidence>,
}

/// Result of a doctor check, as evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckEvidence {
    /// The check.
    pub check: String,
    /// Something is wrong there.
    pub broken: bool,
    /// What was seen.
    pub evidence: String,
}

impl CheckEvidence {
    /// `None` where the check did not apply or could not be answered.
    pub fn of(checked: &CheckResult) -> Option<CheckEvidence> {
        let broken = match checked.status {
            Status::Skipped | Status::Unknown => return None,
            Status::Healthy => false,
            Status::Warning | Status::Error | Status::Critical => true,
        };
        Some(CheckEvidence { check: checked.id.to_owned(), broken, evidence: checked.evidence.clone() })
    }
}

impl HostEvidence {
    /// Facts from a hardware inventory.
    pub fn of(inventory: &Inventory) -> HostEvidence {
        let host = &inventory.host;
        let platform = match (host.os.as_deref(), host.wsl.is_some(), host.container.is_some()) {
            (_, _, true) => Some(Platform::Container),
            (_, true, _) => Some(Platform::Wsl),
            (Some("linux"), ..) => Some(Platform::Linux),
            (Some("windows"), ..) => Some(Platform::Windows),
            (Some("macos"), ..) => Some(Platform::Macos),
            _ => None,
        };
        // Kernel files list GPUs on Linux only: elsewhere an empty list of a detection without drivers means unknown.
        let listed =
            !inventory.gpus.is_empty() || !matches!(platform, Some(Platform::Windows | Platform::Macos));
        let nvidia = || inventory.gpus.iter().filter(|g| g.vendor == Some(Vendor::Nvidia));
        let driver =
            inventory.driver_version.clone().or_else(|| nvidia().find_map(|g| g.driver_version.clone()));
        let capabilities: Vec<u32> = nvidia().filter_map(|g| tenfold(g.arch.as_deref()?)).collect();
        HostEvidence {
            platform,
            nvidia_gpus: listed.then(|| nvidia().count()),
            gpus: listed.then_some(inventory.gpus.len()),
            nvidia_driver: driver
                .filter(|_| nvidia().count() > 0)
                .and_then(|v| nvidia_release(&v).unwrap_or(v).split('.').next()?.parse().ok()),
            translated: host.translated,
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

/// A host condition that makes a cause more or less likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCondition {
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
    /// This process is translated from another instruction set.
    Translated,
    /// No GPU at all.
    NoGpu,
}

impl HostCondition {
    /// Does it hold on this machine, and its description; `None` where unknown.
    pub fn evaluate(self, facts: &HostEvidence) -> Option<(bool, String)> {
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
            HostCondition::OldGpu => capability(|low, _| low < 75),
            HostCondition::NewGpu => capability(|_, high| high >= 100),
            HostCondition::BeforeAmpere => capability(|low, _| low < 80),
            HostCondition::NoNvidiaDriver => match (facts.nvidia_driver, facts.nvidia_gpus) {
                (Some(version), _) => Some((false, format!("NVIDIA driver {version}"))),
                (None, Some(gpus)) => Some((true, format!("{gpus} NVIDIA GPUs and no driver that answers"))),
                (None, None) => None,
            },
            HostCondition::DriverBefore580 => driver(|version| version < 580),
            HostCondition::InContainer => platform(Platform::Container),
            HostCondition::InWsl => platform(Platform::Wsl),
            HostCondition::DevicesHidden => {
                facts.gpus?;
                let said = facts.hidden_by.as_deref().map(|v| format!("{v} hides a device"));
                Some((said.is_some(), said.unwrap_or_else(|| "no variable hides devices".to_owned())))
            }
            HostCondition::LibraryPathSet => {
                Some(set("LD_LIBRARY_PATH", &facts.library_path)).filter(|(is, _)| *is)
            }
            HostCondition::Translated => facts.translated.map(|is| {
                (is, if is { "this process is translated" } else { "this process is native" }.to_owned())
            }),
            HostCondition::NoGpu => facts.gpus.map(|gpus| (gpus == 0, format!("{gpus} GPUs"))),
        }
    }
}
