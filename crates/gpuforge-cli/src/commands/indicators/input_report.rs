//! `gpuforge indicators … --explain-input`, and the line that every run ends with: what was recognised in the input?

use anyhow::Result;
use gpuforge::{
    frame::{
        FrameError,
        names::Role,
        read::{Duplicates, FileReport, Input, KeySource, ReadOptions, ReadReport, Reader},
    },
    market::MarketReport,
};
use serde_json::json;

use crate::{
    args::indicators::Indicators,
    bars::{explained, many, plain, read_options},
    context::Context,
    output::{DIM, HEAD, Output},
};

/// Bytes of bars at once where nobody set a limit.
const BARS: u64 = 768 << 20;

/// What a person must see to know that the input was read as it was meant.
pub(super) fn tell(report: &MarketReport, out: &Output) {
    if report.duplicates > report.rows {
        let what = format!(
            "--duplicates dropped {} of {} rows: a time that most rows share is hardly their time",
            report.duplicates,
            report.duplicates + report.rows
        );
        out.warn(
            "input",
            &what,
            Some("--explain-input shows what was recognised; --time NAME or 'DATE+TIME' says it"),
        );
    }
    out.note("input", &plain(&report.input.to_string()));
}

/// Reads everything and computes nothing. Bad rows and duplicates are counted here, whatever a run would do about them.
pub(super) fn run(args: &Indicators, context: &Context, files: &Input) -> Result<()> {
    let places = context.places()?;
    let memory = context.settings(&places, &[]).memory_limit().map_or(BARS, |limit| limit / 3);
    let options = read_options(&args.bars)?;
    let refused = options.duplicates == Duplicates::Error;
    let options = ReadOptions {
        needed: Vec::new(),
        optional: vec![Role::Open, Role::High, Role::Low, Role::Close, Role::Volume, Role::AdjustedClose],
        skip_bad: true,
        duplicates: if refused { Duplicates::First } else { options.duplicates },
        memory: Some(memory),
        adjusted: false,
        ..options
    };
    let mut reader = Reader::open(files, options).map_err(explained)?;
    let read = all(&mut reader);
    let report = reader.report();
    let said = match context.out.json {
        true => context.out.json(&json!({ "input": report.recognised(), "files": report.inputs })),
        false => context.out.text(&text(report, args.bars.skip_bad, refused)),
    };
    read.map_err(explained)?;
    said
}

fn all(reader: &mut Reader<'_>) -> Result<(), FrameError> {
    for portion in reader.portions()? {
        portion?;
    }
    Ok(())
}

/// All of it, file by file; columns once where the next files have the same.
fn text(report: &ReadReport, skip_bad: bool, refused: bool) -> String {
    let mut out = String::new();
    let mut before: Option<&FileReport> = None;
    for file in &report.inputs {
        out.push_str(&format!(
            "{HEAD}{}{HEAD:#}: {}\n",
            plain(&file.path.display().to_string()),
            file.format
        ));
        let symbol = match &file.symbol {
            Some(symbol) => format!("{}, from {}", plain(symbol), file.symbol_from.words()),
            None if file.symbol_from == KeySource::Nothing => file.symbol_from.words().to_owned(),
            None => format!("from {}", file.symbol_from.words()),
        };
        out.push_str(&format!("  symbol: {symbol}\n"));
        let order = if file.in_order { "in time order" } else { "not in time order: sorted" };
        let mut rows = format!("  rows: {}, {order}", file.rows);
        if file.duplicates > 0 {
            let note = if refused { " (an error without --duplicates first|last)" } else { "" };
            rows.push_str(&format!("; {}{note}", many(file.duplicates, "duplicate")));
        }
        if file.skipped > 0 {
            let note = if skip_bad { "" } else { " (an error without --skip-bad)" };
            rows.push_str(&format!("; {} skipped{note}", file.skipped));
        }
        out.push_str(&format!("{rows}\n"));
        match before.filter(|b| b.columns == file.columns) {
            Some(_) => out.push_str(&format!("  {DIM}columns: as above{DIM:#}\n")),
            None => columns(file, &mut out),
        }
        before = Some(file);
    }
    for reason in report.reasons.iter().take(3) {
        out.push_str(&format!("skipped: {}\n", plain(reason)));
    }
    if let Some(time) = &report.time {
        out.push_str(&format!("time: {}\n", time.kind));
    }
    out.push_str(&format!("{}\n", plain(&report.recognised().to_string())));
    out
}

fn columns(file: &FileReport, out: &mut String) {
    let shown = |name: &str| if name.is_empty() { "(unnamed)".to_owned() } else { plain(name) };
    let wide = file.columns.iter().map(|c| shown(&c.name).chars().count()).max().unwrap_or(0).min(40);
    for column in &file.columns {
        let kind = column.kind.as_ref().map_or_else(String::new, |kind| format!(" ({kind})"));
        let line = match (column.role, column.why) {
            (Some(role), Some(why)) => format!("{role}: {why}{kind}"),
            _ => format!("not read{kind}"),
        };
        out.push_str(&format!("    {:<wide$}  {line}\n", shown(&column.name)));
    }
}

#[cfg(test)]
mod tests {
    use gpuforge::frame::read::ColumnReport;

    use super::*;

    #[test]
    fn files_with_the_same_columns_list_them_once() {
        let column = |name: &str, role, why| ColumnReport { name: name.to_owned(), kind: None, role, why };
        let file = |path: &str, duplicates| FileReport {
            path: path.into(),
            format: "CSV, `,`".to_owned(),
            columns: vec![column("", Some("time"), Some("by its values")), column("x", None, None)],
            symbol: Some("A".to_owned()),
            symbol_from: KeySource::FileName,
            rows: 3,
            skipped: 1,
            duplicates,
            in_order: false,
        };
        let inputs = vec![file("a.csv", 0), file("b.csv", 2)];
        let said = text(&ReadReport { inputs, ..ReadReport::default() }, false, true);
        for wanted in [
            "symbol: A, from the file name",
            "rows: 3, not in time order: sorted; 1 skipped (an error without --skip-bad)",
            "2 duplicates (an error without --duplicates first|last)",
            "    (unnamed)  time: by its values",
            "    x          not read",
            "columns: as above",
        ] {
            assert!(said.contains(wanted), "{wanted}\n{said}");
        }
    }
}
