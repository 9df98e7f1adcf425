//! Signals: temporary files are removed on SIGINT, SIGTERM and SIGHUP, and those of killed runs by the next run.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Sandbox, run};

/// Deadline of every step, on slow machines too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Our temporary files in a directory.
fn temporary(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".gpuforge-")).collect()
}

/// Bars enough that their indicators take a while, in a directory of their own.
fn market(sandbox: &Sandbox) {
    fs::create_dir(sandbox.path("out")).unwrap();
    let bars = sandbox.path("bars.parquet");
    let args = [
        "sample",
        "-q",
        "-o",
        bars.to_str().unwrap(),
        "--symbols",
        "4",
        "--interval",
        "minute",
        "--days",
        "200",
    ];
    let written = run(sandbox.gpuforge(&args).arg("--json")).json();
    assert!(written["rows"].as_u64() > Some(100_000), "{written}");
}

/// A run that writes into `out`, once its temporary file is there.
fn spawn_writer(sandbox: &Sandbox) -> Child {
    let (bars, out) = (sandbox.path("bars.parquet"), sandbox.path("out/all.csv"));
    let args = [
        "indicators",
        bars.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
        "--select",
        "all",
        "--device",
        "cpu",
    ];
    let mut command = sandbox.gpuforge(&args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while temporary(&sandbox.path("out")).is_empty() {
        assert!(began.elapsed() < PATIENCE, "no temporary file");
        assert!(child.try_wait().unwrap().is_none(), "it ended too early: give it more bars");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A short run that writes into the same directory.
fn sweep(sandbox: &Sandbox) {
    let out = sandbox.path("out/beside.csv");
    let args = ["sample", "-q", "-o", out.to_str().unwrap(), "--interval", "day", "--days", "10"];
    run(&mut sandbox.gpuforge(&args)).ok();
}

#[test]
fn a_signal_removes_the_temporary_file_and_exits_with_128_plus_signal() {
    let sandbox = Sandbox::new();
    market(&sandbox);
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut child = spawn_writer(&sandbox);
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!(
            fs::read_dir(sandbox.path("out")).unwrap().count(),
            0,
            "{signal}: {:?}",
            temporary(&sandbox.path("out"))
        );
    }
}

#[test]
fn temporary_files_of_killed_runs_are_removed_and_of_live_runs_kept() {
    let sandbox = Sandbox::new();
    market(&sandbox);
    let mut child = spawn_writer(&sandbox);
    let name = temporary(&sandbox.path("out"));
    assert!(
        name.len() == 1 && name.iter().all(|n| n.contains(&format!(".gpuforge-{}-", child.id()))),
        "{name:?}"
    );
    sweep(&sandbox);
    assert!(child.try_wait().unwrap().is_none(), "it must still be writing: give it more bars");
    assert_eq!(temporary(&sandbox.path("out")), name, "its writer lives");
    send("-KILL", &child);
    child.wait().unwrap();
    assert_eq!(temporary(&sandbox.path("out")), name, "nobody could remove it");
    // Files of others stay, whatever their name.
    fs::write(sandbox.path("out/.all.csv.tmp"), "of somebody else").unwrap();
    sweep(&sandbox);
    assert_eq!(temporary(&sandbox.path("out")), Vec::<String>::new());
    assert!(sandbox.path("out/.all.csv.tmp").exists() && sandbox.path("out/beside.csv").exists());
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let sandbox = Sandbox::new();
    let out = sandbox.path("kept.csv");
    // As `nohup` does it.
    let script = "trap '' HUP; \"$@\" & child=$!; kill -HUP $child; sleep 0.2; kill -HUP $child 2>/dev/null; wait $child";
    let mut shell = Command::new("sh");
    let gpuforge = sandbox.gpuforge(&[
        "sample",
        "-q",
        "--interval",
        "minute",
        "--days",
        "60",
        "-o",
        out.to_str().unwrap(),
    ]);
    shell.args(["-c", script, "sh"]).arg(gpuforge.get_program()).args(gpuforge.get_args());
    for (name, value) in gpuforge.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    assert!(shell.status().unwrap().success());
    assert!(out.exists());
}
