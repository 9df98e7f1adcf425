//! Shared helpers of adapter tests: open a device or skip, sessions, child processes.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use gpuforge_runtime::{
    engine::gpu::{GpuEngine, GpuOpener},
    plan::Plan,
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::{adapter, conformance};

/// Generous deadline for a slow machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// An open device, unless this machine has no adapter.
pub(crate) fn open(options: &GpuOpener) -> Option<Arc<GpuEngine>> {
    adapter::open_or_skip(options).map(Arc::new)
}

/// A session over it.
pub(crate) fn session(gpu: &Arc<GpuEngine>) -> Session {
    Session::new(gpu.clone(), conformance::settings(Bytes::gib(1)))
}

/// Sessions with both transfer paths: staged, and in place where the adapter has unified memory.
pub(crate) fn both_transfer_paths() -> Vec<(&'static str, Session)> {
    let staged = GpuOpener { staged: true, ..GpuOpener::default() };
    let Some(gpu) = open(&staged) else { return Vec::new() };
    let mut all = vec![("staged", session(&gpu))];
    all.extend(open(&GpuOpener::default()).map(|gpu| ("in place", session(&gpu))));
    all
}

/// Runs a plan whose outputs are known.
pub(crate) fn check(session: &Session, plan: Plan, expected: &[Vec<u8>], what: &str) {
    let done = session.run(&Arc::new(plan), DEADLINE).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(done.outputs.len(), expected.len(), "{what}");
    for (i, (got, want)) in done.outputs.iter().zip(expected).enumerate() {
        let differs = got.iter().zip(want).position(|(g, w)| g != w);
        assert!(
            got == want,
            "{what}: output {i}, {} of {} bytes, differs at {differs:?}",
            got.len(),
            want.len()
        );
    }
}

/// A byte pattern without short repeats.
pub(crate) fn pattern(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| ((i * 31 + i / 251 + seed * 7) % 253) as u8).collect()
}

/// Runs one test of this binary in a child process.
pub(crate) fn child(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("GPUFORGE_TEST_CHILD", test);
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Is this process the child of that test?
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var("GPUFORGE_TEST_CHILD").is_ok_and(|child| child == test)
}

/// Fails with the output of the child.
pub(crate) fn assert_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
