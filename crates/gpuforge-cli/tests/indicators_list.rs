//! `gpuforge indicators list` and `show`: text and JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails loudly"
)]

mod common;

use common::{Sandbox, run};
use serde_json::{Value, json};

fn listed(args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["indicators", "list", "--json"].iter().chain(args).copied().collect();
    run(&mut Sandbox::new().gpuforge(&args)).json().as_array().unwrap().clone()
}

fn columns(rows: &[Value]) -> Vec<String> {
    let outputs = rows.iter().flat_map(|row| row["outputs"].as_array().unwrap());
    outputs.map(|o| o["column"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn list_json_has_every_indicator() {
    let rows = listed(&[]);
    let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
    assert_eq!((of("indicator"), of("candlestick")), (229, 61));
    for row in &rows {
        for field in [
            "name", "aliases", "group", "params", "inputs", "sources", "outputs", "lookback", "causal",
            "oracle", "kind", "doc",
        ] {
            assert!(!row[field].is_null(), "{field} of {row}");
        }
        assert!(["ta-lib", "reference"].contains(&row["oracle"].as_str().unwrap()), "{row}");
    }
    let rsi = rows.iter().find(|row| row["name"] == "rsi").unwrap();
    assert_eq!(rsi["params"], json!([{"name": "period", "default": 14, "min": 2, "max": 100_000}]));
    assert_eq!((&rsi["aliases"][0], &rsi["lookback"]), (&json!("RSI"), &json!(14)));
}

#[test]
fn a_selection_lists_its_output_columns() {
    let rows = listed(&["--select", "rsi(7|9), macd(12,26,9).signal, bbands(20,2,2), rsi(9)"]);
    assert_eq!(
        columns(&rows),
        [
            "rsi_7",
            "rsi_9",
            "macd_12_26_9_signal",
            "bbands_20_2_2_upper",
            "bbands_20_2_2_middle",
            "bbands_20_2_2_lower"
        ]
    );
    assert_eq!(columns(&listed(&["--select", "set:classic111"])).len(), 111);
    let spread = ["--define", "spread = ema(close,5) - ema(close,20)", "--select", "spread, close - open"];
    let rows = listed(&spread);
    assert_eq!((&rows[0]["kind"], &rows[0]["lookback"]), (&json!("expression"), &json!(19)));
    assert_eq!(columns(&rows), ["spread", "close - open"]);
}

#[test]
fn list_fits_the_terminal() {
    let sandbox = Sandbox::new();
    for width in ["60", "100"] {
        let ran = run(sandbox.gpuforge(&["indicators", "list"]).env("COLUMNS", width)).ok();
        assert!(!ran.stdout.contains('\u{1b}'), "a pipe has no colour");
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= width.parse().unwrap(), "{width}: {line:?}");
        }
        for part in ["momentum\n", "  rsi · period 14\n", "macd · fast 12 · slow 26 · signal 9"] {
            assert!(ran.stdout.contains(part), "{part:?} in\n{}", ran.stdout);
        }
    }
    let some = run(&mut sandbox.gpuforge(&["indicators", "list", "--select", "rsi(7|9)"])).ok().stdout;
    assert!(some.contains("rsi · period 7 · → rsi_7") && some.contains("rsi_9"), "{some}");
}

#[test]
fn show_has_every_section() {
    let sandbox = Sandbox::new();
    let text = run(sandbox.gpuforge(&["indicators", "show", "BBANDS"]).env("COLUMNS", "80")).ok().stdout;
    for part in [
        "bbands · bands · indicator",
        "Bollinger Bands",
        "aliases     BBANDS",
        "inputs      close",
        "period 20 (whole, 2 to 100000)",
        "upper → bbands_20_2_2_upper",
        "first bar   19",
        "causal      yes",
        "tested by   TA-Lib",
        "--select 'bbands(20,2,2,0).lower'",
        "sqrt(variance(close, 20))",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = run(&mut sandbox.gpuforge(&["indicators", "show", "bbands", "--json"])).json();
    assert_eq!((&json["name"], &json["lookback"]), (&json!("bbands"), &json!(19)));
    assert!(text.contains("source      source=close"), "{text}");
    let pair = run(&mut sandbox.gpuforge(&["indicators", "show", "CORREL"])).ok().stdout;
    for part in ["inputs      high, low", "source      source=high,low (or any two", "of two sources"] {
        assert!(pair.contains(part), "{part:?} in\n{pair}");
    }
    let ahead = run(&mut sandbox.gpuforge(&["indicators", "show", "avwap_final"])).ok().stdout;
    assert!(ahead.contains("causal      no"), "{ahead}");
}

#[test]
fn unknown_names_have_exit_code_2_and_a_suggestion() {
    let sandbox = Sandbox::new();
    for (args, parts) in [
        (&["show", "bolinger_bands"][..], &["there is no indicator"][..]),
        (&["show", "macdd"], &["there is no indicator \"macdd\"", "did you mean macd?"]),
        (&["list", "--select", "sma(20), sam(3)"], &["did you mean `sma`?", "sma(20), sam(3)\n           ^"]),
        (&["list", "--select", "sma(0)"], &["from 1 to"]),
        (&["list", "--define", "x = "], &["missing here"]),
        (&["list", "--select"], &["--select"]),
        (&["frobnicate"], &["frobnicate"]),
        (&[], &["Usage"]),
    ] {
        let args: Vec<&str> = ["indicators"].iter().chain(args).copied().collect();
        let ran = run(&mut sandbox.gpuforge(&args));
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {part:?} in {}", ran.stderr);
        }
    }
    let ran = run(&mut sandbox.gpuforge(&["indicators", "show", "macdd", "--json"]));
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((ran.code, &error["error"]["hint"]), (Some(2), &json!("did you mean macd?")));
}
