//! Hardware probes: tier 0 reads kernel files and wakes no device; tier 1 queries drivers and tools, each isolated and
//! under a deadline.
//!
//! To add a probe, add a row to [`PROBES`] and the file that implements it.

use std::time::{Duration, Instant};

use crate::{
    model::{GpuType, ProbeReport, Timing, Vendor, Warning},
    overrides::Env,
    parsers, snapshot,
};

#[cfg(feature = "adapters")]
pub mod adapters;
pub mod filesystem;
pub mod isolate;
#[cfg(target_os = "macos")]
pub mod macos;
pub mod nvml;
pub mod sysfs;
#[cfg(windows)]
pub mod windows;

use isolate::{Isolation, TaskOutcome};

/// Why a probe has no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeError {
    /// The library or tool is not installed: not an error.
    #[error("{0}")]
    Absent(String),
    /// It is installed and failed.
    #[error("{0}")]
    Failed(String),
}

/// How a probe gets its data.
#[derive(Clone, Copy)]
pub enum ProbeSource {
    /// Loads a driver library into the process that calls it.
    Library(fn() -> Result<ProbeReport, ProbeError>),
    /// Runs a vendor's tool and parses its output.
    Tool {
        /// Program, looked up on `PATH` and then in the vendor's usual directory.
        program: &'static str,
        /// The vendor's usual directory.
        default_dir: &'static str,
        /// Arguments.
        args: &'static [&'static str],
        /// The format it prints, by its name in [`parsers::FORMATS`].
        format: &'static str,
    },
}

/// One tier-1 probe.
pub struct Probe {
    /// Name in warnings, timings and `--record`.
    pub name: &'static str,
    /// What it queries, for the documentation.
    pub queries: &'static str,
    /// Whether the tier-0 findings make it worth running.
    pub relevant: fn(&Tier0Findings) -> bool,
    /// A fallback runs after the other probes, where their reports lack what it would state.
    pub fallback: Option<fn(&[ProbeReport]) -> bool>,
    /// How it gets its data.
    pub source: ProbeSource,
}

/// Tier-0 findings that decide which tier-1 probes run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tier0Findings {
    /// An NVIDIA device, its kernel module or WSL's driver directory exists.
    pub nvidia: bool,
    /// The AMD compute driver lists a node.
    pub amd_compute: bool,
    /// There is a discrete Intel GPU.
    pub intel_card: bool,
}

impl Tier0Findings {
    /// Derives them from the tier-0 report.
    pub fn of(report: &ProbeReport, nvidia_hint: bool) -> Self {
        let any = |vendor| report.gpus.iter().any(|g| g.vendor == Some(vendor));
        Tier0Findings {
            nvidia: nvidia_hint || any(Vendor::Nvidia) || !cfg!(target_os = "linux"),
            amd_compute: report.gpus.iter().any(|g| g.sources.iter().any(|s| s == "kfd")),
            intel_card: report
                .gpus
                .iter()
                .any(|g| g.vendor == Some(Vendor::Intel) && g.kind == GpuType::Discrete),
        }
    }
}

/// Every tier-1 probe, the slowest first so that it starts first.
pub const PROBES: &[Probe] = &[
    #[cfg(feature = "adapters")]
    Probe {
        name: "adapters",
        queries: "Vulkan, Metal or DX12 for its adapters, through wgpu",
        relevant: |_| true,
        fallback: None,
        source: ProbeSource::Library(adapters::read),
    },
    Probe {
        name: "nvml",
        queries: "NVIDIA's management library",
        relevant: |found| found.nvidia,
        fallback: None,
        source: ProbeSource::Library(nvml::read),
    },
    #[cfg(windows)]
    Probe {
        name: "windows",
        queries: "DXGI, the device manager and the registry of Windows",
        relevant: |_| true,
        fallback: None,
        source: ProbeSource::Library(windows::read),
    },
    #[cfg(target_os = "macos")]
    Probe {
        name: "macos",
        queries: "Metal, IOKit's registry and sysctl of macOS",
        relevant: |_| true,
        fallback: None,
        source: ProbeSource::Library(macos::read),
    },
    #[cfg(target_os = "macos")]
    Probe {
        name: "system_profiler",
        queries: "macOS for its displays and their GPUs",
        relevant: |_| true,
        fallback: Some(lacks_gpus),
        source: ProbeSource::Tool {
            program: "system_profiler",
            default_dir: "/usr/sbin",
            args: &["SPDisplaysDataType"],
            format: "system_profiler",
        },
    },
    #[cfg(target_os = "macos")]
    Probe {
        name: "sysctl",
        queries: "macOS for CPU cores, caches and memory",
        relevant: |_| true,
        fallback: Some(lacks_cpu),
        source: ProbeSource::Tool {
            program: "sysctl",
            default_dir: "/usr/sbin",
            args: &["hw", "machdep.cpu"],
            format: "sysctl",
        },
    },
    #[cfg(windows)]
    Probe {
        name: "win32",
        queries: "Windows for its display adapters and their drivers",
        relevant: |_| true,
        fallback: Some(lacks_gpus),
        source: ProbeSource::Tool {
            program: "powershell.exe",
            default_dir: "C:\\Windows\\System32\\WindowsPowerShell\\v1.0",
            args: &[
                "-NoProfile",
                "-NonInteractive",
                "-Command",
                "Get-CimInstance Win32_VideoController | Select-Object Name,PNPDeviceID,DriverVersion,Status | ConvertTo-Json",
            ],
            format: "win32",
        },
    },
    Probe {
        name: "rocm-smi",
        queries: "AMD's management tool, where it is installed",
        relevant: |found| found.amd_compute,
        fallback: None,
        source: ProbeSource::Tool {
            program: "rocm-smi",
            default_dir: "/opt/rocm/bin",
            args: &[
                "--showproductname",
                "--showmeminfo",
                "vram",
                "--showbus",
                "--showdriverversion",
                "--json",
            ],
            format: "rocm_smi",
        },
    },
    Probe {
        name: "xpu-smi",
        queries: "Intel's management tool, where it is installed",
        relevant: |found| found.intel_card,
        fallback: None,
        source: ProbeSource::Tool {
            program: "xpu-smi",
            default_dir: "/usr/bin",
            args: &["discovery", "-j"],
            format: "xpu_smi",
        },
    },
];

/// No report of the platform's API lists a GPU with hardware of its own.
#[cfg_attr(
    not(any(windows, target_os = "macos", test)),
    expect(dead_code, reason = "Linux has no fallback probe")
)]
fn lacks_gpus(reports: &[ProbeReport]) -> bool {
    let real = |report: &&ProbeReport| report.gpus.iter().any(|g| g.kind != GpuType::Software);
    reports.iter().filter(|r| API_PROBES.contains(&r.kind.as_str())).find(real).is_none()
}

/// No report describes the CPU.
#[cfg_attr(not(any(target_os = "macos", test)), expect(dead_code, reason = "only macOS has a tool for it"))]
fn lacks_cpu(reports: &[ProbeReport]) -> bool {
    reports.iter().all(|r| r.cpu.as_ref().is_none_or(|cpu| cpu.brand.is_none()))
}

/// Probes of a platform's own API, for which tools are the fallback.
const API_PROBES: [&str; 2] = [snapshot::windows::KIND, snapshot::macos::KIND];

/// The probe of this name.
pub fn find(name: &str) -> Option<&'static Probe> {
    PROBES.iter().find(|p| p.name == name)
}

/// What changes with a boot or a driver on platforms without kernel files, for the fingerprint of the cache. Loads no library
/// of a driver.
pub fn platform_stamp() -> Option<String> {
    #[cfg(windows)]
    return windows::stamp();
    #[cfg(target_os = "macos")]
    return macos::stamp();
    #[cfg(not(any(windows, target_os = "macos")))]
    None
}

/// Tier-1 options.
#[derive(Debug, Clone)]
pub struct Tier1Options {
    /// Deadline of each probe.
    pub deadline: Duration,
    /// Run probes in parallel, or one after the other.
    pub parallel: bool,
    /// Where driver libraries are loaded.
    pub isolation: Isolation,
}

/// Tier-1 results.
#[derive(Debug, Clone, Default)]
pub struct Tier1 {
    /// Reports in the order of [`PROBES`].
    pub reports: Vec<ProbeReport>,
    /// One per probe that failed or timed out.
    pub warnings: Vec<Warning>,
    /// One per probe that ran.
    pub timings: Vec<Timing>,
}

/// A running probe.
struct RunningProbe {
    probe: &'static Probe,
    started: Instant,
    task: isolate::ProbeTask,
}

/// Tier 1 in two phases, so that probes that need no findings start before tier 0 is read.
pub struct Tier1Run<'a> {
    options: &'a Tier1Options,
    env: Env<'a>,
    running: Vec<RunningProbe>,
    done: Tier1,
}

impl<'a> Tier1Run<'a> {
    /// Starts the probes that run whatever tier 0 finds.
    pub fn start(options: &'a Tier1Options, env: Env<'a>) -> Self {
        let mut run = Tier1Run { options, env, running: Vec::new(), done: Tier1::default() };
        run.start_relevant(&Tier0Findings::default(), |p| p.fallback.is_none());
        run
    }

    fn start_relevant(&mut self, found: &Tier0Findings, also: impl Fn(&Probe) -> bool) {
        for probe in PROBES.iter().filter(|p| (p.relevant)(found) && also(p)) {
            let started = Instant::now();
            match isolate::start(probe, &self.options.isolation, self.env) {
                Ok(task) => self.running.push(RunningProbe { probe, started, task }),
                Err(error) => self.done.finish(probe, started, Err(error)),
            }
            if !self.options.parallel {
                self.collect();
            }
        }
    }

    /// Starts the rest and waits for all, each until its deadline.
    pub fn finish(mut self, found: &Tier0Findings) -> Tier1 {
        let early = Tier0Findings::default();
        self.start_relevant(found, |p| p.fallback.is_none() && !(p.relevant)(&early));
        self.collect();
        let reports = self.done.reports.clone();
        self.start_relevant(found, |p| p.fallback.is_some_and(|lacks| lacks(&reports)));
        self.collect();
        let position = |kind: &str| PROBES.iter().position(|p| p.name == kind);
        self.done.timings.sort_by_key(|t| position(&t.phase));
        self.done
    }

    fn collect(&mut self) {
        for running in self.running.drain(..) {
            let left = self.options.deadline.saturating_sub(running.started.elapsed());
            let outcome = running.task.wait(left);
            let outcome = match outcome {
                TaskOutcome::TimedOut => Err(isolate::ProbeFailure::TimedOut(self.options.deadline)),
                TaskOutcome::Failed(why) => Err(isolate::ProbeFailure::Failed(why)),
                TaskOutcome::Output(text) => parse_output(running.probe, &text),
            };
            self.done.finish(running.probe, running.started, outcome);
        }
    }
}

/// Parses a probe's output: our own children print JSON, tools print their formats.
fn parse_output(probe: &Probe, text: &str) -> Result<ProbeReport, isolate::ProbeFailure> {
    match probe.source {
        ProbeSource::Library(_) => match serde_json::from_str::<Result<ProbeReport, ProbeError>>(text) {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(ProbeError::Absent(why))) => Err(isolate::ProbeFailure::Absent(why)),
            Ok(Err(ProbeError::Failed(why))) => Err(isolate::ProbeFailure::Failed(why)),
            Err(_) => Err(isolate::ProbeFailure::Failed("its output was not understood".to_owned())),
        },
        ProbeSource::Tool { format, program, .. } => {
            let parse = parsers::FORMATS.iter().find(|f| f.name == format).map(|f| f.parse);
            let report = parse.and_then(|parse| parse(&parsers::normalise(text)));
            report.ok_or_else(|| {
                isolate::ProbeFailure::Failed(format!("the output of {program} was not understood"))
            })
        }
    }
}

impl Tier1 {
    fn finish(
        &mut self,
        probe: &Probe,
        started: Instant,
        outcome: Result<ProbeReport, isolate::ProbeFailure>,
    ) {
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let word = match outcome {
            Ok(mut report) => {
                report.kind = probe.name.to_owned();
                for gpu in &mut report.gpus {
                    gpu.sources = vec![probe.name.to_owned()];
                    // A live machine is ordered by PCI address; these devices come after those of tier 0.
                    gpu.at = usize::MAX;
                }
                self.reports.push(report);
                "ok"
            }
            Err(isolate::ProbeFailure::Absent(_)) => "absent",
            Err(failure) => {
                let hint =
                    "the other probes' results stand; `gpuforge detect --refresh --timings` asks again";
                let message = failure.to_string();
                self.warnings.push(Warning {
                    source: probe.name.to_owned(),
                    message,
                    hint: Some(hint.to_owned()),
                });
                if matches!(failure, isolate::ProbeFailure::TimedOut(_)) { "timed out" } else { "failed" }
            }
        };
        self.timings.push(Timing { phase: probe.name.to_owned(), ms, outcome: word.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpu, Gpu};

    #[test]
    fn tools_are_asked_only_where_the_api_lacks_an_answer() {
        let of = |kind: &str, gpu: Option<GpuType>| ProbeReport {
            gpus: gpu.map(|kind| Gpu { kind, ..Gpu::default() }).into_iter().collect(),
            ..ProbeReport::of(kind)
        };
        assert!(lacks_gpus(&[]));
        assert!(lacks_gpus(&[of("windows", None), of("adapters", Some(GpuType::Discrete))]));
        assert!(lacks_gpus(&[of("windows", Some(GpuType::Software))]));
        assert!(!lacks_gpus(&[of("windows", Some(GpuType::Discrete))]));
        assert!(!lacks_gpus(&[of("macos", Some(GpuType::Integrated))]));
        let cpu = |brand: Option<&str>| ProbeReport {
            cpu: Some(Cpu { brand: brand.map(str::to_owned), ..Cpu::default() }),
            ..ProbeReport::of("macos")
        };
        assert!(lacks_cpu(&[of("nvml", None), cpu(None)]));
        assert!(!lacks_cpu(&[cpu(Some("Apple M1"))]));
    }

    #[test]
    fn names_are_there_once() {
        for (at, probe) in PROBES.iter().enumerate() {
            assert!(PROBES.iter().skip(at + 1).all(|p| p.name != probe.name), "{}", probe.name);
        }
    }
}
