//! Other targets: `cargo xtask cross [TARGET…]` builds gpuforge for each row of a table, and runs as much of it as can be run here.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the table of targets, what each check does, the summary |
//! | `toolchain.rs` | linker, C compiler and archiver of a target, as cargo and cc read them |
//! | `runner.rs` | QEMU, Wine, an empty root directory: how a program of the target is started here |
//! | `cli_checks.rs` | commands of the binary that must work with nothing around it |
//! | `same_bytes.rs` | indicators of the same bars, here and there: the files must be equal |
//!
//! Warnings are errors on every target. What cannot be run here is said in the summary: there is no macOS and no Windows.

mod cli_checks;
mod runner;
mod same_bytes;
mod toolchain;

use crate::{
    debian::{self, Needed},
    sh, test_counts,
};
use anyhow::{Result, bail};
use runner::Runner;
use std::{fs, path::PathBuf, process::Command, time::Instant};
use toolchain::Toolchain;

pub(crate) use toolchain::{CROSS_GCC, SYSROOT};

/// Crates that no other target builds: their dependencies take longer than everything else, or they are tools of this
/// repository.
const HEAVY: [&str; 5] = ["gpuforge-train", "gpuforge-cluster", "gpuforge-python", "gpuforge-bench", "xtask"];

/// A target, how it is built, and how far it is checked.
struct CrossTarget {
    triple: &'static str,
    /// Linker and C compiler.
    toolchain: Toolchain,
    packages: Packages,
    check: Check,
    runner: Runner,
}

/// What is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packages {
    /// The workspace without [`HEAVY`].
    Light,
    Only(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The test suites under the runner, then the same bytes as here.
    Tests,
    /// Commands of the binary under the runner, then the same bytes as here.
    Cli,
    /// `cargo clippy` of all targets of the packages. Not linked, not run.
    Lints,
    /// `cargo check` of the libraries. Not linked, not run.
    Types,
}

/// AArch64 Linux is a target like the others, unless it is the host.
const ON_AARCH64: bool = cfg!(all(target_arch = "aarch64", target_os = "linux"));

const TARGETS: [CrossTarget; 8] = [
    CrossTarget {
        triple: "aarch64-unknown-linux-gnu",
        toolchain: if ON_AARCH64 { Toolchain::Host } else { Toolchain::Gcc(CROSS_GCC) },
        packages: Packages::Light,
        check: Check::Tests,
        runner: if ON_AARCH64 { Runner::Host } else { Runner::Qemu },
    },
    CrossTarget {
        triple: "x86_64-pc-windows-gnu",
        toolchain: Toolchain::Gcc(toolchain::MINGW_GCC),
        packages: Packages::Light,
        check: Check::Tests,
        runner: Runner::Wine,
    },
    CrossTarget {
        triple: "x86_64-unknown-linux-musl",
        toolchain: Toolchain::Musl,
        packages: Packages::Only(&["gpuforge-cli"]),
        check: Check::Cli,
        runner: Runner::EmptyRoot,
    },
    lints("aarch64-apple-darwin", "aarch64-macos"),
    lints("x86_64-apple-darwin", "x86_64-macos"),
    // zig has no headers of Microsoft's C library; objects for MinGW's are never linked here.
    lints("x86_64-pc-windows-msvc", "x86_64-windows-gnu"),
    lints("aarch64-pc-windows-msvc", "aarch64-windows-gnu"),
    CrossTarget {
        triple: "wasm32-unknown-unknown",
        toolchain: Toolchain::Host,
        packages: Packages::Only(&["gpuforge-indicators", "gpuforge-simd"]),
        check: Check::Types,
        runner: Runner::None,
    },
];

const fn lints(triple: &'static str, zig: &'static str) -> CrossTarget {
    CrossTarget {
        triple,
        toolchain: Toolchain::Zig(zig),
        packages: Packages::Light,
        check: Check::Lints,
        runner: Runner::None,
    }
}

/// Arguments of `cargo xtask cross`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Targets [default: all of the table]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Install nothing: a target whose tools are missing is skipped
    #[arg(long)]
    no_install: bool,
    /// Type-check only, also where programs could run
    #[arg(long)]
    check: bool,
    /// Test only these packages of the target, and compare no bytes
    #[arg(long, short, value_name = "PACKAGE")]
    package: Vec<String>,
}

/// What became of a target.
enum Outcome {
    Ok(String),
    Skipped(String),
    Failed(String),
}

/// Runs; an error if a target failed. What is skipped is said, not an error.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = || TARGETS.iter().map(|t| t.triple);
    if let Some(unknown) = args.targets.iter().find(|t| !known().any(|k| k == t.as_str())) {
        bail!(
            "{unknown} is not in the table of targets: {}\nhint: add a row to xtask/src/cross/mod.rs",
            known().collect::<Vec<_>>().join(", ")
        );
    }
    let wanted = |t: &&CrossTarget| args.targets.is_empty() || args.targets.iter().any(|w| w == t.triple);
    let mut rows = Vec::new();
    for target in TARGETS.iter().filter(wanted) {
        let outcome =
            cross(target, args).unwrap_or_else(|error| Outcome::Failed(format!("FAILED: {error:#}")));
        rows.push((target.triple, outcome));
    }
    println!("\n| target | checked |\n|---|---|");
    for (triple, outcome) in &rows {
        let (Outcome::Ok(text) | Outcome::Skipped(text) | Outcome::Failed(text)) = outcome;
        println!("| {triple} | {text} |");
    }
    match rows.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} targets failed", rows.len()),
    }
}

/// A target with what its check needs, ready to build.
struct Session<'a> {
    target: &'a CrossTarget,
    packages: &'a [String],
    variables: Vec<(String, String)>,
}

fn cross(target: &CrossTarget, args: &Args) -> Result<Outcome> {
    let check = match (args.check, target.check) {
        (true, Check::Tests | Check::Cli) => Check::Lints,
        (_, check) => check,
    };
    let runner = if matches!(check, Check::Tests | Check::Cli) { target.runner } else { Runner::None };
    let needs: Vec<Needed> = target.toolchain.needs().into_iter().chain(runner.needs()).collect();
    let ready = add_rust_target(target.triple, args.no_install)
        .and_then(|()| debian::ensure(&needs, args.no_install))
        .and_then(|()| target.toolchain.variables(target.triple, args.no_install));
    let variables = match ready {
        Ok(variables) => variables,
        Err(why) => return Ok(Outcome::Skipped(format!("skipped: {why}"))),
    };
    let session = Session { target, packages: &args.package, variables };
    match check {
        Check::Tests => session.tests(runner),
        Check::Cli => session.cli(runner),
        Check::Lints => session.lints(),
        Check::Types => session.types(),
    }
}

impl Session<'_> {
    /// A command of cargo for the target and its packages; `warnings`: of our own crates and dependencies alike are errors.
    fn cargo(&self, command: &[&str]) -> Command {
        let mut cargo = sh::cargo(command.iter().copied());
        cargo.args(["--target", self.target.triple]).envs(self.variables.iter().map(|(k, v)| (k, v)));
        match (self.packages, self.target.packages) {
            ([], Packages::Light) => {
                cargo.arg("--workspace").args(HEAVY.iter().flat_map(|name| ["--exclude", name]))
            }
            ([], Packages::Only(packages)) => cargo.args(packages.iter().flat_map(|name| ["-p", name])),
            (asked, _) => cargo.args(asked.iter().flat_map(|name| ["-p", name])),
        };
        cargo
    }

    /// One process per test binary: starting a process under Wine or QEMU costs more than most tests.
    fn tests(&self, runner: Runner) -> Result<Outcome> {
        let begun = Instant::now();
        let running = runner.start()?;
        let log = running.home().join("adapter.log");
        let mut command = self.cargo(&["test", "--no-fail-fast", "--lib", "--bins", "--tests"]);
        command
            .env("RUSTFLAGS", "-D warnings")
            .env("GPUFORGE_JIT", "require")
            .env("GPUFORGE_ADAPTER_LOG", &log)
            .env("GPUFORGE_CACHE_DIR", running.home().join("cache"))
            .env("GPUFORGE_CONFIG", running.home().join("config.toml"))
            .envs(running.cargo_variables(self.target.triple));
        // What a passed test has printed is shown too: whether it skipped itself, and why.
        let made = sh::tee(command.args(["--", "--show-output"]))?;
        let counts = test_counts::cargo_test(&made.text);
        let counts = counts.map_or_else(|| "no test ran".to_owned(), |counts| counts.to_string());
        let adapters = test_counts::adapter_log(&fs::read_to_string(&log).unwrap_or_default());
        let skips = test_counts::own_skips(&made.text);
        for (why, count) in &skips {
            println!("{count} of the passed tests skipped themselves: {why}");
        }
        let text = format!(
            "tests{}, GPUFORGE_JIT=require: {counts}, {} of the passed skipped themselves ({adapters}) in {} s",
            runner.under(),
            skips.values().sum::<u64>(),
            begun.elapsed().as_secs()
        );
        if !made.ok {
            return Ok(Outcome::Failed(format!("FAILED: {text}")));
        }
        match self.packages {
            [] => Ok(Outcome::Ok(format!("{text}; {}", self.same_bytes(&running)?))),
            _ => Ok(Outcome::Ok(text)),
        }
    }

    /// The binary with nothing around it.
    fn cli(&self, runner: Runner) -> Result<Outcome> {
        let running = runner.start()?;
        let checked = cli_checks::run(&self.binary()?, &running)?;
        Ok(Outcome::Ok(format!("{checked}{}; {}", runner.under(), self.same_bytes(&running)?)))
    }

    fn lints(&self) -> Result<Outcome> {
        let mut command = self.cargo(&["clippy", "--all-targets"]);
        let made = sh::tee(command.args(["--", "-D", "warnings"]))?;
        Ok(match made.ok {
            true => Outcome::Ok("cargo clippy, no warnings; not linked, not run".to_owned()),
            false => Outcome::Failed("FAILED: cargo clippy".to_owned()),
        })
    }

    fn types(&self) -> Result<Outcome> {
        let made = sh::tee(self.cargo(&["check"]).env("RUSTFLAGS", "-D warnings"))?;
        let packages = match self.target.packages {
            Packages::Light => "light crates".to_owned(),
            Packages::Only(packages) => packages.join(", "),
        };
        Ok(match made.ok {
            true => Outcome::Ok(format!("cargo check of {packages}, no warnings; not run")),
            false => Outcome::Failed(format!("FAILED: cargo check of {packages}")),
        })
    }

    fn same_bytes(&self, running: &runner::Running) -> Result<String> {
        let host = sh::executable(&sh::build(&["gpuforge-cli"], &[], false)?, "gpuforge")?;
        same_bytes::compare(&host, &self.binary()?, running)
    }

    /// The target's `gpuforge`, in the profile of the tests.
    fn binary(&self) -> Result<PathBuf> {
        let mut command = sh::cargo(["build", "-p", "gpuforge-cli"]);
        command.args(["--target", self.target.triple]).env("RUSTFLAGS", "-D warnings");
        command.envs(self.variables.iter().map(|(k, v)| (k, v)));
        sh::executable(&sh::built(command)?, "gpuforge")
    }
}

/// Adds Rust's standard library for a target; why not, if it cannot.
pub(crate) fn add_rust_target(triple: &str, no_install: bool) -> Result<(), String> {
    let installed = sh::capture(Command::new("rustup").args(["target", "list", "--installed"]));
    let installed = installed.map_err(|_| format!("no rustup to add {triple} with"))?;
    if installed.lines().any(|line| line.trim() == triple) {
        return Ok(());
    }
    if let Some(what) = debian::forbidden(no_install) {
        return Err(format!("{triple} is not installed, and {what} forbids `rustup target add`"));
    }
    sh::run(Command::new("rustup").args(["target", "add", triple])).map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_has_a_runner_and_what_does_not_has_none() {
        for target in &TARGETS {
            let runs = matches!(target.check, Check::Tests | Check::Cli);
            assert_eq!(runs, target.runner != Runner::None, "{}", target.triple);
        }
    }

    #[test]
    fn light_crates_are_the_workspace_without_the_heavy_ones() {
        let target = TARGETS.iter().find(|t| t.packages == Packages::Light).unwrap();
        let session = Session { target, packages: &[], variables: Vec::new() };
        let line = sh::line(&session.cargo(&["test"]));
        assert!(line.contains("--workspace --exclude gpuforge-train"), "{line}");
        for name in HEAVY {
            let manifest = match name {
                "xtask" => sh::root().join("xtask/Cargo.toml"),
                crate_name => sh::root().join("crates").join(crate_name).join("Cargo.toml"),
            };
            assert!(manifest.is_file(), "{}", manifest.display());
        }
        let asked = ["gpuforge-frame".to_owned()];
        let session = Session { packages: &asked, ..session };
        assert!(sh::line(&session.cargo(&["test"])).ends_with("-p gpuforge-frame"));
    }

    #[test]
    fn an_unknown_target_is_an_error_that_lists_the_known_ones() {
        let args =
            Args { targets: vec!["mips".to_owned()], no_install: true, check: true, package: Vec::new() };
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("mips") && error.contains("wasm32-unknown-unknown"), "{error}");
    }
}
