//! Writer: round trips in every format, row groups, key columns, memory and throughput.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail, and says what it measured"
)]

#[path = "write_common/mod.rs"]
mod common;

use arrow::{
    array::{Array as _, AsArray as _},
    datatypes::{DataType, Float64Type, Int64Type, TimeUnit},
};
use common::{check_all, column, directory, layout, listed, names, text, walk, whole, write_all};
use gpuforge_frame::{
    FrameError, KeySchema, SymbolKey,
    sample::{Interval, Sample},
    write::{ColumnValues, FileFormat, WriteOptions, WriteSummary, Writer},
};
use parquet::{
    arrow::arrow_reader::ParquetRecordBatchReaderBuilder,
    basic::{Compression, Encoding},
    file::reader::{FileReader as _, SerializedFileReader},
};
use std::{fs::File, io, path::Path, sync::Arc, time::Instant};

#[test]
fn written_files_read_back_for_any_batches_and_threads() {
    let directory = directory();
    for ending in ["parquet", "arrow"] {
        for (single, threads, row_group, part) in
            [(false, 0, 1 << 16, 5000), (false, 1, 1000, 333), (true, 2, 700, 1), (false, 3, 1, 5000)]
        {
            // A row group for each row is slow; a few of them show the same.
            let rows = if row_group == 1 { 40 } else { 1500 };
            let path = directory.path().join(format!("x.{ending}"));
            let options = WriteOptions {
                single,
                threads,
                row_group,
                ..WriteOptions::new(FileFormat::of(&path).unwrap())
            };
            let written = write_all(&path, &options, 3, rows, 5, part);
            assert_eq!(
                written,
                WriteSummary { rows: 3 * rows as u64, bytes: path.metadata().unwrap().len() }
            );
            check_all(&whole(&path), 3, rows, 5, single);
            assert_eq!(listed(directory.path()).len(), 1, "the temporary file is gone");
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn row_groups_respect_size_limits() {
    let directory = directory();
    let path = directory.path().join("x.parquet");
    let groups = |path: &Path| -> Vec<i64> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.metadata().row_groups().iter().map(|g| g.num_rows()).collect()
    };
    let options = WriteOptions { row_group: 1000, ..WriteOptions::new(FileFormat::Parquet) };
    write_all(&path, &options, 1, 2500, 2, 300);
    assert_eq!(groups(&path), [1000, 1000, 500]);
    // 2000 columns: 96 MiB are 6291 rows; in batches of 1048 that is 6288.
    let columns = names(2000);
    let mut writer =
        Writer::create(&path, &KeySchema::default(), &columns, &WriteOptions::new(FileFormat::Parquet))
            .unwrap();
    let zeros = vec![0.0; 6500];
    writer.write(None, &[], &vec![ColumnValues::all(&zeros); 2000]).unwrap();
    writer.finish().unwrap();
    assert_eq!(groups(&path), [6288, 212]);
}

#[test]
fn parquet_encodings_of_floats_and_keys() {
    let directory = directory();
    let path = directory.path().join("x.parquet");
    write_all(&path, &WriteOptions::new(FileFormat::Parquet), 2, 1000, 2, 1000);
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let group = reader.metadata().row_group(0);
    let [symbol, time, value] = [0, 1, 3].map(|i| group.column(i).clone());
    assert!(symbol.encodings().any(|e| e == Encoding::RLE_DICTIONARY) && symbol.statistics().is_some());
    assert!(time.encodings().any(|e| e == Encoding::DELTA_BINARY_PACKED) && time.statistics().is_some());
    assert!(time.compressed_size() < 1000, "regular times take hardly any room: {}", time.compressed_size());
    assert!(value.dictionary_page_offset().is_none() && value.statistics().is_none());
    assert!(value.encodings().any(|e| e == Encoding::BYTE_STREAM_SPLIT));
    assert!(matches!(value.compression(), Compression::ZSTD(_)));
}

#[test]
fn key_columns_keep_name_type_and_order() {
    let directory = directory();
    let zone = |zone: &str| Some(Arc::<str>::from(zone));
    let kinds = [
        (DataType::Date32, 19_724),
        (DataType::Int64, -5),
        (DataType::Timestamp(TimeUnit::Second, None), 1_704_205_800),
        (DataType::Timestamp(TimeUnit::Millisecond, zone("America/New_York")), 1_704_205_800_000),
        (DataType::Timestamp(TimeUnit::Microsecond, zone("UTC")), 1_704_205_800_000_001),
        (DataType::Timestamp(TimeUnit::Nanosecond, zone("+02:00")), 1_704_205_800_000_000_001),
    ];
    let expected = [
        "2024-01-02",
        "-5",
        "2024-01-02T14:30:00",
        "2024-01-02T09:30:00-05:00",
        "2024-01-02T14:30:00.000001Z",
        "2024-01-02T16:30:00.000000001+02:00",
    ];
    for ((kind, time), iso) in kinds.into_iter().zip(expected) {
        let layout = KeySchema {
            symbol: column("id", DataType::Int64),
            time: column("When", kind.clone()),
            time_first: true,
        };
        for ending in ["parquet", "arrow", "csv"] {
            let path = directory.path().join(format!("k.{ending}"));
            let mut writer =
                Writer::create(&path, &layout, &names(1), &WriteOptions::of(&path).unwrap()).unwrap();
            let values = [ColumnValues::all(&[1.5, f64::NAN])];
            writer.write(Some(&SymbolKey::Number(42)), &[time, time], &values).unwrap();
            writer.finish().unwrap();
            if ending == "csv" {
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(text, format!("When,id,c0\n{iso},42,1.5\n{iso},42,\n"));
                continue;
            }
            let batch = whole(&path);
            let schema = batch.schema();
            assert_eq!(
                schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(),
                ["When", "id", "c0"]
            );
            assert_eq!(schema.field(0).data_type(), &kind);
            assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 42);
            let plain = arrow::compute::cast(batch.column(0), &DataType::Int64);
            let plain = plain.or_else(|_| {
                let days = arrow::compute::cast(batch.column(0), &DataType::Int32)?;
                arrow::compute::cast(&days, &DataType::Int64)
            });
            assert_eq!(plain.unwrap().as_primitive::<Int64Type>().value(1), time);
            let cells = batch.column(2).as_primitive::<Float64Type>();
            assert!(cells.null_count() == 0 && cells.value(1).is_nan(), "a NaN is not a null");
        }
    }
}

#[test]
fn csv_quotes_text_and_leaves_nulls_empty() {
    let directory = directory();
    let columns = ["a,b".to_owned(), "c\"d".to_owned()];
    let mut lines = Vec::new();
    for ending in ["csv", "tsv"] {
        let path = directory.path().join(format!("x.{ending}"));
        let mut writer =
            Writer::create(&path, &layout(), &columns, &WriteOptions::of(&path).unwrap()).unwrap();
        let a = ColumnValues { values: &[9.0, 0.1, -0.0], valid_from: 1 };
        writer
            .write(Some(&text("X,Y")), &[0, 1, 2], &[a, ColumnValues::all(&[1e300, f64::NAN, f64::INFINITY])])
            .unwrap();
        writer
            .write(None, &[3], &[ColumnValues::all(&[1.0]), ColumnValues { values: &[7.0], valid_from: 5 }])
            .unwrap();
        writer.finish().unwrap();
        lines.push(std::fs::read_to_string(&path).unwrap());
    }
    assert_eq!(
        lines[0],
        "ticker,Time,\"a,b\",\"c\"\"d\"\n\"X,Y\",1970-01-01T00:00:00Z,,1e300\n\
         \"X,Y\",1970-01-01T00:00:00.000001Z,0.1,\n\"X,Y\",1970-01-01T00:00:00.000002Z,-0.0,inf\n\
         ,1970-01-01T00:00:00.000003Z,1.0,\n"
    );
    assert!(lines[1].starts_with("ticker\tTime\ta,b\t") && lines[1].contains("\nX,Y\t1970"));
}

#[test]
fn csv_does_not_depend_on_threads_or_batches() {
    let directory = directory();
    let texts: Vec<Vec<u8>> = [(1, 10_000), (2, 17), (0, 999)]
        .map(|(threads, part)| {
            let path = directory.path().join("x.csv");
            let options = WriteOptions { threads, ..WriteOptions::new(FileFormat::Csv) };
            let written = write_all(&path, &options, 2, 3000, 60, part);
            assert_eq!(written.bytes, path.metadata().unwrap().len());
            std::fs::read(path).unwrap()
        })
        .into();
    assert!(texts[0] == texts[1] && texts[0] == texts[2]);
    assert_eq!(texts[0].iter().filter(|b| **b == b'\n').count(), 6001);
}

#[test]
fn empty_file_has_its_columns() {
    let directory = directory();
    for ending in ["parquet", "arrow", "csv"] {
        let path = directory.path().join(format!("empty.{ending}"));
        let mut writer =
            Writer::create(&path, &layout(), &names(2), &WriteOptions::of(&path).unwrap()).unwrap();
        writer.write(Some(&text("A")), &[], &[ColumnValues::all(&[]); 2]).unwrap();
        let written = writer.finish().unwrap();
        assert_eq!((written.rows, written.bytes), (0, path.metadata().unwrap().len()));
        let file = File::open(&path).unwrap();
        match ending {
            "parquet" => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
                assert_eq!(builder.schema().fields().len(), 4);
            }
            "arrow" => {
                let reader = arrow::ipc::reader::FileReader::try_new(file, None).unwrap();
                assert_eq!(reader.schema().fields().len(), 4);
            }
            _ => assert_eq!(std::fs::read_to_string(&path).unwrap(), "ticker,Time,c0,c1\n"),
        }
    }
}

#[test]
fn format_is_chosen_by_extension() {
    for (name, format) in
        [("a.PARQUET", FileFormat::Parquet), ("b.pq", FileFormat::Parquet), ("c.feather", FileFormat::Ipc)]
    {
        assert_eq!(FileFormat::of(Path::new(name)).unwrap(), format);
    }
    assert_eq!(FileFormat::of(Path::new("-")).unwrap(), FileFormat::Csv);
    for name in ["out.xlsx", "out"] {
        let error = FileFormat::of(Path::new(name)).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(".parquet") && error.contains(".tsv"), "{error}");
    }
}

#[test]
fn mismatched_columns_are_rejected_before_writing() {
    let directory = directory();
    let path = directory.path().join("x.csv");
    let options = WriteOptions::new(FileFormat::Csv);
    let create = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        Writer::create(&path, &layout(), &columns, &options)
    };
    for columns in [&["a", "a"][..], &["Time"]] {
        let error = create(columns).unwrap_err().to_string();
        assert!(error.contains("two columns"), "{error}");
    }
    let odd = KeySchema { time: column("t", DataType::Utf8), ..KeySchema::default() };
    assert!(Writer::create(&path, &odd, &[], &options).is_err());
    let bad = WriteOptions { level: 99, ..WriteOptions::new(FileFormat::Parquet) };
    assert!(Writer::create(&path, &layout(), &names(1), &bad).is_err());
    let mut writer = create(&["a"]).unwrap();
    let refused = [
        writer.write(None, &[1], &[]).unwrap_err(),
        writer.write(None, &[1, 2], &[ColumnValues::all(&[1.0])]).unwrap_err(),
        writer.write(Some(&SymbolKey::Number(1)), &[1], &[ColumnValues::all(&[1.0])]).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, FrameError::Usage(_)), "{error}");
    }
    writer.write(None, &[1], &[ColumnValues::all(&[1.0])]).unwrap();
    assert_eq!(writer.finish().unwrap().rows, 1, "a refusal spoils nothing");
    let dates = KeySchema { time: column("d", DataType::Date32), ..KeySchema::default() };
    let mut writer = Writer::create(&path, &dates, &[], &options).unwrap();
    assert!(writer.write(None, &[i64::MAX], &[]).is_err());
}

#[test]
fn sample_bars_round_trip_through_a_file() {
    let directory = directory();
    let sample = Sample::new(3, Interval::Day, 500, 1);
    let path = directory.path().join("bars.parquet");
    let columns = ["close".to_owned()];
    let mut writer =
        Writer::create(&path, &sample.layout(), &columns, &WriteOptions::of(&path).unwrap()).unwrap();
    for bars in sample.series() {
        writer.write(bars.symbol.as_ref(), &bars.time, &[ColumnValues::all(&bars.close)]).unwrap();
    }
    assert_eq!(writer.finish().unwrap().rows, 1500);
    let batch = whole(&path);
    let closes: Vec<f64> = sample.series().flat_map(|b| b.close).collect();
    assert_eq!(batch.column(2).as_primitive::<Float64Type>().values()[..], closes[..]);
}

/// What the child of the next test does: 100 columns, so many times 4096 rows, and the most memory it ever had.
#[test]
fn child_that_reports_peak_memory() {
    let Ok(times) = std::env::var("FORGE_FRAME_TEST_TIMES") else { return };
    let data = walk(4096, 1);
    for format in [FileFormat::Parquet, FileFormat::Ipc, FileFormat::Csv] {
        let options = WriteOptions { row_group: 8192, threads: 2, ..WriteOptions::new(format) };
        let mut writer =
            Writer::over(io::sink(), Path::new("sink"), &KeySchema::default(), &names(100), &options)
                .unwrap();
        for _ in 0..times.parse().unwrap() {
            writer.write(None, &[], &[ColumnValues::all(&data); 100]).unwrap();
        }
        writer.finish().unwrap();
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|l| l.starts_with("VmHWM:")).unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_output() {
    let peak = |times: &str| -> u64 {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_reports_peak_memory", "--nocapture"])
            .env("FORGE_FRAME_TEST_TIMES", times)
            // Arenas of threads grow and shrink by timing; one arena for all makes the peak that of the writer.
            .env("MALLOC_ARENA_MAX", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(child.stdout).unwrap();
        let line = said.lines().find_map(|l| l.split_once("VmHWM:")).expect("a line with the peak").1;
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    // 52 and 210 MB of values in each format. Both hold more row groups than are in flight at once, so both peaks are those
    // of a full pipeline; an output kept in memory would add 157 MB, or 40 MB compressed four to one.
    let (small, large) = (peak("16"), peak("64"));
    println!("{small} kB and {large} kB at most");
    assert!(large < small + 20_000, "{small} kB became {large} kB");
}

/// Prints how fast each format is written; asserts only that it was.
#[test]
fn throughput() {
    let directory = directory();
    let (rows, columns) = if cfg!(debug_assertions) { (4096, 20) } else { (65_536, 100) };
    let sample = Sample::new(1, Interval::Minute, rows, 1);
    let close = sample.series().next().unwrap().close;
    let times: Vec<i64> = (0..rows as i64).map(|i| i * 60_000_000).collect();
    // Exponential means of a price, each with another memory: what indicators look like.
    let data: Vec<Vec<f64>> = (0..columns)
        .map(|c| {
            let mut mean = close[0];
            let mut step = |x: &f64| {
                mean += (x - mean) * 2.0 / (c + 3) as f64;
                mean
            };
            close.iter().map(&mut step).collect()
        })
        .collect();
    let values: Vec<ColumnValues<'_>> =
        data.iter().enumerate().map(|(c, d)| ColumnValues { values: d, valid_from: c }).collect();
    let raw = (rows * columns * 8) as f64;
    for threads in [1, 2] {
        for ending in ["parquet", "arrow", "csv"] {
            let path = directory.path().join(format!("x.{ending}"));
            let options = WriteOptions { threads, ..WriteOptions::of(&path).unwrap() };
            let mut rates = Vec::new();
            let mut bytes = 0;
            for _ in 0..5 {
                let began = Instant::now();
                let mut writer = Writer::create(&path, &layout(), &names(columns), &options).unwrap();
                writer.write(Some(&text("A")), &times, &values).unwrap();
                bytes = writer.finish().unwrap().bytes;
                rates.push(raw / began.elapsed().as_secs_f64() / 1e6);
            }
            rates.sort_by(f64::total_cmp);
            println!(
                "{ending:<8} {threads} thread(s): {:7.0} MB/s of values, {:.2} bytes a value",
                rates[2],
                8.0 * bytes as f64 / raw
            );
            assert!(bytes > 0);
        }
    }
}
