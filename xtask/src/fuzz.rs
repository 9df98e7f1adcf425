//! Differential fuzzing: `cargo xtask fuzz-indicators` compares random selections of indicators with each row computed alone.
//!
//! Runs `gpuforge-fuzz` in the development profile (the engine is optimised there, and debug assertions are on). `--python` and
//! `--sql` let it write cases with what the command line computes, and compare the two other ways in.

use crate::{python, sh};
use anyhow::{Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Arguments of `cargo xtask fuzz-indicators`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to run on the CPU and the adapter
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// Seed of the run [default: from the clock; printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Selections on a GPU adapter, within the same time; a software adapter will do
    #[arg(long, value_name = "N", default_value_t = 2000)]
    gpu: u64,
    /// Selections that Python computes beside the command line, instead
    #[arg(long, value_name = "N")]
    python: Option<usize>,
    /// Selections that SQL computes beside the command line, instead
    #[arg(long, value_name = "N")]
    sql: Option<usize>,
    /// Threads
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Plant a fault in the JIT; the run must find it
    #[arg(long)]
    plant_fault: bool,
}

/// Runs; an error for any difference.
pub(crate) fn run(args: &Args) -> Result<()> {
    let out = sh::target().join("fuzz-indicators");
    let seed = args.seed.map(|seed| seed.to_string());
    if args.python.is_none() && args.sql.is_none() {
        let mut command = fuzzer()?;
        command.args(["--minutes", &args.minutes.to_string(), "--gpu", &args.gpu.to_string()]);
        command.arg("--out").arg(&out);
        seed.iter().for_each(|seed| {
            command.args(["--seed", seed]);
        });
        args.threads.iter().for_each(|threads| {
            command.args(["--threads", &threads.to_string()]);
        });
        if args.plant_fault {
            command.arg("--plant-fault");
        }
        return sh::run(&mut command);
    }
    if let Some(count) = args.python {
        let cases = export(count, seed.as_deref().unwrap_or("1"), &out.join("python"))?;
        differential(&[cases])?;
    }
    if let Some(count) = args.sql {
        let cases = export(count, seed.as_deref().unwrap_or("2"), &out.join("sql"))?;
        let built = sh::build(&["gpuforge-cluster"], &[], false)?;
        let program = sh::executable(&built, "gpuforge-cluster")?;
        differential(&[cases, "--sql".into(), program])?;
    }
    Ok(())
}

fn fuzzer() -> Result<Command> {
    let built = sh::build(&["gpuforge-fuzz"], &[], false)?;
    let mut command = Command::new(sh::executable(&built, "gpuforge-fuzz")?);
    command.current_dir(sh::root());
    Ok(command)
}

/// Exports cases with the results of the command line; returns their directory.
fn export(count: usize, seed: &str, directory: &Path) -> Result<PathBuf> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    std::fs::create_dir_all(directory)?;
    let built = sh::build(&["gpuforge-cli"], &[], false)?;
    let program = sh::executable(&built, "gpuforge")?;
    let mut command = fuzzer()?;
    command.args(["--seed", seed, "--export", &count.to_string()]);
    sh::run(command.arg("--out").arg(directory).arg("--gpuforge").arg(program))?;
    Ok(directory.to_owned())
}

/// Computes the same cases through Python or SQL and compares column by column.
fn differential(arguments: &[PathBuf]) -> Result<()> {
    let script = sh::root().join("crates/gpuforge-python/tests/differential.py");
    let rest = std::iter::once(&script).chain(arguments).map(|a| a.to_string_lossy().into_owned()).collect();
    match python::script(rest)? {
        Some(why) => bail!("nothing was compared: {why}"),
        None => Ok(()),
    }
}
