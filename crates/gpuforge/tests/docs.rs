//! docs/settings.md equals the generated table of settings.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use gpuforge::settings::markdown;

#[test]
fn settings_page_matches_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = markdown();
    assert!(page.contains(&table), "docs/settings.md is out of date; it must contain:\n{table}");
}
