//! Properties of comparisons: antisymmetry, scale invariance, robustness to any input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use gpuforge_dash::compare::{
    ChangeVerdict, CompareOptions, Comparison, OperationCalls, OperationChange, RunProfile, RunSet, compare,
    html,
};
use proptest::{collection::vec, prelude::*};

fn options(resamples: usize) -> CompareOptions {
    CompareOptions { resamples, ..CompareOptions::default() }
}

/// Each operation with its durations, run by run.
fn side(runs: &[Vec<Vec<f64>>]) -> RunSet {
    let run = |operations: &Vec<Vec<f64>>| {
        let named =
            operations.iter().enumerate().map(|(i, values)| (format!("op {i}"), OperationCalls::of(values)));
        let stacks = named.clone().map(|(name, calls)| (format!("t;{name}"), calls.total_ns)).collect();
        RunProfile { operations: named.collect(), stacks, dropped: 0 }
    };
    RunSet { runs: runs.iter().map(run).collect() }
}

/// Durations of one to three runs of one to four operations.
fn sides(value: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = RunSet> {
    vec(vec(vec(value, 0..40), 1..5), 1..4).prop_map(|runs| side(&runs))
}

fn inverse(verdict: ChangeVerdict) -> ChangeVerdict {
    match verdict {
        ChangeVerdict::Regression => ChangeVerdict::Improvement,
        ChangeVerdict::Improvement => ChangeVerdict::Regression,
        other => other,
    }
}

fn by_name(comparison: &Comparison) -> Vec<&OperationChange> {
    let mut changes: Vec<&OperationChange> = comparison.operations.iter().collect();
    changes.sort_by(|x, y| x.operation.cmp(&y.operation));
    changes
}

fn near(x: Option<f64>, y: Option<f64>) -> bool {
    match (x, y) {
        (Some(x), Some(y)) => (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-30),
        (x, y) => x == y,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn swapped_sides_invert_the_comparison(
        a in sides((100_u32..200).prop_map(f64::from)),
        b in sides((110_u32..260).prop_map(f64::from)),
    ) {
        let (there, back) = (compare(&a, &b, &options(100)), compare(&b, &a, &options(100)));
        prop_assert_eq!((&there.only_a, &there.only_b), (&back.only_b, &back.only_a));
        for (x, y) in by_name(&there).into_iter().zip(by_name(&back)) {
            prop_assert_eq!(x.verdict, inverse(y.verdict));
            prop_assert!(near(x.p, y.p) && near(x.p_equal, y.p_equal) && near(x.p_adjusted, y.p_adjusted));
            prop_assert!(near(x.ratio, y.ratio.map(f64::recip)));
            prop_assert!((x.effect + y.effect).abs() < 1e-12);
            let (low, high) = (x.interval.map(|i| i.0), x.interval.map(|i| i.1));
            prop_assert!(near(low, y.interval.map(|i| i.1.recip())) && near(high, y.interval.map(|i| i.0.recip())));
        }
    }

    #[test]
    fn comparison_is_scale_invariant(
        a in sides((100_u32..200).prop_map(f64::from)),
        b in sides((110_u32..260).prop_map(f64::from)),
        power in -20_i32..20,
    ) {
        let scaled = |side: &RunSet| {
            let mut side = side.clone();
            for run in &mut side.runs {
                for calls in run.operations.values_mut() {
                    calls.kept_ns.iter_mut().for_each(|value| *value *= 2f64.powi(power));
                }
            }
            side
        };
        let (one, other) = (compare(&a, &b, &options(100)), compare(&scaled(&a), &scaled(&b), &options(100)));
        for (x, y) in one.operations.iter().zip(&other.operations) {
            prop_assert_eq!((&x.operation, x.verdict, x.effect, x.ratio), (&y.operation, y.verdict, y.effect, y.ratio));
            prop_assert!(near(x.p, y.p) && near(x.p_adjusted, y.p_adjusted));
            prop_assert_eq!(x.interval, y.interval);
        }
    }

    #[test]
    fn a_side_against_itself_is_no_change(a in sides((0_u32..200).prop_map(f64::from))) {
        let comparison = compare(&a, &a, &options(20));
        prop_assert!(matches!(comparison.verdict, ChangeVerdict::NoChange | ChangeVerdict::NotJudged));
        for change in &comparison.operations {
            let judged = change.p.is_some() && change.ratio.is_some();
            prop_assert_eq!(change.verdict, if judged { ChangeVerdict::NoChange } else { ChangeVerdict::NotJudged });
        }
    }

    #[test]
    fn any_values_give_valid_probabilities(
        a in sides(any::<f64>()),
        b in sides(prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(5.0), any::<f64>()]),
        threshold in prop_oneof![Just(0.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), 0.0..10.0],
        alpha in prop_oneof![Just(0.0), Just(1.0), Just(f64::NAN), 0.0..1.0],
    ) {
        let comparison = compare(&a, &b, &CompareOptions { alpha, threshold, resamples: 20, seed: 7 });
        for change in &comparison.operations {
            for p in [change.p, change.p_equal, change.p_adjusted].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&p), "{:?}", change);
            }
            prop_assert!((-1.0..=1.0).contains(&change.effect), "{:?}", change);
            prop_assert!(!change.reason.is_empty());
        }
        prop_assert!(html::render(&comparison, (&a, &b), ("a", "b")).ends_with("</html>\n"));
        serde_json::to_string(&comparison).unwrap();
    }

    #[test]
    fn verdicts_do_not_depend_on_the_bootstrap(
        a in sides((100_u32..200).prop_map(f64::from)),
        b in sides((110_u32..260).prop_map(f64::from)),
    ) {
        let (with, without) = (compare(&a, &b, &options(50)), compare(&a, &b, &options(0)));
        for (x, y) in with.operations.iter().zip(&without.operations) {
            prop_assert_eq!((&x.operation, x.verdict, &x.reason), (&y.operation, y.verdict, &y.reason));
        }
    }
}

#[test]
fn too_few_or_invalid_values_are_not_judged() {
    let check = |a: &[f64], b: &[f64]| {
        let comparison = compare(&side(&[vec![a.to_vec()]]), &side(&[vec![b.to_vec()]]), &options(0));
        let change = &comparison.operations[0];
        assert_eq!(comparison.verdict, change.verdict, "one operation is the whole");
        format!("{}: {}", change.verdict.as_str(), change.reason)
    };
    let few = |from: &str, runs: usize| {
        format!("not judged: too few runs: {from}, 5 values are needed, about {runs} such runs")
    };
    assert_eq!(check(&[604e6], &[147e6]), few("1 value from 1 run in A", 5));
    assert_eq!(check(&[1.0; 9], &[1000.0; 4]), few("4 values from 1 run in B", 2));
    assert_eq!(check(&[f64::NAN; 30], &[1000.0; 30]), few("0 values from 1 run in A", 5));
    assert_eq!(check(&[0.0; 30], &[0.0; 30]), "not judged: it takes no measurable time");
    assert_eq!(check(&[100.0; 30], &[101.0; 30]), "no change: medians differ by less than 2.0 %");
    let noisy: Vec<f64> = (0..30).map(|i| 100.0 + f64::from(i * 17 % 30) * 10.0).collect();
    let shifted: Vec<f64> = noisy.iter().rev().map(|x| x * 1.05).collect();
    assert!(check(&noisy, &shifted).contains("noise may do that"));
}

#[test]
fn not_judged_comparison_states_the_runs_needed() {
    let once = |ns: f64| side(&[vec![vec![ns], vec![ns / 2.0]]]);
    let (a, b) = (once(604e6), once(147e6));
    let comparison = compare(&a, &b, &options(0));
    assert_eq!(comparison.verdict, ChangeVerdict::NotJudged);
    assert_eq!(
        comparison.reason,
        "too few runs, 1 and 1: none of 2 operations could be judged; about 5 on each side are needed"
    );
    let json: serde_json::Value = serde_json::to_value(&comparison).unwrap();
    assert_eq!((&json["verdict"], &json["version"]), (&"not_judged".into(), &2.into()));
    assert_eq!(json["operations"][0]["verdict"], "not_judged");
    let html = html::render(&comparison, (&a, &b), ("a", "b"));
    assert!(html.contains("<span class=\"care\">not judged</span>"), "{html}");
    assert!(html.contains("about 5 on each side") && !html.contains("no change</td>"), "{html}");
    // One operation that can be judged is a verdict; the other is named in a note.
    let steady: Vec<f64> = (0..30).map(|i| 1000.0 + f64::from(i % 5)).collect();
    let mixed = |ns: f64| side(&[vec![steady.clone(), vec![ns]]]);
    let comparison = compare(&mixed(604e6), &mixed(147e6), &options(0));
    assert_eq!(comparison.verdict, ChangeVerdict::NoChange);
    assert_eq!(comparison.reason, "0 slower and 0 faster of 2 operations, 1 not judged");
    assert!(
        comparison.notes.join("\n").contains("1 of 2 operations were not judged"),
        "{:?}",
        comparison.notes
    );
    assert_eq!(comparison.of(ChangeVerdict::NotJudged).count(), 1);
}

#[test]
fn corresponding_calls_are_paired() {
    // Sizes by turns, a hundredfold apart; the same turns on both sides.
    let mixed = |slow: f64, salt: usize| {
        let call =
            |i: usize| 1e4 * f64::from([1, 3, 10, 30, 100][i % 5]) * (1.0 + 0.002 * (i * salt % 7) as f64);
        side(&[vec![(0..60).map(|i| (call(i) * slow).round()).collect()]])
    };
    let change = |a: &RunSet, b: &RunSet| compare(a, b, &options(500)).operations.remove(0);
    let slower = change(&mixed(1.0, 3), &mixed(1.1, 5));
    assert_eq!((slower.verdict, slower.paired), (ChangeVerdict::Regression, true), "{slower:?}");
    let (low, high) = slower.interval.unwrap();
    assert!(1.08 < low && low < high && high < 1.12, "{low} {high}");
    assert_eq!(change(&mixed(1.0, 3), &mixed(1.0, 5)).verdict, ChangeVerdict::NoChange);
    // One call more, and nothing says which belong together.
    let mut longer = mixed(1.1, 5);
    for calls in longer.runs[0].operations.values_mut() {
        calls.count += 1;
    }
    assert!(!change(&mixed(1.0, 3), &longer).paired);
}

#[test]
fn overall_verdict_is_the_worst_operation() {
    let steady = |base: f64| (0..30).map(|i| base + f64::from(i % 5)).collect::<Vec<f64>>();
    let a = side(&[vec![steady(1000.0), steady(1000.0), steady(1000.0)]]);
    let mixed = side(&[vec![steady(1000.0), steady(800.0), steady(1200.0)]]);
    let faster = side(&[vec![steady(1000.0), steady(800.0), steady(1000.0)]]);
    let comparison = compare(&a, &mixed, &options(200));
    let verdicts: Vec<(&str, ChangeVerdict)> =
        comparison.operations.iter().map(|c| (c.operation.as_str(), c.verdict)).collect();
    assert_eq!(comparison.verdict, ChangeVerdict::Regression);
    assert_eq!(
        verdicts,
        [
            ("op 2", ChangeVerdict::Regression),
            ("op 1", ChangeVerdict::Improvement),
            ("op 0", ChangeVerdict::NoChange)
        ]
    );
    assert_eq!(compare(&a, &faster, &options(0)).verdict, ChangeVerdict::Improvement);
    let html = html::render(&comparison, (&a, &mixed), ("<old>", "new"));
    for part in ["regression", "&lt;old&gt;", "op 2", "id=\"flame\"", "class=\"s2\"", "one run on each side"]
    {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<old>") && !html.contains("http://") && !html.contains("https://"));
}

#[test]
fn new_and_gone_operations_are_listed() {
    let run = |name: &str| RunProfile {
        operations: [(name.to_owned(), OperationCalls::of(&[5.0; 20]))].into(),
        stacks: [("t;x".to_owned(), 5)].into(),
        dropped: 3,
    };
    let (a, b) = (RunSet { runs: vec![run("old")] }, RunSet { runs: vec![run("new")] });
    let comparison = compare(&a, &b, &options(0));
    assert_eq!((comparison.only_a, comparison.only_b), (vec!["old".to_owned()], vec!["new".to_owned()]));
    assert_eq!(comparison.verdict, ChangeVerdict::NotJudged);
    assert_eq!(comparison.reason, "the sides have no operation in common");
    let notes = comparison.notes.join("\n");
    assert!(notes.contains("no operation in common") && notes.contains("3 records of A"), "{notes}");
}
