//! Data tables: a valid user table replaces the embedded one, an invalid one is reported with its position.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::{fs, path::Path};

use gpuforge_env::{
    data::{DataError, LIMIT, TableSource, install, load},
    explain::{ErrorTable, FILE, HostEvidence, PatternDb, explain, fix},
};

const OURS: &str = r#"
version = 1
[[pattern]]
id = "X1"
title = "Our own"
severity = "error"
layer = "program"
confidence = 0.9
match = ['flux compensator']
steps = ["Turn it off."]
fix = "ENV"
automatic = { kind = "pip", packages = ["evil"] }
"#;

fn data_dir(text: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), text).unwrap();
    dir
}

#[test]
fn a_user_table_replaces_the_embedded_one() {
    let dir = data_dir(OURS.as_bytes());
    let known = PatternDb::load(Some(dir.path()));
    assert!(known.problem().is_none() && *known.source() == TableSource::File(dir.path().join(FILE)));
    let found = explain(&b"the flux\ncompensator is gone"[..], &known, &HostEvidence::default()).unwrap();
    assert_eq!(found.root.unwrap().id, "X1");
    let nothing = PatternDb::load(Some(Path::new("/nowhere")));
    assert!(nothing.problem().is_none() && nothing.source().is_embedded());
}

#[test]
fn fixes_of_a_user_table_are_never_run() {
    let dir = data_dir(OURS.as_bytes());
    let root = dir.path().to_str().unwrap().to_owned();
    let environment = fix::ActiveEnv::active(&|name| (name == "VIRTUAL_ENV").then(|| root.clone()));
    let error = fix::plan_fix(&PatternDb::load(Some(dir.path())), "X1", environment.as_ref()).unwrap_err();
    assert!(matches!(error, fix::FixError::NotOurs(_)), "{error}");
}

#[test]
fn an_invalid_table_is_reported_with_position_and_the_embedded_one_is_used() {
    for (text, message) in [
        ("version = 1\n[[pattern]]\nid = \"P01\"\nid = 3\n", ":4:1: "),
        ("version = 1\n[[pattern]\n", ":2:"),
        ("version = 1\n[[pattern]]\nid = \"P01\"\ntitel = 3\n", ":4:1: unknown field `titel`"),
        ("version = \"ä\" ü\n", ":1:"),
        ("version = 7\n", "version 7, this program reads version 1"),
        (&OURS.replace("flux", "(flux"), "X1: "),
        (&OURS.replace("flux compensator", "[a-z]+"), "no literal"),
        (&OURS.replace("0.9", "9.0"), "confidence 9"),
        (&OURS.replace("[\"Turn it off.\"]", "[]"), "no steps"),
        (&format!("{OURS}yields_to = [\"P99\"]"), "P99"),
        (&format!("{OURS}{}", OURS.replace("version = 1", "")), "X1 is there twice"),
    ] {
        let dir = data_dir(text.as_bytes());
        let known = PatternDb::load(Some(dir.path()));
        let problem = known.problem().unwrap().to_string();
        assert!(problem.contains(message) && problem.contains(FILE), "{problem}");
        assert!(known.source().is_embedded() && known.table().pattern.len() >= 82);
    }
    let binary = data_dir(b"version = 1\nx = '\xff'");
    assert!(PatternDb::load(Some(binary.path())).problem().unwrap().to_string().contains(":2:6: not UTF-8"));
    let large = data_dir(&vec![b'#'; usize::try_from(LIMIT).unwrap() + 1]);
    assert!(matches!(PatternDb::load(Some(large.path())).problem(), Some(DataError::TooLarge { .. })));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FILE)).unwrap();
    assert!(matches!(PatternDb::load(Some(dir.path())).problem(), Some(DataError::Read { .. })));
}

#[test]
fn install_checks_first_and_replaces_atomically() {
    let source = data_dir(OURS.as_bytes());
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("new/data");
    let target = install::<ErrorTable>(FILE, &source.path().join(FILE), &into).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), OURS);
    let bad = data_dir(b"version = 2");
    let error = install::<ErrorTable>(FILE, &bad.path().join(FILE), &into).unwrap_err();
    assert!(matches!(error, DataError::Version { found: 2, expected: 1, .. }), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), OURS, "what was there stays");
    assert!(matches!(
        install::<ErrorTable>(FILE, Path::new("/nowhere/x"), &into),
        Err(DataError::Read { .. })
    ));
}

#[test]
fn a_broken_embedded_table_is_empty_with_a_problem() {
    let loaded = load::<ErrorTable>(FILE, "version = ", None);
    assert!(loaded.value.pattern.is_empty() && loaded.problem.is_some());
    let marked = data_dir("\u{feff}version = 1".as_bytes());
    assert!(PatternDb::load(Some(marked.path())).problem().is_none(), "a mark of Windows editors is skipped");
}
