//! What several commands do with bars in files: which files, which columns, which indicators, and what went wrong.

use anyhow::Result;
use gpuforge::{
    frame::{
        FrameError,
        names::{Mapping, Role},
        read::{By, Duplicates, Input, ReadOptions},
    },
    indicators::select::{Convention, SelectError, Selector},
    market::Request,
};

use crate::{
    args::{BarFiles, ConventionName, Twice, What},
    error::Hinted,
    output::Output,
};

/// The files that were named.
pub(crate) fn input(files: &BarFiles) -> Result<Input> {
    if files.inputs.is_empty() {
        return Err(Hinted::usage(
            "no input",
            "name a file of bars, or make one: gpuforge sample -o bars.parquet",
        )
        .into());
    }
    Ok(Input::new(files.inputs.iter().cloned()))
}

/// How they are read.
pub(crate) fn read_options<'a>(files: &BarFiles) -> Result<ReadOptions<'a>> {
    let mut mapping = Mapping::default();
    for text in &files.columns {
        mapping.parse(text).map_err(|e| usage(&e))?;
    }
    if let Some(time) = &files.time {
        mapping.set(Role::Time, time.trim());
    }
    let duplicates = match files.duplicates {
        Twice::Error => Duplicates::Error,
        Twice::First => Duplicates::First,
        Twice::Last => Duplicates::Last,
    };
    Ok(ReadOptions {
        mapping,
        by: files.by.as_deref().map_or(By::Auto, By::parse),
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
        selector.define(define).map_err(|e| wrong(&e))?;
    }
    Ok(selector)
}

/// What was selected, planned together. Without a selection, what was defined; `None` if nothing was.
pub(crate) fn request(what: &What) -> Result<Option<Request>> {
    let selector = selector(&what.define, what.convention)?;
    let mut wanted = Vec::new();
    for text in &what.select {
        wanted.extend(selector.select(text).map_err(|e| wrong(&e))?);
    }
    if what.select.is_empty() {
        wanted.extend(selector.defined());
    }
    Ok((!wanted.is_empty()).then(|| Request::of(&wanted)))
}

/// A selection that cannot be read: its message points at the place.
pub(crate) fn wrong(error: &SelectError) -> anyhow::Error {
    let hint = "`gpuforge indicators list` has the names, `gpuforge indicators show NAME` the parameters";
    Hinted::usage(error.to_string(), hint).into()
}

fn usage(error: &FrameError) -> anyhow::Error {
    let (message, hint) = parts(error);
    Hinted::usage(message, hint.unwrap_or_default()).into()
}

fn parts(error: &FrameError) -> (String, Option<String>) {
    let text = error.to_string();
    match text.split_once("\n  hint: ") {
        Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
        None => (text, None),
    }
}

/// An error of a file, with its hint apart. The end of a pipe's reader stays recognisable.
pub(crate) fn explained(error: FrameError) -> anyhow::Error {
    if let FrameError::Io { source, .. } = &error
        && source.kind() == std::io::ErrorKind::BrokenPipe
    {
        return error.into();
    }
    match parts(&error) {
        (message, Some(hint)) => Hinted::new(plain(&message), plain(&hint)).into(),
        (message, None) => anyhow::Error::msg(plain(&message)),
    }
}

/// Text of a file for a terminal: what could move the cursor or change colours is spelled out.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// `1 row`, `2 rows`.
pub(crate) fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Reasons that are told one by one.
const REASONS: usize = 3;

/// What was not as it should be, and was put right.
pub(crate) struct Mended<'a> {
    pub(crate) skipped: u64,
    pub(crate) reasons: &'a [String],
    pub(crate) duplicates: u64,
    pub(crate) sorted_here: usize,
}

impl Mended<'_> {
    /// Tells a person.
    pub(crate) fn tell(&self, out: &Output) {
        if self.skipped > 0 {
            let reasons = self.reasons.iter().take(REASONS).map(|r| plain(r)).collect::<Vec<_>>().join("; ");
            let more = if self.skipped > REASONS as u64 { "; …" } else { "" };
            let rows = many(self.skipped, "row");
            out.warn("input", &format!("{rows} left out that could not be read: {reasons}{more}"), None);
        }
        if self.duplicates > 0 {
            let rows = many(self.duplicates, "row");
            out.warn("input", &format!("{rows} left out whose time came twice"), None);
        }
        if self.sorted_here > 0 {
            let symbols = many(self.sorted_here as u64, "symbol");
            out.warn("input", &format!("{symbols} not in time order: sorted here"), None);
        }
    }
}
