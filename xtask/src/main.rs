//! Which chores does the repository have? `cargo xtask CMD`, one file per command.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a binary: printing is its job")]

mod audit;
mod bench;
mod bench_summary;
mod browser;
mod cli_docs;
mod completions;
mod counts;
mod devtools;
mod dist;
mod env_resolve;
mod fuzz;
mod machine;
mod man;
mod markdown;
mod metadata;
mod pictures;
mod python;
mod rows;
mod sh;
mod soak;
mod spdx;
mod test;
mod third_party;
mod tidy;
mod vulkan;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Chores of the gpuforge repository.
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
    /// Measure us beside our peers in one run
    Bench(bench::Args),
    /// Run mixed work with random faults for minutes and see whether the process grows
    Soak(soak::Args),
    /// Random selections of indicators against each row alone, bar by bar; on the CPU, a GPU adapter, from Python, in SQL
    FuzzIndicators(fuzz::Args),
    /// Write docs/cli.md, the reference of all commands and options
    Docs(cli_docs::Args),
    /// Write the man pages
    Man(man::Args),
    /// Write the shell completions
    Completions(completions::Args),
    /// Build the release archive with man pages, completions, licences and checksums
    Dist,
    /// Check licences and advisories of the dependencies
    Audit,
    /// Build, test and measure the Python package
    #[command(subcommand)]
    Python(python::Args),
    /// Use our pages in a real browser, and keep pictures of them
    Browser(browser::Args),
    /// Make the pictures of the README: a chart, and the report of a profiled run
    Pictures,
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
        Command::Docs(args) => cli_docs::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Dist => dist::run(),
        Command::Audit => audit::run(),
        Command::Python(args) => python::run(&args),
        Command::Browser(args) => browser::run(&args),
        Command::Pictures => pictures::run(),
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
