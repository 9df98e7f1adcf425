//! `gpuforge route`: placement decision for an operation: backend, predicted times, reason. Runs and measures nothing.

use std::sync::Arc;

use anyhow::Result;
use gpuforge::{
    Forge,
    ops::{
        Op, OpError, Work,
        registry::{OPS, OpEntry},
    },
    route::{
        Backend, CostModel, Decision, OpClass, PlacementPolicy, Router, RouterSettings,
        backend::{BackendError, BackendRun},
        chart::{count, time},
        store,
    },
    runtime::units::Bytes,
    settings::Settings,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::probe;
use crate::{
    args::calibration::Route,
    context::{Context, env},
    error::Hinted,
    format::{size, width, wrap},
    output::HEAD,
};

/// Largest inputs of an example, in bytes.
const MAX_INPUT_BYTES: u64 = 512 << 20;
/// First cap on the sizes of an example, doubled until the sizes asked for are reached.
const FIRST_CAP: usize = 64;

pub(crate) fn run(args: &Route, context: &Context) -> Result<()> {
    let entry = entry(&args.op)?;
    let op = example(entry, &args.sizes)?;
    let work = Work::of(op.as_ref(), false)?;
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    let (models, notes) = store::read(&places.data_dir.join(store::FILE));
    notes.iter().for_each(|note| context.out.warn("calibration", note, Some("gpuforge calibrate")));
    let class = OpClass::of(entry.kind);
    if models.is_empty() {
        // Without a calibration the backends are enumerated, but nothing is measured.
        let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
        let router = forge.router()?;
        let placement = placement_policy(args.device.as_deref(), &names(router))?;
        return print(args, &work, router, &router.decide(&work, class, placement)?, context);
    }
    let chosen = preferred_device(&models, settings, || {
        let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
        forge.check_device()?;
        forge.choice().map(|choice| choice.name).map_err(anyhow::Error::msg)
    })?;
    let router = from_file(models, settings, chosen);
    let placement = placement_policy(args.device.as_deref(), &names(&router))?;
    print(args, &work, &router, &router.decide(&work, class, placement)?, context)
}

/// The entry of this name, or the nearest names.
fn entry(name: &str) -> Result<&'static OpEntry> {
    let found = OPS.iter().find(|r| r.kind.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let all: Vec<&str> = OPS.iter().map(|r| r.kind.name()).collect();
        let near = |known: &&&str| (strsim::jaro_winkler(known, &name.to_lowercase()) * 1e6) as u64;
        let nearest = all.iter().max_by_key(near).copied().unwrap_or_default();
        let hint = format!("did you mean {nearest}? There are: {}", all.join(", "));
        Hinted::new(format!("there is no operation {name:.40?}"), hint).into()
    })
}

/// The entry's example of these sizes. How much memory an example needs is known only once it is made: sizes are doubled up
/// to those asked for, and rejected before one would need more than [`MAX_INPUT_BYTES`].
fn example(entry: &OpEntry, sizes: &[usize]) -> Result<Arc<dyn Op>> {
    let input = |op: &Arc<dyn Op>| -> u64 {
        op.inputs().iter().map(|t| t.spec().size().map_or(u64::MAX, |b| b.0)).fold(0, u64::saturating_add)
    };
    let mut cap = FIRST_CAP;
    let mut before = None;
    loop {
        let now: Vec<usize> = sizes.iter().map(|s| (*s).min(cap)).collect();
        let op = (entry.example)(&now).map_err(|e: OpError| {
            Hinted::new(e.to_string(), format!("{} takes {}", entry.kind.name(), entry.sizes))
        })?;
        if now == sizes {
            return Ok(op);
        }
        let bytes = input(&op);
        // Expected to grow as in the last doubling; at most 8-fold (three sizes doubled).
        let growth = before.map_or(8.0, |b| bytes as f64 / f64::max(b as f64, 1.0)).clamp(1.0, 8.0);
        if bytes as f64 * growth > MAX_INPUT_BYTES as f64 {
            let what = format!(
                "{} of {sizes:?} is too large: its inputs need more than {}",
                entry.kind.name(),
                size(MAX_INPUT_BYTES)
            );
            return Err(Hinted::new(what, "ask for a smaller size; times grow in proportion above it").into());
        }
        (before, cap) = (Some(bytes), cap.saturating_mul(2));
    }
}

/// A backend known from a calibration file only.
struct StoredBackend {
    name: String,
    driver: Option<String>,
}

impl Backend for StoredBackend {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn driver(&self) -> Option<String> {
        self.driver.clone()
    }

    fn run(&self, _op: &dyn Op, _keep_on_device: bool) -> Result<BackendRun, BackendError> {
        Err(BackendError::Device { error: "nothing runs from a file".to_owned(), events: Vec::new() })
    }
}

/// The name of the calibrated device that the settings ask for. One that no calibration has by position or name (a bus id, a
/// vendor, an unknown device) is looked up among the devices of the machine.
fn preferred_device(
    models: &[CostModel],
    settings: &Settings,
    look_up: impl FnOnce() -> Result<String>,
) -> Result<Option<String>> {
    let wanted = settings.device().to_lowercase();
    if settings.cpu_only() || matches!(wanted.as_str(), "auto" | "cpu") {
        return Ok(None);
    }
    let mut devices = models.iter().filter(|m| m.name != "cpu").enumerate();
    let fits =
        |(i, m): &(usize, &CostModel)| wanted.parse() == Ok(*i) || m.name.to_lowercase().contains(&wanted);
    match devices.find(fits) {
        Some((_, model)) => Ok(Some(model.name.clone())),
        None => look_up().map(Some),
    }
}

/// A router over the backends of a calibration file, with the settings of the runtime.
fn from_file(mut models: Vec<CostModel>, settings: &Settings, chosen: Option<String>) -> Router {
    if models.first().is_none_or(|m| m.name != "cpu") {
        models.insert(0, CostModel::named("cpu"));
    }
    if settings.cpu_only() || settings.device() == "cpu" {
        models.truncate(1);
    }
    let prefer = models.iter().enumerate().skip(1).find(|(_, m)| Some(&m.name) == chosen.as_ref());
    let placement = prefer.map_or(PlacementPolicy::Fastest, |(i, _)| PlacementPolicy::Prefer(i));
    let min_device_bytes = Bytes(settings.device_min_bytes());
    let backend = |m: &CostModel| {
        Arc::new(StoredBackend { name: m.name.clone(), driver: m.driver.clone() }) as Arc<dyn Backend>
    };
    let backends = models.iter().map(backend).collect();
    Router::new(backends, models, RouterSettings { placement, min_device_bytes, ..RouterSettings::default() })
}

/// Names of the backends; equal ones are numbered.
fn names(router: &Router) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in router.backends().iter().map(|s| s.name()) {
        let same = names.iter().filter(|n| **n == name || n.starts_with(&format!("{name} #"))).count();
        names.push(if same == 0 { name } else { format!("{name} #{}", same + 1) });
    }
    names
}

/// The placement policy of `--device`.
fn placement_policy(device: Option<&str>, names: &[String]) -> Result<PlacementPolicy> {
    let Some(text) = device.filter(|d| *d != "auto") else { return Ok(PlacementPolicy::Fastest) };
    if text == "cpu" {
        return Ok(PlacementPolicy::Only(0));
    }
    let devices = names.get(1..).unwrap_or_default();
    let position = text.parse().ok().filter(|n: &usize| *n < devices.len());
    let lower = text.to_lowercase();
    let part = || devices.iter().position(|name| name.to_lowercase().contains(&lower));
    position.or_else(part).map(|n| PlacementPolicy::Only(n + 1)).ok_or_else(|| {
        let list: Vec<String> = devices.iter().enumerate().map(|(i, n)| format!("{i} = {n}")).collect();
        let there = if list.is_empty() { "none is known".to_owned() } else { list.join(", ") };
        let what = format!("there is no device {text:.40?}");
        Hinted::usage(what, format!("auto, cpu, or a device: {there}")).into()
    })
}

/// JSON document.
#[derive(Serialize)]
struct RouteDecision<'a> {
    device: String,
    reason: String,
    predicted_ms: Map<String, Value>,
    calibrated: bool,
    op: &'static str,
    sizes: &'a [usize],
    work: &'a Work,
}

fn print(args: &Route, work: &Work, router: &Router, decision: &Decision, context: &Context) -> Result<()> {
    let names = names(router);
    let device = names.get(decision.backend_id).cloned().unwrap_or_default();
    let predicted: Vec<(&String, f64)> = names
        .iter()
        .enumerate()
        .filter_map(|(i, name)| Some((name, f64::from(decision.predicted_ns(i)?))))
        .collect();
    if context.out.json {
        let ms: Map<String, Value> =
            predicted.iter().map(|(n, ns)| ((*n).clone(), json!(ns / 1e6))).collect();
        return context.out.json(&RouteDecision {
            device,
            reason: decision.reason.to_string(),
            predicted_ms: ms,
            calibrated: decision.calibrated,
            op: work.kind.name(),
            sizes: &args.sizes,
            work,
        });
    }
    let sizes: Vec<String> = args.sizes.iter().map(usize::to_string).collect();
    let mut out = format!("{HEAD}{} {}: {device}{HEAD:#}\n", args.op, sizes.join(" "));
    out.push_str(&wrap(&decision.reason.to_string(), 2, width()));
    if !predicted.is_empty() {
        let each: Vec<String> = predicted.iter().map(|(n, ns)| format!("{n} {}", time(*ns))).collect();
        out.push_str(&wrap(&format!("predicted: {}", each.join(" · ")), 2, width()));
    }
    let (up, down) = (size(work.upload.0), size(work.download.0));
    let moved = format!("{} {}, {up} to a device, {down} back", count(work.cost.units), work.kind.unit());
    out.push_str(&wrap(&moved, 2, width()));
    context.out.text(&out)
}
