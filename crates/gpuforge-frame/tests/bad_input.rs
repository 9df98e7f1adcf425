//! Malformed input: errors name the file, the row and the next step; nothing panics.
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

use arrow::{
    array::*,
    datatypes::*,
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use gpuforge_frame::{
    FrameError,
    column_roles::Role,
    read::{Duplicates, Input, ReadOptions, ReadReport, read},
};
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use proptest::prelude::*;
use tempfile::TempDir;

fn save(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn closes() -> ReadOptions<'static> {
    ReadOptions { needed: vec![Role::Close], ..ReadOptions::default() }
}

fn wrong(path: &Path) -> String {
    let error = read(&Input::from(path), closes()).unwrap_err().to_string();
    assert!(error.contains(&*path.to_string_lossy()), "the file is not named: {error}");
    error
}

/// Reads a text without and with `skip_bad`.
fn csv(text: impl AsRef<[u8]>) -> (String, ReadReport, Vec<f64>) {
    let dir = TempDir::new().unwrap();
    let path = save(&dir, "x.csv", text);
    let error = wrong(&path).replace(&*dir.path().to_string_lossy(), "");
    let (_, bars, report) = read(&Input::from(path), ReadOptions { skip_bad: true, ..closes() }).unwrap();
    (error, report, bars.iter().flat_map(|b| b.close.clone()).collect())
}

fn sample() -> RecordBatch {
    let symbol: DictionaryArray<Int32Type> = (0..40).map(|i| if i % 2 == 0 { "AA" } else { "BB" }).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("symbol", Arc::new(symbol)),
        ("time", Arc::new(TimestampMillisecondArray::from_iter_values(0..40))),
        (
            "close",
            Arc::new(Float64Array::from_iter((0..40).map(|i| (i % 9 != 0).then_some(f64::from(i) / 7.0)))),
        ),
        ("note", Arc::new(StringArray::from_iter_values((0..40).map(|i| format!("n{i}"))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn parquet(compression: Compression) -> Vec<u8> {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), sample().schema(), Some(properties)).unwrap();
    writer.write(&sample()).unwrap();
    writer.into_inner().unwrap()
}

fn ipc(compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &sample().schema(), options).unwrap();
    writer.write(&sample()).unwrap();
    writer.into_inner().unwrap()
}

fn stream(compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &sample().schema(), options).unwrap();
    writer.write(&sample()).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn unparsable_cell_is_reported_with_row_and_column() {
    let text = "symbol,time,close\nA,2024-01-01,1\nA,2024-01-02,abc\nA,2024-01-03,3\n";
    let (error, report, closes) = csv(text);
    assert_eq!(
        error,
        "/x.csv: row 2, column `close`: `abc` is not a number\n  hint: correct it, or drop such rows with --skip-bad"
    );
    assert_eq!((report.skipped, report.rows, closes), (1, 2, vec![1.0, 3.0]));
    assert!(
        report.reasons[0].ends_with("row 2, column `close`: `abc` is not a number"),
        "{:?}",
        report.reasons
    );
}

#[test]
fn ragged_rows_are_reported() {
    let (error, report, closes) = csv("time,close,x\n1,1,1\n2,2\n3,3,3,3\n4,4,4\n");
    assert!(error.contains("row 2, column `x`: the row has 2 cells, the header has 3"), "{error}");
    assert_eq!((report.skipped, closes), (2, vec![1.0, 4.0]));
    assert!(report.reasons[1].contains("row 3, column `x`: the row has 4 cells"), "{:?}", report.reasons);
}

#[test]
fn missing_or_unreadable_keys_are_reported() {
    let cases: [(&[u8], &str); 9] = [
        (b"symbol,time,close\nA,1,1\n,2,2\n", "column `symbol`: the symbol is missing"),
        (b"symbol,time,close\nA,1,1\nA,,2\n", "column `time`: the time is missing"),
        (
            b"symbol,time,close\nA,2024-01-01,1\nA,soon,2\n",
            "column `time`: `soon` is not a time: 2024-01-31,",
        ),
        (b"symbol,time,close\nA,2024-01-01,1\nA,09:30,2\n", "`09:30` is not a time"),
        (b"symbol,time,close\nA,2024-01-01,1\nA,17,2\n", "`17` is a plain number"),
        (b"symbol,time,close\nA,2024-01-01T10:00Z,1\nA,2024-01-01T10:00,2\n", "has no time zone"),
        (b"symbol,time,close\nA,1,1\n\xff\xfe,2,2\n", "is not UTF-8"),
        (b"symbol,time,close\nA,1,1\nA,2,\xff\n", "is not a number"),
        (b"symbol,time,close\nA,1,1\n\"A,2,2\nA,3,3\n", "a quote is opened and never closed"),
    ];
    for (text, wanted) in cases {
        let (error, report, closes) = csv(text);
        assert!(error.contains(wanted) && error.contains("row 2") && error.contains("--skip-bad"), "{error}");
        assert_eq!((report.skipped, closes), (1, vec![1.0]), "{wanted}");
    }
    // A type that the first rows decide; the odd one is in front of the many.
    let mut text = "time,close\n".to_string();
    (1..1500).for_each(|i| {
        text.push_str(&format!("{},{i}\n", if i < 1200 { "2024-01-01" } else { "2024-01-01 10:00" }))
    });
    let dir = TempDir::new().unwrap();
    let error = wrong(&save(&dir, "x.csv", text));
    assert!(error.contains("row 1200") && error.contains("has a time of day"), "{error}");
}

#[test]
fn bad_rows_of_typed_files_are_reported() {
    let dir = TempDir::new().unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("symbol", Arc::new(StringArray::from(vec![Some("A"), None, Some("A"), Some("A")]))),
        ("time", Arc::new(TimestampSecondArray::from(vec![Some(1), Some(2), None, Some(4)]))),
        ("close", Arc::new(StringArray::from(vec!["1", "2", "x", "4"]))),
    ];
    let data =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let path = dir.path().join("x.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), data.schema(), None).unwrap();
    writer.write(&data).unwrap();
    writer.close().unwrap();
    let error = wrong(&path);
    assert!(
        error.contains("row 3, column `time`: the time is missing") && error.contains("--skip-bad"),
        "{error}"
    );
    let (_, bars, report) = read(&Input::from(&path), ReadOptions { skip_bad: true, ..closes() }).unwrap();
    assert_eq!(
        (report.skipped, bars[0].close.clone(), bars[0].time.clone()),
        (2, vec![1.0, 4.0], vec![1, 4])
    );
}

#[test]
fn only_the_first_skip_reasons_are_kept() {
    let text = "time,close\n".to_string() + &"1,x\n".repeat(100) + "2,1\n";
    let (_, report, closes) = csv(text);
    assert_eq!((report.skipped, report.reasons.len(), closes), (100, 5, vec![1.0]));
    let (_, report, closes) = csv("symbol,time,close\nA,1,x\nB,1,2\n");
    assert_eq!((report.skipped, report.symbols, closes), (1, 1, vec![2.0]), "a symbol without rows is none");
}

#[test]
fn unsupported_formats_are_named() {
    let dir = TempDir::new().unwrap();
    let cases: [(&str, &[u8], &str); 14] = [
        ("x.csv", b"", "the file is empty"),
        ("x.parquet", b"", "the file is empty"),
        ("x.csv", b"\n\n", "no header line"),
        ("x.csv", b"\xff\xfeo\0p\0e\0n\0", "UTF-16"),
        ("x.csv", b"close,\xe9\n1,2\n", "the header is not UTF-8"),
        ("x.csv", b"\x00\x01\x02", "neither Parquet, Arrow IPC nor text"),
        ("x.csv", b"\x1f\x8b\x08rest", "gzip"),
        ("x.csv", b"PK\x03\x04rest", "ZIP archive"),
        ("x.csv", b"\"open,close\n1,2\n", "a quote in the header"),
        ("x.parquet", b"open,close\n1,2\n", "the first bytes are not `PAR1`"),
        ("x.arrow", b"open,close\n1,2\n", "the first bytes are not `ARROW1`"),
        ("x.parquet", b"PAR1", "damaged or incomplete"),
        ("x.parquet", b"PAR1 this is no Parquet file PAR1", "damaged or incomplete"),
        ("x.csv", b"ARROW1 and no more", "damaged or incomplete"),
    ];
    for (name, bytes, wanted) in cases {
        let error = wrong(&save(&dir, name, bytes));
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn missing_csv_header_is_detected() {
    let dir = TempDir::new().unwrap();
    let error = wrong(&save(&dir, "x.csv", "AA,2024-01-01,1,2,3,4,5\nAA,2024-01-02,1,2,3,4,5\n"));
    assert!(error.contains("there is no header: the first line is data"), "{error}");
    assert!(error.contains("symbol,time,open,high,low,close,volume"), "{error}");
    let error = wrong(&save(&dir, "x.csv", "a,b\nAA,1\n"));
    assert!(error.contains("the close column is missing") && error.contains("found: a, b"), "{error}");
}

#[test]
fn missing_paths_are_errors() {
    let dir = TempDir::new().unwrap();
    assert!(wrong(&dir.path().join("none.csv")).contains("check the path"));
    assert!(wrong(dir.path()).contains("the directory has no data files"));
    assert!(wrong(&dir.path().join("*.csv")).contains("no file matches"));
    let error = read(&Input::from(dir.path().join("a[.csv")), closes()).unwrap_err().to_string();
    assert!(error.contains("a[.csv"), "{error}");
    let nothing = read(&Input::default(), closes()).unwrap_err();
    assert!(matches!(nothing, FrameError::Usage(_)));
    let options = ReadOptions { stdin: Some(Box::new(std::io::empty())), ..closes() };
    assert!(read(&Input::from("-"), options).unwrap_err().to_string().contains("-: the file is empty"));
}

#[test]
fn unclosed_quote_stops_at_the_row_limit() {
    let dir = TempDir::new().unwrap();
    let text = "time,close,note\n1,1,\"".to_string() + &"x\n".repeat(9 << 20);
    let error = wrong(&save(&dir, "x.csv", text));
    assert!(error.contains("row 1 is longer than 16 MiB") && error.contains("quote"), "{error}");
}

#[test]
fn io_error_while_reading_is_reported() {
    struct Broken(u32);
    impl std::io::Read for Broken {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => Err(std::io::ErrorKind::Interrupted.into()),
                2..100 => {
                    let text = if self.0 == 2 { "close\n" } else { "1\n" };
                    to[..text.len()].copy_from_slice(text.as_bytes());
                    Ok(text.len())
                }
                _ => Err(std::io::Error::other("the cable is loose")),
            }
        }
    }
    let error =
        read(&Input::from("-"), ReadOptions { stdin: Some(Box::new(Broken(0))), untimed: true, ..closes() });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot read -: the cable is loose"), "{error}");
}

/// Reads bytes as a file; whatever they are, it ends with bars or an error.
fn survives(dir: &TempDir, name: &str, bytes: &[u8]) -> bool {
    let path = save(dir, name, bytes);
    let options = ReadOptions { duplicates: Duplicates::Last, ..ReadOptions::default() };
    let needed = vec![Role::Close, Role::Time, Role::Symbol];
    match read(&Input::from(path), ReadOptions { needed, ..options }) {
        Ok((_, bars, _)) => bars.iter().all(|b| b.time.len() == b.close.len()),
        Err(error) => {
            assert!(error.to_string().len() < 4000, "{error}");
            false
        }
    }
}

#[test]
fn truncated_files_are_errors() {
    let dir = TempDir::new().unwrap();
    let files = [
        ("x.parquet", parquet(Compression::SNAPPY)),
        ("x.arrow", ipc(None)),
        ("x.arrow", ipc(Some(CompressionType::ZSTD))),
        ("x.arrows", stream(None)),
    ];
    for (name, bytes) in files {
        assert!(survives(&dir, name, &bytes), "{name}");
        let cuts = (0..bytes.len().min(64))
            .chain((64..bytes.len()).step_by(13))
            .chain(bytes.len() - 40..bytes.len());
        for cut in cuts {
            let read = survives(&dir, name, &bytes[..cut]);
            // A stream may end between two messages; the mark of its end is eight bytes.
            assert!(!read || (name == "x.arrows" && cut >= bytes.len() - 8), "{name} cut at {cut}");
        }
    }
}

#[test]
fn corrupted_files_do_not_panic() {
    let dir = TempDir::new().unwrap();
    let files = [
        ("x.parquet", parquet(Compression::UNCOMPRESSED)),
        ("x.parquet", parquet(Compression::SNAPPY)),
        ("x.arrow", ipc(None)),
        ("x.arrow", ipc(Some(CompressionType::ZSTD))),
        ("x.arrow", ipc(Some(CompressionType::LZ4_FRAME))),
        ("x.arrows", stream(None)),
        ("x.arrows", stream(Some(CompressionType::ZSTD))),
    ];
    for (name, bytes) in files {
        // Every byte once, with one of four changes.
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= [0x01, 0x80, 0xff, 0x10][at % 4];
            survives(&dir, name, &changed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_bars_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let dir = TempDir::new().unwrap();
        survives(&dir, "x.csv", &bytes);
    }

    #[test]
    fn any_text_is_bars_or_an_error(text in "(symbol|time|close|[,;\"\n\r0-9A.: -]){0,80}", skip_bad: bool) {
        let dir = TempDir::new().unwrap();
        let path = save(&dir, "x.csv", format!("symbol,time,close\n{text}"));
        let options = ReadOptions { skip_bad, duplicates: Duplicates::First, ..closes() };
        if let Ok((_, bars, report)) = read(&Input::from(path), options) {
            let rows: usize = bars.iter().map(|b| b.len()).sum();
            prop_assert_eq!(rows as u64 + report.duplicates, report.rows);
            prop_assert!(skip_bad || report.skipped == 0);
        }
    }

    #[test]
    fn any_bytes_after_magic_are_an_error(magic in 0_usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let dir = TempDir::new().unwrap();
        let magics: [&[u8]; 3] = [b"PAR1", b"ARROW1\0\0", &[0xff; 4]];
        let ends: [&[u8]; 3] = [b"PAR1", b"ARROW1", b""];
        let all = [magics[magic], &bytes, ends[magic]].concat();
        prop_assert!(!survives(&dir, "x", &all));
    }
}
