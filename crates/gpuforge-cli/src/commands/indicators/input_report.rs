//! `gpuforge indicators … --explain-input`: recognised formats, column roles, symbols and timestamps; also the one-line note
//! of every run.

use anyhow::Result;
use gpuforge::{
    frame::{
        FrameError,
        column_roles::Role,
        read::{Duplicates, FileReport, Input, ReadOptions, ReadReport, Reader, SymbolSource},
    },
    market::MarketReport,
};
use serde_json::json;

use crate::{
    args::indicators::Indicators,
    bars::{frame_error, read_options},
    context::Context,
    format::{escape_control, plural},
    output::{DIM, HEAD, Output},
};

/// Bytes of bars in memory at once without a memory limit.
const BARS_BYTES: u64 = 768 << 20;

/// Prints how the input was interpreted.
pub(super) fn print_note(report: &MarketReport, out: &Output) {
    if report.duplicates > report.rows {
        let what = format!(
            "--duplicates dropped {} of {} rows: a value that most rows share is hardly a timestamp",
            report.duplicates,
            report.duplicates + report.rows
        );
        out.warn(
            "input",
            &what,
            Some("--explain-input shows what was recognised; --time NAME or 'DATE+TIME' says it"),
        );
    }
    out.note("input", &escape_control(&report.input.to_string()));
}

/// Reads everything and computes nothing. Bad rows and duplicates are counted here, whatever a run would do about them.
pub(super) fn run(args: &Indicators, context: &Context, files: &Input) -> Result<()> {
    let places = context.places()?;
    let memory = context.settings(&places, &[]).memory_limit().map_or(BARS_BYTES, |limit| limit / 3);
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
    let mut reader = Reader::open(files, options).map_err(frame_error)?;
    let read = all(&mut reader);
    let report = reader.report();
    let printed = match context.out.json {
        true => context.out.json(&json!({ "input": report.summary(), "files": report.inputs })),
        false => context.out.text(&text(report, args.bars.skip_bad, refused)),
    };
    read.map_err(frame_error)?;
    printed
}

fn all(reader: &mut Reader<'_>) -> Result<(), FrameError> {
    for portion in reader.batches()? {
        portion?;
    }
    Ok(())
}

/// The report, file by file; equal columns are listed once.
fn text(report: &ReadReport, skip_bad: bool, refused: bool) -> String {
    let mut out = String::new();
    let mut before: Option<&FileReport> = None;
    for file in &report.inputs {
        out.push_str(&format!(
            "{HEAD}{}{HEAD:#}: {}\n",
            escape_control(&file.path.display().to_string()),
            file.format
        ));
        let symbol = match &file.symbol {
            Some(symbol) => format!("{}, from {}", escape_control(symbol), file.symbol_from.words()),
            None if file.symbol_from == SymbolSource::Nothing => file.symbol_from.words().to_owned(),
            None => format!("from {}", file.symbol_from.words()),
        };
        out.push_str(&format!("  symbol: {symbol}\n"));
        let order = if file.in_order { "in time order" } else { "not in time order: sorted" };
        let mut rows = format!("  rows: {}, {order}", file.rows);
        if file.duplicates > 0 {
            let note = if refused { " (an error without --duplicates first|last)" } else { "" };
            rows.push_str(&format!("; {}{note}", plural(file.duplicates, "duplicate")));
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
        out.push_str(&format!("skipped: {}\n", escape_control(reason)));
    }
    if let Some(time) = &report.time {
        out.push_str(&format!("time: {}\n", time.kind));
    }
    out.push_str(&format!("{}\n", escape_control(&report.summary().to_string())));
    out
}

fn columns(file: &FileReport, out: &mut String) {
    let shown = |name: &str| if name.is_empty() { "(unnamed)".to_owned() } else { escape_control(name) };
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
            symbol_from: SymbolSource::FileName,
            rows: 3,
            skipped: 1,
            duplicates,
            in_order: false,
        };
        let inputs = vec![file("a.csv", 0), file("b.csv", 2)];
        let text = text(&ReadReport { inputs, ..ReadReport::default() }, false, true);
        for wanted in [
            "symbol: A, from the file name",
            "rows: 3, not in time order: sorted; 1 skipped (an error without --skip-bad)",
            "2 duplicates (an error without --duplicates first|last)",
            "    (unnamed)  time: by its values",
            "    x          not read",
            "columns: as above",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }
}
