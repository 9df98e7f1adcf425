//! The binary `gpuforge`: reads the command line, runs one command, ends with its exit code.

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod commands;
mod context;
mod error;
mod format;
mod output;

fn main() -> ExitCode {
    // A probe child starts a driver as soon as it can; parsing arguments and settings would only delay it.
    if let Some(code) = commands::probe::run_as_child() {
        return code;
    }
    let args = args::Args::parse();
    let context = context::Context::new(&args);
    error::report(commands::run(args.command, &context), &context)
}
