//! `gpuforge self-test`: runs the self-tests of the library and prints each with its time; fails when one fails.

use std::fmt::Write as _;

use anyhow::Result;
use gpuforge::{Forge, selftest};

use super::probe;
use crate::{
    context::{Context, env},
    error::Hinted,
    format::{width, wrap},
    output::{BAD, CARE, GOOD, HEAD},
    progress::Progress,
};

pub(crate) fn run(full: bool, context: &Context) -> Result<()> {
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    Forge::with_isolation(settings, &places, &env, probe::isolation()).check_device()?;
    let progress = Progress::start("checking", context.out.prints_notes());
    let report = selftest::run(full, settings, &places, &env, |_| {});
    drop(progress);
    if context.out.json {
        context.out.json(&report)?;
    } else {
        context.out.text(&render(&report))?;
    }
    if report.failed > 0 {
        let names: Vec<&str> = report.tests.iter().filter(|t| !t.ok).map(|t| t.name).collect();
        let what = format!("{} of {} checks failed: {}", report.failed, report.tests.len(), names.join(", "));
        let hint = "run it again with GPUFORGE_SAFE_MODE=1; `gpuforge detect --verbose` shows what was found";
        return Err(Hinted::new(what, hint).into());
    }
    Ok(())
}

fn render(report: &selftest::SelfTestReport) -> String {
    let mut out = String::new();
    for test in &report.tests {
        let (style, word) = match (test.ok, test.skipped) {
            (_, true) => (CARE, "skipped"),
            (true, false) => (GOOD, "ok"),
            (false, false) => (BAD, "FAILED"),
        };
        let _ = writeln!(out, "{style}{word:<8}{style:#}{HEAD}{:<14}{HEAD:#}{:>9.1} ms", test.name, test.ms);
        out.push_str(&wrap(&test.detail, 8, width()));
    }
    let init = &report.init;
    match (init.cold_ms, init.warm_ms) {
        (Some(cold), Some(warm)) => {
            let _ = writeln!(
                out,
                "first result {cold:.1} ms cold, {warm:.1} ms on the open device\n({} starts, slowest {:.1} ms, allowed {:.0} ms)",
                init.n,
                init.max_ms.unwrap_or(cold),
                init.target_ms
            );
        }
        _ => out.push_str("no device was started\n"),
    }
    let _ = writeln!(out, "{} passed, {} failed, {} skipped", report.passed, report.failed, report.skipped);
    out
}
