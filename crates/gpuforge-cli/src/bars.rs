//! Bars from files, for several commands: input files, read options, indicator selection, and warnings about the input.

use anyhow::Result;
use gpuforge::{
    frame::{
        FrameError,
        column_roles::{ColumnMapping, Role},
        read::{Duplicates, GroupBy, Input, ReadOptions},
    },
    indicators::select::{Convention, SelectError, Selector},
    market::Request,
};

use crate::{
    args::bars::{BarFiles, ConventionName, DuplicatePolicy, SelectArgs},
    error::Hinted,
    format::{escape_control, plural},
    output::Output,
};

/// The input files.
pub(crate) fn input(files: &BarFiles) -> Result<Input> {
    if files.inputs.is_empty() {
        return Err(Hinted::usage(
            "no input",
            "name a file of bars, or generate one: gpuforge sample -o bars.parquet",
        )
        .into());
    }
    Ok(Input::new(files.inputs.iter().cloned()))
}

/// Column roles, series key, duplicates.
pub(crate) fn read_options<'a>(files: &BarFiles) -> Result<ReadOptions<'a>> {
    let mut mapping = ColumnMapping::default();
    for text in &files.columns {
        mapping.parse(text).map_err(|e| usage_error(&e))?;
    }
    if let Some(time) = &files.time {
        mapping.set(Role::Time, time.trim());
    }
    let duplicates = match files.duplicates {
        DuplicatePolicy::Error => Duplicates::Error,
        DuplicatePolicy::First => Duplicates::First,
        DuplicatePolicy::Last => Duplicates::Last,
    };
    Ok(ReadOptions {
        mapping,
        by: files.by.as_deref().map_or(GroupBy::Auto, GroupBy::parse),
        untimed: files.no_time,
        adjusted: files.adjusted,
        skip_bad: files.skip_bad,
        duplicates,
        ..ReadOptions::default()
    })
}

/// A selector that knows these definitions.
pub(crate) fn selector(defines: &[String], convention: ConventionName) -> Result<Selector> {
    let mut selector = Selector::by(match convention {
        ConventionName::Talib => Convention::TaLib,
        ConventionName::Pandas => Convention::Pandas,
    });
    for define in defines {
        selector.define(define).map_err(|e| selection_error(&e))?;
    }
    Ok(selector)
}

/// The selected indicators as one plan; without `--select`, everything that `--define` names; `None` without either.
pub(crate) fn request(select: &SelectArgs) -> Result<Option<Request>> {
    let selector = selector(&select.define, select.convention)?;
    let mut wanted = Vec::new();
    for text in &select.select {
        wanted.extend(selector.select(text).map_err(|e| selection_error(&e))?);
    }
    if select.select.is_empty() {
        wanted.extend(selector.defined());
    }
    Ok((!wanted.is_empty()).then(|| Request::of(&wanted)))
}

/// A selection that cannot be parsed; its message has a caret under the position.
pub(crate) fn selection_error(error: &SelectError) -> anyhow::Error {
    let hint = "`gpuforge indicators list` has the names, `gpuforge indicators show NAME` the parameters";
    Hinted::usage(error.to_string(), hint).into()
}

fn usage_error(error: &FrameError) -> anyhow::Error {
    let (message, hint) = message_and_hint(error);
    Hinted::usage(message, hint.unwrap_or_default()).into()
}

fn message_and_hint(error: &FrameError) -> (String, Option<String>) {
    let text = error.to_string();
    match text.split_once("\n  hint: ") {
        Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
        None => (text, None),
    }
}

/// A file error with its hint. A broken pipe stays an I/O error, so that `error::report` recognises it.
pub(crate) fn frame_error(error: FrameError) -> anyhow::Error {
    if let FrameError::Io { source, .. } = &error
        && source.kind() == std::io::ErrorKind::BrokenPipe
    {
        return error.into();
    }
    match message_and_hint(&error) {
        (message, Some(hint)) => Hinted::new(escape_control(&message), escape_control(&hint)).into(),
        (message, None) => anyhow::Error::msg(escape_control(&message)),
    }
}

/// Reasons listed in the warning about skipped rows.
const REASONS: usize = 3;

/// Rows that were skipped, dropped or sorted while reading.
pub(crate) struct InputRepairs<'a> {
    pub(crate) skipped: u64,
    pub(crate) reasons: &'a [String],
    pub(crate) duplicates: u64,
    pub(crate) sorted_here: usize,
}

impl InputRepairs<'_> {
    /// Prints a warning for each kind of repair.
    pub(crate) fn warn(&self, out: &Output) {
        if self.skipped > 0 {
            let reasons =
                self.reasons.iter().take(REASONS).map(|r| escape_control(r)).collect::<Vec<_>>().join("; ");
            let more = if self.skipped > REASONS as u64 { "; …" } else { "" };
            let rows = plural(self.skipped, "row");
            out.warn("input", &format!("{rows} skipped that could not be read: {reasons}{more}"), None);
        }
        if self.duplicates > 0 {
            let rows = plural(self.duplicates, "row");
            out.warn("input", &format!("{rows} dropped with a duplicate timestamp"), None);
        }
        if self.sorted_here > 0 {
            let symbols = plural(self.sorted_here as u64, "symbol");
            out.warn("input", &format!("{symbols} not in time order: sorted"), None);
        }
    }
}
