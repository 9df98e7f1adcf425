//! `gpuforge baseline`: named sets of traces of this machine, and comparisons of later runs with them.

use std::{fmt::Write as _, path::PathBuf, time::SystemTime};

use anyhow::Result;
use gpuforge::{
    dash::compare::baseline::{BaselineError, BaselineStore, MachineFingerprint},
    hardware,
};
use serde_json::json;

use super::compare;
use crate::{
    args::profiling::{Baseline, CompareArgs},
    context::{Context, env},
    error::Hinted,
    format::{age, escape_control, plural},
    output::{CARE, DIM},
};

pub(crate) fn run(args: &Baseline, context: &Context) -> Result<()> {
    let store = BaselineStore::new(&context.places()?.data_dir);
    match args {
        Baseline::Save { name, traces } => save(&store, name, traces, context),
        Baseline::Check { name, traces, options, any_machine } => {
            check(&store, name, traces, (options, *any_machine), context)
        }
        Baseline::List => list(&store, context),
    }
}

/// Exit code 1 means a regression, so whatever prevents a comparison is wrong usage (2).
fn hinted(error: BaselineError) -> anyhow::Error {
    Hinted::usage(escape_control(&error.to_string()), error.hint()).into()
}

fn save(store: &BaselineStore, name: &str, traces: &[PathBuf], context: &Context) -> Result<()> {
    let side = compare::side(traces)?;
    let machine = this_machine();
    let path = store.save(name, &machine, &side, SystemTime::now()).map_err(hinted)?;
    let (runs, operations) = (side.runs.len(), count(&side));
    if context.out.json {
        let machine = (machine.fingerprint(), &machine);
        return context.out.json(&json!({
            "name": name, "file": path, "runs": runs, "operations": operations,
            "fingerprint": machine.0, "machine": machine.1,
        }));
    }
    context.out.text(&format!(
        "kept {} with {} as {name}: {}\n",
        plural(runs as u64, "run"),
        plural(operations as u64, "operation"),
        path.display()
    ))
}

fn count(side: &gpuforge::dash::compare::RunSet) -> usize {
    side.operations().collect::<std::collections::BTreeSet<_>>().len()
}

fn check(
    store: &BaselineStore,
    name: &str,
    traces: &[PathBuf],
    (options, any_machine): (&CompareArgs, bool),
    context: &Context,
) -> Result<()> {
    let machine = this_machine();
    let baseline = store.find(name, &machine, any_machine).map_err(hinted)?;
    if baseline.machine != machine {
        let what = format!("it was measured on another machine: {}", baseline.machine);
        context.out.warn("baseline", &escape_control(&what), None);
    }
    let side = compare::side(traces)?;
    let names: Vec<String> = traces.iter().map(|path| escape_control(&path.display().to_string())).collect();
    compare::judge(
        (&baseline.side, &side),
        (&format!("baseline {name}"), &names.join(", ")),
        options,
        context,
    )
}

fn list(store: &BaselineStore, context: &Context) -> Result<()> {
    let (found, errors) = store.list().map_err(hinted)?;
    errors.iter().for_each(|error| {
        context.out.warn("baseline", &escape_control(&error.to_string()), Some(&error.hint()))
    });
    let this = this_machine();
    if context.out.json {
        let rows: Vec<_> = found
            .iter()
            .map(|(path, baseline)| {
                json!({
                    "name": baseline.name, "file": path, "runs": baseline.side.runs.len(),
                    "operations": count(&baseline.side), "saved_s": baseline.saved_s,
                    "here": baseline.machine == this, "fingerprint": baseline.machine.fingerprint(),
                    "machine": baseline.machine,
                })
            })
            .collect();
        return context.out.json(&json!({ "dir": store.dir(), "baselines": rows }));
    }
    let mut out = format!("{}\n", store.dir().display());
    if found.is_empty() {
        out.push_str("  empty\n");
    }
    for (_, baseline) in &found {
        let old = baseline
            .age(SystemTime::now())
            .map_or_else(|| "age unknown".to_owned(), |a| format!("{} old", age(a)));
        let _ = write!(out, "  {}  {}, {old}", baseline.name, plural(baseline.side.runs.len() as u64, "run"));
        match baseline.machine == this {
            true => out.push('\n'),
            false => {
                let _ = writeln!(
                    out,
                    "  {CARE}another machine{CARE:#} {DIM}{}{DIM:#}",
                    escape_control(&baseline.machine.to_string())
                );
            }
        }
    }
    context.out.text(&out)
}

/// Identity of this machine, from kernel files only, so that no device wakes. The fingerprint of the detection cache would
/// not do: it changes with every boot, driver and version of gpuforge.
fn this_machine() -> MachineFingerprint {
    let options = hardware::DetectOptions { tier0_only: true, ..hardware::DetectOptions::default() };
    let inventory = hardware::detect(&options, &env);
    let cpu = inventory.cpu.unwrap_or_default();
    let mut gpus: Vec<String> = inventory
        .gpus
        .iter()
        .map(|gpu| gpu.pci_id.clone().unwrap_or_else(|| gpu.display_name().to_owned()))
        .collect();
    gpus.sort();
    MachineFingerprint {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpu: cpu.brand,
        threads: cpu.available.or(cpu.logical),
        gpus,
    }
}
