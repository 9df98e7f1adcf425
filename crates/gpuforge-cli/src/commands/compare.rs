//! `gpuforge compare A B`: regression test of two sets of traces; exit code 1 for a regression.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Result;
use gpuforge::dash::compare::{
    ChangeVerdict, CompareOptions, Comparison, OperationChange, RunSet, compare, html,
    load::{self, LoadError},
};
use serde::Serialize;

use crate::{
    args::profiling::{Compare, CompareArgs},
    atomic_file,
    context::Context,
    error::Hinted,
    format::{escape_control, plural, width, wrap},
    output::{BAD, CARE, DIM, GOOD, HEAD},
};

/// Exit code when nothing could be judged: neither a pass nor a regression.
const NOT_JUDGED: u8 = 3;
/// Operations without a change that are listed without --verbose.
const UNCHANGED_LISTED: usize = 5;

pub(crate) fn run(args: &Compare, context: &Context) -> Result<()> {
    let (a, b) = (side(std::slice::from_ref(&args.before))?, side(std::slice::from_ref(&args.after))?);
    let name = |path: &Path| escape_control(&path.display().to_string());
    judge((&a, &b), (&name(&args.before), &name(&args.after)), &args.options, context)
}

/// The runs in these files and directories. Exit code 1 means a regression, so an unreadable file is wrong usage (2).
pub(super) fn side(paths: &[PathBuf]) -> Result<RunSet> {
    let failed = |error: LoadError| Hinted::usage(escape_control(&error.to_string()), error.hint());
    Ok(load::files(paths).and_then(|files| load::side(&files)).map_err(failed)?)
}

/// JSON document: the comparison, the names of its sides, the path of its page.
#[derive(Serialize)]
struct Document<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
    page: Option<&'a Path>,
}

/// Compares, prints, and fails for a regression.
pub(super) fn judge(
    sides: (&RunSet, &RunSet),
    (a, b): (&str, &str),
    args: &CompareArgs,
    context: &Context,
) -> Result<()> {
    let options =
        CompareOptions { alpha: args.alpha, threshold: args.threshold, ..CompareOptions::default() };
    let comparison = compare(sides.0, sides.1, &options);
    if let Some(path) = &args.output {
        let unwritten =
            |error| Hinted::usage(format!("{error:#}"), "make the directory first, or give -o another name");
        atomic_file::write(path, html::render(&comparison, sides, (a, b)).as_bytes()).map_err(unwritten)?;
    }
    if context.out.json {
        context.out.json(&Document { a, b, comparison: &comparison, page: args.output.as_deref() })?;
    } else {
        context.out.text(&render(&comparison, (a, b), context.out.verbose))?;
        if let Some(path) = &args.output {
            context.out.text(&format!("{}\n", path.display()))?;
        }
        comparison.notes.iter().for_each(|note| context.out.warn("compare", &escape_control(note), None));
    }
    if comparison.verdict == ChangeVerdict::NotJudged {
        let hint =
            "record more runs and give a directory or a,b,c for each side; docs/comparing.md has a loop";
        let what = format!("nothing was judged: {}", comparison.reason);
        return Err(Hinted::new(what, hint).with_code(NOT_JUDGED).into());
    }
    let slower: Vec<String> =
        comparison.of(ChangeVerdict::Regression).map(|c| escape_control(&c.operation)).collect();
    if slower.is_empty() {
        return Ok(());
    }
    let what = format!("slower than before: {}", slower.join(", "));
    Err(Hinted::new(what, "-o diff.html draws where the time went; --threshold says how much slower matters")
        .into())
}

fn render(comparison: &Comparison, (a, b): (&str, &str), all: bool) -> String {
    let style = match comparison.verdict {
        ChangeVerdict::Regression => BAD,
        ChangeVerdict::Improvement => GOOD,
        ChangeVerdict::NoChange => HEAD,
        ChangeVerdict::NotJudged => CARE,
    };
    let mut out = format!("{style}{}{style:#}: {b} against {a}\n", comparison.verdict.as_str());
    let options = &comparison.options;
    let how = format!(
        "{} and {} runs, {}; changes up to {:.1} % do not matter, {:.1} % chance of a false alarm at most",
        comparison.runs.0,
        comparison.runs.1,
        plural(comparison.operations.len() as u64, "operation"),
        100.0 * options.threshold,
        100.0 * options.alpha,
    );
    out.push_str(&wrap(&comparison.reason, 0, width()));
    let _ = write!(out, "{DIM}{}{DIM:#}", wrap(&how, 0, width()));
    let mut same = 0;
    for change in &comparison.operations {
        same += usize::from(matches!(change.verdict, ChangeVerdict::NoChange | ChangeVerdict::NotJudged));
        if all || same <= UNCHANGED_LISTED {
            line(change, &mut out);
        }
    }
    if !all && same > UNCHANGED_LISTED {
        let _ = writeln!(
            out,
            "  {DIM}{} more without a change or not judged; --verbose lists them{DIM:#}",
            same - UNCHANGED_LISTED
        );
    }
    for (what, names) in [("gone", &comparison.only_a), ("new", &comparison.only_b)] {
        if !names.is_empty() {
            out.push_str(&wrap(&format!("{what}: {}", escape_control(&names.join(", "))), 2, width()));
        }
    }
    out
}

/// Lines of one operation: verdict and name, then medians, confidence interval and effect size.
fn line(change: &OperationChange, out: &mut String) {
    let style = match change.verdict {
        ChangeVerdict::Regression => BAD,
        ChangeVerdict::Improvement => GOOD,
        ChangeVerdict::NotJudged => CARE,
        ChangeVerdict::NoChange => DIM,
    };
    let time = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), html::time);
    let _ = writeln!(
        out,
        "  {style}{:<11}{style:#} {}\n              {} → {}, 95 % {}, effect {:+.2}\n              {DIM}{}{DIM:#}",
        change.verdict.as_str(),
        escape_control(&change.operation),
        time(change.a.median_ns),
        time(change.b.median_ns),
        html::bounds(change.interval),
        change.effect,
        change.reason,
    );
}
