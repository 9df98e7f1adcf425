//! What does this machine have, now? Cache, tier 0, tier 1, merge, limits, score, choice: in that order.

use std::time::{Duration, Instant, SystemTime};

use crate::{
    cache::{self, Detected, Lookup, Store},
    cgroup, cpu, host,
    merge::merge,
    model::{CacheInfo, Gpu, Inventory, Override, Report, SCHEMA, Timing, Warning},
    overrides::{self, Env},
    probe::{
        Asking, Findings, Tier1, Tier1Options,
        files::{Files, RealFiles},
        isolate::Isolation,
        tier0,
    },
    record::Recording,
    score,
};

/// How the cache takes part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Neither read nor written.
    #[default]
    Off,
    /// Read, and written after a detection.
    On(Store),
    /// Written only: a fresh answer.
    Refresh(Store),
}

/// How to detect.
#[derive(Debug, Clone)]
pub struct Options {
    /// Cache.
    pub cache: CacheUse,
    /// Skip tier 1: kernel files only, nothing is woken.
    pub tier0_only: bool,
    /// Deadline, parallelism and isolation of tier 1.
    pub tier1: Tier1Options,
    /// Device the user asked for: where the wish comes from, and what it says.
    pub wish: Option<(String, String)>,
    /// What asks for the processor only.
    pub cpu_only: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let tier1 =
            Tier1Options { deadline: Duration::from_secs(5), parallel: true, isolation: Isolation::Thread };
        Options { cache: CacheUse::Off, tier0_only: false, tier1, wish: None, cpu_only: None }
    }
}

impl Options {
    /// Takes `GPUFORGE_DEVICE` and `GPUFORGE_CPU_ONLY` from the environment.
    pub fn with_env(mut self, env: Env<'_>) -> Self {
        self.wish =
            env("GPUFORGE_DEVICE").filter(|v| !v.is_empty()).map(|v| ("GPUFORGE_DEVICE".to_owned(), v));
        self.cpu_only =
            env("GPUFORGE_CPU_ONLY").filter(|v| overrides::is_on(v)).map(|_| "GPUFORGE_CPU_ONLY".to_owned());
        self
    }
}

/// What of the answer holds for this process only.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Limits of the control group.
    pub limits: cgroup::Limits,
    /// Processors this process may run on.
    pub affinity: Option<u32>,
}

/// The inventory of this machine.
pub fn detect(options: &Options, env: Env<'_>) -> Inventory {
    let files = RealFiles;
    let mut timings = Vec::new();
    let started = Instant::now();
    let (store, read) = match &options.cache {
        CacheUse::Off => (None, false),
        CacheUse::On(store) => (Some(store), true),
        CacheUse::Refresh(store) => (Some(store), false),
    };
    // A probe that starts before the fingerprint is read saves its time on a miss; on a hit it must not start at all.
    let fingerprint = store.map(|_| cache::fingerprint(&files, env));
    let mut warnings = Vec::new();
    if let (Some(store), Some(fingerprint), true) = (store, fingerprint.as_deref(), read) {
        match store.lookup(fingerprint, SystemTime::now()) {
            Lookup::Hit(detected, age) => {
                timing(&mut timings, "cache", started, "hit");
                let cache = CacheInfo { hit: true, age_s: Some(age.as_secs_f64()) };
                return finish(*detected, &moment(&files), options, env, cache, timings);
            }
            Lookup::Miss(warning) => warnings.extend(warning),
        }
        timing(&mut timings, "cache", started, "miss");
    }
    let (mut detected, tier1) = probe(&files, options, env, &mut timings);
    let complete = tier1.warnings.is_empty() && !options.tier0_only;
    if let (Some(store), Some(fingerprint), true) = (store, fingerprint.as_deref(), complete) {
        // A failed probe is never stored as "nothing there": the whole answer is asked for again next time.
        if let Err(error) = store.store(fingerprint, &detected, SystemTime::now()) {
            warnings.push(Warning {
                source: "cache".to_owned(),
                message: format!("{} cannot be written: {error}", store.dir().display()),
                hint: Some(
                    "set GPUFORGE_CACHE_DIR to a folder you can write to, or use --no-cache".to_owned(),
                ),
            });
        }
    }
    detected.warnings.extend(warnings);
    detected.warnings.extend(tier1.warnings);
    finish(detected, &moment(&files), options, env, CacheInfo::default(), timings)
}

/// Asks the machine and keeps what the probes read, without names, serial numbers and identifiers.
pub fn record(options: &Options, env: Env<'_>) -> (Inventory, Recording) {
    let files = crate::probe::files::Recorder::new(&RealFiles);
    let mut timings = Vec::new();
    let (mut detected, tier1) = probe(&files, options, env, &mut timings);
    let moment = moment(&files);
    let recording = Recording::new(files.into_recording(), &tier1, moment.affinity, env);
    detected.warnings.extend(tier1.warnings);
    (finish(detected, &moment, options, env, CacheInfo::default(), timings), recording)
}

/// The inventory that a recording's machine had. The recording's environment counts, not this one's.
pub fn replay(recording: &Recording) -> Inventory {
    let env = |name: &str| recording.env.get(name).cloned();
    let options = Options::default().with_env(&env);
    let tier1 = Tier1 {
        reports: recording.reports.clone(),
        warnings: recording.warnings.clone(),
        timings: Vec::new(),
    };
    let mut detected = assemble(&recording.files, tier0::read(&recording.files), &tier1.reports, &env);
    detected.host.os = Some(recording.os.clone());
    detected.cpu.arch = Some(recording.arch.clone());
    detected.warnings.extend(tier1.warnings);
    let moment = Moment { limits: cgroup::limits(&recording.files), affinity: recording.affinity };
    finish(detected, &moment, &options, &env, CacheInfo::default(), Vec::new())
}

fn moment(files: &dyn Files) -> Moment {
    Moment { limits: cgroup::limits(files), affinity: cpu::affinity() }
}

fn probe(files: &dyn Files, options: &Options, env: Env<'_>, timings: &mut Vec<Timing>) -> (Detected, Tier1) {
    let asking = (!options.tier0_only).then(|| Asking::start(&options.tier1, env));
    let started = Instant::now();
    let tier0 = tier0::read(files);
    let hint = tier0::nvidia_hint(files);
    timing(timings, "tier 0", started, "ok");
    let found = tier0_findings(&tier0, hint);
    // The processor is read while the drivers start.
    let started = Instant::now();
    let mut detected = assemble(files, tier0.clone(), &[], env);
    timing(timings, "cpu", started, "ok");
    let Some(asking) = asking else { return (detected, Tier1::default()) };
    let tier1 = asking.finish(&found);
    timings.extend(tier1.timings.iter().cloned());
    let (cpu, host) = (detected.cpu, detected.host);
    detected = merged(tier0, &tier1.reports);
    detected.cpu = detected_cpu(cpu, &tier1.reports);
    detected.host = host;
    (detected, tier1)
}

fn tier0_findings(tier0: &[Report], hint: bool) -> Findings {
    let gpus: Vec<Gpu> = tier0.iter().flat_map(|r| r.gpus.iter().cloned()).collect();
    Findings::of(&Report { gpus, ..Report::default() }, hint)
}

fn assemble(files: &dyn Files, tier0: Vec<Report>, tier1: &[Report], env: Env<'_>) -> Detected {
    let mut detected = merged(tier0, tier1);
    detected.cpu = detected_cpu(cpu::read_static(files), tier1);
    detected.host = host::read(files, env);
    detected
}

/// A tool that knows the processor (sysctl on macOS) fills what kernel files do not tell.
fn detected_cpu(cpu: crate::model::Cpu, tier1: &[Report]) -> crate::model::Cpu {
    match tier1.iter().find_map(|r| r.cpu.clone()) {
        Some(told) if cpu.brand.is_none() => crate::model::Cpu { arch: cpu.arch, ..told },
        _ => cpu,
    }
}

fn merged(mut reports: Vec<Report>, tier1: &[Report]) -> Detected {
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
        // On a live machine the PCI id data is as good a source of names as lspci, which uses the same.
        if gpu.name.is_none() {
            gpu.name.clone_from(&gpu.pci_name);
        }
        if gpu.driver_version.is_none() {
            gpu.driver_version.clone_from(&gpu.kernel_driver);
        }
    }
    detected
}

/// Applies what holds for this process and this moment, scores and chooses; pure.
pub fn finish(
    detected: Detected,
    moment: &Moment,
    options: &Options,
    env: Env<'_>,
    cache: CacheInfo,
    timings: Vec<Timing>,
) -> Inventory {
    let Detected { mut gpus, mut cpu, host, driver_version, cuda_version, kernel_module, mut warnings } =
        detected;
    cpu::apply_limits(&mut cpu, &moment.limits, moment.affinity);
    let mut seen = overrides::hide(&mut gpus, env);
    score_all(&mut gpus, cpu.memory_bytes);
    let wish = options.wish.as_ref().map(|(origin, text)| (origin.as_str(), text.as_str()));
    let scored = score::best(&gpus);
    let (best, best_reason, warning) = overrides::choose(&gpus, scored, options.cpu_only.as_deref(), wish);
    warnings.extend(warning);
    for (origin, value) in
        options.wish.iter().cloned().chain(options.cpu_only.iter().map(|o| (o.clone(), "1".to_owned())))
    {
        if origin.starts_with("GPUFORGE_") {
            seen.push(Override { variable: origin, value, effect: best_reason.clone() });
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

/// The inventory that pasted text describes; `None` when no format was recognised in it. The environment of this
/// machine does not count: the text is about another one.
pub fn from_text(bytes: &[u8]) -> Option<Inventory> {
    let mut reports = crate::text::reports(&crate::text::decode(bytes));
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

/// Merging compares devices with each other; no real machine lists this many.
const MOST_DEVICES: usize = 1024;

fn cap(report: &mut Report) {
    if report.gpus.len() > MOST_DEVICES {
        let message = format!("lists {} devices, only the first {MOST_DEVICES} are read", report.gpus.len());
        report.warnings.push(Warning { source: report.kind.clone(), message, hint: None });
        report.gpus.truncate(MOST_DEVICES);
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
