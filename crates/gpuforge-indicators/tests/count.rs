//! The catalogue is whole: every name once, as many rows as it promises, and every row builds what it says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeSet;

use gpuforge_indicators::{
    catalogue::{self, Kind, Oracle},
    select::{Instance, select},
};

fn count(kind: Kind) -> usize {
    catalogue::all().filter(|r| r.kind == kind).count()
}

#[test]
fn the_catalogue_has_what_it_promises() {
    assert_eq!(count(Kind::Indicator), 229);
    assert_eq!(count(Kind::Candlestick), 61);
    assert_eq!(count(Kind::Primitive), 27);
    let names: BTreeSet<&str> = catalogue::all().map(|r| r.name).collect();
    assert_eq!(names.len(), catalogue::all().count(), "a name twice");
}

#[test]
fn every_row_builds_its_outputs_and_says_what_it_is() {
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
