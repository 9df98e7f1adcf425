//! `gpuforge status`: parts of the runtime, whether loaded or not, and the switches that are set.

use std::fmt::Write as _;

use anyhow::Result;
use gpuforge::Forge;

use super::probe;
use crate::{
    context::{Context, env},
    output::{DIM, GOOD, HEAD},
};

pub(crate) fn run(context: &Context) -> Result<()> {
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    // A status loads nothing: what is not loaded is shown as such.
    let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
    let status = forge.status();
    if context.out.json {
        return context.out.json(&status);
    }
    let mut out = format!("{HEAD}Parts{HEAD:#}\n");
    for part in &status.components {
        let state = if part.loaded { "loaded" } else { "not loaded" };
        let took = part.load_ms.map(|ms| format!(", {ms:.1} ms")).unwrap_or_default();
        let _ = writeln!(out, "  {:<10} {state}{took}  {DIM}{}{DIM:#}", part.name, part.what);
        if !part.depends_on.is_empty() && context.out.verbose {
            let _ = writeln!(out, "             needs {}", part.depends_on.join(", "));
        }
    }
    if !status.predicted.is_empty() {
        let _ = writeln!(out, "  a warm-up would load: {}", status.predicted.join(", "));
    }
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
