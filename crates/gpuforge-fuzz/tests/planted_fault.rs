//! Mutation test: a planted JIT fault is detected by self-verification, found and shrunk by the fuzzer. A single test, because the
//! fault affects the whole process.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail, and says what it skipped")]

use std::time::Duration;

use gpuforge::indicators::{
    catalogue::Convention,
    exec::{ExecOptions, jit_fallbacks, plant_jit_fault},
};
use gpuforge_fuzz::{
    campaign::{self, CampaignConfig, CampaignReport},
    cpu::{self, Case},
    oracle::Oracle,
    schedule::Schedule,
    selection::Selection,
};

fn run(seed: u64, seconds: u64, selections: u64) -> CampaignReport {
    let directory = tempfile::tempdir().unwrap();
    let plan = CampaignConfig {
        seed,
        time: Duration::from_secs(seconds),
        selections: Some(selections),
        threads: 2,
        device_selections: 0,
        directory: directory.path().to_owned(),
    };
    campaign::run(&plan, &|_, _| {})
}

#[test]
fn planted_jit_fault_is_detected_shrunk_and_never_reaches_a_result() {
    plant_jit_fault(true);
    if !has_jit() {
        println!("skipped: no JIT on this machine");
        return;
    }
    // Self-verification detects it and falls back to the kernels.
    let mut rng = gpuforge_fuzz::random::Rng::new(9);
    let data = gpuforge_fuzz::bars::Dataset::random_of(&mut rng, 9000, gpuforge_fuzz::bars::Shape::Walk);
    let selection = Selection {
        definitions: Vec::new(),
        terms: vec!["sma(9)".into(), "adx".into()],
        convention: Convention::TaLib,
    };
    for schedule in
        [Schedule::Batch(ExecOptions::with_threads(1)), Schedule::Stream(ExecOptions::with_threads(1), 5)]
    {
        let before = jit_fallbacks().count;
        let case = Case { selection: selection.clone(), data: data.clone(), schedule };
        let checked = case.check(&mut Oracle::default());
        assert!(checked.is_ok(), "{schedule:?}: {}", checked.unwrap_err());
        assert!(jit_fallbacks().count > before, "{schedule:?}: it was not detected");
    }
    // Without self-verification the fuzzer finds it.
    let outcome = run(3, 60, 4000);
    plant_jit_fault(false);
    assert!(
        outcome.smallest.is_some_and(|terms| terms <= 3),
        "{:?}\n{}",
        outcome.smallest,
        outcome.failures.join("\n")
    );
}

fn has_jit() -> bool {
    let mut rng = gpuforge_fuzz::random::Rng::new(1);
    let data = gpuforge_fuzz::bars::Dataset::random_of(&mut rng, 9000, gpuforge_fuzz::bars::Shape::Walk);
    let selection =
        Selection { definitions: Vec::new(), terms: vec!["sma(9)".into()], convention: Convention::TaLib };
    let case = |jit| Schedule::Batch(ExecOptions { jit, verify_jit: false, ..ExecOptions::with_threads(1) });
    let planned = gpuforge::indicators::select::plan(&selection.wanted().unwrap());
    let bits = |schedule| -> Vec<u64> {
        cpu::results(&planned, &data, schedule).iter().flatten().flatten().map(|x| x.to_bits()).collect()
    };
    bits(case(true)) != bits(case(false))
}
