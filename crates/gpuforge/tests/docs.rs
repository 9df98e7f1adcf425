//! Does the documentation list what the table of settings holds? The page is the table, so it must be equal.
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
fn the_settings_page_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = markdown();
    assert!(page.contains(&table), "docs/settings.md is out of date; it must contain:\n{table}");
}
