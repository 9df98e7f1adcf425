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
    /// Most memory in use at once: of a device, or for bars and their columns (512MiB, 8GiB, none).
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

/// What is handed to a program of its own, as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Passed {
    /// Data and options; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) args: Vec<std::ffi::OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Detect this machine, then make bars, compute 111 indicators, write them and draw a chart.
    Demo(Demo),
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
    /// Find out what is wrong with this machine, and what to do about it.
    Doctor(Doctor),
    /// Watch a running gpuforge process: devices, memory, operations a second, decisions, events.
    Monitor(Monitor),
    /// Choose frameworks and packages that run on a machine, and write the files that install them.
    #[command(subcommand)]
    Env(crate::commands::env_args::Env),
    /// Measure the processor and the devices, and keep it for decisions; or show what was measured.
    Calibrate(Calibrate),
    /// Say where an operation of this size would run, and why; runs nothing.
    Route(Route),
    /// Compute indicators of bars in files, list the indicators, or show everything about one.
    Indicators(Indicators),
    /// Compute indicators on many machines: scheduler, executor, submit, features, sql, status (needs gpuforge-cluster).
    #[command(disable_help_flag = true)]
    Cluster(Passed),
    /// Train a model on indicators of bars (needs gpuforge-train).
    #[command(disable_help_flag = true)]
    Train(Passed),
    /// Test a trained model on other bars (needs gpuforge-train).
    #[command(disable_help_flag = true)]
    Evaluate(Passed),
    /// Answer with a trained model for every bar (needs gpuforge-train).
    #[command(disable_help_flag = true)]
    Predict(Passed),
    /// Paths, figures and communities of d-dimensional lattices; XOR of bytes.
    #[command(subcommand)]
    Lattice(crate::commands::lattice_args::Lattice),
    /// Draw bars with indicators: HTML, SVG or PNG, one file.
    Chart(Chart),
    /// Make bars to try things with: realistic, and the same for a seed on every machine.
    Sample(Sample),
    /// Compute where balls fly: one launch, or a file of launches.
    #[command(subcommand)]
    Trajectory(crate::commands::trajectory_args::Trajectory),
    /// Say what a log means: one root cause, the line that shows it, and what to do.
    Explain(Explain),
    /// Record where the time of a command goes, into a trace file.
    #[command(subcommand)]
    Profile(Profile),
    /// Show where the time of a recorded run went: in the terminal, as a page, or in other forms.
    Report(Report),
    /// Say whether runs got slower: operation by operation, with the chance of being wrong stated.
    Compare(Compare),
    /// Keep runs of this machine under a name, and compare later ones with them.
    #[command(subcommand)]
    Baseline(Baseline),
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

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Folder for the files, which is created.
    #[arg(long, value_name = "DIR", default_value = "gpuforge-demo", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
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
    for format in gpuforge::hardware::parsers::FORMATS {
        help.push_str("\n  ");
        help.push_str(format.produced_by);
    }
    help
}

#[derive(Debug, ClapArgs)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct Doctor {
    /// Ask installed frameworks themselves whether they see the GPU; takes seconds.
    #[arg(long)]
    pub(crate) deep: bool,
    /// Leave the network alone.
    #[arg(long)]
    pub(crate) offline: bool,
    /// Offer a script that puts variables right, and one that takes it back; changes nothing by itself.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the scripts of --fix without asking.
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// Also write a report for a bug tracker, without names, addresses and serial numbers.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) bundle: Option<PathBuf>,
    /// Look at the system whose files are in this folder; runs none of its programs.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["fix", "deep"])]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = MONITOR_HELP)]
pub(crate) struct Monitor {
    /// Process to watch [default: the newest that tells about itself].
    pub(crate) pid: Option<u32>,
    /// Print one moment and leave; so does --json.
    #[arg(long, conflicts_with = "web")]
    pub(crate) once: bool,
    /// Serve a page on this machine, for whoever has its address.
    #[arg(long)]
    pub(crate) web: bool,
    /// Port of the page; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "web")]
    pub(crate) port: u16,
}

const MONITOR_HELP: &str = "\
Examples:
  GPUFORGE_MONITOR=1 gpuforge demo      a process that tells about itself
  gpuforge monitor                      the newest one, on this terminal
  gpuforge monitor 4711 --once --json   one moment of that process
  gpuforge monitor --web                a page; /metrics for Prometheus

Only processes of the same user can be watched. Keys: ? help, q leave.";

const DOCTOR_HELP: &str = "\
Exit codes: 0 healthy or worth a look (warning, unknown), 1 broken (error, critical).
Loads no GPU library; every program that is asked is killed when it does not answer.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// Log to read; nothing or `-` is stdin.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Do what is safe about the cause: shows the command, asks, and can be undone.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Take back what the last --fix did.
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
by fixes that came with the program, never as administrator.";

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

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true, after_help = INDICATORS_EXAMPLES)]
pub(crate) struct Indicators {
    /// What to say about them.
    #[command(subcommand)]
    pub(crate) command: Option<IndicatorsCommand>,
    #[command(flatten)]
    pub(crate) bars: BarFiles,
    /// File to write: .parquet (zstd), .arrow, .csv; `-` is CSV on stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) what: What,
    /// Where to compute.
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) device: Where,
    /// Say what is computed where and why, what moves and what it takes; without -o nothing is computed.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Say what was recognised in the input: formats, columns and why, symbols, times; computes nothing.
    #[arg(long)]
    pub(crate) explain_input: bool,
    /// What columns are written as; the processor computes in double precision either way.
    #[arg(long, value_name = "TYPE", default_value = "f64")]
    pub(crate) precision: Precision,
    /// Threads [default: as many as the processor has].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: Option<u64>,
    /// Also write open, high, low, close and volume.
    #[arg(long)]
    pub(crate) with_bars: bool,
    /// Report what is wrong with bars (nulls, OHLC, gaps, jumps) and columns (NaN, infinite, out of range, constant).
    #[arg(long)]
    pub(crate) check: bool,
    /// As --check; a finding ends with exit code 1, after everything is written.
    #[arg(long)]
    pub(crate) strict: bool,
}

const INDICATORS_EXAMPLES: &str = "\
Examples:
  gpuforge indicators bars.parquet -o out.parquet --select 'rsi(14), macd'
  gpuforge indicators 'data/*.csv' -o out.parquet --select set:classic111 --check
  gpuforge indicators bars.csv -o - \\
      --define 'spread = ema(close,5) - ema(close,20)' \\
      --select 'spread, sma(20, source=spread)'
  gpuforge indicators bars.parquet --select all --device gpu --explain
  gpuforge indicators list --select group:momentum
  gpuforge indicators show macd

A row of the output is a bar: its symbol and time as in the input, then the
columns of the indicators (rsi_14, macd_12_26_9_signal). The first bars have no
value where an indicator needs bars before them.";

/// Where indicators are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// Where it is fastest.
    Auto,
    /// On the processor.
    Cpu,
    /// On a device, in single precision; what does not suit one is computed on the processor beside it.
    Gpu,
}

/// What columns are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// Double precision.
    F64,
    /// Single precision: half the size.
    F32,
}

/// What is done with a time that a symbol has twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Twice {
    /// Refuse the file.
    Error,
    /// Keep the first row.
    First,
    /// Keep the last row.
    Last,
}

/// Whose definitions of averages, RSI, MACD, ATR and Bollinger width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConventionName {
    /// TA-Lib's: Wilder's means, seeded averages, population deviations.
    Talib,
    /// Those of pandas code: `ewm(adjust=True)`, rolling means, sample deviations.
    Pandas,
}

/// Bars in files, and which of their columns is what.
#[derive(Debug, ClapArgs)]
pub(crate) struct BarFiles {
    /// Parquet, Arrow IPC or CSV: files, directories (hive layouts too), patterns; `-` is stdin.
    #[arg(value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Which column says when, where neither names nor values do; two as DATE+TIME.
    #[arg(long, value_name = "NAME", help_heading = "Bars")]
    pub(crate) time: Option<String>,
    /// Take rows in file order, the oldest first: the input says no times.
    #[arg(long, conflicts_with = "time", help_heading = "Bars")]
    pub(crate) no_time: bool,
    /// What makes a series: a COLUMN, `file` (its name), `dir` (its directory), `none` (all is one)
    /// [default: a symbol column, a hive key, or the file's name without its date].
    #[arg(long, value_name = "WHAT", help_heading = "Bars")]
    pub(crate) by: Option<String>,
    /// Which column is what, where its name does not say: close=PX_LAST, time=when.
    #[arg(long = "column", value_name = "ROLE=NAME", help_heading = "Bars")]
    pub(crate) columns: Vec<String>,
    /// Scale prices by the adjusted close.
    #[arg(long, help_heading = "Bars")]
    pub(crate) adjusted: bool,
    /// Leave out rows that cannot be read, and count them.
    #[arg(long, help_heading = "Bars")]
    pub(crate) skip_bad: bool,
    /// What to do with a time that a symbol has twice.
    #[arg(long, value_name = "WHICH", default_value = "error", help_heading = "Bars")]
    pub(crate) duplicates: Twice,
}

/// Which indicators.
#[derive(Debug, ClapArgs)]
pub(crate) struct What {
    /// Indicators, with commas between them: rsi(14), macd(12,26,9).signal, rsi(7|9|14), sma(20, source=hlc3),
    /// group:momentum, set:classic111, all.
    #[arg(long, value_name = "EXPR", help_heading = "Indicators")]
    pub(crate) select: Vec<String>,
    /// A name for an expression, to be used in --select: spread = ema(close,5) - ema(close,20).
    #[arg(long, value_name = "NAME = EXPR", help_heading = "Indicators")]
    pub(crate) define: Vec<String>,
    /// Whose definitions of averages, RSI, MACD, ATR and Bollinger width.
    #[arg(long, value_name = "WHOSE", default_value = "talib", help_heading = "Indicators")]
    pub(crate) convention: ConventionName,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Chart {
    #[command(flatten)]
    pub(crate) bars: BarFiles,
    /// File to write: .html, .svg or .png.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) what: What,
    /// Which symbol [default: the first].
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: Option<String>,
    /// Draw the last bars only; indicators still know those before.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) last: Option<u64>,
    /// Width and height in pixels.
    #[arg(long, value_name = "WxH", default_value = "1200x800", value_parser = pixels)]
    pub(crate) size: (u32, u32),
    /// Dots per pixel of a PNG.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub(crate) scale: f32,
    /// Colours.
    #[arg(long, value_name = "THEME", default_value = "auto")]
    pub(crate) theme: ThemeName,
    /// What the chart is called.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

/// Colours of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThemeName {
    /// As the reader's system; light in a PNG.
    Auto,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

fn pixels(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once(['x', 'X', '×'])
        .and_then(|(w, h)| Some((w.trim().parse().ok()?, h.trim().parse().ok()?)));
    let fits = |(w, h): &(u32, u32)| (200..=10_000).contains(w) && (150..=10_000).contains(h);
    parsed
        .filter(fits)
        .ok_or_else(|| "a width and a height from 200x150 to 10000x10000, such as 1200x800".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndicatorsCommand {
    /// List every indicator, or what a selection would write.
    List {
        /// What to list: rsi(14), macd(12,26,9).signal, rsi(7|9|14), group:momentum, set:classic111, all.
        #[arg(long, value_name = "EXPR")]
        select: Option<String>,
        /// A name for an expression, to be used in --select: spread = ema(close,5) - ema(close,20).
        #[arg(long, value_name = "NAME = EXPR")]
        define: Vec<String>,
    },
    /// Show everything about an indicator: meaning, formula, parameters, outputs.
    Show {
        /// Its name, or TA-Lib's.
        name: String,
    },
}

/// What a bar of a sample spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BarInterval {
    /// A minute; 390 a session, on weekdays.
    Minute,
    /// A session.
    Day,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Sample {
    /// File to write: .parquet, .arrow, .csv…; `-` is CSV on stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// How many symbols.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) symbols: u64,
    /// What a bar spans.
    #[arg(long, value_name = "SPAN", default_value = "minute")]
    pub(crate) interval: BarInterval,
    /// Sessions of each symbol [default: 30].
    #[arg(long, value_name = "N", conflicts_with = "bars", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) days: Option<u64>,
    /// Bars of each symbol, instead of days.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=50_000_000))]
    pub(crate) bars: Option<u64>,
    /// Equal seeds make equal bars.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Split every symbol once, 2:1 or 3:1.
    #[arg(long)]
    pub(crate) splits: bool,
    /// Leave out some bars.
    #[arg(long)]
    pub(crate) gaps: bool,
    /// Trade nothing in some bars: volume 0, prices unchanged.
    #[arg(long)]
    pub(crate) zero_volume: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Profile {
    /// Run a command of gpuforge, or a program that uses the library, and record it.
    Run(ProfileRun),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = PROFILE_EXAMPLES)]
pub(crate) struct ProfileRun {
    /// Trace file to write.
    #[arg(short, long, value_name = "FILE", default_value = "gpuforge-trace.json", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Also write the report as a page.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// How many names the summary lists.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// A command of gpuforge, or a program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND",
          value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

const PROFILE_EXAMPLES: &str = "\
Examples:
  gpuforge profile run -- demo --out demo
  gpuforge profile run -o t.json --report t.html -- self-test --full
  gpuforge profile run -- ./my-program --its-flag

A program is started with GPUFORGE_TRACE; it leaves a trace if it calls
gpuforge::profile::trace_from_env.";

#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    /// Trace file, from `gpuforge profile run` or GPUFORGE_TRACE.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) trace: PathBuf,
    /// File to write: .html (a page), .svg, .folded, .csv, .json, .perfetto.json; `-` is stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// How many names the summary lists.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Form to write, where the name of the file does not say.
    #[arg(long, value_name = "FORM")]
    pub(crate) format: Option<ReportFormat>,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A page that needs nothing else.
    Html,
    /// Every figure.
    Json,
    /// Trace events, for ui.perfetto.dev and chrome://tracing.
    Chrome,
    /// Stacks with their times, for flame graph tools.
    Folded,
    /// A flame graph.
    Svg,
    /// A line per name.
    Csv,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = COMPARE_HELP)]
pub(crate) struct Compare {
    /// Runs before: a trace, a folder of traces, or several with commas between.
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) before: PathBuf,
    /// Runs after.
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// How runs are compared.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Judging {
    /// Also write a page with every operation and a differential flame graph.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// The least change that matters, in per cent.
    #[arg(long, value_name = "PCT", default_value = "2", value_parser = per_cent)]
    pub(crate) threshold: f64,
    /// The chance of even one false alarm among all operations, at most.
    #[arg(long, value_name = "P", default_value = "0.05", value_parser = chance)]
    pub(crate) alpha: f64,
}

const COMPARE_HELP: &str = "\
Exit codes: 0 no regression, 1 regression, 2 the runs cannot be compared.

Examples:
  gpuforge compare before.json after.json
  gpuforge compare old1.json,old2.json,old3.json new/ -o diff.html
  gpuforge compare old/ new/ --threshold 5 --json

Several traces on a side tell a change of the program from what differs from
run to run; one on each side cannot. `gpuforge profile run` records a trace.";

/// A share from `2`, `2.5` or `2%`.
fn per_cent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let share = number.filter(|p| (0.0..=1000.0).contains(p)).map(|p| p / 100.0);
    share.ok_or_else(|| "a number of per cent from 0 to 1000, such as 2".to_owned())
}

fn chance(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 0.5);
    number.ok_or_else(|| "a number above 0 and up to 0.5, such as 0.05".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Baseline {
    /// Keep these runs under a name, in place of those of this name and machine.
    Save {
        /// Name: letters, digits, `-`, `_`, `.`.
        name: String,
        /// Traces or folders of traces.
        #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::AnyPath)]
        traces: Vec<PathBuf>,
    },
    /// Compare these runs with those kept under a name.
    #[command(after_help = "Exit codes: 0 no regression, 1 regression, 2 the runs cannot be compared.")]
    Check {
        /// Name of the baseline.
        name: String,
        /// Traces or folders of traces.
        #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::AnyPath)]
        traces: Vec<PathBuf>,
        #[command(flatten)]
        judging: Judging,
        /// Take a baseline of another machine where there is none of this one.
        #[arg(long)]
        any_machine: bool,
    },
    /// List the baselines.
    List,
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
