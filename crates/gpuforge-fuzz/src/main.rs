//! `gpuforge-fuzz`: command line of the differential fuzzer, called by `cargo xtask fuzz-indicators`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a binary: printing is its job")]

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use clap::Parser;
use gpuforge_fuzz::{
    campaign::{self, CampaignConfig, CampaignReport, Counts},
    corpus,
};

/// Differential fuzzing: random selections, bars and schedules against each row alone, bar by bar
#[derive(Parser)]
#[command(name = "cargo xtask fuzz-indicators")]
struct Args {
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// Seed of the campaign; taken from the clock unless given, and printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stop after this many selections on the CPU
    #[arg(long, value_name = "N")]
    selections: Option<u64>,
    /// Selections on a GPU adapter; 0 disables it
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: u64,
    /// Worker threads; default: the number of CPUs
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Directory for reproducers of failing cases
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Export a corpus of this many cases with the expected results of the command line, for Python and SQL to be compared
    #[arg(long, value_name = "N", requires = "gpuforge", requires = "out")]
    export: Option<usize>,
    /// The command line program, for --export
    #[arg(long, value_name = "PATH")]
    gpuforge: Option<PathBuf>,
    /// Plant a fault in the JIT (lagged loads are off by one bar); the run must fail
    #[arg(long)]
    plant_fault: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the campaign; `false` if there were mismatches.
fn run(args: &Args) -> Result<bool> {
    if !(args.minutes > 0.0 && args.minutes <= 24.0 * 60.0) {
        bail!("--minutes {}: more than 0 and at most 1440", args.minutes);
    }
    let seed = args.seed.unwrap_or_else(clock);
    if let (Some(count), Some(program), Some(out)) = (args.export, &args.gpuforge, &args.out) {
        corpus::export(seed, count, out, program)?;
        eprintln!("{count} cases in {} (seed {seed})", out.display());
        return Ok(true);
    }
    if args.plant_fault {
        gpuforge::indicators::exec::plant_jit_fault(true);
    }
    let config = CampaignConfig {
        seed,
        time: Duration::from_secs_f64(args.minutes * 60.0),
        selections: args.selections,
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        device_selections: args.gpu,
        directory: args.out.clone().unwrap_or_else(|| std::env::temp_dir().join("fuzz-indicators")),
    };
    eprintln!("seed {seed}");
    let last = Mutex::new(Instant::now());
    let progress = |counts: &Counts, took: Duration| {
        let Ok(mut last) = last.try_lock() else { return };
        if last.elapsed() > Duration::from_secs(30) {
            *last = Instant::now();
            eprintln!("{:>5.0} s: {}", took.as_secs_f64(), summary(counts));
        }
    };
    let report = campaign::run(&config, &progress);
    print_report(&report, seed, args.json);
    Ok(report.failures.is_empty())
}

fn clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |d| d.as_nanos() as u64 & 0xffff_ffff)
}

fn get(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

fn summary(counts: &Counts) -> String {
    format!(
        "{} selections of {} terms on the CPU ({} runs, {} rows relaxed), {} through files, {} on the adapter ({} columns)",
        get(&counts.cpu),
        get(&counts.terms),
        get(&counts.runs),
        get(&counts.relaxed),
        get(&counts.files),
        get(&counts.device),
        get(&counts.device_columns),
    )
}

fn print_report(report: &CampaignReport, seed: u64, json: bool) {
    let CampaignReport { counts, no_adapter, failures, smallest, took } = report;
    if json {
        let json = serde_json::json!({
            "seed": seed, "seconds": took.as_secs_f64(), "selections": get(&counts.cpu), "terms": get(&counts.terms),
            "runs": get(&counts.runs), "relaxed": get(&counts.relaxed), "files": get(&counts.files), "device": get(&counts.device),
            "device_columns": get(&counts.device_columns), "no_adapter": no_adapter,
            "mismatches": failures.len(), "smallest": smallest, "failures": failures,
        });
        println!("{json}");
        return;
    }
    for failure in failures {
        println!("MISMATCH {failure}");
    }
    if let Some(why) = no_adapter {
        println!("skipped: no GPU adapter, {why}");
    }
    println!("{}, {} mismatches, seed {seed}, {:.0} s", summary(counts), failures.len(), took.as_secs_f64());
}
