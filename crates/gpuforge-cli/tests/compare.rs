//! `gpuforge compare` and `gpuforge baseline`: regressions versus noise, exit codes, stored baselines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::fs;

use common::{RunOutput, Sandbox, run};
use serde_json::{Value, json};

/// A trace of a step with two operations inside, thirty times; noise of some per cent that is the same for a seed.
fn trace(seed: u64, slow: f64) -> Value {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0.96 + 0.08 * (state >> 33) as f64 / 2_147_483_648.0
    };
    let mut spans = Vec::new();
    let mut now = 0_u64;
    for _ in 0..30 {
        let (load, multiply) = ((1e6 * noise()) as u64, (2e6 * slow * noise()) as u64);
        let mut add = |name: u32, depth: u16, start: u64, long: u64| {
            spans.push(json!({"name": name, "track": 0, "category": "cpu", "depth": depth, "start_ns": start, "duration_ns": long}));
        };
        add(0, 0, now, load + multiply);
        add(1, 1, now, load);
        add(2, 1, now + load, multiply);
        now += load + multiply + 1000;
    }
    json!({
        "version": 1, "clock": {"source": "instant", "ticks_per_second": null, "reason": "test"},
        "process": {"pid": 1, "os": "linux", "arch": "x86_64"}, "taken_ns": now, "dropped": 0,
        "names": ["step", "load", "matmul <b>\u{1b}[31m"],
        "tracks": [{"id": 1, "kind": "thread", "name": "main", "dropped": 0}],
        "spans": spans, "counters": [], "gauges": [], "recent": [], "recent_missed": 0,
    })
}

/// Files `before` and `after` with a trace each.
fn pair(sandbox: &Sandbox, slow: f64) -> [String; 2] {
    [("before.json", 1, 1.0), ("after.json", 2, slow)]
        .map(|(name, seed, slow)| write(sandbox, name, &trace(seed, slow)))
}

fn write(sandbox: &Sandbox, name: &str, value: &Value) -> String {
    let path = sandbox.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, value.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn gpuforge(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(&mut sandbox.gpuforge(args))
}

#[test]
fn runs_that_did_not_change_end_with_nothing_said() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.0);
    let ran = gpuforge(&sandbox, &["compare", &a, &b]).ok();
    assert!(ran.stdout.starts_with("no change: "), "{}", ran.stdout);
    assert!(ran.stderr.contains("one run on each side"), "{}", ran.stderr);
    assert!(gpuforge(&sandbox, &["compare", &a, &b, "--quiet"]).ok().stderr.is_empty());
}

#[test]
fn a_regression_is_named_and_has_exit_code_1() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.2);
    let ran = gpuforge(&sandbox, &["compare", &a, &b]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("regression: "), "{}", ran.stdout);
    assert!(ran.stderr.contains("slower than before: ") && ran.stderr.contains("matmul"), "{}", ran.stderr);
    // Names in a trace are escaped.
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'));
    // An improvement is no failure.
    let back = gpuforge(&sandbox, &["compare", &b, &a, "--json"]).json();
    assert_eq!(back["verdict"], "improvement");
    // Nor is a change below the threshold.
    gpuforge(&sandbox, &["compare", &a, &b, "--threshold", "50%"]).ok();
}

#[test]
fn json_and_html_page_agree() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.2);
    let page = sandbox.path("diff.html");
    let ran = gpuforge(&sandbox, &["compare", &a, &b, "--json", "-o", page.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["version"], &json["verdict"]), (&json!(2), &json!("regression")));
    let verdicts: Vec<&Value> =
        json["operations"].as_array().unwrap().iter().map(|o| &o["verdict"]).collect();
    assert_eq!(verdicts, ["regression", "regression", "no_change"]);
    let worst = json["operations"].as_array().unwrap().iter().find(|o| o["operation"] != "step").unwrap();
    let ratio = worst["ratio"].as_f64().unwrap();
    assert!((1.15..1.25).contains(&ratio), "{ratio}");
    let (low, high) = (worst["interval"][0].as_f64().unwrap(), worst["interval"][1].as_f64().unwrap());
    assert!(low < ratio && ratio < high);
    let html = fs::read_to_string(page).unwrap();
    assert!(
        html.contains("matmul &lt;b&gt;") && html.contains("id=\"flame\"") && !html.contains("<b>\u{1b}")
    );
    let nowhere = sandbox.path("none/diff.html");
    let ran = gpuforge(&sandbox, &["compare", &a, &b, "-o", nowhere.to_str().unwrap()]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn nothing_judged_has_exit_code_3() {
    let sandbox = Sandbox::new();
    let once = |name: &str, ns: u64| {
        let mut trace = trace(1, 1.0);
        trace["spans"] =
            json!([{"name": 0, "track": 0, "category": "cpu", "depth": 0, "start_ns": 0, "duration_ns": ns}]);
        write(&sandbox, name, &trace)
    };
    let (a, b) = (once("a.json", 604_000_000), once("b.json", 147_000_000));
    let page = sandbox.path("diff.html");
    let ran = gpuforge(&sandbox, &["compare", &a, &b, "-o", page.to_str().unwrap()]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("not judged: ") && ran.stdout.contains("604 ms → 147 ms"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("no change"), "{}", ran.stdout);
    assert!(ran.stderr.contains("about 5 on each side are needed"), "{}", ran.stderr);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("not judged") && html.contains("about 5 on each side"), "{html}");
    let ran = gpuforge(&sandbox, &["compare", &a, &b, "--json"]);
    assert_eq!(ran.code, Some(3));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&json["verdict"], &json["operations"][0]["verdict"]),
        (&json!("not_judged"), &json!("not_judged"))
    );
    assert!(json["reason"].as_str().unwrap().contains("too few runs"), "{json}");
    // Five such runs on a side are enough, also to see that it got faster.
    let list = |name: &str, ns: u64| -> String {
        let some: Vec<String> =
            (0..5).map(|i| once(&format!("{name}{i}.json"), ns + i * 1_000_000)).collect();
        some.join(",")
    };
    let ran =
        gpuforge(&sandbox, &["compare", &list("a", 604_000_000), &list("b", 147_000_000), "--json"]).json();
    assert_eq!(ran["verdict"], "improvement");
}

#[test]
fn unreadable_traces_have_exit_code_2() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.0);
    let text = fs::read_to_string(&a).unwrap();
    // Our format starts with its version.
    fs::write(sandbox.path("cut.json"), format!("{{\"version\":1,{}", &text[1..text.len() / 2])).unwrap();
    fs::write(sandbox.path("foreign.json"), "{\"traceEvents\":[]}").unwrap();
    for (name, says) in
        [("cut.json", "ends in the middle"), ("foreign.json", "Chrome"), ("none.json", "cannot read")]
    {
        let ran = gpuforge(&sandbox, &["compare", &a, sandbox.path(name).to_str().unwrap()]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(says) && ran.stderr.contains("hint:"), "{}", ran.stderr);
    }
    for wrong in [["--threshold", "-1"], ["--threshold", "x"], ["--alpha", "0"], ["--alpha", "0.6"]] {
        assert_eq!(gpuforge(&sandbox, &["compare", &a, &b, wrong[0], wrong[1]]).code, Some(2));
    }
    assert_eq!(gpuforge(&sandbox, &["compare", &a]).code, Some(2));
}

#[test]
fn directories_and_comma_lists_are_several_runs() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.0);
    for seed in 10..15 {
        write(&sandbox, &format!("new/{seed}.json"), &trace(seed, 1.2));
    }
    let list = format!("{a},{b}");
    let ran = gpuforge(&sandbox, &["compare", &list, sandbox.path("new").to_str().unwrap(), "--json"]);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["runs"], &json["verdict"]), (&json!([2, 5]), &json!("regression")));
    assert!(!json["notes"].to_string().contains("one run"), "{}", json["notes"]);
}

#[test]
fn a_baseline_is_saved_checked_and_listed() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.0);
    let slow = write(&sandbox, "slow.json", &trace(7, 1.3));
    assert!(gpuforge(&sandbox, &["baseline", "list"]).ok().stdout.contains("empty"));
    let absent = gpuforge(&sandbox, &["baseline", "check", "main", &a]);
    assert_eq!(absent.code, Some(2));
    assert!(absent.stderr.contains("baseline save"), "{}", absent.stderr);
    let [c, d] = [3, 4].map(|seed| write(&sandbox, &format!("{seed}.json"), &trace(seed, 1.0)));
    let saved = gpuforge(&sandbox, &["baseline", "save", "main", &a, &b, &c, &d, "--json"]).json();
    assert_eq!((&saved["runs"], &saved["operations"]), (&json!(4), &json!(3)));
    let again = write(&sandbox, "again.json", &trace(5, 1.0));
    let same = gpuforge(&sandbox, &["baseline", "check", "main", &again, "--json"]).json();
    assert_eq!((&same["verdict"], &same["a"]), (&json!("no_change"), &json!("baseline main")));
    assert_eq!(gpuforge(&sandbox, &["baseline", "check", "main", &slow]).code, Some(1));
    let listed = gpuforge(&sandbox, &["baseline", "list", "--json"]).json();
    assert_eq!(
        (&listed["baselines"][0]["name"], &listed["baselines"][0]["here"]),
        (&json!("main"), &json!(true))
    );
    let wrong = gpuforge(&sandbox, &["baseline", "check", "other", &a]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("there are: main"), "{}", wrong.stderr);
    assert_eq!(gpuforge(&sandbox, &["baseline", "save", "../x", &a]).code, Some(2));
}

#[test]
fn a_baseline_of_another_machine_needs_any_machine() {
    let sandbox = Sandbox::new();
    let [a, b] = pair(&sandbox, 1.0);
    let saved = gpuforge(&sandbox, &["baseline", "save", "main", &a, "--json"]).json();
    // As if the directory had been copied from another machine.
    let file = saved["file"].as_str().unwrap();
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    kept["machine"]["cpu"] = json!("Elsewhere 3000");
    fs::remove_file(file).unwrap();
    fs::write(sandbox.path("data/baselines/main@0123456789abcdef.json"), kept.to_string()).unwrap();
    let refused = gpuforge(&sandbox, &["baseline", "check", "main", &b]);
    assert_eq!(refused.code, Some(2));
    for part in ["another machine", "Elsewhere 3000", "--any-machine"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let taken = gpuforge(&sandbox, &["baseline", "check", "main", &b, "--any-machine"]).ok();
    assert!(
        taken.stdout.starts_with("no change") && taken.stderr.contains("Elsewhere 3000"),
        "{}",
        taken.stderr
    );
    assert!(gpuforge(&sandbox, &["baseline", "list"]).ok().stdout.contains("another machine"));
    fs::write(sandbox.path("data/baselines/bad@0.json"), "{").unwrap();
    let listed = gpuforge(&sandbox, &["baseline", "list"]).ok();
    assert!(listed.stderr.contains("bad@0.json") && listed.stdout.contains("main"), "{}", listed.stderr);
}
