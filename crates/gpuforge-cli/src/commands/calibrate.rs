//! `gpuforge calibrate`: measures every backend, stores the cost models, and shows the crossover sizes.

use std::{fmt::Write as _, path::Path, time::Instant};

use anyhow::{Context as _, Result};
use gpuforge::{
    Forge,
    route::{
        CostModel,
        calibrate::{self, CalibrationOptions, CalibrationStep, TOO_NOISY, calibrate_all},
        chart::{self, Panel, panels, rate, time},
        store,
    },
    settings::{SettingKey, SettingLocation},
};
use serde_json::{Value, json};

use super::probe;
use crate::{
    args::calibration::Calibrate,
    context::{Context, env},
    error::Hinted,
    format::{width, wrap},
    output::{DIM, HEAD},
    progress::Progress,
};

/// Cost models, measured or read from the store.
struct Calibration {
    models: Vec<CostModel>,
    failed: Vec<(String, String)>,
    /// Time of the measurement; `None` if the models were read.
    seconds: Option<f64>,
}

pub(crate) fn run(args: &Calibrate, context: &Context) -> Result<()> {
    let places = context.places()?;
    let file = places.data_dir.join(store::FILE);
    let calibration = if args.show { stored(&file, context)? } else { measure(args, context, &file)? };
    for model in calibration.models.iter().filter(|m| m.spread.is_some_and(|s| s > TOO_NOISY)) {
        let percent = model.spread.unwrap_or_default() * 100.0;
        let what = format!("repetitions on {} spread by {percent:.0} %: too noisy to trust", model.name);
        context.out.warn("calibrate", &what, Some("run it again while the machine does nothing else"));
    }
    let panels = panels(&calibration.models);
    if let Some(svg) = &args.svg {
        std::fs::write(svg, chart::svg(&panels))
            .with_context(|| format!("cannot write {}", svg.display()))?;
    }
    if context.out.json {
        return context.out.json(&as_json(&calibration, &panels, &file));
    }
    let mut out = summary(&calibration);
    if args.show {
        for panel in &panels {
            out.push('\n');
            out.push_str(&chart::terminal(panel, width(), true));
        }
    } else {
        out.push_str(&table(&panels));
        let _ = writeln!(out, "{DIM}stored in {}; --show plots it{DIM:#}", file.display());
    }
    context.out.text(&out)
}

fn stored(file: &Path, context: &Context) -> Result<Calibration> {
    let (models, notes) = store::read(file);
    notes.iter().for_each(|note| context.out.warn("calibration", note, None));
    if models.is_empty() {
        return Err(Hinted::new("nothing was measured yet", "gpuforge calibrate").into());
    }
    Ok(Calibration { models, failed: Vec::new(), seconds: None })
}

fn measure(args: &Calibrate, context: &Context, file: &Path) -> Result<Calibration> {
    let places = context.places()?;
    let flags: Vec<(&str, &str)> = args.device.iter().map(|d| ("device", d.as_str())).collect();
    for (name, text) in &flags {
        if let Some(key) = SettingKey::find(name) {
            key.parse(text, SettingLocation::Flag((*name).to_owned()))?;
        }
    }
    let settings = context.settings(&places, &flags);
    let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
    let progress = Progress::start("measuring", context.out.prints_notes());
    let options = if args.full { CalibrationOptions::full() } else { CalibrationOptions::quick() };
    let router = forge.router()?;
    let began = Instant::now();
    let measured = calibrate_all(router.backends(), &options, &mut |p| progress.say(|| line(&p)));
    let seconds = began.elapsed().as_secs_f64();
    drop(progress);
    let (mut models, mut failed) = (Vec::new(), Vec::new());
    for (backend, measured) in router.backends().iter().zip(measured) {
        match measured {
            Ok(model) => models.push(model),
            Err(error) => failed.push((backend.name(), error.to_string())),
        }
    }
    for (place, error) in &failed {
        context.out.warn(place, error, Some("it was not calibrated, the others were"));
    }
    if models.is_empty() {
        return Err(Hinted::new("no backend could be measured", "gpuforge self-test says more").into());
    }
    store::save(file, &models)?;
    Ok(Calibration { models, failed, seconds: Some(seconds) })
}

/// The progress line.
fn line(progress: &calibrate::CalibrationProgress<'_>) -> String {
    let what = match progress.step {
        CalibrationStep::Opening => "opening".to_owned(),
        CalibrationStep::Launch => "launch".to_owned(),
        CalibrationStep::Transfer(bytes) => format!("transfer of {}", crate::format::size(bytes as u64)),
        CalibrationStep::Tuning(kind) => format!("variants of {}", kind.name()),
        CalibrationStep::Measuring(kind, size) | CalibrationStep::Stopped(kind, size, _) => {
            format!("{} {size}", kind.name())
        }
    };
    let filled = (progress.done * 20.0) as usize;
    let bar: String = (0..20).map(|i| if i < filled { '#' } else { '-' }).collect();
    let name: String = progress.backend.chars().take(20).collect();
    format!("{name} [{bar}] {what}")
}

fn summary(calibration: &Calibration) -> String {
    let mut out = format!("{HEAD}Backends{HEAD:#}\n");
    for model in &calibration.models {
        let mut facts = vec![model.name.clone()];
        facts.extend(model.driver.clone());
        facts.extend((model.launch_ns > 0.0).then(|| format!("launch {}", time(model.launch_ns))));
        facts.extend(model.spread.map(|s| format!("spread {:.0} %", s * 100.0)));
        out.push_str(&crate::format::dotted(&facts, 2, width()));
    }
    if let Some(seconds) = calibration.seconds {
        out.push_str(&wrap(&format!("measured in {seconds:.1} s"), 2, width()));
    }
    out
}

/// One line per operation: peak rate of the first two backends, and the crossover sizes.
fn table(panels: &[Panel]) -> String {
    let mut out = format!("{HEAD}{:<13} {:>11} {:>11}  faster{HEAD:#}\n", "Operation", "cpu", "device");
    for panel in panels {
        let peak = |i: usize| panel.lines.get(i).map_or("-".to_owned(), |l| rate(l.peak));
        let faster = panel.describe(["cpu", "device"]);
        let _ = writeln!(out, "{:<13} {:>11} {:>11}  {faster}", panel.title, peak(0), peak(1));
    }
    out
}

fn as_json(calibration: &Calibration, panels: &[Panel], file: &Path) -> Value {
    let place = |m: &CostModel| {
        json!({
            "name": m.name, "driver": m.driver, "launch_us": m.launch_ns / 1e3, "spread": m.spread,
            "noisy": m.spread.is_some_and(|s| s > TOO_NOISY), "kinds": m.kinds().count(),
        })
    };
    let kind = |p: &Panel| {
        let peaks: Vec<Value> =
            p.lines.iter().map(|l| json!({"place": l.name, "units_per_s": l.peak})).collect();
        json!({
            "kind": p.title, "unit": p.unit, "crossover": p.crossings.last(), "crossovers": p.crossings,
            "faster_below_all": p.lines.get(p.first).map(|l| &l.name), "peak": peaks,
        })
    };
    let failed = |(place, error): &(String, String)| json!({"place": place, "error": error});
    json!({
        "file": file, "seconds": calibration.seconds,
        "places": calibration.models.iter().map(place).collect::<Vec<_>>(),
        "kinds": panels.iter().map(kind).collect::<Vec<_>>(),
        "failed": calibration.failed.iter().map(failed).collect::<Vec<_>>(),
    })
}
