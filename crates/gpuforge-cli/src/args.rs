//! clap command table of `gpuforge`: global options and the list of commands. `--help`, man pages, shell completions and
//! docs/cli.md are generated from it.
//!
//! | file | arguments of |
//! |---|---|
//! | `args/machine.rs` | detect, doctor, monitor |
//! | `args/calibration.rs` | calibrate, route, share |
//! | `args/env.rs` | env |
//! | `args/bars.rs` | input files and selections, shared by indicators and chart |
//! | `args/indicators.rs` | indicators, with its list and show |
//! | `args/market.rs` | demo, sample, chart |
//! | `args/lattice.rs`, `args/trajectory.rs` | the workloads |
//! | `args/profiling.rs` | profile, report, compare, baseline |
//! | `args/upkeep.rs` | explain, cache, config |

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use gpuforge::settings::{SettingKey, SettingLocation, SettingsError};

pub(crate) mod bars;
pub(crate) mod calibration;
pub(crate) mod env;
pub(crate) mod indicators;
pub(crate) mod lattice;
pub(crate) mod machine;
pub(crate) mod market;
pub(crate) mod profiling;
pub(crate) mod trajectory;
pub(crate) mod upkeep;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage or no such device, 130 interrupted.
Results go to stdout, everything else to stderr. NO_COLOR is honoured.
Settings: `gpuforge config list`; a flag overrides its environment variable,
that the settings file, that the default.";

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
    pub(crate) color: Option<ColorWhen>,
    /// Upper limit of device memory, or of memory for bars and their columns (512MiB, 8GiB, none).
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory_limit)]
    pub(crate) memory_limit: Option<String>,
    /// What to do; nothing = a short status of this machine.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always, also into a pipe.
    Always,
    /// Never.
    Never,
}

/// Accepts what the setting of this name accepts, so that a mistake is wrong usage (exit code 2) for every command.
fn memory_limit(text: &str) -> Result<String, SettingsError> {
    if let Some(key) = SettingKey::find("memory_limit") {
        key.parse(text, SettingLocation::Argument)?;
    }
    Ok(text.to_owned())
}

/// Arguments passed unchanged to a program that is installed separately (`gpuforge-train`, `gpuforge-cluster`).
#[derive(Debug, clap::Args)]
pub(crate) struct PassThrough {
    /// Data and options; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) args: Vec<std::ffi::OsString>,
}

/// Where to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Placement {
    /// Where it is predicted to be fastest.
    Auto,
    /// On the CPU.
    Cpu,
    /// On a GPU, in single precision; what it does not support is computed on the CPU.
    Gpu,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Detect this machine, then generate bars, compute 111 indicators, write them and draw a chart.
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(market::Demo),
    /// List GPUs and CPU: of this machine, of a recording, or of text pasted from another machine.
    Detect(machine::Detect),
    /// Show what is loaded, open and in use, and the switches that are set.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// Load every component and open the device first.
        #[arg(long)]
        load: bool,
    },
    /// Check that gpuforge works on this machine.
    #[command(after_help = SELF_TEST_EXAMPLES)]
    SelfTest {
        /// Every check, not only the quick ones.
        #[arg(long)]
        full: bool,
    },
    /// Diagnose this machine: what is wrong, the evidence, and what to do about it.
    Doctor(machine::Doctor),
    /// Watch a running gpuforge process: devices, memory, operations per second, decisions, events.
    Monitor(machine::Monitor),
    /// Choose frameworks and packages that run on a machine, and write the files that install them.
    #[command(subcommand)]
    Env(env::Env),
    /// Measure the CPU and the devices, and keep the result for placement decisions; or show it.
    Calibrate(calibration::Calibrate),
    /// Say where an operation of this size would run, and why; runs nothing.
    Route(calibration::Route),
    /// Compute indicators of bars in files, list the indicators, or show everything about one.
    Indicators(indicators::Indicators),
    /// Compute indicators on many machines: scheduler, executor, submit, features, sql, status (needs gpuforge-cluster).
    #[command(disable_help_flag = true, after_help = CLUSTER_EXAMPLES)]
    Cluster(PassThrough),
    /// Train a model on indicators of bars (needs gpuforge-train).
    #[command(disable_help_flag = true, after_help = TRAIN_EXAMPLES)]
    Train(PassThrough),
    /// Evaluate a trained model on other bars (needs gpuforge-train).
    #[command(disable_help_flag = true, after_help = EVALUATE_EXAMPLES)]
    Evaluate(PassThrough),
    /// Predict with a trained model, for every bar (needs gpuforge-train).
    #[command(disable_help_flag = true, after_help = PREDICT_EXAMPLES)]
    Predict(PassThrough),
    /// Shortest paths, statistics and communities of d-dimensional lattices; XOR of bytes.
    #[command(subcommand)]
    Lattice(lattice::Lattice),
    /// Draw candlesticks with indicators: HTML, SVG or PNG, one file.
    Chart(market::Chart),
    /// Generate synthetic bars: realistic, and the same for a seed on every machine.
    Sample(market::Sample),
    /// Simulate ball flights: one launch, or a file of launches.
    #[command(subcommand)]
    Trajectory(trajectory::Trajectory),
    /// Explain a log: one root cause, the line that shows it, and what to do.
    Explain(upkeep::Explain),
    /// Record where the time of a command goes, into a trace file.
    #[command(subcommand)]
    Profile(profiling::Profile),
    /// Show where the time of a recorded run went: in the terminal, as a page, or in other formats.
    Report(profiling::Report),
    /// Say whether runs got slower: operation by operation, with the false-alarm rate stated.
    Compare(profiling::Compare),
    /// Keep runs of this machine under a name, and compare later ones with them.
    #[command(subcommand)]
    Baseline(profiling::Baseline),
    /// Export a calibration for equal hardware, or import one.
    #[command(subcommand)]
    Share(calibration::Share),
    /// Show or clear the detection cache.
    #[command(subcommand)]
    Cache(upkeep::Cache),
    /// Show and change settings.
    #[command(subcommand)]
    Config(upkeep::Config),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write man pages into a directory.
    #[command(name = "__man", hide = true)]
    Man {
        /// Directory, which is created.
        dir: PathBuf,
    },
    /// Print the reference of all commands as Markdown.
    #[command(name = "__reference", hide = true)]
    Reference,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  gpuforge demo
  gpuforge demo --out demo --json";

const STATUS_EXAMPLES: &str = "\
Examples:
  gpuforge status
  gpuforge status --load --json";

const SELF_TEST_EXAMPLES: &str = "\
Examples:
  gpuforge self-test
  gpuforge self-test --full --json";

const CLUSTER_EXAMPLES: &str = "\
Examples:
  gpuforge cluster sql \"SELECT symbol, time, rsi_14 FROM indicators('bars.parquet', 'rsi(14)') WHERE rsi_14 > 80\"
  gpuforge cluster features bars/ --select set:classic111 -o dataset/ --scheduler 10.0.0.1:50050";

const TRAIN_EXAMPLES: &str = "\
Examples:
  gpuforge train bars.parquet --indicators set:classic111 --model mlp --target direction --epochs 20";

const EVALUATE_EXAMPLES: &str = "\
Examples:
  gpuforge evaluate trained newer.parquet";

const PREDICT_EXAMPLES: &str = "\
Examples:
  gpuforge predict trained newer.parquet -o answers.csv";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  gpuforge completions zsh > ~/.zfunc/_gpuforge";
