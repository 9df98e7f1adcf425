//! Group by symbol: rows that are grouped and sorted stay in place, others get a permutation that scatter undoes.

use gpuforge_frame::group_by_symbol::{SymbolGroups, gather, group_by_symbol, scatter};

#[test]
fn contiguous_sorted_rows_stay_in_place() {
    assert_eq!(
        group_by_symbol::<i64>(3, None, None),
        SymbolGroups { ranges: std::iter::once(0..3).collect(), order: None }
    );
    assert_eq!(
        group_by_symbol(4, Some(&[7, 7, 1, 1]), Some(&[1, 2, 1, 1])),
        SymbolGroups { ranges: vec![0..2, 2..4], order: None }
    );
    assert_eq!(group_by_symbol::<i64>(0, Some(&[]), Some(&[])), SymbolGroups { ranges: vec![], order: None });
}

#[test]
fn key_that_reappears_is_one_series() {
    let groups = group_by_symbol(5, Some(&[2, 9, 2, 9, 2]), None);
    assert_eq!(groups, SymbolGroups { ranges: vec![0..3, 3..5], order: Some(vec![0, 2, 4, 1, 3]) });
}

#[test]
fn rows_are_sorted_by_time_stably() {
    let groups = group_by_symbol::<i64>(4, None, Some(&[5, 1, 5, 0]));
    assert_eq!(groups.order.as_deref(), Some(&[3, 1, 0, 2][..]));
    assert_eq!(groups.ranges.as_slice(), std::slice::from_ref(&(0..4)));
}

#[test]
fn scatter_is_the_inverse_of_gather() {
    let values = [10.0, 11.0, 12.0, 13.0];
    let order = [3, 1, 0, 2];
    let permuted = gather(&values, &order);
    assert_eq!(permuted, [13.0, 11.0, 10.0, 12.0]);
    assert_eq!(scatter(&permuted, &order), values);
}
