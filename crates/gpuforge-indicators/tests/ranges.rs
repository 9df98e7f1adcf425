//! Do values stay in the ranges that the catalogue states? Random, trending, flat, halting and gapped bars, random parameters.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;

use common::{Bars, cases::draws, flat, gaps, halt, high, market, monotone, no_volume, uneven, walk};
use gpuforge_indicators::{
    catalogue::{self, Convention, Indicator},
    exec::{How, run},
    select::{Instance, Selector, Wanted, select},
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

/// What an output was seen to be.
#[derive(Debug, Clone, Copy)]
struct Seen {
    min: f64,
    max: f64,
    nan: usize,
}

/// Every output of these instances over every shape: its values after the warm-up, and where they begin.
fn seen(instances: &[Instance], mut tell: impl FnMut(&Instance, usize, &str, usize, &[f64])) {
    // In parts: thousands of instances at once are a plan of a hundred thousand nodes.
    for some in instances.chunks(64) {
        let selection = select(some);
        for (shape, bars) in shapes() {
            let columns =
                run(&selection.plan, &[bars.series()], How { threads: 1, ..How::default() }).remove(0);
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

/// Every row with parameters from all of their range.
fn instances(convention: Convention) -> Vec<Instance> {
    let each = |row: &'static Indicator| {
        let with = |params: Vec<f64>| Instance { convention, ..Instance::with(row, &params) };
        draws(row, 4, 3).into_iter().map(with).collect::<Vec<_>>()
    };
    catalogue::all().flat_map(each).collect()
}

/// One-input rows that read something that is negative as often as not.
fn sourced() -> Vec<Instance> {
    let rows = catalogue::all().filter(|r| r.takes_source());
    let each = |row: &'static Indicator| {
        let wanted = Selector::new().select(&format!("{}(source=mom(3))", row.name)).unwrap();
        wanted.into_iter().filter_map(|w| if let Wanted::Instance(i) = w { Some(i) } else { None })
    };
    rows.flat_map(each).collect()
}

/// Rounding: what a bound may be missed by, as a share of it.
const SLACK: f64 = 1e-9;

fn check(instances: &[Instance]) {
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    let mut bounded = 0;
    seen(instances, |instance, output, shape, start, values| {
        let Some(range) = instance.range(output) else { return };
        bounded += values.len();
        if let Some(t) = values.iter().position(|x| !range.contains(*x, SLACK)) {
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
fn values_stay_in_their_range() {
    check(&instances(Convention::TaLib));
}

#[test]
fn the_convention_of_pandas_keeps_the_ranges() {
    let rows =
        ["rsi", "atr", "natr", "bbw", "percentb", "macd", "ppo", "adx", "stochrsi", "crsi", "supertrend"];
    let some = instances(Convention::Pandas).into_iter().filter(|i| rows.contains(&i.row.name));
    check(&some.collect::<Vec<_>>());
}

#[test]
fn a_source_of_any_sign_keeps_the_ranges() {
    check(&sourced());
}

/// A NaN after the warm-up of bars without any is declared, or it is a mistake.
#[test]
fn rows_that_start_late_are_declared() {
    let mut wrong = BTreeMap::new();
    seen(&instances(Convention::TaLib), |instance, output, shape, start, values| {
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
#[ignore = "prints what was seen, for whoever adds a range"]
fn print_what_is_seen() {
    let mut table: BTreeMap<String, [Seen; 2]> = BTreeMap::new();
    for (at, all) in [instances(Convention::TaLib), sourced()].iter().enumerate() {
        seen(all, |instance, output, _, _, values| {
            let name = format!("{}.{}", instance.row.name, instance.row.outputs[output]);
            let new = Seen { min: f64::INFINITY, max: f64::NEG_INFINITY, nan: 0 };
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
