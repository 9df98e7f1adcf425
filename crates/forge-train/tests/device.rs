//! The same training on a GPU: features that our kernels wrote are Burn's, nothing of them crosses, and losses are those of
//! the processor. Skipped with a line where no device can be opened.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::{ask, fold, planted, recipe};
use forge_train::{
    bridge::{self, Gpu},
    data::{Dataset, Market, target::Target},
    fit::{self, Event, Faults, Job},
    model::Shape,
    run::{self, Way},
    table::{Crossed, Place, Table},
};

mod common;

fn gpu() -> Option<Gpu> {
    match bridge::gpu() {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn market() -> Market {
    planted(4, 500, 2.0, 3).0
}

const SELECTION: &str = "rsi(14), sma(10), ema(20), volume * 1";

#[test]
fn rows_that_our_kernels_wrote_are_those_that_burn_reads() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe(SELECTION, 3, 1, Target::Direction);
    let there = Dataset::on_device(&market(), &recipe, &gpu.runner).unwrap();
    let here = Dataset::on_processor(&market(), &recipe).unwrap();
    assert_eq!(there.samples, here.samples);
    let tables =
        [Table::new(gpu.place.clone(), &there, 1.0).unwrap(), Table::new(Place::cpu(), &here, 1.0).unwrap()];
    let list: Vec<u32> = (0..here.samples.len() as u32).rev().step_by(7).collect();
    let [got, want] = tables.map(|table| {
        let order = table.place.order(&list);
        let batch = table.draw(&order, 0..list.len());
        let [n, window, features] = batch.x.dims();
        table.place.answers(batch.x.reshape([n, window * features])).unwrap()
    });
    assert_eq!(got.len(), want.len());
    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
    assert_eq!(gpu.place.meter.read().features, 0, "no feature crossed");
}

/// Losses of the first steps, and what crossed after each.
fn losses(data: &Dataset, place: Place, steps: usize) -> (Vec<f32>, Vec<Crossed>) {
    let fold = fold(data);
    let per_epoch = fold.train.samples.len().div_ceil(64);
    let setup = ask(Shape::Mlp { hidden: vec![32, 16] }, steps.div_ceil(per_epoch), 1).setup(data, 0);
    let mut table = Table::new(place.clone(), data, 1.0).unwrap();
    let job = Job {
        setup: &setup,
        data,
        fold: &fold,
        scale: 1.0,
        file: None,
        every: None,
        resume: false,
        rescue: None,
        faults: Faults::default(),
    };
    let (mut losses, mut crossed) = (Vec::new(), Vec::new());
    fit::fit(&job, &mut table, &mut |event| {
        if let Event::Step(tick) = event {
            losses.push(tick.loss);
            if tick.epoch == 0 {
                crossed.push(place.meter.read());
            }
        }
    })
    .unwrap();
    (losses, crossed)
}

#[test]
fn losses_of_a_hundred_steps_agree_and_no_feature_crosses() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe(SELECTION, 2, 1, Target::Direction);
    let there = Dataset::on_device(&market(), &recipe, &gpu.runner).unwrap();
    let here = Dataset::on_processor(&market(), &recipe).unwrap();
    let (got, crossed) = losses(&there, gpu.place.clone(), 100);
    let (want, _) = losses(&here, Place::cpu(), 100);
    assert!(got.len() >= 100 && got.len() == want.len());
    let worst = got.iter().zip(&want).take(100).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{}: losses differ by {worst:.2e} at most over 100 steps", gpu.name);
    assert!(worst < 5e-3, "{worst}");
    assert_eq!(gpu.place.meter.read().features, 0);
    for pair in crossed.windows(2) {
        assert_eq!(pair[1], Crossed { scalars: pair[0].scalars + 8, ..pair[0] }, "two numbers per step");
    }
}

#[test]
fn every_model_makes_steps_there() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe("rsi(14), volume * 1", 4, 1, Target::TripleBarrier { width: 1.0 });
    let data = Dataset::on_device(&planted(1, 260, 2.0, 3).0, &recipe, &gpu.runner).unwrap();
    let fold = fold(&data);
    for shape in [
        Shape::Linear,
        Shape::Tcn { channels: 8, kernel: 3, layers: 2 },
        Shape::Transformer { width: 8, heads: 2, layers: 1 },
    ] {
        let setup = ask(shape, 1, 1).setup(&data, 0);
        let way = Way { place: gpu.place.clone(), device: &gpu.name, ..Way::cpu() };
        let trained = run::train(&data, &fold, &setup, way, &mut |_| {}).unwrap();
        assert!(trained.weights.iter().all(|w| w.is_finite()));
        assert!(trained.card.test.loss.unwrap().is_finite());
    }
}

#[test]
fn a_device_that_is_lost_is_replaced_by_the_processor() {
    let Some(gpu) = gpu() else { return };
    let recipe = recipe("rsi(14), volume * 1", 2, 1, Target::Direction);
    let market = planted(1, 400, 2.0, 3).0;
    let data = Dataset::on_device(&market, &recipe, &gpu.runner).unwrap();
    let fold = fold(&data);
    let setup = ask(Shape::Mlp { hidden: vec![8] }, 3, 1).setup(&data, 0);
    let rescue = || Dataset::on_processor(&market, &recipe);
    let way = Way {
        place: gpu.place.clone(),
        device: &gpu.name,
        every: Some(2),
        rescue: Some(&rescue),
        ..Way::cpu()
    };
    let given = gpu.place.given.clone().unwrap();
    let (mut rescued, mut lost) = (None, false);
    let trained = run::train(&data, &fold, &setup, way, &mut |event| match event {
        Event::Step(tick) if tick.step == 5 && !lost => {
            lost = true;
            // As a driver reset would.
            given.device.destroy();
        }
        Event::Rescued { step, why } => {
            println!("rescued at {step}: {why}");
            rescued = Some(step);
        }
        _ => {}
    })
    .unwrap();
    assert!(rescued.is_some_and(|step| step <= 6), "{rescued:?}");
    assert_eq!(trained.card.history.len(), 3);
    assert!(trained.weights.iter().all(|w| w.is_finite()));
}
