//! Device limits: buffers beyond the limit are split; a dispatch that misses its deadline falls back to the CPU.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use gpuforge_ops::{Custom, view::tensor, xor};
use gpuforge_route::{
    Backend, CpuBackend, DeviceBackend, PlacementPolicy, Reason, Router, RouterSettings, RunOptions,
};
use gpuforge_runtime::{
    engine::gpu::GpuOpener,
    memory::{Budget, BudgetOrigin, StackSettings},
    runner::{Runner, RunnerSettings},
    units::Bytes,
};
use gpuforge_testkit::adapter;

/// The CPU and the adapter; `None` where there is no adapter.
fn router(deadline: Duration) -> Option<(Router, Bytes)> {
    let memory = StackSettings::new(Budget { bytes: Bytes::gib(2), origin: BudgetOrigin::User });
    let settings = RunnerSettings { deadline, ..RunnerSettings::new(memory) };
    let runner = Runner::new(Box::new(GpuOpener::default()), settings);
    let largest = adapter::or_skip(runner.warm())?.largest_block;
    let device: Arc<dyn Backend> = Arc::new(DeviceBackend::new("adapter", None, Arc::new(runner)));
    let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(CpuBackend::default()), device];
    Some((Router::new(backends, vec![], RouterSettings::default()), largest))
}

const ON_DEVICE: RunOptions = RunOptions { placement: PlacementPolicy::Only(1), keep_on_device: false };

#[test]
fn a_buffer_beyond_the_device_limit_is_split() {
    let Some((router, largest)) = router(Duration::from_secs(60)) else { return };
    let n = usize::try_from(largest.0).unwrap() + 4097;
    if n > 1 << 30 {
        println!("skipped: this adapter binds {largest}, more than is reasonable here");
        return;
    }
    let data: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
    let op = xor(&tensor(&data, &[n], "data").unwrap(), &tensor(&[9u8, 7, 5], &[3], "key").unwrap());
    let ran = router.run_with(&op, ON_DEVICE).unwrap();
    assert!(ran.report().pieces > 1 && ran.report().fallback.is_none(), "{:?}", ran.report());
    let out = ran.tensor().unwrap().host().unwrap();
    assert!(out.iter().enumerate().all(|(i, b)| *b == (i % 251) as u8 ^ [9, 7, 5][i % 3]));
}

/// Hours of work in one dispatch; the CPU function returns at once.
const ENDLESS: &str = "
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var x = a[0] + id.x;
    for (var i = 0u; i < 16000u; i++) { x = x * 1664525u + 1013904223u; }
    if (x == 1u) { b[0] = x; }
}";

const CHILD: &str = "GPUFORGE_TEST_ENDLESS";

#[test]
fn a_dispatch_past_its_deadline_falls_back_to_the_cpu() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    if router(Duration::from_secs(60)).is_none() {
        return;
    }
    let name = "a_dispatch_past_its_deadline_falls_back_to_the_cpu";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (lines, said) = mpsc::channel();
    let stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
    let mut verdict = None;
    let until = Instant::now() + Duration::from_secs(60);
    while let Ok(line) = said.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if let Some(rest) = line.split("VERDICT ").nth(1) {
            verdict = Some(rest.to_owned());
            break;
        }
    }
    // The device's threads are still busy: the child is ended, whatever it does.
    child.kill().unwrap();
    child.wait().unwrap();
    let verdict = verdict.expect("an answer within a minute");
    assert_eq!(verdict, "cpu, given up");
}

fn child() {
    let Some((router, _)) = router(Duration::from_millis(300)) else { return println!("VERDICT no adapter") };
    let a = tensor(&[5u32], &[1], "a").unwrap();
    let op =
        Custom::new("endless").wgsl(ENDLESS).reads(&[&a]).writes_like_input().groups([65_535, 1, 1]).cpu_fn(
            |_, outputs, _| {
                outputs[0].copy_from_slice(&42u32.to_le_bytes());
                Ok(())
            },
        );
    let ran = router.run_with(&op, ON_DEVICE).unwrap();
    let answer = ran.to_vec::<u32>().unwrap();
    let given_up = ran.report().events.iter().any(|e| e.error.contains("did not answer"));
    let fell_back = ran.decision().reason == Reason::Fallback && answer == [42];
    println!(
        "VERDICT {}",
        if given_up && fell_back { "cpu, given up".to_owned() } else { format!("{ran:?}") }
    );
}
