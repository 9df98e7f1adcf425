//! `gpuforge trajectory`: one launch by flags, files of launches in every format, invalid launches.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::{fmt::Write as _, path::Path};

use common::{RunOutput, Sandbox, run};
use gpuforge_testkit::adapter;
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// `gpuforge trajectory …` with these arguments; paths are resolved in the sandbox.
fn trajectory(sandbox: &Sandbox, words: &[&str]) -> RunOutput {
    let mut all = vec!["trajectory"];
    all.extend(words);
    run(&mut sandbox.gpuforge(&all))
}

fn launches(sandbox: &Sandbox, name: &str, n: usize) -> String {
    let mut csv = "speed,angle,azimuth,spin,tilt,height\n".to_owned();
    for i in 0..n {
        let (a, b) = (i as f64 % 17.0, i as f64 % 13.0);
        writeln!(csv, "{},{},{},{},{},0", 50.0 + a, 10.0 + b, a / 4.0 - 2.0, 2000.0 + 100.0 * b, b - 6.0)
            .unwrap();
    }
    let path = sandbox.path(name);
    std::fs::write(&path, csv).unwrap();
    text(&path).to_owned()
}

/// Rows of a CSV file as texts.
fn table(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(cells).collect()
}

#[test]
fn fly_prints_and_plots_one_launch() {
    let sandbox = Sandbox::new();
    let (svg, paths) = (sandbox.path("f.svg"), sandbox.path("p.csv"));
    let words = ["fly", "--speed", "70", "--angle", "12", "--spin", "2600", "--tilt", "8", "--wind", "5"];
    let files = ["--svg", text(&svg), "--paths", text(&paths)];
    let told = trajectory(&sandbox, &[&words[..], &files].concat()).ok().stdout;
    assert!(told.starts_with("carry ") && told.contains("(landed)") && told.contains("apex"), "{told}");
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("from the side") && drawn.contains("from above"));
    let path = table(&paths);
    assert_eq!(path[0].join(","), "line,time,x,y,z,vx,vy,vz,spin");
    assert!(path.len() > 400 && path[1][0] == "1" && path[1][1] == "0.0");
    assert_eq!(path.last().unwrap()[3], "0.0", "the last point is on the ground");
    let json = trajectory(&sandbox, &[&words[..], &["--json"]].concat()).json();
    let summary = &json["summary"];
    assert_eq!((summary["status"].as_str(), json["launch"]["speed"].as_f64()), (Some("landed"), Some(70.0)));
    assert!(summary["carry"].as_f64().unwrap() > 150.0 && json["points"].as_u64().unwrap() > 400, "{json}");
}

#[test]
fn vacuum_matches_the_parabola() {
    let sandbox = Sandbox::new();
    for method in [&["--step", "0.02"][..], &["--tolerance", "0.001"]] {
        let words = ["fly", "--speed", "20", "--angle", "45", "--vacuum", "--json"];
        let json = trajectory(&sandbox, &[&words[..], method].concat()).json();
        let carry = json["summary"]["carry"].as_f64().unwrap();
        assert!((carry - 400.0 / 9.80665).abs() < 1e-9, "{carry}");
    }
}

#[test]
fn invalid_launches_are_wrong_usage() {
    let sandbox = Sandbox::new();
    let base = ["fly", "--speed", "70", "--angle", "12"];
    let cases: [(&[&str], &str); 8] = [
        (&["--mass", "-0.05"], "the mass is -0.05: it must be from 0.0001 to 100 kg"),
        (&["--radius", "0"], "radius"),
        (&["--spin", "NaN"], "the spin is NaN"),
        (&["--humidity", "130"], "humidity"),
        (&["--wind", "1000"], "wind speed"),
        (&["--step", "0"], "step"),
        (&["--tolerance", "-1"], "unexpected argument"),
        (&["--time-limit", "inf"], "time limit"),
    ];
    for (words, what) in cases {
        let ran = trajectory(&sandbox, &[&base[..], words].concat());
        assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{words:?}: {}", ran.stderr);
    }
    let ran = trajectory(&sandbox, &["fly", "--angle", "12"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--speed"), "{}", ran.stderr);
}

#[test]
fn batch_results_agree_across_formats_and_backends() {
    let sandbox = Sandbox::new();
    let csv = launches(&sandbox, "in.csv", 300);
    let (out, pq, arrow) = (sandbox.path("out.csv"), sandbox.path("out.parquet"), sandbox.path("out.arrow"));
    for output in [&out, &pq, &arrow] {
        let words = ["batch", &csv, "-o", text(output), "--device", "cpu", "--json"];
        let json = trajectory(&sandbox, &words).json();
        assert_eq!((json["launches"].as_u64(), json["landed"].as_u64()), (Some(300), Some(300)), "{json}");
        assert_eq!((json["device"].as_str(), json["bad"].as_array().unwrap().len()), (Some("cpu"), 0));
    }
    let rows = table(&out);
    assert_eq!(rows[0][..4], ["line", "status", "carry", "downrange"]);
    assert_eq!((rows.len(), rows[1][0].as_str(), rows[1][1].as_str()), (301, "2", "landed"));
    assert_eq!(std::fs::read(&pq).unwrap()[..4], *b"PAR1");
    assert_eq!(std::fs::read(&arrow).unwrap()[..6], *b"ARROW1");
    // One launch by flags gives the result of its row.
    let words = [
        "fly",
        "--speed",
        "50",
        "--angle",
        "10",
        "--azimuth",
        "-2",
        "--spin",
        "2000",
        "--tilt",
        "-6",
        "--json",
    ];
    let one = trajectory(&sandbox, &words).json();
    assert_eq!(one["summary"]["carry"].as_f64().unwrap(), rows[1][2].parse::<f64>().unwrap());
    // Stdout, on the backend that the router chooses.
    let told = trajectory(&sandbox, &["batch", &csv, "-o", "-", "--device", "cpu"]).ok().stdout;
    assert_eq!(told, std::fs::read_to_string(&out).unwrap());
    let auto = sandbox.path("auto.csv");
    let json = trajectory(&sandbox, &["batch", &csv, "-o", text(&auto), "--json"]).json();
    assert!(json["reason"].as_str().is_some_and(|r| !r.is_empty()), "{json}");
    let close = |a: &str, b: &str| (a.parse::<f64>().unwrap() - b.parse::<f64>().unwrap()).abs() < 0.01;
    assert!(table(&auto).iter().zip(&rows).skip(1).all(|(a, b)| close(&a[2], &b[2])));
}

#[test]
fn batch_output_can_be_read_again() {
    // A paths file has no launch columns: the error lists missing and present ones.
    let sandbox = Sandbox::new();
    let csv = launches(&sandbox, "in.csv", 5);
    let paths = sandbox.path("paths.parquet");
    let out = sandbox.path("o.csv");
    trajectory(&sandbox, &["batch", &csv, "-o", text(&out), "--device", "cpu", "--paths", text(&paths)]).ok();
    let ran = trajectory(&sandbox, &["batch", text(&paths), "-o", text(&out), "--device", "cpu"]);
    assert_eq!(ran.code, Some(1));
    for part in
        ["no column `speed`, `angle`", "line, time, x, y, z", "needed: speed, angle", "optional: azimuth"]
    {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[test]
fn an_invalid_row_is_reported_with_its_line_and_the_rest_computed() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("mixed.csv");
    let rows = ["70,12,2500", "NaN,12,2500", "fast,12,2500", "", "71,95,2500", "72,13", "73,13,2600"];
    std::fs::write(&path, format!("speed,angle,spin\n{}\n", rows.join("\n"))).unwrap();
    let out = sandbox.path("o.csv");
    let ran = trajectory(&sandbox, &["batch", text(&path), "-o", text(&out), "--device", "cpu"]).ok();
    for part in [
        "line 3: the speed is NaN: it must be from 0 to 500 m/s",
        "line 4: column `speed`: \"fast\" is not a number",
        "line 6: the angle is 95: it must be from -90 to 90 degrees",
        "line 7: 2 cells, and the header names 3 columns",
    ] {
        assert!(ran.stderr.contains(part), "{part}:\n{}", ran.stderr);
    }
    assert!(ran.stdout.starts_with("6 launches, 2 landed, 4 bad"), "{}", ran.stdout);
    let text_out = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = text_out.lines().collect();
    assert_eq!(lines.len(), 7);
    assert!(lines[1].starts_with("2,landed,") && lines[6].starts_with("8,landed,"), "{text_out}");
    assert!(lines[2].starts_with("3,error: the speed is NaN") && lines[2].ends_with(",,,"), "{text_out}");
    let json =
        trajectory(&sandbox, &["batch", text(&path), "-o", text(&out), "--device", "cpu", "--json"]).json();
    let bad: Vec<Value> = json["bad"].as_array().unwrap().clone();
    assert_eq!(bad.iter().map(|b| b["line"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 4, 6, 7]);
}

#[test]
fn files_without_launches_are_rejected() {
    let sandbox = Sandbox::new();
    let out = sandbox.path("o.csv");
    let cases = [
        ("empty.csv", "", "the file is empty"),
        ("lacks.csv", "velocity,angle\n1,2\n", "there is no column `speed`"),
        ("bad.csv", "speed,angle\nx,1\ny,2\n", "no launch is valid; line 2"),
        ("broken.parquet", "PAR1 and no more", "damaged"),
    ];
    for (name, content, what) in cases {
        let path = sandbox.path(name);
        std::fs::write(&path, content).unwrap();
        let ran = trajectory(&sandbox, &["batch", text(&path), "-o", text(&out), "--device", "cpu"]);
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{name}: {}", ran.stderr);
        assert!(!out.exists(), "{name} left a file");
    }
    let header = sandbox.path("header.csv");
    std::fs::write(&header, "speed,angle\n").unwrap();
    let ran = trajectory(&sandbox, &["batch", text(&header), "-o", text(&out), "--device", "cpu"]).ok();
    assert!(ran.stdout.starts_with("0 launches"), "{}", ran.stdout);
    let ran = trajectory(&sandbox, &["batch", text(&header), "-o", "o.xyz", "--device", "cpu"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("xyz"), "{}", ran.stderr);
    let ran = trajectory(&sandbox, &["batch", "nowhere.csv", "-o", text(&out)]);
    assert!(ran.code == Some(1) && ran.stderr.contains("nowhere.csv"), "{}", ran.stderr);
}

#[test]
fn device_gpu_uses_the_device() {
    let sandbox = Sandbox::new();
    let csv = launches(&sandbox, "in.csv", 100);
    let (cpu, gpu) = (sandbox.path("c.csv"), sandbox.path("g.csv"));
    trajectory(&sandbox, &["batch", &csv, "-o", text(&cpu), "--device", "cpu"]).ok();
    let ran = trajectory(&sandbox, &["batch", &csv, "-o", text(&gpu), "--device", "gpu", "--json"]);
    if ran.code != Some(0) {
        assert!(ran.stderr.contains("there is no device"), "{}", ran.stderr);
    }
    if adapter::or_skip(if ran.code == Some(0) { Ok(()) } else { Err(&ran.stderr) }).is_some() {
        let json: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(json["landed"].as_u64(), Some(100), "{json}");
        let carry = |path: &Path| -> Vec<f64> {
            table(path).iter().skip(1).map(|row| row[2].parse().unwrap()).collect()
        };
        assert!(carry(&cpu).iter().zip(carry(&gpu)).all(|(a, b)| (a - b).abs() < 5e-3));
    }
    let words = ["batch", &csv, "-o", text(&gpu), "--device", "gpu", "--tolerance", "0.01"];
    let ran = trajectory(&sandbox, &words);
    assert!(ran.code == Some(2) && ran.stderr.contains("fixed steps only"), "{}", ran.stderr);
    let auto = ["batch", &csv, "-o", text(&gpu), "--tolerance", "0.01", "--json"];
    assert_eq!(trajectory(&sandbox, &auto).json()["device"].as_str(), Some("cpu"));
}
