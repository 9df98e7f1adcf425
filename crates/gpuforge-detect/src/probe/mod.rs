//! How is a live machine asked? Tier 0 reads kernel files and wakes nothing; tier 1 asks drivers, each under a
//! deadline, none able to harm the others.
//!
//! To add a probe, add a row to [`PROBES`] and the file that reads it.

use std::time::{Duration, Instant};

use crate::{
    model::{Report, Timing, Vendor, Warning},
    overrides::Env,
    text,
};

#[cfg(feature = "adapters")]
pub mod adapters;
pub mod files;
pub mod isolate;
pub mod nvml;
pub mod tier0;

use isolate::{Isolation, Outcome};

/// Why a probe has no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeError {
    /// The library or tool is not installed: nothing is wrong, there is just nothing to ask.
    #[error("{0}")]
    Absent(String),
    /// It is there and failed.
    #[error("{0}")]
    Failed(String),
}

/// How a probe gets its answer.
#[derive(Clone, Copy)]
pub enum Source {
    /// Loads a driver library into the process that calls it.
    Library(fn() -> Result<Report, ProbeError>),
    /// Runs a vendor's tool and parses what it prints.
    Tool {
        /// Program, looked up on `PATH` and then in the vendor's usual folder.
        program: &'static str,
        /// The vendor's usual folder.
        folder: &'static str,
        /// Arguments.
        args: &'static [&'static str],
        /// The format it prints, by its name in [`text::FORMATS`].
        format: &'static str,
    },
}

/// One tier-1 probe.
pub struct Probe {
    /// Name in warnings, timings and `--record`.
    pub name: &'static str,
    /// What it asks, for the documentation.
    pub asks: &'static str,
    /// Whether the findings of tier 0 make it worth asking.
    pub wanted: fn(&Findings) -> bool,
    /// How it asks.
    pub source: Source,
}

/// What tier 0 tells the table above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Findings {
    /// An NVIDIA device, its kernel module or WSL's driver folder is there.
    pub nvidia: bool,
    /// The AMD compute driver lists a node.
    pub amd_compute: bool,
    /// An Intel card is there.
    pub intel_card: bool,
}

impl Findings {
    /// Reads them off the tier-0 report.
    pub fn of(report: &Report, nvidia_hint: bool) -> Self {
        let any = |vendor| report.gpus.iter().any(|g| g.vendor == Some(vendor));
        Findings {
            nvidia: nvidia_hint || any(Vendor::Nvidia) || !cfg!(target_os = "linux"),
            amd_compute: report.gpus.iter().any(|g| g.sources.iter().any(|s| s == "kfd")),
            intel_card: report
                .gpus
                .iter()
                .any(|g| g.vendor == Some(Vendor::Intel) && g.kind == crate::model::GpuType::Discrete),
        }
    }
}

/// Every tier-1 probe, the slowest first so that it starts first.
pub const PROBES: &[Probe] = &[
    #[cfg(feature = "adapters")]
    Probe {
        name: "adapters",
        asks: "Vulkan, Metal or DX12 for its adapters, through wgpu",
        wanted: |_| true,
        source: Source::Library(adapters::read),
    },
    Probe {
        name: "nvml",
        asks: "NVIDIA's management library",
        wanted: |found| found.nvidia,
        source: Source::Library(nvml::read),
    },
    #[cfg(target_os = "macos")]
    Probe {
        name: "system_profiler",
        asks: "macOS for its displays and their GPUs",
        wanted: |_| true,
        source: Source::Tool {
            program: "system_profiler",
            folder: "/usr/sbin",
            args: &["SPDisplaysDataType"],
            format: "system_profiler",
        },
    },
    #[cfg(target_os = "macos")]
    Probe {
        name: "sysctl",
        asks: "macOS for the processor's cores, caches and memory",
        wanted: |_| true,
        source: Source::Tool {
            program: "sysctl",
            folder: "/usr/sbin",
            args: &["hw", "machdep.cpu"],
            format: "sysctl",
        },
    },
    #[cfg(windows)]
    Probe {
        name: "win32",
        asks: "Windows for its display adapters and their drivers",
        wanted: |_| true,
        source: Source::Tool {
            program: "powershell.exe",
            folder: "C:\\Windows\\System32\\WindowsPowerShell\\v1.0",
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
        asks: "AMD's management tool, where it is installed",
        wanted: |found| found.amd_compute,
        source: Source::Tool {
            program: "rocm-smi",
            folder: "/opt/rocm/bin",
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
        asks: "Intel's management tool, where it is installed",
        wanted: |found| found.intel_card,
        source: Source::Tool {
            program: "xpu-smi",
            folder: "/usr/bin",
            args: &["discovery", "-j"],
            format: "xpu_smi",
        },
    },
];

/// The probe of this name.
pub fn find(name: &str) -> Option<&'static Probe> {
    PROBES.iter().find(|p| p.name == name)
}

/// How tier 1 is run.
#[derive(Debug, Clone)]
pub struct Tier1Options {
    /// The most that one probe may take.
    pub deadline: Duration,
    /// All at once, or one after the other.
    pub parallel: bool,
    /// Where driver libraries are loaded.
    pub isolation: Isolation,
}

/// What tier 1 found and what went wrong.
#[derive(Debug, Clone, Default)]
pub struct Tier1 {
    /// Reports in the order of [`PROBES`].
    pub reports: Vec<Report>,
    /// One per probe that failed or ran out of time.
    pub warnings: Vec<Warning>,
    /// One per probe that was asked.
    pub timings: Vec<Timing>,
}

/// A probe under way.
struct Running {
    probe: &'static Probe,
    started: Instant,
    task: isolate::Task,
}

/// Tier 1 in two steps, so that the probes that need no findings start before tier 0 is read.
pub struct Asking<'a> {
    options: &'a Tier1Options,
    env: Env<'a>,
    running: Vec<Running>,
    done: Tier1,
}

impl<'a> Asking<'a> {
    /// Starts the probes that are wanted whatever tier 0 finds.
    pub fn start(options: &'a Tier1Options, env: Env<'a>) -> Self {
        let mut asking = Asking { options, env, running: Vec::new(), done: Tier1::default() };
        asking.start_wanted(&Findings::default(), |_| true);
        asking
    }

    fn start_wanted(&mut self, found: &Findings, also: impl Fn(&Probe) -> bool) {
        for probe in PROBES.iter().filter(|p| (p.wanted)(found) && also(p)) {
            let started = Instant::now();
            match isolate::start(probe, &self.options.isolation, self.env) {
                Ok(task) => self.running.push(Running { probe, started, task }),
                Err(error) => self.done.finish(probe, started, Err(error)),
            }
            if !self.options.parallel {
                self.collect();
            }
        }
    }

    /// Starts the rest, waits for all, each no longer than its deadline.
    pub fn finish(mut self, found: &Findings) -> Tier1 {
        let early = Findings::default();
        self.start_wanted(found, |p| !(p.wanted)(&early));
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
                Outcome::TimedOut => Err(isolate::Failure::TimedOut(self.options.deadline)),
                Outcome::Broken(why) => Err(isolate::Failure::Broken(why)),
                Outcome::Said(text) => understand(running.probe, &text),
            };
            self.done.finish(running.probe, running.started, outcome);
        }
    }
}

/// What a probe's output means: our own children speak JSON, tools speak their formats.
fn understand(probe: &Probe, text: &str) -> Result<Report, isolate::Failure> {
    match probe.source {
        Source::Library(_) => match serde_json::from_str::<Result<Report, ProbeError>>(text) {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(ProbeError::Absent(why))) => Err(isolate::Failure::Absent(why)),
            Ok(Err(ProbeError::Failed(why))) => Err(isolate::Failure::Broken(why)),
            Err(_) => Err(isolate::Failure::Broken("its output was not understood".to_owned())),
        },
        Source::Tool { format, program, .. } => {
            let parse = text::FORMATS.iter().find(|f| f.name == format).map(|f| f.parse);
            let report = parse.and_then(|parse| parse(&text::normalise(text)));
            report.ok_or_else(|| {
                isolate::Failure::Broken(format!("the output of {program} was not understood"))
            })
        }
    }
}

impl Tier1 {
    fn finish(&mut self, probe: &Probe, started: Instant, outcome: Result<Report, isolate::Failure>) {
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let word = match outcome {
            Ok(mut report) => {
                report.kind = probe.name.to_owned();
                for gpu in &mut report.gpus {
                    gpu.sources = vec![probe.name.to_owned()];
                    // Addresses order a live machine; these devices come after the ones that tier 0 saw.
                    gpu.at = usize::MAX;
                }
                self.reports.push(report);
                "ok"
            }
            Err(isolate::Failure::Absent(_)) => "absent",
            Err(failure) => {
                let hint =
                    "the other probes' results stand; `gpuforge detect --refresh --timings` asks again";
                let message = failure.to_string();
                self.warnings.push(Warning {
                    source: probe.name.to_owned(),
                    message,
                    hint: Some(hint.to_owned()),
                });
                if matches!(failure, isolate::Failure::TimedOut(_)) { "timed out" } else { "failed" }
            }
        };
        self.timings.push(Timing { phase: probe.name.to_owned(), ms, outcome: word.to_owned() });
    }
}
