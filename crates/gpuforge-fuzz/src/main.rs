//! `gpuforge-fuzz`: does the indicator engine hold? Minutes of differential fuzzing, called by `cargo xtask fuzz-indicators`.
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
    campaign::{self, Counts, Outcome, Plan},
    export,
};

/// Random selections, bars and schedules against each row alone, bar by bar
#[derive(Parser)]
#[command(name = "cargo xtask fuzz-indicators")]
struct Args {
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// Where everything follows from; drawn from the clock unless given, and printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End after so many selections on the CPU
    #[arg(long, value_name = "N")]
    selections: Option<u64>,
    /// Selections on a GPU adapter; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: u64,
    /// Threads; as many as there are CPUs unless given
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where failing cases are written
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write so many cases with what the command line computes for them, for Python and SQL to be compared
    #[arg(long, value_name = "N", requires = "gpuforge", requires = "out")]
    export: Option<usize>,
    /// The command line program, for --export
    #[arg(long, value_name = "PATH")]
    gpuforge: Option<PathBuf>,
    /// Plant a fault in the JIT: earlier bars are read one bar too late. The run must fail
    #[arg(long)]
    plant_fault: bool,
    /// The result as JSON
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

/// Runs; `false` where something was wrong.
fn run(args: &Args) -> Result<bool> {
    if !(args.minutes > 0.0 && args.minutes <= 24.0 * 60.0) {
        bail!("--minutes {}: more than 0 and at most 1440", args.minutes);
    }
    let seed = args.seed.unwrap_or_else(clock);
    if let (Some(count), Some(program), Some(out)) = (args.export, &args.gpuforge, &args.out) {
        export::export(seed, count, out, program)?;
        eprintln!("{count} cases in {} (seed {seed})", out.display());
        return Ok(true);
    }
    if args.plant_fault {
        gpuforge::indicators::exec::plant_jit_fault(true);
    }
    let plan = Plan {
        seed,
        time: Duration::from_secs_f64(args.minutes * 60.0),
        selections: args.selections,
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        device_selections: args.gpu,
        directory: args.out.clone().unwrap_or_else(|| std::env::temp_dir().join("fuzz-indicators")),
    };
    eprintln!("seed {seed}");
    let last = Mutex::new(Instant::now());
    let told = |counts: &Counts, took: Duration| {
        let Ok(mut last) = last.try_lock() else { return };
        if last.elapsed() > Duration::from_secs(30) {
            *last = Instant::now();
            eprintln!("{:>5.0} s: {}", took.as_secs_f64(), said(counts));
        }
    };
    let outcome = campaign::run(&plan, &told);
    tell(&outcome, seed, args.json);
    Ok(outcome.failures.is_empty())
}

fn clock() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |d| d.as_nanos() as u64 & 0xffff_ffff)
}

fn get(counter: &std::sync::atomic::AtomicU64) -> u64 {
    counter.load(std::sync::atomic::Ordering::Relaxed)
}

fn said(counts: &Counts) -> String {
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

fn tell(outcome: &Outcome, seed: u64, json: bool) {
    let Outcome { counts, no_adapter, failures, smallest, took } = outcome;
    if json {
        let report = serde_json::json!({
            "seed": seed, "seconds": took.as_secs_f64(), "selections": get(&counts.cpu), "terms": get(&counts.terms),
            "runs": get(&counts.runs), "relaxed": get(&counts.relaxed), "files": get(&counts.files), "device": get(&counts.device),
            "device_columns": get(&counts.device_columns), "no_adapter": no_adapter,
            "mismatches": failures.len(), "smallest": smallest, "failures": failures,
        });
        println!("{report}");
        return;
    }
    for failure in failures {
        println!("MISMATCH {failure}");
    }
    if let Some(why) = no_adapter {
        println!("skipped: nothing was tried on an adapter, {why}");
    }
    println!("{}, {} mismatches, seed {seed}, {:.0} s", said(counts), failures.len(), took.as_secs_f64());
}
