//! `gpuforge status`: components of the runtime (loaded or not), the open device, the JIT, and the switches that are set.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use gpuforge::{
    Forge,
    forge::{DeviceStatus, ForgeError, Status},
    jit_status::JitStatus,
    runtime::engine::init::DriverStart,
};

use super::probe;
use crate::{
    context::{Context, env},
    format::{size, width, wrap},
    output::{CARE, DIM, GOOD, HEAD},
    progress::Progress,
};

/// The document of `--json`.
#[derive(serde::Serialize)]
struct StatusDocument {
    #[serde(flatten)]
    status: Status,
    jit: JitStatus,
}

pub(crate) fn run(load: bool, context: &Context) -> Result<()> {
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    // Without --load a status loads nothing: what is not loaded is shown as such.
    let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
    if load {
        let progress = Progress::start("loading", context.out.prints_notes());
        let loaded = forge.load();
        drop(progress);
        // A machine without a device has a status too.
        if let Err(error) = loaded {
            let hint = match &error {
                ForgeError::UnknownDevice(unknown) => Some(unknown.hint()),
                _ => None,
            };
            context.out.warn("load", &error.to_string(), hint.as_deref());
        }
    }
    let StatusDocument { status, jit } = match (forge.status(), JitStatus::probe()?) {
        (status, jit) if context.out.json => return context.out.json(&StatusDocument { status, jit }),
        (status, jit) => StatusDocument { status, jit },
    };
    let mut out = format!("{HEAD}Components{HEAD:#}\n");
    for component in &status.components {
        let state = if component.loaded { "loaded" } else { "not loaded" };
        let took = component.load_ms.map(|ms| format!(", {ms:.1} ms")).unwrap_or_default();
        let _ = writeln!(out, "  {:<10} {state}{took}  {DIM}{}{DIM:#}", component.name, component.what);
        if !component.depends_on.is_empty() && context.out.verbose {
            let _ = writeln!(out, "             needs {}", component.depends_on.join(", "));
        }
    }
    if !status.predicted.is_empty() {
        let _ = writeln!(out, "  a warm-up would load: {}", status.predicted.join(", "));
    }
    if let Some(limit) = &status.memory_limit {
        let _ = writeln!(out, "  memory limit {}  {DIM}{}{DIM:#}", size(limit.bytes.0), limit.origin);
    }
    if let Some(device) = &status.device {
        out.push_str(&device_lines(device, context.out.verbose));
    }
    out.push_str(&jit_lines(&jit));
    let _ = writeln!(out, "{HEAD}Switches{HEAD:#}");
    for switch in &status.switches {
        let _ = match &switch.value {
            Some(value) => writeln!(out, "  {GOOD}{}={value}{GOOD:#}  {}", switch.variable, switch.what),
            None if context.out.verbose => {
                writeln!(out, "  {:<22} {DIM}{}{DIM:#}", switch.variable, switch.what)
            }
            None => Ok(()),
        };
    }
    if status.switches.iter().all(|s| s.value.is_none()) && !context.out.verbose {
        out.push_str("  none is set; --verbose lists them\n");
    }
    context.out.text(&out)
}

/// The JIT: what it compiled, and why something was not.
fn jit_lines(jit: &JitStatus) -> String {
    let mut out = format!("{HEAD}JIT{HEAD:#}\n");
    let _ = writeln!(
        out,
        "  {}, {}  {DIM}{}: {} fused loops, {} of code, compiled in {:.1} ms{DIM:#}",
        jit.switch,
        jit.simd,
        jit.selection,
        jit.loops,
        size(jit.code_bytes as u64),
        jit.compile_ms
    );
    if jit.fallbacks > 0 {
        let _ = writeln!(out, "  {CARE}plans that fell back to the kernels: {}{CARE:#}", jit.fallbacks);
    }
    for reason in &jit.reasons {
        out.push_str(&wrap(reason, 4, width()));
    }
    out
}

/// The open device: start-up time, pipeline cache, memory budget.
fn device_lines(device: &DeviceStatus, verbose: bool) -> String {
    let mut out = format!("{HEAD}Device{HEAD:#}\n");
    out.push_str(&wrap(&device.caps.name, 2, width()));
    if let Some(init) = &device.init {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let start = match init.start {
            DriverStart::Cold => "cold",
            DriverStart::Warm => "warm",
        };
        let overlap = init.overlap().map(|o| format!(", overlap {o:.2}")).unwrap_or_default();
        let _ = writeln!(out, "  opened {start} in {:.1} ms{overlap}", ms(init.total));
        for phase in init.phases.iter().filter(|_| verbose) {
            let _ = writeln!(out, "    {:<22} {:>8.2} ms", phase.name, ms(phase.took));
        }
        if let Some(bytes) = init.cached_pipelines {
            let _ = writeln!(out, "  {} of compiled pipelines from disk", size(bytes));
        }
        for warning in &init.warnings {
            let _ = write!(out, "{CARE}{}{CARE:#}", wrap(warning, 2, width()));
        }
    }
    let budget = device.memory.budget;
    let kept = size(device.reserved.0);
    let may = format!("may use {} and {kept} for staging ({})", size(budget.bytes.0), budget.origin);
    out.push_str(&wrap(&may, 2, width()));
    out
}
