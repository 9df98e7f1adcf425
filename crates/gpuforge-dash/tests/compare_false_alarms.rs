//! False alarm rate and power of a comparison, on simulated runs: unchanged, slower, and autocorrelated.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use gpuforge_dash::compare::{ChangeVerdict, CompareOptions, OperationCalls, RunProfile, RunSet, compare};

/// Operations in a simulated program.
const OPERATIONS: usize = 8;
/// Simulations of each kind.
const TIMES: usize = 10_000;

/// PCG32 (O'Neill); normal deviates by Box-Muller.
struct Pcg32(u64);

impl Pcg32 {
    fn of(seed: u64) -> Pcg32 {
        let mut random = Pcg32(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.uniform();
        random
    }

    fn uniform(&mut self) -> f64 {
        let old = self.0;
        self.0 = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        f64::from(mixed.rotate_right((old >> 59) as u32)) / 4_294_967_296.0
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// A kind of noise around 1.
type Noise = fn(&mut Pcg32) -> f64;

/// 5 % either way.
fn normal(random: &mut Pcg32) -> f64 {
    (1.0 + 0.05 * random.normal()).max(0.01)
}

/// Lognormal: most are quick, some take far longer.
fn skewed(random: &mut Pcg32) -> f64 {
    (0.5 * random.normal()).exp()
}

/// A third of the calls take half as long again: a cache that missed.
fn bimodal(random: &mut Pcg32) -> f64 {
    let slow = if random.uniform() < 0.33 { 1.5 } else { 1.0 };
    slow * (1.0 + 0.02 * random.normal())
}

const NOISES: [(&str, Noise); 3] = [("normal", normal), ("skewed", skewed), ("bimodal", bimodal)];

/// Nanoseconds, whole, as a trace has them.
fn nanoseconds(base: f64, values: impl Iterator<Item = f64>) -> Vec<f64> {
    values.map(|value| (base * value).round()).collect()
}

/// A run of every operation `calls` times; `slow` makes the first operation slower.
fn run(random: &mut Pcg32, noise: Noise, calls: usize, slow: f64) -> RunProfile {
    let operation = |index: usize| {
        let base = 1e5 * (1 + index) as f64 * if index == 0 { slow } else { 1.0 };
        let values = nanoseconds(base, (0..calls).map(|_| noise(random)));
        (format!("operation {index}"), OperationCalls::of(&values))
    };
    RunProfile { operations: (0..OPERATIONS).map(operation).collect(), ..RunProfile::default() }
}

fn side(runs: impl IntoIterator<Item = RunProfile>) -> RunSet {
    RunSet { runs: runs.into_iter().collect() }
}

fn quick(threshold: f64) -> CompareOptions {
    // Verdicts do not depend on the interval (tests/compare_properties.rs).
    CompareOptions { threshold, resamples: 0, ..CompareOptions::default() }
}

/// Share of the simulations in which any operation was said to have changed, for each of these thresholds.
fn alarms<const N: usize>(
    times: usize,
    thresholds: [f64; N],
    mut pair: impl FnMut(&mut Pcg32) -> (RunSet, RunSet),
) -> [f64; N] {
    let mut alarms = [0usize; N];
    for seed in 0..times {
        let (a, b) = pair(&mut Pcg32::of(seed as u64 + 1));
        for (alarms, threshold) in alarms.iter_mut().zip(thresholds) {
            *alarms += usize::from(compare(&a, &b, &quick(threshold)).verdict != ChangeVerdict::NoChange);
        }
    }
    alarms.map(|alarms| alarms as f64 / times as f64)
}

/// 5 %, and three standard errors of a share measured so often.
fn allowed(times: usize) -> f64 {
    0.05 + 3.0 * (0.05_f64 * 0.95 / times as f64).sqrt()
}

fn unchanged((name, noise): (&str, Noise)) {
    // Without a least change that matters only the tests themselves keep false alarms away.
    let [plain, with_least] = alarms(TIMES, [0.0, 0.02], |random| {
        (side([run(random, noise, 30, 1.0)]), side([run(random, noise, 30, 1.0)]))
    });
    println!("{name}: {:.2} % false alarms, {:.2} % by default", 100.0 * plain, 100.0 * with_least);
    assert!(plain <= allowed(TIMES) && with_least <= allowed(TIMES), "{name}: {plain} {with_least}");
    // A test that never says anything is no test.
    assert!(plain > 0.005, "{name}: {plain}");
}

#[test]
fn normal_noise_raises_few_false_alarms() {
    unchanged(NOISES[0]);
}

#[test]
fn skewed_noise_raises_few_false_alarms() {
    unchanged(NOISES[1]);
}

#[test]
fn bimodal_noise_raises_few_false_alarms() {
    unchanged(NOISES[2]);
}

#[test]
fn ten_percent_slower_is_a_regression() {
    let times = 2000;
    let mut found = [0usize; 2];
    for seed in 0..times {
        let mut random = Pcg32::of(seed);
        let a = side([run(&mut random, normal, 30, 1.0)]);
        let b = side([run(&mut random, normal, 30, 1.1)]);
        for (found, (a, b, expected)) in
            found.iter_mut().zip([(&a, &b, ChangeVerdict::Regression), (&b, &a, ChangeVerdict::Improvement)])
        {
            let comparison = compare(a, b, &quick(0.02));
            let first = &comparison.operations[0];
            *found += usize::from(first.operation == "operation 0" && first.verdict == expected);
        }
    }
    let power = found.map(|found| found as f64 / times as f64);
    println!("10 % at 5 % noise, 30 calls, {OPERATIONS} operations: found {power:?}");
    assert!(power.iter().all(|power| *power >= 0.9), "{power:?}");
}

#[test]
fn change_below_the_threshold_is_no_alarm() {
    // 1 % with so little noise that any plain test of equality is certain of it.
    let quiet: Noise = |random| 1.0 + 0.001 * random.normal();
    let [share] = alarms(500, [0.02], |random| {
        (side([run(random, quiet, 200, 1.0)]), side([run(random, quiet, 200, 1.01)]))
    });
    assert_eq!(share, 0.0);
    let mut random = Pcg32::of(1);
    let (a, b) = (side([run(&mut random, quiet, 200, 1.0)]), side([run(&mut random, quiet, 200, 1.01)]));
    let changed = compare(&a, &b, &quick(0.0));
    assert_eq!(changed.verdict, ChangeVerdict::Regression);
}

/// Spans that follow each other are alike: what is left of the last deviation after one step.
fn following(random: &mut Pcg32, calls: usize, alike: f64) -> Vec<f64> {
    let mut off = random.normal();
    nanoseconds(
        1e6,
        (0..calls).map(|_| {
            off = alike * off + (1.0 - alike * alike).sqrt() * random.normal();
            1.0 + 0.05 * off
        }),
    )
}

#[test]
fn autocorrelated_spans_raise_few_false_alarms() {
    for (times, calls, alike) in [(2000, 30, 0.5), (2000, 100, 0.8), (500, 1000, 0.95), (200, 5000, 0.99)] {
        let one = |random: &mut Pcg32| {
            let operations = (0..OPERATIONS)
                .map(|i| (i.to_string(), OperationCalls::of(&following(random, calls, alike))));
            side([RunProfile { operations: operations.collect(), ..RunProfile::default() }])
        };
        let shares = alarms(times, [0.0, 0.02], |random| (one(random), one(random)));
        println!("{calls} calls, {alike} alike: {:?} % false alarms", shares.map(|share| 100.0 * share));
        assert!(shares.iter().all(|share| *share <= allowed(times)), "{calls} {alike}: {shares:?}");
    }
}

/// A run as a whole is off by 3 %, all its operations by another 2 %: more spans do not help.
fn uneven(random: &mut Pcg32, slow: f64) -> RunProfile {
    let whole = 0.03 * random.normal();
    let operation = |index: usize| {
        let off = 1.0 + whole + 0.02 * random.normal();
        let base = 1e6 * off * if index == 0 { slow } else { 1.0 };
        let values = nanoseconds(base, (0..50).map(|_| 1.0 + 0.01 * random.normal()));
        (index.to_string(), OperationCalls::of(&values))
    };
    RunProfile { operations: (0..OPERATIONS).map(operation).collect(), ..RunProfile::default() }
}

#[test]
fn run_to_run_variation_raises_few_false_alarms() {
    let times = 1000;
    let many = |random: &mut Pcg32, runs: usize, slow: f64| side((0..runs).map(|_| uneven(random, slow)));
    for (before, after) in [(2, 1), (2, 2), (5, 1), (5, 5), (10, 10)] {
        let [share] = alarms(times, [0.0], |random| (many(random, before, 1.0), many(random, after, 1.0)));
        println!("{before} runs against {after}: {:.2} % false alarms", 100.0 * share);
        assert!(share <= allowed(times), "{before} {after}: {share}");
    }
    // And still see what is there.
    let found = (0..200).filter(|seed| {
        let random = &mut Pcg32::of(*seed);
        let (a, b) = (many(random, 10, 1.0), many(random, 10, 1.2));
        compare(&a, &b, &quick(0.02)).operations[0].verdict == ChangeVerdict::Regression
    });
    let found = found.count();
    println!("20 % more over 10 uneven runs a side: found {found} of 200");
    assert!(found >= 180, "{found}");
}
