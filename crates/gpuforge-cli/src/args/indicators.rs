//! Arguments of `gpuforge indicators`, with its subcommands `list` and `show`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum, ValueHint};

use super::{
    Placement,
    bars::{BarFiles, SelectArgs},
};

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Indicators {
    /// List them, or show one.
    #[command(subcommand)]
    pub(crate) command: Option<IndicatorsCommand>,
    #[command(flatten)]
    pub(crate) bars: BarFiles,
    /// File to write: .parquet (zstd), .arrow, .csv; `-` is CSV on stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Where to compute.
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(crate) device: Placement,
    /// Print the plan: what is computed where and why, transfers, memory; without -o nothing is computed.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print what was recognised in the input: formats, columns and why, symbols, timestamps; computes nothing.
    #[arg(long)]
    pub(crate) explain_input: bool,
    /// Type of the written columns; the CPU computes in double precision either way.
    #[arg(long, value_name = "TYPE", default_value = "f64")]
    pub(crate) precision: Precision,
    /// Threads [default: as many as the CPU has].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: Option<u64>,
    /// Also write open, high, low, close and volume.
    #[arg(long)]
    pub(crate) with_bars: bool,
    /// Report what is wrong with bars (nulls, OHLC, gaps, jumps) and columns (NaN, infinite, out of range, constant).
    #[arg(long)]
    pub(crate) check: bool,
    /// As --check; a finding means exit code 1, after everything is written.
    #[arg(long)]
    pub(crate) strict: bool,
}

const EXAMPLES: &str = "\
Examples:
  gpuforge indicators bars.parquet -o out.parquet --select 'rsi(14), macd'
  gpuforge indicators bars.parquet -o out.parquet \\
      --select 'rsi(7|14), macd(12,26,9).signal, group:volatility'
  gpuforge indicators 'data/*.csv' -o out.csv --select set:classic111 --check
  gpuforge indicators bars.parquet -o out.parquet --select set:classic111 \\
      --convention pandas
  gpuforge indicators bars.csv -o - \\
      --define 'spread = ema(close,5) - ema(close,20)' \\
      --select 'spread, sma(20, source=spread)'
  gpuforge indicators bars.parquet --select all --device gpu --explain
  gpuforge indicators bars/ --explain-input
  gpuforge indicators bars/ -o out.parquet --select all --strict
  gpuforge indicators list --select group:momentum
  gpuforge indicators show macd

A row of the output is a bar: its symbol and time as in the input, then the
columns of the indicators (rsi_14, macd_12_26_9_signal). Bars of an indicator's
warm-up have no value.";

/// Type of the written columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// Double precision.
    F64,
    /// Single precision: half the size.
    F32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndicatorsCommand {
    /// List every indicator, or the columns that a selection would write.
    List {
        /// What to list: rsi(14), macd(12,26,9).signal, rsi(7|9|14), group:momentum, set:classic111, all.
        #[arg(long, value_name = "EXPR")]
        select: Option<String>,
        /// Name an expression, for use in --select: spread = ema(close,5) - ema(close,20).
        #[arg(long, value_name = "NAME = EXPR")]
        define: Vec<String>,
    },
    /// Show everything about an indicator: meaning, formula, parameters, outputs.
    Show {
        /// Its name, or TA-Lib's.
        name: String,
    },
}
