//! `gpuforge profile run` and `gpuforge report`: traces, formats, errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{RunOutput, Sandbox, run};
use serde_json::{Value, json};

/// A command in the sandbox directory, so that paths are short.
fn gpuforge(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(sandbox.gpuforge(args).current_dir(sandbox.path("")))
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).unwrap()
}

/// A recorded run: a small file of bars to indicators.
fn recorded() -> Sandbox {
    let sandbox = Sandbox::new();
    gpuforge(
        &sandbox,
        &["sample", "-q", "-o", "bars.csv", "--symbols", "2", "--interval", "day", "--days", "60"],
    )
    .ok();
    let command = [
        "profile",
        "run",
        "-o",
        "t.json",
        "--",
        "indicators",
        "bars.csv",
        "-o",
        "out.csv",
        "--select",
        "rsi(14)",
    ];
    let ran = gpuforge(&sandbox, &command).ok();
    for part in ["where the time went", "wall time", "compute indicators", "no device was used", "t.json"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(sandbox.path("out.csv").exists(), "the command did its work");
    sandbox
}

#[test]
fn a_recorded_run_in_every_format() {
    let sandbox = recorded();
    let ran = gpuforge(&sandbox, &["report", "t.json", "--top", "2"]).ok();
    assert!(ran.stdout.contains("longest") && !ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let report = gpuforge(&sandbox, &["report", "t.json", "--json"]).json();
    let names: Vec<&str> =
        report["rows"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    for name in ["gpuforge indicators", "open bars", "compute indicators", "write columns"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!((&report["version"], &report["dropped"]), (&json!(1), &json!(0)));
    for (file, begins, has) in [
        ("r.html", "<!doctype html>", "compute indicators"),
        ("r.svg", "<svg", "compute indicators"),
        ("r.folded", "gpuforge indicators", ";compute indicators "),
        ("r.csv", "name,category", "\"compute indicators\",cpu"),
        ("r.json", "{", "\"breakdown\""),
        ("r.perfetto.json", "{", "traceEvents"),
    ] {
        let ran = gpuforge(&sandbox, &["report", "t.json", "-o", file]).ok();
        assert!(ran.stdout.starts_with(file), "{}", ran.stdout);
        let written = text(&sandbox, file);
        assert!(
            written.starts_with(begins) && written.contains(has),
            "{file}: {}",
            &written[..200.min(written.len())]
        );
    }
    let said = gpuforge(&sandbox, &["report", "t.json", "-o", "r.html", "--json"]).json();
    assert_eq!((&said["output"], &said["bytes"]), (&json!("r.html"), &json!(text(&sandbox, "r.html").len())));
    for (format, begins) in
        [("folded", "gpuforge indicators"), ("csv", "name,"), ("svg", "<svg"), ("chrome", "{"), ("json", "{")]
    {
        let ran = gpuforge(&sandbox, &["report", "t.json", "--format", format]).ok();
        assert!(ran.stdout.starts_with(begins), "{format}: {}", ran.stdout);
    }
    let chosen = gpuforge(&sandbox, &["report", "t.json", "-o", "r.txt", "--format", "folded"]).ok();
    assert!(chosen.stdout.starts_with("r.txt"));
}

#[test]
fn profile_run_keeps_stdout_clean_and_writes_the_page() {
    let sandbox = Sandbox::new();
    let ran = gpuforge(
        &sandbox,
        &["--json", "profile", "run", "-o", "t.json", "--report", "t.html", "--", "config", "list"],
    );
    let listed: Value = ran.json();
    assert!(listed.is_array() || listed.is_object(), "one document, the command's own");
    assert!(text(&sandbox, "t.html").starts_with("<!doctype html>"));
    let quiet = gpuforge(&sandbox, &["profile", "run", "-q", "-o", "t.json", "--", "config", "path"]).ok();
    assert_eq!(quiet.stdout.lines().count(), 1, "{}", quiet.stdout);
}

#[test]
fn hostile_names_are_escaped() {
    let sandbox = recorded();
    let name = "\\u001b[31m</script><img src=x onerror=alert(1)>";
    let hostile = text(&sandbox, "t.json").replace("compute indicators", name);
    std::fs::write(sandbox.path("h.json"), hostile).unwrap();
    gpuforge(&sandbox, &["report", "h.json", "-o", "h.html"]).ok();
    let html = text(&sandbox, "h.html");
    assert!(!html.contains("<img") && html.contains("&lt;img src=x"), "escaped");
    let ran = gpuforge(&sandbox, &["report", "h.json", "--color", "always"]).ok();
    assert!(ran.stdout.contains("\\u{1b}[31m") && !ran.stdout.contains("\u{1b}[31m"), "{:?}", ran.stdout);
}

#[test]
fn invalid_traces_and_usage_are_errors_with_a_hint() {
    let sandbox = recorded();
    let whole = text(&sandbox, "t.json");
    std::fs::write(sandbox.path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(sandbox.path("other.json"), "{\"traceEvents\":[]}").unwrap();
    std::fs::write(sandbox.path("noise.json"), [0xff, 0xfe, 0x00]).unwrap();
    for (args, code, part) in [
        (&["report", "cut.json"][..], 1, "cut.json: the trace ends in the middle"),
        (&["report", "other.json"], 1, "Chrome or Perfetto"),
        (&["report", "noise.json"], 1, "it is not text"),
        (&["report", "bars.csv"], 1, "not a trace"),
        (&["report", "none.json"], 1, "cannot read none.json"),
        (&["report", "t.json", "-o", "r.pdf"], 2, "unknown format"),
        (&["report", "t.json", "--format", "gif"], 2, "folded"),
        (&["report", "t.json", "-o", "no/r.html"], 1, "there is no directory no"),
        (&["report"], 2, "TRACE"),
        (&["profile", "run"], 2, "COMMAND"),
        (&["profile", "run", "-o", "no/t.json", "--", "detect"], 1, "there is no directory no"),
        (&["profile", "run", "-o", "t.trace.json", "--", "detect"], 2, "trace viewers"),
        (&["profile", "run", "--", "profile", "run", "--", "detect"], 2, "a profile of a profile"),
        (&["profile", "run", "--", "no-such-program-anywhere"], 2, "cannot start no-such-program"),
        (&["profile", "run", "--", "demo", "--nonsense"], 2, "--nonsense"),
    ] {
        let ran = gpuforge(&sandbox, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(part) && ran.stdout.is_empty(), "{args:?}: {}{}", ran.stderr, ran.stdout);
        assert!(code == 2 || ran.stderr.contains("hint:"), "{args:?}: {}", ran.stderr);
    }
    let ran = gpuforge(&sandbox, &["report", "cut.json", "--json"]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(error["error"]["hint"].is_string() && ran.stdout.is_empty(), "{error}");
}

#[test]
fn a_failed_command_still_writes_its_trace() {
    let sandbox = Sandbox::new();
    let ran = gpuforge(
        &sandbox,
        &["profile", "run", "-o", "t.json", "--", "indicators", "none.csv", "-o", "x.csv", "--select", "rsi"],
    );
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("none.csv") && ran.stdout.contains("where the time went"),
        "{}{}",
        ran.stderr,
        ran.stdout
    );
    gpuforge(&sandbox, &["report", "t.json"]).ok();
}

#[cfg(unix)]
#[test]
fn programs_are_recorded_through_the_environment() {
    let sandbox = Sandbox::new();
    let own = env!("CARGO_BIN_EXE_gpuforge");
    gpuforge(&sandbox, &["profile", "run", "-o", "t.json", "--", own, "config", "path"]).ok();
    gpuforge(&sandbox, &["report", "t.json"]).ok();
    // A program that writes no trace; an older trace is not taken for its own.
    let ran = gpuforge(&sandbox, &["profile", "run", "-o", "t.json", "--", "/bin/sh", "-c", "true"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("left no trace"), "{}", ran.stderr);
    let ran = gpuforge(&sandbox, &["profile", "run", "-o", "u.json", "--", "/bin/sh", "-c", "exit 3"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("exit status: 3"), "{}", ran.stderr);
}

#[test]
fn runtime_faults_memory_and_evictions_are_in_the_report() {
    let sandbox = Sandbox::new();
    // The quick self-test injects faults into a dummy device, so that this holds on every machine.
    gpuforge(&sandbox, &["profile", "run", "-q", "-o", "t.json", "--", "self-test"]).ok();
    let report = gpuforge(&sandbox, &["report", "t.json", "--json"]).json();
    let what = report["recovered"].to_string();
    assert!(
        what.contains("out of memory: evicted idle buffers and retried") && what.contains("device lost:"),
        "{what}"
    );
    assert!(report["suggestions"].as_array().unwrap().iter().any(|s| s["rule"] == "recovered"));
    assert!(report["memory"][0]["peak_bytes"].as_f64() > Some(0.0), "{}", report["memory"]);
    assert!(report["memory"][0]["budget_bytes"].as_f64() > Some(0.0), "{}", report["memory"]);
    assert!(report["clean_ups"][0]["freed_bytes"].is_u64(), "{}", report["clean_ups"]);
}
