//! `gpuforge explain`: root cause of a log and its fix, by error patterns. Loads no GPU library.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead as _, IsTerminal as _, Read, Write as _},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};
use gpuforge::{
    detection,
    env::doctor::{self, SystemView},
    env::explain::{
        CheckEvidence, Explanation, HostEvidence, PatternDb, RootCause, Severity, explain_with_checks, fix,
    },
    hardware,
    settings::UserPaths,
};
use serde_json::json;

use crate::{
    args::upkeep::Explain,
    context::{Context, env},
    error::Hinted,
    format::{width, wrap},
    output::{BAD, CARE, DIM, GOOD, HEAD},
};

pub(crate) fn run(args: &Explain, context: &Context) -> Result<()> {
    let places = context.places()?;
    if args.undo {
        return undo(args, &places, context);
    }
    let known = PatternDb::load(Some(&places.data_dir));
    if let Some(problem) = known.problem() {
        let hint = "the patterns that came with the program are used";
        context.out.warn("data", &problem.to_string(), Some(hint));
    }
    let log = open(args.file.as_deref(), context)?;
    let found = explain_with_checks(log, &known, &facts(&places, context), checks)?;
    if context.out.json {
        context.out.json(&document(&found, context.out.verbose))?;
    } else {
        context.out.text(&render(&found, context.out.verbose))?;
    }
    match (&found.root, args.fix) {
        (Some(root), true) => apply(root, &known, args, &places, context),
        (None, true) => Err(Hinted::new("there is no known cause to fix", "see above").into()),
        _ => Ok(()),
    }
}

/// Reads the log; on a terminal, says that it waits for stdin.
fn open(file: Option<&Path>, context: &Context) -> Result<Box<dyn Read>> {
    match file.filter(|f| *f != Path::new("-")) {
        Some(file) => {
            let opened = File::open(file).and_then(|f| match f.metadata()?.is_dir() {
                true => Err(io::ErrorKind::IsADirectory.into()),
                false => Ok(f),
            });
            Ok(Box::new(opened.with_context(|| format!("cannot read {}", file.display()))?))
        }
        None => {
            if io::stdin().is_terminal() && !context.out.quiet {
                let end = if cfg!(windows) { "Ctrl-Z and Enter" } else { "Ctrl-D" };
                let said =
                    format!("paste a log, then {end} on a line of its own; or: gpuforge explain FILE\n");
                // A closed stderr is no error.
                let _ = io::stderr().lock().write_all(said.as_bytes());
            }
            Ok(Box::new(io::stdin().lock()))
        }
    }
}

/// Facts about this machine without waking a device: kernel files, and the cache if it is valid.
fn facts(places: &UserPaths, context: &Context) -> HostEvidence {
    let mut options = detection::options(context.settings(places, &[]), places, &env);
    options.tier0_only = true;
    let mut facts = HostEvidence::of(&hardware::detect(&options, &env));
    facts.library_path = env("LD_LIBRARY_PATH");
    facts
}

/// Results of the doctor's checks, from files only: runs no program, uses no network.
fn checks(ids: &[String]) -> Vec<CheckEvidence> {
    let view = SystemView::live().without_tools().offline(true);
    ids.iter()
        .filter_map(|id| doctor::run_check(&view, id))
        .filter_map(|checked| CheckEvidence::of(&checked))
        .collect()
}

/// The documented JSON; with `--verbose`, also how it was reached.
fn document(found: &Explanation, verbose: bool) -> serde_json::Value {
    let mut document = json!(found);
    if !verbose {
        return document;
    }
    if let (Some(root), Some(object)) =
        (&found.root, document.get_mut("root").and_then(serde_json::Value::as_object_mut))
    {
        object.insert("line".to_owned(), json!(root.line));
        object.insert("layer".to_owned(), json!(root.layer));
        object.insert("how".to_owned(), json!(root.how));
        object.insert("fix".to_owned(), json!(root.fix));
        object.insert("platform".to_owned(), json!(root.platform));
    }
    if let Some(object) = document.as_object_mut() {
        object.insert("collect".to_owned(), json!(found.collect));
    }
    document
}

fn render(found: &Explanation, verbose: bool) -> String {
    let width = width();
    let mut out = String::new();
    match &found.root {
        Some(root) => out.push_str(&root_lines(root, width)),
        None if found.empty => out.push_str("the log is empty\n"),
        None if found.unknown => out.push_str(&unknown_lines(found, width)),
        None => {
            let _ = writeln!(out, "{GOOD}nothing wrong found{GOOD:#}");
        }
    }
    if !found.also.is_empty() {
        let _ = writeln!(out, "\n{HEAD}Also seen{HEAD:#}");
        for also in &found.also {
            let line = format!("{} {} (line {}; {})", also.id, also.title, also.line, also.why);
            out.push_str(&wrap(&line, 2, width));
        }
    }
    if !found.benign.is_empty() {
        let times: usize = found.benign.iter().map(|b| b.count).sum();
        let _ = writeln!(out, "\n{DIM}ignored: {times} harmless messages{DIM:#}");
        for benign in found.benign.iter().filter(|_| verbose) {
            out.push_str(&wrap(
                &format!("{} {} ({} times)", benign.id, benign.title, benign.count),
                2,
                width,
            ));
        }
    }
    out
}

fn root_lines(root: &RootCause, width: usize) -> String {
    let style = match root.severity {
        Severity::Critical | Severity::Error => BAD,
        Severity::Warn => CARE,
        Severity::Info => DIM,
    };
    let (id, title, severity) = (&root.id, &root.title, root.severity.name());
    let plain = wrap(&format!("{severity} {id} {title}"), 0, width);
    let styled = format!("{style}{severity}{style:#} {HEAD}{id}{HEAD:#}");
    let mut out = plain.replacen(&format!("{severity} {id}"), &styled, 1);
    out.push_str(&wrap(&format!("line {}: {}", root.line, root.evidence), 2, width));
    let sure = format!("{:.0} % sure: {}", root.confidence * 100.0, root.how.join("; "));
    let _ = write!(out, "{DIM}{}{DIM:#}", wrap(&sure, 2, width));
    let _ = writeln!(out, "\n{HEAD}What to do{HEAD:#} {DIM}{}{DIM:#}", root.platform.place());
    out.push_str(&numbered(&root.steps, width));
    out
}

fn unknown_lines(found: &Explanation, width: usize) -> String {
    let mut out = format!("{CARE}something failed, and no known cause explains it{CARE:#}\n");
    for (line, evidence) in &found.failures {
        out.push_str(&wrap(&format!("line {line}: {evidence}"), 2, width));
    }
    let _ = writeln!(out, "\n{HEAD}What to collect next{HEAD:#}");
    out.push_str(&numbered(&found.collect, width));
    out
}

/// Steps, with their numbers in a column of their own.
fn numbered(steps: &[String], width: usize) -> String {
    let line =
        |(i, step): (usize, &String)| wrap(step, 5, width).replacen("     ", &format!("{:>3}. ", i + 1), 1);
    steps.iter().enumerate().map(line).collect()
}

fn hinted(error: fix::FixError) -> anyhow::Error {
    let hint = error.hint();
    Hinted::new(error.to_string(), hint).into()
}

/// Shows the fix, asks, records its undo, and applies it.
fn apply(
    root: &RootCause,
    known: &PatternDb,
    args: &Explain,
    places: &UserPaths,
    context: &Context,
) -> Result<()> {
    let environment = fix::ActiveEnv::active(&env);
    let plan = fix::plan_fix(known, &root.id, environment.as_ref()).map_err(hinted)?;
    let from_stdin = args.file.as_deref().is_none_or(|f| f == Path::new("-"));
    confirm(&format!("{}: {}", plan.id, plan.action.show()), args.yes, from_stdin)?;
    fix::push_record(&places.data_dir, &plan).map_err(hinted)?;
    fix::apply(&plan.action, &mut start).map_err(hinted)?;
    talk(context, "done; `gpuforge explain --undo` takes it back\n");
    Ok(())
}

fn undo(args: &Explain, places: &UserPaths, context: &Context) -> Result<()> {
    let record = fix::last_record(&places.data_dir).map_err(hinted)?;
    let shown: Vec<String> = record.undo.iter().map(fix::FixAction::show).collect();
    confirm(&format!("undo {} ({}): {}", record.id, record.done, shown.join("; ")), args.yes, false)?;
    for action in &record.undo {
        fix::apply(action, &mut start).map_err(hinted)?;
    }
    fix::pop_record(&places.data_dir).map_err(hinted)?;
    if context.out.json {
        return context.out.json(&json!({ "undone": record.id, "commands": shown }));
    }
    talk(context, "undone\n");
    Ok(())
}

/// Prints the command; true with `--yes` or after confirmation.
fn confirm(what: &str, yes: bool, stdin_taken: bool) -> Result<()> {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{what}");
    if yes {
        return Ok(());
    }
    if stdin_taken || !io::stdin().is_terminal() {
        return Err(Hinted::new("nobody can be asked here", "add --yes to do it").into());
    }
    let _ = write!(err, "do it? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Hinted::new("nothing was done", "answer y to do it").into()),
    }
}

/// Runs a program of the active environment with its output on stderr, so that stdout stays data.
fn start(program: &Path, args: &[String]) -> io::Result<bool> {
    Ok(Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .stdout(io::stderr())
        .status()?
        .success())
}

fn talk(context: &Context, text: &str) {
    if context.out.prints_notes() {
        // Nothing can be done when stderr is closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}
