//! Shell completions: one file per shell, printed by `gpuforge completions SHELL`.

use crate::sh;
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Shells and the file name each looks for.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "gpuforge.bash"),
    ("elvish", "gpuforge.elv"),
    ("fish", "gpuforge.fish"),
    ("powershell", "_gpuforge.ps1"),
    ("zsh", "_gpuforge"),
];

/// Arguments of `cargo xtask completions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory to write into
    #[arg(default_value = "target/completions")]
    dir: PathBuf,
}

/// Builds the binary and writes a file per shell.
pub(crate) fn run(args: &Args) -> Result<()> {
    let binary = sh::executable(&sh::build(&["gpuforge-cli"], &[], false)?, "gpuforge")?;
    let dir = sh::root().join(&args.dir);
    write(&binary, &dir)?;
    println!("{}", dir.display());
    Ok(())
}

/// Writes a file per shell into `dir`, which is created.
pub(crate) fn write(binary: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (shell, name) in SHELLS {
        let script = sh::capture(Command::new(binary).args(["completions", shell]))?;
        ensure!(!script.trim().is_empty(), "`gpuforge completions {shell}` printed nothing");
        fs::write(dir.join(name), script)?;
    }
    Ok(())
}
