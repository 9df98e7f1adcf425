//! `gpuforge profile run -- COMMAND`: a trace of one of our commands, or of a program that uses the library.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser as _};
use gpuforge::{
    dash::report::TraceReport,
    profile::{Category, Name, Profiler, Span, TRACE_VARIABLE, TraceFormat, TraceGuard},
};

use super::report;
use crate::{
    args::{
        Args, Command,
        profiling::{Profile, ProfileRun, ReportFormat},
    },
    atomic_file,
    context::Context,
    error::Hinted,
    output::DIM,
};

pub(crate) fn run(args: Profile, context: &Context) -> Result<()> {
    let Profile::Run(args) = args;
    check(&args.output)?;
    args.report.as_deref().map_or(Ok(()), require_directory)?;
    let ran = match ours(&args.command) {
        true => in_process(&args, context)?,
        false => program(&args)?,
    };
    // The trace of a failed command is shown too: it may show why.
    let shown = show(&args, context);
    ran.and(shown)
}

/// The trace is read again for the summary, so it must be in our own format and in a directory that exists.
fn check(path: &Path) -> Result<()> {
    if TraceFormat::of(path) == TraceFormat::Chrome {
        let what = format!("{}: that extension means the format of trace viewers", path.display());
        let hint = "record a trace.json, then `gpuforge report trace.json -o trace.perfetto.json`";
        return Err(Hinted::usage(what, hint).into());
    }
    require_directory(path)
}

/// A missing directory is found before minutes of work rather than after.
fn require_directory(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if directory.is_dir() {
        return Ok(());
    }
    let what = format!("cannot write {}: there is no directory {}", path.display(), directory.display());
    Err(Hinted::new(what, "make it first, or give another name").into())
}

/// Is it a gpuforge command? Its first word is one, or a flag.
fn ours(command: &[OsString]) -> bool {
    let first = command.first().and_then(|word| word.to_str()).unwrap_or_default();
    first.starts_with('-') || Args::command().find_subcommand(first).is_some()
}

/// The outer error is about the request, the inner one is the command's own.
fn in_process(args: &ProfileRun, context: &Context) -> Result<Result<()>> {
    let words = std::iter::once(OsString::from("gpuforge")).chain(args.command.iter().cloned());
    let mut inner = Args::try_parse_from(words).unwrap_or_else(|error| error.exit());
    if matches!(inner.command, Some(Command::Profile(_))) {
        return Err(Hinted::usage("a profile of a profile", "record the command itself").into());
    }
    inner.json |= context.out.json;
    inner.quiet |= context.out.quiet;
    let inner_context = Context::new(&inner);
    let word = args.command.iter().map(|word| word.to_string_lossy()).find(|word| !word.starts_with('-'));
    let guard = TraceGuard::new(Profiler::global().clone(), args.output.clone());
    let result = {
        let _span = Span::named(Name::new(&format!("gpuforge {}", word.unwrap_or_default())), Category::Cpu);
        super::run(inner.command, &inner_context)
    };
    guard.finish()?;
    Ok(result)
}

/// Runs a program that writes the trace itself.
fn program(args: &ProfileRun) -> Result<Result<()>> {
    let (name, rest) = args.command.split_first().context("no command")?;
    let shown = Path::new(name).display();
    // The trace of an earlier run must not be taken for this one's.
    let before = modified(&args.output);
    let absolute = std::path::absolute(&args.output)?;
    let status = process::Command::new(name).args(rest).env(TRACE_VARIABLE, &absolute).status();
    let status = status.map_err(|error| {
        let hint = "give a command of gpuforge (`gpuforge --help`), or a program that can be started";
        Hinted::usage(format!("cannot start {shown}: {error}"), hint)
    })?;
    let fresh = args.output.exists() && modified(&args.output) != before;
    let failed = (!status.success()).then(|| format!("{shown} ended with {status}"));
    match (fresh, failed) {
        (true, None) => Ok(Ok(())),
        (true, Some(failed)) => Ok(Err(Hinted::new(failed, "its trace was written all the same").into())),
        (false, failed) => {
            let what = failed.unwrap_or_else(|| format!("{shown} left no trace"));
            let hint = "a program leaves one if it uses gpuforge and calls gpuforge::profile::trace_from_env";
            Err(Hinted::new(what, hint).into())
        }
    }
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|m| m.modified()).ok()
}

/// The summary, unless only data is wanted, and the page.
fn show(args: &ProfileRun, context: &Context) -> Result<()> {
    let (talks, page): (bool, Option<&PathBuf>) = (context.out.prints_notes(), args.report.as_ref());
    if !talks && page.is_none() {
        return Ok(());
    }
    let trace = report::read(&args.output)?;
    if let Some(path) = page {
        let html = report::export(&trace, ReportFormat::Html, &report::title(&args.output))?;
        atomic_file::write(path, &html)?;
    }
    if !talks {
        return Ok(());
    }
    let mut text = format!("\n{}", report::summary(&TraceReport::of(&trace), args.top));
    let next = match page {
        Some(path) => format!("{}, {}", args.output.display(), path.display()),
        None => format!("{0}; as a page: gpuforge report {0} -o report.html", args.output.display()),
    };
    text.push_str(&format!("{DIM}{next}{DIM:#}\n"));
    context.out.text(&text)
}
