//! The binary `gpuforge-cluster`: scheduler, executor and client of a cluster; `gpuforge cluster …` calls it.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result, anyhow};
use clap::Parser as _;
use datafusion::error::DataFusionError;
use gpuforge::settings::{Settings, UserPaths};
use gpuforge_cluster::{
    cluster::{self, ClientError, ExecutorOptions, Scheduler, SchedulerOptions},
    error,
};

use args::{Args, Command, ExecutorArgs, SchedulerArgs};

mod args;
mod logger;
mod output;
mod query;

fn main() -> ExitCode {
    let args = Args::parse();
    logger::start(args.verbose);
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed stderr is not an error.
            let _ = writeln!(io::stderr(), "error: {}", user_message(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let memory = memory(args.memory_limit.as_deref())?;
    let text = match &args.command {
        Command::Scheduler(options) => return runtime()?.block_on(scheduler(options, args.json)),
        Command::Executor(options) => return runtime()?.block_on(executor(options, memory, args.json)),
        Command::Status { scheduler } => {
            let status = runtime()?.block_on(cluster::status(scheduler))?;
            if args.json { json(&status)? } else { output::status(&status) }
        }
        Command::Sql(options) => query::sql(options, memory, args.json)?,
        Command::Submit(job) => query::submit(job, memory, args.json)?,
        Command::Features(job) => query::features(job, memory, args.json)?,
    };
    print(&text)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads can be started")
}

/// Prints to stdout; a broken pipe is not a failure.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Memory limit: the flag, else the user's settings.
fn memory(flag: Option<&str>) -> Result<Option<u64>> {
    let env = |name: &str| std::env::var(name).ok();
    let flags: Vec<(&str, &str)> = flag.map(|limit| ("memory_limit", limit)).into_iter().collect();
    let places = UserPaths::resolve(&env).unwrap_or_else(|_| UserPaths::unavailable());
    let settings = Settings::load_lenient(&places, &env, &flags);
    if let (Some(text), Some(problem)) = (flag, settings.warnings().first()) {
        return Err(anyhow!("--memory-limit {text}: {problem}"));
    }
    Ok(settings.memory_limit())
}

/// The root error, without the layers that wrapped it.
fn user_message(error: &anyhow::Error) -> String {
    let engine = match error.downcast_ref::<ClientError>() {
        Some(ClientError::Engine(engine)) => Some(engine),
        _ => error.downcast_ref::<DataFusionError>(),
    };
    let ours = engine.and_then(error::cause);
    match ours {
        Some(ours) => ours.to_string(),
        None => format!("{error:#}"),
    }
}

async fn scheduler(args: &SchedulerArgs, as_json: bool) -> Result<()> {
    let options = SchedulerOptions {
        host: args.host,
        port: args.port,
        external_host: args.external_host.clone(),
        executor_timeout: args.executor_timeout,
    };
    let scheduler = Scheduler::start(&options)
        .await
        .with_context(|| format!("no scheduler can be started on {}:{}", args.host, args.port))?;
    let address = scheduler.address();
    print(&match as_json {
        true => json(&serde_json::json!({ "scheduler": address.to_string() }))?,
        false => format!("scheduler on {address}\nhint: gpuforge cluster executor --scheduler {address}\n"),
    })?;
    tokio::select! {
        ended = scheduler.serve() => Ok(ended?),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn executor(args: &ExecutorArgs, memory: Option<u64>, as_json: bool) -> Result<()> {
    let slots = if args.slots == 0 { std::thread::available_parallelism()?.get() } else { args.slots };
    // Removed when the executor ends; a killed one leaves it to the system's temporary file cleanup.
    let temporary = match &args.work_dir {
        Some(_) => None,
        None => Some(tempfile::TempDir::with_prefix("gpuforge-executor-")?),
    };
    let named = args.work_dir.clone().or_else(|| temporary.as_ref().map(|d| d.path().to_owned()));
    let work_dir = named.unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&work_dir).with_context(|| format!("{} cannot be used", work_dir.display()))?;
    let options = ExecutorOptions {
        scheduler: args.scheduler.clone(),
        host: args.host,
        external_host: args.external_host.clone(),
        port: args.port,
        grpc_port: args.grpc_port,
        slots,
        memory,
        work_dir,
        heartbeat: args.heartbeat,
    };
    let ExecutorOptions { scheduler, work_dir, .. } = &options;
    print(&match as_json {
        true => json(&serde_json::json!({ "scheduler": scheduler, "slots": slots, "work_dir": work_dir }))?,
        false => format!("executor for {scheduler}: {slots} tasks at once, data in {}\n", work_dir.display()),
    })?;
    cluster::executor(&options).await.with_context(|| {
        format!("the executor ended\n  hint: is a scheduler running at {scheduler}? `gpuforge cluster status` asks it")
    })
}
