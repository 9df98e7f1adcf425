//! Calibration file and bundle: round trip, validation, concurrent writers, export and import.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{path::PathBuf, sync::Arc};

use gpuforge_ops::{Op, OpKind, Variant, Work, registry};
use gpuforge_route::{
    Backend, CostModel, CpuBackend, OpClass,
    backend::{BackendError, BackendRun},
    bundle::{BundleError, CalibrationBundle},
    curve::{Curve, Point},
    store::{self, CalibrationKey},
};
use serde_json::{Value, json};

struct Named(&'static str, Option<&'static str>);

impl Backend for Named {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn driver(&self) -> Option<String> {
        self.1.map(str::to_owned)
    }

    fn run(&self, _op: &dyn Op, _keep_on_device: bool) -> Result<BackendRun, BackendError> {
        Err(BackendError::Device { error: "not here".to_owned(), events: Vec::new() })
    }
}

fn backends(driver: &'static str) -> Vec<Arc<dyn Backend>> {
    vec![Arc::new(CpuBackend::default()), Arc::new(Named("card", Some(driver)))]
}

fn curve(ns: f64) -> Curve {
    Curve::try_from(vec![Point { units: 256, ns }, Point { units: 1 << 20, ns: ns * 1e3 }]).unwrap()
}

fn model(name: &str, driver: Option<&str>, ns: f64) -> CostModel {
    let mut model = CostModel::named(name);
    model.driver = driver.map(str::to_owned);
    model.set(OpKind::Xor, curve(ns));
    model.set(OpKind::Matmul, curve(ns * 2.0));
    if driver.is_some() {
        (model.upload, model.download, model.launch_ns) = (Some(curve(1e4)), Some(curve(2e4)), 5e4);
        model.tune(OpKind::Xor, Variant::new(256, 1, 1));
    }
    (model.byte_ns, model.flop_ns, model.spread) = (Some(0.2), Some(0.01), Some(0.04));
    model
}

fn two() -> Vec<CostModel> {
    vec![model("cpu", None, 100.0), model("card", Some("1.0"), 70.0)]
}

struct TempStore {
    dir: tempfile::TempDir,
}

impl TempStore {
    fn new() -> Self {
        TempStore { dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("data").join(store::FILE)
    }

    fn with(text: &str) -> Self {
        let store_dir = TempStore::new();
        std::fs::create_dir_all(store_dir.file().parent().unwrap()).unwrap();
        std::fs::write(store_dir.file(), text).unwrap();
        store_dir
    }
}

#[test]
fn saved_models_round_trip_and_predict_the_same() {
    let store_dir = TempStore::new();
    assert_eq!(store::read(&store_dir.file()), (vec![], vec![]), "a missing file is not worth a note");
    store::save(&store_dir.file(), &two()).unwrap();
    let (models, notes) = store::load(&store_dir.file(), &backends("1.0"));
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(models, two());
    assert_eq!(store::read(&store_dir.file()).0, two());
    let op = (registry::entry(OpKind::Xor).unwrap().example)(&[5000]).unwrap();
    let work = Work::of(op.as_ref(), false).unwrap();
    let class = OpClass::of(OpKind::Xor);
    assert_eq!(models[1].predict(class, &work), two()[1].predict(class, &work), "look-ups work at once");
    let text = std::fs::read_to_string(store_dir.file()).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["version"], &value["gpuforge"]), (&json!(1), &json!(env!("CARGO_PKG_VERSION"))));
}

#[test]
fn another_driver_invalidates_the_model() {
    let store_dir = TempStore::new();
    store::save(&store_dir.file(), &two()).unwrap();
    let (models, notes) = store::load(&store_dir.file(), &backends("2.0"));
    assert!(models[0].is_known() && !models[1].is_known());
    assert_eq!(
        CalibrationKey::of(&models[1]),
        CalibrationKey { name: "card".into(), driver: Some("2.0".into()) }
    );
    assert!(
        notes.len() == 1 && notes[0].contains("card (1.0)") && notes[0].contains("card (2.0)"),
        "{notes:?}"
    );
    // Both are kept from now on; the present backends come first.
    let newer = vec![model("cpu", None, 50.0), model("card", Some("2.0"), 7.0)];
    store::save(&store_dir.file(), &newer).unwrap();
    assert_eq!(store::load(&store_dir.file(), &backends("1.0")).0[1], two()[1]);
    assert_eq!(store::load(&store_dir.file(), &backends("2.0")).0, newer);
    assert_eq!(store::read(&store_dir.file()).0, newer);
}

#[test]
fn equal_cards_have_a_model_each() {
    let store_dir = TempStore::new();
    let models =
        vec![model("cpu", None, 100.0), model("card", Some("1.0"), 7.0), model("card", Some("1.0"), 9.0)];
    store::save(&store_dir.file(), &models).unwrap();
    let mut three = backends("1.0");
    three.push(Arc::new(Named("card", Some("1.0"))));
    assert_eq!(store::load(&store_dir.file(), &three).0, models);
    three.push(Arc::new(Named("card", Some("1.0"))));
    assert_eq!(store::load(&store_dir.file(), &three).0[3], models[2], "one more shares the last");
}

#[test]
fn custom_kernel_curves_survive_recalibration() {
    let store_dir = TempStore::new();
    let mut own = two();
    own[1].custom.push(("mine".to_owned(), curve(3.0)));
    store::save(&store_dir.file(), &own).unwrap();
    store::save(&store_dir.file(), &two()).unwrap();
    assert_eq!(store::read(&store_dir.file()).0[1].custom, own[1].custom);
}

/// The note about a file with this text; no model may come from it.
fn refused(text: &str) -> String {
    let store_dir = TempStore::with(text);
    let (models, notes) = store::load(&store_dir.file(), &backends("1.0"));
    assert!(models.iter().all(|m| !m.is_known()), "{text:.80}");
    assert!(store::read(&store_dir.file()).0.is_empty());
    assert!(!notes.is_empty(), "{text:.80}");
    // Whatever was wrong: the next calibration is kept.
    store::save(&store_dir.file(), &two()).unwrap();
    assert_eq!(store::read(&store_dir.file()), (two(), vec![]));
    notes.join("\n")
}

#[test]
fn foreign_files_are_ignored_with_a_reason() {
    assert!(refused("").contains("does not parse"));
    assert!(refused("{\"version\":1").contains("does not parse"));
    assert!(refused("[]").contains("not a calibration"));
    assert!(refused("{\"version\":2,\"gpuforge\":\"9.0.0\",\"models\":{}}").contains("version 2"));
    assert!(
        refused("{\"version\":1,\"gpuforge\":\"9.0.0\",\"here\":0,\"models\":[]}").contains("gpuforge 9.0.0")
    );
    assert!(refused(&"[".repeat(100_000)).contains("does not parse"));
    assert!(refused(&" ".repeat(3 << 20)).contains("larger than"));
}

#[test]
fn implausible_values_are_refused() {
    let points = |n: u64| (1..=n).map(|i| json!({"units": i, "ns": 5.0})).collect::<Vec<_>>();
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 14] = [
        ("negative launch", |m| m["launch_ns"] = json!(-1.0)),
        ("huge launch", |m| m["launch_ns"] = json!(1e300)),
        ("no number", |m| m["launch_ns"] = json!("NaN")),
        ("null where a number must be", |m| m["launch_ns"] = Value::Null),
        ("zero per byte", |m| m["byte_ns"] = json!(0.0)),
        ("negative per step", |m| m["flop_ns"] = json!(-0.1)),
        ("huge spread", |m| m["spread"] = json!(1e300)),
        ("huge time", |m| m["curves"][0][1][0]["ns"] = json!(1e300)),
        ("negative time", |m| m["curves"][0][1][0]["ns"] = json!(-4.0)),
        ("sizes out of order", |m| m["curves"][0][1][0]["units"] = json!(1u64 << 40)),
        ("a size nobody has", |m| m["curves"][0][1][1]["units"] = json!(1u64 << 60)),
        ("an unknown kind", |m| m["curves"][0][0] = json!("teleport")),
        ("a name that moves the cursor", |m| m["name"] = json!("cpu\u{1b}[2J")),
        ("no name", |m| m["name"] = json!("")),
    ];
    let with = |change: &dyn Fn(&mut Value)| {
        let mut models: Vec<Value> = two().iter().map(|m| serde_json::to_value(m).unwrap()).collect();
        models.iter_mut().for_each(change);
        let version = env!("CARGO_PKG_VERSION");
        json!({"version": 1, "gpuforge": version, "here": 2, "models": models}).to_string()
    };
    for (what, change) in changes {
        let note = refused(&with(&change));
        assert!(note.contains("model 0") && note.contains("model 1"), "{what}: {note}");
    }
    let many = refused(&with(&|m| m["curves"][0][1] = json!(points(1_000))));
    assert!(many.contains("1000 points"), "{many}");
    let million = "{\"units\":1,\"ns\":1.0},".repeat(1_000_000);
    assert!(
        refused(&with(&|m| m["name"] = json!("swap me")).replace("swap me", &million))
            .contains("larger than")
    );
    // One bad model costs only itself.
    let mut models: Vec<Value> = two().iter().map(|m| serde_json::to_value(m).unwrap()).collect();
    models[1]["launch_ns"] = json!(-1.0);
    let text = json!({"version": 1, "gpuforge": env!("CARGO_PKG_VERSION"), "here": 2, "models": models});
    let store_dir = TempStore::with(&text.to_string());
    let (models, notes) = store::load(&store_dir.file(), &backends("1.0"));
    assert!(models[0].is_known() && !models[1].is_known() && notes.len() == 1, "{notes:?}");
}

#[test]
fn corrupted_files_never_panic() {
    let store_dir = TempStore::new();
    store::save(&store_dir.file(), &two()).unwrap();
    let whole = std::fs::read(store_dir.file()).unwrap();
    let mut random = 1u64;
    for round in 0..400 {
        let mut bytes = whole.clone();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (random >> 33) as usize % bytes.len();
        match round % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << (random % 8),
            _ => bytes[at] = b"0123456789eE+-.,[]{}\" "[random as usize % 22],
        }
        std::fs::write(store_dir.file(), &bytes).unwrap();
        let (models, _) = store::load(&store_dir.file(), &backends("1.0"));
        assert_eq!(models.len(), 2);
        for model in &models {
            store::check(model).unwrap();
        }
    }
}

#[test]
fn concurrent_writers_leave_a_whole_file() {
    let store_dir = TempStore::new();
    let file = store_dir.file();
    store::save(&file, &two()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let file = &file;
            scope.spawn(move || {
                for i in 0..25 {
                    let ns = f64::from(writer * 100 + i + 1);
                    let models = [model("cpu", None, ns), model("card", Some("1.0"), ns)];
                    store::save(file, &models).unwrap();
                }
            });
        }
        for _ in 0..200 {
            let (models, notes) = store::read(&file);
            assert_eq!((models.len(), notes), (2, vec![]));
            let of = |m: &CostModel| m.curve(OpKind::Xor).unwrap().points()[0].ns;
            assert!(of(&models[0]) == of(&models[1]) || models == two(), "both are of one writer");
        }
    });
    let left: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
}

#[test]
fn an_unwritable_directory_is_an_error_that_names_it() {
    let store_dir = TempStore::with("");
    let below = store_dir.file().join("calibration.json");
    let error = store::save(&below, &two()).unwrap_err().to_string();
    assert!(error.contains("calibration.json"), "{error}");
}

fn inventory() -> Value {
    json!({
        "schema": 1,
        "gpus": [{
            "vendor": "nvidia", "name": "card", "memory_bytes": 8, "driver_version": "1.0", "arch": "8.9",
            "bus_id": "0000:01:00.0", "type": "discrete", "usable_for_compute": "yes",
            "usable_reason": "opened /dev/secret", "score": 50, "uuid": "GPU-secret", "error": "secret",
            "hidden_by": "secret", "index": 0, "sources": ["secret"], "serial": "secret"
        }],
        "cpu": {"brand": "Fast 3000", "simd": "avx2", "available": 8, "limited_by": "cgroup /secret"},
        "best": {"index": 0, "name": "card", "bus_id": "secret", "reason": "secret"}, "best_reason": "secret",
        "host": {"os": "linux", "kernel": "6.1-secret", "container": "secret", "hostname": "secret"},
        "driver_version": "1.0", "boot_id": "secret", "overrides": [{"variable": "secret"}],
        "cache": {"hit": true, "age_s": 5.0}, "warnings": [{"source": "secret", "message": "secret"}]
    })
}

#[test]
fn bundles_contain_hardware_facts_only() {
    let mut models = two();
    models[1].custom.push(("secret".to_owned(), curve(1.0)));
    let bundle = CalibrationBundle::new(&inventory(), &models);
    let text = serde_json::to_string(&bundle).unwrap();
    assert!(!text.contains("secret") && !text.contains("0000:01"), "{text}");
    assert_eq!(bundle.inventory["gpus"][0]["driver_version"], "1.0");
    assert_eq!(bundle.inventory["cpu"]["brand"], "Fast 3000");
    let store_dir = TempStore::new();
    bundle.save(&store_dir.file()).unwrap();
    let back = CalibrationBundle::load(&store_dir.file()).unwrap();
    let keys: Vec<CalibrationKey> = two().iter().map(CalibrationKey::of).collect();
    assert_eq!(back.accept(&store_dir.file(), &inventory(), &keys).unwrap(), two());
}

#[test]
fn bundles_of_other_hardware_are_refused() {
    let bundle = CalibrationBundle::new(&inventory(), &two());
    let path = PathBuf::from("bundle.json");
    let ours: Vec<CalibrationKey> = two().iter().map(CalibrationKey::of).collect();
    let refused = |inventory: &Value, keys: &[CalibrationKey]| match bundle.accept(&path, inventory, keys) {
        Err(error @ BundleError::OtherHardware { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let mut other_driver = ours.clone();
    other_driver[1].driver = Some("2.0".to_owned());
    let said = refused(&inventory(), &other_driver);
    assert!(said.contains("card (1.0)") && said.contains("card (2.0)"), "{said}");
    let said = refused(&inventory(), &ours[..1]);
    assert!(said.contains("card"), "{said}");
    let mut slower = inventory();
    slower["cpu"]["brand"] = json!("Slow 100");
    let said = refused(&slower, &ours);
    assert!(said.contains("Fast 3000") && said.contains("Slow 100"), "{said}");
    slower["cpu"]["brand"] = json!("Fast 3000");
    slower["cpu"]["available"] = json!(2);
    assert!(refused(&slower, &ours).contains("2 threads"));
}

#[test]
fn malformed_bundles_are_errors_that_say_why() {
    let store_dir = TempStore::new();
    assert!(matches!(CalibrationBundle::load(&store_dir.file()), Err(BundleError::File { .. })));
    let said = |text: &str| {
        let store_dir = TempStore::with(text);
        CalibrationBundle::load(&store_dir.file()).unwrap_err().to_string()
    };
    assert!(said("").contains("not a calibration bundle"));
    assert!(said("{}").contains("missing field"));
    assert!(said("{\"version\":9,\"gpuforge\":\"0.1.0\"}").contains("file version 9"));
    assert!(said("{\"version\":1,\"gpuforge\":\"8.0\\u001b[2J\"}").contains("gpuforge 8.0[2J"));
    assert!(said(&" ".repeat(5 << 20)).contains("larger than"));
    let mut bundle = CalibrationBundle::new(&inventory(), &two());
    let keys: Vec<CalibrationKey> = two().iter().map(CalibrationKey::of).collect();
    bundle.calibration[1]["launch_ns"] = json!(-5.0);
    let error = bundle.accept(&store_dir.file(), &inventory(), &keys).unwrap_err().to_string();
    assert!(error.contains("launch_ns"), "{error}");
    bundle.calibration.clear();
    assert!(bundle.accept(&store_dir.file(), &inventory(), &keys).is_err(), "no models");
}
