//! Training loop: resume is bit-exact, non-finite numbers are named, OOM halves the batch, a lost device is replaced, and two
//! numbers are downloaded per step.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::{cell::RefCell, fs, path::Path};

use common::{fold, recipe, request, small};
use gpuforge_train::{
    TrainError,
    checkpoint::{Checkpoint, FORMAT},
    config::{BatchSize, OnNan, TrainConfig},
    data::{Dataset, Rows, target::Target},
    device_table::{DeviceTable, TrainBackend, TransferBytes},
    fit::{self, Event, Faults, FitJob},
    model::Architecture,
    model_card,
    train::{self, CHECKPOINT, FoldOptions},
};

mod common;

fn config(data: &Dataset, epochs: usize) -> TrainConfig {
    request(Architecture::Mlp { hidden: vec![8] }, epochs, 1).config(data, 0)
}

/// Trains until a panic in the event callback kills it at `step`.
fn kill_at(data: &Dataset, config: &TrainConfig, directory: &Path, step: u64) {
    let fold = fold(data);
    let options = FoldOptions { directory: Some(directory), every: Some(3), ..FoldOptions::cpu() };
    let stop = std::panic::AssertUnwindSafe(|| {
        train::train(data, &fold, config, options, &mut |event| {
            if matches!(event, Event::Step(progress) if progress.step == step) {
                panic!("killed by the test");
            }
        })
        .map(|_| ())
    });
    assert!(std::panic::catch_unwind(stop).is_err(), "it should have been stopped at step {step}");
}

#[test]
fn resumed_training_is_bit_exact() {
    let data = small(Target::Direction);
    let (fold, config) = (fold(&data), config(&data, 4));
    let whole = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {}).unwrap();
    let per_epoch = fold.train.samples.len().div_ceil(64) as u64;
    let steps = whole.card.history.len() as u64 * per_epoch;
    for step in [1, 5, steps / 2, steps - 1] {
        let directory = tempfile::tempdir().unwrap();
        kill_at(&data, &config, directory.path(), step);
        let options = FoldOptions {
            directory: Some(directory.path()),
            every: Some(3),
            resume: true,
            ..FoldOptions::cpu()
        };
        let mut first = None;
        let resumed = train::train(&data, &fold, &config, options, &mut |event| {
            if let Event::Started { step, .. } = event {
                first = Some(step);
            }
        })
        .unwrap();
        // Checkpoints follow every third step and every epoch; the step reported last is not saved yet.
        let last = (0..step).rev().find(|s| s % 3 == 0 || s % per_epoch == 0);
        assert_eq!(first, last, "from the last checkpoint");
        assert_eq!(resumed.weights, whole.weights, "stopped at {step}");
        assert_eq!(resumed.card.test, whole.card.test);
    }
}

#[test]
fn weights_depend_on_the_seed_only() {
    let data = small(Target::Direction);
    let fold = fold(&data);
    let of = |seed| {
        let config = request(Architecture::Mlp { hidden: vec![8] }, 2, seed).config(&data, 0);
        train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {}).unwrap().weights
    };
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn early_stopping_ends_training() {
    let data =
        Dataset::on_cpu(&common::noise(2, 400, 3), &recipe("volume * 1, rsi(14)", 2, 1, Target::Direction))
            .unwrap();
    let fold = fold(&data);
    let mut config = request(Architecture::Mlp { hidden: vec![32] }, 60, 1).config(&data, 0);
    config.patience = 3;
    config.optimiser.learning_rate = 1e-2;
    let mut early = None;
    let trained = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |event| {
        if let Event::EarlyStop { best } = event {
            early = Some(best);
        }
    })
    .unwrap();
    let best = early.expect("noise cannot be learned for 60 epochs");
    assert_eq!(trained.card.history.len(), best + 1 + 3);
    assert_eq!(trained.card.best_epoch, best);
}

/// Sets one feature value to NaN.
fn inject_nan(data: &mut Dataset) -> u32 {
    let fold = fold(data);
    let sample = fold.train.samples[7];
    let row = data.samples.last_row[sample as usize] as usize;
    let Rows::Host(rows) = &mut data.rows else { panic!("on the host") };
    rows.values[row * rows.columns + 1] = f32::NAN;
    sample
}

#[test]
fn nan_feature_is_named_and_stops_training() {
    let mut data = small(Target::Direction);
    inject_nan(&mut data);
    let (fold, config) = (fold(&data), config(&data, 2));
    let error = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {}).err().unwrap();
    match &error {
        TrainError::NotFinite { epoch: 1, batch, cause, .. } => {
            assert!(*batch >= 1);
            assert!(cause.contains("rsi_14") && cause.contains("NaN") && cause.contains("S"), "{cause}");
        }
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("--on-nan skip"));
}

#[test]
fn on_nan_skip_and_reduce_lr_skip_the_batch() {
    let mut data = small(Target::Direction);
    inject_nan(&mut data);
    let fold = fold(&data);
    for policy in [OnNan::Skip, OnNan::ReduceLr] {
        let mut config = config(&data, 3);
        config.on_nan = policy;
        let rates = RefCell::new(Vec::new());
        let job = FitJob {
            config: &config,
            data: &data,
            fold: &fold,
            scale: 1.0,
            file: None,
            every: None,
            resume: false,
            recover: None,
            faults: Faults::default(),
        };
        let mut table = DeviceTable::new(TrainBackend::cpu(), &data, 1.0).unwrap();
        let fitted = fit::fit(&job, &mut table, &mut |event| {
            if let Event::Step(progress) = event {
                rates
                    .borrow_mut()
                    .push(progress.learning_rate / config.optimiser.learning_rate_at(progress.done));
            }
        })
        .unwrap();
        // Two windows hold the row; they may be in one batch of an epoch or in two.
        assert!((3..=6).contains(&fitted.progress.skipped), "{}", fitted.progress.skipped);
        assert!(fitted.weights.iter().all(|w| w.is_finite()));
        let halved = fitted.progress.lr_factor < 1.0;
        assert_eq!(halved, policy == OnNan::ReduceLr);
    }
}

#[test]
fn diverged_training_stops_after_ten_batches() {
    let data = small(Target::Return { clip: 0.05 });
    let fold = fold(&data);
    let mut config = request(Architecture::Linear, 3, 1).config(&data, 0);
    config.on_nan = OnNan::Skip;
    config.optimiser.learning_rate = 1e38;
    config.optimiser.clip_norm = 0.0;
    let error = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {}).err().unwrap();
    assert!(matches!(error, TrainError::NeverFinite { count: 10, .. }), "{error}");
}

#[test]
fn oom_halves_the_batch_until_it_fits() {
    let data = small(Target::Direction);
    let (fold, config) = (fold(&data), config(&data, 2));
    let mut sizes = Vec::new();
    let faults = Faults { max_batch: Some(20), lost_at: None };
    let options = FoldOptions { faults, ..FoldOptions::cpu() };
    let trained = train::train(&data, &fold, &config, options, &mut |event| {
        if let Event::BatchHalved { batch } = event {
            sizes.push(batch);
        }
    })
    .unwrap();
    assert_eq!(sizes, [32, 16]);
    assert_eq!(trained.card.batch, 16);
    assert_eq!(trained.card.history.len(), 2, "both epochs were done");
    let none = FoldOptions { faults: Faults { max_batch: Some(0), lost_at: None }, ..FoldOptions::cpu() };
    let error = train::train(&data, &fold, &config, none, &mut |_| {}).err().unwrap();
    assert!(matches!(error, TrainError::OutOfMemory { batch: 1, .. }), "{error}");
}

#[test]
fn lost_device_resumes_from_last_checkpoint() {
    let data = small(Target::Direction);
    let (fold, config) = (fold(&data), config(&data, 3));
    let whole = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {}).unwrap();
    let make = |_: &TrainBackend, _: usize| {
        Ok((TrainBackend::cpu(), small(Target::Direction), "another".to_owned()))
    };
    let mut from = None;
    let faults = Faults { max_batch: None, lost_at: Some(8) };
    let options =
        FoldOptions { faults: faults.clone(), every: Some(5), recover: Some(&make), ..FoldOptions::cpu() };
    let trained = train::train(&data, &fold, &config, options, &mut |event| {
        if let Event::Recovered { step, .. } = event {
            from = Some(step);
        }
    })
    .unwrap();
    let per_epoch = fold.train.samples.len().div_ceil(64) as u64;
    assert_eq!(from, (0..=8).rev().find(|s| s % 5 == 0 || s % per_epoch == 0));
    assert_eq!(trained.card.device, "another");
    assert_eq!(trained.weights, whole.weights);
    let alone = FoldOptions { faults, ..FoldOptions::cpu() };
    let error = train::train(&data, &fold, &config, alone, &mut |_| {}).err().unwrap();
    assert!(matches!(error, TrainError::Device { step: 8, .. }), "{error}");
}

/// Transfer counters after each step of an epoch.
fn transfers_per_step(backend: TrainBackend) -> Vec<TransferBytes> {
    let data = small(Target::Direction);
    let (fold, config) = (fold(&data), config(&data, 2));
    let mut table = DeviceTable::new(backend.clone(), &data, 1.0).unwrap();
    let job = FitJob {
        config: &config,
        data: &data,
        fold: &fold,
        scale: 1.0,
        file: None,
        every: None,
        resume: false,
        recover: None,
        faults: Faults::default(),
    };
    let mut seen = Vec::new();
    fit::fit(&job, &mut table, &mut |event| {
        if let Event::Step(progress) = event
            && progress.epoch == 0
        {
            seen.push(backend.meter.read());
        }
    })
    .unwrap();
    seen
}

#[test]
fn step_downloads_two_scalars_and_uploads_nothing() {
    let seen = transfers_per_step(TrainBackend::cpu());
    assert!(seen.len() > 3);
    assert!(seen[0].features > 0, "features went up once");
    for pair in seen.windows(2) {
        let want = TransferBytes { scalars: pair[0].scalars + 8, ..pair[0] };
        assert_eq!(pair[1], want, "a step moves 8 bytes down and none up");
    }
}

/// The meter is complete because no other file moves tensors to or from host memory.
#[test]
fn host_transfers_are_in_one_file() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let words =
        ["from_data(", "into_data", "to_data", "into_vec_as", "to_vec_as", "into_scalar", "from_floats("];
    let mut directories = vec![directory];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                if words.iter().any(|w| text.contains(w)) {
                    found.push(path.file_name().unwrap().to_string_lossy().into_owned());
                }
            }
        }
    }
    assert_eq!(found, ["device_table.rs"]);
}

#[test]
fn foreign_checkpoints_are_rejected() {
    let data = small(Target::Direction);
    let (fold, config) = (fold(&data), config(&data, 1));
    let directory = tempfile::tempdir().unwrap();
    let options = || FoldOptions { directory: Some(directory.path()), resume: true, ..FoldOptions::cpu() };
    train::train(&data, &fold, &config, options(), &mut |_| {}).unwrap();
    let file = directory.path().join(CHECKPOINT);
    let good = fs::read(&file).unwrap();

    let mut other = config.clone();
    other.seed = 9;
    let error = train::train(&data, &fold, &other, options(), &mut |_| {}).err().unwrap();
    assert!(matches!(&error, TrainError::ConfigMismatch { what, .. } if what == "seed"), "{error}");

    // Another format version, patched into the header.
    let text = String::from_utf8_lossy(&good).into_owned();
    let at = text.find("\"format\":\"1\"").unwrap() + 10;
    let mut newer = good.clone();
    newer[at] = b'9';
    fs::write(&file, &newer).unwrap();
    let error = Checkpoint::read(&file).unwrap_err();
    assert!(matches!(error, TrainError::FormatVersion { found: 9, known: FORMAT, .. }), "{error}");

    // Truncated, and not safetensors at all.
    for bad in [&good[..good.len() / 2], b"hello".as_slice(), &[]] {
        fs::write(&file, bad).unwrap();
        let error = Checkpoint::read(&file).unwrap_err();
        assert!(matches!(error, TrainError::Corrupt { .. }), "{error}");
    }

    // An indicator that no longer exists.
    let mut unknown = config.clone();
    unknown.recipe.indicators = "rsi(14), oracle(7)".to_owned();
    let error = model_card::check_indicators(&file, &unknown, "9.9.9").unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, TrainError::UnknownIndicator { .. }), "{said}");
    assert!(said.contains("oracle") && said.contains("9.9.9"), "{said}");
}

#[test]
fn exported_model_round_trips() {
    let data = small(Target::VolReturn { clip: 4.0 });
    let (fold, config) = (fold(&data), config(&data, 2));
    let directory = tempfile::tempdir().unwrap();
    let options = FoldOptions { directory: Some(directory.path()), ..FoldOptions::cpu() };
    let trained = train::train(&data, &fold, &config, options, &mut |_| {}).unwrap();
    let backend = TrainBackend::cpu();
    let (card, net) = model_card::load(directory.path(), &backend).unwrap();
    assert_eq!(card, trained.card);
    assert_eq!(backend.fetch(net.flat.clone()).unwrap(), trained.weights);
    let page = gpuforge_train::report::page(&card);
    for part in ["Calibration", "Periods", "Features", "always up", "last sign", "linear", "Embargo"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("http"), "it fetches and runs nothing");
    // A card of another format version.
    let file = directory.path().join(model_card::CARD);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"format\": 1", "\"format\": 7", 1)).unwrap();
    assert!(matches!(
        model_card::read_card(directory.path()),
        Err(TrainError::FormatVersion { found: 7, .. })
    ));
    fs::write(&file, text.replacen("volume * 1", "oracle(7)", 1)).unwrap();
    assert!(matches!(model_card::read_card(directory.path()), Err(TrainError::UnknownIndicator { .. })));
}

#[test]
fn auto_batch_size_is_chosen_once() {
    let data = small(Target::Direction);
    let fold = fold(&data);
    let mut config = config(&data, 1);
    config.batch = BatchSize::Auto;
    let mut begun = None;
    let trained = train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |event| {
        if let Event::Started { batch, .. } = event {
            begun = Some(batch);
        }
    })
    .unwrap();
    assert_eq!(begun, Some(trained.card.batch));
    assert!(trained.card.batch >= 32);
}

#[test]
fn invalid_settings_are_rejected() {
    let data = small(Target::Direction);
    let fold = fold(&data);
    let fails = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config(&data, 1);
        change(&mut config);
        match train::train(&data, &fold, &config, FoldOptions::cpu(), &mut |_| {}) {
            Err(TrainError::InvalidSetting { what, .. }) => what,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was accepted"),
        }
    };
    assert_eq!(fails(&|s| s.epochs = 0), "--epochs");
    assert_eq!(fails(&|s| s.batch = BatchSize::Of(0)), "--batch-size");
    assert_eq!(fails(&|s| s.optimiser.learning_rate = f64::NAN), "--lr");
    assert_eq!(fails(&|s| s.optimiser.warm_up = 1.0), "--warm-up");
    assert_eq!(fails(&|s| s.spec.architecture = Architecture::Mlp { hidden: vec![0] }), "--hidden");
    let wide = Architecture::Transformer { width: 10, heads: 3, layers: 1 };
    assert_eq!(fails(&|s| s.spec.architecture = wide.clone()), "the transformer");
}
