//! `gpuforge doctor`: diagnostic checks with evidence and fix; fails when something is broken.

use std::{
    fmt::Write as _,
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use gpuforge::env::{
    compat,
    doctor::{self, CheckResult, DoctorReport, FixScripts, Status, SystemView},
};
use serde::Serialize;

use crate::{
    args::machine::Doctor,
    context::Context,
    error::Hinted,
    format::{width, wrap},
    output::{BAD, CARE, DIM, GOOD, HEAD},
    progress::Progress,
};

/// JSON document: the report, and the scripts of `--fix`.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a DoctorReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<Fixed>,
}

/// Scripts that `--fix` proposes or wrote.
#[derive(Serialize)]
struct Fixed {
    /// Lines of the script.
    lines: Vec<String>,
    /// The script, to be sourced; `None` if it was not confirmed.
    script: Option<PathBuf>,
    /// The script that reverts it.
    undo: Option<PathBuf>,
}

pub(crate) fn run(args: &Doctor, context: &Context) -> Result<()> {
    let view = Arc::new(view(args, context)?);
    let progress = Progress::start("checking", context.out.prints_notes());
    let report = doctor::run(&view);
    drop(progress);
    if !context.out.json {
        context.out.text(&render(&report, context.out.verbose))?;
    }
    if let Some(file) = &args.bundle {
        write_bundle(file, &view, &report)?;
        if context.out.prints_notes() {
            context.out.text(&wrap(
                &format!("wrote {}, without names and addresses", file.display()),
                0,
                width(),
            ))?;
        }
    }
    let fixed = if args.fix { fix(args, &report, &view, context)? } else { None };
    if context.out.json {
        context.out.json(&Document { report: &report, fixed })?;
    }
    if report.is_broken() {
        let broken = report.checks.iter().filter(|c| c.status >= Status::Error);
        let names: Vec<&str> = broken.map(|c| c.id).collect();
        let what = format!(
            "{} of {} checks found something broken: {}",
            names.len(),
            report.checks.len(),
            names.join(", ")
        );
        return Err(Hinted::new(
            what,
            "each has its next step above; `gpuforge explain` reads a program's messages",
        )
        .into());
    }
    Ok(())
}

fn view(args: &Doctor, context: &Context) -> Result<SystemView> {
    let view = match &args.root {
        None => SystemView::live(),
        Some(root) if !root.is_dir() => {
            let what = format!("{} is not a directory", root.display());
            return Err(
                Hinted::usage(what, "--root takes the directory where the other system is mounted").into()
            );
        }
        // Programs of the other system are never run.
        Some(root) => SystemView::rooted_at(root, std::env::vars().collect()).without_tools(),
    };
    let view = view.offline(args.offline).deep(args.deep);
    let Ok(places) = context.places() else { return Ok(view) };
    // The user's table replaces the embedded one; an invalid one is a warning, and the embedded one is used.
    let table = compat::load(Some(&places.data_dir));
    if let Some(problem) = &table.problem {
        context.out.warn("data", &problem.to_string(), Some("`gpuforge env check-data` reads it"));
    }
    Ok(view.with_table(table.value))
}

fn render(report: &DoctorReport, verbose: bool) -> String {
    let width = width();
    let mut out = String::new();
    let shown = |c: &&CheckResult| verbose || c.status != Status::Skipped;
    for check in report.checks.iter().filter(shown) {
        let style = match check.status {
            Status::Healthy => GOOD,
            Status::Skipped => DIM,
            Status::Unknown | Status::Warning => CARE,
            Status::Error | Status::Critical => BAD,
        };
        let _ = write!(out, "{style}{:<9}{style:#}{HEAD}{}{HEAD:#}", check.status.word(), check.id);
        let _ = if verbose { writeln!(out, "  {DIM}{:.1} ms{DIM:#}", check.ms) } else { writeln!(out) };
        if verbose {
            let _ = write!(out, "{DIM}{}{DIM:#}", wrap(check.asks, 4, width));
        }
        out.push_str(&wrap(&check.evidence, 4, width));
        if let Some(fix) = &check.fix {
            out.push_str(&wrap(&format!("→ {fix}"), 4, width));
        }
    }
    let count = |status: Status| report.checks.iter().filter(|c| c.status == status).count();
    let order =
        [Status::Critical, Status::Error, Status::Warning, Status::Unknown, Status::Healthy, Status::Skipped];
    let counts = order.iter().map(|s| (count(*s), s.word())).filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, word)| format!("{n} {word}")).collect();
    let more = if verbose || count(Status::Skipped) == 0 { "" } else { " (--verbose lists them)" };
    out.push_str(&wrap(&format!("{}{more}", counts.join(", ")), 0, width));
    out
}

/// Written beside its place and renamed: half a report is none.
fn write_bundle(file: &Path, view: &SystemView, report: &DoctorReport) -> Result<()> {
    let text = serde_json::to_string_pretty(&doctor::bundle(view, report)?)?;
    let directory = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut temporary = tempfile::Builder::new().prefix(".bundle-").tempfile_in(directory)?;
        writeln!(temporary, "{text}")?;
        temporary.persist(file).map_err(|e| e.error)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// Shows the fixes, asks, and writes them as scripts; changes nothing else.
fn fix(args: &Doctor, report: &DoctorReport, view: &SystemView, context: &Context) -> Result<Option<Fixed>> {
    let Some(scripts) = FixScripts::of(&report.changes(), view) else {
        if context.out.prints_notes() {
            let none = "nothing here can be put right without rights or loss; the steps above are yours";
            context.out.text(&wrap(none, 0, width()))?;
        }
        return Ok(None);
    };
    let lines: Vec<String> =
        scripts.apply.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
    if context.out.prints_notes() {
        let mut text = format!("{HEAD}A script for this shell would do:{HEAD:#}\n");
        for line in &lines {
            let _ = writeln!(text, "    {line}");
        }
        context.out.text(&text)?;
    }
    if !(args.yes || asked(context)) {
        if context.out.prints_notes() {
            context.out.text("nothing was written; --yes writes it without asking\n")?;
        }
        return Ok(Some(Fixed { lines, script: None, undo: None }));
    }
    let directory = context.places()?.data_dir;
    let (script, undo) =
        scripts.save(&directory).with_context(|| format!("cannot write into {}", directory.display()))?;
    if context.out.prints_notes() {
        context.out.text(&format!("apply:  . '{}'\nundo:   . '{}'\n", script.display(), undo.display()))?;
    }
    Ok(Some(Fixed { lines, script: Some(script), undo: Some(undo) }))
}

/// Asks on a terminal; without one the answer is no.
fn asked(context: &Context) -> bool {
    if context.out.json || !std::io::stdin().is_terminal() {
        return false;
    }
    let mut err = std::io::stderr();
    let _ = write!(err, "write it? [y/N] ").and_then(|()| err.flush());
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
