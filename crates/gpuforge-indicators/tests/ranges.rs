//! Value ranges: outputs stay in the catalogue's ranges on random, trending, flat, halted and gapped bars, sampled parameters.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;

use common::{Bars, cases::draws, flat, gaps, halt, high, market, monotone, no_volume, uneven, walk};
use gpuforge_indicators::{
    catalogue::{self, Convention, Indicator},
    exec::{ExecOptions, run},
    select::{Instance, SelectItem, Selector, select},
};

const BARS: usize = 1500;

fn shapes() -> Vec<(&'static str, Bars)> {
    vec![
        ("a walk", walk(BARS, 7)),
        ("another walk", walk(BARS, 8)),
        ("a market", market(BARS, 9)),
        ("a flat series", flat(BARS)),
        ("a rise", monotone(BARS, 0.25)),
        ("a fall", monotone(BARS, -0.25)),
        ("an uneven rise", uneven(BARS, 0.25)),
        ("an uneven fall", uneven(BARS, -0.25)),
        ("gaps", gaps(BARS)),
        ("a high level", high(BARS)),
        ("no volume", no_volume(BARS)),
        ("a halt", halt(BARS)),
    ]
}

/// Observed range of an output.
#[derive(Debug, Clone, Copy)]
struct ObservedRange {
    min: f64,
    max: f64,
    nan: usize,
}

/// Visits every output of these instances on every shape: its values after the warm-up, and their first bar.
fn visit_outputs(instances: &[Instance], mut tell: impl FnMut(&Instance, usize, &str, usize, &[f64])) {
    // In chunks: thousands of instances at once would be a plan of a hundred thousand nodes.
    for some in instances.chunks(64) {
        let selection = select(some);
        for (shape, bars) in shapes() {
            let columns =
                run(&selection.plan, &[bars.series()], ExecOptions { threads: 1, ..ExecOptions::default() })
                    .remove(0);
            for instance in some {
                for (output, name) in instance.columns() {
                    let at = selection.columns.iter().position(|c| *c == name).unwrap();
                    let start = selection.plan.starts()[at].min(BARS);
                    tell(instance, output, shape, start, &columns[at][start..]);
                }
            }
        }
    }
}

/// Every row with sampled parameters.
fn instances(convention: Convention) -> Vec<Instance> {
    let each = |row: &'static Indicator| {
        let with = |params: Vec<f64>| Instance { convention, ..Instance::with(row, &params) };
        draws(row, 4, 3).into_iter().map(with).collect::<Vec<_>>()
    };
    catalogue::all().flat_map(each).collect()
}

/// Rows with sources that are negative half of the time; of two sources, one or both.
fn sourced() -> Vec<Instance> {
    let rows = catalogue::all().filter(|r| r.takes_source());
    let each = |row: &'static Indicator| {
        let both =
            if row.n_sources() == 2 { format!(", {}(mom(3), mom(5))", row.name) } else { String::new() };
        let wanted = Selector::new().select(&format!("{}(source=mom(3)){both}", row.name)).unwrap();
        wanted.into_iter().filter_map(|w| if let SelectItem::Instance(i) = w { Some(i) } else { None })
    };
    rows.flat_map(each).collect()
}

/// Tolerance for rounding, relative to the bound.
const TOLERANCE: f64 = 1e-9;

fn check(instances: &[Instance]) {
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    let mut bounded = 0;
    visit_outputs(instances, |instance, output, shape, start, values| {
        let Some(range) = instance.range(output) else { return };
        bounded += values.len();
        if let Some(t) = values.iter().position(|x| !range.contains(*x, TOLERANCE)) {
            let name = format!("{}.{}", instance.row.name, instance.row.outputs[output]);
            let (bar, x) = (start + t, values[t]);
            let what = || format!("{:?} on {shape}, bar {bar}: {x} is not {range}", instance.params);
            wrong.entry(name).or_insert_with(what);
        }
    });
    assert!(bounded > 100_000, "{bounded} values have a range");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn values_stay_in_their_ranges() {
    check(&instances(Convention::TaLib));
}

#[test]
fn ranges_hold_in_the_pandas_convention() {
    let rows =
        ["rsi", "atr", "natr", "bbw", "percentb", "macd", "ppo", "adx", "stochrsi", "crsi", "supertrend"];
    let some = instances(Convention::Pandas).into_iter().filter(|i| rows.contains(&i.row.name));
    check(&some.collect::<Vec<_>>());
}

#[test]
fn ranges_hold_for_sources_of_any_sign() {
    check(&sourced());
}

/// NaN after the warm-up on bars without NaN must be declared (`starts_late`).
#[test]
fn data_dependent_starts_are_declared() {
    let mut wrong = BTreeMap::new();
    visit_outputs(&instances(Convention::TaLib), |instance, output, shape, start, values| {
        let clean = ["a walk", "another walk", "a market"].contains(&shape);
        let domain = ["acos", "asin"].contains(&instance.row.name);
        let first = values.iter().position(|x| !x.is_nan()).unwrap_or(0);
        let values = if instance.row.starts_late() { &values[first..] } else { values };
        if clean && !domain && values.iter().any(|x| x.is_nan()) {
            let what = || format!("{:?}, output {output}, on {shape}, after bar {start}", instance.params);
            wrong.entry(instance.row.name).or_insert_with(what);
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
#[ignore = "prints observed ranges, for adding a range"]
fn print_observed_ranges() {
    let mut table: BTreeMap<String, [ObservedRange; 2]> = BTreeMap::new();
    for (at, all) in [instances(Convention::TaLib), sourced()].iter().enumerate() {
        visit_outputs(all, |instance, output, _, _, values| {
            let name = format!("{}.{}", instance.row.name, instance.row.outputs[output]);
            let new = ObservedRange { min: f64::INFINITY, max: f64::NEG_INFINITY, nan: 0 };
            let seen = &mut table.entry(name).or_insert([new; 2])[at];
            for x in values {
                seen.min = seen.min.min(*x);
                seen.max = seen.max.max(*x);
                seen.nan += usize::from(x.is_nan());
            }
        });
    }
    for (name, [own, other]) in table {
        println!("{name} {} {} {} | {} {} {}", own.min, own.max, own.nan, other.min, other.max, other.nan);
    }
}
