//! Selection language: column names, expressions, definitions, argument binding, error positions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

mod common;

use gpuforge_indicators::{
    catalogue::{self, Indicator},
    exec::{ExecOptions, Series, run},
    graph::Field,
    select::{SelectItem, Selector, column_meta, plan},
};
use proptest::prelude::*;

fn columns(text: &str) -> Vec<String> {
    plan(&Selector::new().select(text).unwrap()).columns
}

fn error(text: &str) -> String {
    Selector::new().select(text).unwrap_err().to_string()
}

#[test]
fn price_columns_can_be_selected() {
    let wanted = Selector::new().select("Close, hlc3, rsi(14)").unwrap();
    let columns: Vec<String> = wanted.iter().flat_map(|w| w.columns()).collect();
    assert_eq!(columns, ["close", "hlc3", "rsi_14"]);
}

#[test]
fn column_names_are_name_parameters_source_and_output() {
    assert_eq!(columns("sma(20)"), ["sma_20"]);
    assert_eq!(columns("SMA"), ["sma_30"], "TA-Lib's name and default");
    assert_eq!(columns("sma(7|9|14), ema(period=5)"), ["sma_7", "sma_9", "sma_14", "ema_5"]);
    assert_eq!(columns("sma(20, source=hlc3)"), ["sma_20_hlc3"]);
    assert_eq!(columns("macd(12,26,9)"), ["macd_12_26_9", "macd_12_26_9_signal", "macd_12_26_9_hist"]);
    assert_eq!(
        columns("bbands(20,2,2), bbands(20,2,2,1).upper"),
        ["bbands_20_2_2_upper", "bbands_20_2_2_middle", "bbands_20_2_2_lower", "bbands_20_2_2_1_upper"]
    );
    assert_eq!(
        columns("stoch(5,3,1,3,0).k, stoch(5,3,0,1,3).k, stoch(5,3,0,3,0).k"),
        ["stoch_5_3_1_3_0_k", "stoch_5_3_0_1_3_k", "stoch_5_3_3_k"],
        "kinds are named all or not at all: no two columns share a name"
    );
    assert_eq!(
        columns("close + 1, close + 2"),
        ["close + 1", "close + 2"],
        "expressions are named as written"
    );
    assert_eq!(columns("ema(sma(close, 3), 5)"), ["ema_5_sma_close_3"]);
    assert_eq!(columns("CORREL, correl(20), add"), ["correl_30", "correl_20", "add"]);
    assert_eq!(columns("correl(30, source=close,volume)"), ["correl_30_close_volume"]);
    assert_eq!(columns("add(close, open), ADD(source=close, open)"), ["add_close_open"]);
    assert_eq!(columns("correl(close, 5|9, hl2)"), ["correl_5_close_hl2", "correl_9_close_hl2"]);
    assert_eq!(columns("beta(5, source=close)"), ["beta_5_close_low"], "the second keeps its default");
    assert_eq!(columns("sub(ema(add(close, open), 3), low)"), ["sub_ema_add_close_open_3_low"]);
    assert_eq!(columns("sma(20), sma(20)"), ["sma_20"], "the same column twice is one");
    assert_eq!(columns("set:averages").len(), 13);
}

#[test]
fn classic111_has_111_causal_columns() {
    let wanted = Selector::new().select("set:classic111").unwrap();
    let rows = wanted.iter().filter_map(|w| if let SelectItem::Instance(i) = w { Some(i.row) } else { None });
    assert!(rows.clone().count() == wanted.len() && rows.clone().all(|r| r.causal));
    let columns = plan(&wanted).columns;
    assert_eq!(columns.len(), 111, "{columns:?}");
    assert_eq!((columns[0].as_str(), columns[17].as_str()), ("sma_10", "rsi_25"));
    assert_eq!(columns[110], "support_resistance_50");
}

#[test]
fn expressions_are_evaluated() {
    let bars = common::walk(100, 5);
    let mut selector = Selector::new();
    selector.define("spread = ema(close, 5) - 2 * ema(close, 20)").unwrap();
    let selection = plan(&selector.select("spread, ema(5), ema(20), -(close + 1) / 2").unwrap());
    assert_eq!(selection.columns[..3], ["spread", "ema_5", "ema_20"]);
    let out = run(&selection.plan, &[bars.series()], ExecOptions::default()).remove(0);
    for (t, close) in bars.close.iter().enumerate() {
        let want = out[1][t] - 2.0 * out[2][t];
        assert!(out[0][t] == want || (out[0][t].is_nan() && want.is_nan()), "bar {t}");
        assert_eq!(out[3][t], -(close + 1.0) / 2.0);
    }
    let again = selector.define("spread = close").unwrap_err().to_string();
    assert!(again.contains("taken already"), "{again}");
}

#[test]
fn errors_carry_a_position() {
    assert_eq!(
        error("sma(20), sam(3)"),
        "there is no indicator `sam`; did you mean `sma`?\n  sma(20), sam(3)\n           ^"
    );
    for (text, part) in [
        ("", "nothing is selected"),
        ("sma(20", "`,` is missing"),
        ("sma(0)", "from 1 to"),
        ("sma(2.5)", "an integer"),
        ("sma(1,2)", "one number too many: it is sma(period, source=close)"),
        ("sma(length=3)", "has no parameter `length`: it is sma(period, source=close)"),
        ("sma(3).upper", "has no output `upper`"),
        ("group:nothing", "no group"),
        ("set:nothing", "no set `nothing`; there are"),
        ("sma(3) ema(4)", "`,` is missing here"),
        ("close + ", "missing here"),
        ("sma(3|4) + 1", "alternatives"),
    ] {
        let error = error(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(error(&"(".repeat(1000)).contains("nested"));
    assert!(error(&"-".repeat(100_000)).contains("bytes"));
}

/// Metadata follows the plan's columns, also where names are deduplicated.
#[test]
fn column_meta_matches_the_columns() {
    let mut selector = Selector::new();
    selector.define("strength = rsi(7)").unwrap();
    let wanted =
        selector.select("rsi(14), strength, pivot.r1, cdldoji, rsi(14), sma(3), close - pivot.r1").unwrap();
    let columns = plan(&wanted).columns;
    let known = column_meta(&wanted, &columns);
    assert!(known.iter().map(|f| &f.column).eq(&columns), "{known:?}");
    let ranges: Vec<String> =
        known.iter().map(|f| f.range.map_or_else(String::new, |r| r.to_string())).collect();
    assert_eq!(ranges, ["0 to 100", "0 to 100", "", "-200 to 200", "", ""]);
    assert_eq!(
        known.iter().map(|f| f.starts_late).collect::<Vec<_>>(),
        [false, false, true, false, false, true]
    );
    assert!(known[3].pattern && !known[0].pattern);
    let other = vec!["rsi_14#2".to_owned(), "nothing".to_owned()];
    assert_eq!(
        column_meta(&wanted, &other).iter().map(|f| f.range.is_some()).collect::<Vec<_>>(),
        [true, false]
    );
}

/// All default parameters of a row.
fn numbers(row: &Indicator) -> Vec<String> {
    row.params.iter().map(|p| p.default.to_string()).collect()
}

fn call(row: &Indicator, args: &[String]) -> String {
    format!("{}({})", row.name, args.join(", "))
}

/// For every row: valid calls work, and an unused argument is an error, in selections and definitions.
#[test]
fn unused_arguments_are_errors() {
    let fails = |text: &str| {
        let selected = Selector::new().select(text).map(|w| plan(&w).columns);
        assert!(selected.is_err(), "{text} is {selected:?}");
        let defined = Selector::new().define(&format!("x = {text}"));
        assert!(defined.is_err(), "x = {text}");
    };
    let works = |text: &str| {
        Selector::new().select(text).unwrap_or_else(|e| panic!("{e}"));
        Selector::new().define(&format!("x = {text}")).unwrap_or_else(|e| panic!("{e}"));
    };
    for row in catalogue::all() {
        let numbers = numbers(row);
        let with = |more: &[&str]| {
            let more = more.iter().map(|m| (*m).to_owned());
            call(row, &numbers.iter().cloned().chain(more).collect::<Vec<_>>())
        };
        works(&with(&[]));
        works(row.name);
        fails(&with(&["3"]));
        fails(&with(&["nothing=3"]));
        fails(&with(&["nothing=close"]));
        fails(&with(&["nothing"]));
        fails(&with(&["nothing(3)"]));
        fails(&with(&["source=3"]));
        fails(&with(&["source=high", "source=low"]));
        fails(&with(&["high", "source=high"]));
        fails(&with(&["2 + 3"]));
        for two in [["high", "low"], ["source=high", "low"], ["ema(3)", "ema(5)"]] {
            if row.n_sources() == 2 {
                works(&with(&two))
            } else {
                fails(&with(&two))
            }
            fails(&with(&[two[0], two[1], "close"]));
        }
        for p in row.params {
            fails(&with(&[&format!("{}={}", p.name, p.default)]));
            fails(&format!("{}({}=close)", row.name, p.name));
        }
        let sourced = [with(&["high"]), with(&["source=high"]), with(&["ema(high, 5)"])];
        match row.takes_source() {
            true => {
                sourced.iter().for_each(|text| works(text));
                works(&format!(
                    "{}(high{})",
                    row.name,
                    numbers.iter().map(|n| format!(", {n}")).collect::<String>()
                ));
                let reads: Vec<Field> =
                    plan(&Selector::new().select(&sourced[0]).unwrap()).plan.fields().collect();
                assert!(reads.contains(&Field::High), "{} reads {reads:?}", sourced[0]);
            }
            false => sourced.iter().for_each(|text| fails(text)),
        }
    }
}

#[test]
fn argument_errors_name_the_fix() {
    for (text, part) in [
        ("max(high, low)", "`max` is the max of the last `period` values of one source"),
        ("max(high, low)", "the max of two columns is (high + low + sqrt((high-low)*(high-low))) / 2\n"),
        ("min(high, low)", "(high + low - sqrt((high-low)*(high-low))) / 2\n"),
        (
            "ema(close, high, 5)",
            "`ema` takes one source, and that is given already: it is ema(period, source=close)",
        ),
        ("atr(high, 14)", "`atr` reads high, low and close: it takes no source"),
        (
            "correl(high, low, close, 30)",
            "`correl` takes two sources, and both are given already: it is correl(period, source=high,low)",
        ),
        (
            "correl(30, source=high, source=low)",
            "`source=` names the first source of `correl`, and that is given already: write source=a,b; it is correl(period",
        ),
        ("add(high, 5)", "one number too many: it is add(source=high,low)"),
        (
            "add(close, 2 + 3)",
            "this is a number and no source: write it as one number; it is add(source=high,low)",
        ),
        ("correl(30, source=close|volume)", "`,` is missing here"),
        ("sma(3, period=5)", "`period` of `sma` is given twice"),
        (
            "sma(10 + 10)",
            "this is a number and no source: write it as one number; it is sma(period, source=close)",
        ),
        ("sma(period=close)", "`period` of `sma` is a number"),
        ("sma(source=5)", "the source of `sma` is a column or an expression"),
        ("obv(5)", "one number too many: `obv` takes no arguments"),
        ("close(5)", "`close` is a column: it takes no arguments"),
        ("sma(20, ema(close, high))", "`ema` takes one source"),
    ] {
        let error = error(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    let mut selector = Selector::new();
    selector.define("spread = close - open").unwrap();
    for text in ["spread(5)", "spread.upper", "sma(spread(5), 3)"] {
        let error = selector.select(text).unwrap_err().to_string();
        assert!(error.contains("`spread` is a definition: it takes no arguments"), "{text}: {error}");
    }
    assert!(selector.define("high2 = max(high, low)").is_err());
}

/// Two sources are the operands in the order in which they are written, in selections, definitions and sources of others.
#[test]
fn two_sources_are_bound_in_order() {
    let bars = common::walk(200, 9);
    let mut selector = Selector::new();
    selector.define("body = sub(close, open)").unwrap();
    selector.define("spread = high - low").unwrap();
    let text = "sub, sub(low, high), sub(source=close), body, div(spread, volume), sma(2, source=sub(close, open)), \
                mavp(2, 9, 0, source=close,9 + 0 * close)";
    let selection = plan(&selector.select(text).unwrap());
    let names = ["sub", "sub_low_high", "sub_close_low", "body", "div_spread_volume", "sma_2_sub_close_open"];
    assert_eq!(selection.columns[..6], names);
    let out = run(&selection.plan, &[bars.series()], ExecOptions::default()).remove(0);
    for t in 1..200 {
        let (high, low, close) = (bars.high[t], bars.low[t], bars.close[t]);
        let body = |t: usize| bars.close[t] - bars.open[t];
        let want = [high - low, low - high, close - low, body(t), (high - low) / bars.volume[t]];
        for (column, want) in out.iter().zip(want) {
            assert_eq!(column[t].to_bits(), want.to_bits(), "bar {t}");
        }
        assert!((out[5][t] - (body(t) + body(t - 1)) / 2.0).abs() < 1e-9);
    }
    let sma = run(&plan(&selector.select("sma(9)").unwrap()).plan, &[bars.series()], ExecOptions::default());
    assert!(
        out[6].iter().zip(&sma[0][0]).skip(9).all(|(a, b)| (a - b).abs() < 1e-9),
        "the period is the second"
    );
}

/// The replacement that the error suggests for `max(high, low)` is correct.
#[test]
fn suggested_max_of_two_columns_is_correct() {
    let bars = common::walk(200, 6);
    let text = "(open + close + sqrt((open-close)*(open-close))) / 2, (open + close - sqrt((open-close)*(open-close))) / 2";
    let selection = plan(&Selector::new().select(text).unwrap());
    let out = run(&selection.plan, &[bars.series()], ExecOptions::default()).remove(0);
    for (t, (a, b)) in bars.open.iter().zip(&bars.close).enumerate() {
        let near = |x: f64, y: f64| (x - y).abs() < 1e-12 * y;
        assert!(near(out[0][t], a.max(*b)) && near(out[1][t], a.min(*b)), "bar {t}");
    }
}

proptest! {
    #[test]
    fn parser_never_panics_on_arbitrary_text(text in ".{0,200}") {
        let _ = Selector::new().select(&text);
        let _ = Selector::new().define(&text);
    }

    #[test]
    fn parser_never_panics_on_plausible_text(text in "[a-z0-9(),.|=:+*/ -]{0,80}") {
        let _ = Selector::new().select(&text).map(|w| plan(&w));
    }
}

/// Different values with the same column name get distinct names.
#[test]
fn colliding_column_names_are_deduplicated() {
    let mut selector = Selector::new();
    selector.define("rsi_14 = close").unwrap();
    let wanted = |text: &str| selector.select(text).unwrap();
    let names = |text: &str| plan(&wanted(text)).columns;
    let text = "sma(5, source=(high + low) * 2), sma(5, source=high + low * 2)";
    assert_eq!(names(text), ["sma_5_high_plus_low_times_2", "sma_5_high_plus_low_times_2#2"]);
    assert_eq!(names("rsi(14), rsi_14, rsi(14)"), ["rsi_14", "rsi_14#2"]);
    // The same value is one column, however it was written.
    assert_eq!(names("sma(5, source=hl2), SMA(5,source=HL2)"), ["sma_5_hl2"]);
    let planned = plan(&wanted(text));
    let (high, low) = (vec![3.0; 9], vec![1.0; 9]);
    let series = Series { high: &high, low: &low, ..Series::default() };
    let columns = run(&planned.plan, &[series], ExecOptions::with_threads(1)).remove(0);
    assert_eq!((columns[0][8], columns[1][8]), (8.0, 5.0));
}
