//! Soak test: mixed work with injected faults for minutes; fails if memory, threads or handles grow.

use std::{io::Write as _, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, ensure};
use gpuforge_runtime::{
    engine::{
        EngineError, Opener as _,
        dummy::{DummyOpener, DummyScript},
        gpu::GpuOpener,
    },
    units::Bytes,
};
use gpuforge_testkit::{
    fault_injection::FaultyOpener,
    soak::{self, SoakReport, SoakSettings},
};

/// Seed of the injected faults.
const SEED: u64 = 20;

/// Runs for that long, on the dummy and on the adapter if there is one.
pub(crate) fn run(minutes: f64) -> Result<SoakReport> {
    let duration = Duration::try_from_secs_f64(minutes * 60.0).context("minutes out of range")?;
    let dummy = DummyOpener::new(Bytes::gib(1), DummyScript::default());
    let mut subjects = vec![("dummy".to_owned(), FaultyOpener::over(dummy, soak::script(SEED)))];
    match GpuOpener::default().open() {
        Ok(engine) => {
            let gpu = FaultyOpener::over_gpu(GpuOpener::default(), soak::script(SEED + 1));
            subjects.push((engine.caps().name.clone(), gpu));
        }
        Err(EngineError::Unavailable { reason }) => eprintln!("skipped: no adapter ({reason})"),
        Err(other) => return Err(other.into()),
    }
    let subjects: Vec<(&str, FaultyOpener)> =
        subjects.iter().map(|(name, opener)| (name.as_str(), opener.clone())).collect();
    Ok(soak::run(&subjects, SoakSettings { duration, every: Duration::from_secs(1), seed: SEED }))
}

/// `gpuforge-bench soak MINUTES`: prints the tables; an error if something grew or was wrong.
pub(crate) fn main(minutes: &str) -> ExitCode {
    let done = minutes.parse().context("minutes: not a number").and_then(run).and_then(|report| {
        writeln!(std::io::stdout(), "{}", report.table())?;
        let wrong = report.wrong();
        let first: Vec<&String> = wrong.iter().take(3).collect();
        ensure!(wrong.is_empty(), "{} wrong results, the first: {first:?}", wrong.len());
        ensure!(report.is_flat(), "the process grew: see the slopes above");
        Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}
