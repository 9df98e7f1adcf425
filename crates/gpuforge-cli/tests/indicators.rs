//! Does `gpuforge indicators` write what the library computes, in little memory, and say what is wrong with an input?
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use common::{Ran, World, run};
use gpuforge::{
    frame::{
        Bars, Layout,
        names::{Mapping, Role},
        read::{Input, ReadOptions, read},
    },
    indicators::{
        exec::{self, How},
        select::{Convention, Selector, plan},
    },
    market::series,
};
use serde_json::{Value, json};

/// A command of the test's folder, so that names stay short.
fn gpuforge(world: &World, args: &[&str]) -> Command {
    let mut command = world.gpuforge(args);
    command.current_dir(world.path(""));
    command
}

fn indicators(world: &World, args: &[&str]) -> Ran {
    run(&mut gpuforge(world, &[&["indicators"], args].concat()))
}

/// What a run said, without the last line: what was recognised in the input.
fn warnings(ran: &Ran) -> String {
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    let last = lines.pop().unwrap_or_default();
    assert!(last.starts_with("input: ") && last.contains("time="), "{}", ran.stderr);
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Bars of a few symbols, made by the program itself.
fn sampled(file: &str, args: &[&str]) -> World {
    let world = World::new();
    run(&mut gpuforge(&world, &[&["sample", "-q", "-o", file], args].concat())).ok();
    world
}

fn write(world: &World, name: &str, text: &str) {
    std::fs::write(world.path(name), text).unwrap();
}

fn text(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.path(name)).unwrap()
}

fn load(path: &Path, mapping: Mapping, needed: &[Role]) -> (Layout, Vec<Bars>) {
    let options = ReadOptions { mapping, needed: needed.to_vec(), ..ReadOptions::default() };
    let (layout, bars, _) = read(&Input::new([path]), options).unwrap();
    (layout, bars)
}

/// A column that was written, symbol after symbol, as bits; NaN where there is none.
fn column(world: &World, file: &str, name: &str) -> Vec<u64> {
    let mut mapping = Mapping::default();
    mapping.parse(&format!("close={name}")).unwrap();
    let (_, bars) = load(&world.path(file), mapping, &[Role::Close]);
    bars.iter().flat_map(|b| b.close.iter().map(|x| bits(*x))).collect()
}

/// Every NaN is the same here.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// Names and bits of what the library computes of the same bars.
fn computed(world: &World, file: &str, convention: Convention, select: &str) -> Vec<(String, Vec<u64>)> {
    let all = [Role::Open, Role::High, Role::Low, Role::Close, Role::Volume];
    let (layout, bars) = load(&world.path(file), Mapping::default(), &all);
    let selection = plan(&Selector::by(convention).select(select).unwrap());
    let mut columns: Vec<(String, Vec<u64>)> =
        selection.columns.iter().map(|name| (name.clone(), Vec::new())).collect();
    for bars in &bars {
        let seconds = layout.seconds(&bars.time);
        let found = exec::run(&selection.plan, &[series(bars, &seconds)], How::default()).remove(0);
        columns.iter_mut().zip(found).for_each(|((_, all), new)| all.extend(new.iter().map(|x| bits(*x))));
    }
    columns
}

const SELECT: &str = "rsi(14), macd(12,26,9), bbands(20,2,2), obv, atr(14)";

#[test]
fn every_format_has_the_values_of_the_library() {
    let world = sampled("bars.parquet", &["--symbols", "3", "--bars", "500", "--gaps"]);
    let want = computed(&world, "bars.parquet", Convention::TaLib, SELECT);
    let (keys, _) = load(&world.path("bars.parquet"), Mapping::default(), &[Role::Close]);
    for file in ["out.parquet", "out.arrow", "out.csv", "out.tsv"] {
        let said = indicators(&world, &["bars.parquet", "-o", file, "--select", SELECT]).ok();
        assert!(said.stdout.contains(&format!("of 3 symbols, {} columns", want.len())), "{}", said.stdout);
        assert!(said.stdout.contains(file) && warnings(&said).is_empty(), "{}", said.stderr);
        for (name, values) in &want {
            assert!(column(&world, file, name) == *values, "{name} of {file}");
        }
        let mut mapping = Mapping::default();
        mapping.parse("close=rsi_14").unwrap();
        let (written, _) = load(&world.path(file), mapping, &[Role::Close]);
        assert_eq!(written, keys, "{file}");
    }
    let csv = text(&world, "out.csv");
    let header = "symbol,time,rsi_14,macd_12_26_9,macd_12_26_9_signal,macd_12_26_9_hist,bbands_20_2_2_upper,\
                  bbands_20_2_2_middle,bbands_20_2_2_lower,obv,atr_14";
    assert_eq!(csv.lines().next().unwrap(), header);
    let cells: Vec<&str> = csv.lines().skip(1).map(|row| row.split(',').nth(2).unwrap()).collect();
    assert!(cells[..14].iter().all(|cell| cell.is_empty()) && !cells[14].is_empty(), "{:?}", &cells[..16]);
}

#[test]
fn threads_change_no_byte_and_precision_halves_the_size() {
    let world = sampled("bars.parquet", &["--symbols", "9", "--bars", "2000"]);
    let go = |file: &str, more: &[&str]| {
        let args = [&["bars.parquet", "-o", file, "--select", "set:classic111"], more].concat();
        indicators(&world, &args).ok();
        std::fs::read(world.path(file)).unwrap()
    };
    let one = go("one.parquet", &["--threads", "1"]);
    assert!(one == go("two.parquet", &["--threads", "2"]));
    assert!(one == go("cpu.parquet", &["--device", "cpu"]));
    let half = go("half.parquet", &["--precision", "f32"]);
    assert!(half.len() * 10 < one.len() * 7, "{} of {}", half.len(), one.len());
    let single = |b: &u64| bits(f64::from(f64::from_bits(*b) as f32));
    let want: Vec<u64> = column(&world, "one.parquet", "ema_20").iter().map(single).collect();
    assert!(column(&world, "half.parquet", "ema_20") == want, "rounded once");
}

/// Results that do not fit go to a device through a temporary file; where none can be made, the processor computes them, and
/// the run says so.
#[test]
fn a_device_without_room_for_a_temporary_file_leaves_the_work_to_the_processor() {
    let world = sampled("bars.parquet", &["--symbols", "2", "--bars", "5000"]);
    let args = ["bars.parquet", "--select", "set:classic111", "--memory-limit", "4MiB", "-o"];
    let on_cpu = [&args[..], &["cpu.parquet"]].concat();
    indicators(&world, &on_cpu).ok();
    let asked = [&["indicators"], &args[..], &["gpu.parquet", "--device", "gpu"]].concat();
    let there = run(&mut gpuforge(&world, &[&asked[..], &["--json"]].concat()));
    if there.code == Some(1) && there.stderr.contains("no device") {
        println!("skipped: no device can be opened here: {}", there.stderr);
        return;
    }
    assert_eq!(there.json()["report"]["placed"]["groups"], serde_json::json!({"cpu": 0, "gpu": 2}));
    let ran = run(gpuforge(&world, &asked).env("TMPDIR", world.path("nowhere"))).ok();
    assert!(ran.stderr.contains("nothing was computed on a device"), "{}", ran.stderr);
    assert!(ran.stderr.contains("temporary file"), "{}", ran.stderr);
    let files = ["cpu.parquet", "gpu.parquet"].map(|name| std::fs::read(world.path(name)).unwrap());
    assert!(files[0] == files[1]);
}

#[test]
fn bars_come_along_and_files_come_together() {
    let world = World::new();
    std::fs::create_dir(world.path("data")).unwrap();
    write(&world, "data/AAA.csv", "Date,Close,Volume\n2024-01-01,1,5\n2024-01-02,2,6\n2024-01-03,4,7\n");
    write(&world, "data/BBB.csv", "Date,Close,Volume\n2024-01-02,10,8\n2024-01-03,20,9\n");
    let want = "symbol,Date,sma_2\nAAA,2024-01-01,\nAAA,2024-01-02,1.5\nAAA,2024-01-03,3.0\n\
                BBB,2024-01-02,\nBBB,2024-01-03,15.0\n";
    for inputs in [&["data/AAA.csv", "data/BBB.csv"][..], &["data/*.csv"], &["data"]] {
        let ran = indicators(&world, &[inputs, &["-o", "-", "--select", "sma(2)"]].concat()).ok();
        assert_eq!((ran.stdout.as_str(), warnings(&ran).as_str()), (want, ""), "{inputs:?}");
    }
    write(&world, "bars.csv", "when,ticker,o,h,l,c,v\n2024-01-01,X,1,3,0.5,2,10\n2024-01-02,X,2,5,1,4,20\n");
    let ran = indicators(
        &world,
        &["bars.csv", "-o", "-", "--select", "sma(2)", "--with-bars", "--column", "time=when"],
    );
    assert_eq!(
        ran.ok().stdout,
        "when,ticker,open,high,low,close,volume,sma_2\n\
         2024-01-01,X,1.0,3.0,0.5,2.0,10.0,\n2024-01-02,X,2.0,5.0,1.0,4.0,20.0,3.0\n"
    );
    let ran = indicators(
        &world,
        &["bars.csv", "-o", "-", "--select", "sma(1)", "--column", "close=h", "--column", "time=when"],
    );
    assert!(ran.ok().stdout.ends_with("2024-01-02,X,5.0\n"));
}

#[test]
fn stdin_is_an_input() {
    let world = sampled("bars.parquet", &["--symbols", "2", "--bars", "100"]);
    run(&mut gpuforge(&world, &["sample", "-q", "-o", "bars.csv", "--symbols", "2", "--bars", "100"])).ok();
    let mut said = Vec::new();
    for file in ["bars.parquet", "bars.csv"] {
        let bytes = std::fs::read(world.path(file)).unwrap();
        let mut child = gpuforge(&world, &["indicators", "-", "-o", "-", "--select", "ema(5)"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{file}");
        said.push(output.stdout);
    }
    let file = indicators(&world, &["bars.parquet", "-o", "-", "--select", "ema(5)"]).ok().stdout;
    assert!(said.iter().all(|s| s == file.as_bytes()));
}

#[test]
fn definitions_have_names_and_can_be_selected() {
    let world = sampled("bars.csv", &["--symbols", "1", "--bars", "60"]);
    let spread = ["--define", "spread = ema(close,5) - ema(close,20)"];
    let base = ["bars.csv", "-o", "-"];
    let alone = indicators(&world, &[&base[..], &spread].concat()).ok().stdout;
    assert_eq!(alone.lines().next(), Some("symbol,time,spread"));
    let both =
        ["--define", "twice = spread * 2", "--select", "twice, sma(3, source=spread)", "--select", "spread"];
    let reused = indicators(&world, &[&base[..], &spread, &both].concat()).ok().stdout;
    let rows: Vec<Vec<&str>> = reused.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows[0][2..], ["twice", "sma_3_spread", "spread"]);
    assert_eq!(
        rows[20],
        [rows[20][0], rows[20][1], rows[20][2], "", rows[20][4]],
        "19 bars before the slow mean"
    );
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    assert_eq!(number(rows[40][2]), 2.0 * number(rows[40][4]));
    assert!(
        rows.iter().skip(1).map(|r| r[4]).eq(alone.lines().skip(1).map(|r| r.split(',').nth(2).unwrap()))
    );
}

#[test]
fn the_convention_of_pandas_is_a_flag() {
    let world = sampled("bars.parquet", &["--symbols", "2", "--bars", "400"]);
    let args = ["bars.parquet", "-o", "out.parquet", "--select", "set:classic111", "--convention"];
    let json = indicators(&world, &[&args[..], &["pandas", "--json"]].concat()).json();
    assert_eq!(json["column_names"].as_array().unwrap().len(), 111);
    let want = computed(&world, "bars.parquet", Convention::Pandas, "ema(20), rsi(14), atr(14), bbw(20)");
    for (name, values) in &want {
        assert!(column(&world, "out.parquet", name) == *values, "{name}");
    }
    indicators(&world, &[&args[..], &["talib"]].concat()).ok();
    for (name, values) in &want {
        assert!(column(&world, "out.parquet", name) != *values, "{name}");
    }
}

#[test]
fn a_program_reads_the_report() {
    let world = sampled("bars.csv", &["--symbols", "2", "--bars", "50"]);
    let json =
        indicators(&world, &["bars.csv", "-o", "out.csv", "--select", "rsi(7|9)", "--check", "--json"])
            .json();
    assert_eq!((&json["output"], &json["column_names"]), (&json!("out.csv"), &json!(["rsi_7", "rsi_9"])));
    let report = &json["report"];
    for (field, value) in [("rows", 100), ("symbols", 2), ("columns", 2), ("skipped", 0), ("duplicates", 0)] {
        assert_eq!(report[field], value, "{field}");
    }
    assert_eq!((&report["findings"], &report["spilled"]), (&json!([]), &json!(false)));
    assert_eq!(report["bytes"], world.path("out.csv").metadata().unwrap().len());
    for field in ["read", "compute", "write", "total"] {
        assert!(report["seconds"][field].as_f64().unwrap() > 0.0, "{field}");
    }
}

/// The most memory that a run had, in MiB.
#[cfg(target_os = "linux")]
fn peak(command: &mut Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    let code = loop {
        // The kernel keeps the highest; what is missed is what comes in the last milliseconds.
        let now = std::fs::read_to_string(&status).unwrap_or_default();
        let high = now
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        most = most.max(high.unwrap_or(0) / 1024);
        match child.try_wait().unwrap() {
            Some(code) => break code,
            None => std::thread::sleep(std::time::Duration::from_millis(2)),
        }
    };
    assert!(code.success());
    most
}

/// 30 symbols of 100 000 bars, 29 columns: 670 MiB of results. What `all` needs beyond that is tested below.
#[cfg(target_os = "linux")]
#[test]
fn memory_follows_the_limit_and_not_the_size() {
    let world = sampled("large.parquet", &["--bars", "100000"]);
    run(&mut gpuforge(
        &world,
        &["sample", "-q", "-o", "small.parquet", "--symbols", "10", "--bars", "100000"],
    ))
    .ok();
    let select = "set:averages, rsi(7|9|14|21|25), atr(7|10|14|20|30), macd, bbands";
    let go = |bars: &str, out: &str, limit: &str| {
        let args = ["indicators", bars, "-o", out, "--select", select, "--memory-limit", limit];
        peak(&mut gpuforge(&world, &args))
    };
    let free = go("large.parquet", "free.parquet", "none");
    assert!(free <= 1024, "{free} MiB without a limit");
    let [small, large] =
        ["small", "large"].map(|name| go(&format!("{name}.parquet"), "tight.parquet", "64MiB"));
    // The program itself, and one group of rows that is being encoded.
    assert!(large <= 64 + 128, "{large} MiB with a limit of 64 MiB");
    assert!(large <= small + 32, "{large} MiB, and {small} MiB for a third of it");
    let files = ["free.parquet", "tight.parquet"].map(|name| std::fs::read(world.path(name)).unwrap());
    assert!(files[0] == files[1], "bars that waited in a temporary file have other values");
}

/// A column that looks ahead needs its whole series; the other 439 do not.
#[cfg(target_os = "linux")]
#[test]
fn everything_at_once_needs_little_memory_too() {
    let world = sampled("bars.parquet", &["--symbols", "1", "--bars", "200000"]);
    let args =
        ["indicators", "bars.parquet", "-o", "out.parquet", "--select", "all", "--memory-limit", "64MiB"];
    let all = peak(&mut gpuforge(&world, &args));
    assert!(all <= 64 + 320, "{all} MiB for 670 MiB of results");
}

#[test]
fn more_bars_than_the_limit_wait_in_a_file() {
    let world = sampled("bars.parquet", &["--symbols", "3", "--bars", "20000"]);
    let args = ["bars.parquet", "-o", "out.csv", "--select", "rsi(14), sma(200)"];
    let free = indicators(&world, &args).ok();
    assert!(!free.stdout.contains("temporary file"));
    let want = text(&world, "out.csv");
    let tight = [&args[..], &["--memory-limit", "1MiB"]].concat();
    let said = indicators(&world, &tight).ok().stdout;
    assert!(said.contains("did not fit the memory limit"), "{said}");
    assert!(text(&world, "out.csv") == want);
    assert_eq!(indicators(&world, &[&tight[..], &["--json"]].concat()).json()["report"]["spilled"], true);
    let ahead = ["bars.parquet", "-o", "out.csv", "--select", "avwap_final", "--memory-limit", "1MiB"];
    let ran = indicators(&world, &ahead);
    assert!(ran.code == Some(1) && ran.stderr.contains("avwap_final"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: raise --memory-limit"), "{}", ran.stderr);
}

/// Runs over an input that cannot be used: what was there stays, nothing half-written is left.
fn refused(world: &World, input: &str, more: &[&str], code: i32, parts: &[&str]) {
    let folder = world.path("out");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("out.parquet"), "old").unwrap();
    let ran = indicators(world, &[&[input, "-o", "out/out.parquet"], more].concat());
    assert_eq!(ran.code, Some(code), "{input} {more:?}: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{input}: {}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{input} {more:?}: {part:?} in {}", ran.stderr);
    }
    assert_eq!(std::fs::read_to_string(folder.join("out.parquet")).unwrap(), "old", "{input}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{input}");
}

#[test]
fn bad_input_is_named_with_the_next_step() {
    let world = sampled("whole.parquet", &["--symbols", "2", "--bars", "3000"]);
    let whole = std::fs::read(world.path("whole.parquet")).unwrap();
    std::fs::write(world.path("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    write(&world, "junk.parquet", "hello world");
    for name in ["empty.csv", "empty.parquet"] {
        write(&world, name, "");
    }
    for (name, rows) in [
        ("no_volume.csv", "symbol,time,open,high,low,close\nA,2024-01-01,1,2,0.5,1.5\n"),
        ("twice.csv", "symbol,time,close\nA,2024-01-03,3\nA,2024-01-01,1\nA,2024-01-03,4\n"),
        ("word.csv", "symbol,time,close\nA,2024-01-01,3\nA,2024-01-02,abc\n"),
        ("short.csv", "symbol,time,close\nA,2024-01-01,3\nA,2024-01-02\n"),
        ("moment.csv", "symbol,time,close\nA,2024-01-01,3\nA,17,3\n"),
        ("escape.csv", "symbol,time,close\nA,2024-01-01,\u{1b}[31mred\n"),
    ] {
        write(&world, name, rows);
    }
    for (input, more, parts) in [
        (
            "no_volume.csv",
            &["--select", "obv"][..],
            &[
                "no_volume.csv: the volume column is missing",
                "found: symbol, time, open, high, low, close",
                "--column volume=",
            ][..],
        ),
        ("no_volume.csv", &["--select", "sma(1)", "--with-bars"], &["the volume column is missing"]),
        (
            "no_volume.csv",
            &["--select", "sma(1)", "--column", "close=cloze"],
            &["no column `cloze` for close", "hint: did you mean --column close=close?"],
        ),
        (
            "twice.csv",
            &["--select", "sma(1)"],
            &[
                "twice.csv: row 3",
                "2024-01-03 of `A` is in row 1",
                "hint: keep one of them: --duplicates first|last",
            ],
        ),
        (
            "word.csv",
            &["--select", "sma(1)"],
            &["word.csv: row 2, column `close`: `abc` is not a number", "hint:", "--skip-bad"],
        ),
        ("short.csv", &["--select", "sma(1)"], &["short.csv: row 2, column `close`: the row has 2 cells"]),
        ("moment.csv", &["--select", "sma(1)"], &["moment.csv: row 2, column `time`", "plain number"]),
        ("escape.csv", &["--select", "sma(1)"], &["row 1, column `close`", "\\u{1b}[31mred"]),
        (
            "cut.parquet",
            &["--select", "sma(1)"],
            &["cut.parquet: the Parquet file is damaged or incomplete", "hint:"],
        ),
        ("junk.parquet", &["--select", "sma(1)"], &["junk.parquet: the name says Parquet", "hint:"]),
        ("empty.csv", &["--select", "sma(1)"], &["empty.csv: the file is empty", "hint:"]),
        ("empty.parquet", &["--select", "sma(1)"], &["empty.parquet: the file is empty", "hint:"]),
        ("missing.csv", &["--select", "sma(1)"], &["cannot read missing.csv", "hint: check the path"]),
        ("*.nothing", &["--select", "sma(1)"], &["no file matches `*.nothing`", "hint:"]),
    ] {
        refused(&world, input, more, 1, parts);
    }
    write(&world, "other.csv", "symbol,time,close\nA,17,3\n");
    let mixed = ["word.csv", "other.csv", "-o", "out/out.parquet", "--select", "sma(1)"];
    let ran = indicators(&world, &mixed);
    assert!(
        ran.code == Some(1)
            && ran.stderr.contains("other.csv: the time is Int64 here and Date32 in word.csv"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_can_be_mended_is_mended_and_said() {
    let world = World::new();
    let go = |rows: &str, more: &[&str]| {
        write(&world, "bars.csv", &format!("symbol,time,close\n{rows}"));
        indicators(&world, &[&["bars.csv", "-o", "-", "--select", "sma(2)"], more].concat()).ok()
    };
    let sorted = go("A,2024-01-03,3\nA,2024-01-01,1\nB,2024-01-01,1\nA,2024-01-02,2\n", &[]);
    assert_eq!(
        sorted.stdout,
        "symbol,time,sma_2\nA,2024-01-01,\nA,2024-01-02,1.5\nA,2024-01-03,2.5\nB,2024-01-01,\n"
    );
    assert_eq!(warnings(&sorted), "warning: input: 1 symbol not in time order: sorted here\n");
    let twice = "A,2024-01-01,1\nA,2024-01-02,2\nA,2024-01-02,4\n";
    for (which, mean) in [("first", "1.5"), ("last", "2.5")] {
        let ran = go(twice, &["--duplicates", which]);
        assert!(ran.stdout.ends_with(&format!("A,2024-01-02,{mean}\n")), "{}", ran.stdout);
        assert_eq!(warnings(&ran), "warning: input: 1 row left out whose time came twice\n");
    }
    let bad = "A,2024-01-01,1\nA,2024-01-02,abc\nA,soon,4\nA,2024-01-04\nA,2024-01-05,,\nA,2024-01-06,5\n";
    let ran = go(bad, &["--skip-bad"]);
    assert_eq!(ran.stdout, "symbol,time,sma_2\nA,2024-01-01,\nA,2024-01-06,3.0\n");
    assert!(
        ran.stderr.starts_with("warning: input: 4 rows left out that could not be read: "),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("row 2, column `close`: `abc`") && warnings(&ran).ends_with("; …\n"),
        "{}",
        ran.stderr
    );
    assert!(go(bad, &["--skip-bad", "-q"]).stderr.is_empty());
    let nothing = go("", &["--check"]);
    assert_eq!(nothing.stdout, "symbol,time,sma_2\n");
    assert!(nothing.stderr.contains("there are no bars"), "{}", nothing.stderr);
    let one = go("A,2024-01-01,1\nB,2024-01-01,1\nB,2024-01-02,2\n", &[]);
    assert_eq!(one.stdout, "symbol,time,sma_2\nA,2024-01-01,\nB,2024-01-01,\nB,2024-01-02,1.5\n");
}

#[test]
fn columns_that_say_nothing_are_reported() {
    let world = World::new();
    let still: String = (10..40).map(|day| format!("S,2024-01-01T00:{day}:00Z,50\n")).collect();
    let moves: String = (10..40).map(|day| format!("M,2024-01-01T00:{day}:00Z,{}\n", day % 7)).collect();
    write(&world, "bars.csv", &format!("symbol,time,close\n{still}{moves}"));
    let select = "sma(5), 1 / close, (close - close) / (close - close), ema(3)";
    let args = ["bars.csv", "-o", "out.csv", "--select", select, "--check"];
    let ran = indicators(&world, &args).ok();
    for part in [
        "warning: check: sma_5 is constant in 1 of 2 symbols, S among them\n",
        "is infinite in 4 rows in 1 of 2 symbols: M, 13 %, first at row 4 (2024-01-01T00:14:00Z)\n",
        "has no value at all in 2 of 2 symbols, S among them\n",
    ] {
        assert!(ran.stderr.contains(part), "{part:?} in {}", ran.stderr);
    }
    assert!(ran.stdout.contains("check: 6 findings, 1 in bars and 5 in columns"), "{}", ran.stdout);
    let found = indicators(&world, &[&args[..], &["--json"]].concat()).json();
    let found = found["report"]["findings"].as_array().unwrap().clone();
    let constant = found.iter().find(|f| f["column"] == "sma_5").unwrap();
    for (field, value) in [
        ("scope", json!("column")),
        ("problem", json!("constant")),
        ("symbols", json!(1)),
        ("example", json!("S")),
        ("count", json!(26)),
        ("share", json!(0.5)),
        ("first_row", json!(4)),
        ("first_time", json!("2024-01-01T00:14:00Z")),
    ] {
        assert_eq!(constant[field], value, "{field}");
    }
    let fine = indicators(
        &world,
        &["bars.csv", "-o", "out.csv", "--select", "rsi(5)", "--column", "close=time", "--check"],
    );
    assert_ne!(fine.code, Some(0), "a time is no price: {}", fine.stdout);
    let many: Vec<String> = (2..22).map(|n| format!("sma({n})")).collect();
    let ran = indicators(&world, &["bars.csv", "-o", "out.csv", "--select", &many.join(","), "--check"]).ok();
    assert!(ran.stderr.contains("9 more findings\nhint: --json has all of them"), "{}", ran.stderr);
}

#[test]
fn wrong_usage_ends_with_two() {
    let world = sampled("bars.csv", &["--symbols", "1", "--bars", "30"]);
    let out = ["-o", "out.csv"];
    for (args, parts) in [
        (
            &["--select", "sma(20), sam(3)"][..],
            &[
                "there is no indicator `sam`; did you mean `sma`?",
                "  sma(20), sam(3)\n           ^\n",
                "hint: `gpuforge indicators list`",
            ][..],
        ),
        (&["--select", "rsi(1.5)"], &["`period` of `rsi` must be a whole number"]),
        (&[], &["nothing is selected", "hint: --select"]),
        (&["--select", ""], &["nothing is selected"]),
        (&["--select", "rsi", "--device", "tpu"], &["auto, cpu, gpu"]),
        (
            &["--select", "rsi", "--column", "clos=px"],
            &["`clos` is nothing a column can be", "hint: --column ROLE=NAME"],
        ),
        (&["--select", "rsi", "--threads", "0"], &["--threads"]),
        (&["--select", "rsi", "--precision", "f16"], &["f64, f32"]),
        (&["--select", "rsi", "--memory-limit", "1x"], &["8GiB"]),
        (&["--define", "rsi = close"], &["`rsi` is taken already"]),
    ] {
        let ran = indicators(&world, &[&["bars.csv"], &out[..], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {part:?} in {}", ran.stderr);
        }
    }
    for (args, parts) in [
        (&["-o", "out.csv", "--select", "rsi"][..], &["no input", "gpuforge sample"][..]),
        (&["bars.csv", "--select", "rsi"], &["no output", "-o out.parquet"]),
        (&["bars.csv", "-o", "-", "--select", "rsi", "--json"], &["stdout"]),
        (&["bars.csv", "-o", "bars.csv", "--select", "rsi"], &["bars.csv is the input and the output"]),
        (&["bars.csv", "-o", "./bars.csv", "--select", "rsi"], &["its bars would be lost"]),
    ] {
        let ran = indicators(&world, args);
        assert!(ran.code == Some(2) && ran.stdout.is_empty(), "{args:?}: {}", ran.stderr);
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{args:?}: {}", ran.stderr);
    }
    assert!(!world.path("out.csv").exists());
}

#[test]
fn what_cannot_be_written_is_an_error_with_a_next_step() {
    let world = sampled("bars.csv", &["--symbols", "1", "--bars", "30"]);
    for (output, parts) in [
        ("no/such/out.csv", &["no/such/out.csv", "folders are not created"][..]),
        ("out.xlsx", &["out.xlsx", ".parquet"]),
        (".", &["hint:"]),
    ] {
        let ran = indicators(&world, &["bars.csv", "-o", output, "--select", "rsi"]);
        assert_eq!(ran.code, Some(1), "{output}: {}", ran.stderr);
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{output}: {}", ran.stderr);
    }
    let ran = indicators(&world, &["bars.csv", "-o", "no/out.csv", "--select", "rsi", "--json"]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(ran.stdout.is_empty() && error["error"]["hint"].is_string(), "{error}");
    let clash = indicators(
        &world,
        &["bars.csv", "-o", "out.csv", "--define", "time2 = close", "--define", "symbol = close"],
    );
    assert!(
        clash.code == Some(1) && clash.stderr.contains("two columns would be called `symbol`"),
        "{}",
        clash.stderr
    );
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let world = sampled("bars.parquet", &["--symbols", "2", "--bars", "5000"]);
    let folder = world.path("out");
    std::fs::create_dir(&folder).unwrap();
    for ending in ["parquet", "arrow", "csv"] {
        let file = folder.join(format!("out.{ending}"));
        std::fs::write(&file, "old").unwrap();
        let name = format!("out/out.{ending}");
        let command =
            gpuforge(&world, &["indicators", "bars.parquet", "-o", &name, "--select", "set:classic111"]);
        // With the signal ignored, a file beyond the limit is an error like a full disk; 100 blocks are 50 to 100 kB.
        let mut limited = Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""]).arg(command.get_program());
        limited.args(command.get_args()).current_dir(world.path(""));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        let ran = run(&mut limited);
        assert_eq!(ran.code, Some(1), "{ending}: {}", ran.stderr);
        assert!(ran.stderr.contains(&name) && ran.stderr.contains("nothing half-written"), "{}", ran.stderr);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "{ending}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{ending}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_fails_and_a_closed_one_does_not() {
    let world = sampled("bars.parquet", &["--symbols", "5", "--bars", "5000"]);
    let args = ["indicators", "bars.parquet", "-o", "-", "--select", "set:averages"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = gpuforge(&world, &args).stdout(full).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(1) && said.contains("hint: free some space"), "{said}");
    let mut child = gpuforge(&world, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    // Nothing of a result is on the pipe when the input turns out to be bad.
    write(&world, "bad.csv", "symbol,time,close\nA,2024-01-01,abc\n");
    assert_eq!(indicators(&world, &["bad.csv", "-o", "-", "--select", "rsi"]).stdout, "");
}

#[test]
fn lines_fit_and_pipes_have_no_colour() {
    let world = sampled("bars.csv", &["--symbols", "3", "--bars", "400"]);
    let args =
        ["indicators", "bars.csv", "-o", "out.csv", "--select", "set:classic111, 1 + 2", "--check", "-v"];
    for (color, escapes) in [("auto", false), ("never", false), ("always", true)] {
        let args = [&args[..], &["--color", color]].concat();
        let ran = run(gpuforge(&world, &args).env("COLUMNS", "60")).ok();
        assert_eq!(ran.stdout.contains('\u{1b}'), escapes, "{color}");
        assert!(escapes || !ran.stderr.contains('\u{1b}'), "{color}");
        for line in ran.stdout.lines().filter(|_| !escapes) {
            assert!(line.chars().count() <= 60, "{line:?}");
        }
        assert!(escapes || ran.stdout.contains("columns: sma_10, sma_20,"), "{}", ran.stdout);
    }
    let plain = run(gpuforge(&world, &args).env("NO_COLOR", "1")).ok();
    assert!(!plain.stdout.contains('\u{1b}') && !plain.stderr.contains('\u{1b}'));
    let help = run(gpuforge(&world, &["indicators", "--help"]).env("COLUMNS", "80")).ok().stdout;
    for part in ["Bars:", "Indicators:", "Examples:", "--select", "--memory-limit", "Most memory in use"] {
        assert!(help.contains(part), "{part:?} in\n{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
}
