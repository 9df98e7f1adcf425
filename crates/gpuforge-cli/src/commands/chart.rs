//! `gpuforge chart INPUT -o FILE --select …`: bars with indicators as a picture or a page.

use std::{
    io::{Cursor, Read as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use gpuforge::{
    chart::{
        CandleAggregation, Chart, ChartError, ChartSeries, Mark, PanePlacement, Panel, Theme,
        candlestick_chart, time_axis,
    },
    frame::{
        Bars, FrameError, KeySchema, SymbolKey,
        column_roles::Role,
        read::{ReadOptions, ReadReport, read},
    },
    indicators::{
        catalogue::{self, Group, Indicator},
        exec::{self, ExecOptions},
        select::Selection,
    },
    market::{needed, series},
};
use serde_json::json;

use crate::{
    args::{
        bars::BarFiles,
        market::{self, ThemeName},
    },
    atomic_file,
    bars::{InputRepairs, frame_error, input, read_options, request},
    context::Context,
    error::Hinted,
    format::{escape_control, size},
    output::DIM,
};

pub(crate) fn run(args: &market::Chart, context: &Context) -> Result<()> {
    let kind = ChartFormat::of(&args.output)?;
    let selected = request(&args.select)?.map(|r| r.selection);
    let (layout, mut all, ReadReport { skipped, reasons, duplicates, sorted_here, .. }) =
        load(&args.bars, selected.as_ref())?;
    InputRepairs { skipped, reasons: &reasons, duplicates, sorted_here }.warn(&context.out);
    let bars = choose(&mut all, args.symbol.as_deref())?;
    let RenderedChart { bytes: drawn, bars, max_candles, aggregation } =
        draw(args, &layout, bars, selected.as_ref(), kind)?;
    let bytes = drawn.len() as u64;
    atomic_file::write(&args.output, &drawn)?;
    warn_aggregated(&aggregation, (bars, max_candles), (args, kind), context);
    if context.out.json {
        let columns = selected.map(|s| s.columns).unwrap_or_default();
        return context.out.json(&json!({
            "output": args.output, "bytes": bytes, "columns": columns, "bars": bars,
            "bars_per_candle": aggregation.bars_per_candle, "seconds_per_candle": aggregation.seconds,
        }));
    }
    context.out.text(&format!("{} {DIM}({}){DIM:#}\n", args.output.display(), size(bytes)))
}

/// Warns where a candle stands for several bars.
fn warn_aggregated(
    aggregation: &CandleAggregation,
    (bars, max_candles): (usize, usize),
    (args, kind): (&market::Chart, ChartFormat),
    context: &Context,
) {
    let Some(text) = aggregation.text() else { return };
    let (width, height) = args.size;
    let wide = bars as u64 * u64::from(width) / max_candles.max(1) as u64;
    let hint = match kind {
        ChartFormat::Html => format!(
            "the page says it for its window, and shows each bar when it is zoomed; --last {max_candles} shows less"
        ),
        ChartFormat::Svg | ChartFormat::Png => {
            format!("each bar by itself: --last {max_candles}, or --size {wide}x{height}")
        }
    };
    let what = format!("{text}: {width} pixels have room for {max_candles} candles, there are {bars} bars");
    context.out.warn("chart", &what, Some(&hint));
}

/// Columns that are drawn, the most first: nothing is missing without volumes, and a line needs closes only.
const DRAWN: [&[Role]; 3] = [
    &[Role::Open, Role::High, Role::Low, Role::Close, Role::Volume],
    &[Role::Open, Role::High, Role::Low, Role::Close],
    &[Role::Close],
];

/// The bars, with as many of the columns that can be drawn as there are.
fn load(files: &BarFiles, selected: Option<&Selection>) -> Result<(KeySchema, Vec<Bars>, ReadReport)> {
    let sources = input(files)?;
    // The input may be read several times: stdin is buffered.
    let mut piped = Vec::new();
    if files.inputs.iter().any(|path| path == Path::new("-")) {
        std::io::stdin().read_to_end(&mut piped).context("cannot read the standard input")?;
    }
    let selected = selected.map(needed).unwrap_or_default();
    let [most @ .., least] = DRAWN;
    let read_with = |drawn: &[Role]| -> Result<Result<_, FrameError>> {
        let drawn = drawn.iter().filter(|role| !selected.contains(role));
        let needed = selected.iter().chain(drawn).copied().collect();
        let stdin: Box<dyn std::io::Read + Send> = Box::new(Cursor::new(piped.clone()));
        Ok(read(&sources, ReadOptions { needed, stdin: Some(stdin), ..read_options(files)? }))
    };
    for drawn in most {
        match read_with(drawn)? {
            Err(FrameError::Column { .. }) => {}
            other => return other.map_err(frame_error),
        }
    }
    read_with(least)?.map_err(frame_error)
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChartFormat {
    Html,
    Svg,
    Png,
}

impl ChartFormat {
    fn of(path: &Path) -> Result<ChartFormat> {
        match path.extension().unwrap_or_default().to_string_lossy().to_lowercase().as_str() {
            "html" | "htm" => Ok(ChartFormat::Html),
            "svg" => Ok(ChartFormat::Svg),
            "png" => Ok(ChartFormat::Png),
            _ => {
                let what = format!("{}: a chart is .html, .svg or .png", path.display());
                Err(Hinted::usage(what, "give -o a name with such an ending").into())
            }
        }
    }
}

fn choose(all: &mut Vec<Bars>, symbol: Option<&str>) -> Result<Bars> {
    let name = |bars: &Bars| bars.symbol.as_ref().map(SymbolKey::to_string).unwrap_or_default();
    let at = match symbol {
        None => all.iter().position(|b| !b.is_empty()),
        Some(wanted) => all.iter().position(|b| name(b) == wanted),
    };
    match at {
        Some(at) => Ok(all.swap_remove(at)),
        None => {
            let known: Vec<String> = all.iter().filter(|b| b.symbol.is_some()).map(name).collect();
            let hint = match known.get(..8).unwrap_or(&known) {
                [] => "the input has no symbols: leave --symbol out".to_owned(),
                some => {
                    let more = if known.len() > some.len() { "…" } else { "" };
                    escape_control(&format!("there is {}{more}", some.join(", ")))
                }
            };
            match symbol {
                Some(wanted) => {
                    Err(Hinted::new(escape_control(&format!("no symbol `{wanted}`")), hint).into())
                }
                None => Err(Hinted::new("there are no bars to draw", "the input is empty").into()),
            }
        }
    }
}

fn draw(
    args: &market::Chart,
    layout: &KeySchema,
    bars: Bars,
    selected: Option<&Selection>,
    kind: ChartFormat,
) -> Result<RenderedChart> {
    let seconds = layout.seconds(&bars.time);
    // Indicators are computed over all bars, so that `--last` shows them past their warm-up.
    let columns = match selected {
        Some(s) => {
            exec::run(&s.plan, &[series(&bars, &seconds)], ExecOptions::default()).pop().unwrap_or_default()
        }
        None => Vec::new(),
    };
    let skip = args.last.map_or(0, |n| bars.len().saturating_sub(usize::try_from(n).unwrap_or(usize::MAX)));
    let shown = tail(&bars, skip);
    let names: &[String] = selected.map_or(&[], |s| &s.columns);
    let values: Vec<(&str, &[f64])> = names
        .iter()
        .zip(&columns)
        .map(|(name, column)| (name.as_str(), column.get(skip..).unwrap_or(&[])))
        .collect();
    let time = time_axis(layout, &shown.time);
    let mut chart = candlestick_chart(&time, &shown);
    chart.size = args.size;
    chart.theme = match args.theme {
        ThemeName::Auto => Theme::Auto,
        ThemeName::Light => Theme::Light,
        ThemeName::Dark => Theme::Dark,
    };
    if let Some(title) = &args.title {
        chart.title = title.clone();
    }
    place(&mut chart, &values);
    let bytes = match kind {
        ChartFormat::Html => chart.html().into_bytes(),
        ChartFormat::Svg => chart.svg().into_bytes(),
        ChartFormat::Png => chart.png(f64::from(args.scale)).map_err(png_failed)?,
    };
    let (max_candles, aggregation) = (chart.max_candles(), chart.aggregation());
    Ok(RenderedChart { bytes, bars: shown.len(), max_candles, aggregation })
}

/// A rendered file and its aggregation.
struct RenderedChart {
    bytes: Vec<u8>,
    bars: usize,
    /// Candles that fit the width.
    max_candles: usize,
    aggregation: CandleAggregation,
}

/// A size or scale that no picture can have.
fn png_failed(error: ChartError) -> anyhow::Error {
    frame_error(FrameError::Usage(error.to_string()))
}

pub(crate) fn tail(bars: &Bars, skip: usize) -> Bars {
    let of = |column: &Vec<f64>| column.get(skip..).unwrap_or(&[]).to_vec();
    Bars {
        symbol: bars.symbol.clone(),
        time: bars.time.get(skip..).unwrap_or(&[]).to_vec(),
        open: of(&bars.open),
        high: of(&bars.high),
        low: of(&bars.low),
        close: of(&bars.close),
        volume: of(&bars.volume),
    }
}

/// The indicator that a column comes from: the longest name that it begins with.
fn row_of(column: &str) -> Option<&'static Indicator> {
    let ends = column.match_indices('_').map(|(at, _)| at).chain([column.len()]);
    ends.filter_map(|end| catalogue::find(column.get(..end)?)).next_back()
}

/// Overlays on the prices, or one panel per indicator.
pub(crate) fn place<'a>(chart: &mut Chart<'a>, values: &[(&'a str, &'a [f64])]) {
    let bars = chart.bars;
    for (name, column) in values {
        let row = row_of(name);
        let over = match row.map(|r| r.group) {
            Some(Group::Overlap | Group::Bands | Group::Price) => {
                PanePlacement::guess(column, &bars) == PanePlacement::Overlay
            }
            Some(_) => false,
            None => PanePlacement::guess(column, &bars) == PanePlacement::Overlay,
        };
        if over {
            chart.overlays.push(ChartSeries::new(*name, column));
            continue;
        }
        let title = row.map_or(*name, |r| r.name);
        // Differences of two lines are drawn as bars.
        let mark = if name.ends_with("_hist") { Mark::Histogram } else { Mark::Line };
        let line = ChartSeries::new(*name, column).mark(mark);
        match chart.panels.iter_mut().find(|p| p.title == title) {
            Some(panel) => panel.series.push(line),
            None => {
                chart.panels.push(Panel { series: vec![line], ..panel(title) });
            }
        }
    }
}

/// An empty panel with the customary levels (RSI 30 and 70).
fn panel<'a>(title: &str) -> Panel<'a> {
    let (levels, shaded, bounds): (&[f64], bool, Option<(f64, f64)>) = match title {
        "rsi" | "mfi" => (&[30.0, 70.0], true, Some((0.0, 100.0))),
        "stoch" | "stochf" | "stochrsi" | "ultosc" => (&[20.0, 80.0], true, Some((0.0, 100.0))),
        "willr" => (&[-80.0, -20.0], true, Some((-100.0, 0.0))),
        "cci" => (&[-100.0, 100.0], true, None),
        "adx" | "dx" => (&[25.0], false, Some((0.0, 100.0))),
        "macd" | "ppo" | "apo" | "mom" | "roc" | "trix" | "ao" | "cmo" => (&[0.0], false, None),
        _ => (&[], false, None),
    };
    let band = match levels {
        [low, high] if shaded => Some((*low, *high)),
        _ => None,
    };
    Panel { title: title.to_owned(), series: Vec::new(), levels: levels.to_vec(), band, bounds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_belongs_to_the_longest_name() {
        let of = |column| row_of(column).map(|row| row.name);
        assert_eq!(of("rsi_14"), Some("rsi"));
        assert_eq!(of("macd_12_26_9_signal"), Some("macd"));
        assert_eq!(of("support_resistance_50"), Some("support_resistance"));
        assert_eq!(of("avwap_bands_1_upper_1"), Some("avwap_bands"));
        assert_eq!(of("obv"), Some("obv"));
        assert_eq!(of("mine"), None);
    }
}
