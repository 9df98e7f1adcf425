//! Every function of the table has its row in the catalogue, with as many inputs, parameters and outputs.
#![allow(dead_code, reason = "the module belongs to a library that tests cannot be linked with")]

#[path = "../src/talib/table.rs"]
mod table;

use gpuforge::indicators::catalogue::{self, Oracle};
use table::{FLAGS, OUTPUT_FLAGS, TABLE};

#[test]
fn every_function_is_in_the_catalogue() {
    let mut missing = Vec::new();
    for function in TABLE {
        let row = catalogue::all().find(|r| r.aliases.first() == Some(&function.name));
        let Some(row) = row.filter(|r| r.oracle == Oracle::TaLib) else {
            missing.push(function.name);
            continue;
        };
        let words = |text: &str| text.split_whitespace().count();
        let found = (words(function.params), words(function.outputs));
        assert_eq!(found, (row.params.len(), row.outputs.len()), "{}", function.name);
        let inputs: Vec<&str> = function.inputs.split_whitespace().collect();
        assert_eq!(inputs.len(), row.inputs.len(), "{}: {inputs:?} and {:?}", function.name, row.inputs);
    }
    // Composed of others.
    assert_eq!(missing, ["MA"]);
}

#[test]
fn flags_are_known() {
    let known = |flags: &[(char, &str)], c: char| flags.iter().any(|(flag, _)| *flag == c);
    for function in TABLE {
        assert!(function.flags.chars().all(|c| known(&FLAGS, c)), "{}", function.name);
        for output in function.outputs.split_whitespace() {
            let (_, flags) = output.split_once(':').unwrap_or_default();
            assert!(
                !flags.is_empty() && flags.chars().all(|c| "ix>".contains(c) || known(&OUTPUT_FLAGS, c)),
                "{output}"
            );
        }
    }
}
