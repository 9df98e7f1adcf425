//! `gpuforge explain` on 10 MB logs: eight kinds, each a different worst case of the pattern matcher.

use std::{fs::File, path::Path};

use anyhow::{Context as _, Result, bail};
use gpuforge_env::explain::{HostEvidence, PatternDb, explain};

use crate::{
    measure::{Sample, ms},
    row::Row,
};

const BENCH: &str = "explain";
/// Bytes of a log.
const SIZE: usize = 10_000_000;
const READS: usize = 15;
/// Limit in milliseconds.
const LIMIT: f64 = 200.0;

/// `== ID`, a log of that cause, `-- not`, a log that only resembles it.
const CASES: &str = include_str!("../../gpuforge-env/tests/explain_cases.txt");
/// `== ID`, messages that mean no harm.
const NOISE: &str = include_str!("../../gpuforge-env/tests/explain_noise.txt");
/// Logs as people paste them.
const FIELD: &str = include_str!("../../gpuforge-env/tests/explain_field.txt");

/// Lines that logs are composed of.
struct LogSamples {
    failures: Vec<&'static str>,
    misses: Vec<&'static str>,
    noise: Vec<&'static str>,
    /// Whole logs from the field.
    field: String,
}

/// A kind of log: its name and its nth line.
type LogKind = (&'static str, fn(&LogSamples, usize) -> String);

const KINDS: &[LogKind] = &[
    ("training", |_, i| {
        format!(
            "step {i} | loss 1.{:05} | lr 3.0e-04 | tokens/s {} | cuda memory 18.3 GiB\n",
            scatter(i) % 99_991,
            i % 4999
        )
    }),
    ("samples, mixed", |s, i| format!("{}\n", any(&s.failures, i))),
    ("samples behind prefixes that vary", |s, i| {
        format!(
            "2026-04-02T10:{:02}:{:02}.{:06}Z node{:x} [rank{}]: {}\n",
            i / 60 % 60,
            i % 60,
            scatter(i) % 1_000_000,
            scatter(i + 7) % 4096,
            i % 16,
            any(&s.failures, i)
        )
    }),
    ("benign messages only", |s, i| format!("[{i}] {}\n", any(&s.noise, i))),
    ("logs from the field, again and again", |s, _| s.field.clone()),
    ("benign messages and failures by turns", |s, i| {
        format!("{i}: {}\n{i}: {}\n", any(&s.noise, i), any(&s.failures, i))
    }),
    ("failures in one line without an end", |s, i| format!("{} ", any(&s.failures, i))),
    ("failures that are all excused", |s, i| match i % 4 {
        0 => format!("src/{i}.cu({}): warning: {}\n", i % 977, any(&s.failures, i)),
        1 => format!("{}\n", any(&s.misses, i)),
        2 => format!("{i} errors: 0, error: none, {i}0 failed, if this shows {}\n", any(&s.failures, i)),
        _ => format!("killed process {i}: CUDA out of memory. Tried to allocate {} MiB\n", i % 512),
    }),
];

pub(crate) fn run() -> Result<Vec<Row>> {
    let samples = samples()?;
    let dir = tempfile::tempdir()?;
    let mut rows = Vec::new();
    for (name, line) in KINDS {
        let path = dir.path().join("log");
        std::fs::write(&path, log(&samples, *line))?;
        let once = || ms(|| read(&path));
        let times = (0..READS).map(|_| once()).collect::<Result<Vec<_>>>()?;
        rows.push(Row::vs_limit(BENCH, &format!("10 MB: {name}"), &Sample::of(&times), LIMIT));
    }
    Ok(rows)
}

/// What the command does with a file, including loading the pattern table.
fn read(path: &Path) -> Result<()> {
    let known = PatternDb::embedded();
    let found = explain(File::open(path)?, &known, &HostEvidence::default())?;
    if found.empty {
        bail!("the log was not read");
    }
    Ok(())
}

fn log(samples: &LogSamples, line: fn(&LogSamples, usize) -> String) -> Vec<u8> {
    let mut log = Vec::with_capacity(SIZE + (1 << 20));
    for i in 0.. {
        if log.len() >= SIZE {
            break;
        }
        log.extend_from_slice(line(samples, i).as_bytes());
    }
    log
}

fn samples() -> Result<LogSamples> {
    let lines = |text: &'static str| text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut failures, mut misses) = (Vec::new(), Vec::new());
    for (_, logs) in sections(CASES) {
        let (log, miss) = logs.split_once("\n-- not\n").context("a case without a near miss")?;
        failures.extend(lines(log));
        misses.extend(lines(miss));
    }
    let noise = sections(NOISE).flat_map(|(_, messages)| lines(messages)).collect();
    Ok(LogSamples { failures, misses, noise, field: field()? })
}

fn sections(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split("\n== ").map(|s| s.trim_start_matches("== ")).filter_map(|s| s.split_once('\n'))
}

/// Our logs from the field, and those in the directory of `GPUFORGE_LOGS`.
fn field() -> Result<String> {
    let mut field = sections(FIELD).map(|(_, log)| format!("{log}\n")).collect::<String>();
    let Some(directory) = std::env::var_os("GPUFORGE_LOGS") else { return Ok(field) };
    for file in std::fs::read_dir(directory).context("GPUFORGE_LOGS cannot be read")? {
        let path = file?.path();
        if path.extension().is_some_and(|e| e == "txt") {
            field.push_str(&String::from_utf8_lossy(&std::fs::read(path)?));
        }
    }
    Ok(field)
}

/// A pseudo-random line.
fn any(lines: &[&'static str], i: usize) -> &'static str {
    lines.get(scatter(i) % lines.len().max(1)).copied().unwrap_or_default()
}

/// Hash: pseudo-random numbers, the same in every run.
fn scatter(i: usize) -> usize {
    let x = (i as u64 ^ 0x9e37_79b9).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 33) as usize
}
