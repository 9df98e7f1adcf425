//! Check runner: one thread per check under a shared deadline; a check that hangs or panics is reported as unknown.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use super::{CHECKS, Check, CheckResult, DoctorReport, Finding, Status, SystemView};

/// Deadline of all checks together.
const LIMIT: Duration = Duration::from_millis(1800);

/// Deadline with `--deep`: importing a framework from a cold disk takes many seconds.
const DEEP_LIMIT: Duration = Duration::from_secs(75);

/// Max length of an evidence line.
const LINE: usize = 500;

/// Runs every check.
pub fn run(view: &Arc<SystemView>) -> DoctorReport {
    run_table(CHECKS, view, if view.is_deep() { DEEP_LIMIT } else { LIMIT })
}

/// Runs one check in this thread; `None` for an unknown id.
pub fn run_check(view: &SystemView, id: &str) -> Option<CheckResult> {
    let check = CHECKS.iter().find(|c| c.id == id)?;
    let began = Instant::now();
    Some(checked(check, check.judge(view), began.elapsed()))
}

fn run_table(checks: &'static [Check], view: &Arc<SystemView>, limit: Duration) -> DoctorReport {
    let began = Instant::now();
    let (send, receive) = mpsc::channel();
    for (at, check) in checks.iter().enumerate() {
        let (send, view) = (send.clone(), view.clone());
        let work = move || {
            let began = Instant::now();
            let found = check.judge(&view);
            // The receiver is dropped after the deadline.
            let _ = send.send((at, found, began.elapsed()));
        };
        // A check whose thread cannot be spawned is reported as unknown.
        let _ = std::thread::Builder::new().name(format!("check-{}", check.id)).spawn(work);
    }
    drop(send);
    let mut found: Vec<Option<(Finding, Duration)>> = checks.iter().map(|_| None).collect();
    while let Ok((at, finding, took)) = receive.recv_timeout(limit.saturating_sub(began.elapsed())) {
        if let Some(slot) = found.get_mut(at) {
            *slot = Some((finding, took));
        }
    }
    let checks: Vec<CheckResult> = checks
        .iter()
        .zip(found)
        .map(|(check, found)| {
            let (finding, took) = found.unwrap_or_else(|| {
                let took = began.elapsed();
                (Finding::new(Status::Unknown, format!("no answer within {} ms", limit.as_millis())), took)
            });
            checked(check, finding, took)
        })
        .collect();
    let worst = checks.iter().map(|c| c.status).max().unwrap_or(Status::Skipped);
    DoctorReport { checks, worst }
}

fn checked(check: &Check, finding: Finding, took: Duration) -> CheckResult {
    let evidence: Vec<String> = finding.evidence.iter().map(|e| plain(e)).collect();
    let steps: Vec<String> = finding.steps.iter().map(|s| plain(s)).collect();
    CheckResult {
        id: check.id,
        status: finding.status,
        evidence: evidence.join("; "),
        fix: (!steps.is_empty()).then(|| steps.join("; ")),
        asks: check.asks,
        ms: took.as_secs_f64() * 1e3,
        changes: finding.changes,
    }
}

/// Sanitised single line: no control characters, ANSI escapes or bidirectional control characters.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            // A CSI sequence ends with its final byte; any other escape is one character long.
            '\u{1b}' => {
                if letters.next() == Some('[') {
                    letters.by_ref().find(|c| ('@'..='~').contains(c));
                }
            }
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            space if space.is_whitespace() => out.push(' '),
            control if control.is_control() => {}
            other => out.push(other),
        }
    }
    out.chars().take(LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::ViewOs;
    use std::collections::BTreeMap;

    fn slow(_: &SystemView) -> Finding {
        std::thread::sleep(Duration::from_secs(30));
        Finding::healthy("too late")
    }

    fn quick(_: &SystemView) -> Finding {
        Finding::new(Status::Warning, "a\x1b[31m\tb").step("do").step("do")
    }

    fn bad(_: &SystemView) -> Finding {
        panic!("a check that panics")
    }

    const TABLE: &[Check] = &[
        Check { id: "slow", asks: "?", on: &[ViewOs::Linux], run: slow },
        Check { id: "quick", asks: "?", on: &[ViewOs::Linux], run: quick },
        Check { id: "bad", asks: "?", on: &[ViewOs::Linux], run: bad },
    ];

    #[test]
    fn a_check_that_hangs_or_panics_is_unknown_and_the_others_answer() {
        let view = Arc::new(SystemView::rooted_at("/", BTreeMap::new()));
        let began = Instant::now();
        let report = run_table(TABLE, &view, Duration::from_millis(200));
        assert!(began.elapsed() < Duration::from_secs(2));
        let statuses: Vec<Status> = report.checks.iter().map(|c| c.status).collect();
        assert_eq!(statuses, [Status::Unknown, Status::Warning, Status::Unknown]);
        assert_eq!(report.worst, Status::Warning);
        let quick = report.get("quick").unwrap();
        assert_eq!((quick.evidence.as_str(), quick.fix.as_deref()), ("a b", Some("do")));
    }
}
