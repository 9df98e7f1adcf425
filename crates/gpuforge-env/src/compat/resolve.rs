//! Build resolver: ranks every wheel build of a framework for a host (driver, GPU, OS, Python), with reasons. Pure.

use std::cmp::Reverse;

use serde::Serialize;

use super::{
    host_spec::{Chip, HostSpec},
    table::{Accelerator, Build, BuildTargets, CompatRule, CompatTable, Framework, Os, Release, RuleEffect},
    version::Version,
};

/// A build that runs on the host.
#[derive(Debug, Clone, Serialize)]
pub struct Candidate {
    /// Framework.
    pub framework: String,
    /// Release.
    pub version: Version,
    /// Build: `cu130`, `cpu`.
    pub build: String,
    /// What it computes with.
    pub accelerator: Accelerator,
    /// CUDA or ROCm version.
    pub toolkit: Option<Version>,
    /// Python of the environment.
    pub python: Version,
    /// The framework's requirement: `torch==2.15.0+cu130`.
    pub requirement: String,
    /// Packages released together with it, as requirements.
    pub companions: Vec<String>,
    /// Index its packages come from; `None` = the default one.
    pub index: Option<String>,
    /// Its packages on conda-forge; empty where there are none.
    pub conda: Vec<String>,
    /// Oldest driver it runs with.
    pub driver_floor: Option<Version>,
    /// Why it fits.
    pub reasons: Vec<String>,
    /// What may go wrong.
    pub cautions: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
    /// A rule ranks it behind others.
    pub demoted: bool,
    /// Can the driver compile this toolkit's PTX? `None` = not known, or it does not matter.
    #[serde(skip)]
    jit: Option<bool>,
    #[serde(skip)]
    bundled: Option<Version>,
}

/// A build that does not run on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// Release; `None` = all of them.
    pub version: Option<Version>,
    /// Build.
    pub build: String,
    /// Why.
    pub reason: String,
}

/// Ranked candidates and rejected builds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Resolution {
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// Newest first.
    pub rejected: Vec<Rejected>,
}

/// Resolves every build of the framework for the host and, if given, a Python version.
pub fn resolve(
    table: &CompatTable,
    framework: &Framework,
    host: &HostSpec,
    python: Option<&Version>,
) -> Resolution {
    let mut answer = Resolution::default();
    answer.rejected.extend(gap(table, framework, host));
    for release in table.release.iter().filter(|r| r.framework == framework.name) {
        for build in release.builds.iter().filter_map(|tag| table.build(&framework.name, tag)) {
            let ours = build.accelerator == Accelerator::Cpu || Some(build.accelerator) == host.accelerator();
            if !ours || !build.platforms.contains(&host.platform()) {
                continue;
            }
            let case = BuildCase { table, framework, release, build, host };
            match case.judge(python) {
                Ok(candidate) => answer.candidates.push(candidate),
                Err(reason) => answer.rejected.push(Rejected {
                    version: Some(release.version.clone()),
                    build: build.tag.clone(),
                    reason,
                }),
            }
        }
    }
    answer.candidates.sort_by_cached_key(rank);
    answer
}

/// Sort key: GPU before CPU, not demoted, newer, PTX support by the driver, least demanding, default index, newer toolkit.
type Rank = (bool, bool, Reverse<Version>, u8, Option<Version>, bool, Reverse<Option<Version>>);

fn rank(candidate: &Candidate) -> Rank {
    let jit = match candidate.jit {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    };
    // With an unknown driver, the build with the lowest driver requirement is the safe one.
    let asks = candidate.bundled.clone().filter(|_| candidate.jit.is_none());
    (
        candidate.accelerator == Accelerator::Cpu,
        candidate.demoted,
        Reverse(candidate.version.clone()),
        jit,
        asks,
        candidate.index.is_some(),
        Reverse(candidate.toolkit.clone()),
    )
}

/// Why the framework has no build at all for this GPU on this platform.
fn gap(table: &CompatTable, framework: &Framework, host: &HostSpec) -> Option<Rejected> {
    let wanted = host.accelerator()?;
    let there = |b: &Build| {
        b.framework == framework.name && b.accelerator == wanted && b.platforms.contains(&host.platform())
    };
    if table.build.iter().any(there) {
        return None;
    }
    let told = table.gap.iter().find(|g| {
        g.accelerator == wanted
            && (g.frameworks.is_empty() || g.frameworks.contains(&framework.name))
            && (g.os.is_empty() || g.os.contains(&host.os))
            && (g.arch.is_empty() || g.arch.contains(&host.arch))
    });
    let reason = told.map_or_else(
        || format!("{} has no {} build for {}", framework.title, wanted.title(), host.platform()),
        |gap| gap.reason.clone(),
    );
    Some(Rejected { version: None, build: wanted.title().to_ascii_lowercase(), reason })
}

/// One build of one release, evaluated for one host.
struct BuildCase<'a> {
    table: &'a CompatTable,
    framework: &'a Framework,
    release: &'a Release,
    build: &'a Build,
    host: &'a HostSpec,
}

impl BuildCase<'_> {
    /// The candidate, or why it is rejected.
    fn judge(&self, wanted: Option<&Version>) -> Result<Candidate, String> {
        let python = self.python(wanted)?;
        let index = self.index()?;
        let mut found = self.candidate(python, index);
        self.driver(&mut found)?;
        self.code(&mut found)?;
        self.rules(&mut found)?;
        Ok(found)
    }

    fn candidate(&self, python: Version, index: Option<String>) -> Candidate {
        let (release, build) = (self.release, self.build);
        let extra = build.extra.as_ref().map_or_else(String::new, |extra| format!("[{extra}]"));
        // The local version label ensures that no other index can provide this build.
        let label = if index.is_some() { format!("+{}", build.tag) } else { String::new() };
        let companions = release.with.iter().map(|(name, version)| format!("{name}=={version}")).collect();
        let place = if index.is_some() { "an index of its own" } else { "the default index" };
        let kind = match &build.toolkit {
            Some(toolkit) => format!("{} {toolkit}", build.accelerator.title()),
            None => build.accelerator.title().to_owned(),
        };
        let reasons = vec![format!("{} {} for {kind}, from {place}", self.framework.title, release.version)];
        Candidate {
            framework: self.framework.name.clone(),
            version: release.version.clone(),
            build: build.tag.clone(),
            accelerator: build.accelerator,
            toolkit: build.toolkit.clone(),
            python,
            requirement: format!("{}{extra}=={}{label}", self.framework.package, release.version),
            companions,
            index,
            conda: build.conda.clone(),
            driver_floor: None,
            reasons,
            cautions: Vec::new(),
            notes: Vec::new(),
            demoted: false,
            jit: None,
            bundled: None,
        }
    }

    fn python(&self, wanted: Option<&Version>) -> Result<Version, String> {
        let (oldest, newest) = &self.release.python;
        match (wanted, &self.table.default_python) {
            (Some(wanted), _) => {
                let short: Version =
                    format!("{}.{}", wanted.major(), wanted.minor()).parse().unwrap_or(wanted.clone());
                if short < *oldest || short > *newest {
                    return Err(format!("has wheels for Python {oldest} to {newest}, not {short}"));
                }
                Ok(short)
            }
            (None, Some(usual)) => Ok(usual.clamp(oldest, newest).clone()),
            (None, None) => Ok(newest.clone()),
        }
    }

    /// The package index of the build; an error where no index has it.
    fn index(&self) -> Result<Option<String>, String> {
        let Some(index) = &self.framework.index else { return Ok(None) };
        let default = self.release.default.get(&self.host.platform());
        let mac = self.host.os == Os::Macos;
        // On macOS one wheel supports both CPU and GPU, and no other index has any.
        match default {
            Some(tag) if *tag == self.build.tag || mac => Ok(None),
            None if mac => Err(format!("has no wheels for {}", self.host.platform())),
            _ => Ok(Some(index.replace("{tag}", &self.build.tag))),
        }
    }

    /// Checks the driver version; WSL uses the Windows driver.
    fn driver(&self, found: &mut Candidate) -> Result<(), String> {
        let (Accelerator::Cuda, Some(toolkit)) = (self.build.accelerator, &self.build.toolkit) else {
            return Ok(());
        };
        let windows = matches!(self.host.os, Os::Windows | Os::Wsl);
        let Some(row) = self.table.floor.iter().find(|f| f.toolkit.matches(toolkit)) else { return Ok(()) };
        let floor = if windows { &row.windows } else { &row.linux };
        let bundled = self.table.bundled.iter().find(|b| b.toolkit == *toolkit);
        found.bundled = bundled.map(|b| if windows { b.windows.clone() } else { b.linux.clone() });
        found.driver_floor = Some(floor.clone());
        let family = format!("CUDA {}", toolkit.major());
        match (&self.host.driver, &self.host.cuda) {
            (Some(driver), _) if driver < floor => {
                return Err(format!("{family} needs driver {floor} or newer; this one is {driver}"));
            }
            (Some(driver), _) => {
                found.jit = found.bundled.as_ref().map(|b| driver >= b);
                found.reasons.push(format!("driver {driver} runs {family} (from {floor} on)"));
            }
            (None, Some(cuda)) if cuda.major() < toolkit.major() => {
                return Err(format!("{family} needs driver {floor} or newer; this one supports CUDA {cuda}"));
            }
            (None, Some(cuda)) => found.reasons.push(format!("the driver supports CUDA {cuda}")),
            (None, None) => {
                found.notes.push(format!("needs driver {floor} or newer; the driver is not known"))
            }
        }
        Ok(())
    }

    /// Checks that the build contains code (SASS or PTX) for the GPU.
    fn code(&self, found: &mut Candidate) -> Result<(), String> {
        let Some(gpu) = self.host.gpu.as_ref().filter(|_| self.build.accelerator != Accelerator::Cpu) else {
            return Ok(());
        };
        let Some(targets) = self.table.targets(self.release, &self.build.tag) else { return Ok(()) };
        match covers(targets, gpu, &self.host.arch) {
            GpuCoverage::Code(reason) => found.reasons.push(reason),
            GpuCoverage::Ptx(reason) => {
                found.cautions.push(reason);
                found.demoted |= found.jit == Some(false);
            }
            GpuCoverage::Unknown(reason) => found.cautions.push(reason),
            GpuCoverage::None(reason) if targets.recalled => return Err(format!("{reason} ({RECALLED})")),
            GpuCoverage::None(reason) => return Err(reason),
        }
        if targets.recalled {
            found.notes.push(format!(
                "what {} {} holds code for is {RECALLED}",
                self.framework.title, self.release.version
            ));
        }
        for other in &self.host.others {
            if let GpuCoverage::None(reason) = covers(targets, other, &self.host.arch) {
                found.cautions.push(format!("not for {}: {reason}", other.name));
            }
        }
        Ok(())
    }

    fn rules(&self, found: &mut Candidate) -> Result<(), String> {
        for rule in self.table.rule.iter().filter(|rule| self.applies(rule)) {
            match rule.effect {
                RuleEffect::Reject => return Err(rule.reason.clone()),
                RuleEffect::Demote => {
                    found.demoted = true;
                    found.cautions.push(rule.reason.clone());
                }
                RuleEffect::Caution => found.cautions.push(rule.reason.clone()),
                RuleEffect::Note => found.notes.push(rule.reason.clone()),
            }
        }
        Ok(())
    }

    /// Do all conditions of a rule hold? A condition on an unknown value does not.
    fn applies(&self, rule: &CompatRule) -> bool {
        let gpu = self.host.gpu.as_ref();
        let target = gpu.and_then(|g| g.target.as_ref());
        let capability = gpu.and_then(Chip::capability);
        let holds = |need: &Option<super::version::VersionReq>, version: Option<&Version>| {
            need.as_ref().is_none_or(|need| version.is_some_and(|v| need.matches(v)))
        };
        (rule.frameworks.is_empty() || rule.frameworks.contains(&self.framework.name))
            && rule.accelerator.is_none_or(|a| a == self.build.accelerator)
            && holds(&rule.versions, Some(&self.release.version))
            && holds(&rule.toolkit, self.build.toolkit.as_ref())
            && holds(&rule.driver, self.host.driver.as_ref())
            && holds(&rule.target, capability.as_ref())
            && (rule.targets.is_empty() || target.is_some_and(|t| rule.targets.contains(t)))
            && (rule.os.is_empty() || rule.os.contains(&self.host.os))
            && holds(&rule.os_version, self.host.os_version.as_ref())
    }
}

/// Caveat for rows without a source.
const RECALLED: &str = "remembered, not read from the build";

/// How a build supports a GPU: SASS, PTX JIT, unknown or not at all.
enum GpuCoverage {
    Code(String),
    Ptx(String),
    Unknown(String),
    None(String),
}

fn covers(targets: &BuildTargets, gpu: &Chip, arch: &str) -> GpuCoverage {
    let Some(target) = &gpu.target else {
        return GpuCoverage::Unknown(format!(
            "what {} is, is not known: name it with --compute-capability",
            gpu.name
        ));
    };
    if !targets.exact.is_empty() {
        return match targets.exact.contains(target) {
            true => GpuCoverage::Code(format!("holds code for {target}")),
            false => {
                GpuCoverage::None(format!("holds no code for {target}; it has {}", targets.exact.join(", ")))
            }
        };
    }
    let Some(capability) = gpu.capability() else {
        return GpuCoverage::Unknown(format!("{target:?} is not a compute capability such as 8.9"));
    };
    if let Some(least) = &targets.least {
        return match capability >= *least {
            true => GpuCoverage::Code(format!(
                "compiles for compute capability {least} and newer; this is {capability}"
            )),
            false => GpuCoverage::None(format!("needs compute capability {least}; this is {capability}")),
        };
    }
    let sass = match arch == "aarch64" && !targets.sass_aarch64.is_empty() {
        true => &targets.sass_aarch64,
        false => &targets.sass,
    };
    let runs = |code: &&Version| code.major() == capability.major() && **code <= capability;
    if let Some(code) = sass.iter().filter(runs).max() {
        return GpuCoverage::Code(format!(
            "holds code for compute capability {code}, which runs on {capability}"
        ));
    }
    match &targets.ptx {
        Some(ptx) if capability >= *ptx => GpuCoverage::Ptx(format!(
            "holds no machine code for compute capability {capability}: the driver compiles PTX {ptx} at the first start"
        )),
        _ => {
            let list: Vec<String> = sass.iter().map(Version::to_string).collect();
            GpuCoverage::None(format!(
                "holds no code for compute capability {capability}; it has {}",
                list.join(", ")
            ))
        }
    }
}
