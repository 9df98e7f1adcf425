//! What the tests of real adapters share: an open device or a line that says why there is none, and child processes.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use gpuforge_runtime::{
    engine::{
        EngineError,
        gpu::{Gpu, GpuOpener},
    },
    plan::Plan,
    session::Session,
    units::Bytes,
};
use gpuforge_testkit::conformance;

/// Ample time on a slow machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// An open device, unless this machine has no adapter.
pub(crate) fn open(options: &GpuOpener) -> Option<Arc<Gpu>> {
    match Gpu::open_with(options) {
        Ok(gpu) => Some(Arc::new(gpu)),
        Err(EngineError::Unavailable { reason }) => {
            println!("skipped: {reason}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Memory on top of it.
pub(crate) fn session(gpu: &Arc<Gpu>) -> Session {
    Session::new(gpu.clone(), conformance::settings(Bytes::gib(1)))
}

/// Sessions of both ways of moving bytes; the second moves them in place where the adapter can.
pub(crate) fn both_ways() -> Vec<(&'static str, Session)> {
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

/// Bytes that repeat nowhere nearby.
pub(crate) fn pattern(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| ((i * 31 + i / 251 + seed * 7) % 253) as u8).collect()
}

/// Runs one test of this binary in a process of its own, as a child that knows that it is one.
pub(crate) fn child(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("GPUFORGE_TEST_CHILD", test);
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Is this process the child of that test?
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var("GPUFORGE_TEST_CHILD").is_ok_and(|child| child == test)
}

/// Fails with everything the child said.
pub(crate) fn assert_ended_well(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
