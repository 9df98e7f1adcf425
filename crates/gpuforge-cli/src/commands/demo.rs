//! `gpuforge demo`: what this machine has, and what that does: bars of a small market to 111 indicators, a file and a chart.

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
        write::{Options, Values, Writer},
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
    args,
    bars::{explained, wrong},
    context::Context,
    format::{count, size, width, wrap},
    output::{DIM, GOOD, HEAD},
    progress::Progress,
};

const SYMBOLS: usize = 30;
const DAYS: usize = 30;
const SET: &str = "set:classic111";
/// What the chart shows beside the prices, and how many bars.
const DRAWN: &str = "sma(50), ema(20), bbands(20,2,2), rsi(14), macd(12,26,9)";
const BARS_DRAWN: usize = 390 * 3;

/// What was made.
struct Made {
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
    context.out.text(&story(&made, total))
}

fn would_use(choice: &Choice) -> String {
    let width = width();
    let mut out = format!("\n{HEAD}gpuforge would use{HEAD:#}\n");
    let _ = writeln!(out, "  {GOOD}{}{GOOD:#} ({})", choice.name, choice.device);
    out.push_str(&wrap(&format!("because: {}", choice.reason), 2, width));
    out.push_str(&wrap(&format!("threads: {}", choice.threads_reason), 2, width));
    if let Some(simd) = &choice.simd {
        let _ = writeln!(out, "  vector code: {simd}");
    }
    match choice.memory_bytes {
        Some(bytes) => drop(writeln!(out, "  memory: {}", size(bytes))),
        None => out.push_str("  memory: not known\n"),
    }
    out
}

/// Sample, indicators, chart.
fn make(folder: &Path, context: &Context) -> Result<Made> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let (bars, features) = (folder.join("bars.parquet"), folder.join("features.parquet"));
    let shown = Progress::start("making bars", context.out.talks());
    let began = Instant::now();
    sample(&bars)?;
    let sampled = began.elapsed().as_secs_f64();
    shown.say(|| format!("computing {SET}"));
    let wanted = Selector::new().select(SET).map_err(|e| wrong(&e))?;
    let request = Request::of(&wanted);
    let job = MarketJob {
        input: Input::new([&bars]),
        read: ReadOptions::default(),
        request: &request,
        output: features.clone(),
        write: Options::of(&features).map_err(explained)?,
        with_bars: false,
        options: ExecOptions::default(),
        memory: None,
        check: true,
        progress: None,
    };
    let report = market::run(job).map_err(explained)?;
    shown.say(|| "drawing".to_owned());
    let began = Instant::now();
    let page = folder.join("chart.html");
    draw(&bars, &page)?;
    Ok(Made { bars, features, chart: page, sampled, drawn: began.elapsed().as_secs_f64(), report })
}

fn sample(path: &Path) -> Result<()> {
    let sample = Sample::new(SYMBOLS, Interval::Minute, DAYS * Interval::Minute.per_day(), 1);
    let columns = ["open", "high", "low", "close", "volume"].map(str::to_owned);
    let options = Options::of(path).map_err(explained)?;
    let mut writer = Writer::create(path, &sample.layout(), &columns, &options).map_err(explained)?;
    for bars in sample.series() {
        let values = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume].map(|c| Values::all(c));
        writer.write(bars.symbol.as_ref(), &bars.time, &values).map_err(explained)?;
    }
    writer.finish().map_err(explained)?;
    Ok(())
}

/// The first symbol's last days.
fn draw(bars: &Path, page: &Path) -> Result<()> {
    let (layout, all, _) = read(&Input::new([bars]), ReadOptions::default()).map_err(explained)?;
    let first: Bars = all.into_iter().next().context("the sample has no symbol")?;
    let seconds = layout.seconds(&first.time);
    let wanted = Selector::new().select(DRAWN).map_err(|e| wrong(&e))?;
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
    chart::write(page, drawn.html().as_bytes())
}

fn story(made: &Made, total: f64) -> String {
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
    line("together", total, "");
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
