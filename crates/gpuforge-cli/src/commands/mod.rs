//! Commands: one file each; this one dispatches.

use anyhow::Result;

use crate::{
    args::{Command, indicators::IndicatorsCommand},
    context::Context,
};

mod baseline;
mod cache;
mod calibrate;
mod chart;
mod cluster;
mod compare;
mod config;
mod demo;
mod detect;
mod docs;
mod doctor;
mod env;
mod explain;
mod external;
mod indicators;
mod lattice;
mod monitor;
mod overview;
pub(crate) mod probe;
mod profile;
mod report;
mod route;
mod sample;
mod self_test;
mod share;
mod status;
mod train;
mod trajectory;

/// Runs one command.
pub(crate) fn run(command: Option<Command>, context: &Context) -> Result<()> {
    let _watched = monitor::publish(command.as_ref(), context);
    match command {
        None => overview::run(context),
        Some(Command::Demo(args)) => demo::run(&args, context),
        Some(Command::Detect(args)) => detect::run(&args, context),
        Some(Command::Status { load }) => status::run(load, context),
        Some(Command::SelfTest { full }) => self_test::run(full, context),
        Some(Command::Doctor(args)) => doctor::run(&args, context),
        Some(Command::Env(args)) => env::run(&args, context),
        Some(Command::Monitor(args)) => monitor::run(&args, context),
        Some(Command::Calibrate(args)) => calibrate::run(&args, context),
        Some(Command::Route(args)) => route::run(&args, context),
        Some(Command::Indicators(args)) => match &args.command {
            Some(IndicatorsCommand::List { select, define }) => {
                indicators::list::list(select.as_deref(), define, context)
            }
            Some(IndicatorsCommand::Show { name }) => indicators::list::show(name, context),
            None => indicators::run(&args, context),
        },
        Some(Command::Cluster(args)) => cluster::run(&args, context),
        Some(Command::Train(args)) => train::run("train", &args, context),
        Some(Command::Evaluate(args)) => train::run("evaluate", &args, context),
        Some(Command::Predict(args)) => train::run("predict", &args, context),
        Some(Command::Lattice(args)) => lattice::run(&args, context),
        Some(Command::Chart(args)) => chart::run(&args, context),
        Some(Command::Sample(args)) => sample::run(&args, context),
        Some(Command::Trajectory(args)) => trajectory::run(&args, context),
        Some(Command::Explain(args)) => explain::run(&args, context),
        Some(Command::Profile(args)) => profile::run(args, context),
        Some(Command::Report(args)) => report::run(&args, context),
        Some(Command::Compare(args)) => compare::run(&args, context),
        Some(Command::Baseline(args)) => baseline::run(&args, context),
        Some(Command::Share(args)) => share::run(&args, context),
        Some(Command::Cache(args)) => cache::run(&args, context),
        Some(Command::Config(args)) => config::run(&args, context),
        Some(Command::Completions { shell }) => docs::completions(shell, context),
        Some(Command::Man { dir }) => docs::man(&dir, context),
        Some(Command::Reference) => docs::reference(context),
    }
}
