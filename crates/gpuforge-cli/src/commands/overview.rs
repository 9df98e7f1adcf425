//! `gpuforge` without a command: a short status of this machine, and the next steps.

use std::fmt::Write as _;

use anyhow::Result;
use gpuforge::{
    choice::choose,
    detection,
    hardware::{self, Inventory},
};

use super::{detect, probe};
use crate::{
    context::{Context, env},
    format::{width, wrap},
    output::HEAD,
    progress::Progress,
};

/// Suggested commands.
const NEXT: [(&str, &str); 5] = [
    ("gpuforge detect", "every fact about this machine"),
    ("gpuforge detect --from FILE", "the same for output pasted from another machine"),
    ("gpuforge demo", "what gpuforge would use here, and why"),
    ("gpuforge self-test", "whether everything works here"),
    ("gpuforge config list", "settings and where they come from"),
];

pub(crate) fn run(context: &Context) -> Result<()> {
    let inventory = inventory(context)?;
    if context.out.json {
        return context.out.json(&inventory);
    }
    let width = width();
    let choice = choose(&inventory);
    let mut out = String::new();
    for (i, gpu) in inventory.gpus.iter().enumerate() {
        out.push_str(&detect::gpu_lines(i, gpu, width, false));
    }
    out.push_str(&wrap(&format!("would use {}: {}", choice.name, choice.reason), 2, width));
    out.push_str(&wrap(&format!("threads: {}", choice.threads_reason), 2, width));
    let _ = writeln!(out, "\n{HEAD}Next{HEAD:#}");
    for (command, what) in NEXT {
        let _ = writeln!(out, "  {command:<28} {what}");
    }
    context.out.text(&out)?;
    detect::warn(&inventory, context);
    Ok(())
}

/// This machine, from the cache if it is valid.
pub(crate) fn inventory(context: &Context) -> Result<Inventory> {
    let places = context.places()?;
    let mut options = detection::options(context.settings(&places, &[]), &places, &env);
    options.tier1.isolation = probe::isolation();
    let _progress = Progress::start("probing drivers", context.out.prints_notes());
    let mut inventory = hardware::detect(&options, &env);
    // Only `detect --timings` shows these.
    inventory.timings.clear();
    Ok(inventory)
}
