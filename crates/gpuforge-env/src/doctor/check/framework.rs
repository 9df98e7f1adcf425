//! Checks `framework-build` and `framework-gpu`: builds of installed frameworks by package metadata; `--deep` imports them.

use std::time::Duration;

use gpuforge_detect::{
    model::{GpuType, Vendor},
    probe::filesystem::FileSystem,
};

use super::{numbers, python};
use crate::doctor::{Finding, Status, SystemView, ToolOutput};

/// Accelerator that a package was built for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum BuildTarget {
    /// CUDA version.
    Cuda(String),
    /// ROCm version; empty where unknown.
    Rocm(String),
    /// Intel's GPUs.
    Xpu,
    /// CPUs only.
    Cpu,
    /// Not stated by its files.
    Unknown,
}

impl std::fmt::Display for BuildTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildTarget::Cuda(version) => write!(f, "for CUDA {version}"),
            BuildTarget::Rocm(version) => f.write_str(format!("for ROCm {version}").trim_end()),
            BuildTarget::Xpu => f.write_str("for Intel GPUs"),
            BuildTarget::Cpu => f.write_str("for CPUs only"),
            BuildTarget::Unknown => f.write_str("for what its files do not say"),
        }
    }
}

/// An installed framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct InstalledFramework {
    /// `torch`, `tensorflow`, `jax`.
    pub(in crate::doctor) name: &'static str,
    /// Its version.
    pub(in crate::doctor) version: String,
    /// What it was built for.
    pub(in crate::doctor) build: BuildTarget,
}

/// A package by its `dist-info` directory.
struct Package {
    site: String,
    dir: String,
    name: String,
    version: String,
}

impl Package {
    fn metadata(&self, view: &SystemView) -> String {
        view.read(&format!("{}/{}/METADATA", self.site, self.dir)).unwrap_or_default()
    }
}

fn packages(view: &SystemView) -> Vec<Package> {
    let mut all = Vec::new();
    for site in python::site_packages(view) {
        for dir in view.list(&site) {
            let Some((name, version)) = dir.strip_suffix(".dist-info").and_then(|f| f.split_once('-')) else {
                continue;
            };
            let (name, version) = (name.to_ascii_lowercase().replace(['-', '.'], "_"), version.to_owned());
            all.push(Package { site: site.clone(), dir: dir.clone(), name, version });
        }
    }
    all
}

/// Frameworks of the active environment.
pub(in crate::doctor) fn installed(view: &SystemView) -> Vec<InstalledFramework> {
    let all = packages(view);
    let named = |name: &str| all.iter().find(|p| p.name == name);
    let torch = named("torch").map(|p| ("torch", p, torch_build(view, p)));
    let tensorflow = named("tensorflow").map(|p| ("tensorflow", p, tensorflow_build(view, p)));
    let cpu = || named("tensorflow_cpu").map(|p| ("tensorflow", p, BuildTarget::Cpu));
    let rocm = || named("tensorflow_rocm").map(|p| ("tensorflow", p, BuildTarget::Rocm(String::new())));
    let jax = named("jax").map(|p| ("jax", p, jax_build(&all)));
    [torch, tensorflow.or_else(rocm).or_else(cpu), jax]
        .into_iter()
        .flatten()
        .map(|(name, package, build)| InstalledFramework { name, version: package.version.clone(), build })
        .collect()
}

/// By the local version label, else its `version.py`, else its requirements.
fn torch_build(view: &SystemView, package: &Package) -> BuildTarget {
    let local = |version: &str| {
        let local = version.split_once('+')?.1.to_owned();
        match local.as_str() {
            l if l.starts_with("cpu") => Some(BuildTarget::Cpu),
            l if l.starts_with("rocm") => Some(BuildTarget::Rocm(major_minor(l.trim_start_matches("rocm")))),
            l if l.starts_with("xpu") => Some(BuildTarget::Xpu),
            l => cuda_tag(l).map(BuildTarget::Cuda),
        }
    };
    if let Some(build) = local(&package.version) {
        return build;
    }
    if let Some(text) = view.read(&format!("{}/torch/version.py", package.site)) {
        // `cuda: Optional[str] = '12.6'`, `hip: Optional[str] = None`
        let value = |key: &str| {
            let line = text
                .lines()
                .find(|l| l.strip_prefix(key).is_some_and(|r| r.trim_start().starts_with([':', '='])))?;
            let value = line.rsplit_once('=')?.1.trim().trim_matches(['\'', '"']);
            (value != "None" && !value.is_empty()).then(|| value.to_owned())
        };
        return match (value("cuda"), value("hip"), value("xpu")) {
            (Some(cuda), ..) => BuildTarget::Cuda(cuda),
            (_, Some(hip), _) => BuildTarget::Rocm(major_minor(&hip)),
            (_, _, Some(_)) => BuildTarget::Xpu,
            _ => BuildTarget::Cpu,
        };
    }
    required_cuda(&package.metadata(view)).map_or(BuildTarget::Unknown, BuildTarget::Cuda)
}

/// The first two numbers of a version.
fn major_minor(version: &str) -> String {
    numbers(version).iter().take(2).map(u32::to_string).collect::<Vec<_>>().join(".")
}

/// `cu126` is 12.6.
fn cuda_tag(tag: &str) -> Option<String> {
    let digits: String = tag.strip_prefix("cu")?.chars().take_while(char::is_ascii_digit).collect();
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    (!major.is_empty()).then(|| format!("{major}.{minor}"))
}

/// The CUDA runtime among the requirements: `nvidia-cuda-runtime-cu12==12.6.77`, `cuda-toolkit[…]==13.2.2`.
fn required_cuda(metadata: &str) -> Option<String> {
    let line = metadata.lines().filter_map(|l| l.strip_prefix("Requires-Dist:")).find(|l| {
        let l = l.trim();
        l.starts_with("nvidia-cuda-runtime") || l.starts_with("cuda-toolkit")
    })?;
    let version = line.split_once("==")?.1;
    Some(major_minor(version.split([';', ')', ' ', ',']).next()?)).filter(|v| !v.is_empty())
}

/// By `('cuda_version', '12.5.1')` in its `build_info.py`.
fn tensorflow_build(view: &SystemView, package: &Package) -> BuildTarget {
    let path = format!("{}/tensorflow/python/platform/build_info.py", package.site);
    let Some(text) = view.read(&path) else { return BuildTarget::Unknown };
    let value = |key: &str| {
        let rest = text.split_once(&format!("'{key}'")).or_else(|| text.split_once(&format!("\"{key}\"")))?.1;
        let value: String = rest
            .trim_start_matches([',', ':', ' ', '\'', '"'])
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '.')
            .collect();
        (!value.is_empty()).then_some(value)
    };
    match (value("is_cuda_build").as_deref(), value("is_rocm_build").as_deref(), value("cuda_version")) {
        (Some("True"), _, version) => BuildTarget::Cuda(version.unwrap_or_else(|| "12".to_owned())),
        (_, Some("True"), _) => BuildTarget::Rocm(String::new()),
        (Some("False"), ..) => BuildTarget::Cpu,
        (None, _, Some(version)) => BuildTarget::Cuda(version),
        _ => BuildTarget::Unknown,
    }
}

/// By the installed JAX plugin: JAX itself is CPU-only.
fn jax_build(all: &[Package]) -> BuildTarget {
    let plugin = all.iter().find_map(|p| p.name.strip_prefix("jax_")?.strip_suffix("_plugin"));
    match plugin {
        Some(name) if name.starts_with("cuda") => {
            BuildTarget::Cuda(name.trim_start_matches("cuda").to_owned())
        }
        Some(name) if name.starts_with("rocm") => {
            BuildTarget::Rocm(name.trim_start_matches("rocm").to_owned())
        }
        Some(_) => BuildTarget::Unknown,
        None => BuildTarget::Cpu,
    }
}

/// `framework-build`
pub(super) fn framework_build(view: &SystemView) -> Finding {
    let frameworks = installed(view);
    let facts = view.host_facts();
    let nvidia =
        facts.nvidia.is_some() || facts.has(Vendor::Nvidia) || view.is_file("/usr/lib/wsl/lib/libcuda.so.1");
    // Frameworks rarely run on integrated AMD and Intel GPUs: a CPU build is right for them.
    let card = |vendor| facts.of(vendor).any(|g| g.kind == GpuType::Discrete);
    let (amd, intel) = (card(Vendor::Amd), card(Vendor::Intel));
    let found = frameworks.iter().map(|f| {
        let fits = match f.build {
            BuildTarget::Cuda(_) => nvidia,
            BuildTarget::Rocm(_) => facts.has(Vendor::Amd),
            BuildTarget::Xpu => facts.has(Vendor::Intel),
            BuildTarget::Cpu => !(nvidia || amd || intel),
            BuildTarget::Unknown => {
                return Finding::new(Status::Unknown, format!("{} {} is {}", f.name, f.version, f.build));
            }
        };
        let said = format!("{} {} is {}", f.name, f.version, f.build);
        match (fits, nvidia || amd || intel) {
            (true, _) => Finding::healthy(said),
            // Without a GPU any build runs on the CPU; a GPU build only takes more disk space.
            (false, false) => {
                Finding::healthy(format!("{said}, and there is no such GPU: it will use the CPU"))
            }
            (false, true) => Finding::new(Status::Warning, format!("{said}, not for the GPU that is here"))
                .step(format!(
                    "`gpuforge env recommend --framework {}` names the right build",
                    setting(f.name)
                )),
        }
    });
    Finding::all(found, || {
        Finding::skipped("neither PyTorch, TensorFlow nor JAX is installed in the active environment")
    })
    .and(libraries(view, &frameworks, nvidia))
}

/// Framework name on the command line.
pub(super) fn setting(name: &str) -> &str {
    if name == "torch" { "pytorch" } else { name }
}

/// Missing or mismatched companion packages.
fn libraries(view: &SystemView, frameworks: &[InstalledFramework], nvidia: bool) -> Finding {
    let all = packages(view);
    let version = |name: &str| all.iter().find(|p| p.name == name).map(|p| p.version.as_str());
    let mut found = Vec::new();
    let tensorflow =
        frameworks.iter().any(|f| f.name == "tensorflow" && matches!(f.build, BuildTarget::Cuda(_)));
    let conda = python::active_env(view).is_some_and(|u| u.kind == python::PythonEnvKind::Conda);
    if tensorflow && nvidia && !conda && !all.iter().any(|p| p.name.starts_with("nvidia_cudnn")) {
        found.push(
            Finding::new(Status::Warning, "tensorflow is installed without NVIDIA's libraries")
                .step("pip install 'tensorflow[and-cuda]'"),
        );
    }
    if let (Some(jax), Some(jaxlib)) = (version("jax"), version("jaxlib"))
        && numbers(jaxlib) > numbers(jax)
    {
        let said = format!("jaxlib {jaxlib} is newer than jax {jax}, which refuses it");
        found.push(Finding::new(Status::Error, said).step("install both in one version"));
    }
    let mut none = Finding::skipped("");
    none.evidence.clear();
    Finding::all(found, || none)
}

/// Deadline of an import from a cold disk.
const DEEP: Duration = Duration::from_secs(60);

/// Scripts that print the number of GPUs each framework sees.
const QUESTIONS: [(&str, &str); 3] = [
    (
        "torch",
        "import torch\nn = torch.cuda.device_count() if torch.cuda.is_available() else (torch.xpu.device_count() if hasattr(torch, 'xpu') and torch.xpu.is_available() else 0)\nprint('gpus:', n)",
    ),
    ("tensorflow", "import tensorflow as tf\nprint('gpus:', len(tf.config.list_physical_devices('GPU')))"),
    ("jax", "import jax\nprint('gpus:', len([d for d in jax.devices() if d.platform != 'cpu']))"),
];

/// `framework-gpu`
pub(super) fn framework_gpu(view: &SystemView) -> Finding {
    if !view.is_deep() {
        return Finding::skipped("not asked; --deep asks, which takes seconds");
    }
    let frameworks = installed(view);
    let Some(python) = python::interpreter(view) else {
        return Finding::skipped("no Python is there to ask");
    };
    let gpu = view.host_facts().has_gpu() || view.exists("/dev/dxg");
    // In parallel: imports wait for the disk, and a hung one must not delay the next.
    let found = std::thread::scope(|scope| {
        let asked: Vec<_> = frameworks
            .iter()
            .filter_map(|f| QUESTIONS.iter().find(|(name, _)| *name == f.name))
            .map(|(name, question)| {
                scope.spawn(|| answer(name, view.run_tool(&python, &["-c", question], DEEP), gpu))
            })
            .collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
    });
    Finding::all(found, || {
        Finding::skipped("neither PyTorch, TensorFlow nor JAX is installed in the active environment")
    })
}

fn answer(name: &str, answer: ToolOutput, gpu: bool) -> Finding {
    match answer {
        ToolOutput::Exited { ok: true, text } => {
            let count = text.lines().find_map(|l| l.trim().strip_prefix("gpus:")?.trim().parse::<u32>().ok());
            match (count, gpu) {
                (Some(0), true) => Finding::new(Status::Error, format!("{name} starts, and sees no GPU"))
                    .step(format!("see the checks above; `gpuforge explain` reads what {name} prints")),
                (Some(0), false) => Finding::healthy(format!("{name} starts, on the CPU")),
                (Some(n), _) => {
                    Finding::healthy(format!("{name} sees {n} GPU{}", if n == 1 { "" } else { "s" }))
                }
                (None, _) => {
                    Finding::new(Status::Unknown, format!("{name} starts, and does not say what it sees"))
                }
            }
        }
        ToolOutput::Exited { ok: false, text } => {
            let last =
                text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no message").trim().to_owned();
            Finding::new(Status::Error, format!("{name} cannot be imported: {last}"))
                .step("give the whole message to `gpuforge explain`")
        }
        ToolOutput::TimedOut(limit) => Finding::new(
            Status::Unknown,
            format!("{name} did not answer within {} s and was killed", limit.as_secs()),
        ),
        ToolOutput::SpawnFailed(why) => Finding::new(Status::Unknown, format!("Python {why}")),
        ToolOutput::Disabled => Finding::skipped("programs of this root are not run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_by_their_text() {
        assert_eq!(cuda_tag("cu126").as_deref(), Some("12.6"));
        assert_eq!(cuda_tag("cu118.post1").as_deref(), Some("11.8"));
        assert_eq!([cuda_tag("cu"), cuda_tag("cu1"), cuda_tag("xpu")], [None, None, None]);
        let requires = "Requires-Dist: numpy\nRequires-Dist: nvidia-cuda-runtime-cu12 (==12.6.77) ; platform_system == \"Linux\"\n";
        assert_eq!(required_cuda(requires).as_deref(), Some("12.6"));
        assert_eq!(required_cuda("Requires-Dist: cuda-toolkit[cublas]==13.2.2; x").as_deref(), Some("13.2"));
        assert_eq!(required_cuda("Requires-Dist: numpy==1.2"), None);
    }
}
