//! Runs one indicator over some bars of one series, or of eight: the program whose instructions `cargo xtask arm-cost` counts.
//!
//! `arm_cost NAME BARS SERIES [PARAMETER…]`: single series with relaxed floating point unless it is a candlestick pattern, as
//! the Python package calls it. Bars are made for the longest run whatever `BARS` says, so that the difference of two runs is
//! the indicator's alone.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use gpuforge_indicators::{
    catalogue,
    exec::{Columns, ExecOptions, Series, run_into},
    select::{Instance, select},
};
use std::{env, process::ExitCode};

/// Bars that are always made.
const MADE_BARS: usize = 40_000;

/// A seeded random walk in cents.
fn walk(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut price = 10_000i64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        price = (price + (state % 141) as i64 - 70).max(100);
        price as f64 / 100.0
    };
    (0..n).map(step).collect()
}

/// Open, high, low, close, volume. An open is the close before, or near it.
fn bars() -> [Vec<f64>; 5] {
    let close = walk(MADE_BARS, 1);
    let noise = walk(MADE_BARS, 3);
    let near = |(close, noise): (&f64, &f64)| ((close + noise % 1.0 - 0.5) * 100.0).round() / 100.0;
    let open: Vec<f64> = close.iter().zip(&noise).map(near).collect();
    let both = || open.iter().zip(&close).zip(&noise);
    let high = both().map(|((o, c), x)| o.max(*c) + x % 0.25).collect();
    let low = both().map(|((o, c), x)| o.min(*c) - x % 0.5).collect();
    let volume = walk(MADE_BARS, 7).iter().map(|x| (x * 10.0).floor()).collect();
    [open, high, low, close, volume]
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [name, count, series, params @ ..] = arguments else {
        return Err("usage: arm_cost NAME BARS SERIES [PARAMETER…]".to_owned());
    };
    let row = catalogue::find(name).ok_or_else(|| format!("{name} is not in the catalogue"))?;
    let count: usize = count.parse().map_err(|e| format!("{count} bars cannot be parsed: {e}"))?;
    if count > MADE_BARS {
        return Err(format!("{count} bars are asked for, {MADE_BARS} are made"));
    }
    let lanes: usize = series.parse().map_err(|e| format!("{series} series cannot be parsed: {e}"))?;
    let params = params.iter().map(|p| p.parse::<f64>().map_err(|e| format!("{p} is no parameter: {e}")));
    let params = params.collect::<Result<Vec<f64>, String>>()?;
    let selection = select(&[Instance::with(row, &params)]);
    let all = bars();
    let [open, high, low, close, volume] =
        all.each_ref().map(|column| column.get(..count).unwrap_or_default());
    let series = vec![Series { open, high, low, close, volume, time: &[] }; lanes];
    let mut results = vec![vec![vec![0.0; MADE_BARS]; selection.columns.len()]; lanes];
    let mut columns: Vec<Columns<'_>> = results
        .iter_mut()
        .map(|of| of.iter_mut().map(|c| c.get_mut(..count).unwrap_or_default()).collect())
        .collect();
    let relaxed_fp = !name.starts_with("cdl");
    let options = ExecOptions { relaxed_fp, ..ExecOptions::with_threads(1) };
    run_into(&selection.plan, &series, &mut columns, options);
    let last = columns.iter().flatten().filter_map(|column| column.last());
    println!("{}", last.map(f64::to_string).collect::<Vec<_>>().join(" "));
    Ok(())
}
