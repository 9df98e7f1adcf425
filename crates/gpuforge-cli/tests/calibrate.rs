//! `gpuforge calibrate`, `route` and `share`: measurement, placement decisions, export and import, rejected input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

mod common;

use std::path::PathBuf;

use common::{RunOutput, Sandbox, run};
use gpuforge::ops::OpKind;
use gpuforge::route::{
    CostModel,
    curve::{Curve, Point},
    store,
};
use serde_json::Value;

fn file(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("data").join(store::FILE)
}

/// A CPU at 1 ns per unit and a GPU with launch overhead that is ten times faster.
fn write_fake_calibration(sandbox: &Sandbox) {
    let curve = |fixed: f64, each: f64| {
        let point = |octave: u32| Point { units: 1 << octave, ns: fixed + each * f64::from(1u32 << octave) };
        Curve::try_from((4..=30).map(point).collect::<Vec<_>>()).unwrap()
    };
    let mut cpu = CostModel::named("cpu");
    let mut card = CostModel::named("Made-up Card 9");
    card.driver = Some("1.0".to_owned());
    for kind in [OpKind::Xor, OpKind::Matmul] {
        cpu.set(kind, curve(100.0, 1.0));
        card.set(kind, curve(1e5, 0.1));
    }
    (card.upload, card.download, card.launch_ns) = (Some(curve(1e3, 0.01)), Some(curve(1e3, 0.01)), 1e5);
    (cpu.spread, card.spread) = (Some(0.02), Some(0.5));
    store::save(&file(sandbox), &[cpu, card]).unwrap();
}

fn route(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(sandbox.gpuforge(&[&["route"], args].concat()).env("LD_DEBUG", "files"))
}

fn decision(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ran = route(sandbox, &[args, &["--json"]].concat()).ok();
    assert!(!ran.stderr.contains("libvulkan") && !ran.stderr.contains("libnvidia"), "a library was loaded");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn route_decides_from_the_calibration_file_without_a_device() {
    let sandbox = Sandbox::new();
    write_fake_calibration(&sandbox);
    let small = decision(&sandbox, &["matmul", "32"]);
    assert_eq!((&small["device"], &small["calibrated"]), (&"cpu".into(), &true.into()));
    let large = decision(&sandbox, &["matmul", "1024", "512", "2048"]);
    assert_eq!(large["device"], "Made-up Card 9");
    assert!(large["reason"].as_str().unwrap().contains("times faster"), "{large}");
    let ms = large["predicted_ms"].as_object().unwrap();
    let of = |name: &str| ms[name].as_f64().unwrap();
    assert_eq!(ms.len(), 2);
    assert!((of("cpu") / 1073.7 - 1.0).abs() < 0.02 && of("Made-up Card 9") < 120.0, "{large}");
    let text = route(&sandbox, &["xor", "2^20"]).ok().stdout;
    assert!(
        (2..=4).contains(&text.lines().count()) && text.starts_with("xor 1048576: Made-up Card 9"),
        "{text}"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    // Documented fields come first, in order.
    let json = route(&sandbox, &["xor", "100", "--json"]).ok().stdout;
    let at: Vec<usize> = ["\"device\"", "\"reason\"", "\"predicted_ms\"", "\"calibrated\""]
        .map(|field| json.find(field).unwrap())
        .to_vec();
    assert!(at.is_sorted(), "{json}");
}

#[test]
fn device_flag_overrides_settings_and_settings_override_prediction() {
    let sandbox = Sandbox::new();
    write_fake_calibration(&sandbox);
    for (device, want) in
        [("cpu", "cpu"), ("0", "Made-up Card 9"), ("card", "Made-up Card 9"), ("auto", "cpu")]
    {
        let answer = decision(&sandbox, &["xor", "64", "--device", device]);
        assert_eq!(answer["device"], want, "{device}");
    }
    assert_eq!(decision(&sandbox, &["xor", "64", "--device", "cpu"])["reason"], "it was asked for");
    let refused = route(&sandbox, &["xor", "64", "--device", "7"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("0 = Made-up Card 9"), "{}", refused.stderr);
    let with = |name: &str, value: &str, args: &[&str]| {
        run(sandbox.gpuforge(&[&["route", "--json"], args].concat()).env(name, value)).json()["device"]
            .clone()
    };
    assert_eq!(with("GPUFORGE_CPU_ONLY", "1", &["xor", "2^24"]), "cpu");
    assert_eq!(with("GPUFORGE_DEVICE", "cpu", &["xor", "2^24"]), "cpu");
    assert_eq!(with("GPUFORGE_DEVICE", "0", &["xor", "64"]), "Made-up Card 9");
    assert_eq!(with("GPUFORGE_DEVICE", "0", &["xor", "64", "--device", "cpu"]), "cpu");
    for wrong in ["nonsense", "gpu0x"] {
        let ran = run(sandbox.gpuforge(&["route", "xor", "64"]).env("GPUFORGE_DEVICE", wrong));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("GPUFORGE_DEVICE: {wrong:?}")), "{}", ran.stderr);
    }
}

#[test]
fn route_rejects_unknown_operations_sizes_and_devices() {
    let sandbox = Sandbox::new();
    write_fake_calibration(&sandbox);
    let said = |args: &[&str], code: i32| {
        let ran = run(&mut sandbox.gpuforge(&[&["route"], args].concat()));
        assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.stdout, ran.stderr);
        ran.stderr
    };
    let typo = said(&["mtmul", "3"], 1);
    assert!(typo.contains("did you mean matmul?") && typo.contains("xor"), "{typo}");
    for huge in
        [&["matmul", "2^40"][..], &["matmul", "100000"], &["xor", "9999999999999"], &["batch-matmul", "2^20"]]
    {
        let limit = said(huge, 1);
        assert!(limit.contains("512 MiB"), "{huge:?}: {limit}");
    }
    for wrong in [&["matmul"][..], &["matmul", "-3"], &["matmul", "many"], &["matmul", "2^99"], &[]] {
        said(wrong, 2);
    }
    run(&mut sandbox.gpuforge(&["route", "xor", "2^26"])).ok();
}

#[test]
fn route_without_a_calibration_measures_nothing() {
    let sandbox = Sandbox::new();
    let answer = run(&mut sandbox.gpuforge(&["route", "xor", "4096", "--json"])).json();
    assert_eq!((&answer["calibrated"], &answer["device"]), (&false.into(), &"cpu".into()));
    assert_eq!(answer["predicted_ms"], serde_json::json!({}), "{answer}");
    assert!(!file(&sandbox).exists());
    let text = run(&mut sandbox.gpuforge(&["route", "xor", "4096"])).ok().stdout;
    assert!(text.contains("xor 4096: cpu"), "{text}");
    for args in [&["calibrate", "--show"][..], &["share", "export", "out.json"]] {
        let ran = run(&mut sandbox.gpuforge(args));
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("gpuforge calibrate"), "{}", ran.stderr);
    }
}

#[test]
fn a_corrupt_calibration_is_ignored_with_a_warning() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("data")).unwrap();
    for text in ["", "{", "{\"version\":7,\"models\":[]}", "[1e999]"] {
        std::fs::write(file(&sandbox), text).unwrap();
        let ran = run(&mut sandbox.gpuforge(&["route", "xor", "4096", "--json"]));
        assert!(ran.stderr.contains("is ignored"), "{text}: {}", ran.stderr);
        assert_eq!(ran.json()["calibrated"], false, "{text}");
    }
}

#[test]
fn show_plots_the_stored_calibration_without_measuring() {
    let sandbox = Sandbox::new();
    write_fake_calibration(&sandbox);
    let svg = sandbox.path("curves.svg");
    let mut command = sandbox.gpuforge(&["calibrate", "--show", "--svg", svg.to_str().unwrap()]);
    let ran = run(command.env("LD_DEBUG", "files").env("COLUMNS", "70")).ok();
    assert!(!ran.stderr.contains("libvulkan"), "nothing is measured");
    assert!(ran.stdout.contains("matmul: cpu, from") && !ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    assert!(ran.stdout.lines().filter(|l| l.contains('|')).all(|l| l.chars().count() <= 70));
    assert!(ran.stderr.contains("too noisy"), "the card's spread is 50 %: {}", ran.stderr);
    let colours = run(&mut sandbox.gpuforge(&["calibrate", "--show", "--color", "always"])).ok().stdout;
    assert!(colours.contains("\u{1b}[36m"));
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("Made-up Card 9"));
    let json = run(&mut sandbox.gpuforge(&["calibrate", "--show", "--json"])).json();
    assert_eq!(json["places"][1]["noisy"], true);
    let crossover = json["kinds"][0]["crossover"].as_u64().unwrap();
    assert!((100_000..130_000).contains(&crossover), "{json}");
    let nowhere = run(&mut sandbox.gpuforge(&["calibrate", "--show", "--svg", "/no/such/directory/x.svg"]));
    assert!(nowhere.code == Some(1) && nowhere.stderr.contains("x.svg"), "{}", nowhere.stderr);
    assert_eq!(run(&mut sandbox.gpuforge(&["calibrate", "--show", "--full"])).code, Some(2));
}

#[test]
fn a_quick_calibration_is_stored_exported_and_imported() {
    let sandbox = Sandbox::new();
    let report = run(&mut sandbox.gpuforge(&["calibrate", "--quick", "--json"])).json();
    let seconds = report["seconds"].as_f64().unwrap();
    println!("{seconds:.1} s, places {}", report["places"]);
    assert!(seconds < 20.0, "ten seconds, and what a busy machine adds: {seconds}");
    assert_eq!(report["places"][0]["name"], "cpu");
    assert!(report["kinds"].as_array().unwrap().len() >= 10, "{report}");
    let answer = run(&mut sandbox.gpuforge(&["route", "matmul", "64", "--json"])).json();
    assert!(answer["predicted_ms"]["cpu"].as_f64().unwrap() > 0.0, "{answer}");

    let bundle = sandbox.path("share.json");
    let path = bundle.to_str().unwrap();
    run(&mut sandbox.gpuforge(&["share", "export", path])).ok();
    let text = std::fs::read_to_string(&bundle).unwrap();
    for secret in [
        "uuid",
        "bus_id",
        "boot",
        "hostname",
        "kernel\"",
        "usable_reason",
        sandbox.path("").to_str().unwrap(),
    ] {
        assert!(!text.contains(secret), "{secret} left the machine");
    }
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let inventory: gpuforge::hardware::Inventory =
        serde_json::from_value(value["inventory"].clone()).unwrap();
    assert!(inventory.cpu.unwrap().brand.is_some() || cfg!(not(target_os = "linux")));

    let other = Sandbox::new();
    let taken = run(&mut other.gpuforge(&["share", "import", path, "--json"])).json();
    assert_eq!(taken["places"].as_array().unwrap().len(), report["places"].as_array().unwrap().len());
    assert_eq!(run(&mut other.gpuforge(&["route", "matmul", "64", "--json"])).json(), answer);

    // A calibration of another driver or CPU is rejected with both keys; the stored one stays.
    let before = std::fs::read(file(&other)).unwrap();
    let last = value["calibration"].as_array().unwrap().len() - 1;
    value["calibration"][last]["driver"] = "0.0.0-elsewhere".into();
    value["inventory"]["cpu"]["brand"] = "Elsewhere 1".into();
    std::fs::write(&bundle, value.to_string()).unwrap();
    let refused = run(&mut other.gpuforge(&["share", "import", path]));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("Elsewhere 1") && refused.stderr.contains("here "), "{}", refused.stderr);
    for bad in ["", "{}", "{\"version\":1,\"gpuforge\":\"0.0.0\"}"] {
        std::fs::write(&bundle, bad).unwrap();
        let refused = run(&mut other.gpuforge(&["share", "import", path, "--json"]));
        assert!(refused.code == Some(1) && refused.stderr.contains("hint"), "{}", refused.stderr);
    }
    assert_eq!(run(&mut other.gpuforge(&["share", "import", "/no/such/file"])).code, Some(1));
    assert_eq!(std::fs::read(file(&other)).unwrap(), before);
}
