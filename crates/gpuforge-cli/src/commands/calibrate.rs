//! `gpuforge calibrate`: measures every place, keeps the models, and shows where one overtakes the other.

use std::{fmt::Write as _, path::Path, time::Instant};

use anyhow::{Context as _, Result};
use gpuforge::{
    Forge,
    route::{
        Model,
        calibrate::{self, Options, Step, TOO_NOISY, calibrate_all},
        chart::{self, Panel, panels, rate, time},
        store,
    },
    settings::{Key, Place},
};
use serde_json::{Value, json};

use super::probe;
use crate::{
    args::Calibrate,
    context::{Context, env},
    error::Hinted,
    format::{width, wrap},
    output::{DIM, HEAD},
    progress::Progress,
};

/// What was measured, or read.
struct Outcome {
    models: Vec<Model>,
    failed: Vec<(String, String)>,
    /// How long measuring took; none where nothing was measured.
    seconds: Option<f64>,
}

pub(crate) fn run(args: &Calibrate, context: &Context) -> Result<()> {
    let places = context.places()?;
    let file = places.data_dir.join(store::FILE);
    let outcome = if args.show { stored(&file, context)? } else { measure(args, context, &file)? };
    for model in outcome.models.iter().filter(|m| m.spread.is_some_and(|s| s > TOO_NOISY)) {
        let percent = model.spread.unwrap_or_default() * 100.0;
        let what = format!("repetitions on {} lay {percent:.0} % apart: too noisy to trust", model.name);
        context.out.warn("calibrate", &what, Some("run it again while the machine does nothing else"));
    }
    let panels = panels(&outcome.models);
    if let Some(svg) = &args.svg {
        std::fs::write(svg, chart::svg(&panels))
            .with_context(|| format!("cannot write {}", svg.display()))?;
    }
    if context.out.json {
        return context.out.json(&as_json(&outcome, &panels, &file));
    }
    let mut out = summary(&outcome);
    if args.show {
        for panel in &panels {
            out.push('\n');
            out.push_str(&chart::terminal(panel, width(), true));
        }
    } else {
        out.push_str(&table(&panels));
        let _ = writeln!(out, "{DIM}kept in {}; --show draws it{DIM:#}", file.display());
    }
    context.out.text(&out)
}

fn stored(file: &Path, context: &Context) -> Result<Outcome> {
    let (models, notes) = store::read(file);
    notes.iter().for_each(|note| context.out.warn("calibration", note, None));
    if models.is_empty() {
        return Err(Hinted::new("nothing was measured yet", "gpuforge calibrate").into());
    }
    Ok(Outcome { models, failed: Vec::new(), seconds: None })
}

fn measure(args: &Calibrate, context: &Context, file: &Path) -> Result<Outcome> {
    let places = context.places()?;
    let flags: Vec<(&str, &str)> = args.device.iter().map(|d| ("device", d.as_str())).collect();
    for (name, text) in &flags {
        if let Some(key) = Key::find(name) {
            key.parse(text, Place::Flag((*name).to_owned()))?;
        }
    }
    let settings = context.settings(&places, &flags);
    let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
    let progress = Progress::start("measuring", context.out.talks());
    let options = if args.full { Options::full() } else { Options::quick() };
    let router = forge.router()?;
    let began = Instant::now();
    let measured = calibrate_all(router.sites(), &options, &mut |p| progress.say(|| line(&p)));
    let seconds = began.elapsed().as_secs_f64();
    drop(progress);
    let (mut models, mut failed) = (Vec::new(), Vec::new());
    for (site, measured) in router.sites().iter().zip(measured) {
        match measured {
            Ok(model) => models.push(model),
            Err(error) => failed.push((site.name(), error.to_string())),
        }
    }
    for (place, error) in &failed {
        context.out.warn(place, error, Some("it was not calibrated, the others were"));
    }
    if models.is_empty() {
        return Err(Hinted::new("no place could be measured", "gpuforge self-test says more").into());
    }
    store::save(file, &models)?;
    Ok(Outcome { models, failed, seconds: Some(seconds) })
}

/// A line of progress.
fn line(progress: &calibrate::Progress<'_>) -> String {
    let what = match progress.step {
        Step::Opening => "opening".to_owned(),
        Step::Launch => "launch".to_owned(),
        Step::Transfer(bytes) => format!("transfer of {}", crate::format::size(bytes as u64)),
        Step::Tuning(kind) => format!("variants of {}", kind.name()),
        Step::Kind(kind, size) | Step::Ends(kind, size, _) => format!("{} {size}", kind.name()),
    };
    let filled = (progress.done * 20.0) as usize;
    let bar: String = (0..20).map(|i| if i < filled { '#' } else { '-' }).collect();
    let name: String = progress.place.chars().take(20).collect();
    format!("{name} [{bar}] {what}")
}

fn summary(outcome: &Outcome) -> String {
    let mut out = format!("{HEAD}Places{HEAD:#}\n");
    for model in &outcome.models {
        let mut facts = vec![model.name.clone()];
        facts.extend(model.driver.clone());
        facts.extend((model.launch_ns > 0.0).then(|| format!("launch {}", time(model.launch_ns))));
        facts.extend(model.spread.map(|s| format!("spread {:.0} %", s * 100.0)));
        out.push_str(&crate::format::dotted(&facts, 2, width()));
    }
    if let Some(seconds) = outcome.seconds {
        out.push_str(&wrap(&format!("measured in {seconds:.1} s"), 2, width()));
    }
    out
}

/// One line per kind: the speed of the first two places, and from which size on which is faster.
fn table(panels: &[Panel]) -> String {
    let mut out = format!("{HEAD}{:<13} {:>11} {:>11}  faster{HEAD:#}\n", "Operation", "cpu", "device");
    for panel in panels {
        let peak = |i: usize| panel.lines.get(i).map_or("-".to_owned(), |l| rate(l.peak));
        let faster = panel.says(["cpu", "device"]);
        let _ = writeln!(out, "{:<13} {:>11} {:>11}  {faster}", panel.title, peak(0), peak(1));
    }
    out
}

fn as_json(outcome: &Outcome, panels: &[Panel], file: &Path) -> Value {
    let place = |m: &Model| {
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
        "file": file, "seconds": outcome.seconds,
        "places": outcome.models.iter().map(place).collect::<Vec<_>>(),
        "kinds": panels.iter().map(kind).collect::<Vec<_>>(),
        "failed": outcome.failed.iter().map(failed).collect::<Vec<_>>(),
    })
}
