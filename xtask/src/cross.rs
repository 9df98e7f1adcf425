//! Other targets: `cargo xtask cross [TARGET…]` builds the crates that run everywhere for each, and checks as far as it can here.
//!
//! AArch64 Linux runs its whole test suite under QEMU, with the JIT required: a plan that falls back to the kernels fails. The
//! others are type-checked, with warnings as errors: there is no linker, SDK or emulator for them here.

use crate::{
    debian::{self, Needed},
    sh, test_counts,
};
use anyhow::{Result, bail};
use std::{process::Command, time::Instant};

/// Packages that are built for every target.
const PACKAGES: [&str; 2] = ["gpuforge-indicators", "gpuforge-simd"];

/// Compiler, C library and emulator of AArch64 Linux, as Debian has them.
pub(crate) const CROSS_GCC: Needed = Needed {
    program: "aarch64-linux-gnu-gcc",
    packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
};
const QEMU: Needed = Needed { program: "qemu-aarch64-static", packages: &["qemu-user-static"] };

/// Where Debian puts the C library of AArch64.
pub(crate) const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// A target and how far it is checked.
struct CrossTarget {
    triple: &'static str,
    check: Check,
    needs: &'static [Needed],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// All tests, under QEMU, with `GPUFORGE_JIT=require`.
    Tests,
    /// `cargo check`, warnings are errors.
    Types,
}

const TARGETS: [CrossTarget; 5] = [
    CrossTarget {
        triple: "aarch64-unknown-linux-gnu",
        check: Check::Tests,
        needs: if cfg!(target_arch = "aarch64") { &[] } else { &[CROSS_GCC, QEMU] },
    },
    CrossTarget { triple: "aarch64-apple-darwin", check: Check::Types, needs: &[] },
    CrossTarget { triple: "x86_64-apple-darwin", check: Check::Types, needs: &[] },
    CrossTarget { triple: "wasm32-unknown-unknown", check: Check::Types, needs: &[] },
    CrossTarget { triple: "x86_64-pc-windows-gnu", check: Check::Types, needs: &[] },
];

/// Arguments of `cargo xtask cross`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Targets [default: all of the table]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Install nothing: a target whose tools are missing is skipped
    #[arg(long)]
    no_install: bool,
    /// Type-check only, also where tests could run
    #[arg(long)]
    check: bool,
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
            "{unknown} is not in the table of targets: {}\nhint: add a row to xtask/src/cross.rs",
            known().collect::<Vec<_>>().join(", ")
        );
    }
    let wanted = |t: &&CrossTarget| args.targets.is_empty() || args.targets.iter().any(|w| w == t.triple);
    let mut rows = Vec::new();
    for target in TARGETS.iter().filter(wanted) {
        rows.push((target.triple, cross(target, args)?));
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

fn cross(target: &CrossTarget, args: &Args) -> Result<Outcome> {
    let types_only = args.check || target.check == Check::Types;
    let needs = if types_only { &[] } else { target.needs };
    let ready =
        add_rust_target(target.triple, args.no_install).and_then(|()| debian::ensure(needs, args.no_install));
    if let Err(why) = ready {
        return Ok(Outcome::Skipped(format!("skipped: {why}")));
    }
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let begun = Instant::now();
    if types_only {
        let mut command = sh::cargo(["check", "--target", target.triple]);
        let made = sh::tee(command.args(packages).env("RUSTFLAGS", "-D warnings"))?;
        return Ok(match made.ok {
            true => Outcome::Ok("cargo check, no warnings".to_owned()),
            false => Outcome::Failed("FAILED: cargo check".to_owned()),
        });
    }
    let mut command = sh::cargo(["test", "--target", target.triple]);
    command.args(packages).env("GPUFORGE_JIT", "require").envs(emulated(target));
    let made = sh::tee(&mut command)?;
    let counts = test_counts::cargo_test(&made.text);
    let counts = counts.map_or_else(|| "no test ran".to_owned(), |counts| counts.to_string());
    let how = if target.needs.is_empty() { "tests" } else { "tests under QEMU" };
    let text = format!("{how}, GPUFORGE_JIT=require: {counts} in {} s", begun.elapsed().as_secs());
    Ok(match made.ok {
        true => Outcome::Ok(text),
        false => Outcome::Failed(format!("FAILED: {text}")),
    })
}

/// Linker and emulator of a target that is not the host's, for cargo.
fn emulated(target: &CrossTarget) -> Vec<(String, String)> {
    if target.needs.is_empty() {
        return Vec::new();
    }
    let name = target.triple.to_uppercase().replace('-', "_");
    vec![
        (format!("CARGO_TARGET_{name}_LINKER"), CROSS_GCC.program.to_owned()),
        (format!("CARGO_TARGET_{name}_RUNNER"), format!("{} -L {SYSROOT}", QEMU.program)),
    ]
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
    fn cargo_reads_linker_and_runner_of_a_target_from_these_variables() {
        let target =
            CrossTarget { triple: "aarch64-unknown-linux-gnu", check: Check::Tests, needs: &[CROSS_GCC] };
        let variables = emulated(&target);
        let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"
            ]
        );
        let native = CrossTarget { needs: &[], ..target };
        assert!(emulated(&native).is_empty(), "on AArch64 itself nothing is emulated");
    }

    #[test]
    fn an_unknown_target_is_an_error_that_lists_the_known_ones() {
        let args = Args { targets: vec!["mips".to_owned()], no_install: true, check: true };
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("mips") && error.contains("wasm32-unknown-unknown"), "{error}");
    }
}
