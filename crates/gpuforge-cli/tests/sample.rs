//! `gpuforge sample`: formats, seeds, errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails loudly"
)]

mod common;

use common::{RunOutput, Sandbox, run};
use serde_json::Value;

fn sample(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(&mut sandbox.gpuforge(&[&["sample"], args].concat()))
}

#[test]
fn writes_a_file_and_a_summary() {
    let sandbox = Sandbox::new();
    for ending in ["parquet", "arrow", "csv"] {
        let path = sandbox.path(&format!("bars.{ending}"));
        let file = path.to_str().unwrap();
        let json = sample(&sandbox, &["-o", file, "--symbols", "3", "--days", "2", "--json"]).json();
        assert_eq!((&json["rows"], &json["symbols"]), (&Value::from(3 * 2 * 390), &Value::from(3)));
        assert_eq!(json["path"], file);
        assert_eq!(json["bytes"], path.metadata().unwrap().len());
        assert!(json["seconds"].as_f64().unwrap() > 0.0);
    }
    let file = sandbox.path("days.csv");
    let text =
        sample(&sandbox, &["-o", file.to_str().unwrap(), "--interval", "day", "--symbols", "2"]).ok().stdout;
    assert!(text.contains("60 bars of 2 symbols") && text.contains("days.csv"), "{text}");
    let one = sample(&sandbox, &["-o", file.to_str().unwrap(), "--symbols", "1", "--bars", "1"]).ok().stdout;
    assert!(one.starts_with("1 bar of 1 symbol, "), "{one}");
    assert!(text.contains("next: gpuforge indicators") && text.contains("--select set:classic111"), "{text}");
    let quiet = sample(&sandbox, &["-q", "-o", file.to_str().unwrap()]).ok();
    assert!(!quiet.stdout.contains("next:") && quiet.stderr.is_empty());
}

#[test]
fn stdout_is_csv_and_equal_seeds_give_equal_bars() {
    let sandbox = Sandbox::new();
    let args = ["-o", "-", "--symbols", "2", "--bars", "5"];
    let first = sample(&sandbox, &args).ok();
    let lines: Vec<&str> = first.stdout.lines().collect();
    assert_eq!(lines[0], "symbol,time,open,high,low,close,volume");
    assert_eq!(lines.len(), 11);
    assert!(lines[1].starts_with("ZAAA,2024-01-02T14:30:00Z,"), "{}", lines[1]);
    assert!(first.stderr.is_empty(), "{}", first.stderr);
    assert_eq!(sample(&sandbox, &args).ok().stdout, first.stdout);
    assert_ne!(sample(&sandbox, &[&args[..], &["--seed", "2"]].concat()).ok().stdout, first.stdout);
    let days =
        sample(&sandbox, &["-o", "-", "--symbols", "1", "--interval", "day", "--days", "2"]).ok().stdout;
    assert!(days.contains("\nZAAA,2024-01-03,"), "{days}");
}

#[test]
fn splits_gaps_and_zero_volume_on_request() {
    let sandbox = Sandbox::new();
    let args = ["-o", "-", "--symbols", "4", "--days", "3"];
    let plain = sample(&sandbox, &args).ok().stdout;
    let idle = |text: &str| text.lines().filter(|l| l.ends_with(",0.0")).count();
    assert_eq!((plain.lines().count(), idle(&plain)), (1 + 4 * 3 * 390, 0));
    let odd = |flag: &str| sample(&sandbox, &[&args[..], &[flag]].concat()).ok().stdout;
    assert!(odd("--gaps").lines().count() < plain.lines().count());
    assert!(idle(&odd("--zero-volume")) >= 4);
    assert_ne!(odd("--splits"), plain);
}

#[test]
fn unwritable_outputs_are_errors_with_a_hint() {
    let sandbox = Sandbox::new();
    let no_folder = sandbox.path("no/such/bars.csv");
    let ran = sample(&sandbox, &["-o", no_folder.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no/such/bars.csv") && ran.stderr.contains("hint:"), "{}", ran.stderr);
    assert!(ran.stderr.contains("directories are not created"), "{}", ran.stderr);
    let unknown = sandbox.path("bars.xlsx");
    let ran = sample(&sandbox, &["--json", "-o", unknown.to_str().unwrap()]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(error["error"]["hint"].as_str().unwrap().contains(".parquet"), "{error}");
    assert!(ran.code == Some(1) && ran.stdout.is_empty() && !unknown.exists());
    let both = sample(&sandbox, &["-o", "-", "--json"]);
    assert!(both.code == Some(2) && both.stderr.contains("stdout"), "{}", both.stderr);
    for args in [&[][..], &["-o", "x.csv", "--symbols", "0"], &["-o", "x.csv", "--bars", "1", "--days", "1"]]
    {
        assert_eq!(sample(&sandbox, args).code, Some(2), "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_old_file_and_leaves_no_temporary() {
    let sandbox = Sandbox::new();
    let directory = sandbox.path("out");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("bars.parquet");
    std::fs::write(&file, "old").unwrap();
    let gpuforge = sandbox.gpuforge(&["sample", "-o", file.to_str().unwrap()]);
    // With the signal ignored, a file beyond the limit is an error like a full disk; 100 blocks are 50 to 100 kB.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""]).arg(gpuforge.get_program());
    limited.args(gpuforge.get_args());
    for (name, value) in gpuforge.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let ran = run(&mut limited);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot write") && ran.stderr.contains("bars.parquet"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint:") && ran.stderr.contains("nothing half-written"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_fails_and_a_broken_pipe_does_not() {
    let sandbox = Sandbox::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = sandbox.gpuforge(&["sample", "-o", "-"]).stdout(full).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("hint: free some space"), "{said}");
    // A broken pipe is no failure.
    let mut child = sandbox
        .gpuforge(&["sample", "-o", "-"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn help_fits_eighty_columns() {
    let sandbox = Sandbox::new();
    for line in run(sandbox.gpuforge(&["sample", "--help"]).env("COLUMNS", "80")).ok().stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
