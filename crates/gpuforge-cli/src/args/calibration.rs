//! Arguments of `gpuforge calibrate`, `route` and `share`: cost models of this machine and the decisions made from them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

#[derive(Debug, ClapArgs)]
#[command(after_help = CALIBRATE_EXAMPLES)]
pub(crate) struct Calibrate {
    /// Every operation in ten seconds (the default).
    #[arg(long, conflicts_with_all = ["full", "show"])]
    pub(crate) quick: bool,
    /// More sizes and repetitions, every variant of the kernels: a minute and a half.
    #[arg(long, conflicts_with = "show")]
    pub(crate) full: bool,
    /// Plot what was measured before; measures nothing.
    #[arg(long)]
    pub(crate) show: bool,
    /// Also plot it into this file, as SVG.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    /// Measure this device besides the CPU: auto, cpu, a position, a bus id, a vendor or part of a name.
    #[arg(long, value_name = "DEVICE", conflicts_with = "show")]
    pub(crate) device: Option<String>,
}

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  gpuforge calibrate
  gpuforge calibrate --full --svg crossover.svg
  gpuforge calibrate --show";

#[derive(Debug, ClapArgs)]
#[command(after_help = route_help())]
pub(crate) struct Route {
    /// Operation.
    pub(crate) op: String,
    /// Its sizes (4096, 2^20); their meaning is listed below.
    #[arg(required = true, value_parser = route_size)]
    pub(crate) sizes: Vec<usize>,
    /// Where to run it: auto, cpu, or the position of a device among the calibrated ones.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
}

/// Parses `4096`, or `2^12`.
fn route_size(text: &str) -> Result<usize, String> {
    let power = |exponent: &str| exponent.parse().ok().and_then(|e| 1usize.checked_shl(e));
    let size = text.strip_prefix("2^").map_or_else(|| text.parse().ok(), power);
    size.ok_or_else(|| "a whole number such as 4096 or 2^12".to_owned())
}

/// Examples, then the rows of the operation table.
fn route_help() -> String {
    let mut help = "\
Examples:
  gpuforge route matmul 1024
  gpuforge route sum 2^24 --json

Operations:"
        .to_owned();
    for row in gpuforge::ops::registry::OPS {
        help.push_str(&format!("\n  {:<13} {:<26} {}", row.kind.name(), row.sizes, row.what));
    }
    help
}

#[derive(Debug, Subcommand)]
#[command(after_help = SHARE_EXAMPLES)]
pub(crate) enum Share {
    /// Write the calibration and the hardware it is for, without anything that identifies this machine.
    Export {
        /// File to write.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Import a calibration of the same hardware and drivers.
    Import {
        /// File to read.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

const SHARE_EXAMPLES: &str = "\
Examples:
  gpuforge share export calibration.json
  gpuforge share import calibration.json";
