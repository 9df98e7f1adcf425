//! XOR with a repeating key: bit-identical on every backend, at every size and key length.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use gpuforge_ops::{Op, OpError, Xor, view::tensor, xor};

fn op(n: usize, k: usize, seed: usize) -> Xor {
    let data: Vec<u8> = (0..n).map(|i| ((i + seed) * 31 % 251) as u8).collect();
    let key: Vec<u8> = (0..k).map(|i| ((i + seed) * 17 % 253) as u8).collect();
    xor(&tensor(&data, &[n], "data").unwrap(), &tensor(&key, &[k], "key").unwrap())
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    for n in common::SIZES {
        for k in [1, 3, 4, 16, 300] {
            let out = &common::same_bits(&op(n, k, 1))[0];
            let (data, key) =
                (|i: usize| ((i + 1) * 31 % 251) as u8, |i: usize| ((i % k + 1) * 17 % 253) as u8);
            assert!(out.iter().enumerate().all(|(i, b)| *b == data(i) ^ key(i)), "{n} bytes, key of {k}");
        }
    }
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    common::parts_join(&op(1000, 7, 0), 100);
    common::parts_join(&op(1000, 8, 0), 100);
    let ops: Vec<Xor> = (0..20).map(|seed| op(101, 5, seed)).collect();
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    common::fused_is_same(&all);
    let fused = ops[0].fuse(&all).unwrap().unwrap();
    common::parts_join(fused.op.as_ref(), 3);
}

#[test]
fn invalid_input_is_named() {
    assert!(matches!(op(4, 0, 0).outputs(), Err(OpError::Value { what: "the length of the key", .. })));
    let floats = tensor(&[1f32], &[1], "x").unwrap();
    let error = xor(&floats, &floats).outputs().unwrap_err();
    assert_eq!(error.to_string(), "xor: the data must be U8, it is F32");
}
