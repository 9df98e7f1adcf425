//! Detection latency: cached, from kernel files, and full detection beside a bare wgpu enumeration.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use gpuforge::hardware::{CacheUse, DetectOptions, cache::DetectionCache, detect, probe::isolate::Isolation};

use crate::{
    measure::{Sample, ms},
    row::Row,
};

const BENCH: &str = "detect";
const PROCESSES: usize = 41;
const CALLS: usize = 201;

pub(crate) fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let ours = sibling_executable("gpuforge")?;
    let peer = sibling_executable("bare-wgpu-enumerate")?;
    let rows = vec![
        Row::vs_limit(BENCH, "cached, in process", &in_process(dir.path(), &ours)?, 1.0),
        Row::vs_limit(BENCH, "kernel files only (tier 0), in process", &tier0()?, 50.0),
        Row::vs_limit(
            BENCH,
            "cached, whole process: gpuforge detect --json",
            &cached_process(dir.path(), &ours)?,
            5.0,
        ),
        beside_wgpu(dir.path(), &ours, &peer)?,
    ];
    Ok(rows)
}

/// An executable built into the same directory as this one.
fn sibling_executable(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    if !path.is_file() {
        bail!("{} is missing: build gpuforge-cli and gpuforge-bench in the same profile", path.display());
    }
    Ok(path)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A look-up that hits, measured around the whole call.
fn in_process(dir: &Path, exe: &Path) -> Result<Sample> {
    let store = DetectionCache::new(dir.join("in-process"), Duration::from_secs(3600));
    let mut options = DetectOptions { cache: CacheUse::On(store), ..DetectOptions::default() };
    options.tier1.isolation = Isolation::Child(exe.to_owned().into());
    let first = detect(&options, &env);
    if !first.warnings.is_empty() {
        bail!("the first detection was not stored: {:?}", first.warnings);
    }
    let once = || {
        ms(|| {
            let again = detect(&options, &env);
            if again.cache.hit { Ok(()) } else { bail!("the cache missed") }
        })
    };
    Ok(Sample::of(&(0..CALLS).map(|_| once()).collect::<Result<Vec<_>>>()?))
}

fn tier0() -> Result<Sample> {
    let options = DetectOptions { tier0_only: true, ..DetectOptions::default() };
    let once = || ms(|| Ok(detect(&options, &env)));
    Ok(Sample::of(&(0..CALLS).map(|_| once()).collect::<Result<Vec<_>>>()?))
}

fn cached_process(dir: &Path, exe: &Path) -> Result<Sample> {
    let command = || gpuforge(exe, dir, &["detect", "--json"]);
    let filled = output(command())?;
    let warm = output(command())?;
    if !warm.contains("\"hit\": true") {
        bail!("the second process missed the cache:\n{filled}\n{warm}");
    }
    let once = || ms(|| output(command()));
    Ok(Sample::of(&(0..PROCESSES).map(|_| once()).collect::<Result<Vec<_>>>()?))
}

/// Whole processes, by turns, so that whatever disturbs the machine disturbs both.
fn beside_wgpu(dir: &Path, exe: &Path, peer: &Path) -> Result<Row> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        ours.push(ms(|| output(gpuforge(exe, dir, &["detect", "--json", "--no-cache"])))?);
        theirs.push(ms(|| output(Command::new(peer)))?);
    }
    let (ours, theirs) = (Sample::of(&ours), Sample::of(&theirs));
    let case = "everything, no cache, whole process: gpuforge detect --json --no-cache";
    Ok(Row::vs_peer(BENCH, case, &ours, "bare wgpu enumeration", &theirs, Some(1.2)))
}

fn gpuforge(exe: &Path, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(exe);
    command.args(args).env("GPUFORGE_CACHE_DIR", dir).env("GPUFORGE_CONFIG", dir.join("none.toml"));
    command
}

fn output(mut command: Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
