//! `gpuforge indicators INPUT… -o OUT --select …`: bars to columns.

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
    frame::{read::Progress as Reading, write::Options},
    indicators::{exec::How, select::Selection},
    market::{self, Finding, Job, Problem, Report},
};
use serde_json::json;

use crate::{
    args::{Indicators, Precision, Where},
    bars::{explained, input, read_options, selection},
    context::Context,
    error::Hinted,
    format::{count, size, width, wrap},
    output::{CARE, DIM, HEAD},
    progress::{Progress, bar},
};

/// Findings that are listed one by one.
const LISTED: usize = 12;

pub(crate) fn run(args: &Indicators, context: &Context) -> Result<()> {
    let files = input(&args.bars)?;
    let Some(output) = &args.output else {
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
    if args.device == Where::Gpu {
        let hint = "leave --device out, or say --device cpu";
        return Err(Hinted::usage("indicators are computed on the processor only", hint).into());
    }
    let Some(selected) = selection(&args.what)? else {
        let hint =
            "--select 'rsi(14), macd(12,26,9)', --select set:classic111; `gpuforge indicators list` has all";
        return Err(Hinted::usage("nothing is selected", hint).into());
    };
    let report = compute(args, context, &selected, files, output)?;
    if context.out.json {
        return context.out.json(&json!({
            "output": output, "report": report, "column_names": selected.columns,
        }));
    }
    tell(&report, args, context);
    if to_stdout {
        return Ok(());
    }
    context.out.text(&summary(&report, output, context.out.verbose))
}

fn compute(
    args: &Indicators,
    context: &Context,
    selected: &Selection,
    files: gpuforge::frame::read::Input,
    output: &Path,
) -> Result<Report> {
    let places = context.places()?;
    let memory = context.settings(&places, &[]).memory_limit();
    let threads = args.threads.and_then(|n| usize::try_from(n).ok());
    let how = How { threads: threads.unwrap_or(How::default().threads), ..How::default() };
    let mut write = Options::of(output).map_err(explained)?;
    write.single = args.precision == Precision::F32;
    write.threads = threads.unwrap_or(0);
    let shown = Progress::start("reading bars", context.out.talks());
    let meter = Meter::new(&shown);
    let reading = |p: Reading| meter.read(p);
    let writing = |rows: u64| meter.wrote(rows);
    let read = gpuforge::frame::read::ReadOptions { progress: Some(&reading), ..read_options(&args.bars)? };
    let job = Job {
        input: files,
        read,
        selection: selected,
        output: output.to_owned(),
        write,
        with_bars: args.with_bars,
        how,
        memory,
        check: args.check,
        progress: Some(&writing),
    };
    market::run(job).map_err(explained)
}

/// Rows per second and what is left, for the line on the terminal.
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

/// `computing [████····] 52 %, 3.1 M rows/s, 4 s left`; pure.
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

/// What a person should know beside the result.
fn tell(report: &Report, args: &Indicators, context: &Context) {
    if report.skipped > 0 {
        let reasons = report.reasons.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
        context.out.warn(
            "input",
            &format!("{} rows could not be read and were left out: {reasons}", report.skipped),
            None,
        );
    }
    if report.duplicates > 0 {
        context.out.warn(
            "input",
            &format!("{} rows whose time came twice were left out", report.duplicates),
            None,
        );
    }
    if let Some(findings) = &report.findings {
        for finding in findings.iter().take(LISTED) {
            context.out.warn("check", &describe(finding, report.symbols), None);
        }
        if findings.len() > LISTED {
            let more = findings.len() - LISTED;
            let hint = "--json has all of them";
            context.out.warn("check", &format!("{more} more columns"), Some(hint));
        }
        if findings.is_empty() && args.check && !context.out.talks() {
            return;
        }
    }
}

fn describe(finding: &Finding, symbols: usize) -> String {
    let what = match finding.problem {
        Problem::Constant => "is constant",
        Problem::AllNan => "has no value at all",
        Problem::Infinite => "has infinite values",
    };
    let Finding { column, symbols: n, example, .. } = finding;
    format!("{column} {what} in {n} of {symbols} symbols, {example} among them")
}

fn summary(report: &Report, output: &Path, verbose: bool) -> String {
    let Report { rows, symbols, columns, bytes, seconds, .. } = report;
    let speed = *rows as f64 * *columns as f64 / seconds.compute.max(1e-9);
    let mut out = wrap(
        &format!(
            "{rows} rows of {symbols} symbols, {columns} columns, {} in {:.2} s: {}",
            size(*bytes),
            seconds.total,
            output.display()
        ),
        0,
        width(),
    );
    let _ = writeln!(
        out,
        "{DIM}reading {:.2} s, computing {:.2} s ({} values/s), writing {:.2} s{DIM:#}",
        seconds.read,
        seconds.compute,
        count(speed),
        seconds.write
    );
    if report.sorted_here > 0 {
        let _ = writeln!(
            out,
            "{DIM}{} symbols were not in time order and were sorted{DIM:#}",
            report.sorted_here
        );
    }
    if report.spilled {
        let _ =
            writeln!(out, "{DIM}the bars did not fit the memory limit and waited in a temporary file{DIM:#}");
    }
    match &report.findings {
        Some(found) if found.is_empty() => {
            let _ = writeln!(out, "check: no column is constant, all NaN or infinite");
        }
        Some(found) => {
            let _ = writeln!(out, "{CARE}check: {} columns say nothing or too much{CARE:#}", found.len());
        }
        None => {}
    }
    if verbose {
        let _ = writeln!(out, "{HEAD}{} columns{HEAD:#}", columns);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_how_fast_and_how_long() {
        let text = line("computing", 500_000, Some(0.5), 2.0);
        assert!(
            text.contains("50 %") && text.contains("250 k rows/s") && text.contains("2 s left"),
            "{text}"
        );
        assert_eq!(line("reading", 1000, None, 1.0), "reading, 1.0 k rows/s");
        assert!(!line("reading", 0, Some(0.0), 0.0).contains("left"));
    }
}
