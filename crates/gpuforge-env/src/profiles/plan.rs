//! Environment plan: the packages of a profile for one framework build and host. Pure.

use serde::Serialize;

use super::table::{Package, Profile, Profiles};
use crate::compat::{Accelerator, Candidate, Chip, HostSpec, Version};

/// A package of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedPackage {
    /// Requirement for pip: `numpy==2.5.4`.
    pub pip: String,
    /// Requirement for conda; `None` where conda-forge has none.
    pub conda: Option<String>,
    /// It comes from the framework's index.
    pub from_index: bool,
}

/// A package that is skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedPackage {
    /// Name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A package that is built from source after everything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManualInstall {
    /// Name.
    pub name: String,
    /// What to run.
    pub command: String,
}

/// A planned environment.
#[derive(Debug, Clone, Serialize)]
pub struct EnvPlan {
    /// Profile.
    pub profile: String,
    /// What it is for.
    pub title: String,
    /// Platform of the wheels: `linux-x86_64`.
    pub platform: String,
    /// The framework's build.
    pub candidate: Candidate,
    /// The module that is imported.
    pub import: String,
    /// Packages, the framework's own first.
    pub packages: Vec<PlannedPackage>,
    /// Packages that do not work here.
    pub left_out: Vec<SkippedPackage>,
    /// Packages to install afterwards.
    pub by_hand: Vec<ManualInstall>,
    /// How to use the GPU well: precision, memory.
    pub advice: Vec<String>,
}

/// Plans the environment of a profile with this build on this host.
pub fn plan_env(
    table: &Profiles,
    profile: &Profile,
    candidate: &Candidate,
    import: &str,
    host: &HostSpec,
) -> EnvPlan {
    let mut plan = EnvPlan {
        profile: profile.name.clone(),
        title: profile.title.clone(),
        platform: host.platform(),
        candidate: candidate.clone(),
        import: import.to_owned(),
        packages: vec![PlannedPackage {
            pip: candidate.requirement.clone(),
            conda: None,
            from_index: candidate.index.is_some(),
        }],
        left_out: Vec::new(),
        by_hand: Vec::new(),
        advice: advice(profile, candidate, host),
    };
    let short = candidate.accelerator != Accelerator::Cpu && is_short(profile, host);
    let added = profile.when_short.iter().filter(|_| short);
    for name in profile.packages.iter().chain(added) {
        let package = table.package(name);
        match unfit(&package, candidate, host) {
            Some(reason) => {
                let other = package.frameworks.iter().all(|f| *f != candidate.framework)
                    && !package.frameworks.is_empty();
                // Packages of another framework are not reported as missing.
                if !other {
                    plan.left_out.push(SkippedPackage { name: package.name, reason });
                }
            }
            None => match package.by_hand {
                Some(command) => plan.by_hand.push(ManualInstall { name: package.name, command }),
                None => plan.packages.push(member(&package, profile, candidate)),
            },
        }
    }
    plan
}

/// Why a package does not work on this host.
fn unfit(package: &Package, candidate: &Candidate, host: &HostSpec) -> Option<String> {
    let gpu = host.gpu.as_ref();
    if !package.frameworks.is_empty() && !package.frameworks.contains(&candidate.framework) {
        return Some(format!("is for {}", package.frameworks.join(", ")));
    }
    if !package.accelerators.is_empty() && !package.accelerators.contains(&candidate.accelerator) {
        let titles: Vec<&str> = package.accelerators.iter().map(|a| a.title()).collect();
        return Some(format!(
            "needs {}; this environment uses {}",
            titles.join(" or "),
            candidate.accelerator.title()
        ));
    }
    if let Some(least) = &package.least {
        match gpu.and_then(Chip::capability) {
            Some(capability) if capability >= *least => {}
            Some(capability) => {
                return Some(format!("needs compute capability {least}; this is {capability}"));
            }
            None => return Some(format!("needs compute capability {least}; this one is not known")),
        }
    }
    if !package.os.is_empty() && !package.os.contains(&host.os) {
        return Some(format!("has nothing for {}", host.os.wheels()));
    }
    if !package.arch.is_empty() && !package.arch.contains(&host.arch) {
        return Some(format!("has nothing for {}", host.arch));
    }
    let need = package.framework_version.as_ref().filter(|need| !need.matches(&candidate.version));
    need.map(|need| format!("needs {} {need}; this is {}", candidate.framework, candidate.version))
}

fn member(package: &Package, profile: &Profile, candidate: &Candidate) -> PlannedPackage {
    let pip = package.pip.as_deref().unwrap_or(&package.name);
    let conda = package.conda.as_deref().unwrap_or(&package.name);
    let together =
        candidate.companions.iter().find(|c| c.split("==").next() == Some(pip)).filter(|_| package.with);
    if let Some(requirement) = together {
        let conda = Some(package.name.clone());
        return PlannedPackage { pip: requirement.clone(), conda, from_index: candidate.index.is_some() };
    }
    let inside = |(oldest, newest): &(Version, Version)| (oldest..=newest).contains(&&candidate.python);
    let pin = profile.pins.get(&package.name).filter(|_| profile.pins_python.as_ref().is_none_or(inside));
    let with = |name: &str, sign: &str| match pin {
        Some(version) => format!("{name}{sign}{version}"),
        None => name.to_owned(),
    };
    PlannedPackage {
        pip: with(pip, "=="),
        conda: (!conda.is_empty()).then(|| with(conda, "=")),
        from_index: false,
    }
}

fn is_short(profile: &Profile, host: &HostSpec) -> bool {
    host.gpu.as_ref().and_then(Chip::gib).is_some_and(|gib| gib < profile.good)
}

/// How to use the GPU well.
fn advice(profile: &Profile, candidate: &Candidate, host: &HostSpec) -> Vec<String> {
    let mut advice = Vec::new();
    let Some(gpu) = host.gpu.as_ref().filter(|_| candidate.accelerator != Accelerator::Cpu) else {
        return advice;
    };
    let bf16: Option<Version> = "8.0".parse().ok();
    match (candidate.accelerator, gpu.capability(), bf16) {
        (Accelerator::Cuda, Some(capability), Some(bf16)) if capability >= bf16 => {
            advice.push(format!("train in bfloat16: compute capability {capability} has it in hardware"));
        }
        (Accelerator::Cuda, Some(capability), _) if capability.major() >= 7 => {
            advice.push(format!("train in float16 with loss scaling: bfloat16 begins with compute capability 8.0, this is {capability}"));
        }
        (Accelerator::Cuda, Some(capability), _) => {
            advice.push(format!("train in float32: compute capability {capability} has no tensor cores"));
        }
        (Accelerator::Rocm | Accelerator::Xpu, ..) => {
            advice.push("train in bfloat16 where the model allows it".to_owned())
        }
        _ => {}
    }
    if is_short(profile, host) {
        let gib = gpu.gib().unwrap_or_default();
        advice.push(format!(
            "{gib} GiB is less than the {} that are good here: smaller batches, gradient checkpointing",
            profile.good
        ));
    }
    advice
}
