//! Market pipeline: `market::run` writes what `exec::run` computes, whole or streamed, with the input keys, and checked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

use arrow::{
    array::{AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::{DataType, Float32Type, Float64Type, Int64Type, TimeUnit},
};
use gpuforge::{
    frame::{
        Bars, KeySchema, SymbolKey,
        bars::KeyColumn,
        column_roles::Role,
        read::{Input, ReadOptions},
        sample::{Interval, Sample},
        write::{ColumnValues, WriteOptions, Writer},
    },
    indicators::{
        exec::{self, ExecOptions},
        select::Selector,
    },
    market::{MarketJob, MarketReport, QualityProblem, Request, needed, run, series},
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A directory with a file of bars.
struct TestMarket {
    folder: tempfile::TempDir,
    layout: KeySchema,
    all: Vec<Bars>,
}

impl TestMarket {
    fn new(layout: KeySchema, all: Vec<Bars>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bars.parquet");
        let names = ["open", "high", "low", "close", "volume"].map(str::to_owned);
        let mut writer = Writer::create(&path, &layout, &names, &WriteOptions::of(&path).unwrap()).unwrap();
        for bars in &all {
            let columns = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume];
            writer.write(bars.symbol.as_ref(), &bars.time, &columns.map(|c| ColumnValues::all(c))).unwrap();
        }
        writer.finish().unwrap();
        TestMarket { folder, layout, all }
    }

    /// A small market whose symbols have several lengths.
    fn sample(lengths: &[usize]) -> Self {
        let most = lengths.iter().copied().max().unwrap();
        let sample = Sample::new(lengths.len(), Interval::Minute, most, 7);
        let all = sample.series().zip(lengths).map(|(bars, n)| first(&bars, *n)).collect();
        TestMarket::new(sample.layout(), all)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn job<'a>(&self, request: &'a Request, output: &str) -> MarketJob<'a> {
        let output = self.path(output);
        MarketJob {
            input: Input::new([self.path("bars.parquet")]),
            read: ReadOptions::default(),
            request,
            write: WriteOptions::of(&output).unwrap(),
            output,
            with_bars: false,
            options: ExecOptions { threads: 1, ..ExecOptions::default() },
            memory: None,
            check: false,
            progress: None,
        }
    }

    /// What every column should be: symbol after symbol, `None` before the first value.
    fn expected(&self, request: &Request) -> Vec<Vec<Option<u64>>> {
        let plan = &request.selection.plan;
        let mut want = vec![Vec::new(); request.selection.columns.len()];
        for bars in &self.all {
            let seconds = self.layout.seconds(&bars.time);
            let found = exec::run(plan, &[series(bars, &seconds)], ExecOptions::default()).remove(0);
            for ((want, column), start) in want.iter_mut().zip(found).zip(plan.starts()) {
                want.extend(column.iter().enumerate().map(|(t, x)| (t >= *start).then(|| x.to_bits())));
            }
        }
        want
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn first(bars: &Bars, n: usize) -> Bars {
    let of = |column: &Vec<f64>| column[..n].to_vec();
    Bars {
        symbol: bars.symbol.clone(),
        time: bars.time[..n].to_vec(),
        open: of(&bars.open),
        high: of(&bars.high),
        low: of(&bars.low),
        close: of(&bars.close),
        volume: of(&bars.volume),
    }
}

fn request(text: &str) -> Request {
    Request::of(&Selector::new().select(text).unwrap())
}

fn parquet(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// Bits of a column, `None` where it is null.
fn bits(batch: &RecordBatch, name: &str) -> Vec<Option<u64>> {
    let column = batch.column_by_name(name).unwrap_or_else(|| panic!("{name} in {:?}", batch.schema()));
    column.as_primitive::<Float64Type>().iter().map(|x| x.map(f64::to_bits)).collect()
}

fn columns(batch: &RecordBatch, names: &[String]) -> Vec<Vec<Option<u64>>> {
    names.iter().map(|name| bits(batch, name)).collect()
}

#[track_caller]
fn same(got: &[Vec<Option<u64>>], want: &[Vec<Option<u64>>], names: &[String]) {
    assert_eq!((got.len(), want.len()), (names.len(), names.len()));
    for ((got, want), name) in got.iter().zip(want).zip(names) {
        assert_eq!(got.len(), want.len(), "{name}");
        if let Some(row) = (0..got.len()).find(|row| got[*row] != want[*row]) {
            let value = |x: Option<u64>| x.map(f64::from_bits);
            panic!("{name}, row {row}: {:?} instead of {:?}", value(got[row]), value(want[row]));
        }
    }
}

#[test]
fn written_columns_equal_computed_columns() {
    let market = TestMarket::sample(&[900, 30, 1, 500]);
    for text in ["set:classic111", "all"] {
        let request = request(text);
        let report = run(market.job(&request, "out.parquet")).unwrap();
        let MarketReport { rows, symbols, columns: n, bytes, spilled, .. } = report;
        assert_eq!((rows, symbols, n, spilled), (1431, 4, request.selection.columns.len(), false));
        assert_eq!(bytes, market.path("out.parquet").metadata().unwrap().len());
        let batch = parquet(&market.path("out.parquet"));
        let names = &request.selection.columns;
        same(&columns(&batch, names), &market.expected(&request), names);
        let fields: Vec<String> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(fields[..2], ["symbol", "time"]);
        assert_eq!(&fields[2..], names.as_slice());
    }
}

/// Results do not fit, bars do; then neither do the bars. One column looks at everything and has a place in the middle.
#[test]
fn streamed_chunks_equal_the_whole_series() {
    let market = TestMarket::sample(&[60_000, 5, 40_000]);
    let names =
        "rsi(14), ema(50), sma(200), macd, bbands, obv, atr(14), avwap_bands(1), support_resistance(50)";
    let steady = request(names);
    let whole = parquet_of(MarketJob { memory: None, ..market.job(&steady, "whole.parquet") });
    for (memory, spilled) in [(24 << 20, false), (1 << 20, true)] {
        let job = MarketJob { memory: Some(memory), ..market.job(&steady, "parts.parquet") };
        let report = run(job).unwrap();
        assert_eq!((report.spilled, report.rows), (spilled, 100_005), "{memory}");
        assert_eq!(parquet(&market.path("parts.parquet")), whole, "{memory}");
    }
    let ahead = request("rsi(14), avwap_final, sma(200), bbands, close - open");
    let whole = parquet_of(market.job(&ahead, "whole.parquet"));
    let parts = parquet_of(MarketJob { memory: Some(24 << 20), ..market.job(&ahead, "parts.parquet") });
    assert_eq!(parts, whole);
    same(&columns(&parts, &ahead.selection.columns), &market.expected(&ahead), &ahead.selection.columns);
}

fn parquet_of(job: MarketJob<'_>) -> RecordBatch {
    let path = job.output.clone();
    run(job).unwrap();
    parquet(&path)
}

#[test]
fn whole_series_columns_need_all_bars_in_memory() {
    let market = TestMarket::sample(&[60_000]);
    let ahead = request("sma(3), avwap_final");
    std::fs::write(market.path("out.parquet"), "old").unwrap();
    let error = run(MarketJob { memory: Some(1 << 20), ..market.job(&ahead, "out.parquet") })
        .unwrap_err()
        .to_string();
    assert!(error.contains("ZAAA") && error.contains("avwap_final"), "{error}");
    assert!(error.contains("hint: raise --memory-limit"), "{error}");
    assert_eq!(std::fs::read_to_string(market.path("out.parquet")).unwrap(), "old");
    assert_eq!(market.files(), ["bars.parquet", "out.parquet"]);
}

#[test]
fn threads_and_lanes_do_not_change_results() {
    let market = TestMarket::sample(&[700; 11]);
    let request = request("set:classic111");
    let one = parquet_of(market.job(&request, "one.parquet"));
    for (threads, batched) in [(2, None), (2, Some(true)), (3, Some(false))] {
        let how = ExecOptions { threads, batched, ..ExecOptions::default() };
        let mut job = MarketJob { options: how, ..market.job(&request, "other.parquet") };
        job.write.threads = threads;
        assert_eq!(parquet_of(job), one, "{how:?}");
    }
}

#[test]
fn key_columns_keep_names_types_and_order() {
    let zone = Some("America/New_York".into());
    let kinds = [
        DataType::Date32,
        DataType::Int64,
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, zone),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
    ];
    let request = request("sma(2)");
    for (time_first, kind) in [false, true].into_iter().flat_map(|f| kinds.clone().map(|k| (f, k))) {
        let layout = KeySchema {
            symbol: Some(KeyColumn { name: "Ticker".into(), data_type: DataType::Int64 }),
            time: Some(KeyColumn { name: "Date".into(), data_type: kind.clone() }),
            time_first,
        };
        let bars = |id: i64| Bars {
            symbol: Some(SymbolKey::Number(id)),
            time: vec![100, 101, 105],
            open: vec![1.0; 3],
            high: vec![3.0; 3],
            low: vec![0.5; 3],
            close: vec![1.0, 2.0, 4.0],
            volume: vec![9.0; 3],
        };
        let market = TestMarket::new(layout, vec![bars(-7), bars(3)]);
        let batch = parquet_of(market.job(&request, "out.parquet"));
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let keys = if time_first { ["Date", "Ticker"] } else { ["Ticker", "Date"] };
        assert_eq!(names, [keys[0], keys[1], "sma_2"], "{kind}");
        assert_eq!(schema.field_with_name("Date").unwrap().data_type(), &kind);
        let ids = batch.column_by_name("Ticker").unwrap().as_primitive::<Int64Type>();
        assert_eq!(ids.values().as_ref(), [-7, -7, -7, 3, 3, 3]);
        let times = arrow::compute::cast(batch.column_by_name("Date").unwrap(), &DataType::Int64);
        if let Ok(times) = times {
            assert_eq!(times.as_primitive::<Int64Type>().values().as_ref(), [100, 101, 105].repeat(2));
        }
        let value = |x: f64| Some(x.to_bits());
        assert_eq!(bits(&batch, "sma_2"), [None, value(1.5), value(3.0)].repeat(2), "leading null, no NaN");
    }
}

#[test]
fn bars_without_keys_and_single_precision() {
    let bars = Bars { close: (0..50).map(|i| 100.0 + f64::from(i) / 3.0).collect(), ..Bars::default() };
    let empty = vec![f64::NAN; 50];
    let bars = Bars { open: empty.clone(), high: empty.clone(), low: empty.clone(), volume: empty, ..bars };
    let market = TestMarket::new(KeySchema::default(), vec![bars]);
    let request = request("sma(20), ema(5)");
    let mut job = market.job(&request, "out.parquet");
    job.write.single = true;
    // Without a time the order is the caller's word.
    assert!(run(market.job(&request, "out.parquet")).unwrap_err().to_string().contains("--no-time"));
    job.read.untimed = true;
    let batch = parquet_of(job);
    let want = market.expected(&request);
    assert_eq!((batch.num_columns(), batch.num_rows()), (2, 50));
    for (at, want) in want.iter().enumerate() {
        let got: Vec<Option<f32>> = batch.column(at).as_primitive::<Float32Type>().iter().collect();
        let want: Vec<Option<f32>> = want.iter().map(|x| x.map(|b| f64::from_bits(b) as f32)).collect();
        assert_eq!(got, want, "computed in double precision, rounded once");
    }
}

#[test]
fn bars_are_written_if_requested() {
    let market = TestMarket::sample(&[40, 3]);
    let request = request("sma(2)");
    let batch = parquet_of(MarketJob { with_bars: true, ..market.job(&request, "out.parquet") });
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["symbol", "time", "open", "high", "low", "close", "volume", "sma_2"]);
    let of = |column: fn(&Bars) -> &Vec<f64>| -> Vec<Option<u64>> {
        market.all.iter().flat_map(|b| column(b).iter().map(|x| Some(x.to_bits()))).collect()
    };
    assert_eq!(bits(&batch, "open"), of(|b| &b.open));
    assert_eq!(bits(&batch, "volume"), of(|b| &b.volume));
}

#[test]
fn constant_columns_have_a_row_per_bar() {
    let market = TestMarket::sample(&[40, 3]);
    let request = request("1 + 2");
    assert_eq!(needed(&request.selection), [Role::Close]);
    let batch = parquet_of(market.job(&request, "out.parquet"));
    assert_eq!(bits(&batch, "1 + 2"), vec![Some(3f64.to_bits()); 43]);
}

/// Nothing moves in one symbol; in the other one close is 0, which something is divided by.
#[test]
fn constant_and_empty_columns_are_reported() {
    let layout = Sample::new(1, Interval::Day, 1, 1).layout();
    let bars = |name: &str, close: &dyn Fn(usize) -> f64| {
        let close: Vec<f64> = (0..60).map(close).collect();
        let [open, high, low] = [(); 3].map(|()| close.clone());
        let symbol = Some(SymbolKey::Text(name.into()));
        Bars { symbol, time: (0..60).collect(), open, high, low, close, volume: vec![5.0; 60] }
    };
    let market = TestMarket::new(
        layout,
        vec![bars("STILL", &|_| 50.0), bars("ZERO", &|t| if t == 30 { 0.0 } else { 10.0 + (t % 7) as f64 })],
    );
    let text = "sma(5), rsi(14), 1 / close, (close - close) / (close - close), sma(100)";
    let request = request(text);
    for memory in [None, Some(4096)] {
        let job = MarketJob { check: true, memory, ..market.job(&request, "out.parquet") };
        let found = run(job).unwrap().findings.unwrap();
        let found: Vec<(&str, QualityProblem, usize, &str)> =
            found.iter().map(|f| (f.column.as_str(), f.problem, f.symbols, f.example.as_str())).collect();
        let names = &request.selection.columns;
        assert_eq!(
            found,
            [
                ("open, high, low, close", QualityProblem::NotPositive, 1, "ZERO"),
                (names[3].as_str(), QualityProblem::AllNan, 2, "STILL"),
                (names[2].as_str(), QualityProblem::Infinite, 1, "ZERO"),
                ("sma_5", QualityProblem::Constant, 1, "STILL"),
                ("rsi_14", QualityProblem::Constant, 1, "STILL"),
                (names[2].as_str(), QualityProblem::Constant, 1, "STILL"),
                ("sma_100", QualityProblem::TooShort, 0, ""),
            ],
            "{memory:?}"
        );
    }
    let quiet = run(market.job(&request, "out.parquet")).unwrap();
    assert!(quiet.findings.is_none());
}

/// What is found, and where, does not depend on how many bars fit at once.
#[test]
fn findings_do_not_depend_on_chunking() {
    let sample = Sample { gaps: true, zero_volume: true, ..Sample::new(3, Interval::Minute, 6000, 5) };
    let mut all: Vec<Bars> = sample.series().collect();
    let nan = f64::NAN;
    (all[1].close[2500], all[1].close[2501], all[2].high[4000]) = (nan, nan, 1e-3);
    all[2].close[3000..].iter_mut().for_each(|x| *x /= 4.0);
    let market = TestMarket::new(sample.layout(), all);
    let request = request("rsi(14), sma(20), stoch.k, pivot.r1, ema(7000)");
    let found = |memory| {
        run(MarketJob { check: true, memory, ..market.job(&request, "out.parquet") })
            .unwrap()
            .findings
            .unwrap()
    };
    let whole = found(None);
    let of =
        |column: &str, problem| whole.iter().find(|f| (f.column.as_str(), f.problem) == (column, problem));
    let place =
        |column: &str, problem| of(column, problem).map(|f| (f.symbols, f.count, f.first_row.unwrap_or(0)));
    assert_eq!(place("close", QualityProblem::Null), Some((1, 2, 2500)));
    assert_eq!(place("high, low", QualityProblem::HighBelowLow), Some((1, 1, 4000)));
    assert_eq!(place("rsi_14", QualityProblem::Nan).map(|(n, _, row)| (n, row)), Some((1, 2500)));
    assert_eq!(place("close", QualityProblem::Jump).map(|(n, _, row)| (n, row)), Some((1, 3000)));
    assert!(of("time", QualityProblem::Gap).is_some() && of("volume", QualityProblem::ZeroVolume).is_some());
    assert!(of("ema_7000", QualityProblem::TooShort).is_some(), "{whole:?}");
    assert!(
        of("pivot_0_86400_r1", QualityProblem::Nan).is_none(),
        "the first session has no pivot by definition"
    );
    let rsi = of("rsi_14", QualityProblem::Nan).unwrap();
    assert!(
        rsi.first_time.as_deref().is_some_and(|t| t.starts_with("2024-01-")) && rsi.share < rsi.worst_share
    );
    for memory in [1 << 16, 1 << 20] {
        assert_eq!(found(Some(memory)), whole, "{memory}");
    }
}

#[test]
fn progress_reaches_the_last_row() {
    let market = TestMarket::sample(&[3000, 200, 1]);
    let request = request("sma(5)");
    let told = Mutex::new(Vec::new());
    let tell = |rows: u64| told.lock().unwrap().push(rows);
    let job =
        MarketJob { progress: Some(&tell), memory: Some(1 << 16), ..market.job(&request, "out.parquet") };
    let report = run(job).unwrap();
    let told = told.lock().unwrap();
    assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
    assert_eq!(told.last(), Some(&report.rows));
    let seconds = report.seconds;
    assert!(seconds.read + seconds.compute + seconds.write <= seconds.total, "{seconds:?}");
}

#[test]
fn failure_leaves_the_old_output() {
    let market = TestMarket::sample(&[50]);
    let request = request("sma(5), obv");
    std::fs::write(market.path("out.parquet"), "old").unwrap();
    let damaged = std::fs::read(market.path("bars.parquet")).unwrap();
    std::fs::write(market.path("bars.parquet"), &damaged[..damaged.len() / 2]).unwrap();
    let error = run(market.job(&request, "out.parquet")).unwrap_err().to_string();
    assert!(error.contains("bars.parquet") && error.contains("damaged or incomplete"), "{error}");
    assert_eq!(std::fs::read_to_string(market.path("out.parquet")).unwrap(), "old");
    assert_eq!(market.files(), ["bars.parquet", "out.parquet"]);
}
