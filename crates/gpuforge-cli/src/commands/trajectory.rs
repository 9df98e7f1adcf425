//! `gpuforge trajectory`: where balls fly; one launch by flags, or a file of launches.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::Result;
use gpuforge::{
    Forge,
    frame::{
        FrameError, Key, Layout,
        read::numbers::{self, Numbers, Wanted},
        temporary::TemporaryFile,
        write::{Options as WriteOptions, Values, Writer},
    },
    ops::Threads,
    route::{Options, Wish},
    workloads::trajectory::{
        Air, Ball, Flights, Launch, Method, Model, Point, Profile, Setup, Summary, TrajectoryError, Wind,
        launch::FIELDS,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    probe,
    trajectory_args::{Batch, Drawn, Fly, Surroundings, Trajectory, WindProfile},
    trajectory_plot,
};
use crate::{
    args::Where,
    bars::explained,
    context::{Context, env},
    error::Hinted,
    format::{count, width, wrap},
    output::HEAD,
};

/// Bad rows that are named one by one.
const NAMED: usize = 10;
/// Flights whose paths are in memory at once.
const AT_ONCE: usize = 512;
/// Columns of a path after the line.
const PATH: [&str; 8] = ["time", "x", "y", "z", "vx", "vy", "vz", "spin"];

type Flown = Result<Summary, TrajectoryError>;

pub(crate) fn run(args: &Trajectory, context: &Context) -> Result<()> {
    match args {
        Trajectory::Fly(args) => fly(args, context),
        Trajectory::Batch(args) => batch(args, context),
    }
}

/// What the flags describe.
fn model(args: &Surroundings) -> Result<Model> {
    let usual = Ball::default();
    let profile = match args.wind_profile {
        WindProfile::Uniform => Profile::Uniform,
        WindProfile::Power => Profile::Power { exponent: args.wind_exponent },
        WindProfile::Log => Profile::Log { roughness: args.roughness },
    };
    let setup = Setup {
        ball: Ball {
            mass: args.mass.unwrap_or(usual.mass),
            radius: args.radius.unwrap_or(usual.radius),
            spin_decay: args.spin_decay.unwrap_or(usual.spin_decay),
        },
        air: Air {
            altitude: args.altitude,
            temperature: args.temperature,
            humidity: args.humidity,
            pressure: args.pressure,
            vacuum: args.vacuum,
        },
        wind: Wind { speed: args.wind, from: args.wind_from, profile, ..Wind::default() },
        method: match args.tolerance {
            Some(tolerance) => Method::Adaptive { tolerance },
            None => Method::Rk4 { step: args.step },
        },
        time_limit: args.time_limit,
        ..Setup::default()
    };
    setup.model().map_err(|e| wrong(&e))
}

fn wrong(error: &TrajectoryError) -> anyhow::Error {
    Hinted::usage(error.to_string(), "gpuforge trajectory fly --help has the units").into()
}

fn fly(args: &Fly, context: &Context) -> Result<()> {
    let model = model(&args.surroundings)?;
    let launch = Launch::of([args.speed, args.angle, args.azimuth, args.spin, args.tilt, args.height]);
    let (summary, path) = model.path(&launch).map_err(|e| wrong(&e))?;
    draw(&args.drawn, &model, &[(1, launch)])?;
    if context.out.json {
        let points = path.len();
        return context.out.json(&json!({"launch": launch, "summary": summary, "points": points}));
    }
    context.out.text(&told(&summary))
}

fn told(s: &Summary) -> String {
    let mut out = format!("{HEAD}carry {:.1} m{HEAD:#} ({})\n", s.carry, s.status.name());
    let side = if s.lateral < 0.0 { "left" } else { "right" };
    let lines = [
        format!("{:.1} m down the line, {:.1} m {side} of it", s.downrange, s.lateral.abs()),
        format!("apex {:.1} m after {:.2} s", s.apex, s.apex_time),
        format!(
            "down after {:.2} s at {:.1} m/s, {:.1} degrees, {:.0} rpm",
            s.time, s.landing_speed, s.landing_angle, s.landing_spin
        ),
    ];
    lines.iter().for_each(|line| out.push_str(&wrap(line, 2, width())));
    out
}

/// A file of launches, checked row by row.
struct Rows {
    lines: Vec<u64>,
    launches: Vec<Launch>,
    /// What is no number, by position.
    bad: Vec<(usize, String)>,
    /// `line` or `row`.
    word: &'static str,
}

fn rows(path: &Path) -> Result<Rows> {
    let wanted = FIELDS.map(|(name, _)| Wanted { name, required: matches!(name, "speed" | "angle") });
    let Numbers { columns, lines, bad, is_text } = numbers::read(path, &wanted).map_err(explained)?;
    let cell = |field: usize, row: usize| match columns.get(field) {
        Some(Some(column)) => column.get(row).copied().unwrap_or(f64::NAN),
        _ => 0.0,
    };
    let launch = |row: usize| Launch::of([0, 1, 2, 3, 4, 5].map(|field| cell(field, row)));
    let launches = (0..lines.len()).map(launch).collect();
    Ok(Rows { lines, launches, bad, word: if is_text { "line" } else { "row" } })
}

/// Where a batch was computed, why there, and how long it flew; finding and measuring places is not counted.
#[derive(Serialize)]
struct Placed {
    device: String,
    reason: String,
    seconds: f64,
}

/// What `--json` says about a batch.
#[derive(Serialize)]
struct Report<'a> {
    output: &'a Path,
    launches: usize,
    landed: usize,
    bad: Vec<Value>,
    #[serde(flatten)]
    placed: &'a Placed,
    launches_per_second: Option<f64>,
}

fn batch(args: &Batch, context: &Context) -> Result<()> {
    let to_stdout = args.output == Path::new("-");
    if to_stdout && context.out.json {
        return Err(Hinted::usage("the figures and --json cannot both go to stdout", "give -o a file").into());
    }
    let model = Arc::new(model(&args.surroundings)?);
    let rows = rows(&args.input)?;
    let (flown, placed) = compute(args, &model, &rows.launches, context)?;
    let (flown, errors) = settle(&rows, flown);
    if !errors.is_empty() && errors.len() == rows.lines.len() {
        let (line, why) = errors.first().map_or((0, ""), |(line, why)| (*line, why.as_str()));
        let what = format!("{}: no launch can be flown; {} {line}: {why}", args.input.display(), rows.word);
        return Err(Hinted::new(what, "gpuforge trajectory batch --help has the columns and units").into());
    }
    tell(&rows, &errors, args, context);
    write(&args.output, &rows, &flown, &errors)?;
    let good: Vec<(u64, Launch)> = rows
        .lines
        .iter()
        .zip(&rows.launches)
        .zip(&flown)
        .filter(|(_, flown)| flown.is_some())
        .map(|((line, launch), _)| (*line, *launch))
        .collect();
    draw(&args.drawn, &model, &good)?;
    let landed = flown.iter().flatten().filter(|s| s.status.name() == "landed").count();
    let report = Report {
        output: &args.output,
        launches: rows.lines.len(),
        landed,
        bad: errors.iter().map(|(line, error)| json!({rows.word: line, "error": error})).collect(),
        placed: &placed,
        launches_per_second: (placed.seconds > 0.0).then(|| good.len() as f64 / placed.seconds),
    };
    if context.out.json {
        return context.out.json(&report);
    }
    if to_stdout { Ok(()) } else { context.out.text(&summary(&report)) }
}

fn summary(report: &Report<'_>) -> String {
    let Report { output, launches, landed, bad, placed, .. } = report;
    let each = report.launches_per_second.map_or(String::new(), |n| format!(", {}/s", count(n)));
    let mut out = wrap(
        &format!("{launches} launches, {landed} landed, {} bad: {}", bad.len(), output.display()),
        0,
        width(),
    );
    let place = format!("on {} in {:.2} s{each}: {}", placed.device, placed.seconds, placed.reason);
    out.push_str(&wrap(&place, 2, width()));
    out
}

/// Flies them where it is asked for; the router knows better where nobody asks.
fn compute(
    args: &Batch,
    model: &Arc<Model>,
    launches: &[Launch],
    context: &Context,
) -> Result<(Vec<Flown>, Placed)> {
    let adaptive = matches!(model.setup().method, Method::Adaptive { .. });
    if args.device == Where::Cpu || (adaptive && args.device == Where::Auto) {
        let reason =
            if adaptive { "steps that follow the error run on the processor" } else { "it was asked for" };
        let began = Instant::now();
        let flown = model.fly_all(launches, Threads::all());
        let seconds = began.elapsed().as_secs_f64();
        return Ok((flown, Placed { device: "cpu".to_owned(), reason: reason.to_owned(), seconds }));
    }
    if adaptive {
        let hint = "leave --tolerance away, or --device gpu";
        return Err(Hinted::usage("a device takes fixed steps only", hint).into());
    }
    let places = context.places()?;
    let forge = Forge::with_isolation(context.settings(&places, &[]), &places, &env, probe::isolation());
    let wish = match args.device {
        Where::Gpu if forge.router()?.sites().len() < 2 => {
            let hint = "gpuforge detect shows what there is; --device auto uses the processor";
            return Err(Hinted::new("there is no device to use", hint).into());
        }
        Where::Gpu => Wish::Only(1),
        _ => Wish::Fastest,
    };
    let op = Flights::new(model, launches)?;
    let ran = forge.run_with(&op, Options { wish, stays: false })?;
    let result = ran.tensor().and_then(|t| t.host()).unwrap_or_default();
    let flown = op.summaries(&result)?;
    let mut reason = ran.decision().reason.to_string();
    if let Some(why) = &ran.report().fallback {
        reason = format!("{reason}: {why}");
    }
    let seconds = ran.report().wall.as_secs_f64();
    Ok((flown, Placed { device: ran.report().place.clone(), reason, seconds }))
}

/// Figures of the rows that flew, and the errors of the others with their lines.
fn settle(rows: &Rows, flown: Vec<Flown>) -> (Vec<Option<Summary>>, Vec<(u64, String)>) {
    let mut unread = rows.bad.iter().peekable();
    let mut errors = Vec::new();
    let mut figures = Vec::with_capacity(flown.len());
    for (row, (flown, line)) in flown.into_iter().zip(&rows.lines).enumerate() {
        // What is no number at all says more than that it is NaN.
        let unread = unread.next_if(|(bad, _)| *bad == row).map(|(_, why)| why.clone());
        match (unread, flown) {
            (Some(why), _) => errors.push((*line, why)),
            (None, Err(error)) => errors.push((*line, error.to_string())),
            (None, Ok(summary)) => {
                figures.push(Some(summary));
                continue;
            }
        }
        figures.push(None);
    }
    (figures, errors)
}

fn tell(rows: &Rows, errors: &[(u64, String)], args: &Batch, context: &Context) {
    let source = args.input.display().to_string();
    for (line, why) in errors.iter().take(NAMED) {
        context.out.warn(&source, &format!("{} {line}: {why}", rows.word), None);
    }
    if let Some(more) = errors.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let hint = "the status column of the output has every error";
        context.out.warn(&source, &format!("{more} more rows cannot be flown"), Some(hint));
    }
}

/// Writes a row per launch: its line, its status or error, its figures.
fn write(path: &Path, rows: &Rows, flown: &[Option<Summary>], errors: &[(u64, String)]) -> Result<()> {
    let columns = Summary::FIGURES.map(str::to_owned);
    let layout = Layout::of_rows(rows.word, Some("status"));
    let options = WriteOptions::of(path).map_err(explained)?;
    let mut writer = Writer::create(path, &layout, &columns, &options).map_err(explained)?;
    let mut errors = errors.iter();
    let mut from = 0;
    while let Some(first) = flown.get(from) {
        // Rows of one status are written together.
        let status = first.map(|s| s.status);
        let same = |row: &&Option<Summary>| row.map(|s| s.status) == status && status.is_some();
        let many = flown.iter().skip(from).take_while(same).count().max(1);
        let key = match status {
            Some(status) => status.name().to_owned(),
            None => errors.next().map_or_else(String::new, |(_, why)| format!("error: {why}")),
        };
        let some = flown.get(from..from + many).unwrap_or_default();
        let column = |n: usize| -> Vec<f64> {
            let figure = |s: &Option<Summary>| s.and_then(|s| s.figures().get(n).copied());
            some.iter().map(|s| figure(s).unwrap_or(f64::NAN)).collect()
        };
        let values: Vec<Vec<f64>> = (0..columns.len()).map(column).collect();
        // Cells of a row that did not fly are empty.
        let valid_from = if status.is_some() { 0 } else { many };
        let values: Vec<Values<'_>> = values.iter().map(|values| Values { values, valid_from }).collect();
        writer.write(Some(&Key::Text(key)), &lines(rows, from, many), &values).map_err(explained)?;
        from += many;
    }
    writer.finish().map_err(explained)?;
    Ok(())
}

fn lines(rows: &Rows, from: usize, many: usize) -> Vec<i64> {
    rows.lines.iter().skip(from).take(many).map(|line| i64::try_from(*line).unwrap_or(i64::MAX)).collect()
}

/// Writes and draws whole paths, where that is asked for.
fn draw(drawn: &Drawn, model: &Model, launches: &[(u64, Launch)]) -> Result<()> {
    if let Some(path) = &drawn.paths {
        write_paths(path, model, launches).map_err(explained)?;
    }
    if let Some(path) = &drawn.svg {
        let first = launches.get(..launches.len().min(trajectory_plot::MOST)).unwrap_or_default();
        let text = trajectory_plot::svg(&paths(model, first));
        put(path, text.as_bytes())?;
    }
    Ok(())
}

/// Writes a text file beside its place and gives it its name.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |source| explained(FrameError::Io { doing: "write", path: path.to_owned(), source });
    let mut file = TemporaryFile::beside(path).map_err(failed)?;
    std::io::Write::write_all(&mut file, bytes).map_err(failed)?;
    file.keep().map_err(failed)
}

/// Paths of launches that are known to be good, on all threads.
fn paths(model: &Model, launches: &[(u64, Launch)]) -> Vec<Vec<Point>> {
    let mut paths = vec![Vec::new(); launches.len()];
    Threads::all().each(launches.iter().zip(&mut paths), |((_, launch), path)| {
        *path = model.path(launch).map(|(_, points)| points).unwrap_or_default();
    });
    paths
}

fn write_paths(path: &Path, model: &Model, launches: &[(u64, Launch)]) -> Result<(), FrameError> {
    let columns = PATH.map(str::to_owned);
    let layout = Layout::of_rows("line", None);
    let mut writer = Writer::create(path, &layout, &columns, &WriteOptions::of(path)?)?;
    for some in launches.chunks(AT_ONCE) {
        for ((line, _), points) in some.iter().zip(paths(model, some)) {
            let line = vec![i64::try_from(*line).unwrap_or(i64::MAX); points.len()];
            let column = |n: usize| -> Vec<f64> {
                points.iter().filter_map(|p| numbers_of(p).get(n).copied()).collect()
            };
            let values: Vec<Vec<f64>> = (0..PATH.len()).map(column).collect();
            let values: Vec<Values<'_>> = values.iter().map(|v| Values::all(v)).collect();
            writer.write(None, &line, &values)?;
        }
    }
    writer.finish()?;
    Ok(())
}

/// A point in the order of [`PATH`].
fn numbers_of(point: &Point) -> [f64; 8] {
    let Point { time, place: [x, y, z], velocity: [u, v, w], spin } = *point;
    [time, x, y, z, u, v, w, spin]
}
