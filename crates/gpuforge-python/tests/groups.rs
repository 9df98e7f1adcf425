//! Rows become series: where they lie, or by a permutation that can be taken back.
#![allow(dead_code, reason = "the module belongs to a library that tests cannot be linked with")]

#[path = "../src/groups.rs"]
mod groups;

use groups::{Groups, gather, scatter};

#[test]
fn rows_that_lie_well_stay_where_they_are() {
    assert_eq!(Groups::of(3, None, None), Groups { parts: std::iter::once(0..3).collect(), order: None });
    assert_eq!(
        Groups::of(4, Some(&[7, 7, 1, 1]), Some(&[1, 2, 1, 1])),
        Groups { parts: vec![0..2, 2..4], order: None }
    );
    assert_eq!(Groups::of(0, Some(&[]), Some(&[])), Groups { parts: vec![], order: None });
}

#[test]
fn a_key_that_comes_back_is_one_series() {
    let groups = Groups::of(5, Some(&[2, 9, 2, 9, 2]), None);
    assert_eq!(groups, Groups { parts: vec![0..3, 3..5], order: Some(vec![0, 2, 4, 1, 3]) });
}

#[test]
fn times_decide_the_order_and_equal_times_keep_theirs() {
    let groups = Groups::of(4, None, Some(&[5, 1, 5, 0]));
    assert_eq!(groups.order.as_deref(), Some(&[3, 1, 0, 2][..]));
    assert_eq!(groups.parts.as_slice(), std::slice::from_ref(&(0..4)));
}

#[test]
fn what_was_gathered_is_put_back() {
    let values = [10.0, 11.0, 12.0, 13.0];
    let order = [3, 1, 0, 2];
    let there = gather(&values, &order);
    assert_eq!(there, [13.0, 11.0, 10.0, 12.0]);
    assert_eq!(scatter(&there, &order), values);
}
