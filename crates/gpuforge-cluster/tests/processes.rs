//! Scheduler, executors and client as processes on loopback: same bits; an executor that dies.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod common;

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use common::{Bars, SELECT, expected, read, rows, uneven};
use gpuforge_testkit::adapter;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_gpuforge-cluster");
/// Deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A child process, killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scheduler and its executors.
struct Cluster {
    home: tempfile::TempDir,
    scheduler: Running,
    address: String,
    executors: Vec<Running>,
}

impl Cluster {
    fn new(executors: usize) -> Cluster {
        let home = tempfile::tempdir().unwrap();
        let (scheduler, address) = scheduler(home.path(), 0);
        let mut cluster = Cluster { home, scheduler, address, executors: Vec::new() };
        (0..executors).for_each(|_| cluster.join());
        cluster.wait_for(executors);
        cluster
    }

    fn work_dir(&self, at: usize) -> PathBuf {
        self.home.path().join(format!("work-{at}"))
    }

    fn join(&mut self) {
        let dir = self.work_dir(self.executors.len());
        let child = command(self.home.path())
            .args([
                "executor",
                "--slots",
                "1",
                "--heartbeat",
                "1",
                "--scheduler",
                &self.address,
                "--work-dir",
            ])
            .arg(dir)
            .stdout(Stdio::null())
            .spawn();
        self.executors.push(Running(child.unwrap()));
    }

    fn run(&self, args: &[&str]) -> Output {
        command(self.home.path()).args(args).args(["--scheduler", &self.address]).output().unwrap()
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_slice(&self.run(&["status", "--json"]).stdout).ok()
    }

    fn wait_for(&self, executors: usize) {
        until("executors have registered", || {
            self.status().is_some_and(|s| s["executors"].as_array().is_some_and(|e| e.len() == executors))
        });
    }

    /// A client in the background.
    fn submit(&self, bars: &Path, select: &str, out: &Path) -> Child {
        command(self.home.path())
            .args(["submit", bars.to_str().unwrap(), "--select", select, "-o", out.to_str().unwrap()])
            .args(["--partitions", "4", "--scheduler", &self.address])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits until a job runs.
    fn wait_for_work(&self) {
        until("a job runs", || {
            let jobs = self.status().map(|s| s["jobs"].clone());
            jobs.as_ref()
                .and_then(Value::as_array)
                .is_some_and(|all| all.iter().any(|job| job.to_string().to_lowercase().contains("running")))
        });
    }
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.stdin(Stdio::null()).env("GPUFORGE_CONFIG", home.join("config.toml"));
    command.env("GPUFORGE_CACHE_DIR", home.join("cache")).env("GPUFORGE_DATA_DIR", home.join("data"));
    command.env_remove("GPUFORGE_SCHEDULER").env_remove("GPUFORGE_MEMORY_LIMIT");
    command
}

/// A scheduler on this port, and where it listens.
fn scheduler(home: &Path, port: u16) -> (Running, String) {
    let mut child = command(home)
        .args(["scheduler", "--executor-timeout", "4", "--port", &port.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("scheduler on ").expect(&line).to_owned();
    (Running(child), address)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIMEOUT, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn two_executors_are_bit_identical_to_one_machine() {
    let bars = Bars::new(&uneven());
    let directory = bars.with_empty_file();
    let (wanted, columns) = expected(&bars.path, SELECT);
    let cluster = Cluster::new(2);
    for partitions in ["1", "7", "64"] {
        let out = bars.dir.path().join("out.parquet");
        let input = if partitions == "7" { directory.as_str() } else { bars.text() };
        let select = ["submit", input, "--select", SELECT, "-o", out.to_str().unwrap()];
        let ran = cluster.run(&[&select[..], &["--partitions", partitions]].concat());
        assert!(ran.status.success(), "{}", said(&ran));
        assert!(rows(&read(&out), &columns) == wanted, "{partitions} partitions differ");
    }
    // SQL, window functions and datasets are distributed too.
    let sql =
        format!("SELECT count(*) AS n, count(rsi_14) AS r FROM indicators('{}', 'rsi(14)')", bars.text());
    let ran = cluster.run(&["sql", &sql, "--json"]);
    let counted: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", said(&ran)));
    assert_eq!(counted[0]["n"], wanted.len());
    let window = "SELECT count(s) AS n FROM (SELECT sma(close, 5) OVER (PARTITION BY symbol ORDER BY ts) AS s FROM bars)";
    let table = format!("bars={}", bars.text());
    let ran = cluster.run(&["sql", "--table", &table, window, "--json"]);
    let counted: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", said(&ran)));
    let some: usize = uneven().iter().map(|(_, bars)| bars.saturating_sub(4)).sum();
    assert_eq!(counted[0]["n"], some);
    let dataset = bars.dir.path().join("dataset");
    let ran = cluster.run(&[
        "features",
        bars.text(),
        "--select",
        SELECT,
        "-o",
        dataset.to_str().unwrap(),
        "--partitions",
        "3",
    ]);
    assert!(ran.status.success(), "{}", said(&ran));
    let files: Vec<PathBuf> = std::fs::read_dir(&dataset).unwrap().map(|e| e.unwrap().path()).collect();
    let batches: Vec<_> = files.iter().flat_map(|f| read(f)).collect();
    assert!(files.len() == 3 && rows(&batches, &columns) == wanted);
}

#[test]
fn embedded_cluster_runs_in_one_process() {
    let bars = Bars::new(&uneven());
    let directory = bars.with_empty_file();
    let (wanted, columns) = expected(&bars.path, SELECT);
    let out = bars.dir.path().join("out.parquet");
    for (input, partitions) in [(bars.text(), "1"), (directory.as_str(), "7"), (bars.text(), "64")] {
        let ran = command(bars.dir.path())
            .args(["submit", input, "--select", SELECT, "-o", out.to_str().unwrap(), "--json"])
            .args(["--partitions", partitions])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", said(&ran));
        let metrics: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(metrics["rows"], wanted.len());
        assert!(rows(&read(&out), &columns) == wanted, "{partitions} partitions differ");
    }
}

/// With a GPU, results match the CPU within tolerance, and metrics report the device.
#[test]
fn gpu_results_match_and_metrics_report_the_device() {
    let bars = Bars::new(&uneven());
    let select = "sma(20), rsi(14)";
    let (wanted, columns) = expected(&bars.path, select);
    let out = bars.dir.path().join("out.parquet");
    let job = ["submit", bars.text(), "--select", select, "--device", "gpu", "-o", out.to_str().unwrap()];
    let ran = command(bars.dir.path()).args(job).output().unwrap();
    if !ran.status.success() {
        assert!(said(&ran).contains("device"), "{}", said(&ran));
    }
    if adapter::or_skip(if ran.status.success() { Ok(()) } else { Err(said(&ran)) }).is_none() {
        return;
    }
    let found = rows(&read(&out), &columns);
    assert_eq!(found.len(), wanted.len());
    for (key, cells) in &wanted {
        for (there, here) in found[key].iter().zip(cells) {
            let near = match (there.map(f64::from_bits), here.map(f64::from_bits)) {
                (Some(there), Some(here)) => (there - here).abs() <= 1e-3 * here.abs().max(1.0),
                (there, here) => there.is_none() && here.is_none(),
            };
            assert!(near, "{key:?}: {there:?} {here:?}");
        }
    }
    let sql = format!("EXPLAIN ANALYZE SELECT * FROM indicators('{}', '{select}')", bars.text());
    let ran = command(bars.dir.path()).args(["sql", "SET gpuforge.device = 'gpu'", &sql]).output().unwrap();
    let metrics = said(&ran);
    assert!(metrics.contains("groups_on_device=") && !metrics.contains("groups_on_device=0"), "{metrics}");
}

/// Enough work for something to happen meanwhile.
fn large_input() -> Vec<(String, usize)> {
    (0..30).map(|i| (format!("S{i:02}"), 4000)).collect()
}

const LARGE_SELECT: &str = "group:momentum, group:overlap, group:volatility";

#[test]
fn killed_executor_never_gives_a_wrong_result() {
    let bars = Bars::new(&large_input());
    let (wanted, columns) = expected(&bars.path, LARGE_SELECT);
    let mut cluster = Cluster::new(2);
    let out = bars.dir.path().join("out.parquet");
    let mut client = cluster.submit(&bars.path, LARGE_SELECT, &out);
    // The first stage has written shuffle data that the next one needs.
    until("the executor has begun", || files(&cluster.work_dir(0)) > 0);
    drop(cluster.executors.remove(0));
    assert!(client.try_wait().unwrap().is_none(), "the query was over before the executor was");
    let ran = client.wait_with_output().unwrap();
    if !ran.status.success() {
        // A failure is allowed if it is reported, leaves no output, and a retry succeeds.
        assert!(said(&ran).contains("error: ") && !out.exists(), "{}", said(&ran));
        cluster.wait_for(1);
        let again = cluster.submit(&bars.path, LARGE_SELECT, &out).wait_with_output().unwrap();
        assert!(again.status.success(), "{}", said(&again));
    }
    assert!(rows(&read(&out), &columns) == wanted);
}

#[test]
fn late_executor_and_restarted_scheduler_work() {
    let bars = Bars::new(&uneven());
    let (wanted, columns) = expected(&bars.path, SELECT);
    let out = bars.dir.path().join("out.parquet");
    let mut cluster = Cluster::new(0);
    let client = cluster.submit(&bars.path, SELECT, &out);
    std::thread::sleep(Duration::from_secs(1));
    cluster.join();
    let ran = client.wait_with_output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(rows(&read(&out), &columns) == wanted);
    // The scheduler restarts on its port: executors reconnect.
    let port: u16 = cluster.address.rsplit(':').next().unwrap().parse().unwrap();
    let _ = cluster.scheduler.0.kill();
    let _ = cluster.scheduler.0.wait();
    let gone = cluster.run(&["status"]);
    assert!(!gone.status.success() && said(&gone).contains("no scheduler answers"), "{}", said(&gone));
    cluster.scheduler = scheduler(cluster.home.path(), port).0;
    cluster.wait_for(1);
    std::fs::remove_file(&out).unwrap();
    let ran = cluster.submit(&bars.path, SELECT, &out).wait_with_output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(rows(&read(&out), &columns) == wanted);
}

#[test]
fn corrupt_file_is_named() {
    let bars = Bars::new(&uneven());
    let directory = bars.dir.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(&bars.path, directory.join("good.parquet")).unwrap();
    let mut bytes = std::fs::read(&bars.path).unwrap();
    bytes[4..4000].fill(0xAA);
    std::fs::write(directory.join("damaged.parquet"), bytes).unwrap();
    let cluster = Cluster::new(1);
    let out = bars.dir.path().join("out.parquet");
    let ran = cluster.submit(&directory, SELECT, &out).wait_with_output().unwrap();
    assert!(
        !ran.status.success() && said(&ran).contains("damaged.parquet") && !out.exists(),
        "{}",
        said(&ran)
    );
    assert!(!said(&ran).contains("good.parquet"), "{}", said(&ran));
}

/// Ctrl-C in the client cancels the job, and executors remove its shuffle data.
#[test]
fn cancelled_query_is_cleaned_up() {
    let bars = Bars::new(&large_input());
    let cluster = Cluster::new(1);
    let out = bars.dir.path().join("out.parquet");
    let interrupted = (0..5).find_map(|_| {
        let client = cluster.submit(&bars.path, LARGE_SELECT, &out);
        cluster.wait_for_work();
        let killed = Command::new("kill").args(["-INT", &client.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let ran = client.wait_with_output().unwrap();
        let faster = ran.status.success() && std::fs::remove_file(&out).is_ok();
        (!faster).then_some(ran)
    });
    let ran = interrupted.expect("five queries were faster than their interruption");
    assert!(said(&ran).contains("interrupted") && !out.exists(), "{}", said(&ran));
    until("the job is no longer running", || {
        let jobs = cluster.status().map(|s| s["jobs"].to_string().to_lowercase());
        jobs.is_some_and(|jobs| !jobs.contains("running"))
    });
    until("executors have removed its data", || files(&cluster.work_dir(0)) == 0);
    // And the cluster still works.
    let ran = cluster.submit(&bars.path, "sma(5)", &out).wait_with_output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
}

fn files(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.filter_map(Result::ok).map(|e| if e.path().is_dir() { files(&e.path()) } else { 1 }).sum()
}

#[test]
fn usage_errors_carry_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| command(home.path()).args(args).output().unwrap();
    for (args, part) in [
        (&["status", "--scheduler", "127.0.0.1:1"][..], "no scheduler answers at 127.0.0.1:1"),
        (&["submit", "none.parquet", "--select", "rsi(14)", "-o", "x.parquet"], "none.parquet"),
        (&["sql", "SELECT 1", "--memory-limit", "much"], "much"),
        (&["sql", "SELECT 1", "--table", "bars"], "names no table"),
        (&["sql", "SELECT * FROM indicators('bars', 'rsj(14)')"], "no table `bars`"),
    ] {
        let ran = run(args);
        assert!(!ran.status.success() && said(&ran).contains(part), "{args:?}: {}", said(&ran));
    }
}
