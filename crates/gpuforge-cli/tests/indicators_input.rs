//! `gpuforge indicators` on real-world file layouts: the same RSI as under a proper header, or an error that names the flag;
//! never a silently wrong number.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{RunOutput, Sandbox, run};

const ROWS: i64 = 60;

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    let path = sandbox.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn indicators(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    let args = [&["indicators"], args].concat();
    run(sandbox.gpuforge(&args).current_dir(sandbox.path("")))
}

/// RSI of an input as CSV on stdout: symbols, times and values.
fn rsi(sandbox: &Sandbox, args: &[&str]) -> (Vec<String>, RunOutput) {
    let ran = indicators(sandbox, &[args, &["-o", "-", "--select", "rsi(14)"]].concat()).ok();
    let header: Vec<&str> = ran.stdout.lines().next().unwrap().split(',').collect();
    let at = header.iter().position(|name| *name == "rsi_14").unwrap();
    let cell = |row: &str| row.split(',').nth(at).unwrap().to_owned();
    (ran.stdout.lines().skip(1).map(cell).collect(), ran)
}

fn refused(sandbox: &Sandbox, args: &[&str]) -> String {
    let ran = indicators(sandbox, &[args, &["-o", "out.csv", "--select", "rsi(14)"]].concat());
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    assert!(!sandbox.path("out.csv").exists());
    ran.stderr
}

/// 2024-01-01 and so many days.
fn date(day: i64) -> String {
    let (month, day) = if day < 31 { (1, day + 1) } else { (2, day - 30) };
    format!("2024-{month:02}-{day:02}")
}

fn close(i: i64) -> f64 {
    100.0 + (i * 37 % 11) as f64 + i as f64 / 8.0
}

fn csv(header: &str, rows: impl Iterator<Item = i64>, front: impl Fn(i64) -> String) -> String {
    let rows: String = rows.map(|i| format!("{},{}\n", front(i), close(i))).collect();
    format!("{header}\n{rows}")
}

/// The expected RSI, from a file with a standard header.
fn want(sandbox: &Sandbox) -> Vec<String> {
    write(sandbox, "want.csv", &csv("time,close", 0..ROWS, date));
    let (want, ran) = rsi(sandbox, &["want.csv"]);
    assert_eq!(want.len() as i64, ROWS);
    let line = "input: 60 rows of 1 symbol, 2024-01-01 to 2024-02-29, step 1d; time=time close=close\n";
    assert_eq!(ran.stderr, line);
    want
}

#[test]
fn an_unnamed_time_column_is_recognised_and_sorted() {
    let sandbox = Sandbox::new();
    let want = want(&sandbox);
    for header in [",close", "Session,close"] {
        write(&sandbox, "x.csv", &csv(header, (0..ROWS).rev(), date));
        let (got, ran) = rsi(&sandbox, &["x.csv"]);
        assert_eq!(got, want, "{header}");
        assert!(ran.stdout.lines().nth(1).unwrap().starts_with("2024-01-01,"), "{}", ran.stdout);
        assert!(ran.stderr.contains("(by its values)"), "{}", ran.stderr);
    }
    write(&sandbox, "x.csv", &csv("row,close", (0..ROWS).rev(), |i| i.to_string()));
    let error = refused(&sandbox, &["x.csv"]);
    assert!(error.contains("there is no time column") && error.contains("--no-time"), "{error}");
    write(&sandbox, "x.csv", &csv("row,close", 0..ROWS, |i| i.to_string()));
    let (got, ran) = rsi(&sandbox, &["x.csv", "--no-time"]);
    assert_eq!(got, want);
    assert!(ran.stderr.contains("no times: rows in file order"), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("rsi_14\n"), "{}", ran.stdout);
    let quiet = indicators(&sandbox, &["want.csv", "-o", "-", "--select", "rsi(14)", "-q"]).ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn monthly_files_are_one_series() {
    let sandbox = Sandbox::new();
    let want = want(&sandbox);
    write(&sandbox, "d/BTCUSDT-1d-2024-01.csv", &csv("date,close", 0..31, date));
    write(&sandbox, "d/BTCUSDT-1d-2024-02.csv", &csv("date,close", 31..ROWS, date));
    for input in ["d", "d/*.csv"] {
        let (got, ran) = rsi(&sandbox, &[input]);
        assert_eq!(got, want, "{input}: no warm-up begins anew");
        assert!(ran.stdout.lines().nth(1).unwrap().starts_with("BTCUSDT,2024-01-01"), "{}", ran.stdout);
        assert!(ran.stderr.contains("60 rows of 1 symbol (the file name)"), "{}", ran.stderr);
    }
    let (by_file, ran) = rsi(&sandbox, &["d", "--by", "file"]);
    assert!(by_file != want && ran.stderr.contains("of 2 symbols"), "{}", ran.stderr);
    let (one, ran) = rsi(&sandbox, &["d", "--by", "none"]);
    assert!(one == want && ran.stdout.starts_with("date,rsi_14"), "{}", ran.stdout);
}

#[test]
fn hive_keys_are_symbols() {
    let sandbox = Sandbox::new();
    let want = want(&sandbox);
    for symbol in ["AAPL", "MSFT"] {
        let file = format!("{symbol}.parquet");
        // A file of the same bars, as Parquet.
        indicators(&sandbox, &["want.csv", "-o", &file, "--select", "close", "-q"]).ok();
        std::fs::create_dir_all(sandbox.path(&format!("h/symbol={symbol}"))).unwrap();
        std::fs::rename(sandbox.path(&file), sandbox.path(&format!("h/symbol={symbol}/part-0.parquet")))
            .unwrap();
    }
    for input in ["h", "h/*/*.parquet"] {
        let (got, ran) = rsi(&sandbox, &[input]);
        assert_eq!((&got[..60], &got[60..]), (&want[..], &want[..]), "{input}");
        assert!(
            ran.stdout.contains("\nAAPL,2024-01-01") && ran.stdout.contains("\nMSFT,2024-01-01"),
            "{input}"
        );
        assert!(ran.stderr.contains("120 rows of 2 symbols (the hive key)"), "{}", ran.stderr);
    }
    let (got, ran) = rsi(&sandbox, &["h/symbol=MSFT/part-0.parquet"]);
    assert!(got == want && ran.stdout.contains("\nMSFT,"), "{}", ran.stdout);
}

#[test]
fn date_and_time_columns_are_joined() {
    let sandbox = Sandbox::new();
    let day = |i: i64| date(i / 10);
    let clock = |i: i64| format!("{:02}:30:00", i % 10 + 9);
    write(&sandbox, "want.csv", &csv("time,close", 0..500, |i| format!("{}T{}", day(i), clock(i))));
    let want = rsi(&sandbox, &["want.csv"]).0;
    let files = [
        ("Date,Time,Close", ",", false),
        ("<DATE>,<TIME>,<CLOSE>", "\t", false),
        ("<DATE>,<TIME>,<CLOSE>", ",", true),
    ];
    for (header, delimiter, stooq) in files {
        let front = |i: i64| match stooq {
            true => format!("{},{}", day(i).replace('-', ""), clock(i).replace(':', "")),
            false => format!("{},{}", day(i).replace('-', "."), clock(i)),
        };
        write(&sandbox, "x.csv", &csv(header, (0..500).rev(), front).replace(',', delimiter));
        let (got, ran) = rsi(&sandbox, &["x.csv"]);
        assert_eq!(got, want, "{header}");
        assert!(ran.stdout.lines().nth(1).unwrap().starts_with("2024-01-01T09:30:00"), "{}", ran.stdout);
        let last = ran.stderr.lines().last().unwrap();
        assert!(last.contains("500 rows") && last.contains("step 1h") && last.contains('+'), "{last}");
    }
    // Named explicitly, under names that say nothing.
    write(&sandbox, "x.csv", &csv("a,b,close", 0..500, |i| format!("{},{}", day(i), clock(i))));
    assert_eq!(rsi(&sandbox, &["x.csv", "--time", "a+b"]).0, want);
    let error = refused(&sandbox, &["x.csv", "--time", "b"]);
    assert!(error.contains("`b` holds times of day and no date") && error.contains("'DATE+TIME'"), "{error}");
    // The date alone: no way out by --duplicates.
    write(&sandbox, "x.csv", &csv("Date,close", 0..500, |_| date(0)));
    let error = refused(&sandbox, &["x.csv"]);
    assert!(error.contains("500 rows have 1 different times"), "{error}");
    let error = refused(&sandbox, &["x.csv", "--duplicates", "first"]);
    assert!(error.contains("all 500 rows have the same time"), "{error}");
    // Dropping more than half of the rows is a warning.
    write(&sandbox, "x.csv", &csv("Date,close", 0..300, |i| date(i % 60)));
    let (got, ran) = rsi(&sandbox, &["x.csv", "--duplicates", "first"]);
    assert_eq!(got.len(), 60);
    assert!(ran.stderr.contains("--duplicates dropped 240 of 300 rows"), "{}", ran.stderr);
}

#[test]
fn only_bad_rows_is_an_error() {
    let sandbox = Sandbox::new();
    write(&sandbox, "x.csv", "time,close\n2024-01-01,a\n2024-01-02,b\n");
    let error = refused(&sandbox, &["x.csv", "--skip-bad"]);
    assert!(error.contains("all 2 were skipped") && error.contains("`a` is not a number"), "{error}");
}

#[test]
fn corrupt_parquet_is_an_error() {
    let sandbox = Sandbox::new();
    let want = want(&sandbox);
    indicators(&sandbox, &["want.csv", "-o", "x.parquet", "--select", "close", "-q"]).ok();
    assert_eq!(rsi(&sandbox, &["x.parquet"]).0, want);
    let good = std::fs::read(sandbox.path("x.parquet")).unwrap();
    // The last byte of the last page stands in front of the indexes and the footer.
    let mut found = 0;
    for at in 4..good.len() / 2 {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        std::fs::write(sandbox.path("x.parquet"), bad).unwrap();
        let ran = indicators(&sandbox, &["x.parquet", "-o", "-", "--select", "rsi(14)", "-q"]);
        match ran.code {
            Some(0) => assert!(
                ran.stdout.ends_with(&format!("{}\n", want.last().unwrap())),
                "byte {at} changed a value"
            ),
            _ => found += 1,
        }
        if at > 60 {
            break;
        }
    }
    assert!(found > 20, "{found} of 57 changes were found");
}

#[test]
fn explain_input_lists_everything_recognised() {
    let sandbox = Sandbox::new();
    write(
        &sandbox,
        "d/EURUSD-2024-01.csv",
        &csv("Date,Time,Note,Close", (0..31).rev(), |i| format!("{},09:30,n{i}", date(i))),
    );
    write(
        &sandbox,
        "d/EURUSD-2024-02.csv",
        &csv("Date,Time,Note,Close", 31..ROWS, |i| format!("{},09:30,n{i}", date(i))),
    );
    let said = indicators(&sandbox, &["d", "--explain-input"]).ok().stdout;
    for wanted in [
        "d/EURUSD-2024-01.csv: CSV, `,`",
        "symbol: EURUSD, from the file name",
        "rows: 31, not in time order: sorted",
        "rows: 29, in time order",
        "Date   time: a date with a time of day beside it",
        "Time   time of day: a date with a time of day beside it",
        "Note   not read",
        "Close  close: by its name",
        "columns: as above",
        "time: timestamp in microseconds, no zone",
        "60 rows of 1 symbol (the file name), 2024-01-01T09:30:00 to 2024-02-29T09:30:00, step 1d; time=Date+Time close=Close",
    ] {
        assert!(said.contains(wanted), "{wanted}\n{said}");
    }
    let json = indicators(&sandbox, &["d", "--explain-input", "--json"]).json();
    assert_eq!(json["input"]["columns"]["time"], "Date+Time");
    assert_eq!(json["files"][1]["symbol_from"], "file_name");
    assert_eq!(json["files"][0]["columns"][2]["role"], serde_json::Value::Null);
    let json = indicators(&sandbox, &["d", "-o", "out.parquet", "--select", "rsi(14)", "--json"]).json();
    assert_eq!(
        (json["input"]["rows"].as_u64(), json["input"]["time"]["step"].as_str()),
        (Some(60), Some("1d"))
    );
    // Duplicates and bad rows are counted, not rejected.
    write(&sandbox, "x.csv", "time,close\n1,1\n1,2\n2,x\n3,3\n");
    let said = indicators(&sandbox, &["x.csv", "--explain-input"]).ok().stdout;
    assert!(
        said.contains("1 duplicate (an error without") && said.contains("1 skipped (an error without"),
        "{said}"
    );
}
