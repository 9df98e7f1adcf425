//! `gpuforge trajectory`: ball flight simulation; one launch by flags, or a file of launches.

mod plot;

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::Result;
use gpuforge::{
    Forge,
    frame::{
        FrameError, KeySchema, SymbolKey,
        read::numeric_table::{self, NumericColumn, NumericTable},
        temp_file::TemporaryFile,
        write::{ColumnValues, WriteOptions, Writer},
    },
    ops::Threads,
    route::{PlacementPolicy, RunOptions},
    workloads::trajectory::{
        Air, Ball, FlightModel, FlightPoint, FlightSetup, FlightSummary, Flights, IntegrationMethod, Launch,
        ShearProfile, TrajectoryError, Wind, launch::FIELDS,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

use super::probe;
use crate::{
    args::{
        Placement,
        trajectory::{BatchArgs, ExtraFiles, FlightModelArgs, FlyArgs, Trajectory, WindProfile},
    },
    bars::frame_error,
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

type Flown = Result<FlightSummary, TrajectoryError>;

pub(crate) fn run(args: &Trajectory, context: &Context) -> Result<()> {
    match args {
        Trajectory::Fly(args) => fly(args, context),
        Trajectory::Batch(args) => batch(args, context),
    }
}

/// The flight model of the flags.
fn model(args: &FlightModelArgs) -> Result<FlightModel> {
    let usual = Ball::default();
    let profile = match args.wind_profile {
        WindProfile::Uniform => ShearProfile::Uniform,
        WindProfile::Power => ShearProfile::Power { exponent: args.wind_exponent },
        WindProfile::Log => ShearProfile::Log { roughness: args.roughness },
    };
    let setup = FlightSetup {
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
            Some(tolerance) => IntegrationMethod::Adaptive { tolerance },
            None => IntegrationMethod::Rk4 { step: args.step },
        },
        time_limit: args.time_limit,
        ..FlightSetup::default()
    };
    setup.model().map_err(|e| trajectory_error(&e))
}

fn trajectory_error(error: &TrajectoryError) -> anyhow::Error {
    Hinted::usage(error.to_string(), "gpuforge trajectory fly --help has the units").into()
}

fn fly(args: &FlyArgs, context: &Context) -> Result<()> {
    let model = model(&args.model)?;
    let launch = Launch::of([args.speed, args.angle, args.azimuth, args.spin, args.tilt, args.height]);
    let (summary, path) = model.path(&launch).map_err(|e| trajectory_error(&e))?;
    draw(&args.files, &model, &[(1, launch)])?;
    if context.out.json {
        let points = path.len();
        return context.out.json(&json!({"launch": launch, "summary": summary, "points": points}));
    }
    context.out.text(&flight_text(&summary))
}

fn flight_text(s: &FlightSummary) -> String {
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

/// Launches of a file.
struct LaunchRows {
    lines: Vec<u64>,
    launches: Vec<Launch>,
    /// Rows with a cell that is not a number, by position.
    bad: Vec<(usize, String)>,
    /// `line` or `row`.
    word: &'static str,
}

fn rows(path: &Path) -> Result<LaunchRows> {
    let wanted = FIELDS.map(|(name, _)| NumericColumn { name, required: matches!(name, "speed" | "angle") });
    let NumericTable { columns, lines, bad, is_text } =
        numeric_table::read(path, &wanted).map_err(frame_error)?;
    let cell = |field: usize, row: usize| match columns.get(field) {
        Some(Some(column)) => column.get(row).copied().unwrap_or(f64::NAN),
        _ => 0.0,
    };
    let launch = |row: usize| Launch::of([0, 1, 2, 3, 4, 5].map(|field| cell(field, row)));
    let launches = (0..lines.len()).map(launch).collect();
    Ok(LaunchRows { lines, launches, bad, word: if is_text { "line" } else { "row" } })
}

/// Placement of a batch: backend, reason, run time (without device detection and calibration).
#[derive(Serialize)]
struct BatchPlacement {
    device: String,
    reason: String,
    seconds: f64,
}

/// JSON document of a batch.
#[derive(Serialize)]
struct BatchReport<'a> {
    output: &'a Path,
    launches: usize,
    landed: usize,
    bad: Vec<Value>,
    #[serde(flatten)]
    placed: &'a BatchPlacement,
    launches_per_second: Option<f64>,
}

fn batch(args: &BatchArgs, context: &Context) -> Result<()> {
    let to_stdout = args.output == Path::new("-");
    if to_stdout && context.out.json {
        return Err(Hinted::usage("the results and --json cannot both go to stdout", "give -o a file").into());
    }
    let model = Arc::new(model(&args.model)?);
    let rows = rows(&args.input)?;
    let (flown, placed) = compute(args, &model, &rows.launches, context)?;
    let (flown, errors) = split_errors(&rows, flown);
    if !errors.is_empty() && errors.len() == rows.lines.len() {
        let (line, why) = errors.first().map_or((0, ""), |(line, why)| (*line, why.as_str()));
        let what = format!("{}: no launch is valid; {} {line}: {why}", args.input.display(), rows.word);
        return Err(Hinted::new(what, "gpuforge trajectory batch --help has the columns and units").into());
    }
    warn_invalid(&rows, &errors, args, context);
    write(&args.output, &rows, &flown, &errors)?;
    let good: Vec<(u64, Launch)> = rows
        .lines
        .iter()
        .zip(&rows.launches)
        .zip(&flown)
        .filter(|(_, flown)| flown.is_some())
        .map(|((line, launch), _)| (*line, *launch))
        .collect();
    draw(&args.files, &model, &good)?;
    let landed = flown.iter().flatten().filter(|s| s.status.name() == "landed").count();
    let report = BatchReport {
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

fn summary(report: &BatchReport<'_>) -> String {
    let BatchReport { output, launches, landed, bad, placed, .. } = report;
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

/// Simulates on the requested backend; with `auto`, on the one the router chooses.
fn compute(
    args: &BatchArgs,
    model: &Arc<FlightModel>,
    launches: &[Launch],
    context: &Context,
) -> Result<(Vec<Flown>, BatchPlacement)> {
    let adaptive = matches!(model.setup().method, IntegrationMethod::Adaptive { .. });
    if args.device == Placement::Cpu || (adaptive && args.device == Placement::Auto) {
        let reason = if adaptive { "steps that follow the error run on the CPU" } else { "it was asked for" };
        let began = Instant::now();
        let flown = model.fly_all(launches, Threads::all());
        let seconds = began.elapsed().as_secs_f64();
        return Ok((flown, BatchPlacement { device: "cpu".to_owned(), reason: reason.to_owned(), seconds }));
    }
    if adaptive {
        let hint = "leave out --tolerance, or --device gpu";
        return Err(Hinted::usage("a device supports fixed steps only", hint).into());
    }
    let places = context.places()?;
    let forge = Forge::with_isolation(context.settings(&places, &[]), &places, &env, probe::isolation());
    let placement = match args.device {
        Placement::Gpu if forge.router()?.backends().len() < 2 => {
            let hint = "gpuforge detect shows what there is; --device auto uses the CPU";
            return Err(Hinted::new("there is no device to use", hint).into());
        }
        Placement::Gpu => PlacementPolicy::Only(1),
        _ => PlacementPolicy::Fastest,
    };
    let op = Flights::new(model, launches)?;
    let ran = forge.run_with(&op, RunOptions { placement, keep_on_device: false })?;
    let result = ran.tensor().and_then(|t| t.host()).unwrap_or_default();
    let flown = op.summaries(&result)?;
    let mut reason = ran.decision().reason.to_string();
    if let Some(why) = &ran.report().fallback {
        reason = format!("{reason}: {why}");
    }
    let seconds = ran.report().wall.as_secs_f64();
    Ok((flown, BatchPlacement { device: ran.report().backend.clone(), reason, seconds }))
}

/// Summaries of valid launches, and the errors of the others with their lines.
fn split_errors(rows: &LaunchRows, flown: Vec<Flown>) -> (Vec<Option<FlightSummary>>, Vec<(u64, String)>) {
    let mut unread = rows.bad.iter().peekable();
    let mut errors = Vec::new();
    let mut summaries = Vec::with_capacity(flown.len());
    for (row, (flown, line)) in flown.into_iter().zip(&rows.lines).enumerate() {
        // A cell that is not a number was read as NaN; its own error says more.
        let unread = unread.next_if(|(bad, _)| *bad == row).map(|(_, why)| why.clone());
        match (unread, flown) {
            (Some(why), _) => errors.push((*line, why)),
            (None, Err(error)) => errors.push((*line, error.to_string())),
            (None, Ok(summary)) => {
                summaries.push(Some(summary));
                continue;
            }
        }
        summaries.push(None);
    }
    (summaries, errors)
}

fn warn_invalid(rows: &LaunchRows, errors: &[(u64, String)], args: &BatchArgs, context: &Context) {
    let source = args.input.display().to_string();
    for (line, why) in errors.iter().take(NAMED) {
        context.out.warn(&source, &format!("{} {line}: {why}", rows.word), None);
    }
    if let Some(more) = errors.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let hint = "the status column of the output has every error";
        context.out.warn(&source, &format!("{more} more rows are invalid"), Some(hint));
    }
}

/// Writes a row per launch: its line, its status or error, its results.
fn write(
    path: &Path,
    rows: &LaunchRows,
    flown: &[Option<FlightSummary>],
    errors: &[(u64, String)],
) -> Result<()> {
    let columns = FlightSummary::FIGURES.map(str::to_owned);
    let layout = KeySchema::of_rows(rows.word, Some("status"));
    let options = WriteOptions::of(path).map_err(frame_error)?;
    let mut writer = Writer::create(path, &layout, &columns, &options).map_err(frame_error)?;
    let mut errors = errors.iter();
    let mut from = 0;
    while let Some(first) = flown.get(from) {
        // Consecutive rows with the same status are one write.
        let status = first.map(|s| s.status);
        let same = |row: &&Option<FlightSummary>| row.map(|s| s.status) == status && status.is_some();
        let run = flown.iter().skip(from).take_while(same).count().max(1);
        let key = match status {
            Some(status) => status.name().to_owned(),
            None => errors.next().map_or_else(String::new, |(_, why)| format!("error: {why}")),
        };
        let some = flown.get(from..from + run).unwrap_or_default();
        let column = |n: usize| -> Vec<f64> {
            let figure = |s: &Option<FlightSummary>| s.and_then(|s| s.figures().get(n).copied());
            some.iter().map(|s| figure(s).unwrap_or(f64::NAN)).collect()
        };
        let values: Vec<Vec<f64>> = (0..columns.len()).map(column).collect();
        // The cells of an invalid row are null.
        let valid_from = if status.is_some() { 0 } else { run };
        let values: Vec<ColumnValues<'_>> =
            values.iter().map(|values| ColumnValues { values, valid_from }).collect();
        writer.write(Some(&SymbolKey::Text(key)), &lines(rows, from, run), &values).map_err(frame_error)?;
        from += run;
    }
    writer.finish().map_err(frame_error)?;
    Ok(())
}

fn lines(rows: &LaunchRows, from: usize, count: usize) -> Vec<i64> {
    rows.lines.iter().skip(from).take(count).map(|line| i64::try_from(*line).unwrap_or(i64::MAX)).collect()
}

/// Writes `--paths` and `--svg`.
fn draw(files: &ExtraFiles, model: &FlightModel, launches: &[(u64, Launch)]) -> Result<()> {
    if let Some(path) = &files.paths {
        write_paths(path, model, launches).map_err(frame_error)?;
    }
    if let Some(path) = &files.svg {
        let first = launches.get(..launches.len().min(plot::MAX_FLIGHTS)).unwrap_or_default();
        let text = plot::svg(&paths(model, first));
        write_file(path, text.as_bytes())?;
    }
    Ok(())
}

/// Atomic write with the errors of data files.
fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |source| frame_error(FrameError::Io { doing: "write", path: path.to_owned(), source });
    let mut file = TemporaryFile::beside(path).map_err(failed)?;
    std::io::Write::write_all(&mut file, bytes).map_err(failed)?;
    file.persist().map_err(failed)
}

/// Paths of valid launches, on all threads.
fn paths(model: &FlightModel, launches: &[(u64, Launch)]) -> Vec<Vec<FlightPoint>> {
    let mut paths = vec![Vec::new(); launches.len()];
    Threads::all().par_for_each(launches.iter().zip(&mut paths), |((_, launch), path)| {
        *path = model.path(launch).map(|(_, points)| points).unwrap_or_default();
    });
    paths
}

fn write_paths(path: &Path, model: &FlightModel, launches: &[(u64, Launch)]) -> Result<(), FrameError> {
    let columns = PATH.map(str::to_owned);
    let layout = KeySchema::of_rows("line", None);
    let mut writer = Writer::create(path, &layout, &columns, &WriteOptions::of(path)?)?;
    for some in launches.chunks(AT_ONCE) {
        for ((line, _), points) in some.iter().zip(paths(model, some)) {
            let line = vec![i64::try_from(*line).unwrap_or(i64::MAX); points.len()];
            let column = |n: usize| -> Vec<f64> {
                points.iter().filter_map(|p| numbers_of(p).get(n).copied()).collect()
            };
            let values: Vec<Vec<f64>> = (0..PATH.len()).map(column).collect();
            let values: Vec<ColumnValues<'_>> = values.iter().map(|v| ColumnValues::all(v)).collect();
            writer.write(None, &line, &values)?;
        }
    }
    writer.finish()?;
    Ok(())
}

/// The columns of [`PATH`] for a point.
fn numbers_of(point: &FlightPoint) -> [f64; 8] {
    let FlightPoint { time, position: [x, y, z], velocity: [u, v, w], spin } = *point;
    [time, x, y, z, u, v, w, spin]
}
