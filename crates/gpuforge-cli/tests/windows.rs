//! Windows (also under Wine): drive letters and backslashes in globs, spaces and umlauts in paths, CRLF, Ctrl-Break, `monitor`.
#![cfg(windows)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod common;

use std::{
    fs,
    os::windows::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Sandbox, run};
use serde_json::Value;

/// Deadline of every step, on slow machines too.
const PATIENCE: Duration = Duration::from_secs(120);
/// `CREATE_NEW_PROCESS_GROUP`: a console event can be sent to the child alone.
const NEW_GROUP: u32 = 0x200;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A directory with a space and umlauts, and sample bars in two files.
fn market(sandbox: &Sandbox) -> PathBuf {
    let directory = sandbox.path("Börsen Daten");
    fs::create_dir(&directory).unwrap();
    for (file, seed) in [("a ä.csv", "1"), ("b.csv", "2")] {
        let out = directory.join(file);
        let args = ["sample", "-q", "-o", text(&out), "--symbols", "1", "--bars", "50", "--seed", seed];
        run(&mut sandbox.gpuforge(&args)).ok();
        // Another symbol per file: equal names and times would be duplicates.
        let bars = fs::read_to_string(&out).unwrap();
        fs::write(&out, bars.replace("ZAAA", &format!("ZAA{seed}"))).unwrap();
    }
    directory
}

fn indicators(sandbox: &Sandbox, input: &str, output: &Path) -> Value {
    let args = ["indicators", input, "-o", text(output), "--select", "sma(5)", "--device", "cpu", "--json"];
    run(&mut sandbox.gpuforge(&args)).json()
}

#[test]
fn globs_take_drive_letters_backslashes_and_slashes() {
    let sandbox = Sandbox::new();
    let directory = fs::canonicalize(market(&sandbox)).unwrap();
    // Canonical paths are verbatim (`\\?\C:\…`), where `?` is no wildcard.
    let plain = text(&directory).trim_start_matches(r"\\?\").to_owned();
    assert_eq!(plain.chars().nth(1), Some(':'), "{plain}");
    let mut outputs = Vec::new();
    for input in [plain.clone(), format!(r"{plain}\*.csv"), format!("{}/*.csv", plain.replace('\\', "/"))] {
        let out = sandbox.path("out dir ü.csv");
        let json = indicators(&sandbox, &input, &out);
        assert_eq!(json["report"]["rows"], 100, "{input}: {json}");
        outputs.push(fs::read(&out).unwrap());
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]));
    let one = indicators(&sandbox, &format!(r"{plain}\a*.csv"), &sandbox.path("one.csv"));
    assert_eq!(one["report"]["rows"], 50, "{one}");
}

#[test]
fn crlf_is_read_like_lf() {
    let sandbox = Sandbox::new();
    let directory = market(&sandbox);
    let unix = fs::read_to_string(directory.join("b.csv")).unwrap();
    assert!(!unix.contains('\r'), "our own files have LF on every system");
    let windows = directory.join("crlf.csv");
    fs::write(&windows, unix.replace('\n', "\r\n")).unwrap();
    let outs = ["lf.csv", "crlf.csv"].map(|name| sandbox.path(name));
    indicators(&sandbox, text(&directory.join("b.csv")), &outs[0]);
    indicators(&sandbox, text(&windows), &outs[1]);
    assert_eq!(fs::read(&outs[0]).unwrap(), fs::read(&outs[1]).unwrap());
}

#[test]
fn detect_knows_the_cpu_and_the_memory() {
    let sandbox = Sandbox::new();
    let json = run(&mut sandbox.gpuforge(&["detect", "--json"])).json();
    println!("{}", json["cpu"]);
    assert!(json["cpu"]["logical"].as_u64().unwrap() >= 1, "{}", json["cpu"]);
    assert!(json["cpu"]["cores"].as_u64().unwrap() >= 1, "{}", json["cpu"]);
    assert!(json["cpu"]["memory_bytes"].as_u64().unwrap() > 64 << 20, "{}", json["cpu"]);
    assert!(json["cpu"]["brand"].is_string(), "{}", json["cpu"]);
}

#[test]
fn demo_chart_explain_environment_and_settings_work_in_a_path_with_spaces_and_umlauts() {
    let sandbox = Sandbox::new();
    let directory = market(&sandbox);
    let at = |name: &str| text(&directory.join(name)).to_owned();
    run(sandbox.gpuforge(&["demo", "--out", &at("Demo ß")]).env("GPUFORGE_CPU_ONLY", "1")).ok();
    assert!(fs::read_dir(at("Demo ß")).unwrap().count() >= 2, "a table and a chart");
    run(&mut sandbox.gpuforge(&["chart", &at("b.csv"), "-o", &at("Bild.svg")])).ok();
    assert!(fs::read_to_string(at("Bild.svg")).unwrap().starts_with("<svg"));
    fs::write(at("log.txt"), "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\r\n").unwrap();
    assert!(run(&mut sandbox.gpuforge(&["explain", &at("log.txt"), "--json"])).json()["root"].is_object());
    let create = ["env", "create", "--for", "T4", "--format", "pip", "-o", &at("Umgebung")];
    run(&mut sandbox.gpuforge(&create)).ok();
    assert!(directory.join("Umgebung").join("requirements.txt").is_file());
    let settings = directory.join("Einstellungen ä.toml");
    let set = |args: &[&str]| run(sandbox.gpuforge(args).env("GPUFORGE_CONFIG", &settings)).ok().stdout;
    set(&["config", "set", "device", "cpu"]);
    assert_eq!(set(&["config", "get", "device"]).trim(), "cpu");
}

/// Files in a directory.
fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// A run that writes into `out`, once its temporary file is there.
fn spawn_writer(sandbox: &Sandbox) -> Child {
    let (bars, out) = (sandbox.path("bars.parquet"), sandbox.path("out").join("all.csv"));
    let sample =
        ["sample", "-q", "-o", text(&bars), "--symbols", "4", "--interval", "minute", "--days", "200"];
    if !bars.exists() {
        fs::create_dir(sandbox.path("out")).unwrap();
        run(&mut sandbox.gpuforge(&sample)).ok();
    }
    let args = ["indicators", text(&bars), "-o", text(&out), "--select", "all", "--device", "cpu"];
    let mut command = sandbox.gpuforge(&args);
    command.creation_flags(NEW_GROUP).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while names(&sandbox.path("out")).is_empty() {
        assert!(began.elapsed() < PATIENCE, "no temporary file");
        assert!(child.try_wait().unwrap().is_none(), "it ended too early: give it more bars");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_cancelled_run_leaves_no_file() {
    let sandbox = Sandbox::new();
    // Killed: nobody could remove it, and the next run does.
    let mut child = spawn_writer(&sandbox);
    child.kill().unwrap();
    child.wait().unwrap();
    let beside = sandbox.path("out").join("beside.csv");
    run(&mut sandbox.gpuforge(&["sample", "-q", "-o", text(&beside), "--interval", "day", "--days", "10"]))
        .ok();
    assert_eq!(names(&sandbox.path("out")), ["beside.csv"]);
    fs::remove_file(beside).unwrap();
    // Ctrl-Break: it removes the file itself.
    let mut child = spawn_writer(&sandbox);
    if !gpuforge::os::interrupt::send_break(child.id()) {
        child.kill().unwrap();
        child.wait().unwrap();
        return println!("skipped: there is no console to send Ctrl-Break through (Wine without a display)");
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&sandbox.path("out")), [""; 0]);
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_demo_is_monitored_and_leaves_no_socket() {
    let sandbox = Sandbox::new();
    let runtime = sandbox.path("Laufzeit ü");
    fs::create_dir(&runtime).unwrap();
    let gpuforge = |args: &[&str]| -> Command {
        let mut command = sandbox.gpuforge(args);
        command.env("XDG_RUNTIME_DIR", &runtime).env("GPUFORGE_CPU_ONLY", "1");
        command
    };
    let out = sandbox.path("demo");
    let mut command = gpuforge(&["demo", "--out", text(&out)]);
    command.env("GPUFORGE_MONITOR", "1").stdout(Stdio::null()).stderr(Stdio::null());
    let mut demo = Running(command.spawn().unwrap());
    let began = Instant::now();
    let seen = loop {
        let json = run(&mut gpuforge(&["monitor", "--once", "--json"])).json();
        if json["state"] == "live" || began.elapsed() > PATIENCE {
            break json;
        }
    };
    assert_eq!((&seen["state"], &seen["snapshot"]["pid"]), (&"live".into(), &demo.0.id().into()), "{seen}");
    let memory = &seen["snapshot"]["memory"][0];
    assert_eq!(memory["name"], "this process");
    assert!(memory["used"].as_u64().unwrap() > 1 << 20, "{memory}");
    assert!(seen["snapshot"]["cpu_ms"].is_u64(), "{seen}");
    assert!(demo.0.wait().unwrap().success());
    assert_eq!(names(&runtime.join("gpuforge")), [""; 0], "its socket is gone");
}
