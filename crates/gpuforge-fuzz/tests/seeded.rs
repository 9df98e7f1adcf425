//! Short deterministic fuzzing run: some hundred random cases from fixed seeds.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{sync::atomic::Ordering, time::Duration};

use gpuforge::indicators::{catalogue::Convention, exec::ExecOptions};
use gpuforge_fuzz::{
    campaign::{self, CampaignConfig, CampaignReport},
    cpu::Case,
    oracle::Oracle,
    schedule::Schedule,
    selection::Selection,
};
use gpuforge_testkit::adapter;

fn run(seed: u64, seconds: u64, selections: u64, device_selections: u64) -> CampaignReport {
    let directory = tempfile::tempdir().unwrap();
    let plan = CampaignConfig {
        seed,
        time: Duration::from_secs(seconds),
        selections: Some(selections),
        threads: 2,
        device_selections,
        directory: directory.path().to_owned(),
    };
    campaign::run(&plan, &|_, _| {})
}

#[test]
fn random_selections_match_the_oracle() {
    let outcome = run(20_261_118, 120, 700, 0);
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n"));
    assert!(outcome.counts.cpu.load(Ordering::Relaxed) >= 100, "{:?}", outcome.counts);
}

#[test]
fn random_selections_on_a_gpu_are_within_tolerance() {
    let outcome = run(7, 60, 1, 24);
    if adapter::or_skip(outcome.no_adapter.as_ref().map_or(Ok(()), Err)).is_none() {
        return;
    }
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n"));
    // A driver without a shader cache takes a second for each.
    assert!(outcome.counts.device.load(Ordering::Relaxed) >= 12, "{:?}", outcome.counts);
    assert!(outcome.counts.device_columns.load(Ordering::Relaxed) > 0, "{:?}", outcome.counts);
}

/// Regression corpus: selections in which a hoisted load outlived a store to its buffer.
#[test]
fn regression_load_hoisted_over_a_store() {
    let terms =
        ["adx, wavetrend", "adx, qqe", "adxr, wavetrend", "adxr, qqe", "kvo, adx, wavetrend", "dx, adx, qqe"];
    let mut rng = gpuforge_fuzz::random::Rng::new(5);
    let data = gpuforge_fuzz::bars::Dataset::random_of(&mut rng, 3000, gpuforge_fuzz::bars::Shape::Walk);
    for text in terms {
        let terms = text.split(", ").map(str::to_owned).collect();
        let selection = Selection { definitions: Vec::new(), terms, convention: Convention::TaLib };
        for batched in [None, Some(false), Some(true)] {
            let how = ExecOptions { batched, verify_jit: false, ..ExecOptions::with_threads(1) };
            let case =
                Case { selection: selection.clone(), data: data.clone(), schedule: Schedule::Batch(how) };
            let checked = case.check(&mut Oracle::default());
            assert!(checked.is_ok(), "{text}: {}", checked.unwrap_err());
        }
    }
}
