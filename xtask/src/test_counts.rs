//! Test counts: passed, failed and skipped, parsed from the output of cargo-nextest and cargo test; tests that ran on a GPU
//! adapter, from the log of `gpuforge_testkit::adapter`.

use std::{collections::BTreeMap, fmt, ops::AddAssign};

/// Tests by outcome; shown as `N passed, N failed, N skipped`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for TestCounts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for TestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Tests that asked for a GPU adapter.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdapterCounts {
    pub(crate) ran: usize,
    pub(crate) skipped: usize,
}

impl fmt::Display for AdapterCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tests = if self.ran == 1 { "test" } else { "tests" };
        write!(f, "{} {tests} ran on a GPU adapter, {} skipped without one", self.ran, self.skipped)
    }
}

/// Lines `ran|skipped TAB binary TAB test`, in any order. A test that runs itself in child processes has several; it counts
/// once, and as skipped if any of them was.
pub(crate) fn adapter_log(text: &str) -> AdapterCounts {
    let mut tests: BTreeMap<&str, bool> = BTreeMap::new();
    for (word, test) in text.lines().filter_map(|line| line.split_once('\t')) {
        *tests.entry(test).or_insert(true) &= word == "ran";
    }
    let ran = tests.values().filter(|ran| **ran).count();
    AdapterCounts { ran, skipped: tests.len() - ran }
}

/// The last `Summary [ 1.2s] 12 tests run: 11 passed (1 slow), 1 failed, 0 skipped` of cargo-nextest.
///
/// `None` when there is none: the run ended before a test could (a build error).
pub(crate) fn nextest(text: &str) -> Option<TestCounts> {
    let text = strip_ansi(text);
    let summary = text.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    let (_, list) = summary.split_once(" run:")?;
    // Everything that ran and did not pass is a failure: failed, timed out, exec failed.
    Some(sum(&without_parentheses(list), ',', |word| match word {
        "passed" => Some(TestOutcome::Passed),
        "skipped" => Some(TestOutcome::Skipped),
        _ => Some(TestOutcome::Failed),
    }))
}

/// All `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out` of cargo test, summed.
pub(crate) fn cargo_test(text: &str) -> Option<TestCounts> {
    let text = strip_ansi(text);
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("test result: "));
    let mut total = None;
    for list in lines.filter_map(|line| line.split_once(". ")).map(|(_, list)| list) {
        *total.get_or_insert_with(TestCounts::default) += sum(list, ';', |word| match word {
            "passed" => Some(TestOutcome::Passed),
            "failed" => Some(TestOutcome::Failed),
            "ignored" | "filtered out" => Some(TestOutcome::Skipped),
            _ => None,
        });
    }
    total
}

/// Tests that passed because they skipped themselves, by reason: lines `skipped: WHY` of `cargo test -- --show-output`. Those
/// without a GPU adapter begin with the test's name; their reason is in brackets.
pub(crate) fn own_skips(text: &str) -> BTreeMap<String, u64> {
    let mut skips = BTreeMap::new();
    for why in text.lines().filter_map(|line| line.trim().strip_prefix("skipped: ")) {
        let why = if why.ends_with("(no GPU adapter)") { "no GPU adapter" } else { why };
        *skips.entry(why.to_owned()).or_insert(0) += 1;
    }
    skips
}

enum TestOutcome {
    Passed,
    Failed,
    Skipped,
}

/// Sums `N word` items; items that do not begin with a number (`finished in …`) are skipped.
fn sum(list: &str, separator: char, outcome: impl Fn(&str) -> Option<TestOutcome>) -> TestCounts {
    let mut counts = TestCounts::default();
    for item in list.split(separator) {
        let Some((number, word)) = item.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match outcome(word.trim()) {
            Some(TestOutcome::Passed) => counts.passed += number,
            Some(TestOutcome::Failed) => counts.failed += number,
            Some(TestOutcome::Skipped) => counts.skipped += number,
            None => {}
        }
    }
    counts
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let keep = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        depth == 0
    };
    text.chars().filter(keep).collect()
}

/// The text without terminal colours (`ESC [ … letter`).
fn strip_ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        for c in chars.by_ref() {
            if c.is_ascii_alphabetic() {
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<TestCounts> {
        Some(TestCounts { passed, failed, skipped })
    }

    #[test]
    fn nextest_summaries() {
        let check = |text: &str, want| assert_eq!(nextest(text), want, "{text}");
        check("     Summary [   0.012s] 12 tests run: 12 passed, 0 skipped", counts(12, 0, 0));
        check(
            "Summary [ 9.1s] 14 tests run: 10 passed (1 slow, 2 leaky), 2 failed, 1 timed out, 1 exec failed, 3 skipped",
            counts(10, 4, 3),
        );
        check("  Summary [ 0.1s] 3/10 tests run: 2 passed, 1 failed, 0 skipped\n  FAIL x", counts(2, 1, 0));
        check(
            "\u{1b}[32;1m     Summary\u{1b}[0m [   0.0s] \u{1b}[1m1\u{1b}[0m test run: \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m skipped",
            counts(1, 0, 0),
        );
        check("error: could not compile `x`", None);
    }

    #[test]
    fn cargo_test_results_are_summed() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
                    test a ... ok\n\
                    test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.2s";
        assert_eq!(cargo_test(text), counts(8, 2, 3));
        assert_eq!(cargo_test("error[E0425]: cannot find value"), None);
    }

    #[test]
    fn skips_are_counted_by_reason() {
        let text = "---- a stdout ----\nskipped: a (no GPU adapter)\nskipped: b (no GPU adapter)\nskipped: no python3\n";
        let skips: Vec<_> = own_skips(text).into_iter().collect();
        assert_eq!(skips, [("no GPU adapter".to_owned(), 2), ("no python3".to_owned(), 1)]);
    }

    #[test]
    fn a_test_counts_once_for_its_adapter() {
        let log =
            "ran\ta-1\tparity\nran\ta-2\tparity\nskipped\tb-3\tleaks\nran\ta-1\tparity\nran\tb-3\tleaks\n";
        assert_eq!(adapter_log(log), AdapterCounts { ran: 2, skipped: 1 });
        assert_eq!(adapter_log(log).to_string(), "2 tests ran on a GPU adapter, 1 skipped without one");
        assert_eq!(adapter_log(""), AdapterCounts::default());
    }

    #[test]
    fn counts_are_displayed_in_one_line() {
        let mut total = TestCounts { passed: 1, failed: 0, skipped: 2 };
        total += TestCounts { passed: 2, failed: 1, skipped: 0 };
        assert_eq!(total.to_string(), "3 passed, 1 failed, 2 skipped");
    }
}
