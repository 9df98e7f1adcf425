//! `gpuforge compare A B`: did it get slower? Fails when it did.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Result;
use gpuforge::dash::compare::{
    Change, Comparison, Options, Side, Verdict, compare,
    load::{self, LoadError},
    page,
};
use serde::Serialize;

use super::chart;
use crate::{
    args::{Compare, Judging},
    bars::plain,
    context::Context,
    error::Hinted,
    format::{width, wrap},
    output::{BAD, CARE, DIM, GOOD, HEAD},
};

/// What ends a comparison in which nothing could be judged: neither a pass nor a regression.
const NOT_JUDGED: u8 = 3;
/// Operations without a change that are listed, unless all are asked for.
const SOME: usize = 5;

pub(crate) fn run(args: &Compare, context: &Context) -> Result<()> {
    let (a, b) = (side(std::slice::from_ref(&args.before))?, side(std::slice::from_ref(&args.after))?);
    let name = |path: &Path| plain(&path.display().to_string());
    judge((&a, &b), (&name(&args.before), &name(&args.after)), &args.judging, context)
}

/// The runs in these files and folders. Exit code 1 means a regression, so a wrong file is wrong usage.
pub(super) fn side(paths: &[PathBuf]) -> Result<Side> {
    let failed = |error: LoadError| Hinted::usage(plain(&error.to_string()), error.hint());
    Ok(load::files(paths).and_then(|files| load::side(&files)).map_err(failed)?)
}

/// The comparison, how its sides are called, and where its page is.
#[derive(Serialize)]
struct Document<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
    page: Option<&'a Path>,
}

/// Compares, shows, and fails where something got slower.
pub(super) fn judge(
    sides: (&Side, &Side),
    (a, b): (&str, &str),
    args: &Judging,
    context: &Context,
) -> Result<()> {
    let options = Options { alpha: args.alpha, threshold: args.threshold, ..Options::default() };
    let comparison = compare(sides.0, sides.1, &options);
    if let Some(path) = &args.output {
        let unwritten =
            |error| Hinted::usage(format!("{error:#}"), "make the folder first, or give -o another name");
        chart::write(path, page::html(&comparison, sides, (a, b)).as_bytes()).map_err(unwritten)?;
    }
    if context.out.json {
        context.out.json(&Document { a, b, comparison: &comparison, page: args.output.as_deref() })?;
    } else {
        context.out.text(&render(&comparison, (a, b), context.out.verbose))?;
        if let Some(path) = &args.output {
            context.out.text(&format!("{}\n", path.display()))?;
        }
        comparison.notes.iter().for_each(|note| context.out.warn("compare", &plain(note), None));
    }
    if comparison.verdict == Verdict::NotJudged {
        let hint =
            "record more runs and give a directory or a,b,c for each side; docs/comparing.md has a loop";
        let what = format!("nothing was judged: {}", comparison.reason);
        return Err(Hinted::new(what, hint).ending_with(NOT_JUDGED).into());
    }
    let slower: Vec<String> = comparison.of(Verdict::Regression).map(|c| plain(&c.operation)).collect();
    if slower.is_empty() {
        return Ok(());
    }
    let what = format!("slower than before: {}", slower.join(", "));
    Err(Hinted::new(what, "-o diff.html draws where the time went; --threshold says how much slower matters")
        .into())
}

fn render(comparison: &Comparison, (a, b): (&str, &str), all: bool) -> String {
    let style = match comparison.verdict {
        Verdict::Regression => BAD,
        Verdict::Improvement => GOOD,
        Verdict::NoChange => HEAD,
        Verdict::NotJudged => CARE,
    };
    let mut out = format!("{style}{}{style:#}: {b} against {a}\n", comparison.verdict.as_str());
    let options = &comparison.options;
    let how = format!(
        "{} and {} runs, {} operations; changes up to {:.1} % do not matter, {:.1} % chance of a false alarm at most",
        comparison.runs.0,
        comparison.runs.1,
        comparison.operations.len(),
        100.0 * options.threshold,
        100.0 * options.alpha,
    );
    out.push_str(&wrap(&comparison.reason, 0, width()));
    let _ = write!(out, "{DIM}{}{DIM:#}", wrap(&how, 0, width()));
    let mut same = 0;
    for change in &comparison.operations {
        same += usize::from(matches!(change.verdict, Verdict::NoChange | Verdict::NotJudged));
        if all || same <= SOME {
            line(change, &mut out);
        }
    }
    if !all && same > SOME {
        let _ = writeln!(
            out,
            "  {DIM}{} more without a change or not judged; --verbose lists them{DIM:#}",
            same - SOME
        );
    }
    for (what, names) in [("gone", &comparison.only_a), ("new", &comparison.only_b)] {
        if !names.is_empty() {
            out.push_str(&wrap(&format!("{what}: {}", plain(&names.join(", "))), 2, width()));
        }
    }
    out
}

/// Two lines an operation: what it is, and the figures.
fn line(change: &Change, out: &mut String) {
    let style = match change.verdict {
        Verdict::Regression => BAD,
        Verdict::Improvement => GOOD,
        Verdict::NotJudged => CARE,
        Verdict::NoChange => DIM,
    };
    let time = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), page::time);
    let _ = writeln!(
        out,
        "  {style}{:<11}{style:#} {}\n              {} → {}, 95 % {}, effect {:+.2}\n              {DIM}{}{DIM:#}",
        change.verdict.as_str(),
        plain(&change.operation),
        time(change.a.median_ns),
        time(change.b.median_ns),
        page::bounds(change.interval),
        change.effect,
        change.reason,
    );
}
