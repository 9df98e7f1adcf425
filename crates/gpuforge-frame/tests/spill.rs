//! Spill to disk: inputs larger than the memory budget give the same bars, within that budget.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use arrow::{array::*, datatypes::*};
use gpuforge_frame::{
    Bars, BarsBatch, FrameError,
    column_roles::Role,
    read::{Duplicates, Input, ReadOptions, ReadReport, Reader, read},
};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use tempfile::TempDir;

/// Memory is measured for the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Decoding and buffers, above the memory for bars.
const BESIDES: u64 = 8 << 20;

/// Writes `rows` rows; row `i` is bar `at(i).1` of symbol `at(i).0`.
fn parquet(dir: &TempDir, rows: usize, at: impl Fn(usize) -> (usize, i64)) -> PathBuf {
    let path = dir.path().join("x.parquet");
    let schema = Arc::new(Schema::new(vec![
        Field::new("symbol", DataType::Utf8, false),
        Field::new("time", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("open", DataType::Float64, false),
        Field::new("close", DataType::Float64, false),
        Field::new("volume", DataType::Int64, false),
    ]));
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100_000)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), schema.clone(), Some(properties)).unwrap();
    let numbers: Vec<usize> = (0..rows).collect();
    for part in numbers.chunks(50_000) {
        let places: Vec<(usize, i64)> = part.iter().map(|i| at(*i)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(places.iter().map(|(s, _)| format!("S{s}")))),
            Arc::new(TimestampSecondArray::from_iter_values(places.iter().map(|(_, t)| *t))),
            Arc::new(Float64Array::from_iter_values(part.iter().map(|i| *i as f64))),
            Arc::new(Float64Array::from_iter_values(places.iter().map(|(s, t)| *s as f64 * 1e6 + *t as f64))),
            Arc::new(Int64Array::from_iter_values(part.iter().map(|i| (i % 1000) as i64))),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
    }
    writer.close().unwrap();
    path
}

fn csv(dir: &TempDir, rows: usize, at: impl Fn(usize) -> (usize, i64)) -> PathBuf {
    let path = dir.path().join("x.csv");
    let mut file = std::io::BufWriter::new(File::create(&path).unwrap());
    writeln!(file, "symbol,time,open,close,volume").unwrap();
    for i in 0..rows {
        let (s, t) = at(i);
        writeln!(file, "S{s},{t},{i},{},{}", s as f64 * 1e6 + t as f64, i % 1000).unwrap();
    }
    path
}

fn options() -> ReadOptions<'static> {
    ReadOptions { needed: vec![Role::Open, Role::Close, Role::Volume], ..ReadOptions::default() }
}

/// What came in batches, put together, with the number of groups and of parts, and the largest batch.
struct Together {
    bars: Vec<Bars>,
    wholes: usize,
    parts: usize,
    largest: usize,
    report: ReadReport,
}

fn together(path: &Path, options: ReadOptions<'_>) -> Result<Together, FrameError> {
    let mut reader = Reader::open(&Input::from(path), options)?;
    let mut all = Together { bars: vec![], wholes: 0, parts: 0, largest: 0, report: ReadReport::default() };
    let mut open = false;
    for batch in reader.batches()? {
        match batch? {
            BarsBatch::Complete(bars) => {
                assert!(!open && !bars.is_empty());
                all.wholes += 1;
                all.largest = all.largest.max(bars.iter().map(Bars::bytes).sum());
                all.bars.extend(bars);
            }
            BarsBatch::Segment { bars, first, last } => {
                assert_eq!(first, !open);
                open = !last;
                all.parts += 1;
                all.largest = all.largest.max(bars.bytes());
                match first {
                    true => all.bars.push(bars),
                    false => append(all.bars.last_mut().unwrap(), bars),
                }
            }
        }
    }
    assert!(!open);
    all.report = reader.report().clone();
    Ok(all)
}

fn append(to: &mut Bars, more: Bars) {
    assert_eq!(to.symbol, more.symbol);
    to.time.extend(more.time);
    for (to, more) in [
        (&mut to.open, more.open),
        (&mut to.high, more.high),
        (&mut to.low, more.low),
        (&mut to.close, more.close),
        (&mut to.volume, more.volume),
    ] {
        to.extend(more);
    }
}

/// Layouts of rows: symbols one after the other, side by side, and one symbol alone.
type At = fn(usize) -> (usize, i64);
const AFTER: At = |i| (i / 8_000, (i % 8_000) as i64);
const BESIDE: At = |i| (i % 25, (i / 25) as i64);
const ONE: At = |i| (0, i as i64);

#[test]
fn batches_concatenate_to_one_read() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let rows = 200_000;
    // 40 bytes a row in the bars, 48 with the place of the row: five times the memory.
    let memory = rows as u64 * 40 / 5;
    for (what, at) in [("after", AFTER), ("beside", BESIDE), ("one", ONE)] {
        for path in [parquet(&dir, rows, at), csv(&dir, rows, at)] {
            let (_, bars, report) = read(&Input::from(&path), options()).unwrap();
            let parts = together(&path, ReadOptions { memory: Some(memory), ..options() }).unwrap();
            assert_eq!(parts.bars, bars, "{what}");
            assert!(parts.report.spilled && !report.spilled);
            assert_eq!(ReadReport { spilled: false, ..parts.report }, report);
            assert!(parts.largest as u64 <= memory, "{what}: {} of {memory}", parts.largest);
            let counts = if what == "one" { parts.parts } else { parts.wholes };
            assert!((5..=12).contains(&counts), "{what}: {counts} batches");
            assert_eq!(parts.parts.min(parts.wholes), 0);
        }
    }
}

#[test]
fn no_spill_within_the_budget() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let path = parquet(&dir, 10_000, BESIDE);
    let parts = together(&path, ReadOptions { memory: Some(1 << 20), ..options() }).unwrap();
    assert_eq!((parts.report.spilled, parts.wholes, parts.parts), (false, 1, 0));
    let missing =
        ReadOptions { memory: Some(1000), temp_dir: Some("/no/such/directory".into()), ..options() };
    let error = together(&path, missing).err().unwrap().to_string();
    assert!(error.contains("cannot create a temporary file in /no/such/directory"), "{error}");
}

#[test]
fn large_and_small_symbols_keep_their_order() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    // S1 has most of the rows and comes in parts, between symbols that come whole.
    let at: At = |i| match i % 20 {
        0 => (0, i as i64),
        1 => (2 + i / 20 % 50, i as i64),
        _ => (1, i as i64),
    };
    let path = csv(&dir, 300_000, at);
    let (_, bars, _) = read(&Input::from(&path), options()).unwrap();
    let parts = together(&path, ReadOptions { memory: Some(2 << 20), ..options() }).unwrap();
    assert_eq!(parts.bars, bars);
    assert!(parts.parts > 2 && parts.wholes >= 2, "{} parts, {} groups", parts.parts, parts.wholes);
}

#[test]
fn unsorted_symbol_is_sorted_if_it_fits() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let backwards: At = |i| (i % 25, -((i / 25) as i64));
    let path = csv(&dir, 200_000, backwards);
    let (_, bars, _) = read(&Input::from(&path), options()).unwrap();
    let parts = together(&path, ReadOptions { memory: Some(2 << 20), ..options() }).unwrap();
    assert_eq!((parts.bars, parts.report.sorted_here), (bars, 25));
    let one: At = |i| (0, -(i as i64));
    let error = together(&csv(&dir, 200_000, one), ReadOptions { memory: Some(2 << 20), ..options() });
    let error = error.err().unwrap();
    let FrameError::Memory { needed, limit, .. } = &error else { panic!("{error}") };
    assert!(*limit == 2 << 20 && *needed > 200_000 * 40, "{error}");
    assert!(
        error.to_string().contains("200000 rows of `S0`") && error.to_string().contains("sort the file"),
        "{error}"
    );
}

#[test]
fn duplicate_times_are_found_across_segments() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    // Every time twice: some pairs fall on both sides of a cut.
    let pairs: At = |i| (0, i as i64 / 2);
    let path = csv(&dir, 200_000, pairs);
    for (duplicates, odd) in [(Duplicates::First, 0.0), (Duplicates::Last, 1.0)] {
        let parts = together(&path, ReadOptions { memory: Some(2 << 20), duplicates, ..options() }).unwrap();
        assert_eq!((parts.report.duplicates, parts.bars[0].time.len()), (100_000, 100_000));
        assert!(parts.bars[0].open.iter().enumerate().all(|(i, v)| *v == (2 * i) as f64 + odd));
        assert!(parts.parts > 2);
    }
    // One pair, wherever it is.
    for twice in [1_usize, 65_536, 131_072, 199_999] {
        let rows = |i: usize| (0, if i >= twice { i as i64 - 1 } else { i as i64 });
        let path = csv(&dir, 200_000, rows);
        let error =
            together(&path, ReadOptions { memory: Some(2 << 20), ..options() }).err().unwrap().to_string();
        assert!(
            error.contains(&format!("row {},", twice + 1))
                && error.contains(&format!("in row {twice} already")),
            "{error}"
        );
    }
}

#[test]
fn untimed_series_is_segmented() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.csv");
    let text: String = (0..200_000).map(|i| format!("{i}\n")).collect();
    std::fs::write(&path, format!("close\n{text}")).unwrap();
    let only = || ReadOptions { needed: vec![Role::Close], untimed: true, ..ReadOptions::default() };
    let parts = together(&path, ReadOptions { memory: Some(500_000), ..only() }).unwrap();
    assert!(parts.parts > 2 && parts.bars[0].close.iter().enumerate().all(|(i, v)| *v == i as f64));
}

#[test]
fn peak_memory_stays_within_the_budget() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    // 40 bytes a row in the bars: five times the memory.
    let rows = 800_000;
    let memory = rows as u64 * 40 / 5;
    let backwards: At = |i| (i % 25, -(i as i64));
    for (what, at) in [("after", AFTER), ("beside", BESIDE), ("one", ONE), ("backwards", backwards)] {
        let path = if what == "beside" { parquet(&dir, rows, at) } else { csv(&dir, rows, at) };
        let before = USED.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mut reader =
            Reader::open(&Input::from(&path), ReadOptions { memory: Some(memory), ..options() }).unwrap();
        let mut seen = 0;
        for batch in reader.batches().unwrap() {
            seen += match batch.unwrap() {
                BarsBatch::Complete(bars) => bars.iter().map(Bars::len).sum::<usize>(),
                BarsBatch::Segment { bars, .. } => bars.len(),
            };
        }
        let peak = PEAK.load(Relaxed) - before;
        assert_eq!(seen, rows);
        println!("{what}: at most {peak} bytes, {memory} for bars");
        assert!((peak as u64) < memory + BESIDES, "{what}: {peak} bytes");
        assert!(memory + BESIDES < rows as u64 * 40, "the test must be able to fail");
    }
}

/// Bytes in use, and their peak.
static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting. What the system says about the process includes memory that the allocator keeps.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

#[allow(unsafe_code, reason = "an allocator can be counted in no other way")]
// SAFETY: every call is passed on unchanged, and what it returns is returned unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: the caller's promise about `layout` is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from `System` with this layout, since every allocation did.
        unsafe { System.dealloc(at, layout) }
    }
}
