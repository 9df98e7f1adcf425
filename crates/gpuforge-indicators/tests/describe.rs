//! JSON metadata of rows and selections: stable field names, ranges, columns, formulas.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use gpuforge_indicators::{
    catalogue::{self, IndicatorKind},
    describe, formula,
    select::{Selector, plan},
};
use serde_json::{Value, json};

fn described(text: &str, defines: &[&str]) -> Vec<Value> {
    let mut selector = Selector::new();
    defines.iter().for_each(|d| selector.define(d).unwrap());
    let wanted = selector.select(text).unwrap();
    describe::selection(&wanted).iter().map(|d| serde_json::to_value(d).unwrap()).collect()
}

#[test]
fn row_json_has_the_contract_fields() {
    let row = serde_json::to_value(describe::row(catalogue::find("macd").unwrap())).unwrap();
    let doc = catalogue::find("macd").unwrap().doc;
    assert_eq!(
        row,
        json!({
            "name": "macd", "aliases": ["MACD"], "group": "momentum",
            "params": [
                {"name": "fast", "default": 12, "min": 2, "max": 100_000},
                {"name": "slow", "default": 26, "min": 2, "max": 100_000},
                {"name": "signal", "default": 9, "min": 1, "max": 100_000},
            ],
            "inputs": ["close"],
            "sources": ["close"],
            "outputs": [
                {"name": "macd", "column": "macd_12_26_9"},
                {"name": "signal", "column": "macd_12_26_9_signal"},
                {"name": "hist", "column": "macd_12_26_9_hist"},
            ],
            "lookback": 33, "causal": true, "oracle": "ta-lib", "kind": "indicator", "doc": doc,
        })
    );
}

#[test]
fn ranges_depend_on_parameters_and_source() {
    let all = described(
        "stoch(5,3,0,3,0).k, stoch(5,3,3,3,0).k, roc(10), roc(10, source=mom(3)), r, cdldoji, sma(3)",
        &["r = willr(14)"],
    );
    let ranges: Vec<Value> = all.iter().map(|d| d["outputs"][0]["range"].clone()).collect();
    let percent = json!({"min": 0, "max": 100});
    // A DEMA overshoots; the rate of change of a possibly negative source is unbounded.
    assert_eq!(ranges[..4], [percent, Value::Null, json!({"min": -100, "max": null}), Value::Null]);
    assert_eq!(ranges[4..], [json!({"min": -100, "max": 0}), json!({"min": -200, "max": 200}), Value::Null]);
}

#[test]
fn every_row_is_described() {
    let all = describe::all();
    assert_eq!(all.len(), catalogue::all().count());
    for (row, described) in catalogue::all().zip(&all) {
        assert_eq!((row.name, row.outputs.len()), (described.name.as_str(), described.outputs.len()));
        assert_eq!(row.causal, described.causal, "{}", row.name);
        assert!(formula::lines(row).len() >= row.outputs.len(), "{}", row.name);
    }
    let kinds = |kind: &str| {
        let is = |d: &&describe::IndicatorInfo| serde_json::to_value(d.kind).unwrap() == kind;
        all.iter().filter(is).count()
    };
    assert_eq!((kinds("indicator"), kinds("candlestick")), (229, 61));
    assert_eq!(kinds("addition"), catalogue::all().filter(|r| r.kind == IndicatorKind::Addition).count());
}

#[test]
fn selection_outputs_are_the_written_columns() {
    for text in [
        "rsi(7|9|14), macd(12,26,9).signal, macd(12,26,9), rsi(14)",
        "bbands(20,2,2).upper, bbands.lower, sma(20, source=hlc3)",
        "close - open, ema(close, 5) - ema(close, 20), close - open, spread",
        "set:classic111",
        "all",
    ] {
        let mut selector = Selector::new();
        selector.define("spread = high - low").unwrap();
        let wanted = selector.select(text).unwrap();
        let listed: Vec<String> =
            describe::selection(&wanted).into_iter().flat_map(|d| d.outputs).map(|o| o.column).collect();
        assert_eq!(listed, plan(&wanted).columns, "{text}");
    }
}

#[test]
fn instances_and_expressions_list_their_inputs() {
    let all = described(
        "rsi(7), macd(12,26,9).signal, sma(20, source=hl2), spread, close - sma(20), ahead",
        &["spread = ema(close, 5) - ema(close, 20)", "ahead = avwap_final * 2"],
    );
    let columns: Vec<&Value> = all.iter().map(|d| &d["outputs"]).collect();
    assert_eq!(columns[0], &json!([{"name": "value", "column": "rsi_7", "range": {"min": 0, "max": 100}}]));
    assert_eq!(
        all[0]["params"][0],
        json!({"name": "period", "default": 14, "min": 2, "max": 100_000, "value": 7})
    );
    assert_eq!(all[0]["lookback"], 7);
    assert_eq!(columns[1], &json!([{"name": "signal", "column": "macd_12_26_9_signal"}]));
    assert_eq!(all[2]["inputs"], json!(["high", "low"]));
    assert_eq!(all[2]["outputs"][0]["column"], "sma_20_hl2");
    let spread = json!({
        "name": "spread", "aliases": [], "group": null, "params": [], "inputs": ["close"],
        "sources": [], "outputs": [{"name": "value", "column": "spread"}], "lookback": 19, "causal": true, "oracle": null,
        "kind": "expression", "doc": "ema(close, 5) - ema(close, 20)",
    });
    assert_eq!(all[3], spread);
    assert_eq!((&all[0]["sources"], &all[2]["sources"]), (&json!(["close"]), &json!(["hl2"])));
    assert_eq!(all[4]["outputs"][0]["column"], "close - sma(20)");
    assert_eq!(all[5]["causal"], false, "what rests on a row that looks ahead does so too");
}

#[test]
fn rows_of_two_sources_list_both() {
    let all = described("correl, correl(30, source=close,volume), correl(30, open), atr", &[]);
    let sources: Vec<&Value> = all.iter().map(|d| &d["sources"]).collect();
    assert_eq!(
        sources,
        [&json!(["high", "low"]), &json!(["close", "volume"]), &json!(["open", "low"]), &json!([])]
    );
    assert_eq!(all[1]["inputs"], json!(["close", "volume"]));
    assert_eq!(all[1]["outputs"][0]["column"], "correl_30_close_volume");
    let described = describe::row(catalogue::find("ADD").unwrap());
    assert_eq!(
        (described.doc.as_str(), described.sources.join(",")),
        ("Sum of two sources.", "high,low".into())
    );
}

#[test]
fn formula_is_printed_from_the_graph() {
    let lines = |name: &str| formula::lines(catalogue::find(name).unwrap());
    assert_eq!(lines("sma"), ["value = sum(close, 30) / 30"]);
    assert_eq!(lines("sub"), ["value = high - low"]);
    assert_eq!(lines("medprice"), ["value = (high + low) / 2"]);
    assert_eq!(
        lines("stochf"),
        [
            "v1 = highest(high, 5)",
            "v2 = lowest(low, 5)",
            "v3 = v1 - v2",
            "v4 = if(v3 <= (abs(v1) + abs(v2)) * 1e-14, 0, (close - v2) / v3 * 100)",
            "k = v4",
            "d = sum(v4, 3) / 3"
        ]
    );
}
