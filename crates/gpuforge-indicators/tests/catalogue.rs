//! Catalogue integrity: unique names, row counts, every row builds its outputs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeSet;

use gpuforge_indicators::{
    catalogue::{self, IndicatorKind, Oracle},
    select::{Instance, select},
};

fn count(kind: IndicatorKind) -> usize {
    catalogue::all().filter(|r| r.kind == kind).count()
}

#[test]
fn catalogue_has_the_documented_number_of_rows() {
    assert_eq!(count(IndicatorKind::Indicator), 229);
    assert_eq!(count(IndicatorKind::Candlestick), 61);
    assert_eq!(count(IndicatorKind::Primitive), 27);
    let names: BTreeSet<&str> = catalogue::all().map(|r| r.name).collect();
    assert_eq!(names.len(), catalogue::all().count(), "a name twice");
}

#[test]
fn every_row_builds_its_outputs_and_is_documented() {
    for row in catalogue::all() {
        assert!(!row.doc.is_empty() && !row.outputs.is_empty() && !row.inputs.is_empty(), "{row:?}");
        assert!(
            row.oracle == Oracle::Reference || !row.aliases.is_empty(),
            "{row:?} has no name to compare with"
        );
        for p in row.params {
            assert!((p.min..=p.max).contains(&p.default), "{row:?}: {} is {}", p.name, p.default);
        }
        let selection = select(&[Instance::of(row)]);
        assert_eq!(selection.plan.starts().len(), row.outputs.len(), "{row:?}");
    }
}
