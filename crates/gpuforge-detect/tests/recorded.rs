//! Recordings of real machines: checks every one in the directory named by `GPUFORGE_RECORDED`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::path::Path;

mod common;

#[test]
fn every_recording_parses_as_expected() {
    let Some(folder) = std::env::var_os("GPUFORGE_RECORDED") else {
        println!("skipped: GPUFORGE_RECORDED names no folder of recordings");
        return;
    };
    let (checked, wrong) = common::check_folder(Path::new(&folder));
    println!("checked {checked} recordings");
    assert!(checked > 0, "{folder:?} holds no recordings");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
