//! Fused element-wise expressions: within the accuracy that `src/map.rs` states, on every backend.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use common::{everywhere, floats, same_bits};
use gpuforge_ops::{Expr, Map, Op, OpError, OpKind, map, view::tensor};
use gpuforge_runtime::tensor::Tensor;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 + seed * 101) % 1009) as f32 * 0.0117 - 5.0).collect()
}

fn op_on(text: &str, inputs: &[&[f32]]) -> Map {
    let tensors: Vec<Tensor> = inputs.iter().map(|v| tensor(v, &[v.len()], "x").unwrap()).collect();
    map(&Expr::parse(text, &NAMES).unwrap(), &tensors.iter().collect::<Vec<_>>())
}

fn op(text: &str, n: usize) -> Map {
    let inputs = [values(n, 1), values(n, 2), values(n, 3)];
    op_on(text, &[&inputs[0], &inputs[1], &inputs[2]])
}

/// Everywhere within this distance of an f64 reference, at all sizes.
fn close(text: &str, reference: impl Fn(f64, f64, f64) -> f64, bound: impl Fn(f64) -> f64) {
    // The largest size is for `a*b + c` and for bits: it takes longer than all others together.
    for n in common::SIZES.into_iter().filter(|n| *n < 100_000 || text == "a*b + c") {
        let inputs = [values(n, 1), values(n, 2), values(n, 3)];
        for (place, results) in everywhere(&op(text, n)) {
            let got = floats(&results[0]);
            assert_eq!(got.len(), n);
            for (i, got) in got.iter().enumerate() {
                let [a, b, c] = [0, 1, 2].map(|k: usize| f64::from(inputs[k][i]));
                let want = reference(a, b, c);
                let error = (f64::from(*got) - want).abs();
                assert!(error <= bound(want), "{text} at {i} of {n} on {place}: {got} for {want}");
            }
        }
    }
}

const ULP: f64 = f32::EPSILON as f64;

#[test]
fn cheap_functions_are_bit_identical() {
    for n in common::SIZES {
        let (a, b) = (values(n, 1), values(n, 2));
        let out = floats(&same_bits(&op("a - b", n))[0]);
        assert!(out.iter().zip(a.iter().zip(&b)).all(|(y, (a, b))| y.to_bits() == (a - b).to_bits()), "{n}");
        let out = floats(&same_bits(&op("select(a < b, min(a, b)*2, max(a, floor(b)))", n))[0]);
        let want = |a: f32, b: f32| if a < b { a.min(b) * 2.0 } else { a.max(b.floor()) };
        assert!(
            out.iter().zip(a.iter().zip(&b)).all(|(y, (a, b))| y.to_bits() == want(*a, *b).to_bits()),
            "{n}"
        );
    }
    same_bits(&op("abs(a) * -b", 1000));
    same_bits(&op("(a > b) + (a >= b)*2 + (a <= b)*4 + (a == b)*8", 1000));
}

#[test]
fn products_and_quotients_are_within_their_ulp_bounds() {
    // A product of at most 25 may be rounded once or twice.
    close("a*b + c", |a, b, c| a * b + c, |_| 50.0 * ULP);
    close("a / (abs(b) + 1)", |a, b, _| a / (b.abs() + 1.0), |y| 4.0 * ULP * y.abs());
    close("sqrt(abs(a))", |a, _, _| a.abs().sqrt(), |y| 4.0 * ULP * y.abs());
}

#[test]
fn functions_stay_within_what_wgsl_grants() {
    // WGSL, "accuracy of built-in functions": sin and cos 2^-11 between -pi and pi, exp 3 + 2|x| units, log 2^-21 or 3 units.
    close("exp(sin(a))*b", |a, b, _| a.sin().exp() * b, |_| 5.0 * 3.0 / 512.0);
    close("cos(a)", |a, _, _| a.cos(), |_| 1.0 / 1024.0);
    close("exp(a)", |a, _, _| a.exp(), |y| 14.0 * ULP * y);
    close("ln(abs(a) + 0.5)", |a, _, _| (a.abs() + 0.5).ln(), |y| 1e-6 + 4.0 * ULP * y.abs());
    close("tanh(a)", |a, _, _| a.tanh(), |_| 2e-5);
    close("pow(abs(a) + 0.1, 1.5)", |a, _, _| (a.abs() + 0.1).powf(1.5), |y| 64.0 * ULP * y);
}

#[test]
fn kind_and_cost_follow_the_expression() {
    let (cheap, heavy) = (op("a*b + c", 10), op("exp(sin(a))*b", 10));
    assert_eq!((cheap.kind(), cheap.cost().units), (OpKind::Map, 10));
    assert_eq!((heavy.kind(), heavy.cost().units), (OpKind::MapHeavy, 210));
    assert_eq!(cheap.cost().read.0, 120);
}

#[test]
fn scalars_are_broadcast() {
    for n in [1, 5, 1000] {
        let a = values(n, 1);
        let op = op_on("a*b - c", &[&a, &[3.0], &[0.5]]);
        for (place, results) in everywhere(&op) {
            let near = |(y, a): (&f32, &f32)| (y - (a * 3.0 - 0.5)).abs() <= 1e-5;
            assert!(floats(&results[0]).iter().zip(&a).all(near), "{n} on {place}");
        }
        if n > 64 {
            common::parts_join(&op, 100);
        }
    }
    let square = tensor(&values(6, 1), &[2, 3], "x").unwrap();
    let one = tensor(&[2f32], &[1], "x").unwrap();
    let op = map(&(Expr::input(0) / Expr::input(1)), &[&one, &square]);
    assert_eq!(op.outputs().unwrap()[0].shape, [2, 3]);
    assert_eq!(floats(&common::on_cpu(&op, 1)[0])[5], 2.0 / values(6, 1)[5]);
}

#[test]
fn cpu_follows_ieee() {
    let odd = [f32::NAN, f32::INFINITY, -f32::INFINITY, 0.0, -0.0, 1e-40, -1e-40, f32::MAX];
    for text in ["a + a", "a*a", "1/a", "sqrt(a)", "exp(a)", "ln(a)", "sin(a)", "tanh(a)", "a == a", "a - a"]
    {
        let got = floats(&common::on_cpu(&op_on(text, &[&odd]), 1)[0]);
        for (x, got) in odd.iter().zip(got) {
            let want = match text {
                "a + a" => x + x,
                "a*a" => x * x,
                "1/a" => 1.0 / x,
                "sqrt(a)" => x.sqrt(),
                "exp(a)" => x.exp(),
                "ln(a)" => x.ln(),
                "sin(a)" => x.sin(),
                "tanh(a)" => x.tanh(),
                "a == a" => f32::from(u8::from(!x.is_nan())),
                _ => x - x,
            };
            let same = got == want || (got.is_nan() && want.is_nan());
            assert!(
                same || (got - want).abs() <= 2.0 * f32::EPSILON * want.abs(),
                "{text} of {x}: {got}, not {want}"
            );
        }
    }
}

#[test]
fn non_finite_elements_do_not_affect_others() {
    let mut a = values(1000, 1);
    for (i, odd) in [f32::NAN, f32::INFINITY, -f32::INFINITY, f32::MAX].into_iter().enumerate() {
        a[i * 250] = odd;
    }
    let b = values(1000, 2);
    for (place, results) in everywhere(&op_on("a + b*2", &[&a, &b])) {
        for (i, y) in floats(&results[0]).iter().enumerate().filter(|(i, _)| i % 250 != 0) {
            assert!((y - (a[i] + b[i] * 2.0)).abs() <= 1e-5, "{i} on {place}: {y}");
        }
    }
    // Results below the smallest normal number may become zero on a device, and nothing else.
    let tiny = vec![3e-39f32; 64];
    for (place, results) in everywhere(&op_on("a*0.5", &[&tiny])) {
        let near = |y: &f32| (y - 1.5e-39).abs() <= f32::MIN_POSITIVE;
        assert!(floats(&results[0]).iter().all(near), "{place}");
    }
}

#[test]
fn copies_preserve_all_bits() {
    for n in common::SIZES {
        let odd: Vec<f32> = (0..n as u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))).collect();
        let out = &same_bits(&op_on("a", &[&odd]))[0];
        assert!(common::words(out).iter().zip(&odd).all(|(y, x)| *y == x.to_bits()), "{n}");
    }
}

#[test]
fn constants_share_a_shader() {
    let text = |text: &str| {
        let op = op(text, 64);
        let target =
            gpuforge_ops::Target { caps: common::dummy().caps(), tuning: &gpuforge_ops::Tuning::default() };
        let plan = gpuforge_ops::record::plan(&op, &target, false).unwrap();
        let kernel = plan.commands().iter().find_map(|c| match c {
            gpuforge_runtime::plan::Command::Dispatch(d) => Some(d.kernel.wgsl.to_string()),
            _ => None,
        });
        kernel.unwrap()
    };
    assert_eq!(text("a*2 + 1"), text("a*3 + 7"));
    let long: Vec<String> = (1..30).map(|i| format!("a*{i}.5")).collect();
    let sum: f64 = (1..30).map(|i| f64::from(i) + 0.5).sum();
    close(&long.join("+"), |a, _, _| a * sum, |y| 32.0 * ULP * y.abs() + 1e-4);
}

#[test]
fn partitioned_and_fused_ops_are_bit_identical() {
    common::parts_join(&op("exp(a)*b + sin(c)", 1000), 100);
    let sizes = [1usize, 7, 64, 100, 0, 33];
    let ops: Vec<Map> = sizes.iter().map(|n| op("max(a, b) - c", *n)).collect();
    let all: Vec<&dyn Op> = ops.iter().map(|op| op as &dyn Op).collect();
    common::fused_is_same(&all);
    assert_ne!(op("a*2", 5).fuse_key(), op("a*3", 5).fuse_key());
    let broadcast =
        [op_on("a - b", &[&values(9, 1), &[1.0]]), op_on("a - b", &[&values(4, 1), &values(4, 2)])];
    common::fused_is_same(&[&broadcast[0], &broadcast[1]]);
}

#[test]
fn invalid_input_is_named() {
    let error = op_on("a + b", &[&values(3, 1), &values(4, 1)]).outputs().unwrap_err();
    assert_eq!(error.to_string(), "map: inputs must have one shape, or [1]: [3] and [4]");
    let few = op_on("a + c", &[&values(3, 1)]).outputs().unwrap_err();
    assert_eq!(few.to_string(), "map: the number of inputs is 1, the expression reads more");
    let many: Vec<Vec<f32>> = (0..8).map(|k| values(3, k)).collect();
    let many: Vec<&[f32]> = many.iter().map(Vec::as_slice).collect();
    assert!(matches!(op_on("a", &many).outputs(), Err(OpError::Value { .. })));
    assert!(matches!(op_on("1", &[]).outputs(), Err(OpError::Value { .. })));
    let bytes = tensor(&[1u8], &[1], "x").unwrap();
    assert!(matches!(map(&Expr::input(0), &[&bytes]).outputs(), Err(OpError::DType { .. })));
    assert!(op_on("a/0*0 + 1", &[&[1.0]]).outputs().is_ok());
    let odd = map(&(Expr::input(0) * f32::INFINITY), &[&tensor(&[1f32], &[1], "x").unwrap()]);
    assert!(matches!(odd.outputs(), Err(OpError::Value { what: "a constant", .. })));
}
