//! The binary end to end: train, kill, resume, evaluate, predict; errors carry a next step.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use common::{noise, planted, write_csv};
use gpuforge_frame::write::{ColumnValues, WriteOptions, Writer};
use gpuforge_train::{checkpoint::Checkpoint, data::MarketData};

mod common;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gpuforge-train"))
}

fn train(data: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = program();
    command.args(["train", "--device", "cpu", "--indicators", "volume * 1, rsi(14)", "--window", "2"]);
    command.args(["--horizon", "1", "--hidden", "16", "--batch-size", "32", "--seed", "5"]);
    command.arg(data).arg("--out").arg(out).args(more);
    command
}

fn ok(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn killed_and_resumed_training_gives_the_same_model() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("bars.csv");
    write_csv(&planted(2, 1200, 2.0, 3).0, &data);
    let whole = directory.path().join("whole");
    let long = ["--epochs", "40", "--patience", "0", "--checkpoint-every", "7"];
    ok(train(&data, &whole, &long).output().unwrap());
    let want = fs::read(whole.join("model.safetensors")).unwrap();

    let out = directory.path().join("killed");
    let file = out.join("checkpoint.safetensors");
    let step = || Checkpoint::read(&file).map_or(0, |c| c.progress.step);
    let mut kills = 0;
    for min in [1, 150, 400, 700] {
        let mut again: Vec<&str> = long.to_vec();
        again.push("--resume");
        let mut child =
            train(&data, &out, &again).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        // At an arbitrary moment after this step was saved.
        while step() < min && began.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            kills += 1;
        }
        child.wait().unwrap();
    }
    assert!(kills > 0, "it was never killed: the training is too short for this test");
    let mut last: Vec<&str> = long.to_vec();
    last.push("--resume");
    ok(train(&data, &out, &last).output().unwrap());
    assert_eq!(fs::read(out.join("model.safetensors")).unwrap(), want, "after {kills} kills");
    assert!(kills > 0, "it was never killed");
    let left: Vec<String> =
        fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    for name in ["checkpoint.safetensors", "model.safetensors", "model.json", "report.html"] {
        assert!(left.iter().any(|l| l == name), "{left:?}");
    }
}

#[test]
fn train_evaluate_predict_end_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let (data, newer) = (directory.path().join("bars.csv"), directory.path().join("newer.csv"));
    write_csv(&planted(2, 900, 3.0, 3).0, &data);
    write_csv(&planted(2, 400, 3.0, 4).0, &newer);
    let out = directory.path().join("model");
    let text = ok(train(&data, &out, &["--epochs", "12", "--lr", "0.004", "--json"]).output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let card = &report["folds"][0];
    assert_eq!(card["split"].as_array().unwrap().len(), 3);
    assert_eq!(card["baselines"][0]["name"], "always up");
    assert!(card["test"]["accuracy"].as_f64().unwrap() > 0.65, "{}", card["test"]);

    let text = ok(program().args(["evaluate", "--json"]).arg(&out).arg(&newer).output().unwrap());
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(found["scores"]["accuracy"].as_f64().unwrap() > 0.65, "{found}");

    let predictions = directory.path().join("answers.csv");
    ok(program().arg("predict").arg(&out).arg(&newer).arg("-o").arg(&predictions).output().unwrap());
    let text = fs::read_to_string(&predictions).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), "symbol,time,answer_direction");
    let last = text.lines().last().unwrap();
    let p: f64 = last.rsplit(',').next().unwrap().parse().unwrap();
    assert!((0.0..=1.0).contains(&p), "{last}");
    // The newest bar has a prediction although its future is not known.
    assert_eq!(text.lines().count(), 1 + 2 * (400 - 14 - 63 - 1));
}

/// A directory as `gpuforge cluster features` writes it: files of some symbols each, with bars and indicators.
fn write_dataset(market: &MarketData, directory: &Path) {
    fs::create_dir(directory).unwrap();
    let names = ["open", "high", "low", "close", "volume", "rsi_14", "macd_12_26_9_signal"];
    for (at, bars) in market.bars.iter().enumerate() {
        let path = directory.join(format!("part-{at:05}.parquet"));
        let options = WriteOptions::of(&path).unwrap();
        let mut writer = Writer::create(&path, &market.layout, &names.map(str::to_owned), &options).unwrap();
        let none = vec![f64::NAN; bars.len()];
        let columns = [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume, &none, &none];
        writer.write(bars.symbol.as_ref(), &bars.time, &columns.map(|c| ColumnValues::all(c))).unwrap();
        writer.finish().unwrap();
    }
}

#[test]
fn partitioned_dataset_trains_the_same_model() {
    let directory = tempfile::tempdir().unwrap();
    let market = planted(3, 600, 3.0, 3).0;
    let (data, parts) = (directory.path().join("bars.csv"), directory.path().join("dataset"));
    write_csv(&market, &data);
    write_dataset(&market, &parts);
    let model = |data: &Path, name: &str| {
        let out = directory.path().join(name);
        ok(train(data, &out, &["--epochs", "2"]).output().unwrap());
        fs::read(out.join("model.safetensors")).unwrap()
    };
    assert_eq!(model(&data, "one"), model(&parts, "several"), "the same bars, the same model");
}

#[test]
fn every_walk_forward_fold_is_trained() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("bars.csv");
    write_csv(&noise(2, 500, 3), &data);
    let out = directory.path().join("folds");
    let output = train(&data, &out, &["--epochs", "1", "--folds", "2"]).output().unwrap();
    let console = String::from_utf8_lossy(&output.stderr).into_owned();
    ok(output);
    assert!(
        console.contains("fold 2/2") && console.contains("embargo 1") && console.contains("validation"),
        "{console}"
    );
    assert!(out.join("fold-1/model.json").exists() && out.join("fold-2/report.html").exists());
}

#[test]
fn errors_carry_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("bars.csv");
    write_csv(&noise(1, 60, 3), &data);
    let fails = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let short = fails(train(&data, &directory.path().join("x"), &[]));
    assert!(short.contains("the longest of 1 series has 60 bars") && short.contains("hint:"), "{short}");
    let model = fails({
        let mut command = program();
        command.arg("evaluate").arg(directory.path().join("nothing")).arg(&data);
        command
    });
    assert!(model.contains("model.json"), "{model}");
    let target = fails(train(&data, &directory.path().join("x"), &["--target", "luck"]));
    assert!(target.contains("triple-barrier"), "{target}");
    let batch = fails(train(&data, &directory.path().join("x"), &["--batch-size", "0"]));
    assert!(batch.contains("auto"), "{batch}");
}
