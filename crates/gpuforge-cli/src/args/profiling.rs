//! Arguments of `gpuforge profile`, `report`, `compare` and `baseline`: traces, and regression tests of traces.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum, ValueHint};

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
    /// Also write the report as an HTML page.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// How many span names the summary lists.
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
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct Report {
    /// Trace file, from `gpuforge profile run` or GPUFORGE_TRACE.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) trace: PathBuf,
    /// File to write: .html (a page), .svg, .folded, .csv, .json, .perfetto.json; `-` is stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// How many span names the summary lists.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Format to write, where the file extension does not tell.
    #[arg(long, value_name = "FORM")]
    pub(crate) format: Option<ReportFormat>,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  gpuforge report gpuforge-trace.json
  gpuforge report gpuforge-trace.json -o report.html
  gpuforge report gpuforge-trace.json -o - --format folded";

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A self-contained page.
    Html,
    /// Every figure.
    Json,
    /// Trace events, for ui.perfetto.dev and chrome://tracing.
    Chrome,
    /// Folded stacks, for flame graph tools.
    Folded,
    /// A flame graph.
    Svg,
    /// A line per span name.
    Csv,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = COMPARE_HELP)]
pub(crate) struct Compare {
    /// Runs before: a trace, a directory of traces, or several separated by commas.
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) before: PathBuf,
    /// Runs after.
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) options: CompareArgs,
}

/// How runs are compared.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CompareArgs {
    /// Also write a page with every operation and a differential flame graph.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Smallest relative change that matters, in per cent.
    #[arg(long, value_name = "PCT", default_value = "2", value_parser = per_cent)]
    pub(crate) threshold: f64,
    /// Family-wise error rate: upper limit of the chance of one or more false alarms among all operations.
    #[arg(long, value_name = "P", default_value = "0.05", value_parser = probability)]
    pub(crate) alpha: f64,
}

const COMPARE_HELP: &str = "\
Examples:
  gpuforge compare before.json after.json
  gpuforge compare old1.json,old2.json,old3.json new/ -o diff.html
  gpuforge compare old/ new/ --threshold 5 --json

Exit codes: 0 no regression, 1 regression, 2 the runs cannot be compared,
3 nothing could be judged.

Several traces per side tell a change of the program from run-to-run noise; one
per side cannot. `gpuforge profile run` records a trace.";

/// Parses a fraction from `2`, `2.5` or `2%`.
fn per_cent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let fraction = number.filter(|p| (0.0..=1000.0).contains(p)).map(|p| p / 100.0);
    fraction.ok_or_else(|| "a number of per cent from 0 to 1000, such as 2".to_owned())
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 0.5);
    number.ok_or_else(|| "a number above 0 and up to 0.5, such as 0.05".to_owned())
}

#[derive(Debug, Subcommand)]
#[command(after_help = BASELINE_EXAMPLES)]
pub(crate) enum Baseline {
    /// Keep these runs under a name; replaces those of this name and machine.
    Save {
        /// Name: letters, digits, `-`, `_`, `.`.
        name: String,
        /// Traces or directories of traces.
        #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::AnyPath)]
        traces: Vec<PathBuf>,
    },
    /// Compare these runs with those kept under a name.
    #[command(after_help = CHECK_HELP)]
    Check {
        /// Name of the baseline.
        name: String,
        /// Traces or directories of traces.
        #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::AnyPath)]
        traces: Vec<PathBuf>,
        #[command(flatten)]
        options: CompareArgs,
        /// Fall back to a baseline of another machine if this one has none.
        #[arg(long)]
        any_machine: bool,
    },
    /// List the baselines.
    List,
}

const BASELINE_EXAMPLES: &str = "\
Examples:
  gpuforge baseline save main traces/
  gpuforge baseline check main new/ --threshold 5
  gpuforge baseline list";

const CHECK_HELP: &str = "\
Exit codes: 0 no regression, 1 regression, 2 the runs cannot be compared,
3 nothing could be judged.";
