//! Every row that TA-Lib has, beside TA-Lib: defaults and random parameters, random walks, flat and monotone series, gaps,
//! zero volume, and lengths around the lookback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail"
)]

mod common;

use common::{Bars, Case, cases, compare, talib};
use forge_indicators::{
    catalogue::{self, Indicator, Kind, Oracle},
    exec::{How, run},
    select::{Instance, select},
};

/// Ours for one row, as TA-Lib would print it: one vector per output.
fn ours(row: &'static Indicator, params: &[f64], bars: &Bars) -> Vec<Vec<f64>> {
    let selection = select(&[Instance::with(row, params)]);
    run(&selection.plan, &[bars.series()], How { threads: 1, ..How::default() }).remove(0)
}

#[test]
fn every_row_with_a_name_of_talib_agrees_with_it() {
    let only = std::env::var("PARITY").unwrap_or_default();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for row in catalogue::all().filter(|r| r.oracle == Oracle::TaLib) {
        if !only.is_empty() && !only.split(',').any(|o| o == row.name) {
            continue;
        }
        checked += 1;
        let (mut worst, mut count) = (0f64, 0);
        for Case { name, bars, params } in cases(row) {
            let want = match talib(row, &params, &bars) {
                Ok(want) => want,
                Err(error) => {
                    wrong.push(format!("{}: TA-Lib: {error}", row.name));
                    break;
                }
            };
            let got = ours(row, &params, &bars);
            let exact = row.kind == Kind::Candlestick;
            match compare(&got, &want, exact) {
                Ok(error) => (worst, count) = (worst.max(error), count + 1),
                Err(why) => {
                    wrong.push(format!("{} {params:?} on {name}: {why}", row.name));
                    break;
                }
            }
        }
        println!(
            "{:<20} {:<20} worst {worst:.2e} in {count} cases",
            row.name,
            row.aliases.first().unwrap_or(&"-")
        );
    }
    assert!(checked > 0, "no row of that name");
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}
