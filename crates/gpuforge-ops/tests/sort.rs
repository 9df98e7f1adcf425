//! Sort and argsort: bit-identical on every backend, NaN last, stable, rows independent.
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
    Op, OpError, Sort, argsort, argsort_descending, sort, sort_descending,
    view::{Number, tensor},
};

fn noise(n: usize, seed: u64) -> Vec<u32> {
    (0..n as u64).map(|i| ((i + seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 29) as u32).collect()
}

/// Comparison sort: values and indices.
fn reference<T: Copy>(data: &[T], order: impl Fn(&T, &T) -> Ordering) -> (Vec<T>, Vec<u32>) {
    let mut places: Vec<u32> = (0..data.len() as u32).collect();
    places.sort_by(|a, b| order(&data[*a as usize], &data[*b as usize]));
    (places.iter().map(|i| data[*i as usize]).collect(), places)
}

fn check<T: Number + std::fmt::Debug>(
    data: &[T],
    up: impl Fn(&T, &T) -> Ordering,
    down: impl Fn(&T, &T) -> Ordering,
) {
    let t = tensor(data, &[data.len()], "data").unwrap();
    for (numbers, places, (want, order)) in [
        (sort(&t), argsort(&t), reference(data, up)),
        (sort_descending(&t), argsort_descending(&t), reference(data, down)),
    ] {
        let (n, want) = (data.len(), bits(&want));
        assert!(common::words(&common::same_bits(&numbers)[0]) == want, "numbers of {n} {:?}", T::DTYPE);
        assert!(common::words(&common::same_bits(&places)[0]) == order, "places of {n} {:?}", T::DTYPE);
    }
}

fn bits<T: Number>(values: &[T]) -> Vec<u32> {
    let t = tensor(values, &[values.len()], "x").unwrap();
    common::words(&t.host().unwrap())
}

/// The rule of the operation, by comparing: NaN last in both directions, positive ones by payload before negative ones.
fn floats(descending: bool) -> impl Fn(&f32, &f32) -> Ordering {
    move |a, b| match (a.is_nan(), b.is_nan()) {
        (false, false) if descending => b.total_cmp(a),
        (false, false) => a.total_cmp(b),
        (true, true) => a.is_sign_negative().cmp(&b.is_sign_negative()).then(a.total_cmp(b)),
        (a, b) => a.cmp(&b),
    }
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    for n in common::SIZES {
        let words = noise(n, 0);
        let values: Vec<f32> = words.iter().map(|w| *w as i32 as f32 * 1e-3).collect();
        if n > 10_000 {
            // Values in one direction, indices in the other: a million elements take long on a software adapter.
            let t = tensor(&values, &[n], "data").unwrap();
            let (want, _) = reference(&values, floats(false));
            assert!(common::words(&common::same_bits(&sort(&t))[0]) == bits(&want), "numbers of {n}");
            let (_, order) = reference(&values, floats(true));
            assert!(common::words(&common::same_bits(&argsort_descending(&t))[0]) == order, "places of {n}");
        } else {
            check(&values, floats(false), floats(true));
            check(&words, u32::cmp, |a, b| b.cmp(a));
            let signed: Vec<i32> = words.iter().map(|w| *w as i32).collect();
            check(&signed, i32::cmp, |a, b| b.cmp(a));
        }
    }
}

#[test]
fn sort_is_stable() {
    for n in [65, 4097] {
        let few: Vec<u32> = noise(n, 1).iter().map(|w| w % 7).collect();
        check(&few, u32::cmp, |a, b| b.cmp(a));
        check(&vec![-1i32; n], i32::cmp, |a, b| b.cmp(a));
    }
}

#[test]
fn total_order_of_floats() {
    let special = [
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_0000,
        0x7f80_0001,
        0xffff_ffff,
        0x7fff_ffff,
        0xff80_0001,
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x807f_ffff,
        0x3f80_0000,
        0xbf80_0000,
        0x7f7f_ffff,
        0xff7f_ffff,
    ];
    let data: Vec<f32> =
        special.iter().cycle().take(200).chain(&noise(3000, 5)).map(|b| f32::from_bits(*b)).collect();
    check(&data, floats(false), floats(true));
    let some = tensor(&[2.0, f32::NAN, -0.0, 0.0, f32::NEG_INFINITY], &[5], "x").unwrap();
    assert_eq!(common::words(&common::on_cpu(&argsort(&some), 1)[0]), [4, 2, 3, 0, 1]);
    assert_eq!(common::words(&common::on_cpu(&argsort_descending(&some), 1)[0]), [0, 3, 2, 4, 1]);
}

#[test]
fn rows_are_sorted_independently() {
    for (rows, columns) in [(0, 5), (5, 0), (3, 1), (7, 65), (2, 3000), (300, 17)] {
        let data = noise(rows * columns, 9);
        let t = tensor(&data, &[rows, columns], "data").unwrap();
        let numbers = common::words(&common::same_bits(&sort(&t))[0]);
        let places = common::words(&common::same_bits(&argsort_descending(&t))[0]);
        for r in 0..rows {
            let range = r * columns..(r + 1) * columns;
            assert_eq!(numbers[range.clone()], reference(&data[range.clone()], u32::cmp).0);
            assert_eq!(places[range.clone()], reference(&data[range], |a, b| b.cmp(a)).1);
        }
    }
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    let data: Vec<f32> = noise(1000, 3).iter().map(|w| f32::from_bits(w & 0xfff0_0000)).collect();
    let (line, matrix) =
        (tensor(&data, &[1000], "line").unwrap(), tensor(&data, &[20, 50], "matrix").unwrap());
    for op in [sort, sort_descending, argsort, argsort_descending] {
        common::parts_join(&op(&line), 77);
        common::parts_join(&op(&line), 1);
        common::parts_join(&op(&matrix), 3);
        let ops: Vec<Sort> = (0..5).map(|s| op(&tensor(&noise(130, s), &[130], "x").unwrap())).collect();
        common::fused_is_same(&ops.iter().map(|op| op as &dyn Op).collect::<Vec<_>>());
    }
}

#[test]
fn invalid_input_is_named() {
    let error = sort(&tensor(&[1u8], &[1], "x").unwrap()).outputs().unwrap_err();
    assert_eq!(error.to_string(), "sort: the data must be F32, it is U8");
    let scalar = tensor(&[1f32], &[], "x").unwrap();
    assert!(matches!(argsort(&scalar).outputs(), Err(OpError::Shapes { .. })));
}
