//! The binary `gpuforge-train`: trains, tests and answers; `gpuforge train` runs it where it is installed.

#![allow(clippy::print_stderr, reason = "this is the program's own stderr")]

use std::process::ExitCode;

use clap::Parser as _;

mod answer;
mod args;
mod talk;
mod train;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let talk = talk::Talk::new(args.json, args.quiet);
    let result = match &args.command {
        args::Command::Train(own) => train::run(own, &talk),
        args::Command::Evaluate(own) => answer::evaluate(own, &talk),
        args::Command::Predict(own) => answer::predict(own, &talk),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => talk.failed(&error),
    }
}
