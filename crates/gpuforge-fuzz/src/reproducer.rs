//! Reproducer: a failing case as a shell command and its bars as a Parquet file.

use std::path::Path;

use gpuforge::indicators::catalogue::Convention;

use crate::{
    cpu::{Case, Failure},
    files::write_bars,
    schedule::Schedule,
    selection::Selection,
};

/// Command that computes a selection of a file.
pub fn command(selection: &Selection, bars: &Path) -> String {
    let mut text = format!("gpuforge indicators {} -o - --select '{}'", bars.display(), selection.text());
    for definition in &selection.definitions {
        text.push_str(&format!(" --define '{definition}'"));
    }
    if selection.convention == Convention::Pandas {
        text.push_str(" --convention pandas");
    }
    text
}

/// Description of a failing case; its bars are written to `directory`.
pub fn describe(case: &Case, failure: &Failure, directory: &Path) -> String {
    let bars = directory.join("bars.parquet");
    let written = std::fs::create_dir_all(directory).map_err(|e| e.to_string());
    let written = written.and_then(|()| write_bars(&case.data, &bars));
    let mut text = format!("{failure}\n  {}\n", command(&case.selection, &bars));
    if let Err(why) = written {
        text.push_str(&format!("  the bars could not be written: {why}\n"));
    }
    let schedule = match case.schedule {
        Schedule::Batch(how) => format!("batch, {how:?}"),
        Schedule::Stream(how, bars) => format!("stream of {bars} bars at a time, {how:?}"),
    };
    text.push_str(&format!("  schedule: {schedule}\n  data: {:?}\n", case.data.specs));
    text
}
