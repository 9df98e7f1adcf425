//! TA-Lib's defaults: input columns and parameters of every row that carries the name of a TA-Lib function.
//!
//! Two witnesses: `talib_defaults.txt`, read from the abstract interface of the Python package (which
//! `test_talib_defaults.py` compares with the package that is installed), and the crate `ta-lib`, which has more functions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;

use gpuforge_indicators::{
    catalogue::{self, Indicator, Oracle},
    graph::Field,
};
use ta_lib::abstract_api::{OptInputType, get_func_handle};

/// A function of TA-Lib: input columns, and parameters with defaults.
struct Function {
    inputs: Vec<&'static str>,
    params: Vec<(&'static str, f64)>,
}

/// The functions of `talib_defaults.txt`, by name.
fn functions() -> BTreeMap<&'static str, Function> {
    let text = include_str!("talib_defaults.txt");
    assert!(text.starts_with("# TA-Lib 0."), "the first line says which version it is");
    let function = |line: &'static str| {
        let mut words = line.split_whitespace();
        let (name, inputs) = (words.next().unwrap(), words.next().unwrap().split(',').collect());
        let param = |word: &'static str| {
            let (name, default) = word.split_once('=').unwrap();
            (name, default.parse().unwrap())
        };
        (name, Function { inputs, params: words.map(param).collect() })
    };
    text.lines().skip(1).map(function).collect()
}

/// Rows by the name of their function of TA-Lib.
fn rows() -> impl Iterator<Item = (&'static str, &'static Indicator)> {
    catalogue::all().filter_map(|row| row.aliases.first().map(|alias| (*alias, row)))
}

fn field(name: &str) -> Option<Field> {
    Field::ALL.into_iter().find(|f| format!("{f:?}").eq_ignore_ascii_case(name))
}

#[test]
fn defaults_are_those_of_the_python_package() {
    let functions = functions();
    assert_eq!(functions.len(), 201);
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, row) in rows() {
        let Some(function) = functions.get(name) else { continue };
        let params: Vec<f64> = function.params.iter().map(|(_, default)| *default).collect();
        if row.defaults() != params {
            wrong.push(format!("{}: {:?}, TA-Lib {:?}", row.name, row.defaults(), function.params));
        }
        // Bars have no column `periods`: the second input of MAVP.
        let same = |(of_row, of_talib): (&Field, &&str)| field(of_talib).is_none_or(|f| f == *of_row);
        let inputs = row.inputs.iter().zip(&function.inputs);
        if row.inputs.len() != function.inputs.len() || !inputs.clone().all(same) {
            wrong.push(format!("{}: reads {:?}, TA-Lib {:?}", row.name, row.inputs, function.inputs));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // All but MA, which `gpuforge.talib` composes of others.
    assert_eq!(compared, functions.len() - 1);
}

/// Where the crate (0.8.3) differs from the Python package (0.8.2), whose interface `gpuforge.talib` has: the package wins.
const CRATE_DIFFERS: [(&str, &[f64]); 1] = [("PERCENTILE", &[100.0, 50.0])];

#[test]
fn defaults_are_those_of_the_crate() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, row) in rows().filter(|(_, row)| row.oracle == Oracle::TaLib) {
        let info = get_func_handle(name).unwrap_or_else(|| panic!("TA-Lib has no {name}")).info();
        let default = |kind: &OptInputType| match kind {
            OptInputType::RealRange { default, .. } | OptInputType::RealList { default, .. } => *default,
            OptInputType::IntegerRange { default, .. } => f64::from(*default),
            OptInputType::IntegerList { default, .. } => *default as f64,
        };
        let params: Vec<f64> = info.opt_inputs.iter().map(|opt| default(&opt.kind)).collect();
        let listed = CRATE_DIFFERS.iter().find(|(of, _)| *of == name);
        let want = listed.map_or_else(|| row.defaults(), |(_, params)| params.to_vec());
        if want != params || (listed.is_some() && row.defaults() == params) {
            wrong.push(format!("{}: {:?}, TA-Lib {params:?}", row.name, row.defaults()));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 230, "{compared} rows");
}

/// Rows whose inputs are two arrays in TA-Lib take two sources.
#[test]
fn functions_of_two_arrays_take_two_sources() {
    let free: Vec<&str> = rows().filter(|(_, row)| row.n_sources() == 2).map(|(name, _)| name).collect();
    assert_eq!(free, ["MAVP", "ADD", "SUB", "MULT", "DIV", "BETA", "CORREL"]);
}
