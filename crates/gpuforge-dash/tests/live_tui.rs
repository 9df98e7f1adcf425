//! Terminal UI snapshots: the buffer at two sizes against golden files that `UPDATE=1` rewrites.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::path::Path;

use gpuforge_dash::live::{
    machine_info::{InfoRow, MachineInfo},
    plain_text::text,
    snapshot::{
        CounterValue, DeviceStatus, EventLevel, GaugeValue, LiveEvent, MemoryStatus, OperationStats,
        PublishCost, RoutingDecision, Snapshot, VERSION,
    },
    tracker::SnapshotTracker,
    tui::{ScreenState, draw},
    view::{ConnectionState, LiveView},
};
use ratatui::{Terminal, backend::TestBackend};

/// The `seq`-th snapshot of a process that grows, and slows down at the end.
fn snapshot(seq: u64) -> Snapshot {
    let late = seq.saturating_sub(20);
    let operation = |name: &str, count: u64, each: u64, slow: u64| OperationStats {
        name: name.to_owned(),
        count: count * seq,
        total_ns: count * (seq * each + late * slow),
        mean_ns: each as f64,
    };
    let memory = |name: &str, used, budget, pressure: Option<&str>| MemoryStatus {
        name: name.to_owned(),
        used,
        budget: Some(budget),
        pressure: pressure.map(str::to_owned),
        cleanups: pressure.map(|_| 3),
        ..MemoryStatus::default()
    };
    Snapshot {
        version: VERSION,
        pid: 4711,
        command: "demo".to_owned(),
        seq,
        uptime_ms: 500 * seq,
        cpu_ms: Some(900 * seq),
        devices: vec![
            DeviceStatus {
                name: "cpu".into(),
                state: "ready".into(),
                done: Some(12 * seq),
                ..DeviceStatus::default()
            },
            DeviceStatus {
                name: "NVIDIA GeForce RTX 4090".into(),
                state: "open".into(),
                done: Some(1200 * seq),
                busy: Some(0.71),
                moved: Some((3 << 30) * seq),
            },
        ],
        memory: vec![
            memory("this process", 900 << 20, 32 << 30, None),
            memory("RTX 4090", (16 << 30) + (seq << 27), 22 << 30, Some("high")),
        ],
        operations: vec![
            operation("operation on a device", 600, 800_000, 2_400_000),
            operation("wait for the device", 600, 500_000, 0),
            operation("place buffers", 600, 1_900, 0),
        ],
        counters: vec![
            CounterValue { name: "bytes uploaded".into(), value: (3 << 20) * seq },
            CounterValue { name: "my own counter".into(), value: 4 * seq },
        ],
        gauges: vec![GaugeValue { name: "queue".into(), value: 3.5, least: Some(0.0), most: Some(12.0) }],
        routed: 612 * seq,
        batched: 512 * seq,
        routing: (1..=6)
            .map(|n| RoutingDecision {
                seq: 6 * seq + n,
                at_ms: 500 * seq,
                operation: "matmul".into(),
                place: if n % 3 == 0 { "cpu" } else { "NVIDIA GeForce RTX 4090" }.into(),
                reason: "predicted 12.5 times faster than the next".into(),
                predicted_ns: Some(810_000),
                wall_ns: 800_000 + 1000 * n,
            })
            .collect(),
        events: vec![
            LiveEvent { seq: 1, at_ms: 1200, level: EventLevel::Info, text: "device opened in 38 ms".into() },
            LiveEvent {
                seq: 2,
                at_ms: 8000,
                level: EventLevel::Error,
                text: "device lost: opened anew".into(),
            },
        ],
        cost: PublishCost { snapshots: seq, cpu_ns: Some(200_000 * seq), viewers: 1 },
    }
}

fn watched() -> LiveView {
    let mut tracker = SnapshotTracker::default();
    (1..=21).for_each(|seq| tracker.add(snapshot(seq)));
    tracker.view().clone()
}

fn machine() -> MachineInfo {
    let gpu = InfoRow::new("NVIDIA GeForce RTX 4090", "good", "24.0 GiB · driver 580.95.05");
    MachineInfo {
        devices: vec![gpu, InfoRow::new("AMD Ryzen 9 7950X", "good", "32 threads · 64.0 GiB")],
        choice: Some("NVIDIA GeForce RTX 4090: it is the only discrete GPU".to_owned()),
        ..MachineInfo::default()
    }
}

fn buffer(width: u16, height: u16, view: &LiveView, screen: ScreenState) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, &machine(), screen)).unwrap();
    let buffer = terminal.backend().buffer();
    let row =
        |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(row).collect()
}

#[track_caller]
fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{name} differs; UPDATE=1 rewrites it. Found:\n{found}\nexpected:\n{expected}"
    );
}

#[test]
fn live_at_two_sizes() {
    let view = watched();
    check("live-80x24.txt", &buffer(80, 24, &view, ScreenState::default()));
    check("live-200x50.txt", &buffer(200, 50, &view, ScreenState::default()));
}

#[test]
fn waiting_help_and_end() {
    let none = LiveView::default();
    check("waiting-80x24.txt", &buffer(80, 24, &none, ScreenState::default()));
    check("waiting-200x50.txt", &buffer(200, 50, &none, ScreenState::default()));
    let help = ScreenState { help: true, paused: true, skip: 1, plain: true };
    let ended = LiveView { state: ConnectionState::Ended, ..watched() };
    check("ended-help-80x24.txt", &buffer(80, 24, &ended, help));
}

#[test]
fn plain_text_of_a_view() {
    check("once.txt", &text(&watched(), &machine()));
    check("once-waiting.txt", &text(&LiveView::default(), &machine()));
}

#[test]
fn no_size_is_too_small() {
    let view = watched();
    for (width, height) in [(1, 1), (2, 30), (10, 3), (119, 5), (120, 2), (300, 100)] {
        buffer(width, height, &view, ScreenState { help: true, ..ScreenState::default() });
        buffer(width, height, &LiveView::default(), ScreenState::default());
    }
}
