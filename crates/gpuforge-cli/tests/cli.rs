//! Command line conventions: help width, colour, --quiet, settings, exit codes, completions, man pages, demo.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

mod common;

use std::{io::Write as _, process::Stdio};

use common::{Sandbox, run};
use serde_json::Value;

fn from_stdin(sandbox: &Sandbox, args: &[&str], text: &str) -> common::RunOutput {
    let mut child = sandbox
        .gpuforge(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    common::RunOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn help_fits_eighty_columns() {
    let sandbox = Sandbox::new();
    for args in [
        &["--help"][..],
        &["detect", "--help"],
        &["config", "--help"],
        &["cache", "--help"],
        &["completions", "--help"],
    ] {
        let ran = run(sandbox.gpuforge(args).env("COLUMNS", "80")).ok();
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
}

#[test]
fn results_fit_a_narrow_terminal_and_pipes_have_no_colour() {
    let sandbox = Sandbox::new();
    let out = sandbox.path("demo");
    let out = out.to_str().unwrap();
    for args in [&[][..], &["demo", "--out", out], &["detect"]] {
        let ran = run(sandbox.gpuforge(args).env("COLUMNS", "60")).ok();
        assert!(!ran.stdout.contains('\u{1b}'), "{args:?}");
        // Commands to copy are not wrapped.
        for line in ran.stdout.lines().filter(|l| !l.starts_with("  gpuforge") && !l.contains(out)) {
            assert!(line.chars().count() <= 60, "{args:?}: {line:?}");
        }
    }
    let coloured = run(&mut sandbox.gpuforge(&["--color", "always", "detect"])).ok();
    assert!(coloured.stdout.contains('\u{1b}'));
}

#[test]
fn demo_prints_choice_and_reason_and_writes_files() {
    let sandbox = Sandbox::new();
    let text = run(sandbox.gpuforge(&["demo"]).current_dir(sandbox.path(""))).ok().stdout;
    for part in [
        "gpuforge would use",
        "because: ",
        "threads: ",
        "bars to 111 indicators",
        "30 symbols, 30 days of minutes",
        "351000 bars",
        "set:classic111",
        "gpuforge-demo/features.parquet",
        "gpuforge indicators gpuforge-demo/bars.parquet",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    for step in ["sample", "read", "compute", "write", "chart", "total"] {
        let line = text.lines().find(|line| line.trim_start().starts_with(step));
        assert!(line.is_some_and(|line| line.contains(" s")), "{step} has no time in\n{text}");
    }
    assert!(sandbox.path("gpuforge-demo/chart.html").exists(), "without --out, in the current directory");
}

#[test]
fn demo_json_has_files_and_times() {
    let sandbox = Sandbox::new();
    let out = sandbox.path("made/here");
    let json = run(&mut sandbox.gpuforge(&["demo", "--json", "--out", out.to_str().unwrap()])).json();
    for field in ["device", "name", "reason", "threads"] {
        assert!(!json["choice"][field].is_null(), "{field}");
    }
    let demo = &json["demo"];
    let (report, seconds) = (&demo["report"], &demo["seconds"]);
    for (field, value) in [("rows", 30 * 30 * 390), ("symbols", 30), ("columns", 111), ("skipped", 0)] {
        assert_eq!(report[field], value, "{field}");
    }
    let time = |of: &Value, name: &str| of[name].as_f64().unwrap_or_else(|| panic!("{name} of {of}"));
    let parts = time(seconds, "sample") + time(seconds, "chart") + time(&report["seconds"], "total");
    assert!(parts > 0.0 && parts <= time(seconds, "total"), "{demo}");
    assert_eq!(report["findings"], serde_json::json!([]), "every column of the set says something");
    for (field, name, magic) in [
        ("bars", "bars.parquet", "PAR1"),
        ("features", "features.parquet", "PAR1"),
        ("chart", "chart.html", "<!doctype html>"),
    ] {
        let path = out.join(name);
        assert_eq!(demo[field], path.to_str().unwrap());
        let bytes = std::fs::read(&path).unwrap();
        let begins = String::from_utf8_lossy(&bytes[..magic.len()]).to_lowercase();
        assert_eq!(begins, magic.to_lowercase(), "{name}");
    }
    assert_eq!(report["bytes"], out.join("features.parquet").metadata().unwrap().len());
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3, "nothing temporary is left");
    let file = sandbox.path("file");
    std::fs::write(&file, "").unwrap();
    let refused = run(&mut sandbox.gpuforge(&["demo", "--out", file.to_str().unwrap()]));
    assert!(
        refused.code == Some(1) && refused.stderr.contains("cannot create the directory"),
        "{}",
        refused.stderr
    );
}

#[test]
fn detect_parses_pasted_text_from_stdin_and_rejects_unknown_text() {
    let sandbox = Sandbox::new();
    let text = "01:00.0 VGA compatible controller: NVIDIA Corporation GA104 [GeForce RTX 3070] (rev a1)\n\
                GPU 0: NVIDIA GeForce RTX 3070 (UUID: GPU-12345678-1234-1234-1234-123456789abc)\n";
    let inventory = from_stdin(&sandbox, &["detect", "--json", "--from", "-"], text).json();
    assert_eq!(inventory["gpus"].as_array().unwrap().len(), 1, "two mentions of one card: {inventory}");
    assert_eq!(inventory["gpus"][0]["name"], "NVIDIA GeForce RTX 3070");
    assert_eq!(inventory["kinds"], serde_json::json!(["nvidia-smi-L", "lspci"]));
    let refused = from_stdin(&sandbox, &["detect", "--from", "-"], "hello sandbox\n");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("error:") && refused.stderr.contains("hint:"), "{}", refused.stderr);
    let json = from_stdin(&sandbox, &["detect", "--json", "--from", "-"], "hello sandbox\n");
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert!(error["error"]["hint"].is_string() && json.stdout.is_empty());
    let missing = run(&mut sandbox.gpuforge(&["detect", "--from", "/nonexistent/file"]));
    assert!(missing.code == Some(1) && missing.stderr.contains("/nonexistent/file"), "{}", missing.stderr);
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let sandbox = Sandbox::new();
    for args in [&["frobnicate"][..], &["detect", "--refresh", "--no-cache"], &["detect", "--from"]] {
        assert_eq!(run(&mut sandbox.gpuforge(args)).code, Some(2), "{args:?}");
    }
    let ran = run(&mut sandbox.gpuforge(&["detect", "--probe-timeout", "soon"]));
    assert!(ran.code == Some(1) && ran.stderr.contains("--probe-timeout"), "{}", ran.stderr);
}

#[test]
fn settings_are_stored_with_comments_and_listed_with_origin() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("config.toml");
    std::fs::write(&file, "# mine\nversion = 1\ncache_ttl = \"2h\" # two\n").unwrap();
    run(&mut sandbox.gpuforge(&["config", "set", "fallback", "error"])).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# mine") && text.contains("# two") && text.contains("fallback"), "{text}");
    assert_eq!(run(&mut sandbox.gpuforge(&["config", "get", "cache_ttl"])).ok().stdout, "2h\n");
    let got =
        run(sandbox.gpuforge(&["config", "get", "cache_ttl", "--json"]).env("GPUFORGE_CACHE_TTL", "30s"))
            .json();
    assert_eq!((&got["value"], &got["origin"]), (&Value::from(30), &Value::from("GPUFORGE_CACHE_TTL")));
    run(&mut sandbox.gpuforge(&["config", "unset", "fallback"])).ok();
    let list = run(&mut sandbox.gpuforge(&["config", "list", "--json"])).json();
    let row = list.as_array().unwrap().iter().find(|r| r["name"] == "fallback").unwrap();
    assert_eq!((&row["value"], &row["origin"]), (&Value::from("cpu"), &Value::from("default")));
    let path = run(&mut sandbox.gpuforge(&["config", "path"])).ok().stdout;
    assert_eq!(path.trim(), file.to_str().unwrap());
}

#[test]
fn an_unknown_setting_is_rejected_with_the_nearest_name() {
    let sandbox = Sandbox::new();
    let ran = run(&mut sandbox.gpuforge(&["config", "set", "cache_tll", "1h"]));
    assert!(ran.code == Some(1) && ran.stderr.contains("cache_ttl"), "{}", ran.stderr);
    let ran = run(&mut sandbox.gpuforge(&["config", "set", "cache_ttl", "soon"]));
    assert_eq!(ran.code, Some(1));
    assert!(!sandbox.path("config.toml").exists(), "nothing was written");
}

#[test]
fn an_invalid_device_setting_is_rejected_without_touching_hardware() {
    let sandbox = Sandbox::new();
    for wrong in ["gpu0x", "gpu:", "-1", "???"] {
        let ran = run(&mut sandbox.gpuforge(&["config", "set", "--", "device", wrong]));
        assert_eq!(ran.code, Some(1), "{wrong}: {}", ran.stderr);
        assert!(ran.stderr.contains("a bus id") && ran.stderr.contains("part of a name"), "{}", ran.stderr);
        assert!(!sandbox.path("config.toml").exists(), "nothing was written");
    }
    for fine in ["auto", "CPU", "gpu", "0", "gpu:1", "01:00.0", "nvidia", "rtx 4090"] {
        run(&mut sandbox.gpuforge(&["config", "set", "device", fine])).ok();
    }
    assert_eq!(run(&mut sandbox.gpuforge(&["config", "get", "device"])).ok().stdout, "rtx 4090\n");
    // A file edited by hand: the list shows the value with a warning.
    std::fs::write(sandbox.path("config.toml"), "device = \"gpu0x\"\n").unwrap();
    let ran = run(&mut sandbox.gpuforge(&["config", "list"])).ok();
    assert!(
        ran.stdout.contains("gpu0x") && ran.stderr.contains("config.toml:1:10: device must be auto, cpu"),
        "{}",
        ran.stderr
    );
    let ran = run(&mut sandbox.gpuforge(&["cache", "info"]));
    assert!(!ran.stderr.contains("gpu0x"), "who chooses no device is not bothered: {}", ran.stderr);
}

#[test]
fn an_unknown_device_is_an_error_in_commands_that_choose_one() {
    let sandbox = Sandbox::new();
    let bars = sandbox.path("bars.csv");
    run(&mut sandbox.gpuforge(&["sample", "-o", bars.to_str().unwrap(), "--bars", "300"])).ok();
    let (bars, out) = (bars.to_str().unwrap(), sandbox.path("out.csv"));
    let out = out.to_str().unwrap();
    let indicators = ["indicators", bars, "-o", out, "--select", "rsi"];
    let commands: [Vec<&str>; 7] = [
        indicators.to_vec(),
        [&indicators[..], &["--device", "gpu"]].concat(),
        vec!["route", "xor", "64"],
        vec!["calibrate"],
        vec!["self-test"],
        vec!["detect"],
        vec!["lattice", "analyse", "--size", "4,4", "--blocked", "0.2", "--lattices", "2"],
    ];
    for args in &commands {
        for wrong in ["nonsense", "gpu0x"] {
            let ran = run(sandbox.gpuforge(args).env("GPUFORGE_DEVICE", wrong));
            assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
            let said = ran.stderr.matches(&format!("GPUFORGE_DEVICE: {wrong:?}")).count();
            assert_eq!(said, 1, "{args:?}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("cpu") && ran.stderr.contains("hint: use auto, cpu, gpu"),
                "{}",
                ran.stderr
            );
            assert!(!std::path::Path::new(out).exists());
        }
    }
    std::fs::write(sandbox.path("config.toml"), "device = \"nonsense\"\n").unwrap();
    let ran = run(&mut sandbox.gpuforge(&indicators));
    assert!(ran.code == Some(2) && ran.stderr.contains("setting device: \"nonsense\""), "{}", ran.stderr);
    // The CPU needs no device.
    run(&mut sandbox.gpuforge(&[&indicators[..], &["--device", "cpu"]].concat())).ok();
    run(sandbox.gpuforge(&indicators).env("GPUFORGE_CPU_ONLY", "1")).ok();
}

#[test]
fn a_corrupt_settings_file_is_a_warning_for_detection() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("config.toml"), "cache_ttl = [[[\n").unwrap();
    let ran = run(&mut sandbox.gpuforge(&["detect", "--json"])).ok();
    assert!(ran.stderr.contains("warning:") && serde_json::from_str::<Value>(&ran.stdout).is_ok());
    assert_eq!(std::fs::read_to_string(sandbox.path("config.toml")).unwrap(), "cache_ttl = [[[\n");
}

#[test]
fn config_edit_opens_a_template_and_validates_the_result() {
    let sandbox = Sandbox::new();
    let ran = run(sandbox.gpuforge(&["config", "edit"]).env("VISUAL", "true")).ok();
    assert!(ran.stdout.contains("valid"));
    let text = std::fs::read_to_string(sandbox.path("config.toml")).unwrap();
    assert!(text.contains("cache_ttl"), "{text}");
    let ran = run(sandbox.gpuforge(&["config", "edit"]).env_remove("VISUAL").env_remove("EDITOR"));
    assert!(ran.code == Some(1) && ran.stderr.contains("VISUAL"), "{}", ran.stderr);
}

#[test]
fn cache_show_and_clear() {
    let sandbox = Sandbox::new();
    run(&mut sandbox.gpuforge(&["detect"])).ok();
    let shown = run(&mut sandbox.gpuforge(&["cache", "show", "--json"])).json();
    assert_eq!(shown["entries"][0]["current"], true);
    assert!(run(&mut sandbox.gpuforge(&["cache", "show"])).ok().stdout.contains("in use"));
    let pipelines = std::path::Path::new(shown["dir"].as_str().unwrap()).join("pipelines");
    std::fs::create_dir_all(&pipelines).unwrap();
    std::fs::write(pipelines.join("pipelines-1.bin"), [0; 100]).unwrap();
    let shown = run(&mut sandbox.gpuforge(&["cache", "show", "--json"])).json();
    assert_eq!(shown["pipelines"], serde_json::json!({ "files": 1, "bytes": 100 }));
    assert_eq!(run(&mut sandbox.gpuforge(&["cache", "clear", "--json"])).json()["removed"], 2);
    assert!(run(&mut sandbox.gpuforge(&["cache", "show"])).ok().stdout.contains("empty"));
}

#[test]
fn completions_and_man_pages_cover_the_command_table() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&mut sandbox.gpuforge(&["completions", shell])).ok().stdout;
        assert!(script.contains("detect") && script.contains("gpuforge"), "{shell}");
        assert!(!script.contains("__probe"), "{shell}");
    }
    let dir = sandbox.path("man");
    run(&mut sandbox.gpuforge(&["__man", dir.to_str().unwrap()])).ok();
    let page = std::fs::read_to_string(dir.join("gpuforge-detect.1")).unwrap();
    assert!(page.contains("refresh"), "{page}");
}

#[test]
fn a_broken_pipe_is_no_error() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .gpuforge(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn quiet_prints_results_only() {
    let sandbox = Sandbox::new();
    let odd = ("GPUFORGE_CACHE_TTL", "soon");
    let ran = run(sandbox.gpuforge(&["--quiet", "detect"]).env(odd.0, odd.1)).ok();
    assert_eq!(ran.stderr, "");
    std::fs::write(sandbox.path("config.toml"), "verbosity = \"quiet\"\ncolor = \"always\"\n").unwrap();
    let ran = run(sandbox.gpuforge(&["detect"]).env(odd.0, odd.1)).ok();
    assert!(ran.stderr.is_empty() && ran.stdout.contains('\u{1b}'), "settings say the same: {}", ran.stderr);
    let ran = run(sandbox.gpuforge(&["--verbose", "detect"]).env(odd.0, odd.1)).ok();
    assert!(ran.stderr.contains("soon"), "a flag wins over a setting: {}", ran.stderr);
}
