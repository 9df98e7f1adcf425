//! Run sets from trace files and directories, baselines, and errors for files that are neither.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use gpuforge_dash::compare::{
    RunProfile, RunSet,
    baseline::{BaselineError, BaselineStore, MachineFingerprint},
    load::{self, LoadError},
    stacks,
};
use gpuforge_profile::{Category, ClockInfo, ProcessInfo, SpanRecord, Trace, TrackInfo, TrackKind, VERSION};

/// Names, track, depth, start and end; track 0 is a thread, 1 a device, 2 async.
fn trace(spans: &[(&str, u32, u16, u64, u64)]) -> Trace {
    let mut names: Vec<String> = Vec::new();
    let records = spans.iter().map(|(name, track, depth, start_ns, end)| {
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push((*name).to_owned());
            names.len() - 1
        });
        let (category, duration_ns) = (Category::Cpu, end - start_ns);
        let (name, track, depth, start_ns) = (at as u32, *track, *depth, *start_ns);
        SpanRecord { name, track, category, depth, start_ns, duration_ns, bytes: None }
    });
    let spans = records.collect();
    let track = |id, kind| TrackInfo { id, kind, name: None, dropped: 0 };
    Trace {
        version: VERSION,
        clock: ClockInfo { source: "instant".to_owned(), ticks_per_second: None, reason: "test".to_owned() },
        process: ProcessInfo { pid: 1, os: "linux".to_owned(), arch: "x86_64".to_owned() },
        taken_ns: 1,
        dropped: 0,
        names,
        tracks: vec![track(1, TrackKind::Thread), track(2, TrackKind::Device), track(3, TrackKind::Async)],
        spans,
        counters: Vec::new(),
        gauges: Vec::new(),
        recent: Vec::new(),
        recent_missed: 0,
    }
}

fn sample() -> Trace {
    trace(&[
        ("step", 0, 0, 0, 100),
        ("load; now", 0, 1, 10, 40),
        ("step", 0, 0, 200, 320),
        ("matmul", 0, 1, 210, 260),
        ("matmul", 1, 0, 220, 250),
        ("wait", 2, 0, 0, 1000),
    ])
}

#[test]
fn run_profile_has_durations_by_track_kind_and_self_time_by_stack() {
    let run = RunProfile::of(&sample());
    let names: Vec<&str> = run.operations.keys().map(String::as_str).collect();
    assert_eq!(names, ["load; now", "matmul", "matmul [device]", "step", "wait [async]"]);
    assert_eq!(run.operations["step"].kept_ns, [100.0, 120.0]);
    assert_eq!(run.operations["matmul [device]"].total_ns, 30);
    let paths: Vec<(&str, u64)> = run.stacks.iter().map(|(path, own)| (path.as_str(), *own)).collect();
    assert_eq!(
        paths,
        [
            ("devices;matmul", 30),
            ("threads;step", 140),
            ("threads;step;load: now", 30),
            ("threads;step;matmul", 50)
        ]
    );
}

#[test]
fn self_times_add_up_to_busy_time() {
    let paths = stacks::of(&sample());
    assert_eq!(paths.values().sum::<u64>(), 100 + 120 + 30);
    assert!(stacks::of(&trace(&[])).is_empty());
    // Deeper than anybody looks: counts for the span around it.
    let deep: Vec<_> = (0..200_u16).map(|i| ("f", 0, i, u64::from(i), 1000 - u64::from(i))).collect();
    let paths = stacks::of(&trace(&deep));
    assert_eq!(paths.len(), stacks::MAX_DEPTH);
    assert_eq!(paths.values().sum::<u64>(), 1000);
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn files_directories_and_lists_are_expanded() {
    let directory = tempfile::tempdir().unwrap();
    let text = sample().to_json().unwrap();
    let [one, two] = ["1.json", "2.json"].map(|name| write(directory.path(), name, &text));
    write(directory.path(), "1.perfetto.json", "{}");
    write(directory.path(), "notes.txt", "x");
    let comma = write(directory.path(), "a,b.json", &text);
    let all = vec![one.clone(), two.clone(), comma.clone()];
    assert_eq!(load::files(&[directory.path().to_owned()]).unwrap(), all);
    let list = PathBuf::from(format!("{},{}", one.display(), two.display()));
    assert_eq!(load::files(&[list, comma.clone()]).unwrap(), all);
    let side = load::side(&all).unwrap();
    assert_eq!(side.runs.len(), 3);
    assert_eq!(side.runs[0], RunProfile::of(&sample()));
}

#[test]
fn files_that_are_not_traces_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let text = sample().to_json().unwrap();
    let check = |name: &str, text: &str| {
        let error = load::side(&[write(directory.path(), name, text)]).unwrap_err();
        assert!(error.to_string().contains(name) && !error.hint().is_empty(), "{error}");
        error.to_string()
    };
    assert!(check("cut.json", &text[..text.len() / 2]).contains("ends in the middle"));
    assert!(check("empty.json", "").contains("empty"));
    assert!(check("page.json", "<!doctype html>").contains("page"));
    assert!(check("other.json", "{\"traceEvents\":[]}").contains("Chrome"));
    assert!(check("new.json", &text.replace("\"version\":1", "\"version\":9")).contains("version 9"));
    assert!(check("idle.json", &trace(&[]).to_json().unwrap()).contains("no span"));
    let nothing = directory.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    assert!(matches!(load::files(std::slice::from_ref(&nothing)), Err(LoadError::Empty { .. })));
    assert!(load::side(&load::files(&[nothing.join("x.json")]).unwrap()).is_err());
}

fn machine(cpu: &str) -> MachineFingerprint {
    MachineFingerprint {
        os: "linux".to_owned(),
        arch: "x86_64".to_owned(),
        cpu: Some(cpu.to_owned()),
        threads: Some(8),
        gpus: vec!["10de:2684".to_owned()],
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn baselines_are_stored_by_name_and_machine() {
    let directory = tempfile::tempdir().unwrap();
    let store = BaselineStore::new(directory.path());
    let side = RunSet { runs: vec![RunProfile::of(&sample())] };
    let (here, there) = (machine("one"), machine("two"));
    assert!(matches!(store.find("main", &here, false), Err(BaselineError::Absent { .. })));
    assert!(store.list().unwrap().0.is_empty());
    store.save("main", &there, &side, at(100)).unwrap();
    let error = store.find("main", &here, false).unwrap_err();
    assert!(
        matches!(error, BaselineError::OtherMachine { .. }) && error.hint().contains("--any-machine"),
        "{error}"
    );
    assert_eq!(store.find("main", &here, true).unwrap().machine, there);
    let path = store.save("main", &here, &RunSet { runs: Vec::new() }, at(100)).unwrap();
    // The second time replaces the first; nothing else is left in the directory.
    assert_eq!(store.save("main", &here, &side, at(160)).unwrap(), path);
    let found = store.find("main", &here, false).unwrap();
    assert_eq!((found.side, found.saved_s), (side, 160));
    assert_eq!(fs::read_dir(store.dir()).unwrap().count(), 2);
    assert_eq!(store.list().unwrap().0.len(), 2);
    let error = store.find("mian", &here, false).unwrap_err();
    assert!(error.hint().contains("main"), "{}", error.hint());
}

#[test]
fn damaged_baseline_is_reported_and_others_are_listed() {
    let directory = tempfile::tempdir().unwrap();
    let store = BaselineStore::new(directory.path());
    let side = RunSet { runs: vec![RunProfile::of(&sample())] };
    let here = machine("one");
    let path = store.save("good", &here, &side, at(1)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let bad = store.save("bad", &here, &side, at(1)).unwrap();
    for (broken, why) in [
        (text[..100].to_owned(), "does not parse"),
        (text.replace("\"version\":1", "\"version\":2"), "version 2"),
        ("{}".to_owned(), "no version"),
        ("{\"version\":1}".to_owned(), "missing field"),
    ] {
        fs::write(&bad, broken).unwrap();
        let error = store.find("bad", &here, false).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        let (found, wrong) = store.list().unwrap();
        assert_eq!((found.len(), wrong.len()), (1, 1));
    }
}

#[test]
fn baseline_names_cannot_escape_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = BaselineStore::new(directory.path());
    let long = "x".repeat(65);
    for name in ["", "../x", "a/b", "a b", ".hidden", "-x", "a\u{7}", long.as_str()] {
        let error = store.save(name, &machine("x"), &RunSet::default(), at(0)).unwrap_err();
        assert!(matches!(error, BaselineError::Name { .. }), "{name}: {error}");
        assert!(matches!(store.find(name, &machine("x"), true), Err(BaselineError::Name { .. })));
    }
    assert!(!store.dir().exists());
    store.save(&"x".repeat(64), &machine("x"), &RunSet::default(), at(0)).unwrap();
}
