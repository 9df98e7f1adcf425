//! Expectation files: compares the inventory of a text with the JSON beside it; shared by recordings and fixtures.
//!
//! Each `NAME.txt` has a `NAME.expected.json` beside it; `devices` in it are `gpus` of ours. A value of `unknown` for
//! `type` or `usable_for_compute` accepts any answer, since the text alone does not decide it. `warnings` lists parts
//! of messages that must be among ours; `note` is for the reader.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Checks every text of a directory that has an expectation: how many there were, and what was wrong.
pub(crate) fn check_folder(folder: &Path) -> (usize, Vec<String>) {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).collect();
    files.sort();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for text in files.iter().filter(|p| p.extension().is_some_and(|e| e == "txt")) {
        let Ok(expected) = fs::read_to_string(text.with_extension("expected.json")) else { continue };
        let expected: Value = serde_json::from_str(&expected).unwrap();
        checked += 1;
        for problem in check(text, &expected) {
            wrong.push(format!("{}: {problem}", text.display()));
        }
    }
    (checked, wrong)
}

fn check(text: &Path, expected: &Value) -> Vec<String> {
    let Some(inventory) = gpuforge_detect::from_text(&fs::read(text).unwrap()) else {
        return vec!["not recognised".to_owned()];
    };
    let got = serde_json::to_value(&inventory).unwrap();
    let mut wrong = Vec::new();
    for key in ["kind", "kinds", "driver_version", "cuda_version", "kernel_module", "cpu"] {
        if let Some(want) = expected.get(key) {
            compare(key, want, &got[key], &mut wrong);
        }
    }
    for want in expected["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !inventory.warnings.iter().any(|w| w.message.contains(want)) {
            wrong.push(format!("no warning says {want:?}: {:?}", inventory.warnings));
        }
    }
    let (want, have) = (expected["devices"].as_array().unwrap(), got["gpus"].as_array().unwrap());
    if want.len() != have.len() {
        wrong.push(format!("{} devices instead of {}", have.len(), want.len()));
    }
    for (i, (want, have)) in want.iter().zip(have).enumerate() {
        for (key, value) in want.as_object().unwrap() {
            let optional = key == "bus_id"
                && expected["acceptable_bus_id"].as_array().is_some_and(|any| any.contains(&have["bus_id"]));
            if !optional {
                compare(&format!("gpus[{i}].{key}"), value, &have[key], &mut wrong);
            }
        }
    }
    wrong
}

/// Objects are compared by the keys that are expected; ours may say more.
pub(crate) fn compare(path: &str, want: &Value, have: &Value, wrong: &mut Vec<String>) {
    let any = want == "unknown" && (path.ends_with(".type") || path.ends_with(".usable_for_compute"));
    match (want, have) {
        _ if any => {}
        (Value::Object(want), Value::Object(_)) => {
            for (key, value) in want {
                compare(&format!("{path}.{key}"), value, &have[key], wrong);
            }
        }
        (Value::Array(want), Value::Array(have)) if want.len() == have.len() => {
            for (i, (want, have)) in want.iter().zip(have).enumerate() {
                compare(&format!("{path}[{i}]"), want, have, wrong);
            }
        }
        _ if want == have => {}
        _ => wrong.push(format!("{path}: expected {want}, got {have}")),
    }
}
