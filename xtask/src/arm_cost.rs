//! Executed AArch64 instructions per bar beside TA-Lib's C library: `cargo xtask arm-cost`.
//!
//! ```text
//!   examples/arm_cost.rs ──► cargo build --release, AArch64 ─┐
//!   TA-Lib, fetched      ──► aarch64-linux-gnu-gcc -O2       ─┼─► qemu-aarch64 -plugin ──► instructions of 20 000 and of 40 000 bars
//!   count_plugin.c       ──► cc -shared                      ─┘
//! ```
//! The difference of two runs is what the function itself costs: start-up, made-up bars and compilation of the plan cancel.
//! Counts are exact and the same on every machine; they are not times. TA-Lib's source is fetched by package name at run time,
//! and nothing of it is kept in the repository.

use crate::{
    cross::{self, CROSS_GCC, SYSROOT},
    debian::{self, Needed},
    sh,
};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// A function: its name, results, parameters (ours and TA-Lib's), and the arrays of TA-Lib's call.
struct Function {
    name: &'static str,
    results: usize,
    params: &'static str,
    inputs: &'static str,
    /// TA-Lib's parameters, where the moving average's type is one.
    theirs: &'static str,
}

const fn f(
    name: &'static str,
    results: usize,
    params: &'static str,
    inputs: &'static str,
    theirs: &'static str,
) -> Function {
    Function { name, results, params, inputs, theirs }
}

/// The sixteen typical functions of `crates/gpuforge-python/bench/peers.py`.
#[rustfmt::skip]
const FUNCTIONS: [Function; 16] = [
    f("SMA", 1, "30", "close", "30"),
    f("EMA", 1, "30", "close", "30"),
    f("WMA", 1, "30", "close", "30"),
    f("RSI", 1, "14", "close", "14"),
    f("MACD", 3, "12 26 9", "close", "12, 26, 9"),
    f("BBANDS", 3, "20 2 2", "close", "20, 2.0, 2.0, TA_MAType_SMA"),
    f("STDDEV", 1, "5 1", "close", "5, 1.0"),
    f("ROC", 1, "10", "close", "10"),
    f("ATR", 1, "14", "high, low, close", "14"),
    f("ADX", 1, "14", "high, low, close", "14"),
    f("CCI", 1, "14", "high, low, close", "14"),
    f("STOCH", 2, "5 3 0 3 0", "high, low, close", "5, 3, TA_MAType_SMA, 3, TA_MAType_SMA"),
    f("WILLR", 1, "14", "high, low, close", "14"),
    f("OBV", 1, "", "close, volume", ""),
    f("MFI", 1, "14", "high, low, close, volume", "14"),
    f("CDLENGULFING", 1, "", "open, high, low, close", ""),
];

/// The npm package that has TA-Lib's C source.
const SOURCE_PACKAGE: &str = "talib@1.1.6";
const TRIPLE: &str = "aarch64-unknown-linux-gnu";
/// Dynamically linked: the static build of QEMU loads no plugins.
const QEMU: Needed = Needed { program: "qemu-aarch64", packages: &["qemu-user"] };
const HOST_CC: Needed = Needed { program: "cc", packages: &["gcc", "libc6-dev"] };
const NPM: Needed = Needed { program: "npm", packages: &["npm"] };
/// Versions of the plugin interface that are tried, as QEMU supports some of them.
const PLUGIN_VERSIONS: std::ops::RangeInclusive<u32> = 1..=6;
/// Bars of the two runs.
const BARS: [u64; 2] = [20_000, 40_000];
/// Series of a batch.
const BATCH: u64 = 8;
/// Largest relative difference of the last values: nine digits, as in the parity tests.
const TOLERANCE: f64 = 1e-9;
/// Geometric mean of ours over theirs that is aimed at.
const AIM: f64 = 0.5;
const FETCH_LIMIT: Duration = Duration::from_secs(120);

/// Arguments of `cargo xtask arm-cost`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Functions [default: sixteen typical ones]
    #[arg(value_name = "FUNCTION")]
    functions: Vec<String>,
    /// Install nothing: say what is missing instead
    #[arg(long)]
    no_install: bool,
}

/// Instructions per bar.
struct Cost {
    name: &'static str,
    talib: f64,
    jit: f64,
    kernels: f64,
    batched: f64,
}

/// Runs; what is missing is said in one line, and is no error. That the aim is missed by all of the functions is one.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all = args.functions.is_empty();
    let wanted = |f: &&Function| all || args.functions.iter().any(|w| w.eq_ignore_ascii_case(f.name));
    let functions: Vec<&Function> = FUNCTIONS.iter().filter(wanted).collect();
    ensure!(!functions.is_empty(), "none of {} is in the table of functions", args.functions.join(", "));
    let ready = cross::add_rust_target(TRIPLE, args.no_install)
        .and_then(|()| debian::ensure(&[CROSS_GCC, QEMU, HOST_CC, NPM], args.no_install));
    if let Err(why) = ready {
        println!("arm-cost: skipped, {why}");
        return Ok(());
    }
    let directory = sh::target().join("arm-cost");
    fs::create_dir_all(&directory)?;
    let source = match fetch(&directory) {
        Ok(source) => source,
        Err(error) => {
            println!("arm-cost: skipped, no source of TA-Lib: {error:#}");
            return Ok(());
        }
    };
    let talib = compile_talib(&directory, &source)?;
    let plugin = compile_plugin(&directory, &talib)?;
    let ours = build_example()?;
    let emulator = Emulator { plugin };
    let mut costs = Vec::new();
    for function in functions {
        costs.push(emulator.cost(function, &ours, &talib)?);
    }
    print!("{}", table(&costs));
    let mean = mean_ratio(&costs);
    // Of some of the functions it says nothing.
    ensure!(!all || mean <= AIM, "the geometric mean of the ratios is {mean:.3}, more than {AIM}");
    Ok(())
}

/// TA-Lib's C source, unpacked.
fn fetch(directory: &Path) -> Result<PathBuf> {
    let source = directory.join("package/src/lib");
    if !source.is_dir() {
        sh::run_within(
            Command::new("npm").args(["pack", SOURCE_PACKAGE]).current_dir(directory),
            FETCH_LIMIT,
        )?;
        let archive = SOURCE_PACKAGE.replace('@', "-") + ".tgz";
        sh::run(Command::new("tar").args(["xzf", &archive]).current_dir(directory))?;
    }
    ensure!(source.is_dir(), "{SOURCE_PACKAGE} has no src/lib any more");
    Ok(source)
}

/// C files of a directory.
fn c_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "c"));
    files.sort_unstable();
    Ok(files)
}

/// The line of `calls.h` of a function.
fn call(Function { name, results, inputs, theirs, .. }: &Function) -> String {
    let outputs = if name.starts_with("CDL") {
        "flags"
    } else {
        match results {
            1 => "x",
            2 => "x, y",
            _ => "x, y, z",
        }
    };
    let comma = if theirs.is_empty() { "" } else { ", " };
    format!(
        "FUNCTION(\"{name}\", {results}, TA_{name}(0, end, {inputs}{comma}{theirs}, &begin, &count, {outputs}))\n"
    )
}

fn compile_talib(directory: &Path, source: &Path) -> Result<PathBuf> {
    fs::write(directory.join("talib_main.c"), include_str!("arm_cost/talib_main.c"))?;
    fs::write(directory.join("calls.h"), FUNCTIONS.iter().map(call).collect::<String>())?;
    let program = directory.join("talib");
    let mut gcc = Command::new(CROSS_GCC.program);
    // The warnings of another project are not ours to print.
    gcc.args(["-O2", "-w", "-o"]).arg(&program).arg("-I").arg(directory);
    for include in ["include", "src/ta_common", "src/ta_func"] {
        gcc.arg("-I").arg(source.join(include));
    }
    gcc.arg(directory.join("talib_main.c"));
    gcc.args(c_files(&source.join("src/ta_func"))?).args(c_files(&source.join("src/ta_common"))?).arg("-lm");
    eprintln!("$ {} -O2 …", CROSS_GCC.program);
    sh::capture(&mut gcc)?;
    Ok(program)
}

/// The plugin, in the first version of the interface that this QEMU accepts.
fn compile_plugin(directory: &Path, program: &Path) -> Result<PathBuf> {
    let source = directory.join("count_plugin.c");
    fs::write(&source, include_str!("arm_cost/count_plugin.c"))?;
    for version in PLUGIN_VERSIONS {
        let plugin = directory.join(format!("count_plugin_{version}.so"));
        let mut cc = Command::new(HOST_CC.program);
        cc.args(["-O2", "-shared", "-fPIC", &format!("-DPLUGIN_VERSION={version}"), "-o"]).arg(&plugin);
        sh::capture(cc.arg(&source))?;
        let emulator = Emulator { plugin: plugin.clone() };
        if emulator.count(program, &["SMA", "1000"], "on").is_ok() {
            return Ok(plugin);
        }
    }
    bail!(
        "qemu-aarch64 loads the plugin in no version of {PLUGIN_VERSIONS:?}\nhint: it must be built with --enable-plugins"
    )
}

fn build_example() -> Result<PathBuf> {
    let mut cargo = sh::cargo([
        "build",
        "--release",
        "-p",
        "gpuforge-indicators",
        "--example",
        "arm_cost",
        "--target",
        TRIPLE,
    ]);
    sh::run(cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CROSS_GCC.program))?;
    Ok(sh::target().join(TRIPLE).join("release/examples/arm_cost"))
}

/// QEMU with the plugin.
struct Emulator {
    plugin: PathBuf,
}

/// Instructions of a run, and the last values that it printed.
struct Counted {
    instructions: u64,
    last: Vec<f64>,
}

impl Emulator {
    fn count(&self, program: &Path, arguments: &[&str], jit: &str) -> Result<Counted> {
        let mut qemu = Command::new(QEMU.program);
        qemu.arg("-plugin").arg(&self.plugin).args(["-L", SYSROOT]).arg(program).args(arguments);
        let output = qemu.env("GPUFORGE_JIT", jit).output().context("cannot start qemu-aarch64")?;
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        ensure!(output.status.success(), "`{}` failed: {out}{err}", sh::line(&qemu));
        let instructions = err.lines().find_map(|line| line.strip_prefix("instructions ")?.parse().ok());
        let instructions = instructions.with_context(|| format!("the plugin printed no count: {err}"))?;
        Ok(Counted { instructions, last: out.split_whitespace().filter_map(|x| x.parse().ok()).collect() })
    }

    /// Instructions per bar of one series, and the last values of the longer run.
    fn per_bar(
        &self,
        program: &Path,
        arguments: impl Fn(&str) -> Vec<String>,
        jit: &str,
    ) -> Result<(f64, Vec<f64>)> {
        let run = |bars: u64| {
            let arguments = arguments(&bars.to_string());
            self.count(program, &arguments.iter().map(String::as_str).collect::<Vec<_>>(), jit)
        };
        let [short, long] = BARS;
        let (first, second) = (run(short)?, run(long)?);
        let more = second.instructions.saturating_sub(first.instructions);
        Ok((more as f64 / (long - short) as f64, second.last))
    }

    fn cost(&self, function: &Function, ours: &Path, talib: &Path) -> Result<Cost> {
        let name = function.name;
        let own = |series: u64| {
            move |bars: &str| {
                let first = [name.to_ascii_lowercase(), bars.to_owned(), series.to_string()];
                first.into_iter().chain(function.params.split_whitespace().map(str::to_owned)).collect()
            }
        };
        let (theirs, want) = self.per_bar(talib, |bars| vec![name.to_owned(), bars.to_owned()], "on")?;
        let (jit, got) = self.per_bar(ours, own(1), "require")?;
        let (kernels, _) = self.per_bar(ours, own(1), "off")?;
        let (batched, _) = self.per_bar(ours, own(BATCH), "require")?;
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0);
        ensure!(
            want.len() == got.len() && want.iter().zip(&got).all(near),
            "{name}: the last values are {got:?}, TA-Lib's {want:?}: the two do not compute the same"
        );
        eprintln!("{name}: TA-Lib {theirs:.2}, JIT {jit:.2}, kernels {kernels:.2} instructions per bar");
        Ok(Cost { name, talib: theirs, jit, kernels, batched: batched / BATCH as f64 })
    }
}

/// The table in Markdown, with the geometric mean of the ratios.
fn table(costs: &[Cost]) -> String {
    let mut text = "| function | TA-Lib | gpuforge | ratio | without JIT | eight series, each |\n|---|--:|--:|--:|--:|--:|\n".to_owned();
    for Cost { name, talib, jit, kernels, batched } in costs {
        let ratio = jit / talib;
        text += &format!("| {name} | {talib:.2} | {jit:.2} | {ratio:.2} | {kernels:.2} | {batched:.2} |\n");
    }
    let mean = mean_ratio(costs);
    let verdict = if mean <= AIM { "reached" } else { "not reached" };
    text + &format!("\nGeometric mean of the ratios: {mean:.3} (aim: {AIM}, {verdict}).\n")
}

/// Geometric mean of ours over theirs.
fn mean_ratio(costs: &[Cost]) -> f64 {
    geometric_mean(costs.iter().map(|c| c.jit / c.talib))
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.fold((0.0, 0u32), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_inputs_parameters_and_results_in_the_order_of_ta_lib() {
        let of = |name: &str| call(FUNCTIONS.iter().find(|f| f.name == name).unwrap());
        assert_eq!(
            of("MACD"),
            "FUNCTION(\"MACD\", 3, TA_MACD(0, end, close, 12, 26, 9, &begin, &count, x, y, z))\n"
        );
        assert_eq!(of("OBV"), "FUNCTION(\"OBV\", 1, TA_OBV(0, end, close, volume, &begin, &count, x))\n");
        assert!(of("CDLENGULFING").contains("&count, flags)"));
    }

    #[test]
    fn the_table_says_whether_the_aim_is_reached() {
        let cost = |talib, jit| Cost { name: "X", talib, jit, kernels: 9.0, batched: 3.0 };
        assert!(table(&[cost(8.0, 2.0), cost(2.0, 2.0)]).ends_with("0.500 (aim: 0.5, reached).\n"));
        let missed = table(&[cost(8.0, 8.0)]);
        assert!(
            missed.contains("| X | 8.00 | 8.00 | 1.00 | 9.00 | 3.00 |") && missed.contains("not reached")
        );
    }
}
