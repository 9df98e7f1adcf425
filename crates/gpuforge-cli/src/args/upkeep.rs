//! Arguments of `gpuforge explain`, `cache` and `config`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

#[derive(Debug, ClapArgs)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// Log to read; nothing or `-` is stdin.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Apply the safe fix for the cause: shows the command, asks, and can be undone.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Undo what the last --fix did.
    #[arg(long, conflicts_with_all = ["fix", "file"])]
    pub(crate) undo: bool,
    /// Do not ask before --fix or --undo.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  gpuforge explain train.log
  python train.py 2>&1 | gpuforge explain
  dmesg | gpuforge explain --json

Only the active environment (VIRTUAL_ENV, CONDA_PREFIX) is ever changed, only
by fixes that come with the program, never as root.";

#[derive(Debug, Subcommand)]
#[command(after_help = CACHE_EXAMPLES)]
pub(crate) enum Cache {
    /// List the cached detections.
    Show,
    /// Remove them all.
    Clear,
}

const CACHE_EXAMPLES: &str = "\
Examples:
  gpuforge cache show --json
  gpuforge cache clear";

#[derive(Debug, Subcommand)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) enum Config {
    /// List every setting with its value and where it comes from.
    List,
    /// Print one value.
    Get {
        /// Name of the setting.
        key: String,
    },
    /// Store a value in the settings file; comments in it are kept.
    Set {
        /// Name of the setting.
        key: String,
        /// New value.
        value: String,
    },
    /// Remove a value from the settings file.
    Unset {
        /// Name of the setting.
        key: String,
    },
    /// Open the settings file in $VISUAL or $EDITOR, and check it afterwards.
    Edit,
    /// Print the path of the settings file.
    Path,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  gpuforge config list --verbose
  gpuforge config set device cpu
  gpuforge config unset device";
