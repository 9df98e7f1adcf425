//! `gpuforge indicators --check` and `--strict`: data quality findings of bars and columns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{RunOutput, Sandbox, run};
use serde_json::{Value, json};

const ROWS: usize = 400;

/// Bars of one symbol, a minute each.
#[derive(Clone)]
struct Row {
    minute: usize,
    cells: [String; 5],
}

/// A quiet walk; open and close lie between high and low.
fn rows() -> Vec<Row> {
    let mut close = 10_000i64;
    let row = |minute: usize| {
        let open = close;
        close += [3, -5, 4, -2, 6, -7, 1][minute * minute % 7] + [2, -2, 1, -1, 0][minute % 5];
        let (high, low) = (open.max(close) + 2, open.min(close) - 3);
        let price = |x: i64| format!("{}.{:02}", x / 100, x % 100);
        let cells =
            [price(open), price(high), price(low), price(close), (1000 + minute * 37 % 500).to_string()];
        Row { minute, cells }
    };
    (0..ROWS).map(row).collect()
}

fn csv(rows: &[Row]) -> String {
    let line = |r: &Row| {
        let (day, hour, minute) = (1 + r.minute / 1440, r.minute / 60 % 24, r.minute % 60);
        format!("2024-01-{day:02}T{hour:02}:{minute:02}:00Z,{}\n", r.cells.join(","))
    };
    let lines: String = rows.iter().map(line).collect();
    format!("time,open,high,low,close,volume\n{lines}")
}

/// The rows after a change.
fn with(change: impl FnOnce(&mut Vec<Row>)) -> String {
    let mut rows = rows();
    change(&mut rows);
    csv(&rows)
}

fn go(text: &str, args: &[&str]) -> RunOutput {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("bars.csv"), text).unwrap();
    checked(&sandbox, &[&["bars.csv"], args].concat())
}

fn checked(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    let mut command = sandbox.gpuforge(&[&["indicators", "-o", "out.csv"], args].concat());
    run(command.current_dir(sandbox.path("")))
}

fn findings(text: &str, args: &[&str]) -> Vec<Value> {
    let json = go(text, &[args, &["--check", "--json"]].concat()).json();
    json["report"]["findings"].as_array().unwrap().clone()
}

/// The warnings of a run.
fn warnings(ran: &RunOutput) -> String {
    ran.stderr.lines().filter(|l| l.starts_with("warning:")).map(|l| format!("{l}\n")).collect()
}

/// The only finding of a problem.
fn only<'a>(found: &'a [Value], problem: &str) -> &'a Value {
    let of: Vec<&Value> = found.iter().filter(|f| f["problem"] == problem).collect();
    assert_eq!(of.len(), 1, "{problem}: {found:#?}");
    of[0]
}

#[test]
fn bars_without_a_problem_have_no_finding() {
    let text = csv(&rows());
    assert_eq!(findings(&text, &["--select", "rsi, macd, atr, bbands, stoch, obv"]), [] as [Value; 0]);
    let ran = go(&text, &["--select", "rsi", "--strict"]).ok();
    assert!(
        warnings(&ran).is_empty() && ran.stdout.contains("check: no findings in bars and columns\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn sample_bars_are_clean() {
    for sample in
        [&["--symbols", "5", "--days", "6"][..], &["--interval", "day", "--bars", "600", "--symbols", "5"]]
    {
        let sandbox = Sandbox::new();
        let args = [&["sample", "-q", "-o", "bars.parquet"], sample].concat();
        run(sandbox.gpuforge(&args).current_dir(sandbox.path(""))).ok();
        let select =
            ["--select", "group:momentum, group:volatility, sma(20), ema(50), adx, mfi, obv, pivot, vwap"];
        let json = checked(&sandbox, &[&["bars.parquet", "--check", "--json"], &select[..]].concat()).json();
        let found = json["report"]["findings"].as_array().unwrap();
        // A sweep of liquidity may not occur in some symbol: its column is all 0.
        let flags = ["smc_sweep", "squeeze_pro", "sqzmom"];
        let is_flag = |f: &&Value| flags.iter().any(|flag| f["column"].as_str().unwrap().starts_with(flag));
        let others: Vec<&Value> =
            found.iter().filter(|f| !(f["problem"] == "constant" && is_flag(f))).collect();
        assert!(others.is_empty(), "{sample:?}: {others:#?}");
    }
}

#[test]
fn a_null_row_is_reported_with_the_nan_columns_it_causes() {
    let text = with(|rows| rows[100].cells.iter_mut().for_each(String::clear));
    let found = findings(&text, &["--select", "rsi(14), max(5)"]);
    let null = only(&found, "null");
    assert_eq!(
        (&null["scope"], &null["column"]),
        (&json!("input"), &json!("open, high, low, close, volume"))
    );
    assert_eq!((&null["count"], &null["first_row"]), (&json!(1), &json!(100)));
    let nan: Vec<&Value> = found.iter().filter(|f| f["problem"] == "nan").collect();
    assert_eq!((&nan[0]["column"], &nan[1]["column"]), (&json!("rsi_14"), &json!("max_5")));
    // The first RSI is at row 14; from the null on there is none.
    assert_eq!((&nan[0]["count"], &nan[0]["first_row"]), (&json!(300), &json!(100)));
    assert!((nan[0]["share"].as_f64().unwrap() - 300.0 / 386.0).abs() < 1e-12);
    assert_eq!(nan[0]["first_time"], "2024-01-01T01:40:00Z");
    assert_eq!(nan[1]["count"], 5, "while it is in the window");
    let ran = go(&text, &["--select", "rsi(14)", "--check"]).ok();
    assert_eq!(
        warnings(&ran),
        "warning: check: open, high, low, close, volume null or NaN in 1 row, first at row 100 (2024-01-01T01:40:00Z)\n\
         warning: check: rsi_14 is NaN in 78 % of its rows after the warm-up, from row 100 (2024-01-01T01:40:00Z) on\n"
    );
    assert!(ran.stdout.ends_with("check: 2 findings, 1 in bars and 1 in columns\n"), "{}", ran.stdout);
}

#[test]
fn inconsistent_ohlc_bars_are_reported() {
    let text = with(|rows| {
        rows[50].cells.swap(1, 2);
        rows[60].cells[0] = "500.00".to_owned();
        rows[70].cells[4] = "0".to_owned();
        rows[71].cells[4] = "0".to_owned();
    });
    // RSI reads the close alone: the check reads the rest.
    let found = findings(&text, &["--select", "rsi"]);
    let place = |problem: &str| {
        let f = only(&found, problem);
        (
            f["column"].as_str().unwrap().to_owned(),
            f["count"].as_u64().unwrap(),
            f["first_row"].as_u64().unwrap(),
        )
    };
    assert_eq!(place("high-below-low"), ("high, low".to_owned(), 1, 50));
    assert_eq!(place("outside-high-low"), ("open".to_owned(), 1, 60));
    assert_eq!(place("zero-volume"), ("volume".to_owned(), 2, 70));
    assert_eq!(found.len(), 3, "{found:#?}");
    let ran = go(&text, &["--select", "rsi", "--check"]).ok();
    for part in [
        "check: high is below low in 1 row, first at row 50 (2024-01-01T00:50:00Z)\n",
        "check: open outside of low to high in 1 row, first at row 60 (",
        "check: volume is 0 in 0.5 % of rows, first at row 70 (",
    ] {
        assert!(ran.stderr.contains(part), "{part:?} in {}", ran.stderr);
    }
}

#[test]
fn missing_columns_are_not_checked() {
    let close: String = rows()
        .iter()
        .map(|r| format!("2024-01-01T{:02}:{:02}:00Z,{}\n", r.minute / 60, r.minute % 60, r.cells[3]))
        .collect();
    assert_eq!(findings(&format!("time,close\n{close}"), &["--select", "rsi"]), [] as [Value; 0]);
}

/// Columns read only for the check never skip a row, and never fail a run.
#[test]
fn check_does_not_change_the_output() {
    let text = with(|rows| {
        rows[10].cells[4] = "1.2M".to_owned();
        rows[20].cells[1] = "?".to_owned();
    });
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("bars.csv"), &text).unwrap();
    let written = |more: &[&str]| {
        checked(&sandbox, &[&["bars.csv", "--select", "rsi, sma(3)"], more].concat()).ok();
        std::fs::read_to_string(sandbox.path("out.csv")).unwrap()
    };
    let plain = written(&[]);
    for more in [&["--check"][..], &["--check", "--skip-bad"], &["--skip-bad"]] {
        assert!(written(more) == plain, "{more:?}");
    }
    let found = findings(&text, &["--select", "rsi, sma(3)"]);
    assert_eq!(
        (&only(&found, "null")["column"], &only(&found, "null")["count"]),
        (&json!("high, volume"), &json!(2))
    );
    // A needed column must be numeric.
    assert_eq!(checked(&sandbox, &["bars.csv", "--select", "obv", "--check"]).code, Some(1));
}

#[test]
fn gaps_jumps_and_splits_are_reported() {
    let text = with(|rows| {
        rows.drain(200..216);
        rows[300..].iter_mut().for_each(|r| {
            for cell in &mut r.cells[..4] {
                *cell = (cell.parse::<f64>().unwrap() / 2.0).to_string();
            }
        });
    });
    let found = findings(&text, &["--select", "sma(5)"]);
    let gap = only(&found, "gap");
    assert_eq!((&gap["column"], &gap["count"], &gap["first_row"]), (&json!("time"), &json!(1), &json!(200)));
    assert_eq!((&gap["value"], &gap["first_time"]), (&json!(1020.0), &json!("2024-01-01T03:36:00Z")));
    let jump = only(&found, "jump");
    assert_eq!(
        (&jump["column"], &jump["count"], &jump["first_row"]),
        (&json!("close"), &json!(1), &json!(300))
    );
    let ran = go(&text, &["--select", "sma(5)", "--check"]).ok();
    for part in [
        "check: 1 jump of the close beyond 8 sigma, the first by -5",
        "check: 1 gap in time (usual step 1 min), the first of 17 min, first at row 200 (2024-01-01T03:36:00Z)\n",
    ] {
        assert!(ran.stderr.contains(part), "{part:?} in {}", ran.stderr);
    }
}

#[test]
fn values_out_of_range_are_reported_with_the_range() {
    // A high below the low makes the true range negative where nothing else reaches further.
    let text = with(|rows| {
        for row in &mut rows[100..160] {
            row.cells = ["90", "90", "110", "100", "5"].map(str::to_owned);
        }
    });
    let found = findings(&text, &["--select", "willr(5), adr(5)"]);
    let out: Vec<&Value> = found.iter().filter(|f| f["problem"] == "out-of-range").collect();
    assert!(out.iter().any(|f| f["column"] == "adr_5" && f["value"].as_f64().unwrap() < 0.0), "{found:#?}");
    let ran = go(&text, &["--select", "adr(5)", "--check"]).ok();
    assert!(ran.stderr.contains("check: adr_5 is outside of at least 0 (-"), "{}", ran.stderr);
}

#[test]
fn strict_has_exit_code_1_after_writing_the_output() {
    let text = with(|rows| rows[100].cells[3].clear());
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("bars.csv"), &text).unwrap();
    let strict =
        |more: &[&str]| checked(&sandbox, &[&["bars.csv", "--select", "rsi", "--strict"], more].concat());
    let ran = strict(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("check: 2 findings") && sandbox.path("out.csv").exists(), "{}", ran.stdout);
    assert!(
        ran.stderr
            .contains("error: --strict: 2 findings; first: close null or NaN in 1 row, first at row 100 ("),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: the output is written"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(sandbox.path("out.csv")).unwrap().lines().count(), ROWS + 1);
    let ran = strict(&["--json", "-q"]);
    assert_eq!(ran.code, Some(1));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["report"]["findings"].as_array().unwrap().len(), 2);
    let mut command = sandbox.gpuforge(&["indicators", "bars.csv", "-o", "-", "--select", "rsi", "--strict"]);
    let ran = run(command.current_dir(sandbox.path("")));
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), ROWS + 1), "{}", ran.stderr);
    // Without it the same findings are warnings.
    checked(&sandbox, &["bars.csv", "--select", "rsi", "--check"]).ok();
}

#[test]
fn skipped_and_duplicate_rows_are_findings() {
    let text =
        csv(&rows()).replacen("T00:05:00Z", "T00:04:00Z", 1).replacen("T00:09:00Z,", "T00:09:00Z,x", 1);
    let found = findings(&text, &["--select", "sma(5, source=open)", "--duplicates", "first", "--skip-bad"]);
    assert_eq!(
        (&only(&found, "duplicate")["count"], &only(&found, "unreadable")["count"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn show_prints_the_range() {
    let sandbox = Sandbox::new();
    let shown =
        |args: &[&str]| run(&mut sandbox.gpuforge(&[&["indicators", "show"], args].concat())).ok().stdout;
    assert!(shown(&["rsi"]).contains("\n  range       0 to 100\n"), "{}", shown(&["rsi"]));
    assert!(!shown(&["macd"]).contains("  range "));
    let json: Value = serde_json::from_str(&shown(&["natr", "--json"])).unwrap();
    assert_eq!(json["outputs"][0]["range"], json!({"min": 0, "max": null}));
}

#[test]
fn an_unknown_parameter_is_wrong_usage() {
    for args in [&["--select", "max(high, low)"][..], &["--define", "x = max(high, low)"]] {
        let ran = go(&csv(&rows()), args);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("`max` is the max of the last `period` values of one source"),
            "{}",
            ran.stderr
        );
    }
}
