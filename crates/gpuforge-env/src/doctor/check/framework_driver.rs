//! Check `framework-driver`: do driver and GPU support the installed framework build, by the compatibility table.

use gpuforge_detect::model::{Gpu, Vendor};

use super::framework::{self, BuildTarget, InstalledFramework};
use crate::{
    compat::{Accelerator, Chip, CompatTable, HostSpec, Os, Version, chips, resolve, table},
    doctor::{Finding, Status, SystemView, ViewOs},
};

/// `framework-driver`
pub(super) fn framework_driver(view: &SystemView) -> Finding {
    let host = host_spec(view);
    let found = framework::installed(view).into_iter().filter_map(|f| {
        let (accelerator, toolkit) = match &f.build {
            BuildTarget::Cuda(version) => (Accelerator::Cuda, version),
            BuildTarget::Rocm(version) => (Accelerator::Rocm, version),
            _ => return None,
        };
        // A build for another vendor's GPU is reported by `framework-build`.
        let same = host.accelerator() == Some(accelerator);
        let driver = host.driver.is_some() && accelerator == Accelerator::Cuda;
        (same || driver).then(|| judge(view.table(), &host, &f, accelerator, toolkit))
    });
    Finding::all(found, || {
        Finding::skipped("no framework for a GPU that is here is installed in the active environment")
    })
}

/// Host spec of this machine: the first GPU of a vendor whose builds are known.
fn host_spec(view: &SystemView) -> HostSpec {
    let seen = view.host_facts();
    let first =
        [Vendor::Nvidia, Vendor::Amd].iter().find_map(|vendor| Some((*vendor, seen.of(*vendor).next()?)));
    HostSpec {
        gpu: first.map(|(vendor, gpu)| chip(view.table(), vendor, gpu)),
        driver: seen.nvidia.as_deref().and_then(Version::leading),
        os: match view.os() {
            ViewOs::Windows => Os::Windows,
            ViewOs::Macos => Os::Macos,
            ViewOs::Linux if seen.platform.wsl.is_some() => Os::Wsl,
            ViewOs::Linux => Os::Linux,
        },
        arch: std::env::consts::ARCH.to_owned(),
        ..HostSpec::default()
    }
}

fn chip(table: &CompatTable, vendor: Vendor, gpu: &Gpu) -> Chip {
    let names = [gpu.name.as_deref(), gpu.pci_name.as_deref()];
    let known = names.into_iter().flatten().find_map(|name| chips::find(table, Some(vendor), name));
    let target = gpu.arch.clone().or_else(|| known.map(|k| k.row.target.clone()));
    Chip { name: gpu.display_name().to_owned(), vendor, target, memory_bytes: gpu.memory_bytes }
}

/// Checks one installed framework against the host; pure.
fn judge(
    table: &CompatTable,
    host: &HostSpec,
    f: &InstalledFramework,
    accelerator: Accelerator,
    toolkit: &str,
) -> Finding {
    let said = format!("{} {} is {}", f.name, f.version, f.build);
    let step = format!(
        "`gpuforge env recommend --framework {}` names a build that runs",
        framework::setting(f.name)
    );
    let known = host.gpu.as_ref().is_some_and(|gpu| gpu.target.is_some());
    // For an unlisted release or an unknown GPU, only the driver can be checked.
    match resolved(table, host, f, accelerator, toolkit).filter(|_| known) {
        Some(Ok(cautions)) if cautions.is_empty() => Finding::healthy(match &host.driver {
            Some(driver) if accelerator == Accelerator::Cuda => {
                format!("{said}, which driver {driver} and this GPU run")
            }
            _ => format!("{said}, which this GPU runs"),
        }),
        Some(Ok(cautions)) => {
            Finding::new(Status::Warning, format!("{said}: {}", cautions.join("; "))).step(step)
        }
        Some(Err(reason)) => Finding::new(Status::Error, format!("{said}: {reason}")).step(step),
        None => driver_only(table, host, &said, toolkit, step),
    }
}

/// Resolution of this build: its cautions, or why it is rejected; `None` where the table does not list it.
fn resolved(
    table: &CompatTable,
    host: &HostSpec,
    f: &InstalledFramework,
    accelerator: Accelerator,
    toolkit: &str,
) -> Option<Result<Vec<String>, String>> {
    let framework = table.framework(f.name)?;
    let version = Version::leading(&f.version)?;
    let tag = &build(table, framework, accelerator, toolkit)?.tag;
    let answer = resolve(table, framework, host, None);
    let fits = answer
        .candidates
        .into_iter()
        .find(|c| c.version == version && c.build == *tag)
        .map(|c| Ok(c.cautions));
    let rejected =
        answer.rejected.into_iter().find(|r| r.version.as_ref() == Some(&version) && r.build == *tag);
    fits.or_else(|| rejected.map(|r| Err(r.reason)))
}

/// The build row by toolkit version: major.minor, or the major version where a package states no more.
fn build<'a>(
    table: &'a CompatTable,
    framework: &table::Framework,
    accelerator: Accelerator,
    toolkit: &str,
) -> Option<&'a table::Build> {
    let wanted = Version::leading(toolkit)?;
    let rows = table.build.iter().filter(|b| b.framework == framework.name && b.accelerator == accelerator);
    let toolkit_of = |b: &&table::Build| b.toolkit.clone();
    let exact = rows
        .clone()
        .find(|b| toolkit_of(b).is_some_and(|t| (t.major(), t.minor()) == (wanted.major(), wanted.minor())));
    // Frameworks with one build per CUDA major version match by it; PyTorch has several.
    let family = || rows.clone().find(|b| toolkit_of(b).is_some_and(|t| t.major() == wanted.major()));
    exact.or_else(|| family().filter(|_| framework.name != "pytorch"))
}

fn driver_only(table: &CompatTable, host: &HostSpec, said: &str, toolkit: &str, step: String) -> Finding {
    let floor = Version::leading(toolkit).and_then(|t| table.floor.iter().find(|f| f.toolkit.matches(&t)));
    match (&host.driver, floor) {
        (Some(driver), Some(floor)) if *driver < floor.linux => {
            let why = format!("{said}, the driver is {driver}, and must be {} at least", floor.linux);
            Finding::new(Status::Error, why).step(step).step("or update the driver")
        }
        (Some(driver), Some(_)) => Finding::healthy(format!("{said}, and driver {driver} is new enough")),
        _ => Finding::new(Status::Unknown, format!("{said}: no table knows whether it runs here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat;

    #[track_caller]
    fn check(gpu: &str, driver: &str, version: &str, cuda: &str, expected: Status) {
        let table = compat::embedded();
        let mut host = compat::host_spec::named(&table, gpu).unwrap_or_default();
        host.driver = Version::leading(driver);
        host.arch = "x86_64".to_owned();
        let build = BuildTarget::Cuda(cuda.to_owned());
        let installed = InstalledFramework { name: "torch", version: version.to_owned(), build };
        let found = judge(&table, &host, &installed, Accelerator::Cuda, cuda);
        assert_eq!(found.status, expected, "{:?}", found.evidence);
    }

    #[test]
    fn builds_are_checked_against_driver_and_gpu() {
        check("RTX 4090", "580.65.06", "2.14.1+cu130", "13.0", Status::Healthy);
        check("RTX 4090", "579.99.99", "2.14.1+cu130", "13.0", Status::Error);
        check("RTX 4090", "580.126.09", "2.15.0", "13.2", Status::Warning);
        check("RTX 4090", "595.45.04", "2.15.0", "13.2", Status::Healthy);
        // Pascal has no code since CUDA 13, Blackwell none before 12.8.
        check("GTX 1080", "580.65.06", "2.14.1+cu130", "13.0", Status::Error);
        check("GTX 1080", "580.65.06", "2.14.1+cu126", "12.6", Status::Healthy);
        check("RTX 5090", "580.65.06", "2.6.0+cu124", "12.4", Status::Error);
    }

    #[test]
    fn unlisted_builds_are_checked_against_the_driver_only() {
        check("RTX 4090", "580.65.06", "2.99.0+cu130", "13.0", Status::Healthy);
        check("RTX 4090", "570.86.15", "2.99.0+cu130", "13.0", Status::Error);
        check("nobody's GPU", "580.65.06", "2.14.1+cu130", "13.0", Status::Healthy);
        check("nobody's GPU", "525.60.12", "2.14.1+cu126", "12.6", Status::Error);
        check("nobody's GPU", "580.65.06", "0.4.0", "8.0", Status::Unknown);
    }
}
