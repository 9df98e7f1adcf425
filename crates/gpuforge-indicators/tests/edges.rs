//! Edge cases: NaN propagation, division by zero, constant and all-NaN columns.
//!
//! The rules for NaN are those of `docs/nan.md`, which is checked line by line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::path::PathBuf;

use common::{Bars, cases::draws, flat, market, no_volume, walk};
use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{ExecOptions, run},
    kernel::Simd,
    select::{Instance, Selector, plan, select},
};

/// Bars of a series, and the index of the NaN bar.
const BARS: usize = 1200;
const AT: usize = 600;

/// One thread, scalar.
fn one() -> ExecOptions {
    ExecOptions { threads: 1, simd: Simd::SCALAR, ..ExecOptions::default() }
}

fn instances() -> Vec<Instance> {
    let each = |row: &'static Indicator| {
        draws(row, 1, 0).into_iter().map(|params| Instance::with(row, &params)).collect::<Vec<_>>()
    };
    catalogue::all().flat_map(each).collect()
}

/// The row of a column.
fn row(instances: &[Instance], column: &str) -> &'static Indicator {
    let has = |i: &&Instance| i.columns().iter().any(|(_, name)| name == column);
    instances.iter().find(has).unwrap().row
}

/// The same bars with one NaN bar.
fn with_nan(bars: &Bars, at: usize) -> Bars {
    let mut bars = bars.clone();
    for column in [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume] {
        column[at] = f64::NAN;
    }
    bars
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn nan_affects_neither_earlier_bars_nor_other_series() {
    let instances = instances();
    let selection = select(&instances);
    let all: Vec<Bars> = (0..9).map(|i| walk(BARS, 80 + i)).collect();
    let clean: Vec<_> = all.iter().map(|b| run(&selection.plan, &[b.series()], one()).remove(0)).collect();
    // In a lane of a batched tile, and in a tile of its own.
    let mut mixed = all.clone();
    mixed[3] = with_nan(&all[3], AT);
    let series: Vec<_> = mixed.iter().map(Bars::series).collect();
    for simd in Simd::available() {
        let got = run(&selection.plan, &series, ExecOptions { simd, ..one() });
        for (i, (got, want)) in got.iter().zip(&clean).enumerate() {
            for (name, (got, want)) in selection.columns.iter().zip(got.iter().zip(want)) {
                let causal = row(&instances, name).causal;
                let until = if i != 3 {
                    BARS
                } else if causal {
                    AT
                } else {
                    0
                };
                let differs = (0..until).find(|t| !same(got[*t], want[*t]));
                assert!(differs.is_none(), "{simd:?}, series {i}, {name}: bar {differs:?} changed");
            }
        }
    }
}

#[test]
fn nan_never_produces_infinity() {
    let instances = instances();
    let selection = select(&instances);
    let bars = walk(BARS, 83);
    let clean = run(&selection.plan, &[bars.series()], one()).remove(0);
    for at in [0, 1, 7, AT, BARS - 1] {
        let got = run(&selection.plan, &[with_nan(&bars, at).series()], one()).remove(0);
        for (name, (got, clean)) in selection.columns.iter().zip(got.iter().zip(&clean)) {
            let infinite = (0..BARS).find(|t| got[*t].is_infinite() && !clean[*t].is_infinite());
            assert!(infinite.is_none(), "{name}: infinite at {infinite:?} after a NaN at {at}");
        }
    }
}

/// Which bars are NaN after a NaN bar at `AT`: as in the document, and as a predicate of the distance.
struct Rule {
    /// Operations.
    what: &'static str,
    /// Example selection.
    example: &'static str,
    /// Wording of the document.
    words: &'static str,
    is_nan: fn(usize) -> bool,
}

const RULES: &[Rule] = &[
    Rule { what: "arithmetic, functions, min, max", example: "add", words: "at t", is_nan: |d| d == 0 },
    Rule {
        what: "comparisons",
        example: "increasing(1,0)",
        words: "never: a comparison with it is 0, `differs` is 1",
        is_nan: |_| false,
    },
    Rule { what: "shift", example: "mom(10)", words: "at t and t + n", is_nan: |d| d == 0 || d == 10 },
    Rule { what: "sum", example: "sma(20)", words: "from t on", is_nan: |_| true },
    Rule {
        what: "linearly weighted sum",
        example: "wma(30)",
        words: "until the sums are renewed, every 8 n bars, after it has left the window",
        // The first value is at bar 29, and 29 + 3 * 240 the first renewal without it.
        is_nan: |d| d < 29 + 3 * 240 - AT,
    },
    Rule {
        what: "weighted window, mean deviation, rolling moments",
        example: "alma(9,6,0.85)",
        words: "while it is in the window",
        is_nan: |d| d < 9,
    },
    Rule {
        what: "rolling max, min",
        example: "max(30)",
        words: "while it is in the window",
        is_nan: |d| d < 30,
    },
    Rule {
        what: "rolling median",
        example: "median(30)",
        words: "while it is in the window",
        is_nan: |d| d < 30,
    },
    Rule {
        what: "rank",
        example: "percentrank(100)",
        words: "never: it compares as neither less nor greater",
        is_nan: |_| false,
    },
    Rule {
        what: "bars since an extreme",
        example: "maxindex(30)",
        words: "never: it is no candidate",
        is_nan: |_| false,
    },
    Rule {
        what: "rolling variance, covariance",
        example: "var(5,1)",
        words: "until the sums are renewed, every 256 bars, after it has left the window",
        is_nan: |d| d < 4 + 3 * 256 - AT,
    },
    Rule { what: "EMA, Wilder's moving average", example: "ema(30)", words: "from t on", is_nan: |_| true },
    Rule { what: "adaptive recurrences", example: "kama(30)", words: "from t on", is_nan: |_| true },
    Rule { what: "cumulative sum, max, min", example: "drawdown", words: "from t on", is_nan: |_| true },
    Rule {
        what: "anchored weighted mean",
        example: "vwap",
        words: "never: a NaN bar has no weight",
        is_nan: |_| false,
    },
];

#[test]
fn nan_rules_hold_and_match_docs_nan_md() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/nan.md");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("| ") && l.contains('`')).collect();
    assert_eq!(lines.len(), RULES.len(), "as many rules here as in the document");
    let bars = with_nan(&walk(BARS, 41), AT);
    for rule in RULES {
        let line = format!("| {} | `{}` | {} |", rule.what, rule.example, rule.words);
        assert!(lines.contains(&line.as_str()), "the document has no line\n{line}");
        let selection = plan(&Selector::new().select(rule.example).unwrap());
        let column = run(&selection.plan, &[bars.series()], one()).remove(0).remove(0);
        for (d, x) in column.iter().skip(AT).enumerate() {
            assert_eq!(x.is_nan(), (rule.is_nan)(d), "{}: bar t + {d}", rule.example);
        }
    }
}

#[test]
fn flat_prices_and_zero_volume_never_produce_infinity() {
    let mut still = flat(BARS);
    still.volume.fill(0.0);
    let mut zero = flat(BARS);
    for column in [&mut zero.open, &mut zero.high, &mut zero.low, &mut zero.close, &mut zero.volume] {
        column.fill(0.0);
    }
    let shapes = [
        ("a flat series", flat(BARS), true),
        ("no volume", no_volume(BARS), true),
        ("a flat series without volume", still, true),
        // A price of 0 has no logarithm and no relative change: NaN is acceptable there, infinity is not.
        ("nothing but zeros", zero, false),
    ];
    let instances = instances();
    let selection = select(&instances);
    let mut wrong = Vec::new();
    for (what, bars, numbers) in shapes {
        let columns = run(&selection.plan, &[bars.series()], one()).remove(0);
        for ((name, column), start) in selection.columns.iter().zip(&columns).zip(selection.plan.starts()) {
            let doc = row(&instances, name).doc;
            let later = column.iter().skip(*start);
            if !doc.contains("infini") && later.clone().any(|x| x.is_infinite()) {
                wrong.push(format!("{name} is infinite on {what}"));
            }
            if numbers && !doc.contains("NaN") && later.clone().any(|x| x.is_nan()) {
                wrong.push(format!("{name} is NaN on {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} columns:\n{}", wrong.len(), wrong.join("\n"));
}

/// Columns that are constant or all NaN on market-like bars, and why that is correct.
const DEGENERATE: &[(&str, &str)] = &[
    ("acos: all NaN", "prices are above 1"),
    ("asin: all NaN", "prices are above 1"),
    ("tanh: constant", "rounds to 1 above 19"),
    (
        "squeeze_pro_20_2_20_2_1.5_1_12_6_none: constant",
        "bands and channels of one period share the middle line: one is always inside the other",
    ),
    ("cdlkicking: constant", RARE),
    ("cdlkickingbylength: constant", RARE),
    ("cdl3starsinsouth: constant", RARE),
    ("cdlidentical3crows: constant", RARE),
    ("cdl3blackcrows: constant", RARE),
    ("cdlmathold_0.5: constant", RARE),
];
const RARE: &str = "too rare for so few random bars; covered by tests/candlestick.rs";

#[test]
fn no_unexplained_degenerate_columns() {
    let instances: Vec<Instance> = catalogue::all().map(Instance::of).collect();
    let selection = select(&instances);
    let bars = market(20_000, 2);
    let columns = run(&selection.plan, &[bars.series()], one()).remove(0);
    let mut found = Vec::new();
    for ((name, column), start) in selection.columns.iter().zip(&columns).zip(selection.plan.starts()) {
        let values: Vec<f64> = column.iter().skip(*start).copied().filter(|x| !x.is_nan()).collect();
        let what = if values.is_empty() {
            "all NaN"
        } else if values.iter().any(|x| x.is_infinite()) {
            "infinite"
        } else if values.iter().all(|x| *x == values[0]) {
            "constant"
        } else {
            continue;
        };
        found.push(format!("{name}: {what}"));
    }
    let unexplained: Vec<_> = found.iter().filter(|f| !DEGENERATE.iter().any(|(s, _)| s == f)).collect();
    assert!(unexplained.is_empty(), "unexplained degenerate columns: {unexplained:?}");
    for (what, why) in DEGENERATE {
        assert!(found.iter().any(|f| f == what), "no longer so: {what} ({why})");
    }
}
