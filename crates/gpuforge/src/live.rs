//! Live monitoring: publishes a `Forge`'s device, memory and routing decisions to `gpuforge monitor`.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use gpuforge_dash::live::{
    feed,
    publisher::{self, Publisher},
    snapshot::{DeviceStatus, EventLevel, MemoryStatus, RoutingDecision, Snapshot},
    socket_dir,
};
use gpuforge_ops::Op;
use gpuforge_route::{BatchRun, RunOutput, batch::BackendCount};
use gpuforge_runtime::engine::Health;

use crate::{forge::Inner, settings::Env};

/// Publishes this process if the setting enables it, and adds the runtime to its snapshots. An untrusted socket directory
/// leaves the process unpublished, silently: there is no viewer to report to.
pub(crate) fn publish(inner: &Arc<Inner>, wanted: bool, env: Env<'_>) -> Option<Publisher> {
    if !(feed::is_on() || wanted) {
        return None;
    }
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = program.as_ref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    let publisher =
        Publisher::start(&socket_dir::resolve(env), name.as_deref().unwrap_or("gpuforge")).ok()?;
    let (weak, last_pressure) = (Arc::downgrade(inner), AtomicU8::new(0));
    publisher::add_source(Box::new(move |snapshot| fill_snapshot(&weak, &last_pressure, snapshot)));
    Some(publisher)
}

fn fill_snapshot(inner: &Weak<Inner>, last_pressure: &AtomicU8, snapshot: &mut Snapshot) -> bool {
    let Some(inner) = inner.upgrade() else { return false };
    let Some(runner) = inner.runner.peek() else { return true };
    let (work, session) = (runner.stats(), runner.session());
    let busy =
        work.device.filter(|_| !work.wall.is_zero()).map(|d| d.as_secs_f64() / work.wall.as_secs_f64());
    let name = session.as_ref().map_or_else(|| "device".to_owned(), |s| s.caps().name.clone());
    let state = match session.as_ref().map(|s| s.health()) {
        None => "not open",
        Some(Health::Good) => "open",
        Some(_) => "lost",
    };
    snapshot.devices.push(DeviceStatus {
        name: name.clone(),
        state: state.to_owned(),
        done: Some(work.on_device),
        busy,
        moved: Some(work.uploaded.0.saturating_add(work.downloaded.0)),
    });
    let Some(session) = session else { return true };
    let stats = session.memory().stats();
    let level = stats.monitor.pressure;
    if last_pressure.swap(level as u8, Ordering::Relaxed) != level as u8 {
        feed::event(EventLevel::Warning, || format!("memory of {name}: pressure is {level} now"));
    }
    snapshot.memory.push(MemoryStatus {
        name,
        used: stats.limit.used.0,
        idle: Some(stats.limit.used.0.saturating_sub(stats.users.live.0)),
        budget: Some(stats.budget.bytes.0),
        peak: Some(stats.device.peak.0),
        pressure: Some(level.to_string()),
        cleanups: Some(stats.monitor.evictions),
    });
    true
}

/// Publishes a routing decision and its recovery events.
pub(crate) fn publish_run(op: &dyn Op, ran: &RunOutput) {
    feed::routed(|| {
        let (report, ns) = (ran.report(), |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        RoutingDecision {
            operation: op.name().to_owned(),
            place: report.backend.clone(),
            reason: ran.decision().reason.to_string(),
            predicted_ns: report.predicted.map(ns),
            wall_ns: ns(report.wall),
            ..RoutingDecision::default()
        }
    });
    for event in &ran.report().events {
        feed::event(EventLevel::Warning, || format!("{}: {}; {}", op.name(), event.error, event.reason));
    }
    if let Some(why) = &ran.report().fallback {
        feed::event(EventLevel::Error, || format!("{} fell back to the CPU: {why}", op.name()));
    }
}

/// Publishes the decisions of a batch: one row per backend, with the total time of its items.
pub(crate) fn publish_batch(run: &BatchRun) {
    let done = run.results.iter().flatten().count();
    feed::batched(done as u64, || {
        let row = |place: &BackendCount| {
            let there = || run.results.iter().flatten().filter(|ran| ran.report().backend == place.backend);
            let wall: Duration = there().map(|ran| ran.report().wall).sum();
            RoutingDecision {
                operation: format!("batch, {} of {} items", place.items, run.stats.items),
                place: place.backend.clone(),
                reason: there().next().map_or_else(String::new, |ran| ran.decision().reason.to_string()),
                wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
                ..RoutingDecision::default()
            }
        };
        run.stats.backends.iter().map(row).collect()
    });
    if run.stats.failed > 0 {
        let (failed, items) = (run.stats.failed, run.stats.items);
        feed::event(EventLevel::Warning, || format!("{failed} of {items} items of a batch have no result"));
    }
}
