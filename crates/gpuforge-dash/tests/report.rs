//! Trace report: statistics, suggestions, escaping, flame graph, exports, and errors for files that are not traces.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

#[path = "report_common/mod.rs"]
mod common;

use common::{counter, empty, gauge, span};
use gpuforge_dash::{
    report::{FlameGraph, MAX_SPANS, TimelineData, TraceReport, flame, html_page},
    trace::{Trace, TraceFileError, parse, read},
};
use gpuforge_profile::Category::{self, Cpu, Gpu, Overhead, Transfer, Wait};
use proptest::prelude::*;
use std::path::Path;

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m\"'&<!--";

/// Something of everything.
fn full() -> Trace {
    let mut t = empty();
    span(&mut t, "step", (0, 0), (1_000, 101_000), Cpu);
    span(&mut t, "upload", (0, 1), (2_000, 62_000), Transfer);
    span(&mut t, "wait for the device", (0, 1), (70_000, 90_000), Wait);
    span(&mut t, "step", (1, 0), (1_000, 51_000), Cpu);
    span(&mut t, HOSTILE, (1, 1), (10_000, 20_000), Overhead);
    span(&mut t, "passes", (2, 0), (70_000, 85_000), Gpu);
    span(&mut t, "fetch", (3, 0), (0, 201_000), Cpu);
    span(
        &mut t,
        "out of memory: split (less at a time needs less memory)",
        (4, 0),
        (75_000, 75_000),
        Overhead,
    );
    span(&mut t, "memory clean-up", (0, 1), (63_000, 64_000), Overhead);
    t.spans.last_mut().unwrap().bytes = Some(4096);
    gauge(&mut t, "memory/used/Some GPU", &[(0, 100.0), (50_000, 960.0), (100_000, 500.0)]);
    gauge(&mut t, "memory/budget/Some GPU", &[(0, 1000.0)]);
    counter(&mut t, "route/matmul/Some GPU/predicted to be faster/runs", 10);
    counter(&mut t, "route/matmul/Some GPU/predicted to be faster/predicted_ns", 1_000);
    counter(&mut t, "route/matmul/Some GPU/predicted to be faster/measured_ns", 5_000);
    counter(&mut t, "route/sum/cpu/there is no other/runs", 3);
    counter(&mut t, "bytes uploaded", 1000);
    counter(&mut t, "bytes uploaded again", 710);
    t
}

#[test]
fn statistics_add_up() {
    let trace = full();
    let report = TraceReport::of(&trace);
    assert_eq!((report.wall_ns, report.spans, report.threads), (Some(201_000), 9, 2));
    assert_eq!(report.devices, ["Some GPU"], "the track of events is no device");
    let of = |category: Category| report.part(category).unwrap().self_ns;
    // step on two threads without what is inside, upload, wait, passes; fetch is async and belongs to nobody.
    assert_eq!(of(Cpu), Some(100_000 - 60_000 - 20_000 - 1_000 + 50_000 - 10_000));
    assert_eq!(
        (of(Transfer), of(Wait), of(Gpu), of(Overhead)),
        (Some(60_000), Some(20_000), Some(15_000), Some(11_000))
    );
    assert_eq!(report.busy_ns(), 59_000 + 60_000 + 20_000 + 15_000 + 11_000);
    let shares: f64 = report.breakdown.iter().filter_map(|p| p.share).sum();
    assert!((shares - 1.0).abs() < 1e-12);
    assert_eq!(report.rows[0].stats.name, "upload");
    assert_eq!(report.rows.last().unwrap().stats.name, "fetch", "what has no self time is last");
    assert_eq!(report.row("passes").unwrap().category, Gpu);
    assert_eq!((report.memory[0].peak_bytes, report.memory[0].budget_bytes), (960.0, Some(1000.0)));
    assert_eq!((report.clean_ups.len(), report.clean_ups[0].freed_bytes), (1, Some(4096)));
    assert_eq!((report.recovered.len(), report.recovered[0].at_ns), (1, 75_000));
    assert_eq!(
        (report.routed.len(), report.routed[0].ratio(), report.routed[1].ratio()),
        (2, Some(5.0), None)
    );
    assert_eq!(report.routed[0].place, "Some GPU");
}

#[test]
fn each_suggestion_rule_fires_only_when_it_should() {
    let rules = |t: &Trace| TraceReport::of(t).suggestions.iter().map(|s| s.rule).collect::<Vec<_>>();
    let found = rules(&full());
    assert_eq!(found, ["recovered", "resident", "transfer", "memory", "predictions"]);
    let resident = TraceReport::of(&full()).suggestions.into_iter().find(|s| s.rule == "resident").unwrap();
    assert!(resident.evidence.contains("71 %"), "{resident:?}");
    assert_eq!(rules(&empty()), [""; 0]);

    let made = |change: &dyn Fn(&mut Trace)| {
        let mut t = empty();
        change(&mut t);
        rules(&t)
    };
    let dropped = made(&|t| t.dropped = 5);
    assert_eq!(dropped, ["incomplete"]);
    let start = made(&|t| {
        span(t, "open the device", (0, 0), (0, 50), Overhead);
        span(t, "a", (0, 0), (50, 100), Cpu);
    });
    assert_eq!(start, ["start", "hot"]);
    let small = made(&|t| (0..100).for_each(|i| span(t, "submit", (0, 0), (i * 10, i * 10 + 9), Overhead)));
    assert_eq!(small, ["small"]);
    let wait = made(&|t| span(t, "wait for the device", (0, 0), (0, 50), Wait));
    assert_eq!(wait, ["wait"]);
    let uneven = |gap: u64| {
        made(&|t| {
            let mut now = 0;
            for i in 0..400_u64 {
                let long = if i % 80 == 0 { 900_000 } else { 10 };
                span(t, "b", (0, 0), (now, now + long), Cpu);
                now += long + gap;
            }
        })
    };
    assert_eq!(uneven(10), ["uneven"]);
    assert_eq!(uneven(1_000_000), [""; 0], "1 % of the wall time is not worth a line");
    let tiny = made(&|t| (0..100_000).for_each(|i| span(t, "tick", (0, 0), (i * 300, i * 300 + 100), Cpu)));
    assert_eq!(tiny, ["tiny"]);
}

#[test]
fn unmeasurable_categories_are_noted() {
    let mut t = empty();
    span(&mut t, "a", (0, 0), (0, 10), Cpu);
    let note = |t: &Trace, c: Category| TraceReport::of(t).part(c).unwrap().note;
    assert_eq!(note(&t, Gpu), Some("no device was used"));
    assert_eq!(note(&t, Cpu), None);
    span(&mut t, "wait for the device", (0, 0), (10, 20), Wait);
    assert_eq!(note(&t, Gpu), Some("not measurable on this device"));
    assert_eq!(note(&t, Transfer), Some("not measurable on this device"));
    let html = TraceReport::of(&t).html(&t, "x");
    assert!(html.contains("not measurable on this device"));
}

#[test]
fn page_is_self_contained_and_runs_only_its_script() {
    let trace = full();
    let html = TraceReport::of(&trace).html(&trace, HOSTILE);
    for part in [
        "http:",
        "src=",
        "<link",
        "@import",
        "url(",
        "javascript:",
        "eval(",
        "innerHTML",
        "<img",
        "\u{202e}",
        "\u{1b}",
    ] {
        assert!(!html.contains(part) || part == "src=" && !html.contains("<img src="), "{part}");
    }
    // What a reader sees is all there, as text.
    assert!(html.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
    assert_eq!(html.matches("</script>").count(), 2, "one of the data, one of the script");
    assert!(!html.contains(" style=") && !html.contains("onclick") && !html.contains("unsafe-"));
    let between = |from: &str, to: &str| {
        let start = html.find(from).unwrap() + from.len();
        &html[start..start + html[start..].find(to).unwrap()]
    };
    let policy = between("Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(policy.contains(&html_page::hash_source(between("<style>", "</style>"))), "{policy}");
    assert!(
        policy.contains(&html_page::hash_source(between("</script>\n<script>", "</script>"))),
        "{policy}"
    );
    for part in [
        "Kinds of time",
        "Timeline",
        "Flame graph",
        "Bottlenecks",
        "Memory of devices",
        "Where operations ran",
        "Recovery",
        "What to do",
        "band3",
        "96 % of a budget",
        "prefers-color-scheme:dark",
        "lang=\"en\"",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn csp_hash_matches_the_standard() {
    // The empty text, from FIPS 180-4.
    assert_eq!(html_page::hash_source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    assert_eq!(html_page::escape("a<b>&\"'\u{0}\u{2066}"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}\u{fffd}");
    assert_eq!(
        html_page::json_in_script("\"</script>\u{2028}&\""),
        "\"\\u003c/script\\u003e\\u2028\\u0026\""
    );
}

#[test]
fn stacks_are_merged_over_threads() {
    let trace = full();
    let flame = FlameGraph::of(&trace);
    let folded = flame.folded();
    let lines: Vec<&str> = folded.lines().collect();
    assert!(lines.contains(&"step 59000") && lines.contains(&"step;upload 60000"), "{folded}");
    assert!(lines.contains(&"Some GPU;passes 15000"), "{folded}");
    assert!(!folded.contains("fetch") && !folded.contains('\u{1b}'), "{folded}");
    assert_eq!(flame.total_ns(), TraceReport::of(&trace).busy_ns());
    let step = flame.nodes.iter().find(|n| n.parent.is_none() && flame.names[n.name] == "step").unwrap();
    assert_eq!((step.count, step.total_ns), (2, 150_000));
    let svg = flame.svg(HOSTILE);
    assert!(
        svg.starts_with("<svg")
            && !svg.contains("<img")
            && svg.contains("upload")
            && !svg.contains("<script"),
        "{svg}"
    );
    assert_eq!(FlameGraph::of(&empty()).folded(), "");
    roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    assert!(FlameGraph::of(&empty()).svg("x").ends_with("</svg>\n"));
    let few = flame.largest(2);
    assert!(few.nodes.len() <= 2 && few.total_ns() <= flame.total_ns() && few.path(0) == ["step"]);
}

#[test]
fn deep_nesting_is_bounded() {
    let mut t = empty();
    for depth in 0..2_000_u16 {
        let d = u64::from(depth);
        span(&mut t, "deeper", (0, depth), (d, 10_000 - d), Cpu);
    }
    let flame = FlameGraph::of(&t);
    assert_eq!(flame.nodes.len(), flame::MAX_DEPTH);
    assert_eq!(flame.total_ns(), 10_000);
    assert!(TraceReport::of(&t).html(&t, "deep").len() < 200_000);
}

#[test]
fn more_than_the_maximum_spans_are_merged() {
    let mut t = empty();
    for i in 0..100_000_u64 {
        let at = i * 7_919;
        span(&mut t, ["a", "b", "c"][(i % 3) as usize], (0, 0), (at, at + 1_000 + i % 5_000), Cpu);
    }
    let page = TraceReport::of(&t).html(&t, "x");
    assert!(page.len() <= 2 << 20, "{}", page.len());
    assert_eq!((TimelineData::of(&t).boxes, TimelineData::of(&t).merged), (MAX_SPANS, 0));
    for i in 0..60_000_u64 {
        span(&mut t, "tiny", (1, 3), (i * 10_000, i * 10_000 + 3), Cpu);
    }
    let columns = TimelineData::of(&t);
    assert!(
        columns.boxes <= MAX_SPANS + 20_000 && columns.merged >= 60_000,
        "{} {}",
        columns.boxes,
        columns.merged
    );
    let page = TraceReport::of(&t).html(&t, "x");
    assert!(page.len() <= 2 << 20 && page.contains("too short to be seen"), "{}", page.len());
}

#[test]
fn csv_has_a_row_per_name() {
    let csv = TraceReport::of(&full()).csv();
    assert_eq!(csv.lines().count(), 9);
    assert!(
        csv.starts_with("name,category,count,") && csv.contains("\n\"upload\",transfer,1,60000,60000,"),
        "{csv}"
    );
}

#[test]
fn files_that_are_not_traces_are_diagnosed() {
    let directory = tempfile::tempdir().unwrap();
    let check = |bytes: &[u8]| {
        let path = directory.path().join("t.json");
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path).unwrap_err();
        assert!(!error.hint().is_empty() && error.to_string().contains("t.json"), "{error}");
        error
    };
    let whole = full().to_json().unwrap();
    for cut in [12, whole.len() / 2, whole.len() - 1] {
        let error = check(&whole.as_bytes()[..cut]);
        assert!(
            matches!(&error, TraceFileError::Truncated { bytes, .. } if *bytes == cut as u64),
            "{cut}: {error}"
        );
    }
    // Cut inside a character of two bytes.
    let at = whole.find('\u{202e}').unwrap();
    assert!(matches!(check(&whole.as_bytes()[..at + 1]), TraceFileError::Truncated { .. }));
    let chrome = full().to_chrome().unwrap();
    let told = |bytes: &[u8], part: &str| {
        let error = check(bytes);
        assert!(
            matches!(error, TraceFileError::Foreign { .. }) && error.to_string().contains(part),
            "{error}"
        );
    };
    told(chrome.as_bytes(), "Chrome or Perfetto trace");
    told(b"", "it is empty");
    told(b" \n", "it is empty");
    told(b"\x89PNG\r\n\x1a\n", "not text");
    told(b"<!DOCTYPE html><p>", "it is a page");
    told(b"[1,2,3]", "not a trace");
    told(b"hello", "not a trace");
    let newer = whole.replacen("\"version\":1", "\"version\":9", 1);
    assert!(matches!(check(newer.as_bytes()), TraceFileError::Version { found: 9, .. }));
    let mut loose = full();
    loose.spans[0].name = 99;
    assert!(matches!(check(loose.to_json().unwrap().as_bytes()), TraceFileError::Damaged { .. }));
    assert!(matches!(read(&directory.path().join("none")), Err(TraceFileError::Io { .. })));
    assert!(matches!(read(directory.path()), Err(TraceFileError::Io { .. })));
    assert_eq!(parse(whole.into_bytes(), Path::new("x")).unwrap(), full());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_valid_trace_can_be_rendered(
        raw in proptest::collection::vec((0_u32..5, 0_u16..90, any::<u64>(), any::<u64>(), "\\PC{0,12}", 0_usize..5), 0..40),
        value in any::<f64>(),
    ) {
        let mut t = empty();
        for (track, depth, start, long, text, kind) in &raw {
            let end = start.saturating_add(*long);
            span(&mut t, text, (*track, *depth), (*start, end), Category::ALL[*kind]);
        }
        gauge(&mut t, "memory/used/x", &[(3, value), (1, 5.0)]);
        let report = TraceReport::of(&t);
        let html = report.html(&t, "x");
        prop_assert!(html.ends_with("</html>\n") && html.matches("<script").count() == 2);
        prop_assert_eq!(FlameGraph::of(&t).total_ns(), report.busy_ns());
        report.csv();
    }

    #[test]
    fn corrupted_trace_never_panics(
        hits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
    ) {
        let mut bytes = full().to_json().unwrap().into_bytes();
        for (at, with) in hits {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(trace) = parse(bytes, Path::new("x")) {
            let report = TraceReport::of(&trace);
            prop_assert!(report.html(&trace, "x").matches("<script").count() == 2);
            FlameGraph::of(&trace).svg("x");
            report.csv();
        }
    }
}

#[test]
fn truncated_trace_is_rejected() {
    let whole = full().to_json().unwrap().into_bytes();
    for cut in 0..whole.len() {
        let error = parse(whole[..cut].to_vec(), Path::new("t.json")).unwrap_err();
        assert!(cut < 11 || matches!(error, TraceFileError::Truncated { .. }), "{cut}: {error}");
    }
}
