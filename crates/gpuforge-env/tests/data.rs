//! Does a user's table replace ours when it holds, and is it named exactly when it does not?
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

fn folder(text: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), text).unwrap();
    dir
}

#[test]
fn a_users_table_replaces_ours() {
    let dir = folder(OURS.as_bytes());
    let known = PatternDb::load(Some(dir.path()));
    assert!(known.problem().is_none() && *known.source() == TableSource::File(dir.path().join(FILE)));
    let found = explain(&b"the flux\ncompensator is gone"[..], &known, &HostEvidence::default()).unwrap();
    assert_eq!(found.root.unwrap().id, "X1");
    let nothing = PatternDb::load(Some(Path::new("/nowhere")));
    assert!(nothing.problem().is_none() && nothing.source().is_embedded());
}

#[test]
fn its_fixes_are_never_run() {
    let dir = folder(OURS.as_bytes());
    let root = dir.path().to_str().unwrap().to_owned();
    let environment = fix::ActiveEnv::active(&|name| (name == "VIRTUAL_ENV").then(|| root.clone()));
    let error = fix::plan_fix(&PatternDb::load(Some(dir.path())), "X1", environment.as_ref()).unwrap_err();
    assert!(matches!(error, fix::FixError::NotOurs(_)), "{error}");
}

#[test]
fn what_does_not_hold_is_named_with_its_place_and_ours_is_used() {
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
        let dir = folder(text.as_bytes());
        let known = PatternDb::load(Some(dir.path()));
        let problem = known.problem().unwrap().to_string();
        assert!(problem.contains(message) && problem.contains(FILE), "{problem}");
        assert!(known.source().is_embedded() && known.table().pattern.len() >= 82);
    }
    let binary = folder(b"version = 1\nx = '\xff'");
    assert!(PatternDb::load(Some(binary.path())).problem().unwrap().to_string().contains(":2:6: not UTF-8"));
    let large = folder(&vec![b'#'; usize::try_from(LIMIT).unwrap() + 1]);
    assert!(matches!(PatternDb::load(Some(large.path())).problem(), Some(DataError::TooLarge { .. })));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FILE)).unwrap();
    assert!(matches!(PatternDb::load(Some(dir.path())).problem(), Some(DataError::Read { .. })));
}

#[test]
fn installing_checks_first_and_replaces_as_a_whole() {
    let source = folder(OURS.as_bytes());
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("new/data");
    let target = install::<ErrorTable>(FILE, &source.path().join(FILE), &into).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), OURS);
    let bad = folder(b"version = 2");
    let error = install::<ErrorTable>(FILE, &bad.path().join(FILE), &into).unwrap_err();
    assert!(matches!(error, DataError::Version { found: 2, expected: 1, .. }), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), OURS, "what was there stays");
    assert!(matches!(
        install::<ErrorTable>(FILE, Path::new("/nowhere/x"), &into),
        Err(DataError::Read { .. })
    ));
}

#[test]
fn a_broken_embedded_text_is_empty_and_says_so() {
    let loaded = load::<ErrorTable>(FILE, "version = ", None);
    assert!(loaded.value.pattern.is_empty() && loaded.problem.is_some());
    let marked = folder("\u{feff}version = 1".as_bytes());
    assert!(PatternDb::load(Some(marked.path())).problem().is_none(), "a mark of Windows editors is skipped");
}
