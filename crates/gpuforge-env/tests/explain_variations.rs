//! Log diagnosis across wrappers: consoles, notebooks, schedulers, journals, other systems and wordings.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use gpuforge_env::explain::{Explanation, HostEvidence, PatternDb, explain};

/// `== what | the roots that would be right | crlf`, then the log; `␛` is an escape.
const LOGS: &str = include_str!("explain_variations.txt");

/// Number and text of a line to what is passed on.
type Wrap = fn(usize, &str) -> String;

/// Each line as another program would pass it on.
const WRAPPERS: &[(&str, Wrap)] = &[
    ("as it is", |_, line| format!("{line}\n")),
    ("journald", |i, line| format!("Apr 02 10:{:02}:07 box1 app[4211]: {line}\n", i % 60)),
    ("docker with times", |i, line| format!("2026-04-02T10:00:{:02}.120031884Z {line}\n", i % 60)),
    ("a rank", |_, line| format!("[rank0]: {line}\n")),
    ("compose", |_, line| format!("trainer-1   | {line}\n")),
    ("colours and CRLF", |_, line| format!("\x1b[2m|\x1b[0m \x1b[31m{line}\x1b[0m\r\n")),
    ("kubernetes", |i, line| format!("2026-04-02T10:00:{:02}.1Z stderr F {line}\n", i % 60)),
];

fn read(known: &PatternDb, log: &str) -> Explanation {
    explain(log.as_bytes(), known, &HostEvidence::default()).unwrap()
}

fn root(found: &Explanation) -> &str {
    found.root.as_ref().map_or(if found.unknown { "unknown" } else { "none" }, |root| &root.id)
}

fn logs() -> impl Iterator<Item = (&'static str, Vec<&'static str>, String)> {
    let sections =
        LOGS.split("\n== ").map(|s| s.trim_start_matches("== ")).filter_map(|s| s.split_once('\n'));
    sections.map(|(head, log)| {
        let parts: Vec<&str> = head.split('|').map(str::trim).collect();
        let ends = if parts[2] == "crlf" { "\r\n" } else { "\n" };
        (parts[0], parts[1].split(' ').collect(), log.replace('␛', "\x1b").replace('\n', ends))
    })
}

#[test]
fn variations_have_the_expected_cause() {
    let known = PatternDb::embedded();
    let mut wrong = Vec::new();
    for (what, right, log) in logs() {
        let found = read(&known, &log);
        if !right.contains(&root(&found)) {
            let also: Vec<&str> = found.also.iter().map(|a| a.id.as_str()).collect();
            wrong.push(format!("{what}: {} {also:?} {:?}, not {right:?}", root(&found), found.failures));
        }
    }
    assert!(logs().count() >= 45, "{}", logs().count());
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn log_prefixes_do_not_change_the_cause() {
    let known = PatternDb::embedded();
    let mut wrong = Vec::new();
    for (what, right, log) in logs() {
        for (wrapper, wrap) in WRAPPERS {
            let wrapped: String = log.lines().enumerate().map(|(i, line)| wrap(i, line)).collect();
            let found = read(&known, &wrapped);
            if !right.contains(&root(&found)) {
                wrong.push(format!("{what}, {wrapper}: {}, not {right:?}", root(&found)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}
