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

use common::{ask, fold, recipe, small};
use gpuforge_train::{
    TrainError, card,
    checkpoint::{Checkpoint, FORMAT},
    config::{BatchSize, OnNan, TrainConfig},
    data::{Dataset, Rows, target::Target},
    device_table::{DeviceTable, TrainBackend, TransferBytes},
    fit::{self, Event, Faults, FitJob},
    model::Architecture,
    train::{self, CHECKPOINT, FoldOptions},
};

mod common;

fn setup(data: &Dataset, epochs: usize) -> TrainConfig {
    ask(Architecture::Mlp { hidden: vec![8] }, epochs, 1).setup(data, 0)
}

/// A training that is interrupted by an error of the observer's making: a panic that the test catches.
fn stopped_at(data: &Dataset, setup: &TrainConfig, directory: &Path, step: u64) {
    let fold = fold(data);
    let way = FoldOptions { directory: Some(directory), every: Some(3), ..FoldOptions::cpu() };
    let stop = std::panic::AssertUnwindSafe(|| {
        train::train(data, &fold, setup, way, &mut |event| {
            if matches!(event, Event::Step(tick) if tick.step == step) {
                panic!("killed on purpose");
            }
        })
        .map(|_| ())
    });
    assert!(std::panic::catch_unwind(stop).is_err(), "it should have been stopped at step {step}");
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_weights() {
    let data = small(Target::Direction);
    let (fold, setup) = (fold(&data), setup(&data, 4));
    let whole = train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |_| {}).unwrap();
    let per_epoch = fold.train.samples.len().div_ceil(64) as u64;
    let steps = whole.card.history.len() as u64 * per_epoch;
    for step in [1, 5, steps / 2, steps - 1] {
        let directory = tempfile::tempdir().unwrap();
        stopped_at(&data, &setup, directory.path(), step);
        let way = FoldOptions {
            directory: Some(directory.path()),
            every: Some(3),
            resume: true,
            ..FoldOptions::cpu()
        };
        let mut first = None;
        let resumed = train::train(&data, &fold, &setup, way, &mut |event| {
            if let Event::Init { step, .. } = event {
                first = Some(step);
            }
        })
        .unwrap();
        // After every third step and after every epoch; the step that was told last is not saved yet.
        let last = (0..step).rev().find(|s| s % 3 == 0 || s % per_epoch == 0);
        assert_eq!(first, last, "from the last checkpoint");
        assert_eq!(resumed.weights, whole.weights, "stopped at {step}");
        assert_eq!(resumed.card.test, whole.card.test);
    }
}

#[test]
fn equal_seeds_give_equal_weights_and_others_do_not() {
    let data = small(Target::Direction);
    let fold = fold(&data);
    let of = |seed| {
        let setup = ask(Architecture::Mlp { hidden: vec![8] }, 2, seed).setup(&data, 0);
        train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |_| {}).unwrap().weights
    };
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn training_ends_when_validation_gets_no_better() {
    let data =
        Dataset::on_cpu(&common::noise(2, 400, 3), &recipe("volume * 1, rsi(14)", 2, 1, Target::Direction))
            .unwrap();
    let fold = fold(&data);
    let mut setup = ask(Architecture::Mlp { hidden: vec![32] }, 60, 1).setup(&data, 0);
    setup.patience = 3;
    setup.steps.rate = 1e-2;
    let mut early = None;
    let trained = train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |event| {
        if let Event::Early { best } = event {
            early = Some(best);
        }
    })
    .unwrap();
    let best = early.expect("noise cannot be learned for 60 epochs");
    assert_eq!(trained.card.history.len(), best + 1 + 3);
    assert_eq!(trained.card.best_epoch, best);
}

/// One number of the features becomes NaN.
fn spoiled(data: &mut Dataset) -> u32 {
    let fold = fold(data);
    let sample = fold.train.samples[7];
    let row = data.samples.row[sample as usize] as usize;
    let Rows::Host(rows) = &mut data.rows else { panic!("on the host") };
    rows.values[row * rows.columns + 1] = f32::NAN;
    sample
}

#[test]
fn a_number_that_is_none_is_named_and_stops_training() {
    let mut data = small(Target::Direction);
    spoiled(&mut data);
    let (fold, setup) = (fold(&data), setup(&data, 2));
    let error = train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |_| {}).err().unwrap();
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
fn with_skip_and_with_reduce_lr_training_goes_on_without_the_batch() {
    let mut data = small(Target::Direction);
    spoiled(&mut data);
    let fold = fold(&data);
    for policy in [OnNan::Skip, OnNan::ReduceLr] {
        let mut setup = setup(&data, 3);
        setup.on_nan = policy;
        let rates = RefCell::new(Vec::new());
        let job = FitJob {
            setup: &setup,
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
            if let Event::Step(tick) = event {
                rates.borrow_mut().push(tick.rate / setup.steps.rate_at(tick.done));
            }
        })
        .unwrap();
        // Two windows hold the row; they may be in one batch of an epoch or in two.
        assert!((3..=6).contains(&fitted.progress.skipped), "{}", fitted.progress.skipped);
        assert!(fitted.weights.iter().all(|w| w.is_finite()));
        let halved = fitted.progress.factor < 1.0;
        assert_eq!(halved, policy == OnNan::ReduceLr);
    }
}

#[test]
fn weights_that_run_away_end_training_after_some_tries() {
    let data = small(Target::Return { clip: 0.05 });
    let fold = fold(&data);
    let mut setup = ask(Architecture::Linear, 3, 1).setup(&data, 0);
    setup.on_nan = OnNan::Skip;
    setup.steps.rate = 1e38;
    setup.steps.clip = 0.0;
    let error = train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |_| {}).err().unwrap();
    assert!(matches!(error, TrainError::NeverFinite { count: 10, .. }), "{error}");
}

#[test]
fn where_memory_runs_out_batches_are_halved_until_they_fit() {
    let data = small(Target::Direction);
    let (fold, setup) = (fold(&data), setup(&data, 2));
    let mut sizes = Vec::new();
    let faults = Faults { most: Some(20), lost_at: None };
    let way = FoldOptions { faults, ..FoldOptions::cpu() };
    let trained = train::train(&data, &fold, &setup, way, &mut |event| {
        if let Event::BatchHalved { batch } = event {
            sizes.push(batch);
        }
    })
    .unwrap();
    assert_eq!(sizes, [32, 16]);
    assert_eq!(trained.card.batch, 16);
    assert_eq!(trained.card.history.len(), 2, "both epochs were done");
    let none = FoldOptions { faults: Faults { most: Some(0), lost_at: None }, ..FoldOptions::cpu() };
    let error = train::train(&data, &fold, &setup, none, &mut |_| {}).err().unwrap();
    assert!(matches!(error, TrainError::Memory { batch: 1, .. }), "{error}");
}

#[test]
fn a_lost_device_is_replaced_and_training_goes_on_from_the_last_checkpoint() {
    let data = small(Target::Direction);
    let (fold, setup) = (fold(&data), setup(&data, 3));
    let whole = train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |_| {}).unwrap();
    let make = |_: &TrainBackend, _: usize| {
        Ok((TrainBackend::cpu(), small(Target::Direction), "another".to_owned()))
    };
    let mut from = None;
    let faults = Faults { most: None, lost_at: Some(8) };
    let way =
        FoldOptions { faults: faults.clone(), every: Some(5), recover: Some(&make), ..FoldOptions::cpu() };
    let trained = train::train(&data, &fold, &setup, way, &mut |event| {
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
    let error = train::train(&data, &fold, &setup, alone, &mut |_| {}).err().unwrap();
    assert!(matches!(error, TrainError::Device { step: 8, .. }), "{error}");
}

/// What crosses during the steps of an epoch.
fn crossed_per_step(backend: TrainBackend) -> Vec<TransferBytes> {
    let data = small(Target::Direction);
    let (fold, setup) = (fold(&data), setup(&data, 2));
    let mut table = DeviceTable::new(backend.clone(), &data, 1.0).unwrap();
    let job = FitJob {
        setup: &setup,
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
        if let Event::Step(tick) = event
            && tick.epoch == 0
        {
            seen.push(backend.meter.read());
        }
    })
    .unwrap();
    seen
}

#[test]
fn per_step_two_numbers_come_down_and_nothing_goes_up() {
    let seen = crossed_per_step(TrainBackend::cpu());
    assert!(seen.len() > 3);
    assert!(seen[0].features > 0, "features went up once");
    for pair in seen.windows(2) {
        let want = TransferBytes { scalars: pair[0].scalars + 8, ..pair[0] };
        assert_eq!(pair[1], want, "a step moves 8 bytes down and none up");
    }
}

/// The meter is complete because no other file touches host memory of tensors.
#[test]
fn tensors_meet_host_memory_in_one_file() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let words =
        ["from_data(", "into_data", "to_data", "into_vec_as", "to_vec_as", "into_scalar", "from_floats("];
    let mut folders = vec![directory];
    let mut found = Vec::new();
    while let Some(directory) = folders.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                if words.iter().any(|w| text.contains(w)) {
                    found.push(path.file_name().unwrap().to_string_lossy().into_owned());
                }
            }
        }
    }
    assert_eq!(found, ["table.rs"]);
}

#[test]
fn checkpoints_of_others_are_refused_by_name() {
    let data = small(Target::Direction);
    let (fold, setup) = (fold(&data), setup(&data, 1));
    let directory = tempfile::tempdir().unwrap();
    let way = || FoldOptions { directory: Some(directory.path()), resume: true, ..FoldOptions::cpu() };
    train::train(&data, &fold, &setup, way(), &mut |_| {}).unwrap();
    let file = directory.path().join(CHECKPOINT);
    let good = fs::read(&file).unwrap();

    let mut other = setup.clone();
    other.seed = 9;
    let error = train::train(&data, &fold, &other, way(), &mut |_| {}).err().unwrap();
    assert!(matches!(&error, TrainError::OtherTraining { what, .. } if what == "seed"), "{error}");

    // Another format: the number in the text that the file begins with.
    let text = String::from_utf8_lossy(&good).into_owned();
    let at = text.find("\"format\":\"1\"").unwrap() + 10;
    let mut newer = good.clone();
    newer[at] = b'9';
    fs::write(&file, &newer).unwrap();
    let error = Checkpoint::read(&file).unwrap_err();
    assert!(matches!(error, TrainError::OtherVersion { found: 9, known: FORMAT, .. }), "{error}");

    // Cut off, and not ours at all.
    for bad in [&good[..good.len() / 2], b"hello".as_slice(), &[]] {
        fs::write(&file, bad).unwrap();
        let error = Checkpoint::read(&file).unwrap_err();
        assert!(matches!(error, TrainError::Damaged { .. }), "{error}");
    }

    // An indicator that is not there any more.
    let mut unknown = setup.clone();
    unknown.recipe.indicators = "rsi(14), oracle(7)".to_owned();
    let error = model_card::known(&file, &unknown, "9.9.9").unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, TrainError::UnknownIndicator { .. }), "{said}");
    assert!(said.contains("oracle") && said.contains("9.9.9"), "{said}");
}

#[test]
fn an_exported_model_answers_as_it_did() {
    let data = small(Target::VolReturn { clip: 4.0 });
    let (fold, setup) = (fold(&data), setup(&data, 2));
    let directory = tempfile::tempdir().unwrap();
    let way = FoldOptions { directory: Some(directory.path()), ..FoldOptions::cpu() };
    let trained = train::train(&data, &fold, &setup, way, &mut |_| {}).unwrap();
    let backend = TrainBackend::cpu();
    let (card, net) = model_card::load(directory.path(), &backend).unwrap();
    assert_eq!(card, trained.card);
    assert_eq!(backend.fetch(net.flat.clone()).unwrap(), trained.weights);
    let page = gpuforge_train::report::page(&card);
    for part in ["Calibration", "Periods", "Features", "always up", "last sign", "linear", "Embargo"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("http"), "it fetches and runs nothing");
    // A card of another time.
    let file = directory.path().join(model_card::CARD);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"format\": 1", "\"format\": 7", 1)).unwrap();
    assert!(matches!(
        model_card::read_card(directory.path()),
        Err(TrainError::OtherVersion { found: 7, .. })
    ));
    fs::write(&file, text.replacen("volume * 1", "oracle(7)", 1)).unwrap();
    assert!(matches!(model_card::read_card(directory.path()), Err(TrainError::UnknownIndicator { .. })));
}

#[test]
fn an_automatic_batch_is_settled_once() {
    let data = small(Target::Direction);
    let fold = fold(&data);
    let mut setup = setup(&data, 1);
    setup.batch = BatchSize::Auto;
    let mut begun = None;
    let trained = train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |event| {
        if let Event::Init { batch, .. } = event {
            begun = Some(batch);
        }
    })
    .unwrap();
    assert_eq!(begun, Some(trained.card.batch));
    assert!(trained.card.batch >= 32);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let data = small(Target::Direction);
    let fold = fold(&data);
    let fails = |change: &dyn Fn(&mut TrainConfig)| {
        let mut setup = setup(&data, 1);
        change(&mut setup);
        match train::train(&data, &fold, &setup, FoldOptions::cpu(), &mut |_| {}) {
            Err(TrainError::Setting { what, .. }) => what,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was accepted"),
        }
    };
    assert_eq!(fails(&|s| s.epochs = 0), "--epochs");
    assert_eq!(fails(&|s| s.batch = BatchSize::Of(0)), "--batch-size");
    assert_eq!(fails(&|s| s.steps.rate = f64::NAN), "--lr");
    assert_eq!(fails(&|s| s.steps.warm_up = 1.0), "--warm-up");
    assert_eq!(fails(&|s| s.spec.shape = Architecture::Mlp { hidden: vec![0] }), "--hidden");
    let wide = Architecture::Transformer { width: 10, heads: 3, layers: 1 };
    assert_eq!(fails(&|s| s.spec.shape = wide.clone()), "the transformer");
}
