//! `gpuforge indicators list|show`: the indicator catalogue, the columns of a selection, and the page of one indicator.

use std::fmt::Write as _;

use anyhow::Result;
use gpuforge::indicators::{
    catalogue::{self, Indicator},
    describe::{self, IndicatorInfo, InfoKind, OutputInfo, ParameterInfo},
    formula,
};

use crate::{
    args::bars::ConventionName,
    bars::{selection_error, selector},
    context::Context,
    error::Hinted,
    format::{dotted, width, wrap},
    output::{DIM, HEAD},
};

/// Longest formula, in lines, that is printed without --verbose.
const FORMULA: usize = 16;

/// Lists every indicator, or the output columns of a selection.
pub(crate) fn list(select: Option<&str>, defines: &[String], context: &Context) -> Result<()> {
    let listed = match select {
        Some(text) => describe::selection(
            &selector(defines, ConventionName::Talib)?.select(text).map_err(|e| selection_error(&e))?,
        ),
        None => {
            // An invalid definition is an error, used or not.
            selector(defines, ConventionName::Talib)?;
            describe::all()
        }
    };
    if context.out.json {
        return context.out.json(&listed);
    }
    context.out.text(&table(&listed, select.is_some(), width()))
}

/// Shows one row.
pub(crate) fn show(name: &str, context: &Context) -> Result<()> {
    let row = catalogue::find(name).ok_or_else(|| unknown(name))?;
    let described = describe::row(row);
    if context.out.json {
        return context.out.json(&described);
    }
    context.out.text(&page(row, &described, context.out.verbose, width()))
}

/// Unknown indicator; the hint has the nearest name.
fn unknown(name: &str) -> anyhow::Error {
    let nearest = gpuforge::indicators::select::nearest_row(name);
    let hint = match nearest {
        Some(row) => format!("did you mean {row}?"),
        None => "`gpuforge indicators list` has the names".to_owned(),
    };
    Hinted::usage(format!("there is no indicator {name:.40?}"), hint).into()
}

/// Rows under the names of their groups; in a selection the order is that of the columns.
fn table(listed: &[IndicatorInfo], selected: bool, width: usize) -> String {
    let mut out = String::new();
    let mut group = None;
    for item in listed {
        let named = item.group.map_or_else(|| "expression".to_owned(), |g| format!("{g:?}").to_lowercase());
        if group.as_ref() != Some(&named) {
            let gap = if out.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{gap}{HEAD}{named}{HEAD:#}");
            group = Some(named);
        }
        out.push_str(&entry(item, selected, width));
    }
    out
}

/// Name, parameters and outputs, and the first sentence below them.
fn entry(item: &IndicatorInfo, selected: bool, width: usize) -> String {
    let mut parts = vec![item.name.clone()];
    parts.extend(item.params.iter().map(|p| format!("{} {}", p.name, p.value.unwrap_or(p.default))));
    let outputs: Vec<&str> =
        item.outputs.iter().map(|o| if selected { o.column.as_str() } else { o.name.as_str() }).collect();
    // A single output needs no name, unless the columns of a selection are listed.
    if selected || outputs.len() > 1 {
        parts.push(format!("→ {}", outputs.join(", ")));
    }
    let line = dotted(&parts, 2, width);
    let named = line.replacen(&item.name, &format!("{HEAD}{}{HEAD:#}", item.name), 1);
    format!("{named}{DIM}{}{DIM:#}\n", cut(first_sentence(&item.doc), 4, width))
}

/// Up to the first full stop that ends a sentence: one before a blank, as in `word. Next`.
fn first_sentence(doc: &str) -> &str {
    doc.split_once(". ").map_or(doc, |(first, _)| first).trim_end_matches('.')
}

/// One line of at most `width` columns.
fn cut(text: &str, indent: usize, width: usize) -> String {
    let room = width.saturating_sub(indent);
    let mut line = " ".repeat(indent);
    if text.chars().count() <= room {
        line.push_str(text);
    } else {
        line.extend(text.chars().take(room.saturating_sub(1)));
        line.push('…');
    }
    line
}

/// Everything about a row.
fn page(row: &'static Indicator, item: &IndicatorInfo, verbose: bool, width: usize) -> String {
    let mut out = format!("{HEAD}{}{HEAD:#}", item.name);
    let group = item.group.map_or_else(String::new, |g| format!("{g:?}").to_lowercase());
    let _ = writeln!(out, " {DIM}· {group} · {}{DIM:#}", kind(item.kind));
    out.push_str(&wrap(&item.doc, 2, width));
    let lines = formula::lines(row);
    out.push('\n');
    if verbose || lines.len() <= FORMULA {
        lines.iter().for_each(|line| out.push_str(&hanging("", line, width)));
    } else {
        let _ = writeln!(out, "  {DIM}computed in {} lines: --verbose prints them{DIM:#}", lines.len());
    }
    out.push('\n');
    let mut fact = |label: &str, text: String| {
        if !text.is_empty() {
            out.push_str(&hanging(label, &text, width));
        }
    };
    fact("aliases", item.aliases.join(", "));
    fact(
        "inputs",
        item.inputs.iter().map(|f| format!("{f:?}").to_lowercase()).collect::<Vec<_>>().join(", "),
    );
    let free = match item.sources.len() {
        0 => String::new(),
        1 => format!("source={} (or any column or expression)", item.sources.join(",")),
        _ => format!("source={} (or any two columns or expressions)", item.sources.join(",")),
    };
    fact("source", free);
    let whole = |at: usize| row.params.get(at).is_some_and(|p| p.integer);
    let params = item.params.iter().enumerate().map(|(at, p)| parameter(p, whole(at)));
    fact("parameters", params.collect::<Vec<_>>().join(", "));
    let outputs = item.outputs.iter().map(|o| format!("{} → {}", o.name, o.column));
    fact("outputs", outputs.collect::<Vec<_>>().join(", "));
    fact("range", ranges(item));
    fact("first bar", format!("{} (counted from 0; NaN before)", item.lookback));
    let causal = if item.causal { "yes: no value depends on a later bar" } else { "no: it looks ahead" };
    fact("causal", causal.to_owned());
    let oracle = match item.oracle {
        Some(catalogue::Oracle::TaLib) => "TA-Lib",
        _ => "a reference implementation in the tests",
    };
    fact("tested by", oracle.to_owned());
    fact("example", format!("--select '{}'", example(item)));
    out
}

fn kind(kind: InfoKind) -> &'static str {
    match kind {
        InfoKind::Row(catalogue::IndicatorKind::Indicator) => "indicator",
        InfoKind::Row(catalogue::IndicatorKind::Candlestick) => "candlestick",
        InfoKind::Row(catalogue::IndicatorKind::Primitive) => "primitive",
        InfoKind::Row(catalogue::IndicatorKind::Addition) => "addition",
        InfoKind::Expression => "expression",
    }
}

/// Where values lie: `0 to 100`; of several outputs, each that is bounded: `k 0 to 100, d 0 to 100`.
fn ranges(item: &IndicatorInfo) -> String {
    let text = |o: &OutputInfo| {
        let range = o.range?;
        Some(if item.outputs.len() == 1 { range.to_string() } else { format!("{} {range}", o.name) })
    };
    item.outputs.iter().filter_map(text).collect::<Vec<_>>().join(", ")
}

/// `period 14 (whole, 2 to 100000)`.
fn parameter(p: &ParameterInfo, whole: bool) -> String {
    let kind = if whole { "whole, " } else { "" };
    format!("{} {} ({kind}{} to {})", p.name, p.default, p.min, p.max)
}

/// An example selection; of several outputs the last.
fn example(item: &IndicatorInfo) -> String {
    let numbers: Vec<String> = item.params.iter().map(|p| p.default.to_string()).collect();
    let call = if numbers.is_empty() { String::new() } else { format!("({})", numbers.join(",")) };
    let output = item.outputs.last().filter(|_| item.outputs.len() > 1);
    format!("{}{call}{}", item.name, output.map_or_else(String::new, |o| format!(".{}", o.name)))
}

/// A label and its text with a hanging indent.
fn hanging(label: &str, text: &str, width: usize) -> String {
    let indent = if label.is_empty() { 4 } else { 14 };
    let lines = wrap(text, indent, width);
    if label.is_empty() {
        return lines;
    }
    let label = format!("  {label:<11} ");
    format!("{label}{}", lines.get(label.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use gpuforge::indicators::select::Selector;

    use super::*;

    #[test]
    fn lines_fit_the_width() {
        for width in [40, 60, 80, 120] {
            for line in table(&describe::all(), false, width).lines() {
                let columns = without_styles(line).chars().count();
                // A word longer than the line gets a line of its own.
                let long_word =
                    without_styles(line).split_whitespace().any(|w| w.chars().count() + 4 > width);
                assert!(columns <= width || long_word, "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn a_page_has_every_section() {
        for row in catalogue::all() {
            let text = without_styles(&page(row, &describe::row(row), true, 80));
            for part in ["inputs", "outputs", "first bar", "causal", "tested by", "example"] {
                assert!(text.contains(part), "{}: {part}", row.name);
            }
            assert!(row.params.is_empty() || text.contains("parameters"), "{}", row.name);
            let example = example(&describe::row(row));
            assert!(Selector::new().select(&example).is_ok(), "{example}");
        }
    }

    #[test]
    fn ranges_are_shown_where_there_are_any() {
        let shown = |name: &str| catalogue::find(name).map(|row| ranges(&describe::row(row)));
        assert_eq!(shown("rsi").as_deref(), Some("0 to 100"));
        assert_eq!(shown("stoch").as_deref(), Some("k 0 to 100, d 0 to 100"));
        assert_eq!(shown("supertrend").as_deref(), Some("trend -1 to 1"));
        assert_eq!(shown("atr").as_deref(), Some("at least 0"));
        assert_eq!(shown("percentb").as_deref(), Some(""));
    }

    #[test]
    fn sentences_and_cuts() {
        assert_eq!(first_sentence("Mean of 0.015. More."), "Mean of 0.015");
        assert_eq!(first_sentence("One only."), "One only");
        assert_eq!(cut("abcdef", 2, 6), "  abc…");
        assert_eq!(hanging("causal", "a b", 80), "  causal      a b\n");
    }

    fn without_styles(text: &str) -> String {
        text.replace(&format!("{HEAD}"), "").replace(&format!("{HEAD:#}"), "").replace(&format!("{DIM}"), "")
    }
}
