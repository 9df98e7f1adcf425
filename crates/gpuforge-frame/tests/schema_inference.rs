//! Schema inference over real-world layouts and headers: the same bars as under a canonical header, or an error with a hint.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::*;
use gpuforge_frame::{
    Bars,
    column_roles::Role,
    read::{Duplicates, GroupBy, Input, ReadOptions, ReadReport, SymbolSource, read},
};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

const DAYS: i64 = 40;

fn save(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn parquet(dir: &TempDir, name: &str, columns: Vec<(&str, ArrayRef)>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let data =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), data.schema(), None).unwrap();
    writer.write(&data).unwrap();
    writer.close().unwrap();
    path
}

fn options() -> ReadOptions<'static> {
    ReadOptions { needed: vec![Role::Close], ..ReadOptions::default() }
}

fn got(path: impl AsRef<Path>, options: ReadOptions<'_>) -> (Vec<Bars>, ReadReport) {
    let (_, bars, report) = read(&Input::from(path.as_ref()), options).unwrap_or_else(|e| panic!("{e}"));
    (bars, report)
}

fn refused(path: impl AsRef<Path>, options: ReadOptions<'_>) -> String {
    read(&Input::from(path.as_ref()), options).unwrap_err().to_string()
}

fn timed(given: &str) -> ReadOptions<'static> {
    let mut options = options();
    options.mapping.set(Role::Time, given);
    options
}

/// 2024-01-01 and so many days.
fn date(day: i64) -> String {
    let (month, day) = if day < 31 { (1, day + 1) } else { (2, day - 30) };
    format!("2024-{month:02}-{day:02}")
}

fn close(i: i64) -> f64 {
    100.0 + (i * 37 % 11) as f64 + i as f64 / 8.0
}

/// Rows of `header`, the cells in front of the close as told.
fn csv(header: &str, n: i64, front: impl Fn(i64) -> String, backwards: bool) -> String {
    let rows: Vec<i64> = if backwards { (0..n).rev().collect() } else { (0..n).collect() };
    let rows: String = rows.iter().map(|i| format!("{},{}\n", front(*i), close(*i))).collect();
    format!("{header}\n{rows}")
}

fn closes(n: i64) -> Vec<f64> {
    (0..n).map(close).collect()
}

#[test]
fn unnamed_time_column_is_detected_by_values() {
    let dir = TempDir::new().unwrap();
    for header in [",close", "Session,close", "Unnamed: 0,close", "index,close"] {
        let path = save(&dir, "x.csv", &csv(header, DAYS, date, true));
        let (bars, report) = got(&path, options());
        assert_eq!(bars[0].close, closes(DAYS), "{header}: the oldest first");
        assert_eq!((bars[0].time[0], bars[0].time[1]), (19_723, 19_724), "{header}");
        let column = &report.inputs[0].columns[0];
        assert_eq!((column.role, report.sorted_here), (Some("time"), 1), "{header}");
        assert!(column.why.unwrap().contains("by its values"), "{header}");
    }
    let times: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values((0..5).rev().map(|i| i * 60_000_000_000)));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..5).rev().map(close)));
    let path = parquet(&dir, "x.parquet", vec![("close", values), ("__index_level_0__", times)]);
    let (bars, report) = got(&path, options());
    assert_eq!((bars[0].close.clone(), report.time.unwrap().step.as_deref()), (closes(5), Some("1m")));
}

#[test]
fn missing_time_column_is_an_error_unless_untimed() {
    let dir = TempDir::new().unwrap();
    for (header, front) in
        [(",close", (|i| i.to_string()) as fn(i64) -> String), ("note,close", |i| format!("n{i}"))]
    {
        let path = save(&dir, "x.csv", &csv(header, DAYS, front, false));
        let error = refused(&path, options());
        assert!(error.contains("there is no time column") && error.contains("--time NAME"), "{error}");
        assert!(error.contains("--no-time"), "{error}");
        let (bars, _) = got(&path, ReadOptions { untimed: true, ..options() });
        assert_eq!((bars[0].close.clone(), bars[0].time.len()), (closes(DAYS), 0));
    }
    let two = save(&dir, "x.csv", &csv("a,b,close", DAYS, |i| format!("{},{}", date(i), date(i)), false));
    assert!(refused(&two, options()).contains("the time could be `a` or `b`"));
    assert_eq!(got(&two, timed("b")).0[0].close, closes(DAYS));
    let untimed = ReadOptions { untimed: true, needed: vec![Role::Close, Role::Time], ..options() };
    assert!(refused(&two, untimed).contains("--no-time leaves it out"));
}

#[test]
fn date_and_time_of_day_columns_are_joined() {
    let dir = TempDir::new().unwrap();
    let minute = |i: i64| (i / 20, 9 + (i % 20) / 10, 30 + i % 10);
    let day = move |i: i64| date(minute(i).0);
    let clock = move |i: i64| format!("{:02}:{:02}", minute(i).1, minute(i).2);
    let n = 100;
    let stamped =
        save(&dir, "want.csv", &csv("time,close", n, |i| format!("{}T{}", day(i), clock(i)), false));
    let (want, _) = got(&stamped, options());
    type Front = Box<dyn Fn(i64) -> String>;
    let cases: Vec<(&str, &str, Front)> = vec![
        ("Date,Time,close", ",", Box::new(move |i| format!("{},{}", day(i), clock(i)))),
        ("Time,Date,close", ",", Box::new(move |i| format!("{},{}", clock(i), day(i)))),
        ("Date,Timestamp,close", ",", Box::new(move |i| format!("{},{}:00", day(i), clock(i)))),
        (
            "<DATE>,<TIME>,<CLOSE>",
            ",",
            Box::new(move |i| format!("{},{}00", day(i).replace('-', ""), clock(i).replace(':', ""))),
        ),
        (
            "<DATE>,<TIME>,<CLOSE>",
            "\t",
            Box::new(move |i| format!("{},{}:00", day(i).replace('-', "."), clock(i))),
        ),
        ("date,time,close", ",", Box::new(move |i| format!("{},{}", day(i), clock(i).replace(':', "")))),
        ("Date,Local time,close", ";", Box::new(move |i| format!("{} 00:00:00,{} AM", day(i), clock(i)))),
    ];
    for (header, delimiter, front) in &cases {
        for backwards in [false, true] {
            let text = csv(header, n, front, backwards).replace(',', delimiter);
            let (bars, report) = got(save(&dir, "x.csv", &text), options());
            assert_eq!((&bars[0].time, &bars[0].close), (&want[0].time, &want[0].close), "{header}");
            let time = report.time.as_ref().unwrap();
            assert_eq!(
                (time.step.as_deref(), time.first.as_str()),
                (Some("1m"), "2024-01-01T09:30:00"),
                "{header}"
            );
            assert!(report.columns()[0].1.contains('+'), "{:?}", report.columns());
        }
    }
    let text = csv("d,t,close", n, |i| format!("{},{}", day(i), clock(i)), false);
    assert_eq!(got(save(&dir, "x.csv", &text), timed("d+t")).0[0].time, want[0].time);
}

#[test]
fn typed_date_and_time_of_day_columns_are_joined() {
    let dir = TempDir::new().unwrap();
    let close: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let days: [ArrayRef; 4] = [
        Arc::new(Date32Array::from(vec![19_723, 19_723, 19_724])),
        Arc::new(StringArray::from(vec!["2024-01-01", "2024-01-01", "2024-01-02"])),
        Arc::new(Int32Array::from(vec![20_240_101, 20_240_101, 20_240_102])),
        Arc::new(TimestampSecondArray::from(vec![1_704_067_200, 1_704_067_200, 1_704_153_600])),
    ];
    let clocks: [ArrayRef; 3] = [
        Arc::new(Time32SecondArray::from(vec![34_200, 34_260, 34_200])),
        Arc::new(StringArray::from(vec!["09:30:00", "09:31:00", "09:30:00"])),
        Arc::new(Int32Array::from(vec![93_000, 93_100, 93_000])),
    ];
    for day in &days {
        for clock in &clocks {
            let columns = vec![("Date", day.clone()), ("Time", clock.clone()), ("close", close.clone())];
            let (bars, _) = got(parquet(&dir, "x.parquet", columns), options());
            let seconds = [1_704_101_400, 1_704_101_460, 1_704_187_800].map(|s: i64| s * 1_000_000);
            assert_eq!(bars[0].time, seconds, "{} {}", day.data_type(), clock.data_type());
        }
    }
    let columns = vec![("Time", clocks[0].clone()), ("close", close)];
    assert!(refused(parquet(&dir, "x.parquet", columns), options()).contains("times of day and no date"));
}

#[test]
fn time_of_day_without_date_is_an_error() {
    let dir = TempDir::new().unwrap();
    let clock = |i: i64| format!("{:02}:{:02}:00", i / 60, i % 60);
    for header in ["Time,close", "<TIME>,<CLOSE>"] {
        let path = save(&dir, "x.csv", &csv(header, DAYS, clock, false));
        let error = refused(&path, options());
        assert!(error.contains("holds times of day and no date") && error.contains("'DATE+TIME'"), "{error}");
    }
    let digits = save(&dir, "x.csv", &csv("<TIME>,<CLOSE>", DAYS, |i| format!("09{i:02}00"), false));
    assert!(refused(&digits, options()).contains("holds times of day and no date"));
    // Minutes of one day under a date: --duplicates is no way out.
    let path = save(&dir, "x.csv", &csv("Date,close", 500, |_| date(0), false));
    let error = refused(&path, options());
    assert!(
        error.contains("500 rows have 1 different times") && !error.contains("keep one of them"),
        "{error}"
    );
    for duplicates in [Duplicates::First, Duplicates::Last] {
        let error = refused(&path, ReadOptions { duplicates, ..options() });
        assert!(error.contains("all 500 rows have the same time in `Date`"), "{error}");
        assert!(error.contains("--explain-input"), "{error}");
    }
    // Ten rows may be meant, and so may a few duplicates.
    let few = save(&dir, "x.csv", &csv("Date,close", 10, |_| date(0), false));
    let (bars, report) = got(&few, ReadOptions { duplicates: Duplicates::Last, ..options() });
    assert_eq!(
        (bars[0].close.clone(), report.duplicates, report.inputs[0].duplicates),
        (vec![close(9)], 9, 9)
    );
    let some = save(&dir, "x.csv", &csv("Date,close", 12, |i| date(i.min(10)), false));
    assert!(refused(&some, options()).contains("keep one of them: --duplicates first|last"));
}

#[test]
fn monthly_files_are_concatenated_to_one_series() {
    let dir = TempDir::new().unwrap();
    let month = |range: std::ops::Range<i64>| {
        let rows: String = range.map(|i| format!("{},{}\n", date(i), close(i))).collect();
        format!("date,close\n{rows}")
    };
    for (first, second) in [
        ("a/BTCUSDT-1d-2024-01.csv", "a/BTCUSDT-1d-2024-02.csv"),
        ("b/BTCUSDT_20240131.csv", "b/BTCUSDT_20240229.csv"),
        ("BTCUSDT/2024-01.csv", "BTCUSDT/2024-02.csv"),
        ("BTCUSDT/year=2024/part-0.csv", "BTCUSDT/year=2024/part-1.csv"),
    ] {
        let dir = TempDir::new().unwrap();
        save(&dir, first, &month(0..31));
        let second = save(&dir, second, &month(31..DAYS));
        let mut directory = second.parent().unwrap();
        if directory.ends_with("year=2024") {
            directory = directory.parent().unwrap();
        }
        let (bars, report) = got(directory, options());
        assert_eq!((bars.len(), report.symbols, report.files), (1, 1, 2), "{first}");
        assert_eq!(bars[0].symbol.as_ref().unwrap().to_string(), "BTCUSDT", "{first}");
        assert_eq!(bars[0].close, closes(DAYS), "{first}");
    }
    save(&dir, "BTC-1d-2024-01.csv", &month(0..31));
    save(&dir, "ETH-1d-2024-01.csv", &month(0..20));
    save(&dir, "BTC-1d-2024-02.csv", &month(31..DAYS));
    let (bars, _) = got(dir.path().join("*.csv"), options());
    let names: Vec<String> = bars.iter().map(|b| b.symbol.as_ref().unwrap().to_string()).collect();
    assert_eq!((names, bars[0].close.clone()), (vec!["BTC".to_string(), "ETH".to_string()], closes(DAYS)));
    let by = |by: GroupBy| got(dir.path(), ReadOptions { by, ..options() });
    let stems = by(GroupBy::File).0;
    assert_eq!(stems[0].symbol.as_ref().unwrap().to_string(), "BTC-1d-2024-01");
    assert_eq!(stems.len(), 3);
    let error = refused(dir.path(), ReadOptions { by: GroupBy::SingleSeries, ..options() });
    assert!(error.contains("already"), "two symbols in one series: {error}");
}

#[test]
fn hive_partitions_give_symbols() {
    let dir = TempDir::new().unwrap();
    let data = |from: i64| -> Vec<(&str, ArrayRef)> {
        vec![
            ("date", Arc::new(Date32Array::from_iter_values(0..5))),
            ("close", Arc::new(Float64Array::from_iter_values((0..5).map(|i| (from + i) as f64)))),
        ]
    };
    parquet(&dir, "d/symbol=AAPL/part-0.parquet", data(0));
    parquet(&dir, "d/symbol=MSFT/part-0.parquet", data(10));
    parquet(&dir, "d/symbol=BRK%2FB/year=1970/part-0.parquet", data(20));
    let root = dir.path().join("d");
    for input in [root.clone(), dir.path().join("d/**/*.parquet")] {
        let (bars, report) = got(&input, options());
        let names: Vec<String> = bars.iter().map(|b| b.symbol.as_ref().unwrap().to_string()).collect();
        assert_eq!(names, ["AAPL", "BRK/B", "MSFT"], "{}", input.display());
        assert_eq!(bars[1].close, [20.0, 21.0, 22.0, 23.0, 24.0]);
        assert!(report.inputs.iter().all(|f| f.symbol_from == SymbolSource::HiveKey));
    }
    let one = root.join("symbol=MSFT/part-0.parquet");
    assert_eq!(got(&one, options()).0[0].symbol.as_ref().unwrap().to_string(), "MSFT");
    assert_eq!(got(&one, ReadOptions { by: GroupBy::SingleSeries, ..options() }).0[0].symbol, None);
    let by_dir = got(&root, ReadOptions { by: GroupBy::Directory, ..options() }).0;
    assert_eq!(by_dir[0].symbol.as_ref().unwrap().to_string(), "AAPL");
    // A directory of other directories says how they are named.
    let dir = TempDir::new().unwrap();
    parquet(&dir, "AAPL/bars.parquet", data(0));
    assert!(refused(dir.path(), options()).contains("/**/*.parquet"));
    let (bars, _) = got(dir.path().join("**/*.parquet"), ReadOptions { by: GroupBy::Directory, ..options() });
    assert_eq!(bars[0].symbol.as_ref().unwrap().to_string(), "AAPL");
}

#[test]
fn group_by_column_makes_the_series() {
    let dir = TempDir::new().unwrap();
    let text = "time,venue,symbol,close\n1,X,A,1\n1,Y,A,2\n2,X,A,3\n2,Y,A,4\n";
    let path = save(&dir, "x.csv", text);
    assert!(refused(&path, options()).contains("already"));
    let (bars, _) = got(&path, ReadOptions { by: GroupBy::parse("venue"), ..options() });
    assert_eq!((bars[0].close.clone(), bars[1].close.clone()), (vec![1.0, 3.0], vec![2.0, 4.0]));
    assert!(
        refused(&path, ReadOptions { by: GroupBy::parse("vanue"), ..options() }).contains("did you mean")
    );
    assert_eq!(
        [GroupBy::parse("file"), GroupBy::parse("dir"), GroupBy::parse("none")],
        [GroupBy::File, GroupBy::Directory, GroupBy::SingleSeries]
    );
}

#[test]
fn all_rows_skipped_is_an_error_with_reasons() {
    let dir = TempDir::new().unwrap();
    let path = save(&dir, "x.csv", "time,close\n2024-01-01,a\n2024-01-02,b\n2024-01-03,c\n2024-01-04,d\n");
    let error = refused(&path, ReadOptions { skip_bad: true, ..options() });
    assert!(
        error.contains("all 4 were skipped") && error.contains("row 1, column `close`: `a` is not a number"),
        "{error}"
    );
    assert!(error.contains("; …") && !error.contains("`d`"), "{error}");
    let empty = save(&dir, "x.csv", "time,close\n");
    assert_eq!(got(&empty, ReadOptions { skip_bad: true, ..options() }).1.rows, 0, "no rows are no bad rows");
}

#[test]
fn optional_columns_are_read_where_all_files_have_them() {
    let dir = TempDir::new().unwrap();
    save(&dir, "a.csv", "time,close,volume\n1,2,3\n");
    save(&dir, "b.csv", "time,open,close,volume\n1,2,3,4\n");
    let optional = vec![Role::Open, Role::Close, Role::Volume];
    let (bars, report) = got(dir.path(), ReadOptions { needed: Vec::new(), optional, ..options() });
    assert_eq!(
        (bars[1].open.len(), bars[1].close.clone(), bars[1].volume.clone()),
        (0, vec![3.0], vec![4.0])
    );
    assert_eq!(report.columns().len(), 3);
}
