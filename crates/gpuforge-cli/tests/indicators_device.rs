//! `gpuforge indicators --device`: GPU columns equal the CPU's within tolerance; placement and its reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod common;

use std::process::Command;

use common::{RunOutput, Sandbox, run};
use gpuforge_testkit::adapter;
use serde_json::Value;

const SELECT: &str = "rsi(14), macd(12,26,9), bbands(20,2,2), atr(14), adx(14), obv, cci(14), willr(14), \
                      sma(20), ema(20), wma(10), stddev(20), roc(10), mom(10), sar, aroon(14), typprice, natr(14), \
                      trange, max(10), kama(10), tan";

fn gpuforge(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.gpuforge(args);
    command.current_dir(sandbox.path(""));
    command
}

fn indicators(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(&mut gpuforge(sandbox, &[&["indicators"], args].concat()))
}

fn sampled(symbols: &str, bars: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let args = ["sample", "-q", "-o", "bars.csv", "--symbols", symbols, "--bars", bars];
    run(&mut gpuforge(&sandbox, &args)).ok();
    sandbox
}

/// Prices become whole ticks, for which the tolerance is stated: where they are decimals, rounding on the CPU decides
/// whether two equal differences of them are equal, and directional movements differ by that.
fn in_ticks(sandbox: &Sandbox) {
    let text = std::fs::read_to_string(sandbox.path("bars.csv")).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let price = |at: usize| ["open", "high", "low", "close"].contains(&header[at]);
    let row = |line: &str| {
        let cell = |(at, cell): (usize, &str)| match cell.parse::<f64>() {
            Ok(x) if price(at) => format!("{}", (x * 100.0).round()),
            _ => cell.to_owned(),
        };
        line.split(',').enumerate().map(cell).collect::<Vec<_>>().join(",") + "\n"
    };
    let rows: String = text.lines().map(row).collect();
    std::fs::write(sandbox.path("bars.csv"), rows).unwrap();
}

/// Rows of a CSV file as numbers, NaN where a cell is empty; keys are left out.
fn rows(sandbox: &Sandbox, name: &str) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = std::fs::read_to_string(sandbox.path(name)).unwrap();
    let mut lines = text.lines();
    let header = lines.next().unwrap().split(',').skip(2).map(str::to_owned).collect();
    let number = |cell: &str| if cell.is_empty() { f64::NAN } else { cell.parse().unwrap_or(f64::NAN) };
    (header, lines.map(|l| l.split(',').skip(2).map(number).collect()).collect())
}

/// Within 1e-4 of the column's largest magnitude, and empty at the same places.
fn assert_alike(sandbox: &Sandbox, one: &str, other: &str) {
    let ((names, a), (same, b)) = (rows(sandbox, one), rows(sandbox, other));
    assert_eq!(names, same);
    assert_eq!(a.len(), b.len());
    for (at, name) in names.iter().enumerate() {
        let column = |rows: &[Vec<f64>]| rows.iter().map(|r| r[at]).collect::<Vec<f64>>();
        let (x, y) = (column(&a), column(&b));
        let scale = x.iter().filter(|v| v.is_finite()).fold(1e-30f64, |m, v| m.max(v.abs()));
        for (t, (x, y)) in x.iter().zip(&y).enumerate() {
            let same = x.is_nan() && y.is_nan() || (x - y).abs() <= 1e-4 * scale;
            assert!(same, "{name} at row {t}: {x} and {y}, scale {scale}");
        }
    }
}

/// The same on the device; `None` without one.
fn on_device(sandbox: &Sandbox, args: &[&str]) -> Option<Value> {
    let ran = indicators(sandbox, &[&["bars.csv", "--device", "gpu", "--json"], args].concat());
    let missing = ran.code == Some(1) && ran.stderr.contains("no device can be used");
    adapter::or_skip(if missing { Err(&ran.stderr) } else { Ok(()) })?;
    Some(ran.json())
}

#[test]
fn device_columns_match_the_cpu() {
    let sandbox = sampled("30", "300");
    in_ticks(&sandbox);
    let cpu = ["bars.csv", "-o", "cpu.csv", "--select", SELECT, "--device", "cpu", "--json"];
    let report = indicators(&sandbox, &cpu).json();
    assert_eq!(report["report"]["placed"]["groups"]["gpu"], 0);
    assert!(report["report"]["placed"]["device"].is_null());
    let Some(report) = on_device(&sandbox, &["-o", "gpu.csv", "--select", SELECT]) else { return };
    let placed = &report["report"]["placed"];
    assert_eq!(placed["series"]["gpu"], 30, "{placed}");
    assert_eq!(placed["series"]["cpu"], 0);
    assert_eq!(placed["decision"]["place"], "gpu");
    assert_eq!(placed["decision"]["reason"], "it was asked for");
    // One upload and one download per batch.
    assert_eq!(placed["uploads"], placed["batches"]);
    assert_eq!(placed["downloads"], placed["batches"]);
    assert!(placed["dispatches"].as_u64().unwrap() > 0 && placed["uploaded"].as_u64().unwrap() > 0);
    // `tan` is too steep for f32, and was computed on the CPU.
    assert!(placed["columns"]["cpu"].as_u64().unwrap() >= 1, "{placed}");
    assert!(placed["columns"]["gpu"].as_u64().unwrap() >= 15, "{placed}");
    assert!(placed["device"].is_string() && placed["events"].as_array().unwrap().is_empty());
    assert_alike(&sandbox, "cpu.csv", "gpu.csv");
}

#[test]
fn a_series_with_nan_stays_on_the_cpu() {
    let sandbox = sampled("3", "120");
    let text = std::fs::read_to_string(sandbox.path("bars.csv")).unwrap();
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let close = header.iter().position(|h| *h == "close").unwrap();
    // One close of the first symbol is missing.
    let damaged = text.lines().enumerate().map(|(at, line)| {
        let mut cells: Vec<&str> = line.split(',').collect();
        if at == 40 {
            cells[close] = "NaN";
        }
        cells.join(",")
    });
    std::fs::write(sandbox.path("bars.csv"), damaged.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let select = ["--select", "rsi(14), sma(20), obv, sar"];
    indicators(&sandbox, &[&["bars.csv", "-o", "cpu.csv", "--device", "cpu"], &select[..]].concat()).ok();
    let Some(report) = on_device(&sandbox, &[&["-o", "gpu.csv"], &select[..]].concat()) else { return };
    let series = &report["report"]["placed"]["series"];
    assert_eq!((series["gpu"].as_u64(), series["cpu"].as_u64()), (Some(2), Some(1)), "{report}");
    assert_alike(&sandbox, "cpu.csv", "gpu.csv");
    // Bit-identical to the CPU.
    let first = |name: &str| {
        let text = std::fs::read_to_string(sandbox.path(name)).unwrap();
        text.lines().take(121).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(first("cpu.csv"), first("gpu.csv"));
}

#[test]
fn without_a_device_gpu_is_an_error_and_auto_is_not() {
    let sandbox = sampled("2", "100");
    let select = ["--select", "rsi(14), sma(20)"];
    let blind = |args: &[&str]| {
        let mut command = gpuforge(&sandbox, &[&["indicators", "bars.csv"], args, &select[..]].concat());
        run(command.env("VK_ICD_FILENAMES", "/nonexistent").env("VK_DRIVER_FILES", "/nonexistent"))
    };
    let asked = blind(&["-o", "gpu.csv", "--device", "gpu"]);
    if asked.code == Some(0) {
        println!("skipped: this machine has a device that does not come from a Vulkan driver file");
        return;
    }
    assert_eq!(asked.code, Some(1), "{}", asked.stderr);
    assert!(asked.stderr.contains("no device can be used"), "{}", asked.stderr);
    assert!(asked.stderr.contains("hint: `gpuforge doctor`"), "{}", asked.stderr);
    assert!(!sandbox.path("gpu.csv").exists());
    let explained = blind(&["--explain", "--device", "gpu"]);
    assert_eq!(explained.code, Some(1));
    assert!(explained.stderr.contains("no device can be used"), "{}", explained.stderr);
    blind(&["-o", "auto.csv"]).ok();
    blind(&["-o", "cpu.csv", "--device", "cpu"]).ok();
    let text = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    assert_eq!(text("auto.csv"), text("cpu.csv"));
    let plan = blind(&["--explain", "--json"]).json();
    assert_eq!(plan["plan"]["decision"]["place"], "cpu");
    assert!(plan["plan"]["decision"]["reason"].as_str().unwrap().starts_with("no device: "), "{plan}");
}

#[test]
fn auto_opens_no_device_for_small_work() {
    let sandbox = sampled("2", "100");
    let args = ["bars.csv", "-o", "auto.csv", "--select", "rsi(14)", "--json"];
    let placed = indicators(&sandbox, &args).json()["report"]["placed"].clone();
    assert_eq!(placed["decision"]["place"], "cpu");
    assert!(placed["decision"]["reason"].as_str().unwrap().contains("too little work"), "{placed}");
    assert!(placed["device"].is_null());
}

#[test]
fn the_device_setting_applies_without_a_flag() {
    let sandbox = sampled("2", "100");
    let mut command =
        gpuforge(&sandbox, &["indicators", "bars.csv", "-o", "out.csv", "--select", "rsi(14)", "--json"]);
    let placed = run(command.env("GPUFORGE_CPU_ONLY", "1")).json()["report"]["placed"].clone();
    assert_eq!(placed["decision"]["reason"], "the settings ask for it", "{placed}");
}

#[test]
fn explain_prints_the_plan_before_and_after_a_run() {
    let sandbox = sampled("4", "200");
    let args = ["bars.csv", "--select", "rsi(14), sma(20), tan, sar", "--explain"];
    let plan = indicators(&sandbox, &[&args[..], &["--json"]].concat()).json()["plan"].clone();
    assert_eq!((plan["series"].as_u64(), plan["bars"].as_u64()), (Some(4), Some(800)), "{plan}");
    let columns = plan["columns"].as_array().unwrap();
    let tan = columns.iter().find(|c| c["column"].as_str().unwrap().starts_with("tan")).unwrap();
    assert_eq!(tan["on_device"], false);
    assert!(!tan["reason"].as_str().unwrap().is_empty(), "{tan}");
    for field in ["nodes", "fused_groups", "written", "unfused"] {
        assert!(plan[field].as_u64().unwrap() > 0, "{field} in {plan}");
    }
    for field in ["up", "down", "dispatches", "pipelines", "memory", "batches"] {
        assert!(plan["load"][field].as_u64().unwrap() > 0, "{field} in {plan}");
    }
    assert!(!plan["stages"].as_array().unwrap().is_empty());
    assert!(plan["cpu_seconds"].as_f64().unwrap() > 0.0);
    assert!(plan["decision"]["reason"].is_string());
    if adapter::or_skip(plan["device"].as_str().ok_or(&plan["decision"]["reason"])).is_some() {
        let gpu = &plan["gpu"];
        for field in ["pipelines", "upload", "dispatch", "compute", "download", "total"] {
            assert!(gpu[field].as_f64().unwrap() >= 0.0, "{field} in {gpu}");
        }
        assert!(gpu["total"].as_f64().unwrap() > 0.0);
    }
    assert!(!sandbox.path("out.csv").exists());
    let said = indicators(&sandbox, &[&args[..], &["-o", "out.csv", "--device", "cpu"]].concat()).ok();
    for part in ["on the CPU: it was asked for", "stage 1: ", "measured on the CPU: "] {
        assert!(said.stdout.contains(part), "{part:?} in {}", said.stdout);
    }
    let both = indicators(&sandbox, &[&args[..], &["-o", "-"]].concat());
    assert_eq!(both.code, Some(2));
}
