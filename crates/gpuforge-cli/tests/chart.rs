//! `gpuforge chart`: HTML, SVG and PNG output, input columns, aggregation, errors.
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
    process::{Command, Stdio},
};

use common::{RunOutput, Sandbox, run};
use serde_json::{Value, json};

/// A command in the sandbox directory, so that paths are short.
fn gpuforge(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.gpuforge(args);
    command.current_dir(sandbox.path(""));
    command
}

fn chart(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(&mut gpuforge(sandbox, &[&["chart"], args].concat()))
}

/// Two symbols of 200 days.
fn market() -> Sandbox {
    let sandbox = Sandbox::new();
    let args = ["sample", "-q", "-o", "bars.csv", "--symbols", "2", "--interval", "day", "--days", "200"];
    run(&mut gpuforge(&sandbox, &args)).ok();
    sandbox
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).unwrap()
}

fn write(sandbox: &Sandbox, name: &str, rows: &str) {
    std::fs::write(sandbox.path(name), rows).unwrap();
}

const SELECT: &str = "sma(20), bbands(20,2,2), rsi(14), macd, support_resistance(50)";

#[test]
fn more_bars_than_pixels_are_aggregated_with_a_warning() {
    let sandbox = market();
    // 130 candles have room on 600 pixels; 200 bars do not.
    let args = ["bars.csv", "--symbol", "ZAAA", "--size", "600x400", "-o"];
    for (file, hint) in
        [("m.svg", "--last 130, or --size 923x400"), ("m.png", "--last 130"), ("m.html", "zoomed")]
    {
        let ran = chart(&sandbox, &[&args[..], &[file]].concat()).ok();
        let said = "1 candle = 2 bars (2 days): 600 pixels have room for 130 candles, there are 200 bars";
        assert_eq!(ran.stderr.matches(said).count(), 1, "{file}: {}", ran.stderr);
        assert!(ran.stderr.contains(hint), "{file}: {}", ran.stderr);
    }
    let svg = text(&sandbox, "m.svg");
    assert!(
        svg.contains("200 bars, 1 candle = 2 bars (2 days)</text>")
            && svg.contains("Price: 1 candle = 2 bars")
    );
    assert!(text(&sandbox, "m.html").contains("\"step\":86400"));
    let json = chart(&sandbox, &[&args[..], &["m.svg", "--json", "-q"]].concat()).json();
    assert_eq!(
        (&json["bars"], &json["bars_per_candle"], &json["seconds_per_candle"]),
        (&json!(200), &json!(2), &json!(172_800.0))
    );
    let ran = chart(&sandbox, &[&args[..], &["m.svg", "--json", "--last", "130"]].concat());
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.json()["bars_per_candle"], 1);
}

#[test]
fn writes_html_svg_and_png() {
    let sandbox = market();
    for (file, begins) in [
        ("c.html", &b"<!doctype html>"[..]),
        ("c.HTM", b"<!doctype html>"),
        ("c.svg", b"<svg"),
        ("c.png", b"\x89PNG\r\n"),
    ] {
        let ran = chart(&sandbox, &["bars.csv", "-o", file, "--select", SELECT]).ok();
        assert!(ran.stdout.starts_with(file) && ran.stderr.is_empty(), "{}{}", ran.stdout, ran.stderr);
        let bytes = std::fs::read(sandbox.path(file)).unwrap();
        assert!(bytes.to_ascii_lowercase().starts_with(&begins.to_ascii_lowercase()), "{file}");
    }
    let svg = text(&sandbox, "c.svg");
    // Panels are named by indicator, lines by column; overlays have no panel.
    for name in
        ["ZAAA", "sma_20", "bbands_20_2_2_upper", "rsi_14", "macd_12_26_9_signal", "support_resistance_50"]
    {
        assert!(svg.contains(name), "{name}");
    }
    let html = text(&sandbox, "c.html");
    assert!(
        html.contains("rsi_14") && !html.contains("src=") && !html.contains("<link"),
        "a page needs nothing else"
    );
    let json = chart(&sandbox, &["bars.csv", "-o", "c.svg", "--select", "rsi(14)", "--json"]).json();
    assert_eq!(json["bytes"], sandbox.path("c.svg").metadata().unwrap().len());
    assert_eq!((&json["output"], &json["columns"]), (&json!("c.svg"), &json!(["rsi_14"])));
}

/// Width and height of a PNG: its header has them at a fixed place.
fn pixels(sandbox: &Sandbox, name: &str) -> (u32, u32) {
    let bytes = std::fs::read(sandbox.path(name)).unwrap();
    let at = |from: usize| u32::from_be_bytes(bytes[from..from + 4].try_into().unwrap());
    (at(16), at(20))
}

#[test]
fn size_theme_and_title_flags() {
    let sandbox = market();
    chart(&sandbox, &["bars.csv", "-o", "c.png", "--size", "600x500", "--scale", "1.5"]).ok();
    assert_eq!(pixels(&sandbox, "c.png"), (900, 750));
    let drawn = |theme: &str| {
        chart(&sandbox, &["bars.csv", "-o", "c.svg", "--theme", theme, "--title", "A & B <i>"]).ok();
        text(&sandbox, "c.svg")
    };
    let (light, dark) = (drawn("light"), drawn("dark"));
    assert_ne!(light, dark);
    assert!(light.contains("A &amp; B &lt;i&gt;") && !light.contains("<i>"));
    for (args, parts) in [
        (&["--size", "1x1"][..], &["200x150 to 10000x10000"][..]),
        (&["--size", "wide"], &["1200x800"]),
        (&["--last", "0"], &["--last"]),
        (&["--theme", "pink"], &["dark"]),
    ] {
        let ran = chart(&sandbox, &[&["bars.csv", "-o", "d.png"], args].concat());
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{args:?}: {}", ran.stderr);
    }
    for scale in ["0", "-1", "nan", "inf", "1000"] {
        let ran = chart(&sandbox, &["bars.csv", "-o", "d.png", &format!("--scale={scale}")]);
        assert!(ran.code == Some(1) && ran.stderr.contains("hint:"), "{scale}: {}", ran.stderr);
    }
    assert!(!sandbox.path("d.png").exists());
}

#[test]
fn last_draws_one_symbol_with_indicators_of_all_bars() {
    let sandbox = market();
    let drawn = |args: &[&str]| {
        chart(&sandbox, &[&["bars.csv", "-o", "c.svg"], args].concat()).ok();
        text(&sandbox, "c.svg")
    };
    let first = drawn(&[]);
    assert!(first.contains("ZAAA") && !first.contains("ZAAB"));
    assert!(drawn(&["--symbol", "ZAAA"]) == first);
    assert!(drawn(&["--symbol", "ZAAB"]).contains("ZAAB"));
    let last = drawn(&["--last", "30"]);
    assert!(last != first && last.len() < first.len());
    assert!(drawn(&["--last", "100000"]) == first);
    // 30 bars are too few for an SMA of 100; it is computed from all bars.
    let with_mean = drawn(&["--last", "30", "--select", "sma(100)"]);
    let lines = |svg: &str| svg.matches("<path").count() + svg.matches("<polyline").count();
    assert!(lines(&with_mean) > lines(&last), "{} and {}", lines(&with_mean), lines(&last));
    let ran = chart(&sandbox, &["bars.csv", "-o", "c.svg", "--symbol", "zaaa"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("no symbol `zaaa`") && ran.stderr.contains("hint: there is ZAAA, ZAAB"),
        "{}",
        ran.stderr
    );
    write(&sandbox, "alone.csv", "time,close\n2024-01-01,1\n2024-01-02,2\n");
    let ran = chart(&sandbox, &["alone.csv", "-o", "c.svg", "--symbol", "A"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("leave --symbol out"), "{}", ran.stderr);
}

#[test]
fn missing_columns_fall_back_to_fewer_marks() {
    let sandbox = market();
    let rows = text(&sandbox, "bars.csv");
    let cut = |columns: usize| -> String {
        rows.lines().map(|row| row.split(',').take(columns).collect::<Vec<_>>().join(",") + "\n").collect()
    };
    write(&sandbox, "no_volume.csv", &cut(6));
    chart(&sandbox, &["no_volume.csv", "-o", "c.svg", "--select", "rsi(14)"]).ok();
    let without = text(&sandbox, "c.svg");
    assert!(without.contains("rsi_14"));
    chart(&sandbox, &["bars.csv", "-o", "c.svg", "--select", "rsi(14)"]).ok();
    assert!(text(&sandbox, "c.svg").len() > without.len(), "volumes are drawn where they are");
    // A pipe can be read only once; probing for volumes must not consume the bars.
    let mut child = gpuforge(&sandbox, &["chart", "-", "-o", "piped.svg", "--select", "rsi(14)"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(cut(6).as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(text(&sandbox, "piped.svg") == without);
    write(&sandbox, "closes.csv", "symbol,time,close\nA,2024-01-01,1\nA,2024-01-02,2\nA,2024-01-03,1.5\n");
    chart(&sandbox, &["closes.csv", "-o", "line.svg", "--select", "sma(2)"]).ok();
    assert!(text(&sandbox, "line.svg").contains("sma_2"), "closes alone are a line");
    write(&sandbox, "one.csv", "symbol,time,close\nA,2024-01-01,1\n");
    chart(&sandbox, &["one.csv", "-o", "one.png", "--select", "sma(2)"]).ok();
    let ran = chart(&sandbox, &["closes.csv", "-o", "d.svg", "--select", "atr(2)"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("the high column is missing"), "{}", ran.stderr);
    assert!(ran.stderr.contains("found: symbol, time, close"), "{}", ran.stderr);
    assert!(!sandbox.path("d.svg").exists());
}

#[test]
fn skipped_duplicate_and_sorted_rows_are_warnings() {
    let sandbox = Sandbox::new();
    write(
        &sandbox,
        "bars.csv",
        "symbol,time,close\nA,2024-01-02,2\nA,2024-01-01,1\nA,2024-01-02,3\nA,2024-01-03,abc\n",
    );
    let ran = chart(&sandbox, &["bars.csv", "-o", "c.svg", "--skip-bad", "--duplicates", "last"]).ok();
    for part in [
        "1 row skipped that could not be read",
        "row 4, column `close`",
        "with a duplicate timestamp",
        "not in time order: sorted",
    ] {
        assert!(ran.stderr.contains(part), "{part:?} in {}", ran.stderr);
    }
    let ran = chart(&sandbox, &["bars.csv", "-o", "d.svg", "--duplicates", "last"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("`abc` is not a number"), "{}", ran.stderr);
}

#[test]
fn hostile_names_are_escaped() {
    let sandbox = Sandbox::new();
    let name = "<script>alert('1')</script>&\"\"\u{1b}[31m\u{202e}../..";
    let row = |day: u32| format!("\"{name}\",2024-01-{day:02},{day}\n");
    let rows: String = (1..20).map(row).collect();
    write(&sandbox, "bars.csv", &format!("symbol,time,close\n{rows}"));
    for file in ["c.html", "c.svg", "c.png"] {
        let ran = chart(&sandbox, &["bars.csv", "-o", file, "--select", "sma(3)"]).ok();
        assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    }
    for file in ["c.html", "c.svg"] {
        let drawn = text(&sandbox, file);
        assert!(!drawn.contains("<script>alert") && !drawn.contains('\u{1b}'), "{file}");
        assert!(drawn.contains("alert("), "{file}: the name is there, as text");
    }
    let ran = chart(&sandbox, &["bars.csv", "-o", "d.svg", "--symbol", "A\u{1b}[2J", "--color", "always"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("A\\u{1b}[2J") && !ran.stderr.contains("\u{1b}[2J"), "{:?}", ran.stderr);
    assert!(!ran.stderr.contains("\u{1b}[31m<") && ran.stderr.contains("\\u{1b}[31m"), "{:?}", ran.stderr);
}

#[test]
fn invalid_charts_are_errors_with_a_hint() {
    let sandbox = market();
    write(&sandbox, "header.csv", "symbol,time,close\n");
    write(&sandbox, "cut.parquet", "PAR1 and no more");
    for (args, code, parts) in [
        (&["bars.csv", "-o", "c.gif"][..], 2, &["c.gif: a chart is .html, .svg or .png", "hint:"][..]),
        (&["bars.csv", "-o", "chart"], 2, &["a chart is .html"]),
        (&["bars.csv", "-o", "-"], 2, &["a chart is .html"]),
        (&["bars.csv"], 2, &["--output"]),
        (&["-o", "c.svg"], 2, &["no input", "gpuforge sample"]),
        (&["bars.csv", "-o", "c.svg", "--select", "smma_(2)"], 2, &["  smma_(2)\n  ^"]),
        (&["header.csv", "-o", "c.svg"], 1, &["there are no bars to draw"]),
        (&["cut.parquet", "-o", "c.svg"], 1, &["cut.parquet: the Parquet file is damaged"]),
        (&["missing.csv", "-o", "c.svg"], 1, &["cannot read missing.csv"]),
        (
            &["bars.csv", "-o", "no/c.svg"],
            1,
            &["no/c.svg", "there is no directory no", "hint: make it first"],
        ),
    ] {
        let ran = chart(&sandbox, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}: {}", ran.stdout);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {part:?} in {}", ran.stderr);
        }
    }
    assert!(!sandbox.path("c.svg").exists());
    let ran = chart(&sandbox, &["bars.csv", "-o", "no/c.svg", "--json"]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert!(error["error"]["hint"].is_string() && ran.stdout.is_empty(), "{error}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_old_file_and_umask_sets_the_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = market();
    let directory = sandbox.path("out");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("c.html"), "old").unwrap();
    let limited = |setup: &str| {
        let command = gpuforge(&sandbox, &["chart", "bars.csv", "-o", "out/c.html", "--select", SELECT]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(sandbox.path(""));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        run(&mut shell)
    };
    // With the signal ignored, a file beyond the limit is an error like a full disk; 20 blocks are 10 to 20 kB.
    let ran = limited("trap '' XFSZ; ulimit -f 20");
    assert!(ran.code == Some(1) && ran.stderr.contains("cannot write out/c.html"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(directory.join("c.html")).unwrap(), "old");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    for (mask, mode) in [("077", 0o600), ("022", 0o644)] {
        limited(&format!("umask {mask}")).ok();
        let found = directory.join("c.html").metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{found:o}");
    }
}

#[test]
fn lines_fit_the_terminal_and_pipes_have_no_colour() {
    let sandbox = market();
    let args = ["chart", "bars.csv", "-o", "c.svg", "--select", SELECT];
    let ran = run(gpuforge(&sandbox, &args).env("COLUMNS", "40")).ok();
    assert!(
        !ran.stdout.contains('\u{1b}') && ran.stdout.lines().all(|line| line.chars().count() <= 40),
        "{}",
        ran.stdout
    );
    let ran = run(&mut gpuforge(&sandbox, &[&args[..], &["--color", "always"]].concat())).ok();
    assert!(ran.stdout.contains('\u{1b}'));
    let help = run(gpuforge(&sandbox, &["chart", "--help"]).env("COLUMNS", "80")).ok().stdout;
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
}
