//! Does every format survive its traps? One directory a format, one invented text a trap; `merged/` holds texts of several
//! formats that speak of one machine.
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
fn every_format_has_fixtures_and_reads_them() {
    for format in &FORMATS {
        check(format.name);
    }
}

#[test]
fn texts_of_one_machine_become_its_devices() {
    check("merged");
}

#[test]
fn no_folder_and_no_text_goes_unchecked() {
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
fn a_fixture_is_read_by_its_own_format() {
    for format in &FORMATS {
        for file in fs::read_dir(folder().join(format.name)).unwrap().flatten().map(|e| e.path()) {
            if file.extension().is_some_and(|e| e == "txt") {
                let text = gpuforge_detect::parsers::normalise(&fs::read_to_string(&file).unwrap());
                assert!((format.parse)(&text).is_some(), "{} does not read {}", format.name, file.display());
            }
        }
    }
}
