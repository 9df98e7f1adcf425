//! Which command does what? One file each.

use anyhow::Result;

use crate::{args::Command, context::Context};

mod cache;
mod config;
mod demo;
mod detect;
mod docs;
mod overview;
pub(crate) mod probe;
mod self_test;
mod status;

/// Runs one command.
pub(crate) fn run(command: Option<Command>, context: &Context) -> Result<()> {
    match command {
        None => overview::run(context),
        Some(Command::Demo) => demo::run(context),
        Some(Command::Detect(args)) => detect::run(&args, context),
        Some(Command::Status) => status::run(context),
        Some(Command::SelfTest { full }) => self_test::run(full, context),
        Some(Command::Cache(args)) => cache::run(&args, context),
        Some(Command::Config(args)) => config::run(&args, context),
        Some(Command::Completions { shell }) => docs::completions(shell, context),
        Some(Command::Man { dir }) => docs::man(&dir, context),
    }
}
