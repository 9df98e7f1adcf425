//! Matmul against exact products on every backend: sizes, non-finite values, partitioned and fused operations, invalid input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{
    Matmul, Op, OpError, Target, Threads, Tuning, matmul, op::split_ranges, record, view::tensor,
};
use gpuforge_runtime::tensor::Tensor;
use half::f16;

/// Between -1 and 1, with both signs so that sums cancel.
fn value(i: usize) -> f32 {
    let bits = (i as u32).wrapping_mul(0x9e37_79b9).wrapping_add(0x7f4a_7c15);
    (bits ^ (bits >> 15)).wrapping_mul(0x85eb_ca6b) as i32 as f32 / i32::MAX as f32
}

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| value(i + seed * 7919)).collect()
}

fn full(shape: &[usize], seed: usize) -> Tensor {
    tensor(&values(shape.iter().product(), seed), shape, "x").unwrap()
}

fn halves(shape: &[usize], seed: usize) -> Tensor {
    let all: Vec<f16> = values(shape.iter().product(), seed).into_iter().map(f16::from_f32).collect();
    tensor(&all, shape, "x").unwrap()
}

fn wide(tensor: &Tensor) -> Vec<f64> {
    let host = tensor.host().unwrap();
    match tensor.spec().dtype.bytes() {
        4 => common::floats(&host).into_iter().map(f64::from).collect(),
        _ => host.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f64()).collect(),
    }
}

/// Every number of the result, and the bound of its error, in 64 bits.
fn exact(op: &Matmul) -> Vec<(f64, f64)> {
    let [a, b] = op.inputs().try_into().unwrap();
    let dims = |t: &Tensor| {
        let s = &t.spec().shape;
        (s[s.len() - 2], s[s.len() - 1], s.len() == 3)
    };
    let ((m, k, batched), (_, n, own)) = (dims(a), dims(b));
    let batch = if batched { a.spec().shape[0] } else { 1 };
    let (a, b) = (wide(a), wide(b));
    let mut all = vec![(0f64, 0f64); batch * m * n];
    for (at, row) in all.chunks_mut(n.max(1)).enumerate() {
        let item = if own { at / m } else { 0 };
        for i in 0..k {
            let x = a[at * k + i];
            for (c, y) in row.iter_mut().zip(&b[(item * k + i) * n..]) {
                *c = (c.0 + x * y, c.1 + (x * y).abs());
            }
        }
    }
    let steps = k as f64;
    let bound = |sizes: f64| 2.0 * steps * 2f64.powi(-24) * sizes + steps * f64::from(f32::MIN_POSITIVE);
    all.into_iter().map(|(c, sizes)| (c, bound(sizes))).collect()
}

/// Within the bound on every backend; on the CPU bit-identical for every number of threads.
fn check(op: &Matmul) {
    agree(op, common::everywhere(op));
}

fn agree(op: &Matmul, all: Vec<(String, common::Results)>) {
    let want = exact(op);
    assert!(all[0].1 == all[1].1, "{op:?}: other bits with three threads");
    for (place, results) in all {
        let have = common::floats(&results[0]);
        assert_eq!(have.len(), want.len(), "{op:?} on {place}");
        for (i, (have, (want, bound))) in have.into_iter().zip(&want).enumerate() {
            let error = (f64::from(have) - want).abs();
            assert!(error <= *bound, "{op:?} on {place}: [{i}] is {have}, not {want} ± {bound}");
        }
    }
}

const SHAPES: [[usize; 3]; 22] = [
    [0, 0, 0],
    [0, 5, 3],
    [4, 0, 4],
    [3, 5, 0],
    [1, 1, 1],
    [1, 2, 3],
    [5, 3, 2],
    [4, 4, 4],
    [8, 12, 20],
    [63, 64, 65],
    [64, 64, 64],
    [65, 63, 64],
    [64, 65, 63],
    [17, 1, 19],
    [100, 130, 70],
    [130, 20, 132],
    [300, 33, 40],
    [2, 4095, 3],
    [4, 4096, 4],
    [4097, 3, 2],
    [3, 2, 4097],
    [130, 513, 97],
];

#[test]
fn cpu_and_device_agree_at_every_size() {
    for [m, k, n] in SHAPES {
        check(&matmul(&full(&[m, k], 1), &full(&[k, n], 2)));
    }
}

#[test]
fn f16_inputs_agree() {
    for [m, k, n] in SHAPES.into_iter().filter(|s| s.iter().all(|d| *d < 1000)) {
        check(&matmul(&halves(&[m, k], 1), &halves(&[k, n], 2)));
    }
    check(&matmul(&halves(&[4100, 600], 1), &halves(&[600, 2], 2)));
}

#[test]
fn many_rows_columns_and_steps() {
    // Steps beyond a dispatch, beyond two, and an odd large number of everything in turn.
    for [m, k, n] in [[2, 16_385, 3], [4, 32_768, 4], [1, 50_003, 1], [100_003, 1, 1], [1, 1, 100_003]] {
        check(&matmul(&full(&[m, k], 1), &full(&[k, n], 2)));
    }
    // Tiles of one column are the slowest there is on a software adapter: the largest with the default kernel only.
    let most = matmul(&full(&[1_000_003, 1], 1), &full(&[1, 1], 2));
    let mut all: Vec<_> = [1, 3].map(|n| (format!("{n} threads"), common::on_cpu(&most, n))).into();
    for session in [Some(common::dummy()), common::adapter()].into_iter().flatten() {
        let place = session.caps().name.clone();
        all.push((place, common::on_device(session, &most, &Tuning::default())));
    }
    agree(&most, all);
    check(&matmul(&halves(&[3, 16_390], 1), &halves(&[16_390, 2], 2)));
    let long = matmul(&full(&[1, 40_000], 1), &full(&[40_000, 1], 2));
    assert_eq!((long.cost().launches, long.cost().units, long.cost().flops), (3, 40_000, 80_000));
}

#[test]
fn batches_agree() {
    for [batch, m, k, n] in
        [[0, 3, 3, 3], [1, 5, 6, 7], [2, 64, 64, 64], [7, 9, 13, 5], [70, 8, 8, 8], [3, 0, 2, 2]]
    {
        for make in [full, halves] {
            check(&matmul(&make(&[batch, m, k], 1), &make(&[batch, k, n], 2)));
            check(&matmul(&make(&[batch, m, k], 1), &make(&[k, n], 2)));
        }
    }
}

#[test]
fn partitions_are_bit_identical() {
    let tall = matmul(&full(&[1100, 600], 1), &full(&[600, 137], 2));
    common::parts_join(&tall, 512);
    common::parts_join(&matmul(&halves(&[513, 20], 1), &halves(&[20, 5], 2)), 1);
    common::parts_join(&matmul(&full(&[10, 6, 5], 1), &full(&[10, 5, 7], 2)), 3);
    let shared = matmul(&full(&[10, 6, 5], 1), &full(&[5, 7], 2));
    common::parts_join(&shared, 4);
    let small = matmul(&full(&[1030, 9], 1), &full(&[9, 5], 2));
    for op in [&small, &shared] {
        for range in split_ranges(op.items().unwrap(), 4) {
            let part = op.part(range).unwrap();
            check(part.as_any().downcast_ref().unwrap());
        }
    }
}

/// The bits that each gives alone: on the CPU, and on a device for every variant.
fn fused_is_same(ops: &[Matmul]) {
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    let key = ops[0].fuse_key().unwrap();
    assert!(ops.iter().all(|op| op.fuse_key() == Some(key)));
    let fused = ops[0].fuse(&all).unwrap().unwrap();
    let together = common::everywhere(fused.op.as_ref());
    for (op, places) in ops.iter().zip(&fused.output_ranges) {
        for ((place, alone), (_, together)) in common::everywhere(op).iter().zip(&together) {
            assert!(together[0][places[0].clone()] == alone[0][..], "{op:?}: other bits on {place}");
        }
    }
}

#[test]
fn equal_shapes_are_fused() {
    let some: Vec<Matmul> = (0..6).map(|i| matmul(&full(&[9, 20], i), &full(&[20, 12], i + 50))).collect();
    fused_is_same(&some);
    let b = full(&[7, 6], 3);
    let shared: Vec<Matmul> = (0..6).map(|i| matmul(&full(&[5, 7], i), &b)).collect();
    fused_is_same(&shared);
    let halved: Vec<Matmul> = (0..3).map(|i| matmul(&halves(&[5, 7], i), &halves(&[7, 3], 9))).collect();
    fused_is_same(&halved);
    assert_ne!(some[0].fuse_key(), shared[0].fuse_key());
    assert_eq!(matmul(&full(&[2, 3, 4], 0), &full(&[4, 5], 0)).fuse_key(), None);
}

#[test]
fn ten_products_fuse_into_one_dispatch() {
    let ops: Vec<Matmul> =
        (0..10).map(|i| matmul(&full(&[256, 256], i), &full(&[256, 256], i + 50))).collect();
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    let fused = ops[0].fuse(&all).unwrap().unwrap();
    let target = Target { caps: common::dummy().caps(), tuning: &Tuning::default() };
    let plan = record::plan(fused.op.as_ref(), &target, false).unwrap();
    assert_eq!(plan.cost().dispatches, 1, "{plan}");
    assert_eq!(fused.op.cost().launches, 1);
}

#[test]
fn non_finite_values_stay_in_their_row_and_column() {
    let (m, k, n) = (70, 37, 66);
    for (bad, at) in [(f32::NAN, 0), (f32::INFINITY, 36), (f32::NEG_INFINITY, 17)] {
        let (mut a, mut b) = (values(m * k, 1), values(k * n, 2));
        a[3 * k + at] = bad;
        b[at * n + 5] = bad;
        let op = matmul(&tensor(&a, &[m, k], "a").unwrap(), &tensor(&b, &[k, n], "b").unwrap());
        let clean = matmul(&full(&[m, k], 1), &full(&[k, n], 2));
        for ((place, have), (_, want)) in common::everywhere(&op).iter().zip(common::everywhere(&clean)) {
            let (have, want) = (common::words(&have[0]), common::words(&want[0]));
            for (i, (have, want)) in have.into_iter().zip(want).enumerate() {
                let (row, column) = (i / n, i % n);
                assert!(row == 3 || column == 5 || have == want, "{bad} reached {row}, {column} on {place}");
                if place.contains("thread") && (row == 3 || column == 5) {
                    let meets = if row == 3 { b[at * n + column] } else { a[row * k + at] };
                    let want = if row == 3 && column == 5 { bad * bad } else { bad * meets };
                    let have = f32::from_bits(have);
                    let same = have == want || (have.is_nan() && want.is_nan());
                    assert!(same, "{bad}: {have}, not {want} at {row}, {column} on {place}");
                }
            }
        }
    }
}

#[test]
fn denormals_may_only_be_flushed() {
    let tiny: Vec<f32> = (0..40 * 40).map(|i| f32::from_bits(1 + i * 997)).collect();
    let tiny = tensor(&tiny, &[40, 40], "tiny").unwrap();
    check(&matmul(&tiny, &full(&[40, 33], 1)));
    let small: Vec<f16> = (1..=64).map(f16::from_bits).collect();
    let op = matmul(&tensor(&small, &[8, 8], "small").unwrap(), &halves(&[8, 8], 1));
    let want = exact(&op);
    // A 16-bit denormal number may be taken for zero, too: what is lost is at most the sum of all.
    for (place, have) in common::everywhere(&op) {
        for (have, (want, bound)) in common::floats(&have[0]).into_iter().zip(&want) {
            let flushed = if place.contains("adapter") { 8.0 * f16::MIN_POSITIVE.to_f64() } else { 0.0 };
            assert!((f64::from(have) - want).abs() <= bound + flushed, "{have}, not {want} on {place}");
        }
    }
}

#[test]
fn invalid_input_is_named() {
    let error = |a: &Tensor, b: &Tensor| matmul(a, b).outputs().unwrap_err().to_string();
    assert_eq!(
        error(&full(&[2, 3], 0), &full(&[4, 5], 0)),
        "matmul: the columns of the left side must be as many as the rows of the right side: [2, 3] and [4, 5]"
    );
    assert_eq!(
        error(&full(&[3], 0), &full(&[3, 5], 0)),
        "matmul: both sides must have 2 dimensions, or 3 with a batch first: [3] and [3, 5]"
    );
    assert_eq!(
        error(&full(&[2, 3, 3], 0), &full(&[3, 3, 5], 0)),
        "matmul: both sides must have as many matrices: [2, 3, 3] and [3, 3, 5]"
    );
    assert_eq!(
        error(&full(&[3, 3], 0), &full(&[3, 3, 5], 0)),
        "matmul: a batch on the right needs one on the left: [3, 3] and [3, 3, 5]"
    );
    let words = tensor(&[1u32], &[1, 1], "x").unwrap();
    assert_eq!(error(&words, &full(&[1, 1], 0)), "matmul: the left side must be F32, it is U32");
    let mixed = "matmul: the right side, as the left one, must be F32, it is F16";
    assert_eq!(error(&full(&[1, 1], 0), &halves(&[1, 1], 0)), mixed);
    let mixed = "matmul: the right side, as the left one, must be F16, it is F32";
    assert_eq!(error(&halves(&[1, 1], 0), &full(&[1, 1], 0)), mixed);
    let huge = matmul(&full(&[1 << 40, 0], 0), &full(&[0, 1 << 40], 0)).outputs();
    assert!(matches!(huge, Err(OpError::TooMany { .. })), "{huge:?}");
    let op = matmul(&full(&[2, 2], 0), &full(&[2, 2], 0));
    let short = op.cpu(&[&[0; 16], &[0; 4]], &mut [&mut [0; 16]], Threads::ONE);
    assert!(matches!(short, Err(OpError::Call { what: "numbers", want: 4, have: 1, .. })), "{short:?}");
}
