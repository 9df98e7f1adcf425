//! AddressSanitizer: `cargo xtask sanitize` runs the tests of the crates with the most `unsafe` code under ASan.
//!
//! Built by the installed stable compiler with `RUSTC_BOOTSTRAP=1`, for an explicit target, so that build scripts and procedural
//! macros are not instrumented, in a target directory of its own. Not instrumented: machine code that the JIT writes (an access
//! of its own is not checked; a kernel or a test that reads what it overran is), the standard library as it is shipped, and C
//! libraries (zstd, TA-Lib), but for what they allocate.

use crate::{
    sh,
    test_counts::{self, TestCounts},
};
use anyhow::{Result, bail};
use std::process::Command;

/// Compiler flag of the sanitizer.
pub(crate) const FLAG: &str = "-Zsanitizer=address";
/// First line of a report.
const REPORT: &str = "ERROR: AddressSanitizer";
/// First line of a report of leaked memory, which is made at exit.
const LEAKS: &str = "ERROR: LeakSanitizer";

/// A crate whose tests run.
struct Sanitized {
    package: &'static str,
    /// What is covered, printed with the result.
    what: &'static str,
}

const PACKAGES: [Sanitized; 3] = [
    Sanitized {
        package: "gpuforge-indicators",
        what: "unit and integration tests; JIT code is not instrumented",
    },
    Sanitized { package: "gpuforge-frame", what: "unit and integration tests" },
    Sanitized {
        package: "gpuforge-python",
        what: "the tables in tests/; the extension module needs an interpreter: `cargo xtask python test`",
    },
];

/// A test that measures what the sanitizer changes.
struct Excluded {
    package: &'static str,
    /// Its path in the test binary.
    test: &'static str,
    reason: &'static str,
}

const EXCLUDED: [Excluded; 1] = [Excluded {
    package: "gpuforge-frame",
    test: "memory_does_not_grow_with_the_output",
    reason: "it compares peak memory of processes, to which the sanitizer adds freed blocks in quarantine",
}];

/// Runs; an error for any finding or failed test.
pub(crate) fn run() -> Result<()> {
    let host = sh::host()?;
    if let Some(why) = unsupported(&host) {
        println!("sanitize: skipped, {why}");
        return Ok(());
    }
    let mut summary = Vec::new();
    let mut wrong = 0;
    for sanitized in &PACKAGES {
        let output = sh::tee(&mut command(sanitized.package, &host))?;
        let counts = test_counts::cargo_test(&output.text).unwrap_or_default();
        let findings = findings(&output.text);
        wrong += usize::from(!output.ok || findings > 0);
        summary.push(line(sanitized, counts, findings, output.ok));
    }
    for excluded in &EXCLUDED {
        println!("skipped: {} {}: {}", excluded.package, excluded.test, excluded.reason);
    }
    summary.iter().for_each(|line| println!("{line}"));
    if wrong > 0 {
        bail!("{wrong} of {} crates have findings or failed tests, see above", PACKAGES.len());
    }
    Ok(())
}

/// Why this machine cannot build with the sanitizer; `None` if it can.
pub(crate) fn unsupported(host: &str) -> Option<String> {
    if !["linux-gnu", "apple-darwin"].iter().any(|system| host.ends_with(system)) {
        return Some(format!("AddressSanitizer and libFuzzer are run on Linux and macOS, this is {host}"));
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let cfg = sh::capture(
        Command::new(rustc).env("RUSTC_BOOTSTRAP", "1").args([FLAG, "--target", host, "--print", "cfg"]),
    );
    match cfg {
        Ok(cfg) if cfg.contains("sanitize=\"address\"") => None,
        Ok(_) => Some(format!("this rustc has no AddressSanitizer for {host}")),
        Err(error) => Some(format!("this rustc refuses {FLAG} with RUSTC_BOOTSTRAP=1: {error}")),
    }
}

/// `cargo test` of one package under the sanitizer. Doc tests are left out: rustdoc would link them without its runtime.
fn command(package: &str, host: &str) -> Command {
    let mut command =
        sh::cargo(["test", "--tests", "--no-fail-fast", "--package", package, "--target", host]);
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAG)
        .env("CARGO_TARGET_DIR", sh::target().join("sanitize"));
    let excluded = EXCLUDED.iter().filter(|excluded| excluded.package == package);
    command.arg("--");
    excluded.for_each(|excluded| {
        command.args(["--skip", excluded.test]);
    });
    command
}

/// Reports of the sanitizer in the output of a run.
fn findings(text: &str) -> usize {
    text.matches(REPORT).count() + text.matches(LEAKS).count()
}

fn line(sanitized: &Sanitized, counts: TestCounts, findings: usize, ok: bool) -> String {
    let Sanitized { package, what } = sanitized;
    // An aborted test binary prints no counts: the exit code says it.
    let aborted = if !ok && counts.failed == 0 && findings == 0 { "; the run did not end well" } else { "" };
    format!("sanitize {package}: {counts}, {findings} findings{aborted} ({what})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_counted() {
        let text = "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\nx\n\
                    ==2==ERROR: LeakSanitizer: detected memory leaks\n==2==ERROR: AddressSanitizer: SEGV";
        assert_eq!(findings(text), 3);
        assert_eq!(findings("test result: ok. 3 passed; 0 failed"), 0);
    }

    #[test]
    fn a_summary_line_has_counts_and_coverage() {
        let [first, ..] = &PACKAGES;
        let counts = TestCounts { passed: 2, failed: 0, skipped: 1 };
        assert_eq!(
            line(first, counts, 0, true),
            "sanitize gpuforge-indicators: 2 passed, 0 failed, 1 skipped, 0 findings (unit and integration tests; JIT code is \
             not instrumented)"
        );
        assert!(line(first, TestCounts::default(), 0, false).contains("did not end well"));
    }

    #[test]
    fn other_systems_are_skipped_with_a_reason() {
        assert!(unsupported("x86_64-pc-windows-msvc").unwrap().contains("this is x86_64-pc-windows-msvc"));
        assert!(unsupported("wasm32-unknown-unknown").is_some());
    }

    #[test]
    fn excluded_tests_belong_to_a_crate_that_runs() {
        for Excluded { package, test, reason } in &EXCLUDED {
            assert!(PACKAGES.iter().any(|p| p.package == *package), "{package} {test}");
            assert!(!reason.is_empty(), "{test}");
        }
    }
}
