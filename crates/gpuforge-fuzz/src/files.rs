//! File check: write bars, compute file to file under a memory limit that splits symbols, read back, compare with the oracle.

use std::{collections::HashMap, path::Path};

use gpuforge::{
    frame::{
        SymbolKey,
        read::{Input, ReadOptions},
        sample::{Interval, Sample},
        write::{ColumnValues, WriteOptions, Writer},
    },
    indicators::exec::ExecOptions,
    market::{self, MarketJob, Request},
};

use crate::{
    bars::Dataset,
    compare::{Mismatch, Tolerance, first_difference},
    cpu::Failure,
    oracle::Oracle,
    selection::Selection,
};

/// Price columns of a bar file.
const PRICES: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// Writes a dataset as one bar file; symbols are `S0`, `S1`, ….
pub fn write_bars(data: &Dataset, path: &Path) -> Result<(), String> {
    let layout = Sample::new(1, Interval::Minute, 1, 1).layout();
    let per_second = layout.seconds(&[1]).first().map_or(1.0, |second| 1.0 / second);
    let fail = |e: gpuforge::frame::FrameError| e.to_string();
    let options = WriteOptions::of(path).map_err(fail)?;
    let mut writer = Writer::create(path, &layout, &PRICES.map(str::to_owned), &options).map_err(fail)?;
    for (at, series) in data.series.iter().enumerate() {
        let times: Vec<i64> = series.time.iter().map(|t| (*t * per_second).round() as i64).collect();
        let values: Vec<ColumnValues<'_>> = series.prices.iter().map(|c| ColumnValues::all(c)).collect();
        writer.write(Some(&SymbolKey::Text(format!("S{at}"))), &times, &values).map_err(fail)?;
    }
    writer.finish().map_err(fail).map(|_| ())
}

/// Runs a selection from file to file in `directory`, with a memory limit in bytes.
pub fn check(
    selection: &Selection,
    data: &Dataset,
    memory: u64,
    directory: &Path,
    oracle: &mut Oracle,
) -> Result<(), Failure> {
    let (input, output) = (directory.join("bars.parquet"), directory.join("out.csv"));
    write_bars(data, &input).map_err(Failure::Refused)?;
    let request = Request::of(&selection.wanted().map_err(Failure::Refused)?);
    let write = WriteOptions::of(&output).map_err(|e| Failure::Refused(e.to_string()))?;
    let job = MarketJob {
        input: Input::new([input]),
        read: ReadOptions::default(),
        request: &request,
        output: output.clone(),
        write,
        with_bars: false,
        options: ExecOptions::with_threads(1),
        memory: Some(memory),
        check: false,
        progress: None,
    };
    market::run(job).map_err(|e| Failure::Refused(e.to_string()))?;
    let got = read_back(&output).map_err(Failure::Refused)?;
    for term in &selection.terms {
        let expected = oracle.expected(selection, term, data).map_err(Failure::Refused)?;
        for (at, name) in expected.names.iter().enumerate() {
            let column = got.columns.get(name).ok_or_else(|| Failure::Missing(name.clone()))?;
            for (series, want) in expected.series.iter().enumerate() {
                let rows = got.symbols.iter().zip(column).filter(|(s, _)| **s == series).map(|(_, x)| *x);
                let rows: Vec<f64> = rows.collect();
                let want = want.get(at).map_or(&[] as &[f64], Vec::as_slice);
                if let Some((bar, got, want)) = first_difference(&rows, want, Tolerance::Bits) {
                    return Err(Failure::Wrong(Mismatch { column: name.clone(), series, bar, got, want }));
                }
            }
        }
    }
    Ok(())
}

/// An output file read back.
struct Table {
    symbols: Vec<usize>,
    columns: HashMap<String, Vec<f64>>,
}

fn read_back(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().ok_or("an empty file")?.split(',').collect();
    let mut table = Table { symbols: Vec::new(), columns: HashMap::new() };
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    for line in lines {
        for ((name, column), cell) in names.iter().zip(&mut columns).zip(line.split(',')) {
            match *name {
                "symbol" => {
                    let at = cell.trim_start_matches('S').parse().map_err(|_| format!("symbol {cell}"))?;
                    table.symbols.push(at);
                }
                "time" => {}
                _ if cell.is_empty() => column.push(f64::NAN),
                _ => column.push(cell.parse().map_err(|_| format!("{name}: {cell}"))?),
            }
        }
    }
    table.columns = names.into_iter().map(str::to_owned).zip(columns).collect();
    Ok(table)
}
