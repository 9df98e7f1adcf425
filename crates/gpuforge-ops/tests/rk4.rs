//! RK4 against exact solutions and an f64 reference, within the bound that `src/rk4.rs` states.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail"
)]

mod common;

use common::{everywhere, floats};
use gpuforge_ops::{Expr, Op, OpError, Rk4, rk4, view::tensor};
use gpuforge_runtime::tensor::Tensor;

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37 + seed * 101) % 1009) as f32 * 0.001 + 0.5).collect()
}

fn column(values: &[f32]) -> Tensor {
    tensor(values, &[values.len()], "x").unwrap()
}

fn system(texts: &[&str], names: &[&str]) -> Vec<Expr> {
    texts.iter().map(|t| Expr::parse(t, names).unwrap()).collect()
}

/// `y' = -y`.
fn decay(n: usize, dt: f32, steps: u32) -> Rk4 {
    rk4(&system(&["-y"], &["y", "t"]), &[&column(&values(n, 1))], 0.0, dt, steps)
}

/// `x' = v`, `v' = -x`.
fn oscillator(n: usize, dt: f32, steps: u32) -> Rk4 {
    let system = system(&["v", "-x"], &["x", "v", "t"]);
    rk4(&system, &[&column(&values(n, 1)), &column(&values(n, 2))], 0.0, dt, steps)
}

fn bound(steps: u32, largest: f32) -> f32 {
    (steps + 8) as f32 * f32::EPSILON * largest
}

#[test]
fn decay_follows_its_solution_at_every_size() {
    for n in common::SIZES {
        let steps = if n > 100_000 { 4 } else { 100 };
        let start = values(n, 1);
        let factor = (-f64::from(steps) * 0.01).exp();
        for (place, results) in everywhere(&decay(n, 0.01, steps)) {
            let got = floats(&results[0]);
            assert_eq!(got.len(), n);
            for (y, start) in got.iter().zip(&start) {
                let want = (f64::from(*start) * factor) as f32;
                assert!((y - want).abs() <= bound(steps, 2.0), "{n} on {place}: {y} for {want}");
            }
        }
    }
}

#[test]
fn an_oscillator_follows_its_solution() {
    let (n, dt, steps) = (130, 0.01f32, 314);
    let (x, v) = (values(n, 1), values(n, 2));
    let (sin, cos) = (f64::from(steps) * f64::from(dt)).sin_cos();
    for (place, results) in everywhere(&oscillator(n, dt, steps)) {
        let (xs, vs) = (floats(&results[0]), floats(&results[1]));
        for i in 0..n {
            let (x, v) = (f64::from(x[i]), f64::from(v[i]));
            let (want_x, want_v) = (x * cos + v * sin, v * cos - x * sin);
            let error = (f64::from(xs[i]) - want_x).abs().max((f64::from(vs[i]) - want_v).abs());
            assert!(error <= f64::from(bound(steps, 3.0)), "{i} on {place}: {error}");
        }
    }
}

#[test]
fn time_and_parameters_are_inputs() {
    // y' = a*t + b has the solution y0 + a*t*t/2 + b*t, which the method finds exactly but for rounding.
    let (n, steps) = (100, 50);
    let (y, a) = (values(n, 1), values(n, 2));
    let op = rk4(&system(&["a*t + b"], &["y", "t", "a", "b"]), &[&column(&y)], 1.0, 0.02, steps)
        .with(&[&column(&a), &tensor(&[0.25f32], &[1], "b").unwrap()]);
    for (place, results) in everywhere(&op) {
        for (i, got) in floats(&results[0]).iter().enumerate() {
            let want = y[i] + a[i] * (4.0 - 1.0) / 2.0 + 0.25;
            assert!((got - want).abs() <= bound(steps, 4.0), "{i} on {place}: {got} for {want}");
        }
    }
    common::parts_join(&op, 64);
}

#[test]
fn many_steps_are_split_into_dispatches() {
    let (n, steps) = (16, 40_000);
    let op = decay(n, 1e-5, steps);
    assert_eq!(op.cost().launches, 3);
    let start = values(n, 1);
    for (place, results) in everywhere(&op) {
        for (y, start) in floats(&results[0]).iter().zip(&start) {
            let want = start * (-0.4f32).exp();
            assert!((y - want).abs() <= bound(steps, 2.0), "{place}: {y} for {want}");
        }
    }
}

#[test]
fn zero_steps_change_nothing() {
    let op = oscillator(70, 0.1, 0);
    for (place, results) in everywhere(&op) {
        assert_eq!(floats(&results[1]), values(70, 2), "{place}");
    }
}

#[test]
fn eight_variables_fit_and_partitions_are_exact() {
    // A chain in which each variable follows the one before.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "t"];
    let texts = ["-a", "a - b", "b - c", "c - d", "d - e", "e - f", "f - g", "g - h"];
    let state: Vec<Tensor> = (0..8).map(|k| column(&values(257, k))).collect();
    let op = rk4(&system(&texts, &names), &state.iter().collect::<Vec<_>>(), 0.0, 0.01, 100);
    let all = everywhere(&op);
    for (place, results) in &all {
        for (got, want) in results.iter().zip(&all[0].1) {
            let near = |(a, b): (f32, f32)| (a - b).abs() <= bound(100, 2.0);
            assert!(floats(got).into_iter().zip(floats(want)).all(near), "{place}");
        }
    }
    common::parts_join(&op, 100);
}

#[test]
fn non_finite_elements_do_not_spread() {
    let mut y = values(64, 1);
    y[5] = f32::NAN;
    y[6] = f32::INFINITY;
    let op = rk4(&system(&["-y"], &["y", "t"]), &[&column(&y)], 0.0, 0.01, 10);
    for (place, results) in everywhere(&op) {
        let got = floats(&results[0]);
        for (i, got) in got.iter().enumerate().filter(|(i, _)| ![5, 6].contains(i)) {
            assert!((got - y[i] * (-0.1f32).exp()).abs() <= 1e-5, "{i} on {place}");
        }
        assert!(!place.contains("thread") || (got[5].is_nan() && !got[6].is_finite()), "{place}");
    }
}

#[test]
fn invalid_input_is_named() {
    let y = column(&values(4, 1));
    let e = |text: &str| Expr::parse(text, &["y", "t", "q"]).unwrap();
    let check = |op: Rk4, want: &str| assert_eq!(op.outputs().unwrap_err().to_string(), want);
    check(rk4(&[], &[], 0.0, 0.1, 1), "rk4: the number of state variables is 0, it must be between 1 and 8");
    check(
        rk4(&[], &[&y], 0.0, 0.1, 1),
        "rk4: the number of expressions is 0, there must be one per state variable",
    );
    check(rk4(&[e("q")], &[&y], 0.0, 0.1, 1), "rk4: the number of inputs is 0, the expression reads more");
    check(rk4(&[e("y")], &[&y], 0.0, f32::NAN, 1), "rk4: a time is NaN, it must be finite");
    check(rk4(&[e("y")], &[&y], 0.0, 0.1, u32::MAX), "rk4: the number of steps is 4294967295, at most 2^24");
    let other = column(&values(5, 1));
    check(
        rk4(&[e("y"), e("y")], &[&y, &other], 0.0, 0.1, 1),
        "rk4: state and parameters must have one shape: [4] and [5]",
    );
    let bytes = tensor(&[1u8], &[1], "x").unwrap();
    assert!(matches!(rk4(&[e("y")], &[&bytes], 0.0, 0.1, 1).outputs(), Err(OpError::DType { .. })));
}
