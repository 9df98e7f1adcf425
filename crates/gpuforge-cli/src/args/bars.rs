//! Arguments for reading bars (input files, column roles, duplicates) and for selecting indicators, shared by `gpuforge
//! indicators` and `gpuforge chart`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum, ValueHint};

/// What is done with a timestamp that a symbol has twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicatePolicy {
    /// Reject the file.
    Error,
    /// Keep the first row.
    First,
    /// Keep the last row.
    Last,
}

/// Whose definitions of averages, RSI, MACD, ATR and Bollinger width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConventionName {
    /// TA-Lib's: Wilder's smoothing, seeded EMAs, population standard deviations.
    Talib,
    /// Those of pandas code: `ewm(adjust=True)`, rolling means, sample standard deviations.
    Pandas,
}

/// Files of bars, and the roles of their columns.
#[derive(Debug, ClapArgs)]
pub(crate) struct BarFiles {
    /// Parquet, Arrow IPC or CSV: files, directories (hive partitions too), glob patterns; `-` is stdin.
    #[arg(value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Timestamp column, where neither names nor values tell; two as DATE+TIME.
    #[arg(long, value_name = "NAME", help_heading = "Bars")]
    pub(crate) time: Option<String>,
    /// The input has no timestamps: take rows in file order, the oldest first.
    #[arg(long, conflicts_with = "time", help_heading = "Bars")]
    pub(crate) no_time: bool,
    /// What makes a series: a COLUMN, `file` (its name), `dir` (its directory), `none` (all rows are one)
    /// [default: a symbol column, a hive key, or the file's name without its date].
    #[arg(long, value_name = "WHAT", help_heading = "Bars")]
    pub(crate) by: Option<String>,
    /// Role of a column whose name does not tell: close=PX_LAST, time=when.
    #[arg(long = "column", value_name = "ROLE=NAME", help_heading = "Bars")]
    pub(crate) columns: Vec<String>,
    /// Scale prices by the adjusted close.
    #[arg(long, help_heading = "Bars")]
    pub(crate) adjusted: bool,
    /// Skip rows that cannot be parsed, and count them.
    #[arg(long, help_heading = "Bars")]
    pub(crate) skip_bad: bool,
    /// What to do with a timestamp that a symbol has twice.
    #[arg(long, value_name = "WHICH", default_value = "error", help_heading = "Bars")]
    pub(crate) duplicates: DuplicatePolicy,
}

/// Which indicators, by which definitions.
#[derive(Debug, ClapArgs)]
pub(crate) struct SelectArgs {
    /// Indicators, separated by commas: rsi(14), macd(12,26,9).signal, rsi(7|9|14), sma(20, source=hlc3),
    /// correl(30, source=close,volume), group:momentum, set:classic111, all.
    #[arg(long, value_name = "EXPR", help_heading = "Indicators")]
    pub(crate) select: Vec<String>,
    /// Name an expression, for use in --select: spread = ema(close,5) - ema(close,20).
    #[arg(long, value_name = "NAME = EXPR", help_heading = "Indicators")]
    pub(crate) define: Vec<String>,
    /// Whose definitions of averages, RSI, MACD, ATR and Bollinger width.
    #[arg(long, value_name = "WHOSE", default_value = "talib", help_heading = "Indicators")]
    pub(crate) convention: ConventionName,
}
