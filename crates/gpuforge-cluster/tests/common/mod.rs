//! Fixtures: bars of uneven symbols in a file, and the columns that `gpuforge indicators` computes of them.
#![allow(dead_code, reason = "every test file uses a part")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{
        Array as _, ArrayRef, AsArray as _, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    },
    compute::cast,
    datatypes::{DataType, Float64Type, Int64Type},
};
use gpuforge::{
    frame::{
        read::{Input, ReadOptions},
        write::WriteOptions,
    },
    indicators::{exec::ExecOptions, select::Selector},
    market::{self, MarketJob, Request},
};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

/// Selection that covers every kind of kernel, several inputs, several outputs.
pub(crate) const SELECT: &str =
    "rsi(14), macd(12,26,9), bbands(20,2,2), atr(14), obv, adx(14), sma(50), ema(20), stoch(14,3,3), max(20)";

/// Symbols of uneven length, one far larger than the rest.
pub(crate) fn uneven() -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = (0..37).map(|i| (format!("S{i:02}"), 20 + i * 13 % 211)).collect();
    all.extend([("ONE".to_owned(), 1), ("TWO".to_owned(), 2), ("a symbol with a long name".to_owned(), 77)]);
    all.push(("HUGE".to_owned(), 20_000));
    all
}

/// Deterministic pseudo-random number (splitmix64).
fn noise(seed: u64) -> f64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Bars of these symbols, rows shuffled.
pub(crate) fn bars(symbols: &[(String, usize)]) -> RecordBatch {
    let mut rows: Vec<(u64, &str, i64, f64)> = Vec::new();
    for (at, (symbol, n)) in symbols.iter().enumerate() {
        let mut price = 100.0 + at as f64;
        for bar in 0..*n {
            let seed = (at as u64) << 32 | bar as u64;
            price *= 1.0 + 0.02 * (noise(seed) - 0.5);
            rows.push(((noise(seed ^ 77) * 1e15) as u64, symbol, bar as i64 * 60_000_000, price));
        }
    }
    rows.sort_unstable_by_key(|r| r.0);
    table(&rows.iter().map(|r| (r.1, r.2, r.3)).collect::<Vec<_>>())
}

/// A table of symbols, times and closes; the other columns follow from those.
pub(crate) fn table(rows: &[(&str, i64, f64)]) -> RecordBatch {
    let symbol: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.0)));
    let ts: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|r| r.1)));
    let column = |of: fn(i64, f64) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| of(r.1, r.2))))
    };
    RecordBatch::try_from_iter([
        ("symbol", symbol),
        ("ts", ts),
        ("open", column(|t, c| c - 0.1 + 0.2 * noise(t as u64))),
        ("high", column(|t, c| c + 0.3 + noise(t as u64 ^ 1))),
        ("low", column(|t, c| c - 0.3 - noise(t as u64 ^ 2))),
        ("close", column(|_, c| c)),
        ("volume", column(|t, _| (1000.0 * noise(t as u64 ^ 3)).floor())),
    ])
    .unwrap()
}

/// Writes a table with small row groups, so that a scan can be partitioned.
pub(crate) fn write(path: &Path, batch: &RecordBatch) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2048)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Rows by symbol and time, values as bits; `None` is null.
pub(crate) type RowsByKey = BTreeMap<(String, i64), Vec<Option<u64>>>;

/// The rows of these batches: keys, and every other column that is asked for.
pub(crate) fn rows(batches: &[RecordBatch], columns: &[String]) -> RowsByKey {
    let mut all = RowsByKey::new();
    for batch in batches {
        let symbols = cast(batch.column_by_name("symbol").unwrap(), &DataType::Utf8).unwrap();
        let times = cast(batch.column_by_name("ts").unwrap(), &DataType::Int64).unwrap();
        let values: Vec<_> = columns
            .iter()
            .map(|name| {
                let found = batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
                found.as_primitive::<Float64Type>().clone()
            })
            .collect();
        for row in 0..batch.num_rows() {
            let key = (
                symbols.as_string::<i32>().value(row).to_owned(),
                times.as_primitive::<Int64Type>().value(row),
            );
            let cells = values.iter().map(|c| c.is_valid(row).then(|| c.value(row).to_bits())).collect();
            assert!(all.insert(key.clone(), cells).is_none(), "{key:?} came twice");
        }
    }
    all
}

/// Reads a Parquet file.
pub(crate) fn read(path: &Path) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 8192).unwrap();
    reader.map(Result::unwrap).collect()
}

/// What `gpuforge indicators` computes from a file, and the names of the columns.
pub(crate) fn expected(input: &Path, select: &str) -> (RowsByKey, Vec<String>) {
    let request = Request::of(&Selector::new().select(select).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("expected.parquet");
    let job = MarketJob {
        input: Input::from(input),
        read: ReadOptions::default(),
        request: &request,
        write: WriteOptions::of(&output).unwrap(),
        output: output.clone(),
        with_bars: false,
        options: ExecOptions::default(),
        memory: None,
        check: false,
        progress: None,
    };
    market::run(job).unwrap();
    let columns = request.selection.columns.clone();
    (rows(&read(&output), &columns), columns)
}

/// A file of uneven bars in a directory of its own.
pub(crate) struct Bars {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Bars {
    pub(crate) fn new(symbols: &[(String, usize)]) -> Bars {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bars.parquet");
        write(&path, &bars(symbols));
        Bars { dir, path }
    }

    pub(crate) fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The same bars in a directory, beside a file that has columns and no rows: a symbol that has not traded yet.
    pub(crate) fn with_empty_file(&self) -> String {
        let directory = self.dir.path().join("several");
        std::fs::create_dir(&directory).unwrap();
        std::fs::copy(&self.path, directory.join("bars.parquet")).unwrap();
        write(&directory.join("none.parquet"), &bars(&[]));
        format!("{}/", directory.to_str().unwrap())
    }
}
