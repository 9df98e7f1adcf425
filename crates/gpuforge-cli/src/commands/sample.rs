//! `gpuforge sample`: synthetic bars from a seed.

use std::{path::Path, time::Instant};

use anyhow::Result;
use gpuforge::frame::{
    FrameError,
    sample::{Interval, Sample},
    write::{ColumnValues, WriteOptions, WriteSummary, Writer},
};
use serde_json::json;

use crate::{
    args::market::{self, BarInterval},
    bars::frame_error,
    context::Context,
    error::Hinted,
    format::{plural, size, width, wrap},
    output::DIM,
    progress::Progress,
};

/// Names of the columns after the keys.
const COLUMNS: [&str; 5] = ["open", "high", "low", "close", "volume"];

pub(crate) fn run(args: &market::Sample, context: &Context) -> Result<()> {
    let to_stdout = args.output == Path::new("-");
    if to_stdout && context.out.json {
        return Err(Hinted::usage("the bars and --json cannot both go to stdout", "give -o a file").into());
    }
    let sample = parameters(args);
    let began = Instant::now();
    let written = write(&sample, &args.output, context).map_err(frame_error)?;
    let seconds = began.elapsed().as_secs_f64();
    if context.out.json {
        return context.out.json(&json!({
            "path": args.output, "rows": written.rows, "symbols": sample.symbols, "bytes": written.bytes,
            "seconds": seconds,
        }));
    }
    if to_stdout {
        return Ok(());
    }
    context.out.text(&summary(&sample, &args.output, written, seconds, context.out.prints_notes()))
}

fn parameters(args: &market::Sample) -> Sample {
    let interval = match args.interval {
        BarInterval::Minute => Interval::Minute,
        BarInterval::Day => Interval::Day,
    };
    let bars = args.bars.unwrap_or_else(|| args.days.unwrap_or(30) * interval.per_day() as u64);
    Sample {
        splits: args.splits,
        gaps: args.gaps,
        zero_volume: args.zero_volume,
        ..Sample::new(args.symbols as usize, interval, bars as usize, args.seed)
    }
}

fn write(sample: &Sample, path: &Path, context: &Context) -> Result<WriteSummary, FrameError> {
    let columns = COLUMNS.map(str::to_owned);
    let mut writer = Writer::create(path, &sample.layout(), &columns, &WriteOptions::of(path)?)?;
    let progress = Progress::start("generating bars", context.out.prints_notes());
    for (i, bars) in sample.series().enumerate() {
        progress.say(|| format!("generating bars: symbol {} of {}", i + 1, sample.symbols));
        let values =
            [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume].map(|c| ColumnValues::all(c));
        writer.write(bars.symbol.as_ref(), &bars.time, &values)?;
    }
    writer.finish()
}

fn summary(sample: &Sample, path: &Path, written: WriteSummary, seconds: f64, talks: bool) -> String {
    let path = path.display();
    let WriteSummary { rows, bytes } = written;
    let what = format!(
        "{} of {}, {} in {seconds:.2} s: {path}",
        plural(rows, "bar"),
        plural(sample.symbols as u64, "symbol"),
        size(bytes)
    );
    let mut out = wrap(&what, 0, width());
    if talks {
        let next = format!("next: gpuforge indicators {path} -o out.parquet --select set:classic111");
        out.push_str(&format!("{DIM}{next}{DIM:#}\n"));
    }
    out
}
