//! Fixtures of the writer tests: key columns, random walks, reading back.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail; each file uses some"
)]

use arrow::{
    array::{Array as _, AsArray as _, RecordBatch},
    datatypes::{DataType, Float32Type, Float64Type, TimeUnit},
};
use gpuforge_frame::{
    KeySchema, SymbolKey,
    bars::KeyColumn,
    write::{ColumnValues, FileFormat, WriteOptions, WriteSummary, Writer},
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

pub(crate) fn column(name: &str, kind: DataType) -> Option<KeyColumn> {
    Some(KeyColumn { name: name.to_owned(), data_type: kind })
}

pub(crate) fn micros() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub(crate) fn layout() -> KeySchema {
    KeySchema { symbol: column("ticker", DataType::Utf8), time: column("Time", micros()), time_first: false }
}

pub(crate) fn names(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("c{i}")).collect()
}

pub(crate) fn text(symbol: &str) -> SymbolKey {
    SymbolKey::Text(symbol.to_owned())
}

/// Numbers that look like indicators of a random walk: many digits, slowly moving.
pub(crate) fn walk(rows: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = 100.0;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value += (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        value
    };
    (0..rows).map(|_| next()).collect()
}

pub(crate) fn read(path: &Path) -> Vec<RecordBatch> {
    let file = File::open(path).unwrap();
    match FileFormat::of(path).unwrap() {
        FileFormat::Parquet => {
            let reader =
                ParquetRecordBatchReaderBuilder::try_new(file).unwrap().with_batch_size(1 << 20).build();
            reader.unwrap().map(Result::unwrap).collect()
        }
        FileFormat::Ipc => {
            arrow::ipc::reader::FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect()
        }
        FileFormat::Csv => panic!("text is compared as text"),
    }
}

/// All rows of a file as one batch.
pub(crate) fn whole(path: &Path) -> RecordBatch {
    let batches = read(path);
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn listed(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Writes `parts` of each symbol in turn; every column has its own number of rows without a value.
pub(crate) fn write_all(
    path: &Path,
    options: &WriteOptions,
    symbols: usize,
    rows: usize,
    columns: usize,
    part: usize,
) -> WriteSummary {
    let mut writer = Writer::create(path, &layout(), &names(columns), options).unwrap();
    for s in 0..symbols {
        let key = text(&format!("S{s}"));
        let times: Vec<i64> = (0..rows as i64).map(|i| i * 60_000_000).collect();
        let data: Vec<Vec<f64>> = (0..columns).map(|c| walk(rows, (s * 1000 + c) as u64)).collect();
        for from in (0..rows).step_by(part) {
            let to = rows.min(from + part);
            let values: Vec<ColumnValues<'_>> = data
                .iter()
                .enumerate()
                .map(|(c, d)| ColumnValues { values: &d[from..to], valid_from: (c * 7).saturating_sub(from) })
                .collect();
            writer.write(Some(&key), &times[from..to], &values).unwrap();
        }
    }
    writer.finish().unwrap()
}

pub(crate) fn check_all(batch: &RecordBatch, symbols: usize, rows: usize, columns: usize, single: bool) {
    assert_eq!(batch.num_rows(), symbols * rows);
    let schema = batch.schema();
    assert_eq!((schema.field(0).name().as_str(), schema.field(1).name().as_str()), ("ticker", "Time"));
    assert_eq!((schema.field(0).data_type(), schema.field(1).data_type()), (&DataType::Utf8, &micros()));
    for s in 0..symbols {
        for i in [0, rows / 2, rows - 1] {
            assert_eq!(batch.column(0).as_string::<i32>().value(s * rows + i), format!("S{s}"));
        }
        for c in 0..columns {
            let expected = walk(rows, (s * 1000 + c) as u64);
            let cells = batch.column(2 + c).slice(s * rows, rows);
            assert_eq!(cells.null_count(), (c * 7).min(rows), "column {c}");
            for (i, expected) in expected.iter().enumerate().skip(c * 7) {
                assert!(cells.is_valid(i));
                match single {
                    true => assert_eq!(cells.as_primitive::<Float32Type>().value(i), *expected as f32),
                    false => {
                        assert_eq!(cells.as_primitive::<Float64Type>().value(i).to_bits(), expected.to_bits())
                    }
                }
            }
        }
    }
}
