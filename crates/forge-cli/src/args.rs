//! What can be typed? The table of commands and flags; help, man pages and completions are made from it.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint};
use gpuforge::settings::{Key, Place, SettingsError};

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage.
Results go to stdout, everything else to stderr. NO_COLOR is honoured.
Settings: `gpuforge config list`; a flag wins over its environment variable,
that over the settings file, that over the default.";

/// Finds the compute a machine has and says what to use and why.
#[derive(Debug, Parser)]
#[command(name = "gpuforge", version, about = "Finds the compute a machine has and says what to use and why", after_help = AFTER_HELP, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print results only: no warnings, no hints.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print every detail.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// When to colour the output.
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<When>,
    /// Most device memory in use at once (512MiB, 8GiB, none).
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory_limit)]
    pub(crate) memory_limit: Option<String>,
    /// What to do; nothing = a short status of this machine.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always, also into a pipe.
    Always,
    /// Never.
    Never,
}

/// What the setting of this name takes; a mistake is wrong usage, whatever the command.
fn memory_limit(text: &str) -> Result<String, SettingsError> {
    if let Some(key) = Key::find("memory_limit") {
        key.parse(text, Place::Argument)?;
    }
    Ok(text.to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Detect this machine and say what gpuforge would use and why.
    Demo,
    /// List GPUs and CPU: of this machine, of a recording, or of text pasted from another machine.
    Detect(Detect),
    /// Show what is loaded, open and in use, and the switches that are set.
    Status {
        /// Load every part and open the device first.
        #[arg(long)]
        load: bool,
    },
    /// Check that gpuforge works on this machine.
    SelfTest {
        /// Every check, not only the quick ones.
        #[arg(long)]
        full: bool,
    },
    /// Measure the processor and the devices, and keep it for decisions; or show what was measured.
    Calibrate(Calibrate),
    /// Say where an operation of this size would run, and why; runs nothing.
    Route(Route),
    /// Hand a calibration on to equal hardware, or take one over.
    #[command(subcommand)]
    Share(Share),
    /// Show or clear the detection cache.
    #[command(subcommand)]
    Cache(Cache),
    /// Show and change settings.
    #[command(subcommand)]
    Config(Config),
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder.
    #[command(name = "__man", hide = true)]
    Man {
        /// Folder, which is created.
        dir: PathBuf,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Detect {
    /// Detect anew and renew the cache.
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Neither read nor write the cache.
    #[arg(long, conflicts_with = "refresh")]
    pub(crate) no_cache: bool,
    /// Read kernel files only: load no driver library, wake no device.
    #[arg(long)]
    pub(crate) no_wake: bool,
    /// Say how long each phase and probe took.
    #[arg(long)]
    pub(crate) timings: bool,
    /// The most that one probe may take (5s, 800ms).
    #[arg(long, value_name = "TIME")]
    pub(crate) probe_timeout: Option<String>,
    /// Use this device: auto, cpu, a position, a bus id, a vendor or part of a name.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Detect and save what the probes read, without names and serial numbers.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["replay", "from", "refresh"])]
    pub(crate) record: Option<PathBuf>,
    /// Reproduce the inventory of a recording.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["from", "refresh", "no_cache", "no_wake"])]
    pub(crate) replay: Option<PathBuf>,
    /// Read the output of nvidia-smi, lspci, rocminfo, vulkaninfo… from a file, or from stdin with `-`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["refresh", "no_cache", "no_wake"],
          long_help = from_help())]
    pub(crate) from: Option<PathBuf>,
}

/// The formats come from the table of the parsers.
fn from_help() -> String {
    let mut help =
        "Read text that was printed on another machine, from a file or from stdin with `-`. What it is, is \
                    recognised; several outputs pasted together are merged:"
            .to_owned();
    for format in gpuforge::hardware::text::FORMATS {
        help.push_str("\n  ");
        help.push_str(format.produced_by);
    }
    help
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Calibrate {
    /// Every operation in ten seconds (the default).
    #[arg(long, conflicts_with_all = ["full", "show"])]
    pub(crate) quick: bool,
    /// More sizes and repetitions, every variant of the kernels: a minute and a half.
    #[arg(long, conflicts_with = "show")]
    pub(crate) full: bool,
    /// Draw what was measured before; measures nothing.
    #[arg(long)]
    pub(crate) show: bool,
    /// Also draw it into this file, as SVG.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    /// Measure this device beside the processor: auto, cpu, a position, a bus id, a vendor or part of a name.
    #[arg(long, value_name = "DEVICE", conflicts_with = "show")]
    pub(crate) device: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = route_help())]
pub(crate) struct Route {
    /// Operation.
    pub(crate) op: String,
    /// Its sizes (4096, 2^20); what they mean is listed below.
    #[arg(required = true, value_parser = route_size)]
    pub(crate) sizes: Vec<usize>,
    /// Where to run it: auto, cpu, or the position of a device among the calibrated ones.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
}

/// `4096`, or `2^12`.
fn route_size(text: &str) -> Result<usize, String> {
    let power = |exponent: &str| exponent.parse().ok().and_then(|e| 1usize.checked_shl(e));
    let size = text.strip_prefix("2^").map_or_else(|| text.parse().ok(), power);
    size.ok_or_else(|| "a whole number such as 4096 or 2^12".to_owned())
}

/// The operations come from their table.
fn route_help() -> String {
    let mut help = "Operations:".to_owned();
    for row in gpuforge::ops::table::OPS {
        help.push_str(&format!("\n  {:<13} {:<26} {}", row.kind.name(), row.sizes, row.what));
    }
    help
}

#[derive(Debug, Subcommand)]
pub(crate) enum Share {
    /// Write the calibration and the hardware it is for, without anything that identifies this machine.
    Export {
        /// File to write.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Take over a calibration of the same hardware and drivers.
    Import {
        /// File to read.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cache {
    /// List the cached detections.
    Show,
    /// Remove them all.
    Clear,
}

#[derive(Debug, Subcommand)]
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
    /// Print where the settings file is.
    Path,
}
