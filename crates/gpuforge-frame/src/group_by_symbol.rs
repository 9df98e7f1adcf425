//! Group by symbol: runs of equal keys, groups in order of first appearance, and the row permutation into time order.
//!
//! Two shapes of the same operation: [`group_by_symbol`] over columns that are in memory, and [`OrderedGroups`] for rows
//! that arrive in chunks. Rows that are already contiguous and in time order keep their places: no permutation, no copy.

use std::{collections::HashMap, hash::Hash, ops::Range};

/// Runs of equal consecutive keys, as row ranges.
///
/// ```
/// use gpuforge_frame::group_by_symbol::key_runs;
/// assert_eq!(key_runs(&["a", "a", "b", "a"]).collect::<Vec<_>>(), [0..2, 2..3, 3..4]);
/// ```
pub fn key_runs<K: PartialEq>(keys: &[K]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    keys.chunk_by(|a, b| a == b).map(move |run| {
        let rows = start..start + run.len();
        start = rows.end;
        rows
    })
}

/// Groups in order of first appearance: an insertion-ordered map from keys to accumulators.
#[derive(Debug, Clone)]
pub struct OrderedGroups<K, G> {
    index: HashMap<K, usize>,
    groups: Vec<(K, G)>,
}

impl<K, G> Default for OrderedGroups<K, G> {
    fn default() -> Self {
        OrderedGroups { index: HashMap::new(), groups: Vec::new() }
    }
}

impl<K: Eq + Hash + Clone, G: Default> OrderedGroups<K, G> {
    /// Position of the key's group; a new group if the key was not met before.
    pub fn id(&mut self, key: &K) -> usize {
        if let Some(id) = self.index.get(key) {
            return *id;
        }
        let id = self.groups.len();
        self.index.insert(key.clone(), id);
        self.groups.push((key.clone(), G::default()));
        id
    }

    /// The accumulator of a group.
    pub fn get_mut(&mut self, id: usize) -> Option<&mut G> {
        self.groups.get_mut(id).map(|(_, group)| group)
    }

    /// Keys and accumulators in order of first appearance.
    pub fn groups(&self) -> &[(K, G)] {
        &self.groups
    }

    /// As [`OrderedGroups::groups`], owned.
    pub fn into_groups(self) -> Vec<(K, G)> {
        self.groups
    }
}

/// Rows grouped by symbol, each group in time order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolGroups {
    /// Row ranges of the groups, one after the other; of the permuted rows where there is an `order`.
    pub ranges: Vec<Range<usize>>,
    /// Row permutation: position to original row. `None` where rows are grouped and sorted as they are.
    pub order: Option<Vec<usize>>,
}

/// Groups `rows` rows by key (`None`: one group) and sorts each group by time (`None`: row order). Groups are in order of
/// first appearance; rows of equal time keep their order.
pub fn group_by_symbol<K: Eq + Hash + Clone>(
    rows: usize,
    keys: Option<&[K]>,
    times: Option<&[i64]>,
) -> SymbolGroups {
    let runs: Vec<Range<usize>> =
        keys.map_or_else(|| std::iter::once(0..rows).collect(), |keys| key_runs(keys).collect());
    let mut groups: OrderedGroups<Option<&K>, Vec<Range<usize>>> = OrderedGroups::default();
    for run in &runs {
        let id = groups.id(&keys.and_then(|keys| keys.get(run.start)));
        groups.get_mut(id).into_iter().for_each(|group| group.push(run.clone()));
    }
    let contiguous = groups.groups().len() == runs.len();
    let sorted = |run: &Range<usize>| {
        times.and_then(|times| times.get(run.clone())).is_none_or(|times| times.is_sorted())
    };
    if contiguous && runs.iter().all(sorted) {
        return SymbolGroups { ranges: runs, order: None };
    }
    let mut ranges = Vec::with_capacity(groups.groups().len());
    let mut order: Vec<usize> = Vec::with_capacity(rows);
    for (_, runs) in groups.into_groups() {
        let start = order.len();
        order.extend(runs.into_iter().flatten());
        if let (Some(times), Some(group)) = (times, order.get_mut(start..)) {
            group.sort_by_key(|row| times.get(*row).copied());
        }
        ranges.push(start..order.len());
    }
    SymbolGroups { ranges, order: Some(order) }
}

/// Values in permuted order.
pub fn gather(values: &[f64], order: &[usize]) -> Vec<f64> {
    order.iter().map(|row| values.get(*row).copied().unwrap_or(f64::NAN)).collect()
}

/// The inverse of [`gather`]: permuted values back at their original rows.
pub fn scatter(values: &[f64], order: &[usize]) -> Vec<f64> {
    let mut rows = vec![f64::NAN; values.len()];
    for (value, row) in values.iter().zip(order) {
        if let Some(slot) = rows.get_mut(*row) {
            *slot = *value;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_sorted_rows_need_no_permutation() {
        let groups = group_by_symbol(4, Some(&[7, 7, 3, 3]), Some(&[1, 2, 1, 1]));
        assert_eq!(groups, SymbolGroups { ranges: vec![0..2, 2..4], order: None });
        assert_eq!(group_by_symbol::<i64>(3, None, None).ranges.len(), 1);
    }

    #[test]
    fn interleaved_rows_are_permuted_stably() {
        let groups = group_by_symbol(6, Some(&["b", "a", "b", "a", "b", "b"]), Some(&[5, 2, 1, 1, 1, 9]));
        assert_eq!(groups.ranges, [0..4, 4..6], "groups in order of first appearance");
        let order = groups.order.unwrap();
        assert_eq!(order, [2, 4, 0, 5, 3, 1], "equal times keep their order");
        let values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(scatter(&gather(&values, &order), &order), values);
    }

    #[test]
    fn unsorted_single_series_is_sorted() {
        let groups = group_by_symbol::<i64>(3, None, Some(&[3, 1, 2]));
        assert_eq!((groups.ranges.len(), groups.order), (1, Some(vec![1, 2, 0])));
    }

    #[test]
    fn ordered_groups_keep_first_appearance() {
        let mut groups: OrderedGroups<&str, Vec<u32>> = OrderedGroups::default();
        for (value, key) in ["x", "y", "x"].into_iter().enumerate() {
            let id = groups.id(&key);
            groups.get_mut(id).unwrap().push(value as u32);
        }
        assert_eq!(groups.into_groups(), [("x", vec![0, 2]), ("y", vec![1])]);
    }
}
