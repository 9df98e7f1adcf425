//! `gpuforge monitor`: live state of a running gpuforge process in the terminal, as a web page, or as one snapshot.

use std::{
    io::IsTerminal as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use gpuforge::{
    choice::choose,
    dash::live::{
        LiveError, feed,
        follower::Follower,
        machine_info::{InfoRow, MachineInfo},
        plain_text::text,
        publisher::{Publisher, VARIABLE},
        snapshot::EventLevel,
        socket_dir::{self, processes},
        tui,
        view::{ConnectionState, LiveView},
        web::LiveServer,
    },
    env::{
        compat, doctor,
        doctor::Status,
        profiles::{self, ProfileFit},
    },
    hardware::{Inventory, model::Usable},
    settings::{Settings, UserPaths},
};
use serde::Serialize;
use serde_json::json;

use super::env::{Tables, framework, target};
use crate::{
    args::{Command, machine::Monitor},
    context::{Context, env},
    error::Hinted,
    format::size,
    invocation,
};

/// How long `--once` waits for two snapshots: rates are differences.
const ONCE: Duration = Duration::from_secs(3);

/// One snapshot, as JSON.
#[derive(Serialize)]
struct MonitorSnapshot<'a> {
    #[serde(flatten)]
    view: &'a LiveView,
    machine: &'a MachineInfo,
}

/// Publishes the state of this process, if the setting asks for it. A failure is a warning.
pub(crate) fn publish(command: Option<&Command>, context: &Context) -> Option<Publisher> {
    if matches!(command, Some(Command::Monitor(_))) || !wanted() {
        return None;
    }
    let words = invocation::words();
    let name = if words.is_empty() { "gpuforge".to_owned() } else { words.join(" ") };
    match Publisher::start(&directory(), &name) {
        Ok(publisher) => {
            feed::event(EventLevel::Info, || format!("began: {name}"));
            Some(publisher)
        }
        Err(error) => {
            context.out.warn("monitor", &error.to_string(), Some(error.hint()));
            None
        }
    }
}

/// Not the settings of the context: those are fixed with the command's flags on first use.
fn wanted() -> bool {
    let places = UserPaths::resolve(&env).unwrap_or_else(|_| UserPaths::unavailable());
    Settings::load_lenient(&places, &env, &[]).monitor()
}

pub(crate) fn run(args: &Monitor, context: &Context) -> Result<()> {
    let directory = directory();
    let inventory = target::live(context)?;
    let machine = describe(&inventory);
    let mut follower = Follower::new(&directory, args.pid);
    if args.web {
        return serve(args.port, follower, machine, &inventory, context);
    }
    if args.once || context.out.json {
        if args.pid.is_some() || !processes(&directory).is_empty() {
            follower.wait(ONCE, |v| {
                !v.trend.is_empty() || !matches!(v.state, ConnectionState::Waiting | ConnectionState::Live)
            });
        }
        known(args.pid, follower.view(), &directory)?;
        return match context.out.json {
            true => context.out.json(&MonitorSnapshot { view: follower.view(), machine: &machine }),
            false => context.out.text(&text(follower.view(), &machine)),
        };
    }
    if !std::io::stdout().is_terminal() {
        let hint = "--once prints one moment, --json the same as JSON, --web serves a page";
        return Err(Hinted::usage("stdout is not a terminal", hint).into());
    }
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    Ok(tui::run(follower, &machine, plain)?)
}

fn directory() -> PathBuf {
    socket_dir::resolve(&env)
}

/// A requested process that publishes nothing is an error, with the others in the hint.
fn known(pid: Option<u32>, view: &LiveView, directory: &std::path::Path) -> Result<()> {
    let Some(pid) = pid.filter(|_| view.snapshot.is_none()) else { return Ok(()) };
    let what = match view.state {
        ConnectionState::Foreign => format!("process {pid} speaks another version of the protocol"),
        _ => format!("process {pid} does not publish its state"),
    };
    let others: Vec<String> = processes(directory).iter().map(u32::to_string).collect();
    let hint = match others.is_empty() {
        true => format!("start it with {VARIABLE}=1, or `gpuforge config set monitor true` for all"),
        false => format!("start it with {VARIABLE}=1; these do: {}", others.join(", ")),
    };
    Err(Hinted::new(what, hint).into())
}

/// Serves the page until the process exits; slow checks are filled in meanwhile.
fn serve(
    port: u16,
    follower: Follower,
    machine: MachineInfo,
    inventory: &Inventory,
    context: &Context,
) -> Result<()> {
    let shared = Arc::new(Mutex::new(machine));
    let server = LiveServer::start(port, follower, shared.clone()).map_err(hinted)?;
    if context.out.json {
        // Flushed at once: a reader needs the address before the end.
        context.out.text(&format!("{}\n", json!({"url": server.url()})))?;
    } else {
        context.out.text(&format!("{}\n", server.url()))?;
        if context.out.prints_notes() {
            let mut err = std::io::stderr();
            let what =
                "The address holds a token: who has it can look, nobody can change anything. Ctrl-C ends it.";
            let _ = std::io::Write::write_all(&mut err, format!("{what}\n").as_bytes());
        }
    }
    let put = |change: &mut dyn FnMut(&mut MachineInfo)| {
        change(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let mut fit = Some(fit(inventory, context).unwrap_or_default());
    put(&mut |m| m.fit = fit.take());
    let mut found = Some(diagnose());
    put(&mut |m| m.doctor = found.take());
    server.wait();
    Ok(())
}

fn hinted(error: LiveError) -> anyhow::Error {
    Hinted::new(error.to_string(), error.hint()).into()
}

/// Devices and CPU from kernel files and the cache: no device is woken.
fn describe(inventory: &Inventory) -> MachineInfo {
    let mut devices = Vec::new();
    for gpu in &inventory.gpus {
        let state = match (gpu.usable_for_compute, &gpu.hidden_by) {
            (_, Some(variable)) => format!("hidden by {variable}"),
            (Usable::Yes, _) => "usable".to_owned(),
            (Usable::No, _) => "not usable".to_owned(),
            (Usable::Unknown, _) => "not proven usable".to_owned(),
        };
        let driver = gpu.driver_version.as_ref().map(|d| format!("driver {d}"));
        let parts = [Some(state.clone()), gpu.memory_bytes.map(size), driver, gpu.bus_id.clone()];
        let detail: Vec<String> = parts.into_iter().flatten().collect();
        devices.push(InfoRow::new(gpu.display_name(), state, detail.join(" · ")));
    }
    if let Some(cpu) = &inventory.cpu {
        let threads = cpu.available.or(cpu.logical).map(|n| format!("{n} threads"));
        let parts = [threads, cpu.simd.clone(), cpu.memory_limit_bytes.or(cpu.memory_bytes).map(size)];
        let detail: Vec<String> = parts.into_iter().flatten().collect();
        let name = cpu.brand.clone().unwrap_or_else(|| "CPU".to_owned());
        devices.push(InfoRow::new(name, "usable", detail.join(" · ")));
    }
    let choice = choose(inventory);
    MachineInfo {
        devices,
        choice: Some(format!("{}: {}", choice.name, choice.reason)),
        ..MachineInfo::default()
    }
}

/// The doctor's checks without the network, without skipped ones.
fn diagnose() -> Vec<InfoRow> {
    let report = doctor::run(&Arc::new(doctor::SystemView::live().offline(true)));
    let applies = report.checks.iter().filter(|c| c.status != Status::Skipped);
    let row = |c: &doctor::CheckResult| {
        let step = c.fix.as_ref().map(|f| format!(" → {f}")).unwrap_or_default();
        InfoRow::new(c.id, c.status.word(), format!("{}{step}", c.evidence))
    };
    applies.map(row).collect()
}

/// How well the profiles fit this machine, best first.
fn fit(inventory: &Inventory, context: &Context) -> Result<Vec<InfoRow>> {
    let tables = Tables::load(context)?;
    let machine = compat::host_spec::from_inventory(&tables.compat, inventory);
    let framework = framework(&tables, None, context)?;
    let answer = compat::resolve(&tables.compat, framework, &machine, None);
    let Some(best) = answer.candidates.first() else { return Ok(Vec::new()) };
    let mut rows: Vec<(u8, InfoRow)> = Vec::new();
    for profile in &tables.profiles.profile {
        let plan = profiles::plan_env(&tables.profiles, profile, best, &framework.import, &machine);
        let ProfileFit { points, reasons } = profiles::fit(profile, &machine, &plan);
        let detail = format!("{} ({})", profile.title, reasons.join("; "));
        rows.push((points, InfoRow::new(profile.name.as_str(), points.to_string(), detail)));
    }
    rows.sort_by_key(|(points, _)| std::cmp::Reverse(*points));
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}
