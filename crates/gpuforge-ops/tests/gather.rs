//! Gather: bit-identical on every backend, out-of-range indices, partitioned and fused operations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use std::{sync::Arc, time::Duration};

use gpuforge_ops::{Gather, Op, OpError, Target, Tuning, gather, record, view::tensor, xor};
use gpuforge_runtime::{
    plan::Plan,
    session::Session,
    tensor::{DType, Tensor, TensorSpec},
};

fn index(m: usize, rows: usize, seed: u64) -> Vec<u32> {
    let at = |i: u64| ((i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % rows.max(1) as u64;
    (0..m as u64).map(|i| at(i) as u32).collect()
}

fn op(rows: usize, width: usize, m: usize, seed: u64) -> Gather {
    // Every kind of bits, NaN among them.
    let data: Vec<u32> = (0..rows * width).map(|i| (i as u32).wrapping_mul(0x9E37_79B9)).collect();
    let shape = if width == 1 { vec![rows] } else { vec![rows, width] };
    gather(&tensor(&data, &shape, "data").unwrap(), &tensor(&index(m, rows, seed), &[m], "index").unwrap())
}

#[test]
fn cpu_and_device_agree_at_every_size() {
    for m in common::SIZES {
        for (rows, width) in [(1, 1), (1000, 1), (70_001, 1), (77, 3), (1, 64)] {
            if m * width > 4_000_000 {
                continue;
            }
            let out = common::words(&common::same_bits(&op(rows, width, m, 1))[0]);
            assert_eq!(out.len(), m * width);
            for (i, row) in index(m, rows, 1).into_iter().enumerate() {
                for c in 0..width {
                    let want = (row * width as u32 + c as u32).wrapping_mul(0x9E37_79B9);
                    assert_eq!(out[i * width + c], want, "{m} of {rows}×{width}: row {i}");
                }
            }
        }
    }
}

#[test]
fn shapes_follow_the_index_and_the_row() {
    let data = tensor(&[1f32, f32::NAN, -0.0, f32::INFINITY, 1e-40, 6.0], &[3, 1, 2], "data").unwrap();
    let index = tensor(&[2u32, 0, 1, 1], &[2, 2], "index").unwrap();
    let op = gather(&data, &index);
    let spec = &op.outputs().unwrap()[0];
    assert_eq!((spec.dtype, spec.shape.as_slice()), (DType::F32, &[2, 2, 1, 2][..]));
    let bits: Vec<u32> =
        [1e-40, 6.0, 1.0, f32::NAN, -0.0, f32::INFINITY, -0.0, f32::INFINITY].map(f32::to_bits).into();
    assert_eq!(common::words(&common::same_bits(&op)[0]), bits);
    // Nothing from nothing, and rows of nothing.
    let nothing = gather(&tensor::<f32>(&[], &[0], "d").unwrap(), &tensor::<u32>(&[], &[0], "i").unwrap());
    assert!(common::same_bits(&nothing)[0].is_empty());
    let thin = gather(&tensor::<f32>(&[], &[3, 0], "d").unwrap(), &tensor(&[2u32], &[1], "i").unwrap());
    assert!(common::same_bits(&thin)[0].is_empty());
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    common::parts_join(&op(100, 1, 1000, 3), 77);
    common::parts_join(&op(100, 5, 1000, 3), 77);
    let ops: Vec<Gather> = (0..9).map(|seed| op(50, 3, 20 + seed as usize, seed)).collect();
    common::fused_is_same(&ops.iter().map(|op| op as &dyn Op).collect::<Vec<_>>());
    let data = tensor(&[5f32, 6.0, 7.0], &[3], "data").unwrap();
    let same: Vec<Gather> =
        (0..4).map(|s| gather(&data, &tensor(&index(10, 3, s), &[10], "index").unwrap())).collect();
    let all: Vec<&dyn Op> = same.iter().map(|op| op as &dyn Op).collect();
    common::fused_is_same(&all);
    assert!(same[0].fuse(&all).unwrap().unwrap().op.inputs()[0].ptr_eq(&data), "the data was copied");
    let bad = gather(&data, &tensor(&[3u32], &[1], "index").unwrap());
    assert!(same[0].fuse(&[&same[0], &bad]).unwrap().is_none(), "a bad one spoils its neighbours");
}

#[test]
fn invalid_input_is_named() {
    let data = tensor(&[1f32; 10], &[10], "data").unwrap();
    let bad = gather(&data, &tensor(&[0u32, 9, 10, 4_000_000_000], &[4], "index").unwrap());
    for _ in 0..2 {
        let error = bad.outputs().unwrap_err();
        assert_eq!(
            error.to_string(),
            "gather: an index is 10 (at position 2, 10 rows), it must be below the number of rows"
        );
    }
    let error = gather(&data, &data).outputs().unwrap_err();
    assert_eq!(error.to_string(), "gather: the index must be U32, it is F32");
    let bytes = tensor(&[1u8], &[1], "bytes").unwrap();
    let index = tensor(&[0u32], &[1], "index").unwrap();
    assert!(matches!(gather(&bytes, &index).outputs(), Err(OpError::DType { what: "the data", .. })));
    let none = tensor::<f32>(&[], &[0], "none").unwrap();
    assert!(matches!(gather(&none, &index).outputs(), Err(OpError::Shapes { .. })));
    let scalar = tensor(&[1f32], &[], "scalar").unwrap();
    assert!(matches!(gather(&scalar, &index).outputs(), Err(OpError::Shapes { .. })));
}

/// An index that no host has seen.
fn only_there(session: &Session, words: &[u32]) -> Tensor {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let n = bytes.len();
    let same = xor(&tensor(&bytes, &[n], "bytes").unwrap(), &tensor(&[0u8], &[1], "key").unwrap());
    let mut plan = Plan::new("there");
    let slots: Vec<_> =
        same.inputs().into_iter().map(|t| plan.upload(t.host().unwrap(), "in").unwrap()).collect();
    let target = Target { caps: session.caps(), tuning: &Tuning::default() };
    let slot = same.record(&mut plan, &slots, &target).unwrap()[0];
    plan.keep(slot, TensorSpec { dtype: DType::U32, shape: vec![words.len()], tag: "index" }).unwrap();
    session.run_keeping(&Arc::new(plan), Duration::from_secs(60)).unwrap().1.remove(0)
}

#[test]
fn device_resident_indices_are_clamped() {
    let data = tensor(&[10f32, 11.0, 12.0], &[3], "data").unwrap();
    for session in [Some(common::dummy()), common::adapter()].into_iter().flatten() {
        let index = only_there(session, &[1, 3, u32::MAX, 0]);
        assert!(index.host().is_none());
        let op = gather(&data, &index);
        let target = Target { caps: session.caps(), tuning: &Tuning::default() };
        let plan = record::plan(&op, &target, false).unwrap();
        let done = session.run(&Arc::new(plan), Duration::from_secs(60)).unwrap();
        assert_eq!(common::floats(&done.outputs[0])[..4], [11.0, 12.0, 12.0, 10.0]);
        // The CPU, given the same bytes.
        let there: Vec<u8> = [1u32, 3, u32::MAX, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut out = vec![0u8; 16];
        op.cpu(&[&data.host().unwrap(), &there], &mut [&mut out], gpuforge_ops::Threads(1)).unwrap();
        assert_eq!(common::floats(&out), [11.0, 12.0, 12.0, 10.0]);
    }
}
