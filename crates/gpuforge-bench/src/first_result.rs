//! Time to first result of a small kernel: a whole process, beside a minimal wgpu program.
//!
//! Every process starts with an empty driver shader cache; peers are interleaved, so that a disturbance hits all of them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    measure::{Sample, ms},
    row::Row,
};

const BENCH: &str = "first-result";
const ROUNDS: usize = 41;
/// Jobs on one open device in each process; the first is the cold one.
const JOBS: usize = 11;

pub(crate) fn run() -> Result<Vec<Row>> {
    let (ours, peer) = (sibling_executable("first-result")?, sibling_executable("bare-wgpu-first-result")?);
    let pipelines = tempfile::tempdir()?;
    let kept = pipelines.path().join("pipelines").display().to_string();
    let jobs = JOBS.to_string();
    let (plain, with_cache, reusing) = ([""; 0], ["--pipeline-cache", &kept], ["--jobs", &jobs]);
    // Fills the pipeline cache, and warms the files that every peer reads.
    let want = once(&peer, &plain)?.0;
    once(&ours, &with_cache)?;
    let (mut cold, mut bare, mut cached, mut reused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (exe, args, times) in [
            (&ours, plain.as_slice(), &mut cold),
            (&peer, plain.as_slice(), &mut bare),
            (&ours, with_cache.as_slice(), &mut cached),
        ] {
            let (output, took) = once(exe, args)?;
            ensure!(output == want, "{} printed {output:?} instead of {want:?}", exe.display());
            times.push(took);
        }
        for line in once(&ours, &reusing)?.0.lines().skip(1) {
            reused.push(line.parse().with_context(|| format!("not a number: {line:?}"))?);
        }
    }
    let [cold, bare, cached, reused] = [cold, bare, cached, reused].map(|times| Sample::of(&times));
    let without = "the same without it";
    Ok(vec![
        Row::vs_peer(BENCH, "cold process, one kernel", &cold, "bare wgpu program", &bare, Some(1.1)),
        Row::vs_peer(BENCH, "next job on the open device", &reused, "cold process", &cold, Some(1.0)),
        Row::vs_peer(BENCH, "cold process with our pipeline cache on disk", &cached, without, &cold, None),
    ])
}

/// An executable built into the same directory as this one.
fn sibling_executable(name: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.is_file(), "{} is missing: build gpuforge-bench with all its binaries", path.display());
    Ok(path)
}

/// Output and wall time of one process with an empty driver shader cache.
fn once(exe: &Path, args: &[&str]) -> Result<(String, f64)> {
    let empty = tempfile::tempdir()?;
    let mut command = Command::new(exe);
    command.args(args).stdin(Stdio::null());
    for place in ["MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH", "XDG_CACHE_HOME"] {
        command.env(place, empty.path());
    }
    command.env_remove("MESA_SHADER_CACHE_DISABLE");
    let mut output = None;
    let took = ms(|| {
        output = Some(command.output().with_context(|| format!("cannot run {}", exe.display()))?);
        Ok(())
    })?;
    match output {
        Some(output) if output.status.success() => {
            Ok((String::from_utf8_lossy(&output.stdout).into_owned(), took))
        }
        Some(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{} ended with {}: {stderr}", exe.display(), output.status)
        }
        None => bail!("{} did not run", exe.display()),
    }
}
