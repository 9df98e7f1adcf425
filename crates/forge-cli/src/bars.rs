//! What several commands do with bars in files: which files, which columns, which indicators, and what went wrong.

use anyhow::Result;
use gpuforge::{
    frame::{
        FrameError,
        names::Mapping,
        read::{Duplicates, Input, ReadOptions},
    },
    indicators::select::{self, Convention, SelectError, Selection, Selector},
};

use crate::{
    args::{BarFiles, ConventionName, Twice, What},
    error::Hinted,
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
    let duplicates = match files.duplicates {
        Twice::Error => Duplicates::Error,
        Twice::First => Duplicates::First,
        Twice::Last => Duplicates::Last,
    };
    Ok(ReadOptions {
        mapping,
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
pub(crate) fn selection(what: &What) -> Result<Option<Selection>> {
    let selector = selector(&what.define, what.convention)?;
    let mut wanted = Vec::new();
    for text in &what.select {
        wanted.extend(selector.select(text).map_err(|e| wrong(&e))?);
    }
    if what.select.is_empty() {
        wanted.extend(selector.defined());
    }
    Ok((!wanted.is_empty()).then(|| select::plan(&wanted)))
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
        (message, Some(hint)) => Hinted::new(message, hint).into(),
        (message, None) => anyhow::Error::msg(message),
    }
}
