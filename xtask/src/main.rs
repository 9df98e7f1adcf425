//! Repository tasks: `cargo xtask COMMAND`, one file per command.
//!
//! | file | what is in it |
//! |---|---|
//! | `test.rs` | everything a change must pass; `test_counts.rs`: test counts of the runners |
//! | `tidy/` | invariants checked by reading the tree |
//! | `bench.rs` | runs gpuforge-bench; `rows.rs`: its rows, `bench_summary.rs`: BENCHMARKS.md, `machine.rs`: the machine |
//! | `cli_docs.rs`, `man.rs`, `completions.rs` | docs/cli.md, man pages and shell completions from the clap command table |
//! | `dist/`, `audit.rs` | release packages; licences and advisories (`metadata.rs`, `spdx.rs`, `third_party.rs`) |
//! | `fuzz.rs`, `soak.rs` | differential fuzzing of indicators; soak test |
//! | `fuzz_targets.rs`, `sanitize.rs` | libFuzzer targets of `fuzz/`; tests under AddressSanitizer |
//! | `python.rs`, `env_resolve.rs` | the Python package; resolution of environments |
//! | `browser.rs`, `devtools.rs` | browser tests of the HTML pages over the DevTools protocol |
//! | `cross/`, `arm_cost.rs` | other targets, as far as they can be run or checked here; AArch64 instructions beside TA-Lib |
//! | `vulkan.rs`, `debian.rs` | software Vulkan driver for tests; Debian packages of other tasks |
//! | `sh.rs`, `markdown.rs` | running programs; marked blocks in documents |
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a binary: printing is its job")]

mod arm_cost;
mod audit;
mod bench;
mod bench_summary;
mod browser;
mod cli_docs;
mod completions;
mod cross;
mod debian;
mod devtools;
mod dist;
mod env_resolve;
mod fuzz;
mod fuzz_targets;
mod machine;
mod man;
mod markdown;
mod metadata;
mod pictures;
mod python;
mod rows;
mod sanitize;
mod sh;
mod soak;
mod spdx;
mod test;
mod test_counts;
mod third_party;
mod tidy;
mod vulkan;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tasks of the gpuforge repository.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything a change must pass: fmt, clippy, tidy, unit, integration, end-to-end and doc tests, licences
    Test(test::Args),
    /// Check the invariants that can be checked by reading
    Tidy,
    /// Benchmarks beside peers, in one run
    Bench(bench::Args),
    /// Soak test: mixed work with random faults for minutes; fails when memory grows
    Soak(soak::Args),
    /// Differential fuzzing: random selections of indicators against each row alone, bar by bar; on the CPU, a GPU adapter, from Python, in SQL
    ///
    /// Fuzzing of parsers, file readers and JIT IR with libFuzzer: `cargo xtask fuzz`.
    FuzzIndicators(fuzz::Args),
    /// Coverage-guided fuzzing (libFuzzer, ASan) of everything that reads untrusted input, and of JIT IR
    ///
    /// Differential fuzzing of indicators against each row alone: `cargo xtask fuzz-indicators`.
    Fuzz(fuzz_targets::Args),
    /// Tests of the indicator engine, the file readers and the Python tables under AddressSanitizer
    Sanitize,
    /// Write docs/cli.md, the reference of all commands and options
    Docs(cli_docs::Args),
    /// Write the man pages
    Man(man::Args),
    /// Write the shell completions
    Completions(completions::Args),
    /// Build release packages: archives, .deb, wheels, manifests of package managers, SBOM, checksums
    Dist(dist::Args),
    /// Check licences and advisories of the dependencies
    Audit,
    /// Build, test and measure the Python package
    #[command(subcommand)]
    Python(python::Args),
    /// Test the HTML pages in a real browser, with screenshots
    Browser(browser::Args),
    /// Make the pictures of the README: a chart, and the report of a profiled run
    Pictures,
    /// Build for other targets; AArch64 Linux is tested under QEMU, the others are type-checked
    Cross(cross::Args),
    /// Count executed AArch64 instructions per bar, beside TA-Lib's C library
    ArmCost(arm_cost::Args),
    /// Resolve the environments of all profiles from the package index
    EnvResolve(env_resolve::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(args) => test::run(&args),
        Command::Tidy => tidy::run(),
        Command::Bench(args) => bench::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::FuzzIndicators(args) => fuzz::run(&args),
        Command::Fuzz(args) => fuzz_targets::run(&args),
        Command::Sanitize => sanitize::run(),
        Command::Docs(args) => cli_docs::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Audit => audit::run(),
        Command::Python(args) => python::run(&args),
        Command::Browser(args) => browser::run(&args),
        Command::Pictures => pictures::run(),
        Command::Cross(args) => cross::run(&args),
        Command::ArmCost(args) => arm_cost::run(&args),
        Command::EnvResolve(args) => env_resolve::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
