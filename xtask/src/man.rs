//! Man pages: written by `gpuforge __man DIR` from the clap command table.

use crate::sh;
use anyhow::{Context as _, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Arguments of `cargo xtask man`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory to write into
    #[arg(default_value = "target/man")]
    dir: PathBuf,
}

/// Builds the binary and writes its man pages.
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = sh::executable(&sh::build(&["gpuforge-cli"], &[], false)?, "gpuforge")?;
    let dir = sh::root().join(&args.dir);
    write(&binary, &dir)?;
    println!("{}", dir.display());
    Ok(())
}

/// Writes the man pages of `binary` into `dir`, which is created.
pub(crate) fn write(binary: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    sh::capture(Command::new(binary).arg("__man").arg(dir))?;
    let pages = fs::read_dir(dir)?.count();
    anyhow::ensure!(pages > 0, "`gpuforge __man` wrote nothing into {}", dir.display());
    Ok(())
}
