//! Hostile names survive every export.

use gpuforge_profile::{Category, MAX_NAME_BYTES, Name, Profiler, Trace};

const HOSTILE: [&str; 8] = [
    "",
    "\"},{\"ph\":\"X\"",
    "back\\slash",
    "line\nbreak\r\ttab",
    "nul\u{0}bell\u{7}escape\u{1b}[31m",
    "</script><script>alert(1)</script>",
    "\u{202e}right to left\u{feff}\u{2028}",
    "emoji 🔥 and \u{10ffff}",
];

#[test]
fn hostile_names_survive_both_formats() {
    let profiler = Profiler::new();
    profiler.enable();
    for name in HOSTILE {
        let _span = profiler.span(name, Category::Cpu);
        profiler.counter(name).add(1);
        profiler.gauge(name).set(1.0);
        profiler.record(
            name,
            Category::Gpu,
            std::time::Instant::now(),
            Default::default(),
            profiler.track(name),
        );
    }
    let long = "é".repeat(100_000);
    drop(profiler.span(Name::new(&long), Category::Cpu));
    let trace = profiler.drain();
    assert_eq!(Trace::from_json(&trace.to_json().unwrap()).unwrap(), trace);
    let chrome: serde_json::Value = serde_json::from_str(&trace.to_chrome().unwrap()).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    for name in HOSTILE {
        let times = |ph: &str| events.iter().filter(|e| e["name"] == name && e["ph"] == ph).count();
        assert_eq!(times("X"), 2, "{name:?}");
        assert!(times("C") >= 2, "{name:?}");
    }
    let cut = trace.names.iter().find(|name| name.starts_with('é')).unwrap();
    assert!(cut.len() <= MAX_NAME_BYTES && cut.ends_with('…'));
}
