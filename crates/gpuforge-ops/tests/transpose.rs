//! Transpose: bit-identical on every backend, at every size, single and batched.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{Op, OpError, Transpose, transpose, view::tensor};

/// Words that mean anything: among them every kind of NaN, infinities and denormal numbers.
fn word(i: usize) -> u32 {
    match i % 7 {
        0 => 0x7f80_0000 | i as u32,
        1 => 0xff80_0001 | i as u32,
        2 => i as u32,
        _ => (i as u32).wrapping_mul(0x9e37_79b9),
    }
}

fn op(shape: &[usize], seed: usize) -> Transpose {
    let n = shape.iter().product();
    let data: Vec<u32> = (0..n).map(|i| word(i + seed)).collect();
    transpose(&tensor(&data, shape, "data").unwrap())
}

fn check(shape: &[usize]) {
    let op = op(shape, 0);
    let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let out = common::words(&common::same_bits(&op)[0]);
    let spec = &op.outputs().unwrap()[0];
    assert_eq!(spec.shape[shape.len() - 2..], [columns, rows]);
    for (at, have) in out.into_iter().enumerate() {
        let item = at / (rows * columns);
        let (j, i) = (at % (rows * columns) / rows, at % rows);
        assert_eq!(have, word(item * rows * columns + i * columns + j), "{shape:?} at {at}");
    }
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    for n in common::SIZES {
        check(&[n, 1]);
        check(&[1, n]);
        check(&[n / 7, 7]);
    }
    for shape in [[63, 65], [64, 64], [65, 63], [128, 96], [100, 1000], [1000, 100], [17, 4097], [1024, 512]]
    {
        check(&shape);
    }
    for shape in
        [[0, 3, 4], [3, 0, 4], [3, 4, 0], [1, 1, 1], [5, 16, 16], [7, 33, 31], [300, 8, 12], [2, 500, 260]]
    {
        check(&shape);
    }
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    common::parts_join(&op(&[37, 100], 0), 9);
    common::parts_join(&op(&[10, 6, 5], 0), 3);
    let ops: Vec<Transpose> = (0..10).map(|seed| op(&[9, 14], seed)).collect();
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    common::fused_is_same(&all);
    assert_ne!(op(&[9, 14], 0).fuse_key(), op(&[14, 9], 0).fuse_key());
    assert_eq!(op(&[2, 9, 14], 0).fuse_key(), None);
}

#[test]
fn every_4_byte_dtype_is_supported() {
    let floats = transpose(&tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], "x").unwrap());
    assert_eq!(common::floats(&common::same_bits(&floats)[0]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let signed = transpose(&tensor(&[-1i32, 2], &[1, 2], "x").unwrap());
    assert_eq!(common::words(&common::same_bits(&signed)[0]), [u32::MAX, 2]);
}

#[test]
fn invalid_input_is_named() {
    let line = transpose(&tensor(&[1f32], &[1], "x").unwrap()).outputs().unwrap_err();
    assert_eq!(
        line.to_string(),
        "transpose: the shape is [1], it must be a matrix, or a batch of them with the batch first"
    );
    let bytes = transpose(&tensor(&[1u8], &[1, 1], "x").unwrap()).outputs();
    assert!(matches!(bytes, Err(OpError::DType { what: "the data", .. })));
    let op = op(&[2, 2], 0);
    let short = op.cpu(&[&[0; 4]], &mut [&mut [0; 16]], gpuforge_ops::Threads::ONE);
    assert!(matches!(short, Err(OpError::Call { what: "words", want: 4, have: 1, .. })));
}
