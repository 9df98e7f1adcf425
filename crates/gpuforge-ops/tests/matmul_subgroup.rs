//! Matmul variant with subgroup sharing: valid WGSL, results at awkward sizes, reproducibility.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use std::sync::Arc;

use gpuforge_ops::{Matmul, Op, Target, Tuning, Variant, matmul, record, view::tensor};
use gpuforge_runtime::{engine::Caps, kernel::Kernel, plan::Command, session::Session, tensor::Tensor};
use half::f16;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Rows, steps, columns: nothing, one, around a quad, around tiles of 64 and 128, ragged ones.
const SHAPES: [[usize; 3]; 17] = [
    [0, 0, 0],
    [0, 5, 3],
    [4, 0, 4],
    [3, 5, 0],
    [1, 1, 1],
    [3, 2, 5],
    [4, 4, 4],
    [63, 64, 65],
    [64, 64, 64],
    [65, 63, 64],
    [64, 65, 63],
    [127, 4, 128],
    [128, 128, 64],
    [129, 7, 68],
    [300, 33, 40],
    [1, 130, 257],
    [257, 130, 1],
];

/// Between -1 and 1, with both signs so that sums cancel.
fn values(n: usize, seed: usize) -> Vec<f32> {
    let value = |i: usize| (i * 7919 + seed * 104_729) % 2003;
    (0..n).map(|i| value(i) as f32 / 1001.0 - 1.0).collect()
}

fn full(shape: &[usize], seed: usize) -> Tensor {
    tensor(&values(shape.iter().product(), seed), shape, "x").unwrap()
}

fn halves(shape: &[usize], seed: usize) -> Tensor {
    let all: Vec<f16> = values(shape.iter().product(), seed).into_iter().map(f16::from_f32).collect();
    tensor(&all, shape, "x").unwrap()
}

/// What a device with subgroups of these sizes can do; all else as the dummy device.
fn caps(subgroup: Option<(u32, u32)>) -> Caps {
    Caps { subgroup, ..common::dummy().caps().clone() }
}

/// The kernels of a plan with a given choice.
fn kernels(op: &Matmul, variant: Variant, caps: &Caps) -> Vec<Arc<Kernel>> {
    let mut tuning = Tuning::default();
    tuning.set(op.kind(), variant);
    let plan = record::plan(op, &Target { caps, tuning: &tuning }, false).unwrap();
    let kernel = |c: &Command| match c {
        Command::Dispatch(d) => Some(d.kernel.clone()),
        _ => None,
    };
    plan.commands().iter().filter_map(kernel).collect()
}

fn shares(kernel: &Kernel) -> bool {
    kernel.wgsl.contains("quadBroadcast")
}

/// The variants that share, for a device that allows all.
fn sharing() -> Vec<Variant> {
    let op = matmul(&full(&[1, 1], 1), &full(&[1, 1], 2));
    let caps = caps(Some((4, 128)));
    op.variants().iter().copied().filter(|v| kernels(&op, *v, &caps).iter().all(|k| shares(k))).collect()
}

/// 16-bit numbers are unpacked from words, which every adapter can do.
const UNPACKS: Capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;

fn valid(kernel: &Kernel, capabilities: Capabilities) -> Result<(), String> {
    let module = naga::front::wgsl::parse_str(&kernel.wgsl).map_err(|e| e.emit_to_string(&kernel.wgsl))?;
    let checked = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    checked.map(drop).map_err(|e| e.emit_to_string(&kernel.wgsl))
}

#[test]
fn every_variant_is_valid_and_only_one_needs_subgroups() {
    let caps = caps(Some((4, 128)));
    let mut seen = 0;
    for make in [full, halves] {
        // Rows at multiples of four numbers, others, and more steps than a dispatch has, which adds to earlier sums.
        for [m, k, n] in [[8, 8, 8], [5, 7, 3], [2, 16_388, 4], [2, 16_385, 3]] {
            let op = matmul(&make(&[m, k], 1), &make(&[k, n], 2));
            for kernel in op.variants().iter().flat_map(|v| kernels(&op, *v, &caps)) {
                valid(&kernel, UNPACKS | Capabilities::SUBGROUP).unwrap();
                let without = valid(&kernel, UNPACKS);
                assert_eq!(without.is_err(), shares(&kernel), "{without:?}");
                seen += usize::from(shares(&kernel));
            }
        }
    }
    // One dispatch for each of the small shapes, two for each of the long ones.
    assert_eq!(seen, 2 * 6 * sharing().len());
}

#[test]
fn subgroup_variant_is_recorded_only_for_supported_subgroup_sizes() {
    let op = matmul(&full(&[8, 8], 1), &full(&[8, 8], 2));
    let default = kernels(&op, op.variants()[0], &caps(None));
    for (subgroup, want) in [
        (None, false),
        (Some((1, 64)), false),
        (Some((2, 64)), false),
        (Some((4, 4)), true),
        (Some((4, 128)), true),
        (Some((8, 8)), true),
        (Some((128, 128)), true),
        (Some((6, 64)), false),
        (Some((32, 256)), false),
        (Some((0, 0)), false),
    ] {
        for variant in sharing() {
            let have = kernels(&op, variant, &caps(subgroup));
            assert_eq!(have.iter().all(|k| shares(k)), want, "{subgroup:?}");
            assert!(want || have[0].wgsl == default[0].wgsl, "{subgroup:?}: not the default instead");
        }
    }
}

#[test]
fn the_subgroup_variant_is_not_the_default() {
    let op = matmul(&full(&[1, 1], 1), &full(&[1, 1], 2));
    let sharing = sharing();
    assert_eq!(sharing.len(), 1);
    assert_ne!(op.variants().first(), sharing.first(), "only a calibration may choose it");
    assert_eq!(op.variants().iter().filter(|v| sharing.contains(v)).count(), 1);
}

/// Every number in 64 bits, and the sum of the sizes of what was added.
fn exact(op: &Matmul) -> Vec<(f64, f64)> {
    let [a, b] = op.inputs().try_into().unwrap();
    let wide = |t: &Tensor| -> Vec<f64> {
        let host = t.host().unwrap();
        match t.spec().dtype.bytes() {
            4 => common::floats(&host).into_iter().map(f64::from).collect(),
            _ => host.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f64()).collect(),
        }
    };
    let (left, right) = (a.spec().shape.clone(), b.spec().shape.clone());
    let [m, k] = *left.last_chunk().unwrap();
    let [_, n] = *right.last_chunk::<2>().unwrap();
    let rows = left.iter().rev().skip(1).product::<usize>();
    let (a, b) = (wide(a), wide(b));
    let number = |at: usize| {
        let (row, column) = (at / n, at % n);
        let item = if right.len() == 3 { row / m } else { 0 };
        let product = |i: usize| a[row * k + i] * b[(item * k + i) * n + column];
        (0..k).map(product).fold((0.0, 0.0), |(c, size), p| (c + p, size + p.abs()))
    };
    (0..rows * n).map(number).collect()
}

fn agree(place: &str, op: &Matmul, have: &[u8]) {
    let want = exact(op);
    let have = common::floats(have);
    assert_eq!(have.len(), want.len(), "{op:?} on {place}");
    let k = *op.inputs()[0].spec().shape.last().unwrap() as f64;
    for (i, (have, (want, size))) in have.into_iter().zip(want).enumerate() {
        let bound = 2.0 * k * 2f64.powi(-24) * size + k * f64::from(f32::MIN_POSITIVE);
        let error = (f64::from(have) - want).abs();
        assert!(error <= bound, "{op:?} on {place}: [{i}] is {have}, not {want} ± {bound}");
    }
}

/// The adapter, where it has subgroups; that there is none is said.
fn adapter() -> Option<&'static Session> {
    let session = common::adapter()?;
    if session.caps().subgroup.is_none() {
        eprintln!("skipped: {} has no subgroups", session.caps().name);
        return None;
    }
    Some(session)
}

/// The sharing member on the adapter, and its twin with its own parameters on the dummy device.
fn check(op: &Matmul) {
    for variant in sharing() {
        let mut tuning = Tuning::default();
        tuning.set(op.kind(), variant);
        let caps = caps(Some((4, 128)));
        let plan = record::plan(op, &Target { caps: &caps, tuning: &tuning }, false).unwrap();
        let done = common::dummy().run(&Arc::new(plan), std::time::Duration::from_secs(60)).unwrap();
        let bytes = op.outputs().unwrap()[0].size().unwrap().0 as usize;
        agree("dummy", op, &done.outputs[0][..bytes]);
        let Some(session) = adapter() else { continue };
        let once = common::on_device(session, op, &tuning);
        agree("adapter", op, &once[0]);
        assert!(once == common::on_device(session, op, &tuning), "{op:?}: other bits the second time");
    }
}

#[test]
fn awkward_sizes_agree() {
    for [m, k, n] in SHAPES {
        check(&matmul(&full(&[m, k], 1), &full(&[k, n], 2)));
        check(&matmul(&halves(&[m, k], 1), &halves(&[k, n], 2)));
    }
}

#[test]
fn many_steps_agree() {
    for [m, k, n] in [[2, 16_385, 3], [4, 16_388, 4], [1, 33_000, 1]] {
        check(&matmul(&full(&[m, k], 1), &full(&[k, n], 2)));
    }
}

#[test]
fn batches_agree() {
    for [batch, m, k, n] in [[0, 3, 3, 3], [1, 5, 6, 7], [2, 64, 64, 64], [7, 9, 13, 5], [3, 65, 8, 63]] {
        check(&matmul(&full(&[batch, m, k], 1), &full(&[batch, k, n], 2)));
        check(&matmul(&full(&[batch, m, k], 1), &full(&[k, n], 2)));
    }
}
