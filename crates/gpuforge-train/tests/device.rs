//! Training on a GPU: features of our kernels reach Burn without a host transfer, and losses match the CPU's. Skipped without an
//! adapter.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::{fold, planted, recipe, request};
use gpuforge_testkit::adapter;
use gpuforge_train::{
    TrainError,
    data::{Dataset, MarketData, Recipe, target::Target},
    device_table::{DeviceTable, TrainBackend, TransferBytes},
    fit::{self, Event, Faults, FitJob},
    model::Architecture,
    model_card::Card,
    net::Precision,
    shared_device::{self, SharedGpu},
    train::{self, FoldOptions},
};

mod common;

fn gpu() -> Option<SharedGpu> {
    adapter::or_skip(shared_device::gpu())
}

fn market() -> MarketData {
    planted(4, 500, 2.0, 3).0
}

const SELECTION: &str = "rsi(14), sma(10), ema(20), volume * 1";

#[test]
fn features_are_imported_into_burn_without_transfer() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe(SELECTION, 3, 1, Target::Direction);
    let there = Dataset::on_device(&market(), &recipe, &gpu.runner).unwrap();
    let here = Dataset::on_cpu(&market(), &recipe).unwrap();
    assert_eq!(there.samples, here.samples);
    let tables = [
        DeviceTable::new(gpu.backend.clone(), &there, 1.0).unwrap(),
        DeviceTable::new(TrainBackend::cpu(), &here, 1.0).unwrap(),
    ];
    let list: Vec<u32> = (0..here.samples.len() as u32).rev().step_by(7).collect();
    let [got, want] = tables.map(|table| {
        let order = table.backend.order(&list);
        let batch = table.batch(&order, 0..list.len());
        let [n, window, features] = batch.x.dims();
        table.backend.fetch_predictions(batch.x.reshape([n, window * features])).unwrap()
    });
    assert_eq!(got.len(), want.len());
    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
    assert_eq!(gpu.backend.meter.read().features, 0, "no feature crossed");
}

/// Losses of the first steps, and the transfers after each.
fn losses(data: &Dataset, backend: TrainBackend, steps: usize) -> (Vec<f32>, Vec<TransferBytes>) {
    let fold = fold(data);
    let per_epoch = fold.train.samples.len().div_ceil(64);
    let config =
        request(Architecture::Mlp { hidden: vec![32, 16] }, steps.div_ceil(per_epoch), 1).config(data, 0);
    let mut table = DeviceTable::new(backend.clone(), data, 1.0).unwrap();
    let job = FitJob {
        config: &config,
        data,
        fold: &fold,
        scale: 1.0,
        file: None,
        every: None,
        resume: false,
        recover: None,
        faults: Faults::default(),
    };
    let (mut losses, mut crossed) = (Vec::new(), Vec::new());
    fit::fit(&job, &mut table, &mut |event| {
        if let Event::Step(progress) = event {
            losses.push(progress.loss);
            if progress.epoch == 0 {
                crossed.push(backend.meter.read());
            }
        }
    })
    .unwrap();
    (losses, crossed)
}

#[test]
fn gpu_losses_match_cpu_and_features_are_not_transferred() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe(SELECTION, 2, 1, Target::Direction);
    let there = Dataset::on_device(&market(), &recipe, &gpu.runner).unwrap();
    let here = Dataset::on_cpu(&market(), &recipe).unwrap();
    let (got, crossed) = losses(&there, gpu.backend.clone(), 100);
    let (want, _) = losses(&here, TrainBackend::cpu(), 100);
    assert!(got.len() >= 100 && got.len() == want.len());
    let worst = got.iter().zip(&want).take(100).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{}: losses differ by {worst:.2e} at most over 100 steps", gpu.name);
    assert!(worst < 5e-3, "{worst}");
    assert_eq!(gpu.backend.meter.read().features, 0);
    for pair in crossed.windows(2) {
        assert_eq!(
            pair[1],
            TransferBytes { scalars: pair[0].scalars + 8, ..pair[0] },
            "two numbers per step"
        );
    }
}

#[test]
fn every_architecture_trains_on_the_gpu() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe("rsi(14), volume * 1", 4, 1, Target::TripleBarrier { width: 1.0 });
    let data = Dataset::on_device(&planted(1, 260, 2.0, 3).0, &recipe, &gpu.runner).unwrap();
    let fold = fold(&data);
    for architecture in [
        Architecture::Linear,
        Architecture::Tcn { channels: 8, kernel: 3, layers: 2 },
        Architecture::Transformer { width: 8, heads: 2, layers: 1 },
    ] {
        let config = request(architecture, 1, 1).config(&data, 0);
        let options = FoldOptions { backend: gpu.backend.clone(), device: &gpu.name, ..FoldOptions::cpu() };
        let trained = train::train(&data, &fold, &config, options, &mut |_| {}).unwrap();
        assert!(trained.weights.iter().all(|w| w.is_finite()));
        assert!(trained.card.test.loss.unwrap().is_finite());
    }
}

/// Trains on a device that is destroyed after some steps, like a driver reset, and continues with `recover`.
fn train_with_device_loss(
    recover: impl Fn(&SharedGpu, &TrainBackend, usize, &MarketData, &Recipe) -> Recovered,
) -> Option<(Card, String)> {
    let gpu = gpu()?;
    let recipe = recipe("rsi(14), volume * 1", 2, 1, Target::Direction);
    let market = planted(1, 400, 2.0, 3).0;
    let data = Dataset::on_device(&market, &recipe, &gpu.runner).unwrap();
    let fold = fold(&data);
    let config = request(Architecture::Mlp { hidden: vec![8] }, 3, 1).config(&data, 0);
    let make = |lost: &TrainBackend, times: usize| recover(&gpu, lost, times, &market, &recipe);
    let options = FoldOptions {
        backend: gpu.backend.clone(),
        device: "the first",
        every: Some(2),
        recover: Some(&make),
        ..FoldOptions::cpu()
    };
    let handles = gpu.backend.shared.clone().unwrap().external;
    let (mut recovered, mut lost) = (None, false);
    let trained = train::train(&data, &fold, &config, options, &mut |event| match event {
        Event::Step(progress) if progress.step == 5 && !lost => {
            lost = true;
            handles.device.destroy();
        }
        Event::Recovered { step, device, why } => {
            println!("{device} goes on from {step}: {why}");
            recovered = Some((step, device));
        }
        _ => {}
    })
    .unwrap();
    let (step, device) = recovered.expect("a loss");
    assert!(step <= 6, "{step}");
    assert_eq!(trained.card.history.len(), 3);
    assert_eq!(trained.card.device, device);
    assert!(trained.weights.iter().all(|w| w.is_finite()));
    Some((trained.card, gpu.name))
}

type Recovered = Result<(TrainBackend, Dataset, String), TrainError>;

#[test]
fn lost_device_is_reopened() {
    let found = train_with_device_loss(|_, lost, times, market, recipe| {
        shared_device::recover(lost, times, market, recipe)
    });
    let Some((card, name)) = found else { return };
    assert_eq!(card.device, name, "the same adapter, opened again");
}

#[test]
fn unrecoverable_device_falls_back_to_cpu() {
    // As after the last reopen.
    let found =
        train_with_device_loss(|_, lost, _, market, recipe| shared_device::recover(lost, 99, market, recipe));
    let Some((card, _)) = found else { return };
    assert_eq!(card.device, "cpu");
}

#[test]
fn half_precision_trains_if_supported_else_fails() {
    let gpu = gpu();
    let places =
        [Some(("cpu", TrainBackend::cpu())), gpu.as_ref().map(|g| (g.name.as_str(), g.backend.clone()))];
    for (name, backend) in places.into_iter().flatten() {
        for precision in [Precision::F16, Precision::Bf16] {
            let data = common::small(Target::Direction);
            let fold = fold(&data);
            let mut config = request(Architecture::Mlp { hidden: vec![16] }, 3, 1).config(&data, 0);
            let options = || FoldOptions { backend: backend.clone(), device: name, ..FoldOptions::cpu() };
            let full = train::train(&data, &fold, &config, options(), &mut |_| {}).unwrap();
            config.precision = precision;
            let half = train::train(&data, &fold, &config, options(), &mut |_| {});
            match (precision.is_on(&backend.device), half) {
                (true, Ok(half)) => {
                    let [full, half] = [full, half].map(|t| t.card.history.last().unwrap().train_loss);
                    println!("{name}, {}: loss {half:.4}, in f32 {full:.4}", precision.name());
                    assert!((full - half).abs() < 0.02, "{name} {precision:?}: {half} {full}");
                }
                (false, Err(error @ TrainError::Precision { .. })) => {
                    println!("{error}");
                    assert!(error.to_string().contains(precision.name()), "{error}");
                }
                (on, other) => panic!("{name} {precision:?} {on}: {:?}", other.err()),
            }
        }
    }
}
