//! Gradients of every model and loss against central differences.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use common::{planted, recipe};
use gpuforge_train::{
    data::{Dataset, target::Target},
    device_table::{DeviceTable, SampleOrder, TrainBackend},
    model::{Architecture, ModelSpec},
    net::{self, Gradient, Net},
};

mod common;

/// Finite-difference step: large enough for f32 losses (six digits), small enough to be locally linear.
const STEP: f32 = 4e-3;

fn check(architecture: Architecture, target: Target, window: usize) {
    let (market, _) = planted(1, 220, 1.0, 4);
    let data = Dataset::on_cpu(&market, &recipe("rsi(14), volume * 1, mom(10)", window, 1, target)).unwrap();
    let backend = TrainBackend::cpu();
    let table = DeviceTable::new(backend.clone(), &data, 0.02).unwrap();
    let spec = ModelSpec { architecture, features: 3, window, outputs: target.outputs() };
    let net = Net::init(&spec, 7, &backend);
    let list: Vec<u32> = (0..16).collect();
    let order = backend.order(&list);
    let flat = backend.fetch(net.flat.clone()).unwrap();
    let ways = [
        net.gradient(table.batch(&order, 0..16), target),
        // The fused CPU gradient, where there is one.
        net.gradient_of(&table, &order, 0..16, target),
    ];
    for gradient in ways {
        check_central_differences(&spec, target, &table, &order, &flat, gradient);
    }
}

fn check_central_differences(
    spec: &ModelSpec,
    target: Target,
    table: &DeviceTable,
    order: &SampleOrder,
    flat: &[f32],
    gradient: Gradient,
) {
    let backend = &table.backend;
    let scalars = backend.scalars(gradient.scalars).unwrap();
    let got = backend.fetch(gradient.flat).unwrap();
    assert_eq!(got.len(), flat.len());
    let norm = got.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    assert!((norm - f64::from(scalars[1])).abs() < 1e-4 * norm.max(1.0), "the norm is that of the gradient");
    let loss = |values: &[f32]| {
        let flat = backend.parameters(values);
        let net = Net::from_parts(spec, flat.clone(), flat.zeros_like(), flat.zeros_like(), 0);
        let batch = table.batch(order, 0..16);
        let loss = net::loss(target, net.forward(batch.x).values, batch.y);
        f64::from(backend.scalars(loss).unwrap()[0])
    };
    assert!((loss(flat) - f64::from(scalars[0])).abs() < 1e-4);
    let every = (flat.len() / 60).max(1);
    let mut off = Vec::new();
    for k in (0..flat.len()).step_by(every) {
        let (mut up, mut down) = (flat.to_vec(), flat.to_vec());
        up[k] += STEP;
        down[k] -= STEP;
        let want = (loss(&up) - loss(&down)) / (2.0 * f64::from(STEP));
        let far = (want - f64::from(got[k])).abs() / (0.02 * norm + want.abs());
        off.push(far);
    }
    // A ReLU kink may lie within a step; a wrong gradient would show everywhere.
    let wrong = off.iter().filter(|far| **far > 0.05).count();
    assert!(
        wrong * 20 <= off.len(),
        "{spec:?} {target:?}: {wrong} of {} off, worst {:?}",
        off.len(),
        off.iter().cloned().fold(0.0, f64::max)
    );
}

#[test]
fn gradient_of_every_loss_matches_differences() {
    for (_, target) in Target::ALL {
        check(Architecture::Linear, target, 1);
    }
}

#[test]
fn gradient_of_every_architecture_matches_differences() {
    check(Architecture::Mlp { hidden: vec![8, 4] }, Target::Direction, 2);
    check(Architecture::Tcn { channels: 6, kernel: 3, layers: 2 }, Target::Direction, 6);
    check(
        Architecture::Transformer { width: 8, heads: 2, layers: 2 },
        Target::TripleBarrier { width: 1.0 },
        4,
    );
}

#[test]
fn gradient_checkpointing_is_bit_exact() {
    let (market, _) = planted(1, 220, 1.0, 4);
    let data = Dataset::on_cpu(&market, &recipe("rsi(14), mom(10)", 4, 1, Target::Direction)).unwrap();
    let backend = TrainBackend::cpu();
    let table = DeviceTable::new(backend.clone(), &data, 1.0).unwrap();
    let order = backend.order(&(0..32).collect::<Vec<_>>());
    for architecture in [
        Architecture::Mlp { hidden: vec![8] },
        Architecture::Tcn { channels: 6, kernel: 3, layers: 3 },
        Architecture::Transformer { width: 8, heads: 2, layers: 3 },
    ] {
        let spec = ModelSpec { architecture, features: 2, window: 4, outputs: 1 };
        let mut net = Net::init(&spec, 7, &backend);
        let of = |net: &Net| {
            let gradient = net.gradient(table.batch(&order, 0..32), Target::Direction);
            (backend.fetch(gradient.flat).unwrap(), backend.scalars(gradient.scalars).unwrap())
        };
        let kept = of(&net);
        net.recompute = true;
        assert_eq!(kept, of(&net), "{spec:?}");
        let [stage, all] = spec.activation_sizes();
        assert!(stage <= all && (spec.stages().is_empty() || stage < all), "{stage} {all}");
    }
}

/// Batches of several blocks, in parts of unequal size.
#[test]
fn fused_cpu_gradient_matches_autodiff() {
    let (market, _) = planted(2, 600, 1.0, 4);
    for (_, target) in Target::ALL {
        let data = Dataset::on_cpu(&market, &recipe("rsi(14), mom(10)", 3, 1, target)).unwrap();
        let backend = TrainBackend::cpu();
        let table = DeviceTable::new(backend.clone(), &data, 0.02).unwrap();
        let all: Vec<u32> = (0..data.samples.len() as u32).rev().collect();
        let order = backend.order(&all);
        for architecture in [
            Architecture::Linear,
            Architecture::Mlp { hidden: vec![24] },
            Architecture::Mlp { hidden: vec![9, 20, 5] },
        ] {
            let spec = ModelSpec { architecture, features: 2, window: 3, outputs: target.outputs() };
            let net = Net::init(&spec, 7, &backend);
            for of in [5..6, 3..400, 0..all.len()] {
                let tape = net.gradient(table.batch(&order, of.clone()), target);
                let short = net.gradient_of(&table, &order, of.clone(), target);
                let [a, b] = [tape.scalars, short.scalars].map(|x| backend.scalars(x).unwrap());
                assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + a.abs())), "{a:?} {b:?}");
                let [x, y] = [tape.flat, short.flat].map(|x| backend.fetch(x).unwrap());
                let worst = x.iter().zip(&y).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-4 * (1.0 + a[1]), "{spec:?} {of:?}: {worst} of {}", a[1]);
            }
        }
    }
}

#[test]
fn fused_cpu_gradient_is_independent_of_threads() {
    let (market, _) = planted(2, 600, 1.0, 4);
    let target = Target::Direction;
    let data = Dataset::on_cpu(&market, &recipe("rsi(14), mom(10)", 3, 1, target)).unwrap();
    let spec = ModelSpec {
        architecture: Architecture::Mlp { hidden: vec![24, 8] },
        features: 2,
        window: 3,
        outputs: 1,
    };
    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let backend = TrainBackend::cpu();
            let table = DeviceTable::new(backend.clone(), &data, 1.0).unwrap();
            let order = backend.order(&(0..900).collect::<Vec<_>>());
            let net = Net::init(&spec, 7, &backend);
            backend.fetch(net.gradient_of(&table, &order, 0..900, target).flat).unwrap()
        })
    };
    let one = bits(1);
    assert_eq!(one, bits(2));
    assert_eq!(one, bits(7));
}
