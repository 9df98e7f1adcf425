//! Top-k and bottom-k against a full comparison sort: bit-identical on every backend, ties by index, NaN last.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use std::cmp::Ordering;

use gpuforge_ops::{
    Op, OpError, TopK, bottom_k, top_k,
    view::{Number, tensor},
};

fn noise(n: usize, seed: u64) -> Vec<u32> {
    (0..n as u64).map(|i| ((i + seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 29) as u32).collect()
}

fn check<T: Number>(data: &[T], shape: &[usize], k: usize, up: impl Fn(&T, &T) -> Ordering) {
    let t = tensor(data, shape, "data").unwrap();
    let columns = *shape.last().unwrap();
    let bits = common::words(&t.host().unwrap());
    for (op, least) in [(top_k(&t, k), false), (bottom_k(&t, k), true)] {
        let results = common::same_bits(&op);
        let (mut numbers, mut places) = (Vec::<u32>::new(), Vec::<u32>::new());
        for (row, bits) in data.chunks(columns.max(1)).zip(bits.chunks(columns.max(1))) {
            let mut all: Vec<u32> = (0..columns as u32).collect();
            all.sort_by(|a, b| {
                let (a, b) = (&row[*a as usize], &row[*b as usize]);
                if least { up(a, b) } else { up(b, a) }
            });
            numbers.extend(all[..k].iter().map(|i| bits[*i as usize]));
            places.extend(&all[..k]);
        }
        assert!(common::words(&results[0]) == numbers, "{k} of {shape:?}: numbers, least {least}");
        assert!(common::words(&results[1]) == places, "{k} of {shape:?}: places, least {least}");
    }
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    for n in common::SIZES {
        let values: Vec<f32> = noise(n, 0).iter().map(|w| *w as i32 as f32 * 1e-3).collect();
        for k in [0, 1, 10, 64, 5000] {
            if k <= n && (n < 100_000 || k != 64) {
                check(&values, &[n], k, f32::total_cmp);
            }
        }
        if n < 5000 {
            check(&values, &[n], n, f32::total_cmp);
            check(&noise(n, 3), &[n], n / 2, u32::cmp);
            check(&noise(n, 4).iter().map(|w| *w as i32).collect::<Vec<_>>(), &[n], n / 10, i32::cmp);
        }
    }
}

#[test]
fn ties_go_to_the_lower_index() {
    for n in [65, 4097, 300_000] {
        let few: Vec<u32> = noise(n, 1).iter().map(|w| w % 5).collect();
        check(&few, &[n], n / 3, u32::cmp);
        check(&vec![7i32; n], &[n], 50, i32::cmp);
        // In order already: nothing is kept out by what came before, in one direction or the other.
        check(&(0..n as u32).collect::<Vec<_>>(), &[n], 20, u32::cmp);
    }
}

#[test]
fn rows_are_independent() {
    for (rows, columns, k) in [(0, 5, 2), (3, 0, 0), (3, 1, 1), (7, 65, 9), (2, 9000, 4500), (300, 17, 3)] {
        check(&noise(rows * columns, 9), &[rows, columns], k, u32::cmp);
    }
}

#[test]
fn nan_comes_last() {
    let nan = f32::from_bits(0xffc0_0001);
    let data =
        tensor(&[nan, 1.0, f32::NAN, f32::INFINITY, -0.0, 0.0, 1e-40, f32::NEG_INFINITY], &[8], "x").unwrap();
    let results = common::same_bits(&top_k(&data, 8));
    assert_eq!(common::words(&results[1]), [3, 1, 6, 5, 4, 7, 2, 0]);
    assert_eq!(common::words(&results[0])[7], 0xffc0_0001, "its bits are kept");
    let results = common::same_bits(&bottom_k(&data, 7));
    assert_eq!(common::words(&results[1]), [7, 4, 5, 6, 1, 3, 2]);
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    let data: Vec<u32> = noise(1000, 3).iter().map(|w| w % 50).collect();
    let (line, matrix) = (tensor(&data, &[1000], "l").unwrap(), tensor(&data, &[20, 50], "m").unwrap());
    for op in [top_k, bottom_k] {
        common::parts_join(&op(&line, 30), 77);
        common::parts_join(&op(&line, 30), 7);
        common::parts_join(&op(&matrix, 30), 3);
        // A part of a row knows where it stood, on a device too.
        common::same_bits(op(&line, 30).part(100..300).unwrap().as_ref());
        let ops: Vec<TopK> = (0..5).map(|s| op(&tensor(&noise(130, s), &[130], "x").unwrap(), 7)).collect();
        common::fused_is_same(&ops.iter().map(|op| op as &dyn Op).collect::<Vec<_>>());
    }
}

#[test]
fn invalid_input_is_named() {
    let error = top_k(&tensor(&[1f32; 3], &[3], "x").unwrap(), 4).outputs().unwrap_err();
    assert_eq!(
        error.to_string(),
        "top-k: k is 4 of 3, there must be as many numbers along the last dimension"
    );
    let bytes = tensor(&[1u8], &[1], "x").unwrap();
    assert!(matches!(bottom_k(&bytes, 1).outputs(), Err(OpError::DType { .. })));
}
