//! Do temporary files of outputs go when a run is interrupted, and those of a killed one with the next run?
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

use common::{World, run};

/// Nothing here takes longer, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Temporary files of ours in a directory.
fn temporary(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".gpuforge-")).collect()
}

/// Bars enough that their indicators take a while, in a directory of their own.
fn market(world: &World) {
    fs::create_dir(world.path("out")).unwrap();
    let bars = world.path("bars.parquet");
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
    let written = run(world.gpuforge(&args).arg("--json")).json();
    assert!(written["rows"].as_u64() > Some(100_000), "{written}");
}

/// A run that writes into `out`, once its temporary file is there.
fn writing(world: &World) -> Child {
    let (bars, out) = (world.path("bars.parquet"), world.path("out/all.csv"));
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
    let mut command = world.gpuforge(&args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while temporary(&world.path("out")).is_empty() {
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

/// A short run that writes beside.
fn sweep(world: &World) {
    let out = world.path("out/beside.csv");
    let args = ["sample", "-q", "-o", out.to_str().unwrap(), "--interval", "day", "--days", "10"];
    run(&mut world.gpuforge(&args)).ok();
}

#[test]
fn a_signal_removes_the_temporary_file_and_ends_with_its_number() {
    let world = World::new();
    market(&world);
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut child = writing(&world);
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!(
            fs::read_dir(world.path("out")).unwrap().count(),
            0,
            "{signal}: {:?}",
            temporary(&world.path("out"))
        );
    }
}

#[test]
fn a_killed_writer_s_file_goes_with_the_next_run_and_a_living_one_s_stays() {
    let world = World::new();
    market(&world);
    let mut child = writing(&world);
    let name = temporary(&world.path("out"));
    assert!(
        name.len() == 1 && name.iter().all(|n| n.contains(&format!(".gpuforge-{}-", child.id()))),
        "{name:?}"
    );
    sweep(&world);
    assert!(child.try_wait().unwrap().is_none(), "it must still be writing: give it more bars");
    assert_eq!(temporary(&world.path("out")), name, "its writer lives");
    send("-KILL", &child);
    child.wait().unwrap();
    assert_eq!(temporary(&world.path("out")), name, "nobody could remove it");
    // What is not ours stays, however it is called.
    fs::write(world.path("out/.all.csv.tmp"), "of somebody else").unwrap();
    sweep(&world);
    assert_eq!(temporary(&world.path("out")), Vec::<String>::new());
    assert!(world.path("out/.all.csv.tmp").exists() && world.path("out/beside.csv").exists());
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let world = World::new();
    let out = world.path("kept.csv");
    // As `nohup` does it.
    let script = "trap '' HUP; \"$@\" & child=$!; kill -HUP $child; sleep 0.2; kill -HUP $child 2>/dev/null; wait $child";
    let mut shell = Command::new("sh");
    let gpuforge = world.gpuforge(&[
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
