//! Detection pipeline: cache lookup, tier 0 (kernel files), tier 1 (drivers, tools), merge, limits, score, selection.

use std::time::{Duration, Instant, SystemTime};

use crate::{
    cache::{self, CacheLookup, Detected, DetectionCache},
    cgroup, cpu, host,
    merge::merge,
    model::{CacheInfo, Cpu, EnvOverride, Gpu, Host, Inventory, ProbeReport, SCHEMA, Timing, Warning},
    overrides::{self, Env},
    probe::{
        Tier0Findings, Tier1, Tier1Options, Tier1Run,
        filesystem::{FileSystem, RealFs},
        isolate::Isolation,
        sysfs,
    },
    recording::Recording,
    score,
};

/// Cache policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Neither read nor written.
    #[default]
    Off,
    /// Read, and written after a detection.
    On(DetectionCache),
    /// Written only: forces a fresh detection.
    Refresh(DetectionCache),
}

/// Detection options.
#[derive(Debug, Clone)]
pub struct DetectOptions {
    /// Cache policy.
    pub cache: CacheUse,
    /// Skip tier 1: kernel files only, no device is woken.
    pub tier0_only: bool,
    /// Deadline, parallelism and isolation of tier 1.
    pub tier1: Tier1Options,
    /// Device preference of the user: its origin (flag, variable, setting) and its text.
    pub preference: Option<(String, String)>,
    /// Origin of the CPU-only setting, where it is set.
    pub cpu_only: Option<String>,
}

impl Default for DetectOptions {
    fn default() -> Self {
        let tier1 =
            Tier1Options { deadline: Duration::from_secs(5), parallel: true, isolation: Isolation::Thread };
        DetectOptions { cache: CacheUse::Off, tier0_only: false, tier1, preference: None, cpu_only: None }
    }
}

impl DetectOptions {
    /// Takes `GPUFORGE_DEVICE` and `GPUFORGE_CPU_ONLY` from the environment.
    pub fn with_env(mut self, env: Env<'_>) -> Self {
        self.preference =
            env("GPUFORGE_DEVICE").filter(|v| !v.is_empty()).map(|v| ("GPUFORGE_DEVICE".to_owned(), v));
        self.cpu_only = env("GPUFORGE_CPU_ONLY")
            .filter(|v| overrides::is_truthy(v))
            .map(|_| "GPUFORGE_CPU_ONLY".to_owned());
        self
    }
}

/// Limits of this process; never cached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessLimits {
    /// Cgroup limits.
    pub cgroup: cgroup::CgroupLimits,
    /// CPUs in the affinity mask.
    pub affinity: Option<u32>,
}

/// The inventory of this machine.
pub fn detect(options: &DetectOptions, env: Env<'_>) -> Inventory {
    let files = RealFs;
    let mut timings = Vec::new();
    let started = Instant::now();
    let (store, read) = match &options.cache {
        CacheUse::Off => (None, false),
        CacheUse::On(store) => (Some(store), true),
        CacheUse::Refresh(store) => (Some(store), false),
    };
    // Probes could start before the fingerprint is read to save time on a miss, but on a hit they must not start at all.
    let fingerprint = store.map(|_| cache::fingerprint(&files, env));
    let mut warnings = Vec::new();
    if let (Some(store), Some(fingerprint), true) = (store, fingerprint.as_deref(), read) {
        match store.lookup(fingerprint, SystemTime::now()) {
            CacheLookup::Hit(detected, age) => {
                timing(&mut timings, "cache", started, "hit");
                let cache = CacheInfo { hit: true, age_s: Some(age.as_secs_f64()) };
                return finish(*detected, &process_limits(&files), options, env, cache, timings);
            }
            CacheLookup::Miss(warning) => warnings.extend(warning),
        }
        timing(&mut timings, "cache", started, "miss");
    }
    let (mut detected, tier1) = probe(&files, options, env, &mut timings);
    let complete = tier1.warnings.is_empty() && !options.tier0_only;
    if let (Some(store), Some(fingerprint), true) = (store, fingerprint.as_deref(), complete) {
        // A failed probe is never cached as "no device": detection runs again next time.
        if let Err(error) = store.store(fingerprint, &detected, SystemTime::now()) {
            warnings.push(Warning {
                source: "cache".to_owned(),
                message: format!("{} cannot be written: {error}", store.dir().display()),
                hint: Some(
                    "set GPUFORGE_CACHE_DIR to a directory you can write to, or use --no-cache".to_owned(),
                ),
            });
        }
    }
    detected.warnings.extend(warnings);
    detected.warnings.extend(tier1.warnings);
    finish(detected, &process_limits(&files), options, env, CacheInfo::default(), timings)
}

/// Runs a detection and records what the probes read, with names, serial numbers and identifiers redacted.
pub fn record(options: &DetectOptions, env: Env<'_>) -> (Inventory, Recording) {
    let files = crate::probe::filesystem::RecordingFs::new(&RealFs);
    let mut timings = Vec::new();
    let (mut detected, tier1) = probe(&files, options, env, &mut timings);
    let limits = process_limits(&files);
    let recording = Recording::new(files.into_recording(), &tier1, limits.affinity, env);
    detected.warnings.extend(tier1.warnings);
    (finish(detected, &limits, options, env, CacheInfo::default(), timings), recording)
}

/// Replays a recording: the inventory of the recorded machine, with the recorded environment variables.
pub fn replay(recording: &Recording) -> Inventory {
    let env = |name: &str| recording.env.get(name).cloned();
    let options = DetectOptions::default().with_env(&env);
    let tier1 = Tier1 {
        reports: recording.reports.clone(),
        warnings: recording.warnings.clone(),
        timings: Vec::new(),
    };
    let mut detected = assemble(&recording.files, sysfs::read(&recording.files), &tier1.reports, &env);
    detected.host.os = Some(recording.os.clone());
    // A translated process records its own instruction set; a report states that of the machine.
    let stated = tier1.reports.iter().find_map(|r| r.cpu.as_ref()?.arch.clone());
    detected.cpu.arch = stated.or_else(|| Some(recording.arch.clone()));
    detected.warnings.extend(tier1.warnings);
    let limits = ProcessLimits { cgroup: cgroup::limits(&recording.files), affinity: recording.affinity };
    finish(detected, &limits, &options, &env, CacheInfo::default(), Vec::new())
}

fn process_limits(files: &dyn FileSystem) -> ProcessLimits {
    ProcessLimits { cgroup: cgroup::limits(files), affinity: cpu::affinity() }
}

fn probe(
    files: &dyn FileSystem,
    options: &DetectOptions,
    env: Env<'_>,
    timings: &mut Vec<Timing>,
) -> (Detected, Tier1) {
    let tier1_run = (!options.tier0_only).then(|| Tier1Run::start(&options.tier1, env));
    let started = Instant::now();
    let tier0 = sysfs::read(files);
    let hint = sysfs::nvidia_hint(files);
    timing(timings, "tier 0", started, "ok");
    let found = tier0_findings(&tier0, hint);
    // The CPU is read while the drivers initialise.
    let started = Instant::now();
    let mut detected = assemble(files, tier0.clone(), &[], env);
    timing(timings, "cpu", started, "ok");
    let Some(tier1_run) = tier1_run else { return (detected, Tier1::default()) };
    let tier1 = tier1_run.finish(&found);
    timings.extend(tier1.timings.iter().cloned());
    let (cpu, host) = (detected.cpu, detected.host);
    detected = merged(tier0, &tier1.reports);
    detected.cpu = detected_cpu(cpu, &tier1.reports);
    detected.host = detected_host(host, &tier1.reports);
    (detected, tier1)
}

fn tier0_findings(tier0: &[ProbeReport], hint: bool) -> Tier0Findings {
    let gpus: Vec<Gpu> = tier0.iter().flat_map(|r| r.gpus.iter().cloned()).collect();
    Tier0Findings::of(&ProbeReport { gpus, ..ProbeReport::default() }, hint)
}

fn assemble(
    files: &dyn FileSystem,
    tier0: Vec<ProbeReport>,
    tier1: &[ProbeReport],
    env: Env<'_>,
) -> Detected {
    let mut detected = merged(tier0, tier1);
    detected.cpu = detected_cpu(cpu::read_static(files), tier1);
    detected.host = detected_host(host::read(files, env), tier1);
    detected
}

/// A probe that describes the CPU (of Windows or macOS) fills in where there are no kernel files.
fn detected_cpu(cpu: Cpu, tier1: &[ProbeReport]) -> Cpu {
    match tier1.iter().find_map(|r| r.cpu.clone()) {
        Some(told) if cpu.brand.is_none() => Cpu { arch: told.arch.or(cpu.arch), ..told },
        _ => cpu,
    }
}

fn detected_host(mut host: Host, tier1: &[ProbeReport]) -> Host {
    tier1.iter().filter_map(|r| r.host.as_ref()).for_each(|stated| host::fill(&mut host, stated));
    host
}

fn merged(mut reports: Vec<ProbeReport>, tier1: &[ProbeReport]) -> Detected {
    reports.extend(tier1.iter().cloned());
    let merged = merge(reports);
    let mut detected = Detected {
        gpus: merged.gpus,
        driver_version: merged.driver_version,
        cuda_version: merged.cuda_version,
        kernel_module: merged.kernel_module,
        warnings: merged.warnings,
        ..Detected::default()
    };
    for gpu in &mut detected.gpus {
        // On a live machine the PCI id database is as good a source of names as lspci, which uses the same data.
        if gpu.name.is_none() {
            gpu.name.clone_from(&gpu.pci_name);
        }
        if gpu.driver_version.is_none() {
            gpu.driver_version.clone_from(&gpu.kernel_driver);
        }
    }
    detected
}

/// Applies process limits and environment overrides, scores and selects; pure.
pub fn finish(
    detected: Detected,
    limits: &ProcessLimits,
    options: &DetectOptions,
    env: Env<'_>,
    cache: CacheInfo,
    timings: Vec<Timing>,
) -> Inventory {
    let Detected { mut gpus, mut cpu, host, driver_version, cuda_version, kernel_module, mut warnings } =
        detected;
    cpu::apply_limits(&mut cpu, &limits.cgroup, limits.affinity);
    let mut seen = overrides::apply_visibility(&mut gpus, env);
    score_all(&mut gpus, cpu.memory_bytes);
    let preference = options.preference.as_ref().map(|(origin, text)| (origin.as_str(), text.as_str()));
    let scored = score::best(&gpus);
    let (best, best_reason, warning) =
        overrides::choose_device(&gpus, scored, options.cpu_only.as_deref(), preference);
    warnings.extend(warning);
    for (origin, value) in
        options.preference.iter().cloned().chain(options.cpu_only.iter().map(|o| (o.clone(), "1".to_owned())))
    {
        if origin.starts_with("GPUFORGE_") {
            seen.push(EnvOverride { variable: origin, value, effect: best_reason.clone() });
        }
    }
    Inventory {
        schema: SCHEMA,
        gpus,
        cpu: Some(cpu),
        best,
        best_reason,
        host,
        driver_version,
        cuda_version,
        kernel_module,
        kind: None,
        kinds: Vec::new(),
        overrides: seen,
        cache,
        warnings,
        timings,
    }
}

/// Inventory from pasted tool output; `None` when no format is recognised. The environment variables of this machine are
/// ignored: the text describes another one.
pub fn from_text(bytes: &[u8]) -> Option<Inventory> {
    let mut reports = crate::parsers::reports(&crate::parsers::decode(bytes));
    if reports.is_empty() {
        return None;
    }
    reports.iter_mut().for_each(cap);
    let merged = merge(reports);
    let mut gpus = merged.gpus;
    score_all(&mut gpus, merged.cpu.as_ref().and_then(|c| c.memory_bytes));
    let (best, best_reason) = score::best(&gpus);
    Some(Inventory {
        schema: SCHEMA,
        gpus,
        cpu: merged.cpu,
        best,
        best_reason,
        driver_version: merged.driver_version,
        cuda_version: merged.cuda_version,
        kernel_module: merged.kernel_module,
        kind: match merged.kinds.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        },
        kinds: merged.kinds,
        warnings: merged.warnings,
        ..Inventory::default()
    })
}

/// Max devices per report: merging is quadratic, and no real machine lists this many.
const MAX_DEVICES: usize = 1024;

fn cap(report: &mut ProbeReport) {
    if report.gpus.len() > MAX_DEVICES {
        let message = format!("lists {} devices, only the first {MAX_DEVICES} are read", report.gpus.len());
        report.warnings.push(Warning { source: report.kind.clone(), message, hint: None });
        report.gpus.truncate(MAX_DEVICES);
    }
}

fn score_all(gpus: &mut [Gpu], system_memory: Option<u64>) {
    for gpu in gpus {
        let score = score::score(gpu, system_memory);
        gpu.score = Some(score.points);
        gpu.score_reasons = score.reasons;
    }
}

fn timing(timings: &mut Vec<Timing>, phase: &str, since: Instant, outcome: &str) {
    let ms = since.elapsed().as_secs_f64() * 1e3;
    timings.push(Timing { phase: phase.to_owned(), ms, outcome: outcome.to_owned() });
}
