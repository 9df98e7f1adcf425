//! `gpuforge demo`: detects this machine, then synthetic bars → 111 indicators → Parquet file and chart, with times.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result};
use gpuforge::{
    chart::{candlestick_chart, time_axis},
    choice::{Choice, choose},
    frame::{
        Bars,
        read::{Input, ReadOptions, read},
        sample::{Interval, Sample},
        write::{ColumnValues, WriteOptions, Writer},
    },
    indicators::{
        exec::{self, ExecOptions},
        select::{self, Selector},
    },
    market::{self, MarketJob, MarketReport, Request, series},
};
use serde_json::json;

use super::{chart, detect, overview};
use crate::{
    args, atomic_file,
    bars::{frame_error, selection_error},
    context::Context,
    format::{count, size, width, wrap},
    output::{DIM, GOOD, HEAD},
    progress::Progress,
};

const SYMBOLS: usize = 30;
const DAYS: usize = 30;
const SET: &str = "set:classic111";
/// Indicators in the chart, and its number of bars.
const DRAWN: &str = "sma(50), ema(20), bbands(20,2,2), rsi(14), macd(12,26,9)";
const BARS_DRAWN: usize = 390 * 3;

/// Files written, and times.
struct DemoRun {
    bars: PathBuf,
    features: PathBuf,
    chart: PathBuf,
    sampled: f64,
    drawn: f64,
    report: MarketReport,
}

pub(crate) fn run(args: &args::market::Demo, context: &Context) -> Result<()> {
    let inventory = overview::inventory(context)?;
    let choice = choose(&inventory);
    if !context.out.json {
        detect::print(&inventory, context)?;
        context.out.text(&would_use(&choice))?;
    }
    let began = Instant::now();
    let made = make(&args.out, context)?;
    let total = began.elapsed().as_secs_f64();
    if context.out.json {
        return context.out.json(&json!({
            "choice": choice,
            "inventory": inventory,
            "demo": {
                "bars": made.bars, "features": made.features, "chart": made.chart,
                "seconds": { "sample": made.sampled, "chart": made.drawn, "total": total },
                "report": made.report,
            },
        }));
    }
    context.out.text(&summary(&made, total))
}

fn would_use(choice: &Choice) -> String {
    let width = width();
    let mut out = format!("\n{HEAD}gpuforge would use{HEAD:#}\n");
    let _ = writeln!(out, "  {GOOD}{}{GOOD:#} ({})", choice.name, choice.device);
    out.push_str(&wrap(&format!("because: {}", choice.reason), 2, width));
    out.push_str(&wrap(&format!("threads: {}", choice.threads_reason), 2, width));
    if let Some(simd) = &choice.simd {
        let _ = writeln!(out, "  SIMD: {simd}");
    }
    match choice.memory_bytes {
        Some(bytes) => drop(writeln!(out, "  memory: {}", size(bytes))),
        None => out.push_str("  memory: not known\n"),
    }
    out
}

/// Sample, indicators, chart.
fn make(directory: &Path, context: &Context) -> Result<DemoRun> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.display()))?;
    let (bars, features) = (directory.join("bars.parquet"), directory.join("features.parquet"));
    let shown = Progress::start("generating bars", context.out.prints_notes());
    let began = Instant::now();
    sample(&bars)?;
    let sampled = began.elapsed().as_secs_f64();
    shown.say(|| format!("computing {SET}"));
    let wanted = Selector::new().select(SET).map_err(|e| selection_error(&e))?;
    let request = Request::of(&wanted);
    let job = MarketJob {
        input: Input::new([&bars]),
        read: ReadOptions::default(),
        request: &request,
        output: features.clone(),
        write: WriteOptions::of(&features).map_err(frame_error)?,
        with_bars: false,
        options: ExecOptions::default(),
        memory: None,
        check: true,
        progress: None,
    };
    let report = market::run(job).map_err(frame_error)?;
    shown.say(|| "drawing".to_owned());
    let began = Instant::now();
    let page = directory.join("chart.html");
    draw(&bars, &page)?;
    Ok(DemoRun { bars, features, chart: page, sampled, drawn: began.elapsed().as_secs_f64(), report })
}

fn sample(path: &Path) -> Result<()> {
    let sample = Sample::new(SYMBOLS, Interval::Minute, DAYS * Interval::Minute.per_day(), 1);
    let columns = ["open", "high", "low", "close", "volume"].map(str::to_owned);
    let options = WriteOptions::of(path).map_err(frame_error)?;
    let mut writer = Writer::create(path, &sample.layout(), &columns, &options).map_err(frame_error)?;
    for bars in sample.series() {
        let values =
            [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume].map(|c| ColumnValues::all(c));
        writer.write(bars.symbol.as_ref(), &bars.time, &values).map_err(frame_error)?;
    }
    writer.finish().map_err(frame_error)?;
    Ok(())
}

/// The first symbol's last days.
fn draw(bars: &Path, page: &Path) -> Result<()> {
    let (layout, all, _) = read(&Input::new([bars]), ReadOptions::default()).map_err(frame_error)?;
    let first: Bars = all.into_iter().next().context("the sample has no symbol")?;
    let seconds = layout.seconds(&first.time);
    let wanted = Selector::new().select(DRAWN).map_err(|e| selection_error(&e))?;
    let selection = select::plan(&wanted);
    let columns = exec::run(&selection.plan, &[series(&first, &seconds)], ExecOptions::default())
        .pop()
        .unwrap_or_default();
    let skip = first.len().saturating_sub(BARS_DRAWN);
    let shown = chart::tail(&first, skip);
    let values: Vec<(&str, &[f64])> = selection
        .columns
        .iter()
        .zip(&columns)
        .map(|(name, column)| (name.as_str(), column.get(skip..).unwrap_or(&[])))
        .collect();
    let time = time_axis(&layout, &shown.time);
    let mut drawn = candlestick_chart(&time, &shown);
    chart::place(&mut drawn, &values);
    atomic_file::write(page, drawn.html().as_bytes())
}

fn summary(made: &DemoRun, total: f64) -> String {
    let MarketReport { rows, symbols, columns, bytes, seconds, findings, .. } = &made.report;
    let mut out = format!("\n{HEAD}bars to {columns} indicators{HEAD:#}\n");
    let mut line = |what: &str, time: f64, more: &str| {
        let _ = writeln!(out, "  {what:<9}{time:>6.2} s  {DIM}{more}{DIM:#}");
    };
    let values = count(*rows as f64 * *columns as f64 / seconds.compute.max(1e-9));
    line("sample", made.sampled, &format!("{symbols} symbols, {DAYS} days of minutes"));
    line("read", seconds.read, &format!("{rows} bars"));
    line("compute", seconds.compute, &format!("{SET}, {values} values/s"));
    line("write", seconds.write, &size(*bytes));
    line("chart", made.drawn, "");
    line("total", total, "");
    let found = findings.as_ref().map_or(0, Vec::len);
    if found > 0 {
        let _ = writeln!(out, "  {found} columns are constant, all NaN or infinite");
    }
    let _ = writeln!(out, "{HEAD}files{HEAD:#}");
    for path in [&made.bars, &made.features, &made.chart] {
        let _ = writeln!(out, "  {}", path.display());
    }
    let _ = writeln!(out, "{HEAD}next{HEAD:#}");
    let _ = writeln!(
        out,
        "  gpuforge indicators {} -o out.parquet --select 'rsi(7|14), group:volatility'",
        made.bars.display()
    );
    out
}
