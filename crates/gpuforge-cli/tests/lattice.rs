//! `gpuforge lattice`: statistics, paths, XOR, analysis, errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails loudly"
)]

mod common;

use common::{RunOutput, Sandbox, run};
use serde_json::{Value, json};

fn lattice(sandbox: &Sandbox, args: &[&str]) -> RunOutput {
    run(&mut sandbox.gpuforge(&[&["lattice"], args].concat()))
}

#[test]
fn info_uses_closed_forms() {
    let sandbox = Sandbox::new();
    let json = lattice(&sandbox, &["info", "--dims", "4", "--size", "10", "--json"]).json();
    for (field, want) in [
        ("dims", json!(4)),
        ("sizes", json!([10, 10, 10, 10])),
        ("vertices", json!(10_000)),
        ("edges", json!(36_000)),
        ("mean_degree", json!(7.2)),
        ("diameter", json!({"least": 36, "most": 36, "exact": true})),
        ("connected", json!(true)),
        ("clustering", json!(0.0)),
        ("origin", json!("closed-form")),
    ] {
        assert_eq!(json[field], want, "{field}");
    }
    assert!((json["density"].as_f64().unwrap() - 72_000.0 / (1e4 * 9999.0)).abs() < 1e-12);
    let text = lattice(&sandbox, &["info", "--size", "1000,1000,1000"]).ok().stdout;
    assert!(text.contains("1000000000") && text.contains("diameter     2997"), "{text}");
}

#[test]
fn paths_are_found_counted_and_plotted() {
    let sandbox = Sandbox::new();
    let json = lattice(&sandbox, &["path", "--dims", "4", "--size", "10", "--count", "--json"]).json();
    assert_eq!((&json["vertices"], &json["cost"]), (&json!(37), &json!(36.0)));
    assert_eq!((&json["method"], &json["found"]), (&json!("closed-form"), &json!(true)));
    assert_eq!(json["path"].as_array().unwrap().last(), Some(&json!(9999)));
    // 36! / 9!^4
    assert_eq!(json["shortest_paths"]["exact"], "21452752266265320000");

    let svg = sandbox.path("path.svg");
    let file = svg.to_str().unwrap();
    let args = ["path", "--dims", "2", "--size", "40", "--blocked", "0.3", "--seed", "7", "--svg", file];
    let text = lattice(&sandbox, &args).ok().stdout;
    assert!(text.contains("detours") && text.contains("(0,0)") && text.contains("(39,39)"), "{text}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("<polyline"));
    let json = lattice(&sandbox, &[&args[..], &["--json"]].concat()).json();
    assert!(json["vertices"].as_u64().unwrap() >= 79 && json["svg"] == file);
    assert_eq!(json["path"].as_array().unwrap().len() as u64, json["vertices"].as_u64().unwrap());

    let weighted = ["path", "--size", "20,20", "--random-weights", "1,9", "--json"];
    let json = lattice(&sandbox, &weighted).json();
    assert_eq!(json["method"], "weighted");
    assert!(json["cost"].as_f64().unwrap() > 38.0);
}

#[test]
fn blocked_cells_and_weights_from_files() {
    let sandbox = Sandbox::new();
    let (walls, costs) = (sandbox.path("walls"), sandbox.path("costs"));
    std::fs::write(&walls, "0,1 1,1 # a wall\n2,1\n").unwrap();
    std::fs::write(&costs, "0 0 1 1\n5 0 1 1\n5 0 1 1\n5 5 5 1\n").unwrap();
    let (walls, costs) = (walls.to_str().unwrap(), costs.to_str().unwrap());
    let args = ["path", "--dims", "2", "--size", "4", "--to", "0,2", "--blocked-file", walls, "--json"];
    let around = lattice(&sandbox, &args).json();
    assert_eq!(around["vertices"], 9);
    let priced = lattice(&sandbox, &[&args[..], &["--weights", costs]].concat()).json();
    assert_eq!(priced["cost"], 28.0);
    std::fs::write(costs, "1 1 1 1\n1 -2 1 1\n1 1 1 1\n1 1 1 1\n").unwrap();
    let ran = lattice(&sandbox, &[&args[..], &["--weights", costs]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cell 5 is -2") && ran.stderr.contains("hint"), "{}", ran.stderr);
}

#[test]
fn no_path_has_exit_code_1() {
    let sandbox = Sandbox::new();
    let args = ["path", "--dims", "2", "--size", "3", "--block", "1,0 1,1 1,2"];
    let ran = lattice(&sandbox, &[&args[..], &["--json"]].concat());
    assert_eq!(ran.code, Some(1));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["found"], &json["path"]), (&json!(false), &Value::Null));
    let ran = lattice(&sandbox, &args);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("there is no path from cell 0 to cell 8") && ran.stderr.contains("hint:"));
}

#[test]
fn invalid_lattices_are_rejected_with_a_hint() {
    let sandbox = Sandbox::new();
    for (args, code, said) in [
        (vec!["info", "--dims", "3", "--size", "0"], 2, "size 0"),
        (vec!["info", "--dims", "30", "--size", "100"], 2, "more than 2^64"),
        (vec!["info", "--dims", "0", "--size", "4"], 2, "0 dimensions"),
        (vec!["info", "--dims", "3", "--size", "4,4"], 2, "2 sizes"),
        (vec!["path", "--dims", "2", "--size", "4", "--to", "16"], 2, "has 16"),
        (vec!["path", "--dims", "2", "--size", "4", "--from", "0,9"], 2, "outside"),
        (vec!["path", "--dims", "2", "--size", "4", "--to", "x"], 2, "no cell"),
        (vec!["path", "--dims", "2", "--size", "4", "--block", "0"], 1, "the start, cell 0, is blocked"),
        (vec!["path", "--dims", "2", "--size", "4", "--block", "3,3"], 1, "the goal, cell 15, is blocked"),
        (vec!["path", "--dims", "2", "--size", "4", "--blocked", "1.5"], 2, "between 0 and 1"),
        (vec!["path", "--dims", "2", "--size", "4", "--random-weights", "-3,1"], 2, "not negative"),
        (vec!["path", "--dims", "3", "--size", "4", "--svg", "x.svg"], 2, "cannot be drawn"),
        (vec!["analyse", "--dims", "2", "--size", "100000", "--block", "1"], 1, "at most"),
        (vec!["xor", "--text", "a", "--key", "xyz"], 2, "is no key"),
        (vec!["xor", "--text", "abc", "--dims", "2", "--size", "2"], 1, "one per cell"),
    ] {
        let ran = lattice(&sandbox, &args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said) && ran.stderr.contains("hint:"), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(lattice(&sandbox, &["info", "--size", "x"]).code, Some(2));
}

#[test]
fn xor_round_trips_with_its_key() {
    let sandbox = Sandbox::new();
    let first = lattice(&sandbox, &["xor", "--text", "hello", "--json"]).json();
    let key = first["key"].as_str().unwrap();
    assert_eq!((key.len(), first["bytes"].as_u64()), (64, Some(5)));
    let hidden = sandbox.path("hidden");
    let args = ["xor", "--text", "hello", "--key", key, "-o", hidden.to_str().unwrap()];
    let text = lattice(&sandbox, &args).ok().stdout;
    assert!(text.contains("5 bytes") && text.contains(key), "{text}");
    let back = lattice(&sandbox, &["xor", hidden.to_str().unwrap(), "--key", key, "--json"]).json();
    assert_eq!(back["data"], "68656c6c6f");
    let cells =
        lattice(&sandbox, &["xor", "--text", "abcd", "--dims", "2", "--size", "2", "--key", "00"]).ok();
    assert!(cells.stdout.contains("61626364"), "{}", cells.stdout);
}

#[test]
fn analyse_one_and_a_batch() {
    let sandbox = Sandbox::new();
    let shape = ["analyse", "--dims", "3", "--size", "6", "--blocked", "0.3", "--seed", "4"];
    let one = lattice(&sandbox, &[&shape[..], &["--json", "--centrality", "--communities"]].concat()).json();
    assert_eq!(one["origin"], "computed");
    assert_eq!(one["vertices"].as_u64().unwrap() + one["blocked"].as_u64().unwrap(), 216);
    assert_eq!(one["centrality"]["betweenness"].as_array().unwrap().len(), 216);
    assert!(one["communities"]["count"].as_u64().unwrap() >= 2);
    let many = lattice(&sandbox, &[&shape[..], &["--json", "--lattices", "20"]].concat()).json();
    let all = many["lattices"].as_array().unwrap();
    assert_eq!(all.len(), 20);
    for field in ["vertices", "edges", "components", "diameter"] {
        assert_eq!(all[0][field], one[field], "the first has the seed itself");
    }
    let text = lattice(&sandbox, &[&shape[..], &["--centrality", "--communities"]].concat()).ok().stdout;
    assert!(text.contains("betweenness: cell") && text.contains("modularity"), "{text}");
    let text = lattice(&sandbox, &[&shape[..], &["--lattices", "20"]].concat()).ok().stdout;
    assert!(text.contains("20 lattices of 216 cells"), "{text}");
}
