//! Arguments of `gpuforge demo`, `sample` and `chart`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::bars::{BarFiles, SelectArgs};

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Directory for the files, which is created.
    #[arg(long, value_name = "DIR", default_value = "gpuforge-demo", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = SAMPLE_EXAMPLES)]
pub(crate) struct Sample {
    /// File to write: .parquet, .arrow, .csv…; `-` is CSV on stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Number of symbols.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) symbols: u64,
    /// Interval of a bar.
    #[arg(long, value_name = "SPAN", default_value = "minute")]
    pub(crate) interval: BarInterval,
    /// Trading days per symbol [default: 30].
    #[arg(long, value_name = "N", conflicts_with = "bars", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) days: Option<u64>,
    /// Bars per symbol, instead of days.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=50_000_000))]
    pub(crate) bars: Option<u64>,
    /// Seed of the generator: equal seeds give equal bars.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Split the shares of every symbol once, 2:1 or 3:1.
    #[arg(long)]
    pub(crate) splits: bool,
    /// Leave out some bars.
    #[arg(long)]
    pub(crate) gaps: bool,
    /// Some bars without trades: volume 0, prices unchanged.
    #[arg(long)]
    pub(crate) zero_volume: bool,
}

const SAMPLE_EXAMPLES: &str = "\
Examples:
  gpuforge sample -o bars.parquet
  gpuforge sample -o - --symbols 1 --interval day --bars 250 --seed 7";

/// Interval of a sample's bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BarInterval {
    /// A minute; 390 a trading day, on weekdays.
    Minute,
    /// A trading day.
    Day,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = CHART_EXAMPLES)]
pub(crate) struct Chart {
    #[command(flatten)]
    pub(crate) bars: BarFiles,
    /// File to write: .html, .svg or .png.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Which symbol [default: the first].
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: Option<String>,
    /// Draw the last bars only; indicators are computed from all of them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) last: Option<u64>,
    /// Width and height in pixels.
    #[arg(long, value_name = "WxH", default_value = "1200x800", value_parser = pixels)]
    pub(crate) size: (u32, u32),
    /// Device pixel ratio of a PNG.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub(crate) scale: f32,
    /// Colours.
    #[arg(long, value_name = "THEME", default_value = "auto")]
    pub(crate) theme: ThemeName,
    /// Title of the chart.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

const CHART_EXAMPLES: &str = "\
Examples:
  gpuforge chart bars.parquet -o chart.html --last 400 \\
      --select 'bbands(20,2,2), rsi(14), macd(12,26,9)'
  gpuforge chart bars.csv -o chart.png --symbol AAPL --theme dark";

/// Colours of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThemeName {
    /// Follows the reader's system; light in a PNG.
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
