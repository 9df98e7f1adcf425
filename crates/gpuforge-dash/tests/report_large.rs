//! Time and peak memory of a report of a million spans. Alone in its file: the peak is the process's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail, and tells its figures"
)]

#[path = "report_common/mod.rs"]
mod common;

use common::{empty, name};
use gpuforge_dash::{report::TraceReport, trace::read};
use gpuforge_profile::{Category, SpanRecord};
use std::{io::Write as _, time::Instant};

/// Peak of the process in bytes, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// A trace file written piece by piece, so that making it costs little memory.
fn write(path: &std::path::Path, spans: u64) {
    let mut head = empty();
    for text in ["step", "part", "inner", "other"] {
        name(&mut head, text);
    }
    let text = head.to_json().unwrap();
    let (before, after) = text.split_once("\"spans\":[").unwrap();
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    write!(out, "{before}\"spans\":[").unwrap();
    let per_track = spans / 2;
    for i in 0..spans {
        let (track, n) = (u32::from(i >= per_track), i % per_track);
        let (group, place) = (n / 4, n % 4);
        let start = group * 40_000 + [0, 1_000, 2_000, 20_000][place as usize];
        let long = [39_000, 15_000, 5_000 + n % 7_000, 9_000][place as usize];
        let depth = [0, 1, 2, 1][place as usize];
        let span = SpanRecord {
            name: u32::try_from(place).unwrap(),
            track,
            category: Category::ALL[(n % 5) as usize],
            depth,
            start_ns: start,
            duration_ns: long,
            bytes: (n % 9 == 0).then_some(n),
        };
        out.write_all(if i == 0 { b"" } else { b"," }).unwrap();
        serde_json::to_writer(&mut out, &span).unwrap();
    }
    write!(out, "{after}").unwrap();
    out.flush().unwrap();
}

#[test]
fn million_span_report_within_three_seconds_and_500_mb() {
    // Without optimisation everything takes many times longer: fewer spans, and only memory and size are bounded.
    let optimised = !cfg!(debug_assertions);
    let spans = if optimised { 1_000_000 } else { 150_000 };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.json");
    write(&path, spans);
    let file = path.metadata().unwrap().len();
    let began = Instant::now();
    let trace = read(&path).unwrap();
    let was_read = began.elapsed();
    let report = TraceReport::of(&trace);
    let figures = began.elapsed();
    let html = report.html(&trace, "large");
    let took = began.elapsed();
    let peak = peak();
    println!(
        "{spans} spans, {file} bytes: read {was_read:?}, figures {figures:?}, page {took:?}, {} bytes, peak {peak:?}",
        html.len()
    );
    assert_eq!(report.spans, spans);
    assert!(html.len() <= 2 << 20, "{}", html.len());
    assert!(peak.is_none_or(|peak| peak <= 500_000_000), "{peak:?}");
    assert!(!optimised || took.as_secs_f64() <= 3.0, "{took:?}");
}
