//! Reading one file every way the program does: bars with options by the input's length, and a numeric table.

use gpuforge_frame::{
    BarsBatch,
    column_roles::Role,
    read::{
        Duplicates, GroupBy, Input, ReadOptions, Reader,
        numeric_table::{self, NumericColumn},
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// The one file of this process, with these bytes.
pub fn file(bytes: &[u8], extension: &str) -> PathBuf {
    static DIRECTORY: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir().expect("a directory for temporary files"));
    let path = DIRECTORY.path().join(format!("input.{extension}"));
    fs::write(&path, bytes).expect("room for the input");
    path
}

/// Options of the reader; `choice` is any number.
pub fn options(choice: usize) -> ReadOptions<'static> {
    let bit = |at: u32| choice >> at & 1 == 1;
    let prices = vec![Role::Open, Role::High, Role::Low, Role::Close, Role::Volume];
    let (needed, optional) = if bit(0) { (vec![Role::Close], prices) } else { (prices, Vec::new()) };
    ReadOptions {
        needed,
        optional,
        optional_or_nan: bit(1),
        untimed: bit(1),
        skip_bad: bit(2),
        adjusted: bit(3) && bit(4),
        by: if bit(4) { GroupBy::SingleSeries } else { GroupBy::Auto },
        duplicates: if bit(3) { Duplicates::Last } else { Duplicates::Error },
        // Small: series of some hundred rows are spilled and merged.
        memory: bit(5).then_some(1 << 16),
        ..ReadOptions::default()
    }
}

/// Reads all bars; what is read must have equally long columns.
pub fn bars(input: &Input, options: ReadOptions<'_>) {
    let Ok(mut reader) = Reader::open(input, options) else { return };
    let Ok(batches) = reader.batches() else { return };
    for batch in batches {
        let bars = match batch {
            Err(_) => return,
            Ok(BarsBatch::Complete(bars)) => bars,
            Ok(BarsBatch::Segment { bars, .. }) => vec![bars],
        };
        for bars in bars {
            let n = bars.len();
            for column in [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume] {
                assert!(column.is_empty() || column.len() == n, "{} values, {n} bars", column.len());
            }
        }
    }
}

/// Reads two columns as a table of numbers.
pub fn table(path: &Path) {
    let column = |name, required| NumericColumn { name, required };
    if let Ok(table) = numeric_table::read(path, &[column("close", true), column("volume", false)]) {
        for column in table.columns.iter().flatten() {
            assert_eq!(column.len(), table.lines.len(), "a value per row");
        }
    }
}
