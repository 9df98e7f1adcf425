//! Parser fixtures: one directory per format, one invented text per edge case; `merged/` has texts of several formats that
//! describe one machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use gpuforge_detect::parsers::FORMATS;

mod common;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn check(name: &str) {
    let (checked, wrong) = common::check_folder(&folder().join(name));
    assert!(checked > 0, "{name} holds no fixture");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_format_parses_its_fixtures() {
    for format in &FORMATS {
        check(format.name);
    }
}

#[test]
fn several_formats_of_one_machine_merge() {
    check("merged");
}

#[test]
fn every_fixture_directory_and_text_is_checked() {
    let known: BTreeSet<&str> = FORMATS.iter().map(|f| f.name).chain(["merged"]).collect();
    for entry in fs::read_dir(folder()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        assert!(known.contains(name.as_str()), "{name} is no format");
        for file in fs::read_dir(entry.path()).unwrap().flatten().map(|e| e.path()) {
            if file.extension().is_some_and(|e| e == "txt") {
                assert!(
                    file.with_extension("expected.json").exists(),
                    "{} lacks its expectation",
                    file.display()
                );
            }
        }
    }
}

/// Every fixture of a format is read by the reader it is filed under, not only by a neighbour that happens to fit.
#[test]
fn a_fixture_is_parsed_by_its_own_format() {
    for format in &FORMATS {
        for file in fs::read_dir(folder().join(format.name)).unwrap().flatten().map(|e| e.path()) {
            if file.extension().is_some_and(|e| e == "txt") {
                let text = gpuforge_detect::parsers::normalise(&fs::read_to_string(&file).unwrap());
                assert!((format.parse)(&text).is_some(), "{} does not read {}", format.name, file.display());
            }
        }
    }
}
