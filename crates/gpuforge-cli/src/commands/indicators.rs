//! `gpuforge indicators INPUT… -o OUT --select …`: reads bars, computes indicators, writes columns.

mod check;
mod explain;
mod input_report;
pub(crate) mod list;

use std::{
    fmt::Write as _,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::Result;
use gpuforge::{
    Forge,
    frame::{read::Progress as Reading, write::WriteOptions},
    indicators::exec::ExecOptions,
    indicators_gpu::{DeviceAccess, DeviceChoice, DeviceError, HybridExecutor, explain::ExecExplanation},
    market::{self, MarketJob, MarketReport, Request},
};
use serde_json::json;

use super::probe;
use crate::{
    args::{
        Placement,
        bars::BarFiles,
        indicators::{Indicators, Precision},
    },
    bars::{InputRepairs, frame_error, input, read_options, request},
    context::{Context, env},
    error::Hinted,
    format::{count, escape_control, plural, size, width, wrap},
    output::{CARE, DIM},
    progress::{Progress, bar},
};

/// Device events and JIT fallbacks that are listed.
const LISTED: usize = 12;

pub(crate) fn run(args: &Indicators, context: &Context) -> Result<()> {
    let files = input(&args.bars)?;
    if args.explain_input {
        return input_report::run(args, context, &files);
    }
    let Some(output) = &args.output else {
        if args.explain {
            return explain_only(args, context, &files);
        }
        // A mistyped subcommand looks like a missing file.
        if let [one] = args.bars.inputs.as_slice()
            && !one.exists()
            && args.select.select.is_empty()
        {
            let what = format!("`{}` is neither a file nor a command of `indicators`", one.display());
            return Err(Hinted::usage(what, "list, show NAME, or INPUT -o OUT --select EXPR").into());
        }
        return Err(Hinted::usage(
            "no output",
            "name a file with -o, such as -o out.parquet; `-o -` is CSV on stdout",
        )
        .into());
    };
    let to_stdout = output == Path::new("-");
    if to_stdout && context.out.json {
        return Err(Hinted::usage("the columns and --json cannot both go to stdout", "give -o a file").into());
    }
    if to_stdout && args.explain {
        return Err(
            Hinted::usage("the columns and --explain cannot both go to stdout", "give -o a file").into()
        );
    }
    let request = selected(args)?;
    keep_input(&args.bars, output)?;
    let access = access(args, context)?;
    let report = compute(args, context, &request, files, output, &access)?;
    let plan = match args.explain {
        true => Some(planned(args, &request, &access, &explain::even(&report))?),
        false => None,
    };
    let ended = || if args.strict { check::strict(&report) } else { Ok(()) };
    if context.out.json {
        context.out.json(&json!({
            "output": output, "report": report, "column_names": request.selection.columns, "plan": plan,
            "input": report.input,
        }))?;
        return ended();
    }
    print_warnings(&report, context);
    if to_stdout {
        return ended();
    }
    let names = context.out.verbose.then_some(request.selection.columns.as_slice());
    let mut text = summary(&report, output, names);
    if let Some(plan) = &plan {
        text.push_str(&explain::text(plan, Some(&report)));
    }
    context.out.text(&text)?;
    ended()
}

/// The selection; an empty one is wrong usage.
fn selected(args: &Indicators) -> Result<Request> {
    request(&args.select)?.ok_or_else(|| {
        let hint =
            "--select 'rsi(14), macd(12,26,9)', --select set:classic111; `gpuforge indicators list` has all";
        Hinted::usage("nothing is selected", hint).into()
    })
}

/// Prints the execution plan for the shape of the input; computes nothing.
fn explain_only(args: &Indicators, context: &Context, files: &gpuforge::frame::read::Input) -> Result<()> {
    let request = selected(args)?;
    let access = access(args, context)?;
    let plan = planned(args, &request, &access, &explain::shape(files, read_options(&args.bars)?)?)?;
    if context.out.json {
        return context.out.json(&json!({ "plan": plan }));
    }
    context.out.text(&explain::text(&plan, None))
}

fn planned(
    args: &Indicators,
    request: &Request,
    access: &DeviceAccess,
    bars: &[usize],
) -> Result<ExecExplanation> {
    let failed = |DeviceError::Unavailable(why)| no_device(&why);
    Ok(HybridExecutor::new(request, exec_options(args), access).map_err(failed)?.explain(bars))
}

fn no_device(why: &str) -> anyhow::Error {
    let hint = "`gpuforge doctor` says what is wrong; leave --device out to compute on the CPU";
    Hinted::new(format!("no device can be used: {}", escape_control(why)), hint).into()
}

/// Access to devices; none is opened unless it could be faster.
fn access(args: &Indicators, context: &Context) -> Result<DeviceAccess> {
    let asked = match args.device {
        Placement::Auto => DeviceChoice::Auto,
        Placement::Cpu => return Ok(DeviceAccess::cpu()),
        Placement::Gpu => DeviceChoice::Gpu,
    };
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
    forge.check_device()?;
    Ok(forge.device_access(settings, &places, asked))
}

fn exec_options(args: &Indicators) -> ExecOptions {
    let threads = args.threads.and_then(|n| usize::try_from(n).ok());
    ExecOptions { threads: threads.unwrap_or(ExecOptions::default().threads), ..ExecOptions::default() }
}

/// Refuses an output that would overwrite the input.
fn keep_input(files: &BarFiles, output: &Path) -> Result<()> {
    let Ok(target) = output.canonicalize() else { return Ok(()) };
    let same = |input: &&std::path::PathBuf| input.canonicalize().is_ok_and(|i| i == target && i.is_file());
    match files.inputs.iter().find(same) {
        None => Ok(()),
        Some(input) => {
            let what = format!("{} is the input and the output: its bars would be lost", input.display());
            Err(Hinted::usage(what, "give -o another name").into())
        }
    }
}

fn compute(
    args: &Indicators,
    context: &Context,
    request: &Request,
    files: gpuforge::frame::read::Input,
    output: &Path,
    access: &DeviceAccess,
) -> Result<MarketReport> {
    let places = context.places()?;
    let memory = context.settings(&places, &[]).memory_limit();
    let threads = args.threads.and_then(|n| usize::try_from(n).ok());
    let mut write = WriteOptions::of(output).map_err(frame_error)?;
    write.single = args.precision == Precision::F32;
    write.threads = threads.unwrap_or(0);
    let shown = Progress::start("reading bars", context.out.prints_notes());
    let meter = Meter::new(&shown);
    let reading = |p: Reading| meter.read(p);
    let writing = |rows: u64| meter.wrote(rows);
    let read = gpuforge::frame::read::ReadOptions { progress: Some(&reading), ..read_options(&args.bars)? };
    let job = MarketJob {
        input: files,
        read,
        request,
        output: output.to_owned(),
        write,
        with_bars: args.with_bars,
        options: exec_options(args),
        memory,
        check: args.check || args.strict,
        progress: Some(&writing),
    };
    market::run_on(job, access).map_err(frame_error)
}

/// Throughput and remaining time, for the progress line.
struct Meter<'a> {
    shown: &'a Progress,
    began: Instant,
    writing: Mutex<Option<Instant>>,
    rows: AtomicU64,
}

impl<'a> Meter<'a> {
    fn new(shown: &'a Progress) -> Self {
        Meter { shown, began: Instant::now(), writing: Mutex::new(None), rows: AtomicU64::new(0) }
    }

    fn read(&self, p: Reading) {
        self.rows.store(p.rows, Ordering::Relaxed);
        let share = match (p.total_rows, p.total_bytes) {
            (Some(all), _) if all > 0 => Some(p.rows as f64 / all as f64),
            (_, Some(all)) if all > 0 => Some(p.bytes as f64 / all as f64),
            _ => None,
        };
        self.shown.say(|| line("reading", p.rows, share, self.began.elapsed().as_secs_f64()));
    }

    fn wrote(&self, rows: u64) {
        let since =
            *self.writing.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        let all = self.rows.load(Ordering::Relaxed);
        let share = (all > 0).then(|| rows as f64 / all as f64);
        self.shown.say(|| line("computing", rows, share, since.elapsed().as_secs_f64()));
    }
}

/// `computing [████····] 52 %, 3.1 M rows/s, 4 s left`.
fn line(what: &str, rows: u64, share: Option<f64>, seconds: f64) -> String {
    let mut text = what.to_owned();
    let share = share.map(|s| s.clamp(0.0, 1.0));
    if let Some(share) = share {
        let _ = write!(text, " {} {:.0} %", bar(share, 20), share * 100.0);
    }
    let speed = rows as f64 / seconds.max(1e-3);
    let _ = write!(text, ", {} rows/s", count(speed));
    if let Some(share) = share.filter(|s| *s > 0.01) {
        let _ = write!(text, ", {:.0} s left", seconds / share * (1.0 - share));
    }
    text
}

/// Warnings about the input, the placement and the values.
fn print_warnings(report: &MarketReport, context: &Context) {
    let MarketReport { skipped, reasons, duplicates, sorted_here, .. } = report;
    let (skipped, duplicates, sorted_here) = (*skipped, *duplicates, *sorted_here);
    InputRepairs { skipped, reasons, duplicates, sorted_here }.warn(&context.out);
    if report.rows == 0 {
        context.out.warn("input", "there are no bars, so the output has no rows", None);
    }
    let placed = &report.placed;
    if placed.asked == DeviceChoice::Gpu && placed.groups.gpu == 0 && report.rows > 0 {
        let why = placed.decision.as_ref().map(|d| format!(": {}", escape_control(&d.reason.to_string())));
        let what = format!("nothing was computed on a device{}", why.unwrap_or_default());
        context.out.warn("device", &what, Some("--explain lists the columns that a device supports"));
    }
    for reason in report.jit_fallbacks.iter().take(LISTED) {
        let hint = "the numbers are the kernels' and right; please report this line and the selection";
        context.out.warn("jit", &escape_control(reason), Some(hint));
    }
    for event in report.placed.events.iter().take(LISTED) {
        context.out.warn("device", &escape_control(event), None);
    }
    check::print_findings(report, &context.out);
    input_report::print_note(report, &context.out);
}

/// Rows, columns, times and placement; with names, also the columns.
fn summary(report: &MarketReport, output: &Path, names: Option<&[String]>) -> String {
    let MarketReport { rows, symbols, columns, bytes, seconds, .. } = report;
    let width = width();
    let (all, of, each) =
        (plural(*rows, "row"), plural(*symbols as u64, "symbol"), plural(*columns as u64, "column"));
    let (size, total) = (size(*bytes), seconds.total);
    let mut out =
        wrap(&format!("{all} of {of}, {each}, {size} in {total:.2} s: {}", output.display()), 0, width);
    let mut note = |text: &str| {
        let _ = write!(out, "{DIM}{}{DIM:#}", wrap(text, 0, width));
    };
    let speed = count(*rows as f64 * *columns as f64 / seconds.compute.max(1e-9));
    note(&format!(
        "reading {:.2} s, computing {:.2} s ({speed} values/s), writing {:.2} s",
        seconds.read, seconds.compute, seconds.write
    ));
    if let (Some(device), true) = (&report.placed.device, report.placed.groups.gpu > 0) {
        let done = &report.placed;
        let (series, columns) = (done.series.gpu, plural(done.columns.gpu, "column"));
        note(&format!("{columns} of {series} series on {}, all else on the CPU", escape_control(device)));
    }
    if report.spilled {
        note("the bars did not fit the memory limit and were spilled to a temporary file");
    }
    match check::summary(report) {
        Some((true, text)) => out.push_str(&wrap(&text, 0, width)),
        Some((false, text)) => {
            let _ = write!(out, "{CARE}{}{CARE:#}", wrap(&text, 0, width));
        }
        None => {}
    }
    if let Some(names) = names {
        out.push_str(&wrap(&format!("columns: {}", names.join(", ")), 0, width));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_has_fraction_throughput_and_remaining_time() {
        let text = line("computing", 500_000, Some(0.5), 2.0);
        assert!(
            text.contains("50 %") && text.contains("250 k rows/s") && text.contains("2 s left"),
            "{text}"
        );
        assert_eq!(line("reading", 1000, None, 1.0), "reading, 1.0 k rows/s");
        assert!(!line("reading", 0, Some(0.0), 0.0).contains("left"));
    }
}
