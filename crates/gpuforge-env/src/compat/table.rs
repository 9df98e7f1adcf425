//! Compatibility table: the schema of `data/compat.toml` and its consistency checks.

use std::collections::{BTreeMap, BTreeSet};

use gpuforge_detect::model::Vendor;
use serde::{Deserialize, Serialize};

use super::version::{Version, VersionReq};
use crate::data::DataTable;

/// Compute backend of a framework build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// NVIDIA.
    Cuda,
    /// AMD.
    Rocm,
    /// Intel.
    Xpu,
    /// Apple.
    Mps,
    /// The CPU.
    Cpu,
}

impl Accelerator {
    /// The backend that frameworks use on a GPU of this vendor; `None` where they use none.
    pub fn of(vendor: Vendor) -> Option<Accelerator> {
        match vendor {
            Vendor::Nvidia => Some(Accelerator::Cuda),
            Vendor::Amd => Some(Accelerator::Rocm),
            Vendor::Intel => Some(Accelerator::Xpu),
            Vendor::Apple => Some(Accelerator::Mps),
            Vendor::Other => None,
        }
    }

    /// Display name.
    pub fn title(self) -> &'static str {
        match self {
            Accelerator::Cuda => "CUDA",
            Accelerator::Rocm => "ROCm",
            Accelerator::Xpu => "XPU",
            Accelerator::Mps => "MPS",
            Accelerator::Cpu => "CPU",
        }
    }
}

/// Operating system of an environment. WSL runs Linux wheels on the Windows driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Linux.
    #[default]
    Linux,
    /// The Windows Subsystem for Linux.
    Wsl,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl Os {
    /// OS part of the wheel platform.
    pub fn wheels(self) -> &'static str {
        match self {
            Os::Linux | Os::Wsl => "linux",
            Os::Windows => "windows",
            Os::Macos => "macos",
        }
    }
}

/// A framework.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// Its name on the command line.
    pub name: String,
    /// Its name in prose.
    pub title: String,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The package that is required.
    pub package: String,
    /// The module that is imported.
    pub import: String,
    /// Package index of builds that the default index lacks; `{tag}` is replaced by the build.
    pub index: Option<String>,
}

/// A build variant of a framework.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Framework.
    pub framework: String,
    /// Its name: `cu130`, `cpu`.
    pub tag: String,
    /// What it computes with.
    pub accelerator: Accelerator,
    /// CUDA or ROCm version.
    pub toolkit: Option<Version>,
    /// Extra of the requirement (`package[extra]`).
    pub extra: Option<String>,
    /// `linux-x86_64` and so on.
    pub platforms: Vec<String>,
    /// Its packages on conda-forge; empty where there are none.
    #[serde(default)]
    pub conda: Vec<String>,
}

/// A release of a framework.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Framework.
    pub framework: String,
    /// Version.
    pub version: Version,
    /// Oldest and newest Python with wheels.
    pub python: (Version, Version),
    /// Tags of its builds.
    pub builds: Vec<String>,
    /// Platform to the build that the default index holds.
    #[serde(default)]
    pub default: BTreeMap<String, String>,
    /// Packages that are released together with it.
    #[serde(default)]
    pub with: BTreeMap<String, Version>,
}

/// GPU targets that builds contain code for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildTargets {
    /// Framework.
    pub framework: String,
    /// Builds.
    pub tags: Vec<String>,
    /// Releases; all where it is not given.
    pub versions: Option<VersionReq>,
    /// Compute capabilities with machine code (SASS).
    #[serde(default)]
    pub sass: Vec<Version>,
    /// The same for aarch64, where it differs.
    #[serde(default)]
    pub sass_aarch64: Vec<Version>,
    /// Compute capability of the PTX that drivers JIT-compile for newer GPUs.
    pub ptx: Option<Version>,
    /// Compiled on the machine, from this compute capability on.
    pub least: Option<Version>,
    /// Targets that run only code built for exactly them (gfx targets, Intel families).
    #[serde(default)]
    pub exact: Vec<String>,
    /// From memory, not read from a source.
    #[serde(default)]
    pub recalled: bool,
}

impl BuildTargets {
    fn is_of(&self, release: &Release, tag: &str) -> bool {
        self.framework == release.framework
            && self.tags.iter().any(|known| known == tag)
            && self.versions.as_ref().is_none_or(|need| need.matches(&release.version))
    }
}

/// Min driver version of a CUDA family, by OS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFloor {
    /// CUDA versions it is about.
    pub toolkit: VersionReq,
    /// Oldest driver on Linux.
    pub linux: Version,
    /// Oldest driver on Windows.
    pub windows: Version,
}

/// The driver shipped with a toolkit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledDriver {
    /// CUDA version.
    pub toolkit: Version,
    /// Driver on Linux.
    pub linux: Version,
    /// Driver on Windows.
    pub windows: Version,
}

/// What a rule does with a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleEffect {
    /// It is not offered.
    Reject,
    /// It is offered after the others.
    Demote,
    /// It is offered with a warning.
    Caution,
    /// It is offered, and something is said about it.
    Note,
}

/// A rule beyond the tables. All given conditions must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompatRule {
    /// Its name.
    pub id: String,
    /// Frameworks; any where none is named.
    #[serde(default)]
    pub frameworks: Vec<String>,
    /// What the build computes with.
    pub accelerator: Option<Accelerator>,
    /// Releases.
    pub versions: Option<VersionReq>,
    /// CUDA or ROCm versions.
    pub toolkit: Option<VersionReq>,
    /// Driver versions.
    pub driver: Option<VersionReq>,
    /// Compute capabilities, as a range.
    pub target: Option<VersionReq>,
    /// GPU targets, by name.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Systems.
    #[serde(default)]
    pub os: Vec<Os>,
    /// Versions of the system.
    pub os_version: Option<VersionReq>,
    /// What follows.
    pub effect: RuleEffect,
    /// Why.
    pub reason: String,
}

/// Why there is no build at all.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingBuild {
    /// Frameworks; any where none is named.
    #[serde(default)]
    pub frameworks: Vec<String>,
    /// What it would compute with.
    pub accelerator: Accelerator,
    /// Systems; any where none is named.
    #[serde(default)]
    pub os: Vec<Os>,
    /// CPU architectures; any where none is named.
    #[serde(default)]
    pub arch: Vec<String>,
    /// Why.
    pub reason: String,
}

/// A chip and the names it goes by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipRow {
    /// Vendor.
    pub vendor: Vendor,
    /// Compute capability, gfx target or Intel family.
    pub target: String,
    /// Names of the chip.
    #[serde(default)]
    pub codes: Vec<String>,
    /// Words of marketing names.
    #[serde(default)]
    pub models: Vec<String>,
}

/// A cloud instance type.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudRow {
    /// `aws` or `gcp`.
    pub provider: String,
    /// Prefix of the type.
    #[serde(rename = "type")]
    pub begins: String,
    /// Its GPU; `None` for types without.
    pub gpu: Option<String>,
    /// Memory of one GPU.
    pub gib: Option<u32>,
    /// Its platform, where it is not Linux on x86-64.
    pub platform: Option<String>,
}

/// The whole table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompatTable {
    /// Layout.
    pub version: u32,
    /// When its facts were read.
    pub updated: String,
    /// Default Python version.
    pub default_python: Option<Version>,
    /// Where packages come from when no index is named.
    pub default_index: String,
    /// Frameworks.
    pub framework: Vec<Framework>,
    /// Build variants.
    pub build: Vec<Build>,
    /// Releases.
    pub release: Vec<Release>,
    /// GPU targets of the builds.
    pub targets: Vec<BuildTargets>,
    /// Oldest drivers.
    pub floor: Vec<DriverFloor>,
    /// Drivers of toolkits.
    pub bundled: Vec<BundledDriver>,
    /// Everything else.
    #[serde(default)]
    pub rule: Vec<CompatRule>,
    /// Why something is missing.
    #[serde(default)]
    pub gap: Vec<MissingBuild>,
    /// Chips.
    #[serde(default)]
    pub chip: Vec<ChipRow>,
    /// GiB by model.
    #[serde(default)]
    pub memory: BTreeMap<String, u32>,
    /// Cloud instance types.
    #[serde(default)]
    pub cloud: Vec<CloudRow>,
}

impl CompatTable {
    /// A build of a framework.
    pub fn build(&self, framework: &str, tag: &str) -> Option<&Build> {
        self.build.iter().find(|b| b.framework == framework && b.tag == tag)
    }

    /// What a build of a release runs on.
    pub fn targets(&self, release: &Release, tag: &str) -> Option<&BuildTargets> {
        self.targets.iter().find(|t| t.is_of(release, tag))
    }

    /// A framework by name or another name for it.
    pub fn framework(&self, name: &str) -> Option<&Framework> {
        let name = name.to_ascii_lowercase();
        self.framework.iter().find(|f| f.name == name || f.aliases.contains(&name))
    }

    fn check_release(&self, release: &Release) -> Result<(), String> {
        let name = format!("release {} {}", release.framework, release.version);
        if self.framework(&release.framework).is_none() {
            return Err(format!("{name}: there is no such framework"));
        }
        if release.python.0 > release.python.1 {
            return Err(format!("{name}: python: {} is newer than {}", release.python.0, release.python.1));
        }
        for tag in release.builds.iter().chain(release.default.values()) {
            let build = self
                .build(&release.framework, tag)
                .ok_or_else(|| format!("{name}: there is no build {tag}"))?;
            let rows = self.targets.iter().filter(|t| t.is_of(release, tag)).count();
            let wanted = usize::from(!matches!(build.accelerator, Accelerator::Cpu | Accelerator::Mps));
            if rows != wanted {
                return Err(format!("{name}: build {tag} has {rows} rows of targets, not {wanted}"));
            }
        }
        for (platform, tag) in &release.default {
            if self.build(&release.framework, tag).is_none_or(|b| !b.platforms.contains(platform)) {
                return Err(format!("{name}: build {tag} is not made for {platform}"));
            }
        }
        Ok(())
    }

    fn check_build(&self, build: &Build) -> Result<(), String> {
        let name = format!("build {} {}", build.framework, build.tag);
        if self.framework(&build.framework).is_none() {
            return Err(format!("{name}: there is no such framework"));
        }
        if build.accelerator != Accelerator::Cuda {
            return Ok(());
        }
        let toolkit =
            build.toolkit.as_ref().ok_or_else(|| format!("{name}: a CUDA build needs its toolkit"))?;
        match self.floor.iter().filter(|f| f.toolkit.matches(toolkit)).count() {
            1 => Ok(()),
            rows => Err(format!("{name}: CUDA {toolkit} has {rows} rows of floor, not 1")),
        }
    }
}

impl DataTable for CompatTable {
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        if self.default_python.is_none() {
            return Err("default_python is missing".to_owned());
        }
        for index in self.framework.iter().filter_map(|f| f.index.as_ref()).chain([&self.default_index]) {
            // An override file must not be able to smuggle options into a requirements file.
            if !index.starts_with("https://")
                || index.chars().any(|c| c.is_whitespace() || "'\"\\".contains(c))
            {
                return Err(format!("index {index:?} is not a plain https address"));
            }
        }
        self.build.iter().try_for_each(|b| self.check_build(b))?;
        self.release.iter().try_for_each(|r| self.check_release(r))?;
        for framework in &self.framework {
            if !self.release.iter().any(|r| r.framework == framework.name) {
                return Err(format!("framework {} has no release", framework.name));
            }
        }
        let mut seen = BTreeSet::new();
        for name in self.chip.iter().flat_map(|c| c.codes.iter().chain(&c.models)) {
            if !seen.insert(name) {
                return Err(format!("chip name {name:?} is listed twice"));
            }
        }
        let mut ids = BTreeSet::new();
        match self.rule.iter().find(|r| !ids.insert(&r.id)) {
            Some(rule) => Err(format!("rule {:?} is listed twice", rule.id)),
            None => self.check_words(),
        }
    }
}

impl CompatTable {
    /// Names end up in files and command lines: restricted to letters, digits and a few signs.
    fn check_words(&self) -> Result<(), String> {
        let packages = self.framework.iter().flat_map(|f| [&f.name, &f.package, &f.import]);
        let builds = self.build.iter().flat_map(|b| [Some(&b.tag), b.extra.as_ref()]).flatten();
        let with = self.release.iter().flat_map(|r| r.with.keys());
        let conda = self.build.iter().flat_map(|b| &b.conda);
        match packages.chain(builds).chain(with).chain(conda).find(|word| !crate::render::is_safe_name(word))
        {
            Some(word) => Err(format!("{word:?} is not a plain name")),
            None => Ok(()),
        }
    }
}
