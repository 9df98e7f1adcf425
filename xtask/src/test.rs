//! `cargo xtask test`: what a change must pass; a table of steps, run in order until one fails.
//!
//! Heavy crates are a step of `--all`, which CI runs: their dependencies take longer to build than everything else.

use crate::{audit, python, sh, test_counts, test_counts::TestCounts, tidy, vulkan};
use anyhow::{Result, anyhow, bail};
use std::{env, ffi::OsString, fs, path::PathBuf, process::Command, time::Instant};

/// Flags of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only fmt, tidy and the tests: no installing, no clippy, no doc tests, no Python, no licence check
    #[arg(long)]
    fast: bool,
    /// Never install a system package (also: GPUFORGE_NO_INSTALL=1)
    #[arg(long)]
    no_install: bool,
    /// Tests of the heavy crates too (training, cluster), as CI runs them
    #[arg(long, conflicts_with = "fast")]
    all: bool,
    /// With --all: clippy of the heavy crates, for which their dependencies are type-checked once more, minutes from nothing
    #[arg(long, requires = "all")]
    lint_heavy: bool,
}

/// One row of the table below.
struct Step {
    name: &'static str,
    run_in: Selection,
    run: fn(&mut Session) -> Result<StepOutcome>,
}

/// Which runs have a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Selection {
    /// Every run.
    Fast,
    /// All but those with `--fast`.
    Default,
    /// Those with `--all`.
    All,
}

impl Selection {
    fn of(args: &Args) -> Selection {
        match (args.fast, args.all) {
            (true, _) => Selection::Fast,
            (_, true) => Selection::All,
            _ => Selection::Default,
        }
    }
}

const STEPS: [Step; 9] = [
    Step { name: "system packages", run_in: Selection::Default, run: packages },
    Step { name: "fmt", run_in: Selection::Fast, run: fmt },
    Step { name: "clippy", run_in: Selection::Default, run: clippy },
    Step { name: "tidy", run_in: Selection::Fast, run: |_| tidy::run().map(|()| StepOutcome::Ok) },
    Step { name: "tests", run_in: Selection::Fast, run: tests },
    Step { name: "doc tests", run_in: Selection::Default, run: doc_tests },
    Step { name: "python", run_in: Selection::Default, run: python },
    Step { name: "heavy crates", run_in: Selection::All, run: heavy },
    Step { name: "audit", run_in: Selection::Default, run: |_| audit::run().map(|()| StepOutcome::Ok) },
];

/// Crates whose dependencies (Burn, DataFusion) take longer to build than everything else: outside the default build, each
/// by itself, so that their features are not unified with those of the other crates.
const HEAVY: [&str; 2] = ["gpuforge-train", "gpuforge-cluster"];
/// The Python package, by itself for the same reason: PyO3 is built for an extension module.
const PYTHON: &str = "gpuforge-python";

/// `1`: a test that finds no GPU adapter fails. As in `gpuforge_testkit::adapter`, like the next.
const REQUIRE_VARIABLE: &str = "GPUFORGE_REQUIRE_ADAPTER";
/// Names the file to which the tests append whether they ran on an adapter.
const LOG_VARIABLE: &str = "GPUFORGE_ADAPTER_LOG";

/// A command of cargo for the whole workspace but the heavy crates and the Python package.
fn light(arguments: &[&str]) -> Command {
    let mut command = sh::cargo(arguments.iter().copied());
    command.arg("--workspace");
    command.args(HEAVY.into_iter().chain([PYTHON]).flat_map(|name| ["--exclude", name]));
    command
}

/// A command of cargo for one package.
fn only(name: &'static str) -> impl Fn(&[&str]) -> Command {
    move |arguments| {
        let mut command = sh::cargo(arguments.iter().copied());
        command.args(["-p", name]);
        command
    }
}

/// Result of a step.
enum StepOutcome {
    Ok,
    Skipped(String),
    Failed(String),
}

/// State shared by the steps.
struct Session {
    no_install: Option<&'static str>,
    lint_heavy: bool,
    /// Temporary directory for settings and cache of the tested programs.
    home: tempfile::TempDir,
    /// Sum over the runners that ran any test.
    counts: Option<TestCounts>,
}

impl Session {
    /// Keeps the user's settings and cache out of the tests. `GPUFORGE_RECORDED` is inherited.
    fn isolate<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("GPUFORGE_CACHE_DIR", self.home.path().join("cache"))
            .env("GPUFORGE_CONFIG", self.home.path().join("config.toml"))
            .envs(self.adapter_variables(vulkan::software().is_some()))
    }

    /// Where tests log their adapter, and that one is required where there is a software driver: then a skip is a fault of
    /// ours. What the caller has set stands.
    fn adapter_variables(&self, software: bool) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![(LOG_VARIABLE, self.adapter_log().into_os_string())];
        if software && env::var_os(REQUIRE_VARIABLE).is_none() {
            variables.push((REQUIRE_VARIABLE, "1".into()));
        }
        variables
    }

    fn adapter_log(&self) -> PathBuf {
        self.home.path().join("adapter.log")
    }

    /// Runs one test runner and adds its counts.
    fn test(&mut self, mut command: Command, count: fn(&str) -> Option<TestCounts>) -> Result<StepOutcome> {
        let output = sh::tee(self.isolate(&mut command))?;
        self.add(count(&output.text));
        if output.ok { Ok(StepOutcome::Ok) } else { bail!("`{}` failed", sh::line(&command)) }
    }

    /// A runner without counts (it did not build) adds nothing.
    fn add(&mut self, counts: Option<TestCounts>) {
        if let Some(counts) = counts {
            *self.counts.get_or_insert_default() += counts;
        }
    }
}

/// Runs the steps and prints the summary; an error names the step that failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut session = Session {
        no_install: args.no_install.then_some("--no-install"),
        lint_heavy: args.lint_heavy,
        home: tempfile::tempdir()?,
        counts: None,
    };
    let selection = Selection::of(args);
    let begun = Instant::now();
    let mut rows = Vec::new();
    let mut failed = None;
    for step in &STEPS {
        let start = Instant::now();
        let outcome = if failed.is_some() {
            StepOutcome::Skipped("an earlier step failed".to_owned())
        } else if step.run_in > selection {
            StepOutcome::Skipped(if args.fast { "--fast" } else { "a step of --all" }.to_owned())
        } else {
            eprintln!("\n== {}", step.name);
            (step.run)(&mut session).unwrap_or_else(|error| StepOutcome::Failed(format!("{error:#}")))
        };
        if let StepOutcome::Failed(why) = &outcome {
            failed = Some(anyhow!("step `{}`: {why}", step.name));
        }
        rows.push((step.name, start.elapsed().as_secs_f64(), outcome));
    }
    println!("\n{}{:<16} {:>7.1} s", summary(&rows), "total", begun.elapsed().as_secs_f64());
    if let Some(counts) = session.counts {
        println!("{counts}");
        let log = fs::read_to_string(session.adapter_log()).unwrap_or_default();
        println!("{}", test_counts::adapter_log(&log));
    }
    failed.map_or(Ok(()), Err)
}

/// The table of steps: name, seconds, outcome.
fn summary(rows: &[(&str, f64, StepOutcome)]) -> String {
    let mut out = String::new();
    for (name, seconds, outcome) in rows {
        let outcome = match outcome {
            StepOutcome::Ok => "ok".to_owned(),
            StepOutcome::Skipped(why) => format!("skipped: {why}"),
            StepOutcome::Failed(_) => "FAILED".to_owned(),
        };
        out.push_str(&format!("{name:<16} {seconds:>7.1} s  {outcome}\n"));
    }
    out
}

/// A software Vulkan driver, so that GPU tests have an adapter. Never fails the run.
fn packages(session: &mut Session) -> Result<StepOutcome> {
    let skip = |why: String| {
        let why = format!("{why}, GPU adapter tests run against what is there");
        eprintln!("skipped: {why}");
        Ok(StepOutcome::Skipped(why))
    };
    match vulkan::plan(&vulkan::facts(session.no_install)) {
        vulkan::InstallPlan::Present(path) => {
            eprintln!("software Vulkan driver: {}", path.display());
            Ok(StepOutcome::Ok)
        }
        vulkan::InstallPlan::Install { sudo } => match vulkan::install(sudo) {
            Ok(()) => Ok(StepOutcome::Ok),
            Err(error) => skip(format!("mesa-vulkan-drivers could not be installed ({error:#})")),
        },
        vulkan::InstallPlan::Skip(why) => skip(why),
    }
}

fn fmt(_: &mut Session) -> Result<StepOutcome> {
    sh::run(&mut sh::cargo(["fmt", "--all", "--check"]))
        .map_err(|e| anyhow!("{e}; `cargo fmt --all` repairs it"))?;
    Ok(StepOutcome::Ok)
}

fn clippy(_: &mut Session) -> Result<StepOutcome> {
    lint(light(&["clippy"]))
}

fn lint(mut clippy: Command) -> Result<StepOutcome> {
    sh::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))?;
    Ok(StepOutcome::Ok)
}

fn tests(session: &mut Session) -> Result<StepOutcome> {
    test_targets(session, light)
}

/// All targets but doc tests; `of` makes the cargo command for the packages.
fn test_targets(session: &mut Session, of: impl Fn(&[&str]) -> Command) -> Result<StepOutcome> {
    if sh::works(&mut sh::cargo(["nextest", "--version"])) {
        return session.test(of(&["nextest", "run", "--no-fail-fast"]), test_counts::nextest);
    }
    eprintln!("cargo-nextest is not installed: using cargo test");
    session.test(of(&["test", "--all-targets", "--no-fail-fast"]), test_counts::cargo_test)
}

fn doc_tests(session: &mut Session) -> Result<StepOutcome> {
    session.test(light(&["test", "--doc", "--no-fail-fast"]), test_counts::cargo_test)
}

/// Lints and tests of the Python package: its Rust crate, then the wheel in a fresh environment.
fn python(session: &mut Session) -> Result<StepOutcome> {
    lint(only(PYTHON)(&["clippy"]))?;
    test_targets(session, only(PYTHON))?;
    match python::step(session.adapter_variables(vulkan::software().is_some()))? {
        Some(why) => Ok(StepOutcome::Skipped(format!("the package was not tested in Python, {why}"))),
        None => Ok(StepOutcome::Ok),
    }
}

/// Tests of each heavy crate by itself.
fn heavy(session: &mut Session) -> Result<StepOutcome> {
    for name in HEAVY {
        if session.lint_heavy {
            lint(only(name)(&["clippy"]))?;
        } else {
            eprintln!("skipped: clippy of {name}, which `cargo xtask test --all --lint-heavy` runs");
        }
        test_targets(session, only(name))?;
    }
    Ok(StepOutcome::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_every_outcome() {
        let text = summary(&[
            ("fmt", 0.25, StepOutcome::Ok),
            ("tests", 61.0, StepOutcome::Failed("x".to_owned())),
            ("audit", 0.0, StepOutcome::Skipped("an earlier step failed".to_owned())),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "fmt                  0.2 s  ok");
        assert!(lines[1].ends_with("61.0 s  FAILED"));
        assert!(lines[2].ends_with("skipped: an earlier step failed"));
    }

    fn session() -> Session {
        Session { no_install: None, lint_heavy: false, home: tempfile::tempdir().unwrap(), counts: None }
    }

    #[test]
    fn runner_counts_are_summed_and_missing_is_not_zero() {
        let mut session = session();
        session.add(None);
        assert_eq!(session.counts, None);
        session.add(Some(TestCounts { passed: 2, failed: 1, skipped: 0 }));
        session.add(Some(TestCounts { passed: 3, failed: 0, skipped: 1 }));
        assert_eq!(session.counts, Some(TestCounts { passed: 5, failed: 1, skipped: 1 }));
    }

    #[cfg(unix)]
    #[test]
    fn a_runner_fails_the_step_and_uses_the_temporary_directory() {
        let mut session = session();
        let home = session.home.path().to_owned();
        let mut runner = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            session.test(command, |_| None)
        };
        let error = runner("exit 1").err().unwrap();
        assert!(error.to_string().contains("failed"), "{error}");
        let home = home.display();
        let script =
            format!("test $GPUFORGE_CONFIG = {home}/config.toml && test $GPUFORGE_CACHE_DIR = {home}/cache");
        assert!(runner(&script).is_ok());
        let script =
            format!("printf 'ran\\ta\\tb\\n' >> $GPUFORGE_ADAPTER_LOG && test -s {home}/adapter.log");
        assert!(runner(&script).is_ok());
    }

    #[test]
    fn a_software_driver_makes_an_adapter_required() {
        let session = session();
        let names = |software| -> Vec<&str> {
            session.adapter_variables(software).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(false), [LOG_VARIABLE]);
        // Unless the caller decides, as whoever runs this test may.
        match env::var_os(REQUIRE_VARIABLE) {
            None => assert_eq!(names(true), [LOG_VARIABLE, REQUIRE_VARIABLE]),
            Some(_) => assert_eq!(names(true), [LOG_VARIABLE]),
        }
    }

    #[test]
    fn each_selection_adds_steps() {
        let names = |selection| -> Vec<&str> {
            STEPS.iter().filter(|s| s.run_in <= selection).map(|s| s.name).collect()
        };
        assert_eq!(names(Selection::Fast), ["fmt", "tidy", "tests"]);
        assert!(names(Selection::Default).contains(&"python"));
        assert!(!names(Selection::Default).contains(&"heavy crates"));
        assert_eq!(names(Selection::All).len(), STEPS.len());
    }
}
