//! `gpuforge sample`: makes bars to try things with.

use std::{path::Path, time::Instant};

use anyhow::Result;
use gpuforge::frame::{
    FrameError,
    sample::{Interval, Sample},
    write::{Options, Values, Writer, Written},
};
use serde_json::json;

use crate::{
    args::{self, BarInterval},
    bars::explained,
    context::Context,
    error::Hinted,
    format::{size, width, wrap},
    output::DIM,
    progress::Progress,
};

/// What the columns after the keys are called.
const COLUMNS: [&str; 5] = ["open", "high", "low", "close", "volume"];

pub(crate) fn run(args: &args::Sample, context: &Context) -> Result<()> {
    let to_stdout = args.output == Path::new("-");
    if to_stdout && context.out.json {
        return Err(Hinted::usage("the bars and --json cannot both go to stdout", "give -o a file").into());
    }
    let sample = recipe(args);
    let began = Instant::now();
    let written = write(&sample, &args.output, context).map_err(explained)?;
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
    context.out.text(&summary(&sample, &args.output, written, seconds, context.out.talks()))
}

fn recipe(args: &args::Sample) -> Sample {
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

fn write(sample: &Sample, path: &Path, context: &Context) -> Result<Written, FrameError> {
    let columns = COLUMNS.map(str::to_owned);
    let mut writer = Writer::create(path, &sample.layout(), &columns, &Options::of(path)?)?;
    let progress = Progress::start("making bars", context.out.talks());
    for (i, bars) in sample.series().enumerate() {
        progress.say(|| format!("making bars: symbol {} of {}", i + 1, sample.symbols));
        let values = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume].map(|c| Values::all(c));
        writer.write(bars.symbol.as_ref(), &bars.time, &values)?;
    }
    writer.finish()
}

fn summary(sample: &Sample, path: &Path, written: Written, seconds: f64, talks: bool) -> String {
    let path = path.display();
    let Written { rows, bytes } = written;
    let what =
        format!("{rows} bars of {} symbols, {} in {seconds:.2} s: {path}", sample.symbols, size(bytes));
    let mut out = wrap(&what, 0, width());
    if talks {
        let next = format!("next: gpuforge indicators {path} -o out.parquet --select set:classic111");
        out.push_str(&format!("{DIM}{next}{DIM:#}\n"));
    }
    out
}
