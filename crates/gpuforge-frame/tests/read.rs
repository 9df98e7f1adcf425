//! Files of every format and type give the same bars.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    fs::File,
    io::Cursor,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use arrow::{
    array::*,
    datatypes::*,
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use gpuforge_frame::{
    Bars, KeySchema, SymbolKey,
    column_roles::Role,
    read::{Duplicates, Input, Progress, ReadOptions, ReadReport, Reader, read},
};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

fn save(dir: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn parquet(dir: &TempDir, name: &str, batches: &[RecordBatch]) -> PathBuf {
    let path = dir.path().join(name);
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batches[0].schema(), None).unwrap();
    batches.iter().for_each(|b| writer.write(b).unwrap());
    writer.close().unwrap();
    path
}

fn ipc_file(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|b| writer.write(b).unwrap());
    writer.into_inner().unwrap()
}

fn ipc_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|b| writer.write(b).unwrap());
    writer.into_inner().unwrap()
}

fn closes() -> ReadOptions<'static> {
    ReadOptions { needed: vec![Role::Close], ..ReadOptions::default() }
}

/// Rows in file order.
fn untimed() -> ReadOptions<'static> {
    ReadOptions { untimed: true, ..closes() }
}

fn all(path: impl AsRef<Path>, options: ReadOptions<'_>) -> (KeySchema, Vec<Bars>, ReadReport) {
    read(&Input::from(path.as_ref()), options).unwrap_or_else(|e| panic!("{e}"))
}

fn kind(layout: &KeySchema) -> DataType {
    layout.time.as_ref().unwrap().data_type.clone()
}

fn text(key: &str) -> Option<SymbolKey> {
    Some(SymbolKey::Text(key.to_string()))
}

const CSV: &str = "symbol,time,open,high,low,close,volume\n\
    AA,2024-01-02T09:30:00Z,1,2,0.5,1.5,100\n\
    BB,2024-01-02T09:30:00Z,10,20,5,15,1000\n\
    AA,2024-01-02T09:31:00Z,1.5,3,1,2.25,\n\
    AA,2024-01-02T09:32:00Z,-1,NaN,1e3,2.5,7\n";

/// The rows of `CSV` as a batch.
fn typed() -> RecordBatch {
    let start = 1_704_187_800_000_000_i64;
    let times = [0, 0, 60_000_000, 120_000_000].map(|t| start + t);
    batch(vec![
        ("symbol", Arc::new(StringArray::from(vec!["AA", "BB", "AA", "AA"]))),
        ("time", Arc::new(TimestampMicrosecondArray::from(times.to_vec()).with_timezone("UTC"))),
        ("open", Arc::new(Float64Array::from(vec![1.0, 10.0, 1.5, -1.0]))),
        ("high", Arc::new(Float64Array::from(vec![Some(2.0), Some(20.0), Some(3.0), None]))),
        ("low", Arc::new(Float64Array::from(vec![0.5, 5.0, 1.0, 1000.0]))),
        ("close", Arc::new(Float64Array::from(vec![1.5, 15.0, 2.25, 2.5]))),
        ("volume", Arc::new(Float64Array::from(vec![Some(100.0), Some(1000.0), None, Some(7.0)]))),
    ])
}

/// Equal, with NaN equal to NaN.
fn same(a: &[Bars], b: &[Bars]) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

#[test]
fn csv_is_read_as_bars() {
    let dir = TempDir::new().unwrap();
    let (layout, bars, report) = all(save(&dir, "a.csv", CSV), ReadOptions::default());
    assert_eq!(bars.len(), 2);
    assert_eq!((bars[0].symbol.clone(), bars[1].symbol.clone()), (text("AA"), text("BB")));
    assert_eq!(bars[0].time, [1_704_187_800_000_000, 1_704_187_860_000_000, 1_704_187_920_000_000]);
    assert_eq!((&bars[0].open[..], &bars[0].close[..]), (&[1.0, 1.5, -1.0][..], &[1.5, 2.25, 2.5][..]));
    assert!(bars[0].high[2].is_nan() && bars[0].volume[1].is_nan());
    assert_eq!(bars[1].close, [15.0]);
    assert_eq!(kind(&layout), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    assert_eq!((layout.symbol.unwrap().data_type, layout.time_first), (DataType::Utf8, false));
    let (time, inputs) = (report.time.clone(), report.inputs.clone());
    assert_eq!(report, ReadReport { rows: 4, symbols: 2, files: 1, time, inputs, ..ReadReport::default() });
}

#[test]
fn every_format_reads_the_same_bars_by_magic_bytes() {
    let dir = TempDir::new().unwrap();
    let (layout, bars, _) = all(save(&dir, "a.csv", CSV), ReadOptions::default());
    let typed = [typed()];
    let zstd = Some(CompressionType::ZSTD);
    let files = [
        parquet(&dir, "a.parquet", &typed),
        parquet(&dir, "parquet.csv", &typed),
        save(&dir, "a.arrow", ipc_file(&typed, None)),
        save(&dir, "zstd.feather", ipc_file(&typed, zstd)),
        save(&dir, "lz4.ipc", ipc_file(&typed, Some(CompressionType::LZ4_FRAME))),
        save(&dir, "stream.arrows", ipc_stream(&typed)),
        save(&dir, "no_ending", ipc_stream(&typed)),
    ];
    for file in files {
        let (other_layout, other, _) = all(&file, ReadOptions::default());
        assert!(same(&bars, &other), "{}", file.display());
        assert_eq!(layout, other_layout);
    }
}

#[test]
fn stdin_may_be_any_format() {
    let dir = TempDir::new().unwrap();
    let (_, bars, _) = all(save(&dir, "a.csv", CSV), ReadOptions::default());
    let typed = [typed()];
    let parquet = std::fs::read(parquet(&dir, "a.parquet", &typed)).unwrap();
    for bytes in [CSV.as_bytes().to_vec(), parquet, ipc_file(&typed, None), ipc_stream(&typed)] {
        // In small pieces, as a pipe gives them.
        let pieces =
            bytes.chunks(7).map(|c| Box::new(Cursor::new(c.to_vec())) as Box<dyn std::io::Read + Send>);
        let pipe = pieces.fold(Box::new(std::io::empty()) as Box<dyn std::io::Read + Send>, |all, piece| {
            Box::new(std::io::Read::chain(all, piece))
        });
        let options = ReadOptions { stdin: Some(pipe), ..ReadOptions::default() };
        assert!(same(&bars, &read(&Input::from("-"), options).unwrap().1));
    }
    let twice =
        read(&Input::new(["-", "-"]), ReadOptions { stdin: Some(Box::new(CSV.as_bytes())), ..closes() });
    assert!(twice.unwrap_err().to_string().contains("twice"));
}

#[test]
fn csv_delimiters_quotes_line_ends_and_bom() {
    let dir = TempDir::new().unwrap();
    let texts = [
        "\u{feff}symbol,time,close\r\nA,2024-01-01,1.5\r\n\"B, \"\"x\"\"\",2024-01-02,2\r\n",
        "symbol;time;close\nA;2024-01-01;1.5\nB, \"x\";2024-01-02;2",
        "symbol\ttime\tclose\nA\t2024-01-01\t 1.5 \n\nB, \"x\"\t2024-01-02\t2\n\n",
        "symbol|\"time\"|\"the,close\"|close\nA|2024-01-01||1.5\nB, \"x\"|20240102|\"a\nb|c\"|\"2\"\n",
        "\n\r\nsymbol,time,close,note\nA,2024-01-01,1.5,é\n\"B, \"\"x\"\"\" ,2024-01-02,2,\"\"",
    ];
    for (at, content) in texts.iter().enumerate() {
        let (layout, bars, _) = all(save(&dir, "x.csv", content), closes());
        let found: Vec<_> = bars.iter().map(|b| (b.symbol.clone(), b.time[0], b.close[0])).collect();
        assert_eq!(found, [(text("A"), 19_723, 1.5), (text("B, \"x\""), 19_724, 2.0)], "text {at}");
        assert_eq!(kind(&layout), DataType::Date32);
    }
}

#[test]
fn rows_across_buffer_boundaries_are_whole() {
    // Several blocks of a mebibyte, with rows of odd lengths, quoted cells and a row longer than a block.
    let dir = TempDir::new().unwrap();
    let mut content = String::from("t,note,c\n");
    for i in 0..60_000 {
        let note = match i % 3 {
            0 => "x".repeat(i % 97),
            1 => format!("\"{},\n\"\"{}\"", "y".repeat(i % 31), i),
            _ => String::new(),
        };
        content.push_str(&format!("{i},{note},{}.5\n", i * 2));
        if i == 30_000 {
            content.push_str(&format!("{i}.,\"{}\",1\n", "z".repeat(3 << 20)).replace("30000.", "-1"));
        }
    }
    let (layout, bars, report) = all(save(&dir, "x.csv", &content), closes());
    assert_eq!((kind(&layout), report.rows, report.sorted_here), (DataType::Int64, 60_001, 1));
    assert_eq!((bars[0].time[0], bars[0].close[0]), (-1, 1.0));
    assert!(bars[0].close[1..].iter().enumerate().all(|(i, c)| *c == i as f64 * 2.0 + 0.5));
}

#[test]
fn every_numeric_type_is_read() {
    let dir = TempDir::new().unwrap();
    let decimal = |values: Vec<i128>| Decimal128Array::from(values).with_precision_and_scale(20, 2).unwrap();
    let wide = Decimal256Array::from(vec![i256::from(100), i256::from(200)])
        .with_precision_and_scale(40, 2)
        .unwrap();
    let halves: Float16Array = [1.0, 2.0].into_iter().map(|v| Some(half(v))).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(Int8Array::from(vec![1, 2]))),
        ("i16", Arc::new(Int16Array::from(vec![1, 2]))),
        ("i32", Arc::new(Int32Array::from(vec![1, 2]))),
        ("i64", Arc::new(Int64Array::from(vec![1, 2]))),
        ("u8", Arc::new(UInt8Array::from(vec![1, 2]))),
        ("u64", Arc::new(UInt64Array::from(vec![1, 2]))),
        ("f16", Arc::new(halves)),
        ("f32", Arc::new(Float32Array::from(vec![1.0, 2.0]))),
        ("d128", Arc::new(decimal(vec![100, 200]))),
        ("d256", Arc::new(wide)),
        ("utf8", Arc::new(StringArray::from(vec!["1", " 2.0"]))),
        ("view", Arc::new(StringViewArray::from(vec!["1.0", "2e0"]))),
        ("dictionary", Arc::new(DictionaryArray::<Int32Type>::from_iter(["1", "2"]))),
    ];
    for file in [
        parquet(&dir, "x.parquet", &[batch(columns.clone())]),
        save(&dir, "x.arrow", ipc_file(&[batch(columns.clone())], None)),
    ] {
        for (name, _) in &columns {
            let mut options = untimed();
            options.mapping.set(Role::Close, *name);
            let (layout, bars, _) = all(&file, options);
            assert_eq!(bars[0].close, [1.0, 2.0], "{name}");
            assert_eq!((layout, bars[0].symbol.clone()), (KeySchema::default(), None));
        }
    }
}

fn half(value: f32) -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

#[test]
fn every_time_type_is_read_and_preserved() {
    let dir = TempDir::new().unwrap();
    let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    let cases: Vec<(ArrayRef, DataType, i64)> = vec![
        (Arc::new(Date32Array::from(vec![1, 2])), DataType::Date32, 2),
        (
            Arc::new(Date64Array::from(vec![86_400_000, 172_800_000])),
            stamp(TimeUnit::Millisecond, None),
            172_800_000,
        ),
        (Arc::new(TimestampSecondArray::from(vec![1, 2])), stamp(TimeUnit::Second, None), 2),
        (Arc::new(TimestampMillisecondArray::from(vec![1, 2])), stamp(TimeUnit::Millisecond, None), 2),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1, 2]).with_timezone("America/New_York")),
            stamp(TimeUnit::Nanosecond, Some("America/New_York")),
            2,
        ),
        (Arc::new(Int32Array::from(vec![1, 2])), DataType::Int64, 2),
        (Arc::new(UInt64Array::from(vec![1, 2])), DataType::Int64, 2),
        (Arc::new(StringArray::from(vec!["1970-01-02", "1970-01-03"])), DataType::Date32, 2),
        (
            Arc::new(LargeStringArray::from(vec!["1970-01-01 00:00", "1970-01-01T00:00:01.5"])),
            stamp(TimeUnit::Microsecond, None),
            1_500_000,
        ),
        (Arc::new(DictionaryArray::<Int8Type>::from_iter(["19700102", "19700103"])), DataType::Date32, 2),
    ];
    for (array, wanted, last) in cases {
        let from = array.data_type().clone();
        let data = batch(vec![("When", array), ("close", Arc::new(Int32Array::from(vec![5, 6])))]);
        for bytes in [ipc_file(std::slice::from_ref(&data), None), ipc_stream(std::slice::from_ref(&data))] {
            let mut options = closes();
            options.mapping.set(Role::Time, "When");
            let (layout, bars, _) = all(save(&dir, "x.arrow", bytes), options);
            assert_eq!((kind(&layout), bars[0].time[1]), (wanted.clone(), last), "{from}");
            assert_eq!(layout.time.unwrap().name, "When");
        }
    }
}

#[test]
fn symbols_are_text_or_integers() {
    let dir = TempDir::new().unwrap();
    let dictionary: DictionaryArray<Int8Type> = ["b", "a", "b"].into_iter().collect();
    let cases: Vec<(ArrayRef, DataType, [SymbolKey; 2])> = vec![
        (
            Arc::new(StringArray::from(vec!["b", "a", "b"])),
            DataType::Utf8,
            ["b", "a"].map(|k| SymbolKey::Text(k.into())),
        ),
        (
            Arc::new(LargeStringArray::from(vec!["b", "a", "b"])),
            DataType::Utf8,
            ["b", "a"].map(|k| SymbolKey::Text(k.into())),
        ),
        (
            Arc::new(StringViewArray::from(vec!["b", "a", "b"])),
            DataType::Utf8,
            ["b", "a"].map(|k| SymbolKey::Text(k.into())),
        ),
        (
            Arc::new(BinaryArray::from(vec![b"b".as_slice(), b"a", b"b"])),
            DataType::Utf8,
            ["b", "a"].map(|k| SymbolKey::Text(k.into())),
        ),
        (Arc::new(dictionary), DataType::Utf8, ["b", "a"].map(|k| SymbolKey::Text(k.into()))),
        (Arc::new(Int32Array::from(vec![7, -1, 7])), DataType::Int64, [7, -1].map(SymbolKey::Number)),
        (Arc::new(UInt8Array::from(vec![7, 1, 7])), DataType::Int64, [7, 1].map(SymbolKey::Number)),
    ];
    for (array, wanted, keys) in cases {
        let data = batch(vec![
            ("d", Arc::new(Date32Array::from(vec![1, 1, 2])) as ArrayRef),
            ("Ticker", array),
            ("c", Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0]))),
        ]);
        let mut options = closes();
        options.mapping.set(Role::Time, "d");
        let (layout, bars, _) = all(parquet(&dir, "x.parquet", &[data]), options);
        assert_eq!(bars.iter().map(|b| b.symbol.clone().unwrap()).collect::<Vec<_>>(), keys);
        assert_eq!((bars[0].close.clone(), bars[1].close.clone()), (vec![1.0, 3.0], vec![2.0]));
        let symbol = layout.symbol.unwrap();
        assert_eq!((symbol.name.as_str(), symbol.data_type, layout.time_first), ("Ticker", wanted, true));
    }
    let (_, bars, _) = all(save(&dir, "x.csv", "code,close\n000001,2\n1,3\n"), untimed());
    assert_eq!(bars.iter().map(|b| b.symbol.clone()).collect::<Vec<_>>(), [text("000001"), text("1")]);
}

#[test]
fn projection_ignores_other_columns() {
    let dir = TempDir::new().unwrap();
    let (_, bars, _) = all(save(&dir, "x.csv", "close,open\n1,abc\n2,\n"), untimed());
    assert_eq!(
        (bars[0].close.clone(), bars[0].open.clone(), bars[0].time.clone()),
        (vec![1.0, 2.0], vec![], vec![])
    );
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None::<[_; 1]>]);
    let data = batch(vec![
        ("open", Arc::new(lists) as ArrayRef),
        ("close", Arc::new(Int32Array::from(vec![1, 2]))),
        ("high", Arc::new(BooleanArray::from(vec![true, false]))),
    ]);
    for path in [
        parquet(&dir, "x.parquet", std::slice::from_ref(&data)),
        save(&dir, "x.arrow", ipc_file(std::slice::from_ref(&data), None)),
    ] {
        assert_eq!(all(&path, untimed()).1[0].close, [1.0, 2.0]);
        let error = read(&Input::from(path), ReadOptions { needed: vec![Role::High], ..untimed() })
            .unwrap_err()
            .to_string();
        assert!(error.contains("`high` is Boolean, and the high must be numbers"), "{error}");
    }
    let mut twice = ReadOptions { needed: vec![Role::Open, Role::Close], ..untimed() };
    twice.mapping.set(Role::Open, "close");
    let (_, bars, _) = all(save(&dir, "x.csv", "close\n1\n2\n"), twice);
    assert_eq!((bars[0].open.clone(), bars[0].close.clone()), (vec![1.0, 2.0], vec![1.0, 2.0]));
}

#[test]
fn prices_are_scaled_to_the_adjusted_close() {
    let dir = TempDir::new().unwrap();
    let path = save(
        &dir,
        "x.csv",
        "Date,Open,High,Low,Close,Adj Close,Volume\n2024-01-02,8,12,6,10,5,100\n2024-01-03,4,6,3,5,5,200\n",
    );
    let options = || ReadOptions { adjusted: true, ..ReadOptions::default() };
    let (_, bars, _) = all(&path, options());
    let got =
        [&bars[0].open, &bars[0].high, &bars[0].low, &bars[0].close, &bars[0].volume].map(|c| c.to_vec());
    assert_eq!(got, [vec![4.0, 4.0], vec![6.0, 6.0], vec![3.0, 3.0], vec![5.0, 5.0], vec![100.0, 200.0]]);
    let (_, bars, _) = all(&path, ReadOptions { needed: vec![Role::Low], ..options() });
    assert_eq!((bars[0].low.clone(), bars[0].close.clone()), (vec![3.0, 3.0], vec![]));
    let error = read(&Input::from(save(&dir, "y.csv", CSV)), options()).unwrap_err().to_string();
    assert!(error.contains("adjusted_close column is missing"), "{error}");
}

#[test]
fn unsorted_rows_are_sorted_by_time_and_counted() {
    let dir = TempDir::new().unwrap();
    let content =
        "symbol,date,close\nA,2024-01-03,3\nB,2024-01-01,1\nA,2024-01-01,1\nB,2024-01-02,2\nA,2024-01-02,2\n";
    let (_, bars, report) = all(save(&dir, "x.csv", content), closes());
    assert_eq!((bars[0].close.clone(), bars[1].close.clone()), (vec![1.0, 2.0, 3.0], vec![1.0, 2.0]));
    assert!(bars.iter().all(|b| b.time.is_sorted()));
    assert_eq!((report.sorted_here, report.symbols, report.rows), (1, 2, 5));
}

#[test]
fn duplicate_times_follow_the_policy() {
    let dir = TempDir::new().unwrap();
    let content = "symbol,date,close\nA,2024-01-03,3\nA,2024-01-01,1\nB,2024-01-01,9\nA,2024-01-03,4\n";
    let path = save(&dir, "x.csv", content);
    let error = read(&Input::from(&path), closes()).unwrap_err().to_string();
    let wanted = "row 4, column `date`: the time 2024-01-03 of `A` is in row 1 already\n  hint: keep one of them: --duplicates first|last";
    assert!(error.ends_with(wanted), "{error}");
    for (duplicates, last) in [(Duplicates::First, 3.0), (Duplicates::Last, 4.0)] {
        let (_, bars, report) = all(&path, ReadOptions { duplicates, ..closes() });
        assert_eq!((bars[0].close.clone(), report.duplicates, report.rows), (vec![1.0, last], 1, 4));
    }
    let other = save(&dir, "y.csv", "symbol,date,close\nC,2024-01-01,1\nA,2024-01-01,1\n");
    let error = read(&Input::new([path, other.clone()]), ReadOptions { ..closes() });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("row 2")
            && error.contains("is in row 2 of ")
            && error.starts_with(&*other.to_string_lossy()),
        "{error}"
    );
}

#[test]
fn several_files_are_concatenated() {
    let dir = TempDir::new().unwrap();
    save(&dir, "AAA.csv", "date,close\n2024-01-01,1\n2024-01-02,2\n");
    save(&dir, "BBB.csv", "close,date\n3,2024-01-01\n");
    save(&dir, "notes.md", "nothing");
    let names =
        |bars: &[Bars]| bars.iter().map(|b| b.symbol.as_ref().unwrap().to_string()).collect::<Vec<_>>();
    for input in [dir.path().to_path_buf(), dir.path().join("*.csv"), dir.path().join("[AB]*.csv")] {
        let (layout, bars, report) = all(&input, closes());
        assert_eq!(
            (names(&bars), report.files),
            (vec!["AAA".to_string(), "BBB".to_string()], 2),
            "{}",
            input.display()
        );
        assert_eq!((bars[0].close.clone(), bars[1].close.clone()), (vec![1.0, 2.0], vec![3.0]));
        let symbol = layout.symbol.unwrap();
        assert_eq!(
            (symbol.name.as_str(), symbol.data_type, layout.time_first),
            ("symbol", DataType::Utf8, false)
        );
    }
    let one = all(dir.path().join("AAA.csv"), closes());
    assert_eq!(
        (one.1[0].symbol.clone(), one.0.symbol),
        (None, None),
        "a single file has no symbol of its own"
    );
    save(&dir, "[x].csv", "close\n1\n");
    assert_eq!(
        all(dir.path().join("[x].csv"), untimed()).1[0].close,
        [1.0],
        "a name that is there is no pattern"
    );
}

#[test]
fn files_of_different_types_and_formats_are_unified() {
    let dir = TempDir::new().unwrap();
    let close: ArrayRef = Arc::new(Int16Array::from(vec![1, 2]));
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![86_400, 86_401]));
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![5, 6]));
    let days: ArrayRef = Arc::new(Date32Array::from(vec![2, 3]));
    let symbol: ArrayRef = Arc::new(StringArray::from(vec!["A", "A"]));
    let file = |name: &str, time: ArrayRef| {
        parquet(
            &dir,
            name,
            &[batch(vec![("symbol", symbol.clone()), ("time", time), ("close", close.clone())])],
        )
    };
    let csv = save(&dir, "d.csv", "ticker,timestamp,last\nA,1970-01-05 00:00:00.25,2.5\n");
    let input =
        Input::new([file("a.parquet", seconds), file("b.parquet", nanos), file("c.parquet", days), csv]);
    let (layout, bars, report) = read(&input, closes()).unwrap();
    assert_eq!(kind(&layout), DataType::Timestamp(TimeUnit::Nanosecond, None));
    let day = 86_400_000_000_000_i64;
    assert_eq!(bars[0].time, [5, 6, day, day + 1_000_000_000, 2 * day, 3 * day, 4 * day + 250_000_000]);
    assert_eq!((report.rows, report.files, report.sorted_here), (7, 4, 1));
}

#[test]
fn incompatible_files_are_both_named() {
    let dir = TempDir::new().unwrap();
    let data = |symbol: ArrayRef, time: ArrayRef, close: ArrayRef| {
        batch(vec![("symbol", symbol), ("time", time), ("close", close)])
    };
    let names = || Arc::new(StringArray::from(vec!["A"])) as ArrayRef;
    let numbers = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let stamps = || Arc::new(TimestampSecondArray::from(vec![1])) as ArrayRef;
    let zoned = || Arc::new(TimestampSecondArray::from(vec![1]).with_timezone("UTC")) as ArrayRef;
    let cases = [
        ("close", data(names(), stamps(), numbers()), data(names(), stamps(), names())),
        ("symbol", data(names(), stamps(), numbers()), data(numbers(), stamps(), numbers())),
        ("time", data(names(), stamps(), numbers()), data(names(), numbers(), numbers())),
        ("time", data(names(), stamps(), numbers()), data(names(), zoned(), numbers())),
    ];
    for (what, a, b) in cases {
        let input = Input::new([parquet(&dir, "first.parquet", &[a]), parquet(&dir, "second.parquet", &[b])]);
        let error = Reader::open(&input, closes()).err().unwrap().to_string();
        assert!(error.contains("first.parquet") && error.contains("second.parquet"), "{error}");
        assert!(error.contains(&format!("the {what} is")), "{error}");
    }
    let input = Input::new([save(&dir, "a.csv", "time,close\n1,2\n"), save(&dir, "b.csv", "close\n2\n")]);
    let error = Reader::open(&input, closes()).err().unwrap().to_string();
    assert!(error.contains("b.csv: there is no time column") && error.contains("--no-time"), "{error}");
}

#[test]
fn progress_reaches_the_total() {
    let dir = TempDir::new().unwrap();
    let rows = 200_000;
    let close: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(f64::from)));
    let path = parquet(&dir, "x.parquet", &[batch(vec![("close", close)])]);
    let size = std::fs::metadata(&path).unwrap().len();
    let told = Mutex::new(Vec::new());
    let tell = |progress: Progress| told.lock().unwrap().push(progress);
    let (_, bars, _) = all(&path, ReadOptions { progress: Some(&tell), ..untimed() });
    assert_eq!(bars[0].close.len(), rows as usize);
    let told = told.into_inner().unwrap();
    assert!(told.len() >= 3 && told.is_sorted_by_key(|p| (p.rows, p.bytes)));
    let end =
        Progress { rows: rows as u64, total_rows: Some(rows as u64), bytes: size, total_bytes: Some(size) };
    assert_eq!(told.last(), Some(&end));
}

#[test]
fn extreme_values_and_sizes_are_read() {
    let dir = TempDir::new().unwrap();
    let (layout, bars, report) = all(save(&dir, "x.csv", "symbol,time,close\n"), closes());
    assert_eq!(
        (bars.len(), report.rows, kind(&layout)),
        (0, 0, DataType::Timestamp(TimeUnit::Microsecond, None))
    );
    let (_, bars, _) = all(save(&dir, "x.csv", "close"), untimed());
    assert!(bars.is_empty());
    let none = typed().slice(0, 0);
    for path in [
        parquet(&dir, "x.parquet", std::slice::from_ref(&none)),
        save(&dir, "x.arrow", ipc_file(&[none], None)),
    ] {
        assert_eq!(all(&path, ReadOptions::default()).2.symbols, 0);
    }
    let (_, bars, report) = all(save(&dir, "x.csv", "symbol,time,close\nA,2024-01-01,1\n"), closes());
    assert_eq!((bars[0].len(), report.symbols), (1, 1));
    // A thousand symbols interleaved, over several batches and row groups.
    let n = 150_000;
    let symbols: ArrayRef = Arc::new(Int32Array::from_iter_values((0..n).map(|i| (i * 7) % 1000)));
    let time: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n).map(i64::from)));
    let close: ArrayRef = Arc::new(Int32Array::from_iter_values(0..n));
    let data = batch(vec![("symbol", symbols), ("time", time), ("close", close)]);
    let slices: Vec<_> = (0..3).map(|i| data.slice(i * 50_000, 50_000)).collect();
    for path in [
        parquet(&dir, "x.parquet", &slices),
        save(&dir, "x.arrow", ipc_file(&slices, None)),
        save(&dir, "y.arrow", ipc_stream(&slices)),
    ] {
        let (_, bars, _) = all(&path, closes());
        assert_eq!(bars.len(), 1000);
        assert!(
            bars.iter()
                .all(|b| b.time.len() == 150 && b.time.iter().zip(&b.close).all(|(t, c)| *t as f64 == *c))
        );
        assert_eq!(bars[1].symbol, Some(SymbolKey::Number(7)), "in the order of first appearance");
    }
}
