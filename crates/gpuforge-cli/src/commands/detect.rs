//! `gpuforge detect`: this machine, a recording, or pasted text; as text or JSON.

use std::{fmt::Write as _, io::Read as _, path::Path};

use anyhow::{Context as _, Result};
use gpuforge::{
    detection,
    hardware::{
        self, CacheUse, DetectOptions, Inventory,
        model::{Cpu, Gpu, Usable, Vendor},
        recording::Recording,
    },
};

use super::probe;
use crate::{
    args::machine::Detect,
    context::{Context, env},
    error::Hinted,
    format::{age, dotted, size, width, wrap},
    output::{BAD, CARE, DIM, GOOD, HEAD},
    progress::Progress,
};

/// Largest pasted text; a wrong file is rejected before it fills memory.
const PASTE_LIMIT: u64 = 64 << 20;

pub(crate) fn run(args: &Detect, context: &Context) -> Result<()> {
    let (mut inventory, options) = if let Some(file) = &args.from {
        (from_paste(file)?, None)
    } else if let Some(dir) = &args.replay {
        (hardware::replay(&Recording::load(dir).map_err(anyhow::Error::from)?), None)
    } else {
        let (inventory, options) = live(args, context)?;
        (inventory, Some(options))
    };
    if !args.timings {
        inventory.timings.clear();
    }
    // Kernel files (tier 0) know few names: a device may exist though its name is not found.
    let checked =
        options.filter(|o| !o.tier0_only).map_or(Ok(()), |o| detection::check_device(&o, &inventory));
    if let Err(unknown) = &checked {
        // Reported once, as the error of the run; the inventory is still printed.
        inventory.warnings.retain(|w| w.source != unknown.origin || context.out.json);
    }
    print(&inventory, context)?;
    Ok(checked?)
}

/// Detects this machine; with `--record`, also saves the recording.
fn live(args: &Detect, context: &Context) -> Result<(Inventory, DetectOptions)> {
    let places = context.places()?;
    let flags = [("probe_timeout", &args.probe_timeout), ("device", &args.device)];
    let flags: Vec<(&str, &str)> = flags.iter().filter_map(|(n, v)| v.as_deref().map(|v| (*n, v))).collect();
    // An invalid flag is an error; an invalid setting in a file only a warning.
    for (name, text) in &flags {
        if let Some(key) = gpuforge::settings::SettingKey::find(name) {
            key.parse(text, gpuforge::settings::SettingLocation::Flag((*name).to_owned()))?;
        }
    }
    let settings = context.settings(&places, &flags);
    let mut options = detection::options(settings, &places, &env);
    options.tier1.isolation = probe::isolation();
    options.tier0_only = args.no_wake;
    options.cache = match options.cache {
        _ if args.no_cache => CacheUse::Off,
        CacheUse::On(store) if args.refresh => CacheUse::Refresh(store),
        other => other,
    };
    let _progress = Progress::start("probing drivers", context.out.prints_notes());
    let Some(dir) = &args.record else { return Ok((hardware::detect(&options, &env), options)) };
    let (inventory, recording) = hardware::record(&options, &env);
    let path = recording.save(dir)?;
    if !context.out.quiet && !context.out.json {
        context.out.text(&format!("recorded to {}\n", path.display()))?;
    }
    Ok((inventory, options))
}

fn from_paste(file: &Path) -> Result<Inventory> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(PASTE_LIMIT + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(PASTE_LIMIT + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    if bytes.len() as u64 > PASTE_LIMIT {
        let limit = format!("{} is larger than {}", file.display(), size(PASTE_LIMIT));
        return Err(Hinted::new(limit, "paste the output of one or a few tools").into());
    }
    let formats: Vec<&str> = hardware::parsers::FORMATS.iter().map(|f| f.produced_by).collect();
    hardware::from_text(&bytes).ok_or_else(|| {
        let what = format!("{} holds no output that gpuforge recognises", file.display());
        Hinted::new(what, format!("it reads: {}", formats.join(", "))).into()
    })
}

/// Prints an inventory as text or JSON.
pub(crate) fn print(inventory: &Inventory, context: &Context) -> Result<()> {
    if context.out.json {
        return context.out.json(inventory);
    }
    context.out.text(&render(inventory, context.out.verbose))?;
    warn(inventory, context);
    Ok(())
}

/// Prints the warnings of the detection.
pub(crate) fn warn(inventory: &Inventory, context: &Context) {
    for warning in &inventory.warnings {
        context.out.warn(&warning.source, &warning.message, warning.hint.as_deref());
    }
}

fn render(inventory: &Inventory, verbose: bool) -> String {
    let width = width();
    let mut out = format!("{HEAD}GPUs{HEAD:#}\n");
    if inventory.gpus.is_empty() {
        out.push_str("  none\n");
    }
    for (i, gpu) in inventory.gpus.iter().enumerate() {
        out.push_str(&gpu_lines(i, gpu, width, verbose));
    }
    if let Some(cpu) = &inventory.cpu {
        let _ = writeln!(out, "{HEAD}CPU{HEAD:#}");
        out.push_str(&cpu_lines(cpu, width));
    }
    let host = host_parts(inventory);
    if !host.is_empty() {
        let _ = writeln!(out, "{HEAD}Host{HEAD:#}");
        out.push_str(&dotted(&host, 2, width));
    }
    for found in &inventory.overrides {
        out.push_str(&wrap(&format!("{}={}: {}", found.variable, found.value, found.effect), 2, width));
    }
    let _ = writeln!(out, "{HEAD}Best{HEAD:#}");
    let best = match &inventory.best {
        Some(best) => format!("{}: {}", best.name, best.reason),
        None => format!("CPU: {}", inventory.best_reason),
    };
    out.push_str(&wrap(&best, 2, width));
    if let Some(seconds) = inventory.cache.age_s {
        let old = age(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let _ = writeln!(out, "{DIM}  from the cache, {old} old; --refresh detects again{DIM:#}");
    }
    for timing in &inventory.timings {
        let _ = writeln!(out, "  {:<10} {:>9.2} ms  {}", timing.phase, timing.ms, timing.outcome);
    }
    out
}

/// Two lines per GPU: name with verdict, then properties; more with --verbose.
pub(crate) fn gpu_lines(index: usize, gpu: &Gpu, width: usize, verbose: bool) -> String {
    let (style, verdict) = match (gpu.usable_for_compute, &gpu.hidden_by) {
        (_, Some(variable)) => (CARE, format!("hidden by {variable}")),
        (Usable::Yes, _) => (GOOD, "usable".to_owned()),
        (Usable::No, _) => (BAD, "not usable".to_owned()),
        (Usable::Unknown, _) => (CARE, "not proven usable".to_owned()),
    };
    let mut out = format!("  {index}  {HEAD}{}{HEAD:#}  {style}{verdict}{style:#}", gpu.display_name());
    match gpu.score {
        Some(score) if gpu.usable_for_compute != Usable::No => {
            let _ = writeln!(out, ", score {score}");
        }
        _ => out.push('\n'),
    }
    out.push_str(&dotted(&gpu_parts(gpu), 5, width));
    if let Some(reason) =
        gpu.usable_reason.as_ref().filter(|_| verbose || gpu.usable_for_compute != Usable::Yes)
    {
        out.push_str(&wrap(reason, 5, width));
    }
    for slice in &gpu.mig_devices {
        let profile = slice.profile.as_deref().unwrap_or("slice");
        let memory = slice.memory_bytes.map(|b| format!(", {}", size(b))).unwrap_or_default();
        let index = slice.index.map(|i| format!(" {i}")).unwrap_or_default();
        let _ = writeln!(out, "     MIG{index}: {profile}{memory}");
    }
    if verbose {
        for reason in &gpu.score_reasons {
            out.push_str(&wrap(reason, 7, width));
        }
        let _ = writeln!(out, "     {DIM}sources: {}{DIM:#}", gpu.sources.join(", "));
    }
    out
}

fn gpu_parts(gpu: &Gpu) -> Vec<String> {
    let vendor = match gpu.vendor {
        Some(Vendor::Nvidia) => Some("NVIDIA"),
        Some(Vendor::Amd) => Some("AMD"),
        Some(Vendor::Intel) => Some("Intel"),
        Some(Vendor::Apple) => Some("Apple"),
        Some(Vendor::Other) | None => None,
    };
    let kind = format!("{:?}", gpu.kind).to_lowercase();
    let arch =
        gpu.arch.as_ref().map(|a| if a.starts_with("gfx") { a.clone() } else { format!("compute {a}") });
    let shared = gpu.gtt_bytes.or(gpu.system_shared_bytes).or(gpu.shared_max_bytes);
    let parts = [
        vendor.map(str::to_owned),
        (kind != "unknown").then_some(kind),
        gpu.memory_bytes.map(size),
        shared.map(|b| format!("{} shared", size(b))),
        gpu.partitions.map(|n| format!("{n} partitions")),
        arch,
        gpu.driver_version.as_ref().map(|v| format!("driver {v}")),
        gpu.bus_id.clone(),
        (!gpu.apis.is_empty()).then(|| gpu.apis.join(", ")),
    ];
    parts.into_iter().flatten().collect()
}

fn cpu_lines(cpu: &Cpu, width: usize) -> String {
    let hybrid = match (cpu.performance_cores, cpu.efficiency_cores) {
        (Some(p), Some(e)) => Some(format!("{p} performance + {e} efficiency cores")),
        _ => None,
    };
    let usable = match (cpu.available, cpu.logical) {
        (Some(a), Some(l)) if a < l => Some(format!("{a} of {l} threads usable")),
        (_, Some(l)) => Some(format!("{l} threads")),
        _ => None,
    };
    let limit = cpu.memory_limit_bytes.map(|b| format!("limited to {}", size(b)));
    let parts = [
        cpu.brand.clone(),
        cpu.sockets.filter(|s| *s > 1).map(|s| format!("{s} sockets")),
        hybrid.or_else(|| cpu.cores.map(|c| format!("{c} cores"))),
        usable,
        cpu.limited_by.clone(),
        cpu.simd.clone(),
        cpu.memory_bytes.map(size),
        limit,
    ];
    dotted(&parts.into_iter().flatten().collect::<Vec<_>>(), 2, width)
}

fn host_parts(inventory: &Inventory) -> Vec<String> {
    let host = &inventory.host;
    let parts = [
        host.os.clone(),
        host.kernel.clone(),
        host.wsl.map(|v| format!("WSL {v}")),
        host.container.as_ref().map(|c| format!("in a {c} container")),
        host.hypervisor.as_ref().map(|h| format!("virtual machine ({h})")),
        inventory
            .driver_version
            .as_ref()
            .map(|v| format!("NVIDIA driver {v}"))
            .filter(|_| inventory.cuda_version.is_some()),
        inventory.cuda_version.as_ref().map(|v| format!("CUDA {v}")),
        inventory.kernel_module.as_ref().map(|m| format!("{m} kernel module")),
    ];
    parts.into_iter().flatten().collect()
}
