//! Binary `gpuforge-train`: train, evaluate, predict; `gpuforge train` runs it if it is installed.

#![allow(clippy::print_stderr, reason = "this is the program's own stderr")]

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod console;
mod evaluate;
mod train;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let console = console::Console::new(args.json, args.quiet);
    let result = match &args.command {
        args::Command::Train(own) => train::run(own, &console),
        args::Command::Evaluate(own) => evaluate::evaluate(own, &console),
        args::Command::Predict(own) => evaluate::predict(own, &console),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console.failed(&error),
    }
}
